# ruff: noqa
"""functools.lru_cache, whose hits and order of entries are as in plain Python, and copy."""

# %% caches_hit_and_forgotten: leaves; order = (1, 2) -> (3, 4); change pair(9, 9)
from functools import cache, lru_cache


@lru_cache(maxsize=2)
def pair(a, b=0):
    calls.append((a, b))
    return [a, b]


@cache
def single(text):
    calls.append(text)
    return text * 2


@lru_cache(maxsize=0)
def none(a):
    calls.append(a)
    return a


@lru_cache(typed=True)
def typed(a):
    calls.append(a)
    return type(a)


calls = []


def f():
    first = pair(1, order[0])
    seen = [pair(1, order[0]) is first, pair(2, order[1]), single("a"), single("b"), single("a"), none(1), none(1)]
    seen += [typed(1), typed(1.0), typed(1), pair(1, b=order[0])]
    return seen, len(calls), pair.cache_info(), single.cache_info(), typed.cache_info(), none.cache_info()


def undo():
    pair.cache_clear()
    single.cache_clear()


def state():
    return list(calls), pair.cache_info(), single.cache_info()


# %% methods_with_a_cache: k = "a" -> "b"; change obj.once("c")
from functools import cache


class Named:
    def __init__(self):
        self.made = []

    @cache
    def once(self, text):
        self.made.append(text)
        return text * 2


obj = Named()
k = "a"


def f():
    bound = obj.once
    given = obj.once(k), bound("x"), Named.once(obj, "x")
    return given, bound.__self__ is obj, bound.__func__ is Named.once, list(obj.made)


def undo():
    Named.once.cache_clear()
    obj.made.clear()


def state():
    return list(obj.made), Named.once.cache_info()


# %% cache_entries_that_are_used_again: change only(5); change only(k)
from functools import lru_cache


@lru_cache(maxsize=1)
def only(n):
    made.append(n)
    return ["made", n, len(made)]


made = []


def f():
    return only(k), only(k)[2]


k = 1


def undo():
    only(6)
    only.cache_clear()
    only(k)


def state():
    return only.cache_info(), list(made)


# %% cache_order_moved_by_hits: first = 1 -> 2
from functools import lru_cache


@lru_cache(maxsize=2)
def entry(n):
    made.append(n)
    return n * 10


made = []


def f():
    return entry(1) + entry(2) + entry(first)


def call():
    result = f()
    entry(3)
    entry(first)
    again = len(made)
    entry(1)
    entry(2)
    return result, again


def state():
    return entry.cache_info(), list(made)


# %% cached_calls_with_names: order = (1, 2) -> (3, 4); change recipe("x", names=("a",), ndim=7)
from functools import lru_cache


class Recipe:
    def __init__(self, text, ndim):
        self.text, self.ndim = text, ndim


@lru_cache(maxsize=4)
def recipe(text, *, names, ndim=0):
    made.append((text, names, ndim))
    return Recipe(text, ndim)


@lru_cache(maxsize=3)
def cooked(recipe, sizes, rest=()):
    made.append((recipe.text, sizes, rest))
    return [recipe.text, *sizes, rest]


made = []


def f(**axes):
    first = recipe("a b", names=tuple(axes), ndim=len(order))
    again = recipe("a b", ndim=len(order), names=tuple(axes))
    other = recipe("c", names=())
    return (
        first is again,
        first is recipe("a b", names=("h", "w"), ndim=2),
        other.ndim,
        cooked(first, order, rest=tuple(axes.items())),
        cooked(other, (*order, 0)),
        cooked(other, sizes=(*order, 0)),
    )


def call():
    return f(h=1, w=2), len(made)


def undo():
    recipe.cache_clear()
    cooked.cache_clear()


def state():
    return list(made), recipe.cache_info(), cooked.cache_info()


# %% cached_calls_of_named_tuples: order = (1, 2) -> (3, 4)
from collections import namedtuple
from functools import lru_cache

Point = namedtuple("Point", "x y")


class Loud(tuple):
    def __hash__(self):
        made.append("hash")
        return 7


@lru_cache(maxsize=8)
def norm(point, scale=1):
    made.append((point, scale))
    return [type(point).__name__, (point[0] ** 2 + point[1] ** 2) * scale]


made = []


def f():
    return (
        norm(Point(*order)),
        norm(Point(order[0], y=order[1]), scale=2),
        norm(tuple(order)),
        norm(Loud(order)),
        norm((Point(*order), 3)[0]),
        norm(Point(1.0, True)),
        norm(Point(1, 1)),
    )


def state():
    return list(made), norm.cache_info()


# %% cached_calls_within_c_functions: leaves; k = 2 -> 3; stop = 9 -> 2; change two(7)
from functools import lru_cache, reduce


@lru_cache(maxsize=3)
def two(n, *, by=2):
    made.append(n)
    return n * by


@lru_cache(maxsize=2)
def size(pair, more=()):
    made.append((pair, more))
    return [*pair, *more]


made = []


