"""Guards on what stands in a place: each kind of value in each kind of place, changed between two calls."""

from __future__ import annotations

import collections
import contextvars
import functools
import math
import types
from collections.abc import Callable
from typing import Any

import pytest
from guard_changes import MISSING, Key, Level, Mine, Number, put, same
from observe import Describer

import pijit


def one() -> str:
    return "one"


def two() -> str:
    return "two"


FIRST, SECOND = Mine(), Mine()

CHANGES: dict[str, tuple[object, object]] = {
    "int_other": (1, 2),
    "int_bool": (1, True),
    "int_float": (1, 1.0),
    "int_subclass": (1, Number(1)),
    "int_enum": (1, Level.LOW),
    "int_big": (2**70, 2**70 + 1),
    "int_word": (2**63 - 1, 2**63),
    "int_hash": (2**61 - 1, 0),
    "bool": (True, False),
    "zero": (0.0, -0.0),
    "nan": (math.nan, -math.nan),
    "infinity": (math.inf, -math.inf),
    "complex": (complex(0.0, 0.0), complex(0.0, -0.0)),
    "complex_nan": (complex(math.nan, 0.0), complex(math.nan, -0.0)),
    "str": ("a", "b"),
    "str_subclass": ("a", Key("a")),
    "bytes": (b"a", b"b"),
    "none": (None, 0),
    "tuple": ((1, 2), (1, True)),
    "tuple_zero": ((0.0,), (-0.0,)),
    "tuple_deep": (((1, (2.0,)),), ((1, (2,)),)),
    "tuple_object": ((FIRST,), (SECOND,)),
    "frozenset": (frozenset({1}), frozenset({True})),
    "range": (range(3), range(4)),
    "list": ([1], [1]),
    "dict": ({"a": 1}, {"a": 1}),
    "object": (FIRST, SECOND),
    "function": (one, two),
    "type": (int, bool),
    "missing": (1, MISSING),
    "ellipsis": (..., NotImplemented),
}

Place = tuple[Callable[[], Any], Callable[[Any], None]]
PLACES: dict[str, Callable[[Any], Place]] = {}


def place(make: Callable[[Any], Place]) -> Callable[[Any], Place]:
    PLACES[make.__name__.strip("_")] = make
    return make


def put_attribute(thing: Any, name: str, value: object) -> None:
    if value is MISSING:
        delattr(thing, name)
    else:
        setattr(thing, name, value)


@place
def global_(value: Any) -> Place:
    space: dict[str, Any] = {"v": value}
    exec("def f(): return v", space)  # noqa: S102
    return space["f"], lambda new: put(space, "v", new)


@place
def cell(value: Any) -> Place:
    def f() -> Any:
        return value

    def change(new: Any) -> None:
        nonlocal value
        if new is MISSING:
            del value
        else:
            value = new

    return f, change


@place
def inline_attribute(value: Any) -> Place:
    thing = Mine()
    thing.v = value
    return lambda: thing.v, lambda new: put_attribute(thing, "v", new)


@place
def dict_attribute(value: Any) -> Place:
    thing = Mine()
    thing.v = value
    assert thing.__dict__
    return lambda: thing.v, lambda new: put_attribute(thing, "v", new)


@place
def class_attribute(value: Any) -> Place:
    class C:
        v = value

    return lambda: C.v, lambda new: put_attribute(C, "v", new)


@place
def attribute_of_base(value: Any) -> Place:
    class A:
        pass

    class C(A):
        pass

    A.v = staticmethod(value) if isinstance(value, types.FunctionType) else value
    thing = C()
    return lambda: thing.v, lambda new: put_attribute(A, "v", new)


@place
def attribute_of_metaclass(value: Any) -> Place:
    class M(type):
        pass

    class C(metaclass=M):
        pass

    M.v = staticmethod(value) if isinstance(value, types.FunctionType) else value
    return lambda: C.v, lambda new: put_attribute(M, "v", new)


@place
def slot(value: Any) -> Place:
    class C:
        __slots__ = ("v",)

    thing = C()
    thing.v = value
    return lambda: thing.v, lambda new: put_attribute(thing, "v", new)


@place
def module_attribute(value: Any) -> Place:
    module = types.ModuleType("m")
    module.v = value
    return lambda: module.v, lambda new: put_attribute(module, "v", new)


@place
def function_attribute(value: Any) -> Place:
    def g() -> None: ...

    g.v = value
    return lambda: g.v, lambda new: put_attribute(g, "v", new)


@place
def getattr_default(value: Any) -> Place:
    thing = Mine()
    thing.v = value
    return lambda: (getattr(thing, "v", "gone"), hasattr(thing, "v")), lambda new: put_attribute(thing, "v", new)


@place
def nested_attribute(value: Any) -> Place:
    thing = Mine()
    thing.inner = Mine()
    thing.inner.v = value
    return lambda: thing.inner.v, lambda new: put_attribute(thing.inner, "v", new)


@place
def list_item(value: Any) -> Place:
    items = [0, value]
    return lambda: items[1], lambda new: put(items, 1, new)


@place
def list_last(value: Any) -> Place:
    items = [0, value]
    return lambda: (items[-1], len(items)), lambda new: put(items, 1, new)


@place
def list_iterated(value: Any) -> Place:
    items = [0, value]
    return lambda: [item for item in items], lambda new: put(items, 1, new)


@place
def list_unpacked(value: Any) -> Place:
    items = [0, value]

    def f() -> Any:
        a, b = items
        return b

    return f, lambda new: put(items, 1, new)


