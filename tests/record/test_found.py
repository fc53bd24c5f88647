"""After foreign code: what it returned or was given is looked into natively, and nothing else becomes opaque."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import pijit


class Box:
    def __init__(self, n: int) -> None:
        self.items = [n, 2]
        self.table = {"n": n}

    def __iter__(self) -> Iterator[int]:
        return iter(self.items)

    def __iadd__(self, n: int) -> Box:
        self.items.append(n)
        self.table["n"] += 1
        return self

    def total(self) -> int:
        total = self.table["n"]
        for x in self:
            total += x
        return total


@pijit.opaque
def made(n: int) -> Box:
    return Box(n)


@pijit.opaque
def see(box: Box) -> None:
    box.items.append(1)


known = Box(3)


@pijit.opaque
def get_known() -> Box:
    return known


def of_a_result(n: int) -> int:
    box = made(n)
    box += 3
    return box.total()


def of_an_operand(n: int) -> int:
    box = Box(n)
    box += 1
    see(box)
    box += 3
    return box.total()


def of_one_met_before(n: int) -> int:
    first = known.total()
    return first + get_known().total() + n


@pytest.mark.parametrize("function", [of_a_result, of_an_operand, of_one_met_before], ids=lambda f: f.__name__)
def test_one_call_is_opaque(function: Callable[[int], Any]) -> None:
    fast = pijit.jit(function)
    for n in (1, 1, 1):
        assert fast(n) == function(n)
    (trace,) = pijit.traces(fast)
    assert [str(node) for node in trace.nodes if "opaque" in str(node)][1:] == []
    assert pijit.status(fast).state == "replaying"


def test_attributes_that_nobody_looks_at_may_be_anything() -> None:
    kinds = iter([None, 1, "a", [1], {}, 2.5])

    @pijit.opaque
    def get() -> Box:
        box = Box(1)
        box.other = next(kinds)
        return box

    def f() -> int:
        box = get()
        return box.total()

    fast = pijit.jit(f)
    assert [fast() for _ in range(6)] == [4] * 6
    assert len(pijit.traces(fast)) == 1


total = 1


def write_both(names: dict[str, Any], n: int) -> tuple[int, int, int]:
    global total
    total = n
    first = names["total"]
    names["total"] = first + 1
    return first, total, names["total"]


def test_an_argument_that_is_the_globals() -> None:
    fast = pijit.jit(write_both)
    for n in range(12):
        results = [call(globals() if n // 4 == 1 else {"total": 3}, n) for call in (write_both, fast)]
        assert results[0] == results[1]
    assert len(pijit.traces(fast)) == 1


def test_a_table_that_grows_is_not_recorded_again_and_again() -> None:
    table: dict[int, int] = {}

    @pijit.opaque
    def get() -> dict[int, int]:
        table[len(table)] = 1
        return table

    fast = pijit.jit(lambda: get()[0])
    records = pijit.stats()["records"]
    assert [fast() for _ in range(8)] == [1] * 8
    assert pijit.stats()["records"] - records == 1


def test_a_dict_with_devices_as_keys_needs_one_opaque_call() -> None:
    torch = pytest.importorskip("torch")
    tensors = [torch.ones(2), torch.ones(3)]

    def of_each_device() -> list[Any]:
        made = {}
        for (device, dtype), ([group], _) in group_tensors([tensors], False).items():
            made[device, dtype] = [x + 1 for x in group]
        return made[torch.device("cpu"), torch.float32]

    group_tensors = torch._C._group_tensors_by_device_and_dtype
    fast = pijit.jit(of_each_device)
    for _ in range(4):
        assert all(torch.equal(a, b) for a, b in zip(fast(), of_each_device(), strict=True))
    (trace,) = pijit.traces(fast)
    assert len([node for node in trace.nodes if "opaque" in str(node)]) == 1
    assert pijit.status(fast).state == "replaying"
