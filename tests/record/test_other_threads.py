"""What a recording knows of code that another thread's recording follows, too."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import pytest

import pijit


@pytest.fixture(autouse=True)
def threads_change_often() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def test_code_that_another_thread_follows_anew() -> None:
    """What was known of code that runs here is gone when the recording that followed it has ended elsewhere."""
    rounds = 20
    inside, outside = threading.Barrier(2), threading.Barrier(2)

    @pijit.opaque
    def meet() -> None:
        inside.wait()
        outside.wait()

    def shared(x: int) -> int:
        y = x + 1
        if x == 1:
            meet()
        return x * y + y

    def first(x: int) -> int:
        return shared(x)

    @pijit.opaque
    def look() -> list[int]:
        seen = []
        for x in range(2, 2 + rounds):
            inside.wait()
            seen.append(shared(x))
            outside.wait()
        return seen

    def second(x: int) -> tuple[list[int], int]:
        return look(), shared(x)

    def work() -> None:
        for _ in range(2 * rounds):
            jitted = pijit.jit(first)
            results.append(jitted(1))
            pijit.unjit(jitted)

    results: list[int] = []
    expected = [(x + 1) ** 2 for x in range(2, 2 + rounds)]
    thread = threading.Thread(target=pijit.skip(work))
    thread.start()
    jitted = pijit.jit(second)
    for x in (5, 6):
        assert jitted(x) == (expected, (x + 1) ** 2)
    thread.join()
    assert results == [4] * 2 * rounds
