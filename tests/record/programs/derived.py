# ruff: noqa
"""Containers of classes that are derived from built-in ones, which come in as arguments: loaded item by item."""


# %% a_derived_dict_is_read: f(B(v=1.5, u=2)); k = 1 -> 5
class B(dict):
    def total(self):
        return sum(self.values()) * k


def f(d):
    return (
        d["v"] + k,
        d.get("u"),
        d.get("x"),
        len(d),
        "v" in d,
        list(d),
        [*d.items()],
        d.total(),
        {**d},
        dict(d),
        bool(d),
    )


# %% a_derived_dict_is_written: f(B(v=1.5, u=2)); k = 1 -> 5
class B(dict):
    def __setitem__(self, key, value):
        super().__setitem__(key, value * k)
        self.last = key


def f(d):
    d["v"] = d["v"] + 1
    d["w"] = 3
    d.update(x=5, y=k)
    d.setdefault("z", k)
    del d["u"]
    return d, d.last, d.pop("x"), list(d.items()), sorted(vars(d).items())


# %% a_derived_dict_is_cleared: f(B(v=1.5, u=2)); k = 1 -> 5
class B(dict):
    pass


def f(d):
    before = dict(d)
    d.clear()
    d["k"] = k
    return before, d, len(d), d.popitem()


# %% a_missing_item: f(M(v=1.5)); k = 1 -> 5
class M(dict):
    def __missing__(self, key):
        self[key] = value = key * k
        return value


def f(d):
    return d["a"], d["v"], d["b"] + d["a"], list(d), "c" in d, d


# %% an_ordered_dict_is_written: f(OrderedDict(v=1.5, u=2, w=3)); k = 1 -> 5
from collections import OrderedDict


def f(d):
    d["u"] = d["u"] + k
    d["x"] = k
    first = [(key, d[key]) for key in d]
    d.move_to_end("v")
    d.move_to_end("x", last=False)
    return first, list(d), list(reversed(d)), d.popitem(), d.popitem(last=False), d, d == OrderedDict(u=2 + k, w=3)


# %% a_class_derived_from_an_ordered_dict: f(O(v=1.5, u=2, w=3)); k = 1 -> 5
from collections import OrderedDict


class O(OrderedDict):
    def __init__(self, **items):
        super().__init__(**items)
        self.note = 7


def f(d):
    d.note = d.note + k
    d["u"] = d["u"] + k
    d["x"] = d.note
    walked = [(key, value) for key, value in d.items()]
    d.move_to_end("v")
    del d["w"]
    return walked, list(d), list(d.values()), d.note, vars(d), {**d}, d


# %% a_default_dict_is_filled: f(defaultdict(list, v=[1.5])); k = 1 -> 5
from collections import defaultdict


def f(d):
    d["v"].append(k)
    d["u"].append(k + 1)
    d["w"] = d["u"] + d["v"]
    return d, d.default_factory, list(d), "x" in d, d.get("y")


# %% items_that_mirror_attributes: f(Out(v=1.5, u=2)); k = 1 -> 5
from collections import OrderedDict
from dataclasses import dataclass, fields


class Base(OrderedDict):
    def __post_init__(self):
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None:
                self[field.name] = value

    def __getitem__(self, key):
        return dict(self.items())[key] if isinstance(key, str) else self.to_tuple()[key]

    def __setattr__(self, name, value):
        if name in self.keys() and value is not None:
            super().__setitem__(name, value)
        super().__setattr__(name, value)

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        super().__setattr__(key, value)

    def to_tuple(self):
        return tuple(self[key] for key in self.keys())


@dataclass
class Out(Base):
    v: object = None
    u: object = None
    w: object = None


def f(d):
    d.v = d.v * k
    d["w"] = d["v"] + d[1]
    return d, d.w, d[0], d[:2], list(d), {**d}, [d[key] for key in d], d.to_tuple(), vars(d)


