"""Forms in ONNX of recurrent layers: its own operators LSTM, GRU and RNN, one for each layer with both directions.

They know how long each sequence is: packed sequences are padded for them.
"""

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
    o: Builder,
    kind: str,
    x: Any,
    weights: Sequence[Sequence[Any]],
    bias: bool,
    states: Sequence[Any],
    lengths: Any,
    **more: Any,
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
        *(x, inputs, recurrent, biases, lengths, *states),
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
    counts: Any = None,
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
    packed, lengths = x, None
    if counts is not None:
        x, there = _unpacked(o, x, counts, o.size(states[0], 1))
        lengths = o.cast(_lengths(o, there), "int32")
    directions = 2 if bidirectional else 1
    count = len(weights) // (layers * directions)
    finals = []
    for layer in range(layers):
        places = range(layer * directions, (layer + 1) * directions)
        starts = [o.slice(each, 0, places.start, places.stop) if layers > 1 else each for each in states]
        used = [weights[at * count : (at + 1) * count] for at in places]
        x, final = _layer(o, kind, x, used, bias, starts, lengths, **more)
        finals.append(final)
    x = o.transpose(x, (1, 0, 2)) if batch_first else x
    x = x if counts is None else _packed(o, x, counts, o.size(packed, 0))
    last = [each[0] if layers == 1 else o.Concat(*each, axis=0) for each in zip(*finals, strict=True)]
    return tuple(o.cast(each, own) for each in (x, *last))


def _column(o: Builder, x: Any) -> Any:
    return o.unsqueeze(x, 1)


def _ends(o: Builder, counts: Any) -> Any:
    return o.CumSum(counts, o.const(0, "int64"))


def _range(o: Builder, count: Any) -> Any:
    ends = (o.cast(each, "int64") for each in (0, count, 1))
    return o.Range(*ends, shape=(count if isinstance(count, int) else count.symbol,))


def _unpacked(o: Builder, x: Any, counts: Any, batch: Any) -> tuple[Any, Any]:
    """Packed sequences turn by turn, padded with whatever there is, and where something was."""
    sequences, starts = _range(o, batch), o.Sub(_ends(o, counts), counts)
    last = o.Sub(o.cast(o.size(x, 0), "int64"), 1)
    places = o.Min(o.Add(_column(o, starts), sequences), last)
    places.shape = (counts.shape[0], sequences.shape[0])
    there = o.Less(sequences, _column(o, counts))
    there.shape = places.shape
    return o.Gather(x, places, axis=0), there


def _lengths(o: Builder, there: Any) -> Any:
    return o.reduce("ReduceSum", o.cast(there, "int64"), 0, False)


def _packed(o: Builder, x: Any, counts: Any, length: Any) -> Any:
    """The turns of sequences that have one."""
    ends, at = _ends(o, counts), _range(o, length)
    turns = o.reduce("ReduceSum", o.cast(o.GreaterOrEqual(_column(o, at), ends), "int64"), 1, False)
    batch = o.cast(o.size(x, 1), "int64")
    places = o.Add(o.Mul(turns, batch), o.Sub(at, o.Gather(o.Sub(ends, counts), turns, axis=0)))
    places.shape = at.shape
    return o.Gather(o.reshape(x, (-1, *o.dims(x)[2:])), places, axis=0)


def pack_sequences(o: Builder, x: Any, lengths: Any, batch_first: bool = False) -> Any:
    x = o.transpose(x, (1, 0, *range(2, x.rank))) if batch_first else x
    turns = _range(o, o.ReduceMax(lengths, keepdims=0))
    counts = o.reduce("ReduceSum", o.cast(o.Less(_column(o, turns), lengths), "int64"), 1, False)
    counts.shape = (None,)
    return _packed(o, x, counts, o.ReduceSum(lengths, keepdims=0)), counts


def pad_sequences(o: Builder, x: Any, counts: Any, batch_first: bool, padding: Any, length: Any = -1) -> Any:
    batch = o.squeeze(o.slice(counts, 0, 0, 1), 0)
    made, there = _unpacked(o, x, counts, batch)
    wide = o.unsqueeze(there, *range(2, made.rank)) if made.rank > 2 else there
    made = o.where(wide, made, o.cast(padding, x.dtype))
    if not isinstance(length, int) or length > 0:
        more = o.Max(o.Sub(o.cast(length, "int64"), o.cast(o.size(counts, 0), "int64")), o.const(0, "int64"))
        pads = o.ints((*(0,) * made.rank, more, *(0,) * (made.rank - 1)))
        shape = (length if isinstance(length, int) else None, *(made.shape or ())[1:])
        made = o.Pad(made, pads, o.cast(padding, x.dtype), shape=shape)
    return o.transpose(made, (1, 0, *range(2, made.rank))) if batch_first else made, _lengths(o, there)


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
