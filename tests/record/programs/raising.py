# ruff: noqa
"""Which exception a handler finds, what iterators do when their source changes, which object an argument is."""

# %% raised_object_is_caught
key = 1


def f():
    error = ValueError(key)
    try:
        raise error
    except ValueError as caught:
        return caught is error, isinstance(caught, ValueError)


def change():
    global key
    key = 2


# %% raised_again_is_the_same
kinds = (KeyError,)


def again(error):
    try:
        raise error
    except KeyError:
        raise


def f():
    first = third = None
    try:
        try:
            raise KeyError(1)
        except kinds as error:
            first = error
            raise
    except KeyError as second:
        same = first is second
        try:
            again(second)
        except KeyError as error:
            third = error
        return same, third is second, first is third


def change():
    global kinds
    kinds = (KeyError, ValueError)


# %% called_while_handling
def g():
    try:
        raise ValueError
    except ValueError:
        return 1


def call():
    try:
        raise KeyError
    except KeyError:
        return f()


def f():
    return g() + g()


# %% generator_handles_while_handling
def draw():
    try:
        raise ValueError
    except ValueError:
        yield 1
    yield 2


def f():
    total = 0
    try:
        raise KeyError
    except KeyError:
        for x in draw():
            total += x
    return total


# %% loop_raises_from_generator: stops
limit = 2


def draw():
    yield 1
    if limit > 1:
        raise KeyError(limit)
    yield 3


def f():
    seen = []
    try:
        for x in draw():
            seen.append(x)
    except KeyError as error:
        return seen, error.args
    return seen


def change():
    global limit
    limit = 1


def undo():
    global limit
    limit = 3


# %% dict_grows_while_iterated: stops
def f():
    table = {1: 2, 2: 3}
    seen = []
    try:
        for key in table:
            seen.append(key)
            table[key + 2] = 3
    except RuntimeError as error:
        return seen, str(error)
    return seen


# %% empty_frozensets
given = frozenset([1])


def f():
    return frozenset(), set(), frozenset(given) is given, type(frozenset()) is frozenset, [frozenset(), set()]


def change():
    global given
    given = frozenset([2])


# %% iterator_stays_exhausted
def f():
    items = [1]
    iterator = iter(items)
    first = list(iterator)
    items.append(2)
    drained = iter(items)
    for x in drained:
        pass
    items.append(3)
    return first, list(iterator), next(iterator, 7), drained, items


# %% any_leaves_the_rest: stops
def f():
    iterator = iter([0, 2, 3])
    return any(iterator), list(iterator)


# %% dict_filled_after_the_loop
def f():
    table = {1: 2, 2: 3}
    for key in table:
        if key == wanted:
            break
    table[5] = key
    return table, list(table)


wanted = 1


def change():
    global wanted
    wanted = 2


# %% next_after_the_dict_grew: stops
def f():
    table = {1: 2}
    iterator = iter(table)
    table[2] = 3
    try:
        return next(iterator)
    except RuntimeError as error:
        return str(error)


# %% attribute_added_in_a_loop_over_attributes: stops
class Thing:
    pass


def f():
    thing = Thing()
    thing.x = 1
    try:
        for name in thing.__dict__.keys():
            setattr(thing, name + "x", 1)
    except RuntimeError as error:
        return str(error), thing
    return thing


# %% negative_index_store
value = [5]


def f():
    items = [0, 1, 2]
    items[-1] = 200
    items[-3] = value[0]
    eval("1")
    return items


def change():
    value[0] = 7


# %% identity_of_a_default
empty = {}


def g(mapping=empty):
    return mapping is empty


def f(*given):
    return g(*given)


def call():
    return f(), f(empty), f({}), f([])


def change():
    global empty
    empty = {1: 2}


# %% identity_of_equal_arguments
text = "xyz"
number = int("1000")
other = "".join("xyz")
right = text


def f(left, right):
    return left is right


def call():
    return f(text, text), f(text, right), f(number, number), f(number, int("1000")), f(None, None), f(7, int("7"))


def change():
    global right
    right = other


# %% method_of_dict_on_ordered_dict
from collections import OrderedDict


def f():
    table = OrderedDict()
    table["spam"] = 1
    table["ham"] = 2
    dict.pop(table, "spam")
    try:
        repr(table)
    except KeyError as error:
        return str(error)


# %% setitem_of_dict_on_ordered_dict
from collections import OrderedDict


def f():
    table = OrderedDict(a=1)
    dict.__setitem__(table, "b", 2)
    dict.update(table, c=3)
    return list(table), len(table), dict.__len__(table), table == {"a": 1}


# %% ordered_dict_of_pairs
from collections import OrderedDict

key = "a"


def f():
    table = OrderedDict([("a", 1), ("b", 2)])
    table.move_to_end(key)
    return table, list(table.items()), dict(table)


def change():
    global key
    key = "b"


# %% keyword_defaults_replaced
def f():
    def g(p1, p2=0, *, k1, k2=0):
        return p1 + p2 + k1 + k2

    before = g.__kwdefaults__
    g.__kwdefaults__ = {"k1": 5}
    try:
        return before, g(1, k1=10)
    except TypeError as error:
        return before, str(error), g(1, k2=2)


# %% repeated_too_often
import sys


def f():
    items = [4, 5, 6, 7]
    try:
        return items * ((sys.maxsize * 2 + 2) // len(items))
    except (MemoryError, OverflowError) as error:
        return type(error), [] * 10, () * 3


# %% reversed_tuple
given = (1, 2, 3)


def f():
    backwards = reversed(given)
    first = next(backwards)
    rest = list(backwards)
    return first, rest, [x for x in reversed(given)], tuple(reversed(given)), list(enumerate(reversed(given)))


def change():
    global given
    given = (4, 5)


# %% membership_in_views
table = {"one": 1, 2: "two"}


def f():
    new = {"a": 1, 1: "b"}
    keys = "a" in new.keys(), "a" in new.values(), 1 in new.values(), ("a", 1) in new.items(), ("b", 1) in new.items()
    return keys, "one" in table.values(), 1 in table.values(), 2 in table.keys(), ("one", 1) in table.items()


def change():
    table["one"] = 5


# %% list_times_far_too_much
import sys


def f():
    items = [4, 5, 6, 7]
    try:
        items *= (sys.maxsize * 2 + 2) // len(items)
    except (MemoryError, OverflowError) as error:
        return type(error), items