# %% a_mapping_is_merged: f(M(2)); k = 1 -> 5
seen = []


class M:
    def __init__(self, n):
        self.n = n

    def keys(self):
        seen.append("keys")
        return (name * k for name in "ab"[: self.n])

    def __getitem__(self, key):
        seen.append(key)
        return len(key) + self.n


def g(**more):
    return sorted(more.items())


def f(m):
    del seen[:]
    made = {"z": 0}
    made.update(m)
    return {**m}, {"first": 1, **m, "last": 2}, dict(m), g(**m), made, list(seen)


# %% a_mapping_that_raises: f(M()); k = 1 -> 5
class M:
    def keys(self):
        return ["a", "b" * k]

    def __getitem__(self, key):
        if len(key) > 1:
            raise KeyError(key)
        return 1


def f(m):
    made = {"z": 0}
    try:
        made.update(m)
    except KeyError as error:
        return made, str(error)
    try:
        return {**m, "x": k}
    except KeyError as error:
        return made, str(error)


# %% a_derived_list_is_read: f(L([1.5, 2, 3])); k = 1 -> 5
class L(list):
    def total(self):
        return sum(self) * k


def f(l):
    a, *b = l
    return (
        l[0] + k,
        l[-1],
        l[1:],
        len(l),
        2 in l,
        [*l],
        a,
        b,
        l.total(),
        list(reversed(l)),
        tuple(l),
        bool(l),
        l == [1.5, 2, 3],
    )


# %% a_derived_list_is_written: f(L([1.5, 2, 3])); k = 1 -> 5
class L(list):
    def __init__(self, items):
        super().__init__(items)
        self.note = 7

    def append(self, item):
        super().append(item * k)
        self.note += 1


def f(l):
    l.append(2)
    l[0] = l[1] + k
    l.extend([8, 9])
    l.insert(1, k)
    del l[2]
    l.more = l.note * 2
    return l, l.pop(), l.pop(0), l.note, l.more, sorted(vars(l).items()), len(l)


# %% derived_containers_within_others: f({"b": B(l=L([1, 2])), "o": OrderedDict(x=B(y=3))}); k = 1 -> 5
from collections import OrderedDict


class B(dict):
    pass


class L(list):
    pass


def f(given):
    b = given["b"]
    b["l"].append(k)
    b["n"] = given["o"]["x"]["y"] + k
    given["o"]["x"].seen = k
    given["o"]["z"] = b["l"]
    return given, b["l"][-1], vars(given["o"]["x"])


# %% the_same_derived_dict_twice: k = 1 -> 5
class B(dict):
    pass


def f(a, b):
    a["v"] = k
    return b["v"] + 1, a, b, a is b


def args():
    one = B(v=2)
    return one, one if k == 1 else B(v=2)


# %% a_derived_dict_and_foreign_code: f(B(v=2)); k = 1 -> 5
import copy
import pickle


class B(dict):
    pass


def f(d):
    d["u"] = k
    other = pickle.loads(pickle.dumps(d)) if k > 1 else copy.copy(d)
    d["v"] = other["u"] + d["v"]
    other["w"] = d["v"]
    return d, other, type(other).__name__, {**other}


# %% a_derived_dict_that_keeps_its_class: f(B(v=2)); change B.__getitem__ = lambda self, key: 9; undo del B.__getitem__
class B(dict):
    pass


def f(d):
    return d["v"] + 1, [*d], d


# %% a_derived_list_that_keeps_its_class: f(L([2])); change L.__len__ = lambda self: 9; undo del L.__len__
class L(list):
    pass


def f(l):
    return l[0] + 1, [*l], len(l), bool(l)


# %% a_struct_sequence: f(time.gmtime(86400 * k)); k = 1 -> 5
import time


def f(t):
    return t[2] * k, t.tm_year + 1, len(t), t[:2], [*t][0], t[2] in t, t == tuple(t)
