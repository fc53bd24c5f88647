"""Sequences of several lengths, packed: torch's own functions for them are operators of one graph."""

import numpy as np
import pytest
import torch

import pijit

pytestmark = pytest.mark.torch


class Packed(torch.nn.Module):
    """What `pack_padded_sequence`, `nn.LSTM`, `nn.GRU` and `pad_packed_sequence` call."""

    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(4, 5, num_layers=2, bidirectional=True, batch_first=True)
        self.gru = torch.nn.GRU(4, 5)

    def forward(self, x, lengths):
        lengths, order = lengths.sort(descending=True)
        data, counts = torch._VF._pack_padded_sequence(x.index_select(0, order), lengths, True)
        back = torch.empty_like(order)
        back.scatter_(0, order, torch.arange(0, order.numel()))
        batch = counts[0]
        states = torch.zeros(4, batch, 5), torch.zeros(4, batch, 5)
        made, h, _ = torch._VF.lstm(data, counts, states, self.lstm._flat_weights, True, 2, 0.0, False, True)
        start, weights = torch.zeros(1, batch, 5), self.gru._flat_weights
        gru, last = torch._VF.gru(data, counts, start, weights, True, 1, 0.0, False, False)
        padded, found = torch._VF._pad_packed_sequence(made, counts, True, 0.0, counts.size(0))
        return padded.index_select(0, back), found[back], h.index_select(1, back), gru.sum(0), last


CALLS = [(3, 6, (4, 6, 2)), (3, 6, (1, 5, 2)), (5, 7, (7, 1, 2, 7, 3))]


def given(batch, length, lengths):
    return torch.randn(batch, length, 4, generator=torch.Generator().manual_seed(batch)), torch.tensor(lengths)


@pytest.mark.parametrize("format", ["fx", "torch"])
def test_packed_sequences_are_whole_and_have_the_same_bits(format):
    torch.manual_seed(0)
    model = Packed().eval()
    with torch.no_grad():
        graph = pijit.graph.capture(model, *given(*CALLS[0]))
        assert not graph.breaks
        run = pijit.export(graph, format="fx") if format == "fx" else graph.run
        for call in CALLS:
            for one, other in zip(run(*given(*call)), model(*given(*call)), strict=True):
                assert torch.equal(one, other)


def test_an_exported_program_has_the_same_bits():
    torch.manual_seed(0)
    model = Packed().eval()
    with torch.no_grad():
        program = pijit.export(model, *given(*CALLS[0]), format="exported_program").module()
        for call in CALLS:
            for one, other in zip(program(*given(*call)), model(*given(*call)), strict=True):
                assert torch.equal(one, other)


def close(made, expected):
    for one, other in zip(made, expected, strict=True):
        assert tuple(one.shape) == tuple(other.shape)
        np.testing.assert_allclose(np.asarray(one), other.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("framework", ["numpy", "jax", "onnx"])
def test_other_frameworks_pad_them(framework):
    package = pytest.importorskip({"onnx": "onnxruntime"}.get(framework, framework))
    torch.manual_seed(0)
    model = Packed().eval()
    with torch.no_grad():
        graph = pijit.graph.capture(model, *given(*CALLS[0]))
        if framework == "onnx":
            session = package.InferenceSession(pijit.export(graph, format="onnx").SerializeToString())
            names = [each.name for each in session.get_inputs()]
            run = lambda *given: session.run(None, dict(zip(names, (each.numpy() for each in given), strict=True)))  # noqa: E731
        else:
            run = lambda *given: graph.run(*given, framework=framework)  # noqa: E731
        for call in CALLS:
            close(run(*given(*call)), model(*given(*call)))


class Classifier(torch.nn.Module):
    """The modules and functions of torch, with a first state."""

    def __init__(self, kind):
        super().__init__()
        self.layer = kind(4, 5, num_layers=2, bidirectional=True, batch_first=True)

    def forward(self, x, lengths, start):
        packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        states = (start, start * 2) if isinstance(self.layer, torch.nn.LSTM) else start
        out, last = self.layer(packed, states)
        padded, counts = torch.nn.utils.rnn.pad_packed_sequence(out, batch_first=True, padding_value=0.5)
        last = last if isinstance(last, torch.Tensor) else torch.cat(last)
        return padded, counts, last


@pytest.mark.parametrize("format", ["fx", "exported_program", "onnx", "jax"])
@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN], ids=lambda kind: kind.__name__)
def test_a_first_state(kind, format):
    package = pytest.importorskip({"onnx": "onnxruntime", "jax": "jax"}.get(format, "torch"))
    torch.manual_seed(0)
    model = Classifier(kind).eval()

    def of(call):
        return *given(*call), torch.randn(4, call[0], 5, generator=torch.Generator().manual_seed(call[1]))

    with torch.no_grad():
        graph = pijit.graph.capture(model, *of(CALLS[0]))
        assert not graph.breaks
        if format == "onnx":
            session = package.InferenceSession(pijit.export(graph, format="onnx").SerializeToString())
            names = [each.name for each in session.get_inputs()]
            run = lambda *given: session.run(None, dict(zip(names, (each.numpy() for each in given), strict=True)))  # noqa: E731
        elif format == "jax":
            run = lambda *given: graph.run(*given, framework="jax")  # noqa: E731
        else:
            made = pijit.export(graph, format=format)
            run = made.module() if format == "exported_program" else made
        for call in CALLS:
            made, right = run(*of(call)), model(*of(call))
            if format in {"onnx", "jax"}:
                close(made, right)
            else:
                assert all(map(torch.equal, made, right))
