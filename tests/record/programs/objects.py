# ruff: noqa
"""Classes, instances and their attributes; each followed by a change of what was looked up."""


# %% class_attribute_changed: change C.k = 5
class C:
    k = 2


c = C()


def f():
    return c.k, C.k


# %% class_attribute_through_base: change A.k = 2; undo B.k = 3
class A:
    k = 1


class B(A):
    pass


class D(B):
    pass


d = D()


def f():
    return d.k


# %% instance_attribute_changed: change c.v = "two"; undo del c.v
class C:
    def __init__(self):
        self.v = 1


c = C()


def f():
    return c.v


# %% instance_attribute_added: change c.w = 3; undo c.v = 4; undo del c.w
class C:
    v = 1


c = C()


def f():
    return c.v, hasattr(c, "w"), getattr(c, "w", None)


# %% instance_attribute_of_argument: f(now); change now = two; undo now = one; undo one.v = 11
class C:
    def __init__(self, v):
        self.v = v


one, two = C(1), C([2])
now = one


def f(x):
    return x.v


# %% attribute_stored: f(1); change C.second = "class"
class C:
    pass


c = C()


def f(x):
    c.first = x
    c.second = c.first + 1
    x = c.second
    del c.first
    return x


# %% attribute_counted: change c.n = 100
class C:
    def __init__(self):
        self.n = 0

    def bump(self):
        self.n += 1
        return self.n


c = C()


def f():
    return c.bump() + c.bump()


# %% method_shadowed_on_instance: change object.__setattr__(c, "m", lambda: "instance"); undo del c.m
class C:
    def m(self):
        return "class"


c = C()


def f():
    return c.m()


# %% method_replaced_on_class: change C.m = lambda self: ["new", self]; undo C.m = staticmethod(lambda: "static")
class C:
    def m(self):
        return "class"


c = C()


def f():
    return c.m()


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


# %% dict_replaced: change c.__dict__ = {"v": 2}
class C:
    pass


c = C()
c.v = 1


def f():
    return c.v


# %% dict_written_directly: change c.__dict__["v"] = 2
class C:
    pass


c = C()
c.v = 1


def f():
    return c.v, vars(c)["v"]


# %% property: f(10); change C.v = property(lambda self: "replaced", lambda self, value: None)
class C:
    def __init__(self):
        self._v = 1

    @property
    def v(self):
        return self._v * 2

    @v.setter
    def v(self, value):
        self._v = value + 1


c = C()


def f(x):
    c.v = x
    c.v += 1
    return c.v, c._v


# %% property_without_setter: change del C.v
class C:
    @property
    def v(self):
        return 1


c = C()


def f():
    c.v = 2


# %% property_raises_attribute_error: change del C.__getattr__
class C:
    @property
    def v(self):
        return self.missing

    def __getattr__(self, name):
        return name + "?"


c = C()


def f():
    return c.v


# %% slots: change c.a = 5; undo del c.a
class C:
    __slots__ = ("a", "b")


c = C()
c.a = 1


def f():
    c.b = c.a + 1
    return c.b, hasattr(c, "a")


# %% slots_read_only: change c.a = 2; undo del c.a
class C:
    __slots__ = ("a",)


c = C()
c.a = 1


def f():
    return c.a


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


# %% getattr_fallback: change c.table["b"] = 2; undo c.b = 3; undo c.table["a"] = 4
class C:
    def __init__(self):
        self.table = {"a": 1}

    def __getattr__(self, name):
        try:
            return self.table[name]
        except KeyError:
            raise AttributeError(name) from None


c = C()


def f():
    return c.a, hasattr(c, "b"), getattr(c, "b", 0)


# %% getattribute: change c.v = 10; undo del C.__getattribute__
class C:
    def __init__(self):
        self.v = 1

    def __getattribute__(self, name):
        found = object.__getattribute__(self, name)
        return found + 1 if name == "v" else found


c = C()


def f():
    return c.v


# %% setattr_delattr: f(4); change del C.__setattr__
log = []


class C:
    def __setattr__(self, name, value):
        log.append((name, value))
        object.__setattr__(self, name, value)

    def __delattr__(self, name):
        log.append(name)
        super().__delattr__(name)


c = C()


def f(x):
    c.v = x
    del c.v
    setattr(c, "w", x)
    return c.w


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


# %% descriptor_replaced: change C.__dict__["d"].v = 2; undo C.d = 3
class Get:
    def __init__(self, v):
        self.v = v

    def __get__(self, instance, owner):
        return self.v, instance is None


class C:
    d = Get(1)


c = C()


def f():
    return c.d, C.d


# %% descriptor_becomes_data: change Get.__set__ = lambda self, instance, value: None; undo del Get.__set__
class Get:
    def __get__(self, instance, owner):
        return "descriptor"


class C:
    d = Get()


c = C()
c.d = "instance"


def f():
    return c.d


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


# %% metaclass_attribute: f(1); change M.k = "other"; undo C.k = "own"
class M(type):
    k = "meta"

    def hello(cls):
        return cls.__name__

    def __call__(cls, *args):
        made = super().__call__(*args)
        made.tag = M.k
        return made


class C(metaclass=M):
    def __init__(self, v=0):
        self.v = v


def f(x):
    return C.k, C.hello(), C(x)


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


# %% str_subclass_key: f(key); key = "key" -> S("key") -> "".join(["k", "ey"])
class S(str):
    def __hash__(self):
        return hash("other")

    def __eq__(self, other):
        return other == "other"


table = {"other": 1, "key": 2}


def f(x):
    return table[x]


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


# %% weak_reference: change c = C()
import weakref


class C:
    pass


c = C()
c.v = 1
r = weakref.ref(c)


def f():
    return r() is c, r().v


# %% cached_property: change del c.v
import functools

log = []


class C:
    @functools.cached_property
    def v(self):
        log.append("computed")
        return [1]


c = C()


def f():
    return c.v


# %% instance_with_many_attributes: change c.a39 = 100; undo del c.a0
class C:
    pass


c = C()
for i in range(40):
    setattr(c, f"a{i}", i)


def f():
    return c.a0 + c.a39


# %% container_in_class: stops; f(1); change c.seen = []
class C:
    seen = []

    def m(self, x):
        self.seen.append(x)
        return len(self.seen)


c = C()


def f(x):
    return c.m(x)


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


# %% dict_of_a_fresh_instance: leaves; f(3); k = 1 -> 5
class Thing:
    pass


def f(n):
    thing = Thing()
    own = thing.__dict__
    thing.a = n
    same = own is thing.__dict__
    own["b"] = k
    kept.append(thing)
    print(kept[-1].b)
    kept.clear()
    own["c"] = thing.a + thing.b
    return same, own is thing.__dict__, thing.c, list(own.items())


kept = []


# %% dict_of_an_instance_changed_by_foreign_code: leaves; f(3); k = 1 -> 5
class Thing:
    pass


def f(n):
    thing = Thing()
    own = thing.__dict__
    thing.a = n
    kept.append(thing)
    fill()
    kept.clear()
    return own["a"], own.get("b"), thing.a, own is thing.__dict__


def fill():
    exec("kept[0].a += k; kept[0].b = k", globals())


kept = []


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


# %% groups_of_what_a_class_makes: f(1); change chosen[0] = pickle.dumps(KeyboardInterrupt)
import pickle


def f(n):
    kind = pickle.loads(chosen[0])
    made = [kind(n), kind(2)]
    group = BaseExceptionGroup("g", made)
    return type(group), [type(each) for each in group.exceptions]


chosen = [pickle.dumps(ValueError)]
