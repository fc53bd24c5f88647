# ruff: noqa
"""contextlib, with exceptions that are thrown into its generators, and messages of operators that raise."""

# %% contextmanager_that_catches: f(1)
import contextlib


@contextlib.contextmanager
def caught(log):
    log.append("in")
    try:
        yield len(log)
    except LookupError as error:
        log.append(type(error).__name__)
    finally:
        log.append("out")


def f(x):
    log = []
    with caught(log) as depth:
        log.append(depth)
        [][x]
    return log


# %% contextmanager_that_lets_through: f(1)
import contextlib


@contextlib.contextmanager
def watched(log):
    try:
        yield
    finally:
        log.append("out")


def f(x):
    log = []
    try:
        with watched(log):
            raise ValueError(x)
    except ValueError as error:
        log.append(error)
    return log


# %% contextmanager_that_raises_another: f({}, "x")
import contextlib


@contextlib.contextmanager
def translated():
    try:
        yield
    except KeyError as error:
        raise ValueError(*error.args) from error


def f(table, x):
    try:
        with translated():
            return table[x]
    except ValueError as error:
        return error.args, error.__cause__


# %% contextmanager_around_foreign_exceptions: f(b"abc")
import contextlib
import struct


@contextlib.contextmanager
def guarded(log):
    try:
        yield
    except struct.error:
        log.append("bad")


def f(data):
    log = []
    with guarded(log):
        log.append(struct.unpack("<i", data))
    return log


# %% suppressed_foreign_exceptions: f(["1", "x", "2"])
import contextlib


def f(texts):
    numbers = []
    for text in texts:
        with contextlib.suppress(ValueError):
            numbers.append(int(text))
    return numbers


# %% closing_and_nullcontext: f(1)
import contextlib


class Thing:
    closed = 0

    def close(self):
        self.closed += 1


def f(x):
    thing = Thing()
    try:
        with contextlib.closing(thing) as same, contextlib.nullcontext(x) as value:
            if value:
                raise ValueError(value)
    except ValueError:
        value = -1
    return same is thing, thing.closed, value


# %% redirected_output: f(1)
import contextlib
import io


def f(x):
    with contextlib.redirect_stdout(io.StringIO()) as text:
        print("captured", x)
    print("free")
    return text.getvalue()


# %% context_decorator: f(1)
import contextlib

log = []


class Logged(contextlib.ContextDecorator):
    def __enter__(self):
        log.append("in")
        return self

    def __exit__(self, kind, value, trace):
        log.append(kind)
        return True


@Logged()
def g(x):
    return [x][x]


def f(x):
    log.clear()
    return g(x), len(log)


# %% errors_of_operators: f(1)
class Odd:
    __slots__ = ("x",)


def deep(n):
    return deep(n + 1)


def f(x):
    seen = []
    for attempt in range(10):
        try:
            if attempt == 0:
                seen.append({}[x])
            elif attempt == 1:
                seen.append([][x])
            elif attempt == 2:
                seen.append(Odd().x)
            elif attempt == 3:
                seen.append(x / 0)
            elif attempt == 4:
                next(iter(()))
            elif attempt == 5:
                del missing
            elif attempt == 6:
                seen.append(later)
                later = 1
            elif attempt == 7:
                assert x > 5, f"too small: {x}"
            elif attempt == 8:
                x.y = 1
            else:
                x()
        except Exception as error:
            seen.append((type(error), str(error)))
    return seen


# %% own_exceptions_with_chains: f(1)
class Failure(Exception):
    def __init__(self, code, *, hint=None):
        super().__init__(f"failure {code}")
        self.code, self.hint = code, hint

    def __str__(self):
        return f"{self.code}/{self.hint}"


def low(x):
    raise Failure(x, hint="low")


def middle(x):
    try:
        low(x)
    except Failure as error:
        error.add_note("in the middle")
        raise RuntimeError("middle") from error


def f(x):
    try:
        try:
            middle(x)
        finally:
            x += 1
    except RuntimeError as error:
        cause = error.__cause__
        return str(cause), cause.code, cause.__notes__, cause is error.__context__, error.__suppress_context__, x


# %% raised_by_a_callee_of_c: f([1, 3, 2])
def key(item):
    if item < 0:
        raise ValueError(item)
    return -item


def f(items):
    seen = []
    for chosen in (items, [-1]):
        try:
            seen.append(sorted(chosen, key=key))
        except ValueError as error:
            seen.append(error.args)
    return seen


# %% logging_finds_its_caller: leaves; f(3); change log.setLevel(logging.DEBUG)
import logging

seen = []


class Keeps(logging.Handler):
    def emit(self, record):
        seen.append((record.funcName, record.lineno, record.getMessage()))


log = logging.getLogger("pijit.tests.finds")
log.propagate = False
log.handlers = [Keeps()]
log.setLevel(logging.INFO)


def inner(x):
    log.info("inner %s", x)
    log.debug("not seen")
    return x + 1


def f(x):
    log.warning("outer", stacklevel=1)
    result = inner(x)
    log.warning("caller", stacklevel=2)
    return result, len(seen)


def state():
    return list(seen)
