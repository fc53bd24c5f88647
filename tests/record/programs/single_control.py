# ruff: noqa
"""One construct each: loops, exceptions, context managers and patterns."""


# %% for_with_else
def f(n):
    for i in range(n):
        if i == k:
            found = i
            break
    else:
        found = None
    return found


def args():
    return (4,)


k = 9


def change():
    global k
    k = 2


# %% while_with_else
def f(n):
    i = 0
    while i < n:
        i += 1
        if i == k:
            break
    else:
        return "all", i
    return "broken", i


def args():
    return (4,)


k = 9


def change():
    global k
    k = 2


# %% break_out_of_loops
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


def args():
    return (4,)


k = 2


def change():
    global k
    k = 1


# %% continue_in_loops
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


def args():
    return (4,)


k = 2


def change():
    global k
    k = 1


# %% try_with_except
def g(n):
    if n > k:
        raise ValueError(n)
    return n


def f(n):
    try:
        return g(n)
    except (KeyError, ValueError) as error:
        return "caught", error.args


def args():
    return (4,)


k = 2


def change():
    global k
    k = 9


# %% try_with_else
def f(table):
    try:
        value = table[k]
    except KeyError:
        return "none"
    else:
        return value


def args():
    return ({"a": 1},)


k = "a"


def change():
    global k
    k = "b"


# %% try_with_finally
def f(n):
    steps = []
    try:
        steps.append(n)
    finally:
        steps.append(k)
    return steps


def args():
    return (4,)


k = 2


def change():
    global k
    k = 9


# %% try_in_try
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


def args():
    return (4,)


k = 2


def change():
    global k
    k = 9


# %% return_in_try
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


def args():
    return (4,)


k = 2


def change():
    global k
    k = 9


# %% return_in_finally_alone
def g(n):
    try:
        raise ValueError(n)
    finally:
        return n + k  # noqa: B012


def f(n):
    return g(n)


def args():
    return (4,)


k = 2


def change():
    global k
    k = 9


# %% except_star_alone
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


def args():
    return (4,)


k = 2


def change():
    global k
    k = 9


# %% raise_and_catch
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


def args():
    return (4,)


k = 2


def change():
    global k
    k = 9


# %% raise_from_another
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


def args():
    return (4,)


k = 2


def change():
    global k
    k = 9


# %% raise_again
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


def args():
    return (4,)


k = 2


def change():
    global k
    k = 9


# %% assertion_caught
def g(n):
    assert n < k, "too much"
    return n


def f(n):
    try:
        return g(n)
    except AssertionError as error:
        return str(error)


def args():
    return (4,)


k = 2


def change():
    global k
    k = 9


# %% exception_with_notes
def g(n):
    error = ValueError(n)
    error.add_note(f"note {k}")
    raise error


def f(n):
    try:
        g(n)
    except ValueError as error:
        return error.__notes__


def args():
    return (4,)


k = 2


def change():
    global k
    k = 9


# %% error_of_an_operator
def f(n):
    try:
        return n / k
    except ZeroDivisionError as error:
        return str(error)


def args():
    return (4,)


k = 0


def change():
    global k
    k = 2


# %% with_own_class
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


def args():
    return (4,)


k = 2


def change():
    global k
    k = 9


# %% with_contextlib
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


k = 2


def change():
    global k
    k = 9


# %% with_nullcontext_and_suppress
from contextlib import nullcontext, suppress


def f(table):
    with nullcontext(k) as value, suppress(KeyError):
        value += table["none"]
    return value


def args():
    return ({},)


k = 2


def change():
    global k
    k = 9


# %% with_exit_stack
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


k = 2


def change():
    global k
    k = 9


# %% with_lock
import threading

lock, lock_again = threading.Lock(), threading.RLock()


def f(n):
    with lock, lock_again:
        n += k
    return n


def args():
    return (4,)


k = 2


def change():
    global k
    k = 9


# %% match_literals
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


k = 1


def change():
    global k
    k = 9


# %% match_sequences
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


def args():
    return (4,)


k = 1


def change():
    global k
    k = 9


# %% match_mappings
def g(x):
    match x:
        case {"a": int(a), **rest}:
            return a, rest
        case {}:
            return "none"


def f(n):
    return g({"a": n, "b": k}), g({"b": n}), g({})


def args():
    return (4,)


k = 1


def change():
    global k
    k = 9


# %% match_classes
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


def args():
    return (4,)


k = 1


def change():
    global k
    k = 9


# %% walrus_alone
def f(items):
    if (n := len(items)) > k:
        return n, [y for x in items if (y := x * 2) > 2], y
    return n


def args():
    return ([1, 2, 3],)


k = 1


def change():
    global k
    k = 9


# %% conditional_expressions
def f(n):
    return (n if n > k else k), n or k, n and k, not n, [i if i else k for i in (0, n)]


def args():
    return (4,)


k = 1


def change():
    global k
    k = 9


# %% generator_results
def squares(n):
    for i in range(n):
        yield i * k


def make(n):
    return squares(n)


def f(n):
    return list(make(n)), sum(make(n)), next(make(n)), [i for i in make(n)]


def args():
    return (4,)


k = 1


def change():
    global k
    k = 9


# %% generators_as_arguments
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


def args():
    return (4,)


k = 1


def change():
    global k
    k = 9


# %% generator_expressions
def f(n):
    return sum(i * k for i in range(n)), max(i % 3 for i in range(n)), list(j for i in range(n) for j in range(i))


def args():
    return (4,)


k = 1


def change():
    global k
    k = 9


# %% generator_with_finally
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


def args():
    return (4,)


k = 1


def change():
    global k
    k = 9


# %% class_statement_alone
def f(n):
    class Local:
        limit = k

        def get(self):
            return self.limit + n

    return Local().get(), Local.__name__


def args():
    return (4,)


k = 1


def change():
    global k
    k = 9


# %% await_of_coroutines
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


def args():
    return (4,)


k = 1


def change():
    global k
    k = 9


# %% any_of_items
def f(n):
    return any(i > k for i in range(n)), any([0, n]), any(()), any(i for i in (0, 0)), any({k: 1})


def args():
    return (4,)


k = 1


def change():
    global k
    k = 9
