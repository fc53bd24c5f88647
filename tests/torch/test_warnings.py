"""Warnings of torch in a replay: the same ones, at the same lines, and as exceptions where they are to be that."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import pijit

pytestmark = pytest.mark.torch

Log = list[tuple[int, str]]


def fill(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    x.masked_fill_(mask, 3.0)
    return x + 1


def fill_deep(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    def inner() -> None:
        x.masked_fill_(mask, 3.0)

    inner()
    return x + 1


def assign(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    x[mask] = 1.0
    return x * 2


def index(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return x[mask.squeeze() * torch.ones(3, dtype=torch.uint8)]  # a mask, if there is one number only


def transpose(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return x.squeeze().T * mask.numel()


def loud(function: Callable[..., Any], *arguments: Any) -> tuple[Log, Any]:
    with warnings.catch_warnings(record=True) as log:
        warnings.simplefilter("always")
        result = function(*arguments)
    return [(warning.lineno, str(warning.message)) for warning in log], result


def strict(function: Callable[..., Any], *arguments: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return function(*arguments)
        except UserWarning as error:
            lines = []
            traceback = error.__traceback__
            while traceback is not None:
                lines.append((traceback.tb_frame.f_code.co_name, traceback.tb_lineno))
                traceback = traceback.tb_next
            return str(error), lines[1:]


def same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    return one == other if not isinstance(one, tuple) else all(map(same, one, other))


MASK = torch.zeros(3, 4, dtype=torch.bool)


@pytest.mark.parametrize("function", [fill, fill_deep, assign])
def test_of_an_operator_that_writes(function: Callable[..., Any]) -> None:
    """It has written when it warns: neither is it run again, nor may the warning be lost."""
    fast = pijit.jit(function)
    for _ in range(3):
        fast(torch.ones(3, 4), MASK)
    for how in (loud, strict):
        plain, replayed = (how(each, torch.ones(1, 4).expand(3, 4), MASK) for each in (function, fast))
        assert same(plain, replayed), (plain, replayed)
    assert fast(torch.ones(3, 4), MASK).sum() == function(torch.ones(3, 4), MASK).sum()


def test_of_an_index() -> None:
    fast = pijit.jit(index)
    x = torch.ones(3, 2)
    many, one = torch.ones(3, dtype=torch.int64), torch.ones(1, dtype=torch.int64)
    for mask in (many, many, many, one):
        plain, replayed = (loud(each, x, mask) for each in (index, fast))
        assert same(plain, replayed), (plain, replayed)
    assert "indexing with dtype torch.uint8" in plain[0][0][1]


def run_alone(body: str) -> list[str]:
    """What a program prints in a process of its own, plain and jitted: some warnings come once in a process."""
    program = textwrap.dedent(body)
    return [
        subprocess.run([sys.executable, "-c", program, how], capture_output=True, text=True, check=True).stdout
        for how in ("plain", "jit")
    ]


ALONE = """
    import sys, warnings, torch, pijit
    {function}
    g = pijit.jit(f) if sys.argv[1] == "jit" else f
    with warnings.catch_warnings(record=True) as log:
        warnings.simplefilter("always")
        for arguments in [{arguments}]:
            print(g(arguments), [(warning.lineno, str(warning.message)) for warning in log])
"""


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        ("def f(x): return x.squeeze().T * 2", "*[torch.ones(3, 1, 4)] * 3, torch.ones(3, 2, 4), torch.ones(3, 2, 4)"),
        ("def f(x): return float(x) + 1", "*[torch.tensor(2.0)] * 3, *[torch.tensor(2.0, requires_grad=True)] * 3"),
        ("def f(x): return float(x) + 1", "*[torch.tensor(2.0, requires_grad=True)] * 4"),
        ("def f(x): return x.item() + 1", "*[torch.tensor(2.0, requires_grad=True)] * 4"),
    ],
)
def test_that_come_once_in_a_process(function: str, arguments: str) -> None:
    plain, replayed = run_alone(ALONE.format(function=function, arguments=arguments))
    assert plain == replayed
    assert plain
