"""Makes a graph with "cond" and "while" of the tree of what calls did (`pijit.graph.decisions.merging`).

A loop is a tree whose ways go on with the next turn, or leave it. Of this one tree three things are made: the
condition, what decides whether a turn goes on; the body, what a turn that goes on carries to the next; and what is done
after the loop, the ways that leave it, on what is carried at the end. Each has only the nodes that it needs.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pijit.errors import ExportError
from pijit.graph.decisions.liveness import Lowered, Wanted, free, stays, used, with_values
from pijit.graph.decisions.loops import LoopLowering
from pijit.graph.decisions.merging import Merging
from pijit.graph.decisions.tree import End, Fork, Join, Loop, Tree, ends, number
from pijit.graph.model import Graph, Node, Slice, Value, regions, replaced, values_of
from pijit.graph.model.names import Names


def lowered(merging: Merging, tree: Tree, first: Graph) -> Graph:
    """The graph of a tree.

    Args:
        merging: what has made it.
        tree: of all calls.
        first: the graph of the first call.

    Raises:
        ExportError: a side of a decision was never seen, or calls return different structures.
    """
    _check_sides(tree, merging.declined)
    returns = list(ends(tree))
    outputs = [end for end in returns if end.loop is None]
    skeleton = _skeleton(outputs[0].outputs)
    names = sorted({name for end in outputs for name in end.updates})
    for end in outputs[1:]:
        if _skeleton(end.outputs) != skeleton:
            raise ExportError(
                f"{first.name} returns something else on one way than on another: {_words(outputs[0].outputs)}, and "
                f"{_words(end.outputs)}; return the same tuples, lists and dicts of tensors and numbers on every way"
            )

    def wanted(end: End) -> tuple[Any, ...] | None:
        if end.loop is not None:
            return None
        held = [end.updates.get(name, merging.values.get(name)) for name in names]
        return (*_leaves(end.outputs), *held)

    lowering = Lowering(merging, regions.types_of(first.region))
    nodes, results = lowering.lower(tree, wanted, {})
    count = len(results) - len(names)
    nodes = used(nodes, results)
    taken = {name for node in nodes for name in (value.name for value in node.operands)}
    taken |= {value.name for value in values_of(results)}
    parameters = tuple(value for value in merging.parameters if value.name in taken)
    return Graph(
        first.name,
        first.inputs,
        parameters,
        tuple(nodes),
        _filled(outputs[0].outputs, iter(results[:count])),
        updates=tuple(zip(names, results[count:], strict=True)),
        effects=first.effects,
        data={value.name: merging.data[value.name] for value in parameters},
        region=regions.tree(nodes, regions.types_of(first.region)),
        symbols=first.symbols,
    )


def _check_sides(tree: Tree, declined: Mapping[str, str]) -> None:
    """`ExportError` for a decision of which one side was never seen."""
    end = tree.end
    if isinstance(end, Loop):
        _check_sides(end.turn, declined)
    if not isinstance(end, Fork):
        return
    if isinstance(end, Join):
        _check_sides(end.rest, declined)
    for side, other in ((end.then, end.otherwise), (end.otherwise, end.then)):
        if side is not None:
            _check_sides(side, declined) if other is not None else None
            continue
        place = f"{end.decision.place}: " if end.decision.place else ""
        loops = "".join(f". The loop at {at} was not kept as a loop: {why}" for at, why in declined.items())
        raise ExportError(
            f"{place}the program decides on the data of a tensor here, and {side is end.then} was never seen; give "
            f"inputs that go the other way: also=[(...), ...], a tuple of arguments for each call{loops}"
        )


class Lowering:
    def __init__(self, merging: Merging, types: Mapping[str, str]) -> None:
        self._types = types
        self.names = Names({*merging.values})

    def lower(self, tree: Tree, wanted: Wanted, new: Mapping[str, Any]) -> Lowered:
        """Nodes and outputs of the ways that are wanted.

        Args:
            tree: what to do.
            wanted: which ways, and what they give.
            new: what stands for values of the tree, by their names; nodes that give nothing else are left out.
        """
        nodes = [with_values(node, new) for node in tree.nodes if not _is_given(node, new)]
        end = tree.end
        if isinstance(end, End):
            outputs = wanted(end)
            assert outputs is not None
            return nodes, tuple(replaced(each, new) for each in outputs)
        if isinstance(end, Loop):
            more, outputs = self._loop(end, wanted, new)
            return nodes + more, outputs
        if isinstance(end, Join):
            return self._join(nodes, end, wanted, new)
        sides = [side if side is not None and _leads(side, wanted) else None for side in (end.then, end.otherwise)]
        lowered = [None if side is None else self.lower(side, wanted, new) for side in sides]
        if lowered[0] is None or lowered[1] is None:
            more, outputs = lowered[0] or lowered[1]  # type: ignore[misc]
            return nodes + more, outputs
        condition = replaced(end.condition, new)
        if not isinstance(condition, Value):
            more, outputs = lowered[0] if condition else lowered[1]
            return nodes + more, outputs
        more, outputs = self.cond(condition, lowered[0], lowered[1], end.decision)
        return nodes + more, outputs

    # -- decisions

    def _join(self, nodes: list[Node], join: Join, wanted: Wanted, new: Mapping[str, Any]) -> Lowered:
        """Both sides, and what is done after they have met."""
        assert join.then is not None
        assert join.otherwise is not None

        def given(end: End) -> tuple[Any, ...] | None:
            return tuple(end.carried) if end.loop is not None and end.loop.carried is join.carried else None

        rest, outputs = self.lower(join.rest, wanted, new)
        rest = used(rest, outputs)
        taken = {value.name for node in rest for value in node.operands} | {each.name for each in values_of([*outputs])}
        at = [index for index, value in enumerate(join.carried) if value.name in taken]
        sides = [self.lower(side, given, new) for side in (join.then, join.otherwise)]
        then, otherwise = ((nodes, tuple(made[i] for i in at)) for nodes, made in sides)
        condition = replaced(join.condition, new)
        if isinstance(condition, Value):
            more, found = self.cond(condition, then, otherwise, join.decision)
        else:
            more, found = then if condition else otherwise
        held = {join.carried[i].name: each for i, each in zip(at, found, strict=True)}
        after = [with_values(node, held) for node in rest]
        return [*nodes, *more, *after], tuple(replaced(each, held) for each in outputs)

    def cond(self, condition: Value, then: Lowered, otherwise: Lowered, decision: Node) -> Lowered:
        one, other = (used(*each) for each in (then, otherwise))
        pairs = list(zip(then[1], otherwise[1], strict=True))
        tail: list[tuple[Node, Node]] = []
        while one and other:
            moved = _moves(one[-1], other[-1], pairs, tail)
            if not moved:
                break
            tail.insert(0, (one.pop(), other.pop()))
        found = list(_pairs_to_join(pairs, tail))
        nodes: list[Node] = []
        joined: dict[tuple[Any, Any], Any] = {}
        if found and not one and not other and all(_is_bool(a, True) and _is_bool(b, False) for a, b in found):
            joined = {_key(pair): condition for pair in found}
        elif found and not one and not other and all(_is_bool(a, False) and _is_bool(b, True) for a, b in found):
            opposite = Value(self.names.fresh("opposite"), "bool")
            nodes.append(Node("scalar_not", {"x": condition}, (opposite,), file=decision.file, line=decision.line))
            joined = {_key(pair): opposite for pair in found}
        elif found or any(map(stays, one)) or any(map(stays, other)):
            results = tuple(self._joined(a, b, decision) for a, b in found)
            operands = free(one, [a for a, _ in found]) | free(other, [b for _, b in found])
            arguments = {
                "condition": condition,
                "then": self.graph("then", operands, one, tuple(a for a, _ in found)),
                "otherwise": self.graph("otherwise", operands, other, tuple(b for _, b in found)),
                "operands": tuple(operands.values()),
            }
            place = {"region": decision.region, "file": decision.file, "line": decision.line}
            nodes.append(Node("cond", arguments, results, **place))  # type: ignore[arg-type]
            joined = {_key(pair): result for pair, result in zip(found, results, strict=True)}
        inner = {
            (a.name, b.name)
            for x, y in tail
            for a, b in zip(x.results, y.results, strict=True)
            if a is not None and b is not None
        }
        for a, b in tail:
            taken = {name: _one(each, b.arguments[name], joined, inner) for name, each in a.arguments.items()}
            nodes.append(replace(a, arguments=taken))
        outputs = tuple(_one(a, b, joined, inner) for a, b in zip(then[1], otherwise[1], strict=True))
        return nodes, outputs

    def _joined(self, a: Any, b: Any, decision: Node) -> Value:
        """The value of a cond for what its two sides give."""
        kinds = [each.kind if isinstance(each, Value) else type(each).__name__ for each in (a, b)]
        place = f"{decision.place}: " if decision.place else ""
        if kinds[0] != kinds[1] or kinds[0] not in {"tensor", "int", "float", "bool"}:
            raise ExportError(
                f"{place}one way gives {_word(a)} where the other gives {_word(b)}; give the same kind of thing"
            )
        model = a if isinstance(a, Value) else b
        if not isinstance(model, Value):
            return Value(self.names.fresh("number"), kinds[0])  # type: ignore[arg-type]
        same_shape = not (isinstance(a, Value) and isinstance(b, Value)) or a.shape == b.shape
        if isinstance(a, Value) and isinstance(b, Value) and a.dtype != b.dtype:
            raise ExportError(
                f"{place}one way gives {a.type} where the other gives {b.type}; give one dtype on both ways"
            )
        shape = model.shape if same_shape else None
        return Value(self.names.fresh(model.name), model.kind, "result", model.dtype, shape, model.device)

    def graph(self, name: str, inputs: Mapping[str, Value], nodes: Sequence[Node], outputs: Any) -> Graph:
        for node in nodes:
            if node.writes or node.random or node.op.startswith("python::"):
                place = f"{node.place}: " if node.place else ""
                does = (
                    "draws random numbers" if node.random else "writes to a tensor" if node.writes else "is no operator"
                )
                raise ExportError(
                    f"{place}{node.op.removeprefix('python::')} {does}, which a graph cannot do on one way only; take "
                    "it out of the branch or loop, or export with decisions='assume'"
                )
        given = tuple(replace(value, role="input", path="") for value in inputs.values())
        return Graph(name, given, (), tuple(nodes), outputs, region=regions.tree(nodes, self._types))

    # -- loops

    def _loop(self, loop: Loop, wanted: Wanted, new: Mapping[str, Any]) -> Lowered:
        return LoopLowering(self, loop, wanted, new).run()


def _is_given(node: Node, new: Mapping[str, Any]) -> bool:
    """What the node gives is there already."""
    names = [value.name for value in node.results if value is not None]
    return bool(names) and all(name in new for name in names)


def _leads(tree: Tree, wanted: Wanted) -> bool:
    """Some way of the tree is wanted."""
    return any(wanted(end) is not None for end in ends(tree))


# -- equal ends of two sides

_Pairs = list[tuple[Any, Any]]


def _key(pair: tuple[Any, Any]) -> tuple[Any, Any]:
    return tuple(each.name if isinstance(each, Value) else number(each) for each in pair)  # type: ignore[return-value]


def _is_bool(thing: Any, value: bool) -> bool:
    return thing is value


def _moves(a: Node, b: Node, pairs: _Pairs, tail: list[tuple[Node, Node]]) -> bool:
    """Both sides end with the same node, which may as well stand behind the cond."""
    if (a.op, a.origin, a.place, a.region) != (b.op, b.origin, b.place, b.region) or not a.place:
        return False
    if list(a.arguments) != list(b.arguments) or len(a.results) != len(b.results) or a.op in {"cond", "while", "check"}:
        return False
    if not all(_alike(each, b.arguments[name]) for name, each in a.arguments.items()):
        return False
    ours = {value.name for value in a.results if value is not None}
    theirs = {value.name for value in b.results if value is not None}
    together = {(x.name, y.name) for x, y in zip(a.results, b.results, strict=True) if x is not None and y is not None}
    for x, y in (*pairs, *_operand_pairs(tail)):
        mine = isinstance(x, Value) and x.name in ours
        yours = isinstance(y, Value) and y.name in theirs
        if (mine or yours) and not (mine and yours and (x.name, y.name) in together):
            return False
    return True


def _alike(a: Any, b: Any) -> bool:
    """Two arguments that differ in values at most."""
    if isinstance(a, Value) and isinstance(b, Value):
        return (a.kind, a.dtype, a.shape) == (b.kind, b.dtype, b.shape)
    if type(a) is not type(b):
        return False
    if isinstance(a, Slice):
        return all(_alike(getattr(a, name), getattr(b, name)) for name in ("start", "stop", "step"))
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(_alike, a, b))
    return number(a) == number(b) if isinstance(a, int | float) else bool(a == b)


def _pairs_in(a: Any, b: Any) -> Iterable[tuple[Any, Any]]:
    """The values in two alike arguments."""
    return zip(values_of(a), values_of(b), strict=True)


def _operand_pairs(tail: Iterable[tuple[Node, Node]]) -> Iterable[tuple[Any, Any]]:
    for a, b in tail:
        yield from zip(a.operands, b.operands, strict=True)


def _pairs_to_join(pairs: _Pairs, tail: list[tuple[Node, Node]]) -> Iterable[tuple[Any, Any]]:
    """What the two sides give differently, each once."""
    made = {value.name for nodes in tail for node in nodes for value in node.results if value is not None}
    seen = set()
    for a, b in (*pairs, *_operand_pairs(tail)):
        if (isinstance(a, Value) and a.name in made) or (isinstance(b, Value) and b.name in made):
            continue
        same = a == b if isinstance(a, Value) or isinstance(b, Value) else number(a) == number(b)
        if same or _key((a, b)) in seen:
            continue
        seen.add(_key((a, b)))
        yield a, b


def _one(a: Any, b: Any, joined: Mapping[Any, Any], inner: set[tuple[str, str]]) -> Any:
    """The argument behind a cond for those of its two sides."""
    if isinstance(a, Value) or isinstance(b, Value) or isinstance(a, int | float):
        if isinstance(a, Value) and isinstance(b, Value) and (a.name, b.name) in inner:
            return a
        return joined.get(_key((a, b)), a)
    if isinstance(a, Slice):
        return Slice(*(_one(getattr(a, name), getattr(b, name), joined, inner) for name in ("start", "stop", "step")))
    if isinstance(a, tuple):
        return tuple(_one(x, y, joined, inner) for x, y in zip(a, b, strict=True))
    return a


# -- what calls return


def _leaves(structure: Any) -> Iterable[Any]:
    """The values and numbers in it, in order."""
    if isinstance(structure, Value) or type(structure) in {int, float, bool}:
        yield structure
    elif isinstance(structure, tuple | list):
        for item in structure:
            yield from _leaves(item)
    elif isinstance(structure, Mapping):
        for item in structure.values():
            yield from _leaves(item)


def _skeleton(structure: Any) -> Any:
    """Equal for structures that differ in values and numbers at most."""
    if isinstance(structure, Value) or type(structure) in {int, float, bool}:
        return ("value",)
    if isinstance(structure, tuple | list):
        return (type(structure).__name__, *map(_skeleton, structure))
    if isinstance(structure, Mapping):
        return ("dict", *((key, _skeleton(item)) for key, item in structure.items()))
    return ("literal", repr(structure))


def _filled(structure: Any, leaves: Any) -> Any:
    """The structure with these values and numbers."""
    if isinstance(structure, Value) or type(structure) in {int, float, bool}:
        return next(leaves)
    if isinstance(structure, tuple | list):
        return type(structure)([_filled(item, leaves) for item in structure])
    if isinstance(structure, Mapping):
        return {key: _filled(item, leaves) for key, item in structure.items()}
    return structure


def _word(thing: Any) -> str:
    return thing.type if isinstance(thing, Value) else repr(thing)


def _words(structure: Any) -> str:
    if isinstance(structure, tuple | list):
        return f"{type(structure).__name__} of {len(structure)}"
    if isinstance(structure, Mapping):
        return f"dict of {', '.join(map(repr, structure))}"
    return _word(structure)
