"""Guards: whatever a trace relied on is changed between two calls, and the next call sees it.

The matrix at the top puts each kind of value into each kind of place; the tests below are the known ways in which
guards go missing.
"""

from __future__ import annotations

import collections
import contextvars
import enum
import functools
import itertools
import math
import os
import subprocess
import sys
import types
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from observe import Describer

import pijit
from pijit import _core, api

MISSING = object()


def replays(function: object) -> int:
    return _core.root_report(api.root_of(function))["replays"]


def records(function: object) -> int:
    return _core.root_report(api.root_of(function))["records"]


def outcome(function: Callable[..., Any], *arguments: object) -> str:
    """What a call gives, described."""
    try:
        return "returned " + Describer()(function(*arguments))
    except Exception as error:
        return f"raised {type(error).__name__} {error.args!r}"


def same(make: Callable[[], tuple[Any, ...]], *, replayed: bool = True, after: bool = False) -> Any:
    """`make()` gives a function and changes: called three times before the first and after each, plain and jitted.

    `replayed`: the calls before the first change must be replayed; `after`: and those after the last.
    """
    seen = []
    for jit in (lambda function: function, pijit.jit):
        function, *changes = make()
        function = jit(function)
        results = [[outcome(function) for _ in range(3)]]
        if jit is pijit.jit and replayed:
            assert replays(function) >= 1, _core.root_report(api.root_of(function))
        for change in changes:
            change()
            before = replays(function) if jit is pijit.jit else 0
            results.append([outcome(function) for _ in range(3)])
        if jit is pijit.jit and after:
            assert replays(function) > before, _core.root_report(api.root_of(function))
        seen.append(results)
    assert seen[1] == seen[0]
    return function


# ----------------------------------------------------------------------------------------------------------- the matrix


class Mine:
    """An instance to hold and to be held."""


class Key(str):
    __slots__ = ()


class Number(int):
    def __add__(self, other: object) -> str:
        return "mine"


class Level(enum.IntEnum):
    LOW = 1


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


def put(container: Any, key: Any, value: object) -> None:
    if value is MISSING:
        del container[key]
    elif hasattr(container, "insert") and key == len(container):  # put back
        container.append(value)
    else:
        container[key] = value


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


# ------------------------------------------------------------------------------------------------ functions and classes


def test_global_function_rebound() -> None:
    space: dict[str, Any] = {}
    exec("def g(): return 1\ndef h(): return [2]\ndef f(): return g()", space)  # noqa: S102
    old, new = space["g"], space["h"]

    def make() -> tuple[Any, ...]:
        space["g"] = old
        return space["f"], lambda: space.update(g=new), lambda: space.update(g=old), lambda: space.pop("g")

    same(make)


def test_builtin_shadowed_and_builtins_changed() -> None:
    space: dict[str, Any] = {"__builtins__": {"len": len, "abs": abs}}
    exec("def f(): return len('abc'), abs(-1)", space)  # noqa: S102

    def make() -> tuple[Any, ...]:
        space["__builtins__"]["len"] = len
        return (
            space["f"],
            lambda: space["__builtins__"].update(len=lambda text: "mine"),
            lambda: space.update(len=lambda text: "shadow"),
            lambda: space.pop("len"),
        )

    same(make)


@pytest.mark.parametrize("bound", [False, True])
def test_code_replaced(bound: bool) -> None:
    def make() -> tuple[Any, ...]:
        class C:
            def m(self, k: int = 1) -> Any:
                return k

        def other(self: Any, k: int = 1) -> Any:
            return [k, "other"]

        def more(self: Any, k: int = 1, *rest: int, key: int = 3, **names: int) -> Any:
            return k, rest, key, names

        thing = C()
        method = thing.m
        return (
            (lambda: method()) if bound else (lambda: thing.m()),
            lambda: setattr(C.m, "__code__", other.__code__),
            lambda: setattr(C.m, "__code__", more.__code__),
            lambda: setattr(C.m, "__kwdefaults__", {"key": 4}),
        )

    same(make)


