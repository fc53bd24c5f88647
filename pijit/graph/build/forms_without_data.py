"""What some operators give for tensors without data, where torch would fix sizes or has no answer."""

from collections.abc import Callable, Mapping
from typing import Any

from pijit.graph.decompose.own import OWN


def _layers(
    x: Any,
    states: Any,
    weights: Any,
    bias: bool,
    layers: int,
    dropout: float,
    training: bool,
    bidirectional: bool,
    batch_first: bool,
) -> Any:
    """Torch would go through all turns, whose number would be fixed."""
    states = states if isinstance(states, list | tuple) else (states,)
    width = states[0].shape[-1] * (2 if bidirectional else 1)
    return x.new_empty((*x.shape[:2], width)), *(each.new_empty(each.shape) for each in states)


# Recurrent layers.
RECURRENT: Mapping[str, Callable[..., Any]] = {
    f"torch.ops.aten.{name}.input": _layers for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")
}
# What torch does not know without data, or would fix the sizes of.
_UNKNOWN = (
    *("cov.default", "corrcoef.default", "fake_quantize_per_tensor_affine.default", "kron.default"),
    *("take_along_dim.default", "vander.default", "linalg_multi_dot.default", "chain_matmul.default"),
)
# By the paths of the operators.
FORMS: Mapping[str, Callable[..., Any]] = {
    **RECURRENT,
    **{f"torch.ops.aten.{name}": OWN[f"torch.ops.aten.{name}"] for name in _UNKNOWN},
}
