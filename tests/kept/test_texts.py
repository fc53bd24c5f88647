"""Traces as texts for another process: each kind of operation, and texts that are no such traces."""

from __future__ import annotations

import gc
import os
import random
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import pijit
from pijit import _core, api

sys.path.insert(0, str(Path(__file__).parents[1] / "record"))

from observe import run
from small_programs import Program, load_programs

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

F = torch.nn.functional


def by_file() -> Iterator[tuple[str, list[Program]]]:
    """The programs of each file."""
    files: dict[str, list[Program]] = {}
    for program in load_programs().values():
        files.setdefault(program.file.stem, []).append(program)
    yield from files.items()


@pytest.mark.parametrize(("file", "programs"), [pytest.param(*each, id=each[0]) for each in by_file()])
def test_every_program(file: str, programs: list[Program]) -> None:
    """What is written of a trace of the recorder's tests is found again where nothing has changed."""
    for program in programs:
        held: list[Any] = []

        def root_of(jitted: Any, held: list[Any] = held) -> int:
            held.append(jitted)
            return api.root_of(jitted)

        run(program, "early", pijit.jit, root_of)
        root = api.root_of(held[0])
        for text in _core.kept_texts(root)["texts"]:
            assert not re.search(r"0x[57][0-9a-f]{11}\b", text), program
            assert _core.check_kept(root, text) == "", (program, text)
    gc.collect()


x = torch.arange(12.0).reshape(3, 4)
weight = torch.nn.Parameter(torch.ones(4, 4))

# One for each class of operations of the adapter, and each form of its arguments.
OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "operator": lambda x: x + 1,
    "operator with a number tensor": lambda x: x * 2.5 + True,
    "operator with lists": lambda x: x.sum([0, 1]).reshape([1, 1]).repeat(2, 3),
    "operator with an empty list": lambda x: x.sum(()),
    "operator with tensors": lambda x: torch.cat([x, x, weight[:3]], 1),
    "operator with optional tensors": lambda x: F.layer_norm(x, (4,)) + F.linear(x, weight),
    "operator with text": lambda x: F.gelu(x, approximate="tanh"),
    "operator with a dtype": lambda x: x.to(torch.float64).sum(dtype=torch.float32),
    "operator with floats": lambda x: F.interpolate(x[None, None], scale_factor=(2.0, 3.0)),
    "operator with several results": lambda x: x.max(dim=1),
    "operator with a list of results": lambda x: x.split(2, dim=1),
    "operator with random numbers": lambda x: F.dropout(x, 0.5) + torch.rand_like(x),
    "operator in place": lambda x: x.clone().add_(1).mul_(x),
    "operator with sizes": lambda x: x.reshape(x.shape[1], x.shape[0]) * x.shape[0],
    "operator with a number of a tensor": lambda x: x * float(x.sum()),
    "factory": lambda x: torch.zeros(3, 4) + torch.arange(4) + torch.full((4,), 2.5),
    "factory of sizes": lambda x: torch.ones(x.shape[0], 4) + x,
    "named operator": lambda x: torch.ops.aten.add.Tensor(x, x, alpha=2),
    "literal": lambda x: x + torch.tensor([1.0, 2.0, 3.0, 4.0]),
    "number": lambda x: x.sum().item() + int(x.max()),
    "truth": lambda x: x * 2 if (x.sum() > 3) else x,
    "contiguous": lambda x: x.t().contiguous(),
    "data": lambda x: weight.data + x.sum(),
    "getitem": lambda x: (x[1:, ::2], x[..., 0], x[None], x[x > 2], x[[0, 2]], x[0, 1], x[True], x[-1][x.shape[1] - 1]),
    "setitem": lambda x: set_items(x.clone()),
    "metadata": lambda x: (x.shape, x.dtype, x.device, x.is_contiguous(), x.stride(), x.numel(), x.requires_grad),
    "grad mode": lambda x: no_gradients(x),
    "gradients": lambda x: gradients(x),
    "requires_grad_": lambda x: x.clone().requires_grad_(True).sum(),
}


