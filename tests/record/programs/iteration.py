# ruff: noqa
"""Built-in functions that iterate, over containers, generators and classes; callbacks in Python run between the steps of C code."""


# %% map_of_a_function: f([1, 2, 3]); k = 2 -> 5
def f(xs):
    return list(map(lambda x: x * k, xs)), tuple(map(lambda x, y: (x, y), xs, "ab"))


# %% map_of_builtins: change words.append("efg"); undo words.pop()
words = ["a", "Bc", "d"]


def f():
    return list(map(str.upper, words)), list(map(len, words)), sum(map(ord, "xyz")), set(map(int, ["1", "2"]))


# %% map_of_a_generator: n = 3 -> 5
def gen(n):
    for i in range(n):
        yield i * 2


def f():
    return list(map(lambda x: x + 1, gen(n))), list(map(abs, gen(n)))


# %% map_of_a_class: scale = 1 -> 3
class P:
    def __init__(self, x):
        self.x = x * scale


def f():
    return list(map(P, [1, 2]))


# %% filter_of_a_function: f([0, 1, 2, 3]); low = 1 -> -1
def f(xs):
    return list(filter(lambda x: x > low, xs)), list(filter(None, [0, 1, "", "a", [], [0]]))


# %% lazy_iterators_outlive_a_loop: f([0, 1, 2, 0, 3, 4])
def f(xs):
    rest = map(lambda x: x + 1, filter(None, xs))
    first = next(rest)
    for second in rest:
        break
    return first, second, list(rest), list(rest)


# %% a_map_returned: leaves
def f(xs):
    m = map(abs, xs)
    next(m)
    return m


def call():
    return list(f([-1, -2, -3]))


# %% sorted_with_key: f(["a", "b", "c"]); change order["a"] = 0; undo order["a"] = 3
order = {"a": 3, "b": 1, "c": 2}


def f(xs):
    return sorted(xs, key=lambda x: order[x]), sorted(xs, key=order.get, reverse=True), sorted([3, 1, 2])


# %% sort_is_stable: change rows[0] = ("x", 0); undo rows[0] = ("x", 2)
rows = [("x", 2), ("y", 1), ("z", 2), ("w", 1)]


def f():
    return sorted(rows, key=lambda r: r[1]), sorted(rows, key=lambda r: r[1], reverse=True), sorted(r[1] for r in rows)


# %% sorting_raises: change mixed.append("a"); undo mixed.pop()
mixed = [1, 2]


def f():
    try:
        return sorted(mixed)
    except TypeError:
        return "no order"


# %% min_max_with_key: change items.append("dddd"); undo items.pop()
items = ["aaa", "b", "cc"]


def f():
    return (
        min(items, key=len),
        max(items, key=len),
        min(items),
        max(3, 1, 2),
        min([], default="none"),
        max(items, default=0),
    )


# %% min_of_nothing: change items.clear(); undo items.append(2)
items = [1]


def f():
    try:
        return min(items)
    except ValueError:
        return "empty"


# %% min_of_user_objects: ascending = True -> False
class P:
    def __init__(self, x):
        self.x = x

    def __lt__(self, other):
        return self.x < other.x if ascending else self.x > other.x

    def __gt__(self, other):
        return self.x > other.x


ps = [P(2), P(1), P(3)]


def f():
    return min(ps).x, max(ps).x, min(P(5), P(4)).x


# %% sum_of_all_sorts: f([1, 2.5, 3]); change ps.append(P(10)); undo ps.pop()
class P:
    def __init__(self, x):
        self.x = x

    def __add__(self, other):
        return P(self.x + other.x)

    def __radd__(self, other):
        return P(self.x + other)


ps = [P(1), P(2), P(3)]


def f(xs):
    total = sum(ps)
    return total.x, sum(xs), sum(xs, 10), sum(x * 2 for x in xs), sum([0.1] * 5), sum([True, True])


# %% any_all_stop_early: change xs[0].yes = True; undo xs[0].yes = xs[1].yes = False
seen = []


class T:
    def __init__(self, yes):
        self.yes = yes

    def __bool__(self):
        return self.yes


xs = [T(False), T(True), T(False)]


def gen():
    for x in xs:
        yield x


def f():
    return any(xs), all(xs), any(gen()), all(gen()), any(x.yes for x in xs), all([]), any([0, None])


# %% zip_of_all_sorts: f([1, 2, 3, 4]); n = 3 -> 1
class It:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        if self.n == 0:
            raise StopIteration
        self.n -= 1
        return self.n


def gen():
    yield "a"
    yield "b"
    yield "c"


def f(xs):
    out = [pair for pair in zip(xs, gen(), It(n))]
    return out, list(zip()), dict(zip("ab", gen())), list(zip(xs))


