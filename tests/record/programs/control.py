# ruff: noqa
"""Loops, generators, exceptions and `with`; each followed by a change of what decided the way."""


# %% for_over_range: n = 3 -> 6
def f():
    out = []
    for i in range(n):
        if i == 1:
            continue
        out.append(i)
    else:
        out.append("else")
    return out


# %% for_over_list: change items.append(10); undo items[0] = 2.5
items = [1, 2, 3]


def f():
    total = 0
    for x in items:
        total += x
    return total


# %% list_grows_while_iterated: stops; change items[:] = [3]
items = [1]


def f():
    for x in items:
        if x < 5:
            items.append(x + 1)
    return len(items)


# %% for_over_dict: undo table["c"] = 3
table = {"a": 1, "b": 2}


def f():
    return [(k, v) for k, v in table.items()], list(table), [v for v in table.values()]


def change():
    global table
    table["a"] = table.pop("a")


# %% for_over_argument_dict: f(table); table = {"a": 1, "b": 2} -> {"b": 2, "a": 1}
def f(t):
    out = ""
    for k in t:
        out += k + str(t[k])
    return out


# %% dict_changed_while_iterated: change table.clear()
table = {"a": 1, "b": 2}


def f():
    for k in table:
        table[k + k] = 1
    return table


# %% while_with_break: f(3)
def f(x):
    n = 0
    while True:
        n += 1
        if n * x > 20:
            break
    else:
        n = -1
    return n


# %% nested_loops: f(4)
def f(n):
    out = {}
    for i in range(n):
        for j in range(i):
            if j == 2:
                break
            out[i, j] = i * j
    return out


# %% enumerate_zip_reversed: change a.append(4)
a, b = [1, 2, 3], ("x", "y", "z")


def f():
    out = []
    for i, (x, y) in enumerate(zip(a, b), 1):
        out.append((i, x, y))
    return out, list(reversed(a)), list(zip(a, b, strict=True)), dict(zip(b, a))


# %% sorted_min_max_sum: change values.append(0)
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


# %% map_filter: change odd = lambda v: v > 1
values = [3, 1, 2]


def odd(v):
    return v % 2


def f():
    return list(map(odd, values)), list(filter(odd, values)), list(map(str, values))


# %% generator_consumed: f(3); change g = lambda n: [(0, 0)] * n
def g(n):
    got = "start"
    for i in range(n):
        got = yield i, got


def f(n):
    return list(g(n)), sum(x for x, _ in g(n)), [*g(2)]


# %% generator_by_hand: stops; f(5)
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


# %% yield_from: stops; f(2); change inner = lambda n: iter("ab")
def inner(n):
    yield from range(n)
    return "done"


def g(n):
    got = yield from inner(n)
    yield got


def f(n):
    return list(g(n))


# %% generator_argument
def f(it):
    return next(it), next(it, "none"), list(it)


def args():
    return (i * 2 for i in range(4))


def call():
    return f(i * 2 for i in range(4))


# %% iterator_class: f(3); change It.__next__ = lambda self: (_ for _ in ()).throw(StopIteration)
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


# %% iterator_consumed_by_argument: f(source)
def f(it):
    for x in it:
        return x
    return "end"


source = iter([1, 2, 3])


# %% getitem_iteration: limit = 2 -> 4
class Seq:
    def __getitem__(self, i):
        if i > limit:
            raise IndexError
        return i


def f():
    return [x for x in Seq()], 1 in Seq()


# %% comprehensions: f(5); k = 2 -> 3
def f(n):
    return (
        [i * k for i in range(n) if i % 2],
        {i: i * k for i in range(n)},
        {i % k for i in range(n)},
        tuple(i for i in range(k)),
    )


# %% try_except_else_finally: value = 1 -> 0 -> 2
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


# %% raises_out: f(3); change g = lambda x: x
def g(x):
    local = x * 2
    raise ValueError("bad", local)


def f(x):
    before = [x]
    return g(x)


# %% raises_late: f(4); bad = 2 -> 9 -> 0
log = []


def f(n):
    for i in range(n):
        log.append(i)
        if i == bad:
            raise KeyError(i)
    return "fine"


# %% raises_builtin_errors: change table["b"] = 2; undo del table["b"]
table = {"a": 1}
key = "b"


def f():
    return table[key]


# %% exception_returned: f(1)
def g(x):
    local = [x]
    raise ValueError(local)


def f(x):
    try:
        g(x)
    except ValueError as e:
        return e


# %% exception_chain: f(1)
def f(x):
    try:
        try:
            {}["k"]
        except KeyError as e:
            raise ValueError(x) from e
    except ValueError:
        raise RuntimeError("outer")


# %% exception_group: f([])
def f(log):
    out = []
    try:
        raise ExceptionGroup("g", [ValueError(1), TypeError(2)])
    except* ValueError as g:
        out.append(g.exceptions[0].args)
    except* TypeError as g:
        out.append(g.exceptions[0].args)
    return out


# %% return_in_finally: stops; f(kept)
def f(x):
    try:
        return x
    finally:
        x.append("finally")
        if len(x) > 3:
            return "other"


kept = [1]


# %% raise_and_mutate: f([0]); change seen.clear()
seen = []


def f(x):
    seen.append(x)
    x.append(1)
    raise LookupError(len(x))


# %% attribute_error_probed: change c.v = 3
class C:
    pass


c = C()


def f():
    try:
        return c.v
    except AttributeError as e:
        return e.name, e.obj is c


# %% name_and_unbound_errors: flag = False -> True
def f():
    if flag:
        x = 1
    return x


# %% assert_statement: f(3); limit = 5 -> 2
def f(x):
    assert x < limit, f"{x} too large"
    return x


# %% notes_on_exceptions: f(2)
def f(x):
    try:
        raise ValueError(x)
    except ValueError as e:
        e.add_note("seen")
        raise


# %% with_class: f(value); value = 0 -> 1; undo Ctx.swallow = False
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


# %% with_contextmanager: f(2); change depth[0] = 10
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


# %% with_suppress_and_exitstack: f(1)
import contextlib

log = []


def f(x):
    with contextlib.suppress(KeyError):
        {}[x]
    with contextlib.ExitStack() as stack:
        stack.callback(log.append, x)
        log.append("body")
    return len(log)


# %% with_raising_enter: change Ctx.__enter__ = lambda self: 5
class Ctx:
    def __enter__(self):
        raise OSError(1)

    def __exit__(self, *args):
        return True


def f():
    with Ctx():
        return 1


# %% context_variable: f(1); change var.set(10)
import contextvars

var = contextvars.ContextVar("var", default=0)


def f(x):
    token = var.set(var.get() + x)
    inside = var.get()
    var.reset(token)
    return inside, var.get()


# %% thread_local: change local.v = 2
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


# %% frames_seen: f(1)
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


# %% locals_globals: f(1)
def f(x):
    y = [x]
    seen = locals()
    return seen, seen is locals(), globals() is f.__globals__ if hasattr(f, "__globals__") else None


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


# %% eval_exec: f(1)
def f(x):
    ns = {}
    exec("y = 2", ns)
    return eval("x + 1"), ns["y"]


# %% del_and_finalizer: leaves; f(1)
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
