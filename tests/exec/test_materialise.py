"""Every kind of virtual object is built as CPython would have made it."""

from __future__ import annotations

import collections
import functools
import types
from types import ModuleType
from typing import Any

import pytest
from describe import const, entry, reg, returning, virtual


def function(x: Any) -> Any:
    return x


class Plain:
    pass


class Slots:
    __slots__ = ("a", "b")


class Mapping(collections.OrderedDict[Any, Any]):
    attr: int

    def __init__(self) -> None:
        raise AssertionError("user code")

    def __setitem__(self, key: Any, value: Any) -> None:
        raise AssertionError("user code")


class Made:
    def __new__(cls) -> Any:
        raise AssertionError("user code")


Pair = collections.namedtuple("Pair", ("a", "b"))


def run(probe: ModuleType, value: Any, virtuals: list[Any], log: list[Any], argument: Any = None) -> Any:
    made = [{"kind": kind, "type": type_} for kind, type_ in virtuals]
    probe.arm(function.__code__, returning(function, value, virtuals=made, log=log))
    result = function(argument)
    assert probe.disarm() == (1, 0)
    return result


def test_sequences(probe: ModuleType) -> None:
    items = [entry(0, "item", const(1)), entry(0, "item", reg(0))]
    assert run(probe, virtual(0), [("kTuple", tuple)], items, "x") == (1, "x")
    pair = run(probe, virtual(0), [("kTuple", Pair)], items, "x")
    assert type(pair) is Pair
    assert pair.b == "x"
    edits = [
        entry(0, "insert", const(0), index=0),
        entry(0, "setitem", const(5), index=2),
        entry(0, "delitem", index=1),
    ]
    assert run(probe, virtual(0), [("kList", list)], items + edits, "x") == [0, 5]
    assert run(probe, virtual(0), [("kList", list)], [*items, entry(0, "clear"), *items], "x") == [1, "x"]


def test_mappings_and_sets(probe: ModuleType) -> None:
    log = [
        entry(0, "setitem", const(1), const("b")),
        entry(0, "setitem", const(2), const("a")),
        entry(0, "setitem", const(3), const("c")),
        entry(0, "delitem", None, const("b")),
        entry(0, "setitem", reg(0), const("b")),
    ]
    plain = run(probe, virtual(0), [("kDict", dict)], log, "x")
    assert type(plain) is dict
    assert list(plain.items()) == [("a", 2), ("c", 3), ("b", "x")]
    ordered = run(probe, virtual(0), [("kDict", collections.OrderedDict)], log, "x")
    assert type(ordered) is collections.OrderedDict
    assert list(ordered) == ["a", "c", "b"]
    own = run(probe, virtual(0), [("kInstance", Mapping)], [*log, entry(0, "setattr", const(1), const("attr"))], "x")
    assert type(own) is Mapping
    assert list(own.items()) == [("a", 2), ("c", 3), ("b", "x")]
    assert own.attr == 1
    items = [entry(0, "item", const(1)), entry(0, "item", const(2)), entry(0, "item", const(1))]
    frozen = run(probe, virtual(0), [("kSet", frozenset)], items)
    assert type(frozen) is frozenset
    assert frozen == {1, 2}
    assert run(probe, virtual(0), [("kSet", set)], [*items, entry(0, "delitem", None, const(1))]) == {2}


def test_instances(probe: ModuleType) -> None:
    log = [entry(0, "setattr", reg(0), const("a")), entry(0, "setattr", const(2), const("b"))]
    made = run(probe, virtual(0), [("kInstance", Plain)], [*log, entry(0, "delattr", None, const("b"))], "x")
    assert type(made) is Plain
    assert vars(made) == {"a": "x"}
    slots = run(probe, virtual(0), [("kInstance", Slots)], log, "x")
    assert (slots.a, slots.b) == ("x", 2)
    assert type(run(probe, virtual(0), [("kInstance", Made)], [])) is Made


def test_functions_hold_themselves(probe: ModuleType) -> None:
    def outer() -> Any:
        def inner(n: int, step: int = 1, *, stop: int = 0) -> int:
            return n if n <= stop else inner(n - step)

        return inner

    code = outer().__code__
    fields = [code, globals(), "q.inner", (2,), {"stop": 1}, ("n", int)]
    log = [entry(0, "field", const(value), index=i) for i, value in enumerate(fields)]
    log += [
        entry(1, "item", virtual(2)),
        entry(2, "field", const("earlier")),
        entry(0, "field", virtual(1), index=6),
        entry(0, "setattr", const("x"), const("extra")),
        entry(2, "field", virtual(0)),
    ]
    made = run(
        probe, virtual(0), [("kFunction", types.FunctionType), ("kTuple", tuple), ("kCell", types.CellType)], log
    )
    assert made(9) == 1
    assert made.__qualname__ == "q.inner"
    assert made.extra == "x"
    assert made.__annotations__ == {"n": int}
    assert made.__closure__[0].cell_contents is made
    assert made.__module__ == __name__


