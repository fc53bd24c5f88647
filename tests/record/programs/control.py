# ruff: noqa
"""Loops, generators, exceptions and `with`; each followed by a change of what decided the way."""

# %% for_over_range
n = 3


def f():
    out = []
    for i in range(n):
        if i == 1:
            continue
        out.append(i)
    else:
        out.append("else")
    return out


def change():
    global n
    n = 6


# %% for_over_list
items = [1, 2, 3]


def f():
    total = 0
    for x in items:
        total += x
    return total


def change():
    items.append(10)


def undo():
    items[0] = 2.5


# %% list_grows_while_iterated: stops
items = [1]


def f():
    for x in items:
        if x < 5:
            items.append(x + 1)
    return len(items)


def change():
    items[:] = [3]


# %% for_over_dict
table = {"a": 1, "b": 2}


def f():
    return [(k, v) for k, v in table.items()], list(table), [v for v in table.values()]


def change():
    global table
    table["a"] = table.pop("a")


def undo():
    table["c"] = 3


# %% for_over_argument_dict
table = {"a": 1, "b": 2}


def f(t):
    out = ""
    for k in t:
        out += k + str(t[k])
    return out


def args():
    return (table,)


def change():
    global table
    table = {"b": 2, "a": 1}


# %% dict_changed_while_iterated
table = {"a": 1, "b": 2}


def f():
    for k in table:
        table[k + k] = 1
    return table


def change():
    table.clear()


# %% while_with_break
def f(x):
    n = 0
    while True:
        n += 1
        if n * x > 20:
            break
    else:
        n = -1
    return n


def args():
    return (3,)


# %% nested_loops
def f(n):
    out = {}
    for i in range(n):
        for j in range(i):
            if j == 2:
                break
            out[i, j] = i * j
    return out


def args():
    return (4,)


# %% enumerate_zip_reversed
a, b = [1, 2, 3], ("x", "y", "z")


def f():
    out = []
    for i, (x, y) in enumerate(zip(a, b), 1):
        out.append((i, x, y))
    return out, list(reversed(a)), list(zip(a, b, strict=True)), dict(zip(b, a))


def change():
    a.append(4)


# %% sorted_min_max_sum
values = [3, 1, 2]


def f():
    return (
        sorted(values),
        sorted(values, key=lambda v: -v),
        min(values),
        max(values, key=lambda v: v % 3),
        sum(values),
        any(values),
        all(values),
    )


def change():
    values.append(0)


# %% map_filter
values = [3, 1, 2]


def odd(v):
    return v % 2


def f():
    return list(map(odd, values)), list(filter(odd, values)), list(map(str, values))


def change():
    global odd
    odd = lambda v: v > 1


# %% generator_consumed
def g(n):
    got = "start"
    for i in range(n):
        got = yield i, got


def f(n):
    return list(g(n)), sum(x for x, _ in g(n)), [*g(2)]


def args():
    return (3,)


def change():
    global g
    g = lambda n: [(0, 0)] * n


# %% generator_by_hand: stops
def g():
    try:
        a = yield 1
        b = yield a
        return b
    finally:
        log.append("end")


log = []


def f(x):
    it = g()
    out = [next(it), it.send(x)]
    try:
        it.send(x + 1)
    except StopIteration as stop:
        out.append(stop.value)
    return out


def args():
    return (5,)


# %% generator_thrown_and_closed: stops
def g():
    while True:
        try:
            yield 1
        except ValueError as e:
            yield "caught", e.args
        finally:
            log.append("finally")


log = []


def f():
    it = g()
    out = [next(it), it.throw(ValueError(3))]
    it.close()
    return out


# %% generator_returned
k = 1


def g(n):
    for i in range(n):
        yield i + k


def f(n):
    return g(n)


def call():
    global k
    made = f(3)
    first = next(made)
    k += 1
    return first, list(made)


# %% generator_left_open: stops
def g(log):
    try:
        yield 1
        yield 2
    finally:
        log.append("closed")


def f(log):
    for x in g(log):
        return x, list(log)


