"""A trace as data: each operation with its arguments and results, inputs, frames, and what it returns."""

from __future__ import annotations

import gc
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import pijit
from pijit import _core

pytestmark = pytest.mark.torch


def same(a: Any, b: Any) -> bool:
    """Equal to the bit, tensors in any container."""
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.dtype == b.dtype and a.shape == b.shape and bool((a == b).all())
    if isinstance(a, tuple | list):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    return type(a) is type(b) and (a == b)


def recorded(function: Callable[..., Any], *calls: tuple[Any, ...]) -> Any:
    """The data of the one trace that answers these calls, each of which is right."""
    replayed = pijit.jit(function)
    for arguments in calls:
        assert same(replayed(*arguments), function(*arguments))
    root = _core.root_of(replayed)
    assert len(_core.root_traces(root)) == 1, [trace["stop"] for trace in _core.root_traces(root)]
    assert _core.root_report(root)["replays"] >= len(calls) - 1
    return _core.trace_data(root, 0)


def calls(data: Any, name: str) -> list[Any]:
    """The operations of that name."""
    return [node["call"] for node in data["nodes"] if "call" in node and node["call"]["name"] == name]


def one(data: Any, name: str) -> Any:
    """The only operation of that name, its arguments by name."""
    found = calls(data, name)
    assert len(found) == 1, [node["call"]["name"] for node in data["nodes"] if "call" in node]
    return {**found[0], "given": {argument[0]: argument[1] for argument in found[0]["arguments"]}}


def x(*sizes: int) -> torch.Tensor:
    return torch.arange(float(torch.Size(sizes).numel())).reshape(sizes) + 1


def test_an_operator() -> None:
    """All arguments of its schema, also those that the call did not give."""
    data = recorded(lambda a, b: torch.add(a, b, alpha=2), (x(2), x(2)), (x(3), x(3)))
    call = one(data, "aten::add.Tensor")
    assert [argument[0] for argument in call["arguments"]] == ["self", "other", "alpha"]
    registers = [row["register"] for row in data["inputs"]]
    assert call["given"] == {"self": ("reg", registers[0]), "other": ("reg", registers[1]), "alpha": ("const", 2)}
    assert data["result"] == ("reg", call["results"][0])
    assert call["aliases"] == [-1]
    assert (call["random"], call["repeatable"]) == (False, True)
    assert not any(argument[2] for argument in call["arguments"])


def test_a_number_where_a_tensor_is_taken() -> None:
    """It is a number."""
    call = one(recorded(lambda a: a * 2.5, (x(2),), (x(3),)), "aten::mul.Tensor")
    assert call["given"]["other"] == ("const", 2.5)


def test_literals() -> None:
    """Real objects of Python and of torch."""

    def f(a: torch.Tensor) -> Any:
        return (
            torch.zeros(2, 3, dtype=torch.float64, device="cpu"),
            a.to(torch.int64, memory_format=torch.channels_last),
            F.gelu(a, approximate="tanh"),
            torch.sum(a, (0, 1), keepdim=True),
        )

    data = recorded(f, (x(1, 2, 2, 2),), (x(1, 2, 3, 2),))
    zeros = one(data, "aten::zeros")["given"]
    assert zeros["size"] == ("list", [("const", 2), ("const", 3)])
    assert zeros["dtype"][1] is torch.float64
    assert zeros["device"] == ("const", torch.device("cpu"))
    assert zeros["layout"] in (("const", None), ("const", torch.strided))
    to = next(call for call in data["nodes"] if "call" in call and call["call"]["name"].startswith("aten::to"))
    values = {name: value for name, value, _ in to["call"]["arguments"]}
    assert values["dtype"][1] is torch.int64
    assert values["memory_format"][1] is torch.channels_last
    assert one(data, "aten::gelu")["given"]["approximate"] == ("const", "tanh")
    total = one(data, "aten::sum.dim_IntList")["given"]
    assert total["dim"] == ("list", [("const", 0), ("const", 1)])
    assert total["keepdim"] == ("const", True)
    assert total["dtype"] == ("const", None)


