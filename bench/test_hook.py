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
