"""The options of pijit as one typed object over the core's, filled from pyproject.toml and the environment.

Names, kinds, limits and values live in the core (csrc/bind/options.def); here stands only their form for people, and
`backend`, of which the core knows nothing but who is asked for plans (`pijit.compilers.market`).
Precedence: call (`config.x = ...`, `enable(x=...)`), `with enabled(x=...)`, `PIJIT_*` in the environment,
`[tool.pijit]` in the pyproject.toml that is nearest to the working directory, default.
"""

import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict

from pijit import _backend_names, _built, _core, _path
from pijit._lazy_market import LazyMarket
from pijit._usage_errors import closest, hint, nearest
from pijit.errors import ConfigError

logger = logging.getLogger("pijit")

_FLAGS = {"1": 1, "true": 1, "yes": 1, "on": 1, "0": 0, "false": 0, "no": 0, "off": 0, "": 0}
_SWITCH = os.environ.get("PIJIT", "").strip()

# The switch for everything, read once: with PIJIT=0 a program runs as under plain Python. So it does under a CPython
# whose objects are laid out in another way than the core was built for.
OFF = _SWITCH != "" and _FLAGS.get(_SWITCH.lower()) == 0
WHY_OFF = f"PIJIT={_SWITCH} in the environment" if OFF else ""
if not OFF and (_odd := _core.layout_trouble()):
    OFF = True
    WHY_OFF = f"this CPython ({sys.version.split()[0]}) lays out objects of the type {_odd} in a way of its own"
    logger.warning("pijit: %s; everything runs in plain Python (under it, run: %s)", WHY_OFF, _built.reinstall())
if _SWITCH != "" and _SWITCH.lower() not in _FLAGS:
    logger.warning("pijit: PIJIT=%s in the environment is neither off (0, off, false, no) nor on; it is on", _SWITCH)

# Bit i of the core's "log" option is channel i. Tag: LOG_CHANNELS.
LOG_CHANNELS = ("record", "guards", "exits", "recompiles")
# Bit i of the core's "stress" option is word i. Tag: STRESS_WORDS.
STRESS_WORDS = ("record-all", "observe", "exits", "faults")

# Value i of the core's "loops" option is word i. Tag: LOOPS.
LOOPS = ("unroll", "auto", "body")

# Of the options that are one of several words: the words.
_CHOICES = {"loops": LOOPS}
# Of the options that are sets of words: what one is called, and the words.
_SETS = {"log": ("channel", LOG_CHANNELS), "stress": ("word", STRESS_WORDS)}


class Option(NamedTuple):
    """One row of options.def, and the option's variable in the environment."""

    kind: str
    lowest: int
    doc: str
    variable: str


OPTIONS = {
    name: Option(kind, int(lowest), doc, f"PIJIT_{name.upper()}")
    for name, kind, lowest, doc in _core.tables()["options"]
}
OPTIONS["backend"] = Option(
    "backend",
    0,
    "who compiles segments: a name of pijit.backends(), several, or 'auto'; 'native': nobody",
    "PIJIT_BACKEND",
)
# What `[tool.pijit.devices]` says of callables that carry a device (pijit/devices/table.py).
DEVICES: dict[str, object] = {}
# What was wrong in the environment and in pyproject.toml, whose defaults were kept; `python -m pijit` does not begin.
TROUBLE: list[str] = []

# The options that somebody has set.
_given: set[str] = set()
# What is called when `cache` is set.
_when_kept: list[Callable[[], None]] = []

_NATIVE = "native"
_backend: str | tuple[str, ...] = _NATIVE


