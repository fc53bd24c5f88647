"""Operators that dispatch in Python by the keys of their thread: recorded and replayed they give what they give plain.

Nothing of pijit is among the keys that code of torch's can see.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

import pijit

torch = pytest.importorskip("torch")
hop = pytest.importorskip("torch._higher_order_ops")

pytestmark = pytest.mark.torch


def keys() -> tuple[str, str, bool]:
    included, excluded = torch._C._dispatch_tls_local_include_set(), torch._C._dispatch_tls_local_exclude_set()
    return str(included), str(excluded), torch._C._dispatch_tls_is_dispatch_key_included("TESTING_ONLY_GenericMode")


def chosen(x: Any) -> Any:
    return torch.cond(x.sum() > 0, lambda x: x.sin() + 1, lambda x: x.cos() - 1, (x,))


def counted(x: Any) -> Any:
    return hop.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (torch.tensor(0), x))


def scanned(x: Any) -> Any:
    return hop.scan(lambda c, x: (c + x, c * x), torch.zeros(x.shape[1:]), x.sin())


def mapped(x: Any) -> Any:
    return hop.map(lambda x, y: x.sin() + y, x, torch.ones(()))


def wide(x: Any) -> Any:
    a = x.abs().mul(3).to(torch.int8).reshape(1, -1)
    return hop.out_dtype(torch.ops.aten.mm.default, torch.int32, a, a.t())


class Sine(torch.autograd.Function):
    @staticmethod
    def forward(x: Any) -> Any:
        return torch.sin(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient * ctx.saved_tensors[0] * 2

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Any) -> Any:
        return Sine.apply(x), in_dims[0]


def grad_of(x: Any) -> Any:
    return torch.func.grad(lambda x: Sine.apply(x).sum())(x)


def vmap_of(x: Any) -> Any:
    return torch.func.vmap(lambda x: Sine.apply(x) + 1)(x)


def vjp_of(x: Any) -> Any:
    y, pull = torch.func.vjp(Sine.apply, x)
    return y, pull(torch.ones_like(y))


def jacrev_of(x: Any) -> Any:
    return torch.func.jacrev(lambda x: Sine.apply(x).sum())(x)


def vmap_around(x: Any) -> Any:
    return torch.func.vmap(lambda x: torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,)))(x)


def grad_inside(x: Any) -> Any:
    inner = torch.func.grad(lambda x: x.sin().sum())
    return torch.cond(x.sum() > 0, lambda x: inner(x) + 1, lambda x: x - 1, (x,))


def without_gradients(x: Any) -> Any:
    with torch.no_grad():
        return chosen(x)


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        return torch.cond(x.sum() > 0, self.a, self.b, (x,)).tanh()


def trained(x: Any) -> Any:
    torch.manual_seed(0)
    net = Net()
    loss = net(x.reshape(-1, 3)).square().sum()
    loss.backward()
    return loss, [None if each.grad is None else each.grad.clone() for each in net.parameters()]


def tried(f: Any, x: Any) -> Any:
    try:
        made = f(x)
        flat = torch.utils._pytree.tree_leaves(made)
        return [each.detach().clone() if isinstance(each, torch.Tensor) else each for each in flat]
    except Exception as error:
        return type(error), str(error)


def same(a: Any, b: Any) -> bool:
    if isinstance(a, tuple) or isinstance(b, tuple):
        return a == b
    return len(a) == len(b) and all(
        torch.equal(x, y) if isinstance(x, torch.Tensor) else x == y for x, y in zip(a, b, strict=True)
    )


EACH = [
    chosen, counted, scanned, mapped, wide, grad_of, vmap_of, vjp_of, jacrev_of, vmap_around, grad_inside,
    without_gradients, trained,
]  # fmt: skip


@pytest.mark.parametrize("found", ["jit", "enable"])
@pytest.mark.parametrize("needs_grad", [False, True])
@pytest.mark.parametrize("f", EACH, ids=lambda f: f.__name__)
def test_as_plain(f: Any, needs_grad: bool, found: str) -> None:
    inputs = [torch.arange(6.0).reshape(2, 3) - shift for shift in (0, 0, 9, 9, 1, 0)]
    inputs = [each.requires_grad_(needs_grad) for each in inputs]
    plain = [tried(f, x) for x in inputs]
    assert found == "enable" or any(not isinstance(each, tuple) for each in plain), plain
    before = keys()
    if found == "enable":
        with pijit.enable():
            made = [tried(f, x) for x in inputs]
    else:
        fast = pijit.jit(f)
        made = [tried(fast, x) for x in inputs]
    assert [same(*pair) for pair in zip(plain, made, strict=True)] == [True] * 6, (plain, made)
    assert keys() == before


@pytest.mark.parametrize("f", [chosen, counted, scanned, mapped], ids=lambda f: f.__name__)
def test_a_recording_has_one_call_whichever_way_it_goes(f: Any) -> None:
    fast = pijit.jit(lambda x: f(x.tanh() * 3))
    with torch.no_grad():
        for shift in (0, 0, 9, 9, 1, 0):
            x = torch.arange(6.0).reshape(2, 3) - shift
            assert same(tried(fast, x), tried(f, x.tanh() * 3))
    (trace,) = pijit.traces(fast)
    text = str(trace)
    assert len(re.findall("# opaque call", text)) == 1
    assert "dynamo" not in text


def test_an_exported_program_that_holds_one() -> None:
    class Two(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))

    program = torch.export.export(Two(), (torch.ones(2),)).module()
    fast = pijit.jit(lambda x: program(x) * 2)
    for x in (torch.ones(2), torch.ones(2), -torch.ones(2), torch.ones(2)):
        assert torch.equal(fast(x), program(x) * 2)


def test_flex_attention() -> None:
    flex = pytest.importorskip("torch.nn.attention.flex_attention")
    q, k, v = (torch.randn(1, 2, 16, 8, generator=torch.Generator().manual_seed(each)) for each in range(3))
    bias = lambda score, b, h, i, j: score + (i - j)  # noqa: E731
    mask = flex.create_block_mask(lambda b, h, i, j: i >= j, None, None, 16, 16, device="cpu")
    for f in (
        lambda q: flex.flex_attention(q, k, v, score_mod=bias), lambda q: flex.flex_attention(q, k, v, block_mask=mask),
    ):  # fmt: skip
        plain = f(q), f(q + 1)
        fast = pijit.jit(f)
        for at in (0, 0, 1, 1, 0):
            assert torch.equal(fast(q + at), plain[at])


@pytest.mark.parametrize("inside", ["call", "operator", "index", "dead", "hook"])
def test_code_that_looks_at_the_keys(inside: str) -> None:
    """Wherever Python code runs in a recorded call, it sees the keys that it sees without pijit."""
    seen: list[Any] = []

    class Number:
        def __index__(self) -> int:
            seen.append(keys())
            return 2

        def __del__(self) -> None:
            seen.append(keys())

    with torch.library._scoped_library("pijit_test_keys", "FRAGMENT") as library:
        library.define("look(Tensor x) -> Tensor")
        library.impl("look", lambda x: (seen.append(keys()), x + 1)[1], "CompositeExplicitAutograd")
        look = torch.ops.pijit_test_keys.look

        def f(x: Any) -> Any:
            if inside == "call":
                seen.append(keys())
            elif inside == "operator":
                return look(x) * 2
            elif inside == "index":
                return torch.zeros((Number(),)) + x[: Number()].sum()
            elif inside == "dead":
                number = Number()
                x = x * 2
                del number
                return x + 1
            else:
                x = x.clone().requires_grad_()
                x.register_hook(lambda g: seen.append(keys()))
                (x * x).sum().backward()
                return x.grad
            return x + 1

        x = torch.ones(3)
        plain = f(x)
        expected, fast = seen[:], pijit.jit(f)
        assert expected
        for _ in range(3):
            seen.clear()
            assert torch.equal(fast(x), plain)
            assert seen == expected
        with pijit.enable():
            for _ in range(3):
                seen.clear()
                assert torch.equal(f(x), plain)
                assert seen == expected


def test_callbacks_of_torch_are_given_back() -> None:
    def f(x: Any) -> Any:
        return x * 2 + 1

    fast = pijit.jit(f)
    for _ in range(3):
        fast(torch.ones(2))
    with torch.profiler.profile() as profile:
        fast(torch.ones(2))
        f(torch.ones(2))
    assert {"aten::mul", "aten::add"} <= {event.key for event in profile.key_averages()}
    fast(torch.ones(2))
    before = pijit.stats()["replays"]
    fast(torch.ones(2))
    assert pijit.stats()["replays"] == before + 1
