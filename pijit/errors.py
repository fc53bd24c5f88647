"""The exceptions that pijit raises where it is called by name; a replayed program never sees one."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pijit.graph import Graph


class PijitError(Exception):
    """Base of all errors of pijit.

    Example:
        >>> import pijit
        >>> issubclass(pijit.errors.UsageError, pijit.errors.PijitError)
        True
    """


class UsageError(PijitError):
    """A public function was given what it cannot take; the message says what, where and what to try."""


class SignatureError(PijitError, TypeError):
    """A jitted function was called with what its `signature` does not take; the message has both, and what to try."""


class ConfigError(PijitError):
    """An option does not exist or cannot have this value; the message names the nearest option."""


class AdapterError(PijitError):
    """The adapter of a framework does not fit the framework that is imported; the message says what to run."""


class StrictError(PijitError):
    """`strict=True` was asked for, and CPython would run this call, or had to run some of it.

    A call that was not begun has changed nothing. One that was begun has come to its end as under plain Python.
    """


class BackendError(PijitError):
    """A backend is not there or cannot be used; the message names those that can."""


class DeviceError(PijitError):
    """A program that was moved to another device calls what only its own device has; the message names the line."""


class ExportError(PijitError):
    """A graph cannot be captured or exported as it was asked; the message names the operator, its line, what to try.

    `graph` is that of what the call does, where only what it returns fits no graph; else None.
    """

    graph: "Graph | None" = None


class CacheError(PijitError):
    """A stored trace cannot be read or does not fit.

    `line` and `column` say where in its text, from 1; 0: the text as a whole contradicts itself.
    """

    line: int = 0
    column: int = 0
