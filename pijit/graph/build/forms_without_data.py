"""What some operators give for tensors without data, where torch would fix sizes or has no answer."""

from collections.abc import Callable, Mapping
from typing import Any

from pijit.graph.decompose.own import OWN


def _outputs(x: Any, sizes: Any, states: Any, bidirectional: bool) -> Any:
    """What recurrent layers give: all turns, whose leading sizes these are, and the last states."""
    states = states if isinstance(states, list | tuple) else (states,)
    width = states[0].shape[-1] * (2 if bidirectional else 1)
    return x.new_empty((*sizes, width)), *(each.new_empty(each.shape) for each in states)


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
    return _outputs(x, x.shape[:2], states, bidirectional)


def _any_size(x: Any) -> Any:
    """A size that the numbers in a tensor decide."""
    from torch.fx.experimental.symbolic_shapes import _constrain_range_for_size

    size = x.sum().item()
    _constrain_range_for_size(size)
    return size


def _packed(x: Any, lengths: Any, batch_first: bool) -> Any:
    return x.new_empty((_any_size(lengths), *x.shape[2:])), lengths.new_empty(_any_size(lengths))


def _padded(x: Any, counts: Any, batch_first: bool, value: Any, length: Any = -1) -> Any:
    batch, turns = _any_size(counts), counts.shape[0] if isinstance(length, int) and length < 0 else length
    return x.new_empty((*((batch, turns) if batch_first else (turns, batch)), *x.shape[1:])), counts.new_empty(batch)


def _packed_layers(
    x: Any,
    counts: Any,
    states: Any,
    weights: Any,
    bias: bool,
    layers: int,
    dropout: float,
    training: bool,
    bidirectional: bool,
) -> Any:
    return _outputs(x, x.shape[:1], states, bidirectional)


# Sequences of several lengths.
PACKED: Mapping[str, Callable[..., Any]] = {
    "torch.ops.aten._pack_padded_sequence.default": _packed,
    "torch.ops.aten._pad_packed_sequence.default": _padded,
    **{f"torch.ops.aten.{name}.data": _packed_layers for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")},
}


def _loss(scores: Any, targets: Any, lengths: Any, counts: Any, blank: int = 0, reduction: int = 1, *rest: Any) -> Any:
    """Torch has no answer: what it keeps for gradients has a size that data decides."""
    return scores.new_empty(scores.shape[1:-1] if reduction == 0 else ())


def _nested(x: Any, mask: Any, mask_check: bool = True) -> Any:
    """What has the form of the padded tensor stands for a nested one."""
    return x.new_empty(x.shape)


def _to_padded(x: Any, padding: float, output_size: Any = None) -> Any:
    return x.new_empty(x.shape if output_size is None else output_size)


# Nested tensors.
NESTED: Mapping[str, Callable[..., Any]] = {
    "torch.ops.aten._nested_tensor_from_mask.default": _nested,
    "torch.ops.aten.to_padded_tensor.default": _to_padded,
}
# Losses of sequences.
LOSSES: Mapping[str, Callable[..., Any]] = {
    f"torch.ops.aten.ctc_loss.{overload}": _loss for overload in ("Tensor", "IntList")
}
# Recurrent layers.
RECURRENT: Mapping[str, Callable[..., Any]] = {
    f"torch.ops.aten.{name}.input": _layers for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")
}


def _steps(start: Any, end: Any, steps: Any, *rest: Any, dtype: Any = None, device: Any = None, **more: Any) -> Any:
    """Torch would fix the number of steps."""
    import torch

    return torch.empty(steps, dtype=dtype, device=device)


# What torch does not know without data, or would fix the sizes of.
_UNKNOWN = (
    *("cov.default", "corrcoef.default", "fake_quantize_per_tensor_affine.default", "kron.default"),
    *("take_along_dim.default", "vander.default", "linalg_multi_dot.default", "chain_matmul.default"),
)
# By the paths of the operators.
FORMS: Mapping[str, Callable[..., Any]] = {
    **RECURRENT,
    **PACKED,
    **LOSSES,
    **NESTED,
    "torch.ops.aten.linspace.default": _steps,
    "torch.ops.aten.logspace.default": _steps,
    **{f"torch.ops.aten.{name}": OWN[f"torch.ops.aten.{name}"] for name in _UNKNOWN},
}