# %% zip_strict: f([1, 2], more); change more.append(5); undo more.clear()
def f(xs, ys):
    try:
        return list(zip(xs, ys, strict=True))
    except ValueError:
        return "lengths differ"


more = [3, 4]


# %% zip_strict_while_something_runs: f([1, 2, 3]); change other[1] = 0.5; change other.append(7)
def f(xs):
    out = []
    try:
        for x, y, z in zip(xs, other, "abc", strict=True):
            out.append((x + y, z))
    except ValueError:
        out.append("lengths differ")
    return out


other = [4, 5, 6]


def undo():
    other[:] = [4, 5, 6]


# %% enumerate_of_all_sorts: change xs.append("c"); undo xs.pop()
def gen():
    for x in xs:
        yield x


xs = ["a", "b"]


class It:
    def __iter__(self):
        return gen()


def f():
    out = []
    for i, x in enumerate(gen()):
        out.append((i, x))
    for i, x in enumerate(It(), 5):
        out.append((i, x))
    for i, (x, y) in enumerate(zip(xs, gen()), start=2):
        out.append((i, x, y))
    return out, list(enumerate(map(str.upper, xs)))


# %% reversed_of_all_sorts: change xs.append(4); undo xs.pop()
class R:
    def __reversed__(self):
        return iter(xs)


xs = [1, 2, 3]


def f():
    out = [x for x in reversed(xs)]
    for x in reversed((7, 8, 9)):
        if x == 8:
            break
    return out, x, list(reversed(R())), list(reversed(range(3))), list(reversed({"a": 1, "b": 2}))


# %% iter_with_sentinel: last = 4 -> 2
class Count:
    def __init__(self):
        self.n = 0

    def __call__(self):
        self.n += 1
        return self.n


def f():
    c = Count()
    it = iter(c, last)
    return list(it), list(it), next(it, "end"), c.n


# %% next_with_default: f([5]); k = 1 -> 2
def gen():
    yield 1


class Forever:
    def __next__(self):
        return k


def f(xs):
    g, i = gen(), iter(xs)
    out = [next(g), next(g, "end"), next(g, None), next(i), next(i, "over"), next(Forever())]
    try:
        next(i)
    except StopIteration:
        out.append("stopped")
    return out


# %% callback_raises: f([1, 2]); bad = 9 -> 2 -> 1
def g(x):
    if x == bad:
        raise ValueError(x)
    return x


def f(xs):
    try:
        return list(map(g, xs))
    except ValueError:
        return "bad"