def test_own_code_replaced() -> None:
    """Whoever replaces the code of the jitted function gets the new code, and the old one back."""

    def f() -> int:
        return 1

    def g() -> int:
        return 2

    jitted = pijit.jit(f)
    assert [jitted() for _ in range(3)] == [1, 1, 1]
    first = jitted.__code__
    jitted.__code__ = g.__code__
    assert [jitted() for _ in range(3)] == [2, 2, 2]
    jitted.__code__ = first
    assert [jitted() for _ in range(3)] == [1, 1, 1]
    assert f() == 1


def test_defaults() -> None:
    def make() -> tuple[Any, ...]:
        def g(a: int, b: int = 2, *, c: int = 3) -> Any:
            return a, b, c

        def drop() -> None:
            g.__defaults__ = None
            g.__kwdefaults__ = None

        return (
            lambda: g(1),
            lambda: setattr(g, "__defaults__", (5,)),
            lambda: setattr(g, "__kwdefaults__", {"c": 6}),
            lambda: g.__kwdefaults__.update(c=7),
            lambda: setattr(g, "__defaults__", (8, 9)),
            drop,
        )

    same(make)


def test_shared_cell() -> None:
    def make() -> tuple[Any, ...]:
        count = [0]
        shared = 1

        def bump() -> None:
            nonlocal shared
            shared += 1

        def read() -> int:
            return shared

        return lambda: (read(), shared, count[0]), bump, bump, lambda: count.append(1)

    same(make, after=True)


def test_cell_contents_assigned() -> None:
    def make() -> tuple[Any, ...]:
        k = 1

        def g() -> int:
            return k

        return lambda: g(), lambda: setattr(g.__closure__[0], "cell_contents", [2])

    same(make, after=True)


def test_attribute_inserted_in_subclass() -> None:
    def make() -> tuple[Any, ...]:
        class A:
            k = 1

        class B(A):
            pass

        class C(B):
            pass

        thing = C()
        return (
            lambda: (thing.k, C.k),
            lambda: setattr(B, "k", 5),
            lambda: setattr(C, "k", 6),
            lambda: delattr(C, "k"),
            lambda: delattr(B, "k"),
        )

    same(make, after=True)


def test_data_descriptor_inserted() -> None:
    def make() -> tuple[Any, ...]:
        class C:
            pass

        thing = C()
        thing.v = 1
        return (
            lambda: thing.v,
            lambda: setattr(C, "v", 2),
            lambda: setattr(C, "v", property(lambda self: "property")),
            lambda: delattr(C, "v"),
        )

    same(make, after=True)


def test_descriptor_class_changed() -> None:
    def make() -> tuple[Any, ...]:
        class Get:
            def __get__(self, instance: object, owner: type) -> str:
                return "descriptor"

        class C:
            v = Get()

        thing = C()
        thing.v = "instance"
        return (
            lambda: thing.v,
            lambda: setattr(Get, "__set__", lambda *arguments: None),
            lambda: delattr(Get, "__get__"),
        )

    same(make)


def test_plain_value_becomes_descriptor() -> None:
    def make() -> tuple[Any, ...]:
        class V:
            pass

        class C:
            v = V()

        thing = C()
        return lambda: (thing.v is C.__dict__["v"], C.v is C.__dict__["v"]), lambda: setattr(
            V, "__get__", lambda *arguments: "descriptor"
        )

    same(make)


@pytest.mark.parametrize("how", ["set", "dict", "update", "slot"])
def test_method_shadowed(how: str) -> None:
    def make() -> tuple[Any, ...]:
        class C:
            def m(self) -> str:
                return "class"

        thing = C()

        def shadow() -> None:
            if how == "set":
                object.__setattr__(thing, "m", lambda: "instance")
            elif how == "dict":
                thing.__dict__ = {"m": lambda: "instance"}
            elif how == "update":
                vars(thing).update(m=lambda: "instance")
            else:
                C.m = property(lambda self: lambda: "property")

        return lambda: thing.m(), shadow

    same(make, after=True)


def test_class_reassigned() -> None:
    def make() -> tuple[Any, ...]:
        class A:
            k = "A"

            def __len__(self) -> int:
                return 1

            def __call__(self) -> str:
                return "A"

        class B(A):
            k = "B"

            def __len__(self) -> int:
                return 2

            def __call__(self) -> str:
                return "B"

        thing = A()
        thing.v = 1
        return (
            lambda: (thing.k, len(thing), thing(), thing.v, isinstance(thing, B), thing.__class__.__name__),
            lambda: setattr(thing, "__class__", B),
            lambda: setattr(thing, "__class__", A),
        )

    same(make)


