"""Plans for functions of NumPy arrays: tensors of torch that share the memory of what comes in, and of what goes out.

A copy of what they give would cost what two short ufuncs cost. So the arrays do not own their memory: a tensor is their
base. What has no axes and is a number for NumPy is one again.
"""

from collections.abc import Callable, Sequence
from typing import Any

from pijit.errors import BackendError


def tensors(arrays: Sequence[Any]) -> tuple[Any, ...]:
    """Tensors with the memory of these arrays, or with these numbers.

    Raises:
        BackendError: torch has no such dtype.
    """
    import numpy as np
    import torch

    try:
        return tuple(torch.from_numpy(each if type(each) is np.ndarray else np.array(each)) for each in arrays)
    except (TypeError, ValueError) as error:
        raise BackendError(f"no compiler takes these arrays: {error}") from error


def on_arrays(call: Callable[..., tuple[Any, ...] | None], outputs: Sequence[Any]) -> Callable[..., Any]:
    """A call of a plan as the engine makes it on arrays.

    Args:
        call: takes and gives tensors.
        outputs: what native replay gave.
    """
    import numpy as np
    import torch

    numbers = [isinstance(each, np.generic) for each in outputs]
    array, share = np.ndarray, torch.from_numpy

    def run(*inputs: Any) -> tuple[Any, ...] | None:
        made = call(*[share(each if type(each) is array else np.array(each)) for each in inputs])
        if made is None:
            return None
        return tuple(
            tensor.numpy()[()] if number else tensor.numpy() for tensor, number in zip(made, numbers, strict=True)
        )

    return run
