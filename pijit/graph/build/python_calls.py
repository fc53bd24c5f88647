"""What calls of Python in a trace are for a graph: arithmetic on numbers, or the call of torch's autograd engine.

The call of the engine is known by its callable, the method `run_backward` of the engine; its arguments stand in a tuple
and a dict that the trace builds for it.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from pijit import _torch_objects
from pijit.graph.model import Argument, Value
from pijit.graph.torch_calls import NUMBERS
from pijit.graph.vocabulary import rows

# The parameters of `run_backward`, in order.
_ENGINE = ("roots", "gradients", "keep_graph", "create_graph", "inputs", "allow_unreachable", "accumulate")
_IN_PLACE = {
    "scalar_add": operator.iadd,
    "scalar_subtract": operator.isub,
    "scalar_multiply": operator.imul,
    "scalar_divide": operator.itruediv,
    "scalar_floor_divide": operator.ifloordiv,
    "scalar_remainder": operator.imod,
    "scalar_pow": operator.ipow,
}
_ROWS: dict[Callable[..., Any], str] = {
    **{function: name for name, function in NUMBERS.items()},
    **{function: name for name, function in _IN_PLACE.items()},
    pow: "scalar_pow",
    abs: "scalar_abs",
}
_KINDS: dict[Any, str] = {int: "int", float: "float", bool: "bool"}
# A node of operands that stand in a tuple and a dict.
SPREAD = 2**32 - 1


class Store(NamedTuple):
    """A store into an object that was there before the call.

    Attributes:
        key: name of the attribute, or key of the item, as text.
        value: what is stored.
        file: the user's source file.
        line: the line in it.
    """

    key: str
    value: Argument
    file: str
    line: int


class EngineCall(NamedTuple):
    """The arguments of a call of the engine, as values of the trace."""

    roots: Any
    gradients: Any
    keep_graph: bool
    create_graph: bool
    inputs: Any
    accumulate: bool


def number_row(row: Mapping[str, Any]) -> tuple[str, str] | None:
    """The row of the vocabulary that a node of the trace computes, and the kind of its result; None: there is none."""
    callable_, type_ = row["a"], row.get("type", ("none",))
    if callable_[0] != "const" or type_[0] != "const":
        return None
    try:
        name, kind = _ROWS.get(callable_[1]), _KINDS.get(type_[1])
    except TypeError:  # it has no hash
        return None
    if name is None or kind is None:
        return None
    parameters = rows()[name].parameters
    fits = sum(each.required for each in parameters) <= len(row["operands"]) <= len(parameters)
    return (name, kind) if fits and row.get("aux", 0) == 0 else None


def number_row_of(function: Any) -> str:
    """The row of numbers that a function of Python is; "": none."""
    return _ROWS.get(function, "")


def engine_call(row: Mapping[str, Any], content: Callable[[Any], Any]) -> EngineCall | None:
    """The call of torch's autograd engine that an opaque node is; None: it is another one.

    Args:
        row: the node.
        content: gives for a value of the trace what the object is built of, or the value itself.
    """
    called = content(row["a"])
    if called[0] != "method" or called[1][0] != "const" or not _torch_objects.is_backward(called[1][1]):
        return None
    found = spread(row, content)
    if found is None:
        return None
    given = dict(zip(_ENGINE, found[0], strict=False))
    words = {"tensors": "roots", "grad_tensors": "gradients", "accumulate_grad": "accumulate"}
    given |= {words.get(key, key): value for key, value in found[1].items()}
    flags = {name: given.get(name, ("const", False)) for name in ("keep_graph", "create_graph", "accumulate")}
    if any(flag[0] != "const" for flag in flags.values()) or "roots" not in given:
        return None
    empty: Any = ("tuple", None, [])
    return EngineCall(
        content(given["roots"]),
        content(given.get("gradients", empty)),
        bool(flags["keep_graph"][1]),
        bool(flags["create_graph"][1]),
        content(given.get("inputs", empty)),
        bool(flags["accumulate"][1]),
    )


def spread(row: Mapping[str, Any], content: Callable[[Any], Any]) -> tuple[Sequence[Any], Mapping[str, Any]] | None:
    """The arguments of an opaque node that is called with a tuple and a dict; None: they are not known.

    Args:
        row: the node.
        content: gives for a value of the trace what the object is built of, or the value itself.
    """
    if row["aux"] != SPREAD or not row["operands"]:
        return None
    positional = content(row["operands"][0])
    named = content(row["operands"][1]) if len(row["operands"]) > 1 else ("dict", None, [])
    if positional[0] != "tuple" or named[0] != "dict":
        return None
    return positional[-1], {key[1]: value for key, value in named[-1]}


def given(row: Mapping[str, Any], content: Callable[[Any], Any]) -> tuple[Sequence[Any], Mapping[str, Any]] | None:
    """The arguments of an opaque node, by position and by name; None: they are not known.

    Args:
        row: the node.
        content: as for `spread`.
    """
    if row["aux"] == SPREAD:
        return spread(row, content)
    operands, count = row["operands"], row["aux"]
    names = row["b"][1] if count and row["b"][0] == "const" else ()
    if len(names) != count:
        return None
    return operands[: len(operands) - count], dict(zip(names, operands[len(operands) - count :], strict=True))


def is_number(argument: Argument) -> bool:
    """An int or a float, of Python or computed in the graph."""
    if isinstance(argument, Value):
        return argument.kind in {"int", "float"}
    return isinstance(argument, int | float) and not isinstance(argument, bool)
