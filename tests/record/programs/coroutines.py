# ruff: noqa
"""Coroutines that the program itself drives: await of coroutines, of classes with __await__, and of generators."""


# %% coroutine_driven: f(3); k = 2 -> 5
async def leaf(x):
    return x * k


async def middle(x):
    a = await leaf(x)
    return a + await leaf(a)


def run(coroutine):
    try:
        while True:
            coroutine.send(None)
    except StopIteration as stop:
        return stop.value


def f(x):
    return run(middle(x))


# %% coroutine_suspended: f(3)
class Future:
    def __init__(self, name):
        self.name, self.result = name, None

    def __await__(self):
        self.result = yield self
        return self.result, self.name


async def worker(log, n):
    for i in range(n):
        log.append(await Future(i))
    return "done"


def f(n):
    log = []
    coroutine = worker(log, n)
    waited = coroutine.send(None)
    names = [waited.name]
    try:
        for i in range(n):
            names.append(coroutine.send(i * 10).name)
    except StopIteration as stop:
        return names, log, stop.value


# %% coroutine_round_robin: f(1)
import types


@types.coroutine
def switch():
    yield


async def worker(name, n, log):
    for i in range(n):
        log.append((name, i))
        await switch()
    return name


def f(n):
    log, ready, results = [], [], []
    for name in ("a", "b", "c"):
        ready.append(worker(name, n, log))
        n += 1
    while ready:
        coroutine = ready.pop(0)
        try:
            coroutine.send(None)
        except StopIteration as stop:
            results.append(stop.value)
        else:
            ready.append(coroutine)
    return results, log


# %% coroutine_exit_inside: f(value); value = 2 -> 4 -> 9
async def leaf(x):
    return "large" if x > 3 else x


async def outer(x):
    return [await leaf(x), await leaf(x - 1)]


def f(x):
    try:
        outer(x).send(None)
    except StopIteration as stop:
        return stop.value


# %% coroutine_escapes
async def leaf(log):
    log.append("leaf")
    return 1


async def outer(log):
    log.append("outer")
    return await leaf(log)


def f(log):
    return outer(log)


def call():
    log = []
    made = f(log)
    try:
        made.send(None)
    except StopIteration as stop:
        return stop.value, log, made.cr_frame, made.__name__


# %% coroutine_thrown_and_closed
import types

log = []


@types.coroutine
def switch(value):
    return (yield value)


async def worker(name):
    try:
        await switch(name)
    except ValueError as error:
        log.append(("caught", name, error.args))
        await switch("again")
    finally:
        log.append(("finally", name))


def f():
    a, b = worker("a"), worker("b")
    out = [a.send(None), b.send(None), a.throw(ValueError("v"))]
    a.close()
    b.close()
    try:
        a.send(None)
    except RuntimeError as error:
        out.append(str(error))
    return out, a.cr_running, b.cr_frame


# %% coroutine_opaque_await
def f():
    class Wrapper:
        def __init__(self, coro):
            self.coro = coro

        def __await__(self):
            return self.coro.__await__()

    class Future:
        def __await__(self):
            return (yield 1)

    async def first():
        return await Future()

    async def second():
        return await Wrapper(first())

    c = second()
    return c.send(None), c.close(), Future.__name__


# %% coroutine_never_awaited: stops
import warnings


async def forgotten():
    return 1


def f():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        forgotten()
    return [str(one.message) for one in caught]


# %% coroutine_async_statements: stops; f(3)
class Source:
    def __init__(self, n):
        self.n = n

    def __aiter__(self):
        return self

    async def __anext__(self):
        if self.n == 0:
            raise StopAsyncIteration
        self.n -= 1
        return self.n


class Scope:
    async def __aenter__(self):
        return "scope"

    async def __aexit__(self, *of):
        return False


async def numbers(n):
    for i in range(n):
        yield i


async def main(n):
    out = []
    async with Scope() as scope:
        async for x in Source(n):
            out.append((scope, x))
    async for x in numbers(n):
        out.append(x)
    return out, [x async for x in Source(n)]


def f(n):
    try:
        main(n).send(None)
    except StopIteration as stop:
        return stop.value