@pytest.mark.parametrize(
    "name",
    ["__call__", "__len__", "__getitem__", "__iter__", "__add__", "__eq__", "__bool__", "__contains__", "__enter__"],
)
def test_special_method_replaced(name: str) -> None:
    def make() -> tuple[Any, ...]:
        class C:
            def __call__(self) -> int:
                return 1

            def __len__(self) -> int:
                return 1

            def __getitem__(self, key: int) -> Any:
                if key > 5:
                    raise IndexError
                return key

            def __iter__(self) -> Any:
                return iter((1, 2))

            def __add__(self, other: object) -> Any:
                return other

            def __eq__(self, other: object) -> bool:
                return True

            def __bool__(self) -> bool:
                return True

            def __contains__(self, item: object) -> bool:
                return True

            def __enter__(self) -> int:
                return 1

            def __exit__(self, *error: object) -> None: ...

        thing = C()

        def enter() -> Any:
            with thing as value:
                return value

        uses = {
            "__call__": lambda: thing(),
            "__len__": lambda: len(thing),
            "__getitem__": lambda: thing[3],
            "__iter__": lambda: [x for x in thing],
            "__add__": lambda: thing + 3,
            "__eq__": lambda: thing == 3,
            "__bool__": lambda: 1 if thing else 2,
            "__contains__": lambda: 3 in thing,
            "__enter__": enter,
        }
        others = {
            "__len__": lambda self: 0,
            "__iter__": lambda self: iter("ab"),
            "__bool__": lambda self: False,
            "__contains__": lambda self, x: False,
        }
        other = others.get(name, lambda self, *rest: 77)
        thing.__dict__[name] = lambda *rest: "never"
        return uses[name], lambda: setattr(C, name, other), lambda: delattr(C, name)

    same(make, replayed=name not in {"__eq__", "__contains__"})


def test_getattr_added_and_removed() -> None:
    def make() -> tuple[Any, ...]:
        class C:
            pass

        thing = C()
        thing.v = 1
        return (
            lambda: (thing.v, getattr(thing, "w", "default")),
            lambda: setattr(C, "__getattr__", lambda self, name: name + "?"),
            lambda: delattr(C, "__getattr__"),
            lambda: setattr(C, "__getattribute__", lambda self, name: "all"),
        )

    same(make)


def test_attribute_replaced_by_other_kinds() -> None:
    def make() -> tuple[Any, ...]:
        thing = Mine()
        thing.state = [1.0]
        return (
            lambda: (thing.state[0], len(thing.state)),
            *(functools.partial(setattr, thing, "state", new) for new in ((1,), {0: True}, "text", [2], [1.0])),
        )

    same(make)


# ---------------------------------------------------------------------------------------------- identity and containers


def test_identity() -> None:
    def make() -> tuple[Any, ...]:
        a: list[int] = []
        pair = [a, a]
        return lambda: (pair[0] is pair[1], pair[0] is not a), lambda: put(pair, 1, []), lambda: put(pair, 0, pair[1])

    same(make, after=True)


def test_identity_of_arguments() -> None:
    def f(a: list[int], b: list[int]) -> Any:
        return a is b, len(a) + len(b), a == b

    jitted = pijit.jit(f)
    a, b = [1], [1]
    for arguments in [(a, a)] * 3 + [(a, b)] * 3 + [(b, b), (b, a)] * 2:
        assert jitted(*arguments) == f(*arguments)


def test_argument_aliases_global() -> None:
    def make(jit: Callable[[Any], Any]) -> list[Any]:
        space: dict[str, Any] = {"known": [1, 2]}
        exec("def f(x):\n    x.append(9)\n    return len(known), known is x, known[-1]", space)  # noqa: S102
        f = jit(space["f"])
        known = space["known"]
        return [f(argument) for argument in (known, known, known, [5], [5], [5], known, [1, 2])]

    assert make(pijit.jit) == make(lambda function: function)


