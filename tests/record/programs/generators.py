# ruff: noqa
"""Generators that escape, that are suspended when something else happens, and that CPython runs to their end."""


# %% generator_escapes_started: k = 10 -> 20
def g(items, extra):
    for i in items:
        extra.append(i)
        yield i + k, extra


def f(n):
    extra = []
    made = g(range(n), extra)
    first = next(made)
    extra.append("between")
    return first, made, extra


def call():
    first, made, extra = f(3)
    return first, extra, list(made), list(made), extra, made.__name__, made.__qualname__


# %% generator_escapes_ended
def g(n):
    for i in range(n):
        yield i
    return "end"


def f(n):
    made = g(n)
    return list(made), made


def call():
    items, made = f(2)
    return items, list(made), next(made, "none"), made.gi_frame


# %% generator_in_containers
def g(n, box):
    box.append(n)
    yield n
    yield box


class Holder:
    pass


def f(n):
    holder = Holder()
    box = []
    holder.first = g(n, box)
    other = [g(n + 1, box), g(n + 2, box)]
    next(other[0])
    return holder, {"others": other}, box


def call():
    holder, others, box = f(1)
    out = [list(g) for g in others["others"]]
    return out, next(holder.first), box


# %% generator_closure_shared
def f(n):
    total = 0

    def add():
        nonlocal total
        for i in range(n):
            total += i
            yield total

    made = add()
    next(made)
    next(made)
    total += 100
    return made, lambda: total


def call():
    made, get = f(5)
    return get(), next(made), get(), list(made), get()


# %% generator_stored_then_continued
kept = []


def g():
    yield 1
    yield 2
    yield 3


def f():
    made = g()
    first = next(made)
    kept.append(made)
    rest = next(made)
    for x in made:
        rest = rest, x
    return first, rest


def state():
    return [list(made) for made in kept]


# %% generator_given_to_opaque: f(5)
import random


class Odd:
    def __init__(self):
        self.rng = random.Random(3)


def g(n):
    for i in range(n):
        yield i, n


def f(n):
    made = g(n)
    next(made)
    data = memoryview(bytes(x for x, _ in made))
    return list(data), list(made)


# %% generator_suspended_at_exit: f(value); value = 3 -> 7
def g(x, seen):
    for i in range(4):
        seen.append((i, x))
        yield i


def f(x):
    seen = []
    made = g(x, seen)
    first = next(made)
    if x * 2 > 10:
        second = next(made)
    else:
        second = "small"
    return first, second, list(made), seen


# %% generator_suspended_at_failure: f(divisor); divisor = 2 -> 0
table = {"a": 1}


def g(box):
    for i in range(3):
        box.append(i)
        yield i


def f(x):
    box = []
    made = g(box)
    next(made)
    try:
        value = 10 // x
    except ZeroDivisionError:
        value = "zero"
    return value, list(made), box


# %% generator_suspended_around_opaque: f(4)
import random

rng = random.Random(1)


def g(n):
    for i in range(n):
        yield i


def f(n):
    made = g(n)
    a = next(made)
    b = rng.random() < 2
    return a, b, next(made), list(made)


# %% generator_argument_in_loop: limit = 2 -> 9 -> 0
def f(it):
    out = []
    for x in it:
        out.append(x * 2)
        if x == limit:
            break
    return out


def call():
    made = (i for i in range(5))
    return f(made), list(made)


# %% generator_argument_shorter: leaves; undo pass
lengths = iter([3, 3, 3, 2, 4, 3, 0, 3, 3])


def f(it):
    out = []
    for x in it:
        out.append(x)
    return out, "end"


def call():
    n = next(lengths)
    return f(i for i in range(n))


# %% generator_argument_raises: bad = 9 -> 1 -> 9
def source():
    for i in range(3):
        if i == bad:
            raise LookupError(i)
        yield i


def f(it):
    out = []
    for x in it:
        out.append(x)
    return out


def call():
    return f(source())


# %% exit_inside_generator_in_loop: f(4, factor); factor = 1 -> 2 -> 5
def g(n, x):
    for i in range(n):
        if i * x > 3:
            yield "large", i
        else:
            yield i


def f(n, x):
    out = []
    for item in g(n, x):
        out.append(item)
    return out


# %% exit_inside_generator_by_failure: f(3); change table[2] = 0; undo table[0] = 0
table = {0: 1, 1: 1, 2: 1}


def g(n):
    local = [n]
    for i in range(n):
        local.append(i)
        yield 10 // table[i], local


def f(n):
    out = []
    try:
        for item in g(n):
            out.append(item)
    except ZeroDivisionError as e:
        out.append(type(e))
    return out


# %% exit_inside_nested_generators: f(3, value); value = 2 -> 1 -> 0
def inner(n, x):
    for i in range(n):
        yield i + 10 // x


def outer(n, x):
    for i in inner(n, x):
        yield i, 1 if x * i > 20 else 0


def f(n, x):
    return [item for item in outer(n, x)]


# %% exit_inside_call_of_generator: f(4, factor); factor = 1 -> 2
def helper(i, x):
    if i * x > 3:
        return "large"
    return i


def g(n, x):
    for i in range(n):
        yield helper(i, x)


def f(n, x):
    out = []
    for i, item in enumerate(g(n, x)):
        out.append((i, item))
    return out


# %% opaque_call_inside_generator: f(3)
import random

rng = random.Random(3)


def g(n):
    for i in range(n):
        yield i, rng.random()


def f(n):
    out = []
    for i, x in g(n):
        out.append((i, x))
    return out


# %% opaque_call_inside_consumed_generator: f(3)
import random

rng = random.Random(3)


def f(n):
    kept = [n]
    got = list((i, kept, rng.random()) for i in range(n))
    kept.append("after")
    return got, kept


# %% exit_inside_next: f(value); value = 3 -> 1 -> 0
def g(x):
    yield 10 // x
    yield 20 // (x - 1)


def f(x):
    made = g(x)
    first = next(made)
    second = next(made, None)
    return first, second, list(made)


# %% exit_inside_consumed_generator: f(4, factor); factor = 1 -> 2 -> 0
def f(n, x):
    return tuple("large" if i * x > 3 else i for i in range(n)), sum(i // x for i in range(n))


# %% frames_seen_inside_generator: f(2)
import sys


class Look:
    def __call__(self):
        return [sys._getframe(1).f_code.co_name, sys._getframe(2).f_code.co_name, sys._getframe(1).f_lineno]


look = jit.__class__ and __import__("functools").partial(Look())


def g(n):
    for i in range(n):
        yield i, look()


def f(n):
    out = []
    for i, seen in g(n):
        out.append(seen)
    return out


# %% exit_by_drawn_number: leaves; f(3)
import random

rng = random.Random(5)
seen = []


def inner(n, box):
    for i in range(n):
        box.append(i)
        x = rng.random()
        if x < 0.5:
            yield i, "small"
        else:
            yield i, "large", box
    return x


def outer(n):
    box = []
    for item in inner(n, box):
        if rng.random() < 0.5:
            box.append("small")
        yield item
    yield box


def f(n):
    out = []
    for i, item in enumerate(outer(n)):
        out.append((i, item))
    return out


# %% exit_by_drawn_number_in_next: leaves
import random

rng = random.Random(8)


def g(box):
    while True:
        x = rng.random()
        if x < 0.3:
            return "done"
        if x < 0.7:
            box.append("middle")
        yield x, box


def f():
    made = g([])
    out = [next(made, "ended"), next(made, "ended again")]
    try:
        out.append(next(made))
    except StopIteration as stop:
        out.append(type(stop))
    return out, list(zip(made, range(3)))
