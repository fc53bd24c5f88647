# ruff: noqa
"""Class statements whose bodies are followed: what they leave in the class, and what happens while they run."""


# %% class_of_constants_and_functions: f(3); k = 4 -> 9 -> 4
def f(x):
    class Local:
        """Doc."""

        limit: int = x
        double = limit * 2
        names: list = ["a", str(k)]

        def get(self, more=double, *, last=k):
            return self.limit + x + more + last

    return Local


def call():
    made = f(*args())
    found = {name: value for name, value in vars(made).items() if name not in ("__dict__", "__weakref__")}
    return list(found.items()), made().get(), made.__mro__, made.__bases__, type(made), made.__module__ == __name__


# %% class_that_its_functions_know: change base = Other; undo base, k = Base, 5
class Base:
    def hello(self):
        return "base", k


class Other:
    def hello(self):
        return "other"


base = Base


def f(x):
    class Local(base):
        def hello(self):
            return super().hello(), __class__.__name__, x

        cls = lambda self: __class__

    return Local, x


def call():
    made, x = f(2)
    thing = made()
    return thing.hello(), thing.cls() is made, made.__bases__ == (base,), "__classcell__" in vars(made)


k = 1


# %% class_with_descriptors: k = "k" -> "other"
def f(x):
    class Local:
        @property
        def twice(self):
            "doc of twice"
            return x * 2

        @staticmethod
        def add(a, b):
            return a + b + x

        @classmethod
        def name(cls):
            return cls.__name__, k

        only = property(lambda self: (self.twice, k))

    return Local


def call():
    made = f(3)
    return (
        made().twice,
        made.add(1, 2),
        made.name(),
        made().only,
        vars(made)["twice"].__doc__,
        vars(made)["add"].__name__,
    )


# %% class_body_with_control_flow: change data, flag = [9, 8, 7, 6], False; undo data, k = [1, 2, 5], 2
def f(items, flag):
    class Local:
        total = 0
        seen = []
        for item in items:
            if item == k:
                break
            total += item
            seen.append(item)
        else:
            total = -1
        squares = [n * n for n in items]
        if flag:
            odd = True
        else:
            del item
        while total > 20:
            total -= 7

    return Local


def call():
    made = f(data, flag)
    return {name: value for name, value in vars(made).items() if not name.startswith("__")}


data, flag, k = [1, 2, 3, 4], True, 3


# %% class_body_sees_its_own_names_first: x = "x" -> "yy"
name = "global"


def f(x):
    name = "local" + x
    other = x

    class Local:
        first = name
        second = other + "!"
        len = len(other)

        def get(self):
            return name, other

        class Inner:
            name = name
            first = other
            second = [first, name]

    return Local, other


def call():
    made, other = f(x)
    return (
        made.first,
        made.second,
        made.len,
        made().get(),
        made.Inner.name,
        made.Inner.first,
        made.Inner.second,
        made.Inner.__qualname__,
        other,
    )


# %% class_body_takes_global_names: name = "global" -> "other"
def f():
    class Local:
        first = name
        name = "own"
        second = name
        del name
        third = name
        global written
        written = (first, second)

    return Local


def call():
    made = f()
    return made.first, made.second, made.third, "name" in vars(made), written


written = None


# %% class_body_is_left: leaves; x = 3 -> 30 -> 2.5
def f(x, numbers):
    before = [x]

    class Local:
        before.append(x)
        if x > 10:
            size = "large"
        elif type(x) is float:
            size = "float"
        else:
            size = "small"
        ratio = numbers[0] / x

        def get(self):
            return x, before

    return Local, before


def call():
    made, before = f(x, [6, 7])
    return made.size, made.ratio, made().get(), before


# %% class_body_catches_outside: x = 0 -> 5; undo missing = 1
def f(x):
    noted = []
    try:

        class Local:
            noted.append("begin")
            value = 10 // x
            noted.append(value)
            other = missing

    except (ZeroDivisionError, NameError) as error:
        return type(error).__name__, str(error), noted
    return Local.other, noted


def call():
    return f(x)


# %% class_body_raises_out: x = "key" -> "other"
def f(x):
    kept = [x]

    class Local:
        first = kept
        second = {}[x]

    return Local


def call():
    return f(x)


# %% class_body_keeps_its_error: x = "a" -> "b"
def f(x):
    class Local:
        own = x
        try:
            int(x)
        except ValueError as error:
            kept = error
        try:
            int(x + "!")
        except ValueError:
            own += "?"

    return Local


def call():
    made = f(x)
    where = made.kept.__traceback__.tb_frame
    return made.own, str(made.kept), where.f_code.co_qualname, sorted(where.f_locals), where.f_back.f_code.co_qualname