class Config:
    """The options of pijit, as attributes; an unknown one is a `ConfigError` that names the nearest.

    `print(pijit.config)` lists them with their values. They are set here, by `enable()` and `enabled()`, by `PIJIT_*`
    in the environment, and under `[tool.pijit]` in the pyproject.toml found from the working directory upwards; what
    comes first in this list counts.

    Attributes:
        max_operations: bytecodes that one recording may observe before it stops.
        record_budget: times the plain call that a recording may take, up to a second; over it, what the function calls
            is recorded instead; 0: any.
        record_share: percent of the process's time that recordings of functions that nobody gave to `jit` may take, a
            quarter of that after three seconds; half of what replays gain is added; what is over it waits; 0: any.
        hook_share: percent of the process's time that `enable()` may take from calls of Python functions beyond what
            replays gain, a quarter of that after three seconds; over it, pijit stays out of the way for a while;
            0: any.
        long_call: milliseconds that a call runs under `enable()`, before what it calls is recorded instead of it.
        enter_loops: under `enable()` the loop of a function that runs long is entered in its middle: its turns are
            recorded, and replayed where that pays. It has to be asked for.
        enter_steps: the same of loops whose turns are training steps, for which it need not be asked.
        max_nodes: nodes that one trace may have.
        max_traces: traces that one function may have; up to four times as many while its calls come back.
        max_recordings: recordings that one function may have before replays make up for them; after that it is recorded
            ever more rarely; 0: any number.
        loops: what becomes of a loop: "auto", a short one is recorded whole, and a long one gets traces of its own,
            each of which takes a turn or a few; "body", each gets such traces; "unroll", all of it is recorded. With
            the first two a call goes on natively where a trace was left, too: at a branch on data, say.
        number_loops: calls whose loops compute with numbers of Python, and that no trace takes or that make many turns,
            run as a program over native registers (docs/scalar_loops.md).
        memory_limit: bytes that all traces may have together, 1 GiB by default; over it, those that were replayed least
            for their size make room, and come back by being recorded; 0: any number.
        constant_propagation: what is read of configuration is a constant behind one guard; without it each branch on
            such a number is guarded where it stands.
        verify: every so many replays of a function one that changes nothing is compared with CPython; 0: none.
        give_up: replays that take longer than CPython are given up: a few calls of each function are run by CPython
            and timed, to compare; without it no call is.
        tapes: a forward pass and the backward pass through it are replayed as operators beneath autograd, where nobody
            looks at the graph in between. Without it torch builds the graph and walks over it.
        compile_workers: compilations of backends at a time.
        compile_seconds: seconds that a backend may compile one segment.
        compile_memory: megabytes that a process that compiles may hold; 0: any.
        cache: traces are kept for the next process, which records nothing that it finds there. `python -m pijit` does
            so by itself; the library has to be asked.
        cache_limit: bytes that all files of the cache may have, 1 GiB by default; over it, those that were used least
            recently go; 0: any number.
        log: channels to log, separated by commas: "recompiles" (a line for each time that a function is recorded again,
            with the guard that failed), and for developers of pijit "record", "guards", "exits".
        stress: what `enable()` does to every function, for testing pijit itself: "record-all", "observe", "exits",
            "faults".
        quiet: say nothing about functions that hardly gain.
        debug: say what only developers of pijit need.
        backend: who compiles segments of what is jitted or found from now on: a name of `pijit.backends()`, several
            names, or "auto"; "native": nobody, native replay alone answers.

    Example:
        >>> import pijit
        >>> before = pijit.config.max_nodes
        >>> pijit.config.max_nodes = 500
        >>> pijit.config.max_nodes
        500
        >>> pijit.config.max_nodes = before
        >>> pijit.config.max_node = 500
        Traceback (most recent call last):
            ...
        pijit.errors.ConfigError: pijit has no option 'max_node'; the nearest is 'max_nodes'
    """

    __slots__ = ()
    # Tag: OPTION_TYPES, which `Options` repeats.
    max_operations: int
    record_budget: int
    record_share: int
    hook_share: int
    long_call: int
    enter_loops: bool
    enter_steps: bool
    max_nodes: int
    max_traces: int
    max_recordings: int
    loops: Literal["auto", "body", "unroll"]
    number_loops: bool
    memory_limit: int
    constant_propagation: bool
    verify: int
    give_up: bool
    tapes: bool
    compile_workers: int
    compile_seconds: int
    compile_memory: int
    cache: bool
    cache_limit: int
    log: str
    stress: str
    quiet: bool
    debug: bool
    backend: str | tuple[str, ...]

    if not TYPE_CHECKING:  # type checkers would take any name for an option

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):  # what Python and notebooks probe for
                raise AttributeError(name)
            return _get(name)

        def __setattr__(self, name: str, value: object) -> None:
            _set(name, value)

    def __iter__(self) -> Iterator[str]:
        return iter(OPTIONS)

    def __dir__(self) -> list[str]:
        return [*OPTIONS, *object.__dir__(self)]

    def __repr__(self) -> str:
        return "\n".join(
            f"{name} = {getattr(self, name)!r}  # {row.doc} ({row.variable})" for name, row in OPTIONS.items()
        )

    def update(self, options: Mapping[str, object]) -> dict[str, object]:
        """Set all of `options`, or none if one of them is wrong (`ConfigError`), and return the values they had.

        Example:
            >>> import pijit
            >>> pijit.config.update(pijit.config.update({"max_nodes": 500}))
            {'max_nodes': 500}
        """
        for name, value in options.items():
            parse(name, value)
        before = {name: getattr(self, name) for name in options}
        for name, value in options.items():
            setattr(self, name, value)
        return before


