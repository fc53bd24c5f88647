"""Operators that write to a list of tensors: a graph has one operator for each tensor, with the same bits."""

from __future__ import annotations

from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

import pijit.graph  # noqa: E402

Tensor = torch.Tensor

WRITES: dict[str, Callable[[Tensor, Tensor, Tensor], object]] = {
    "number": lambda a, b, c: torch._foreach_add_([a, b], 2.5),
    "lists": lambda a, b, c: torch._foreach_sub_([a, b], [b, c], alpha=0.5),
    "numbers": lambda a, b, c: torch._foreach_mul_([a, b], [0.5, 3]),
    "tensor": lambda a, b, c: torch._foreach_div_([a, b], c[0, 0]),
    "lerp": lambda a, b, c: torch._foreach_lerp_([a, b], [c, c], 0.3),
    "addcmul": lambda a, b, c: torch._foreach_addcmul_([a, b], [c, b], [b, c], value=-2),
    "addcdiv": lambda a, b, c: torch._foreach_addcdiv_([a, b], [c, b], [b, c], [1.5, -1]),
    "roots": lambda a, b, c: torch._foreach_sqrt_([a, b]),
    "copies": lambda a, b, c: torch._foreach_copy_([a, b], [c, a]),
    "limits": lambda a, b, c: (torch._foreach_clamp_min_([a, b], 1.2), torch._foreach_maximum_([b], [c])),
    "zero": lambda a, b, c: torch._foreach_zero_([a, b]),
    "unknown": lambda a, b, c: torch._foreach_pow_([a, b], 2),
}


@pytest.mark.parametrize("name", WRITES)
def test_writes_to_a_list(name: str) -> None:
    def f(a: Tensor, b: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        a, b = a.clone(), b.clone()
        WRITES[name](a, b, c)
        return a + 0.5, b * 2

    def operands(seed: int) -> list[Tensor]:
        generator = torch.Generator().manual_seed(seed)
        return [torch.rand(2, 3, generator=generator) + 1 for _ in range(3)]

    graph = pijit.graph.capture(f, *operands(0))
    whole = [node.op for node in graph.nodes if "foreach" in node.op]
    assert (whole != []) == (name == "unknown")
    for seed in range(3):
        assert all(map(torch.equal, graph.run(*operands(seed)), f(*operands(seed))))
        if name != "unknown":
            assert all(map(torch.equal, graph.functional().run(*operands(seed)), f(*operands(seed))))
