"""Which sizes stay free in what is exported: `dynamic=` of `pijit.export`."""

import pytest

import pijit
from pijit.errors import ExportError, UsageError
from pijit.graph import Effect, Graph, Node, Region, Value
from pijit.graph.model.sizes import evaluate, symbols_in

X = Value("x", "tensor", "input", "float32", ("batch", "length", 8))
M = Value("mask", "tensor", "input", "bool", ("batch", "2*length + 1"))
N, T, C = Value("n", "int"), Value("t", "int"), Value("c", "bool")
Y = Value("y", "tensor", dtype="float32", shape=("2*batch", "length", 4))
GRAPH = Graph(
    "f",
    (X, M),
    (),
    (
        Node("size", {"x": X, "axis": 0}, (N,)),
        Node("scalar_multiply", {"x": N, "y": 2}, (T,)),
        Node("scalar_greater", {"x": T, "y": 3}, (C,)),
        Node("check", {"x": C, "expected": True}, ()),
        Node("reshape", {"x": X, "shape": (T, -1, 4)}, (Y,)),
    ),
    {"y": Y, "twice": T},
    region=Region("", "F", (0, 4), (Region("a", "A", (1, 2, 3)),)),
    effects=(Effect("setattr", (N, Y)),),
    symbols={"batch": 3, "length": 5},
)


def exported(dynamic):
    return Graph.from_json(pijit.export(GRAPH, format="json", dynamic=dynamic))


@pytest.mark.parametrize("dynamic", [None, True])
def test_as_captured(dynamic):
    assert pijit.export(GRAPH, format="json", dynamic=dynamic) == GRAPH.to_json()


def test_all_fixed():
    for _ in range(2):
        fixed = exported(False)
        assert [node.op for node in fixed.nodes] == ["reshape"]
        assert fixed.nodes[0].arguments["shape"] == (6, -1, 4)
        assert fixed.inputs[1].type == "bool[3, 11]"
        assert fixed.outputs["twice"] == 6
        assert fixed.outputs["y"].shape == (6, 5, 4)
        assert fixed.region == Region("", "F", (0,), (Region("a", "A", ()),))
        assert fixed.effects == (Effect("setattr", (fixed.outputs["y"],)),)
        assert not fixed.symbols
    assert GRAPH.symbols


def test_some_free_under_a_name():
    made = exported({"x": {0: "rows"}})
    assert dict(made.symbols) == {"rows": 3}
    assert made.inputs[0].shape == ("rows", 5, 8)
    assert made.inputs[1].shape == ("rows", 11)
    assert made.outputs["y"].shape == ("2 * rows", 5, 4)
    assert len(made.nodes) == 5
    assert exported({"x": [1]}).inputs[1].shape == (3, "2*length + 1")


@pytest.mark.parametrize(
    ("dynamic", "error", "says"),
    [
        ({"z": {0: "b"}}, ExportError, "dynamic= names an input 'z'.*there are x, mask"),
        ({"x": {2: "b"}}, ExportError, r"axis 2 of 'x', whose size the program fixes: it is float32\[batch, length, 8"),
        ({"x": {3: "b"}}, ExportError, r"names axis 3 of 'x', which is float32\[batch"),
        ({"mask": {1: "b"}}, ExportError, r"axis 1 of 'mask' is 2\*length \+ 1: name the axes of length"),
        ({"x": {0: "b"}, "mask": {0: "c"}}, ExportError, "calls one size 'b' and 'c'"),
        ({"x": {0: "b", 1: "b"}}, ExportError, "gives one name to sizes that the program keeps apart"),
        ({"x": {"0": "b"}}, UsageError, "is a dict of axes with names"),
        ({"x": {0: "b c"}}, UsageError, "'b c' cannot be the name of a size"),
        (3, UsageError, "dynamic= is True, False, None"),
    ],
)
def test_wrong_use(dynamic, error, says):
    with pytest.raises(error, match=says):
        exported(dynamic)


@pytest.mark.parametrize(
    ("size", "number"),
    [(4, 4), ("b", 3), ("2*b + 1", 7), ("(b - 1)//2", 1), ("Max(1, b)", 3), ("Mod(b, 2)", 1), ("-b", -3), ("c", None),
     ("b/2", None), ("b ++", None), ("b.c", None), ("f(b)", None), ("u0", None)],
)  # fmt: skip
def test_expressions(size, number):
    assert evaluate(size, {"b": 3}) == number
    assert symbols_in(2) == set()
    assert symbols_in("2*b + Max(c, 1)") == {"b", "c"}
