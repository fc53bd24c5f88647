"""Runs the small programs plain and jitted, and describes everything that can be observed of a call.

A program (small_programs.py) is executed in a module of its own, has the function `f`, and may have `args()`, `call()`,
`change()`, `undo()` and `state()`. `f` is called three times, after `change()` three times, and after `undo()` three
times.

Modes: `early` describes each call at once, with one numbering of objects for the whole program; `late` describes all at
the end, so that nobody looks into an instance in between; `drop` forgets every result at once, so that addresses are
used again.
"""

from __future__ import annotations

import contextlib
import gc
import io
import itertools
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from small_programs import Program, load_programs

MODES = ("early", "late", "drop")
SCALARS = (int, float, complex, str, bytes, bool, type(None), type(...), type(NotImplemented), types.CodeType, range)


class Describer:
    """Turns objects into text in which every mutable object has a number, so that aliasing shows."""

    def __init__(self) -> None:
        self.numbers: dict[int, int] = {}
        self.kept: list[object] = []

    def __call__(self, thing: Any) -> str:
        kind = type(thing)
        if kind in SCALARS:
            return f"{kind.__name__} {thing!r}" if kind is not types.CodeType else f"code {thing.co_qualname}"
        if issubclass(kind, types.ModuleType):
            return f"module {thing.__name__}"
        if kind is tuple and all(type(item) in SCALARS for item in thing):
            return f"tuple {thing!r}"  # immutable all through: folded ones are shared
        if id(thing) in self.numbers:
            return f"#{self.numbers[id(thing)]}"
        self.numbers[id(thing)] = number = len(self.numbers)
        self.kept.append(thing)
        return f"#{number}={kind.__qualname__}{self.content(thing, kind)}"

    def content(self, thing: Any, kind: type) -> str:
        if issubclass(kind, type):
            return f" {thing.__qualname__}"
        if kind is types.FunctionType:
            cells = [self(cell.cell_contents) for cell in thing.__closure__ or () if cell_full(cell)]
            return f" {thing.__qualname__}{self(thing.__defaults__)}{self(thing.__kwdefaults__)}{cells}"
        if kind is types.MethodType:
            return f" {self(thing.__func__)} of {self(thing.__self__)}"
        if kind is types.BuiltinFunctionType:
            return f" {thing.__qualname__}"
        if issubclass(kind, BaseException):
            return self.error(thing)
        parts = []
        if issubclass(kind, (int, float, complex, str, bytes)):
            for base in (int, float, complex, str, bytes):
                if issubclass(kind, base):
                    parts.append(base.__repr__(thing))
        for base in (list, tuple):
            if issubclass(kind, base):
                parts += [self(item) for item in base.__iter__(thing)]
        if issubclass(kind, (set, frozenset)):
            parts += sorted(self(item) if type(item) in SCALARS else f"<{type(item).__qualname__}>" for item in thing)
        if issubclass(kind, dict):
            parts += [f"{self(key)}: {self(value)}" for key, value in kind.items(thing)]
        if kind.__module__ != "builtins" or kind.__flags__ & 512:  # a class of the program
            for owner in kind.__mro__:
                for name in slot_names(owner):
                    with contextlib.suppress(AttributeError):
                        parts.append(f".{name}={self(owner.__dict__[name].__get__(thing, kind))}")
            with contextlib.suppress(AttributeError, TypeError):
                own = object.__getattribute__(thing, "__dict__")
                if isinstance(own, dict):
                    parts += [f".{name}={self(value)}" for name, value in own.items()]
        return "{" + ", ".join(parts) + "}"

    def variables(self, frame: types.FrameType) -> dict[str, str]:
        return {name: self(value) for name, value in frame.f_locals.items() if not name.startswith("__")}

    def error(self, error: BaseException) -> str:
        places = []
        traceback = error.__traceback__
        while traceback is not None:
            frame = traceback.tb_frame
            if frame.f_code.co_filename != __file__:
                local = self.variables(frame) if frame.f_code.co_name != "<module>" else {}
                below = frame.f_back.f_code.co_qualname if frame.f_back else None
                places.append(
                    (
                        Path(frame.f_code.co_filename).name,
                        frame.f_code.co_qualname,
                        traceback.tb_lineno,
                        positions(traceback),
                        local,
                        below,
                    )
                )
            traceback = traceback.tb_next
        more = f"cause {self(error.__cause__)} context {self(error.__context__)} {error.__suppress_context__}"
        return f"({', '.join(map(self, error.args))}) {self(getattr(error, '__notes__', None))} {more} at {places}"