# %% callback_raises_out: change xs.append(0); undo xs.pop()
def f(xs):
    return [len(xs), sorted(xs, key=lambda x: 1 // x)]


def call():
    try:
        return f(xs)
    except ZeroDivisionError as error:
        return str(error)


xs = [1, 2]


# %% nested_comprehensions: skip = 2 -> 1; change rows.append([4]); undo rows.pop()
rows = [[1, 2], [3]]


def f():
    flat = [x for row in rows for x in row if x != skip]
    table = {i: {x: x * x for x in row} for i, row in enumerate(rows)}
    kinds = {type(x).__name__ for row in rows for x in row}
    return flat, table, kinds, [*map(len, rows)], (*rows[0], *rows[1])


# %% containers_from_generators: change names.append("ccc"); undo names.pop()
def pairs():
    for k in names:
        yield k, len(k)


names = ["a", "bb"]


def f():
    return (
        dict(pairs()),
        tuple(x for x, _ in pairs()),
        frozenset(n for _, n in pairs()),
        dict(pairs(), z=0),
        list(dict(a=1).items()),
    )


# %% unpacking_of_all_sorts: change xs[1] = "b"; undo xs[1] = 7
class It:
    def __init__(self, xs):
        self.xs = xs

    def __iter__(self):
        return iter(self.xs)


def gen():
    for x in xs:
        yield x


xs = [1, 2]


def f():
    a, b = gen()
    c, *d = It(xs)
    *e, g = gen()
    (h, *i), j = xs, "jk"
    k, l = "xy"
    m, (n, *o, p) = 1, (2, 3, 4, 5)
    q, r = {"u": 1, "v": 2}
    s, t = map(abs, [1, -2])
    return a, b, c, d, e, g, h, i, j, k, l, m, n, o, p, q, r, s, t


# %% unpacking_the_wrong_number: change xs.append(3); undo xs.append(4)
def f():
    try:
        a, b = xs
    except ValueError:
        return "wrong"
    try:
        a, *b, c, d = xs
    except ValueError:
        return "few", a, b
    return a, b, c, d


xs = [1, 2]


# %% iterating_strings: f(word); word = "abc" -> "zé"
def f(s):
    out = []
    for c in s:
        out.append(c)
    return out, list("xyz"), tuple(b"ab"), [*"hi"], set("aa"), sorted("bca"), dict(zip("ab", b"cd"))


# %% generator_inside_c_code_inside_a_generator: change sizes.append(5); undo sizes.pop()
def inner(n):
    for i in range(n):
        yield i


def outer():
    for i in sizes:
        yield sum(inner(i))


sizes = [2, 3]


def f():
    return max(outer()), list(map(sum, map(inner, sizes)))


# %% deques_iterated: f(3); k = 7 -> 8
from collections import deque


def f(n):
    ends = deque([1, 2, n])
    seen = [x for x in ends]
    ends.append(k)
    for x in ends:
        if x == n:
            break
        seen.append(x)
    ends.popleft()
    return seen, list(ends), sum(ends), max(ends), n in ends, ends[-1], len(ends)


# %% reversed_list_that_is_written: f(list(range(length)), 5); length = 4 -> 6 -> 1
def f(items, n):
    found = []
    iterator = reversed(items)
    found.append(next(iterator, None))
    items.append(n)
    found.append(next(iterator, None))
    items[0] = 99
    del items[-2:]
    found.extend(iterator)
    found.append(next(iterator, None))
    own = [n, 2, 3, 4]
    other = reversed(own)
    found.append(next(other))
    del own[1:]
    return found, items, list(other), type(other).__name__


# %% iterators_over_lists_that_shrink: f(k); k = 1 -> 2**70
made = []


def f(n):
    items = [n, 2, 3, 4]
    forth, back = iter(items), reversed(items)
    first = next(forth), next(forth), next(forth), next(back)
    del items[1:]
    made.append((items, forth, back))
    return first


def state():
    for items, forth, back in made:
        items.extend([7, 8, 9])
    found = [(list(forth), back.__length_hint__(), list(back)) for items, forth, back in made]
    made.clear()
    return found


# %% reversed_dict_that_is_written: f(dict.fromkeys(names), 3); names = "ab" -> "bn" -> "q"
def f(table, n):
    iterator = reversed(table)
    first = next(iterator)
    table["n"] = n
    try:
        rest = list(iterator)
    except RuntimeError as error:
        rest = str(error)
    return first, rest, table, reversed({n: 1, "k": 2}), reversed(range(n)), reversed((n, 1))


# %% iterators_over_ranges: f(low, low + 3); low = 2**63 - 1 -> 5 -> -(2**63)
def f(low, high):
    kinds = type(iter(range(low, high))).__name__, type(reversed(range(low, high))).__name__
    return kinds, [i - low for i in range(low, high)], list(reversed(range(low, high)))


# %% counting_from_a_bool: f(start); start = True -> Number(4) -> 1.5
import itertools


class Number(int):
    pass


def f(start):
    counter = itertools.count(start)
    return repr(next(counter)), repr(next(counter)), type(next(counter)).__name__


# %% asked_for_an_index_once: f(make(), Place(1), Place(2)); change make = lambda: "abcd"
asked = []


class Place:
    def __init__(self, n):
        self.n = n

    def __index__(self):
        asked.append(self.n)
        return self.n


def f(items, low, high):
    parts = [items[low:], items[:high], items[low:high], items[low]]
    if isinstance(items, list):
        items[low:high] = [0]
        del items[low:high]
    return parts, items


def make():
    return [1, 2, 3, 4]


def undo():
    global make
    make = lambda: (1, 2, 3, 4)


def state():
    said = asked[:]
    asked.clear()
    return said


# %% slices_of_iterators_that_others_take: leaves; f([3, 1, 2], n); n = 4 -> 1
import itertools


class Down:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        if self.n <= 0:
            raise StopIteration
        self.n -= 1
        return self.n


def f(items, n):
    print(n)
    first = set(itertools.islice(items, 3)), sorted(itertools.islice(items, 3))
    try:
        len(1)
    except TypeError as error:
        str(error)
    return first, sorted(itertools.islice(Down(n), 4), key=str), list(zip(itertools.islice(Down(n), 2), items))


# %% tuples_of_other_classes_backwards: k = 1 -> 5
class T(tuple):
    pass


class Items(tuple):
    def __getitem__(self, i):
        return "got", tuple.__getitem__(self, i)


class Length(tuple):
    def __len__(self):
        return 2


class Backwards(tuple):
    def __reversed__(self):
        return iter(("backwards", k))


def f():
    t = T((1, 2, k))
    pairs = list(zip(reversed(t), reversed(T((k, 4, 5)))))
    walk = reversed(t)
    first = next(walk)
    others = [list(reversed(kind((1, 2, k)))) for kind in (Items, Length, Backwards)]
    return list(reversed(t)), pairs, first, list(walk), others
