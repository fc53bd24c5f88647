"""Graphs with branches, made by hand, each with the program that it stands for and calls of all kinds of it.

The calls of a program go the one way and the other, run no turn, one and many, and have several sizes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from pijit.graph import Graph, Node, Value

# What torch calls for an operator on a tensor and a number.
SCALAR = {"add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "less": "lt", "greater": "gt"}
ITEMS = ("item_float", "item_int", "item_bool")
DECISIONS = ("scalar_less", "scalar_greater", "scalar_and", "scalar_not", "item_bool")

TENSOR = Value("x", "tensor", "input", "float32", ("n",), "cpu")
INT, FLOAT, BOOL = (Value("number", kind) for kind in ("int", "float", "bool"))


class Lines:
    """Makes a graph line by line: `lines.sum(x=x)` adds a node and gives its result."""

    def __init__(self, name: str, **inputs: Value) -> None:
        self.name = name
        self.inputs = [dataclasses.replace(value, name=key, role="input") for key, value in inputs.items()]
        self.nodes: list[Node] = []

    def __getattr__(self, op: str) -> Callable[..., Any]:
        def call(**arguments: Any) -> Value:
            return self.enter(op, arguments)

        return call

    def enter(self, op: str, arguments: dict[str, Any]) -> Value:
        y = arguments.get("y")
        origin = ""
        if op in SCALAR and not (isinstance(y, Value) and y.kind == "tensor"):
            origin = f"aten::{SCALAR[op]}.Scalar"
        elif op in ITEMS:
            origin = f"tensor::{op[5:]}"
        result = dataclasses.replace(self.type(op, arguments), name=f"v{len(self.nodes)}", role="result")
        self.nodes.append(Node(op, arguments, (result,), origin))
        return result

    @staticmethod
    def type(op: str, arguments: dict[str, Any]) -> Value:
        kinds = [each.kind if isinstance(each, Value) else type(each).__name__ for each in arguments.values()]
        if op in DECISIONS:
            return BOOL
        if op.startswith("scalar_") or op in (*ITEMS, "size"):
            return FLOAT if "float" in kinds or op in ("item_float", "scalar_divide") else INT
        if op in ("less", "greater"):
            return dataclasses.replace(arguments["x"], dtype="bool")
        return dataclasses.replace(arguments["x"], shape=()) if op in ("sum", "max", "select") else arguments["x"]

    def decides(self, op: str, x: Value, y: Any) -> Value:
        """A decision on a tensor: a number of kind bool."""
        return self.enter("item_bool", {"x": self.enter(op, {"x": x, "y": y})})

    def branch(self, op: str, results: tuple[Value, ...], **arguments: Any) -> tuple[Value, ...]:
        at = len(self.nodes)
        named = tuple(dataclasses.replace(each, name=f"b{at}_{i}", role="result") for i, each in enumerate(results))
        self.nodes.append(Node(op, arguments, named, file="program.py", line=at + 1))
        return named

    def graph(self, outputs: Any, **more: Any) -> Graph:
        return Graph(self.name, tuple(self.inputs), more.pop("parameters", ()), tuple(self.nodes), outputs, **more)


def inner(name: str, make: Callable[..., Any], **inputs: Value) -> Graph:
    """A graph in a node: `make` is given its lines, then its inputs, and gives its outputs."""
    lines = Lines(name, **inputs)
    return lines.graph(make(lines, *lines.inputs))


@dataclasses.dataclass(frozen=True)
class Program:
    """A program, its graph, and the arguments of calls."""

    graph: Graph
    plain: Callable[..., Any]
    calls: tuple[tuple[torch.Tensor, ...], ...]


def whole(name: str, make: Callable[..., Any], plain: Callable[..., Any], *calls: Any, **more: Any) -> Program:
    """A program of one tensor; a call is given as a list of its elements."""
    lines = Lines(name, x=TENSOR)
    graph = lines.graph(make(lines, *lines.inputs), symbols={"n": 3}, **more)
    return Program(graph, plain, tuple((torch.tensor(each),) for each in calls))


# --- programs -----------------------------------------------------------------------------------


def grows() -> Program:
    """A loop that the data ends, and that counts its turns."""
    condition = inner("condition", lambda b, x, n: b.decides("less", b.sum(x=x), 1000), x=TENSOR, n=INT)
    body = inner(
        "body", lambda b, x, n: (b.add(x=b.multiply(x=x, y=1.5), y=1), b.scalar_add(x=n, y=1)), x=TENSOR, n=INT
    )

    def make(b: Lines, x: Value) -> Any:
        carried = {"condition": condition, "body": body, "carried": (x, 0), "operands": ()}
        return b.branch("while", (TENSOR, INT), **carried)

    def plain(x: torch.Tensor) -> Any:
        n = 0
        while x.sum() < 1000:
            x = x * 1.5 + 1
            n += 1
        return x, n

    return whole("grows", make, plain, [1.0, 2.0, 3.0], [900.0, 50.0, 20.0, 1.0], [999.0, 1.0, 0.0], [2e3, 0.5, 0.5])


def chooses() -> Program:
    """Two sides that give a tensor, an int and a float; numbers are used afterwards, a weight comes in."""
    weight = Value("w", "tensor", "parameter", "float32", (), "cpu", "layer.w")
    sides = {"x": TENSOR, "w": dataclasses.replace(TENSOR, shape=())}
    then = inner("then", lambda b, x, w: (b.multiply(x=x, y=w), 3, 0.5), **sides)
    otherwise = inner("otherwise", lambda b, x, w: (b.subtract(x=x, y=1), 4, b.item_float(x=b.sum(x=x))), **sides)

    def make(b: Lines, x: Value) -> Any:
        up = b.decides("greater", b.sum(x=x), 0)
        more = {"condition": up, "then": then, "otherwise": otherwise, "operands": (x, weight)}
        y, k, s = b.branch("cond", (TENSOR, INT, FLOAT), **more)
        return {"count": b.scalar_add(x=k, y=1), "scale": s, "y": b.multiply(x=y, y=s)}

    def plain(x: torch.Tensor) -> Any:
        if x.sum() > 0:
            y, k, s = x * 2.5, 3, 0.5
        else:
            y, k, s = x - 1, 4, float(x.detach().sum())
        return {"count": k + 1, "scale": s, "y": y * s}

    more = {"parameters": (weight,), "data": {"w": torch.tensor(2.5)}}
    return whole("chooses", make, plain, [1.0, 2.0, 3.0], [-1.0, -2.5, 3.0], [0.1, 0.2, 0.3, 4.0], [-7.0, 2.0], **more)


def keeps() -> Program:
    """One side gives what it is given, the other a number in the place of one that comes in."""
    scaled = {"x": TENSOR, "s": FLOAT, "n": INT}
    then = inner("then", lambda b, x, s, n: (x, b.scalar_multiply(x=s, y=2.0), n), **scaled)
    otherwise = inner("otherwise", lambda b, x, s, n: (b.multiply(x=x, y=s), -1.5, b.scalar_add(x=n, y=7)), **scaled)

    def make(b: Lines, x: Value) -> Any:
        most = b.item_float(x=b.max(x=x))
        count = b.size(x=x, axis=0)
        large = b.scalar_greater(x=most, y=10.0)
        more = {"condition": large, "then": then, "otherwise": otherwise, "operands": (x, most, count)}
        y, s, n = b.branch("cond", (TENSOR, FLOAT, INT), **more)
        return b.add(x=b.multiply(x=y, y=s), y=n)

    def plain(x: torch.Tensor) -> Any:
        most = float(x.detach().max())
        y, s, n = (x, most * 2.0, x.shape[0]) if most > 10.0 else (x * most, -1.5, x.shape[0] + 7)
        return y * s + n

    return whole("keeps", make, plain, [1.0, 20.0, 3.0], [1.0, 2.0, 3.0], [11.0, 2.0], [-4.0, 2.0, 0.1, 0.2])


def decides_in_a_loop() -> Program:
    """A decision in a loop with three numbers; what does not change comes in as an operand."""
    carried = {"x": TENSOR, "n": INT, "s": FLOAT, "go": BOOL}
    operands = {"w": TENSOR, "size": INT}
    condition = inner(
        "condition",
        lambda b, x, n, s, go, w, size: b.scalar_and(x=b.scalar_less(x=n, y=6), y=go),
        **carried,
        **operands,
    )
    then = inner("then", lambda b, x, s: (b.divide(x=x, y=2), b.scalar_multiply(x=s, y=0.5)), x=TENSOR, s=FLOAT)
    otherwise = inner("otherwise", lambda b, x, s: (b.multiply(x=x, y=s), s), x=TENSOR, s=FLOAT)

    def turn(b: Lines, x: Value, n: Value, s: Value, go: Value, w: Value, size: Value) -> Any:
        large = b.decides("greater", b.sum(x=x), 10)
        more = {"condition": large, "then": then, "otherwise": otherwise, "operands": (x, s)}
        x, s = b.branch("cond", (TENSOR, FLOAT), **more)
        x = b.add(x=b.add(x=x, y=w), y=size)
        return x, b.scalar_add(x=n, y=1), s, b.decides("less", b.sum(x=x), 50)

    body = inner("body", turn, **carried, **operands)

    def make(b: Lines, x: Value) -> Any:
        count = b.size(x=x, axis=0)
        go = b.decides("less", b.sum(x=x), 40)
        more = {"condition": condition, "body": body, "carried": (x, 0, 1.5, go), "operands": (x, count)}
        y, n, s, _ = b.branch("while", (TENSOR, INT, FLOAT, BOOL), **more)
        return (b.multiply(x=y, y=s), n)

    def plain(x: torch.Tensor) -> Any:
        w, n, s, go = x, 0, 1.5, bool(x.sum() < 40)
        while n < 6 and go:
            x, s = (x / 2, s * 0.5) if x.sum() > 10 else (x * s, s)
            x = x + w + w.shape[0]
            n += 1
            go = bool(x.sum() < 50)
        return x * s, n

    return whole(
        "decides_in_a_loop", make, plain, [1.0, 2.0, 3.0], [-9.0, 2.0, -3.0, 1.0], [40.0, 0.5], [30.0, 9.0], [0.1, 0.2]
    )


def loops_in_a_side() -> Program:
    """A loop over numbers alone in one side; the other gives what comes in."""
    halving = {"x": TENSOR, "s": FLOAT}
    condition = inner("condition", lambda b, x, s: b.scalar_greater(x=s, y=0.1), **halving)
    body = inner("body", lambda b, x, s: (b.add(x=x, y=s), b.scalar_divide(x=s, y=2)), **halving)

    def looping(b: Lines, x: Value, s: Value) -> Any:
        more = {"condition": condition, "body": body, "carried": (x, s), "operands": ()}
        return b.branch("while", (TENSOR, FLOAT), **more)

    then = inner("then", looping, **halving)
    otherwise = inner("otherwise", lambda b, x, s: (x, s), **halving)

    def make(b: Lines, x: Value) -> Any:
        first = b.item_float(x=b.sum(x=x))
        more = {"condition": b.scalar_less(x=first, y=9.0), "then": then, "otherwise": otherwise}
        return b.branch("cond", (TENSOR, FLOAT), **more, operands=(x, first))

    def plain(x: torch.Tensor) -> Any:
        s = float(x.detach().sum())
        if s < 9.0:
            while s > 0.1:
                x = x + s
                s = s / 2
        return x, s

    return whole(
        "loops_in_a_side", make, plain, [1.0, 2.0, 3.0], [-1.0, -2.5, 3.0], [0.1, 0.0625], [8.0, 2.0, 1.0, 4.0]
    )


def asks_for_the_size() -> Program:
    """Decisions on sizes, as a condition, as what is carried, and as a result."""
    carried = {"x": TENSOR, "n": INT, "go": BOOL, "size": INT}
    condition = inner(
        "condition", lambda b, x, n, go, size: b.scalar_and(x=go, y=b.scalar_less(x=n, y=size)), **carried
    )

    def turn(b: Lines, x: Value, n: Value, go: Value, size: Value) -> Any:
        return b.multiply(x=x, y=0.5), b.scalar_add(x=n, y=1), b.scalar_less(x=size, y=100)

    body = inner("body", turn, **carried)
    then = inner("then", lambda b, x, size: (b.add(x=x, y=1), b.scalar_greater(x=size, y=3)), x=TENSOR, size=INT)
    otherwise = inner("otherwise", lambda b, x, size: (x, False), x=TENSOR, size=INT)

    def make(b: Lines, x: Value) -> Any:
        size = b.size(x=x, axis=0)
        large = b.scalar_greater(x=size, y=2)
        more = {"condition": condition, "body": body, "carried": (x, 1, large), "operands": (size,)}
        y, n, _ = b.branch("while", (TENSOR, INT, BOOL), **more)
        sides = {"condition": large, "then": then, "otherwise": otherwise, "operands": (y, size)}
        z, longer = b.branch("cond", (TENSOR, BOOL), **sides)
        return z, n, longer

    def plain(x: torch.Tensor) -> Any:
        size, n = x.shape[0], 1
        go = large = size > 2
        while go and n < size:
            x, n, go = x * 0.5, n + 1, size < 100
        return (x + 1, n, size > 3) if large else (x, n, False)

    return whole("asks_for_the_size", make, plain, [1.0, 2.0, 3.0], [1.0, -2.0], [0.1, 0.2, 0.3, 0.4], [4.0] * 5)


def until_told() -> Program:
    """A loop whose condition is what it carries; a turn hands on what was before."""
    carried = {"x": TENSOR, "last": TENSOR, "go": BOOL}
    condition = inner("condition", lambda b, x, last, go: go, **carried)

    def turn(b: Lines, x: Value, last: Value, go: Value) -> Any:
        y = b.multiply(x=x, y=2)
        return y, x, b.decides("less", b.sum(x=y), 20)

    body = inner("body", turn, **carried)

    def make(b: Lines, x: Value) -> Any:
        go = b.decides("less", b.sum(x=x), 20)
        more = {"condition": condition, "body": body, "carried": (x, x, go), "operands": ()}
        return b.branch("while", (TENSOR, TENSOR, BOOL), **more)[:2]

    def plain(x: torch.Tensor) -> Any:
        last, go = x, bool(x.sum() < 20)
        while go:
            x, last = x * 2, x
            go = bool(x.sum() < 20)
        return x, last

    return whole("until_told", make, plain, [1.0, 2.0, 3.0], [30.0, -2.0], [12.0, 1.0, 0.5, 0.5], [0.1, 0.2])


def hands_on() -> Program:
    """A loop that is given one thing four times, keeps one of them, and in the end has another in its place."""
    condition_of = {"x": TENSOR, "n": INT, "last": TENSOR, "kept": TENSOR, "w": TENSOR, "v": TENSOR}
    condition = inner("condition", lambda b, x, n, last, kept, w, v: b.scalar_less(x=n, y=2), **condition_of)

    def turn(b: Lines, x: Value, n: Value, last: Value, kept: Value, w: Value, v: Value) -> Any:
        return b.multiply(x=x, y=v), b.scalar_add(x=n, y=1), w, kept

    body = inner("body", turn, **condition_of)

    def make(b: Lines, x: Value) -> Any:
        start = b.decides("greater", b.sum(x=x), 0)
        then = inner("then", lambda b: (0,))
        otherwise = inner("otherwise", lambda b: (5,))
        (n,) = b.branch("cond", (INT,), condition=start, then=then, otherwise=otherwise, operands=())
        more = {"condition": condition, "body": body, "carried": (x, n, x, x), "operands": (x, x)}
        return b.branch("while", (TENSOR, INT, TENSOR, TENSOR), **more)

    def plain(x: torch.Tensor) -> Any:
        w = last = kept = x
        n = 0 if x.sum() > 0 else 5
        while n < 2:
            x, n, last = x * w, n + 1, w
        return x, n, last, kept

    return whole("hands_on", make, plain, [1.0, 2.0, 3.0], [-3.0, 1.0], [2.0, 0.5], [0.5, 0.25, -0.25, 0.0])


def programs() -> dict[str, Program]:
    """All of them by name."""
    made = (grows, chooses, keeps, decides_in_a_loop, loops_in_a_side, asks_for_the_size, until_told, hands_on)
    return {make.__name__: make() for make in made}


def flat(found: Any) -> list[Any]:
    """The tensors and numbers in what a program gives, in order."""
    if isinstance(found, dict):
        found = list(found.values())
    return [each for item in found for each in flat(item)] if isinstance(found, list | tuple) else [found]


def same_bits(found: Any, expected: Any) -> None:
    """Both have the same types, dtypes, numbers and bits."""
    for own, other in zip(flat(found), flat(expected), strict=True):
        assert type(own) is type(other)
        if isinstance(other, torch.Tensor):
            assert own.dtype == other.dtype
            assert torch.equal(own, other)
        else:
            assert own == other


def close(found: Any, expected: Any) -> None:
    """Arrays of any framework and numbers differ by rounding at most."""
    for own, other in zip(flat(found), flat(expected), strict=True):
        np.testing.assert_allclose(np.asarray(own), np.asarray(other), rtol=1e-5, atol=1e-6)
