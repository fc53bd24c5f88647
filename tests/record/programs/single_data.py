# ruff: noqa
"""One construct each: numbers, text, containers and what is built into Python."""


# %% int_arithmetic: f(7); k = 3 -> 4
def f(n):
    return n + k, n - k, n * k, -n, +n, abs(k - n), n**k


# %% float_arithmetic_alone: f(1.25); k = 0.5 -> 0.75
def f(x):
    return x + k, x - k, x * k, x / k, -x, abs(-x), x**2


# %% whole_division: f(17); k = 5 -> 3
def f(n):
    return n // k, n % k, -n // k, -n % k, n / k


# %% bit_operations: f(0b1011); k = 2 -> 3
def f(n):
    return n & k, n | k, n ^ k, n << k, n >> 1, ~n


# %% bool_operations: f(True); k = False -> True
def f(a):
    return a and k, a or k, not k, a & k, a | k, a ^ k, a + k, a is True


# %% str_operations: f("text"); k = "x" -> "te"
def f(s):
    return s + k, s * 2, s < k, s == k, k in s, s[0], len(k)


# %% bytes_operations: f(b"text"); k = b"x" -> b"te"
def f(s):
    return s + k, s * 2, s < k, s == k, s[0], s[1:], len(k)


# %% bytes_methods: f(b"a,b,a"); k = b"a" -> b"cc"
def f(s):
    return s.upper(), s.split(b","), s.replace(b"a", k), s.startswith(k), s.find(b"b"), s.decode(), s.hex()


# %% frozenset_methods: k = (1, 2) -> (2, 3)
def f():
    some = frozenset(k)
    return len(some | {9}), some & {1, 2}, some <= {1, 2, 3}, 1 in some, some == frozenset((2, 1))


# %% range_methods: f(20); k = 3 -> 1
def f(n):
    r = range(1, n, k)
    return len(r), r[0], r[-1], r[1:], 4 in r, r.index(4), r.count(5), r.start, r.stop, r.step, list(reversed(r))


# %% slice_objects: f((1, 2, 3, 4)); k = 3 -> 2
def f(items):
    part = slice(1, k)
    return items[part], part.start, part.stop, part.step, part.indices(3), items[slice(None, None, -1)]


# %% slicing: f(4); k = 3 -> 1
def f(n):
    items = [1, 2, 3, n, 5, 6]
    return items[1:k], items[:-1], items[::2], items[::-1], items[k:], "letters"[k:], (1, 2, 3)[:k]


# %% slices_written: f(9); k = 10 -> 20
def f(n):
    items = [0, 1, 2, 3, 4, 5, 6]
    items[1:3] = [n, n, n]
    items[:1] = []
    items[::2] = range(k, k + 4)
    return items


# %% slices_deleted: f(9); k = 3 -> 4
def f(n):
    items = [n, 1, 2, 3, 4, 5, 6]
    del items[1:k]
    del items[::2]
    return items


# %% starred_unpacking: f([1, 2, 3, 4]); k = 3 -> 4
def f(items):
    first, *middle, last = items
    *start, end = "abc"
    head, *rest = (k,)
    return first, middle, last, start, end, head, rest, [*items, k], {*middle}, {**{"a": k}}


# %% deque_methods: f(3); k = 3 -> 4
from collections import deque


def f(n):
    ends = deque([1, 2, n])
    ends.append(k)
    ends.appendleft(0)
    right, left = ends.pop(), ends.popleft()
    ends.extend((8, 9))
    return right, left, len(ends), ends[0], ends[-1], list(ends), n in ends


# %% defaultdict_made_and_filled: f(("a", "b", "a")); k = 0 -> 1
from collections import defaultdict


def f(words):
    places = defaultdict(list)
    for place, word in enumerate(words):
        places[word].append(place + k)
    return dict(places), "none" in places, len(places)


# %% counter_of_words: f(("a", "b", "a")); k = 1 -> 5
from collections import Counter


def f(words):
    counts = Counter(words)
    counts["more"] += k
    return counts["a"], counts["none"], counts.most_common(1), dict(counts)


# %% simple_namespace: f(3); k = 1 -> 5
from types import SimpleNamespace


def f(n):
    space = SimpleNamespace(a=n, b=k)
    space.c = space.a + space.b
    return space.c, vars(space), space == SimpleNamespace(a=n, b=k, c=n + k)