def test_what_is_written() -> None:
    """And what the result is then."""

    def f(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a.add_(b)

    replayed = pijit.jit(f)
    for size in (2, 3):
        a = x(size)
        assert same(replayed(a, x(size)), a)
        assert same(a, x(size) * 2)
    call = one(_core.trace_data(_core.root_of(replayed), 0), "aten::add_.Tensor")
    assert [argument[2] for argument in call["arguments"]] == [True, False, False]
    assert (call["results"], call["aliases"], call["repeatable"]) == ([None], [0], False)


def test_views() -> None:
    """A result that shares memory with an argument says with which."""
    data = recorded(lambda a: (a.view(-1), a.t(), a.split(1)), (x(2, 2),), (x(2, 3),))
    assert one(data, "aten::view")["aliases"] == [0]
    assert one(data, "aten::t")["aliases"] == [0]
    split = one(data, "aten::split.Tensor")
    assert split["aliases"] == [0]
    assert [len(regs) for regs in split["results"]] == [2]
    kind, type_, items = data["result"]
    assert (kind, type_) == ("tuple", None)
    assert items[2] == ("tuple", None, [("reg", reg) for reg in split["results"][0]])


def test_lists_of_tensors_and_sizes() -> None:
    """Registers inside of lists."""
    data = recorded(lambda a, b: torch.cat([a, b], 1).view(a.size(0), -1), (x(2, 2), x(2, 1)), (x(3, 2), x(3, 4)))
    registers = [row["register"] for row in data["inputs"]]
    assert one(data, "aten::cat")["given"]["tensors"] == ("list", [("reg", reg) for reg in registers])
    size = one(data, "tensor::size")
    assert size["given"]["dim"] == ("const", 0)
    assert data["registers"][size["results"][0]] == "int"
    assert one(data, "aten::view")["given"]["size"] == ("list", [("reg", size["results"][0]), ("const", -1)])


def test_random_numbers() -> None:
    """An operator that draws them says so."""

    def f(a: torch.Tensor) -> torch.Tensor:
        return torch.rand_like(a) + torch.bernoulli(a * 0)

    replayed = pijit.jit(f)
    for size in (2, 3):
        torch.manual_seed(1)
        expected = f(x(size))
        torch.manual_seed(1)
        assert same(replayed(x(size)), expected)
    data = _core.trace_data(_core.root_of(replayed), 0)
    assert all(call["random"] for call in [*calls(data, "aten::rand_like"), *calls(data, "aten::bernoulli")])
    assert not one(data, "aten::add.Tensor")["random"]


INDICES: list[tuple[Any, Any, int]] = [
    (0, ("const", 0), 0),
    (slice(None, -1), ("slice", ("const", None), ("const", -1), ("const", None)), 0),
    ((0, slice(1)), ("tuple", None, [("const", 0), ("slice", ("const", None), ("const", 1), ("const", None))]), 0),
    ((..., 0), ("tuple", None, [("const", ...), ("const", 0)]), 0),
    ([0, 1], ("list", [("const", 0), ("const", 1)]), -1),
]  # fmt: skip


@pytest.mark.parametrize(("index", "tree", "alias"), INDICES, ids=str)
def test_an_index(index: Any, tree: Any, alias: int) -> None:
    """An argument that is a tree."""
    call = one(recorded(lambda a: a[index], (x(2, 2),), (x(3, 2),)), "tensor::getitem")
    assert call["given"]["index"] == tree
    assert (call["aliases"], call["repeatable"]) == ([alias], True)


def test_registers_in_an_index() -> None:
    """Tensors, and numbers that are read from sizes."""
    data = recorded(lambda a, i: (a[i], a[: a.shape[0] - 1]), (x(3), torch.tensor([0, 1])), (x(4), torch.tensor([2])))
    first, second = calls(data, "tensor::getitem")
    register = data["inputs"][1]["register"]
    assert first["arguments"][1] == ("index", ("reg", register), False)
    (minus,) = [node for node in data["nodes"] if node.get("scalar") == "sub"]
    assert minus["b"] == ("const", 1)
    assert second["arguments"][1][1] == ("slice", ("const", None), ("reg", minus["out"]), ("const", None))


@pytest.mark.parametrize("value", [1.5, 2, True, "tensor"])
def test_an_item_that_is_set(value: Any) -> None:
    """Of a number or a tensor."""

    def f(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a = a.clone()
        a[0] = b if value == "tensor" else value
        return a

    data = recorded(f, (x(2), x(1)[0]), (x(3), x(1)[0]))
    call = one(data, "tensor::setitem")
    assert [argument[2] for argument in call["arguments"]] == [True, False, False]
    assert call["results"] == []
    expected = ("reg", data["inputs"][1]["register"]) if value == "tensor" else ("const", value)
    assert call["given"]["value"] == expected


def test_numbers_of_tensors() -> None:
    """One name for each way that Python asks."""

    def f(a: torch.Tensor) -> Any:
        return a.item(), int(a), float(a), bool(a)

    data = recorded(f, (torch.tensor(1.0),), (torch.tensor(1.0),))
    kinds = {
        name: data["registers"][one(data, f"tensor::{name}")["results"][0]] for name in ("item", "int", "float", "bool")
    }
    assert kinds == {"item": "float", "int": "int", "float": "float", "bool": "bool"}


def test_what_only_looks() -> None:
    """Checks are operations, too: what is asked, and what is expected."""

    def f(a: torch.Tensor) -> Any:
        b = a + 1
        return b.dtype, b.device, b.dim(), b.stride(), b.is_contiguous(), b.requires_grad, b.is_leaf, b.numel()

    data = recorded(f, (x(2, 3),), (x(2, 3),))
    facts = {}
    for call in calls(data, "tensor::check"):
        given = {name: value for name, value, _ in call["arguments"]}
        facts[given["fact"][1]] = given["expected"][1]
        assert call["repeatable"]
    assert facts == {
        "dtype": torch.float32,
        "device": torch.device("cpu"),
        "dim": 2,
        "strides": (3, 1),
        "is_contiguous": True,
        "requires_grad": False,
        "is_leaf": True,
    }
    assert data["registers"][one(data, "tensor::numel")["results"][0]] == "int"


def test_gradients() -> None:
    """Read, checked to be none, and set."""

    def f(w: torch.Tensor, v: torch.Tensor) -> Any:
        found = w.grad + 1
        w.grad = None
        none = v.grad
        v.grad = found
        v.requires_grad_(False)
        return found, none

    replayed = pijit.jit(f)
    for size in (2, 3):
        w, v = x(size).requires_grad_(), x(size).requires_grad_()
        w.grad = x(size)
        found, none = replayed(w, v)
        assert same(found, x(size) + 1)
        assert (none, w.grad, v.requires_grad) == (None, None, False)
        assert v.grad is found
    data = _core.trace_data(_core.root_of(replayed), 0)
    w_reg, v_reg = (row["register"] for row in data["inputs"])
    read = one(data, "tensor::grad")
    assert read["given"] == {"self": ("reg", w_reg)}
    first, second = calls(data, "tensor::set_grad")
    assert first["arguments"] == [("self", ("reg", w_reg), True), ("value", ("const", None), False)]
    assert second["arguments"][0] == ("self", ("reg", v_reg), True)
    assert second["arguments"][1][1][0] == "reg"
    off = one(data, "tensor::set_requires_grad")
    assert off["arguments"] == [("self", ("reg", v_reg), True), ("value", ("const", False), False)]
    checked = [call["arguments"][1][1][1] for call in calls(data, "tensor::check")]
    assert "grad" in checked


def test_bindings_that_do_not_dispatch() -> None:
    """contiguous() is the operator, data has a name of its own, numbers in a tensor are a literal."""

    def f(a: torch.Tensor) -> Any:
        return a.t().contiguous(), a.data, torch.tensor([1, 2])

    data = recorded(f, (x(2, 3),), (x(3, 2),))
    contiguous = one(data, "aten::contiguous")
    assert contiguous["given"]["memory_format"][1] is torch.contiguous_format
    assert contiguous["aliases"] == [0]
    assert one(data, "tensor::data")["aliases"] == [0]
    literal = one(data, "tensor::literal")
    assert torch.equal(literal["given"]["value"][1], torch.tensor([1, 2]))
    literal["given"]["value"][1].fill_(7)  # a copy
    assert torch.equal(one(data, "tensor::literal")["given"]["value"][1], torch.tensor([7, 7]))


def test_modes() -> None:
    """Grad mode is set by an operation, and modes that guards leave out are checked by one."""

    def f(a: torch.Tensor) -> Any:
        with torch.no_grad():
            b = a * 2
        return b

    data = recorded(f, (x(2).requires_grad_(),), (x(3).requires_grad_(),))
    assert [call["arguments"] for call in calls(data, "tensor::set_grad_enabled")] == [
        [("enabled", ("const", False), False)],
        [("enabled", ("const", True), False)],
    ]


def test_a_mode_that_is_read_again() -> None:
    """The getter and what it gave; another answer is not replayed."""

    def f(a: torch.Tensor) -> Any:
        return a + 1, torch._C._get_cudnn_benchmark()

    data = recorded(f, (x(2),), (x(3),))
    (call,) = calls(data, "tensor::check")
    assert call["arguments"] == [
        ("getter", ("const", "_get_cudnn_benchmark"), False),
        ("expected", ("const", False), False),
    ]
    assert call["callable"] is torch._C._get_cudnn_benchmark
    replayed = pijit.jit(f)
    for benchmark in (False, True, False):
        torch.backends.cudnn.benchmark = benchmark
        try:
            assert same(replayed(x(2)), f(x(2)))
        finally:
            torch.backends.cudnn.benchmark = False


def test_a_function_of_torch_that_is_called_as_a_whole() -> None:
    """By its name, with the function itself."""
    data = recorded(lambda a: a.new_tensor([[1.0, 2.0], [3.0, a.shape[0] * 1.0]]), (x(2),), (x(3),))
    (call,) = [node["call"] for node in data["nodes"] if "call" in node and node["call"]["name"].startswith("torch::")]
    assert call["name"] == "torch::Tensor.new_tensor"
    assert call["callable"] is torch.Tensor.new_tensor
    assert call["arguments"][0] == ("", ("reg", data["inputs"][0]["register"]), False)
    assert len(call["results"]) == 1


# --- inputs, frames and results ------------------------------------------------------------------


class Block(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.inner = nn.Linear(size, size)

    def forward(self, a: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.inner(a))


class Model(nn.Module):
    def __init__(self, size: int, depth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block(size) for _ in range(depth))

    def forward(self, a: torch.Tensor) -> dict[str, torch.Tensor]:
        for layer in self.layers:
            a = layer(a)
        return {"last": a, "first": a[0]}


def modules_of(data: Any, model: nn.Module, node: Any) -> list[str]:
    """The names of the modules that a node came through, the outermost first."""
    names = {id(module): name for name, module in model.named_modules()}
    found: list[str] = []
    at = node["frame"]
    while at != -1:
        frame = data["frames"][at]
        name = names.get(id(frame["self"]))
        if name is not None and (not found or found[-1] != name):
            found.append(name)
        at = frame["parent"]
    return found[::-1]


def test_frames() -> None:
    """Each node knows the calls that led to it, and so the modules."""
    torch.manual_seed(0)
    model = Model(3, 2).eval()
    replayed = pijit.jit(model)
    with torch.no_grad():
        for rows in (2, 4):
            assert same(replayed(x(rows, 3)), model(x(rows, 3)))
    data = _core.trace_data(_core.root_of(replayed), 0)
    chains = [
        (node["call"]["name"], modules_of(data, model, node)) for node in data["nodes"] if node["op"] == "adapter"
    ]
    assert chains == [
        ("aten::linear", ["", "layers.0", "layers.0.inner"]),
        ("aten::relu", ["", "layers.0"]),
        ("aten::linear", ["", "layers.1", "layers.1.inner"]),
        ("aten::relu", ["", "layers.1"]),
        ("tensor::getitem", [""]),
    ]
    relu = next(node for node in data["nodes"] if node.get("call", {}).get("name") == "aten::relu")
    frame = data["frames"][relu["frame"]]
    line = Block.forward.__code__.co_firstlineno + 1
    assert (frame["qualname"], frame["file"], frame["line"]) == ("Block.forward", __file__, line)
    assert not frame["library"]
    linear = next(node for node in data["nodes"] if node.get("call", {}).get("name") == "aten::linear")
    assert data["frames"][linear["frame"]]["library"]


def test_calls_of_one_function_on_one_line_are_told_apart() -> None:
    """By the number of the call."""

    def twice(a: torch.Tensor) -> torch.Tensor:
        return a * 2

    data = recorded(lambda a: twice(twice(a)), (x(2),), (x(3),))
    first, second = (node["frame"] for node in data["nodes"] if node["op"] == "adapter")
    assert data["frames"][first]["call"] != data["frames"][second]["call"]
    assert data["frames"][first]["parent"] == data["frames"][second]["parent"]


def test_sources_of_tensors() -> None:
    """Arguments are new at each call; parameters are the tensors themselves, by attribute."""
    torch.manual_seed(0)
    model = Block(3)
    replayed = pijit.jit(model)
    for rows in (2, 4):
        assert same(replayed(x(rows, 3)), model(x(rows, 3)))
    data = _core.trace_data(_core.root_of(replayed), 0)
    named = {id(row["object"]): row["source"] for row in data["inputs"] if row["object"] is not None}
    assert set(named) == {id(model.inner.weight), id(model.inner.bias)}
    for name in ("weight", "bias"):
        path = named[id(getattr(model.inner, name))]
        assert path[0] == ("argument", 0, "self")
        assert path[-1] == ("item", name)
        assert ("item", "inner") in path
    (given,) = [row for row in data["inputs"] if row["object"] is None]
    assert given["source"][0][0] == "argument"
    assert (given["dtype"], given["sizes"], given["device"]) == ("float32", [None, None], "cpu")


@dataclass
class Answer:
    best: torch.Tensor
    more: list[torch.Tensor]


def test_objects_that_are_returned() -> None:
    """As they are at the end, each mention of one object the same tuple."""

    def f(a: torch.Tensor) -> Any:
        shared = [a + 1]
        answer = Answer(a * 2, shared)
        table = {"a": a, "b": 1}
        table["b"] = 2
        del table["a"]
        table["a"] = 3
        shared.append(answer.best)
        return answer, table, shared, slice(1, None)

    replayed = pijit.jit(f)
    for size in (2, 3):
        (answer, *rest), (expected, *others) = replayed(x(size)), f(x(size))
        assert same(rest, others)
        assert same([answer.best, answer.more], [expected.best, expected.more])
    data = _core.trace_data(_core.root_of(replayed), 0)
    more = one(data, "aten::add.Tensor")["results"][0]
    best = one(data, "aten::mul.Tensor")["results"][0]
    kind, type_, (answer, table, shared, cut) = data["result"]
    assert (kind, type_) == ("tuple", None)
    assert answer == ("instance", Answer, {"best": ("reg", best), "more": shared}, [])
    assert answer[2]["more"] is shared
    assert shared == ("list", [("reg", more), ("reg", best)])
    assert table == ("dict", None, [(("const", "b"), ("const", 2)), (("const", "a"), ("const", 3))])
    assert cut == ("slice", ("const", 1), ("const", None), ("const", None))


def test_dead_objects_are_not_handed_out() -> None:
    """A trace does not keep what it names alive."""
    holder = {"weight": x(2)}

    @pijit.jit
    def f(a: torch.Tensor) -> torch.Tensor:
        return a + holder["weight"]

    for size in (2, 1):
        assert same(f(x(size)), x(size) + holder["weight"])
    root = _core.root_of(f)
    assert sum(row["object"] is holder["weight"] for row in _core.trace_data(root, 0)["inputs"]) == 1
    holder["weight"] = x(2) * 2
    gc.collect()
    assert [row["object"] for row in _core.trace_data(root, 0)["inputs"]] == [None, None]
    assert same(f(x(2)), x(2) * 3)


weights = {"w": x(2)}


def swap() -> None:
    """Foreign code that gives the program another tensor."""
    weights["w"] = weights["w"] + 1


def test_an_opaque_call() -> None:
    """Tensors that are found after it are inputs, too, and nodes say what runs foreign code."""

    def f(a: torch.Tensor) -> torch.Tensor:
        b = a + 1
        swap_unseen()
        return b * weights["w"]

    swap_unseen = pijit.opaque(swap)
    replayed = pijit.jit(f)
    answers = []
    for function in (f, replayed):
        weights["w"] = x(2)
        answers.append([function(x(2)) for _ in range(6)])
    assert same(answers[0], answers[1])
    root = _core.root_of(replayed)
    data = _core.trace_data(root, len(_core.root_traces(root)) - 1)
    assert data["opaque_calls"] == 1
    assert (data["ends"], data["stop"]) == ("return", None)
    ops = [node["op"] for node in data["nodes"]]
    assert ops.index("opaque") < ops.index("epoch") < len(ops) - 1
    given = one(data, "aten::mul.Tensor")["given"]
    (late,) = [row for row in data["inputs"] if ("reg", row["register"]) == given["other"]]
    assert late["source"][-1] == ("item", "w")


def test_an_exit() -> None:
    """A trace that stops recording says where and why, and returns nothing."""

    def f(a: torch.Tensor) -> Any:
        b = a + 1
        raise ValueError(tuple(b.shape))

    replayed = pijit.jit(f)
    for size in (2, 3, 2):
        with pytest.raises(ValueError, match=str(size)):
            replayed(x(size))
    data = _core.trace_data(_core.root_of(replayed), 0)
    assert (data["ends"], data["result"]) == ("exit", ("none",))
    assert data["stop"] is not None
    assert data["nodes"][-1]["op"] == "exit"
    assert data["nodes"][-1]["frame"] == -1


def test_inputs_that_are_kept() -> None:
    """On request a trace holds the very tensors that came in, whatever they were found in."""
    model = Block(3)

    def f(net: Block, values: dict[str, torch.Tensor]) -> torch.Tensor:
        return net(values["x"])

    for rows in (2, 4):
        values = {"x": x(rows, 3)}
        before = _core.keep_inputs(True)
        try:
            replayed = pijit.jit(f)
            assert same(replayed(model, values), f(model, values))
        finally:
            assert _core.keep_inputs(before)
        data = _core.trace_data(_core.root_of(replayed), 0)
        found = {id(row["object"]) for row in data["inputs"]}
        assert found == {id(values["x"]), id(model.inner.weight), id(model.inner.bias)}
        assert any(row["self"] is model.inner for row in data["frames"])
    replayed = pijit.jit(f)
    assert same(replayed(model, values), f(model, values))
    data = _core.trace_data(_core.root_of(replayed), 0)
    assert any(row["object"] is None for row in data["inputs"])


def test_operators_in_opaque_calls() -> None:
    """How many ran in each, and what the arguments were built of."""
    seen: list[Any] = []

    def foreign(a: torch.Tensor, more: tuple[Any, ...]) -> None:
        seen.append((a + 1) * 2)

    def quiet(a: torch.Tensor, more: tuple[Any, ...]) -> None:
        seen.append(more)

    loud, still = pijit.opaque(foreign), pijit.opaque(quiet)

    def f(a: torch.Tensor) -> torch.Tensor:
        b = a - 1
        loud(b, (b, 1))
        still(b, (b, 1))
        return b * 2

    data = recorded(f, (x(2),), (x(3),))
    rows = [row for row in data["nodes"] if row["op"] == "opaque"]
    assert [row["operators"] for row in rows] == [2, 0]
    built = {row["out"]: row["built"] for row in data["nodes"] if row["op"] == "build"}
    made = one(data, "aten::sub.Tensor")["results"][0]
    for row in rows:
        assert built[row["operands"][-1][1]] == ("tuple", None, [("reg", made), ("const", 1)])
    assert not any(row["made"] for row in data["inputs"])


def test_what_pure_nodes_compute() -> None:
    """The function and the type of its result."""

    def f(a: torch.Tensor, exponent: float) -> torch.Tensor:
        return a * (1 - 0.5 ** a.sum().item())

    data = recorded(f, (x(2), 1.0), (x(3), 1.0))
    rows = [row for row in data["nodes"] if row["op"] == "pure"]
    assert [row["a"] for row in rows] == [("const", operator.pow), ("const", operator.sub)]
    assert [row["type"] for row in rows] == [("const", float), ("const", float)]
