# ruff: noqa
"""Attributes: where they are looked up, and who answers; each followed by a change of what was found."""


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


# %% classes_that_derive_from_property: k = 1 -> 5
class lazy(property):
    pass


class kept(property):
    def __init__(self, get, more=None):
        property.__init__(self, get)
        self.more = more


class X:
    def __init__(self):
        self.v = 3

    @lazy
    def a(self):
        return self.v + k

    @lazy
    def b(self):
        "how many"
        return self._b

    @b.setter
    def b(self, value):
        self._b = value * k

    @b.deleter
    def b(self):
        del self._b

    @lazy
    def fails(self):
        return self.nothing


def g(self):
    "said of g"
    return k


def f():
    x = X()
    x.b = 4
    seen = [x.a, x.b, type(X.a).__name__, X.b.__doc__]
    del x.b
    made = kept(g, more=k)
    seen += [hasattr(x, "b"), hasattr(x, "fails"), isinstance(made, property), made.fget(x), made.__doc__, made.more]
    try:
        x.a = 1
    except AttributeError as error:
        seen.append(type(error).__name__)
    return seen


# %% a_class_that_derives_from_property_gets_a_getter: k = 1 -> 5
class lazy(property):
    pass


class X:
    @lazy
    def a(self):
        return k


def f():
    if k == 5:
        lazy.__get__ = lambda self, instance, owner=None: "of its own"
    return X().a


# %% modules_behind_a_module: f(3); change k.__dict__.update(scale=5); change delattr(m, "there")
import types

k = types.ModuleType("k")
k.scale = 2
m = types.ModuleType("m")
m.there = 7


class Handed(types.ModuleType):
    def __init__(self, module):
        super().__init__("handed")
        self.__dict__["module"] = module

    def __getattr__(self, name):
        return self.module.__getattribute__(name)


handed = Handed(k)


def f(n):
    try:
        found = handed.scale * n, handed.there if n < 0 else None, m.__getattribute__("there")
    except AttributeError as error:
        found = str(error)
    return found, types.ModuleType.__getattribute__(k, "scale"), handed.scale + 1


# %% setters_called_by_name: f(4); k = 1 -> 2; change Held.level = 7; undo Held.level = level
class Held:
    def __init__(self, x):
        self.log = [x]
        self.level = x

    def __setattr__(self, name, value):
        super().__setattr__(name, value)

    @property
    def level(self):
        return self._level

    @level.setter
    def level(self, value):
        self.log = [*self.log, value]
        self._level = value * k

    @level.deleter
    def level(self):
        del self._level


level = vars(Held)["level"]
held = Held(3)


def f(x):
    made = Held(x)
    object.__setattr__(made, "level", x + 1)
    first = made.level
    setattr(made, "level", x + 2)
    object.__setattr__(held, "level", x)
    given = setattr(held, "level", held.level + 1)
    delattr(made, "level")
    return first, made.log, vars(made).get("_level"), held.level, held.log[-2:], given, object.__setattr__(made, "k", k)


# %% setter_called_by_name_that_raises: f(4); k = 5 -> 3
class Bounded:
    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        self.__dict__["last"] = name

    @property
    def size(self):
        return self._size

    @size.setter
    def size(self, value):
        if value > k:
            raise ValueError(value)
        self._size = value


def f(x):
    made = Bounded()
    made.size = 1
    try:
        made.size = x
    except ValueError as error:
        return made.size, vars(made), error.args
    return made.size, vars(made)


# %% setter_of_a_descriptor_called_by_name: f(4); k = 1 -> 2
class Scaled:
    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, instance, owner=None):
        return instance.of_width

    def __set__(self, instance, value):
        setattr(instance, f"of_{self.name}", value * k)


class Own:
    width = Scaled()

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value)


own = Own()


def f(x):
    made = Own()
    made.width = x
    own.width = made.width + 1
    return made.width, own.width


# %% parts_of_generic_aliases: f([1]); change of_one = dict[int, str] | None
import types
import typing

of_one, of_two = list[int] | None, dict[str, list[int]]


def checked(value, wanted):
    origin, args = typing.get_origin(wanted), typing.get_args(wanted)
    if origin is types.UnionType:
        found = []
        for each in args:
            try:
                return checked(value, each)
            except TypeError as error:
                found.append(str(error))
        raise TypeError(found)
    if origin is not None:
        wanted = origin
    if not isinstance(value, wanted):
        raise TypeError(f"expected {wanted.__name__}, got {type(value).__name__} ({value!r})")
    return wanted, args


def f(x):
    try:
        return checked(x, of_one), of_two.__origin__, of_two.__args__[1].__args__, checked(None, of_one)
    except TypeError as error:
        return str(error)


# %% names_of_a_new_object: f(4); k = 1 -> 2; change Named.__iter__ = lambda self: iter(["other"]); undo Named.__iter__ = names
class Named:
    def __init__(self, x):
        self.one = x
        self.two_id = k
        self.more = {"x": 1}

    def __iter__(self):
        yield from self.__dict__


names = Named.__iter__


def f(x):
    made, other = Named(x), Named(k)
    other.last = [name for name in other.__dict__]
    del other.two_id
    seen = [getattr(made, name, None) for name in made if name.endswith("e")]
    keys = iter(vars(other))
    first = next(keys)
    left = {**other.__dict__}
    return (
        seen,
        first,
        list(keys),
        list(made.__dict__),
        sorted(other.__dict__),
        left,
        made.__dict__,
        "last" in vars(other),
    )


# %% names_of_a_new_object_that_change: stops; f(4); k = 1 -> 2
class Filled:
    pass


def f(x):
    made = Filled()
    made.a, made.b = x, k
    try:
        for name in made.__dict__:
            setattr(made, name + "_", x)
    except RuntimeError as error:
        return str(error), vars(made)
