# ruff: noqa
"""One construct each: loops, exceptions, context managers and patterns."""


# %% for_with_else: f(4); k = 9 -> 2
def f(n):
    for i in range(n):
        if i == k:
            found = i
            break
    else:
        found = None
    return found


# %% while_with_else: f(4); k = 9 -> 2
def f(n):
    i = 0
    while i < n:
        i += 1
        if i == k:
            break
    else:
        return "all", i
    return "broken", i


# %% break_out_of_loops: f(4); k = 2 -> 1
def f(n):
    seen = []
    for i in range(n):
        for j in range(n):
            if j == k:
                break
            seen.append((i, j))
        if i == 1:
            break
    return seen


# %% continue_in_loops: f(4); k = 2 -> 1
def f(n):
    seen = []
    for i in range(n):
        if i == k:
            continue
        seen.append(i)
    while n > 0:
        n -= 1
        if n == k:
            continue
        seen.append(-n)
    return seen


# %% try_with_except: f(4); k = 2 -> 9
def g(n):
    if n > k:
        raise ValueError(n)
    return n


def f(n):
    try:
        return g(n)
    except (KeyError, ValueError) as error:
        return "caught", error.args


# %% try_with_else: f({"a": 1}); k = "a" -> "b"
def f(table):
    try:
        value = table[k]
    except KeyError:
        return "none"
    else:
        return value


# %% try_with_finally: f(4); k = 2 -> 9
def f(n):
    steps = []
    try:
        steps.append(n)
    finally:
        steps.append(k)
    return steps


# %% try_in_try: f(4); k = 2 -> 9
def g(n):
    raise KeyError(n) if n > k else ValueError(n)


def f(n):
    steps = []
    try:
        try:
            g(n)
        except KeyError:
            steps.append("inner")
            g(0)
        finally:
            steps.append("finally")
    except ValueError as error:
        steps.append(type(error.__context__))
    return steps


# %% return_in_try: f(4); k = 2 -> 9
def g(steps, n):
    try:
        return n
    finally:
        steps.append(k)


def f(n):
    steps = []
    for i in range(3):
        try:
            if i == 1:
                return g(steps, n), steps
        finally:
            steps.append(i)
    return None


# %% return_in_finally_alone: f(4); k = 2 -> 9
def g(n):
    try:
        raise ValueError(n)
    finally:
        return n + k  # noqa: B012


def f(n):
    return g(n)


# %% except_star_alone: f(4); k = 2 -> 9
def g(n):
    raise ExceptionGroup("several", [ValueError(n), KeyError(k)])


def f(n):
    seen = []
    try:
        g(n)
    except* ValueError as group:
        seen.append([error.args for error in group.exceptions])
    except* KeyError:
        seen.append("key")
    return seen


# %% raise_and_catch: f(4); k = 2 -> 9
class Failure(Exception):
    def __init__(self, n):
        super().__init__(n)
        self.n = n


def g(n):
    raise Failure(n + k)


def f(n):
    try:
        g(n)
    except Failure as failure:
        return failure.n, failure.args, str(failure)


# %% raise_from_another: f(4); k = 2 -> 9
def g(n):
    try:
        raise KeyError(n)
    except KeyError as error:
        raise ValueError(k) from error


def f(n):
    try:
        g(n)
    except ValueError as error:
        return error.args, error.__cause__.args, error.__suppress_context__


# %% raise_again: f(4); k = 2 -> 9
def g(n):
    try:
        raise KeyError(n)
    except KeyError:
        steps.append(k)
        raise


steps = []


def f(n):
    steps.clear()
    try:
        g(n)
    except KeyError as error:
        return error.args, steps[:]


# %% assertion_caught: f(4); k = 2 -> 9
def g(n):
    assert n < k, "too much"
    return n


def f(n):
    try:
        return g(n)
    except AssertionError as error:
        return str(error)


# %% exception_with_notes: f(4); k = 2 -> 9
def g(n):
    error = ValueError(n)
    error.add_note(f"note {k}")
    raise error


def f(n):
    try:
        g(n)
    except ValueError as error:
        return error.__notes__


# %% error_of_an_operator: f(4); k = 0 -> 2
def f(n):
    try:
        return n / k
    except ZeroDivisionError as error:
        return str(error)


# %% with_own_class: f(4); k = 2 -> 9
class Manager:
    def __init__(self, steps):
        self.steps = steps

    def __enter__(self):
        self.steps.append("enter")
        return k

    def __exit__(self, kind, error, traceback):
        self.steps.append(kind)
        return kind is ValueError


