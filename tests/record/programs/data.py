# ruff: noqa
"""Numbers, text and containers; each followed by a change of what was read or written."""

# %% integer_arithmetic
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


value = 3


def args():
    return (value,)


def change():
    global value
    value = -3


def undo():
    global k
    k = 0


# %% float_arithmetic
values = iter([1.5, 1.5, 2.5, -0.0, 0.0, float("inf"), float("nan"), float("nan"), -float("inf")])


def f(x):
    return x + 1, x * 2, x - x, -x, abs(x), x == x, x < 1, str(x), x.is_integer()


def args():
    return (next(values),)


def undo():
    pass


# %% negative_zero
import math

k = 0.0


def f(x):
    return math.copysign(1, k), x * k, k == 0


def args():
    return (1.0,)


def change():
    global k
    k = -0.0


# %% nan_constant
k = float("nan")


def f(x):
    return k, x == k, k is k, [k] == [k], k in [k]


def args():
    return (1.0,)


def change():
    global k
    k = float("nan")


# %% infinity_constant
k = float("inf")


def f(x):
    return x < k, k - k, k


def args():
    return (1.0,)


def change():
    global k
    k = -k


# %% big_integers
k = 2**70


def f(x):
    return x + k, k // 3, hash(k), k == 2**70, x * 2**62, x << 63


value = 5


def args():
    return (value,)


def change():
    global k, value
    k = 2**70 + 1
    value = -(2**63)


def undo():
    global value
    value = 2**63 - 1


# %% integer_overflow
values = iter([1, 1, 2**62, 2**63 - 1, 2**63, -(2**63), 0, -1, 2**62])


def f(x):
    return x + x, x * 3, -x, x - 2**62


def args():
    return (next(values),)


def undo():
    pass


# %% true_one_float
k = 1


def f(x):
    return k, x + k, {1: "int"}[k], type(k)


def args():
    return (1,)


def change():
    global k
    k = True


def undo():
    global k
    k = 1.0


# %% complex_numbers
k = complex(0.0, -0.0)


def f(x):
    return x * k, x + k, abs(x), x.real, x.conjugate()


def args():
    return (1 + 2j,)


def change():
    global k
    k = complex(-0.0, 0.0)


# %% conversions
value = "12"


def f(x):
    return int(x), float(x), str(x), bool(x), x * 2, int(x, 8), repr(x)


def args():
    return (value,)


def change():
    global value
    value = "077"


def undo():
    global value
    value = "nine"


# %% string_methods
value = "Hello World"
sep = " "


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


def args():
    return (value,)


def change():
    global sep
    sep = "o"


# %% f_strings
who = "you"
width = 10


def f(x):
    return f"{x!r} and {who:>{width}} {x + 1:.2f} {who!s} {x}{'nested' if x else ''}"


def args():
    return (2.5,)


def change():
    global width
    width = 4


def undo():
    global who
    who = None


# %% list_methods
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


def args():
    return ([1, 2, 3],)


# %% list_of_global_read
items = [1, 2, 3]


def f(i):
    return items[i], items[-1], len(items), items[1:], 2 in items


def args():
    return (0,)


def change():
    items[0] = "changed"


def undo():
    items.clear()


# %% list_index_argument
items = [10, 20, 30]
index = 0


def f(i):
    return items[i]


def args():
    return (index,)


def change():
    global index
    index = 2


def undo():
    items.pop()


# %% list_replaced
items = [1, 2]


def f():
    return items[0] + items[1]


def change():
    global items
    items = [5, 6]


# %% list_made_and_returned
def f(x):
    a = [x, [x]]
    b = [a, a]
    a.append(b)
    return a, b, a[1]


def args():
    return (1,)


# %% tuple_use
pair = (1, [2])


def f(x):
    a, b = pair
    t = (x, *pair, x)
    return t, t[1:3], t + (1,), len(t), t == (x, 1, [2], x), t.index(x), hash((x, 1)), b


def args():
    return (9,)


def change():
    pair[1].append(3)


# %% constant_tuple_identity
def f():
    return (1, 2, 3), ()


# %% dict_methods
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


def args():
    return ({"old": 0},)


# %% dict_of_global_read
table = {"a": 1, "b": 2}


def f(k):
    return table[k], table.get("z"), "b" in table, len(table)


def args():
    return ("a",)


def change():
    table["a"] = "changed"


def undo():
    table["z"] = 26
    del table["b"]


# %% dict_odd_keys
table = {1: "int", (1, 2): "tuple", 2.5: "float", None: "none", frozenset({1}): "set", b"x": "bytes"}
key = (1, 2)


def f(k):
    return table[k], table[1], table[2.5], table[None], table[True]


def args():
    return (key,)


def change():
    global key
    key = frozenset({1})


def undo():
    table[1] = "changed"


# %% dict_made_and_returned
def f(x):
    d = {"x": x, "list": [x]}
    d["self"] = d
    e = dict(d, more=1)
    return d, e, d.keys() == e.keys(), dict.fromkeys("ab", x)


def args():
    return (1,)


# %% dict_views_kept
table = {"a": 1}
keys = table.keys()


def f():
    return list(keys), len(keys), "a" in keys


def change():
    table["b"] = 2


# %% dict_subclass_missing
class D(dict):
    def __missing__(self, key):
        return [key]


d = D(a=1)


def f(k):
    return d["a"], d[k], d.get(k)


def args():
    return ("b",)


def change():
    d["b"] = 2


def undo():
    del D.__missing__
    del d["b"]


# %% ordered_dict
from collections import OrderedDict

od = OrderedDict(a=1, b=2)


