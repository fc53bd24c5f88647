"""Cases that run on `twin`, in a process of its own, and with a GPU on CUDA."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch

from devices import twin
from devices.child import Child

Case = Callable[[], None]


def on_both(file: str, cases: Sequence[Case]) -> tuple[Any, Case, Case]:
    """The fixture `child` of a file of tests, and its tests: `test_on_twin`, `test_on_cuda`."""

    @pytest.fixture(scope="module")
    def child() -> Iterator[Child]:
        made = Child(file)
        yield made
        made.end()

    each = pytest.mark.parametrize("case", cases, ids=[case.__name__ for case in cases])

    @pytest.mark.skipif(twin.compiler() is None, reason="needs a C++ compiler")
    @each
    def on_twin(child: Child, case: Case) -> None:
        if wrong := child.ask(case.__name__):
            pytest.fail(wrong, pytrace=False)

    @pytest.mark.cuda
    @pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
    @each
    def on_cuda(case: Case) -> None:
        case()

    return child, on_twin, on_cuda