def call():
    log = []
    return f(log), log


# %% yield_from: stops
def inner(n):
    yield from range(n)
    return "done"


def g(n):
    got = yield from inner(n)
    yield got


def f(n):
    return list(g(n))


def args():
    return (2,)


def change():
    global inner
    inner = lambda n: iter("ab")


# %% generator_argument
def f(it):
    return next(it), next(it, "none"), list(it)


def args():
    return (i * 2 for i in range(4))


def call():
    return f(i * 2 for i in range(4))


# %% iterator_class
class It:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        if self.n == 0:
            raise StopIteration
        self.n -= 1
        return self.n


def f(n):
    out = []
    for x in It(n):
        out.append(x)
    return out, list(It(2)), next(It(0), "empty")


def args():
    return (3,)


def change():
    It.__next__ = lambda self: (_ for _ in ()).throw(StopIteration)


# %% iterator_consumed_by_argument
def f(it):
    for x in it:
        return x
    return "end"


source = iter([1, 2, 3])


def args():
    return (source,)


# %% getitem_iteration
class Seq:
    def __getitem__(self, i):
        if i > limit:
            raise IndexError
        return i


limit = 2


def f():
    return [x for x in Seq()], 1 in Seq()


def change():
    global limit
    limit = 4


# %% comprehensions
k = 2


def f(n):
    return (
        [i * k for i in range(n) if i % 2],
        {i: i * k for i in range(n)},
        {i % k for i in range(n)},
        tuple(i for i in range(k)),
    )


def args():
    return (5,)


def change():
    global k
    k = 3


# %% try_except_else_finally
value = 1


def f():
    log = []
    try:
        log.append(1 / value)
    except ZeroDivisionError as e:
        log.append(e)
    else:
        log.append("else")
    finally:
        log.append("finally")
    return log


def change():
    global value
    value = 0


def undo():
    global value
    value = 2


# %% raises_out
def g(x):
    local = x * 2
    raise ValueError("bad", local)


def f(x):
    before = [x]
    return g(x)


def args():
    return (3,)


def change():
    global g
    g = lambda x: x


# %% raises_late
log = []
bad = 2


def f(n):
    for i in range(n):
        log.append(i)
        if i == bad:
            raise KeyError(i)
    return "fine"


def args():
    return (4,)


def change():
    global bad
    bad = 9


def undo():
    global bad
    bad = 0


# %% raises_builtin_errors
table = {"a": 1}
key = "b"


def f():
    return table[key]


def change():
    table["b"] = 2


def undo():
    del table["b"]


# %% exception_returned
def g(x):
    local = [x]
    raise ValueError(local)


def f(x):
    try:
        g(x)
    except ValueError as e:
        return e


def args():
    return (1,)


# %% exception_chain
def f(x):
    try:
        try:
            {}["k"]
        except KeyError as e:
            raise ValueError(x) from e
    except ValueError:
        raise RuntimeError("outer")


def args():
    return (1,)


# %% exception_group
def f(log):
    out = []
    try:
        raise ExceptionGroup("g", [ValueError(1), TypeError(2)])
    except* ValueError as g:
        out.append(g.exceptions[0].args)
    except* TypeError as g:
        out.append(g.exceptions[0].args)
    return out


def args():
    return ([],)


# %% return_in_finally: stops
def f(x):
    try:
        return x
    finally:
        x.append("finally")
        if len(x) > 3:
            return "other"


kept = [1]


def args():
    return (kept,)


# %% raise_and_mutate
seen = []


def f(x):
    seen.append(x)
    x.append(1)
    raise LookupError(len(x))


def args():
    return ([0],)


def change():
    seen.clear()


# %% attribute_error_probed
class C:
    pass


c = C()


def f():
    try:
        return c.v
    except AttributeError as e:
        return e.name, e.obj is c


def change():
    c.v = 3


# %% name_and_unbound_errors
flag = False


def f():
    if flag:
        x = 1
    return x


def change():
    global flag
    flag = True


# %% assert_statement
limit = 5


def f(x):
    assert x < limit, f"{x} too large"
    return x


