"""Which dtypes a backend computes in exactly as torch does: a rule for each of its operators.

A comparison of results finds a difference by luck: numbers of a first call are small. So a backend says what it holds,
and torch runs the other operators between compiled code.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from pijit.graph.model import Node
from pijit.graph.vocabulary import rows

INTEGERS = frozenset({"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"})
HALVES = frozenset({"float16", "bfloat16"})
COMPLEX = frozenset({"complex64", "complex128"})
# Families whose operators move elements, and compute nothing with them.
MOVES = ("shape", "indexing", "creation", "casts and copies")


@dataclass(frozen=True)
class Exact:
    """What a backend holds.

    Attributes:
        usual: dtypes of the operators that have no entry.
        families: dtypes of the operators of a family of the vocabulary.
        rows: dtypes of one operator; they count before those of its family.
        refuses: nodes that are not exact because of what else they are given, such as a rounding; None: there are none.
    """

    usual: Collection[str]
    families: Mapping[str, Collection[str]] = field(default_factory=dict)
    rows: Mapping[str, Collection[str]] = field(default_factory=dict)
    refuses: Callable[[Node], bool] | None = None

    def dtypes(self, op: str) -> Collection[str]:
        """Those in which an operator is exact."""
        found = self.rows.get(op)
        if found is None and op in rows():
            found = self.families.get(rows()[op].family)
        return self.usual if found is None else found

    def holds(self, node: Node) -> bool:
        """All tensors that it is given, and that it gives, are of these dtypes, and nothing else speaks against it."""
        if self.refuses is not None and self.refuses(node):
            return False
        dtypes = self.dtypes(node.op)
        return all(
            value is None or value.kind != "tensor" or value.dtype is None or value.dtype in dtypes
            for value in (*node.operands, *node.results)
        )


def several(ops: str, dtypes: Iterable[str]) -> dict[str, frozenset[str]]:
    """The same dtypes for several operators, whose names stand in a text."""
    return dict.fromkeys(ops.split(), frozenset(dtypes))
