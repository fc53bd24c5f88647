# ruff: noqa
"""One construct each: numbers, text, containers and what is built into Python."""


# %% int_arithmetic
def f(n):
    return n + k, n - k, n * k, -n, +n, abs(k - n), n**k


def args():
    return (7,)


k = 3


def change():
    global k
    k = 4


# %% float_arithmetic_alone
def f(x):
    return x + k, x - k, x * k, x / k, -x, abs(-x), x**2


def args():
    return (1.25,)


k = 0.5


def change():
    global k
    k = 0.75


# %% whole_division
def f(n):
    return n // k, n % k, -n // k, -n % k, n / k


def args():
    return (17,)


k = 5


def change():
    global k
    k = 3


# %% bit_operations
def f(n):
    return n & k, n | k, n ^ k, n << k, n >> 1, ~n


def args():
    return (0b1011,)


k = 2


def change():
    global k
    k = 3


# %% bool_operations
def f(a):
    return a and k, a or k, not k, a & k, a | k, a ^ k, a + k, a is True


def args():
    return (True,)


k = False


def change():
    global k
    k = True


# %% str_operations
def f(s):
    return s + k, s * 2, s < k, s == k, k in s, s[0], len(k)


def args():
    return ("text",)


k = "x"


def change():
    global k
    k = "te"


# %% bytes_operations
def f(s):
    return s + k, s * 2, s < k, s == k, s[0], s[1:], len(k)


def args():
    return (b"text",)


k = b"x"


def change():
    global k
    k = b"te"


# %% bytes_methods
def f(s):
    return s.upper(), s.split(b","), s.replace(b"a", k), s.startswith(k), s.find(b"b"), s.decode(), s.hex()


def args():
    return (b"a,b,a",)


k = b"a"


def change():
    global k
    k = b"cc"


# %% frozenset_methods
def f():
    some = frozenset(k)
    return len(some | {9}), some & {1, 2}, some <= {1, 2, 3}, 1 in some, some == frozenset((2, 1))


k = (1, 2)


def change():
    global k
    k = (2, 3)


# %% range_methods
def f(n):
    r = range(1, n, k)
    return len(r), r[0], r[-1], r[1:], 4 in r, r.index(4), r.count(5), r.start, r.stop, r.step, list(reversed(r))


def args():
    return (20,)


k = 3


def change():
    global k
    k = 1


# %% slice_objects
def f(items):
    part = slice(1, k)
    return items[part], part.start, part.stop, part.step, part.indices(3), items[slice(None, None, -1)]


def args():
    return ((1, 2, 3, 4),)


k = 3


def change():
    global k
    k = 2


# %% slicing
def f(n):
    items = [1, 2, 3, n, 5, 6]
    return items[1:k], items[:-1], items[::2], items[::-1], items[k:], "letters"[k:], (1, 2, 3)[:k]


def args():
    return (4,)


k = 3


def change():
    global k
    k = 1


# %% slices_written
def f(n):
    items = [0, 1, 2, 3, 4, 5, 6]
    items[1:3] = [n, n, n]
    items[:1] = []
    items[::2] = range(k, k + 4)
    return items


def args():
    return (9,)


k = 10


def change():
    global k
    k = 20


# %% slices_deleted
def f(n):
    items = [n, 1, 2, 3, 4, 5, 6]
    del items[1:k]
    del items[::2]
    return items


def args():
    return (9,)


k = 3


def change():
    global k
    k = 4


# %% starred_unpacking
def f(items):
    first, *middle, last = items
    *start, end = "abc"
    head, *rest = (k,)
    return first, middle, last, start, end, head, rest, [*items, k], {*middle}, {**{"a": k}}


def args():
    return ([1, 2, 3, 4],)


k = 3


def change():
    global k
    k = 4


# %% deque_methods
from collections import deque


def f(n):
    ends = deque([1, 2, n])
    ends.append(k)
    ends.appendleft(0)
    right, left = ends.pop(), ends.popleft()
    ends.extend((8, 9))
    return right, left, len(ends), ends[0], ends[-1], list(ends), n in ends


def args():
    return (3,)


k = 3


def change():
    global k
    k = 4


# %% defaultdict_made_and_filled
from collections import defaultdict


def f(words):
    places = defaultdict(list)
    for place, word in enumerate(words):
        places[word].append(place + k)
    return dict(places), "none" in places, len(places)


def args():
    return (("a", "b", "a"),)


k = 0


def change():
    global k
    k = 1


# %% counter_of_words
from collections import Counter


def f(words):
    counts = Counter(words)
    counts["more"] += k
    return counts["a"], counts["none"], counts.most_common(1), dict(counts)


def args():
    return (("a", "b", "a"),)


k = 1


def change():
    global k
    k = 5


# %% simple_namespace
from types import SimpleNamespace


