"""The options of pijit as one typed object over the core's, filled from `PIJIT_*` in the environment.

Values and defaults live in the core (csrc/common/config.def); here stand only their names, their form for people and
their variables. Precedence: call (`config.x = ...`, `enable(x=...)`), `with enabled(x=...)`, environment, default.
"""

import difflib
import logging
import os
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from pijit import _core
from pijit.errors import ConfigError

logger = logging.getLogger("pijit")

# The switch for everything, read once: with PIJIT=0 a program runs as under plain Python.
OFF = os.environ.get("PIJIT", "1") == "0"

# Bit i of the core's "log" option is channel i. Tag: LOG_CHANNELS.
LOG_CHANNELS = ("record", "guards", "exits")
# Bit i of the core's "stress" option is word i. Tag: STRESS_WORDS.
STRESS_WORDS = ("record-all", "observe")


class _Option(NamedTuple):
    """What this layer knows of an option."""

    variable: str
    lowest: int
    doc: str
    words: tuple[str, ...] = ()  # the value is a set of these; empty: it is a number


_OPTIONS = {
    "max_operations": _Option("PIJIT_MAX_OPERATIONS", 1, "bytecodes that one recording may observe before it stops"),
    "max_nodes": _Option("PIJIT_MAX_NODES", 1, "nodes that one trace may have"),
    "log": _Option("PIJIT_LOG", 0, f"channels to log, separated by commas: {', '.join(LOG_CHANNELS)}", LOG_CHANNELS),
    "stress": _Option(
        "PIJIT_STRESS",
        0,
        "what enable() does to every function, for testing pijit itself: "
        "record-all (record and replay it from its first call on) or observe (record it and keep nothing)",
        STRESS_WORDS,
    ),
}


class Config:
    """The options of pijit, as attributes; an unknown one is a `ConfigError` that names the nearest.

    `max_operations` and `max_nodes` limit one recording, `log` names channels, `stress` tests pijit itself.

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
    max_operations: int
    max_nodes: int
    log: str
    stress: str

    def __getattr__(self, name: str) -> int | str:
        if name.startswith("_"):  # what Python and notebooks probe for
            raise AttributeError(name)
        _known(name)
        value = _core.get_option(name)
        words = _OPTIONS[name].words
        return _words(value, words) if words else value

    def __setattr__(self, name: str, value: object) -> None:
        _core.set_option(name, parse(name, value))
        if name == "log" and value:
            _show_log()

    def __iter__(self) -> Iterator[str]:
        return iter(_OPTIONS)

    def __dir__(self) -> list[str]:
        return [*_OPTIONS, *object.__dir__(self)]

    def __repr__(self) -> str:
        return "\n".join(
            f"{name} = {getattr(self, name)!r}  # {row.doc} ({row.variable})" for name, row in _OPTIONS.items()
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


def parse(name: str, value: object, given_as: str = "") -> int:
    """The number that the core keeps for this value of this option; `ConfigError` if there is none."""
    _known(name)
    where = given_as or f"option {name!r}"
    if _OPTIONS[name].words:
        return _mask(value, name, where)
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConfigError(f"{where} is a whole number ({_OPTIONS[name].doc}), not {value!r}")
    if not _OPTIONS[name].lowest <= value < 2**63:
        raise ConfigError(
            f"{where} is at least {_OPTIONS[name].lowest} and fits in 64 bits ({_OPTIONS[name].doc}), not {value!r}"
        )
    return value


def read_environment(environment: Mapping[str, str]) -> None:
    """Set what `PIJIT_*` says; a wrong value is a `ConfigError`, a variable that looks misspelt a warning."""
    variables = {row.variable: name for name, row in _OPTIONS.items()}
    for variable in sorted(key for key in environment if key.startswith("PIJIT_")):
        if variable in variables:
            name = variables[variable]
            _core.set_option(name, parse(name, environment[variable], given_as=variable))
            if name == "log" and environment[variable]:
                _show_log()
        elif near := difflib.get_close_matches(variable, variables, 1, cutoff=0.85):
            logger.warning("pijit: %s in the environment is no option; the nearest is %s", variable, near[0])


def _known(name: str) -> None:
    if name in _OPTIONS:
        return
    near = difflib.get_close_matches(name, _OPTIONS, 1, cutoff=0.0)[0]
    raise ConfigError(f"pijit has no option {name!r}; the nearest is {near!r}")


def _words(mask: int, words: tuple[str, ...]) -> str:
    return ",".join(word for bit, word in enumerate(words) if mask >> bit & 1)


def _mask(value: object, name: str, where: str) -> int:
    words, one = _OPTIONS[name].words, "channel" if name == "log" else "word"
    if not isinstance(value, str):
        raise ConfigError(f"{where} is text: {one}s separated by commas, not {value!r}")
    mask = 0
    for word in filter(None, (part.strip() for part in value.split(","))):
        if word not in words:
            near = difflib.get_close_matches(word, words, 1, cutoff=0.0)[0]
            raise ConfigError(f"{where} has no {one} {word!r}; the nearest is {near!r}")
        mask |= 1 << words.index(word)
    return mask


def _show_log() -> None:
    """Let the lines of the chosen channels reach standard error where the program has not set up logging itself."""
    logger.setLevel(logging.DEBUG)
    if not logger.hasHandlers():
        logger.addHandler(logging.StreamHandler())


config = Config()
if not OFF:
    read_environment(os.environ)
