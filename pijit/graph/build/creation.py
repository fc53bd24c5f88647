"""Tensors that a call makes of numbers, lists and tensors: `torch.tensor([n, 2.5])`, `as_tensor(x)`, `Parameter(x)`.

A list that holds values of the graph becomes a stack of its items, each an array without axes.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pijit.graph.build.opaque_objects import UNKNOWN, Known, holds_opaque
from pijit.graph.model import Token, Value

_WORDS = {"dtype", "device"}
_IGNORED = {"requires_grad", "pin_memory"}


def _leaves(data: Any) -> Iterator[Any]:
    if isinstance(data, tuple | list):
        for item in data:
            yield from _leaves(item)
    else:
        yield data


def _is_tensor(argument: Any) -> bool:
    return isinstance(argument, Value) and argument.kind == "tensor"


def constant(builder: Any, row: Mapping[str, Any], known: Known, shares: bool = False) -> Any:
    """The tensor of an array of NumPy that is the same in each call.

    Args:
        builder: of the graph.
        row: of the trace.
        known: the array.
        shares: the tensor has its memory.
    """
    torch = sys.modules["torch"]
    if not hasattr(known.made, "shape") or builder.is_written(known.made):  # a dtype
        return UNKNOWN
    if shares and builder.is_shared(known.made):
        return next((value for array, value in builder.shared if array is known.made), UNKNOWN)
    try:
        tensor = torch.from_numpy(known.made.copy())
    except TypeError:
        return UNKNOWN
    made = builder.operator(row, "tensor::literal", [builder.constant(tensor)])
    if shares:
        builder.shared.append((known.made, made))
    return made


def with_constants(builder: Any, row: Mapping[str, Any], argument: Any) -> Any:
    """The argument with tensors in the place of arrays of NumPy."""
    if isinstance(argument, Known):
        return constant(builder, row, argument)
    if isinstance(argument, tuple | list):
        return type(argument)(with_constants(builder, row, item) for item in argument)
    return argument


def made_of(builder: Any, row: Mapping[str, Any], data: Any, words: Mapping[str, Any]) -> Any:
    """The tensor that `torch.tensor(data, **words)` is; `UNKNOWN` where a graph cannot say it."""
    if any(name not in _WORDS and name not in _IGNORED for name in words):
        return UNKNOWN
    words = {name: word for name, word in words.items() if name in _WORDS and word is not None}
    if any(not isinstance(word, Token) for word in words.values()):
        return UNKNOWN
    if isinstance(data, Known):
        made = constant(builder, row, data)
        return builder.astype(row, made, words) if words and made is not UNKNOWN else made
    if holds_opaque(data):
        return UNKNOWN
    if _is_tensor(data):
        made = builder.operator(row, "aten::clone", [data])
        return builder.astype(row, made, words) if words else made
    leaves = list(_leaves(data))
    if not any(isinstance(each, Value) for each in leaves):
        return builder.operator(row, "torch::tensor", [data], words)
    return _stacked(builder, row, data, words if _holds_tensor(leaves) else _dtype(leaves, words))


def _holds_tensor(leaves: list[Any]) -> bool:
    return any(map(_is_tensor, leaves))


def _dtype(leaves: list[Any], words: Mapping[str, Any]) -> dict[str, Any]:
    """The words with the dtype that torch gives to numbers of these kinds."""
    kinds = {each.kind if isinstance(each, Value) else type(each).__name__ for each in leaves}
    default = str(sys.modules["torch"].get_default_dtype()).removeprefix("torch.")
    name = default if "float" in kinds else "int64" if "int" in kinds else "bool"
    return {"dtype": Token("dtype", name), **words}


def _stacked(builder: Any, row: Mapping[str, Any], data: Any, words: Mapping[str, Any]) -> Any:
    if isinstance(data, tuple | list):
        items = tuple(_stacked(builder, row, item, words) for item in data)
        return builder.operator(row, "aten::stack", [items, 0])
    if _is_tensor(data):
        made = builder.operator(row, "aten::reshape", [data, ()])
        return builder.astype(row, made, words) if words else made
    if not words:  # beside tensors each number has the dtype that it would have alone
        words = _dtype([data], {})
    return builder.operator(row, "torch::tensor", [data], words)


def as_tensor(builder: Any, row: Mapping[str, Any], args: list[Any], named: dict[str, Any]) -> Any:
    """`torch.as_tensor`, `torch.asarray` and `torch.from_numpy`: a tensor is itself, or cast."""
    words = {**dict(zip(("dtype", "device"), args[1:], strict=False)), **named}
    words = {name: word for name, word in words.items() if word is not None and name != "copy"}
    if not args or named.get("copy") or any(not isinstance(word, Token) for word in words.values()):
        return UNKNOWN
    if _is_tensor(args[0]):
        return builder.astype(row, args[0], words) if words else args[0]
    if isinstance(args[0], Known):
        made = constant(builder, row, args[0], shares=True)
        return builder.astype(row, made, words) if words and made is not UNKNOWN else made
    return made_of(builder, row, args[0], words)


def tensor(builder: Any, row: Mapping[str, Any], args: list[Any], named: dict[str, Any]) -> Any:
    """`torch.tensor`."""
    return made_of(builder, row, args[0], named) if len(args) == 1 else UNKNOWN


def new_tensor(builder: Any, row: Mapping[str, Any], args: list[Any], named: dict[str, Any]) -> Any:
    """`x.new_tensor(data)`: in the dtype of x."""
    if len(args) != 2 or not _is_tensor(args[0]):
        return UNKNOWN
    if named.get("dtype") is not None:
        return made_of(builder, row, args[1], named)
    numbers = not _holds_tensor(list(_leaves(args[1]))) and not isinstance(args[1], Known)
    wide = _dtype(list(_leaves(args[1])), {})["dtype"] if numbers and not holds_opaque(args[1]) else None
    if wide is not None and "float" in wide.name:
        wide = Token("dtype", "float64")  # what is cast twice is rounded twice
    made = made_of(builder, row, args[1], {**named, **({"dtype": wide} if wide is not None else {})})
    return made if made is UNKNOWN else builder.operator(row, "aten::type_as", [made, args[0]])


def _parameter(builder: Any, row: Mapping[str, Any], args: list[Any], named: dict[str, Any]) -> Any:
    """`Parameter(x)` has the content of x."""
    return builder.operator(row, "aten::detach", [args[0]]) if args and _is_tensor(args[0]) else UNKNOWN


def _of_dtype(name: str) -> Callable[..., Any]:
    def call(builder: Any, row: Mapping[str, Any], args: list[Any], named: dict[str, Any]) -> Any:
        if named or len(args) != 1 or not isinstance(args[0], tuple | list):
            return UNKNOWN
        word = name or str(sys.modules["torch"].get_default_dtype()).removeprefix("torch.")
        return made_of(builder, row, args[0], {"dtype": Token("dtype", word)})

    return call


_TYPES = {"": "", "Float": "float32", "Double": "float64", "Long": "int64", "Int": "int32", "Bool": "bool"}


def calls() -> dict[Any, Callable[..., Any]]:
    """By callable: what makes a tensor."""
    torch = sys.modules["torch"]
    types = {getattr(torch, f"{prefix}Tensor"): _of_dtype(name) for prefix, name in _TYPES.items()}
    return {
        torch.tensor: tensor,
        torch.as_tensor: as_tensor,
        torch.asarray: as_tensor,
        torch.from_numpy: as_tensor,
        torch.nn.Parameter: _parameter,
        torch.nn.parameter.Buffer: _parameter,
        **types,
    }