def positions(traceback: types.TracebackType) -> tuple[int | None, ...]:
    """Line and columns that a traceback underlines."""
    return next(itertools.islice(traceback.tb_frame.f_code.co_positions(), traceback.tb_lasti // 2, None))


def cell_full(cell: types.CellType) -> bool:
    try:
        cell.cell_contents
    except ValueError:
        return False
    return True


def slot_names(owner: type) -> list[str]:
    return (
        [name for name, value in owner.__dict__.items() if type(value) is types.MemberDescriptorType]
        if owner.__flags__ & 512
        else []
    )


@dataclass
class Log:
    """What was seen of a run."""

    entries: list[str] = field(default_factory=list)
    reports: list[dict[str, Any]] = field(default_factory=list)  # of the root, after each call
    report: dict[str, Any] = field(default_factory=dict)
    state: str = ""


def plain(function: Any) -> Any:
    return function


def run(
    program: Program, mode: str, jit: Callable[[Any], Any] = plain, root_of: Callable[[Any], int] | None = None
) -> Log:
    """Runs a program with `jit` applied to its `f`."""
    from pijit import _core

    module = types.ModuleType(f"program_{program.name}")
    module.__dict__.update(__file__=str(program.file), jit=jit)
    sys.modules[module.__name__] = module
    log = Log()
    describe = Describer()
    late: list[tuple[str, Any, Any, str]] = []
    output = io.StringIO()
    kept = []

    def note(label: str, outcome: Any, arguments: Any, text: str) -> None:
        state = module.state() if hasattr(module, "state") else None
        hidden = ("args", "call", "change", "undo", "state", "jit", "f")
        values = {k: v for k, v in module.__dict__.items() if not k.startswith("__") and k not in hidden}
        parts = (outcome, arguments, state, values, text)
        log.entries.append(f"{label}: " + "; ".join(map(describe, parts)))

    try:
        exec(compile("\n" * program.line + program.text, str(program.file), "exec"), module.__dict__)  # noqa: S102
        if "jit(" not in program.text:
            module.f = jit(module.f)
        jitted = module.f
        root = root_of(jitted) if root_of is not None else -1
        phase = 8 if "long" in program.flags else 3
        for step in range(3 * phase):
            if step == phase:
                if hasattr(module, "change"):
                    module.change()
            if step == 2 * phase:
                if not hasattr(module, "undo"):
                    break
                module.undo()
            output.seek(0)
            output.truncate()
            arguments = module.args() if hasattr(module, "args") else ()
            with contextlib.redirect_stdout(output):
                try:
                    outcome = ("returned", module.call() if hasattr(module, "call") else module.f(*arguments))
                except Exception as error:
                    outcome = ("raised", error)
            if mode == "late":
                late.append((f"call {step}", outcome, arguments, output.getvalue()))
            else:
                note(f"call {step}", outcome, arguments, output.getvalue())
            if mode == "drop":
                kept.append(describe.kept)
                describe = Describer()
                kept.clear()
                outcome = arguments = None
            if root >= 0:
                log.reports.append(dict(_core.root_report(root)))
        for entry in late:
            note(*entry)
        if root >= 0:
            log.report = dict(_core.root_report(root))
            log.state = _core.root_status(root)[0]
    finally:
        del sys.modules[module.__name__]
    return log


class Hooked:
    """While an object is jitted the hook is in place."""

    def __call__(self) -> None:
        """Is not called."""


@contextlib.contextmanager
def hook_in_place(wanted: bool = True) -> Iterator[None]:
    """Plain calls are made as they are under the hook: CPython specialises none, and keeps their arguments."""
    import pijit

    hooked = pijit.jit(Hooked()) if wanted else None
    yield
    if hooked is not None:
        pijit.unjit(hooked)


def compare(name: str, mode: str) -> tuple[Log, Log]:
    """One program plain and jitted."""
    import pijit
    from pijit import api

    program = load_programs()[name]
    with hook_in_place("hooked" in program.flags):
        expected = run(program, mode)
        gc.collect()
        return expected, run(program, mode, pijit.jit, api.root_of)


if __name__ == "__main__":
    EXPECTED, ACTUAL = compare(*sys.argv[1:3])
    for left, right in zip(EXPECTED.entries, ACTUAL.entries, strict=True):
        if left != right:
            sys.exit(f"plain:  {left}\njitted: {right}")
    REPORT = ACTUAL.report
    print(ACTUAL.state, [each["replays"] for each in ACTUAL.reports], REPORT.get("exits"), REPORT.get("last_stop"))
