# ruff: noqa
"""Exceptions as objects, and handlers that call out: type, arguments, notes, chain and traceback are the program's own."""


# %% exception_never_raised: f(3); change Refused.__init__ = lambda self, code, text: None
class Refused(ValueError):
    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


kept = []


def f(x):
    plain, own = KeyError(x, [x]), Refused(x, "no")
    own.add_note("first")
    own.add_note("second")
    own.more = [x]
    kept.append(own)
    return plain, own, str(own), own.args, own.code, isinstance(own, ValueError), plain.__traceback__, own.__cause__


# %% exception_of_a_plain_class: f(4)
class Odd(Exception):
    pass


class Even(Odd):
    label = "even"


def f(n):
    made = [Even(i) if i % 2 == 0 else Odd(i, str(i)) for i in range(n)]
    return made, [error.args for error in made], StopIteration(n), SystemExit(n), made[0].label


# %% handler_prints: f(1)
def f(x):
    try:
        {}[x]
    except KeyError as error:
        print("missing", error, repr(error))
    return x + 1


# %% handler_formats_the_traceback: f(2)
import traceback


def inner(x):
    local = [x]
    return local[x]


def f(x):
    try:
        inner(x)
    except IndexError:
        text = traceback.format_exc()
    return text, x


# %% handler_asks_for_the_exception: f(1)
import sys
import traceback


def f(x):
    before = sys.exc_info()
    try:
        raise ValueError(x)
    except ValueError as error:
        kind, value, trace = sys.exc_info()
        same = kind is ValueError, value is error, [tuple(entry)[:3] for entry in traceback.extract_tb(trace)]
    return before, same, sys.exc_info()


# %% exception_outlives_the_call: leaves; f(1)
kept = {}


def inner(x):
    local = [x, x]
    if x:
        raise LookupError(local)


def middle(x):
    own = x
    try:
        inner(x)
    finally:
        own += 1


def f(x):
    seen = 0
    try:
        middle(x)
    except LookupError as error:
        kept["error"] = error
        print(error)
    seen = x + 5
    kept["error"].args[0].append(seen)
    return seen


# %% handlers_in_handlers: f(1)
import traceback


def inner(x):
    try:
        raise KeyError(x)
    except KeyError:
        raise ValueError("second")


def f(x):
    try:
        inner(x)
    except ValueError as outer:
        try:
            raise TypeError("third")
        except TypeError as error:
            print(error.__context__ is outer)
            lines = traceback.format_exception(error)
        again = traceback.format_exc()
    return lines, again


# %% finally_calls_out: f(1)
def f(x):
    try:
        try:
            {}[x]
        finally:
            print("cleaning", x)
    except KeyError as error:
        return error.args


# %% inlined_handler_calls_out: f(1)
import traceback


def g(x):
    try:
        return {0: "zero"}[x]
    except KeyError as error:
        print("no", error)
        text = traceback.format_exc()
        return text


def f(x):
    return [g(x), g(0), g(x + 1)]


# %% loop_with_handler: f(4)
def f(n):
    total = 0
    for i in range(n):
        try:
            total += [1, 2][i]
        except IndexError as error:
            print(i, error)
            total += 10
    return total


# %% raised_from: f(1)
def f(x):
    seen = []
    for how in range(3):
        try:
            try:
                {}[x]
            except KeyError as error:
                if how == 0:
                    raise ValueError(how) from error
                if how == 1:
                    raise ValueError(how) from None
                raise ValueError(how)
        except ValueError as error:
            seen.append(error)
    return seen


# %% raised_again_with_another_entry: f(1)
def g(x):
    try:
        raise ValueError(x)
    except ValueError as error:
        raise error


def f(x):
    try:
        g(x)
    except ValueError as error:
        kept = error
    try:
        raise kept
    except ValueError as error:
        return error


# %% handler_left_by_return: f(1)
def g(x):
    try:
        raise ValueError(x)
    except ValueError:
        print("handled")
        return x
    finally:
        print("finally")


def f(x):
    return g(x) + g(x + 1)


# %% called_in_a_handler
import sys


def call():
    try:
        raise LookupError("outside")
    except LookupError:
        return f(1), str(sys.exc_info()[1])


def f(x):
    first = sys.exc_info()[0]
    try:
        raise ValueError(x)
    except ValueError as error:
        print(error)
        return error, first


# %% handler_exits: f(values); limit = 2 -> 0
def f(items):
    total = 0
    try:
        raise KeyError("k")
    except KeyError as error:
        print(error)
        for item in items:
            if item > limit:
                total += 1
        raise


values = [1, 2, 3]


# %% message_of_a_builtin: f(1, "text")
def f(x, text):
    seen = []
    for attempt in range(7):
        try:
            if attempt == 0:
                [].pop()
            elif attempt == 1:
                a, b = (x,)
            elif attempt == 2:
                text.nothing
            elif attempt == 3:
                missing
            elif attempt == 4:
                int(text)
            elif attempt == 5:
                [x] + (x,)
            else:
                x // 0
        except Exception as error:
            seen.append(error)
    return seen


