# ruff: noqa
"""Operators and comparisons with methods in Python on either side, and of built-in containers."""


# %% reflected_operators: f(3); k = 1 -> 0
class A:
    def __init__(self, x):
        self.x = x

    def __add__(self, other):
        if isinstance(other, int) and k:
            return ("add", self.x, other)
        return NotImplemented

    def __radd__(self, other):
        return ("radd", self.x, other)

    def __rsub__(self, other):
        return ("rsub", other)

    def __rmul__(self, other):
        return ("rmul", other)

    def __rmatmul__(self, other):
        return ("rmatmul", other)

    def __rpow__(self, other):
        return ("rpow", other)


class B:
    def __radd__(self, other):
        return ("B.radd", other.x)


def f(n):
    a = A(1)
    return 5 + a, n - a, 2.5 * a, "s" @ a, 2**a, a + B(), [1] + a, a + 7 if k else 0


# %% no_operator_fits: k = 0 -> 1
class A:
    def __add__(self, other):
        return NotImplemented if k else "sum"

    def __iadd__(self, other):
        return NotImplemented


def f():
    try:
        return A() + 1
    except TypeError:
        pass
    a = A()
    try:
        a += 1
    except TypeError:
        return "none"
    return a


# %% subclass_goes_first: word = "B.radd" -> NotImplemented
class A:
    def __add__(self, other):
        return "A.add"

    def __radd__(self, other):
        return "A.radd"

    def __eq__(self, other):
        return "A.eq"

    def __lt__(self, other):
        return "A.lt"

    __hash__ = None


class B(A):
    def __radd__(self, other):
        return word

    def __eq__(self, other):
        return "B.eq"

    def __gt__(self, other):
        return NotImplemented


class C(A):
    pass


def f():
    a, b, c = A(), B(), C()
    return a + b, b + a, a + c, c + a, a == b, b == a, a == c, a < b, a < c


# %% in_place_operators: f(10); k = 2 -> 3
class A:
    def __init__(self, x):
        self.x = x

    def __iadd__(self, other):
        self.x += other
        return self

    def __sub__(self, other):
        return A(self.x - other)

    def __ior__(self, other):
        return NotImplemented

    def __or__(self, other):
        return ("or", other)


def f(n):
    a = b = A(n)
    a += k
    b -= 1
    c = a
    c |= 3
    return a, b, c, a is b


# %% comparisons_of_classes: f(1); change limit.x = 1; undo limit.x = 0
class A:
    def __init__(self, x):
        self.x = x

    def __eq__(self, other):
        return isinstance(other, A) and self.x == other.x

    def __lt__(self, other):
        if isinstance(other, A):
            return self.x < other.x
        return NotImplemented

    def __le__(self, other):
        return [self.x, other]


limit = A(2)


def f(n):
    a = A(n)
    out = [a == limit, a != limit, a < limit, a > limit, a <= limit, limit >= a, a == 3, 3 == a, a != "s"]
    try:
        a < 3
    except TypeError:
        out.append("no order")
    return out


# %% default_comparison_is_identity: change same = two
class A:
    pass


class N:
    def __ne__(self, other):
        return "ne"


one, two = A(), A()
same = one


def f():
    a, b = A(), A()
    n = N()
    return one == same, one != same, one == two, a == b, a == a, a != b, a == one, one == 3, n == n, n != n, None == one


# %% comparisons_of_containers: f(1); change xs[0] = 5; undo xs[0] = 1; undo xs.append(0)
class A:
    def __init__(self, x):
        self.x = x

    def __eq__(self, other):
        return self.x == other.x

    def __lt__(self, other):
        return self.x < other.x


xs = [1, (2, "a"), [3.5]]


def f(n):
    y = [n, (2, "a"), [3.5]]
    t = (1, n, [n])
    out = [y == xs, y != xs, t < (1, 2, [9]), t <= (1, n, [n]), [1] < [1, n], (n,) > (), {"a": n} == {"a": 1}]
    out += [{1, 2} < {1, 2, n}, {n} == {1}, {1, n}.issubset({1, 2, 3}), (1, 2) == [1, 2], {"a": y} != {"a": xs}]
    out += [[A(1), A(n)] == [A(1), A(1)], (A(n), 0) < (A(5), 0), {"k": A(n)} == {"k": A(1)}]
    return out


# %% chained_comparisons_and_booleans: f(3); low = 0 -> 5
class A:
    def __init__(self, x):
        self.x = x

    def __bool__(self):
        return self.x > low


class L:
    def __len__(self):
        return low


def f(n):
    a, b, e = A(n), A(-5), L()
    return (
        0 < n < 10,
        a and "yes",
        b and "no",
        b or "other",
        a or "none",
        not a,
        not b,
        not e,
        e or "empty",
        bool(a),
        bool(e),
        "t" if a else "f",
    )


# %% unary_operators_of_classes: f(3); k = 4 -> 5
class A:
    def __neg__(self):
        return ("neg", k)

    def __pos__(self):
        return "pos"

    def __invert__(self):
        return "inv"

    def __abs__(self):
        return k

    def __round__(self, n=None):
        return ("round", n)

    def __divmod__(self, other):
        return ("divmod", other)

    def __rdivmod__(self, other):
        return ("rdivmod", other)

    def __pow__(self, other, mod=None):
        return ("pow", other, mod)


