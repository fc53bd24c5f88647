"""Guards on functions, classes, identity and containers: known ways in which they go missing.

Whatever a trace relied on is changed between two calls, and the next call sees it.
"""

from __future__ import annotations

import collections
import contextvars
import functools
import os
import subprocess
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from guard_changes import Mine, outcome, put, records, same

import pijit

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


@pytest.mark.parametrize("kind", ["items", "a copy", "arguments", "attributes", "ordered", "objects"])
def test_a_dict_that_is_walked_is_changed_and_restored(kind: str) -> None:
    """Its tag moves on as well. Items and their order are compared then, and other ones are seen."""

    def make() -> tuple[Any, ...]:
        first, second, thing = Mine(), Mine(), Mine()
        table: Any = {"a": first, "b": second} if kind == "objects" else {"a": 1, "b": 2}
        if kind == "ordered":
            table = collections.OrderedDict(table)
        if kind == "attributes":
            thing.__dict__.update(table)
            table = thing.__dict__
        uses = {
            "items": lambda: [(key, value * 2) for key, value in table.items()],
            "a copy": lambda: {**table, "c": 3},
            "arguments": lambda: (lambda **given: list(given.items()))(**table),
            "attributes": lambda: [(key, value) for key, value in vars(thing).items()],
            "ordered": lambda: [(key, value) for key, value in table.items()],
            "objects": lambda: [(key, value is first) for key, value in table.items()],
        }

        def there_and_back() -> None:
            kept, table["b"] = table["b"], table["a"]
            table["b"] = kept

        def grown_and_back() -> None:
            table["c"] = table["a"]
            del table["c"]

        def turned() -> None:
            table["a"] = table.pop("a")

        def exchanged() -> None:
            table["a"], table["b"] = table["b"], table["a"]

        def renamed() -> None:
            table["d"] = table.pop("b")

        changes = (there_and_back, grown_and_back, turned, there_and_back, exchanged, grown_and_back, renamed)
        return uses[kind], *changes

    assert records(same(make, after=True)) <= 4


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
