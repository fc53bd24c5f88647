"""Operands of one call in every shape that matters: layouts, sizes 0 and 1, aliasing, dtypes, autograd.

A variant turns fresh copies of the operands of a sample into other ones. Whether the callable accepts them does not
matter: then the errors are compared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Operands = list[Any]
Variant = Callable[[Operands], Operands]


def rebuild(thing: Any, change: Callable[[Tensor], Any]) -> Any:
    """The same structure with other tensors."""
    if isinstance(thing, Tensor):
        return change(thing)
    if type(thing) in (list, tuple):
        return type(thing)(rebuild(item, change) for item in thing)
    return thing


def fresh(operands: Operands) -> Operands:
    """Copies that share no memory, contiguous."""

    def copy(tensor: Tensor) -> Tensor:
        if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_meta or tensor.is_nested:
            return tensor.detach().clone()
        return tensor.detach().resolve_conj().resolve_neg().contiguous().clone()

    return rebuild(operands, copy)


def each(change: Callable[[Tensor], Tensor]) -> Variant:
    """Changes every strided tensor."""

    def plain(tensor: Tensor) -> Tensor:
        return change(tensor) if tensor.layout is torch.strided and not tensor.is_nested else tensor

    return lambda operands: rebuild(operands, plain)


def reversed_dims(tensor: Tensor) -> Tensor:
    dims = tuple(range(tensor.dim() - 1, -1, -1))
    return tensor.permute(dims).contiguous().permute(dims)


def sliced(tensor: Tensor) -> Tensor:
    if tensor.dim() == 0:
        return torch.stack([tensor, tensor])[1]
    size = tensor.shape[-1]
    base = tensor.new_zeros((*tensor.shape[:-1], 2 * size + 3))
    view = base[..., 1 : 2 * size + 1 : 2]
    view.copy_(tensor)
    return view


def expanded(tensor: Tensor) -> Tensor:
    return tensor[:1].expand_as(tensor) if tensor.dim() and tensor.shape[0] else tensor


def rows(count: int) -> Callable[[Tensor], Tensor]:
    return lambda tensor: tensor[:count].clone() if tensor.dim() and tensor.shape[0] >= count else tensor


def more(tensor: Tensor) -> Tensor:
    return torch.cat([tensor, tensor]) if tensor.dim() and not tensor.is_quantized else tensor


def shared(make: Callable[[Tensor], Tensor]) -> Variant:
    """Every later tensor of the first one's kind becomes `make` of it."""

    def change(operands: Operands) -> Operands:
        first: list[Tensor] = []

        def one(tensor: Tensor) -> Tensor:
            if not first:
                first.append(tensor)
            base = first[0]
            same = (base.shape, base.dtype, base.layout) == (tensor.shape, tensor.dtype, tensor.layout)
            return make(base) if tensor is not base and same else tensor

        return rebuild(operands, one)

    return change


def overlapping(operands: Operands) -> Operands:
    """The first two tensors of one kind are rows 0... and 1... of one tensor."""
    found: list[Tensor] = []
    rebuild(operands, lambda tensor: found.append(tensor))
    if len(found) < 2 or found[0].shape != found[1].shape or found[0].dtype != found[1].dtype or not found[0].dim():
        return operands
    base = torch.cat([found[0], found[1][:1]])
    views = {id(found[0]): base[:-1], id(found[1]): base[1:]}
    return rebuild(operands, lambda tensor: views.get(id(tensor), tensor))


def to(dtype: torch.dtype) -> Variant:
    return each(lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor)


def promoted(operands: Operands) -> Operands:
    """The first tensor is of a wider type."""
    first: list[Tensor] = []

    def one(tensor: Tensor) -> Tensor:
        first.append(tensor)
        return tensor.double() if len(first) == 1 and tensor.is_floating_point() else tensor

    return rebuild(operands, one)


def differentiable(tensor: Tensor) -> Tensor:
    return tensor.requires_grad_() if tensor.is_floating_point() or tensor.is_complex() else tensor


def inner(tensor: Tensor) -> Tensor:
    return differentiable(tensor) * 1 if tensor.is_floating_point() or tensor.is_complex() else tensor


def parameter(tensor: Tensor) -> Tensor:
    return torch.nn.Parameter(tensor, requires_grad=tensor.is_floating_point() or tensor.is_complex())


def lazily(tensor: Tensor) -> Tensor:
    """With the conjugate and negative bits."""
    return tensor.to(torch.complex64).conj().imag if tensor.is_floating_point() else tensor


def conjugate(tensor: Tensor) -> Tensor:
    return tensor.to(torch.complex64).conj() if tensor.is_floating_point() else tensor


def no_dims(operands: Operands) -> Operands:
    """Tensors after the first have no dimensions."""
    first: list[Tensor] = []

    def one(tensor: Tensor) -> Tensor:
        first.append(tensor)
        return tensor.reshape(-1)[0].clone() if len(first) > 1 and tensor.numel() else tensor

    return rebuild(operands, one)


VARIANTS: dict[str, Variant] = {
    "same": each(lambda tensor: tensor),
    "other": each(lambda tensor: tensor.flip(tuple(range(tensor.dim()))) if not tensor.is_quantized else tensor),
    "transposed": each(reversed_dims),
    "sliced": each(sliced),
    "expanded": each(expanded),
    "empty": each(rows(0)),
    "one": each(rows(1)),
    "more": each(more),
    "alias": shared(lambda tensor: tensor),
    "view": shared(lambda tensor: tensor.view(tensor.shape)),
    "overlap": overlapping,
    "no_dims": no_dims,
    "promoted": promoted,
    "grad": each(differentiable),
    "inner": each(inner),
    "parameter": each(parameter),
    "negative": each(lazily),
    "conjugate": each(conjugate),
    **{
        str(dtype).removeprefix("torch."): to(dtype)
        for dtype in (torch.float64, torch.bfloat16, torch.int64, torch.bool, torch.complex64)
    },
}

# What one jitted function is called with, in this order: the first call is recorded. "a.b": both changes.
PROGRAMS: tuple[tuple[str, ...], ...] = (
    ("same", "other", "transposed", "sliced", "expanded", "more", "one", "empty", "alias", "overlap", "same", "more"),
    ("transposed", "same", "sliced", "transposed", "grad", "parameter", "inner", "other", "grad", "inner.sliced"),
    ("alias", "same", "overlap", "view", "alias", "no_dims", "promoted", "no_dims", "alias.grad"),
    ("empty", "one", "same", "empty", "expanded", "empty", "one.grad"),
    ("float64", "float64.other", "float64.more", "same", "float64.transposed", "bfloat16", "bfloat16.other", "same"),
    ("int64", "int64.other", "int64.sliced", "bool", "bool.other", "int64.alias", "bool.one", "int64.empty"),
    ("complex64", "complex64.other", "conjugate", "conjugate", "negative", "negative", "complex64.sliced",
     "complex64.grad"),
    ("inner", "inner.other", "grad", "parameter", "parameter", "grad.empty", "inner.alias", "same"),
)  # fmt: skip


def make(operands: Operands, variant: str) -> Operands:
    """Fresh operands, changed."""
    made = fresh(operands)
    for name in variant.split("."):
        made = VARIANTS[name](made)
    return made
