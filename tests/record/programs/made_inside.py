# ruff: noqa
"""Classes that the recorded function makes itself: each call makes another one."""


# %% class_statement_inside: f(3); k = 4 -> 9
def f(x):
    class Local:
        """Doc."""

        kind = "local"
        limit: int = x

        def __init__(self, value):
            self.value = value

        def get(self):
            return self.value + x + self.limit

    first, second = Local(1), Local(k)
    second.value += 1
    return first.get(), second.get(), second.kind, Local.limit, isinstance(first, Local), type(second) is Local, x + 1


# %% class_statement_with_bases: f(k); k = 2 -> 5; change made.clear()
class Base:
    def __init_subclass__(cls, tag="none", **more):
        super().__init_subclass__(**more)
        cls.tag = tag
        made.append(cls.__name__)

    def hello(self):
        return "hello", self.tag


class Named:
    def __set_name__(self, owner, name):
        self.name = owner.__name__ + "." + name

    def __get__(self, thing, owner):
        return self.name


made = []


def f(x):
    before = x * 2

    class Local(Base, tag=before):
        field = Named()

        def hello(self):
            return super().hello(), x, __class__.__name__

        @staticmethod
        def helper(y):
            return y + before

        @classmethod
        def build(cls):
            return cls()

        @property
        def twice(self):
            return self.helper(x)

    thing = Local.build()
    after = before + x
    return thing.hello(), thing.field, thing.twice, Local.helper(1), after, Local.__qualname__, len(Local.__mro__)


# %% class_returned: f(2)
def f(x):
    class Local:
        value = x

    return Local, Local()


# %% type_called_with_three_arguments: f(k); k = 3 -> 4
def f(x):
    Made = type("Made", (Base,), {"y": x, "area": lambda self: self.x * self.y})
    made = Made(x + 1)
    return made.area(), Made.__name__, Made.__bases__ == (Base,), made.x


class Base:
    def __init__(self, x):
        self.x = x


# %% namedtuple_and_enum_inside: f(k); k = 3 -> 7
import collections
import enum


def f(x):
    Pair = collections.namedtuple("Pair", "a b")
    pair = Pair(x, x + 1)

    class Color(enum.Enum):
        RED = 1
        BLUE = x

    return pair, pair.a + pair.b, pair._replace(b=0)[1], Color(x).name, [c.value for c in Color], Color.RED is Color(1)


# %% dataclass_inside: f(k); k = 1 -> 2
import dataclasses


def f(x):
    @dataclasses.dataclass
    class Item:
        a: int
        b: list = dataclasses.field(default_factory=list)

    one, two = Item(x), Item(x, [x])
    two.b.append(1)
    return one == Item(x), repr(two), dataclasses.asdict(two), one.b, x * 3


# %% class_in_a_loop: f(k); k = 3 -> 2
def f(n):
    total = []
    for i in range(n):

        class Step:
            at = i

            def __call__(self, y):
                return y + i

        total.append(Step()(10) + Step.at)
    return total


# %% class_body_raises: f(k); k = (1,) -> 1
def f(x):
    try:

        class Local:
            a = 1
            b = x[0]

    except TypeError as error:
        return "no", type(error).__name__
    return Local.b


# %% build_class_replaced: undo builtins.__build_class__ = original
import builtins

original = builtins.__build_class__


def f():
    class Local:
        a = 1

    return Local if type(Local) is str else Local.a


def change():
    def build(function, name, *bases, **more):
        seen.append(name)
        return name

    builtins.__build_class__ = build


seen = []


# %% class_getitem: f(5); count = 1 -> 2
class Box:
    def __class_getitem__(cls, item):
        return cls.__name__, item, count


def f(x):
    return Box[x], Box[int, str], list[int] == list[int], dict[str, x][0:0] if x is None else Box["a"][1]


# %% wrapped_functions_seen_from_outside: f(2)
import functools

NAMES = ("__module__", "__name__", "__qualname__", "__doc__", "__annotations__", "__dict__")


def of_module(n: int) -> str:
    """Of the module."""
    return str(n + k)


of_module.mark = [1]


def traced(function):
    @functools.wraps(function)
    def inner(*args, **more) -> "inner's own":
        """Inner's own."""
        return k, function(*args, **more)

    inner.calls = k
    return inner


def f(n):
    @traced
    def local(n, m: int = 3):
        return n * m

    both = traced(of_module), traced(local)
    seen = [[getattr(each, name) for name in NAMES] for each in both]
    seen.append(vars(both[0]) is both[0].__dict__)
    seen.append(both[0].__wrapped__ is of_module and both[1].__wrapped__ is local)
    seen.append(both[0].__annotations__ is of_module.__annotations__)
    return both, both[0](n), both[1](n), seen, local.__wrapped__.__doc__


k = 1


def change():
    global k
    k = 2
    of_module.__doc__ = "another"
    of_module.mark = [2]
    of_module.more = k


def undo():
    of_module.__annotations__ = {"n": "other"}
    of_module.__name__ = "renamed"


# %% names_of_functions_written: f(); change g.__name__ = "renamed"; undo g.__qualname__ = "of.another"
def g():
    pass


def f():
    return g.__name__, g.__qualname__


# %% attributes_of_new_functions_written: f(2); k = 1 -> 2
def make(n):
    def function(a, b: int = 2, *, c: "C" = 3):
        """Of a function."""
        return a, b, c, n

    return function


def f(n):
    function, other, third = make(n), make(k), make(n)
    seen = [function.__name__, function.__doc__, function.__module__, function.__annotations__, vars(function)]
    function.__annotations__["d"] = int
    function.__name__ = "other_name"
    function.__qualname__ += ".more"
    function.__doc__ = None
    function.__module__ = "elsewhere"
    function.attribute = [k]
    vars(function)["through_dict"] = n
    del function.attribute
    seen += [function.__name__, function.__qualname__, function.__doc__, function.__module__, dict(vars(function))]
    seen += [function.__annotations__, other.__annotations__, other.__doc__, function.__closure__[0].cell_contents]
    seen += [function.__globals__ is globals(), function.__code__ is other.__code__, function.__kwdefaults__]
    try:
        other.__name__ = n
    except TypeError as error:
        seen.append(str(error))
    third.__annotations__ = {"x": k}
    return function, other, third, function(1), seen, third.__annotations__


# %% names_of_new_functions_read: f(2); k = 1 -> 2
def f(n):
    functions = [lambda: n, lambda: k]
    for at, each in enumerate(functions):
        each.__name__ = f"step_{at + k}"
        each.__doc__ = "step"
    return [each.__name__ for each in functions], [repr(each)[:25] for each in functions], functions


# %% attributes_of_objects_as_dicts: f(2); k = 1 -> 2; undo old = Thing("other")
class Thing:
    def __init__(self, n):
        self.n = n


class Slotted:
    __slots__ = ("n",)


old = Thing(0)


def f(n):
    thing = Thing(n)
    seen = [vars(thing), dict(vars(thing))]
    vars(thing)["more"] = k
    del thing.n
    seen.append(hasattr(thing, "n"))
    try:
        vars(Slotted())
    except TypeError as error:
        seen.append(str(error))
    try:
        del thing.n
    except AttributeError as error:
        seen.append(str(error))
    vars(old)["n"] = vars(old)["n"] + 1
    return thing, seen, thing.more, vars(thing) is thing.__dict__, old.n
