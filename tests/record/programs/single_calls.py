# ruff: noqa
"""One construct each: calls, functions, classes and what their methods mean."""


# %% arguments_by_position_and_name: f(1); k = 5 -> 6
def g(a, b, c=3):
    return a, b, c


def f(n):
    return g(n, 2), g(n, b=k), g(c=1, b=2, a=n), g(n, 2, c=k)


# %% arguments_spread: f((1, 2), {"c": 4, "d": 5}); k = 5 -> 6
def g(a, b, *rest, c=3, **more):
    return a, b, rest, c, more


def f(items, table):
    return g(*items), g(*items, k, **table), g(1, *items, c=k), g(**{"a": 1, "b": k})


# %% defaults_of_a_function: f(1); change g.__defaults__ = (20,)
def g(a, b=2, *, c=3):
    return a + b + c


def f(n):
    return g(n), g(n, 1), g(n, c=1), k


k = 0


# %% recursion_alone: k = 0 -> 1
def g(n):
    return 1 if n == 0 else n * g(n - 1) + k


def f():
    return g(5)


# %% methods_of_an_instance: f(1); k = 4 -> 6
class Thing:
    def __init__(self, value):
        self.value = value

    def get(self, more):
        return self.value + more

    def put(self, value):
        self.value = value
        return self


def f(n):
    thing = Thing(n)
    return thing.get(k), thing.put(2).get(n), Thing.get(thing, 3)


# %% property_alone: change thing.value = 3
class Thing:
    value = 2

    @property
    def double(self):
        return self.value * 2


thing = Thing()


def f():
    return thing.double, Thing().double


# %% property_with_setter: f(2); k = 4 -> 6
class Thing:
    def __init__(self):
        self.inner = 0

    @property
    def value(self):
        return self.inner

    @value.setter
    def value(self, value):
        self.inner = value * k

    @value.deleter
    def value(self):
        self.inner = None


def f(n):
    thing = Thing()
    thing.value = n
    first = thing.value
    thing.value += 1
    second = thing.value
    del thing.value
    return first, second, thing.value


# %% classmethods: f(2); change Other.limit = 6
class Thing:
    limit = 3

    @classmethod
    def make(cls, n):
        thing = cls()
        thing.n = n + cls.limit
        return thing


class Other(Thing):
    limit = 4


def f(n):
    return Thing.make(n).n, Other.make(n).n, Other().make(n).n


# %% staticmethods: f(2); k = 2 -> 3
class Thing:
    @staticmethod
    def double(n):
        return n * k


def f(n):
    return Thing.double(n), Thing().double(n)


# %% descriptor_with_set: f(2); k = 0 -> 1
class Positive:
    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, thing, owner=None):
        return self if thing is None else getattr(thing, self.name)

    def __set__(self, thing, value):
        setattr(thing, self.name, max(value, k))


class Thing:
    size = Positive()


def f(n):
    thing = Thing()
    thing.size = n
    first = thing.size
    thing.size = -n
    return first, thing.size


# %% setattr_method: f(2); k = 1 -> 10
class Thing:
    def __setattr__(self, name, value):
        object.__setattr__(self, name, value + k)


def f(n):
    thing = Thing()
    thing.a = n
    thing.a += 1
    return thing.a


# %% delattr_method: k = 1 -> 10
class Thing:
    def __init__(self):
        self.names = []

    def __delattr__(self, name):
        self.names.append((name, k))


def f():
    thing = Thing()
    del thing.a
    del thing.names
    return thing.names


# %% setitem_method: f(2); k = 1 -> 10
class Thing:
    def __init__(self):
        self.items = {}

    def __setitem__(self, key, value):
        self.items[key] = value + k

    def __getitem__(self, key):
        return self.items[key]


def f(n):
    thing = Thing()
    thing["a"] = n
    thing["a"] += 1
    thing[n, ...] = 3
    return thing["a"], len(thing.items)


# %% delitem_method: f(2); k = 1 -> 10
class Thing:
    def __init__(self):
        self.keys = []

    def __delitem__(self, key):
        self.keys.append((key, k))


def f(n):
    thing = Thing()
    del thing[n]
    del thing["a"]
    return thing.keys


# %% getitem_method: f(2); k = 1 -> 10
class Thing:
    def __getitem__(self, key):
        return key, k


def f(n):
    thing = Thing()
    return thing[n], thing["a"], thing[1:2, ...], thing[()]


# %% len_method: k = 1 -> 0
class Thing:
    def __len__(self):
        return k


def f():
    thing = Thing()
    return len(thing), bool(thing), not thing


# %% bool_method: k = True -> False
class Thing:
    def __bool__(self):
        return k


def f():
    thing = Thing()
    return bool(thing), not thing, 1 if thing else 2, thing and 3, bool(thing or 4)


# %% contains_method: f(2); k = 2 -> "a"
class Thing:
    def __contains__(self, item):
        return item == k


def f(n):
    thing = Thing()
    return n in thing, n not in thing, "a" in thing


# %% iter_method: f(2); k = 3 -> 4
class Thing:
    def __init__(self, items):
        self.items = items

    def __iter__(self):
        return iter(self.items)


