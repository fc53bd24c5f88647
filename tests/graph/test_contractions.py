"""An einsum of three arrays and more: torch asks a package for the order of its products."""

import pytest
import torch

import pijit

pytestmark = pytest.mark.torch
opt_einsum = pytest.importorskip("opt_einsum")


def three(x, y, z):
    return torch.einsum("bld,dn,bl->bdn", x, y, z)


def four(x, y, z):
    return torch.einsum("bld,dn,bl,nm->m", x, y, z, y.t() @ y) * 2


def given(n):
    torch.manual_seed(n)
    return torch.randn(n, 3, 4), torch.randn(4, 5), torch.randn(n, 3)


@pytest.mark.parametrize("fn", [three, four])
@pytest.mark.parametrize("format", ["fx", "exported_program"])
def test_the_order_is_that_of_the_call(fn, format):
    with torch.no_grad():
        graph = pijit.graph.capture(fn, *given(2))
        assert not graph.breaks
        assert not graph.effects
        (node,) = (node for node in graph.nodes if node.op == "einsum")
        shapes = [tuple(each.shape) for each in (*given(2), torch.empty(5, 5))][: 3 + (fn is four)]
        pairs, _ = opt_einsum.contract_path(node.arguments["equation"], *shapes, shapes=True)
        assert node.arguments["path"] == tuple(place for pair in pairs for place in pair)
        made = pijit.export(graph, format=format)
        run = made if format == "fx" else made.module()
        for n in (2, 7):
            assert torch.equal(run(*given(n)), fn(*given(n)))


def test_the_setting_of_torch_is_heeded(monkeypatch):
    monkeypatch.setattr(torch.backends.opt_einsum, "enabled", False)
    with torch.no_grad():
        graph = pijit.graph.capture(three, *given(2))
        (node,) = graph.nodes
        assert node.arguments.get("path") is None
        for n in (2, 7):
            assert torch.equal(pijit.export(graph, format="fx")(*given(n)), three(*given(n)))
