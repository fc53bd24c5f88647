# ruff: noqa
"""itertools, functools and operator, over containers, generators and callbacks in Python."""

# %% itertools_chains: change xs.append(3); undo xs.pop()
import itertools


def gen():
    for x in xs:
        yield x


xs = [1, 2]


def f():
    a = list(itertools.chain(xs, gen(), "ab"))
    b = list(itertools.chain.from_iterable([xs, (9,)]))
    c = (
        list(itertools.islice(gen(), 1)),
        list(itertools.islice(itertools.count(5), 2, 9, 3)),
        list(itertools.islice(xs, 1, None)),
    )
    d = (
        list(itertools.repeat("r", 3)),
        [x for x, _ in zip(itertools.cycle(xs), range(5))],
        list(zip(itertools.count(1, 2), xs)),
    )
    return a, b, c, d


# %% itertools_with_functions: f([1, 2, 3, 4, 1]); limit = 3 -> 2
import itertools


def f(xs):
    small = lambda x: x < limit
    a = (
        list(itertools.takewhile(small, xs)),
        list(itertools.dropwhile(small, xs)),
        list(itertools.filterfalse(small, xs)),
    )
    b = list(itertools.starmap(lambda x, y: x * y + limit, [(1, 2), (3, 4)])), list(itertools.accumulate(xs))
    c = (
        list(itertools.accumulate(xs, lambda x, y: x * y)),
        list(itertools.accumulate(xs, initial=10)),
        list(itertools.pairwise(xs)),
    )
    d = list(itertools.zip_longest(xs, "ab", fillvalue="-")), list(itertools.compress(xs, [1, 0, 1]))
    return a, b, c, d


# %% itertools_selections: f(k); k = 3 -> 4
import itertools


def f(n):
    a = list(itertools.product([1, 2], "ab")), list(itertools.product((0, 1), repeat=2))
    b = list(itertools.permutations([1, 2, n])), list(itertools.combinations("abc", 2))
    c = [x + y for x, y in itertools.combinations_with_replacement([1, n], 2)]
    return a, b, c


# %% islice_step_by_step
import itertools


def f():
    source = iter(range(20))
    part = itertools.islice(source, 1, 9, 3)
    out = [next(part), next(part)]
    rest = list(part), next(part, "over"), next(source)
    short = itertools.islice(iter([1, 2]), 5)
    return (
        out,
        rest,
        list(short),
        list(itertools.islice([], 0)),
        list(itertools.islice(iter([1, 2, 3]), 3, 3)),
        next(source),
    )


# %% functools_reduce_and_partial: f([1, 2, 3]); k = 2 -> 5
import functools
import operator


def add(x, y, *, scale=1):
    return (x + y) * scale


def f(xs):
    double = functools.partial(add, scale=k)
    inc = functools.partial(add, 1)
    return (
        functools.reduce(add, xs),
        functools.reduce(operator.mul, xs, 1),
        double(1, 2),
        inc(5),
        inc(5, scale=3),
        functools.reduce(lambda a, b: a + [b], xs, []),
    )


# %% functools_wraps_and_cached_property: f(3); change k, p = 2, P(4)
import functools


def twice(g):
    @functools.wraps(g)
    def inner(*args, **kwargs):
        return g(*args, **kwargs) * 2

    return inner


@twice
def area(x):
    "doc"
    return x + k


class P:
    def __init__(self, x):
        self.x = x

    @functools.cached_property
    def square(self):
        return self.x * self.x * k


k = 1


p = P(3)


def f(x):
    return area(x), area.__name__, p.square, p.square


# %% operator_functions: f(k); k = 3 -> 4; change ps[0].x = 0
import operator


class P:
    def __init__(self, x):
        self.x = x
        self.inner = self

    def scaled(self, by, plus=0):
        return self.x * by + plus


ps = [P(2), P(1)]


def f(n):
    get = operator.itemgetter(1)
    both = operator.itemgetter(0, 2)
    x = operator.attrgetter("x")
    call = operator.methodcaller("scaled", n, plus=1)
    deep = operator.attrgetter("inner.x", "x")
    rows = [("a", 3, "p"), ("b", 1, "q")]
    return (
        get((1, n)),
        both("abc"),
        [x(p) for p in sorted(ps, key=x)],
        call(ps[0]),
        deep(ps[0]),
        sorted(rows, key=get),
        list(map(operator.itemgetter(0), rows)),
        operator.add(1, n),
        operator.getitem([1, 2], 1),
        operator.eq(ps[0], ps[0]),
        operator.neg(n),
        operator.truth([]),
        operator.concat([1], [n]),
    )


# %% math_functions: f(k); k = 4 -> 9
import math


def f(x):
    return (
        math.sqrt(x),
        math.floor(2.5),
        math.prod([1, 2, x]),
        math.gcd(12, x),
        math.isclose(0.1 + 0.2, 0.3),
        math.ceil(x / 2),
        math.pi,
        math.log(x),
        math.exp(0),
        math.hypot(3, 4),
        math.inf,
        math.comb(5, 2),
        math.fsum([0.1] * 3),
        math.dist((0, 0), (3, 4)),
        math.factorial(5),
    )