def f(n):
    thing = Thing([1, n, k])
    return [i for i in thing], list(thing), sum(thing), [*thing], n in thing, max(thing)


# %% next_method: f(5); k = 0 -> 1
class Countdown:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        if self.n <= k:
            raise StopIteration
        self.n -= 1
        return self.n


def f(n):
    ticks = Countdown(n)
    return next(ticks), [i for i in ticks], next(ticks, "end"), list(Countdown(n))


# %% hash_method: f(2); k = 0 -> 1
class Key:
    def __init__(self, n):
        self.n = n

    def __hash__(self):
        return self.n + k

    def __eq__(self, other):
        return self.n == other.n


def f(n):
    return hash(Key(n)), hash(Key(n)) == hash(Key(2))


# %% eq_method: f(2); k = 0 -> 1
class Point:
    def __init__(self, x):
        self.x = x

    def __eq__(self, other):
        return isinstance(other, Point) and self.x == other.x + k


def f(n):
    return Point(n) == Point(2), Point(n) != Point(2), Point(n) == 1, Point(2) in [Point(n)], [Point(n)] == [Point(2)]


# %% class_getitem_method: f(2); k = 0 -> 1
class Thing:
    def __class_getitem__(cls, key):
        return cls.__name__, key, k


def f(n):
    return Thing[n], Thing[int, "a"]


# %% missing_method: f(2); k = 0 -> 1
class Table(dict):
    def __missing__(self, key):
        return key + k


def f(n):
    table = Table()
    table["a"] = n
    return table["a"], table[n]


# %% user_class_made: f(2); k = 0 -> 1
class Point:
    count = 0

    def __init__(self, x, y=0):
        self.x, self.y = x, y


def f(n):
    return Point(n), Point(n, k).y, Point(y=1, x=2).x, isinstance(Point(1), Point)


# %% new_method: f(2); k = 0 -> 1
class Point:
    def __new__(cls, x):
        point = super().__new__(cls)
        point.x = x + k
        return point

    def __init__(self, x):
        self.y = x


def f(n):
    point = Point(n)
    return point.x, point.y


# %% dataclass_frozen_alone: f(2); k = 0 -> 1
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Point:
    x: int
    y: int = 0


def f(n):
    point = Point(n, k)
    return point.x, point == Point(n, 1), replace(point, x=3).x


# %% dataclass_with_slots: f(2); k = 0 -> 1
from dataclasses import dataclass, field


@dataclass(slots=True)
class Point:
    x: int
    more: list = field(default_factory=list)


def f(n):
    point = Point(n)
    point.x += k
    point.more.append(n)
    return point.x, point.more, point == Point(n), hasattr(point, "__dict__")


# %% cached_calls_that_hit: k = 1 -> 2
from functools import lru_cache


@lru_cache
def g(n):
    calls.append(n)
    return n * 2


calls = []


def f():
    return g(k), g(k), len(calls)


# %% cached_calls_that_miss: f(2); k = 1 -> 2
from functools import lru_cache


def f(n):
    @lru_cache
    def g(n):
        return n * k

    return g(n), g(n + 1), g(n), g.cache_info().hits


# %% partial_alone: f(2); k = 1 -> 2
from functools import partial


def g(a, b, c=0):
    return a, b, c


def f(n):
    bound = partial(g, n, c=k)
    return bound(1), bound(2, c=3), bound.args, bound.keywords


# %% wraps_alone: f(2); k = 1 -> 2
from functools import wraps


def traced(function):
    @wraps(function)
    def inner(*args):
        return k, function(*args)

    return inner


def f(n):
    @traced
    def double(n):
        """Doc."""
        return n * 2

    return double(n), double.__name__, double.__doc__


# %% closures_over_variables: f(2); k = 1 -> 2
def f(n):
    def add(m):
        return n + m + k

    n += 1
    return add(1), (lambda: n * 2)()


# %% global_statement: f(2); k = 1 -> 2
def g(n):
    global total
    total = n + k
    return total


total = 0


def f(n):
    return g(n), total, g(n + 1), total


# %% super_alone: f(2); k = 1 -> 2
class Base:
    def get(self, n):
        return n + k


class Derived(Base):
    def get(self, n):
        return super().get(n) * 2


def f(n):
    return Derived().get(n)


# %% attributes_written_and_deleted: f(2); k = 1 -> 2
class Thing:
    pass


def f(n):
    thing = Thing()
    thing.a = n
    thing.b = thing.a + k
    thing.a += 1
    del thing.b
    return thing.a, hasattr(thing, "b"), vars(thing)


# %% modules_imported_inside: f(2.5); k = 1 -> 2
def f(x):
    import math
    import os.path

    return math.floor(x) + k, os.path.sep


# %% names_imported_inside: f(2.5); k = 1 -> 2
def f(x):
    from math import floor
    from operator import add as plus

    return plus(floor(x), k)


# %% jit_inside_jit: f(2); k = 1 -> 2
import pijit


@pijit.jit
def g(n):
    return n * k


def f(n):
    return g(n) + g(n + 1)
