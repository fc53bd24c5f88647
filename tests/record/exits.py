"""Leaves the replays of small programs at every instruction, and compares the rest of the run with plain Python.

python exits.py [--mode MODE]          every program: which exits give another run, and where no exit is possible
python exits.py [--mode MODE] NAME     one program, with the first difference of each such exit
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import observe
from small_programs import Program, load_programs

NOWHERE = 2**63  # no trace has that many points
Points = dict[int, set[str]]  # number -> continuations of its frames


@dataclass
class Exits:
    """What leaving the traces of one program gave."""

    points: Points = field(default_factory=dict)
    left: set[int] = field(default_factory=set)  # points at which some replay was left
    missing: Counter[str] = field(default_factory=Counter)  # why not, at how many instructions
    wrong: dict[int, str] = field(default_factory=dict)  # first difference from the plain run

    def continuations(self) -> set[str]:
        return set().union(*(self.points[number] for number in self.left))


@contextmanager
def exit_points() -> Iterator[None]:
    """Every recording makes them."""
    import pijit
    from pijit import _core

    before = pijit.config.update({"stress": "exits"})
    try:
        yield
    finally:
        pijit.config.update(before)
        _core.choose_exit()


def collect_points(functions: Iterable[Any], exits: Exits) -> None:
    from pijit import _core, api

    for function in functions:
        for trace in _core.root_traces(api.root_of(function)):
            for number, continuations in trace["exit_points"]:
                exits.points.setdefault(number, set()).update(continuations)
            exits.missing.update(trace["no_exits"])


def evenly(most: int, first: int = 0) -> Callable[[Points], Iterable[int]]:
    """All points, or at most so many; which of the first few is the first is the remainder of `first`."""

    def choose(points: Points) -> Iterable[int]:
        step = 1 + len(points) // most
        return sorted(points)[first % step :: step]

    return choose


def leave(program: Program, mode: str, choose: Callable[[Points], Iterable[int]]) -> Exits:
    """One run for each chosen exit point of the program's traces, every replay left there."""
    with observe.hook_in_place("hooked" in program.flags):
        return leave_under_hook(program, mode, choose)


def leave_under_hook(program: Program, mode: str, choose: Callable[[Points], Iterable[int]]) -> Exits:
    """The same, with the hook as it is."""
    import pijit
    from pijit import _core, api

    exits = Exits()
    expected = observe.run(program, mode).entries
    gc.collect()
    roots: list[Any] = []

    def jit(function: Any) -> Any:
        roots.append(pijit.jit(function))
        return roots[-1]

    def forget() -> None:
        """Traces hold the program's classes: all collections to come would look through them."""
        while roots:
            pijit.reset(roots.pop())

    def leave_at(point: int) -> None:
        forget()
        _core.choose_exit(point)
        actual = observe.run(program, mode, jit, api.root_of).entries
        if _core.choose_exit() > 0:
            exits.left.add(point)
        for left, right in zip(expected, actual, strict=True):
            if left != right and point not in exits.wrong:
                exits.wrong[point] = f"plain: {left}\n left: {right}"

    with exit_points():
        leave_at(NOWHERE)
        collect_points(roots, exits)
        for point in choose(exits.points):
            leave_at(point)
    forget()
    return exits


def summary(outcomes: Iterable[Exits]) -> str:
    """How many exits, and the instructions where none is possible, by reason."""
    all_of = list(outcomes)
    points, left = sum(len(exits.points) for exits in all_of), sum(len(exits.left) for exits in all_of)
    missing = sum((exits.missing for exits in all_of), Counter[str]())
    share = missing.total() / max(1, missing.total() + points)
    lines = [f"{points} exit points, {left} of them left; no exit is possible at {share:.0%} of the instructions:"]
    return "\n".join(lines + [f"{count:8} {reason}" for reason, count in missing.most_common()])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", metavar="NAME", nargs="*")
    parser.add_argument("--mode", choices=observe.MODES, default=observe.MODES[0])
    options = parser.parse_args()
    programs = load_programs()
    outcomes = {name: leave(programs[name], options.mode, sorted) for name in options.names or programs}
    for name, exits in outcomes.items():
        for point, text in exits.wrong.items():
            print(f"{name}, exit {point}:\n{text}")
    print(summary(outcomes.values()))
    return any(exits.wrong for exits in outcomes.values())


if __name__ == "__main__":
    sys.exit(main())
