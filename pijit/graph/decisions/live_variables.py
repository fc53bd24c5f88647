"""Which local variables of a function are still read from an instruction on."""

import dis
import functools
from types import CodeType

_ENDS = ("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE", "JUMP_FORWARD", "JUMP_BACKWARD")


def _reads_and_writes(instruction: dis.Instruction) -> tuple[set[int], set[int]]:
    """The slots that an instruction reads first, and those that it writes first."""
    name, slot = instruction.opname, instruction.arg
    if slot is None or "_FAST" not in name:
        return set(), set()
    words = [word for word in ("LOAD_FAST", "STORE_FAST", "DELETE_FAST") if word in name]
    if name.count("_FAST") == 1 or "_FAST_CHECK" in name or "_FAST_AND_CLEAR" in name:
        return ({slot}, set()) if words != ["STORE_FAST"] else (set(), {slot})
    first, second = slot >> 4, slot & 15
    if name.count("LOAD_FAST") == 2:
        return {first, second}, set()
    if name.count("STORE_FAST") == 2:
        return set(), {first, second}
    return {second} - {first}, {first}  # what is stored first is read then


@functools.lru_cache(maxsize=256)
def _live(code: CodeType) -> dict[int, frozenset[int]]:
    instructions = list(dis.get_instructions(code))
    places = {each.offset: at for at, each in enumerate(instructions)}
    handlers: dict[int, set[int]] = {}
    for entry in getattr(dis.Bytecode(code), "exception_entries", ()):
        for at, each in enumerate(instructions):
            if entry.start <= each.offset < entry.end and entry.target in places:
                handlers.setdefault(at, set()).add(places[entry.target])
    after: list[set[int]] = []
    for at, each in enumerate(instructions):
        next_ones = set(handlers.get(at, ()))
        if each.opname not in _ENDS and not each.opname.startswith("JUMP_BACKWARD_NO") and at + 1 < len(instructions):
            next_ones.add(at + 1)
        if each.opcode in dis.hasjrel or each.opcode in dis.hasjabs:
            next_ones.add(places[each.argval])
        after.append(next_ones)
    live: list[set[int]] = [set() for _ in instructions]
    changed = True
    while changed:
        changed = False
        for at in range(len(instructions) - 1, -1, -1):
            reads, writes = _reads_and_writes(instructions[at])
            now = reads | (set().union(*(live[each] for each in after[at])) - writes)
            if now != live[at]:
                live[at], changed = now, True
    return {each.offset: frozenset(live[at]) for at, each in enumerate(instructions)}


def live_slots(code: CodeType, unit: int) -> frozenset[int]:
    """Slots of local variables that are read from that instruction on before they are assigned.

    Cells are always among them: inner functions read them.

    Args:
        code: of the function.
        unit: where the instruction stands, in units of two bytes.
    """
    names = set(code.co_cellvars)
    cells = {slot for slot, name in enumerate(code.co_varnames) if name in names}
    more = range(len(code.co_varnames), len(code.co_varnames) + len(code.co_cellvars) + len(code.co_freevars))
    return _live(code)[unit * 2] | cells | frozenset(more)
