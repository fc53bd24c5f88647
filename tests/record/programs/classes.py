# ruff: noqa
"""Classes of the standard library: named tuples, data classes, enumerations, default dicts, deques, counters."""

# %% named_tuples: f(k); k = 3 -> 4
from collections import namedtuple

P = namedtuple("P", "x y", defaults=(0,))
given = P(1, 2)


def f(n):
    p = P(n, 2)
    q = p._replace(x=5)
    x, y = q
    return p.x + p.y, q, p[0], x, y, p == (n, 2), P._make([1, n]), given.x, P(n).y, p + (1,), len(p), p._fields


# %% data_classes: f(k); k = 2 -> 3; change base.steps = 7
from dataclasses import dataclass, field


@dataclass(order=True)
class C:
    lr: float
    steps: int = 10
    tags: list = field(default_factory=list)

    @property
    def total(self):
        return self.lr * self.steps


base = C(0.5)


def f(n):
    c = C(n, tags=["a"])
    c.steps += 1
    c.tags.append(n)
    return c, c.total, c == C(n), c < C(n + 1), base.total, C(n) == C(n), c.tags is base.tags


# %% frozen_data_class_as_key: f(3); change table["x"] = 2
from dataclasses import dataclass


@dataclass(frozen=True)
class Key:
    a: int


table = {"x": 1}


def f(n):
    key = Key(n)
    try:
        key.a = 5
    except AttributeError:
        return key.a, table["x"]


# %% enumerations: f(k); change chosen, k = Color.BLUE, 7
import enum


class Color(enum.Enum):
    RED = 1
    BLUE = 2

    @property
    def warm(self):
        return self is Color.RED


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5


chosen = Color.RED


def f(n):
    return (
        Color.RED,
        Color.BLUE.value,
        Color.RED.name,
        chosen is Color.RED,
        chosen == Color.BLUE,
        chosen.warm,
        Level.HIGH > n,
        Level.LOW + n,
    )


k = 3


# %% simple_classes_with_slots: f(k); change shared.a = 6
class S:
    __slots__ = ("a", "b")

    def __init__(self, a):
        self.a = a


shared = S(5)


def f(n):
    s = S(n)
    s.b = [n]
    try:
        shared.b
        has = True
    except AttributeError:
        has = False
    return s, s.a, s.b, hasattr(s, "b"), getattr(s, "c", "none"), shared.a


k = 3


# %% class_attribute_written_around_foreign_code: stops; f("a b"); change C.count = 100; undo C.seen = []
import string


class C:
    count = 0
    seen = []

    def step(self, x):
        C.count += 1
        string.capwords(x)
        self.seen.append(x)
        C.count += 10
        return C.count, self.count


c = C()


def f(x):
    return c.step(x), len(C.seen)
