"""A graph as a GraphModule: the bits of eager, the module's own parameters, and what passes of torch.fx need."""

import copy
import operator

import pytest
import torch
from graphs import graph_of, net, stack
from torch.fx import Interpreter, replace_pattern, symbolic_trace
from torch.fx.passes.shape_prop import ShapeProp
from torch.fx.passes.split_module import split_module
from torch.fx.passes.utils.source_matcher_utils import get_source_partitions
from torch.utils._pytree import tree_flatten, tree_leaves

import pijit
from pijit.errors import ExportError, UsageError
from pijit.graph import Graph, Node, Slice, Value

pytestmark = pytest.mark.torch

FREE = ({0: torch.export.Dim("batch")},)


def assert_same(one, other):
    (ones, spec), (others, other_spec) = tree_flatten(one), tree_flatten(other)
    assert spec == other_spec
    for a, b in zip(ones, others, strict=True):
        assert a.dtype == b.dtype
        assert torch.equal(a, b)


def calls(module, made, arguments):
    """What both give, when the weights have changed, and for other sizes."""
    plain = copy.deepcopy(module)
    for at, args in enumerate(arguments):
        with torch.no_grad():
            assert_same(plain(*args), made(*args))
            for one, other in zip(plain.parameters(), module.parameters(), strict=True):
                for parameter in (one, other):
                    parameter.add_(0.25 * at)
    for one, other in zip(plain.buffers(), module.buffers(), strict=True):
        assert torch.equal(one, other)


def test_sizes_and_weights_and_state_change():
    module, args = stack()
    made = pijit.export(graph_of(module, *args, dynamic=FREE), format="fx")
    assert isinstance(made, torch.fx.GraphModule)
    calls(module, made, [args, (torch.randn(5, 8),), (torch.randn(1, 8),), args])
    assert module.count == 4


def test_fixed_sizes():
    module, args = net()
    made = pijit.export(graph_of(module, *args), format="fx")
    calls(module, made, [args, (args[0].flip(0), torch.tensor(3)), args])
    free = pijit.export(graph_of(*stack()[:1], *stack()[1], dynamic=FREE), format="fx", dynamic=False)
    assert not any("sym_size" in str(node.target) for node in free.graph.nodes)


def test_gradients():
    module, args = stack()
    plain = copy.deepcopy(module)
    made = pijit.export(graph_of(module, *args), format="fx")
    for _ in range(2):
        for each in (plain, made):
            each(*args)["a"].sum().backward()
        for one, other in zip(plain.parameters(), module.parameters(), strict=True):
            assert torch.equal(one.grad, other.grad)


def test_parameters_are_the_same_objects_under_their_paths():
    module, args = stack()
    made = pijit.export(graph_of(module, *args), format="fx")
    assert all(made.get_parameter(path) is each for path, each in module.named_parameters())
    assert made.get_buffer("count") is module.count
    assert made.state_dict().keys() == module.state_dict().keys()
    assert type(made).__name__ == "Stack"


def test_nodes_know_where_they_come_from():
    module, args = stack()
    made = pijit.export(graph_of(module, *args), format="fx")
    node = next(each for each in made.graph.nodes if each.target is torch.ops.aten.gelu.default)
    assert node.name == "gelu"
    assert 'graphs.py", line' in node.meta["stack_trace"]
    assert "return self.norm(x + torch.nn.functional.gelu(self.lin(x)))" in node.meta["stack_trace"]
    assert node.meta["nn_module_stack"] == {"": ("", "Stack"), "layers.0": ("layers.0", "Block")}


