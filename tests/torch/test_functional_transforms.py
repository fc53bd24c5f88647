"""The transformations of torch.func in a recorded call: what they call is recorded, and replayed bit for bit."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

import pijit

torch = pytest.importorskip("torch")
func = pytest.importorskip("torch.func")

pytestmark = pytest.mark.torch


def data(shape: tuple[int, ...], seed: int) -> Any:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


class Net(torch.nn.Module):
    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self.a, self.b = torch.nn.Linear(3, 4), torch.nn.Linear(4, 1)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for each in self.parameters():
                each.copy_(torch.randn(each.shape, generator=generator))

    def forward(self, x: Any) -> Any:
        return self.b(self.a(x).tanh())


NET, NETS = Net(), [Net(seed) for seed in range(3)]
PARAMETERS = {name: each.detach() for name, each in NET.named_parameters()}
W = data((3, 3), 9)


def energy(x: Any) -> Any:
    return (x @ W).tanh().square().sum() + x.prod()


def vmapped(x: Any) -> Any:
    return func.vmap(lambda row: (row @ W).relu() + row.max())(x)


def vmapped_over_columns(x: Any) -> Any:
    return func.vmap(lambda a, b: (a * b, a - b.sum()), in_dims=(1, None), out_dims=(1, 0))(x, x[:, 0])


def vmapped_structures(x: Any) -> Any:
    made = func.vmap(lambda held: {"a": held["x"] * 2, "b": (held["x"].sum(), held["y"])})({"x": x, "y": x.abs()})
    return made["a"], made["b"]


def vmapped_in_chunks(x: Any) -> Any:
    return func.vmap(lambda row: row.softmax(0), chunk_size=2)(x)


def vmapped_method(x: Any) -> Any:
    return torch.vmap(torch.dot)(x, x + 1)


def vmapped_twice(x: Any) -> Any:
    return func.vmap(func.vmap(lambda a, b: a * b + 1, (0, None)), (None, 0))(x[0], x[1])


def gradient(x: Any) -> Any:
    return func.grad(energy)(x[0])


def gradient_with_more(x: Any) -> Any:
    made = func.grad_and_value(lambda x, y: ((x * y).sum(), {"y": y * 2}), argnums=(0, 1), has_aux=True)(x, x + 1)
    return made[0], made[1][0], made[1][1]["y"]


def second_gradient(x: Any) -> Any:
    return func.grad(lambda x: func.grad(energy)(x).square().sum())(x[0])


def gradients_of_rows(x: Any) -> Any:
    return func.vmap(func.grad(energy))(x)


def pulled_back(x: Any) -> Any:
    made, pull = func.vjp(lambda x: (x @ W).sin(), x)
    return made, pull(torch.ones_like(made)), pull(made)


def pulled_back_under_vmap(x: Any) -> Any:
    made, pull = func.vjp(energy, x[0])
    return made, func.vmap(pull)(torch.arange(3.0))


def pushed_forward(x: Any) -> Any:
    return func.jvp(lambda x: (x @ W).sin(), (x,), (x + 1,))


def jacobian(x: Any) -> Any:
    return func.jacrev(lambda x: (x @ W).sin())(x[0])


def forward_jacobian(x: Any) -> Any:
    return func.jacfwd(lambda x: (x @ W).sin())(x[0])


def second_derivatives(x: Any) -> Any:
    return func.hessian(energy)(x[0])


def called_with(x: Any) -> Any:
    return func.functional_call(NET, {name: each * 2 for name, each in PARAMETERS.items()}, (x,))


def gradients_of_samples(x: Any) -> Any:
    def loss(parameters: Any, row: Any) -> Any:
        return func.functional_call(NET, parameters, (row,)).square().sum()

    return func.vmap(func.grad(loss), in_dims=(None, 0))(PARAMETERS, x)


def ensemble(x: Any) -> Any:
    parameters, buffers = func.stack_module_state(NETS)
    call = lambda parameters, buffers, x: func.functional_call(NETS[0], (parameters, buffers), (x,))  # noqa: E731
    return func.vmap(call, in_dims=(0, 0, None))(parameters, buffers, x)


def adapted(x: Any) -> Any:
    """The inner loop of MAML."""

    def loss(parameters: Any, x: Any) -> Any:
        return func.functional_call(NET, parameters, (x,)).square().mean()

    def outer(parameters: Any) -> Any:
        now = parameters
        for _ in range(2):
            gradients = func.grad(loss)(now, x)
            now = {name: each - 0.1 * gradients[name] for name, each in now.items()}
        return loss(now, x + 1)

    return func.grad(outer)(PARAMETERS)


def decided_inside(x: Any) -> Any:
    return func.grad(lambda x: (x * 2).sum() if x.sum() > 0 else (x * 3).sum())(x[0])


def sizes_inside(x: Any) -> Any:
    return func.vmap(lambda row: row.reshape(1, -1).expand(2, row.shape[0]) / row.numel())(x)


def closed_over(x: Any) -> Any:
    scale = x.sum()
    return func.vmap(lambda row: row * scale)(x), func.grad(lambda row: (row * scale).sum())(x[0])


def written_inside(x: Any) -> Any:
    def f(row: Any) -> Any:
        row = row.clone()
        row[0] = 7.0
        row.add_(1)
        return row

    return func.vmap(f)(x)


def made_inside(x: Any) -> Any:
    return func.vmap(lambda row: torch.ones(3) * row + torch.tensor(2.0) + torch.zeros_like(row))(x), func.grad(
        lambda row: (torch.arange(3.0) * row + torch.tensor(2.0)).sum()
    )(x[0])


def without_gradients_outside(x: Any) -> Any:
    with torch.no_grad():
        return func.grad(energy)(x[0])


def without_gradients_inside(x: Any) -> Any:
    def f(x: Any) -> Any:
        with torch.no_grad():
            c = x**2
        return (x - c).sum()

    return func.grad(f)(x)


def losses(x: Any) -> Any:
    target = torch.arange(len(x)) % 3
    cross = func.vmap(func.grad(lambda row, at: torch.nn.functional.cross_entropy(row, at)))(x, target)
    return cross, func.vmap(torch.nn.functional.mse_loss)(x, x + 1)


def before_and_after(x: Any) -> Any:
    y = (x @ W + 1).relu() * 2
    z = func.vmap(lambda row: row / row.norm())(y + 0.1)
    return (z @ W - 1).relu() * 3


EACH = [
    vmapped, vmapped_over_columns, vmapped_structures, vmapped_in_chunks, vmapped_method, vmapped_twice, gradient,
    gradient_with_more, second_gradient, gradients_of_rows, pulled_back, pulled_back_under_vmap, pushed_forward,
    jacobian, forward_jacobian, second_derivatives, called_with, gradients_of_samples, ensemble, adapted,
    decided_inside, sizes_inside, closed_over, written_inside, made_inside, without_gradients_outside,
    without_gradients_inside, losses, before_and_after,
]  # fmt: skip


def leaves(made: Any) -> list[Any]:
    return list(torch.utils._pytree.tree_leaves(made))


def state() -> tuple[Any, ...]:
    """What a transformation changes in its thread while it runs."""
    core = torch._C
    return (
        str(core._dispatch_tls_local_include_set()),
        str(core._dispatch_tls_local_exclude_set()),
        core._functorch.get_dynamic_layer_stack_depth(),
        core._functorch.get_inplace_requires_grad_allowed(),
        core._autograd._saved_tensors_hooks_get_disabled_error_message(),
        torch.is_grad_enabled(),
        core._is_fwd_grad_enabled(),
    )


def same(f: Any, fast: Any, x: Any) -> None:
    before, seen = state(), x.clone()
    plain, made = leaves(f(x)), leaves(fast(x))
    assert state() == before
    assert torch.equal(seen, x)
    assert len(plain) == len(made)
    for a, b in zip(plain, made, strict=True):
        assert type(a) is type(b)
        if not isinstance(a, torch.Tensor):
            assert a == b
            continue
        assert torch.equal(a, b)
        assert (a.dtype, a.stride(), a.requires_grad, a.is_leaf) == (b.dtype, b.stride(), b.requires_grad, b.is_leaf)
        assert not torch._C._functorch.is_functorch_wrapped_tensor(b) or torch._C._functorch.is_dead_tensor_wrapper(b)


@pytest.mark.parametrize("needs_grad", [False, True])
@pytest.mark.parametrize("f", EACH, ids=lambda f: f.__name__)
def test_as_plain(f: Any, needs_grad: bool) -> None:
    fast = pijit.jit(f)
    for size, seed in ((4, 0), (4, 1), (4, 2), (5, 3), (5, 4), (4, 5)):
        same(f, fast, data((size, 3), seed).requires_grad_(needs_grad))


# Functions of Python that a replay cannot be left in stand in the middle of these, or state that is new in each call.
IN_PARTS = [pulled_back, pulled_back_under_vmap, called_with, gradients_of_samples, ensemble, adapted]


@pytest.mark.parametrize("f", [f for f in EACH if f not in IN_PARTS], ids=lambda f: f.__name__)
def test_one_trace_has_the_whole_call(f: Any) -> None:
    fast = pijit.jit(f)
    for seed in range(4):
        same(f, fast, data((4, 3), seed).abs())
    (trace,) = pijit.traces(fast)
    assert (trace.ends, trace.stop) == ("return", None)
    before = pijit.stats()["replays"]
    same(f, fast, data((4, 3), 7).abs())
    assert pijit.stats()["replays"] > before


def wrong(x: Any) -> Any:
    return func.vmap(lambda row: row @ row.reshape(2, 2))(x)


def not_scalar(x: Any) -> Any:
    return func.grad(lambda x: x * 2)(x)


def truth_in_vmap(x: Any) -> Any:
    return func.vmap(lambda row: row if row.sum() > 0 else -row)(x)


def item_in_vmap(x: Any) -> Any:
    return func.vmap(lambda row: row.sum().item())(x)


def random_in_vmap(x: Any) -> Any:
    return func.vmap(lambda row: row + torch.rand(3))(x)


def captured_in_place(x: Any) -> Any:
    kept = torch.zeros(3)
    return func.vmap(lambda row: kept.add_(row))(x)


@pytest.mark.parametrize(
    "f", [wrong, not_scalar, truth_in_vmap, item_in_vmap, random_in_vmap, captured_in_place], ids=lambda f: f.__name__
)
def test_errors_are_those_of_torch(f: Any) -> None:
    fast = pijit.jit(f)
    for seed in range(4):
        x, before = data((4, 3), seed), state()
        with pytest.raises(Exception) as plain:  # noqa: PT011
            f(x)
        with pytest.raises(type(plain.value)) as made:
            fast(x)
        assert str(made.value) == str(plain.value)
        assert state() == before


def test_an_error_that_only_a_later_call_meets() -> None:
    """The replay is left inside of the level, which the program closes."""

    def f(x: Any, y: Any) -> Any:
        try:
            return func.vmap(lambda row: row.relu() @ y)(x)
        except RuntimeError as error:
            return str(error)

    fast = pijit.jit(f)
    for width in (3, 3, 3, 4, 3, 5, 4):
        x, y, before = data((2, 3), width), data((width, 2), width), state()
        plain, made = f(x, y), fast(x, y)
        assert type(plain) is type(made)
        assert plain == made if isinstance(plain, str) else torch.equal(plain, made)
        assert state() == before


@pytest.mark.parametrize("randomness", ["same", "different"])
def test_random_numbers(randomness: str) -> None:
    def f(x: Any) -> Any:
        return func.vmap(lambda row: torch.nn.functional.dropout(row) + torch.rand(3), randomness=randomness)(x)

    fast = pijit.jit(f)
    for seed in range(5):
        x = data((4 + seed // 3, 3), seed)
        torch.manual_seed(seed)
        plain, after = f(x), torch.rand(1)
        torch.manual_seed(seed)
        assert torch.equal(fast(x), plain)
        assert torch.equal(torch.rand(1), after)


def test_a_decision_that_goes_the_other_way_inside() -> None:
    fast = pijit.jit(decided_inside)
    for sign in (1, 1, 1, -1, 1, -1, -1, 1):
        same(decided_inside, fast, sign * data((2, 3), 3).abs())


def test_what_the_function_closes_over_is_guarded() -> None:
    scale, shift = [2.0], {"by": torch.ones(3)}

    def f(x: Any) -> Any:
        return func.vmap(lambda row: row * scale[0] + shift["by"])(x)

    fast = pijit.jit(f)
    for change in (None, None, "scale", None, "shift", None):
        if change == "scale":
            scale[0] = 3.0
        if change == "shift":
            shift["by"] = torch.arange(3.0)
        same(f, fast, data((4, 3), 0))


def test_a_tensor_that_leaves_its_level() -> None:
    """A list outside keeps what was wrapped. The trace does not."""
    kept: list[Any] = []

    def f(x: Any) -> Any:
        def inner(row: Any) -> Any:
            kept.append(row * 2)
            return row + 1

        return func.vmap(inner)(x)

    fast = pijit.jit(f)
    for seed in range(5):
        x = data((4, 3), seed)
        plain, made = f(x), fast(x)
        assert torch.equal(plain, made)
        assert len(kept) == 2
        first, second = (torch._C._functorch.get_unwrapped(each) for each in kept)
        assert torch.equal(first, second)
        kept.clear()


def test_the_same_function_inside_and_outside() -> None:
    fast = pijit.jit(lambda x: (x * 2 + 1).sum())
    outer = pijit.jit(lambda x: func.vmap(fast)(x) + fast(x))
    for seed in range(5):
        x = data((3, 2), seed)
        assert torch.equal(outer(x), (x * 2 + 1).sum(1) + (x * 2 + 1).sum())
        assert torch.equal(func.vmap(fast)(x), (x * 2 + 1).sum(1))
        assert torch.equal(func.grad(fast)(x), torch.full((3, 2), 2.0))


def test_gradients_flow_through_a_transformation() -> None:
    """The outer step of MAML: the engine goes through what was done in levels."""

    def f(x: Any, w: Any) -> Any:
        inner = func.grad(lambda w: ((x @ w).tanh() ** 2).mean())
        loss = ((x @ (w - 0.1 * inner(w))) ** 2).mean()
        loss.backward()
        made, w.grad = w.grad, None
        return loss, made

    fast = pijit.jit(f)
    for seed in range(6):
        x, w = data((4, 3), seed), data((3, 2), seed + 9).requires_grad_()
        plain, made = f(x, w), fast(x, w)
        assert torch.equal(plain[0], made[0])
        assert torch.equal(plain[1], made[1])


def test_threads_have_levels_of_their_own() -> None:
    from threading import Thread

    f = partial(func.vmap(lambda row: (row @ W).relu()))
    fast, wrong = pijit.jit(f.func), []

    def work(seed: int) -> None:
        for at in range(10):
            x = data((4, 3), seed * 100 + at)
            if not torch.equal(fast(x), (x @ W).relu()) and not torch.allclose(fast(x), (x @ W).relu()):
                wrong.append(seed)

    threads = [Thread(target=work, args=(seed,)) for seed in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert wrong == []
