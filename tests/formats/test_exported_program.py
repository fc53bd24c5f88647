"""A graph as an ExportedProgram: another process loads it without the program's source, and gives the same bits."""

import math
import os

import pytest
import torch
from graphs import graph_of, net, stack
from torch.utils._pytree import tree_leaves

import pijit
from pijit.errors import ExportError
from pijit.graph import Graph, Node, Token, Value

pytestmark = pytest.mark.torch

RUN = """
import sys, torch
module = torch.export.load(sys.argv[1]).module()
with torch.no_grad():
    outputs = [module(*inputs) for inputs in torch.load(sys.argv[2])]
torch.save(outputs, sys.argv[2])
"""


@torch.no_grad()
def check(process, program, module, arguments):
    """A process without pijit gives for each of the arguments what the module gives."""
    folder = program.parent
    torch.save(arguments, folder / "arrays.pt")
    process.run(RUN, program, folder / "arrays.pt")
    for inputs, given in zip(arguments, torch.load(folder / "arrays.pt"), strict=True):
        expected = module(*inputs)
        assert type(expected) is type(given)
        assert all(map(torch.equal, tree_leaves(expected), tree_leaves(given)))


def test_free_sizes_in_another_process(tmp_path, without_pijit):
    module, args = stack()
    free = graph_of(module, *args, dynamic=({0: torch.export.Dim("batch")},))
    path = pijit.export(free, format="exported_program", path=tmp_path / "stack.pt2")
    assert os.listdir(tmp_path) == ["stack.pt2"]
    check(without_pijit, path, module, [args, (torch.randn(5, 8),), (torch.randn(1, 8),), args])


def test_fixed_sizes_in_another_process(tmp_path, without_pijit):
    module, args = net()
    path = pijit.export(graph_of(module, *args), format="exported_program", path=tmp_path / "net.pt2")
    check(without_pijit, path, module, [args, (args[0].flip(0), torch.tensor(3))])


def test_the_program_has_names_lines_and_modules():
    module, args = stack()
    free = graph_of(module, *args, dynamic=({0: torch.export.Dim("batch")},))
    program = pijit.export(free, format="exported_program")
    assert program.state_dict.keys() == module.state_dict().keys()
    assert program.state_dict["layers.0.lin.weight"] is module.layers[0].lin.weight
    node = next(each for each in program.graph.nodes if each.name == "gelu")
    assert 'graphs.py", line' in node.meta["stack_trace"]
    assert list(node.meta["nn_module_stack"].values()) == [("", "Stack"), ("layers.0", "Block")]
    assert len(program.range_constraints) == 1
    with torch.no_grad():
        before = program.module()(*args)["a"]
        module.layers[0].lin.weight.mul_(1.5)  # the program has the module's own parameters
        assert not torch.equal(program.module()(*args)["a"], before)


def test_decompositions_keep_the_numbers():
    module, args = net()
    program = pijit.export(graph_of(module, *args), format="exported_program").run_decompositions()
    with torch.no_grad():
        for inputs in (args, (args[0].flip(0), args[1])):
            for one, other in zip(module(*inputs), program.module()(*inputs), strict=True):
                torch.testing.assert_close(one, other)


X = Value("x", "tensor", "input", "float32", ("rows", 4))
Z = Value("z", "tensor", "input", "float32", ("columns", 4))
C = Value("c", "tensor", "constant", "float32", (3, 4))
Y, N, T = Value("y"), Value("n", "int"), Value("t", "bool")


def graph(*nodes, inputs=(X,), **fields):
    data = {"c": torch.arange(12.0).reshape(3, 4)}
    return Graph("f", inputs, (C,), nodes, Y, data=data, symbols={"rows": 3, "columns": 3}, **fields)


def test_a_size_with_a_range():
    made = graph(
        Node("size", {"x": X, "axis": 0}, (N,), "tensor::size"),
        Node("scalar_greater", {"x": N, "y": 2}, (T,)),
        Node("check", {"x": T, "expected": True}, ()),
        Node("add", {"x": X, "y": N}, (Y,), "aten::add.Tensor"),
    )
    module = pijit.export(made, format="exported_program").module()
    for rows in (3, 5):
        assert torch.equal(module(torch.zeros(rows, 4)), torch.full((rows, 4), float(rows)))
    with pytest.raises(Exception, match="Guard failed|>= 3|> 2"):
        module(torch.zeros(2, 4))


@pytest.mark.parametrize(
    "layer",
    [
        torch.nn.LSTM(6, 7, 2),
        torch.nn.LSTM(6, 7, batch_first=True, bidirectional=True),
        torch.nn.GRU(6, 7),
        torch.nn.RNN(6, 7, nonlinearity="relu"),
        torch.nn.RNN(6, 7, batch_first=True),
    ],
)
def test_recurrent_layers_have_any_number_of_turns(tmp_path, without_pijit, layer):
    operator = torch.ops.aten.lstm.input
    kernels = dict(operator.py_kernels)
    path = pijit.export(layer, torch.randn(5, 2, 6), format="exported_program", path=tmp_path / "layer.pt2")
    assert operator.py_kernels == kernels  # torch's own again
    check(without_pijit, path, layer, [(torch.randn(*sizes, 6),) for sizes in ((5, 2), (4, 3), (9, 1), (1, 2))])


def padded(x):
    rows = max(x.shape[0], 4)
    return x.repeat(rows, 1) * min(x.shape[1], 7) + math.ceil(x.shape[0] / 2) * math.floor(x.shape[1] / 3)