def args():
    return (3,)


def change():
    global limit
    limit = 2


# %% notes_on_exceptions
def f(x):
    try:
        raise ValueError(x)
    except ValueError as e:
        e.add_note("seen")
        raise


def args():
    return (2,)


# %% with_class
log = []


class Ctx:
    swallow = True

    def __enter__(self):
        log.append("in")
        return self

    def __exit__(self, kind, value, tb):
        log.append((kind and kind.__name__, value and value.args))
        return self.swallow


def f(x):
    with Ctx() as c, Ctx():
        if x:
            raise ValueError(x)
        return "returned"
    return "swallowed", c.swallow


value = 0


def args():
    return (value,)


def change():
    global value
    value = 1


def undo():
    Ctx.swallow = False


# %% with_contextmanager
import contextlib

depth = [0]


@contextlib.contextmanager
def deeper(by):
    depth[0] += by
    try:
        yield depth[0]
    finally:
        depth[0] -= by


def f(x):
    with deeper(x) as now, deeper(1):
        inside = depth[0]
    return now, inside, depth[0]


def args():
    return (2,)


def change():
    depth[0] = 10


# %% with_suppress_and_exitstack
import contextlib

log = []


def f(x):
    with contextlib.suppress(KeyError):
        {}[x]
    with contextlib.ExitStack() as stack:
        stack.callback(log.append, x)
        log.append("body")
    return len(log)


def args():
    return (1,)


# %% with_raising_enter
class Ctx:
    def __enter__(self):
        raise OSError(1)

    def __exit__(self, *args):
        return True


def f():
    with Ctx():
        return 1


def change():
    Ctx.__enter__ = lambda self: 5


# %% context_variable
import contextvars

var = contextvars.ContextVar("var", default=0)


def f(x):
    token = var.set(var.get() + x)
    inside = var.get()
    var.reset(token)
    return inside, var.get()


def args():
    return (1,)


def change():
    var.set(10)


# %% thread_local
import threading

local = threading.local()
local.v = 1


def f():
    return getattr(local, "v", "unset")


def call():
    out = [f()]
    thread = threading.Thread(target=lambda: out.append(f()))
    thread.start()
    thread.join()
    return out


def change():
    local.v = 2


# %% frames_seen
import sys


def g():
    frame = sys._getframe()
    out = []
    while frame is not None and frame.f_code.co_filename == __file__:
        out.append((frame.f_code.co_name, frame.f_lineno, sorted(frame.f_locals)))
        frame = frame.f_back
    return out


def f(x):
    y = x
    return g()


def args():
    return (1,)


# %% locals_globals
def f(x):
    y = [x]
    seen = locals()
    return seen, seen is locals(), globals() is f.__globals__ if hasattr(f, "__globals__") else None


def args():
    return (1,)


# %% warnings_location
import warnings


def g(x):
    warnings.warn("odd", stacklevel=2)
    return x


def f(x):
    return g(x)


def call():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        value = f(1)
    return value, [(w.lineno, w.category.__name__, str(w.message)) for w in seen]


# %% eval_exec
def f(x):
    ns = {}
    exec("y = 2", ns)
    return eval("x + 1"), ns["y"]


def args():
    return (1,)


# %% del_and_finalizer: leaves
log = []


class C:
    def __init__(self, name):
        self.name = name

    def __del__(self):
        log.append(self.name)


def f(x):
    a = C("a")
    b = C("b")
    log.append("made")
    del a
    log.append("deleted")
    b = None
    log.append("end")
    return len(log)


def args():
    return (1,)


# %% interleaved_finalizers
log = []


class C:
    def __init__(self, name):
        self.name = name

    def __del__(self):
        log.append(self.name)


def g(c):
    log.append("in g")
    return c.name


def f():
    g(C("temporary"))
    log.append("between")
    return [g(C(n)) for n in "xy"]


# %% weakref_dies_on_time
import weakref


class C:
    pass


def f():
    c = C()
    r = weakref.ref(c)
    alive = r() is c
    del c
    return alive, r() is None
