"""What a GraphModule of the format `fx` calls for decisions and loops.

torch's higher order operators are for torch.compile, which takes both ways into one graph with them. Elsewhere, and
where gradients are recorded, a decision is one of Python: their gradient is zero for a loop that runs no turn, and
there is none where a decision gives ints (torch 2.13).
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch


def _compiles(given: Sequence[Any]) -> bool:
    if not torch.compiler.is_compiling():
        return False
    tensors = [each for each in given if isinstance(each, torch.Tensor)]
    return not (torch.is_grad_enabled() and any(each.requires_grad for each in tensors))


def cond(condition: Any, then: Callable[..., Any], otherwise: Callable[..., Any], operands: tuple[Any, ...]) -> Any:
    """What one of two modules gives for the operands; the condition is a tensor of one bool."""
    if _compiles(operands):
        return torch.ops.higher_order.cond(condition, then, otherwise, operands)
    return then(*operands) if condition else otherwise(*operands)


def while_loop(
    condition: Callable[..., Any], body: Callable[..., Any], carried: tuple[Any, ...], operands: tuple[Any, ...]
) -> Any:
    """What is carried, after turns of a module; the other one gives a tensor of one bool."""
    if _compiles((*carried, *operands)):
        return torch.ops.higher_order.while_loop(condition, body, carried, operands)
    while condition(*carried, *operands):
        carried = body(*carried, *operands)
    return carried


def check(holds: Any, said: str) -> None:
    """Torch.export makes a check of it where data decides: of a plain assertion it asks what holds without data."""
    torch._check(holds, lambda: said)  # type: ignore[no-untyped-call]


FUNCTIONS = (cond, while_loop)
