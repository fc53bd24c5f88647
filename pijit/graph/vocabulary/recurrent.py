"""Rows of recurrent layers."""

_REST = "weights, bias, layers, dropout, training, bidirectional, batch_first=False"
_RULES = "; weights of all layers, each forward and then backward: input, hidden, and both biases if bias"
_LSTM = "long short-term memory over the first axis: the outputs, the last hidden states and the last cells"

RECURRENT: dict[str, list[tuple[str, ...]]] = {
    "recurrent": [
        (
            f"lstm(x, states, {_REST})",
            "long short-term memory over the first axis: the outputs, the last hidden states and the last cells"
            + _RULES,
            "lstm.input",
        ),
        (
            f"gru(x, state, {_REST})",
            "gated recurrent units over the first axis: the outputs and the last states" + _RULES,
            "gru.input",
        ),
        *(
            (
                f"rnn_{kind}(x, state, {_REST})",
                f"{kind} of the input and the state before, over the first axis: the outputs and the last states"
                + _RULES,
                f"rnn_{kind}.input",
            )
            for kind in ("tanh", "relu")
        ),
    ],
}
