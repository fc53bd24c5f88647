"""Each guard holds when nothing has changed, fails when what it looks at has, and says so."""

from __future__ import annotations

import abc
import collections
import contextvars
import decimal
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from describe import const, reg, returning


def function(x: Any) -> Any:
    return "plain"


def function2(x: Any, y: Any) -> Any:
    return "plain"


class Plain:
    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


class Inline:
    def __init__(self, a: Any) -> None:
        self.a = a


class Noisy:
    """A key that may not be compared by a guard."""

    def __hash__(self) -> int:
        return hash("a")

    def __eq__(self, other: object) -> bool:
        raise AssertionError("user code")


def holds(probe: ModuleType, *args: Any) -> bool:
    """Whether the armed guards hold; checks that replay and explanation agree."""
    why = probe.miss(*args)
    called = (function if len(args) == 1 else function2)(*args)
    assert (called == "replayed") == (why == "")
    return bool(called == "replayed")


def arm(probe: ModuleType, *guards: dict[str, Any], inputs: int = 1, regs: int = 0) -> None:
    root = function if inputs == 1 else function2
    trace = returning(root, const("replayed"), guards=list(guards))
    trace["regs"] = max(regs, inputs)
    probe.arm(root.__code__, trace)


SCALARS = [
    0, 1, True, False, 1.0, 0.0, -0.0, float("nan"), float("inf"), None, ..., "a", "ä", "\U0001f600", b"a", b"", 1j,
    -1j, complex(0.0, -0.0), 2**70, -(2**70), 2**31,
]  # fmt: skip


@pytest.mark.parametrize("expected", SCALARS, ids=repr)
def test_scalar(probe: ModuleType, expected: Any) -> None:
    arm(probe, {"op": "kScalar", "subject": reg(0), "expected": expected})
    same = [value for value in SCALARS if holds(probe, value)]
    assert len(same) == 1
    assert same[0] is expected
    if isinstance(expected, int) and not isinstance(expected, bool):
        assert holds(probe, int(str(expected)))
    if isinstance(expected, float):
        assert holds(probe, float(repr(expected)))
    if isinstance(expected, str):
        assert holds(probe, "".join(list(expected)))


def test_scalar_of_a_subclass(probe: ModuleType) -> None:
    arm(probe, {"op": "kScalar", "subject": reg(0), "expected": 5})
    assert not holds(probe, type("Int", (int,), {})(5))
    assert probe.miss(6) == "x: 6 now, 5 before"


def test_identity_and_type(probe: ModuleType) -> None:
    it = Plain()
    arm(probe, {"op": "kIs", "subject": reg(0), "expected": it})
    assert holds(probe, it)
    assert not holds(probe, Plain())
    arm(probe, {"op": "kType", "subject": reg(0), "expected": bool})
    assert holds(probe, True)
    assert not holds(probe, 1)
    assert probe.miss(1) == "x: int now, class bool before"
    arm(probe, {"op": "kSame", "subject": reg(0), "number": 1}, inputs=2)
    assert holds(probe, it, it)
    assert not holds(probe, it, 1)
    arm(probe, {"op": "kNotSame", "subject": reg(0), "number": 1}, inputs=2)
    assert not holds(probe, it, it)
    assert holds(probe, it, 1)


def test_type_version(probe: ModuleType) -> None:
    class Base:
        pass

    class Derived(Base):
        pass

    arm(probe, {"op": "kTypeVersion", "subject": const(Derived), "number": probe.facts(Derived)["type"]})
    assert holds(probe, 0)
    Base.k = 5  # type: ignore[attr-defined]
    assert not holds(probe, 0)


def test_function_version(probe: ModuleType) -> None:
    def target(a: int = 1, *, b: int = 2) -> int:
        return a + b

    def guard() -> None:
        arm(probe, {"op": "kFunction", "subject": const(target), "number": probe.facts(target)["function"]})
        assert holds(probe, 0)

    guard()
    assert target() == 3
    target.note = 1  # type: ignore[attr-defined]
    assert holds(probe, 0)
    for name, value in (
        ("__defaults__", (5,)),
        ("__kwdefaults__", {"b": 7}),
        ("__code__", (lambda a=0, *, b=0: 1).__code__),
    ):
        guard()
        setattr(target, name, value)
        assert not holds(probe, 0)


