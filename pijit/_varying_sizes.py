"""Sizes of tensors that the user has said to vary, and those that did.

Kept are sizes, not tensors: what follows from a size in a program has other tensors, and is often a multiple of it. A
size that is taken for one that varies costs a trace or a plan that is more general than it need be, and no answer.
"""

from collections.abc import Collection, Iterable
from typing import TypeVar

from pijit import _core
from pijit._config import OFF
from pijit._usage_errors import describe
from pijit.errors import UsageError

Tensor = TypeVar("Tensor")

_MOST = 64  # sizes, the newest of which are kept
_sizes: dict[int, None] = {}
_seen: dict[int, None] = {}  # sizes in which forms differed


def dynamic(tensor: Tensor, *dims: int) -> Tensor:
    """Say that these dimensions of a tensor vary from call to call.

    Native replay reads sizes anew at each call, and needs nothing of that. A compiler (`jit(backend=...)`) makes its
    first plan for any such size, where the operators leave it free, instead of one for each size until several were
    seen; under `jit(dynamic=False)` traces stay general in such sizes. Not an error where the program fixes the size.
    All sizes that are equal to it, or multiples of it, count as varying.

    Args:
        tensor: a tensor of any framework, or another object with a `shape`.
        *dims: dimensions of it, from -rank to rank - 1; none: all of them.

    Returns:
        `tensor` itself.

    Raises:
        UsageError: `tensor` has no shape, or no such dimension.

    Example:
        >>> import pijit
        >>> batch = memoryview(bytes(8))
        >>> pijit.dynamic(batch, 0).shape
        (8,)
    """
    shape = getattr(tensor, "shape", None)
    if isinstance(tensor, type) or not isinstance(shape, tuple | list):
        raise UsageError(f"pijit.dynamic() takes a tensor and its dimensions that vary, not {describe(tensor)}")
    for dim in dims:
        if not isinstance(dim, int) or isinstance(dim, bool):
            raise UsageError(f"pijit.dynamic(): a dimension is a whole number, not {dim!r}")
        if not -len(shape) <= dim < len(shape):
            raise UsageError(f"pijit.dynamic(): the tensor has {len(shape)} dimensions, and none is {dim}")
    expect(shape[dim] for dim in dims or range(len(shape)))
    return tensor


def expect(found: Iterable[int]) -> None:
    """These vary: the user says so, or an earlier run did (`pijit._profile`)."""
    for size in found:
        _sizes.pop(size, None)
        _sizes[size] = None
    for oldest in list(_sizes)[:-_MOST]:
        _sizes.pop(oldest, None)
    if not OFF:
        _core.set_varying_sizes(list(_sizes))


def note(found: Iterable[int]) -> None:
    """Forms of a segment differed in these sizes."""
    _seen.update(dict.fromkeys(found))


def seen() -> list[int]:
    """What differed, or was expected to."""
    return sorted({*list(_seen)[:_MOST], *_sizes})


def sizes() -> Collection[int]:
    """Those that vary, the newest last."""
    return tuple(_sizes)


if not OFF:
    _core.set_mark(dynamic, "opaque", "it says which sizes vary")
