# ruff: noqa
"""Numbers, text and containers; each followed by a change of what was read or written."""

# %% integer_arithmetic: f(value); value = 3 -> -3; undo k = 0
k = 7


def f(x):
    return (
        x + k,
        x - k,
        x * k,
        x / k,
        x // k,
        x % k,
        x**2,
        -x,
        ~x,
        x << 2,
        x >> 1,
        x & k,
        x | k,
        x ^ k,
        divmod(x, k),
        abs(-x),
    )


# %% float_arithmetic: f(next(values)); undo pass
values = iter([1.5, 1.5, 2.5, -0.0, 0.0, float("inf"), float("nan"), float("nan"), -float("inf")])


def f(x):
    return x + 1, x * 2, x - x, -x, abs(x), x == x, x < 1, str(x), x.is_integer()


# %% negative_zero: f(1.0); k = 0.0 -> -0.0
import math


def f(x):
    return math.copysign(1, k), x * k, k == 0


# %% nan_constant: f(1.0); k = float("nan") -> float("nan")
def f(x):
    return k, x == k, k is k, [k] == [k], k in [k]


# %% infinity_constant: f(1.0); k = float("inf") -> -k
def f(x):
    return x < k, k - k, k


# %% big_integers: f(value); k = 2**70 -> 2**70 + 1; value = 5 -> -(2**63); undo value = 2**63 - 1
def f(x):
    return x + k, k // 3, hash(k), k == 2**70, x * 2**62, x << 63


# %% integer_overflow: f(next(values)); undo pass
values = iter([1, 1, 2**62, 2**63 - 1, 2**63, -(2**63), 0, -1, 2**62])


def f(x):
    return x + x, x * 3, -x, x - 2**62


# %% true_one_float: f(1); k = 1 -> True -> 1.0
def f(x):
    return k, x + k, {1: "int"}[k], type(k)


# %% complex_numbers: f(1 + 2j); k = complex(0.0, -0.0) -> complex(-0.0, 0.0)
def f(x):
    return x * k, x + k, abs(x), x.real, x.conjugate()


# %% conversions: f(value); value = "12" -> "077" -> "nine"
def f(x):
    return int(x), float(x), str(x), bool(x), x * 2, int(x, 8), repr(x)


# %% string_methods: f(value); sep = " " -> "o"
value = "Hello World"


def f(x):
    return (
        x.split(sep),
        x.lower(),
        x.replace("l", "L"),
        sep.join(["a", "b"]),
        x[1:4],
        x[::-1],
        x.startswith("He"),
        x.find("o"),
        "%s-%d" % (x, 3),
        "{}".format(x),
        x.encode(),
    )


# %% f_strings: f(2.5); width = 10 -> 4; undo who = None
who = "you"


def f(x):
    return f"{x!r} and {who:>{width}} {x + 1:.2f} {who!s} {x}{'nested' if x else ''}"


# %% list_methods: f([1, 2, 3])
def f(x):
    x.append(4)
    x.extend((5, 6))
    x.insert(0, 0)
    x.remove(4)
    last = x.pop()
    x.reverse()
    x[1:2] = ["slice"]
    del x[0]
    x += [7]
    x *= 2
    y = x.copy()
    x.sort(key=str)
    return last, x, y, x.index(7), x.count(7), x + [1], x == y


# %% list_of_global_read: f(0); change items[0] = "changed"; undo items.clear()
items = [1, 2, 3]


def f(i):
    return items[i], items[-1], len(items), items[1:], 2 in items


# %% list_index_argument: f(index); index = 0 -> 2; undo items.pop()
items = [10, 20, 30]


def f(i):
    return items[i]


# %% list_replaced: items = [1, 2] -> [5, 6]
def f():
    return items[0] + items[1]


# %% list_made_and_returned: f(1)
def f(x):
    a = [x, [x]]
    b = [a, a]
    a.append(b)
    return a, b, a[1]


# %% tuple_use: f(9); change pair[1].append(3)
pair = (1, [2])


def f(x):
    a, b = pair
    t = (x, *pair, x)
    return t, t[1:3], t + (1,), len(t), t == (x, 1, [2], x), t.index(x), hash((x, 1)), b


# %% constant_tuple_identity
def f():
    return (1, 2, 3), ()


# %% dict_methods: f({"old": 0})
def f(d):
    d["new"] = 1
    d.setdefault("list", []).append(2)
    d.update(a=1, b=2)
    d |= {"c": 3}
    first = d.pop("a")
    gone = d.pop("zzz", None)
    last = d.popitem()
    del d["b"]
    return (
        first,
        gone,
        last,
        d.get("new"),
        d.get("no", 0),
        "new" in d,
        len(d),
        list(d.items()),
        d | {"x": 1},
        {**d, "y": 2},
    )


# %% dict_of_global_read: f("a"); change table["a"] = "changed"; undo table["z"] = 26; undo del table["b"]
table = {"a": 1, "b": 2}


def f(k):
    return table[k], table.get("z"), "b" in table, len(table)


# %% dict_odd_keys: f(key); key = (1, 2) -> frozenset({1}); undo table[1] = "changed"
table = {1: "int", (1, 2): "tuple", 2.5: "float", None: "none", frozenset({1}): "set", b"x": "bytes"}


def f(k):
    return table[k], table[1], table[2.5], table[None], table[True]


# %% dict_made_and_returned: f(1)
def f(x):
    d = {"x": x, "list": [x]}
    d["self"] = d
    e = dict(d, more=1)
    return d, e, d.keys() == e.keys(), dict.fromkeys("ab", x)


# %% dict_views_kept: change table["b"] = 2
table = {"a": 1}
keys = table.keys()


def f():
    return list(keys), len(keys), "a" in keys


