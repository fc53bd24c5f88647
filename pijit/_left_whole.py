"""Functions of libraries that recordings leave to CPython as one call, by what they do.

A function of a higher order operator calls functions of the program as often as data say, and traces them on its way.
One that plans the order of a contraction searches through sets of indices: to replay that would take longer than to
run it.
"""

import sys
from typing import Any

from pijit import _adapters, _core

# Functions of torch that call higher order operators, and the operators themselves: module and name.
_HIGHER_ORDER = (
    ("torch._higher_order_ops.cond", "cond"),
    ("torch._higher_order_ops.cond", "cond_op"),
    ("torch._higher_order_ops.while_loop", "while_loop"),
    ("torch._higher_order_ops.while_loop", "while_loop_op"),
    ("torch._higher_order_ops.scan", "scan"),
    ("torch._higher_order_ops.scan", "scan_op"),
    ("torch._higher_order_ops.map", "map"),
    ("torch._higher_order_ops.map", "map_impl"),
    ("torch._higher_order_ops.associative_scan", "associative_scan"),
    ("torch._higher_order_ops.associative_scan", "associative_scan_op"),
    ("torch.nn.attention.flex_attention", "flex_attention"),
)
# Of these torch follows the functions that they are given, and refuses those with effects; by hand, the operators are
# given what torch has traced.
_SIDES = frozenset(names for names in _HIGHER_ORDER if names[1] != "flex_attention")
_PLANNERS = (("opt_einsum.contract", "contract_path"),)
_marked: set[int] = set()


def higher_order() -> list[Any]:
    """The functions and operators that this torch has, and that the program may know."""
    return _imported(_HIGHER_ORDER)


def leave_whole() -> None:
    """Mark those whose modules are imported; what was recorded through them is recorded again."""
    for names in _HIGHER_ORDER + _PLANNERS:
        for each in _imported((names,)):
            if id(each) not in _marked:
                _marked.add(id(each))
                _core.set_mark(each, "sides" if names in _SIDES else "whole", "")


def _imported(names: tuple[tuple[str, str], ...]) -> list[Any]:
    found = (getattr(sys.modules.get(module), name, None) for module, name in names)
    return [each for each in found if each is not None]


_adapters.when_attached(leave_whole)
