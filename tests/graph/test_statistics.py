"""Running statistics, which batch_norm writes to without saying so, are updates of a graph."""

from __future__ import annotations

import copy
import functools
from typing import Any

import numpy as np
import pytest

from pijit.errors import ExportError
from pijit.graph import Graph, Node, Value, capture
from pijit.graph.vocabulary import hidden_writes

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch
STATISTICS = {"1_running_mean", "1_running_var", "1_num_batches_tracked"}


NORMS = {
    "batch": torch.nn.BatchNorm2d,
    "instance": functools.partial(torch.nn.InstanceNorm2d, track_running_stats=True),
    "instance, scaled": functools.partial(torch.nn.InstanceNorm2d, track_running_stats=True, affine=True),
}


def net(norm: str = "batch") -> Any:
    torch.manual_seed(0)
    made = NORMS[norm]
    layers = torch.nn.Conv2d(3, 4, 3), made(4), torch.nn.ReLU(), made(4, momentum=0.3)
    return torch.nn.Sequential(*layers)


def as_tensor(array: Any) -> Any:
    return array if isinstance(array, torch.Tensor) else torch.from_numpy(np.array(array))


@pytest.mark.parametrize("framework", ["torch", "numpy", "jax"])
@pytest.mark.parametrize("norm", NORMS)
@torch.no_grad()
def test_a_batch_in_training_gives_new_statistics(framework: str, norm: str) -> None:
    pytest.importorskip(framework)
    module = net(norm)
    graph = capture(module, torch.randn(2, 3, 8, 8))
    assert set(graph.written) >= (STATISTICS if norm == "batch" else {"1_running_mean", "1_running_var"})
    for scale in (1.0, 5.0):
        x = torch.randn(int(scale) + 1, 3, 8, 8) * scale
        own = copy.deepcopy(module)
        expected = own(x)
        held = copy.deepcopy(module.state_dict())
        found, updates = graph.run(x, framework=framework, updates=True)
        torch.testing.assert_close(as_tensor(found), expected, rtol=1e-4, atol=1e-5)
        assert {"1_running_mean", "3_running_var"} <= set(updates)
        for path, tensor in own.state_dict().items():
            after = updates.get(path.replace(".", "_"), module.state_dict()[path])
            torch.testing.assert_close(as_tensor(after), tensor, rtol=1e-4, atol=1e-5)
        if framework != "torch":  # arrays of other frameworks are not written to
            assert all(torch.equal(held[path], tensor) for path, tensor in module.state_dict().items())
        module.load_state_dict(own.state_dict())  # the next batch begins with them


@pytest.mark.parametrize("norm", NORMS)
@torch.no_grad()
def test_without_writes_the_bits_are_the_same(norm: str) -> None:
    module = net(norm)
    pure = capture(module, torch.randn(2, 3, 8, 8)).functional()
    assert not any(hidden_writes(node.op, node.arguments) or node.writes for node in pure.nodes)
    for count in (2, 5):
        x, own = torch.randn(count, 3, 8, 8), copy.deepcopy(module)
        held = copy.deepcopy(module.state_dict())
        found, updates = pure.run(x, updates=True)
        assert torch.equal(found, own(x))
        for path, tensor in module.state_dict().items():
            assert torch.equal(tensor, held[path])
            assert torch.equal(updates.get(path.replace(".", "_"), tensor), own.state_dict()[path])
        module.load_state_dict(own.state_dict())


@pytest.mark.parametrize("norm", NORMS)
@torch.no_grad()
def test_in_evaluation_nothing_is_written(norm: str) -> None:
    module = net(norm).eval()
    graph = capture(module, torch.randn(2, 3, 8, 8))
    assert graph.written == ()
    assert graph.functional() is graph
    module.train()
    assert capture(module, torch.randn(2, 3, 8, 8)).written != ()


def test_an_instance_norm_of_unknown_sizes_has_no_form_without_writes() -> None:
    x, mean, variance, out = (Value(name) for name in ("x", "mean", "variance", "out"))
    arguments = {
        "x": x,
        "weight": None,
        "bias": None,
        "mean": mean,
        "variance": variance,
        "momentum": 0.1,
        "epsilon": 1e-5,
    }
    for stats in (False, True, False):
        node = Node("instance_norm", {**arguments, "use_input_stats": stats}, (out,), file="model.py", line=7)
        graph = Graph("f", (x, mean, variance), (), (node,), out)
        assert graph.written == (("mean", "variance") if stats else ())
        if stats:
            with pytest.raises(ExportError, match=r"model\.py:7: instance_norm .* writes to its running statistics"):
                graph.functional()
        else:
            assert graph.functional().nodes == (node,)
