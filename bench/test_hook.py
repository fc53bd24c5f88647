"""What the hook costs Python code that pijit leaves to CPython."""

import pytest

import pijit

pytestmark = pytest.mark.benchmark(group="hook")


def fibonacci(n: int) -> int:
    """Nothing but Python calls."""
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def test_without(benchmark):
    assert benchmark(fibonacci, 18) == 2584


def test_enabled(benchmark):
    with pijit.enabled():
        assert benchmark(fibonacci, 18) == 2584


def test_jitted(benchmark):
    assert benchmark(pijit.jit(fibonacci), 18) == 2584


def test_beside_a_jitted_function(benchmark):
    other = pijit.jit(lambda x: x + 1)
    assert [other(x) for x in range(4)] == [1, 2, 3, 4]
    assert benchmark(fibonacci, 18) == 2584