class Options(TypedDict, total=False):
    """The options of `Config` as keyword arguments, for type checkers. Tag: OPTION_TYPES."""

    max_operations: int
    record_budget: int
    record_share: int
    hook_share: int
    long_call: int
    enter_loops: bool
    enter_steps: bool
    max_nodes: int
    max_traces: int
    max_recordings: int
    loops: Literal["auto", "body", "unroll"]
    number_loops: bool
    memory_limit: int
    constant_propagation: bool
    verify: int
    give_up: bool
    tapes: bool
    compile_workers: int
    compile_seconds: int
    compile_memory: int
    cache: bool
    cache_limit: int
    log: str
    stress: str
    quiet: bool
    debug: bool
    backend: str | Sequence[str]


def is_given(name: str) -> bool:
    """Somebody has set the option."""
    return name in _given


def when_kept(call: Callable[[], None]) -> None:
    """What is called when `cache` is set."""
    _when_kept.append(call)


def parse(name: str, value: object, given_as: str = "") -> Any:
    """What is kept for this value of this option, by the core a number; `ConfigError` if there is nothing."""
    row = _known(name)
    where = given_as or f"option {name!r}"
    if row.kind == "backend":
        return _names(value, where)
    if row.kind == "words":
        return _mask(name, value, where)
    if row.kind == "choice":
        return _choice(name, value, where)
    if row.kind == "flag":
        return _flag(value, f"{where} is True or False ({row.doc})")
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConfigError(f"{where} is a whole number ({row.doc}), not {value!r}")
    if not row.lowest <= value < 2**63:
        raise ConfigError(f"{where} is at least {row.lowest} and fits in 64 bits ({row.doc}), not {value!r}")
    return value


def read_environment(environment: Mapping[str, str]) -> None:
    """Set what `PIJIT_*` says; a wrong value is a `ConfigError`, a variable that looks misspelt a warning."""
    variables = {row.variable: name for name, row in OPTIONS.items()}
    for variable in sorted(key for key in environment if key.startswith("PIJIT_")):
        if variable in variables:
            _set(variables[variable], environment[variable], given_as=variable)
        elif near := closest(variable, variables, cutoff=0.85):
            logger.warning("pijit: %s in the environment is no option; the nearest is %s", variable, near)


def read_project(directory: Path) -> None:
    """Set what `[tool.pijit]` says in the nearest pyproject.toml; what is wrong there is a `ConfigError`."""
    file = next((place for up in (directory, *directory.parents) if (place := up / "pyproject.toml").is_file()), None)
    try:
        content = b"" if file is None else file.read_bytes()
    except OSError:
        return
    if b"pijit" not in content:  # the usual case needs no parser
        return
    import tomllib

    try:
        options = tomllib.loads(content.decode()).get("tool", {}).get("pijit", {})
    except (ValueError, AttributeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}") from None
    if not isinstance(options, dict):
        raise ConfigError(f"{file}: tool.pijit is a table, not {options!r}")
    for name, value in options.items():
        if name == "devices" and isinstance(value, dict):
            DEVICES.update(value)
            continue
        if name not in OPTIONS:
            raise ConfigError(f"{file}: [tool.pijit] has no option {name!r}; the nearest is {_nearest(name)!r}")
        _set(name, value, given_as=f"{file}: [tool.pijit] {name}")