def f(n):
    space = SimpleNamespace(a=n, b=k)
    space.c = space.a + space.b
    return space.c, vars(space), space == SimpleNamespace(a=n, b=k, c=n + k)


def args():
    return (3,)


k = 1


def change():
    global k
    k = 5


# %% divmod_of_numbers
def f(n):
    return divmod(n, k), divmod(-n, k), divmod(2.5, k)


def args():
    return (17,)


k = 5


def change():
    global k
    k = 3


# %% rounding
def f(x):
    return round(x), round(x, k), round(1234, -2), round(2.5), round(-x, 1)


def args():
    return (2.71828,)


k = 2


def change():
    global k
    k = 3


# %% power_and_absolute
def f(n):
    return pow(n, k), pow(n, k, 7), abs(-n), abs(-2.5), abs(3 + 4j)


def args():
    return (5,)


k = 2


def change():
    global k
    k = 3


# %% shallow_copies
import copy


class Thing:
    def __init__(self, items):
        self.items = items


def f(n):
    thing = Thing([n, k])
    other = copy.copy(thing)
    more = copy.copy(thing.items)
    more.append(1)
    return other.items is thing.items, more, copy.copy({"a": k}), copy.copy((1, 2)), type(other) is Thing


def args():
    return (5,)


k = 2


def change():
    global k
    k = 3


# %% deep_copies
import copy


def f(n):
    items = {"a": [n, k], "b": (1, 2)}
    other = copy.deepcopy(items)
    other["a"].append(1)
    return items, other, other["b"] is items["b"]


def args():
    return (5,)


k = 2


def change():
    global k
    k = 3


# %% issubclass_of_classes
class Base:
    pass


class Derived(Base):
    pass


k = Derived


def f():
    return issubclass(k, Base), issubclass(Base, k), issubclass(bool, int), issubclass(k, (int, Base))


def change():
    global k
    k = int


# %% getattr_of_all_sorts
class Thing:
    name = "thing"


thing = Thing()
k = "name"


def f():
    return getattr(thing, k), getattr(thing, "none", None), getattr(thing, "none", 3), getattr(Thing, "name")


def change():
    Thing.name = "other"


# %% hasattr_of_all_sorts
class Thing:
    name = "thing"


thing = Thing()


def f():
    return hasattr(thing, "name"), hasattr(thing, "more"), hasattr(1, "real"), hasattr("", "none")


def change():
    thing.more = 1


# %% callable_of_all_sorts
class Thing:
    def __call__(self):
        pass


k = Thing()


def f():
    return callable(k), callable(Thing), callable(len), callable(f), callable(1), callable(lambda: 1)


def change():
    global k
    k = "text"


# %% type_of_objects
class Thing:
    pass


k = Thing()


def f(n):
    return type(k) is Thing, type(k).__name__, type(n), type(type(n)), type(None)


def args():
    return (1,)


def change():
    global k
    k = 2.5


# %% set_comprehension
def f(n):
    return sorted({i % k for i in range(n)}), len({i for i in (1, 1, 2) if i > 1})


def args():
    return (9,)


k = 3


def change():
    global k
    k = 2


# %% dict_comprehension
def f(n):
    return {i: i * k for i in range(n)}, {letter: place for place, letter in enumerate("abc") if place != k}


def args():
    return (4,)


k = 2


def change():
    global k
    k = 1


# %% list_comprehension_with_conditions
def f(n):
    return [i if i % 2 else -i for i in range(n) if i != k]


def args():
    return (6,)


k = 2


def change():
    global k
    k = 1


# %% f_strings_with_formats
def f(n, x):
    return f"{n} {n!r:>5} {x:.2f} {n:04d} {k=} {x:{k}.1f} {'nested ' + str(n)}"


def args():
    return (7, 2.71828)


k = 8


def change():
    global k
    k = 10


# %% constants_compared
def f(n):
    return n < k, n <= k, n == k, n != k, n > k, n >= k, 1 < n < k, "a" < "b", (1, n) < (1, k), [n] == [k]


def args():
    return (5,)


k = 6


def change():
    global k
    k = 5


# %% membership
def f(n):
    return n in (1, k), n not in [1, k], "a" in "cat", n in {k: 1}, n in {1, 2, 3}, n in range(k)


def args():
    return (5,)


k = 5


def change():
    global k
    k = 9


# %% conversions_of_numbers
def f(s):
    return int(s), float(s), str(k), bool(s), int(2.9), float(k), complex(1, k), int("ff", 16), ord("a"), chr(98)


def args():
    return ("12",)


k = 3


def change():
    global k
    k = 0


# %% items_written_and_read
def f(n):
    table, items = {}, [0, 0, 0]
    table[k] = n
    items[1] = table[k]
    items[-1] += n
    table["b"] = items[1] * 2
    del table[k]
    return table, items


def args():
    return (5,)


k = "a"


def change():
    global k
    k = "c"
