"""After foreign code: what it returned or was given is looked into natively, and nothing else becomes opaque."""

from __future__ import annotations

import collections
import datetime
import types
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
    assert [str(node) for node in trace.nodes if node.opaque][1:] == []
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


def test_a_dict_with_devices_as_keys() -> None:
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
    assert [node.text for node in trace.nodes if node.opaque] == []
    assert pijit.status(fast).state == "replaying"


class Plain:
    """Its attributes are inline values until somebody asks for its `__dict__`."""

    x: int
    i: Plain

    def __init__(self, x: int = 1) -> None:
        self.x = x


def itself() -> Plain:
    plain = Plain()
    vars(plain)
    plain.i = plain
    return plain


def its_dict() -> Plain:
    plain = Plain()
    plain.i = Plain()
    plain.i.__dict__ = vars(plain)
    return plain


def one_dict() -> Plain:
    plain = Plain()
    plain.i, plain.l = Plain(), Plain()  # type: ignore[attr-defined]
    plain.l.__dict__ = vars(plain.i)  # type: ignore[attr-defined]
    return plain


@pytest.mark.parametrize("make", [itself, its_dict, one_dict])
def test_an_argument_that_reaches_itself(make: Callable[[], Plain]) -> None:
    def write(plain: Plain) -> int:
        plain.i = plain.i
        plain.i.x += 1
        return plain.x

    fast, kept = pijit.jit(write), []
    for _ in range(8):
        kept.append((make(), make()))
        assert fast(kept[-1][0]) == write(kept[-1][1])
        assert vars(kept[-1][0]).keys() == vars(kept[-1][1]).keys()


one, current = Plain(), Plain()


@pijit.opaque
def get_current() -> Plain:
    return current


def write_found(_: Plain, n: int) -> Any:
    found = get_current()
    found.x = n
    return one.x


def write_argument(plain: Plain, n: int) -> Any:
    plain.x = n
    return one.x


def add_attribute(plain: Plain, n: int) -> Any:
    plain.y = n  # type: ignore[attr-defined]
    return hasattr(one, "y")


def delete_attribute(plain: Plain, n: int) -> Any:
    del plain.x
    return hasattr(one, "x")


@pytest.mark.parametrize("varies", [False, True])
@pytest.mark.parametrize("call", [write_found, write_argument, add_attribute, delete_attribute])
def test_an_instance_with_inline_values_under_two_names(call: Callable[..., Any], varies: bool) -> None:
    global one, current
    # A class that has given its attributes in another order no longer keeps them inline.
    made = Plain if call is write_found else type("Plain", (Plain,), {})
    fast, replays = pijit.jit(call), pijit.stats()["replays"]
    results: dict[Any, list[Any]] = {call: [], fast: []}
    for function, said in results.items():
        one = made()
        for n in range(12):
            one.__init__(n if varies else 1)  # type: ignore[misc]
            current = one if n % 8 > 5 else made()
            said.append(function(current, n + 20))
            if hasattr(one, "y"):
                del one.y
    assert results[fast] == results[call]
    assert pijit.stats()["replays"] > replays


shared = {"a": 1}


def test_a_dict_with_an_item_that_varies_under_two_names() -> None:
    def write(table: dict[str, int], n: int) -> int:
        table["a"] = n
        return shared["a"]

    fast = pijit.jit(write)
    for n in range(16):
        shared["a"] = n * 7
        assert fast(shared if n % 8 > 5 else {"a": 5}, n) == (n if n % 8 > 5 else n * 7)
    assert pijit.status(fast).state == "replaying"


closed: list[str] = []


def numbers() -> Iterator[int]:
    try:
        yield 1
        yield 2
    finally:
        closed.append("closed")


def delegating() -> Iterator[int]:
    yield from numbers()


class Closed:
    def __iter__(self) -> Closed:
        return self

    def __next__(self) -> int:
        return 1

    def close(self) -> None:
        closed.append("closed by its name")


def over_object() -> Iterator[int]:
    yield from Closed()


@pytest.mark.parametrize("make", [numbers, delegating, over_object])
def test_a_generator_that_dies_with_the_frame_is_closed(make: Callable[[], Iterator[int]]) -> None:
    def begin() -> int:
        generator = make()
        return next(generator)

    fast = pijit.jit(begin)
    for n in range(6):
        assert fast() == 1
        assert len(closed) == n + 1
    closed.clear()