def test_bound_things(probe: ModuleType) -> None:
    def fields(*values: Any) -> list[Any]:
        return [entry(0, "field", value, index=i) for i, value in enumerate(values)]

    assert run(probe, virtual(0), [("kBoundMethod", types.MethodType)], fields(const(function), reg(0)), 3)() == 3
    append = run(probe, virtual(0), [("kBuiltinMethod", None)], fields(const(list.append), reg(0)), numbers := [1])
    assert append(2) is None
    assert numbers == [1, 2]
    of_class = run(
        probe,
        virtual(0),
        [("kBuiltinMethod", None)],
        fields(const(dict.__dict__["fromkeys"]), const(Mapping.__mro__[2])),
    )
    assert of_class("a") == {"a": None}
    assert run(probe, virtual(0), [("kSlice", slice)], fields(const(1), reg(0), const(None)), 4) == slice(1, 4, None)
    above = run(probe, virtual(0), [("kSuper", super)], fields(const(Plain), reg(0)), it := Plain())
    assert above.__self__ is it
    assert above.__thisclass__ is Plain
    part = run(
        probe, virtual(0), [("kPartial", functools.partial)], fields(const(int), const(("11",)), const({"base": 2}))
    )
    assert part() == 3
    assert part.args == ("11",)
    assert part.keywords == {"base": 2}
    data = {"a": 1}
    for type_, view in ((type({}.keys()), data.keys()), (type({}.items()), data.items())):
        assert run(probe, virtual(0), [("kView", type_)], fields(reg(0)), data) == view
    assert list(run(probe, virtual(0), [("kView", type({}.values()))], fields(reg(0)), data)) == [1]
    proxy = run(probe, virtual(0), [("kView", types.MappingProxyType)], fields(reg(0)), data)
    assert type(proxy) is types.MappingProxyType
    assert proxy == data


@pytest.mark.parametrize("items", [[1, 2, 3], (1, 2, 3), range(1, 4), {1: 0, 2: 0, 3: 0}, "123", b"\1\2\3"], ids=type)
@pytest.mark.parametrize("position", [0, 2, 3, 4])
def test_iterators(probe: ModuleType, items: Any, position: int) -> None:
    for reverse in (False, True):
        if reverse and isinstance(items, str | bytes):
            continue
        expected = list(reversed(items) if reverse else items)[position:]
        log = [entry(0, "field", reg(0)), entry(0, "field", const(int(reverse)), index=1)]
        log += [entry(0, "index", index=i) for i in range(1, position + 1)]
        iterator = run(probe, virtual(0), [("kIterator", None)], log, items)
        assert type(iterator) is type(reversed(items) if reverse else iter(items))
        assert list(iterator) == expected


def test_exhausted_list_iterator_stays_so(probe: ModuleType) -> None:
    numbers = [1]
    log = [entry(0, "field", reg(0)), entry(0, "index", index=2)]
    iterator = run(probe, virtual(0), [("kIterator", None)], log, numbers)
    numbers += [2, 3, 4]
    assert list(iterator) == []


def test_enumerate_and_zip(probe: ModuleType) -> None:
    kinds = [("kIterator", None), ("kEnumerate", enumerate), ("kZip", zip)]
    log = [entry(0, "field", reg(0)), entry(0, "index", index=1)]
    counted = [
        *log,
        entry(1, "field", virtual(0)),
        entry(1, "field", const(0), index=1),
        entry(1, "field", const(1), index=1),
    ]
    assert list(run(probe, virtual(1), kinds, counted, "abc")) == [(1, "b"), (2, "c")]
    zipped = [*log, entry(2, "item", virtual(0)), entry(2, "item", virtual(0))]
    assert list(run(probe, virtual(2), kinds, zipped, "abcde")) == [("b", "c"), ("d", "e")]


def test_aliases_and_cycles(probe: ModuleType) -> None:
    kinds = [("kList", list), ("kDict", dict), ("kTuple", tuple), ("kInstance", Plain)]
    log = [
        entry(2, "item", virtual(0)),
        entry(2, "item", virtual(1)),
        entry(2, "item", virtual(3)),
        entry(0, "item", virtual(2)),
        entry(1, "setitem", virtual(0), const("list")),
        entry(3, "setattr", virtual(3), const("me")),
    ]
    made = run(probe, virtual(2), kinds, log)
    assert made[0][0] is made
    assert made[1]["list"] is made[0]
    assert made[2].me is made[2]


def test_many_objects(probe: ModuleType) -> None:
    count = 100
    kinds = [("kList", list)] + [("kTuple", tuple)] * count
    log = [entry(i, "item", const(i)) for i in range(1, count + 1)]
    log += [entry(0, "item", virtual(1 + i % count)) for i in range(2 * count)]
    made = run(probe, virtual(0), kinds, log)
    assert [item[0] for item in made] == [*range(1, count + 1)] * 2
    assert made[0] is made[count]


def test_a_time_sees_what_was_before(probe: ModuleType) -> None:
    log = [entry(0, "item", const(i)) for i in range(5)]
    trace = returning(function, reg(1), virtuals=[{"kind": "kList", "type": list}], log=log, regs=2)
    trace["nodes"].insert(0, {"op": "kBuild", "a": virtual(0), "out": 1, "time": 2})
    probe.arm(function.__code__, trace)
    assert function(None) == [0, 1]
