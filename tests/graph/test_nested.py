"""The fast path of TransformerEncoder with a mask for padding, which packs its sequences in a nested tensor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import pijit
from pijit.errors import ExportError
from pijit.graph.build.capture import captured

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

torch.manual_seed(0)
LAYER = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
ENCODER = nn.TransformerEncoder(LAYER, 2).eval()
NORMALISED = nn.TransformerEncoder(LAYER, 3, norm=nn.LayerNorm(8)).eval()


def encoded(x: Any, hidden: Any) -> Any:
    return ENCODER(x, src_key_padding_mask=hidden) * 2


def normalised(x: Any, hidden: Any) -> Any:
    return NORMALISED(x, src_key_padding_mask=hidden)


def given(lengths: tuple[int, ...], longest: int = 5) -> tuple[Any, Any]:
    x = torch.randn(len(lengths), longest, 8, generator=torch.Generator().manual_seed(sum(lengths)))
    return x, torch.arange(longest)[None] >= torch.tensor(lengths)[:, None]


CALLS = [given((5, 3, 2)), given((1, 5)), given((4, 7, 7, 2), 7)]


@pytest.mark.parametrize("f", [encoded, normalised], ids=lambda f: f.__name__)
def test_it_is_whole(f: Any) -> None:
    with torch.no_grad():
        graph = captured(f, CALLS[0], {}, decisions="assume")
        assert not graph.breaks
        model = pijit.export(graph, format="fx")
        session = pytest.importorskip("onnxruntime").InferenceSession(
            pijit.export(graph, format="onnx").SerializeToString()
        )
        for call in CALLS:
            expected = f(*call)
            assert torch.equal(model(*call), expected)
            assert torch.equal(graph.run(*call), expected)
            named = zip((each.name for each in session.get_inputs()), call, strict=True)
            found = [graph.run(*(each.numpy() for each in call), framework="numpy")]
            found += session.run(None, {name: each.numpy() for name, each in named})
            for each in found:
                np.testing.assert_allclose(each, expected.numpy(), rtol=1e-4, atol=1e-5)


def test_padding_in_front_takes_the_other_way() -> None:
    x, hidden = CALLS[0]
    with torch.no_grad():
        graph = captured(encoded, (x, hidden), {}, decisions="assume")
        for run, array in ((graph.run, x), (pijit.export(graph, format="fx"), x)):
            with pytest.raises((ExportError, RuntimeError, AssertionError), match="data"):
                run(array, hidden.flip(1))
        with pytest.raises(ExportError, match=r"decides on data"):
            graph.run(x.numpy(), hidden.flip(1).numpy(), framework="numpy")


@pytest.mark.parametrize("gradients", [False, True])
def test_without_an_assumption_it_is_checked(gradients: bool) -> None:
    with torch.set_grad_enabled(gradients):
        for format in ("fx", "exported_program"):
            program = pijit.export(encoded, *CALLS[0], format=format)
            run = program.module() if format == "exported_program" else program
            for x, hidden in CALLS:
                made, plain = run(x, hidden), encoded(x, hidden)
                if format == "fx" or gradients:
                    assert torch.equal(made, plain)
                else:  # no tensor is nested there
                    assert torch.allclose(made, plain, atol=1e-5)
            with pytest.raises((ExportError, RuntimeError, AssertionError)):
                run(CALLS[0][0], CALLS[0][1].flip(1))
