# ruff: noqa
"""The match statement, unions of classes, abstract classes, and other tests of what an object is."""


# %% match_sequences_and_mappings: k = 4 -> 9; change subject.append(9); undo subject.clear()
def g(x):
    match x:
        case []:
            return "empty"
        case [a]:
            return "one", a
        case [a, *rest, 9]:
            return "nine", a, rest
        case (a, b):
            return "pair", a, b
        case {"kind": "circle", "r": r}:
            return "circle", r
        case {"kind": kind, **more}:
            return kind, more
        case 1 | 2:
            return "small"
        case str() as text if text:
            return text
        case None:
            return "none"
        case _:
            return "other"


subject = [1, 2]


def f():
    return g([]), g([5]), g([1, 2, 9]), g((3, k)), g({"kind": "circle", "r": k}), g(2), g(None), g(3.5), g(subject)


# %% match_guards_and_values: f(k); k = 7 -> 8; change Color.RED = 5
class Color:
    RED = 1
    BLUE = 2


def g(x, limit):
    match x:
        case Color.RED:
            return "red"
        case n if n == limit:
            return "limit"
        case [Color.BLUE, [inner, _]]:
            return inner
    return "none"


def f(n):
    return g(1, n), g(7, n), g([2, [n, 0]], n), g("a", n)


# %% class_patterns: f(kept); k = 4 -> True; change kept.z = 3; undo Point.__match_args__ = ("y", "x"); undo kept.y = 0
class Point:
    __match_args__ = ("x", "y")

    def __init__(self, x, y):
        self.x = x
        self.y = y


class Polar(Point):
    @property
    def radius(self):
        return (self.x**2 + self.y**2) ** 0.5


def g(thing):
    match thing:
        case Polar(radius=5.0 as r):
            return "five", r
        case Point(0, 0):
            return "origin"
        case Point(x, y=0) | Point(0, x):
            return "axis", x
        case Point(x, y, z=z):
            return "space", x, y, z
        case Point(x=Point(a, b)):
            return "nested", a, b
        case Point():
            return "point"
        case int(n) | float(n):
            return "number", n
        case str(text):
            return text
        case [Point(x, y), *rest]:
            return x, y, len(rest)
        case {"at": Point(x=x)}:
            return "at", x
    return None


def f(p):
    return (
        [g(p), g(Polar(3, 4)), g(Point(0, 0)), g(Point(0, p)), g(Point(Point(1, 2), 3)), g(Point(7, 8))],
        [g(k), g(2.5), g("text"), g([p, 1, 2]), g({"at": Point(k, 1)}), g(None), g(b"")],
    )


kept = Point(1, 2)


# %% class_patterns_that_fail: allowed = "x" -> "y"; undo Strange.__match_args__ = ("x", "x")
class Strange:
    __match_args__ = ["x"]
    x = 1


class Hidden:
    __match_args__ = ("x",)

    def __getattr__(self, name):
        if name == allowed:
            return name
        raise AttributeError(name)


class Meta(type):
    def __instancecheck__(cls, thing):
        return thing == allowed


class Checked(metaclass=Meta):
    pass


def f(mode):
    thing = (Strange(), Hidden(), "x")[mode % 3]
    try:
        match thing:
            case Checked():
                return "checked"
            case Hidden(x):
                return x
            case Hidden(y=y):
                return "y", y
            case Strange(a):
                return a
    except TypeError:
        return "wrong"
    return "none"


def args():
    global mode
    return (mode,)


def call():
    return [f(0), f(1), f(2)]


mode = 0


# %% class_patterns_of_results: k = 3 -> 4
import random


def g(thing):
    match thing:
        case bool():
            return "bool"
        case int(n):
            return "int", n > 5
        case (float(x), str(y)):
            return x, y
        case {"a": int(x)}:
            return x
    return "none"


def f():
    generator = random.Random(k)
    return g(generator.randrange(10)), g((generator.choice([0.5, 1.5]), "t")), g(generator.choice([True]))
