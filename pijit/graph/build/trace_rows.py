"""What stands in the rows of a trace, and what of the nodes made of them is used."""

import operator
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pijit.graph.model import Node, values_of


def sides(row: Mapping[str, Any]) -> Iterator[Any]:
    """The values that a node takes."""
    for side in ("a", "b", "c"):
        if row.get(side) is not None:
            yield row[side]
    yield from row.get("operands", ())
    if row.get("call"):
        yield from (value for _, value, _ in row["call"]["arguments"])


def mentioned(row: Mapping[str, Any], content: Callable[[Any], Any]) -> Iterator[int]:
    """The registers that it takes, also in tuples and lists; `content` gives what the trace builds an object of."""
    pending = list(sides(row))
    while pending:
        value = pending.pop()
        if value[0] == "reg":
            yield value[1]
        inner = content(value)
        if inner[0] in {"tuple", "list"}:
            pending += inner[-1]


def outs(row: Mapping[str, Any]) -> list[int]:
    """The registers that it writes."""
    found = [one for one in (row.get("out"), *row.get("outs", ())) if one is not None]
    if row.get("call"):
        found = [register for one in row["call"]["results"] for register in each(one) if register is not None]
    return found


# What torch calls its namespaces, and how a program says it.
_SPACES = {"_VariableFunctionsClass": "torch", "TensorBase": "Tensor", "_VariableFunctions": "torch"}


def callable_name(row: Mapping[str, Any]) -> str:
    """What it calls, as a program says it."""
    value = row.get("a")
    thing = value[1] if value is not None and value[0] == "const" else None
    if value is not None and value[0] == "unknown" and "<" not in value[1]:
        return str(value[1])
    if thing is None:
        return str(row["op"])
    name = getattr(thing, "__qualname__", None) or getattr(thing, "__name__", None)
    if name is None:  # a store, or the call of an object
        return type(thing).__qualname__ if row["op"] in {"opaque", "pure"} else str(row["op"])
    first, _, rest = str(name).partition(".")
    if "pybind11" in first:  # the record in which pybind11 keeps a function
        return rest or "a function of C++"
    return f"{_SPACES[first]}.{rest}" if first in _SPACES else str(name)


def compares_identity(row: Mapping[str, Any]) -> bool:
    """It asks whether two objects are one, which no data decides."""
    callable_ = row["a"]
    return callable_[0] == "const" and (callable_[1] is operator.is_ or callable_[1] is operator.is_not)


def asks_for_class(row: Mapping[str, Any]) -> bool:
    """It asks what an object is, which no data decides."""
    callable_ = row["a"]
    return callable_[0] == "const" and any(callable_[1] is each for each in (isinstance, issubclass, type, callable))


def expected(op: str, row: Mapping[str, Any]) -> int | float | bool:
    """The number that a guard compares with."""
    if op == "guard_bool":
        return bool(row["imm"])
    bits: bytes = row["imm"].to_bytes(8, "little")
    number: int | float = struct.unpack("<q" if op == "guard_int" else "<d", bits)[0]
    return number


def each(one: Any) -> list[Any]:
    """A list of one or several."""
    return one if isinstance(one, list) else [one]


def without_unused(nodes: list[Node], outputs: Any) -> tuple[Node, ...]:
    """Without numbers that nobody uses."""
    used = {value.name for value in values_of(outputs)}
    kept = []
    for node in reversed(nodes):
        numbers = all(value is None or value.kind != "tensor" for value in node.results)
        needed = any(value is not None and value.name in used for value in node.results)
        if node.results and numbers and not needed and not node.writes and not node.op.startswith("python::"):
            continue
        used.update(value.name for value in node.operands)
        kept.append(node)
    return tuple(reversed(kept))
