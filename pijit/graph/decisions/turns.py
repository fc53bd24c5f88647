"""Makes a straight line of nodes out of a trace that keeps its decisions, with marks where turns of loops begin.

The marks are nodes of the namespace "python", which no graph has that leaves this package:
- "python::head": a turn of a loop begins. `slots` are the values and numbers that the variables hold; `Head`, at index
  `at` of `heads`, says which variable holds which, and what else they hold.
- "python::meet": ways meet again that a decision has parted, with `slots` as a head has them.
- "python::number": a number of Python that is in a register from here on, since a turn may have computed it. `start` is
  what it is in this call.
- "python::decision": the call goes one of two ways here.
- "python::effect": something is stored in an object of Python, or a function is called that is not looked into.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from pijit.errors import ExportError
from pijit.graph.build.builder import DECISION, Builder
from pijit.graph.build.opaque_objects import Opaque, holds_opaque
from pijit.graph.decisions.live_variables import live_slots
from pijit.graph.model import Argument, Node, Value

HEAD, MEET, NUMBER, EFFECT = "python::head", "python::meet", "python::number", "python::effect"
# Where a variable keeps something: the frame from the root, its slot, then keys of what the slot holds.
Path = tuple[Any, ...]
_ITEMS = {"item", "item_int", "item_float", "item_bool", "item_not"}
_MUTABLE = {"list", "dict", "instance", "vars"}


@dataclass
class Head:
    """What the variables hold where a turn begins.

    Attributes:
        loop: the loop in its code: equal for all turns of it. Of a meeting the instruction, and how deep its frame is.
        call: the number of the call of the function that the loop stands in.
        turn: how many turns were before.
        in_registers: numbers that the loop assigns are in registers from here on.
        over: the range that the loop goes over.
        values: of each path the index in the mark's `slots`.
        others: what else is held, in a form that is equal for equal things.
        names: of the variables, by the first two steps of the path.
        kinds: of the slots that hold an object which may change, its number and how often it was changed.
    """

    loop: tuple[Any, ...]
    call: int
    turn: int
    in_registers: bool
    over: range | None = None
    values: dict[Path, int] = field(default_factory=dict)
    others: dict[Path, Any] = field(default_factory=dict)
    names: dict[Path, str] = field(default_factory=dict)
    changing: dict[Path, tuple[str, int, int]] = field(default_factory=dict)

    def name(self, path: Path) -> str:
        """Of the variable."""
        return self.names.get(path[:2], "a value")


class TurnBuilder(Builder):
    """A `Builder` that marks the turns of loops and keeps decisions where they are."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs, decisions="keep")
        self.heads: list[Head] = []
        self.ranges: set[str] = set()  # names of the bools that say whether a range has one more number
        self._turns: dict[Any, int] = {}  # by loop and call
        self._positions: dict[Any, tuple[int, Value]] = {}  # of ranges in the next turn, by loop and call
        self._item: Any = None  # what the range of the loop gives in this turn, if it is to be a register

    def _needed(self, outputs: Any) -> tuple[Node, ...]:
        return tuple(self._nodes)  # what nobody uses in one turn may be used in another

    def _node(self, row: Mapping[str, Any]) -> None:
        if row["op"] == "loop_head":
            self._head(row)
        elif row["op"] == "scalar" and row["scalar"] == "pos":
            if self._item is None:
                self._number_here(row, row["a"][1])
            else:
                self._registers[row["out"]], self._item = self._item, None
        else:
            super()._node(row)

    def _structure(self, value: Any) -> Any:
        made = self._argument(value)
        if holds_opaque(made):
            raise ExportError(
                f"{self._definition()}{self._name} returns an object that a graph cannot give; return tensors, "
                "numbers, or tuples, lists and dicts of them"
            )
        return made

    def _foreign(self, row: Mapping[str, Any], name: str = "", source: str = "") -> None:
        before = len(self._effects)
        super()._foreign(row, name, source)
        if len(self._effects) > before:
            self._emit(row, EFFECT, {"what": self._effects[-1].what}, ())

    def _emit(self, row: Mapping[str, Any], op: str, arguments: Mapping[str, Any], results: Any, **more: Any) -> None:
        super()._emit(row, op, arguments, results, **more)
        if op == DECISION and "x" not in arguments:
            raise ExportError(
                f"{self._nodes[-1].place}: the program decides on what a function of Python gives for the data of a "
                "tensor, which a graph cannot hold; compute it with tensors (torch.sqrt instead of math.sqrt)"
            )
        if op in _ITEMS:  # of a tensor that the call has made, too: a turn may change it
            self._of_data.update(value.name for value in results if value is not None)

    def _number_here(self, row: Mapping[str, Any], start: Any) -> Value:
        value = Value(self._fresh("number"), _kind_of(start))  # type: ignore[arg-type]
        if row.get("out") is not None:
            self._registers[row["out"]] = value
        self._of_data.add(value.name)
        self._emit(row, NUMBER, {"start": start}, (value,))
        return value

    # -- heads of loops

    def _head(self, row: Mapping[str, Any]) -> None:
        told = row["head"]
        frames = told["frames"]
        code = frames[0]["code"]
        meets = told["loop"] < 0
        loop = (code, told["at"], len(frames)) if meets else (code, told["loop"])
        turn = self._turns.get((loop, told["frame"]), 0) + 1 if told["back"] else 0
        self._turns[loop, told["frame"]] = turn
        head = Head(loop, told["frame"], turn, told["in_registers"])
        slots: list[Argument] = []
        live = live_slots(code, told["at"])
        taken: tuple[range, Value, int] | None = None  # the range that the loop goes over, and its position
        for depth, frame in enumerate(reversed(frames)):
            innermost = depth == len(frames) - 1
            for slot, (value, number, changes) in enumerate(frame["slots"]):
                if innermost and slot < frame["locals"] and slot not in live:
                    continue
                path = (depth, slot)
                head.names[path] = _name_of(frame["code"], slot, frame["locals"])
                top = innermost and slot == len(frame["slots"]) - 1
                if value[0] == "iterator" and value[1][0] == "const" and isinstance(value[1][1], range):
                    head.others[path] = ("range", value[1][1])
                    head.over = value[1][1] if top else head.over
                    now, position = value[2], value[2]
                    if top and told["in_registers"] and now >= 0:
                        position = self._position(row, head, now)
                        taken = value[1][1], position, now
                    self._hold(head, slots, (*path, "position"), position)
                    continue
                if value[0] in _MUTABLE or value[0] in {"other", "iterator"}:
                    head.changing[path] = (value[0], number or -1, changes or 0)
                for step, leaf in self._leaves(path, value):
                    if isinstance(leaf, _Held):
                        self._hold(head, slots, step, leaf.what)
                    else:
                        head.others[step] = leaf
        self._emit(row, MEET if meets else HEAD, {"at": len(self.heads), "slots": tuple(slots)}, ())
        self.heads.append(head)
        if taken is not None:
            self._take(row, head, *taken)

    @staticmethod
    def _hold(head: Head, slots: list[Argument], path: Path, what: Argument) -> None:
        head.values[path] = len(slots)
        slots.append(what)

    def _position(self, row: Mapping[str, Any], head: Head, now: int) -> Value:
        """The position of the range that the loop goes over."""
        expected, value = self._positions.get((head.loop, head.call), (-1, None))
        return value if value is not None and expected == now else self._number_here({**row, "out": None}, now)

    def _take(self, row: Mapping[str, Any], head: Head, over: range, position: Value, now: int) -> None:
        """A turn over a range begins with the decision whether there is one more number."""
        more = self._made(row, "scalar_less", position, len(over), "bool")
        self.ranges.add(more.name)
        self._emit(row, DECISION, {"x": more, "expected": now < len(over)}, ())
        if now >= len(over):
            return
        self._positions[head.loop, head.call] = now + 1, self._made(row, "scalar_add", position, 1, "int")
        item: Any = position
        if over.step != 1:
            item = self._made(row, "scalar_multiply", item, over.step, "int")
        if over.start != 0:
            item = self._made(row, "scalar_add", item, over.start, "int")
        self._item = item

    def _made(self, row: Mapping[str, Any], op: str, x: Any, y: Any, kind: str) -> Value:
        value = Value(self._fresh(op), kind)  # type: ignore[arg-type]
        self._of_data.add(value.name)
        self._emit(row, op, {"x": x, "y": y}, (value,))
        return value

    def _leaves(self, path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
        """What a value of the trace consists of, each with its path: `_Held`, or what is equal for equal things."""
        kind = value[0]
        if kind == "const":
            thing = self._literal(value[1])
            if isinstance(thing, Value) or _kind_of(thing):
                yield path, _Held(thing)
            else:
                yield path, ("constant", type(value[1]).__name__, id(value[1]))
        elif kind == "reg":
            thing = self._argument(value)
            if isinstance(thing, Opaque):
                yield path, ("object", value[1])
            else:
                yield from self._parts(path, thing)
        elif kind in {"tuple", "list"}:
            yield path, (kind, len(value[-1]))
            for at, item in enumerate(value[-1]):
                yield from self._leaves((*path, at), item)
        elif kind == "dict":
            yield path, (kind, len(value[-1]))
            for at, (key, item) in enumerate(value[-1]):
                yield from self._leaves((*path, at, "key"), key)
                yield from self._leaves((*path, at), item)
        elif kind == "instance":
            yield path, (kind, id(value[1]), tuple(value[2]), len(value[3]))
            for key, item in value[2].items():
                yield from self._leaves((*path, key), item)
            for at, (key, item) in enumerate(value[3]):
                yield from self._leaves((*path, at, "key"), key)
                yield from self._leaves((*path, at), item)
        elif kind in {"slice", "method", "vars"}:
            yield path, (kind,)
            for at, item in enumerate(value[1:]):
                yield from self._leaves((*path, at), item)
        elif kind == "iterator":
            yield path, (kind, value[2])
        else:  # of an object that the trace does not look into `Head.changing` says which it is
            yield path, (kind, *map(str, value[1:]))

    def _parts(self, path: Path, thing: Any) -> Iterator[tuple[Path, Any]]:
        if isinstance(thing, Value) or _kind_of(thing):
            yield path, _Held(thing)
        elif isinstance(thing, tuple | list):
            yield path, (type(thing).__name__, len(thing))
            for at, item in enumerate(thing):
                yield from self._parts((*path, at), item)
        else:
            yield path, ("literal", type(thing).__name__, repr(thing))


@dataclass(frozen=True)
class _Held:
    what: Argument


def _kind_of(thing: Any) -> str:
    """The kind of a number; "": it is none."""
    return {bool: "bool", int: "int", float: "float"}.get(type(thing), "")


def _name_of(code: CodeType, slot: int, count: int) -> str:
    """The name of a variable; of what stands on the stack a word for it."""
    names = (*code.co_varnames, *(name for name in code.co_cellvars if name not in code.co_varnames), *code.co_freevars)
    return names[slot] if slot < min(count, len(names)) else "an object of the loop"
