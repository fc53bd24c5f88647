"""Sequences of several lengths, packed: torch's own functions for them are operators of one graph."""

import pytest
import torch

import pijit
from pijit.errors import ExportError

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


def test_onnx_refuses_them_by_line():
    with torch.no_grad():
        graph = pijit.graph.capture(Packed().eval(), *given(*CALLS[0]))
        with pytest.raises(ExportError, match=r"test_packed\.py:\d+: aten::_pack_padded_sequence has no row"):
            pijit.export(graph, format="onnx")