def _get(name: str) -> Any:
    kind = _known(name).kind
    if kind == "backend":
        return _backend
    value = _core.get_option(name)
    if kind == "choice":
        return _CHOICES[name][value]
    return _words(name, value) if kind == "words" else bool(value) if kind == "flag" else value


def _set(name: str, value: object, given_as: str = "") -> None:
    kind = _known(name).kind
    _given.add(name)
    if kind == "backend":
        _set_backend(parse(name, value, given_as))
        return
    _core.set_option(name, parse(name, value, given_as))
    if name == "log" and value:
        _show_log()
    if name == "cache":
        for call in _when_kept:
            call()


def _known(name: str) -> Option:
    if name not in OPTIONS:
        raise ConfigError(f"pijit has no option {name!r}; the nearest is {_nearest(name)!r}")
    return OPTIONS[name]


def _nearest(name: str) -> str:
    return closest(name, OPTIONS, cutoff=0.0)


def _flag(value: object, rule: str) -> int:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, str) and value.strip().lower() in _FLAGS:
        return _FLAGS[value.strip().lower()]
    raise ConfigError(f"{rule}, not {value!r}")


def _words(name: str, mask: int) -> str:
    return ",".join(word for bit, word in enumerate(_SETS[name][1]) if mask >> bit & 1)


def _mask(name: str, value: object, where: str) -> int:
    one, words = _SETS[name]
    if not isinstance(value, str):
        raise ConfigError(f"{where} is text: {one}s separated by commas, not {value!r}")
    mask = 0
    for word in filter(None, (part.strip() for part in value.split(","))):
        if word not in words:
            near = closest(word, words, cutoff=0.0)
            raise ConfigError(f"{where} has no {one} {word!r}; the nearest is {near!r}")
        mask |= 1 << words.index(word)
    return mask


def _choice(name: str, value: object, where: str) -> int:
    words = _CHOICES[name]
    if isinstance(value, str) and value.strip() in words:
        return words.index(value.strip())
    raise ConfigError(f"{where} is one of {', '.join(map(repr, words))}, not {value!r}{hint(value, words)}")


def _names(value: object, where: str) -> str | tuple[str, ...]:
    names = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not names or not all(isinstance(name, str) and name for name in names):
        raise ConfigError(f"{where} is a name of pijit.backends(), 'auto', or several names, not {value!r}")
    for name in names:
        if name != _NATIVE and not (name == "auto" and len(names) == 1):
            _check_backend(name, where)
    return names[0] if len(names) == 1 else tuple(names)


def _check_backend(name: str, where: str) -> None:
    if name == "auto":
        raise ConfigError(f"{where}: 'auto' asks all compilers that are installed; it stands alone")
    if name not in _backend_names.OWN and name not in (known := _backend_names.names()):
        words = ("auto", *known)
        raise ConfigError(f"{where}: no backend is called {name!r}{nearest(name, words)}")


def _set_backend(names: str | tuple[str, ...]) -> None:
    """Whether it is installed is said when something is to be compiled: no compiler is looked for before."""
    global _backend  # noqa: PLW0603
    _backend = names
    if names == _NATIVE:
        _core.set_default_market(None)
        return
    _core.set_default_market(LazyMarket(names))


def _show_log() -> None:
    """Let the lines of the chosen channels reach standard error where the program has not set up logging itself."""
    logger.setLevel(logging.DEBUG)
    if not logger.hasHandlers():
        logger.addHandler(logging.StreamHandler())


def _read_all() -> None:
    try:
        here = Path.cwd()
    except OSError:  # the working directory is gone
        here = None
    readers = [partial(read_project, here)] if here is not None else []
    readers += [partial(read_environment, {name: value}) for name, value in os.environ.items()]
    for read in readers:
        try:
            read()
        except ConfigError as error:
            TROUBLE.append(str(error))
            if not _path.is_command():  # which says by itself what is wrong
                logger.warning("pijit: %s; the default is kept", error)


config = Config()
if not OFF:
    _read_all()
