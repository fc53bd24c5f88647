# ruff: noqa
"""Rules of built-in types and functions that are easily overlooked: what is given back itself, who asks whom, in which order."""


# %% full_slice_of_a_tuple_is_the_tuple: f(5)
def f(n):
    a = (n, n + 1)
    b = tuple([n])
    return (
        a[:] is a,
        a[0:2] is a,
        a[::1] is a,
        a[::-1] is a,
        a[:1] is a,
        a + () is a,
        a * 1 is a,
        tuple(a) is a,
        b[:] is b,
    )


# %% partial_of_a_partial: f(5); change OUTER.note = 3
import functools


def g(*a, **k):
    return a, tuple(k.items())


class Derived(functools.partial):
    pass


OUTER = functools.partial(g, 0, z=1)


def f(n):
    p = functools.partial(g, n, b=1, a=2)
    q = functools.partial(p, 2, a=3, c=4)
    s = Derived(p, 7)
    p.note = 1
    u = functools.partial(p, 9)
    all = p, q, s, u, OUTER, functools.partial(OUTER, n, y=2)
    return (
        [h(6, c=7, a=8, d=9) for h in all],
        [h.func is g for h in all],
        [h.args for h in all],
        [tuple(h.keywords.items()) for h in all],
    )


# %% mappings_with_keys: f("a")
class Pairs:
    def __init__(self, names):
        self.names = names

    def keys(self):
        return self.names

    def __getitem__(self, name):
        return name * 2


class Both(Pairs):
    def __iter__(self):
        return iter([("iterated", 1)])


class Renamed(dict):
    def keys(self):
        return ["renamed"]


class Iterating(dict):
    def __iter__(self):
        return iter(["iterated"])

    def keys(self):
        return ["renamed"]

    def __getitem__(self, name):
        return "got"


def f(name):
    made = []
    for source in (Pairs([name, "b"]), Both([name]), Renamed(a=1), Iterating(a=2)):
        d = {"z": 0}
        d.update(source)
        made += [d, {**source, "y": 1}, dict(source, w=1), (lambda **k: k)(**source)]
    return made


# %% groups_in_groups: f(5); change KEPT = ExceptionGroup("inner", [OSError(4)])
KEPT = ExceptionGroup("inner", [ValueError(3), OSError(4)])


def f(n):
    seen = []
    try:
        try:
            raise ExceptionGroup("outer", [ValueError(n), KEPT])
        except* ValueError as group:
            seen.append(repr(group.exceptions))
    except ExceptionGroup as rest:
        seen.append(repr(rest.exceptions))
    return seen


# %% order_in_which_variables_die: f(5)
died = []


class Noisy:
    def __init__(self, name):
        self.name = name

    def __del__(self):
        died.append(self.name)


def inner(n):
    a, b = Noisy("inner a"), Noisy("inner b")
    a = Noisy("inner a again")
    return n


def f(n):
    died.clear()
    a = Noisy("a")
    b = Noisy("b")
    c = [Noisy("c0"), Noisy("c1")]
    d = {"k": Noisy("d")}
    a = Noisy("a again")
    c.pop(0)
    d["k"] = Noisy("d again")
    inner(n)
    return n


def state():
    return list(died)


# %% references_are_counted: f(5)
import sys


def f(n):
    held = [n]
    other = held
    return sys.getrefcount(held) - sys.getrefcount([]), len(other)


# %% attributes_behind_a_descriptor: f(5)
calls = []


class Field:
    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, instance, owner=None):
        return self if instance is None else instance.__dict__[self.name]

    def __set__(self, instance, value):
        calls.append(value)
        instance.__dict__[self.name] = value

    def __delete__(self, instance):
        calls.append("deleted")
        del instance.__dict__[self.name]


class Record:
    field = Field()
    other = Field()

    @property
    def shown(self):
        return "property"


def f(n):
    calls.clear()
    made = Record()
    made.field = n
    made.other = n + 1
    del made.other
    made.__dict__["shown"] = n
    made.plain = made.field, made.shown
    return made, vars(made)


def state():
    return list(calls)


# %% there_is_one_empty_tuple: n = 3 -> 0.5
def all_of(*items):
    return items


def f(t, n):
    a = (n, n)
    return (
        (*t,) is t,
        a[2:] is t,
        tuple(x for x in t) is t,
        all_of() is t,
        all_of(*t) is t,
        a * 0 is t,
        tuple([]) is t,
        tuple(sorted(t)) is t,
        ValueError().args is t,
    )


def args():
    return (), n


# %% sum_of_nothing_is_another_number: f(items, k); change k = -0.0; undo items, k = [10**20], 10**20
def f(t, a):
    return sum(t, a) is a, sum(t, a), sum([], [a]), sum((), ())


items, k = (), 1234.5


# %% moved_to_an_end_a_key_stays_what_it_is: f(key); key = True -> 2.0
from collections import OrderedDict


def f(key):
    table = OrderedDict({1: "a", 2: "b", 3.0: "c"})
    table.move_to_end(key)
    table.move_to_end(3, last=False)
    return list(table.items())


# %% whoever_is_asked_for_attributes_has_them: f(Open()); n = 1 -> 2
class Open:
    def __getattribute__(self, name):
        if name == "missing":
            raise AttributeError(name)
        return "value of " + name

    def __getattr__(self, name):
        if n == 2:
            raise AttributeError(name)
        return "other"


def f(o):
    return hasattr(o, "w"), hasattr(o, "missing"), getattr(o, "w", 3), getattr(o, "missing", 4), o.w


# %% replaced_import: leaves; change used = hook; undo used = original
import builtins

called, original = [], builtins.__import__


def hook(name, *rest):
    if name in ("json", "os"):
        called.append(name)
    return original(name, *rest)


def f():
    import json
    from os import path

    return json.__name__, path.__name__


def call():
    builtins.__import__ = used
    try:
        return f()
    finally:
        builtins.__import__ = original


used = original


def state():
    said = called[:]
    called.clear()
    return said


# %% the_least_is_the_object_itself: leaves; f([[1], [2]], [[k]], print); change n, k = 2.5, 1
import functools
import itertools
import operator


def f(a, b, say):
    both = (a, b)
    seen = [
        max(a, b) is b,
        min([a, b]) is a,
        min(both) is a,
        list(map(max, [a], [b]))[0] is b,
        functools.reduce(operator.add, [a, b], [])[0] is a[0],
        operator.add(a, b)[0] is a[0],
        operator.mul(a, 2)[-1] is a[-1],
        operator.concat(a, b)[0] is a[0],
        operator.iadd(a, [[9]]) is a,
        both.__getitem__(0) is a,
        both.__add__(both)[2] is a,
        [x is b for x in itertools.accumulate([a, b], max)],
    ]
    max(a, b).append(n)
    say(both)
    seen += min(both, (b, a)) is both, max(a, b) is b, both is both, both < (b, a)
    own, other = [n], [n + 1]
    most = max(own, other)
    most.append(3)
    return seen, a, b, most is other, other, min([], default=own) is own


n, k = 4, 7
