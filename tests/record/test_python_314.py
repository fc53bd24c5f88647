"""What CPython 3.14 brought, plain and jitted: programs that cannot be compiled, or mean something else, before."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable
from typing import Any

import pytest

import pijit

pytestmark = pytest.mark.skipif(sys.version_info < (3, 14), reason="of CPython 3.14")

PROGRAMS = {
    "template string": """
        def f(x):
            made = t"{x!r:>{width}} and {width}"
            return made.strings, made.values, [(part.expression, part.format_spec) for part in made.interpolations]

        def change():
            global width
            width = 9

        width = 5
    """,
    "annotations of a function made inside": """
        def f(x):
            def inner(a: Late, *, b: Late = 2) -> x:
                return a
            return inner(x), inner.__annotate__(1) if late else inner.__annotations__, inner.__annotations__

        def change():
            global Late, late
            Late, late = str, True

        Late, late = int, False
    """,
    "annotations of a function that was there": """
        def g(a: Late): ...

        def f(x):
            return g.__annotations__, g.__annotate__ is None, x

        def change():
            g.__annotations__ = {"a": "other"}

        Late = int
    """,
    "yield while an exception is handled": """
        def g(x):
            try:
                try:
                    raise ValueError(x)
                finally:
                    yield x
            except ValueError as error:
                yield error.args
                raise KeyError(error.__traceback__.tb_lineno) from error

        def f(x):
            seen = []
            try:
                for item in g(x + k):
                    seen.append(item)
            except KeyError as error:
                seen += [error.args, type(error.__cause__)]
            return seen

        def change():
            global k
            k = 0.5

        k = 1
    """,
    "left while an exception is handled": """
        def f(x):
            seen = []
            try:
                try:
                    [][x]
                finally:
                    seen.append(k)
                    if k > limit:
                        seen.append(sys.getrefcount(seen))
            except IndexError as error:
                seen.append(error.__traceback__.tb_lineno)
            return seen

        def change():
            global k
            k = 7

        import sys
        k, limit = 1, 5
    """,
    "all of a generator expression": """
        def f(x):
            return all(item < k for item in range(x)), any(item == k for item in range(x)), tuple(i for i in range(k))

        def change():
            global k, all
            k, all = 2, (lambda items: sum(items))

        k = 9
    """,
    "a manager whose methods change": """
        class Manager:
            def __enter__(self):
                return k
            def __exit__(self, kind, value, traceback):
                seen.append(kind)
                return kind is ValueError

        def f(x):
            seen.clear()
            with Manager() as value, Manager():
                if x + value > 3:
                    raise ValueError(x)
            return seen[:], value

        def change():
            global k
            k = 5
            Manager.__exit__ = lambda self, kind, value, traceback: seen.append("other") or True

        seen, k = [], 1
    """,
    "references are counted": """
        def f(x):
            one, other = [x], [k]
            return sys.getrefcount(one), sys.getrefcount(other) - sys.getrefcount([]), len(other)

        def change():
            global k
            k = "else"

        import sys
        k = 1
    """,
}


def calls(program: str, wrap: Callable[[Any], Any]) -> list[str]:
    """What `f` gives, three times before the change and three times after it."""
    space: dict[str, Any] = {"__name__": "program"}
    exec(compile(textwrap.dedent(PROGRAMS[program]), "<program>", "exec", dont_inherit=True), space)
    space["f"] = function = wrap(space["f"])
    seen = [repr(function(3)) for _ in range(3)]
    space["change"]()
    return seen + [repr(function(3)) for _ in range(3)]


@pytest.mark.parametrize("program", PROGRAMS)
def test_same(program: str) -> None:
    assert calls(program, pijit.jit) == calls(program, lambda function: function)


def test_annotations_are_not_made_by_jit() -> None:
    """A name that is not there yet may stand in one."""
    space: dict[str, Any] = {}
    exec(compile("def f(x: later): return x", "<program>", "exec", dont_inherit=True), space)
    jitted = pijit.jit(space["f"])
    assert [jitted(1), jitted(2)] == [1, 2]
    with pytest.raises(NameError):
        _ = jitted.__annotations__
    space["later"] = int
    assert jitted.__annotations__ == {"x": int}
