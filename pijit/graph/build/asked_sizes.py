"""Axes that `dynamic` names while a graph gets its types: another size stands for 0 or 1, and what fixes one is said.

An operator treats a size of 1 in a way of its own, and 0, too: it broadcasts, or gives nothing. So the recorded call
shows what happens with other sizes only if each of its operators takes them, and each of its decisions on sizes goes
the way it went, and if what it gives has as many axes. The node that does not fit is named in the error.
"""

from collections.abc import Collection, Mapping
from typing import Any, NoReturn

from pijit.errors import ExportError
from pijit.graph.model import Graph, Node, place_of

# Sizes that stand for 0 and 1. Few programs have them as numbers of their own.
_SIZES = (7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47)


class Asked:
    """The axes that are to stay free.

    Args:
        dynamic: as for `pijit.export`; only a dict of inputs asks for axes.
        examples: the tensors of the inputs by name.

    Attributes:
        axes: the input and the number of each axis, with the size that the call had.
        examples: tensors whose sizes stand for those of the inputs.
        small: the axes among them that had 0 or 1.
    """

    def __init__(self, dynamic: Any, examples: Mapping[str, Any]) -> None:
        self.axes: dict[tuple[str, int], int] = {}
        self.examples = dict(examples)
        self.small: set[tuple[str, int]] = set()
        taken = {size for each in examples.values() for size in each.shape}
        free = (size for size in _SIZES if size not in taken)
        named: dict[str, int] = {}
        for name, axes in dynamic.items() if isinstance(dynamic, Mapping) else ():
            if name in examples:
                self._ask(name, axes, free, named)

    def _ask(self, name: str, axes: Any, free: Any, named: dict[str, int]) -> None:
        example = self.examples[name]
        sizes = list(example.shape)
        words = axes if isinstance(axes, Mapping) else dict.fromkeys(axes if isinstance(axes, Collection) else (axes,))
        for axis, word in words.items():
            if type(axis) is not int or not -len(sizes) <= axis < len(sizes):
                continue  # `with_sizes` says what is wrong
            at = axis % len(sizes)
            self.axes[name, at] = sizes[at]
            if sizes[at] < 2:
                sizes[at] = named.setdefault(word, next(free)) if isinstance(word, str) and word else next(free)
                self.small.add((name, at))
        if sizes != list(example.shape):
            self.examples[name] = example.new_empty(sizes, requires_grad=example.requires_grad)

    def refuse(self, axes: Collection[tuple[str, int]], node: Node, why: str) -> None:
        """`ExportError` if one of these is to stay free: the node fixes it."""
        for name, axis in axes:
            if (name, axis) in self.axes:
                what = "a decision" if node.op == "check" else node.op
                self._fail(node, f"axis {axis} of {name!r}, whose size {what} fixes, {why}")

    def decide(self, node: Node, made: Any) -> None:
        """`ExportError` if a decision on sizes goes another way than with a 0 or 1 of the call."""
        found = made.node.hint if hasattr(made, "node") else made
        if self.small and isinstance(found, int) and found != node.arguments["expected"]:
            name, axis = min(self.small)
            self._fail(
                node,
                f"axis {axis} of {name!r}, which was {self.axes[name, axis]} in the call, and the program decides on "
                "the size here; export with a call that has 2 or more there",
            )

    def fits(self, node: Node, error: Exception) -> None:
        """`ExportError` for what an operator raised that took a 0 or 1 of the call."""
        if self.small:
            name, axis = min(self.small)
            said = str(error).strip().partition("\n")[0]
            self._fail(
                node,
                f"axis {axis} of {name!r}, which was {self.axes[name, axis]} in the call, and {node.op} does not do "
                f"the same with another size: {said}; export with a call that has 2 or more there",
            )

    def compare(self, call: Graph, made: Graph) -> None:
        """`ExportError` if something has another number of axes than in the call, such as what `squeeze` gives."""
        for node, other in zip(call.nodes, made.nodes, strict=True):
            for one, two in zip(node.results, other.results, strict=True):
                shapes = [None if each is None else each.shape for each in (one, two)]
                if None not in shapes and len(shapes[0]) != len(shapes[1]):  # type: ignore[arg-type]
                    self.fits(node, ValueError(f"it gives {one.type} and {two.type}"))  # type: ignore[union-attr]

    @staticmethod
    def _fail(node: Node, what: str) -> NoReturn:
        raise ExportError(f"{place_of(node)}dynamic= names {what}")