def cut(x):
    return x[: math.ceil(x.shape[0] / 2)] * max(x.shape[1], 2.5)


@pytest.mark.parametrize("fn", [padded, cut])
def test_functions_of_sizes(tmp_path, without_pijit, fn):
    path = pijit.export(fn, torch.ones(5, 6), format="exported_program", path=tmp_path / "fn.pt2")
    check(without_pijit, path, fn, [(torch.randn(*sizes),) for sizes in ((5, 6), (3, 9), (8, 11))])


def test_sizes_that_are_equal():
    add = Node("add", {"x": X, "y": Z}, (Y,), "aten::add.Tensor")
    module = pijit.export(graph(add, inputs=(X, Z)), format="exported_program").module()
    for rows in (3, 5):
        assert torch.equal(module(torch.ones(rows, 4), torch.ones(rows, 4)), torch.full((rows, 4), 2.0))


def test_a_size_that_cannot_be_free():
    made = graph(Node("add", {"x": X, "y": C}, (Y,), "aten::add.Tensor"))
    for dynamic in (True, {"x": {0: "rows"}}):
        with pytest.raises(ExportError, match="size 'rows', axis 0 of input 'x', cannot stay free .* to be 3; export"):
            pijit.export(made, format="exported_program", dynamic=dynamic)
    for dynamic in (None, False):
        module = pijit.export(made, format="exported_program", dynamic=dynamic).module()
        for x in (torch.ones(3, 4), torch.zeros(3, 4)):
            assert torch.equal(module(x), x + torch.arange(12.0).reshape(3, 4))


def test_words_in_outputs_become_none(tmp_path):
    outputs = {"x": X, "kind": (Token("dtype", "float32"), "text"), "count": 3, "half": 0.5, "yes": True, "no": None}
    path = pijit.export(
        Graph("f", (X,), (), (), outputs, symbols={"rows": 3}), format="exported_program", path=tmp_path / "f.pt2"
    )
    module = torch.export.load(path).module()
    for x in (torch.ones(3, 4), torch.zeros(3, 4)):
        given = module(x)
        assert torch.equal(given.pop("x"), x)
        assert given == {"kind": (None, None), "count": 3, "half": 0.5, "yes": True, "no": None}


def test_what_it_cannot_hold():
    number = Value("k", "int", "input")
    with pytest.raises(ExportError, match="m.py:3: print runs in CPython"):
        pijit.export(graph(Node("python::print", {}, (), file="m.py", line=3)), format="exported_program")
    with pytest.raises(ExportError, match="input 'k' is int; format 'exported_program' takes tensors only"):
        pijit.export(Graph("f", (number,), (), (), number), format="exported_program")
    item = Node("item", {"x": X}, (N,), "tensor::item")
    zeros = Node("aten::new_zeros", {"self": X, "size": (N,)}, (Y,), "aten::new_zeros")
    decided = Node("check", {"x": N, "expected": 3}, ())
    with pytest.raises(ExportError, match="torch.export does not take the graph of 'f': .*; export with"):
        pijit.export(graph(item, decided, zeros), format="exported_program")


def walks(x, rows):
    at = 0
    while x.sum() < 10.0:
        x = x + rows[at]
        at += 1
    return x, at


def walks_backwards(x, rows):
    at = -1
    while x.sum() < 10.0:
        x = x * 1.25 + rows[..., at]
        at -= 1
    return x, at


def takes_parts(x, rows):
    at = 0
    while x.sum() < 10.0:
        at += 1
        x = x + rows[at : at + 2, None, 1:4:2].mean() * 0.2 + rows[at + 1, : at + 2].mean() * 0.2
    return x, rows[at, at:]


@pytest.mark.parametrize("fn", [walks, walks_backwards, takes_parts])
def test_items_at_numbers_that_a_loop_counts(fn):
    generator = torch.Generator().manual_seed(0)
    rows = torch.rand(12, 12, generator=generator)
    x = torch.rand(12, generator=generator) * 0.1
    made = pijit.export(fn, x, rows, format="exported_program", decisions="keep").module()
    for call in ((x, rows), (x * 3, rows * 2), (x, rows * 0.5 + 0.1)):
        for left, right in zip(made(*call), fn(*call), strict=True):
            assert torch.equal(torch.as_tensor(left), torch.as_tensor(right))


def test_what_torch_does_not_write_is_an_error_of_the_export(tmp_path):
    def rounded(x):
        return x * round(x.size(0) / 3, 1)

    x = torch.rand(3, 2)
    graph = pijit.graph.capture(rounded, x)
    assert torch.equal(pijit.export(graph, format="exported_program").module()(x), rounded(x))
    with pytest.raises(ExportError, match=r"torch\.export\.save does not write this program: .*round.*path="):
        pijit.export(graph, format="exported_program", path=tmp_path / "no.pt2")
    assert not list(tmp_path.iterdir())


def test_a_decision_on_a_size_that_data_decides_is_a_check() -> None:
    def chosen(x):
        found = x[x > 0]
        return found.sum() if found.shape[0] > 2 else x.sum() * 3

    x = torch.arange(12.0).reshape(3, 4) - 3
    program = pijit.export(chosen, x, format="exported_program").module()
    for given in (x, x + 2, torch.ones(5, 4)):
        assert torch.equal(program(given), chosen(given))
    with pytest.raises(RuntimeError, match="assertion"):
        program(-torch.ones(3, 4))
