# ruff: noqa
"""Generators and exceptions: handled while suspended, raised inside while an outer frame handles, and tracebacks."""


# %% generator_suspended_while_handling
def g():
    try:
        raise KeyError("inner")
    except KeyError as error:
        yield 1
        yield error.args
    yield "after"


def f():
    made = g()
    return next(made), list(made)


# %% generator_escapes_while_handling
def g(log):
    try:
        raise KeyError("inner")
    except KeyError as error:
        log.append("before")
        yield 1
        try:
            raise
        except KeyError as again:
            yield again is error, again.args
    yield "after"


def f(log):
    made = g(log)
    return next(made), made


def call():
    import sys

    log = []
    first, made = f(log)
    return first, list(made), log, sys.exc_info()


# %% generator_handles_its_own
import sys


def g():
    yield sys.exc_info()[0]
    try:
        raise KeyError("inner")
    except KeyError:
        yield sys.exc_info()[0]
    yield sys.exc_info()[0]


def f():
    out = []
    made = g()
    out.append(next(made))
    try:
        raise ValueError("outer")
    except ValueError:
        out.append(next(made))
        out.append(sys.exc_info()[0])
    out.append(sys.exc_info()[0])
    out += list(made)
    return out


# %% generator_runs_while_outer_handles: f(value); value = 5 -> 4 -> 1
def g(x):
    for i in range(3):
        try:
            yield 10 // (x - i)
        except ZeroDivisionError as error:
            yield "inner", error.args


def f(x):
    try:
        raise ValueError("outer")
    except ValueError as error:
        out = [item for item in g(x)]
        try:
            raise
        except ValueError as again:
            return out, again is error


# %% generator_raises_while_outer_handles
def g():
    yield 1
    raise KeyError("inner")


def f():
    try:
        raise ValueError("outer")
    except ValueError as error:
        try:
            for x in g():
                pass
        except KeyError as inner:
            return inner.__context__ is error, inner.args, inner


# %% generator_context_of_own
def g():
    try:
        raise ValueError("own")
    except ValueError:
        yield 1
        raise KeyError("inner")


def f():
    made = g()
    next(made)
    try:
        next(made)
    except KeyError as inner:
        return type(inner.__context__), inner.__context__.args, inner


# %% generator_thrown_while_handling
def g():
    try:
        raise ValueError("own")
    except ValueError:
        try:
            yield 1
        except KeyError as error:
            yield type(error.__context__), error.args
    yield "after"


def f():
    made = g()
    return next(made), made.throw(KeyError("thrown")), list(made)


# %% generator_traceback_through: f(4)
def deep(i):
    if i == 2:
        raise LookupError("deep", i)
    return i


def inner(n):
    for i in range(n):
        yield deep(i)


def outer(n):
    yield from inner(n)


def f(n):
    out = []
    try:
        for x in outer(n):
            out.append(x)
    except LookupError as error:
        return out, error


# %% generator_traceback_of_suspended
def helper():
    raise KeyError("kept")


def g():
    local = [1]
    try:
        helper()
    except KeyError as error:
        kept = error
    yield kept
    yield local


def f():
    made = g()
    return next(made), made


def call():
    error, made = f()
    traceback = error.__traceback__
    return (
        traceback.tb_frame is made.gi_frame,
        traceback.tb_frame.f_back,
        traceback.tb_lineno,
        next(made),
        len(list(made)),
    )


# %% generator_traceback_ended: f(3)
def g(x):
    local = [x]
    yield local
    raise KeyError(x)


def f(x):
    made = g(x)
    next(made)
    try:
        next(made)
    except KeyError as error:
        kept = error
    return kept, list(made)


# %% generator_exits_while_handling: f(factor); factor = 1 -> 2 -> 6
def g(x):
    for i in range(4):
        try:
            if i % 2:
                raise ValueError(i)
            yield i
        except ValueError as error:
            if i * x > 5:
                yield "large", error.args
            else:
                yield error.args
            finally_value = i


def f(x):
    out = []
    try:
        raise LookupError("outer")
    except LookupError as outer:
        for item in g(x):
            out.append(item)
        out.append(outer.args)
    return out


# %% generator_function_called_inside_handles
import sys


def helper(fail):
    seen = [sys.exc_info()[0]]
    try:
        raise IndexError if fail else KeyError
    except LookupError:
        seen.append(sys.exc_info()[0])
    seen.append(sys.exc_info()[0])
    return seen


def g():
    yield helper(False)
    try:
        raise ValueError
    except ValueError:
        yield helper(True)
    yield helper(False)


def f():
    out = []
    for seen in g():
        out.append(seen)
    try:
        raise RuntimeError
    except RuntimeError:
        for seen in g():
            out.append(seen)
    return out


# %% generator_finally_and_return: f(2)
log = []


def g(n):
    try:
        for i in range(n):
            try:
                yield i
            finally:
                log.append(("item", i))
        return "result"
    finally:
        log.append("all")


def f(n):
    made = g(n)
    out = []
    while True:
        try:
            out.append(next(made))
        except StopIteration as stop:
            out.append(stop.value)
            break
    return out


# %% generator_opaque_while_handling
import random

rng = random.Random(4)


def g():
    try:
        raise ValueError("own")
    except ValueError as error:
        yield rng.random() < 2
        yield error.args


