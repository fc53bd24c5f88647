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


class _Option(NamedTuple):
    """What this layer knows of an option."""

    variable: str
    lowest: int
    doc: str


_OPTIONS = {
    "max_operations": _Option("PIJIT_MAX_OPERATIONS", 1, "bytecodes that one recording may observe before it stops"),
    "max_nodes": _Option("PIJIT_MAX_NODES", 1, "nodes that one trace may have"),
    "log": _Option("PIJIT_LOG", 0, f"channels to log, separated by commas: {', '.join(LOG_CHANNELS)}"),
}


class Config:
    """The options of pijit, as attributes; an unknown one is a `ConfigError` that names the nearest.

    `max_operations` and `max_nodes` limit one recording, `log` names channels.

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

    def __getattr__(self, name: str) -> int | str:
        if name.startswith("_"):  # what Python and notebooks probe for
            raise AttributeError(name)
        _known(name)
        value = _core.get_option(name)
        return _channels(value) if name == "log" else value

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
    if name == "log":
        return _mask(value, where)
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


def _channels(mask: int) -> str:
    return ",".join(channel for bit, channel in enumerate(LOG_CHANNELS) if mask >> bit & 1)


def _mask(value: object, where: str) -> int:
    if not isinstance(value, str):
        raise ConfigError(f"{where} is text: channels separated by commas, not {value!r}")
    mask = 0
    for channel in filter(None, (part.strip() for part in value.split(","))):
        if channel not in LOG_CHANNELS:
            near = difflib.get_close_matches(channel, LOG_CHANNELS, 1, cutoff=0.0)[0]
            raise ConfigError(f"{where} has no channel {channel!r}; the nearest is {near!r}")
        mask |= 1 << LOG_CHANNELS.index(channel)
    return mask


def _show_log() -> None:
    """Let the lines of the chosen channels reach standard error where the program has not set up logging itself."""
    logger.setLevel(logging.DEBUG)
    if not logger.hasHandlers():
        logger.addHandler(logging.StreamHandler())


config = Config()
if not OFF:
    read_environment(os.environ)
