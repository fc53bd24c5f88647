"""Forms in ONNX of recurrent layers: its own operators LSTM, GRU and RNN, one for each layer with both directions."""

from collections.abc import Sequence
from typing import Any

from pijit._formats.onnx.builder import Builder
from pijit.graph.model import Node

# The gates in the order of ONNX, as positions in that of torch.
_GATES = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN": (0,)}


def lacks(node: Node) -> bool:
    """It is an LSTM that projects its outputs, which ONNX has not."""
    if node.op != "lstm" or not node.arguments:
        return False
    layers, weights = node.arguments["layers"], node.arguments["weights"]
    assert isinstance(layers, int)
    assert isinstance(weights, tuple)
    return len(weights) // (layers * (2 if node.arguments["bidirectional"] else 1)) in {3, 5}


def _ordered(o: Builder, kind: str, x: Any, hidden: int) -> Any:
    """The rows of a weight or bias with the gates in the order of ONNX."""
    parts = [o.slice(x, 0, gate * hidden, (gate + 1) * hidden) for gate in _GATES[kind]]
    return x if len(parts) == 1 else o.Concat(*parts, axis=0)


def _joined(o: Builder, parts: Sequence[Any]) -> Any:
    """Both directions on a new first axis."""
    wide = [o.unsqueeze(part, 0) for part in parts]
    return wide[0] if len(wide) == 1 else o.Concat(*wide, axis=0)


def _layer(
    o: Builder, kind: str, x: Any, weights: Sequence[Sequence[Any]], bias: bool, states: Sequence[Any], **more: Any
) -> Any:
    """Outputs of one layer in the shape of torch, and its last states."""
    hidden = weights[0][1].shape[1]
    if not isinstance(hidden, int):
        o.unknown("the size of its state has to be known", hidden)
    inputs, recurrent = (_joined(o, [_ordered(o, kind, own[at], hidden) for own in weights]) for at in (0, 1))
    biases = None
    if bias:
        both = ([_ordered(o, kind, own[at], hidden) for at in (2, 3)] for own in weights)
        biases = _joined(o, [o.Concat(*each, axis=0) for each in both])
    made, *finals = o.add(
        kind,
        *(x, inputs, recurrent, biases, None, *states),
        outputs=1 + len(states),
        shape=None,
        direction="forward" if len(weights) == 1 else "bidirectional",
        hidden_size=hidden,
        **more,
    )
    # Of ONNX: length, directions, batch, hidden.
    length, batch = o.size(x, 0), o.size(x, 1)
    made.shape = (x.shape[0], len(weights), x.shape[1], hidden)
    made = o.reshape(o.transpose(made, (0, 2, 1, 3)), (length, batch, len(weights) * hidden))
    made.shape = (x.shape[0], x.shape[1], len(weights) * hidden)
    for final in finals:
        final.shape = (len(weights), x.shape[1], hidden)
    return made, finals


def _recurrent(
    o: Builder,
    kind: str,
    x: Any,
    states: Sequence[Any],
    weights: Sequence[Any],
    bias: bool,
    layers: int,
    dropout: float,
    training: bool,
    bidirectional: bool,
    batch_first: bool = False,
    **more: Any,
) -> Any:
    """The rows have the parameters from `x` on; `more` are attributes of ONNX's operator."""
    if training and dropout and layers > 1:
        o.fail("it draws random numbers between its layers; call the module in evaluation (`module.eval()`)")
    own = x.dtype
    if own != "float32":  # runtimes have these in float32 only
        x = o.cast(x, "float32")
        states, weights = ([o.cast(each, "float32") for each in given] for given in (states, weights))
    x = o.transpose(x, (1, 0, 2)) if batch_first else x
    directions = 2 if bidirectional else 1
    count = len(weights) // (layers * directions)
    finals = []
    for layer in range(layers):
        places = range(layer * directions, (layer + 1) * directions)
        starts = [o.slice(each, 0, places.start, places.stop) if layers > 1 else each for each in states]
        used = [weights[at * count : (at + 1) * count] for at in places]
        x, final = _layer(o, kind, x, used, bias, starts, **more)
        finals.append(final)
    x = o.transpose(x, (1, 0, 2)) if batch_first else x
    last = [each[0] if layers == 1 else o.Concat(*each, axis=0) for each in zip(*finals, strict=True)]
    return tuple(o.cast(each, own) for each in (x, *last))


def lstm(o: Builder, states: Any, **settings: Any) -> Any:
    return _recurrent(o, "LSTM", states=states, **settings)


def gru(o: Builder, state: Any, **settings: Any) -> Any:
    return _recurrent(o, "GRU", states=[state], **settings, linear_before_reset=1)


def _rnn(o: Builder, function: str, state: Any, bidirectional: bool, **settings: Any) -> Any:
    activations = [function] * (2 if bidirectional else 1)
    return _recurrent(o, "RNN", states=[state], bidirectional=bidirectional, **settings, activations=activations)


def rnn_tanh(o: Builder, **settings: Any) -> Any:
    return _rnn(o, "Tanh", **settings)


def rnn_relu(o: Builder, **settings: Any) -> Any:
    return _rnn(o, "Relu", **settings)
