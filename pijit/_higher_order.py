"""Functions of torch that call functions of the program as often as data say: recordings leave them to CPython whole.

`torch.cond` and its kin are compiled by TorchDynamo where they are called. Followed by a recording, that would be some
hundred nodes of how Dynamo works; what the operator is for would still be one call.
"""

import sys
from typing import Any

from pijit import _adapters, _core

# Functions of torch that call such operators, and the operators themselves: module and name.
_FUNCTIONS = (
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
_marked: set[int] = set()


def known() -> list[Any]:
    """The functions and operators that this torch has, and that the program may know."""
    found = (getattr(sys.modules.get(module), name, None) for module, name in _FUNCTIONS)
    return [each for each in found if each is not None]


def leave_whole() -> None:
    """Recordings leave a call of such a function to CPython as a whole."""
    for each in known():
        if id(each) not in _marked:
            _marked.add(id(each))
            _core.set_mark(each, "opaque", "")


_adapters.when_attached(leave_whole)