def f(n):
    a = A()
    return -a, +a, ~a, abs(a), round(a), round(a, 2), divmod(a, n), divmod(n, a), pow(a, 2), pow(a, 2, 5), a**n


# %% numbers_of_classes: k = 2 -> 1
class A:
    def __index__(self):
        return k

    def __int__(self):
        return k + 1

    def __float__(self):
        return k + 0.5

    def __complex__(self):
        return complex(k, 1)

    def __trunc__(self):
        return k + 2

    def __floor__(self):
        return "floor"


def f():
    a = A()
    xs = [10, 20, 30, 40]
    return xs[a], int(a), float(a), complex(a), (1, 2, 3, 4)[a]


# %% sequences_of_known_content: f(2, [7, 8])
def f(n, xs):
    a = [n, 1]
    b = xs + a
    c = a * 2 + xs * n
    d = (n,) * 3 + tuple(xs)
    e = 2 * [n]
    g = [0] * n
    g[n - 1] = n
    return b, c, d, e, g, "ab" * n, n * "cd", b"x" * n, () + d is d, d + () is d, (1,) * 0


# %% dicts_and_sets_combined: f(2); change base["a"] = 0; change some.add(9); undo base["a"] = 1; undo some.discard(9)
base = {"a": 1, "b": 2}
some = {1, 2, 3}


def f(n):
    d = base | {"b": n, "c": 3}
    s = {n, 2, 9}
    e = {"x": 0}
    e |= base
    s2 = set(s)
    s2 |= some
    s3 = set(some)
    s3 -= {1}
    s3 &= {2, 3, 4}
    s3 ^= {3, 7}
    return d, e, s | some, s & some, s - some, some - s, s ^ some, sorted(s2), s3, frozenset(s) | s, {n} <= s


# %% formatting_with_percent: f(7, "x"); k = 3 -> 2.25
class R:
    def __init__(self, x):
        self.x = x

    def __str__(self):
        return f"R({self.x})"

    def __repr__(self):
        return f"<R {self.x!r}>"


def f(n, s):
    return (
        "%d %s %r %5.2f" % (n, s, s, k),
        "%s" % n,
        "%(a)s-%(b)03d" % {"a": s, "b": n},
        "%%%s" % (s,),
        "%s|%r" % (R(n), R(s)),
        b"%d" % n,
    )


# %% arithmetic_errors: f(k); k = 0 -> 2
def f(n):
    out = []
    for work in (
        lambda: 1 // n,
        lambda: 1 / n,
        lambda: 1 % n,
        lambda: [1][5],
        lambda: "a" + n,
        lambda: -"s",
        lambda: {}["k"],
        lambda: 1 < "a",
    ):
        try:
            out.append(work())
        except (ArithmeticError, LookupError, TypeError):
            out.append("error")
    return out


# %% writes_in_methods_of_operators: f(3); k = 1 -> 2
log = []


class Tally:
    def __init__(self, n):
        self.n = n

    def __iadd__(self, other):
        log.append(("iadd", self.n))
        self.n += other
        log.append("written")
        return self

    def __sub__(self, other):
        log.append("sub")
        self.n -= 1
        return Tally(self.n - other)

    def __pow__(self, other):
        log.append("pow")
        return self.n**other


tally = Tally(1)


def f(n):
    global tally
    tally += n
    less = tally - k
    return less.n, tally.n, tally**2


def state():
    return list(log), tally.n


# %% operators_refused_after_writes: f(2); takes = False -> True
log = []


class Left:
    def __add__(self, other):
        log.append("add")
        return "added" if takes else NotImplemented

    def __iadd__(self, other):
        log.append("iadd")
        return NotImplemented

    def __mul__(self, other):
        log.append("mul")
        return NotImplemented

    def __pow__(self, other):
        log.append("pow")
        return NotImplemented

    def __ior__(self, other):
        log.append("ior")
        return NotImplemented

    def __sub__(self, other):
        log.append("sub")
        return NotImplemented


class Right:
    def __radd__(self, other):
        log.append("radd")
        return "radd"

    def __rmul__(self, other):
        log.append("rmul")
        return NotImplemented

    def __rsub__(self, other):
        log.append("rsub")
        raise KeyError("rsub")


left, right = Left(), Right()


def attempt(operation):
    try:
        return operation()
    except (TypeError, KeyError) as error:
        return type(error), str(error)


def plus_is():
    value = left
    value += right
    return value


def or_is():
    value = left
    value |= 5
    return value


def f(n):
    first = attempt(lambda: left + right)
    second = attempt(plus_is)
    third = attempt(lambda: left * right), attempt(lambda: left * [1, n]), attempt(lambda: left * "ab")
    fourth = attempt(lambda: left**n), attempt(or_is), attempt(lambda: left - right), attempt(lambda: left - n)
    return first, second, third, fourth, attempt(lambda: left + left), attempt(lambda: left + 1)


def state():
    return list(log)


# %% operators_refused_by_foreign_code: leaves; answer = 5 -> NotImplemented -> [1]
import pijit


@pijit.opaque
def deal():
    return answer


class Left:
    def __add__(self, other):
        return deal()

    def __imul__(self, other):
        return deal()

    def __mul__(self, other):
        return deal()

    def __index__(self):
        return 2


class Right:
    def __radd__(self, other):
        return "radd"


left, right = Left(), Right()


def times_is(value, other):
    try:
        value *= other
    except TypeError as error:
        return str(error)
    return value


def f():
    return left + right, times_is(left, "ab"), times_is(left, [1])
