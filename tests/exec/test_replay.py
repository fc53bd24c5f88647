"""Nodes, their side exits, and how long registers live."""

from __future__ import annotations

import ctypes
import signal
import sys
import threading
import weakref
from types import ModuleType
from typing import Any

import pytest
from describe import const, entry, leaving, reg, returning, virtual


class Plain:
    pass


def function(x: Any) -> Any:
    y = "plain"
    return x, y


def second(x: Any, y: Any) -> Any:
    return "plain", x, y


def start(function_: Any) -> dict[str, Any]:
    """The root frame before its first instruction."""
    code = function_.__code__
    count = code.co_argcount
    return {
        "code": code,
        "resume": 0,
        "locals": [reg(i) for i in range(count)] + [None] * (code.co_nlocals - count),
        "stack": [],
    }


def arm(probe: ModuleType, root: Any, nodes: list[dict[str, Any]], regs: int, **rest: Any) -> str:
    trace = leaving(root, [start(root)], **rest)
    trace["regs"] = regs
    trace["nodes"] = [{**node, "snapshot": 0} for node in nodes]
    return str(probe.arm(root.__code__, trace))


def call(callable_: Any, *operands: Any, out: int | None = None, names: tuple[str, ...] = ()) -> dict[str, Any]:
    node = {"op": "kCall", "a": const(callable_), "operands": list(operands), "aux": len(names)}
    if names:
        node["b"] = const(names)
    return node if out is None else {**node, "out": out}


def test_calls(probe: ModuleType) -> None:
    nodes: list[dict[str, Any]] = [
        call(int, reg(0), const(2), out=1, names=("base",)),
        call(divmod, reg(1), const(2), out=2),
        {"op": "kReturn", "a": reg(2)},
    ]
    text = arm(probe, function, nodes, 3)
    assert "r1 = call class int ('base',)" in text or "r1 = call" in text
    assert function("101") == (2, 1)
    with pytest.raises(ValueError, match="invalid literal"):
        function("9")
    assert probe.disarm() == (2, 0)


def test_guards_in_place_leave(probe: ModuleType) -> None:
    nodes: list[dict[str, Any]] = [
        {"op": "kGuardIs", "a": reg(0), "b": const("a")},
        {"op": "kReturn", "a": const("replayed")},
    ]
    arm(probe, function, nodes, 1)
    assert function("a") == "replayed"
    assert function("b") == ("b", "plain")
    assert probe.disarm() == (2, 1)
    arm(probe, function, [{"op": "kGuardType", "a": reg(0), "b": const(int)}, nodes[1]], 1)
    assert function(1) == "replayed"
    assert function(True) == (True, "plain")


def test_points_where_nothing_is_done(probe: ModuleType) -> None:
    """A turn of a loop begins. Under stress a replay leaves at one of its points, at 0 if it knows of no more."""
    for point, result in ((1, "replayed"), (0, ("a", "plain"))):
        nodes: list[dict[str, Any]] = [
            {"op": "kLoopHead", "imm": 0},
            {"op": "kExitPoint", "imm": point},
            {"op": "kReturn", "a": const("replayed")},
        ]
        arm(probe, function, nodes, 1, heads=[{"state": 0}])
        assert function("a") == result
    with pytest.raises(RuntimeError, match="head out of range"):
        arm(probe, function, nodes, 1)


def test_stores(probe: ModuleType) -> None:
    nodes: list[dict[str, Any]] = [
        {"op": "kStoreAttr", "a": reg(0), "b": const("a"), "c": reg(1)},
        {"op": "kReturn", "a": reg(0)},
    ]
    arm(probe, second, nodes, 2)
    it = Plain()
    assert second(it, 5) is it
    assert it.a == 5
    assert second(5, it) == ("plain", 5, it)
    arm(probe, second, [{"op": "kDelAttr", "a": reg(0), "b": const("a")}, nodes[1]], 2)
    assert second(it, 0) is it
    assert vars(it) == {}
    assert second(it, 0) == ("plain", it, 0)
    arm(probe, second, [{"op": "kStoreItem", "a": reg(0), "b": const(-1), "c": reg(1)}, nodes[1]], 2)
    assert second([1, 2], 3) == [1, 3]
    assert second({}, 3) == {-1: 3}
    assert second([], 3) == ("plain", [], 3)
    arm(probe, second, [{"op": "kDelItem", "a": reg(0), "b": reg(1)}, nodes[1]], 2)
    assert second([1, 2], 0) == [2]
    assert second({1: 2}, 1) == {}


