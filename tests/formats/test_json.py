"""A graph as JSON: read back it is the same, in every field and every bit; what is damaged says where."""

import base64
import json

import numpy as np
import pytest

from pijit.errors import ExportError, UsageError
from pijit.graph import Graph, Node, Region, Slice, Token, Value
from pijit.graph.model import Effect

X = Value("x", "tensor", "input", "float32", ("batch", 8), "cpu")
W = Value("w", "tensor", "parameter", "float32", (8, 8), "cpu", "layers.0.weight")
N = Value("n", "int")
Y, Z = Value("y", dtype="float32", shape=("2*batch + 1", 8)), Value("z")


def graph(**changed):
    """A graph that has something of every kind of field."""
    arguments = {
        "x": X,
        "shape": (N, 4, -1),
        "index": (Slice(None, N, 2), ..., None, Slice(0, 5)),
        "dtype": Token("dtype", "bfloat16"),
        "numbers": (1, 1.0, -0.0, 2**70, True, 1e-300, float("inf"), float("-inf"), 3 + 0.5j, complex("nan+1j")),
        "mode": 'bi"c\u00fcbic',
    }
    fields = {
        "name": "Model",
        "inputs": (X,),
        "parameters": (W,),
        "nodes": (
            Node("size", {"x": X, "axis": 0}, (N,), "tensor::size"),
            Node("aten::odd.out", arguments, (Y, None, Z), "aten::odd.out", ("x",), ("x", "", ""), True,
                 "layers.0", "a.py", 3),
        ),
        "outputs": {"a": [Y, (X, 1)], 2: None, "b": {}},
        "updates": (("w", Z),),
        "effects": (Effect("setattr", (Y,), "a.py", 4),),
        "data": {"w": np.arange(64, dtype=np.float32).reshape(8, 8)},
        "region": Region("", "Model", (0,), (Region("layers.0", "Linear", (1,)),)),
        "symbols": {"batch": 3},
    }  # fmt: skip
    return Graph(**(fields | changed))


def assert_same(one, other):
    for field in Graph.__dataclass_fields__:
        if field != "data":
            assert repr(getattr(one, field)) == repr(getattr(other, field)), field  # nan is not equal to itself
            assert field == "nodes" or getattr(one, field) == getattr(other, field), field
    assert one.data.keys() == other.data.keys()
    for name, array in one.data.items():
        assert type(array) is type(other.data[name])
        assert array.dtype == other.data[name].dtype
        assert array.shape == other.data[name].shape
        assert bytes(memoryview(np.ascontiguousarray(array)).cast("B")) == other.data[name].tobytes()


def test_read_back_it_is_the_same():
    first = graph()
    text = first.to_json()
    second = Graph.from_json(text)
    assert_same(first, second)
    assert second.to_json() == text
    first.data["w"][0, 0] = 7  # a change of a weight is seen by the next export only
    assert Graph.from_json(text).data["w"][0, 0] == 0
    assert Graph.from_json(first.to_json()).data["w"][0, 0] == 7


def test_text_is_strict_json():
    def refuse(word):
        raise AssertionError(word)

    document = json.loads(graph().to_json(indent=2), parse_constant=refuse)
    assert document["schema"] == "pijit.graph/1"
    assert "NaN" not in graph().to_json()


def test_without_weights():
    text = graph().to_json(weights="none")
    assert not Graph.from_json(text).data
    assert "base64" not in text


@pytest.mark.parametrize(
    "dtype",
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128".split(),
)
@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (2, 3)])
def test_dtypes_of_numpy(dtype, shape):
    held = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)
    again = Graph.from_json(graph(data={"w": held}).to_json()).data["w"]
    assert (again.dtype, again.shape) == (held.dtype, held.shape)
    assert np.array_equal(again, held)


@pytest.mark.torch
@pytest.mark.parametrize(
    "dtype", "bool int8 int16 int32 int64 uint8 float16 bfloat16 float32 float64 complex64 complex128".split()
)
def test_dtypes_of_torch(dtype):
    import torch

    for held in (torch.ones(2, 3), torch.ones(()), torch.ones(0, 4), torch.arange(6.0).reshape(2, 3).T):
        held = held.to(getattr(torch, dtype))
        again = Graph.from_json(graph(data={"w": held}).to_json()).data["w"]
        assert (again.dtype, again.shape, again.stride()) == (held.dtype, held.shape, held.stride())
        assert torch.equal(again, held)


@pytest.mark.torch
def test_parameters_of_torch_ask_for_gradients_again():
    import torch

    layer = torch.nn.Linear(2, 2)
    text = graph(data={"w": layer.weight}).to_json()
    again = Graph.from_json(text).data["w"]
    assert again.requires_grad
    assert torch.equal(again, layer.weight)
    assert isinstance(Graph.from_json(text, framework="numpy").data["w"], np.ndarray)
    conjugate = torch.ones(2, dtype=torch.complex64).mul(1j).conj()
    assert torch.equal(Graph.from_json(graph(data={"w": conjugate}).to_json()).data["w"], conjugate)