@pytest.mark.parametrize("kind", ["list", "dict", "attribute"])
def test_writes_through_aliases(kind: str) -> None:
    """Two arguments that are apart, then one object; what is written through one is read through the other."""

    def in_list(a: Any, b: Any) -> Any:
        a[0] = 1
        seen = b[0]
        b[0] = 2
        return seen, a[0], b[0]

    def in_dict(a: Any, b: Any) -> Any:
        a["v"] = 1
        seen = b["v"]
        b["v"] = 2
        return seen, a["v"], b["v"]

    def in_attribute(a: Any, b: Any) -> Any:
        a.v = 1
        seen = b.v
        b.v = 2
        return seen, a.v, b.v

    def make(jit: Callable[[Any], Any]) -> list[Any]:
        one, two = Mine(), Mine()
        one.v, two.v = 0, 5
        pairs = {
            "list": ([0], [5], in_list),
            "dict": ({"v": 0}, {"v": 5}, in_dict),
            "attribute": (one, two, in_attribute),
        }
        p, q, function = pairs[kind]
        function = jit(function)
        return [function(*pair) for pair in [(p, q)] * 3 + [(p, p)] * 3 + [(q, p)] * 3 + [(q, q)] * 2]

    assert make(pijit.jit) == make(lambda function: function)


def test_defaults_of_context_variables() -> None:
    def make() -> tuple[Any, ...]:
        var = contextvars.ContextVar("var", default=0)
        return lambda: (var.get(), var.get(5)), lambda: var.set(7)

    same(make)


@pytest.mark.parametrize("kind", ["dict", "instance", "class", "arguments", "merged"])
def test_order_of_dict(kind: str) -> None:
    def make() -> tuple[Any, ...]:
        table: dict[str, Any] = {"a": 1, "b": 2}
        thing = Mine()
        thing.__dict__.update(table)

        class C:
            a = 1
            b = 2

        def g(**names: int) -> Any:
            return list(names)

        def again() -> None:
            table["a"] = table.pop("a")
            value = thing.a
            del thing.a
            thing.a = value
            del C.a
            C.a = 1

        uses = {
            "dict": lambda: [k for k in table],
            "instance": lambda: [k for k in thing.__dict__],
            "class": lambda: [k for k in C.__dict__ if len(k) == 1],
            "arguments": lambda: g(**table),
            "merged": lambda: list({**table, "c": 3}),
        }
        return uses[kind], again, again

    same(make, replayed=kind != "class")


@pytest.mark.parametrize("how", ["iterate", "items", "values", "list", "next"])
def test_order_of_ordered_dict(how: str) -> None:
    def make() -> tuple[Any, ...]:
        table = collections.OrderedDict(a=1, b=2)
        uses = {
            "iterate": lambda: [k for k in table],
            "items": lambda: [item for item in table.items()],
            "values": lambda: [value for value in table.values()],
            "list": lambda: list(table),
            "next": lambda: next(iter(table)),
        }
        return uses[how], lambda: table.move_to_end("a"), lambda: table.move_to_end("a")

    same(make)


def test_dict_changed_and_restored() -> None:
    """The tag of the dict moves on, the content is as before: right, and still replayed."""

    def make() -> tuple[Any, ...]:
        table = {"a": 1, "b": [2]}

        def there_and_back() -> None:
            table["a"] = 5
            table["a"] = 1

        return lambda: (table["a"], table["b"]), there_and_back, lambda: table.update(z=1), there_and_back

    assert records(same(make, after=True)) <= 2


def test_list_grown_in_a_generator() -> None:
    def make() -> tuple[Any, ...]:
        items = [1, 2]

        def g() -> Any:
            yield from ()
            for item in items:
                if len(items) < 6:
                    items.append(item)
                yield item

        return lambda: [x for x in g()], lambda: items.clear(), lambda: items.extend([1, 2, 3])

    same(make, replayed=False)


def test_container_of_class_mutated() -> None:
    def make() -> tuple[Any, ...]:
        class C:
            seen: list[int] = []  # noqa: RUF012

            def m(self) -> int:
                self.seen.append(1)
                return len(self.seen)

        thing = C()
        return lambda: thing.m(), lambda: C.seen.clear(), lambda: setattr(thing, "seen", [])

    same(make, replayed=False)


