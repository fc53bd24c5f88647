"""Classes that a call makes, and their instances: written and read past what they define, as in CPython.

The recording knows no class of such an object, as an opaque call has given it.
"""

from __future__ import annotations

import textwrap

import pytest

import pijit

PROGRAMS = {
    "plain": """
        def f():

            class A:
                pass
            a = A()
            object.__setattr__(a, 'x', 1)
            return a.x
    """,
    "del": """
        def f():

            class A:
                pass
            a = A()
            a.x = 1
            object.__delattr__(a, 'x')
            return hasattr(a, 'x')
    """,
    "type": """
        def f():
            A = type('A', (), {})
            a = A()
            object.__setattr__(a, 'x', 1)
            return a.x
    """,
    "slots": """
        def f():

            class A:
                __slots__ = ('x',)
            a = A()
            object.__setattr__(a, 'x', 1)
            return a.x
    """,
    "frozen": """
        import dataclasses

        def f():

            @dataclasses.dataclass(frozen=True)
            class A:
                x: int
                y: int = 2
            a = A(1)
            return (a.x, a.y, dataclasses.replace(a, x=5), hash(a), repr(a))
    """,
    "frozenslots": """
        import dataclasses

        def f():

            @dataclasses.dataclass(frozen=True, slots=True)
            class A:
                x: int
                y: int = 2
            a = A(1)
            return (a.x, a.y, repr(a))
    """,
    "getattribute": """
        def f():

            class A:
                y = 3
            a = A()
            a.x = 1
            return (object.__getattribute__(a, 'x'), object.__getattribute__(a, 'y'))
    """,
    "typeset": """
        def f():

            class A:
                pass
            type.__setattr__(A, 'x', 1)
            a = A()
            r = a.x
            type.__delattr__(A, 'x')
            return (r, hasattr(a, 'x'))
    """,
    "superset": """
        def f():

            class A:

                def __setattr__(self, n, v):
                    super().__setattr__(n, v + 1)

                def __delattr__(self, n):
                    super().__delattr__(n)

                def __getattribute__(self, n):
                    return super().__getattribute__(n)
            a = A()
            a.x = 1
            r = a.x
            del a.x
            return (r, hasattr(a, 'x'))
    """,
    "initsub": """
        def f():
            log = []

            class A:

                def __init_subclass__(cls, **k):
                    super().__init_subclass__()
                    cls.k = k
                    log.append(cls.__name__)

            class B(A, z=1):
                pass
            return (B.k, log)
    """,
    "setname": """
        def f():

            class D:

                def __set_name__(self, o, n):
                    self.n = n

                def __get__(self, i, o=None):
                    return self.n if i is None else i.__dict__.get(self.n, 0)

                def __set__(self, i, v):
                    i.__dict__[self.n] = v * 2

            class A:
                q = D()
            a = A()
            a.q = 4
            object.__setattr__(a, 'q', 5)
            return (A.q, a.q)
    """,
    "meta": """
        def f():

            class M(type):

                def __new__(m, n, b, d):
                    d['z'] = 1
                    return super().__new__(m, n, b, d)

                def __setattr__(c, n, v):
                    super().__setattr__(n, v)

                def __call__(c, *a):
                    o = super().__call__(*a)
                    object.__setattr__(o, 'w', 2)
                    return o

            class A(metaclass=M):
                pass
            A.y = 3
            a = A()
            return (a.z, a.y, a.w)
    """,
    "prop": """
        def f():

            class A:

                @property
                def p(self):
                    return self._p

                @p.setter
                def p(self, v):
                    object.__setattr__(self, '_p', v + 1)

                @p.deleter
                def p(self):
                    object.__delattr__(self, '_p')
            a = A()
            a.p = 1
            r = a.p
            del a.p
            object.__setattr__(a, 'p', 7)
            return (r, a.p, a.__dict__)
    """,
    "namedtuple": """
        import collections, typing

        def f():
            P = collections.namedtuple('P', 'a b')
            p = P(1, 2)
            q = p._replace(a=3)

            class T(typing.NamedTuple):
                u: int
                v: int = 4
            return (p.a, q.a, tuple(T(1)), p._asdict())
    """,
    "enum": """
        import enum

        def f():

            class E(enum.Enum):
                A = 1
                B = 2

            class F(enum.IntFlag):
                X = 1
                Y = 2
            return (E.A.value, E(2).name, (F.X | F.Y).value, [e.name for e in E])
    """,
    "setclass": """
        def f():

            class A:
                pass

            class B:

                def g(self):
                    return 9
            a = A()
            object.__setattr__(a, '__class__', B)
            return a.g()
    """,
    "setdict": """
        def f():

            class A:
                pass
            a = A()
            object.__setattr__(a, '__dict__', {'k': 1})
            r = a.k
            a.__dict__ = {'k': 2}
            return (r, a.k)
    """,
    "subdict": """
        def f():

            class A(dict):
                pass
            a = A()
            object.__setattr__(a, 'x', 1)
            dict.__setitem__(a, 'k', 2)
            dict.__init__(a, z=3)
            return (a.x, dict(a), dict.__getitem__(a, 'k'), dict.__contains__(a, 'k'), dict.__len__(a))
    """,
    "sublist": """
        def f():

            class A(list):
                pass
            a = A([1])
            object.__setattr__(a, 'x', 1)
            list.__setitem__(a, 0, 2)
            list.__init__(a, [3, 4])
            list.__iadd__(a, [5])
            return (a.x, list(a), list.__getitem__(a, 0), list.__len__(a), list.__eq__(a, [3, 4, 5]))
    """,
    "subint": """
        def f():

            class A(int):
                pass
            a = A(4)
            object.__setattr__(a, 'x', 1)
            return (a.x, int.__add__(a, 1), int.__hash__(a), int.__repr__(a))
    """,
    "suberr": """
        def f():

            class A(Exception):

                def __init__(self, m):
                    Exception.__init__(self, m)
                    object.__setattr__(self, 'm', m)
            try:
                raise A(3)
            except A as e:
                return (e.m, e.args)
    """,
    "new": """
        def f():

            class A:

                def __new__(cls, *a):
                    o = object.__new__(cls)
                    object.__setattr__(o, 'x', a)
                    return o

                def __init__(self, *a):
                    object.__init__(self)
            return A(1, 2).x
    """,
    "hash": """
        def f():

            class A:
                pass
            a = A()
            texts = (object.__repr__(a)[:3], object.__str__(a)[:3], object.__format__(a, '')[:3])
            sizes = (object.__dir__(a)[:0], object.__sizeof__(a) > 0)
            return (
                object.__hash__(a) == hash(a), object.__eq__(a, a), object.__ne__(a, a), texts, sizes,
                object.__reduce_ex__(a, 2)[0].__name__
            )
    """,
    "error": """
        def f():

            class A:
                __slots__ = ()
            a = A()
            try:
                object.__setattr__(a, 'x', 1)
            except AttributeError as e:
                return str(e)
    """,
    "errdel": """
        def f():

            class A:
                pass
            a = A()
            try:
                object.__delattr__(a, 'x')
            except AttributeError as e:
                return str(e)
    """,
    "wrapper": """
        def f():

            class A:
                pass
            a = A()
            s = a.__setattr__
            s('x', 1)
            g = a.__getattribute__
            r = g('x')
            a.__delattr__('x')
            return (r, hasattr(a, 'x'))
    """,
    "unbound": """
        def f():

            class A:
                pass
            a = A()
            s = A.__setattr__
            s(a, 'x', 1)
            return a.x
    """,
    "many": """
        def f():

            class A:
                pass
            out = []
            for i in range(5):
                a = A()
                object.__setattr__(a, 'x', i)
                object.__setattr__(a, 'y', i)
                object.__delattr__(a, 'x')
                out.append(a.__dict__)
            return out
    """,
    "generic": """
        import typing

        def f():
            T = typing.TypeVar('T')

            class A(typing.Generic[T]):

                def __init__(self):
                    object.__setattr__(self, 'x', 1)
            return A[int]().x
    """,
    "abc": """
        import abc

        def f():

            class A(abc.ABC):

                @abc.abstractmethod
                def g(self):
                    ...

            class B(A):

                def g(self):
                    return 1
            b = B()
            object.__setattr__(b, 'x', 1)
            return b.g() + b.x
    """,
    "proto": """
        def f():

            class A:
                pass
            a = A()
            A.__setattr__ = lambda s, n, v: object.__setattr__(s, n, v * 2)
            a.x = 2
            return a.x
    """,
    "module": """
        import types

        def f():
            m = types.ModuleType('m')
            object.__setattr__(m, 'x', 1)
            types.ModuleType.__setattr__(m, 'y', 2)
            return (m.x, m.y)
    """,
    "ns": """
        import types

        def f():
            m = types.SimpleNamespace()
            object.__setattr__(m, 'x', 1)
            return m.x
    """,
    "func": """
        def f():

            def g():
                pass
            object.__setattr__(g, 'x', 1)
            return g.x
    """,
    "partial": """
        import functools

        def f():

            class P(functools.partial):
                pass
            p = P(int, '3')
            object.__setattr__(p, 'x', 1)
            return (p.x, p())
    """,
    "weakslot": """
        import weakref

        def f():

            class A:
                __slots__ = ('x', '__weakref__', '__dict__')
            a = A()
            object.__setattr__(a, 'x', 1)
            object.__setattr__(a, 'y', 2)
            r = weakref.ref(a)
            return (a.x, a.y, r() is a)
    """,
}


@pytest.mark.parametrize("found", ["jit", "enable"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_plain(name: str, found: str) -> None:
    space: dict[str, object] = {}
    exec(textwrap.dedent(PROGRAMS[name]), space)
    f = space["f"]
    plain = repr(f())  # type: ignore[operator]
    if found == "enable":
        with pijit.enable():
            made = [repr(f()) for _ in range(4)]  # type: ignore[operator]
    else:
        fast = pijit.jit(f)  # type: ignore[type-var]
        made = [repr(fast()) for _ in range(4)]  # type: ignore[misc]
    assert made == [plain] * 4
