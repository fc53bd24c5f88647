# ruff: noqa
"""Classes and what they make: bases, metaclasses, methods and operators; each followed by a change of what was looked up."""


# %% class_reassigned: change o.__class__ = B; undo o.__class__ = A
class A:
    k = "A"

    def m(self):
        return 1


class B:
    k = "B"

    def m(self):
        return 2


o = A()


def f():
    return o.k, o.m(), isinstance(o, A), type(o) is A


# %% bases_reassigned: change C.__bases__ = (Base, B)
class A:
    k = "A"


class B:
    k = "B"


class Base:
    pass


class C(Base, A):
    pass


c = C()


def f():
    return c.k, isinstance(c, B)


# %% dataclass: f(1); change P.__init__.__defaults__ = (7, P.__init__.__defaults__[1])
from dataclasses import dataclass, field, replace


@dataclass
class P:
    x: int
    y: int = 2
    z: list = field(default_factory=list)

    def norm(self):
        return self.x**2 + self.y**2


def f(v):
    p = P(v)
    q = P(v, y=3)
    p.z.append(q)
    return p, p.norm(), p == q, q.norm()


# %% dataclass_frozen: f(1)
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class P:
    x: int
    y: int


def f(v):
    p, q = P(v, 1), P(1, v)
    return p, p < q, p == q, hash(p) == hash(P(v, 1))


# %% dataclass_slots_frozen_set: stops
from dataclasses import dataclass


@dataclass(frozen=True)
class P:
    x: int


def f():
    p = P(1)
    p.x = 2


# %% namedtuple: f(3); change P.__new__.__defaults__ = (9,)
from collections import namedtuple

P = namedtuple("P", "x y", defaults=(0,))


def f(v):
    p = P(v)
    q = p._replace(y=v)
    return p, q, p.x, q[1], q == (v, v)


# %% enum_members: f(key); change key = E.B; undo table[E.B] = "other"
import enum


class E(enum.Enum):
    A = 1
    B = 2


class I(enum.IntEnum):  # noqa: E742
    X = 1


table = {E.A: "a", E.B: "b"}
key = E.A


def f(x):
    return table[x], x is E.A, x.name, x.value, I.X + 1, I.X == 1


# %% super_calls: f(1); change A.m = lambda self: ["new A"]
class A:
    def __init__(self, x):
        self.x = x

    def m(self):
        return ["A", self.x]


class B(A):
    def __init__(self, x):
        super().__init__(x + 1)

    def m(self):
        return super().m() + ["B"]


class C(B):
    def m(self):
        return super(C, self).m() + ["C"]


def f(x):
    return C(x).m()


# %% super_mro_insert: change C.__bases__ = (B, Mixin)
class A:
    def m(self):
        return "A"


class B(A):
    def m(self):
        return "B" + super().m()


class Mixin(A):
    def m(self):
        return "Mixin" + super().m()


class C(B):
    pass


c = C()


def f():
    return c.m()


# %% classmethod_staticmethod: f(1); change C.stat = classmethod(lambda cls, x: (cls, x))
class C:
    k = 1

    @classmethod
    def make(cls, x):
        return cls, x + cls.k

    @staticmethod
    def stat(x):
        return x * 2


class D(C):
    k = 10


def f(x):
    return C.make(x), D.make(x), D().make(x), C.stat(x), D().stat(x)


# %% set_name_and_init_subclass: f(2)
log = []


class Field:
    def __set_name__(self, owner, name):
        self.name = name
        log.append(name)

    def __get__(self, instance, owner):
        return self.name if instance is None else instance.__dict__[self.name]

    def __set__(self, instance, value):
        instance.__dict__[self.name] = value


class C:
    x = Field()
    y = Field()

    def __init__(self, x):
        self.x = x
        self.y = self.x * 2


def f(x):
    c = C(x)
    return c, c.x + c.y


def change():
    C.y = Field()
    C.y.__dict__ if False else C.__dict__["y"].__set_name__(C, "z")


# %% new_returns_other: f(value); value = 1 -> 2
class C:
    def __new__(cls, x):
        if x > 1:
            return object.__new__(cls)
        return [x]

    def __init__(self, x):
        self.x = x


def f(x):
    return C(x)


# %% singleton_new: stops; change C.one = None
class C:
    one = None

    def __new__(cls):
        if cls.one is None:
            cls.one = super().__new__(cls)
        return cls.one

    def __init__(self):
        self.n = getattr(self, "n", 0) + 1


def f():
    return C(), C() is C()


