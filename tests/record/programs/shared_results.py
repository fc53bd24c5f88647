# ruff: noqa
"""Lists that foreign code returns: another one, the same one again, one of the arguments, one within itself."""

# %% results_that_are_one_list: leaves; same = False -> True -> False
import pijit

shared = [0]


@pijit.opaque
def get():
    return shared if same else [0]


def f():
    a, b = get(), get()
    a.append(1)
    sizes = len(a), len(b), a is b
    b.append(2)
    return sizes, list(a), list(b)


def call():
    del shared[1:]
    return f()


# %% results_that_hold_one_list_twice: leaves; f(); same = False -> True -> False
import pijit


@pijit.opaque
def pair():
    a = [0]
    return [a, a if same else [0]], (a,)


def f():
    (a, b), (c,) = pair()
    a.append(1)
    b.append(2)
    c.append(3)
    return a, b, c, a is b, a is c


# %% results_within_themselves: leaves; f(5); deep = False -> True -> False
import pijit


@pijit.opaque
def get():
    items = [1]
    items.append((2, [items]) if deep else items)
    return items


def f(n):
    items = get()
    inner = items[1][1][0] if deep else items[1]
    inner.append(n)
    return len(items), inner is items, items[-1]


# %% results_that_are_arguments: leaves; same = True -> False -> True
import pijit

known = [0]


@pijit.opaque
def maybe(items):
    return items if same else list(items)


def f(items):
    fresh = [1]
    a, b, c = maybe(items), maybe(fresh), maybe(known)
    for each in (a, b, c):
        each.append(2)
    sizes = len(items), len(fresh), len(known)
    return sizes, a is items, b is fresh, c is known, a, b, c


def call():
    del known[1:]
    return f([7])
