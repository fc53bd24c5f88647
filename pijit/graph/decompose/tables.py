"""Which decompositions are used: those of torch for what has no form, and those of `own.py`."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pijit.graph import vocabulary
from pijit.graph.decompose.own import OWN
from pijit.graph.model import Node
from pijit.graph.torch_calls import function_at


def table(node: Node, has_form: Callable[[Node], bool]) -> Mapping[Any, Any]:
    """The decompositions that are used beneath a node, by operators of torch.

    Args:
        node: it is decomposed itself, whatever its row has.
        has_form: an operator whose row has a form stays.
    """
    found = _table(has_form)
    own = _all().get(_overload(node.origin))
    return found if own is None else {**found, _overload(node.origin): own}


@functools.lru_cache(maxsize=8)
def _table(has_form: Callable[[Node], bool]) -> Mapping[Any, Any]:
    return {overload: function for overload, function in _all().items() if not _stays(overload, has_form)}


def _overload(origin: str) -> Any:
    namespace, _, name = origin.partition("::")
    base, _, overload = name.partition(".")
    if base.endswith("_") and not base.endswith("__"):
        base = base[:-1]
    try:
        return function_at(f"torch.ops.{namespace}.{base}.{overload or 'default'}")
    except (AttributeError, RuntimeError, KeyError):
        return None


def _stays(overload: Any, has_form: Callable[[Node], bool]) -> bool:
    schema = overload._schema
    found = vocabulary.row_of(schema.name + (f".{schema.overload_name}" if schema.overload_name else ""))
    return found is not None and has_form(Node(found[0].name, {}, ()))


@functools.cache
def _all() -> Mapping[Any, Callable[..., Any]]:
    """All decompositions that are known, by operators."""
    import torch
    import torch._refs  # registers its own
    from torch._decomp import global_decomposition_table

    found = {
        overload: function
        for overload, function in global_decomposition_table["post_autograd"].items()
        if isinstance(overload, torch._ops.OpOverload)
    }
    prims = torch.ops.prims
    for name in dir(torch._prims):
        primitive = getattr(prims, name, None)
        known = getattr(torch, name, None) or getattr(torch.special, name, None)
        if primitive is not None and callable(known) and hasattr(primitive, "default"):
            if len(primitive.default._schema.arguments) <= 2 or name == "where":
                found[primitive.default] = known
    return {**found, **_primitives(), **{function_at(path): function for path, function in OWN.items()}}


def _primitives() -> dict[Any, Callable[..., Any]]:
    """Primitives of torch's decompositions as operators."""
    import torch

    prims = torch.ops.prims

    def broadcast_in_dim(x: Any, shape: Sequence[Any], axes: Sequence[int]) -> Any:
        wide = [1] * len(shape)
        for at, axis in enumerate(axes):
            wide[axis] = x.shape[at]
        return x.reshape(wide).expand(shape)

    def iota(length: Any, *, start: Any, step: Any, dtype: Any, device: Any, requires_grad: bool) -> Any:
        return torch.arange(start, start + length * step, step, dtype=dtype, device=device)

    return {
        prims.broadcast_in_dim.default: broadcast_in_dim,
        prims.iota.default: iota,
        prims.convert_element_type.default: lambda x, dtype: x.to(dtype),
        prims.split_dim.default: lambda x, axis, size: x.unflatten(axis, (size, x.shape[axis] // size)),
        prims.collapse_view.default: lambda x, start, end: x.flatten(start, end),
        prims.squeeze.default: lambda x, axes: x.squeeze(tuple(axes)),
        prims.transpose.default: lambda x, axes: x.permute(axes),
        prims.view_of.default: lambda x: x.view(x.shape),
        prims.clone.default: lambda x, *, memory_format=None: x.clone(),
        prims.rev.default: torch.flip,
        prims.cat.default: torch.cat,
        prims.bessel_i0.default: torch.i0,
        prims.sum.default: lambda x, dims, *, output_dtype=None: x.sum(dims, dtype=output_dtype),
        prims.prod.default: lambda x, dims, *, output_dtype=None: functools.reduce(
            lambda y, axis: y.prod(axis), sorted(dims, reverse=True), x
        ),
        prims.amax.default: torch.amax,
        prims.amin.default: torch.amin,
        prims.var.default: lambda x, dims, correction=1, *, output_dtype=None: x.var(dims, correction=correction),
        prims.full.default: lambda shape, value, *, dtype, device, requires_grad: torch.full(
            shape, value, dtype=dtype, device=device
        ),
        prims.empty_strided.default: lambda shape, strides, *, dtype, device, requires_grad: torch.zeros(
            shape, dtype=dtype, device=device
        ),
        prims.scalar_tensor.default: lambda x, *, dtype=None, device=None: torch.scalar_tensor(
            x, dtype=dtype, device=device
        ),
    }