def test_built_once(probe: ModuleType) -> None:
    nodes: list[dict[str, Any]] = [
        {"op": "kBuild", "a": virtual(0), "out": 1, "time": 2},
        call(list.append, reg(1), reg(0)),
        {"op": "kReturn", "a": virtual(1), "time": 4},
    ]
    virtuals = [{"kind": "kList", "type": list, "reg": 1, "reg_time": 2}, {"kind": "kTuple", "type": tuple}]
    log = [entry(0, "item", const(0)), entry(1, "item", virtual(0)), entry(1, "item", virtual(0))]
    arm(probe, function, nodes, 2, virtuals=virtuals, log=log)
    made = function("x")
    assert made == ([0, "x"], [0, "x"])
    assert made[0] is made[1]


def test_registers_die_at_their_last_use(probe: ModuleType) -> None:
    seen = []
    alive: list[Any] = []

    def make() -> Plain:
        it = Plain()
        alive.append(weakref.ref(it))
        return it

    nodes: list[dict[str, Any]] = [
        call(make, out=1),
        call(lambda: seen.append(alive[0]() is not None)),
        call(id, reg(1), out=2),
        call(lambda: seen.append(alive[0]() is not None)),
        {"op": "kReturn", "a": const(1)},
    ]
    arm(probe, function, nodes, 3)
    function(1)
    assert seen == [True, False]


def test_what_a_snapshot_needs_lives(probe: ModuleType) -> None:
    state = start(function)
    state["locals"][1] = virtual(0)
    trace = leaving(
        function, [{**state, "resume": 3}], virtuals=[{"kind": "kTuple", "type": tuple}], log=[entry(0, "item", reg(1))]
    )
    trace["regs"] = 2
    trace["nodes"] = [{**call(Plain, out=1)}, call(len, const(())), {"op": "kExit"}]
    trace["frames"].append(start(function))
    trace["snapshots"].append({"frame": 1})
    for node, snapshot in zip(trace["nodes"], (1, 1, 0), strict=True):
        node["snapshot"] = snapshot
    trace["frames"][0]["resume"] = 3  # after `y = ...`
    probe.arm(function.__code__, trace)
    x, y = function("x")
    assert x == "x"
    assert type(y[0]) is Plain


def test_loaded_items_are_held_when_a_store_drops_them(probe: ModuleType) -> None:
    nodes: list[dict[str, Any]] = [
        {"op": "kStoreItem", "a": reg(0), "b": const(0), "c": const(None)},
        {"op": "kReturn", "a": reg(1)},
    ]
    guards = [{"op": "kLoadListItem", "subject": reg(0), "number": 0, "out": 1}]
    arm(probe, function, nodes, 2, guards=guards)
    it = [Plain()]
    taken = function(it)
    assert type(taken) is Plain
    assert it == [None]
    alone = Plain()
    assert sys.getrefcount(taken) == sys.getrefcount(alone)


def test_a_signal_leaves(probe: ModuleType) -> None:
    hits = []
    old = signal.signal(signal.SIGUSR1, lambda *_: hits.append(sys._getframe(1).f_code.co_name))
    try:
        nodes: list[dict[str, Any]] = [
            call(ctypes.CDLL(None)["raise"], const(int(signal.SIGUSR1))),
            call(len, const(())),
            {"op": "kReturn", "a": const("replayed")},
        ]
        arm(probe, function, nodes, 1)
        # The snapshot of every node is, in these tests, the start of the function.
        assert function(1) == (1, "plain")
        assert hits == ["function"]
        assert probe.disarm() == (1, 0)
    finally:
        signal.signal(signal.SIGUSR1, old)


def test_threads(probe: ModuleType) -> None:
    nodes: list[dict[str, Any]] = [
        call(sorted, reg(0), out=1),
        call(list.copy, reg(1), out=2),
        {"op": "kReturn", "a": reg(2)},
    ]
    arm(probe, function, nodes, 3)
    wrong: list[Any] = []

    def work() -> None:
        for i in range(3000):
            result = function([i, 2, 1])
            if result not in (sorted([i, 2, 1]), ([i, 2, 1], "plain")):
                wrong.append(result)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_replays_nest(probe: ModuleType) -> None:
    nodes: list[dict[str, Any]] = [
        call(lambda n: function(n - 1) if n else 0, reg(0), out=1),
        call(int.__add__, reg(1), const(1), out=2),
    ]
    arm(probe, function, [*nodes, {"op": "kReturn", "a": reg(2)}], 3)
    assert function(50) == 51


def test_malformed_traces_do_not_verify(probe: ModuleType) -> None:
    for nodes, regs in (
        ([{"op": "kReturn", "a": reg(1)}], 2),
        ([{"op": "kReturn", "a": reg(7)}], 1),
        ([call(len, out=0), {"op": "kReturn", "a": reg(0)}], 1),
        ([call(len, out=1)], 2),
        ([{"op": "kReturn", "a": virtual(3)}], 1),
    ):
        with pytest.raises(RuntimeError):
            arm(probe, function, nodes, regs)
    wrong = returning(function, virtual(0), virtuals=[{"kind": "kUnmodelled", "type": None}])
    with pytest.raises(RuntimeError, match="cannot be built"):
        probe.arm(function.__code__, wrong)