# %% exception_in_an_attribute: f(1)
class Job:
    error = None

    def run(self, x):
        try:
            self.work(x)
        except Exception as error:
            self.error = error
        return self

    def work(self, x):
        raise RuntimeError(f"job {x}")


def f(x):
    job = Job().run(x)
    return job, str(job.error), job.error.args


# %% opaque_call_raises: f("{"); change args = lambda: ("[1]",)
import json


def f(text):
    try:
        value = json.loads(text)
    except ValueError as error:
        value = str(error)
    return value, len(text)


# %% steady_opaque_failure
import operator


class Thing:
    pass


things = [Thing(), Thing()]


def f():
    seen = []
    for thing in things:
        try:
            seen.append(operator.attrgetter("a.b")(thing))
        except AttributeError as error:
            seen.append(error.name)
    return seen


# %% context_is_kept_in_finally: f(1)
def g(x):
    try:
        raise KeyError(x)
    finally:
        try:
            raise ValueError("inside")
        except ValueError as error:
            print(error)


def f(x):
    try:
        g(x)
    except KeyError as error:
        return error.args, error.__context__


# %% with_block_raises: f(1); change Guard.swallow = False
import traceback


class Guard:
    swallow = True

    def __init__(self):
        self.seen = None

    def __enter__(self):
        return self

    def __exit__(self, *details):
        self.seen = details[0].__name__, details[1].args, details[2].tb_lineno
        return self.swallow


def f(x):
    with Guard() as outer:
        with Guard() as guard:
            [x][x]
        raise KeyError(x)
    return outer.seen, guard.seen


# %% with_block_raises_and_keeps_the_traceback: f(1)
class Guard:
    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.kind, self.value, self.trace = kind, value, trace
        print("leaving", value)
        return True


def g(x):
    raise ValueError(x)


def f(x):
    with Guard() as guard:
        g(x)
    same = guard.value.__traceback__ is guard.trace
    return guard.kind, guard.value, same


# %% with_file: f("a\nb")
import io


def f(text):
    with io.StringIO(text) as file:
        first = file.readline()
    return first, file.closed


# %% with_file_that_raises: f("a")
import io


def f(text):
    seen = []
    try:
        with io.StringIO(text) as file:
            {}[text]
    except KeyError as error:
        seen.append(error)
    return seen, file.closed


# %% with_exit_that_raises: f(1)
class Guard:
    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        raise RuntimeError("in exit")


def f(x):
    try:
        with Guard():
            raise KeyError(x)
    except RuntimeError as error:
        return error


# %% suppressed_in_a_loop: f(3)
import contextlib


def f(n):
    seen = []
    for i in range(n):
        with contextlib.suppress(LookupError, ValueError):
            seen.append([5, 6][i])
            int("12x"[i:])
            seen.append("fine")
    return seen


# %% exit_stack_with_exception: f(value); value = 0 -> 1
import contextlib


class Guard:
    def __init__(self, name):
        self.name = name

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        log.append((self.name, kind and kind.__name__))
        return self.name == "first"


log = []


def f(x):
    log.clear()
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(Guard("first"))
        stack.enter_context(Guard("second"))
        stack.callback(log.append, "called")
        if x:
            raise ValueError(x)
    return list(log), first.name


# %% operating_system_errors: f(1)
def f(x):
    made = OSError("only text"), MemoryError(), UnicodeDecodeError("ascii", b"x", 0, 1, "why"), ImportError("none")
    try:
        raise PermissionError("no")
    except OSError as error:
        return made, error, x


# %% class_of_a_system_error_by_its_number: f(11); number = 2 -> 13
def f(x):
    made = OSError(number + x, "text")
    try:
        raise OSError(number, "text", "file")
    except FileNotFoundError as error:
        return type(made), made.args, "missing", error.args, error.filename
    except OSError as error:
        return type(made), made.args, type(error), error.args, error.filename


# %% arguments_of_a_system_error: f(3); names = "file", None, "other" -> (None,)
class Own(OSError):
    pass


def f(x):
    made = FileNotFoundError(x, "text", *names), Own(x, "text", "file"), BlockingIOError(x, "text", 5)
    return [(error.args, len(error.args)) for error in made], x


# %% class_of_a_group_of_a_deque: f(3); change raised.append(KeyboardInterrupt())
from collections import deque

raised = deque([ValueError(1)])


def f(x):
    made = BaseExceptionGroup("text", raised)
    return type(made), made.exceptions, x


# %% attributes_deleted_again: f(1)
class Thing:
    kind = "class"


def f(x):
    thing = Thing()
    thing.kind, thing.x = "own", x
    before = thing.kind
    del thing.kind
    thing.y = x
    try:
        del thing.z
    except AttributeError:
        before += "!"
    return thing, before, thing.kind, hasattr(thing, "x")


# %% traceback_keeps_variables
kept = []


def inner(x):
    own = [x]
    raise KeyError(x)


