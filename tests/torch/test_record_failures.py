"""Ways in which compilers of tensor programs were seen to go wrong, each as a small program (docs/failures.md)."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import side_by_side
import torch
from side_by_side import Jit, replayed
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

import pijit

pytestmark = pytest.mark.torch

TABLE = side_by_side.Table()
scenario = TABLE.add


def data(seed: int, *shape: int) -> Tensor:
    return torch.randn(*(shape or (3, 4)), generator=torch.Generator().manual_seed(seed))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.register_buffer("scale", torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) * self.scale


@scenario()
def submodule_shadowed(jit: Jit) -> Iterator[Any]:
    """What stands in the instance's own dict goes before parameters, buffers and modules."""
    plain = Net()
    model = jit(plain)
    yield lambda: model(data(1))
    yield replayed(lambda: model(data(1)))
    object.__setattr__(plain, "inner", torch.tanh)
    yield lambda: model(data(1))
    object.__setattr__(plain, "scale", 2.0)
    yield lambda: model(data(1))
    object.__delattr__(plain, "inner")
    yield lambda: model(data(1))
    object.__delattr__(plain, "scale")
    yield replayed(lambda: model(data(1)))


@scenario(whole=False)
def results_that_get_attributes(jit: Jit) -> Iterator[Any]:
    """Foreign code, or the program itself, sets an attribute of what an operator made."""
    marked = False

    @pijit.opaque
    def mark(y: Tensor) -> None:
        if marked:
            y.tag = "marked"

    def f(x: Tensor, tag: int) -> Any:
        y = x * 2
        mark(y)
        z = y + 1
        z.tag = tag
        again = y.contiguous()
        return hasattr(y, "tag"), getattr(again, "tag", None), hasattr(z, "tag"), z.tag, hasattr(z, "other"), y.sum(), z

    f = jit(f)
    yield lambda: f(data(1), 1)
    yield replayed(lambda: f(data(2), 1))
    marked = True
    yield lambda: f(data(1), 1)
    yield lambda: f(data(2), 1)
    marked = False
    yield lambda: f(data(1), 1)
    yield lambda: f(data(2), 2)


@scenario(whole=False)
def results_that_change_class(jit: Jit) -> Iterator[Any]:
    """Foreign code gives what an operator made another class."""
    changed = False

    @pijit.opaque
    def change(y: Tensor) -> None:
        if changed:
            y.__class__ = nn.Parameter

    def f(x: Tensor) -> Any:
        y = x * 2
        change(y)
        several = [y], {"other": y}
        return isinstance(y, nn.Parameter), type(y).__name__, y + 1, torch.stack(several[0]), torch.add(x, **several[1])

    f = jit(f)
    yield lambda: f(data(1))
    yield replayed(lambda: f(data(2)))
    changed = True
    yield lambda: f(data(1))
    yield lambda: f(data(2))
    changed = False
    yield lambda: f(data(1))


@scenario()
def sizes_asserted(jit: Jit) -> Iterator[Any]:
    """What the program asserts of sizes hides no guard."""

    def f(x: Tensor) -> Tensor:
        assert x.shape[0] > 2, x.shape
        assert x.shape[1] % 2 == 0
        return x.sum() / x.shape[0]

    f = jit(f)
    for rows, columns in ((3, 4), (5, 4), (2, 4), (3, 5), (7, 6), (2, 2), (3, 4)):
        yield lambda: f(data(1, rows, columns))


@scenario(whole=False)
def settings_of_the_process(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor) -> Any:
        flags = torch.backends.cudnn.benchmark, torch.backends.cudnn.allow_tf32, torch.backends.mkldnn.enabled
        return x @ x.t(), torch.get_num_threads(), torch.get_float32_matmul_precision(), flags

    f = jit(f)
    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    try:
        yield lambda: f(data(1))
        yield lambda: f(data(1))
        torch.set_num_threads(threads + 1)
        yield lambda: f(data(1))
        torch.set_float32_matmul_precision("high" if precision != "high" else "highest")
        yield lambda: f(data(1))
        with torch.backends.mkldnn.flags(enabled=False):
            yield lambda: f(data(1))
    finally:
        torch.set_num_threads(threads)
        torch.set_float32_matmul_precision(precision)
    yield lambda: f(data(1))


@scenario()
def write_into_what_is_expanded(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor) -> Any:
        try:
            return x.add_(1)
        except RuntimeError as error:
            return str(error)

    f = jit(f)
    for turn in range(6):
        base = data(turn, 1, 4)
        yield lambda: (f(base.expand(3, 4) if turn % 3 == 2 else base.repeat(3, 1)), base)


@scenario()
def out_overlaps_inside_try(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor, out: Tensor) -> Any:
        try:
            return torch.add(x, 1, out=out)
        except RuntimeError as error:
            return type(error), str(error)[:60]

    f = jit(f)
    for overlapping in (False, False, True, False, True):
        base = torch.arange(12.0).reshape(3, 4)
        yield lambda: (f(base[:2], base[1:] if overlapping else torch.zeros(2, 4)), base)


@scenario(whole=False)
def storage_exchanged_under_a_view(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor, how: str) -> Any:
        view = x[1:]
        if how == "data":
            x.data = torch.full((3, 4), 7.0)
        elif how == "set_":
            x.set_(torch.full((3, 4), 8.0))
        elif how == "resize_":
            x.resize_(2, 2)
        return view + 1, x * 2, view

    f = jit(f)
    for how in ("", "", "data", "data", "set_", "set_", "resize_", "resize_", ""):
        yield lambda: f(data(1), how)


