# ruff: noqa
"""What a program does with generators as objects: next, send, throw, close, their attributes, and what they return."""


# %% generator_send: f([1, 2, 6]); k = 1 -> 3
def averager():
    total, count, average = 0, 0, None
    while True:
        value = yield average
        if value is None:
            return total * k
        total += value
        count += 1
        average = total / count


def f(values):
    made = averager()
    next(made)
    out = [made.send(v) for v in values]
    try:
        made.send(None)
    except StopIteration as stop:
        out.append(stop.value)
    return out


# %% generator_send_first_value: f(5)
def g():
    got = yield 1
    yield got


def f(value):
    made = g()
    try:
        made.send(value)
    except TypeError as error:
        message = str(error)
    first = made.send(None)
    return message, first, made.send(value), next(made, "over")


# %% generator_send_to_ended
def g():
    yield 1
    return "result"


def f():
    made = g()
    out = [next(made)]
    for send in (made.__next__, lambda: made.send(3), lambda: next(made), lambda: made.send(None)):
        try:
            out.append(send())
        except StopIteration as stop:
            out.append(("stopped", stop.value, stop.args))
    return out


# %% generator_next_default: f(size); size = 2 -> 0
def g(n):
    yield from range(n)
    return "unseen"


def f(n):
    made = g(n)
    return [next(made, None), next(made, "a"), next(made, "b"), next(made, "c")]


# %% generator_throw_caught
def g(log):
    for i in range(3):
        try:
            got = yield i
            log.append(got)
        except ValueError as error:
            log.append(("caught", error.args))


def f():
    log = []
    made = g(log)
    return next(made), made.throw(ValueError("a", 1)), made.throw(ValueError), next(made, "over"), log


# %% generator_throw_not_caught
def g():
    yield 1
    yield 2


def f():
    made = g()
    out = [next(made)]
    try:
        made.throw(KeyError("k"))
    except KeyError as error:
        out.append(error)
    out.append(next(made, "over"))
    fresh = g()
    try:
        fresh.throw(IndexError)
    except IndexError as error:
        out.append(type(error))
    return out, list(fresh)


# %% generator_throw_returns
def g():
    try:
        yield 1
    except ValueError:
        return "value"
    yield 2


def f():
    made = g()
    next(made)
    try:
        made.throw(ValueError)
    except StopIteration as stop:
        return stop.value


# %% generator_throw_replaced
def g():
    try:
        yield 1
    except ValueError as error:
        raise KeyError("other") from error


def f():
    made = g()
    next(made)
    try:
        made.throw(ValueError("first"))
    except KeyError as error:
        return error.args, type(error.__cause__), error.__cause__.args


# %% generator_throw_through_delegation
def inner(log):
    try:
        yield 1
    except ValueError:
        log.append("inner")
    yield 2


def outer(log):
    try:
        yield from inner(log)
    except KeyError:
        log.append("outer")
        yield "outer"


def f():
    log = []
    made = outer(log)
    return next(made), made.throw(ValueError), made.throw(KeyError), next(made, "over"), log


# %% generator_close
log = []


def g(name):
    try:
        yield 1
        yield 2
    except GeneratorExit:
        log.append(("exit", name))
        raise
    finally:
        log.append(("finally", name))


def f():
    fresh, begun, over = g("fresh"), g("begun"), g("over")
    next(begun)
    for _ in over:
        pass
    out = [fresh.close(), begun.close(), over.close(), begun.close()]
    log.append("after")
    return out, list(fresh), list(begun)


# %% close_of_a_generator_that_returns: f(2); k = 5 -> 6
def numbers(n):
    try:
        yield 1
    except GeneratorExit:
        return n + k


def outer(n):
    yield from numbers(n)


def f(n):
    a, b, c, d = numbers(n), outer(n), numbers(n), (each for each in (1, 2))
    next(a), next(b), next(d)
    return a.close(), a.close(), b.close(), c.close(), d.close()


# %% generator_close_delegation
log = []


def inner():
    try:
        yield 1
    finally:
        log.append("inner")


def outer():
    try:
        yield from inner()
    finally:
        log.append("outer")


def f():
    made = outer()
    next(made)
    made.close()
    log.append("after")
    return made.gi_yieldfrom, list(made)


# %% generator_close_ignored
def g():
    try:
        yield 1
    except GeneratorExit:
        yield "ignored"


def f():
    made = g()
    next(made)
    try:
        made.close()
    except RuntimeError as error:
        return str(error), list(made)


