"""A graph as text is Python: run in a fresh namespace, over the forms of torch, it gives the same bits."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch.utils._pytree import tree_flatten

from pijit._formats.fx.lowering import token
from pijit.graph import Graph, Node, Region, Slice, Token, Value
from pijit.graph.show.text import function_name, parameters
from pijit.graph.torch_calls import function_at, torch_call

sys.path.insert(0, str(Path(__file__).parent.parent / "formats"))
from graphs import graph_of, net, stack

pytestmark = pytest.mark.torch


def native(argument):
    return token(argument) if isinstance(argument, Token) else argument


class Ops:
    """The forms of torch: the operator that a row usually stands for."""

    def __getattr__(self, name):
        def form(**arguments):
            call = torch_call(Node(name, arguments, (Y,)))
            named = {key: native(argument) for key, argument in call.kwargs.items()}
            return function_at(call.function)(*map(native, call.args), **named)

        return form


def run(graph, *inputs):
    """What the text gives, executed in a fresh namespace."""
    namespace = {}
    exec(str(graph), namespace)
    return namespace[function_name(graph)](Ops(), parameters(graph), *inputs)


def assert_same(one, other):
    (ones, spec), (others, other_spec) = tree_flatten(one), tree_flatten(other)
    assert spec == other_spec
    assert all(a.dtype == b.dtype and torch.equal(a, b) for a, b in zip(ones, others, strict=True))


@torch.no_grad()
def test_models_give_the_same_bits():
    module, args = stack()
    graph = graph_of(module, *args, dynamic=({0: torch.export.Dim("batch")},))
    for inputs in (args, (torch.randn(5, 8),)):
        assert_same(run(graph, *inputs), (module.count.sub_(1), module(*inputs))[1])
        module.layers[0].lin.weight.mul_(1.5)  # the text has the module's own parameters
    module, args = net()
    graph = graph_of(module, *args)
    for inputs in (args, (args[0].flip(0), torch.tensor(3))):
        assert_same(run(graph, *inputs), module(*inputs))


X = Value("x", "tensor", "input", "float32", ("rows", 4))
C = Value("c", "tensor", "constant", "float32", (4,))
Y, Z, N, M, T = Value("y"), Value("z"), Value("n", "int"), Value("m", "int"), Value("t", "bool")


def graph(*nodes, outputs=Y, **fields):
    return Graph("f", (X,), (C,), nodes, outputs, data={"c": torch.arange(4.0)}, **fields)


SIZE = Node("size", {"x": X, "axis": 0}, (N,), "tensor::size")


def test_what_a_text_looks_like():
    text = str(
        graph(
            SIZE,
            Node("scalar_multiply", {"x": N, "y": -2}, (M,), region="a", file="model.py", line=3),
            Node("getitem", {"x": X, "index": (Slice(None, N, 2), ..., None)}, (Y,), "tensor::getitem", region="a"),
            Node("astype", {"x": Y, "dtype": Token("dtype", "float16")}, (Z,), "aten::to.dtype"),
            outputs={"y": [Z], 1: (M, float("inf"), 1j)},
            region=Region("", "F", (0, 3), (Region("a", "Layer", (1, 2)),)),
            symbols={"rows": 3},
        )
    )
    assert text == (
        "# f: 4 operators\n"
        "from pijit.graph import Token\n"
        "\n\n"
        "def f(ops, p, x):\n"
        "    # x: float32[rows, 4]\n"
        "    # rows is free; it was 3\n"
        "    n = ops.size(x=x, axis=0)  # int\n"
        "\n"
        "    # --- a: Layer\n"
        "    # model.py:3\n"
        "    m = n * (-2)  # int\n"
        "    y = ops.getitem(x=x, index=(slice(None, n, 2), ..., None))  # tensor[...]\n"
        "\n"
        "    # --- f: F\n"
        '    z = ops.astype(x=y, dtype=Token("dtype", "float16"))  # tensor[...]\n'
        "    return {\"y\": [z], 1: (m, float('inf'), complex(0.0, 1.0))}\n"
    )


def test_what_writes_is_the_call_of_torch():
    made = graph(
        Node("add", {"x": X, "y": C}, (Y,), "aten::add_.Tensor", ("x",)),
        Node("setitem", {"x": Y, "index": (Slice(1, None), 0), "value": 7}, (Z,), "tensor::setitem", ("x",)),
        Node("aten::t", {"self": Z}, (T,), "aten::t"),
        outputs=(Z, T),
    )
    assert 'torch.ops.aten.add_.Tensor(x, p["c"])' in str(made)
    assert "y[1:, 0] = 7" in str(made)
    for x in (torch.ones(3, 4), torch.zeros(2, 4)):
        expected = x + torch.arange(4.0)
        expected[1:, 0] = 7
        z, t = run(made, x)
        assert z is x
        assert_same([x, t], [expected, expected.t()])


def test_updates():
    made = graph(
        Node("aten::add.Tensor", {"self": X, "other": C}, (Y,), "aten::add.Tensor"), updates=(("x", Y), ("c", Y))
    )
    x = torch.ones(4)
    assert torch.equal(run(made, x), torch.arange(4.0) + 1)
    assert torch.equal(x, torch.arange(4.0) + 1)
    run(made, x)
    assert torch.equal(x, torch.arange(4.0) * 2 + 1)


def test_a_decision_on_sizes_is_an_assertion():
    made = graph(
        SIZE,
        Node("scalar_greater", {"x": N, "y": 2}, (T,)),
        Node("check", {"x": T, "expected": True}, ()),
        Node("check", {"x": N, "expected": 3}, ()),
        Node("aten::add.Tensor", {"self": X, "other": N}, (Y,), "aten::add.Tensor"),
    )
    assert torch.equal(run(made, torch.zeros(3, 4)), torch.full((3, 4), 3.0))
    for rows in (1, 4):
        with pytest.raises(AssertionError):
            run(made, torch.zeros(rows, 4))


def test_a_split_graph_is_shown_and_does_not_run():
    called = Node("python::print", {"x0": X}, (Y,), file="m.py", line=3)
    decided = Node("python::decision", {"x": Y, "expected": True}, ())
    for nodes, said in (((called,), "split once"), ((called, decided), "split 2 times")):
        made = graph(*nodes)
        assert "    # m.py:3\n    y = ...  # in CPython: print(x)\n" in str(made)
        assert ("# in CPython: decision(y, True)" in str(made)) == (len(nodes) == 2)
        with pytest.raises(NotImplementedError, match=said):
            run(made, torch.ones(3, 4))


def test_names_that_python_or_the_text_needs():
    names = ("class", "p", "ops", "slice", "1st", "a.b", "x y", "f")
    inputs = tuple(Value(name, "tensor", "input") for name in names)
    made = Graph("my model-2", inputs, (), (), list(inputs))
    arrays = [torch.tensor(float(at)) for at in range(len(names))]
    assert run(made, *arrays) == arrays
    assert function_name(made) == "my_model_2"
    assert run(Graph("class", (), (), (), (3, 'it\'s "so"', ...)))[1] == 'it\'s "so"'


def test_long_calls_are_broken():
    arguments = {f"argument_{at}": X for at in range(30)}
    outputs = {f"key, with a comma {at} \"'": [Y] * 5 for at in range(20)}
    indices = (tuple(range(200)), "a" * 40, X)
    for made in (
        graph(Node("stack", arguments, (Y,)), outputs=outputs),
        graph(Node("getitem", {"x": X, "index": indices}, (Y,)), outputs=[(Y, "b, c")] * 40),
    ):
        assert max(map(len, str(made).splitlines())) <= 120
        namespace = {}
        exec(str(made), namespace)
        ops = SimpleNamespace(stack=lambda **given: len(given), getitem=lambda x, index: index)
        expected = eval(repr(made.outputs), {"Value": lambda *args, **kwargs: 30})
        if isinstance(made.outputs, list):
            expected = [((tuple(range(200)), "a" * 40, 8), "b, c")] * 40
        assert namespace["f"](ops, {}, 8) == expected
