"""Runs a scenario plain and jitted and describes all that can be observed of each of its calls.

A scenario is a generator function that takes `jit` and yields calls; what stands between two of them is a change. A
call in `replayed(...)` must be replayed to the end when jitted. Unless told otherwise, the first trace must be of the
whole call: it ends in a return, nothing stopped it and no call in it is opaque.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import importlib.util
import io
import itertools
import os
import subprocess
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch

Jit = Callable[..., Any]
Call = Callable[[], Any]
Scenario = Callable[[Jit], Iterator[Call]]
TRIES = 4  # what goes wrong need not do so every time
MORE_MODES: list[Callable[[], object]] = []  # of devices that a test file has, asked after each call
SCALARS = (int, float, complex, str, bytes, bool, type(None), type(...), torch.dtype, torch.device, torch.Size, slice)


class Describer:
    """Turns objects into text in which every mutable object and every storage has a number, so that aliasing shows."""

    def __init__(self) -> None:
        self.numbers: dict[int, int] = {}
        self.storages: dict[int, int] = {}
        self.nodes: dict[Any, int] = {}
        self.kept: list[object] = []

    def __call__(self, thing: Any) -> str:
        kind = type(thing)
        if kind in SCALARS:
            return f"{kind.__name__} {thing!r}"
        if isinstance(thing, (type, types.ModuleType)):
            return f"{kind.__name__} {thing.__name__}"
        if thing == () and kind is tuple:
            return "()"
        again = id(thing) in self.numbers
        number = self.numbers.setdefault(id(thing), len(self.numbers))
        if again and not isinstance(thing, torch.Tensor):
            return f"#{number}"
        self.kept.append(thing)
        return f"#{number}={kind.__qualname__}{self.content(thing, kind)}"

    def content(self, thing: Any, kind: type) -> str:
        if isinstance(thing, torch.Tensor):
            return self.tensor(thing)
        if isinstance(thing, torch.nn.Module):
            return ""
        if isinstance(thing, BaseException):
            return self.error(thing)
        if isinstance(thing, (types.FunctionType, types.MethodType, types.BuiltinFunctionType)):
            return f" {thing.__qualname__}"
        parts = []
        if isinstance(thing, (list, tuple)):
            parts += map(self, thing)
        elif isinstance(thing, Mapping):
            parts += [f"{key!r}: {self(value)}" for key, value in thing.items()]
        elif isinstance(thing, (int, float, str)):
            parts.append(repr(thing))
        parts += [f".{name}={self(value)}" for name, value in getattr(thing, "__dict__", {}).items()]
        return "{" + ", ".join(parts) + "}"

    def tensor(self, thing: torch.Tensor) -> str:
        with torch._C.DisableTorchFunctionSubclass(), torch.no_grad():
            where = thing.untyped_storage()
            self.kept.append(where)
            storage = self.storages.setdefault(where._cdata, len(self.storages))
            data = thing.detach().resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8)
            text = [
                f"{thing.dtype} on {thing.device}",
                str(tuple(thing.shape)),
                f"stride {thing.stride()} offset {thing.storage_offset()}",
                f"storage {storage} of {where.nbytes()} bytes",
                f"requires_grad {thing.requires_grad} leaf {thing.is_leaf} inference {thing.is_inference()}",
                f"conj {thing.is_conj()} neg {thing.is_neg()}",
                hashlib.sha1(bytes(data.tolist())).hexdigest()[:12],
            ]
            if data.numel() <= 64 and not thing.is_quantized:
                text.append(str(thing.detach().tolist()))
            if not thing.is_inference():
                text.append(f"version {thing._version} view of {thing._base is not None and self(thing._base)}")
            text.append(f"grad_fn {self.graph(thing.grad_fn)}")
            if thing.is_leaf and thing.grad is not None:
                text.append(f"grad {self(thing.grad)}")
        own = next(
            (part for part in gc.get_referents(thing) if type(part) is dict), {}
        )  # asking for __dict__ makes one
        return "<" + ", ".join([*text, *(f".{name}={self(value)}" for name, value in own.items())]) + ">"

    def graph(self, root: Any) -> str:
        """The nodes of a graph not seen before, breadth first."""
        if root is None:
            return "None"
        text, queue = [], [root]
        for node in queue:
            if node in self.nodes:
                continue
            self.nodes[node] = number = len(self.nodes)
            variable = getattr(node, "variable", None)
            leaf = "" if variable is None else f" {tuple(variable.shape)} #{self.numbers.get(id(variable))}"
            queue += [after for after, _ in node.next_functions if after is not None]
            text.append(f"@{number}={node.name()}{leaf}{[index for _, index in node.next_functions]}")
        edges = [[self.nodes.get(after) for after, _ in node.next_functions] for node in queue]
        return f"@{self.nodes[root]} {text} {edges}"

    def error(self, error: BaseException) -> str:
        places = []
        traceback = error.__traceback__
        while traceback is not None:
            frame = traceback.tb_frame
            if frame.f_code.co_filename != __file__:
                found = {name: self(value) for name, value in frame.f_locals.items() if name != "jit"}
                below = frame.f_back.f_code.co_qualname if frame.f_back else None
                file = Path(frame.f_code.co_filename).name
                places.append((file, frame.f_code.co_qualname, traceback.tb_lineno, positions(traceback), below, found))
            traceback = traceback.tb_next
        more = f"cause {self(error.__cause__)} context {self(error.__context__)} {error.__suppress_context__}"
        return f"({', '.join(map(self, error.args))}) {getattr(error, '__notes__', None)} {more} at {places}"


def positions(traceback: types.TracebackType) -> tuple[int | None, ...]:
    """Line and columns that a traceback underlines."""
    return next(itertools.islice(traceback.tb_frame.f_code.co_positions(), traceback.tb_lasti // 2, None))


def modes() -> str:
    """The state of the thread and of the random number generator."""
    generator = hashlib.sha1(bytes(torch.get_rng_state().tolist())).hexdigest()[:12]
    nesting = torch.autocast_increment_nesting()
    torch.autocast_decrement_nesting()
    return ", ".join(
        map(
            str,
            (
                torch.is_grad_enabled(),
                torch.is_inference_mode_enabled(),
                torch.is_autocast_enabled("cpu"),
                torch.get_autocast_dtype("cpu"),
                nesting,
                torch.get_default_dtype(),
                torch._C._len_torch_function_stack(),
                torch._C._len_torch_dispatch_stack(),
                generator,
                *(more() for more in MORE_MODES),
            ),
        )
    )


@dataclass
class Replayed:
    """A call that must be replayed to the end."""

    call: Call


replayed = Replayed


@dataclass
class Log:
    """What was seen of a run."""

    entries: list[str] = field(default_factory=list)
    not_replayed: list[tuple[int, Any]] = field(default_factory=list)
    traces: Any = ()
    report: dict[str, Any] = field(default_factory=dict)


def run(scenario: Scenario, jitted: bool) -> Log:
    """One run; all that is returned is held to its end."""
    import pijit
    from pijit import _core, api

    log, describe, roots, kept = Log(), Describer(), [], []

    def jit(thing: Any, **options: Any) -> Any:
        if not jitted:
            return thing
        made = pijit.jit(thing, **options)
        roots.append(api.root_of(made))
        kept.append(made)
        return made

    def counts() -> tuple[int, int]:
        reports = [_core.root_report(root) for root in roots]
        return sum(report["replays"] for report in reports), sum(report["exits"] for report in reports)

    held = []
    torch.manual_seed(0)
    torch.utils.hooks.RemovableHandle.next_id = 0
    for index, step in enumerate(scenario(jit)):
        call = step.call if isinstance(step, Replayed) else step
        before = counts()
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            try:
                outcome = ("returned", call())
            except Exception as error:
                outcome = ("raised", error)
        after = counts()
        if jitted and isinstance(step, Replayed) and (after[0] - before[0] < 1 or after[1] != before[1]):
            report = _core.root_report(roots[-1])
            log.not_replayed.append((index, {name: report[name] for name in report}))
        log.entries.append(f"call {index}: {describe(outcome)}; {modes()}; output {output.getvalue()!r}")
        held.append(outcome)
        if jitted and roots and not log.traces:
            log.traces = api.Traces(map(api.view, _core.root_traces(roots[0])))
    if jitted and roots:
        log.report = dict(_core.root_report(roots[0]))
    return log


def difference(left: str, right: str) -> str:
    """Where two descriptions part."""
    start = max(len(os.path.commonprefix([left, right])) - 60, 0)
    call = left.partition(":")[0]
    return f"{call}\n  plain  ...{left[start : start + 300]}\n  jitted ...{right[start : start + 300]}"


def check(scenario: Scenario, whole: bool = True) -> Log:
    """Plain and jitted, everything equal; the log of the second."""
    expected = run(scenario, jitted=False)
    gc.collect()
    actual = run(scenario, jitted=True)
    assert len(actual.entries) == len(expected.entries)
    for left, right in zip(expected.entries, actual.entries, strict=True):
        assert right == left, difference(left, right)
    assert actual.not_replayed == [], str(actual.not_replayed)
    if whole:
        assert actual.traces, actual.report
        first = actual.traces[0]
        assert (first.ends, first.stop, first.opaque_calls) == ("return", None, 0), first.stop
    return actual


@dataclass
class Entry:
    scenario: Scenario
    whole: bool
    bug: str


class Table(dict[str, Entry]):
    """The scenarios of a test file."""

    def add(self, *, whole: bool = True, bug: str = "") -> Callable[[Scenario], Scenario]:
        """`whole`: the first call must be recorded to the end; `bug`: what goes wrong today."""

        def enter(scenario: Scenario) -> Scenario:
            assert scenario.__name__ not in self
            self[scenario.__name__] = Entry(scenario, whole, bug)
            return scenario

        return enter

    def cases(self) -> list[Any]:
        """Parameters of the test: those that go wrong are expected to."""
        return [
            pytest.param(name, marks=[pytest.mark.xfail(reason=entry.bug)] if entry.bug else [])
            for name, entry in self.items()
        ]

    def check(self, name: str, file: str) -> None:
        """One scenario; in a process of its own if it goes wrong, since it may take the process with it."""
        entry = self[name]
        if entry.bug:
            for _ in range(TRIES):
                apart(file, name)
        else:
            check(entry.scenario, entry.whole)


def apart(file: str, name: str) -> None:
    """A scenario in a process of its own."""
    import pijit

    paths = [
        str(Path(pijit.__file__).parents[1]),
        *(path for path in sys.path if "tests" in path or "examples" in path),
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, __file__, file, name]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def load(file: str) -> Any:
    spec = importlib.util.spec_from_file_location(Path(file).stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    sys.modules["side_by_side"] = sys.modules["__main__"]
    ENTRY = load(sys.argv[1]).TABLE[sys.argv[2]]
    check(ENTRY.scenario, ENTRY.whole)
