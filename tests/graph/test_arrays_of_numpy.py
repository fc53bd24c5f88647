"""Arrays of NumPy that a call makes are constants of its graph, also where it has written to them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import pijit
from pijit.errors import ExportError

pytestmark = pytest.mark.torch


def written(i: Any) -> Any:
    a = np.arange(4)
    a[1] = 7
    b = a.reshape(2, 2)
    b[0] = 3
    a += 1
    return torch.from_numpy(a) + i, torch.tensor(b[1]) * i[:, :2]


def filled(i: Any) -> Any:
    a, b = np.zeros((2, 4)), np.arange(3.0)[::-1].copy()
    a.fill(5)
    b.sort()
    np.copyto(a[0], 7)
    return i * torch.from_numpy(a[0]) + torch.from_numpy(a[1] * 2) - torch.tensor(b[:1])


def copied(i: Any) -> Any:
    a = np.arange(4)
    t = torch.tensor(a)
    a.fill(5)
    return t + i, torch.tensor(a) * i


def twice(i: Any) -> Any:
    a = np.arange(4)
    return torch.from_numpy(a) + i, torch.from_numpy(a) * i


def of_sizes(i: Any) -> Any:
    return i * np.prod(i.shape) + np.sum(i.shape) - np.max(i.shape) * np.min(i.shape[1:])


def parameter(i: Any) -> Any:
    return torch.nn.Parameter(i * 0.5) + 1


@pytest.mark.parametrize("f", [written, filled, copied, twice, of_sizes, parameter], ids=lambda f: f.__name__)
def test_they_are_constants(f: Any) -> None:
    graph = pijit.graph.capture(f, torch.arange(12).reshape(3, 4))
    for size in (3, 6):
        i = torch.arange(size * 4).reshape(size, 4) * 3
        expected, made = (each if isinstance(each, tuple) else (each,) for each in (f(i), graph.run(i)))
        for one, other in zip(expected, made, strict=True):
            assert one.dtype == other.dtype
            assert torch.equal(one, other)


def through_the_array(i: Any) -> Any:
    a = np.arange(4)
    t = torch.from_numpy(a)
    a.fill(5)
    return t + i


def through_an_item(i: Any) -> Any:
    a = np.arange(4)
    t = torch.from_numpy(a)
    a[1] = 7
    return t + i


def through_a_copy(i: Any) -> Any:
    a = np.arange(4)
    t = torch.as_tensor(a)
    np.copyto(a[:2], 7)
    return t + i


def through_the_tensor(i: Any) -> Any:
    a = np.arange(4)
    torch.from_numpy(a).add_(1)
    return torch.tensor(a) + i


def through_another_tensor(i: Any) -> Any:
    a = np.arange(4)
    t = torch.from_numpy(a[1:])
    torch.from_numpy(a).add_(1)
    return t + i[:, 1:]


def by_a_method_of_its_name(i: Any) -> Any:
    a = np.arange(4)
    a.__setitem__(0, i.shape[0])
    return torch.from_numpy(a) + i


SHARED = [by_a_method_of_its_name]
SHARED += [through_the_array, through_an_item, through_a_copy, through_the_tensor, through_another_tensor]


@pytest.mark.parametrize("f", SHARED, ids=lambda f: f.__name__)
def test_memory_that_a_tensor_shares_splits_the_graph(f: Any) -> None:
    i = torch.arange(12).reshape(3, 4)
    before = f(i)
    with pytest.raises(ExportError, match=r"test_arrays_of_numpy\.py:\d+"):
        pijit.export(f, i, format="fx")
    assert torch.equal(before, f(i))
