"""Which operators a program without Python has: not those whose kernels are functions of Python."""

from typing import Any

from pijit.errors import ExportError
from pijit.graph.model import Node, place_of

# Keys of the dispatcher under which a kernel computes; the others say shapes and gradients.
_COMPUTING = {"", "CPU", "CUDA", "CompositeExplicitAutograd", "CompositeImplicitAutograd"}


def check_kernel(node: Node, schema: Any) -> None:
    """`ExportError` for an operator that Python computes, such as one of `torch.library.custom_op`."""
    import torch

    if schema.name.startswith("aten::"):
        return
    full = f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
    start = f"{full.replace('::', '/')}/"
    registered: Any = getattr(torch.library, "_impls", ())
    keys = {name.removeprefix(start) for name in registered if name.startswith(start)}
    if keys & _COMPUTING:
        raise ExportError(
            f"{place_of(node)}{schema.name} is computed by a function of Python, which a program of C++ has not got; "
            "register it in C++ (TORCH_LIBRARY_IMPL) and load that library, or take format 'python'"
        )