def f(x):
    try:
        inner(x)
    except KeyError as error:
        kept.append(error)
    return x


def call():
    f(1)
    made = [[0] for _ in range(20)]
    return made, kept.pop().__traceback__.tb_next.tb_frame.f_locals


# %% variables_where_finally_calls_foreign_code: f("/nowhere")
import os


def inner(path, *args, **options):
    short = len(path) < 10
    made = [path]
    if short == 5:
        never = 1
    try:
        return os.stat(path)
    finally:
        os.getcwd()
        made.append(short)


def f(path):
    own = [path]
    return inner(own[0], 1, key=own)


# %% variables_where_a_handler_calls_foreign_code
import os
import sys

kept = []


def inner(path):
    made, times = [path], 0

    def again():
        return times

    try:
        os.stat(path)
    except OSError as error:
        kept.append(error)
        kept.append(os.getpid() > 0)
        made.append(again())
        times += 1
        path = "elsewhere"
        raise


def f(path):
    return inner(path)


def call():
    try:
        f("/nowhere")
    except OSError as error:
        frame = error.__traceback__.tb_next.tb_next.tb_frame
        return error is kept[-2], frame.f_locals, frame.f_back.f_locals, frame.f_lineno, len(kept)


# %% context_that_would_come_back: stops; f(1)
def f(x):
    try:
        try:
            raise NameError(x)
        except NameError as first:
            try:
                1 / 0
            except ZeroDivisionError:
                raise first
    except NameError as error:
        return error, error.__context__.__context__


# %% where_frames_have_ended
def named(x):
    try:
        1 / x
    except ZeroDivisionError as error:
        x.real
        raise


def other(x):
    try:
        1 / x
    except TypeError:
        pass


def final(x):
    try:
        1 / x
    finally:
        x += 1


def f(x):
    lines = []
    for call in (named, other, final):
        try:
            call(x)
        except ZeroDivisionError as error:
            lines.append(error)
    return lines


def call():
    return [error.__traceback__.tb_next.tb_frame.f_lineno for error in f(0)]


# %% memory_error_inside: n = 4 -> 2**60 -> 4
def f(n):
    made = []
    try:
        made.append([0] * n)
        made.append(bytes(n))
        return len(made), n
    except (MemoryError, OverflowError) as error:
        return type(error), len(made)


def call():
    return f(n)


# %% attribute_errors_know_what_was_sought: leaves hooked; n = 1 -> 7
import operator


class Hooked:
    def __getattr__(self, name):
        raise AttributeError("hooked " + name)


class Asking:
    def __getattribute__(self, name):
        raise AttributeError("asked " + name)

    def __getattr__(self, name):
        raise AttributeError("then " + name)


class Described:
    def __get__(self, instance, owner=None):
        raise AttributeError("described")


class Missing(AttributeError):
    pass


class Meta(type):
    def __getattr__(cls, name):
        raise Missing("meta")


class Thing(metaclass=Meta):
    described = Described()

    @property
    def shown(self):
        raise AttributeError("shown")

    @property
    def through(self):
        return self.shown

    @property
    def other(self):
        return self.nothing

    @property
    def opened(self):
        return made[0].index(9).bit_count() if n == 7 else open("/nowhere").nothing

    @property
    def wanting(self):
        return wanting(self)


wanting = operator.attrgetter("nothing.at_all")
made = [[1]]


def attempt(ask):
    try:
        return ask()
    except AttributeError as error:
        return type(error).__name__, error.args, error.name, error.obj
    except (OSError, ValueError) as error:
        return type(error).__name__


def f(thing, hooked, asking):
    return [
        attempt(lambda: thing.shown),
        attempt(lambda: thing.through),
        attempt(lambda: thing.other),
        attempt(lambda: thing.described),
        attempt(lambda: thing.opened),
        attempt(lambda: thing.wanting),
        attempt(lambda: hooked.x),
        attempt(lambda: hooked.x()),
        attempt(lambda: asking.x),
        attempt(lambda: asking.x()),
        attempt(lambda: getattr(hooked, "y")),
        attempt(lambda: getattr(hooked, "y", 5)),
        attempt(lambda: thing.shown()),
        attempt(lambda: Thing.none),
        attempt(lambda: operator.attrgetter("shown")(thing)),
    ]


def args():
    return objects


objects = Thing(), Hooked(), Asking()


# %% attribute_errors_that_leave: leaves hooked; n = 1 -> 2 -> 0.5
class Late:
    @property
    def shown(self):
        if n > 1:
            raise AttributeError("shown")
        return n


def f(late):
    return late.shown


def call():
    late = Late()
    try:
        return f(late)
    except AttributeError as error:
        return error.args, error.name, error.obj is late


# %% attribute_errors_that_were_told: stops; f(telling)
class Telling:
    @property
    def own(self):
        raise AttributeError("own", name="its", obj=3)


def f(telling):
    try:
        return telling.own
    except AttributeError as error:
        return error.args, error.name, error.obj


telling = Telling()
