"""Whether a program raises where a decision goes the other way: `assert x.max() < 9`, `if bad.any(): raise ...`.

Such a decision splits no graph: it is a check, and what runs the graph fails where the program would.
"""

import dis
import functools
import itertools
from collections.abc import Mapping
from types import CodeType
from typing import Any

_MOST = 400  # instructions on the way to where it raises
_ENDS = {"RETURN_VALUE", "RETURN_CONST", "RETURN_GENERATOR", "YIELD_VALUE", "SEND"}
# Between a truth value and the jump that it decides.
_SAME = {"CACHE", "TO_BOOL", "NOP", "EXTENDED_ARG", "COPY"}


def raises(row: Mapping[str, Any], equal: bool = False) -> bool:
    """The program raises if the decision of a row goes the other way, and does not handle that itself.

    Args:
        row: of the trace.
        equal: the decision is that two numbers are equal; each pair of numbers in two tuples is such a decision.
    """
    code = row.get("code")
    if row["handled"] or not isinstance(code, CodeType):
        return False
    return _raises(code, 2 * int(row["instruction"]), equal)


@functools.lru_cache(maxsize=1024)
def _raises(code: CodeType, offset: int, equal: bool) -> bool:
    found = {each.offset: each for each in dis.get_instructions(code)}
    following = _following(found)
    at: int | None = offset
    if equal and offset in found and found[offset].opname == "COMPARE_OP":
        at = following[offset]
    while at is not None and found[at].opname in _SAME:
        at = following[at]
    if at is None or at not in found or not _is_conditional(found[at]):
        return False
    ways = [way for way in (following[at], found[at].argval) if way is not None]
    return sum(_leads_to_raise(way, found, following) for way in ways) == 1


def _following(found: Mapping[int, dis.Instruction]) -> dict[int, int | None]:
    offsets: list[int] = list(found)
    return {**dict(itertools.pairwise(offsets)), offsets[-1]: None}


def _is_conditional(instruction: dis.Instruction) -> bool:
    name = instruction.opname
    return "JUMP" in name and "IF" in name


def _leads_to_raise(at: int, found: Mapping[int, dis.Instruction], following: Mapping[int, int | None]) -> bool:
    """Every way from there ends where the program raises."""
    pending, seen = [at], set()
    while pending:
        now: int | None = pending.pop()
        while now is not None and now not in seen:
            seen.add(now)
            instruction = found[now]
            if len(seen) > _MOST or instruction.opname in _ENDS:
                return False
            if instruction.opname in {"RAISE_VARARGS", "RERAISE"}:
                now = None
                break
            if "JUMP" in instruction.opname or instruction.opname == "FOR_ITER":
                if instruction.argval <= now:  # a loop
                    return False
                pending.append(instruction.argval)
                if not _is_conditional(instruction) and instruction.opname != "FOR_ITER":
                    now = None
                    break
            now = following[now]
        else:
            if now is None:  # behind the last instruction
                return False
    return True
