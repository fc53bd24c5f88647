"""Puts one operator in the place of several that compute the same: attention, norms and activations written by hand.

What stands in the place of another computes the same numbers up to rounding, not the same bits. So this runs only for
backends that have a tolerance; a backend whose results are those of eager bit for bit is given the graph as it is.

1. A replacement has a pattern and what stands in its place, both functions that call torch. Each is captured once, on
   the examples that come with it, and is a graph from then on (`forms.py`).
2. A pattern fits where the nodes of the graph are those of the pattern with the same data flow, whatever the order of
   the operands of an addition or product is, and nobody else reads what is between (`matching.py`).
3. The nodes of the replacement are put there with the sizes that the graph has. A replacement that would give another
   dtype or shape there is not made (`splicing.py`).

`builtin` has those of pijit, a file a family; `pijit.register_replacement` adds those of a user, which go first.
"""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from pijit._usage_errors import describe
from pijit.errors import UsageError
from pijit.graph.model import Graph
from pijit.passes.replacements import builtin
from pijit.passes.replacements.forms import Replacement, check
from pijit.passes.replacements.splicing import Splicer

DOC = "attention, norms and activations written by hand become the operators for them; equal up to rounding"
CONSENT = False
EXACT = False

_REGISTERED: list[Replacement] = []
_lock = threading.Lock()


def register_replacement(
    pattern: Callable[..., Any],
    replacement: Callable[..., Any],
    inputs: Sequence[Any],
    *,
    name: str | None = None,
    where: Callable[..., bool] | None = None,
    tolerance: tuple[float, float] = (1e-4, 1e-5),
) -> None:
    """Have backends that have a tolerance compute one function where the program computes another.

    Both functions are called on the examples here, and what they give is compared. A later registration under the same
    name takes the place of the earlier one.

    Args:
        pattern: calls torch on its arguments, and gives one tensor. A number among its arguments stands for any number.
        replacement: takes the same arguments, and gives the same tensor up to rounding.
        inputs: example arguments: tensors of any sizes, and numbers that occur nowhere else in the functions, such as
            0.73. Axes are counted from the last: the pattern fits tensors with more or fewer axes, too.
        name: in `explain` and messages; None: that of the pattern.
        where: called with what stands for the arguments, by their names: numbers, and for tensors a
            `pijit.graph.Value` with `dtype` and `shape`. False: the program's operators stay there.
        tolerance: relative and absolute difference that is allowed between the results for the examples.

    Raises:
        UsageError: a function cannot be called or captured, gives no single new tensor, or takes tensors from outside;
            or the results differ.

    Example:
        >>> import pijit
        >>> import torch  # doctest: +SKIP
        >>> pijit.register_replacement(  # doctest: +SKIP
        ...     lambda x: x * torch.sigmoid(x), lambda x: torch.nn.functional.silu(x), [torch.ones(2)], name="silu"
        ... )
    """
    for word, function in (("pattern", pattern), ("replacement", replacement), ("where", where)):
        if function is not None and not callable(function):
            raise UsageError(f"{word} takes a function, not {describe(function)}")
    name = name or str(getattr(pattern, "__name__", "replacement"))
    made = Replacement(name, pattern, replacement, tuple(inputs), where, tolerance=tolerance)
    check(made)
    with _lock:
        _REGISTERED[:] = [made, *(each for each in _REGISTERED if each.name != name)]


def registered() -> tuple[Replacement, ...]:
    """Those of the user, the newest first."""
    return tuple(_REGISTERED)


def run(graph: Graph, counts: Counter[str]) -> Graph:
    """The graph with them; `counts` has how often which was made, by name."""
    if graph.breaks or any(node.writes for node in graph.nodes):
        return graph
    splicer = Splicer(graph)
    for each in (*registered(), *builtin.all_of_them()):
        if times := splicer.replace(each):
            counts[each.name] += times
    return splicer.graph