@scenario(whole=False)
def changed_between_forward_and_backward(jit: Jit) -> Iterator[Any]:
    plain = Net()
    model = jit(plain)
    for turn in range(8):

        def call() -> Any:
            plain.zero_grad()
            out = model(data(turn)).sum()
            if turn % 4 == 1:
                plain.inner.bias.requires_grad_(False)
            if turn % 4 == 2:
                torch.use_deterministic_algorithms(True, warn_only=True)
            try:
                out.backward()
                return [parameter.grad for parameter in plain.parameters()]
            finally:
                plain.inner.bias.requires_grad_(True)
                torch.use_deterministic_algorithms(False)

        yield call


@scenario()
def input_that_requires_grad_is_written(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor) -> Tensor:
        x.mul_(2)
        return x.exp().sum()

    f = jit(f)
    leaf = data(1).requires_grad_()
    for turn in range(6):

        def call() -> Any:
            leaf.grad = None
            loss = f(leaf if turn == 3 else leaf * 1)
            loss.backward()
            return loss, leaf.grad

        yield call


@scenario(whole=False)
def memory_shared_with_numpy(jit: Jit) -> Iterator[Any]:
    numpy = pytest.importorskip("numpy")
    array = numpy.arange(4.0)

    def f(x: Tensor, a: Any) -> Any:
        y = torch.from_numpy(a)
        y += x
        return y * 2, float(x.numpy().sum())

    f = jit(f)
    for turn in range(4):
        yield lambda: (f(torch.full((4,), float(turn), dtype=torch.float64), array), array.tolist())
    array = numpy.arange(3.0)
    yield lambda: (f(torch.ones(3, dtype=torch.float64), array), array.tolist())


@scenario(whole=False)
def random_numbers_of_numpy(jit: Jit) -> Iterator[Any]:
    numpy = pytest.importorskip("numpy")
    numpy.random.seed(3)
    own = numpy.random.default_rng(5)

    def f(x: Tensor) -> Any:
        return x * numpy.random.rand(), float(own.random()), float(numpy.random.standard_normal())

    f = jit(f)
    for seed in range(4):
        yield lambda: (f(data(seed)), float(numpy.random.rand()))
    numpy.random.seed(3)
    yield lambda: f(data(1))


@scenario(whole=False)
def uninitialised_memory_when_deterministic(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x: (torch.empty_like(x), torch.empty(3), x.new_empty(2)))
    filled = lambda: f(torch.ones(3))  # noqa: E731
    shapes = lambda: [part.shape for part in filled()]  # noqa: E731
    yield shapes
    yield shapes
    torch.use_deterministic_algorithms(True)
    try:
        yield filled
        yield filled
        torch.utils.deterministic.fill_uninitialized_memory = False
        yield shapes
    finally:
        torch.utils.deterministic.fill_uninitialized_memory = True
        torch.use_deterministic_algorithms(False)
    yield shapes


@scenario(whole=False)
def out_of_memory(jit: Jit) -> Iterator[Any]:
    """The error is eager's, and what was allocated before it is free again."""

    def f(x: Tensor, size: int) -> Any:
        y = x * 2
        return y, torch.empty(size, dtype=torch.uint8).numel()

    f = jit(f)
    for size in (8, 8, 2**60, 8, 2**60, 8):

        def call() -> Any:
            try:
                return f(data(1), size)
            except RuntimeError as error:
                return type(error), str(error)[:40]

        yield call


@scenario(whole=False)
def state_of_a_thread(jit: Jit) -> Iterator[Any]:
    """What is local to a thread is read in the thread that calls."""
    local = threading.local()
    local.scale = 2.0

    def f(x: Tensor) -> Any:
        return x * getattr(local, "scale", 1.0), torch.is_grad_enabled()

    f = jit(f)

    def elsewhere() -> Any:
        found: list[Any] = []

        def work() -> None:
            with torch.no_grad():
                found.append(f(data(1)))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return found

    yield lambda: f(data(1))
    yield lambda: f(data(1))
    yield elsewhere
    yield lambda: f(data(1))
    local.scale = 3.0
    yield lambda: f(data(1))
    yield elsewhere


@scenario(whole=False)
def shared_with_torch_compile(jit: Jit) -> Iterator[Any]:
    """Inside and outside of what another evaluator of frames compiles."""
    inner = torch.compile(lambda x: x.sin() + 1, backend="eager")
    around = jit(lambda x: inner(x) * 2)
    mine = jit(lambda x: x.cos() - 1)
    within = torch.compile(lambda x: mine(x) * 3, backend="eager")
    for seed in range(4):
        yield lambda: (around(data(seed)), within(data(seed)), mine(data(seed)))
    torch._dynamo.reset()
    yield lambda: (around(data(1)), within(data(1)), mine(data(1)))


class Squares(Dataset[Tensor]):
    def __init__(self, function: Any) -> None:
        self.function = function

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Tensor:
        return self.function(torch.tensor(float(index)))


def square(x: Tensor) -> Tensor:
    return x * x


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
def test_workers_of_a_loader() -> None:
    """A forked worker calls what its parent recorded."""
    jitted = pijit.jit(square)
    for _ in range(3):
        jitted(torch.tensor(2.0))
    loader = DataLoader(Squares(jitted), batch_size=2, num_workers=1, multiprocessing_context="fork")
    assert [batch.tolist() for batch in loader] == [[0.0, 1.0], [4.0, 9.0]]
    assert jitted(torch.tensor(3.0)).item() == 9.0


@pytest.mark.parametrize("name", TABLE.cases())
def test_same(name: str) -> None:
    TABLE.check(name, __file__)