def test_container_grown_beyond() -> None:
    def make() -> tuple[Any, ...]:
        items, table, members = [1], {"a": 1}, {1}
        return (
            lambda: (len(items), len(table), len(members), 2 in items, "b" in table, 2 in members, bool(items)),
            lambda: items.append(2),
            lambda: table.update(b=2),
            lambda: members.add(2),
            lambda: (items.clear(), table.clear(), members.clear()),
        )

    same(make, after=True)


def test_set_with_same_members_in_other_order() -> None:
    def make() -> tuple[Any, ...]:
        members = {8, 0}

        def swap() -> None:
            members.clear()
            members.update((0, 8))

        return lambda: [x for x in members], swap

    same(make, replayed=False)


# -------------------------------------------------------------------------------------------------------------- numbers


def test_nan_is_replayed() -> None:
    for value in (math.nan, complex(math.nan, 1.0), float("nan")):
        jitted = pijit.jit(lambda x, k=value: (x, k))
        for _ in range(5):
            jitted(value)
        assert replays(jitted) >= 3
        assert records(jitted) <= 2


def test_fresh_nans_do_not_record_for_ever() -> None:
    jitted = pijit.jit(lambda x: x + 1.0)
    for _ in range(50):
        assert math.isnan(jitted(float("nan")))
    assert records(jitted) <= 8


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, -0.0, 1e308, 5e-324, 2**70, -(2**63), 2**63])
def test_odd_numbers_in_guards(value: float) -> None:
    """Guards on odd numbers hold, print and fail without harm."""
    jitted = pijit.jit(lambda x: (x < 1, x * 1, x - 1 if x == x else 0))
    plain = lambda x: (x < 1, x * 1, x - 1 if x == x else 0)  # noqa: E731
    for x in (value, value, 1, value, 0.5, value):
        assert repr(jitted(x)) == repr(plain(x))
    str(pijit.traces(jitted))
    assert replays(jitted) >= 2


def test_negative_zero() -> None:
    jitted = pijit.jit(lambda x, y: (math.copysign(1.0, x), x * 0, x + y, -x, str(x)))
    for x, y in itertools.product([0.0, 0.0, -0.0, -0.0, 0.0], repeat=2):
        assert repr(jitted(x, y)) == repr((math.copysign(1.0, x), x * 0, x + y, -x, str(x)))


@pytest.mark.parametrize(
    "values", [[1, True, 1.0, Number(1), Level.LOW], [0, False, 0.0, -0.0, None], ["a", Key("a"), b"a"]]
)
def test_equal_but_of_other_types(values: list[Any]) -> None:
    def f(x: Any) -> Any:
        return x, type(x), {1: "found"}.get(x, "none"), x == 1, f"{x!r}", (x,), [x]

    for order in itertools.permutations(values):
        jitted = pijit.jit(f)
        for x in [*order, *order]:
            assert Describer()(jitted(x)) == Describer()(f(x))


def test_integer_subclass_operators() -> None:
    class Index(int):
        def __index__(self) -> int:
            return 99

        def __add__(self, other: object) -> str:
            return "add"

        def __eq__(self, other: object) -> bool:
            return False

        def __hash__(self) -> int:
            return 0

        def __bool__(self) -> bool:
            return False

    def f(x: Any) -> Any:
        return x + 1, x == 1, "yes" if x else "no", [10, 20, 30][x], range(x)

    jitted = pijit.jit(f)
    for x in (1, 1, 1, Index(1), Index(1), 1, Level.LOW, Index(1)):
        assert Describer()(jitted(x)) == Describer()(f(x))


def test_overflow() -> None:
    def f(x: Any, y: Any) -> Any:
        total = x
        for _ in range(3):
            total = total * y + x
        return total, -total, total - 2**62, total << 1, total // 3, total % 7, hash(total)

    jitted = pijit.jit(f)
    for x, y in itertools.product(
        [0, 1, -1, 2**31, 2**62, 2**63 - 1, -(2**63), 2**63, 2**64, 10**30], [1, -1, 2**31, 2**32, 3]
    ):
        assert jitted(x, y) == f(x, y)