def test_instance_dict(probe: ModuleType) -> None:
    it = Plain(a=1)
    facts = probe.facts(it)
    guard = {"op": "kInstance", "subject": const(it), "expected": Plain, "number": facts["instance_dict"]}
    arm(probe, guard)
    assert holds(probe, 0)
    it.__dict__ = {"a": 1}
    assert not holds(probe, 0)
    arm(probe, {**guard, "number": 0})
    assert holds(probe, 0)
    it.__class__ = type("Other", (Plain,), {})
    assert not holds(probe, 0)


def test_inline_values(probe: ModuleType) -> None:
    it, other = Inline(5), Inline(6)
    keys = probe.facts(Inline)
    slot = {
        "op": "kInlineSlot",
        "subject": const(it),
        "expected": Inline,
        "number": keys["keys_id"],
        "items": [const(5)],
    }
    arm(probe, slot)
    assert probe.facts(it)["instance_dict"] == 0
    assert holds(probe, 0)
    it.a = 5
    assert holds(probe, 0)
    other.b = 1  # type: ignore[attr-defined]
    assert holds(probe, 0)
    it.a = 7
    assert not holds(probe, 0)
    del it.a
    assert not holds(probe, 0)
    arm(probe, {**slot, "items": [None]})
    assert holds(probe, 0)
    absent = {"op": "kNoInlineSlot", "subject": const(it), "expected": Inline, "number": probe.facts(Inline)["keys"]}
    arm(probe, absent)
    assert holds(probe, 0)
    other.c = 1  # type: ignore[attr-defined]
    assert not holds(probe, 0)
    arm(probe, {**absent, "number": probe.facts(Inline)["keys"]})
    assert holds(probe, 0)
    assert it.__dict__ == {}
    assert holds(probe, 0)  # nothing but the object holds the dict, which shows the same values
    made = it.__dict__
    assert not holds(probe, 0)
    assert made == {}
    arm(probe, {**absent, "number": probe.facts(Inline)["keys"], "subject": reg(0)})
    assert not holds(probe, it)
    del made
    assert not holds(probe, it)
    assert holds(probe, Inline(5))
    it.__dict__ = {"a": 5}
    arm(probe, slot)
    assert not holds(probe, 0)


def test_own_dict(probe: ModuleType) -> None:
    it = Inline(5)
    arm(probe, {"op": "kOwnDict", "subject": const(it)})
    assert holds(probe, 0)
    held = it.__dict__
    assert not holds(probe, 0)
    assert probe.miss(0).endswith(": something else holds its __dict__")
    del held
    assert holds(probe, 0)


@pytest.mark.parametrize("make", [dict, lambda **items: Plain(**items).__dict__], ids=["combined", "split"])
def test_dict(probe: ModuleType, make: Any) -> None:
    it = make(a=1, b=[1], c=2)
    items = [const("a"), const(1), const("b"), const(it["b"]), const("z"), None]
    guard = {"op": "kDict", "subject": const(it), "number": probe.facts(it)["dict"], "items": items}
    arm(probe, guard)
    assert holds(probe, 0)
    it["c"] = 3  # not read
    it["a"] = int("1")
    assert holds(probe, 0)
    it["b"] = [1]
    assert not holds(probe, 0)
    it["b"] = items[3][1]  # type: ignore[index]
    assert holds(probe, 0)
    it["a"] = True
    assert not holds(probe, 0)
    assert probe.miss(0) == "a: True now, 1 before"  # as a global: nothing leads to the dict
    it["a"] = 1
    it["z"] = None
    assert not holds(probe, 0)
    del it["z"]
    assert holds(probe, 0)
    arm(probe, {**guard, "number": probe.facts(it)["dict"], "aux": 1})
    assert holds(probe, 0)
    it["c"] = 4
    assert not holds(probe, 0)


def test_dict_with_keys_that_run_code(probe: ModuleType) -> None:
    it: dict[Any, Any] = {"a": 1}
    arm(probe, {"op": "kDict", "subject": const(it), "number": 0, "items": [const("a"), const(1)]})
    assert holds(probe, 0)
    it.clear()
    it[Noisy()] = 0
    assert not holds(probe, 0)


def test_large_dict(probe: ModuleType) -> None:
    for size in (0, 5, 300, 70_000):
        it: dict[Any, Any] = {f"k{i}": i for i in range(size)}
        it |= {i: -i for i in range(size % 1000)}
        for i in range(0, size, 3):
            del it[f"k{i}"]
        items = [
            item
            for i in (1, 2, 3, size - 1, size)
            for item in (const(f"k{i}"), const(it[f"k{i}"]) if f"k{i}" in it else None)
        ]
        arm(probe, {"op": "kDict", "subject": const(it), "number": 0, "items": items})
        assert holds(probe, 0)


