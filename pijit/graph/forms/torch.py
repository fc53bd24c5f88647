"""The vocabulary in torch: a row is the operator of ATen of its first pattern that takes the arguments.

A graph that runs in torch calls what the program called instead (`pijit.graph.torch_calls`); these functions are for
what has no origin, and for the text of a graph.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch

from pijit.graph import vocabulary
from pijit.graph.forms import numbers
from pijit.graph.model import Token
from pijit.graph.torch_calls import index_of


def _native(argument: Any) -> Any:
    """An argument with dtypes, devices and layouts of torch."""
    if isinstance(argument, Token):
        return torch.device(argument.name) if argument.kind == "device" else getattr(torch, argument.name)
    if isinstance(argument, tuple | list):
        return [_native(each) for each in argument]
    return argument


def _setitem(x: Any, index: Any, value: Any) -> Any:
    x = x.clone()
    x[index_of(index)] = value
    return x


def _asarray(value: Any, dtype: Any = None, device: Any = None) -> Any:
    if isinstance(value, torch.Tensor):
        return value.clone().to(device=_native(device), dtype=_native(dtype))
    return torch.tensor(value, dtype=_native(dtype), device=_native(device))


# Rows whose patterns are not operators of ATen.
_OWN: dict[str, Callable[..., Any]] = {
    "size": lambda x, axis: x.size(axis),
    "ndim": lambda x: x.dim(),
    "numel": lambda x: x.numel(),
    "getitem": lambda x, index: x[index_of(index)],
    "setitem": _setitem,
    "asarray": _asarray,
    **numbers.FORMS,
}


def _operator(name: str) -> Any:
    """The function of an operator by its full name; without an overload the one that is named so, or all of them."""
    namespace, _, rest = name.partition("::")
    base, _, overload = rest.partition(".")
    packet = getattr(getattr(torch.ops, namespace), base)
    return getattr(packet, overload or "default")


def _call(operator: Any, schema: Any, arguments: Mapping[int, Any]) -> Any:
    """Calls an operator with arguments by their position in a schema."""
    positional, keywords, gap = [], {}, False
    for at, argument in enumerate(schema.arguments):
        given = at in arguments and not (arguments[at] is None and _wants(argument.type, "OptionalType") is None)
        gap = gap or not given
        if given and (gap or argument.kwarg_only):
            keywords[argument.name] = _fitting(argument, arguments[at])
        elif given:
            positional.append(_fitting(argument, arguments[at]))
    return operator(*positional, **keywords)


def _wants(kind: Any, name: str) -> Any:
    """The type within a type of torch's schemas that has this name, or None."""
    while kind.kind() != name:
        if kind.kind() != "OptionalType":
            return None
        kind = kind.getElementType()
    return kind


def _fitting(argument: Any, value: Any) -> Any:
    """A value as an argument takes it: one number for a list of them is one for each axis."""
    value = _native(value)
    items = _wants(argument.type, "ListType")
    if items is not None and isinstance(value, int | float):
        return [value] * (argument.N or 1)
    return value


def _required(schema: Any, found: dict[int, Any]) -> dict[int, Any]:
    """With values for arguments that have no meaning for the result, but no default."""
    for at, argument in enumerate(schema.arguments):
        if at not in found and not argument.has_default_value():
            found[at] = None if argument.type.kind() == "OptionalType" else False
    return found


def _is_default(row: vocabulary.Row, name: str, value: Any) -> bool:
    default = row.defaults.get(name, torch)
    return type(value) is type(default) and bool(value == default)


def _form(row: vocabulary.Row) -> Callable[..., Any]:
    """The function of a row: the operator of its first pattern that takes the arguments."""

    def form(*values: Any, **arguments: Any) -> Any:
        arguments |= zip((each.name for each in row.parameters), values, strict=False)
        given = {name for name, value in arguments.items() if not _is_default(row, name, value)}
        error: Exception | None = None
        for pattern in row.patterns:
            if given <= set(pattern.slots):
                operator = _operator(pattern.operator)
                found = _required(operator._schema, dict(vocabulary.called(pattern.operator, arguments)))
                try:
                    return _call(operator, operator._schema, found)
                except (RuntimeError, TypeError) as failure:
                    error = error or failure
        raise error or TypeError(f"{row.signature} takes no {', '.join(sorted(given))}")

    return form


@functools.cache
def form(name: str) -> Callable[..., Any]:
    """The function of a row."""
    return _OWN.get(name) or _form(vocabulary.rows()[name])


def __getattr__(name: str) -> Any:
    if name not in vocabulary.rows():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return form(name)
