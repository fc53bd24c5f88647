# ruff: noqa
"""Objects that hold each other, which others get: they become real together."""


# %% function_of_itself: leaves; f([3, (4, [5])]); k = 1 -> 2
class Kept:
    it = None


kept = Kept()


def f(x):
    def listed(v, depth: int = 0, *, most=k) -> list:
        "Doc."
        return [listed(i, depth + 1) for i in v] if isinstance(v, (list, tuple)) else (v, depth, most)

    listed.mark = k
    kept.it = listed
    made = listed(x)
    (cell,) = listed.__closure__
    told = listed.__name__, listed.__qualname__, listed.__module__, listed.__doc__, listed.__defaults__
    more = listed.__kwdefaults__, sorted(listed.__annotations__), listed.__dict__, listed.__code__.co_freevars
    return made, told, more, cell.cell_contents is kept.it, listed is kept.it, kept.it.__closure__[0] is cell


# %% function_of_itself_passed_on: f((1, (2, 3))); k = 1 -> 2
def walked(function, x):
    return [function(i) for i in x], function.__closure__[0].cell_contents is function


def f(x):
    def summed(v):
        return sum(summed(i) for i in v) if isinstance(v, tuple) else v * k

    first = walked(summed, x)
    return first, sorted([3, 1, 2], key=summed), list(map(summed, x)), summed(x)


# %% functions_of_each_other: leaves; f(7); k = 1 -> 0
class Kept:
    it = None


kept = Kept()


def f(x):
    def even(n):
        return True if n == 0 else odd(n - 1)

    def odd(n):
        return False if n == 0 else even(n - 1)

    kept.it = even
    first = even(x + k)
    other = kept.it.__closure__[0].cell_contents
    kept.it = odd
    return first, other is odd, odd.__closure__[0].cell_contents is even, other(x), kept.it(k)


# %% a_cell_that_changes: leaves; f(5); k = 1 -> 3
class Kept:
    it = None


kept = Kept()


def f(x):
    def again(n):
        nonlocal count
        count += k
        return count if n == 0 else again(n - 1)

    count = x
    kept.it = again
    first = again(2)
    count = 10
    second = kept.it(1), count
    names = again.__code__.co_freevars
    cells = [cell.cell_contents for cell in again.__closure__]
    again = x
    return first, second, names, cells[1], cells[0] is kept.it, kept.it.__closure__[0].cell_contents


# %% lambdas_and_partials: f(4); k = 1 -> 3
import functools


class Kept:
    it = None


kept = Kept()


def f(x):
    factorial = lambda n: k if n < 2 else n * factorial(n - 1)
    kept.it = factorial

    def power(base, n):
        return 1 if n == 0 else base * square(n - 1)

    square = functools.partial(power, x)
    power.partial = square
    kept.it = square
    first = square(3), factorial(x)
    same = square.func is power, kept.it.func.partial is kept.it, power.partial is square
    return first, same, factorial(k), kept.it(n=2), square.args, square.keywords


# %% comprehensions_that_call_the_function_around: f([[1, 2], [3]]); k = 1 -> 3
class Kept:
    it = None


kept = Kept()


def f(x):
    def doubled(v):
        return (
            [[doubled(i) for i in each] if isinstance(each, list) else each * k for each in v]
            if isinstance(v, list)
            else v
        )

    kept.it = doubled
    rows = [[doubled(i) for i in row] for row in [x, kept.it(x)]]
    return rows, {i: doubled for i in range(2)}[1] is kept.it, [kept.it(x) for _ in range(k)]


# %% a_default_that_holds_it: f(4); k = 1 -> 3
class Kept:
    it = None


kept = Kept()


def f(x):
    box = []

    def down(n, box=box):
        return k if n == 0 else box[0](n - 1)

    box.append(down)
    kept.it = box
    box.append(x)
    return down(x), kept.it[0] is down, down.__defaults__[0] is kept.it, len(kept.it)


# %% containers_of_themselves: f(4); k = 1 -> 3
import collections


class Kept:
    it = None


kept = Kept()


def f(x):
    a, b, c, d = [x], {}, collections.deque([k]), collections.OrderedDict(first=x)
    a.append(a)
    b["a"], b["b"] = a, b
    c.append(c)
    d["all"] = (d, [c, b])
    kept.it = d["all"]
    a.append(k)
    b["later"] = x
    c.appendleft(x)
    held = kept.it
    same = held[0] is d, held[1][0] is c, c[-1] is c, held[1][1]["a"] is a, a[1] is a, b["b"] is b
    return same, a[0], a[2], list(b), c[0], len(c), list(d), k


# %% parents_and_children: f(4); k = 1 -> 3
class Kept:
    it = None


kept = Kept()


class Node:
    def __init__(self, name, parent=None):
        self.name, self.parent, self.children = name, parent, []
        if parent is not None:
            parent.children.append(self)

    def path(self):
        return (self.name,) if self.parent is None else self.parent.path() + (self.name,)


def f(x):
    root = Node(x)
    leaf = Node(k, Node(x + 1, root))
    kept.it = leaf
    leaf.seen = {leaf: x}
    leaf.method = leaf.path
    leaf.own = leaf.__dict__
    found = kept.it.parent.parent
    order = list(vars(leaf)), list(vars(leaf.parent))
    return (
        leaf.path(),
        leaf.method(),
        found is root,
        root.children[0].children[0] is leaf,
        order,
        leaf.own is vars(leaf),
    )


# %% a_whole_family_at_once: f(4); k = 1 -> 3
class Kept:
    it = None


kept = Kept()


class Node:
    pass


def f(x):
    root, leaf = Node(), Node()
    root.leaf, leaf.root, leaf.x = leaf, root, x
    leaf.walk = walk = lambda n: leaf.x if n == 0 else walk(n - 1)
    leaf.own = leaf.__dict__
    leaf.all, leaf.address = {leaf, root}, [id(leaf)]
    leaf.address.append(leaf.address)
    leaf.own["late"] = k
    leaf.last = k
    kept.it = root
    found = kept.it.leaf
    same = found is leaf, found.root is root, found.own is vars(leaf), found.address[0] == id(leaf), leaf in found.all
    leaf.address.pop(0)
    return same, list(vars(leaf)), found.walk(k), walk.__closure__[0].cell_contents is leaf, len(leaf.all)


# %% a_generator_that_reads_itself: leaves; f(4); k = 1 -> 3
class Kept:
    it = None


kept = Kept()


def f(x):
    def numbers():
        yield x
        yield made.gi_frame is not None, k
        yield x + 1

    made = numbers()
    first = next(made)
    kept.it = made
    second = next(kept.it)
    return first, second, list(made), kept.it is made


# %% an_exception_among_its_arguments: leaves; f(4); k = 1 -> 3
class Kept:
    it = None


kept = Kept()


def f(x):
    told = [x]
    error = ValueError(told, k)
    told.append(error)
    error.note = told
    kept.it = error
    return kept.it.args[0][1] is error, error.note is told, kept.it.args[1], error.__traceback__, told[0]


# %% groups_beside_each_other: f(4); k = 1 -> 3
class Kept:
    it = None


kept = Kept()


def f(x):
    def inner(n):
        return x if n == 0 else inner(n - 1)

    def outer(n):
        return inner(k) if n == 0 else outer(n - 1)

    box = [outer]
    box.append((box, inner))
    kept.it = box
    again = kept.it[1]
    return outer(2), again[0] is box, again[1] is inner, outer.__closure__[0].cell_contents is inner, len(box)
