"""Functions and cells of MindSpore's tensors, recorded and replayed, against plain MindSpore bit for bit."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import pijit

mindspore = pytest.importorskip("mindspore")

from mindspore import Parameter, Tensor, nn, ops  # noqa: E402
from tensor_functions import CELLS, FUNCTIONS, tensors  # noqa: E402


@pytest.fixture(autouse=True)
def at_once() -> Iterator[None]:
    """Errors are raised by the call that makes them, and not by a later one."""
    mindspore.set_context(pynative_synchronize=True)
    yield
    mindspore.set_context(pynative_synchronize=False)


def seen(value: Any) -> Any:
    """A result as bits: class, dtype, shape, bytes."""
    if isinstance(value, Tensor):
        return type(value), str(value.dtype), value.shape, value.asnumpy().tobytes()
    if isinstance(value, (tuple, list)):
        return type(value), [seen(item) for item in value]
    if isinstance(value, dict):
        return type(value), [(key, seen(item)) for key, item in value.items()]
    return type(value), repr(value)


def outcome(function: Callable[..., Any], *args: Any) -> Any:
    """What a call gives or raises, and what its arguments are afterwards."""
    try:
        result = seen(function(*args))
    except Exception as error:
        result = type(error), str(error).partition("\n")[0]
    return result, [seen(arg) for arg in args]


def twin(function: Any) -> Any:
    return types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )


def same(jitted: Any, plain: Any, *args: Any) -> Any:
    """One call of both, on arguments that they share nothing of."""
    copies = [Tensor(each.asnumpy().copy()) if isinstance(each, Tensor) else each for each in args]
    expected = outcome(plain, *args)
    assert outcome(jitted, *copies) == expected
    return expected[0]


def changes() -> Iterator[tuple[Any, ...]]:
    yield tensors(0, 3, 4)
    yield tensors(1, 3, 4)
    yield tensors(2, 5, 4)
    yield tensors(3, 3, 4, dtype=np.float16)
    yield tensors(4, 2, 3, 4)
    yield tensors(5, 3, 4, dtype=np.int32)
    yield tensors(6, 3, 4)
    yield tensors(7, 3, 4)[0], tensors(8, 3, 5)[0]  # shapes that do not fit
    yield tensors(9, 3, 4)


def replays(function: Any) -> int:
    return sum(trace.replays for trace in pijit.traces(function))


def calls_left(function: Any) -> int:
    return min(trace.opaque_calls for trace in pijit.traces(function))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    plain = FUNCTIONS[name]
    jitted = pijit.jit(twin(plain))
    for args in changes():
        for _ in range(2):
            same(jitted, plain, *args)
    assert replays(jitted) > 0


@pytest.mark.parametrize("name", sorted(FUNCTIONS.keys() - {"in_place", "with_names", "items", "several", "made_here"}))
def test_calls_of_operators_are_not_opaque(name: str) -> None:
    jitted = pijit.jit(twin(FUNCTIONS[name]))
    for seed in range(3):
        same(jitted, FUNCTIONS[name], *tensors(seed, 3, 4))
    assert calls_left(jitted) == 0


@pytest.mark.parametrize("name", CELLS)
def test_cells(name: str) -> None:
    make, shapes = CELLS[name]
    plain = make()
    cell = make()
    for own, other in zip(cell.get_parameters(), plain.get_parameters(), strict=True):
        own.set_data(other.copy() if hasattr(other, "copy") else other)
    jitted = pijit.jit(cell)
    for turn in range(2):
        for shape in shapes:
            for seed in range(3):
                same(jitted, plain, *tensors(seed + turn, *shape, count=1))
        for own, other in zip(cell.get_parameters(), plain.get_parameters(), strict=True):  # a step of training
            changed = Tensor(other.asnumpy() * 0.5 + 0.25)
            own.set_data(changed)
            other.set_data(changed)
    assert calls_left(jitted) == 0
    assert replays(jitted) > 0


def test_gradients_are_those_of_mindspore() -> None:
    def loss(x: Any, y: Any) -> Any:
        return (ops.tanh(x * y + 1) * x).sum()

    jitted = pijit.jit(twin(loss))
    for seed in range(4):
        x, y = tensors(seed, 3, 4)
        same(jitted, loss, x, y)
        expected = outcome(mindspore.value_and_grad(loss, (0, 1)), x, y)
        assert outcome(mindspore.value_and_grad(jitted, (0, 1)), x, y) == expected
    cell = nn.Dense(4, 2)
    jitted_cell = pijit.jit(lambda x: cell(x).sum())
    for seed in range(4):
        (x,) = tensors(seed, 3, 4, count=1)
        weights = list(cell.trainable_params())
        expected = outcome(mindspore.value_and_grad(lambda x: cell(x).sum(), None, weights), x)
        assert outcome(mindspore.value_and_grad(jitted_cell, None, weights), x) == expected


def test_random_numbers_come_as_in_plain_mindspore() -> None:
    def draw(x: Any, y: Any) -> Any:
        return x + ops.dropout(y, 0.5), ops.standard_normal(x.shape) + x

    jitted = pijit.jit(twin(draw))
    made = []
    for function in (draw, jitted):
        mindspore.set_seed(3)
        made.append([outcome(function, *tensors(seed, 3, 4))[0] for seed in range(5)])
    assert made[0] == made[1]


def test_operators_that_run_behind_the_program() -> None:
    mindspore.set_context(pynative_synchronize=False)
    for name in ("chain", "product", "shapes", "looped"):
        jitted = pijit.jit(twin(FUNCTIONS[name]))
        for seed in range(5):
            same(jitted, FUNCTIONS[name], *tensors(seed, 3 + seed % 2, 4))
        assert replays(jitted) > 0

    def late(x: Any) -> Any:
        z = ops.tanh(x)  # no kernel for whole numbers
        return z * 2

    jitted = pijit.jit(twin(late))
    for dtype in (np.float32, np.float32, np.int32, np.int32, np.float32):
        (x,) = tensors(1, 3, dtype=dtype, count=1)
        made = []
        for function in (late, jitted):
            given = Tensor(x.asnumpy().copy())
            made.append(outcome(function, given)[0] if dtype is np.float32 else failure(function, given))
        assert made[0] == made[1]


def failure(function: Any, x: Any) -> Any:
    """The class of the first error; those that come after it are of the same operators."""
    found = None
    for turn in range(3):
        try:
            if turn == 0:
                function(x).asnumpy()
            x.asnumpy()
        except Exception as error:
            found = found or type(error)
    return found


def test_an_error_is_raised_where_mindspore_raises_it() -> None:
    def multiply(x: Any, y: Any) -> Any:
        z = x + 1
        return ops.matmul(z, y)

    jitted = pijit.jit(twin(multiply))
    x, y = tensors(0, 3, 3)
    for _ in range(3):
        same(jitted, multiply, x, y)
    wrong = tensors(0, 4, 3)[0]
    for _ in range(3):
        found = same(jitted, multiply, x, wrong)
        assert issubclass(found[0], Exception)
        same(jitted, multiply, x, y)


def test_what_the_program_adds_to_a_tensor_is_seen() -> None:
    def asked(x: Any) -> Any:
        return x.abs() + 1

    jitted = pijit.jit(twin(asked))
    for seed in range(3):
        same(jitted, asked, *tensors(seed, 3, count=1))
    (x,) = tensors(9, 3, count=1)
    x.abs = lambda: Tensor(5.0)
    assert seen(jitted(x)) == seen(asked(x))
    same(jitted, asked, *tensors(4, 3, count=1))

    class Derived(Tensor):  # type: ignore[misc]
        def abs(self) -> Any:
            return Tensor(7.0)

    for _ in range(2):
        assert seen(jitted(Derived(np.ones(3, np.float32)))) == seen(asked(Derived(np.ones(3, np.float32))))
    parameter = Parameter(Tensor([-1.0, 2.0]), name="p")
    for _ in range(2):
        assert seen(jitted(parameter)) == seen(asked(parameter))


def test_state_and_numbers_that_change() -> None:
    def scaled(x: Any, by: float, table: list[Any]) -> Any:
        return x * by + table[0]

    jitted = pijit.jit(twin(scaled))
    x, y = tensors(0, 3, 4)
    for by in (2, 2, 3.5, 4.5, 5.5, True):
        for table in ([1], [y], [y, 2]):
            expected = seen(scaled(x, by, table))
            assert seen(jitted(x, by, table)) == expected