def damaged(*path, value):
    """The text with something else at a place; `value` of None: without it."""
    document = json.loads(graph().to_json())
    at = document
    for key in path[:-1]:
        at = at[key]
    if value is None:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return json.dumps(document)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "this is no JSON, or is cut off"),
        (b"\xff\xfe\x00", "this is no JSON, or is cut off"),
        ("[]", "this JSON is no graph"),
        ('{"nodes": []}', 'has no "schema": "pijit.graph/1"'),
        (damaged("schema", value="pijit.graph/9"), "has the schema 'pijit.graph/9'; .* reads 'pijit.graph/1'"),
        (damaged("nodes", value=None), "nodes: is missing"),
        (damaged("nodes", value={}), "nodes: {} is not of type list"),
        (damaged("nodes", 0, "op", value=None), r"nodes\[0\]: has no 'op'"),
        (damaged("nodes", 0, "shape", value=1), r"nodes\[0\]: no field is called 'shape'"),
        (damaged("nodes", 0, "results", value=["q"]), r"nodes\[0\].results: no value is called 'q'"),
        (damaged("nodes", 0, "arguments", "x", value={"value": "q"}), r"nodes\[0\].arguments.x: no value is called"),
        (damaged("nodes", 0, "arguments", "x", value={"value": "y"}), r"nodes\[0\]: 'y' is used before a node gives"),
        (damaged("nodes", 0, "arguments", "x", value={"token": ["colour", "red"]}), "is no argument"),
        (damaged("nodes", 0, "arguments", "x", value={"list": [], "dict": []}), "is no argument"),
        (damaged("nodes", 0, "results", value=["x"]), r"nodes\[0\]: 'x' is given twice"),
        (damaged("nodes", 0, "line", value=True), r"nodes\[0\].line: true is not of type int"),
        (damaged("values", "x", "shape", value="batch"), "values.x.shape: is no list"),
        (damaged("values", "x", "kind", value="matrix"), "values.x.kind: 'matrix' is none"),
        (damaged("values", "x", "colour", value="red"), "values.x: no field is called 'colour'"),
        (damaged("outputs", value={"value": "gone"}), "outputs: no value is called 'gone'"),
        (damaged("updates", value=[["w"]]), "updates: .* is no pair"),
        (damaged("effects", 0, "line", value=None), r"effects\[0\]: has what, values, file instead of"),
        (damaged("symbols", "batch", value="3"), 'symbols: "3" is not of type int'),
        (damaged("region", "nodes", value=[9]), "region '': names a node that does not exist"),
        (damaged("region", "type", value=None), "region: has path, nodes, regions instead of"),
        (damaged("data", "w", "base64", value="%%"), "data.w: "),
        (damaged("data", "w", "base64", value="AAAA"), r"parameter 'w' is float32\[8, 8\], 256 bytes, but has 3"),
        (damaged("data", "w", "dtype", value="float7"), "is of dtype 'float7', which is not known"),
        (damaged("data", "w", "shape", value=None), "data.w: has no 'shape'"),
        (damaged("data", "w", "base64", value=None), "data.w: null is not of type str"),
    ],
)
def test_damaged(text, says):
    with pytest.raises(ExportError, match=says):
        Graph.from_json(text)


def test_half_of_a_text_is_damaged_wherever_it_ends():
    text = graph(data={}).to_json()
    for end in range(0, len(text), 7):
        with pytest.raises(ExportError):
            Graph.from_json(text[:end])


def test_what_cannot_be_written_says_where():
    strange = Node("add", {"x": object()}, (Y,), file="model.py", line=7)
    with pytest.raises(ExportError, match=r"model.py:7: add has object object, which JSON"):
        graph(nodes=(strange,)).to_json()
    with pytest.raises(ExportError, match="parameter 'w' is a list, not an array"):
        graph(data={"w": [1.0]}).to_json()


@pytest.mark.parametrize("wrong", [{"weights": "all"}, {"weights": "safetensors"}])
def test_wrong_weights(wrong):
    with pytest.raises(UsageError, match="weights"):
        graph().to_json(**wrong)


@pytest.mark.parametrize(("source", "more"), [(3, {}), ("{}", {"framework": "keras"})])
def test_wrong_source(source, more):
    with pytest.raises(UsageError, match="from_json|framework="):
        Graph.from_json(source, **more)


def test_base64_is_little_endian():
    held = np.array([1, 2], dtype=">i4")
    entry = json.loads(graph(data={"w": held}).to_json())["data"]["w"]
    assert base64.b64decode(entry["base64"]) == b"\1\0\0\0\2\0\0\0"