def test_hash_collisions() -> None:
    prime = 2**61 - 1
    table = {0: "zero", 1: "one", -1: "minus", -2: "two"}

    def f(x: Any) -> Any:
        return table.get(x), x in table, x in {0, 1}

    jitted = pijit.jit(f)
    for x in (0, prime, 0, prime + 1, 1, -1, -2, -1, 2 * prime, 0.0, 1.0, True):
        assert jitted(x) == f(x)


# -------------------------------------------------------------------------------------------------------- keys and text


class Loud:
    """A key that counts how often it is looked at."""

    asked = 0

    def __init__(self, name: str) -> None:
        self.name = name

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        Loud.asked += 1
        return isinstance(other, Loud) and self.name == other.name


class LoudText(str):
    __slots__ = ()
    asked = 0

    def __hash__(self) -> int:
        LoudText.asked += 1
        return str.__hash__(self)

    def __eq__(self, other: object) -> bool:
        LoudText.asked += 1
        return str.__eq__(self, other)


def test_equal_text_of_other_identity() -> None:
    table = {"key": 1}
    jitted = pijit.jit(lambda k: (table[k], k == "key", k))
    for k in ("key", "key", "".join(["k", "ey"]), "".join(["ke", "y"])):
        assert jitted(k) == (1, True, "key")
    assert replays(jitted) >= 2


@pytest.mark.parametrize("kind", [Loud, LoudText])
def test_loud_keys_are_asked_as_often_as_without(kind: Any) -> None:
    def make(jit: Callable[[Any], Any]) -> list[Any]:
        table = {kind("a"): 1, "b": 2}
        f = jit(lambda k: (table[k], k in table, table["b"]))
        seen = []
        for k in [kind("a"), kind("a"), kind("a"), "a" if kind is LoudText else kind("a")]:
            kind.asked = 0
            seen.append((f(k), kind.asked))
        return seen

    assert make(pijit.jit) == make(lambda function: function)


HINTED = pytest.mark.skipif(sys.version_info >= (3, 13), reason="plain, the second lookup asks no key: it has a hint")


@pytest.mark.parametrize("where", ["global", pytest.param("attribute", marks=HINTED), "dict"])
def test_colliding_loud_key(where: str) -> None:
    """A key of user class with the hash of the name that is looked up: asked as often as plain."""

    class Same:
        asked = 0

        def __hash__(self) -> int:
            return hash("name")

        def __eq__(self, other: object) -> bool:
            Same.asked += 1
            return False

    def make(jit: Callable[[Any], Any]) -> list[Any]:
        table: dict[Any, Any] = {Same(): 0, "name": 1}
        if where == "global":
            f = types.FunctionType((lambda: name).__code__, table)  # noqa: F821
        elif where == "dict":
            f = lambda: table["name"]  # noqa: E731
        else:
            thing = Mine()
            thing.__dict__ = table
            f = lambda: thing.name  # noqa: E731
        f = jit(f)
        seen = []
        for step in range(6):
            if step == 3:
                table["name"] = 2
            Same.asked = 0
            seen.append((f(), Same.asked))
        return seen

    assert make(pijit.jit) == make(lambda function: function)


def test_guards_run_no_code() -> None:
    """Hits and misses run no `__eq__`, `__getattr__`, `__len__`, `__bool__`, `__hash__` or property of the program."""
    asked: list[str] = []

    class Noisy:
        def __init__(self) -> None:
            object.__setattr__(self, "v", 1)

        def __getattribute__(self, name: str) -> Any:
            asked.append("getattribute " + name)
            return object.__getattribute__(self, name)

        def __eq__(self, other: object) -> bool:
            asked.append("eq")
            return True

        def __hash__(self) -> int:
            asked.append("hash")
            return 1

        def __len__(self) -> int:
            asked.append("len")
            return 1

        def __bool__(self) -> bool:
            asked.append("bool")
            return True

        @property
        def p(self) -> int:
            asked.append("property")
            return 1

        @property
        def __class__(self) -> type:
            asked.append("class")
            return Noisy

    def make(jit: Callable[[Any], Any]) -> list[Any]:
        table = {"x": Noisy(), "y": 1}
        items = [Noisy()]

        def f(x: Any, flag: object) -> Any:
            return table["x"] is items[0], table["y"], x is None, len(items), flag

        f = jit(f)
        counts = []
        for step in range(12):
            if step == 3:
                table["x"] = Noisy()
            if step == 6:
                items[0] = table["x"]
            if step == 9:
                table["y"] = 2
            asked.clear()
            f(Noisy(), Noisy())
            counts.append(list(asked))
        return counts

    assert make(pijit.jit) == make(lambda function: function)


