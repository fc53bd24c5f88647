# ruff: noqa
"""What is tried and not understood, of a number that varies: it is tried again only as if nothing had been tried.

Dates have an order that is not computed while recording, so what compares them ends as unknown after it drew them.
"""

# %% sorted_of_an_iterator_and_a_number_that_varies
import datetime

A, B = datetime.date(2020, 1, 3), datetime.date(2020, 1, 1)
calls = [0]


def f(n):
    return n + 1, sorted(iter([A, B]), reverse=n - 1)


def args():
    calls[0] += 1
    return (min(calls[0], 3),)


# %% extremes_of_an_iterator_and_a_number_that_varies
import datetime

A, B = datetime.date(2020, 1, 3), datetime.date(2020, 1, 1)
calls = [0]


def f(n):
    it = iter([A, B, A])
    return n + 1, max(iter([B, A]), default=n - 1), min(iter([A, B]), default=n - 1), max(it, default=n), list(it)


def args():
    calls[0] += 1
    return (min(calls[0], 3),)


# %% chains_and_a_number_that_varies
import datetime
from itertools import chain

A, B = datetime.date(2020, 1, 3), datetime.date(2020, 1, 1)
calls = [0]


def f(n):
    it = chain([A], [], [B, A], [B])
    first = next(it), next(it)
    return n + 1, first, max(it, default=n - 1), list(it), sorted(chain.from_iterable([[A], [B]]), reverse=n - 1)


def args():
    calls[0] += 1
    return (min(calls[0], 3),)


# %% chains_that_are_left_half_way: f(2); change late[0] = True; undo late[0] = False
from itertools import chain

late = [False]


def f(n):
    it = chain([1, 2], (), [3], (n for n in range(4)))
    first = [next(it), next(it), next(it)]
    return first, late[0] and n, list(it), it


# %% cycles_and_a_number_that_varies: stops
import datetime
from itertools import cycle, islice

A, B = datetime.date(2020, 1, 3), datetime.date(2020, 1, 1)
calls = [0]


def f(n):
    it = cycle([A, B, A])
    first = [next(it) for _ in range(4)]
    best = max(islice(it, 2), default=n - 1)
    return n + 1, first, best, [next(it) for _ in range(4)], sorted(islice(cycle([B, A]), 3), reverse=n - 1)


def args():
    calls[0] += 1
    return (min(calls[0], 3),)


# %% dropwhile_and_a_number_that_varies
import datetime
from itertools import dropwhile, takewhile

A, B = datetime.date(2020, 1, 3), datetime.date(2020, 1, 1)
calls = [0]


def f(n):
    dropped = dropwhile(lambda day: day is A, [A, A, B, A, B])
    taken = takewhile(lambda day: day is A, [A, A, B, A])
    return (
        n + 1,
        max(dropped, default=n - 1),
        list(dropped),
        min(taken, default=n - 1),
        list(taken),
        sorted(dropwhile(lambda day: day is A, [A, B, A]), reverse=n - 1),
    )


def args():
    calls[0] += 1
    return (min(calls[0], 3),)


# %% accumulate_and_a_number_that_varies: stops
import datetime
from itertools import accumulate

A, B = datetime.date(2020, 1, 3), datetime.date(2020, 1, 1)
calls = [0]


def second(a, b):
    return b


def f(n):
    it = accumulate([A, B, A], second, initial=B)
    return (
        n + 1,
        next(it),
        max(it, default=n - 1),
        list(it),
        sorted(accumulate([A, B], second), reverse=n - 1),
        sorted(accumulate([A, B], second, initial=B), reverse=n - 1),
    )


def args():
    calls[0] += 1
    return (min(calls[0], 3),)


# %% several_at_once_and_a_number_that_varies: stops
import datetime
from itertools import pairwise, zip_longest

A, B = datetime.date(2020, 1, 3), datetime.date(2020, 1, 1)
calls = [0]


def f(n):
    longest = zip_longest([A], [B, A, B], fillvalue=A)
    return (
        n + 1,
        next(longest),
        max(longest, default=n - 1),
        list(longest),
        sorted(pairwise([A, B, A]), reverse=n - 1),
        sorted(zip([A, B], [B, A]), reverse=n - 1),
        sorted(enumerate([A, B]), reverse=n - 1),
        sorted(map(lambda a: a, [A, B]), reverse=n - 1),
        sorted(filter(lambda a: a is not B, [A, B, A]), reverse=n - 1),
    )


def args():
    calls[0] += 1
    return (min(calls[0], 3),)


# %% generators_and_a_number_that_varies
import datetime

A, B = datetime.date(2020, 1, 3), datetime.date(2020, 1, 1)
calls = [0]


def days():
    yield A
    yield B
    yield A


def f(n):
    it = days()
    return n + 1, next(it), max(it, default=n - 1), list(it), sorted(days(), reverse=n - 1)


def args():
    calls[0] += 1
    return (min(calls[0], 3),)


# %% a_list_that_was_written_and_is_looked_into_in_vain: change found[:] = [B, B]; undo found.insert(0, A)
import datetime

A, B = datetime.date(2020, 1, 3), datetime.date(2020, 1, 1)
calls = [0]
found = [A, B]


def f(n):
    found.append(A)
    best = max(found, default=n - 1)
    return n + 1, best, len(found)


def args():
    calls[0] += 1
    return (min(calls[0], 3),)


# %% pairs_of_which_one_is_no_key
import datetime

A, B = datetime.date(2020, 1, 3), datetime.date(2020, 1, 1)
calls = [0]


class Odd:
    def __init__(self, n):
        self.n = n

    def __hash__(self):
        return 3

    def __eq__(self, other):
        return isinstance(other, Odd) and self.n == other.n


odd = Odd(1)


def f(n):
    it = iter([("a", n - 1), (odd, n), ("c", n + 1)])
    made = {"z": n}
    made.update(it)
    return n + 1, made, list(it)


def args():
    calls[0] += 1
    return (min(calls[0], 3),)


# %% what_is_made_and_consumed_in_one_attempt
import datetime
from itertools import cycle, dropwhile, islice

A, B = datetime.date(2020, 1, 3), datetime.date(2020, 1, 1)
calls = [0]


def f(n):
    return (
        n + 1,
        sorted(islice(cycle([B, A]), 3), reverse=n - 1),
        sorted(dropwhile(lambda day: day is A, [A, B, A]), reverse=n - 1),
    )


def args():
    calls[0] += 1
    return (min(calls[0], 3),)


# %% a_dict_that_is_read_and_then_filled_half_way: change d["z"] = 5; undo del d["z"]
import os

d = {"a": 1}


def more():
    yield "b", 2
    os.getpid()
    yield "c", 3


def f():
    keys = list(d)
    d.update(more())
    return keys, list(d)
