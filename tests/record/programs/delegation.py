# ruff: noqa
"""`yield from`: to generators, containers and classes, what it returns, nested, suspended and left inside."""


# %% yield_from_generator: f(3); k = 1 -> 2
def inner(n):
    for i in range(n):
        yield i + k
    return n * 10


def outer(n):
    result = yield from inner(n)
    yield "inner", result
    return "outer"


def f(n):
    return list(outer(n))


# %% yield_from_containers: f(3, [5, 6, 7])
def g(n, items):
    none = yield from range(n)
    yield from items
    yield from (1, 2)
    yield from {"a": 1, "b": 2}
    yield from "xy"
    yield from zip(items, range(5))
    yield none, (yield from [])


def f(n, items):
    return list(g(n, items)), sum(i for i in g(n, ()) if isinstance(i, int))


# %% yield_from_tree: change tree.left.value = 100
class Node:
    def __init__(self, value, left=None, right=None):
        self.value, self.left, self.right = value, left, right

    def __iter__(self):
        if self.left:
            yield from self.left
        yield self.value
        if self.right:
            yield from self.right


def build(low, high):
    if low >= high:
        return None
    middle = (low + high) // 2
    return Node(middle, build(low, middle), build(middle + 1, high))


tree = build(0, 15)


def f():
    return list(tree), sum(tree), list(build(0, 5))


# %% yield_from_class_returning: f(3)
class Counter:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        if self.n == 0:
            raise StopIteration("counted")
        self.n -= 1
        return self.n


class Bare(Counter):
    def __next__(self):
        if self.n == 0:
            raise StopIteration
        return super().__next__()


def g(n):
    a = yield from Counter(n)
    b = yield from Bare(n)
    yield a, b


def f(n):
    return list(g(n))


# %% yield_from_suspended
def inner(box):
    box.append("begin")
    got = yield 1
    box.append(got)
    got = yield 2
    box.append(got)
    return "done"


def outer(box):
    result = yield from inner(box)
    yield result


def f():
    box = []
    made = outer(box)
    first = next(made)
    second = made.send("sent")
    return first, second, made, box


def call():
    first, second, made, box = f()
    return first, second, made.gi_yieldfrom.__name__, made.send("late"), list(made), box


# %% yield_from_exit_inside: f(4, factor); factor = 1 -> 2 -> 5
def inner(n, x):
    for i in range(n):
        yield "large" if i * x > 3 else i
    return x


def middle(n, x):
    got = yield from inner(n, x)
    yield "got", got


def outer(n, x):
    yield from middle(n, x)


def f(n, x):
    out = []
    for item in outer(n, x):
        out.append(item)
    return out


# %% yield_from_raises_inside: f(3); change table[2] = 0; undo table[0] = 0
table = {0: 1, 1: 1, 2: 1}


def inner(n):
    for i in range(n):
        yield 10 // table[i]


def outer(n):
    yield "begin"
    yield from inner(n)


def f(n):
    out = []
    try:
        for item in outer(n):
            out.append(item)
    except ZeroDivisionError as e:
        out.append(type(e))
    return out


# %% yield_from_argument: limit = 3 -> 2 -> 5
def g(it, box):
    result = yield from it
    box.append(result)
    yield "end"


def source(n):
    for i in range(n):
        yield i
    return n


def f(it):
    box = []
    return list(g(it, box)), box


def call():
    return f(source(limit)), f(iter([1, 2, limit]))


# %% yield_from_argument_raises: leaves; bad = 9 -> 1
def source():
    for i in range(3):
        if i == bad:
            raise LookupError(i)
        yield i


def g(it):
    try:
        yield from it
    except LookupError:
        yield "caught"


def f(it):
    out = []
    for x in g(it):
        out.append(x)
    return out


def call():
    return f(source())


# %% yield_from_opaque_values: leaves
import random

rng = random.Random(4)


def inner():
    total = 0
    while True:
        x = rng.random()
        if x < 0.3:
            return total
        total += 1
        yield x > 0.6


def outer(box):
    while len(box) < 4:
        got = yield from inner()
        box.append(got)


def f():
    box = []
    out = []
    for item in outer(box):
        out.append(item)
    return out, box


# %% yield_from_sends_to_class
class Echo:
    def __init__(self):
        self.seen = []

    def __iter__(self):
        return self

    def __next__(self):
        return self.send(None)

    def send(self, value):
        self.seen.append(value)
        if value == "stop":
            raise StopIteration(self.seen)
        return len(self.seen)


def g():
    result = yield from Echo()
    yield result


def f():
    made = g()
    return [next(made), made.send("a"), made.send("b"), made.send("stop")]


# %% yield_from_same_generator_twice
def inner():
    yield 1
    yield 2
    yield 3


def outer(source):
    yield from source
    yield "second"
    yield from source


def f():
    source = inner()
    first = next(source)
    return first, list(outer(source)), list(outer(source))


# %% yield_from_abandoned
log = []


def inner():
    try:
        yield 1
        yield 2
    finally:
        log.append("inner")


def outer():
    try:
        yield from inner()
    finally:
        log.append("outer")


def f():
    for x in outer():
        break
    log.append("after")
    return x


# %% yield_from_permutations: f([1, 2, 3])
def permutations(items):
    if len(items) <= 1:
        yield list(items)
        return
    for i, item in enumerate(items):
        for rest in permutations(items[:i] + items[i + 1 :]):
            yield [item] + rest


def flatten(items):
    for item in items:
        if isinstance(item, list):
            yield from flatten(item)
        else:
            yield item


def f(items):
    return list(flatten(permutations(items)))