# %% dict_subclass_missing: f("b"); change d["b"] = 2; undo del D.__missing__; undo del d["b"]
class D(dict):
    def __missing__(self, key):
        return [key]


d = D(a=1)


def f(k):
    return d["a"], d[k], d.get(k)


# %% ordered_dict: change od.move_to_end("a"); undo od["c"] = 3
from collections import OrderedDict

od = OrderedDict(a=1, b=2)


def f():
    return list(od), list(od.items()), od["a"], [v for v in od.values()], next(iter(od))


# %% ordered_dict_written: f(1)
from collections import OrderedDict


def f(x):
    od = OrderedDict()
    od["x"] = x
    od["y"] = [x]
    od.move_to_end("x")
    return od, list(od), od.popitem(last=False)


# %% default_dict_counter_deque: leaves; f("k"); change dd.clear()
from collections import Counter, defaultdict, deque

dd = defaultdict(list)
dq = deque([1, 2], maxlen=3)


def f(x):
    dd[x].append(x)
    dq.append(x)
    return Counter("abca").most_common(1), dd, dq, dq[0], len(dd[x])


# %% sets: f(9); change known.add(9)
known = {1, 2}


def f(x):
    s = {x, 3}
    s.add(4)
    s.discard(x)
    s |= known
    return s, s & known, s - known, x in known, len(s), frozenset(s) == s, known <= s


# %% slices_and_ranges: f(value); value = [1, 2, 3, 4] -> "text"
def f(x):
    return (
        x[1:],
        x[:-1],
        x[::2],
        x[slice(1, 3)],
        range(3)[1],
        2 in range(5),
        len(range(0, 10, 3)),
        list(range(3, 0, -1)),
    )


# %% bytes_and_bytearray: f(b"ab")
def f(x):
    b = bytearray(x)
    b.append(65)
    return bytes(b), b[0], x[1:], x.hex(), memoryview(x)[0]


# %% identity_comparison: change b = object()
a = object()
b = a


def f():
    return a is b, a is not b, a == b


# %% none_checks: value = None -> 0 -> []
def f():
    return value is None, value or "default", value and 1, not value


# %% arguments_that_share_their_attributes: f(*made(share), 5); share = False -> True -> False
class A:
    pass


def made(shared):
    a, b = A(), A()
    a.__dict__ = {"n": 1}
    b.__dict__ = a.__dict__ if shared else {"n": 2}
    return a, b


def f(a, b, n):
    a.n = n
    first = b.n
    b.n = first + 1
    return first, a.n, b.n, a.__dict__ == b.__dict__


# %% arguments_that_share_their_attributes_from_the_start: stops; f(*made(share), 5); share = True -> False -> True
class A:
    pass


def made(shared):
    a, b = A(), A()
    a.__dict__ = {"n": 1}
    b.__dict__ = a.__dict__ if shared else {"n": 2}
    return a, b


def f(a, b, n):
    a.n = n
    first = b.n
    b.n = first + 1
    return first, a.n, b.n


# %% argument_that_is_the_dict_of_a_known_instance: share = False -> True -> False
class A:
    def __init__(self):
        self.n = 1


known = A()
vars(known)
other = {"n": 2}


def f(d, n):
    known.n = n
    first = d["n"]
    d["n"] = first + 1
    return first, known.n, d["n"]


def args():
    return (vars(known) if share else other), 5


# %% argument_that_is_the_dict_of_another: share = False -> True -> False
class A:
    def __init__(self):
        self.n = 1


def f(a, d, n):
    a.n = n
    first = d["n"]
    d["n"] = first + 1
    return first, a.n, d["n"]


def args():
    a = A()
    return a, (vars(a) if share else {"n": 2}), 5


# %% argument_that_is_the_dict_of_another_from_the_start: stops; share = True -> False -> True
class A:
    def __init__(self):
        self.n = 1


def f(d, a, n):
    d["n"] = n
    first = a.n
    a.n = first + 1
    return first, a.n, d["n"]


def args():
    a = A()
    return (vars(a) if share else {"n": 2}), a, 5


# %% aliased_containers: change table["b"] = [1]
shared = [1]
table = {"a": shared, "b": shared}


def f():
    table["a"].append(2)
    return table["a"] is table["b"], len(table["b"])


# %% nested_config: f(1); change config["model"]["layers"][1]["k"] = 5; undo config["model"]["layers"].append({"k": 0})
config = {"model": {"layers": [{"k": 1}, {"k": 2}]}}


def f(x):
    for layer in config["model"]["layers"]:
        x = x * layer["k"] + 1
    return x


# %% environment_and_time: stops; change os.environ["PIJIT_TEST_VARIABLE"] = "set"
import os
import random


def f():
    return os.environ.get("PIJIT_TEST_VARIABLE"), os.getpid() > 0


def undo():
    del os.environ["PIJIT_TEST_VARIABLE"]


# %% random_numbers: f(1); change random.seed(3)
import random


def f(x):
    return random.random(), random.randint(0, 9), random.Random(x).random(), random.choice([1, 2, 3])


def call():
    return f(1), random.getstate()[1][-1]


random.seed(1)


# %% files: f("line"); change os.unlink(path)
import os
import tempfile

path = os.path.join(tempfile.gettempdir(), f"pijit_program_{os.getpid()}")
if os.path.exists(path):
    os.unlink(path)


def f(x):
    with open(path, "a") as file:
        file.write(x)
    with open(path) as file:
        return file.read()


# %% set_with_another_table: f("name3")
names = {f"name{i}" for i in range(40)}


def f(name):
    return name in names, len(names), "name7" in names


def change():
    names.clear()
    names.update(f"name{i}" for i in reversed(range(40)))
    names.add("more")
    names.discard("more" if len(seen) else "name7")
    seen.append(None)


seen = []