def f():
    return [item for item in g()]


# %% generator_with_statement: f(3)
log = []


class Manager:
    def __init__(self, name):
        self.name = name

    def __enter__(self):
        log.append(("enter", self.name))
        return self

    def __exit__(self, *of):
        log.append(("exit", self.name, of[0]))
        return of[0] is KeyError


def g(n):
    with Manager("outer") as m:
        for i in range(n):
            with Manager(i):
                yield m.name, i
                if i == 1:
                    raise KeyError(i)


def f(n):
    made = g(n)
    out = [next(made), next(made), next(made), next(made, "over")]
    other = g(n)
    next(other)
    other.close()
    return out


# %% generators_that_raise_what_a_cell_holds: f(1); k = 1 -> 2
def f(n):
    def inner():
        try:
            yield 1
        finally:
            raise raised

    def outer():
        yield from inner()

    g = outer()
    next(g)
    raised = GeneratorExit()
    out = [g.close(), next(g, "over")]
    g = outer()
    next(g)
    raised, thrown = GeneratorExit(), GeneratorExit()
    try:
        g.throw(thrown)
    except GeneratorExit as error:
        out += [error is thrown, error.__context__, n + k]
    return out


# %% generator_traceback_closures
import random

rng = random.Random(2)


def f():
    trace = []

    def g1():
        try:
            yield "g1 ham"
            yield from g2()
            yield "g1 eggs"
        finally:
            trace.append("Finishing g1")

    def g2():
        try:
            yield "g2 spam"
            raise ValueError("hovercraft is full of eels")
        finally:
            trace.append("Finishing g2")

    try:
        for x in g1():
            trace.append("Yielded %s" % (x,))
    except ValueError as e:
        rng.random()
        return e.args[0]


# %% generator_abandoned_in_loop: f(4)
import sys

log = []


class Scope:
    def __init__(self, name):
        self.name = name

    def __enter__(self):
        log.append(("enter", self.name))

    def __exit__(self, *of):
        log.append(("exit", self.name, of[0], sys._getframe(2).f_code.co_name, sys.exc_info()[0]))


def g(n, box):
    with Scope("g"):
        for i in range(n):
            box.append(i)
            yield i


def first(n):
    box = []
    for x in g(n, box):
        if x == 1:
            break
    log.append("after")
    return x, box


def f(n):
    try:
        raise KeyError
    except KeyError:
        out = [first(n)]
    out.append(first(n))
    return out


# %% a_list_that_an_undone_generator_showed: leaves; f(k); k = 3 -> 7
def steps(out):
    try:
        print(out)
        out.index(7)
    except ValueError as error:
        out.append(str(error))
    yield 1


def f(n):
    out = [n]
    for x in steps(out):
        out.append(x)
    return out


# %% closing_what_is_delegated_to: leaves; f(source(), (x for x in range(4)), source(), make())
closed = []


class Endless:
    def __iter__(self):
        return self

    def __next__(self):
        return 1

    def close(self):
        closed.append("close")


def source():
    try:
        yield 1
        yield 2
        yield 3
    finally:
        closed.append("source")


def inner(given):
    yield from given


def first(given):
    for x in inner(given):
        return x


def f(one, two, three, other):
    for x in inner(one):
        break
    closed.append("after one")
    generator = inner(two)
    next(generator)
    generator = None
    closed.append("after two")
    return first(three), next(one, "end"), next(two, "end"), next(three, "end"), first(other), first(iter([x]))


def make():
    return Endless()


def change():
    global make
    make = lambda: source()


def state():
    said = closed[:]
    closed.clear()
    return said


# %% a_generator_dies_in_its_handler: leaves; f(n); n = 1 -> 3
said = []


def generator():
    try:
        yield 1
    except ValueError as error:
        yield error
    finally:
        said.append("finally")


def f(n):
    for i in range(n):
        one = generator()
        next(one)
        found = one.throw(ValueError(i))
        said.append("thrown")
        one = None
        said.append("gone")
    return found.args


def state():
    told = said[:]
    said.clear()
    return told


# %% generators_die_right_after_foreign_code: leaves; f(k, [1]); k = 1 -> 2.5
import time

heard = []


def noisy(n):
    try:
        yield n
        yield n + 1
    finally:
        heard.append("finally")


def first(n):
    for x in noisy(n):
        print(x)
        return x


def f(n, items):
    for x in noisy(n):
        print(x)
        break
    heard.append("broke")
    one = noisy(n)
    next(one)
    one = time.time()
    heard.append("bound again")
    held = [noisy(n)]
    next(held[0])
    held = print(n)
    heard.append("dropped")
    try:
        for x in noisy(n):
            items.index(5)
    except ValueError:
        heard.append("caught")
    return first(n), first(n)


def state():
    told = heard[:]
    heard.clear()
    return told


# %% a_generator_that_a_cell_holds: leaves; f([k]); k = 1 -> 2
marks = []


def held():
    try:
        yield 1
        yield 2
    finally:
        marks.append("finally")


def f(items):
    one = held()

    def inside():
        next(one)
        match [items]:
            case [x, *rest]:
                marks.append(x)
        return items

    inside()
    marks.append("after")
    next(one)
    return items


def state():
    told = [repr(mark) for mark in marks]
    marks.clear()
    return told