def f():
    return list(od), list(od.items()), od["a"], [v for v in od.values()], next(iter(od))


def change():
    od.move_to_end("a")


def undo():
    od["c"] = 3


# %% ordered_dict_written
from collections import OrderedDict


def f(x):
    od = OrderedDict()
    od["x"] = x
    od["y"] = [x]
    od.move_to_end("x")
    return od, list(od), od.popitem(last=False)


def args():
    return (1,)


# %% default_dict_counter_deque: leaves
from collections import Counter, defaultdict, deque

dd = defaultdict(list)
dq = deque([1, 2], maxlen=3)


def f(x):
    dd[x].append(x)
    dq.append(x)
    return Counter("abca").most_common(1), dd, dq, dq[0], len(dd[x])


def args():
    return ("k",)


def change():
    dd.clear()


# %% sets
known = {1, 2}


def f(x):
    s = {x, 3}
    s.add(4)
    s.discard(x)
    s |= known
    return s, s & known, s - known, x in known, len(s), frozenset(s) == s, known <= s


def args():
    return (9,)


def change():
    known.add(9)


# %% slices_and_ranges
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


value = [1, 2, 3, 4]


def args():
    return (value,)


def change():
    global value
    value = "text"


# %% bytes_and_bytearray
def f(x):
    b = bytearray(x)
    b.append(65)
    return bytes(b), b[0], x[1:], x.hex(), memoryview(x)[0]


def args():
    return (b"ab",)


# %% identity_comparison
a = object()
b = a


def f():
    return a is b, a is not b, a == b


def change():
    global b
    b = object()


# %% none_checks
value = None


def f():
    return value is None, value or "default", value and 1, not value


def change():
    global value
    value = 0


def undo():
    global value
    value = []


# %% arguments_that_share_their_attributes
class A:
    pass


def made(shared):
    a, b = A(), A()
    a.__dict__ = {"n": 1}
    b.__dict__ = a.__dict__ if shared else {"n": 2}
    return a, b


share = False


def f(a, b, n):
    a.n = n
    first = b.n
    b.n = first + 1
    return first, a.n, b.n, a.__dict__ == b.__dict__


def args():
    return (*made(share), 5)


def change():
    global share
    share = True


def undo():
    global share
    share = False


# %% arguments_that_share_their_attributes_from_the_start: stops
class A:
    pass


def made(shared):
    a, b = A(), A()
    a.__dict__ = {"n": 1}
    b.__dict__ = a.__dict__ if shared else {"n": 2}
    return a, b


share = True


def f(a, b, n):
    a.n = n
    first = b.n
    b.n = first + 1
    return first, a.n, b.n


def args():
    return (*made(share), 5)


def change():
    global share
    share = False


def undo():
    global share
    share = True


# %% argument_that_is_the_dict_of_a_known_instance
class A:
    def __init__(self):
        self.n = 1


known = A()
vars(known)
other = {"n": 2}
share = False


def f(d, n):
    known.n = n
    first = d["n"]
    d["n"] = first + 1
    return first, known.n, d["n"]


def args():
    return (vars(known) if share else other), 5


def change():
    global share
    share = True


def undo():
    global share
    share = False


# %% argument_that_is_the_dict_of_another
class A:
    def __init__(self):
        self.n = 1


share = False


def f(a, d, n):
    a.n = n
    first = d["n"]
    d["n"] = first + 1
    return first, a.n, d["n"]


def args():
    a = A()
    return a, (vars(a) if share else {"n": 2}), 5


def change():
    global share
    share = True


def undo():
    global share
    share = False


# %% argument_that_is_the_dict_of_another_from_the_start: stops
class A:
    def __init__(self):
        self.n = 1


share = True


def f(d, a, n):
    d["n"] = n
    first = a.n
    a.n = first + 1
    return first, a.n, d["n"]


def args():
    a = A()
    return (vars(a) if share else {"n": 2}), a, 5


def change():
    global share
    share = False


def undo():
    global share
    share = True


# %% aliased_containers
shared = [1]
table = {"a": shared, "b": shared}


def f():
    table["a"].append(2)
    return table["a"] is table["b"], len(table["b"])


def change():
    table["b"] = [1]


# %% nested_config
config = {"model": {"layers": [{"k": 1}, {"k": 2}]}}


def f(x):
    for layer in config["model"]["layers"]:
        x = x * layer["k"] + 1
    return x


def args():
    return (1,)


def change():
    config["model"]["layers"][1]["k"] = 5


def undo():
    config["model"]["layers"].append({"k": 0})


# %% environment_and_time: stops
import os
import random


def f():
    return os.environ.get("PIJIT_TEST_VARIABLE"), os.getpid() > 0


def change():
    os.environ["PIJIT_TEST_VARIABLE"] = "set"


def undo():
    del os.environ["PIJIT_TEST_VARIABLE"]


# %% random_numbers
import random


def f(x):
    return random.random(), random.randint(0, 9), random.Random(x).random(), random.choice([1, 2, 3])


def args():
    return (1,)


def call():
    return f(1), random.getstate()[1][-1]


def change():
    random.seed(3)


random.seed(1)

# %% files
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


def args():
    return ("line",)


def change():
    os.unlink(path)


# %% set_with_another_table
names = {f"name{i}" for i in range(40)}


def f(name):
    return name in names, len(names), "name7" in names


def args():
    return ("name3",)


def change():
    names.clear()
    names.update(f"name{i}" for i in reversed(range(40)))
    names.add("more")
    names.discard("more" if len(seen) else "name7")
    seen.append(None)


seen = []