def test_values_that_are_equal_but_differ() -> None:
    noon = datetime.datetime(2020, 1, 1, 12, tzinfo=datetime.UTC)
    one_later = datetime.timezone(datetime.timedelta(hours=1), "later")
    here, there = noon, noon.astimezone(one_later)
    assert here == there

    def hours(times: dict[Any, int] | list[Any]) -> list[int]:
        return [time.hour for time in times]

    for make in (lambda time: {time: 1}, lambda time: [time]):
        fast = pijit.jit(hours)
        assert [fast(make(time)) for time in (here, here, here, there, here)] == [[12], [12], [12], [13], [12]]

    def names(times: dict[Any, int]) -> list[str]:
        return [zone.tzname(None) for zone, _ in times]

    fast = pijit.jit(names)
    zones = [datetime.timezone(datetime.timedelta(0), name) for name in "AAAB"]
    assert [fast({(zone, 1): 1}) for zone in zones] == [["A"], ["A"], ["A"], ["B"]]


reshape: Callable[[Any], None] | None = None


@pijit.opaque
def touch(container: Any) -> None:
    if reshape is not None:
        reshape(container)


def grow(container: Any) -> None:
    if isinstance(container, dict):
        container["new"] = 1
    elif isinstance(container, set):
        container.add("new")
    else:
        container.append("new")


def shrink(container: Any) -> None:
    container.popitem() if isinstance(container, dict) else container.pop()


ITERATED: dict[str, tuple[Callable[[list[str]], Any], Callable[[Any], Any]]] = {
    "dict": (dict.fromkeys, iter),
    "keys": (dict.fromkeys, lambda table: iter(table.keys())),
    "values": (dict.fromkeys, lambda table: iter(table.values())),
    "items": (dict.fromkeys, lambda table: iter(table.items())),
    "proxy": (dict.fromkeys, lambda table: iter(types.MappingProxyType(table))),
    "ordered": (collections.OrderedDict.fromkeys, iter),
    "ordered items": (collections.OrderedDict.fromkeys, lambda table: iter(table.items())),
    "set": (set, iter),
    "deque": (collections.deque, iter),
    "enumerate": (dict.fromkeys, enumerate),
    "zip": (dict.fromkeys, lambda table: zip(range(9), table, strict=False)),
    "map": (set, lambda table: map(str, table)),
    "generator": (dict.fromkeys, lambda table: (key for key in table)),
}
KEPT: list[Any] = []


@pytest.mark.parametrize("change", [grow, shrink])
@pytest.mark.parametrize("first", [1, 2, 4])
@pytest.mark.parametrize("given", ["argument", "global", "made"])
@pytest.mark.parametrize("kind", ITERATED)
def test_what_foreign_code_reshapes_while_it_is_iterated_over(
    kind: str, given: str, first: int, change: Callable[[Any], None]
) -> None:
    """The iterator knows how long its container was, whoever made the two."""
    global reshape
    make, iterator_of = ITERATED[kind]

    def items(argument: Any) -> list[str]:
        container = make(["a", "b"]) if given == "made" else KEPT[0] if given == "global" else argument
        said = []
        try:
            for item in iterator_of(container):
                said.append(str(item))
                touch(container)
        except RuntimeError as error:
            said.append(f"{error} at {error.__traceback__.tb_lineno}")  # type: ignore[union-attr]
        return said

    def run(function: Callable[[Any], list[str]]) -> list[list[str]]:
        global reshape
        answers = []
        for call in range(7):
            reshape = change if call in (first, first + 1) else None
            KEPT[:] = [make(["a", "b"])]
            answers.append(function(make(["a", "b"])))
        reshape = None
        return answers

    assert run(pijit.jit(items)) == run(items)


class Dying:
    def __del__(self) -> None:
        global deaths
        deaths += 1


deaths, make_one = 0, int


@pijit.opaque
def make_something() -> Any:
    return make_one()


def test_a_result_that_nobody_takes_has_a_finalizer() -> None:
    global make_one

    def drop() -> int:
        make_something()
        return deaths

    fast = pijit.jit(drop)
    assert [fast() for _ in range(3)] == [0] * 3
    make_one = Dying  # type: ignore[assignment]
    try:
        assert fast() == 1
    finally:
        make_one = int


@pytest.mark.parametrize("depth", [1500, 3000, 200_000])
def test_objects_that_hold_one_another_deeply(depth: int) -> None:
    def chain() -> list[Any]:
        held: list[Any] = []
        for _ in range(depth):
            held = [held]
        make_something()
        return held

    fast = pijit.jit(chain)
    for _ in range(4):
        held, seen = fast(), 0
        while held:
            (held,) = held
            seen += 1
        assert seen == depth
