"""Operators with a schema that the recorder has left to CPython: those that a user defines, called by their names.

`torch.ops.namespace.name(...)` and a function of `torch.library.custom_op` call a function of C++ that the operator, or
one of its overloads, keeps. The frame that calls it is a method of theirs; so it is known which operator it is.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

# Types of results that a graph has, and the kinds of their values.
_KINDS = {"Tensor": "tensor", "int": "int", "float": "float", "bool": "bool", "SymInt": "int"}


_resolved: set[str] = set()


def resolve() -> None:
    """Looks up the operators that the program has defined.

    The first look at `torch.ops.namespace.name` computes and keeps it. In a recording that would be left to CPython,
    with the call of the operator.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return
    names = set(getattr(torch.library, "_defs", ()))  # of Python; those of C++ come with libraries
    if torch.ops.loaded_libraries:
        names |= {each.name for each in torch._C._jit_get_all_schemas()}
    for name in names - _resolved:
        _resolved.add(name)
        namespace, _, base = name.partition("::")
        packet = getattr(getattr(torch.ops, namespace), base.partition(".")[0], None)
        # A namespace has attributes of its own: `torch.ops.prim.name` is no operator.
        for overload in packet.overloads() if isinstance(packet, torch._ops.OpOverloadPacket) else ():
            getattr(packet, overload)


def overload_of(row: Mapping[str, Any], holder: Any, positional: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """The overload that an opaque node calls; None: it calls something else.

    Args:
        row: of the trace.
        holder: what the frame that calls is a method of.
        positional: arguments: values of a graph, numbers, or tuples of them.
        named: the others, by name.
    """
    torch, called = sys.modules.get("torch"), row["a"]
    if torch is None or called[0] != "const" or getattr(holder, "_op", None) is not called[1]:
        return None
    if isinstance(holder, torch._ops.OpOverload):
        return holder
    if not isinstance(holder, torch._ops.OpOverloadPacket):
        return None
    found = [getattr(holder, name) for name in holder.overloads()]
    return next((each for each in found if _takes(each._schema, positional, named)), None)


def overload_named(function: str, positional: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """The overload of ATen that a function of Python stands for, such as "torch::Tensor.conj"; None: there is none."""
    torch, name = sys.modules.get("torch"), function.rpartition("::")[2].removeprefix("Tensor.")
    packet = getattr(torch.ops.aten, name, None) if torch is not None and name.isidentifier() else None
    found = [getattr(packet, each) for each in packet.overloads()] if packet is not None else []
    return next((each for each in found if _takes(each._schema, positional, named)), None)


# Functions of Python whose arguments are sizes, behind the tensor of a method.
_OF_SIZES = {f"torch::{name}" for name in ("zeros", "ones", "empty", "rand", "randn")}
_OF_SIZES |= {f"torch::Tensor.{name}" for name in ("view", "reshape", "expand", "new_zeros", "new_ones", "new_empty")}


def are_sizes(function: str, given: Sequence[Any]) -> bool:
    """What a function is given are sizes, and one of them is a tensor."""
    kinds = [getattr(each, "kind", type(each).__name__) for each in given]
    return function in _OF_SIZES and "tensor" in kinds and all(kind in {"tensor", "int"} for kind in kinds)


def _takes(schema: Any, positional: Sequence[Any], named: Mapping[str, Any]) -> bool:
    """An overload takes these arguments, as far as their kinds tell."""
    arguments = schema.arguments
    given = dict(zip((each.name for each in arguments if not each.kwarg_only), positional, strict=False)) | dict(named)
    if len(given) != len(positional) + len(named) or not given.keys() <= {each.name for each in arguments}:
        return False
    return all(
        _fits(given[each.name], str(each.type)) if each.name in given else each.has_default_value()
        for each in arguments
    )


def _fits(value: Any, kind: str) -> bool:
    if kind.startswith("Optional["):
        return value is None or _fits(value, kind[9:-1])
    if kind.startswith("List["):
        return isinstance(value, tuple | list) and all(_fits(each, kind[5:-1]) for each in value)
    own = getattr(value, "kind", None)
    if own in {"tensor", "int", "float", "bool"}:
        own = {"tensor": "Tensor"}.get(own, own)
    else:
        own = type(value).__name__
    if kind == "Tensor" or own == "Tensor":
        return kind == own
    if own in {"bool", "int", "float", "complex"}:
        wider = {"bool": {"bool"}, "int": {"int", "float"}, "float": {"float"}, "complex": {"complex"}}
        return kind in wider[own] | {"number", "Scalar"}
    return kind not in {"int", "float", "bool", "number"}


def qualified(overload: Any) -> str:
    """ "namespace::name.overload"."""
    schema = overload._schema
    return f"{schema.name}.{schema.overload_name}" if schema.overload_name else str(schema.name)


def kinds(overload: Any) -> list[str] | None:
    """The kinds of its results; None: a graph has no such values."""
    found = [_KINDS.get(str(each.type), "") for each in overload._schema.returns]
    return found if all(found) else None


def registers(data: Mapping[str, Any], out: int, count: int) -> list[int | None]:
    """Where the trace has the results of a node whose object is register `out`: one, or the items of a tuple."""
    places: dict[tuple[Any, ...], int] = {(): 0} if count == 1 else {(("item", at),): at for at in range(count)}
    found: list[int | None] = [None] * count
    for row in data["inputs"]:
        source = row["source"]
        if row.get("made") and source and source[0] == ("unknown", f"r{out}"):
            at = places.get(tuple(source[1:]))
            if at is not None:
                found[at] = row["register"]
    return found


def aliases(overload: Any) -> Iterator[int]:
    """For each result the position of the argument that it may share memory with; -1: none."""
    for result in overload._schema.returns:
        held = result.alias_info
        yield next(
            (
                at
                for at, argument in enumerate(overload._schema.arguments)
                if held is not None and argument.alias_info is not None
                if argument.alias_info.before_set & held.before_set
            ),
            -1,
        )


def is_random(overload: Any) -> bool:
    """It draws random numbers, and says so."""
    return any("nondeterministic" in str(tag) for tag in overload.tags)
