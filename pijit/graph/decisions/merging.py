"""What recorded calls did, merged into one tree: where they went different ways stands a decision.

A call is a straight line of nodes with marks (`pijit.graph.decisions.turns`). Several are walked side by side. As long
as all have the same node next, it is the tree's. Where they decide on data and go different ways, the tree has a
`Fork`; if the ways meet again, and go on with the same nodes, a `Join`.

A loop is such a tree, too. Its turns, of all calls, are walked side by side from the mark where each begins: what
differs from turn to turn is what its variables held there, and each gets a value of its own. A way through the loop
ends where the next turn begins, with what the variables hold then; or it never comes back, and has what the call did
after the loop. So nobody has to find where a loop ends.

Rules:
1. The tree is made of what was seen, and says of other data what the same program would do. So what a turn does may
   depend on nothing but on values of the tree: on what the variables held, and on what there was before the loop.
   A variable whose object differs from turn to turn, a store, a list that grows are no such values: the loop is not
   kept then, and its turns stand one after the other.
2. Numbers of Python are constants in the first turn of the first call. It is taken to compute what the other turns do
   if that gives its constants. A way that was only gone in such a turn is not known well enough: the loop is not kept.
3. Two variables may hold one tensor. Which of them is meant is found by other turns, where they hold two; if none
   shows it, the loop is not kept.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pijit.graph.build.builder import DECISION
from pijit.graph.decisions.tree import UNSET, End, Fork, Join, Loop, Meanings, Number, Tree, all_ends, ends, number
from pijit.graph.decisions.turns import EFFECT, HEAD, MEET, NUMBER
from pijit.graph.decisions.walkers import (
    NOTHING,
    Call,
    Differs,
    Known,
    Turns,
    Walker,
    both,
    differing,
    holding,
    intersected,
    is_of_size,
    meetings,
    pattern_of,
    turns_of,
    value_of,
    varying,
)
from pijit.graph.model import Node, Slice, Value
from pijit.graph.model.names import Names
from pijit.graph.torch_calls import NUMBERS


class Merging:
    """Merges calls.

    Args:
        calls: the recorded calls.
    """

    def __init__(self, calls: Sequence[Call]) -> None:
        self._names = Names()
        self.values: dict[str, Value] = {}
        self.data: dict[str, Any] = {}
        self.inputs = calls[0].graph.inputs
        self.parameters: list[Value] = []
        self._unset: set[str] = set()  # values that have none before the first turn
        self._taken_for: dict[str, str] = {}  # of those, which was taken instead: every turn gives both the same
        self._parted: set[Any] = set()  # meetings where the ways are not one afterwards
        self.declined: dict[str, str] = {}  # by line, why a loop was not kept
        self._calls = calls
        self._tensors: dict[int, str] = {}
        for value in self.inputs:
            self._names.taken.add(value.name)
            self.values[value.name] = value

    def run(self) -> Tree:
        """The tree of all calls."""
        walkers = []
        for call in self._calls:
            own: dict[str, Meanings] = {value.name: frozenset({value.name}) for value in call.graph.inputs}
            for value in call.graph.parameters:
                own[value.name] = frozenset({self._parameter(value, call.graph.data[value.name])})
            walkers.append(Walker(call, 0, len(call.graph.nodes), Known(own), {}))
        return self._merge(walkers, {})

    def _parameter(self, value: Value, tensor: Any) -> str:
        known = self._tensors.get(id(tensor))
        if known is None:
            made = replace(value, name=self._names.fresh(value.name))
            known = self._tensors[id(tensor)] = made.name
            self.values[made.name] = made
            self.data[made.name] = tensor
            self.parameters.append(made)
        return known

    def _fresh(self, value: Value) -> Value:
        made = replace(value, name=self._names.fresh(value.name), role="result", path="")
        self.values[made.name] = made
        return made

    # -- side by side

    def _merge(self, walkers: list[Walker], decided: Mapping[str, bool]) -> Tree:
        nodes: list[Node] = []
        while True:
            for walker in walkers:
                self._settle(walker)
            if all(walker.is_at_end() for walker in walkers):
                return Tree(nodes, self._end(walkers, decided))
            if all(not walker.is_at_end() and walker.next.op == HEAD for walker in walkers):
                loop = self._loop(walkers, decided)
                if loop is not None:
                    return Tree(nodes, loop)
                continue
            node, groups = self._step(walkers)
            if node is None:
                continue
            if node.op != DECISION:
                nodes.append(node)
                continue
            condition = node.arguments["x"]
            if not isinstance(condition, Value) or condition.kind != "bool":
                raise Differs(
                    f"the program takes {'the number' if isinstance(condition, Value) else condition!r} of a tensor as "
                    "it is here, for a size, an index or the length of a loop",
                    node,
                )
            if condition.name in decided:
                continue
            if (join := self._join_of(groups, decided, condition, node)) is not None:
                return Tree(nodes, join)
            then, otherwise = (
                self._merge(groups[side], {**decided, condition.name: side}) if groups[side] else None
                for side in (True, False)
            )
            return Tree(nodes, Fork(condition, then, otherwise, node))

    def _settle(self, walker: Walker) -> None:
        """Passes by what is known: marks, and arithmetic on numbers of Python."""
        while not walker.is_at_end():
            node = walker.next
            if node.op == NUMBER:
                walker.known.own[node.results[0].name] = frozenset({number(node.arguments["start"])})  # type: ignore[union-attr]
            elif node.op == EFFECT:
                if walker.turns:
                    raise Differs(f"a turn stores in an object of Python, or calls {node.arguments['what']}", node)
            elif node.op != MEET and not self._folds(walker, node):
                return
            walker.at += 1

    @staticmethod
    def _folds(walker: Walker, node: Node) -> bool:
        if node.op not in {DECISION, "check"} and (node.op not in NUMBERS or len(node.results) != 1):
            return False
        arguments = []
        for argument in node.arguments.values():
            if not isinstance(argument, Value):
                arguments.append(argument)
                continue
            found = walker.known.find(argument.name)
            only = next(iter(found)) if found is not None and len(found) == 1 else None
            if not isinstance(only, Number):
                return False
            arguments.append(only.value)
        if node.op in NUMBERS and node.results[0] is not None:
            walker.known.own[node.results[0].name] = frozenset({number(NUMBERS[node.op](*arguments))})
        return True

    def _step(self, walkers: list[Walker]) -> tuple[Node | None, dict[bool, list[Walker]]]:
        """The node that all come to next; for a decision also who goes which way."""
        first: Differs | None = None
        moving = [walker for walker in walkers if not walker.is_at_end() and walker.next.op != HEAD]
        for leader in sorted(moving, key=lambda walker: len(walker.numbers)):
            try:
                return self._join(leader, walkers)
            except Differs as why:
                first = first or why
        raise first or Differs("one call ends where another goes on")

    def _join(self, leader: Walker, walkers: list[Walker]) -> tuple[Node | None, dict[bool, list[Walker]]]:
        node = leader.next
        decides = node.op == DECISION or is_of_size(node)
        wanted = {name: pattern_of(leader, each) for name, each in node.arguments.items() if name != "expected"}
        if node.op == "check" and not decides:
            wanted["expected"] = pattern_of(leader, node.arguments["expected"])
        same, others = [leader], []
        for walker in walkers:
            if walker is leader:
                continue
            both = None if walker.is_at_end() else intersected(wanted, walker, node)
            if both is None:
                others.append(walker)
            else:
                wanted = both
                same.append(walker)
        if others and not decides and node.op not in NUMBERS:
            raise Differs(f"{node.op} is not what other calls or turns do here", node)
        arguments = {name: self._resolved(each, node) for name, each in wanted.items()}
        found = {id(walker): self._computed(walker, node, arguments) for walker in others}
        groups: dict[bool, list[Walker]] = {True: [], False: []}
        if decides:
            expected = {id(walker): walker.next.arguments["expected"] for walker in same}
            expected |= {at: bool(each) for at, each in found.items()}
            for walker in walkers:
                if not isinstance(expected[id(walker)], bool):
                    raise Differs(
                        "the program takes a number that data decides as it is here, for a size, an index or the "
                        "length of a loop",
                        node,
                    )
                groups[expected[id(walker)]].append(walker)  # type: ignore[index]
            for walker in same:
                walker.at += 1
            if node.op == "check" and not (groups[True] and groups[False]):  # all sizes that were seen say the same
                return replace(node, arguments={"x": arguments["x"], "expected": bool(groups[True])}), groups
            return replace(node, op=DECISION, arguments={"x": arguments["x"]}), groups
        if any(walker.turns for walker in same) and (node.random or node.writes or "python::" in node.op):
            does = (
                "draws random numbers" if node.random else "writes to a tensor" if node.writes else "is not looked into"
            )
            raise Differs(f"{node.op.removeprefix('python::')} {does} in it", node)
        results = self._results(same)
        for walker in same:
            for raw, made in zip(walker.next.results, results, strict=True):
                if raw is not None and made is not None:
                    walker.known.own[raw.name] = frozenset({made.name})
            walker.at += 1
        for walker in others:
            if results[0] is not None:
                walker.numbers[results[0].name] = found[id(walker)]
        return replace(node, arguments=arguments, results=results), groups

    def _results(self, walkers: list[Walker]) -> tuple[Value | None, ...]:
        walkers = sorted(walkers, key=lambda walker: walker.call.index)
        results: list[Value | None] = []
        for at in range(len(walkers[0].next.results)):
            given = [each for walker in walkers if (each := walker.next.results[at]) is not None]
            results.append(self._fresh(given[0]) if given else None)
            for walker in walkers:
                other = walker.next.results[at]
                if given and other is not None and other.dtype != given[0].dtype:
                    raise Differs(f"what {walker.next.op} gives is {given[0].type} and {other.type}", walker.next)
        return tuple(results)

    @staticmethod
    def _computed(walker: Walker, node: Node, arguments: Mapping[str, Any]) -> Any:
        """What a number, or decision, of the tree is for a walker that has constants in its place."""
        operands = []
        for name, argument in arguments.items():
            if isinstance(argument, Value) and argument.name not in walker.numbers:
                raise Differs(f"{node.op} is not what other calls or turns do here", node)
            if name != "expected":
                operands.append(walker.numbers[argument.name] if isinstance(argument, Value) else argument)
        if node.op in {DECISION, "check"}:
            return operands[0]
        return NUMBERS[node.op](*operands)

    def _resolved(self, pattern: Any, node: Node | None) -> Any:
        """The argument that a pattern stands for."""
        if isinstance(pattern, frozenset):
            numbers = [each for each in pattern if isinstance(each, Number)]
            if numbers:
                return numbers[0].value
            if len(pattern) > 1 and len(set_first := [name for name in pattern if name not in self._unset]) == 1:
                # Where that one has no value, the program cannot have meant it.
                self._taken_for.update((name, set_first[0]) for name in pattern if name != set_first[0])
                return self.values[set_first[0]]
            if len(pattern) > 1:
                names = " and ".join(sorted(pattern)[:2])
                raise Differs(
                    f"{names} hold the same whenever this way is gone, so that it is not known which is meant; give "
                    "inputs with which they differ, or that take more turns",
                    node,
                )
            return self.values[next(iter(pattern))]
        if isinstance(pattern, Slice):
            return Slice(*(self._resolved(part, node) for part in (pattern.start, pattern.stop, pattern.step)))
        if isinstance(pattern, list | tuple):
            return type(pattern)(self._resolved(each, node) for each in pattern)
        if isinstance(pattern, dict):
            return {key: self._resolved(each, node) for key, each in pattern.items()}
        return pattern

    def _together(self, walkers: list[Walker], arguments: list[Any], node: Node | None, what: str = "") -> Any:
        """One argument for what each walker has, as `what` in a message."""
        pattern = pattern_of(walkers[0], arguments[0])
        for walker, argument in zip(walkers[1:], arguments[1:], strict=True):
            pattern = both(pattern, pattern_of(walker, argument))
            if pattern is NOTHING:
                kept = any(isinstance(each, int | float) for each in arguments)
                raise Differs(
                    f"{what or 'what is given'} is computed in several ways, of which no decision tells"
                    f"{'; keep numbers that change in variables of their own' if kept else ''}",
                    node,
                )
        return self._resolved(pattern, node)

    def _end(self, walkers: list[Walker], decided: Mapping[str, bool]) -> End:
        loop = walkers[0].loop
        if any(walker.loop is not loop for walker in walkers):
            raise Differs("one turn goes on where another leaves the loop")
        if loop is None:
            outputs = self._together(walkers, [walker.call.graph.outputs for walker in walkers], None)
            names = {name for walker in walkers for name, _ in walker.call.graph.updates}
            held = [dict(walker.call.graph.updates) for walker in walkers]
            updates = {
                name: self._together(walkers, [each.get(name, self.values.get(name)) for each in held], None)
                for name in sorted(names)
            }
            return End(None, [], outputs, updates, walkers, decided)
        carried = []
        for paths in loop.paths:
            given = []
            for walker in walkers:
                head, slots = walker.head(walker.stop)
                given.append(slots[head.values[paths[0]]])
            name = walkers[0].head(walkers[0].stop)[0].name(paths[0])
            carried.append(self._together(walkers, given, walkers[0].call.graph.nodes[walkers[0].stop], repr(name)))
        return End(loop, carried, None, {}, walkers, decided)

    # -- ways that meet again

    def _join_of(
        self, groups: Mapping[bool, list[Walker]], decided: Mapping[str, bool], condition: Value, node: Node
    ) -> Join | None:
        """The decision with what is done after its sides have met; None: they do not meet, or cannot be one."""
        if not groups[True] or not groups[False]:
            return None
        walkers = [*groups[True], *groups[False]]
        places = [meetings(walker) for walker in walkers]
        meeting = next((each for each in places[0] if all(each in other for other in places)), None)
        if meeting is None or meeting in self._parted:
            return None
        marks = [each[meeting] for each in places]
        try:
            return self._joined(groups, walkers, marks, decided, condition, node)
        except Differs:
            self._parted.add(meeting)
            return None

    def _joined(
        self,
        groups: Mapping[bool, list[Walker]],
        walkers: list[Walker],
        marks: list[int],
        decided: Mapping[str, bool],
        condition: Value,
        node: Node,
    ) -> Join:
        heads = [walker.head(at) for walker, at in zip(walkers, marks, strict=True)]
        join = Turns([], [])
        for name, paths in differing(walkers, heads, node):
            held = [slots[head.values[paths[0]]] for head, slots in heads]
            like = next((each for each in held if isinstance(each, Value)), None)
            model = Value(name, type(held[0]).__name__) if like is None else replace(like, name=name)  # type: ignore[arg-type]
            join.paths.append(paths)
            join.carried.append(self._fresh(model))
        places = dict(zip(map(id, walkers), marks, strict=True))
        then, otherwise = (
            self._merge(
                [
                    Walker(
                        each.call, each.at, places[id(each)], Known({}, each.known), {**each.numbers}, join, each.turns
                    )
                    for each in groups[side]
                ],
                {**decided, condition.name: side},
            )
            for side in (True, False)
        )
        later = []
        for walker, at, (head, slots) in zip(walkers, marks, heads, strict=True):
            known, numbers = holding(walker, join, head, slots)
            later.append(Walker(walker.call, at + 1, walker.stop, known, numbers, walker.loop, walker.turns))
        rest = self._merge(later, decided)
        for index, value in enumerate(join.carried):
            given = [end.carried[index] for side in (then, otherwise) for end in ends(side) if end.loop is join]
            for end in all_ends(rest):
                seen = {number(each.numbers[value.name]) for each in end.walkers if value.name in each.numbers}
                if all(value.name in each.numbers for each in end.walkers) and {number(each) for each in given} != seen:
                    raise Differs(f"a way was gone with some of what {value.name} can be", node)
        return Join(condition, then, otherwise, node, join.carried, rest)

    # -- loops

    def _loop(self, walkers: list[Walker], decided: Mapping[str, bool]) -> Loop | None:
        """The loop that begins here; None: there is none, and the walkers are behind the mark."""
        heads = [walker.head(walker.at)[0] for walker in walkers]
        mark = walkers[0].next
        before = [(walker.at, dict(walker.known.own)) for walker in walkers]
        try:
            if any(head.loop != heads[0].loop for head in heads):
                raise Differs("the calls differ here", mark)
            # Where the first turn is not like the others, it stays in front of the loop.
            if all(head.turn == heads[0].turn for head in heads) and heads[0].turn < 2:
                turns = [list(turns_of(walker, head)) for walker, head in zip(walkers, heads, strict=True)]
                registers = [
                    walker.head(at)[0].in_registers for walker, ats in zip(walkers, turns, strict=True) for at in ats
                ]
                several = any(len(ats) > 1 for ats in turns)
                if any(registers) and several and any(map(_chooses, walkers, turns)):
                    return self._kept(walkers, turns, decided, mark)
        except Differs as why:
            place = why.node.place if why.node is not None else ""
            self.declined.setdefault(mark.place, f"{why.what}{f' ({place})' if place and place != mark.place else ''}")
            for walker, (at, own) in zip(walkers, before, strict=True):
                walker.at = at
                walker.known.own.clear()
                walker.known.own.update(own)
        for walker in walkers:
            walker.at += 1
        return None

    def _kept(self, walkers: list[Walker], turns: list[list[int]], decided: Mapping[str, bool], mark: Node) -> Loop:
        groups = varying(walkers, turns, mark)
        loop, start = Turns([], []), []
        first = [walker.head(ats[0]) for walker, ats in zip(walkers, turns, strict=True)]
        for name, paths in groups:
            held = [value_of(head, slots, paths[0]) for head, slots in first]
            start.append(UNSET if UNSET in held else self._together(walkers, held, mark))
            later = (walker.head(at) for walker, ats in zip(walkers, turns, strict=True) for at in reversed(ats))
            like = next(each for head, slots in later if (each := value_of(head, slots, paths[0])) is not UNSET)
            kind: Any = like.kind if isinstance(like, Value) else type(like).__name__
            model = like if isinstance(like, Value) else Value(name, kind)
            shapes = {
                getattr(value_of(*walker.head(at), paths[0]), "shape", None)
                for walker, ats in zip(walkers, turns, strict=True)
                for at in (ats[1:] if start[-1] is UNSET else ats)
            }
            loop.paths.append(paths)
            loop.carried.append(self._fresh(replace(model, name=name, shape=model.shape if len(shapes) == 1 else None)))
            if start[-1] is UNSET:
                self._unset.add(loop.carried[-1].name)
        inner = []
        for walker, ats in zip(walkers, turns, strict=True):
            for at, stop, goes_on in zip(ats, [*ats[1:], walker.stop], [True] * (len(ats) - 1) + [False], strict=True):
                head, slots = walker.head(at)
                known, numbers = holding(walker, loop, head, slots)
                after = loop if goes_on else walker.loop
                turns_on = goes_on or walker.turns
                inner.append(Walker(walker.call, at + 1, stop, known, numbers, after, turns_on))
        tree = self._merge(inner, decided)
        self._check_ways(tree, loop, mark)
        places = {value.name: at for at, value in enumerate(loop.carried)}
        for name, other in self._taken_for.items():
            if name not in places:
                continue
            for end in ends(tree):
                if end.loop is loop and (
                    other not in places or end.carried[places[name]] != end.carried[places[other]]
                ):
                    raise Differs(f"{name} and {other} hold the same on one way, not on all", mark)
        return Loop(loop.carried, start, tree, mark)

    @staticmethod
    def _check_ways(tree: Tree, loop: Turns, mark: Node) -> None:
        """Each way was gone in a turn where the numbers were not constants."""
        for end in all_ends(tree):
            for value in loop.carried:
                if value.kind == "bool" and value.name in end.decided:
                    continue
                if all(value.name in walker.numbers for walker in end.walkers):
                    held = end.walkers[0].numbers[value.name]
                    raise Differs(
                        f"one way through it was gone in the first turn only, where {value.name} is {held!r}; give "
                        "inputs with which a later turn goes this way",
                        mark,
                    )


def _chooses(walker: Walker, turns: list[int]) -> bool:
    """Other data, or sizes, may take more turns, or go other ways in them."""
    return any(walker.call.chooses(walker.call.graph.nodes[at]) for at in range(turns[0], turns[-1]))