def set_items(x: Any) -> Any:
    """Stores of each kind."""
    x[0] = 3
    x[1, 1:] = 2.5
    x[2] = x[1]
    x[:, 0] = x.shape[0]
    return x


def no_gradients(x: Any) -> Any:
    """A block in which the mode is another."""
    with torch.no_grad():
        y = weight @ x.t()
    return y, torch.is_grad_enabled()


def gradients(x: Any) -> Any:
    """Reads and writes the attribute."""
    weight.grad = None
    (x @ weight).sum().backward()
    found = weight.grad
    weight.grad = None
    return found


def values(result: Any) -> Any:
    """What can be compared."""
    if isinstance(result, torch.Tensor):
        return result.dtype, result.shape, result.requires_grad, result.detach().tolist()
    return [values(each) for each in result] if isinstance(result, tuple | list) else result


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation(name: str) -> None:
    """It is written, made again for another function of the same code, and does the same."""
    function = OPERATIONS[name]
    jitted = pijit.jit(function)
    torch.manual_seed(0)
    expected = [values(function(each)) for each in (x, x, x * 2)]
    torch.manual_seed(0)
    assert [values(jitted(each)) for each in (x, x, x * 2)] == expected
    kept = _core.kept_texts(_core.root_of(jitted))
    assert kept["texts"], kept["reasons"]
    other = pijit.jit(function)
    root = _core.root_of(other)
    assert _core.install_kept(root, kept["texts"], []) == (len(kept["texts"]), [])
    before = pijit.stats()["records"]
    torch.manual_seed(0)
    assert [values(other(each)) for each in (x, x, x * 2)] == expected
    assert pijit.stats()["records"] == before
    assert pijit.stats()["replays"] > 0


def operation_names() -> set[str]:
    """Of the classes of operations, as the sources name them."""
    sources = (Path(__file__).parents[2] / "csrc" / "torch").glob("*.[ch]*")
    pattern = re.compile(r'static constexpr const char\* kName = "(\w+)";')
    texts = (file.read_text() for file in sources)
    return {name for text in texts if '#include "torch/kept.h"' in text for name in pattern.findall(text)}


def test_no_operation_is_forgotten() -> None:
    """Each class that has a name stands in some text of the tests above."""
    seen = set()
    for function in OPERATIONS.values():
        jitted = pijit.jit(function)
        jitted(x)
        for text in _core.kept_texts(_core.root_of(jitted))["texts"]:
            seen |= set(re.findall(r' do as\("(\w+)"', text))
    rare = {"callable", "getter", "set_requires_grad", "grad_is_none", "write_grad", "read_grad", "check", "read"}
    assert operation_names() - seen <= rare


def net() -> Any:
    """A module with several layers."""
    return torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))


# So many in the suite; PIJIT_FUZZ has more of them tried.
TRIES = int(os.environ.get("PIJIT_FUZZ", "400"))


def test_any_text_can_be_read() -> None:
    """A text with some bytes, words or lines changed is read, or refused with a reason, and nothing else happens."""
    made = pijit.jit(net())
    with torch.no_grad():
        made(x)
    root = _core.root_of(made)
    (text,) = _core.kept_texts(root)["texts"]
    words = sorted(set(re.findall(r"\w+|\S", text)))
    lines = text.splitlines(keepends=True)
    chance = random.Random(2)
    refused = 0
    for _ in range(TRIES):
        if chance.random() < 0.3:
            changed = lines.copy()
            at = chance.randrange(len(changed))
            changed[at : at + 1] = chance.choice([[], [lines[at]] * 2, [chance.choice(lines)]])
            data = "".join(changed)
        else:
            data = text
            for _ in range(chance.randint(1, 3)):
                at = chance.randrange(len(data))
                end = min(len(data), at + chance.choice([0, 1, 1, 4]))
                data = (
                    data[:at]
                    + chance.choice(["", chance.choice(words), chr(chance.randrange(256)), "9" * 20])
                    + data[end:]
                )
        why = _core.check_kept(root, data)
        assert isinstance(why, str)
        refused += bool(why)
    assert refused > TRIES // 3
    assert _core.check_kept(root, text) == ""