@pytest.mark.parametrize("make", [dict, collections.OrderedDict])
def test_dict_order(probe: ModuleType, make: Any) -> None:
    it = make(a=1, b=2)
    arm(probe, {"op": "kDictSize", "subject": reg(0), "number": 2, "items": [const("a"), const("b")]})
    assert holds(probe, it)
    assert not holds(probe, make(b=2, a=1))
    assert not holds(probe, make(a=1, b=2, c=3))
    if make is collections.OrderedDict:
        it.move_to_end("a")
        assert not holds(probe, it)
    arm(
        probe,
        {"op": "kLoadDictValueAt", "subject": reg(0), "number": 1, "out": 1},
        {"op": "kScalar", "subject": reg(1), "expected": 1},
        regs=2,
    )
    moved = collections.OrderedDict(a=1, b=2)
    moved.move_to_end("a")
    assert holds(probe, moved)
    assert not holds(probe, make(a=1, b=2))
    assert not holds(probe, {"a": 1})


def test_dict_keys(probe: ModuleType) -> None:
    """A key that is a value may be another object that equals it, bit for bit."""
    keys = (1, (2.0, None)), float("nan")
    arm(probe, {"op": "kDictSize", "subject": reg(0), "number": 2, "items": [const(key) for key in keys]})
    assert holds(probe, dict.fromkeys(keys))
    assert holds(probe, {(1, tuple([2.0, None])): 5, float("nan"): 6})
    for other in (True, (2.0, None)), (1, (2, None)), (1, (2.0,)), (1, (-2.0, None)):
        assert not holds(probe, {other: 5, keys[1]: 6})
    assert not holds(probe, {keys[0]: 5, -keys[1]: 6})
    key = (3, "c")
    arm(
        probe,
        {"op": "kLoadDictKeyAt", "subject": reg(0), "number": 1, "out": 1},
        {"op": "kSame", "subject": const(key), "number": 1},
        regs=2,
    )
    assert holds(probe, {0: 0, key: 0})
    assert not holds(probe, {0: 0, tuple([3, "c"]): 0})
    assert not holds(probe, {key: 0, 0: 0})
    assert not holds(probe, {key: 0})


def test_ordered_dict_is_all(probe: ModuleType) -> None:
    """Its order and its content may differ, and it may have attributes."""
    arm(probe, {"op": "kDictSize", "subject": reg(0), "number": 1, "items": [const("a")]})
    it = collections.OrderedDict(a=1)
    assert holds(probe, it)
    it.name = "named"  # type: ignore[attr-defined]
    assert not holds(probe, it)
    for order in ("ab", "ba"):
        it = collections.OrderedDict.fromkeys(order)
        dict.pop(it, "b")
        assert not holds(probe, it)


def test_lists_and_sets(probe: ModuleType) -> None:
    inner: list[Any] = []
    it = [inner, 5]
    arm(probe, {"op": "kList", "subject": const(it), "items": [const(inner), const(5)]})
    assert holds(probe, 0)
    it[1] = int("5")
    assert holds(probe, 0)
    it[1] = 5.0
    assert not holds(probe, 0)
    it[1] = 5
    it.append(1)
    assert not holds(probe, 0)
    assert probe.miss(0).endswith("3 items now, 2 before")
    members = {"a", "b", Plain}
    arm(probe, {"op": "kSet", "subject": const(members), "items": [const("a"), const("b"), const(Plain)]})
    assert holds(probe, 0)
    members.remove("b")
    assert not holds(probe, 0)
    members.add("c")
    assert not holds(probe, 0)


def test_loads(probe: ModuleType) -> None:
    def load(op: str, **rest: Any) -> None:
        arm(
            probe,
            {"op": op, "subject": reg(0), "out": 1, **rest},
            {"op": "kScalar", "subject": reg(1), "expected": 5},
            regs=2,
        )

    load("kLoadTupleItem", number=1)
    assert holds(probe, (4, 5))
    assert not holds(probe, (4, 6))
    assert not holds(probe, (4,))
    assert not holds(probe, [4, 5])
    assert probe.miss((4, 6)) == "x[1]: 6 now, 5 before"
    load("kLoadListItem", number=0)
    assert holds(probe, [5])
    assert not holds(probe, [])
    load("kLoadDictItem", expected="k")
    assert holds(probe, {"k": 5})
    assert not holds(probe, {"j": 5})
    assert not holds(probe, 5)
    arm(probe, {"op": "kTupleSize", "subject": reg(0), "number": 2})
    assert holds(probe, (1, 2))
    assert not holds(probe, (1,))
    assert not holds(probe, [1, 2])


