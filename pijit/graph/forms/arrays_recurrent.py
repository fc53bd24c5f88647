"""Forms of recurrent layers, and of packed sequences: padded ones, in which states stay as they are behind the end."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pijit.graph.forms.arrays_layers import Normalisation

# What a cell makes of its states, the input's share of its gates, and its weights.
Cell = Callable[[tuple[Any, ...], Any, Sequence[Any]], tuple[Any, ...]]


class Recurrent(Normalisation):
    """Forms of recurrent layers; the first state of a cell is its output."""

    def _scan(self, turn: Callable[[Any, Any], Any], start: Any, x: Any, backward: bool) -> tuple[Any, Any]:
        """The states after all turns, and the output of each."""
        states, outputs = start, []
        for at in range(x.shape[0]):
            states = turn(states, x[x.shape[0] - 1 - at if backward else at])
            outputs.append(states[0])
        return states, self.xp.stack(outputs[::-1] if backward else outputs)

    def _hidden(self, state: Any, weights: Sequence[Any], bias: bool) -> Any:
        """The share of the state before in the gates."""
        made = self._matmul(state, self.xp.swapaxes(weights[1], 0, 1))
        return made + weights[3] if bias else made

    def _recurrent(
        self,
        cell: Cell,
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
    ) -> tuple[Any, ...]:
        """The rows have the parameters from `x` on."""
        x = self.xp.swapaxes(x, 0, 1) if batch_first else x
        packed, there = x, None
        if counts is not None:
            x, there = self._unpacked(x, counts, states[0].shape[1])
        directions = 2 if bidirectional else 1
        count = len(weights) // (layers * directions)
        finals = []
        for layer in range(layers):
            outputs = []
            for at in range(layer * directions, (layer + 1) * directions):
                own = weights[at * count : (at + 1) * count]
                gates = self._matmul(x, self.xp.swapaxes(own[0], 0, 1))
                gates = gates + own[2] if bias else gates
                if there is not None:  # beside the gates: what is scanned is one array
                    gates = self.xp.concatenate([gates, self._as(there[..., None], gates.dtype)], axis=-1)
                start = tuple(state[at] for state in states)

                def turn(now: Any, given: Any, own: Sequence[Any] = own) -> Any:
                    if there is None:
                        return cell(now, given, own)
                    after, goes_on = cell(now, given[..., :-1], own), given[..., -1:] > 0
                    return tuple(self.xp.where(goes_on, new, old) for new, old in zip(after, now, strict=True))

                final, output = self._scan(turn, start, gates, at % directions == 1)
                finals.append(final)
                outputs.append(output)
            x = outputs[0] if directions == 1 else self.xp.concatenate(outputs, axis=-1)
            x = self._dropped(x, dropout, training) if layer < layers - 1 else x
        x = self.xp.swapaxes(x, 0, 1) if batch_first else x
        if counts is not None:
            x = self._packed(x, counts, packed.shape[0])
        return x, *(self.xp.stack(each) for each in zip(*finals, strict=True))

    def _unpacked(self, x: Any, counts: Any, batch: int) -> tuple[Any, Any]:
        """Packed sequences turn by turn, padded with whatever there is, and where something was."""
        ends = self.xp.cumsum(counts)
        sequences = self.xp.arange(batch)[None]
        places = self.xp.minimum((ends - counts)[:, None] + sequences, x.shape[0] - 1)
        padded = self.xp.take(x, self.xp.reshape(places, (-1,)), axis=0)
        return self.xp.reshape(padded, (*places.shape, *x.shape[1:])), sequences < counts[:, None]

    def _packed(self, x: Any, counts: Any, length: int) -> Any:
        """The turns of sequences that have one."""
        ends, at = self.xp.cumsum(counts), self.xp.arange(length)
        turns = self.xp.sum(self._as(at[:, None] >= ends[None], np.int64), axis=1)
        places = turns * x.shape[1] + at - self.xp.take(ends - counts, turns, axis=0)
        return self.xp.take(self.xp.reshape(x, (x.shape[0] * x.shape[1], *x.shape[2:])), places, axis=0)

    def pack_sequences(self, x: Any, lengths: Any, batch_first: bool = False) -> tuple[Any, Any]:
        x = self.xp.swapaxes(x, 0, 1) if batch_first else x
        turns = self.xp.arange(int(self.xp.max(lengths)))
        counts = self._as(self.xp.sum(self._as(lengths[None] > turns[:, None], np.int64), axis=1), np.int64)
        return self._packed(x, counts, int(self.xp.sum(lengths))), counts

    def pad_sequences(self, x: Any, counts: Any, batch_first: bool, padding: Any, length: Any = -1) -> tuple[Any, Any]:
        made, there = self._unpacked(x, counts, int(counts[0]))
        made = self.xp.where(self.xp.reshape(there, (*there.shape, *(1,) * (x.ndim - 1))), made, padding)
        made = self._as(made, x.dtype)
        if (more := length - made.shape[0]) > 0:
            rest = self.xp.full((more, *made.shape[1:]), padding, dtype=made.dtype)
            made = self.xp.concatenate([made, rest], axis=0)
        lengths = self._as(self.xp.sum(self._as(there, np.int64), axis=0), np.int64)
        return self.xp.swapaxes(made, 0, 1) if batch_first else made, lengths

    def lstm(
        self, states: Any, weights: Any, bias: bool, layers: int, bidirectional: bool, **settings: Any
    ) -> tuple[Any, ...]:
        projected = len(weights) // (layers * (2 if bidirectional else 1)) in {3, 5}

        def cell(states: Any, given: Any, own: Sequence[Any]) -> Any:
            gates = given + self._hidden(states[0], own, bias)
            keep, forget, new, out = self.xp.split(gates, 4, axis=-1)
            held = self.sigmoid(forget) * states[1] + self.sigmoid(keep) * self.xp.tanh(new)
            output = self.sigmoid(out) * self.xp.tanh(held)
            return self._matmul(output, self.xp.swapaxes(own[-1], 0, 1)) if projected else output, held

        sizes = {"weights": weights, "bias": bias, "layers": layers, "bidirectional": bidirectional}
        return self._recurrent(cell, states=states, **sizes, **settings)

    def gru(self, state: Any, bias: bool, **settings: Any) -> tuple[Any, ...]:
        def cell(states: Any, given: Any, own: Sequence[Any]) -> Any:
            (state,) = states
            reset, update, new = self.xp.split(given, 3, axis=-1)
            own_reset, own_update, own_new = self.xp.split(self._hidden(state, own, bias), 3, axis=-1)
            new = self.xp.tanh(new + self.sigmoid(reset + own_reset) * own_new)
            return (new + self.sigmoid(update + own_update) * (state - new),)

        return self._recurrent(cell, states=(state,), bias=bias, **settings)

    def _simple(self, function: Callable[[Any], Any], state: Any, bias: bool, **settings: Any) -> tuple[Any, ...]:
        def cell(states: Any, given: Any, own: Sequence[Any]) -> Any:
            return (function(given + self._hidden(states[0], own, bias)),)

        return self._recurrent(cell, states=(state,), bias=bias, **settings)

    def rnn_tanh(self, **settings: Any) -> tuple[Any, ...]:
        return self._simple(self.xp.tanh, **settings)

    def rnn_relu(self, **settings: Any) -> tuple[Any, ...]:
        return self._simple(self.relu, **settings)
