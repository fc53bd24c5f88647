# ruff: noqa
"""Keys whose classes hash and compare in Python, and weak references; each followed by a change of what was found."""


# %% str_subclass_key: f(key); key = "key" -> S("key") -> "".join(["k", "ey"])
class S(str):
    def __hash__(self):
        return hash("other")

    def __eq__(self, other):
        return other == "other"


table = {"other": 1, "key": 2}


def f(x):
    return table[x]


# %% weak_reference: change c = C()
import weakref


class C:
    pass


c = C()
c.v = 1
r = weakref.ref(c)


def f():
    return r() is c, r().v


# %% instance_as_key: change table[K(2)] = "two"
class K:
    def __init__(self, v):
        self.v = v

    def __hash__(self):
        return hash(self.v)

    def __eq__(self, other):
        log.append("eq")
        return isinstance(other, K) and self.v == other.v


log = []
table = {K(1): "one"}


def f():
    return table[K(1)], K(2) in table


# %% weakrefs_called: change a = A(); undo r = weakref.ref(a)
import weakref


class A:
    pass


a = A()
r = weakref.ref(a)


def f():
    return r() is a, r() is None, weakref.ref(a)() is a


# %% weakref_of_what_dies_inside: stops
import weakref


class A:
    pass


def f(held):
    r = held[0]
    alive = r() is not None
    del held[1]
    return alive, r() is None


def args():
    a = A()
    return ([weakref.ref(a), a],)


# %% weakrefs_looked_into: f(3); change a.v = 5; undo r = weakref.ref(b)
import weakref


class A:
    v = 1

    def __init__(self):
        self.count = 0

    def twice(self, x):
        self.count += 1
        return 2 * x + self.v


a, b = A(), A()
r = weakref.ref(a)


def f(x):
    o = r()
    return o.twice(x), o.count > 0, r() is o, type(r())


# %% weakref_of_what_has_died: change a = None
import weakref


class A:
    v = 1


a = A()
r = weakref.ref(a)


def f():
    o = r()
    return "gone" if o is None else o.v


# %% weakref_after_a_write: leaves; change h.o, a = a, None
import weakref


class A:
    pass


class H:
    pass


a, h = A(), H()
r = weakref.ref(a)


def f():
    h.o = None
    o = r()
    return o is None


def call():
    if a is not None:
        h.o = a
    return f()


# %% keys_hashed_in_python: f(3); change d[m] = "three"; undo K.__hash__ = lambda self: self.n + 0
import collections


class K:
    def __init__(self, n):
        self.n, self.asked = n, 0

    def __hash__(self):
        self.asked += 1
        return self.n


k, m = K(7), K(2**70)
d = {k: [1], m: "two"}
e = collections.defaultdict(list, d)


def f(x):
    e[k].append(x)
    return d[k][-1], d[m], len(e[k]), len(d), k.asked, m.asked


# %% fresh_set_of_keys_hashed_in_python: change many.append(many[0]); undo many.append(K(4)); undo del many[0]
class K:
    def __init__(self, n):
        self.n = n

    def __hash__(self):
        return id(self)

    def __eq__(self, other):
        raise RuntimeError("nobody asks")


many = [K(1), K(2), K(3)]


def f():
    memo, out = set(), []
    for k in many:
        if k is None or k in memo:
            continue
        memo.add(k)
        out.append(k.n)
    return out, len(memo), many[0] in memo, K(1) not in memo


# %% fresh_set_of_keys_hashed_in_python_escapes: x = 1 -> -1; undo K.__hash__ = lambda self: 7
class K:
    def __init__(self, n):
        self.n = n

    def __hash__(self):
        return id(self)


a, b = K(1), K(2)
made = []


def f(x):
    memo = set()
    memo.add(a)
    memo.add(b)
    memo.add(a)
    memo.add(x)
    if x < 0:
        made.append(memo)
    return len(memo), [].__len__(), sum(1 for _ in memo), a in frozenset(memo)


def call():
    result = f(x)
    return result, [len(other) for other in made], [a in other and b in other for other in made]


# %% keys_hashed_in_python_are_missing: change d.clear(); undo k.n = 8; undo d[k] = 3
import collections


class K:
    def __init__(self, n):
        self.n = n

    def __hash__(self):
        return self.n


k = K(7)
d = {k: 1}
e = collections.defaultdict(list)


def f():
    e[k].append(1)
    try:
        return len(e[k]), d[k]
    except KeyError as error:
        return error.args[0] is k


# %% keys_hashed_in_python_that_collide: change d[b] = 4; undo b.name = "a"
class K:
    def __init__(self, name):
        self.name = name

    def __hash__(self):
        return 5

    def __eq__(self, other):
        asked.append(self.name)
        return self.name == other.name


asked = []
a, b = K("a"), K("b")
d = {a: 1, b: 2}


def f():
    return d[a], d[b], d[K("b")], len(asked) > 0


# %% addresses_of_arguments_among_keys: n = 1 -> 2
def f(x):
    table = {id(x): n, "x": 2}
    number = noted.pop()
    return number in table, number in {id(x)}, table.get(number), float(number) in table


def args():
    noted.append(id(only))
    return (only,)


only = [1]
noted = []
