"""A part of the sweep over torch's callables: what is replayed equals eager, and the fates are those of docs/torch.md.

All of it is `make test-sweep`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.slow]

from comparing import Case  # noqa: E402
from operands import PROGRAMS  # noqa: E402
from report import FATES, differences, entries, fates, number, read_page  # noqa: E402

PARTS = 12
SHARE = 4  # one of so many cases is compared, with one of the programs


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads, always = torch.get_num_threads(), torch.is_warn_always_enabled()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
    torch.set_warn_always(always)


@functools.cache
def everything() -> list[Any]:
    return list(entries(1))


def sample(part: int) -> list[Case]:
    chosen = [cases for index, (name, cases) in enumerate(everything()) if index % PARTS == part]
    return [case for cases in chosen for case in cases() if number(case.name) % SHARE == 0]


@pytest.mark.parametrize("part", range(PARTS))
def test_sample(part: int) -> None:
    cases = sample(part)
    assert cases
    found = differences(cases, lambda case: [PROGRAMS[number(case.name) // SHARE % len(PROGRAMS)]])
    assert not found, "\n".join(found)
    page = read_page()
    assert {name: fate for name, fate in fates(cases).items() if page.get(name) != fate} == {}


def test_every_callable_has_a_fate() -> None:
    page = read_page()
    assert set(page.values()) <= set(FATES)
    assert len(page) > 2000
    assert sum(fate == "lowered" for fate in page.values()) > 0.9 * len(page)