def test_cells_slots_context(probe: ModuleType) -> None:
    value: Any = "first"

    def closure() -> Any:
        return value  # noqa: F821  (deleted below)

    cell = closure.__closure__[0]  # type: ignore[index]
    arm(probe, {"op": "kCell", "subject": const(cell), "expected": "first"})
    assert holds(probe, 0)
    value = "".join(["fir", "st"])
    assert holds(probe, 0)
    value = "second"
    assert not holds(probe, 0)
    del value
    assert not holds(probe, 0)
    arm(probe, {"op": "kCell", "subject": const(cell)})
    assert holds(probe, 0)

    pair = slice(1, 2)
    arm(probe, {"op": "kSlot", "subject": const(pair), "number": object.__basicsize__, "expected": 1})
    assert holds(probe, 0)

    variable: contextvars.ContextVar[Any] = contextvars.ContextVar("variable", default="default")
    arm(probe, {"op": "kContextVar", "subject": const(variable), "expected": "default"})
    assert holds(probe, 0)
    token = variable.set("other")
    assert not holds(probe, 0)
    variable.reset(token)
    assert holds(probe, 0)
    assert contextvars.Context().run(holds, probe, 0)

    arm(probe, {"op": "kRecursionLimit", "subject": const(None), "number": sys.getrecursionlimit()})
    assert holds(probe, 0)
    sys.setrecursionlimit(sys.getrecursionlimit() + 1)
    assert not holds(probe, 0)
    sys.setrecursionlimit(sys.getrecursionlimit() - 1)


class Number(int):
    pass


def test_values_of_derived_classes(probe: ModuleType) -> None:
    it = Number(5)
    arm(probe, {"op": "kValue", "subject": reg(0), "expected": 5})
    assert holds(probe, it)
    assert holds(probe, Number(5))
    assert not holds(probe, Number(6))
    assert probe.miss(Number(6)) == "x: <Number> now, 5 before"
    arm(probe, {"op": "kEqual", "subject": reg(0), "expected": decimal.Decimal("1.50")})
    assert holds(probe, decimal.Decimal("1.5"))
    assert not holds(probe, decimal.Decimal("1.6"))
    assert not holds(probe, 1.5)
    assert probe.miss(1.5) == "x: 1.5 now, <decimal.Decimal> before"


def test_parts(probe: ModuleType) -> None:
    """Something that cannot change, at the address of another one."""
    inner: list[Any] = []
    it = (inner, 5)
    guard = {"op": "kParts", "subject": reg(0), "expected": tuple, "items": [const(inner), const(5)]}
    arm(probe, guard)
    assert holds(probe, it)
    assert holds(probe, (inner, int("5")))
    assert not holds(probe, ([], 5))
    assert not holds(probe, (inner, 5, 5))
    assert not holds(probe, [inner, 5])
    assert probe.miss(([], 5)) == "x: another tuple"
    method = Plain(a=1).__init__
    items = [const(Plain.__init__), const(method.__self__)]  # type: ignore[misc]
    arm(probe, {"op": "kParts", "subject": const(method), "expected": type(method), "items": items})
    assert holds(probe, 0)


def test_no_attribute(probe: ModuleType) -> None:
    guard = {"op": "kNoAttribute", "subject": reg(0), "expected": "b"}
    arm(probe, guard)
    assert holds(probe, Plain(a=1))
    assert holds(probe, Inline(1))
    assert not holds(probe, Plain(a=1, b=2))
    assert probe.miss(Plain(b=2)) == "x.b: an attribute of the object itself now, and none before"


def test_quiet(probe: ModuleType) -> None:
    it: list[Any] = [1, "a", (2, None)]
    arm(probe, {"op": "kQuiet", "subject": const(it)})
    assert holds(probe, 0)
    it.append(Plain())
    assert not holds(probe, 0)
    assert probe.miss(0) == "<list>: it holds what may have a finaliser"
    members: set[Any] = {1, "a"}
    arm(probe, {"op": "kQuiet", "subject": const(members)})
    assert holds(probe, 0)
    members.add(Plain())
    assert not holds(probe, 0)


