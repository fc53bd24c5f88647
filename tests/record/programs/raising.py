# ruff: noqa
"""Which exception a handler finds, what iterators do when their source changes, which object an argument is."""


# %% raised_object_is_caught: key = 1 -> 2
def f():
    error = ValueError(key)
    try:
        raise error
    except ValueError as caught:
        return caught is error, isinstance(caught, ValueError)


# %% raised_again_is_the_same: kinds = (KeyError,) -> (KeyError, ValueError)
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


# %% loop_raises_from_generator: stops; limit = 2 -> 1 -> 3
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


# %% empty_frozensets: given = frozenset([1]) -> frozenset([2])
def f():
    return frozenset(), set(), frozenset(given) is given, type(frozenset()) is frozenset, [frozenset(), set()]


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


# %% dict_filled_after_the_loop: wanted = 1 -> 2
def f():
    table = {1: 2, 2: 3}
    for key in table:
        if key == wanted:
            break
    table[5] = key
    return table, list(table)


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


# %% negative_index_store: change value[0] = 7
value = [5]


def f():
    items = [0, 1, 2]
    items[-1] = 200
    items[-3] = value[0]
    eval("1")
    return items


# %% identity_of_a_default: empty = {} -> {1: 2}
def g(mapping=empty):
    return mapping is empty


def f(*given):
    return g(*given)


def call():
    return f(), f(empty), f({}), f([])


# %% identity_of_equal_arguments: change right = other
text = "xyz"
number = int("1000")
other = "".join("xyz")
right = text


def f(left, right):
    return left is right


def call():
    return f(text, text), f(text, right), f(number, number), f(number, int("1000")), f(None, None), f(7, int("7"))


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


# %% ordered_dict_of_pairs: key = "a" -> "b"
from collections import OrderedDict


def f():
    table = OrderedDict([("a", 1), ("b", 2)])
    table.move_to_end(key)
    return table, list(table.items()), dict(table)


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


# %% reversed_tuple: given = (1, 2, 3) -> (4, 5)
def f():
    backwards = reversed(given)
    first = next(backwards)
    rest = list(backwards)
    return first, rest, [x for x in reversed(given)], tuple(reversed(given)), list(enumerate(reversed(given)))


# %% membership_in_views: change table["one"] = 5
table = {"one": 1, 2: "two"}


def f():
    new = {"a": 1, 1: "b"}
    keys = "a" in new.keys(), "a" in new.values(), 1 in new.values(), ("a", 1) in new.items(), ("b", 1) in new.items()
    return keys, "one" in table.values(), 1 in table.values(), 2 in table.keys(), ("one", 1) in table.items()


# %% list_times_far_too_much
import sys


def f():
    items = [4, 5, 6, 7]
    try:
        items *= (sys.maxsize * 2 + 2) // len(items)
    except (MemoryError, OverflowError) as error:
        return type(error), items


# %% caught_where_an_operator_raised: f(["1", "x", "2"], table); change table["x"] = "ex"
def f(texts, table):
    seen = []
    for text in texts:
        try:
            seen.append(int(text))
        except ValueError:
            seen.append("no")
        try:
            seen.append(table[text])
        except (KeyError, TypeError) as error:
            seen.append(error.args)
    return seen


table = {"1": "one"}


# %% foreign_exception_dropped: f("{")
import json


def f(text):
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    return value, len(text)


# %% foreign_exception_in_a_caller: f(data); data = b"abc" -> b"abcd" -> b""
import struct


def unpack(data):
    values = struct.unpack("<i", data)
    return values[0] + 1


def f(data):
    before = len(data)
    try:
        value = unpack(data)
    except struct.error:
        value = -1
    return before, value


# %% foreign_exception_kept: f(b"abc")
import struct

kept = []


def unpack(data):
    own = [data]
    return struct.unpack("<i", data), own


def f(data):
    seen = 0
    try:
        unpack(data)
    except struct.error as error:
        kept.append(error)
        seen = str(error)
    seen += "!"
    return seen


# %% foreign_exception_raised_again: f(b"abc")
import struct


def unpack(data):
    try:
        return struct.unpack("<i", data)
    except struct.error as error:
        raise ValueError("bad", data) from error


def again(data):
    try:
        return struct.unpack("<i", data)
    except struct.error:
        data += b"!"
        raise


def f(data):
    seen = []
    for call in (unpack, again):
        try:
            call(data)
        except (ValueError, struct.error) as error:
            seen.append(error)
    return seen


# %% foreign_exception_with_finally_and_with: f(b"abc")
import struct


class Guard:
    def __init__(self, log):
        self.log = log

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.log.append((kind.__name__, str(value)))
        return True


def unpack(data, log):
    try:
        return struct.unpack("<i", data)
    finally:
        log.append("finally")


def f(data):
    log = []
    with Guard(log):
        unpack(data, log)
    return log


# %% foreign_exception_shared: leaves; f(1)
class Source:
    def __init__(self):
        self.error = KeyError("stored")

    def __getitem__(self, key):
        raise self.error


source = Source()
import operator


def f(x):
    try:
        return operator.itemgetter(x)(source)
    except KeyError as error:
        return error.args


# %% foreign_exception_of_another_class: f(data, "<i"); data = b"abc" -> "text"
import struct

errors = [struct.error]


def f(data, name):
    try:
        return struct.unpack(name, data)
    except struct.error as error:
        return "struct", str(error)
    except TypeError as error:
        return "type", str(error)


# %% foreign_exception_in_a_handler: f(b"abc")
import struct


def f(data):
    try:
        {}[data]
    except KeyError:
        try:
            struct.unpack("<i", data)
        except struct.error as error:
            kept = error
        print(kept.__context__)
    return kept


# %% foreign_exception_not_caught: f(b"abc")
import struct


def f(data):
    before = [data]
    try:
        return struct.unpack("<i", data)
    finally:
        before.append(1)


# %% attribute_errors_of_foreign_code: f(1)
import operator


class Lazy:
    def __init__(self):
        self.x = 1

    def __getattr__(self, name):
        return operator.attrgetter("a.b")(Lazy)


def f(x):
    thing = Lazy()
    first = getattr(thing, "nothing", x)
    try:
        second = thing.more
    except AttributeError:
        second = "none"
    return first, second, hasattr(thing, "other"), thing.x
