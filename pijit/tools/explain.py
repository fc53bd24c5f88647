"""Runs a call once and says what was recorded, where it stopped and why, what is guarded, and what it cost."""

import dataclasses
import inspect
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

from pijit import _core
from pijit._roots import root_of
from pijit._usage_errors import describe
from pijit.api import Status, jit, status, traces
from pijit.errors import UsageError
from pijit.traces import Stop, Trace, Traces, entries_of, plural, stop_view

# The counters of a root that one call may move, in the order in which they are shown.
_COUNTERS = ("records", "aborts", "replays", "exits", "guard_failures")


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """What `explain` found; `print()` it, or take `.to_json()` or `.to_html()`.

    `result` is what the call returned, `seconds` what it took, `counts` what it moved (records, aborts, replays, exits,
    guard failures), `inside` the same of traces that begin in the middle of functions, such as those of loops, `stop`
    where its recording stopped, `miss` the guard that failed, `traces` what there is now.

    Example:
        >>> import pijit
        >>> report = pijit.explain(lambda x: x + 1, 41)
        >>> report.result
        42
    """

    name: str
    status: Status
    seconds: float
    counts: dict[str, int]
    inside: dict[str, int]
    stop: Stop | None
    advice: str
    miss: str | None
    traces: Traces
    result: object = dataclasses.field(repr=False)

    def __str__(self) -> str:
        reason = f" ({self.status.reason})" if self.status.reason else ""
        lines = [f"{self.name}: {self.status.state}{reason}"]
        lines.append(f"  this call: {1e3 * self.seconds:.2f} ms, {_moved(self.counts) or 'in CPython'}")
        if inside := _moved(self.inside):
            lines.append(f"  inside it, at loops and behind branches: {inside}")
        if self.stop is not None:
            lines += [f"  {self.stop}", *([f"    {self.advice}"] if self.advice else [])]
        if self.miss:
            lines.append(f"  not replayed because of {self.miss}")
        for name, trace in named(self.traces):
            end = "a return" if trace.ends == "return" else "an exit"
            observed = f"{plural(trace.operations, 'operations')} observed in {1e3 * trace.record_seconds:.2f} ms"
            used = f"{plural(trace.replays, 'replays')}, {plural(trace.exits, 'exits')}"
            lines.append(f"  {name}: {trace.sizes()}, ends in {end}")
            lines.append(f"    cost: {observed}, {trace.bytes:,} bytes; used: {used}")
            if trace.stop is not None and trace.stop != self.stop:
                lines.append(f"    {trace.stop}")
            if trace.guards:
                modes = f"; modes: {trace.modes}" if trace.modes else ""
                lines.append(f"    guards: {trace.guards.summary()}{modes}")
            lines += [f"    {each}" for each in trace.backwards]
            lines += [f"    segment: {line}" for segment in trace.segments for line in str(segment).splitlines()]
        return "\n".join(lines)

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        """A report is no function: the call was made already."""
        raise UsageError("pijit.explain() gives a report, not a function; write pijit.explain(fn, *args)")

    def to_json(self) -> str:
        """The report without `result`, as JSON text.

        Example:
            >>> import json, pijit
            >>> json.loads(pijit.explain(lambda: None).to_json())["name"]
            '<lambda>'
        """
        names = [field.name for field in dataclasses.fields(self) if field.name != "result"]
        return json.dumps({name: getattr(self, name) for name in names}, indent=2, default=_plain)

    def to_html(self) -> str:
        """The report and its traces as an HTML fragment, which notebooks show.

        Example:
            >>> import pijit
            >>> pijit.explain(lambda: None).to_html().startswith("<pre>&lt;lambda&gt;")
            True
        """
        import html  # a table of entities that few processes need

        bodies = [
            f"<details><summary>{html.escape(name)}</summary><pre>{html.escape(str(trace))}</pre></details>"
            for name, trace in named(self.traces)
        ]
        return "\n".join([f"<pre>{html.escape(str(self))}</pre>", *bodies])

    _repr_html_ = to_html


