# ruff: noqa
"""The match statement, unions of classes, abstract classes, and other tests of what an object is."""


# %% match_sequences_and_mappings
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


k = 4


def change():
    global k
    k = 9
    subject.append(9)


def undo():
    subject.clear()


# %% match_guards_and_values
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


def args():
    return (k,)


k = 7


def change():
    global k
    k = 8
    Color.RED = 5