def test_abc_registry(probe: ModuleType) -> None:
    arm(probe, {"op": "kAbcRegistry", "subject": const(None), "number": abc.get_cache_token()})
    assert holds(probe, 0)
    collections.abc.Sized.register(type("Registered", (), {}))
    assert not holds(probe, 0)
    assert probe.miss(0) == "a class was registered with an abstract base class"


def test_more_loads(probe: ModuleType) -> None:
    """Those of places in objects."""

    def load(op: str, subject: Any, **rest: Any) -> None:
        looks = {"op": "kScalar", "subject": reg(1), "expected": 5}
        arm(probe, {"op": op, "subject": subject, "out": 1, **rest}, looks, regs=2)

    value: Any = 5

    def counted() -> Any:
        return value  # noqa: F821  (deleted below)

    load("kLoadCell", const(counted.__closure__[0]))  # type: ignore[index]
    assert holds(probe, 0)
    value = 6
    assert not holds(probe, 0)
    del value
    assert not holds(probe, 0)
    assert probe.miss(0) == "<cell>: it is gone"
    load("kLoadSlot", reg(0), number=object.__basicsize__)
    assert holds(probe, slice(5, 1))
    assert not holds(probe, slice(6, 1))
    load("kLoadInline", reg(0), expected=Inline, number=probe.facts(Inline)["keys_id"], aux=0)
    assert holds(probe, Inline(5))
    assert not holds(probe, Inline(6))
    assert not holds(probe, Plain())
    assert probe.miss(Plain()).startswith("x.a: ")
    load("kLoadSelf", reg(0))
    assert holds(probe, 5)
    assert not holds(probe, 6)
    arm(probe, {"op": "kListSize", "subject": reg(0), "number": 2})
    assert holds(probe, [1, 2])
    assert not holds(probe, [1])
    assert probe.miss([1]) == "x: 1 items now, 2 before"
    assert probe.miss((1, 2)) == "x: no list any more"


def test_load_count(probe: ModuleType) -> None:
    """A number, no object."""
    trace = returning(function, const("replayed"), guards=[{"op": "kLoadCount", "subject": reg(0), "out": 1}])
    probe.arm(function.__code__, {**trace, "regs": 2})
    it = enumerate([5, 6, 7])
    assert holds(probe, it)
    next(it)
    assert holds(probe, it)
    assert not holds(probe, enumerate([], 2**70))
    assert probe.miss(enumerate([], 2**70)) == "x: it is gone"


def test_unshared(probe: ModuleType) -> None:
    held = [1]
    load = {"op": "kLoadTupleItem", "subject": reg(0), "number": 0, "out": 1}
    arm(probe, load, {"op": "kUnshared", "subject": reg(1)}, regs=2)
    assert holds(probe, ([1],))
    assert not holds(probe, (held,))
    assert probe.miss((held,)) == "x[0]: something else holds it, too"


def numbers(n: Any) -> Iterator[Any]:
    k = None
    yield n
    yield k


def test_suspended(probe: ModuleType) -> None:
    """A generator that stands where it stood, and what is in it."""

    def after(steps: int, n: Any = 5) -> Any:
        made = numbers(n)
        for _ in range(steps):
            next(made)
        return made

    facts = probe.facts(after(1))
    slots = [const(0)] * facts["used"]
    load = {"op": "kLoadTupleItem", "subject": reg(0), "number": 0, "out": 1}
    here = {"op": "kSuspended", "subject": reg(1), "expected": numbers.__code__, "number": facts["resume"], "aux": 1}
    guards = [load, {**here, "items": slots}]
    arm(probe, *guards, regs=2)
    assert holds(probe, (after(1),))
    assert not holds(probe, (after(2),))
    assert not holds(probe, (after(0),))
    held = after(1)
    assert not holds(probe, (held,))
    assert probe.miss((held,)) == "x[0]: another generator, or it stands elsewhere"
    assert not holds(probe, (5,))
    arm(probe, load, {**here, "items": [None, *slots[1:]]}, regs=2)
    assert not holds(probe, (after(1),))
    arm(
        probe,
        *guards,
        {"op": "kLoadSuspended", "subject": reg(1), "number": 0, "out": 2},
        {"op": "kScalar", "subject": reg(2), "expected": 5},
        {"op": "kLoadGeneratorFunction", "subject": reg(1), "out": 3},
        {"op": "kIs", "subject": reg(3), "expected": numbers},
        regs=4,
    )
    assert holds(probe, (after(1),))
    assert not holds(probe, (after(1, 6),))
    assert probe.miss((after(1, 6),)) == "x[0].gi_frame.n: 6 now, 5 before"


