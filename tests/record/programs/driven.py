# ruff: noqa
"""Generators that C code drives and that have effects: an exit in one of them has no way back to the instruction."""

# %% lists_of_generators_with_effects: k = 1 -> 5
seen = []


def g(n):
    for i in range(n):
        seen.append(i)
        seen.append(i + k)
        yield i * k


def f(n):
    del seen[:]
    return list(g(n)), tuple(g(n)), [*g(2), "between", *g(3)], sorted(g(n), key=lambda x: -x), list(seen)


def args():
    return (12,)


# %% unpacked_generators_with_effects: k = 1 -> 5
seen = []


def g(*items):
    for item in items:
        seen.append(item)
        seen.append(k)
        yield item * k


def take(*items, last=0, **more):
    return items, last, more


def f():
    del seen[:]
    a, b, c = g(1, 2, 3)
    d, *e, h = (x + 1 for x in g(4, 5, 6, 7))
    told = []
    for items in ((1, 2), (1, 2, 3, 4)):
        try:
            i, j, l = g(*items)
        except ValueError as error:
            told.append(str(error))
    return a, b, c, d, e, h, told, take(*g(1, 2)), take(0, *g(1, 2), last=3, **{"x": 1}), list(seen)


# %% tables_of_generators_with_effects: k = 1 -> 5
seen = []


def g(n):
    pair = [0, 0]
    for i in range(n):
        seen.append(i)
        pair[0] = i % 4
        pair[1] = i * k
        seen.append(k)
        yield pair


def f(n):
    del seen[:]
    made = dict(g(n))
    made.update(g(3))
    made |= g(2)
    return made, dict(g(3), x=1), {key for key, value in g(n)}, {*map(tuple, g(3))}, list(seen)


def args():
    return (12,)


# %% sets_of_generators_with_effects: k = 1 -> 5
seen = []


def g(n):
    for i in range(n):
        seen.append(i)
        seen.append(k)
        yield i * k % 7


def f(n):
    del seen[:]
    made = set(g(n))
    made.update(g(3))
    made.difference_update(g(2))
    made |= frozenset(g(4))
    return sorted(made), sorted({*g(3), 8}), 3 in made, list(seen)


def args():
    return (12,)


# %% folded_generators_with_effects: k = 1 -> 5
seen = []


def g(n):
    for i in range(n):
        seen.append(i)
        seen.append(k)
        yield (i * 7 + k) % 11


def f(n):
    del seen[:]
    return (
        sum(g(n)),
        sum((x / 4 for x in g(n)), 0.5),
        sum(([x] for x in g(3)), []),
        min(g(n)),
        max(g(n), default=3),
        max((str(x) for x in g(n)), key=len),
        any(x > 9 for x in g(n)),
        all(x < 9 for x in g(n)),
        "-".join(str(x) for x in g(n)),
        list(seen),
    )


def args():
    return (12,)


# %% extended_by_generators_with_effects: k = 1 -> 5
seen = []
kept = []


def g(n, into):
    for i in range(n):
        seen.append(len(into))
        seen.append(k)
        yield i * k


def f(n):
    del seen[:], kept[:]
    mine = []
    mine.extend(g(n, mine))
    mine += g(3, mine)
    mine[1:2] = g(2, mine)
    kept.extend(g(n, kept))
    kept.extend(x + 1 for x in g(2, kept))
    told = None
    try:
        kept.extend(1 // (2 - x) for x in range(5) if not seen.append(x))
    except ZeroDivisionError as error:
        told = str(error)
    return mine, list(kept), told, list(seen)


def args():
    return (11,)


# %% drawn_through_others_with_effects: k = 1 -> 5
from itertools import chain, islice

seen = []


def g(n):
    for i in range(n):
        seen.append(i)
        seen.append(k)
        yield i * k


class Shelf:
    def __iter__(self):
        for i in g(3):
            seen.append("shelf")
            yield i


def f(n):
    del seen[:]
    return (
        list(enumerate(g(n))),
        list(zip(g(n), range(5))),
        list(zip(range(3), g(n))),
        list(filter(lambda x: x % 2, g(n))),
        list(map(lambda x: x + k, g(3))),
        list(chain(g(2), [7], g(2))),
        list(islice(g(n), 1, 4)),
        list(Shelf()),
        list(list(g(i)) for i in range(3)),
        list(seen),
    )


def args():
    return (10,)


# %% generators_that_are_kept_with_effects: k = 1 -> 5
seen = []


def g(n):
    got = []
    try:
        for i in range(n):
            seen.append(i)
            got.append(i)
            seen.append(k)
            yield got
    finally:
        seen.append("over")


def f(n):
    del seen[:]
    made = g(n)
    first = next(made)
    rest = list(made)
    other = g(n)
    try:
        a, b = other
    except ValueError:
        seen.append("too many")
    left = list(other)
    late = g(4)
    some = any(len(x) == 2 for x in late)
    return len(rest), rest[0] is first, left, some, list(late), list(seen)


def args():
    return (9,)


# %% caches_in_driven_generators: k = 1 -> 5
from functools import lru_cache, singledispatch

seen = []


@lru_cache(maxsize=None)
def square(n):
    seen.append(n)
    return n * n


@singledispatch
def name(x):
    return "other"


@name.register
def _(x: int):
    seen.append(x)
    return x + k


@name.register
def _(x: str):
    return x + "s"


def f(n):
    del seen[:]
    a, b, c = (name(x) for x in (1, "a", None))
    return list(square(x % 5 + k) for x in range(n)), a, b, c, [*map(name, ["b", 3])], list(seen)


def args():
    return (12,)


# %% driven_generators_that_raise: k = 1 -> 5
seen = []


def g(n):
    for i in range(n):
        seen.append(i)
        if i == k:
            raise KeyError(i)
        seen.append(-i)
        yield i


def f(n):
    del seen[:]
    told = []
    for take in (list, tuple, sum, any, dict, lambda x: [*x]):
        try:
            told.append(take(g(n)))
        except (KeyError, TypeError) as error:
            told.append((type(error), str(error), error.__traceback__.tb_next is None))
    return told, list(seen)


def args():
    return (4,)


# %% objects_that_hash_in_python_in_a_set: k = 1 -> 5
class Key:
    def __hash__(self):
        return id(self)


keys = [Key() for _ in range(12)]


def f():
    memo = set()
    found = []
    for key in keys + keys[k:]:
        if key in memo:
            continue
        memo.add(key)
        found.append(key)
    return len(found), len(memo), k


# %% numbers_folded_with_effects: long; change n = 2**62; undo n = step = 0.5
seen = []
n, step = 0, 1


def g(items, n):
    for item in items:
        seen.append(item)
        yield item * n
        seen.append(n)


def f(items, n):
    total = sum(g(items, n))
    least, most = min(g(items, n)), max(x - n for x in g(items, n))
    some = any(x > 3 for x in g(items, n)), all(g(items, n)), any(x - 9 for x in g(items, n) if not seen.append(x))
    told = seen[:]
    seen.clear()
    return total, least, most, some, told


def args():
    global n
    n += step
    return [3, 1, 2, 4, 0, 5], n
