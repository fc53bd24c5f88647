"""Rows of recurrent layers, and of the packed sequences that they take.

Sequences of several lengths are packed turn by turn: `counts` has for each turn how many sequences still have one; the
longest comes first.
"""

_REST = "weights, bias, layers, dropout, training, bidirectional, batch_first=False"
_RULES = (
    "; weights of all layers, each forward and then backward: input, hidden, and both biases if bias; with counts x is "
    "packed, and so are the outputs"
)


def _patterns(name: str, states: str) -> tuple[str, str]:
    rest = "weights, bias, layers, dropout, training, bidirectional"
    return f"{name}.input(x, {states}, {rest}, batch_first)", f"{name}.data(x, counts, {states}, {rest})"


RECURRENT: dict[str, list[tuple[str, ...]]] = {
    "recurrent": [
        (
            f"lstm(x, states, {_REST}, counts=None)",
            "long short-term memory over the first axis: the outputs, the last hidden states and the last cells"
            + _RULES,
            *_patterns("lstm", "states"),
        ),
        (
            f"gru(x, state, {_REST}, counts=None)",
            "gated recurrent units over the first axis: the outputs and the last states" + _RULES,
            *_patterns("gru", "state"),
        ),
        *(
            (
                f"rnn_{kind}(x, state, {_REST}, counts=None)",
                f"{kind} of the input and the state before, over the first axis: the outputs and the last states"
                + _RULES,
                *_patterns(f"rnn_{kind}", "state"),
            )
            for kind in ("tanh", "relu")
        ),
        (
            "pack_sequences(x, lengths, batch_first=False)",
            "sequences without their padding, turn by turn, and for each turn how many sequences have one; lengths "
            "in descending order",
            "_pack_padded_sequence",
        ),
        (
            "pad_sequences(x, counts, batch_first, padding, length=-1)",
            "packed sequences with padding, for at least so many turns, and their lengths",
            "_pad_packed_sequence",
        ),
    ],
}