def f(xs):
    a, b, c = map(lambda t: t * two(k) + two(1, by=3), xs)
    best = sorted(xs, key=lambda t: (two(k), -t)), max(xs, key=lambda t: size((t > 1, k))[0])
    total = sum(map(lambda t: two(1, by=3) if t < stop else t // (t - stop), xs))
    nested = list(map(lambda t: reduce(lambda p, q: p + q * two(k), [t, t], 0), xs))
    return a, b, c, best, total, nested, two.cache_info(), size.cache_info()


def call():
    try:
        return f([3, 1, 2])
    except ZeroDivisionError as error:
        return str(error), two.cache_info(), size.cache_info()


def undo():
    two.cache_clear()
    size.cache_clear()


def state():
    order = []
    for n in (1, 2, 3, 7):
        before = two.cache_info().misses
        two(n)
        order.append(two.cache_info().misses - before)
    return list(made), two.cache_info(), size.cache_info(), order


# %% cached_calls_of_many_keys: stops; k = 3 -> "x" -> 4
from functools import lru_cache


@lru_cache
def square(n):
    return n * n


def f(n):
    return square(n) + square(k) + square(n + 0.5)


def args():
    global n
    n += 1
    return (n // 2,)


n = 0


def call():
    try:
        return f(*args())
    except TypeError as error:
        return str(error)


def state():
    return square.cache_info()


# %% cached_calls_that_raise: f(2); k = 3 -> 1; undo checked.cache_clear()
from functools import lru_cache


@lru_cache
def checked(n):
    tried.append(n)
    if n < k:
        raise ValueError(n)
    return n


tried = []


def f(n):
    try:
        return checked(n), checked(n)
    except ValueError as error:
        return error.args, len(tried)


def state():
    return checked.cache_info()


# %% cached_recursion: f(12); k = 1 -> 2; change fib.cache_clear()
from functools import lru_cache


@lru_cache
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def f(n):
    return fib(n) + k


def state():
    return fib.cache_info()


# %% cached_calls_of_several_arguments: k = 3 -> 4 -> 3; change once(1, (2, "x"))
from functools import cache, lru_cache


class Key:
    pass


@cache
def once(a, b):
    calls.append((a, b))
    return [a, b]


@cache
def nothing():
    calls.append("nothing")
    return object()


@lru_cache(maxsize=2)
def of_object(held, number=None):
    calls.append(number)
    return held, number


calls, held = [], Key()


def f():
    first = nothing()
    seen = [nothing() is first, once(k, "x"), once(k, "x") is once(k, "x"), once(1, (2, "x")), once(1, 2.0)]
    seen += [of_object(held)[0] is held, of_object(held, 1)[1], of_object(held)[1], once(True, 2)]
    return seen, len(calls), once.cache_info(), nothing.cache_info(), of_object.cache_info()


def undo():
    global held
    once.cache_clear()
    held = Key()


def state():
    return list(map(str, calls)), once.cache_info(), of_object.cache_info()


# %% copies_of_all_sorts: f(5); k = 2 -> 3; change old.more = k; undo Plain.__getstate__ = lambda self: {"replaced": k}
import copy
from collections import OrderedDict, deque


class Plain:
    pass


class Slotted:
    __slots__ = ("a", "b")


class Own:
    def __init__(self, n):
        self.n = n

    def __copy__(self):
        return Own(self.n + k)


class Reduced:
    def __init__(self, n):
        self.n = n

    def __reduce__(self):
        return Reduced, (self.n * k,)


class WithState:
    def __init__(self, n):
        self.n = n

    def __getstate__(self):
        return {"n": self.n, "k": k}

    def __setstate__(self, state):
        self.got = state


class Arguments(Plain):
    def __new__(cls, *args):
        made = super().__new__(cls)
        made.args = args
        return made

    def __getnewargs__(self):
        return ("again", k)


class Items(list):
    pass


old = Plain()
old.items = [1]


def f(n):
    plain, empty, slotted, items = Plain(), Plain(), Slotted(), Items([n, k])
    plain.items, plain.itself = [n], plain
    slotted.a = n
    copies = [copy.copy(each) for each in (plain, empty, old, Own(n), Reduced(n), WithState(n), Arguments(n))]
    same = [copy.copy(each) is each for each in (n, "text", (1, [2]), None, Plain, f, len, 1.5, frozenset({1}))]
    builtin = [copy.copy([n, [k]]), copy.copy({"a": [k]}), copy.copy({n}), copy.copy(bytearray(b"x"))]
    more = copy.copy(slotted), copy.copy(items), copy.copy(OrderedDict(a=1)), copy.copy(deque([n]))
    plain.later = k
    return plain, empty, copies, same, builtin, more, copies[0].items is plain.items, hasattr(copies[0], "later")


# %% copies_of_plain_objects: f(5); k = 2 -> 3; undo Point.__slotnames__ = ["x"]
import copy


class Point:
    def __init__(self, x, y):
        self.x = x
        self.y = y

    def moved(self, by):
        other = copy.copy(self)
        other.x += by
        return other


class Point3(Point):
    def __init__(self, *args):
        super().__init__(*args)
        self.z = 0


def f(n):
    start = Point(n, [k])
    points = [start, start.moved(1), Point3(n, k).moved(k)]
    return points, points[0].y is points[1].y, [type(point) for point in points], vars(points[2])


# %% memo_under_pickled_arguments: f(A()); k = 1 -> 5
import pickle


class A:
    def __init__(self):
        self.memo = {}

    def get(self, name, **kwargs):
        key = (name, pickle.dumps(kwargs))
        if key not in self.memo:
            self.memo[key] = len(self.memo) + k
        return self.memo[key]


def f(a):
    return a.get("x"), a.get("x", n=1), a.get("x", n=2.5, o=None), a.get("x", n=1), a.get("y", n=[k]), list(a.memo)


# %% a_module_that_is_sought: k = 1 -> 5
import importlib.util


def f():
    found = importlib.util.find_spec("no_such_module_" + "x" * k)
    try:
        import no_such_module_y
    except ImportError as error:
        told = str(error)
    return found, told, k