# %% operators_overloaded: f(1)
class V:
    def __init__(self, v):
        self.v = v

    def __add__(self, other):
        return V(self.v + (other.v if isinstance(other, V) else other))

    def __radd__(self, other):
        return ("radd", other, self.v)

    def __iadd__(self, other):
        self.v += other
        return self

    def __eq__(self, other):
        return self.v == other

    def __lt__(self, other):
        return self.v < other.v

    def __getitem__(self, i):
        return self.v, i

    def __setitem__(self, i, value):
        self.v = (i, value)

    def __contains__(self, x):
        return x == self.v

    def __len__(self):
        return 3

    def __bool__(self):
        return self.v != 0

    def __neg__(self):
        return V(-self.v)

    def __hash__(self):
        return 1


def f(x):
    a, b = V(x), V(2)
    a += 5
    out = [a + b, a + 1, 1 + a, a == 6, a < b, a[1:2], 6 in a, len(a), bool(V(0)), -a, not a]
    b[0] = 7
    return out, b


def change():
    V.__add__ = lambda self, other: "changed"
    V.__bool__ = lambda self: False
    V.__len__ = lambda self: 4


# %% operator_falls_back: change del B.__radd__
class A:
    def __add__(self, other):
        return NotImplemented

    def __eq__(self, other):
        return NotImplemented


class B:
    def __radd__(self, other):
        return "radd"


a, b = A(), B()


def f():
    return a + b, a == b, a != b


# %% bool_or_len: change c.n = 2; undo C.__bool__ = lambda self: False
class C:
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n


c = C(0)


def f():
    return "full" if c else "empty"


# %% int_subclass: f(value); change value = 3; undo value = N(3); undo del N.__add__
class N(int):
    def __add__(self, other):
        return "mine"


value = N(3)


def f(x):
    return x + 1, x * 2, x == 3


# %% class_made_inside: f(2)
def f(x):
    class C:
        k = x

        def m(self):
            return self.k + x

    return C().m()


# %% type_of_and_isinstance: f(value); change value = A(); undo A.__call__ = lambda self: 1
class A:
    pass


class B(A):
    pass


value = B()


def f(x):
    return isinstance(x, A), isinstance(x, (int, B)), issubclass(type(x), A), type(x).__name__, callable(x)


# %% instancecheck_and_class_property: change M.answer = False
class M(type):
    answer = True

    def __instancecheck__(cls, x):
        return cls.answer


class C(metaclass=M):
    pass


class Liar:
    @property
    def __class__(self):
        return list


liar = Liar()


def f():
    return isinstance(1, C), isinstance(liar, list), isinstance(liar, Liar)


# %% abc_registered: change Base.register(C)
import abc
from collections.abc import Sized


class Base(abc.ABC):
    @abc.abstractmethod
    def m(self): ...


class C:
    def __len__(self):
        return 1


c = C()


def f():
    return isinstance(c, Base), isinstance(c, Sized)


# %% init_side_effects: f(1); change made.clear()
made = []


class C:
    def __init__(self, v):
        made.append(self)
        self.v = v


def f(x):
    c = C(x)
    d = C(c)
    return d.v is c, made[-1] is d, len(made)


# %% functions_bound_by_hand: f("text"); change g.__code__ = (lambda self, x: ("other", x)).__code__
import functools


def g(self, x):
    return type(self), self, x


def later(function, owner):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function.__get__(owner, owner.__class__)(*args, **kwargs)

    return wrapper


w = later(g, "owner")


def f(x):
    bound = g.__get__(x)
    return bound(2), bound.__self__ is x, bound.__func__ is g, type(bound), g.__get__(x, str)(x=3), w(4), w(x=5)


# %% function_bound_to_nothing
def g(self):
    return self


def f():
    found = g.__get__(None, int) is g
    try:
        g.__get__(None)(1)
        g.__get__(None, None)
    except TypeError as error:
        return found, str(error)


# %% generic_aliases: f(int)
def f(cls):
    return list[int], dict[str, cls] == dict[str, int], tuple[int, ...], list[cls]


# %% partials_and_slices_called: f(1); change part.keywords["by"] = 7; change items.append(5)
import functools


def scaled(x, y=1, *, by=2, **more):
    return (x + y) * by, sorted(more)


part = functools.partial(scaled, 3, by=5)
least = functools.partial(max, 2)
items = [1, 2, 3, 4]


def f(x):
    return part(x), part(x, by=1, more=2), least(x, 7), items[slice(x, None)], items[slice(2)], slice(1, x, 2)


def undo():
    global part
    part = functools.partial(scaled, 4, y=1)


# %% groups_of_what_a_class_makes: f(1); change chosen[0] = pickle.dumps(KeyboardInterrupt)
import pickle


def f(n):
    kind = pickle.loads(chosen[0])
    made = [kind(n), kind(2)]
    group = BaseExceptionGroup("g", made)
    return type(group), [type(each) for each in group.exceptions]


chosen = [pickle.dumps(ValueError)]