def test_words(probe: ModuleType) -> None:
    """What is said of guards that the tests above let fail."""

    def changed(guard: dict[str, Any], *args: Any, regs: int = 0) -> str:
        arm(probe, guard, inputs=len(args), regs=regs)
        return str(probe.miss(*args))

    def target() -> None:
        pass

    it, derived = Plain(a=1), type("Derived", (), {})
    assert changed({"op": "kIs", "subject": reg(0), "expected": it}, 1) == "x: 1 now, <Plain> before"
    assert changed({"op": "kIs", "subject": reg(0), "expected": it}, Plain()) == "x: another <Plain> than before"
    old = {"op": "kTypeVersion", "subject": const(derived), "number": probe.facts(derived)["type"] - 1}
    assert changed(old, 0) == "class Derived: the class or a base of it was changed"
    old = {"op": "kFunction", "subject": const(target), "number": probe.facts(target)["function"] + 1}
    assert changed(old, 0).endswith("target: its code or defaults were changed")
    old = {"op": "kInstance", "subject": reg(0), "expected": Plain, "number": 8}
    assert changed(old, it) == "x: its __dict__ was replaced"
    assert changed(old, 1) == "x: int now, class Plain before"
    absent = {"op": "kNoInlineSlot", "subject": reg(0), "expected": Inline, "number": 0}
    assert changed(absent, Inline(1)) == "x: its attributes are others, or in another order"
    assert changed(absent, 1) == "x: 1 now, class Inline before"
    keys = {"op": "kInlineSlot", "subject": reg(0), "expected": Inline, "number": probe.facts(Inline)["keys_id"]}
    assert changed({**keys, "items": [const(5)]}, Inline(6)) == "x.a: 6 now, 5 before"
    assert changed({**keys, "number": 0, "items": [const(5)]}, Inline(6)) == changed(absent, Inline(1))
    size = {"op": "kDictSize", "subject": reg(0), "number": 2, "items": [const("a"), const("b")]}
    assert changed(size, {"a": 1}) == "x: 1 keys now, 2 before"
    assert changed(size, {"a": 1, "c": 1}) == "x: key 1: 'c' now, 'b' before"
    assert changed(size, collections.OrderedDict(b=1, a=1)) == "x: key 0: 'b' now, 'a' before"
    other = collections.OrderedDict(b=1, a=1)
    other.note = 1  # type: ignore[attr-defined]
    derived_from = "x: a collections.OrderedDict is a subclass of dict, and is taken as one object with what is in it"
    assert changed(size, other) == f"{derived_from}; pass its items, or dict(x)"
    whole = {"op": "kDict", "subject": const({"a": 1}), "number": 0, "aux": 1}
    assert changed(whole, 0) == "<dict>: a dict that has changed"
    assert changed({"op": "kList", "subject": const([1]), "items": [const(2)]}, 0) == "<list>[0]: 1 now, 2 before"
    assert changed({"op": "kSet", "subject": const({1}), "items": [const(2)]}, 0) == "<set>: its items changed"
    assert changed({"op": "kSet", "subject": const({1}), "items": []}, 0) == "<set>: 1 items now, 0 before"
    same = {"op": "kSame", "subject": reg(0), "number": 1}
    assert changed(same, 1, 2) == "x: no longer the same object as y"
    assert changed({**same, "op": "kNotSame"}, 1, 1) == "x: now the same object as y"
    slot = {"op": "kSlot", "subject": const(slice(1, 2)), "number": object.__basicsize__, "expected": 3}
    assert changed(slot, 0) == "<slice> (in C): 1 now, 3 before"
    variable: contextvars.ContextVar[Any] = contextvars.ContextVar("variable", default=1)
    context = {"op": "kContextVar", "subject": const(variable), "expected": 2}
    assert changed(context, 0) == "<_contextvars.ContextVar>.get(): 1 now, 2 before"
    limit = sys.getrecursionlimit()
    deeper = {"op": "kRecursionLimit", "subject": const(None), "number": limit + 1}
    assert changed(deeper, 0) == f"recursion limit: {limit} now, {limit + 1} before"
