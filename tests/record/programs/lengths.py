# ruff: noqa
"""len() and truth of objects whose class says in Python how long they are: what C code makes of the number."""


# %% length_of_an_object: f(Sized(2)); n = 2 -> 3
class Sized:
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n


def f(sized):
    return (
        len(sized) + n,
        bool(sized),
        [*map(len, [sized, Sized(n)])],
        not Sized(n),
        list(range(len(sized))),
    )


# %% length_that_is_a_bool: leaves; f(Sized()); k = True -> False
class Sized:
    def __len__(self):
        return k


def f(sized):
    length = len(sized)
    return length, type(length), length + 1, bool(sized)


# %% length_that_is_an_index: leaves; f(Sized()); k = 3 -> 4
class Index:
    def __init__(self, n):
        self.n = n

    def __index__(self):
        return self.n


class Sized:
    def __len__(self):
        return Index(k)


def f(sized):
    length = len(sized)
    return length, type(length), bool(sized)


# %% length_of_a_derived_int: leaves; f(Sized()); k = 3 -> 4
class Int(int):
    pass


class Sized:
    def __len__(self):
        return Int(k)


def f(sized):
    length = len(sized)
    return length, type(length), bool(sized)


# %% length_that_becomes_negative: leaves long; f(Sized()); k = 3 -> -1 -> 5
class Sized:
    def __len__(self):
        return k * 2


def f(sized):
    try:
        return len(sized), k
    except ValueError as error:
        return str(error), k


# %% truth_that_becomes_negative: leaves long; f(Sized()); k = 3 -> -1 -> 5
class Sized:
    def __len__(self):
        return k * 2


def f(sized):
    try:
        return "some" if sized else "none", bool(sized), k
    except ValueError as error:
        return str(error), k


# %% length_beyond_all_sizes: leaves long; f(Sized()); k = 3 -> 2**70 -> 5
class Sized:
    def __len__(self):
        return k


def f(sized):
    try:
        return len(sized)
    except OverflowError as error:
        return str(error)


# %% length_that_is_none: leaves long; f(Sized()); k = 3 -> "no int" -> 5
class Sized:
    def __len__(self):
        return k


def f(sized):
    try:
        return len(sized)
    except TypeError as error:
        return str(error)


# %% length_inside_of_which_a_replay_is_left: leaves long; f(Sized()); k = 1 -> 4 -> -3
class Sized:
    def __len__(self):
        if k > 3:
            return True
        if k < 0:
            return -1
        return 2


def f(sized):
    try:
        length = len(sized)
    except ValueError as error:
        return str(error)
    return length, type(length)


# %% length_of_a_derived_tuple: f(pair); change Pair.__len__ = lambda self: 7; undo del Pair.__len__
class Pair(tuple):
    pass


pair = Pair((1, 2))


def f(pair):
    return len(pair), bool(pair), len(Pair((1,)))


# %% length_of_a_derived_dict: f(Table(a=1)); change Table.__len__ = lambda self: 7; undo del Table.__len__
class Table(dict):
    pass


def f(table):
    return len(table), bool(table), len(Table())


# %% length_of_a_derived_deque: f(queue); change Queue.__len__ = lambda self: 7; undo del Queue.__len__
from collections import deque


class Queue(deque):
    pass


queue = Queue([1])


def f(queue):
    return len(queue), bool(queue), len(Queue())


# %% length_of_one_that_is_global: f()
class Pair(tuple):
    pass


class Table(dict):
    pass


pair, table = Pair((1, 2)), Table(a=1)


def f():
    return len(pair), len(table)


def change():
    Pair.__len__ = Table.__len__ = lambda self: 7


def undo():
    del Pair.__len__, Table.__len__


# %% length_that_writes: f(Sized()); k = 1 -> 2
class Sized:
    asked = 0

    def __len__(self):
        self.asked += k
        return self.asked


def f(sized):
    return len(sized), len(sized), [len(one) for one in (sized, sized)], sized.asked


# %% length_that_raises: f(Sized()); k = 1 -> 2
class Sized:
    def __len__(self):
        raise LookupError(k)


def f(sized):
    try:
        return len(sized)
    except LookupError as error:
        return error.args


# %% length_hint_of_what_is_collected: leaves; f(Sized()); k = 3 -> -1 -> 2
class Sized:
    def __len__(self):
        return k

    def __iter__(self):
        return iter((1, 2))


def f(sized):
    try:
        return list(sized)
    except ValueError as error:
        return str(error)
