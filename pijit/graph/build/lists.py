"""Operators that write to a list of tensors, as one operator for each tensor: rows, passes and backends know those.

On a GPU the kernel for a list rounds otherwise than those for single tensors: it divides where they multiply by the
inverse. There such an operator stays one that gives new tensors, which are copied to those of the list.
"""

from collections.abc import Callable, Iterator, Mapping
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


def tensors_of(call: Call) -> list[list[Any]]:
    """What the lists of a call have in them that is known here; none where it is no such call."""
    name = str(call["name"])
    lists = [value[1] for _, value, _ in call["arguments"] if value[0] == "list"]
    known = name.startswith(_BASE) and name.removeprefix(_BASE) in _OF_ONE
    return lists if known and len({len(each) for each in lists}) == 1 else []


def at_once(call: Call, new_register: Callable[[], int]) -> Iterator[Call]:
    """The call as one that gives new tensors, and copies of these.

    Args:
        call: of the trace; `tensors_of` has its lists.
        new_register: gives one for a new tensor.
    """
    written, *others = tensors_of(call)
    if any(each in other for each in written for other in others):
        yield from apart(call)  # it may read what it has written
        return
    base, dot, overload = str(call["name"]).partition(".")
    made = [new_register() for _ in written]
    arguments = [(word, value, False) for word, value, _ in call["arguments"]]
    yield {
        **call,
        "name": base.removesuffix("_") + dot + overload,
        "arguments": arguments,
        "results": [made],
        "aliases": [-1],
    }
    for own, new in zip(written, made, strict=True):
        yield {
            **call,
            "name": "aten::copy_",
            "arguments": [("self", own, True), ("src", ("reg", new), False), ("non_blocking", ("const", False), False)],
            "keywords": [],
            "results": [None],
            "aliases": [0],
        }


def apart(call: Call) -> Iterator[Call]:
    """The calls for the tensors of the list, one by one; the call itself where it is no such one, or not known."""
    lists = tensors_of(call)
    if not lists:
        yield call
        return
    operator, names = _OF_ONE[str(call["name"]).removeprefix(_BASE)]
    for at in range(len(lists[0])):
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
