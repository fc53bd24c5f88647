# ruff: noqa
"""Objects that cannot change, and others that are made later at the address of one that died."""


# %% bound_method_as_callback: stops
class Thing:
    def __init__(self, value):
        self.value = value

    def read(self):
        return self.value


things = [Thing(value) for value in range(4)]


def f(callback):
    return callback()


def call():
    return [f(thing.read) for thing in things]


# %% method_of_c_as_callback: stops
def f(callback, item):
    return callback(item)


def call():
    lists = [[], [], []]
    for i, items in enumerate(lists):
        f(items.append, i)
    return lists, [f(table.get, 1) for table in ({1: 2}, {1: 3}, {})]


# %% range_as_argument: stops
def f(numbers):
    return [x for x in numbers], len(numbers)


def call():
    return [f(range(size)) for size in range(4)]


# %% tuple_in_an_attribute
class Thing:
    def __init__(self, value):
        self.value = value


class Holder:
    given = ()


holder = Holder()
things = [Thing(value) for value in range(4)]


def f(holder):
    return holder.given[0].value, *holder.given


def call():
    seen = []
    for thing in things:
        holder.given = None
        holder.given = (thing,)
        seen.append(f(holder)[0])
    return seen


# %% frozenset_in_an_attribute: stops
class Holder:
    given = ()


holder = Holder()
things = [Holder() for value in range(4)]


def f(holder, thing):
    return thing in holder.given


def call():
    seen = []
    for thing in things:
        holder.given = None
        holder.given = frozenset([thing])
        seen.append(f(holder, things[1]))
    holder.given = None  # a set is described by the addresses of its items
    return seen


# %% slice_in_an_attribute: stops
class Holder:
    given = None


holder = Holder()


def f(holder, items):
    return items[holder.given]


def call():
    seen = []
    for start in range(4):
        holder.given = None
        holder.given = slice(start, None)
        seen.append(f(holder, [0, 1, 2, 3]))
    return seen


# %% union_as_argument: stops
def f(value, kinds):
    return isinstance(value, kinds)


def call():
    return [f(1, kind | None) for kind in (int, str, float, list, int)]


# %% exception_classes_in_an_attribute
class Holder:
    given = None


holder = Holder()


def f(holder):
    try:
        raise KeyError
    except holder.given:
        return 1
    except LookupError:
        return 2


def call():
    seen = []
    for kind in (KeyError, ValueError, LookupError, TypeError):
        holder.given = None
        holder.given = (kind,)
        seen.append(f(holder))
    return seen


# %% method_of_c_with_its_class: change pattern = re.compile("b")
import re

pattern = re.compile("a+")


class Holder:
    pass


def f():
    match = pattern.match
    holder = Holder()
    holder.match = match
    return type(match).__name__, match is holder.match
