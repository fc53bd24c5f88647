# ruff: noqa
"""Tuples of classes that have a place for attributes: made in the call, passed in, given attributes, and left behind."""

# %% made_and_returned: f(3); k = 1 -> 5
from collections import namedtuple


class P(namedtuple("P_", "x y")):
    scale = 2

    def __new__(cls, x, y=None):
        return super().__new__(cls, x, k if y is None else y)

    def total(self):
        return (self.x + self.y) * self.scale

    @property
    def first(self):
        return self[0]


def f(v):
    p, q = P(v), P(v, 7)
    return p, type(p), p.total(), q.first, p._replace(x=9), p == (v, k), hash(q) == hash((v, 7)), [*p, *q], vars(p)


# %% passed_in: f(P([1, k])); k = 1 -> 5
class P(tuple):
    scale = 2

    def total(self):
        return sum(self) * self.scale


def f(p):
    a, b = p
    return p, a, b, p.total(), p.scale, len(p), p[1], p + p, type(p + p), P(p), isinstance(p, tuple), p.__class__


# %% an_argument_has_attributes: f(made()); k = 1 -> 2 -> 1
class P(tuple):
    scale = 2


def made():
    p = P([1, 2])
    if k == 2:
        p.scale = 7
        p.more = 3
    return p


def f(p):
    return p.scale, getattr(p, "more", None), hasattr(p, "other"), p[0] * p.scale, dict(vars(p))


# %% given_attributes: f(3); k = 1 -> 5
class P(tuple):
    scale = 2

    def twice(self):
        return self.scale * 2


def f(v):
    p = P((v, k))
    before = p.twice()
    p.scale = k
    p.note = [v]
    after = p.twice()
    del p.scale
    return before, after, p.twice(), p, p.note, vars(p)


# %% foreign_code_gives_attributes: f(3); k = 1 -> 5
class P(tuple):
    scale = 2


def note(p):
    exec("p.scale = k", {"p": p, "k": k})


def f(v):
    p, q = P((v, k)), P((k,))
    before = p.scale
    note(p)
    return before, p.scale, q.scale, p[1] + v, p, q


# %% the_class_changes: f(3); change P.scale = 9; undo P.scale = 2
class P(tuple):
    scale = 2


def f(v):
    p = P([v, 4])
    return p.scale * p[0], p


# %% a_field_is_no_attribute: f(3); k = 1 -> 5
from typing import NamedTuple


class Base(NamedTuple):
    data: int
    sizes: int = 4


class P(Base):
    def to(self, d):
        return type(self)(self.data + d, self.sizes)


def f(v):
    p = P(v, sizes=k)
    q = p.to(k)
    try:
        p.data = 3
    except AttributeError as error:
        told = str(error)
    return p, q, q.data, told, p != q, sorted([q, p]), {p: q}[p]