# %% generator_close_exit_inside: f(value); value = 1 -> 4 -> 5
log = []


def inner(x):
    try:
        yield 1
    finally:
        log.append("large" if x > 3 else "small")


def outer(x):
    try:
        yield from inner(x)
    finally:
        log.append(10 // (x - 5))


def f(x):
    made = outer(x)
    next(made)
    try:
        made.close()
    except ZeroDivisionError:
        log.append("divided")
    return list(made)


# %% generator_send_exit_inside: f(value); value = 1 -> 3
def g(x):
    total = 0
    while True:
        got = yield total
        total += "much" if False else (1000 if got * x > 20 else got)


def f(x):
    made = g(x)
    next(made)
    return [made.send(i) for i in (1, 5, 9)]


# %% generator_attributes
def inner():
    yield 1


def g(box):
    box.append(box[0].gi_running)
    box.append(box[0].gi_suspended)
    yield 0
    yield from inner()


def f():
    box = []
    made = g(box)
    box.append(made)
    out = [made.gi_running, made.gi_suspended, made.gi_yieldfrom]
    next(made)
    out += [made.gi_running, made.gi_suspended, made.gi_yieldfrom]
    next(made)
    out += [made.gi_yieldfrom is not None, made.gi_suspended]
    list(made)
    return out, made.gi_frame, made.gi_yieldfrom, made.gi_running, made.gi_suspended, box[1:], made.__name__


# %% generator_already_running
def g(box):
    try:
        next(box[0])
    except ValueError as error:
        yield str(error)


def f():
    box = []
    made = g(box)
    box.append(made)
    return list(made)


# %% generator_raises_stop_iteration: leaves
def g():
    yield 1
    raise StopIteration("inner")


def f():
    out = []
    try:
        for x in g():
            out.append(x)
    except RuntimeError as error:
        out.append(str(error))
    return out


# %% generator_argument_methods
def g(log):
    try:
        while True:
            got = yield len(log)
            log.append(got)
    finally:
        log.append("closed")


def f(made, log):
    out = [next(made), made.send("a"), made.send("b"), made.gi_running, made.gi_suspended]
    made.close()
    return out, log, made.gi_frame


def call():
    log = []
    return f(g(log), log)


# %% generator_argument_begun
def source():
    got = yield 1
    yield got
    try:
        yield 3
    except KeyError:
        yield "thrown"


def f(made):
    return made.send("sent"), next(made), made.throw(KeyError), next(made, "over")


def call():
    made = source()
    next(made)
    return f(made)


# %% generator_expression_returned
def f(n):
    return (i * i for i in range(n) if i % 2)


def call():
    return list(f(6)), sum(f(5))


# %% generator_expression_argument: f(size); size = 4 -> 7
def total(items):
    return sum(items), list(items)


def f(n):
    return total(i * 2 for i in range(n)), max((i % 3 for i in range(n)), default=None), dict((i, -i) for i in range(n))


# %% generator_pipeline: f(9, 3)
def numbers(n):
    i = 0
    while i < n:
        jump = yield i
        i += 1 if jump is None else jump


def grep(source, d):
    for x in source:
        if x % d == 0:
            yield x


def doubled(source):
    for x in source:
        yield x * 2


def f(n, d):
    return list(doubled(grep(numbers(n), d)))


# %% generator_coroutine_style: f(5)
def consumer(out):
    try:
        while True:
            out.append((yield))
    except GeneratorExit:
        out.append("closed")


def filtering(target):
    next(target)
    try:
        while True:
            x = yield
            if x % 2:
                target.send(x)
    finally:
        target.close()


def f(n):
    out = []
    head = filtering(consumer(out))
    next(head)
    for i in range(n):
        head.send(i)
    head.close()
    return out


# %% generator_context_manager: f(fail); fail = False -> True
from contextlib import contextmanager

log = []


@contextmanager
def scope(name):
    log.append(("enter", name))
    try:
        yield name.upper()
    except KeyError as error:
        log.append(("caught", error.args))
    finally:
        log.append(("exit", name))


def f(fail):
    with scope("a") as a, scope("b") as b:
        if fail:
            raise KeyError(a + b)
        log.append("body")
    return len(log) > 0


# %% generator_consumed_writes: stops; f(3)
log = []


def g(n):
    for i in range(n):
        log.append(i)
        yield i


def key(x):
    log.append(("key", x))
    return -x


def f(n):
    items = list(g(n))
    return items, sum(g(n)), sorted(items, key=key), next(g(3)), [*g(1)]
