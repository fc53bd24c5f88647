"""Dicts that are walked or copied, and named tuples: what takes the place of what was there is taken by kind."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch

import pijit

pytestmark = pytest.mark.torch

CALLS, MOST = 20, 3

kept: dict[str, Any] = {}


class Holder:
    def __init__(self) -> None:
        self.state: dict[str, Any] = {}


class Output(NamedTuple):
    logits: torch.Tensor
    loss: torch.Tensor | None = None


Pair = namedtuple("Pair", "first second")


def rows(function: Callable[..., Any], change: Callable[[int], tuple[Any, ...]], jitted: bool) -> tuple[list[Any], int]:
    """What the calls give, and how many were recorded."""
    torch.manual_seed(0)
    kept.clear()
    fast = pijit.jit(function) if jitted else function
    before = pijit.stats()["records"]
    found = [fast(*change(i)) for i in range(CALLS)]
    return found, pijit.stats()["records"] - before


def same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, (tuple, list)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return type(a) is type(b) and list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    return type(a) is type(b) and bool(a == b)


def check(function: Callable[..., Any], change: Callable[[int], tuple[Any, ...]], most: int = MOST) -> None:
    plain, none = rows(function, change, jitted=False)
    fast, records = rows(function, change, jitted=True)
    assert none == 0
    assert same(plain, fast)
    assert 0 < records <= most


def unpack_values(d: dict[str, Any]) -> Any:
    v, u = tuple(d.values())
    return v * 2 + u


def list_items(d: dict[str, Any]) -> Any:
    return [(key, value + 1) for key, value in list(d.items())]


def copy(d: dict[str, Any]) -> Any:
    other = dict(d)
    return other["v"] - other["u"]


def unpack(d: dict[str, Any]) -> Any:
    return {**d, "w": d["v"] * 3}


def method(d: dict[str, Any]) -> Any:
    other = d.copy()
    other["v"] = other["v"] + 1
    return other


def comprehension(d: dict[str, Any]) -> Any:
    return {key: value * 2 for key, value in d.items()}


def zipped(d: dict[str, Any]) -> Any:
    return [value + len(key) for key, value in zip(d.keys(), d.values())]


def loop(d: dict[str, Any]) -> Any:
    total = 0
    for key in d:
        total = total + d[key]
    return total if d else None


def updated(d: dict[str, Any]) -> Any:
    other: dict[str, Any] = {}
    other.update(d)
    return sum(other.values()), len(d)


WALKS = [unpack_values, list_items, copy, unpack, method, comprehension, zipped, loop, updated]


def replace(d: dict[str, Any], i: int) -> None:
    d["v"], d["u"] = torch.randn(3), torch.randn(3)


@pytest.mark.parametrize("walk", WALKS)
def test_a_dict_in_a_global(walk: Callable[[Any], Any]) -> None:
    check(lambda: walk(kept), lambda i: replace(kept, i) or ())


@pytest.mark.parametrize("walk", WALKS)
def test_a_dict_in_a_cell(walk: Callable[[Any], Any]) -> None:
    d: dict[str, Any] = {}
    check(lambda: walk(d), lambda i: replace(d, i) or ())


@pytest.mark.parametrize("walk", WALKS)
def test_a_dict_of_an_object(walk: Callable[[Any], Any]) -> None:
    holder = Holder()

    def change(i: int) -> tuple[Any, ...]:
        replace(holder.state, i)
        return ()

    check(lambda: walk(holder.state), change)


@pytest.mark.parametrize("walk", [walk for walk in WALKS if walk is not loop])
def test_an_ordered_dict(walk: Callable[[Any], Any]) -> None:
    d: OrderedDict[str, Any] = OrderedDict()
    check(lambda: walk(d), lambda i: replace(d, i) or ())


@pytest.mark.parametrize("walk", WALKS)
def test_numbers_beside_tensors(walk: Callable[[Any], Any]) -> None:
    def change(i: int) -> tuple[Any, ...]:
        kept["v"], kept["u"] = torch.randn(3), 0.5 + i
        return ()

    check(lambda: walk(kept), change)


def test_values_that_are_replaced_one_at_a_time() -> None:
    def change(i: int) -> tuple[Any, ...]:
        for key in ("a", "b", "c", "d", "e") if i == 0 else ("abcde"[i % 5],):
            kept[key] = torch.randn(3)
        return ()

    check(lambda: [value * 2 for value in kept.values()], change)


def test_keys_that_come_and_go() -> None:
    def change(i: int) -> tuple[Any, ...]:
        replace(kept, i)
        if i % 7 == 3:
            kept["w"] = torch.ones(3)
        if i % 7 == 5:
            kept.pop("w")
        if i == 12:
            kept["v"] = kept.pop("v")
        return ()

    check(lambda: ([*kept], [value * 2 for value in kept.values()]), change, most=8)


def test_values_of_other_types() -> None:
    def change(i: int) -> tuple[Any, ...]:
        replace(kept, i)
        if i % 6 == 4:
            kept["u"] = torch.ones(3, dtype=torch.float64)
        if i % 6 == 5:
            kept["u"] = i
        return ()

    check(lambda: {key: value * 2 for key, value in kept.items()}, change, most=8)


def test_the_same_tensor_twice() -> None:
    def change(i: int) -> tuple[Any, ...]:
        replace(kept, i)
        if i % 5 == 4:
            kept["u"] = kept["v"]
        return ()

    def write() -> Any:
        v, u = kept.values()
        v.add_(1)
        return v * 2, u * 3, v is u

    check(write, change, most=8)


def test_a_value_that_the_trace_writes() -> None:
    def change(i: int) -> tuple[Any, ...]:
        if i % 4 == 0:
            replace(kept, i)
        return ()

    def write() -> Any:
        before = [value + 1 for value in kept.values()]
        kept["v"] = kept["v"] * 2
        after = [value + 1 for value in kept.values()]
        kept["u"] = after[0]
        return before, after, dict(kept)

    check(write, change)


def test_a_value_that_is_written_before_the_walk() -> None:
    def change(i: int) -> tuple[Any, ...]:
        if i % 4 == 0:
            replace(kept, i)
        return ()

    def write() -> Any:
        kept["v"] = kept["v"] / 2
        return list(kept.items())

    check(write, change, most=4)


def test_a_tensor_that_a_global_has_too() -> None:
    other = torch.randn(3)

    def change(i: int) -> tuple[Any, ...]:
        replace(kept, i)
        if i == 0:
            other.fill_(1)
        if i % 6 == 5:
            kept["u"] = other
        return ()

    def write() -> Any:
        v, u = kept.values()
        u.add_(1)
        return v + other, u * 1

    check(write, change, most=8)


@pytest.mark.parametrize("make", [Output, Pair])
def test_an_argument_of_a_derived_class(make: Callable[..., Any]) -> None:
    def change(i: int) -> tuple[Any, ...]:
        return (make(torch.randn(3), torch.randn(3)),)

    def read(given: Any) -> Any:
        a, b = given
        return a * 2 + b, len(given), type(given).__name__, given

    check(read, change, most=1)


def test_a_named_tuple_in_a_container_and_on_an_object() -> None:
    holder = Holder()

    def change(i: int) -> tuple[Any, ...]:
        holder.state = {"out": Output(torch.randn(3))}
        return ([Output(torch.randn(3), torch.randn(3))],)

    def read(given: Any) -> Any:
        first = given[0]
        return first._replace(loss=first.loss * 2), first.logits + holder.state["out"].logits, first[1:]

    check(read, change)


def test_fields_of_another_kind() -> None:
    def change(i: int) -> tuple[Any, ...]:
        return (Output(torch.randn(3), torch.randn(()) if i % 3 == 2 else None),)

    def read(output: Output) -> Any:
        return output.logits * 2 if output.loss is None else output.logits * output.loss

    check(read, change, most=2)


class Counted:
    def __init__(self) -> None:
        self.right, self.seen, self.total = 0, 0, 0.0

    def add(self, output: Output, targets: torch.Tensor) -> None:
        self.right += (output.logits.argmax(-1) == targets).sum().item()
        self.total += output.logits.mean().item() * len(targets)
        self.seen += len(targets)


def test_counters_of_new_objects() -> None:
    counters: list[Counted] = []

    def change(i: int) -> tuple[Any, ...]:
        if i % 5 == 0:
            counters.append(Counted())
        size = 4 if i % 5 == 4 else 8
        return counters[-1], Output(torch.randn(size, 3)), torch.randint(3, (size,))

    def add(counter: Counted, output: Output, targets: torch.Tensor) -> Any:
        counter.add(output, targets)
        return counter.right, counter.total, counter.seen

    check(add, change, most=6)


@pytest.mark.parametrize("odd", ["__iter__", "__getitem__", "__len__", "__eq__", "__bool__"])
def test_a_class_that_does_not_do_as_tuples_do(odd: str) -> None:
    methods: dict[str, Any] = {
        "__iter__": lambda self: iter((1, 2)),
        "__getitem__": lambda self, at: 5,
        "__len__": lambda self: 7,
        "__eq__": lambda self, other: True,
        "__bool__": lambda self: False,
    }
    kind = type("Odd", (tuple,), {"__slots__": (), odd: methods[odd], "__hash__": None})

    def change(i: int) -> tuple[Any, ...]:
        return (kind((2.5 + i, 2)),)

    def read(given: Any) -> Any:
        return [value * 2 for value in given], given[1], len(given), bool(given), given == (given[0],)

    check(read, change, most=CALLS)


def test_a_class_that_is_changed() -> None:
    kind = type("Changed", (tuple,), {"__slots__": ()})

    def change(i: int) -> tuple[Any, ...]:
        if i == CALLS // 2:
            kind.__len__ = lambda self: 9  # type: ignore[attr-defined]
        if i == 0 and hasattr(kind, "__len__") and "__len__" in vars(kind):
            del kind.__len__  # type: ignore[attr-defined]
        return (kind((torch.randn(3), 2)),)

    check(lambda given: (len(given), given[0] * 2), change, most=CALLS)