def f(n):
    steps = []
    with Manager(steps) as value:
        steps.append(value)
    with Manager(steps), Manager(steps):
        raise ValueError(n)
    return steps


# %% with_contextlib: k = 2 -> 9
from contextlib import contextmanager


@contextmanager
def manager(steps):
    steps.append("enter")
    try:
        yield k
    finally:
        steps.append("exit")


def f():
    steps = []
    with manager(steps) as value:
        steps.append(value)
    return steps


# %% with_nullcontext_and_suppress: f({}); k = 2 -> 9
from contextlib import nullcontext, suppress


def f(table):
    with nullcontext(k) as value, suppress(KeyError):
        value += table["none"]
    return value


# %% with_exit_stack: k = 2 -> 9
from contextlib import ExitStack


class Manager:
    def __init__(self, steps):
        self.steps = steps

    def __enter__(self):
        self.steps.append("enter")
        return k

    def __exit__(self, *exception):
        self.steps.append("exit")


def f():
    steps = []
    with ExitStack() as stack:
        steps.append(stack.enter_context(Manager(steps)))
        stack.callback(steps.append, k)
    return steps


# %% with_lock: f(4); k = 2 -> 9
import threading

lock, lock_again = threading.Lock(), threading.RLock()


def f(n):
    with lock, lock_again:
        n += k
    return n


# %% match_literals: k = 1 -> 9
def g(x):
    match x:
        case 0:
            return "zero"
        case 1 | 2:
            return "few"
        case "a" | None:
            return "other"
        case _:
            return "many"


def f():
    return g(k), g(0), g(2), g("a"), g(None), g(3)


# %% match_sequences: f(4); k = 1 -> 9
def g(x):
    match x:
        case []:
            return "none"
        case [one]:
            return one
        case [first, *rest]:
            return first, rest


def f(n):
    return g([]), g([n]), g((n, k, 3)), g("text")


# %% match_mappings: f(4); k = 1 -> 9
def g(x):
    match x:
        case {"a": int(a), **rest}:
            return a, rest
        case {}:
            return "none"


def f(n):
    return g({"a": n, "b": k}), g({"b": n}), g({})


# %% match_classes: f(4); k = 1 -> 9
class Point:
    __match_args__ = ("x", "y")

    def __init__(self, x, y):
        self.x, self.y = x, y


def g(point):
    match point:
        case Point(0, y):
            return "axis", y
        case Point(x=x, y=y) if x == y:
            return "diagonal", x
        case Point() as other:
            return other.x


def f(n):
    return g(Point(0, n)), g(Point(n, n)), g(Point(n, k)), g(1)


# %% walrus_alone: f([1, 2, 3]); k = 1 -> 9
def f(items):
    if (n := len(items)) > k:
        return n, [y for x in items if (y := x * 2) > 2], y
    return n


# %% conditional_expressions: f(4); k = 1 -> 9
def f(n):
    return (n if n > k else k), n or k, n and k, not n, [i if i else k for i in (0, n)]


# %% generator_results: f(4); k = 1 -> 9
def squares(n):
    for i in range(n):
        yield i * k


def make(n):
    return squares(n)


def f(n):
    return list(make(n)), sum(make(n)), next(make(n)), [i for i in make(n)]


# %% generators_as_arguments: f(4); k = 1 -> 9
def squares(n):
    for i in range(n):
        yield i * k


def total(items):
    result = 0
    for item in items:
        result += item
    return result


def f(n):
    return total(squares(n)), total(i + k for i in range(n)), total(x for x in squares(n) if x)


# %% generator_expressions: f(4); k = 1 -> 9
def f(n):
    return sum(i * k for i in range(n)), max(i % 3 for i in range(n)), list(j for i in range(n) for j in range(i))


# %% generator_with_finally: f(4); k = 1 -> 9
def items(n, steps):
    try:
        yield from range(n)
    finally:
        steps.append(k)


def f(n):
    steps = []
    one = items(n, steps)
    next(one)
    one.close()
    return list(items(n, steps)), steps


# %% class_statement_alone: f(4); k = 1 -> 9
def f(n):
    class Local:
        limit = k

        def get(self):
            return self.limit + n

    return Local().get(), Local.__name__


# %% await_of_coroutines: f(4); k = 1 -> 9
async def inner(n):
    return n + k


async def outer(n):
    return await inner(n) + await inner(1)


def f(n):
    coroutine = outer(n)
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value


# %% any_of_items: f(4); k = 1 -> 9
def f(n):
    return any(i > k for i in range(n)), any([0, n]), any(()), any(i for i in (0, 0)), any({k: 1})