class Layers(torch.nn.Module):
    """A layer that is called twice, functions, a size, several results, a write to a part."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv1d(2, 2, 3, padding=1)
        self.act = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.LayerNorm(6))
        self.register_buffer("seen", torch.zeros(2, 6))

    def forward(self, x):
        y = self.act(self.conv(torch.nn.functional.gelu(self.conv(x))))
        left, right = y.split(3, -1)
        self.seen[0] = y.mean((0, 1))
        return (left + right).reshape(x.shape[0] * 2, 3), y.max(-1), self.seen.sum()


def by_name(made):
    return {node.name: node for node in made.graph.nodes}


def test_nodes_have_types_as_tensors_without_data():
    torch.manual_seed(0)
    made = pijit.export(Layers(), torch.randn(3, 2, 6), format="fx")
    ShapeProp(made).propagate(torch.randn(5, 2, 6))
    seen = {node.name: node.meta["tensor_meta"] for node in made.graph.nodes if "tensor_meta" in node.meta}
    vals = {node.name: node.meta.get("val") for node in made.graph.nodes if node.op != "output"}
    assert [name for name, each in vals.items() if each is None] == ["_assert", "setitem"]
    batch = vals["x"].shape[0]
    assert isinstance(batch, torch.SymInt)
    for name, meta in seen.items():
        if not isinstance(vals.get(name), torch.Tensor):
            continue
        sizes = [5 * int(size // batch) if isinstance(size, torch.SymInt) else size for size in vals[name].shape]
        assert (tuple(sizes), vals[name].dtype, vals[name].stride()[-1:]) == (meta.shape, meta.dtype, meta.stride[-1:])
    assert {type(each).__name__ for each in vals.values() if isinstance(each, torch.Tensor)} == {"FakeTensor"}


def test_what_depends_on_data_has_the_type_that_the_graph_has():
    def decides(x):
        y = x * 2 if x.sum() > 0 else x - 1
        return y + 1, x[x > 0].sum()

    made = pijit.export(decides, torch.ones(3, 4), format="fx", decisions="keep", also=[(-torch.ones(3, 4),)])
    nodes = by_name(made)
    (given,) = (node for node in nodes.values() if node.target is torch.ops.aten.add.Tensor)
    assert given.meta["val"].shape[1:] == (4,)
    assert isinstance(given.meta["val"].shape[0], torch.SymInt)
    for sign in (1.0, -1.0):
        assert_same(decides(torch.full((3, 4), sign)), made(torch.full((3, 4), sign)))


def test_nodes_have_the_layers_and_functions_that_they_are_parts_of():
    made = pijit.export(Layers(), torch.randn(3, 2, 6), format="fx")
    parts = get_source_partitions(
        made.graph, [torch.nn.Conv1d, torch.nn.ReLU, torch.nn.LayerNorm, torch.nn.functional.gelu]
    )
    assert {kind.__name__: len(found) for kind, found in parts.items()} == {
        "Conv1d": 2, "ReLU": 1, "LayerNorm": 1, "gelu": 1,
    }  # fmt: skip
    nodes = by_name(made)
    assert nodes["conv1d"].meta["source_fn_stack"] == [("conv", torch.nn.Conv1d)]
    assert nodes["conv1d_1"].meta["source_fn_stack"] == [("conv_1", torch.nn.Conv1d)]
    assert nodes["conv1d"].meta["nn_module_stack"]["conv"] == ("conv", "torch.nn.modules.conv.Conv1d")
    assert nodes["relu"].meta["nn_module_stack"]["act.0"] == ("act.0", "torch.nn.modules.activation.ReLU")
    assert nodes["gelu"].meta["torch_fn"] == ("gelu_1", "builtin_function_or_method.gelu")
    assert nodes["gelu"].meta["original_aten"] is torch.ops.aten.gelu.default


def test_the_types_cost_no_random_numbers_and_change_no_state():
    module = Layers()
    before = torch.get_rng_state()
    pijit.export(lambda x: module(torch.dropout(x, 0.5, True)), torch.randn(3, 2, 6), format="json")
    middle, seen = torch.get_rng_state(), module.seen.clone()
    torch.set_rng_state(before)
    module.seen.zero_()
    pijit.export(lambda x: module(torch.dropout(x, 0.5, True)), torch.randn(3, 2, 6), format="fx")
    assert torch.equal(torch.get_rng_state(), middle)
    assert torch.equal(module.seen, seen)


def test_passes_of_torch_work_on_it():
    module, args = stack()
    plain = copy.deepcopy(module)
    made = pijit.export(graph_of(module, *args, dynamic=FREE), format="fx")
    ShapeProp(made).propagate(*args)
    assert next(node for node in made.graph.nodes if node.name == "gelu").meta["tensor_meta"].shape == (3, 8)
    module.count.zero_()
    for one, other in zip(tree_leaves(plain(*args)), tree_leaves(Interpreter(made).run(*args)), strict=True):
        assert torch.equal(one, other)
    place = {node: at for at, node in enumerate(made.graph.nodes)}
    parts = split_module(made, None, lambda node: int(place[node] > len(place) // 2))
    assert_same(plain(*args), parts(*args))
    assert (
        len(replace_pattern(made, symbolic_trace(lambda x: torch.ops.aten.gelu.default(x)), lambda x: torch.relu(x)))
        == 2
    )
    made.graph.eliminate_dead_code()
    made.recompile()
    assert not torch.equal(plain(*args)["a"], made(*args)["a"])
    assert module.count == plain.count == 3


X = Value("x", "tensor", "input", "float32", (3, 4))
C = Value("c", "tensor", "constant", "float32", (4,))
Y, Z, N, T = Value("y"), Value("z"), Value("n", "int"), Value("t", "bool")


def graph(*nodes, outputs=Y, **fields):
    return Graph("f", (X,), (C,), nodes, outputs, data={"c": torch.arange(4.0)}, **fields)


def test_items_that_are_written():
    index = (Slice(0, 2), ...)
    made = pijit.export(
        graph(
            Node("setitem", {"x": X, "index": index, "value": 7}, (Y,), "tensor::setitem", ("x",)),
            Node("getitem", {"x": Y, "index": (None, 1)}, (Z,), "tensor::getitem"),
            outputs=[Y, Z],
        ),
        format="fx",
    )
    for x in (torch.randn(3, 4), torch.randn(3, 4)):
        expected = x.clone()
        expected[0:2, ...] = 7
        y, z = made(x)
        assert y is x
        assert torch.equal(x, expected)
        assert torch.equal(z, expected[None, 1])
    assert next(node for node in made.graph.nodes if node.target is operator.setitem).args[1] == (slice(0, 2), ...)


def test_a_constant_is_new_each_time():
    made = pijit.export(
        graph(
            Node("asarray", {"value": C}, (Y,), "tensor::literal"),
            Node("add", {"x": Y, "y": X}, (Z,), "aten::add.Tensor"),
        ),
        format="fx",
    )
    assert made(torch.ones(3, 4)) is not made(torch.ones(3, 4))
    assert torch.equal(made(torch.ones(3, 4)), torch.arange(4.0))


def test_updates_are_written_back():
    made = pijit.export(
        graph(Node("add", {"x": C, "y": X}, (Y,), "aten::add.Tensor"), outputs=(), updates=(("x", Y),)), format="fx"
    )
    x = torch.ones(3, 4)
    for times in (2, 3):
        made(x)
        assert torch.equal(x, torch.arange(4.0) * (times - 1) + torch.ones(3, 4))


def test_other_sizes_than_those_that_were_decided_on():
    made = pijit.export(
        graph(
            Node("size", {"x": X, "axis": 0}, (N,), "tensor::size"),
            Node("scalar_greater", {"x": N, "y": 2}, (T,), "", file="model.py", line=5),
            Node("check", {"x": T, "expected": True}, (), "", file="model.py", line=5),
            Node("add", {"x": X, "y": N}, (Y,), "aten::add.Tensor"),
        ),
        format="fx",
    )
    assert torch.equal(made(torch.zeros(4, 4)), torch.full((4, 4), 4.0))
    with pytest.raises(AssertionError, match="model.py:5: these sizes take another way"):
        made(torch.zeros(2, 4))


@pytest.mark.parametrize(
    ("node", "says"),
    [
        (Node("python::print", {}, (), file="m.py", line=3), "m.py:3: print runs in CPython; there the graph"),
        (Node("python::decision", {"x": X}, (), file="m.py", line=3), "m.py:3: the program decides on the data of a"),
        (Node("python::rest", {}, (), "too long"), "the call was recorded up to here only: too long; there the graph"),
        (Node("aten::surely_not", {"x": X}, (Y,), "aten::surely_not", file="m.py", line=4), "m.py:4: .* no operator"),
        (Node("surely_not", {"x": X}, (Y,)), "surely_not .* is no operator of torch"),
    ],
)  # fmt: skip
def test_what_it_cannot_hold(node, says):
    with pytest.raises(ExportError, match=says):
        pijit.export(graph(node), format="fx")


def test_wrong_use():
    with pytest.raises(UsageError, match=r"format 'fx' has no option 'weights' \(it has none\)"):
        pijit.export(graph(), format="fx", weights="none")
    without = Graph("f", (X,), (C,), (Node("add", {"x": X, "y": C}, (Y,), "aten::add.Tensor"),), Y)
    with pytest.raises(ExportError, match="parameter 'c' has no array; read the graph with its weights"):
        pijit.export(without, format="fx")


def test_a_file_of_it(tmp_path):
    module, args = stack()
    path = pijit.export(graph_of(module, *args), format="fx", path=tmp_path / "stack.pt")
    loaded = torch.load(path, weights_only=False)
    assert_same(copy.deepcopy(module)(*args), loaded(*args))
    assert module.count == 0  # what was written is a copy
    assert loaded.count == 1


def test_items_that_are_new():
    node = Node("setitem", {"x": X, "index": (1,), "value": C}, (Y,), "tensor::setitem")
    made = pijit.export(graph(node), format="fx")
    for x in (torch.zeros(3, 4), torch.ones(3, 4)):
        before = x.clone()
        assert torch.equal(made(x)[1], torch.arange(4.0))
        assert torch.equal(x, before)


def test_a_write_that_was_made_functional():
    node = Node("add", {"x": X, "y": C}, (Y,), "aten::add_.Tensor")
    made = pijit.export(graph(node), format="fx")
    for x in (torch.zeros(3, 4), torch.ones(3, 4)):
        before = x.clone()
        assert torch.equal(made(x), before + torch.arange(4.0))
        assert torch.equal(x, before)


def decide(x):
    y = x * 2
    if y.sum() > 0:
        y = y + 1
    if not (y > 100).any():
        y = y - 1
    return y.relu()


@pytest.mark.parametrize("format", ["fx", "exported_program"])
def test_decisions_on_data_that_are_assumed(format):
    made = pijit.export(decide, torch.ones(3, 2), format=format, decisions="assume")
    made = made.module() if format == "exported_program" else made
    for x in (torch.ones(3, 2), torch.randn(3, 2).abs()):
        assert torch.equal(made(x), decide(x))
    for x in (-torch.ones(3, 2), torch.full((3, 2), 60.0)):
        with pytest.raises(RuntimeError, match=r"test_fx.py:\d+: this data takes another way than the recorded call"):
            made(x)


@pytest.mark.parametrize(
    ("op", "dtype", "expected", "right", "wrong"),
    [
        ("item_bool", "float32", True, 2.0, 0.0),
        ("item_bool", "float32", False, 0.0, 2.0),
        ("item_not", "float32", True, 0.0, 2.0),
        ("item_not", "bool", False, True, False),
        ("item", "float32", 1.5, 1.5, 2.0),
        ("item", "bool", True, True, False),
        ("item_int", "int64", 3, 3, 4),
    ],
)
@pytest.mark.parametrize("format", ["fx", "exported_program"])
def test_decisions_on_numbers_of_tensors(format, op, dtype, expected, right, wrong):
    x = Value("x", "tensor", "input", dtype, ())
    origin = "tensor::" + op.removeprefix("item_")
    nodes = (Node(op, {"x": x}, (N,), origin), Node("check", {"x": N, "expected": expected}, (), "python::decision"))
    made = pijit.export(Graph("f", (x,), (), nodes, [x]), format=format)
    made = made.module() if format == "exported_program" else made
    for _ in range(2):
        assert made(torch.tensor(right, dtype=getattr(torch, dtype)))[0] == right
        with pytest.raises(RuntimeError, match="f: this data takes another way"):
            made(torch.tensor(wrong, dtype=getattr(torch, dtype)))


def test_a_tensor_whose_path_leads_through_another_one():
    """Modules that the function names may have the name of a tensor."""
    one, other = (
        Value(f"p{at}", "tensor", "parameter", "float32", (4,), path=path) for at, path in enumerate("a a.b".split())
    )
    for first, second in ((one, other), (other, one)):
        both = Graph(
            "f",
            (X,),
            (first, second),
            (Node("add", {"x": first, "y": second}, (Y,), "aten::add.Tensor"),),
            Y,
            data={"p0": torch.ones(4), "p1": torch.arange(4.0)},
        )
        made = pijit.export(both, format="fx")
        assert torch.equal(made(torch.zeros(3, 4)), torch.arange(4.0) + 1)
        assert len(made.state_dict()) == 2