def test_later_source_is_gone() -> None:
    """What a later guard reads is gone: nothing escapes."""

    def make() -> tuple[Any, ...]:
        thing = Mine()
        thing.inner = Mine()
        thing.inner.items = [1, Mine()]
        thing.inner.items[1].v = 5

        def f() -> Any:
            try:
                return thing.inner.items[1].v
            except (AttributeError, IndexError) as error:
                return type(error).__name__

        return (
            f,
            lambda: delattr(thing.inner.items[1], "v"),
            lambda: thing.inner.items.pop(),
            lambda: delattr(thing.inner, "items"),
            lambda: setattr(thing, "inner", None),
            lambda: delattr(thing, "inner"),
        )

    same(make)


def test_many_shapes_of_calls_come_to_rest() -> None:
    """Arguments that never repeat: bounded traces, right answers, and left alone in the end."""
    jitted = pijit.jit(lambda x: x * 2)
    for x in map(str, range(1000)):
        assert jitted(x) == x * 2
    assert len(pijit.traces(jitted)) <= 8
    assert pijit.status(jitted).state == "disabled"
    assert pijit.status(jitted).reason


def test_alternating_states_are_each_replayed() -> None:
    mode = [True]
    jitted = pijit.jit(lambda: "train" if mode[0] else "eval")
    for turn in range(40):
        mode[0] = turn % 2 == 0
        assert jitted() == ("train" if mode[0] else "eval")
    assert records(jitted) == 2
    assert replays(jitted) == 38


# --------------------------------------------------------------------------------------- the recorder's memory of facts


def run_apart(program: str) -> str:
    """Output of a program in a process of its own, which must end well."""
    environment = {**os.environ, "PYTHONPATH": str(Path(pijit.__file__).parents[1])}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, (done.returncode, done.stdout[-1000:], done.stderr[-1000:])
    return done.stdout


def test_dict_made_by_a_store() -> None:
    """A store for which the shared keys of the class have no room makes the __dict__ of the instance."""
    run_apart("""
import pijit
class T: pass
y = T()
for i in range(40): setattr(y, f"a{i}", i)
def f(x):
    x.first = 1
    x.second = 2
    return x.first, x.second
j = pijit.jit(f)
for i in range(4): assert j(T()) == (1, 2)
""")


def test_many_facts() -> None:
    run_apart("""
import pijit
class T: pass
things = [T() for _ in range(3000)]
for i, t in enumerate(things): t.__dict__["v"] = float(i)
tables = [{f"k{i}": i * 1.5} for i in range(3000)]
def f():
    s = 0.0
    for t in tables:
        for k in t: s += t[k]
    for t in things: s += t.v
    return s
j = pijit.jit(f)
for i in range(3): assert j() == f()
tables[1500]["k1500"] = 0.0
assert j() == f()
""")


class Weighed(float):
    """Has no dict before it is written to: a float makes its own instances."""

    kind = "heavy"


def test_a_weak_reference_to_what_has_no_dict() -> None:
    """It may stand where another CPython has the attributes."""
    number = Weighed(2.5)

    def f() -> Any:
        return number.kind, number + 1

    jitted = pijit.jit(f)
    assert [outcome(jitted) for _ in range(3)] == [outcome(f)] * 3
    found = records(jitted)
    seen = weakref.ref(number)
    assert [outcome(jitted) for _ in range(3)] == [outcome(f)] * 3
    assert (records(jitted), seen()) == (found, number)
    for change in (lambda: setattr(number, "kind", "light"), lambda: delattr(number, "kind")):
        change()
        assert [outcome(jitted) for _ in range(3)] == [outcome(f)] * 3