@place
def dict_value(value: Any) -> Place:
    table = {"k": value}
    return lambda: table["k"], lambda new: put(table, "k", new)


@place
def dict_get(value: Any) -> Place:
    table = {"k": value}
    return lambda: (table.get("k", "gone"), "k" in table), lambda new: put(table, "k", new)


@place
def dict_integer_key(value: Any) -> Place:
    table = {5: value}
    return lambda: table[5], lambda new: put(table, 5, new)


@place
def dict_iterated(value: Any) -> Place:
    table = {"k": value}
    return lambda: [(k, v) for k, v in table.items()], lambda new: put(table, "k", new)


@place
def dict_expanded(value: Any) -> Place:
    table = {"k": value}
    return lambda: dict(**table), lambda new: put(table, "k", new)


@place
def ordered_dict_value(value: Any) -> Place:
    table = collections.OrderedDict(k=value)
    return lambda: (table.get("k"), list(table.values())), lambda new: put(table, "k", new)


@place
def deque_item(value: Any) -> Place:
    items = collections.deque([value])
    return lambda: items[0], lambda new: put(items, 0, new)


@place
def default(value: Any) -> Place:
    def g(v: Any = value) -> Any:
        return v

    def change(new: Any) -> None:
        g.__defaults__ = None if new is MISSING else (new,)

    return lambda: g(), change


@place
def keyword_default(value: Any) -> Place:
    def g(*, v: Any = value) -> Any:
        return v

    return lambda: g(), lambda new: put(g.__kwdefaults__, "v", new)


@place
def own_default(value: Any) -> Place:
    holder: list[Any] = [value]

    def f(v: Any = None) -> Any:
        return v

    return lambda: f(*holder), lambda new: put(holder, 0, new)


@place
def keyword_of_partial(value: Any) -> Place:
    def g(v: Any = "gone") -> Any:
        return v

    call = functools.partial(g, v=value)
    return lambda: call(), lambda new: put(call.keywords, "v", new)


@place
def context_variable(value: Any) -> Place:
    var: contextvars.ContextVar[Any] = contextvars.ContextVar("var")
    tokens = [var.set(value)]
    return lambda: var.get("gone"), lambda new: var.reset(tokens[0]) if new is MISSING else (var.set(new), None)[1]


@place
def set_member(value: Any) -> Place:
    try:
        hash(value)
    except TypeError:
        value = 0
    members = {value}

    def change(new: Any) -> None:
        members.clear()
        if new is not MISSING:
            members.update([new] if new.__hash__ else [])

    return lambda: [member for member in members], change


@place
def property_(value: Any) -> Place:
    class C:
        @property
        def v(self) -> Any:
            return self.hidden

    thing = C()
    thing.hidden = value
    return lambda: thing.v, lambda new: put_attribute(thing, "hidden", new)


@place
def used_in_arithmetic(value: Any) -> Place:
    thing = Mine()
    thing.v = value
    return lambda: (thing.v + thing.v, thing.v == 1, not thing.v), lambda new: put_attribute(thing, "v", new)


@place
def used_in_branch(value: Any) -> Place:
    items = [value]
    return lambda: "true" if items[0] else "false", lambda new: put(items, 0, new)


@place
def used_in_type(value: Any) -> Place:
    items = [value]
    return lambda: (type(items[0]), isinstance(items[0], (int, str))), lambda new: put(items, 0, new)


@place
def used_as_key(value: Any) -> Place:
    items = [value]
    table = {1: "one", "a": "letter", (1, 2): "pair", None: "none"}
    return lambda: table.get(items[0], "none") if items[0].__hash__ else 0, lambda new: put(items, 0, new)


@place
def used_in_text(value: Any) -> Place:
    items = [value]
    return lambda: f"{items[0] if isinstance(items[0], (int, float, str, complex)) else 0!r}", lambda new: put(
        items, 0, new
    )


@pytest.mark.filterwarnings("ignore:NotImplemented")
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("where", PLACES)
def test_place(where: str, change: str) -> None:
    first, second = CHANGES[change]

    def make() -> tuple[Any, ...]:
        function, put_value = PLACES[where](first)
        return function, lambda: put_value(second), lambda: put_value(first)

    same(make, replayed=False)


@pytest.mark.parametrize("where", sorted(set(PLACES) - {"deque_item"}))
def test_place_is_replayed(where: str) -> None:
    def make() -> tuple[Any, ...]:
        function, put_value = PLACES[where](1)
        return function, lambda: put_value(2)

    same(make, after=True)


@pytest.mark.parametrize("change", sorted(set(CHANGES) - {"missing"}))
def test_argument(change: str) -> None:
    """An argument, and what is in one."""
    first, second = CHANGES[change]

    def f(bare: Any, items: list[Any], table: dict[str, Any], thing: Any, pair: tuple[Any, ...]) -> Any:
        return bare, items[0], table["k"], thing.v, pair[0], type(bare), bare == 1

    for which in range(5):
        jitted = pijit.jit(f)
        thing = Mine()
        for turn in (first, first, first, second, second, first, second):
            values = [first] * 5
            values[which] = turn
            thing.v = values[3]
            arguments = (values[0], [values[1]], {"k": values[2]}, thing, (values[4],))
            expected, actual = f(*arguments), jitted(*arguments)
            assert Describer()(actual) == Describer()(expected)
            for left, right in zip(actual, expected, strict=True):
                if not isinstance(left, (int, float, complex, str, bytes, tuple)):
                    assert left is right