# %% divmod_of_numbers: f(17); k = 5 -> 3
def f(n):
    return divmod(n, k), divmod(-n, k), divmod(2.5, k)


# %% rounding: f(2.71828); k = 2 -> 3
def f(x):
    return round(x), round(x, k), round(1234, -2), round(2.5), round(-x, 1)


# %% power_and_absolute: f(5); k = 2 -> 3
def f(n):
    return pow(n, k), pow(n, k, 7), abs(-n), abs(-2.5), abs(3 + 4j)


# %% shallow_copies: f(5); k = 2 -> 3
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


# %% deep_copies: f(5); k = 2 -> 3
import copy


def f(n):
    items = {"a": [n, k], "b": (1, 2)}
    other = copy.deepcopy(items)
    other["a"].append(1)
    return items, other, other["b"] is items["b"]


# %% issubclass_of_classes: change k = int
class Base:
    pass


class Derived(Base):
    pass


k = Derived


def f():
    return issubclass(k, Base), issubclass(Base, k), issubclass(bool, int), issubclass(k, (int, Base))


# %% getattr_of_all_sorts: change Thing.name = "other"
class Thing:
    name = "thing"


thing = Thing()
k = "name"


def f():
    return getattr(thing, k), getattr(thing, "none", None), getattr(thing, "none", 3), getattr(Thing, "name")


# %% hasattr_of_all_sorts: change thing.more = 1
class Thing:
    name = "thing"


thing = Thing()


def f():
    return hasattr(thing, "name"), hasattr(thing, "more"), hasattr(1, "real"), hasattr("", "none")


# %% callable_of_all_sorts: change k = "text"
class Thing:
    def __call__(self):
        pass


k = Thing()


def f():
    return callable(k), callable(Thing), callable(len), callable(f), callable(1), callable(lambda: 1)


# %% type_of_objects: f(1); change k = 2.5
class Thing:
    pass


k = Thing()


def f(n):
    return type(k) is Thing, type(k).__name__, type(n), type(type(n)), type(None)


# %% set_comprehension: f(9); k = 3 -> 2
def f(n):
    return sorted({i % k for i in range(n)}), len({i for i in (1, 1, 2) if i > 1})


# %% dict_comprehension: f(4); k = 2 -> 1
def f(n):
    return {i: i * k for i in range(n)}, {letter: place for place, letter in enumerate("abc") if place != k}


# %% list_comprehension_with_conditions: f(6); k = 2 -> 1
def f(n):
    return [i if i % 2 else -i for i in range(n) if i != k]


# %% f_strings_with_formats: f(7, 2.71828); k = 8 -> 10
def f(n, x):
    return f"{n} {n!r:>5} {x:.2f} {n:04d} {k=} {x:{k}.1f} {'nested ' + str(n)}"


# %% constants_compared: f(5); k = 6 -> 5
def f(n):
    return n < k, n <= k, n == k, n != k, n > k, n >= k, 1 < n < k, "a" < "b", (1, n) < (1, k), [n] == [k]


# %% membership: f(5); k = 5 -> 9
def f(n):
    return n in (1, k), n not in [1, k], "a" in "cat", n in {k: 1}, n in {1, 2, 3}, n in range(k)


# %% conversions_of_numbers: f("12"); k = 3 -> 0
def f(s):
    return int(s), float(s), str(k), bool(s), int(2.9), float(k), complex(1, k), int("ff", 16), ord("a"), chr(98)


# %% items_written_and_read: f(5); k = "a" -> "c"
def f(n):
    table, items = {}, [0, 0, 0]
    table[k] = n
    items[1] = table[k]
    items[-1] += n
    table["b"] = items[1] * 2
    del table[k]
    return table, items


# %% int_of_what_arithmetic_gives: f(17, 3); k = 5 -> 3
def f(n, m):
    a = int(n // m)
    return a in (1, m, k), a not in (k, n), int(a) is a, a == k, float(n / m) in (k, 0.5), {k: a}[k]


# %% membership_of_computed_numbers: f([4, 8, 15]); k = 8 -> 15
def f(numbers):
    seen = {}
    for at, number in enumerate(numbers):
        n = int(number)
        if n in (k, seen.get("first")):
            seen[n] = at
        elif n not in (1, at):
            seen["first"] = n
    return seen


# %% results_that_may_be_none: f("abc"); k = {"abc": None} -> {"abc": 2}
def f(key):
    found = k.get(key)
    other = "none" if found is None else found
    return other, found is not None, k.get("x") is None
