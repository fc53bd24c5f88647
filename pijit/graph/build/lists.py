"""Operators that write to a list of tensors, as one operator for each tensor: rows, passes and backends know those."""

from collections.abc import Iterator, Mapping
from typing import Any

Call = Mapping[str, Any]

_BASE = "aten::_foreach_"
_ALPHA = ("add", "sub")
_UNARY: tuple[str, ...] = (
    "abs",
    "ceil",
    "cos",
    "exp",
    "expm1",
    "floor",
    "log",
    "log1p",
    "log2",
    "neg",
    "reciprocal",
    "round",
)
_UNARY += ("rsqrt", "sigmoid", "sign", "sin", "sqrt", "tan", "tanh", "trunc", "zero")

# By base and overload: the operator for one tensor, and the names of its arguments in order.
_OF_ONE: dict[str, tuple[str, tuple[str, ...]]] = {
    **{f"{name}_": (f"{name}_", ("self",)) for name in _UNARY},
    **{
        f"{name}_.{overload}": (f"{name}_.Tensor", ("self", "other", "alpha"))
        for name in ("add", "sub", "mul", "div")
        for overload in ("Scalar", "List", "ScalarList", "Tensor")
    },
    "lerp_.Scalar": ("lerp_.Scalar", ("self", "end", "weight")),
    "lerp_.ScalarList": ("lerp_.Scalar", ("self", "end", "weight")),
    "lerp_.List": ("lerp_.Tensor", ("self", "end", "weight")),
    **{
        f"{name}_.{overload}": (f"{name}_", ("self", "tensor1", "tensor2", "value"))
        for name in ("addcmul", "addcdiv")
        for overload in ("Scalar", "ScalarList")
    },
    "copy_": ("copy_", ("self", "src", "non_blocking")),
    "clamp_min_.Scalar": ("clamp_min_", ("self", "min")),
    "clamp_max_.Scalar": ("clamp_max_", ("self", "max")),
    **{f"{name}_.List": ("clamp_min_.Tensor", ("self", "min")) for name in ("clamp_min", "maximum")},
    **{f"{name}_.List": ("clamp_max_.Tensor", ("self", "max")) for name in ("clamp_max", "minimum")},
}


def apart(call: Call) -> Iterator[Call]:
    """The calls for the tensors of the list, one by one; the call itself where it is no such one, or not known."""
    name = str(call["name"])
    known = _OF_ONE.get(name.removeprefix(_BASE)) if name.startswith(_BASE) else None
    lists = [value for _, value, _ in call["arguments"] if value[0] == "list"]
    if known is None or not lists or len({len(value[1]) for value in lists}) != 1:
        yield call
        return
    operator, names = known
    for at in range(len(lists[0][1])):
        arguments = [
            (word, value[1][at] if value[0] == "list" else value, written)
            for word, (_, value, written) in zip(names, call["arguments"], strict=False)
        ]
        if operator in {f"{word}_.Tensor" for word in _ALPHA} and len(arguments) < len(names):
            arguments.append((names[-1], ("const", 1), False))
        keywords = [word for word, _, _ in arguments if word in {"alpha", "value"}]
        yield {
            **call,
            "name": f"aten::{operator}",
            "arguments": arguments,
            "keywords": keywords,
            "results": [None],
            "aliases": [0],
        }