def explain(fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Report:
    """Call `fn(*args, **kwargs)` once, and only once, and report what pijit did with the call.

    What was not jitted before is jitted for this one call. What the call raises is raised.

    Args:
        fn: what `jit` returned, or anything that it takes.
        *args: handed to `fn`.
        **kwargs: handed to `fn`.

    Raises:
        UsageError, AdapterError: as `jit`. UsageError also where `fn` needs arguments and none are given.

    Example:
        >>> import pijit
        >>> def total(values):
        ...     return sum(values)
        >>> pijit.explain(total, [1, 2, 3]).result
        6
    """
    _check_arguments(fn, args, kwargs)
    known = root_of(fn) >= 0
    target = fn if known else jit(fn)
    root = root_of(target)
    try:
        before = _core.root_report(root) if root >= 0 else None
        inside_before = _inside(root)
        start = time.perf_counter()
        result = target(*args, **kwargs)
        seconds = time.perf_counter() - start
        after = _core.root_report(root) if root >= 0 else None
        counts: dict[str, int] = dict.fromkeys(_COUNTERS, 0)
        stop, miss = None, None
        if before is not None and after is not None:
            counts = {name: after[name] - before[name] for name in _COUNTERS}  # type: ignore[literal-required]
            told = counts["records"] or counts["aborts"] or after["aside"]
            stop = stop_view(after["last_stop"]) if told else None
            miss = after["last_miss"] if counts["guard_failures"] else None
        name = getattr(fn, "__qualname__", None) or type(fn).__qualname__
        inside = {name: count - inside_before[name] for name, count in _inside(root).items()}
        return Report(name, status(target), seconds, counts, inside, stop, _advice(stop), miss, traces(target), result)
    finally:
        if not known and root >= 0:
            _core.remove_root(root)


def named(traces: Traces) -> Iterator[tuple[str, Trace]]:
    """Traces with what people call them: "trace 0", "loop at train.py:42, trace 0"."""
    counts = Counter[tuple[int, str]]()
    for trace in traces:
        number = counts[trace.root, trace.entry]
        counts[trace.root, trace.entry] += 1
        yield f"{trace.entry}, trace {number}" if trace.entry else f"trace {number}", trace


def _moved(counts: Mapping[str, int]) -> str:
    return ", ".join(plural(count, name.replace("_", " ")) for name, count in counts.items() if count)


def _inside(root: int) -> dict[str, int]:
    """The counters of all entries of a root; of those that are gone nothing is known."""
    found = entries_of(root) if root >= 0 else []
    return {name: sum(entry[name] for entry in found) for name in _COUNTERS}  # type: ignore[literal-required]


def _check_arguments(fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """`UsageError` for `explain(fn(x))`, and for `explain(fn)(x)`: a call without arguments of what needs some."""
    if not callable(fn):
        what = f"the name {fn!r}" if isinstance(fn, str) else f"a result ({describe(fn)})"
        raise UsageError(
            f"pijit.explain() takes the function, not {what}, and makes the call: "
            "write pijit.explain(fn, *args), not pijit.explain(fn(*args))"
        )
    if args or kwargs:
        return
    needed, takes_any = _needed(fn)
    forward = getattr(fn, "forward", None)
    if takes_any and callable(forward):  # of a module: its __call__ takes anything, and hands it on
        needed, _ = _needed(forward)
    if needed:
        names = ", ".join(needed)
        raise UsageError(f"pijit.explain() makes the call, so give it the arguments: pijit.explain(fn, {names})")


def _needed(fn: Callable[..., Any]) -> tuple[list[str], bool]:
    """The arguments that a call must have, and whether it takes any number of them."""
    try:
        parameters = inspect.signature(fn, follow_wrapped=False).parameters.values()
    except (TypeError, ValueError):  # it has no signature that Python can read
        return [], False
    named = [each for each in parameters if each.kind not in {each.VAR_POSITIONAL, each.VAR_KEYWORD}]
    takes_any = any(each.kind is each.VAR_POSITIONAL for each in parameters)
    return [each.name for each in named if each.default is each.empty], takes_any


def _plain(part: object) -> object:
    """What JSON takes for a view."""
    return dataclasses.asdict(part) if dataclasses.is_dataclass(part) and not isinstance(part, type) else str(part)


def _advice(stop: Stop | None) -> str:
    """What the table of abort reasons says about this one."""
    rows = _core.tables()["aborts"] if stop is not None else []
    return next((text for code, _, _, text in rows if stop is not None and code == stop.code), "")
