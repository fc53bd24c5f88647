"""Lifetime: nothing leaks per call, recording, abort or miss; objects die where they die without pijit.

And traces go with the function or instance that they belong to.
"""

from __future__ import annotations

import functools
import gc
import itertools
import sys
import types
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from observe import hook_in_place

import pijit
from pijit import _core, api


class Thing:
    """Something that can be referenced weakly."""


def replays(function: object) -> int:
    return _core.root_report(api.root_of(function))["replays"]


def resident() -> int:
    """Bytes of memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def references(watched: list[object]) -> list[int]:
    gc.collect()
    return [sys.getrefcount(thing) for thing in watched]


def raise_late(thing: Any) -> Any:
    items = [thing]
    raise ValueError(items)


class Context:
    def __enter__(self) -> Context:
        return self

    def __exit__(self, *error: object) -> None: ...


class Box:
    def __init__(self, value: Any) -> None:
        self.value = value

    def get(self) -> Any:
        return self.value


def identity(x: Any) -> Any:
    return x


def several(x: Any, *rest: Any, k: Any = None) -> Any:
    return [x, *rest, k]


def generate(x: Any) -> Any:
    yield x
    yield x


STORE: dict[str, Any] = {}
CALLS: dict[str, Callable[[Any], Any]] = {
    "returned": lambda x: x,
    "list": lambda x: [x, [x]],
    "tuple": lambda x: (x, (x, x)),
    "dict": lambda x: {"a": x, "b": {"c": x}},
    "set": lambda x: {x},
    "call": lambda x: identity(x),
    "keywords": lambda x: several(x, x, k=x),
    "method": lambda x: Box(x).get(),
    "instance": lambda x: Box(Box(x)),
    "closure": lambda x: lambda: x,
    "closure_called": lambda x: (lambda: x)(),
    "generator": lambda x: [y for y in generate(x)],
    "comprehension": lambda x: [(y, x) for y in range(3)],
    "unpacked": lambda x: [*(x, x), *[x]],
    "compared": lambda x: (x is None, x == x, not x, type(x)),
    "attribute": lambda x: (x.__class__, getattr(x, "missing", x)),
    "raised": raise_late,
    "bound": lambda x: Box(x).get,
    "partial": lambda x: functools.partial(identity, x),
    "text": lambda x: f"{1}{type(x).__name__}",
}


def with_context(x: Any) -> Any:
    with Context() as c:
        return c, x


def caught(x: Any) -> Any:
    try:
        raise KeyError(x)
    except KeyError:
        return x


def stored(x: Any) -> None:
    STORE["x"] = x


def attributes(x: Any) -> Any:
    x.first = x.second = [1]
    del x.second
    return x.first


def opaque(x: Any) -> Any:
    compile("1", "text", "eval")
    return [x]


CALLS.update(with_context=with_context, caught=caught, stored=stored, attributes=attributes, opaque=opaque)


def call(function: Callable[[Any], Any], argument: object) -> None:
    try:
        function(argument)
    except (ValueError, KeyError):
        pass


@pytest.mark.parametrize("name", CALLS)
def test_no_reference_is_kept_or_lost(name: str) -> None:
    """Arguments, the objects they hold, types and constants have the same reference counts after thousands of calls."""
    thing = Thing()
    function = CALLS[name]
    jitted = pijit.jit(function)
    watched = [
        thing,
        Thing,
        Box,
        identity,
        several,
        Context,
        None,
        True,
        (),
        function.__code__,
        type(function),
        int,
        list,
        dict,
    ]
    for _ in range(20):
        call(jitted, thing)
    before = references(watched)
    for _ in range(2000):
        call(jitted, thing)
    after = references(watched)
    for counts, counted, what in zip(before, after, watched, strict=True):
        assert abs(counted - counts) < 20, (what, counts, counted)
    STORE.clear()


@pytest.mark.parametrize("name", CALLS)
def test_arguments_die(name: str) -> None:
    """A recording, a replay and a miss keep no argument alive."""
    jitted = pijit.jit(CALLS[name])
    for _ in range(6):
        thing = Thing()
        gone = weakref.ref(thing)
        call(jitted, thing)
        STORE.clear()
        del thing
        gc.collect()
        assert gone() is None


@pytest.mark.parametrize("name", CALLS)
def test_arguments_die_without_collection(name: str) -> None:
    """... and not later than without pijit: no cycle is made that was none."""

    def alive(function: Callable[[Any], Any]) -> list[bool]:
        seen = []
        gc.disable()
        try:
            for _ in range(6):
                thing = Thing()
                gone = weakref.ref(thing)
                call(function, thing)
                STORE.clear()
                del thing
                seen.append(gone() is not None)
        finally:
            gc.enable()
        return seen

    assert alive(pijit.jit(CALLS[name])) == alive(CALLS[name])


@pytest.mark.parametrize("name", CALLS)
def test_memory_of_calls(name: str) -> None:
    jitted = pijit.jit(CALLS[name])
    thing = Thing()
    for _ in range(2000):
        call(jitted, thing)
    gc.collect()
    before = resident()
    for _ in range(40_000):
        call(jitted, thing)
    gc.collect()
    assert resident() - before < 2_000_000


@pytest.mark.parametrize("name", CALLS)
def test_memory_of_recordings(name: str) -> None:
    """Recorded and forgotten many times."""
    jitted = pijit.jit(CALLS[name])
    thing = Thing()

    def turn(times: int) -> None:
        for _ in range(times):
            call(jitted, thing)
            call(jitted, thing)
            pijit.reset(jitted)

    turn(200)
    gc.collect()
    blocks, before, tracked = sys.getallocatedblocks(), resident(), len(gc.get_objects())
    turn(1000)
    gc.collect()
    assert sys.getallocatedblocks() - blocks < 300
    assert len(gc.get_objects()) - tracked < 100
    assert resident() - before < 3_000_000


def test_memory_of_misses() -> None:
    """Calls that no trace takes."""
    jitted = pijit.jit(lambda x: (x, [x]))
    for x in range(500):
        jitted(x)
    pijit.reset(jitted)
    gc.collect()
    before, blocks = resident(), sys.getallocatedblocks()
    for turn in range(300):
        for x in range(40):
            jitted(str(x + turn))
        pijit.reset(jitted)
    gc.collect()
    assert sys.getallocatedblocks() - blocks < 300
    assert resident() - before < 3_000_000


def test_memory_of_functions() -> None:
    """Functions jitted, called and dropped."""

    def turn(times: int) -> None:
        for k in range(times):
            space: dict[str, Any] = {"k": k}
            exec("def g(x): return [x, k]\ndef f(x): return g(x)", space)  # noqa: S102
            jitted = pijit.jit(space["f"])
            for _ in range(3):
                assert jitted(1) == [1, k]

    turn(100)
    gc.collect()
    before, blocks, traces = resident(), sys.getallocatedblocks(), _core.stats()["traces"]
    turn(1000)
    gc.collect()
    assert _core.stats()["traces"] == traces
    assert sys.getallocatedblocks() - blocks < 500
    assert resident() - before < 4_000_000


# --------------------------------------------------------------------------------------------- what a trace keeps alive


def test_function_dies_with_its_traces() -> None:
    before = _core.stats()["traces"]
    jitted = pijit.jit(lambda x: x + 1)
    for _ in range(3):
        jitted(1)
    assert _core.stats()["traces"] == before + 1
    gone = weakref.ref(jitted)
    del jitted
    gc.collect()
    assert gone() is None
    assert _core.stats()["traces"] == before


def test_instance_dies_with_its_traces() -> None:
    class Model:
        def __call__(self, x: int) -> int:
            return x + 1

    before = _core.stats()["traces"]
    model = pijit.jit(Model())
    for _ in range(3):
        model(1)
    assert _core.stats()["traces"] == before + 1
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None
    assert _core.stats()["traces"] == before


def test_reset_frees_traces() -> None:
    before = _core.stats()["traces"]
    jitted = pijit.jit(lambda x: x + 1)
    for x in (1, 2.0, "a", True)[:3]:
        try:
            jitted(x)
        except TypeError:
            pass
    assert _core.stats()["traces"] > before
    pijit.reset(jitted)
    assert _core.stats()["traces"] == before
    assert pijit.status(jitted).state == "cold"


@pytest.mark.parametrize(
    "where", ["global", "cell", "attribute", "list", "dict", "default", "class", "method", "nested"]
)
def test_traces_keep_nothing_of_the_program_alive(where: str) -> None:
    """What was read while recording dies when the program drops it, though the trace lives on."""
    thing = Thing()
    thing.v = 1
    holder = Thing()
    holder.thing = thing
    holder.items = [thing]
    holder.table = {"k": thing}
    cell = thing
    space = {"thing": thing}
    exec("def f(): return thing.v", space)  # noqa: S102

    class Class:
        v = thing

        def get(self) -> Any:
            return self.held.v

    def with_default(x: Any = thing) -> Any:
        return x.v

    holder.method = Class()
    holder.method.held = thing
    holder.with_default = with_default

    def in_cell() -> Any:
        return cell.v

    uses: dict[str, Callable[[], Any]] = {
        "global": space["f"],
        "cell": in_cell,
        "attribute": lambda: holder.thing.v,
        "list": lambda: [x.v for x in holder.items],
        "dict": lambda: holder.table["k"].v,
        "default": lambda: holder.with_default(),
        "class": lambda: Class.v.v,
        "method": lambda: holder.method.get(),
        "nested": lambda: [holder.thing, holder][0].v,
    }
    jitted = pijit.jit(uses[where])
    for _ in range(4):
        jitted()
    assert replays(jitted) >= 2
    gone = weakref.ref(thing)
    holder.__dict__.clear()
    cell = None
    space["thing"] = None
    Class.v = None
    with_default.__defaults__ = None
    del thing
    gc.collect()
    assert gone() is None
    try:
        jitted()
    except (AttributeError, NameError):
        pass


def test_class_read_while_recording_dies() -> None:
    class Local:
        k = 1

        def m(self) -> int:
            return self.k

    holder = [Local()]
    jitted = pijit.jit(lambda: holder[0].m())
    for _ in range(4):
        jitted()
    assert replays(jitted) >= 2
    gone = weakref.ref(Local)
    holder[0] = None
    del Local
    gc.collect()
    assert gone() is None


def test_result_is_a_new_object_each_time() -> None:
    """Objects of a replay are as fresh as those of a call."""
    jitted = pijit.jit(lambda x: ([x], {"k": x}, {1}, Box(x), lambda: x))
    results = [jitted(1) for _ in range(6)]
    assert replays(jitted) >= 4
    for position in range(5):
        assert len({id(result[position]) for result in results}) == len(results)


# ---------------------------------------------------------------------------------- where and in which order things die


class Recorder:
    """Says when it dies."""

    def __init__(self, log: list[Any], name: Any) -> None:
        self.log, self.name = log, name

    def __del__(self) -> None:
        self.log.append(self.name)


def dies_at_del(log: list[Any]) -> None:
    a = Recorder(log, "a")
    log.append(1)
    del a
    log.append(2)


def dies_at_rebinding(log: list[Any]) -> None:
    a = Recorder(log, "a")
    log.append(1)
    a = Recorder(log, "b")
    log.append(2)
    a = None
    log.append(3)


def dies_at_return(log: list[Any]) -> Any:
    a = Recorder(log, "a")
    b = Recorder(log, "b")
    log.append(1)
    return len(log)


def dies_as_temporary(log: list[Any]) -> None:
    identity(Recorder(log, "a"))
    log.append(1)
    [Recorder(log, "b"), log.append(2)][1]
    log.append(3)


def dies_in_container(log: list[Any]) -> None:
    items = [Recorder(log, n) for n in "abc"]
    log.append(1)
    items.pop(0)
    log.append(2)
    items[0] = None
    log.append(3)
    items.clear()
    log.append(4)


def dies_in_callee(log: list[Any]) -> None:
    def inner(x: Any) -> None:
        log.append(1)

    inner(Recorder(log, "a"))
    log.append(2)


def dies_in_loop(log: list[Any]) -> None:
    for n in range(3):
        a = Recorder(log, n)
        log.append("body")
    log.append("end")


def dies_while_raising(log: list[Any]) -> None:
    try:
        a = Recorder(log, "a")
        identity(Recorder(log, "b"))
        raise ValueError
    except ValueError:
        log.append("handler")
    log.append("end")


def argument_dies_at_del(log: list[Any], x: Any = None) -> None:
    x = [Recorder(log, "a")]
    y = x
    del x
    log.append(1)
    del y
    log.append(2)


def attribute_dies(log: list[Any]) -> None:
    holder = Thing()
    holder.v = Recorder(log, "a")
    log.append(1)
    holder.v = Recorder(log, "b")
    log.append(2)
    del holder.v
    log.append(3)


def weak_reference_dies(log: list[Any]) -> None:
    a = Thing()
    r = weakref.ref(a, lambda _: log.append("callback"))
    log.append(r() is a)
    del a
    log.append(r() is None)


def in_generator(log: list[Any]) -> None:
    def g() -> Any:
        a = Recorder(log, "a")
        yield 1
        log.append("after")

    for x in g():
        log.append("body")
    log.append("end")


def dies_when_overwritten(log: list[Any]) -> None:
    """What a container that existed before holds is overwritten."""
    box = log[0]
    log.append(1)
    box.v = 2
    log.append(2)
    box.w = 3
    log.append(3)
    del box.x
    log.append(4)


def global_dies(log: list[Any]) -> None:
    STORE["r"] = Recorder(log, "a")
    log.append(1)
    STORE["r"] = 2
    log.append(2)


DYING = [
    dies_at_del,
    dies_at_rebinding,
    dies_at_return,
    dies_as_temporary,
    dies_in_container,
    dies_in_callee,
    dies_in_loop,
    dies_while_raising,
    argument_dies_at_del,
    attribute_dies,
    weak_reference_dies,
    in_generator,
    dies_when_overwritten,
    global_dies,
]


@pytest.mark.parametrize("function", DYING)
@pytest.mark.parametrize("kept", [False, True])
def test_order_of_finalizers(function: Callable[..., Any], kept: bool) -> None:
    """`kept`: one log for all calls; else a new one each time."""

    def logs(fn: Callable[..., Any]) -> list[list[Any]]:
        log: list[Any] = []
        seen = []
        for _ in range(5):
            if not kept:
                log = []
            if function is dies_when_overwritten:
                box = Thing()
                for name in "vwx":
                    setattr(box, name, Recorder(log, name))
                log[:1] = [box]
                del box
            fn(log)
            seen.append([x for x in log if type(x) is not Thing])
        return seen

    assert logs(pijit.jit(function)) == logs(function)


@pytest.mark.parametrize("how", ["del", "rebind", "return", "callee"])
def test_argument_dies_at_the_same_place(how: str) -> None:
    """An argument to which only the call holds on, seen by weak reference and by finalizer."""

    def f(x: Any, log: list[Any], gone: Any) -> Any:
        if how == "del":
            y = [x]
            del x
            log.append(gone() is None)
            del y
        elif how == "rebind":
            x = (x, 1)
            log.append(gone() is None)
            x = None
        elif how == "callee":
            identity(x)
            del x
        log.append(gone() is None)
        return 1

    def logs(fn: Callable[..., Any]) -> list[Any]:
        seen = []
        for _ in range(5):
            log: list[Any] = []
            box = [Recorder(log, "dead")]
            fn(box.pop(), log, weakref.ref(log) if False else (lambda: log if "dead" not in log else None))
            seen.append(log)
        return seen

    with hook_in_place():
        assert logs(pijit.jit(f)) == logs(f)


def test_finalizer_calls_the_jitted_function() -> None:
    def logs(jit: Callable[[Any], Any]) -> list[Any]:
        log: list[Any] = []

        def work(x: int) -> int:
            return x + 1

        work = jit(work)

        class Calls:
            def __del__(self) -> None:
                log.append(work(10))

        def f(x: int) -> Any:
            c = Calls()
            y = work(x)
            del c
            return y, len(log)

        f = jit(f)
        return [f(1) for _ in range(6)] + log

    assert logs(pijit.jit) == logs(lambda function: function)


def test_finalizer_changes_what_was_read() -> None:
    """A finalizer that runs in the middle writes what is read after it."""

    def values(jit: Callable[[Any], Any]) -> list[Any]:
        config = {"k": 0}

        class Writes:
            def __del__(self) -> None:
                config["k"] += 1

        def f() -> Any:
            before = config["k"]
            w = Writes()
            del w
            return before, config["k"]

        f = jit(f)
        return [f() for _ in range(6)]

    assert values(pijit.jit) == values(lambda function: function)


def test_weakref_callback_changes_what_was_read() -> None:
    def values(jit: Callable[[Any], Any]) -> list[Any]:
        config = {"k": 0}
        box: list[Any] = []

        def f(items: list[Any]) -> Any:
            before = config["k"]
            items.pop()
            return before, config["k"]

        f = jit(f)
        seen = []
        for _ in range(6):
            thing = Thing()
            box[:] = [weakref.ref(thing, lambda _: config.update(k=config["k"] + 1))]
            items = [thing]
            del thing
            seen.append(f(items))
        return seen

    for count in range(20):
        kept = [Thing() for _ in range(count)]  # whether addresses are used again differs
        assert values(pijit.jit) == values(lambda function: function)
        del kept


# ------------------------------------------------------------------------------------------------- addresses used again


def test_code_address_used_again() -> None:
    """Functions made and dropped so that code, function and globals land on addresses of dead ones."""
    for k in range(300):
        space: dict[str, Any] = {"k": k}
        exec(f"def g(x): return x + {k}\ndef f(x): return g(x) * 2 + k", space)  # noqa: S102
        jitted = pijit.jit(space["f"])
        assert [jitted(1), jitted(1), jitted(1)] == [(1 + k) * 2 + k] * 3
        del jitted, space
        if k % 50 == 0:
            gc.collect()


def test_callee_address_used_again() -> None:
    """The trace lives, what it called dies, and another is made at the same place."""
    space: dict[str, Any] = {}
    exec("def f(x): return g(x)", space)  # noqa: S102
    jitted = pijit.jit(space["f"])
    for k in range(300):
        exec(f"def g(x): return x + {k}", space)  # noqa: S102
        assert [jitted(1), jitted(1)] == [1 + k] * 2
        pijit.reset(jitted) if k % 7 == 0 else None


class Full:
    """As many attributes as a class keeps the names of: another one gives the instance a dict."""


for number in range(40):
    setattr(Full(), f"a{number}", number)


def store_makes_dict(x: Any) -> Any:
    x.a0 = 1
    x.b = 2
    x.a0 = 3
    seen = [x.a0, x.b, x.a1, hasattr(x, "c"), hasattr(x, "a2")]
    x.c = 5
    del x.b
    return seen, hasattr(x, "b"), x.c


def look_at_made_dict(x: Any) -> Any:
    return store_makes_dict(x), list(x.__dict__.items())


@pytest.mark.parametrize("function", [store_makes_dict, look_at_made_dict])
def test_dict_that_a_store_makes(function: Callable[[Any], Any]) -> None:
    """It is gone when the next call has an instance at the same address."""
    jitted = pijit.jit(function)
    address = 0

    def made_there() -> Any:
        nonlocal address
        others, thing = [], Full()
        while address not in {0, id(thing)} and len(others) < 1000:
            others.append(thing)
            thing = Full()
        address = id(thing)
        return thing

    def outcome(call: Callable[[Any], Any], k: int) -> Any:
        thing = made_there()
        thing.a0, thing.a1 = k, 8
        if k % 5 == 4:
            thing.a2 = k
        return call(thing), thing.__dict__

    for k in range(60):
        assert outcome(jitted, k) == outcome(function, k)
    assert replays(jitted) > 0 or function is look_at_made_dict


@pytest.mark.parametrize("kind", ["instance", "class", "dict", "list", "code", "module"])
def test_address_of_a_read_object_used_again(kind: str) -> None:
    holder: list[Any] = [None]
    uses: dict[str, Callable[[], Any]] = {
        "instance": lambda: holder[0].v,
        "class": lambda: holder[0].v,
        "dict": lambda: holder[0]["v"],
        "list": lambda: holder[0][0],
        "code": lambda: holder[0](),
        "module": lambda: holder[0].v,
    }

    def make(k: int) -> Any:
        if kind == "instance":
            thing = Thing()
            thing.v = k
            return thing
        if kind == "class":
            return type("C", (), {"v": k})
        if kind == "dict":
            return {"v": k}
        if kind == "list":
            return [k]
        if kind == "code":
            return eval(f"lambda: {k}")  # noqa: S307
        module = types.ModuleType("m")
        module.v = k
        return module

    jitted = pijit.jit(uses[kind])
    seen: set[int] = set()
    reused = 0
    for k in range(60):
        holder[0] = None
        if kind == "class":
            gc.collect()
        holder[0] = make(k)
        reused += id(holder[0]) in seen
        seen.add(id(holder[0]))
        assert [jitted(), jitted()] == [k, k]
        if k % 5 == 0:
            pijit.reset(jitted)
    assert reused > 10


def test_instance_root_at_a_used_address() -> None:
    class Model:
        def __init__(self, k: int) -> None:
            self.k = k

        def __call__(self) -> int:
            return self.k

    addresses = set()
    for k in range(200):
        model = pijit.jit(Model(k)) if k % 2 == 0 else Model(k)
        addresses.add(id(model))
        assert [model(), model(), model()] == [k] * 3
        del model
    assert len(addresses) < 150
    assert len([root for root in (Model(0), Model(1)) if api.root_of(root) >= 0]) == 0


# ---------------------------------------------------------------------------------------------------------- odd moments


def test_jitted_function_drops_itself() -> None:
    """The last reference to a function goes while its trace runs."""
    space: dict[str, Any] = {}
    exec("def f(x):\n    global f\n    if x: f = None\n    return [x, x + 1]", space)  # noqa: S102
    for drop_at in range(4):
        exec("def f(x):\n    drop(x)\n    return [x, x + 1]", space)  # noqa: S102
        space["f"] = pijit.jit(space["f"])
        space["drop"] = lambda x: None
        for _ in range(drop_at):
            assert space["f"](1) == [1, 2]
        space["drop"] = lambda x: space.pop("f")
        assert space["f"](1) == [1, 2]
        assert "f" not in space


def test_reset_from_inside() -> None:
    jitted = pijit.jit(lambda x: ([x], inner(x), [x, x])[2])

    def inner(x: Any) -> Any:
        if resets:
            pijit.reset(jitted)
        return x

    resets: list[int] = []
    for turn in range(12):
        if turn % 4 == 3:
            resets.append(1)
        else:
            resets.clear()
        assert jitted(turn % 2) == [turn % 2, turn % 2]


def test_collection_at_every_moment() -> None:
    """Collections as often as possible, with garbage whose finalizers allocate."""
    log: list[int] = []

    class Cycle:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            log.append(len([1, 2, 3]))

    def f(n: int) -> Any:
        out = []
        for i in range(n):
            Cycle()
            out.append([i, (i, [i])])
        return out, {"k": out}

    expected = repr(f(30))
    jitted = pijit.jit(f)
    threshold = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for _ in range(6):
            assert repr(jitted(30)) == expected
    finally:
        gc.set_threshold(*threshold)


def test_nothing_is_collected_between_arguments_and_call() -> None:
    """CPython makes a method object for a C method that it calls under a tracer: that must not start a collection."""
    queue_module = pytest.importorskip("_queue")

    def f(n: int) -> list[int]:
        queue = queue_module.SimpleQueue()
        numbers = itertools.count()

        class Circular:
            def __init__(self) -> None:
                self.circular = self

            def __del__(self) -> None:
                queue.put(next(numbers))

        results: list[int] = []
        while len(results) < n:
            made = Circular()
            queue.put(next(numbers))
            del made
            results.append(queue.get())
        return results

    jitted = pijit.jit(f)
    before = gc.get_threshold()
    gc.set_threshold(40)
    try:
        for n in (500, 500, 500, 600, 600):
            assert jitted(n) == f(n) == list(range(n))
    finally:
        gc.set_threshold(*before)
    assert replays(jitted) >= 2


def test_collector_is_given_back() -> None:
    """A recording pauses the collector and gives it back, however it ends."""
    for function in CALLS.values():
        jitted = pijit.jit(function)
        for state in (gc.enable, gc.disable):
            state()
            enabled = gc.isenabled()
            for _ in range(4):
                call(jitted, Thing())
                assert gc.isenabled() is enabled
            pijit.reset(jitted)
    gc.enable()
    assert pijit.jit(lambda: gc.isenabled())() is True
    gc.disable()
    try:
        assert pijit.jit(lambda: gc.isenabled())() is False
    finally:
        gc.enable()
    pijit.jit(lambda: gc.disable())()
    try:
        assert gc.isenabled() is False
    finally:
        gc.enable()
    STORE.clear()
