"""Short ways to write the traces that the probe takes."""

from __future__ import annotations

import dis
from collections.abc import Callable
from typing import Any

Description = dict[str, Any]


def const(value: object) -> tuple[str, object]:
    return ("const", value)


def reg(index: int) -> tuple[str, int]:
    return ("reg", index)


def virtual(index: int) -> tuple[str, int]:
    return ("virtual", index)


def entry(object_: int, op: str, value: Any = None, key: Any = None, index: int = 0) -> Description:
    return {"object": object_, "op": op, "value": value, "key": key, "index": index}


def returning(function: Callable[..., Any], value: Any, **rest: Any) -> Description:
    """A trace that returns a value at once."""
    inputs = function.__code__.co_argcount
    return {"inputs": inputs, "regs": inputs, "nodes": [{"op": "kReturn", "a": value}], **rest}


def call_of(function: Callable[..., Any], name: str) -> tuple[int, int]:
    """Code indices of the first call after `name` is loaded, and of the instruction after it."""
    found = False
    instructions = list(dis.get_instructions(function))
    for this, following in zip(instructions, instructions[1:], strict=False):
        found = found or this.argval == name
        if found and this.opname in ("CALL", "STORE_ATTR", "STORE_SUBSCR"):
            return this.offset // 2, following.offset // 2
    raise LookupError(name)


def frame(function: Callable[..., Any], at: str, locals_: list[Any], stack: list[Any], **rest: Any) -> Description:
    """A frame state: an inner one resumes after the call of `at`, an outer one has it under way."""
    call, resume = call_of(function, at)
    made = {"code": function.__code__, "call": call, "resume": resume, "locals": locals_, "stack": stack}
    if "parent" in rest:
        made["function"] = const(function)
    return {**made, **rest}


def leaving(function: Callable[..., Any], frames: list[Description], **rest: Any) -> Description:
    """A trace that leaves at once; the frames are given from the root inwards."""
    inputs = function.__code__.co_argcount
    return {
        "inputs": inputs,
        "regs": inputs,
        "depth": len(frames),
        "frames": frames,
        "snapshots": [{"frame": len(frames) - 1}],
        "nodes": [{"op": "kExit", "snapshot": 0}],
        **rest,
    }