# %% class_body_handles_errors: x = "a" -> "b"
def f(x):
    class Local:
        own = x
        try:
            own += {}["missing"]
        except KeyError:
            own += "?"
        finally:
            last = own

    return Local


def call():
    made = f(x)
    return made.own, made.last


# %% class_body_with_foreign_code: f(k); k = 1 -> 2
import time


def f(x):
    class Local:
        now = time.time() > 0
        print("in the body", x)
        value = x

    return Local.value


# %% class_body_looks_at_its_names
def f(x):
    class Local:
        value = x
        known = sorted(name for name in locals() if not name.startswith("_"))
        size = len(vars())
        vars()["made"] = x

    return Local


def call():
    made = f(2)
    return made.value, made.known, made.size, made.made


# %% class_statements_that_tell: f(x); x = 1 -> 7
class Told:
    def __init_subclass__(cls, **more):
        told.append((cls.__name__, more))


class Name:
    def __set_name__(self, owner, name):
        told.append((owner.__name__, name))


class Meta(type):
    def __new__(meta, name, bases, space, tag=None):
        told.append(("new", name, tag))
        return super().__new__(meta, name, bases, space)

    @classmethod
    def __prepare__(meta, name, bases, tag=None):
        return {"prepared": tag}


class Entries:
    def __mro_entries__(self, bases):
        told.append("entries")
        return (Told,)


told = []
entries = Entries()


def f(x):
    class A(Told, a=x):
        pass

    class B:
        named = Name()

    class C(metaclass=Meta, tag=x):
        found = prepared

    class D(entries):
        pass

    class E(D):
        pass

    class F(C):
        pass

    return A, B, C, D, E, F, C.found


def call():
    told.clear()
    made = f(*args())
    return [each.__name__ for each in made[:-1]], made[-1], list(told), made[3].__orig_bases__ == (entries,)


# %% class_begins_to_tell: change Base.__init_subclass__ = classmethod(lambda cls: told.append(cls.__name__))
class Base:
    pass


class Value:
    pass


told = []
value = Value()


def f():
    class Local(Base):
        held = value

    return Local


def call():
    told.clear()
    return f().held is value, list(told)


def undo():
    del Base.__init_subclass__
    Value.__set_name__ = lambda self, owner, name: told.append(name)


# %% class_that_cannot_be: base = int -> bool -> str
def f():
    try:

        class Local(base):
            pass

    except TypeError as error:
        return str(error)
    return Local.__name__, Local.__bases__


# %% class_with_slots: x = "1" -> "2"
def f(x):
    class Local:
        __slots__ = ("a", "b")
        __hash__ = None
        __qualname__ = "Other" + x

        def __init__(self, a):
            self.a = a

        def __eq__(self, other):
            return self.a == other.a

    return Local


def call():
    made = f(x)
    try:
        made(1).c = 2
    except AttributeError as error:
        return made.__qualname__, made(1) == made(1), str(error), made.__slots__


# %% classes_in_loops_and_generators: k = "k" -> "l"
def f(names):
    def each():
        for name in names:

            class Local:
                label = name + k

            yield Local

    made = list(each())
    for name in names:

        class Local:
            label = name
            before = made[-1]

        made.append(Local)
    return made, [type("Short", (), {"label": n}) for n in names]


def call():
    made, short = f(["a", "b"])
    return [each.label for each in made], [each.before in made for each in made[2:]], [each.label for each in short]


# %% class_body_drops_things: x = 1 -> 2
class Thing:
    def __init__(self, name):
        self.name = name

    def __del__(self):
        dropped.append(self.name)


dropped = []


def f(x):
    class Local:
        first = Thing("first")
        first = x
        dropped.append("after first")
        second = Thing("second")
        del second
        dropped.append("after second")
        third = Thing("third")

    dropped.append("after body")
    del Local.third
    dropped.append("end")
    return Local.first


def args():
    dropped.clear()
    return (x,)


def state():
    return list(dropped)


# %% variables_of_a_class_body_are_written_later: k = 10 -> 20
def f(x):
    def bump():
        nonlocal x
        x += 1
        return x

    class Local:
        a = bump()

        def get(self):
            return x

    bump()
    x += k
    return Local, bump


def call():
    made, bump = f(3)
    found = made.a, made().get(), bump(), made().get()
    return found, [base.__subclasses__() == [] for base in (made,)]


# %% a_generator_in_a_class_body: leaves; f(k); k = 2 -> 1
class Value:
    def __init__(self, v):
        self.v = v

    def __del__(self):
        died.append(self.v)


died = []


def f(k):
    one = Value(k)

    class Local:
        total = sum(x for x in [one.v, 2] if x != 1)

    try:
        found = Local.total
    except AttributeError:
        found = None
    return found


def state():
    said = died[:]
    died.clear()
    return said
