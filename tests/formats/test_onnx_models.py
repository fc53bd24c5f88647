"""Models that are captured once and run in ONNX Runtime, with other batches and lengths than at the capture.

Some of them run as StableHLO as well, for the sizes of the capture.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import pijit

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
transformers = pytest.importorskip("transformers")
pytestmark = [pytest.mark.torch, pytest.mark.slow]

TEXT = {"vocab_size": 128, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
IMAGE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "image_size": 32}


class Convolutions(nn.Module):
    """Convolutions with batch normalisation, pooling of all kinds, and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        self.rest = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.BatchNorm2d(8), nn.Hardswish())
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.last = nn.Linear(8, 5)
        for norm in (self.first[1], self.rest[1]):
            nn.init.uniform_(norm.running_mean)
            nn.init.uniform_(norm.running_var, 0.5, 1.5)

    def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
        x = self.first(pixel_values)
        return self.last(torch.flatten(self.pool(x + self.rest(x)), 1))


def _pair(**more: Any) -> Any:
    return transformers.T5Config(
        vocab_size=128, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0, **more
    )


MODELS: dict[str, Any] = {
    "bert": lambda: transformers.BertModel(transformers.BertConfig(**TEXT)),
    "gpt2": lambda: transformers.GPT2Model(
        transformers.GPT2Config(n_layer=2, n_embd=32, n_head=4, vocab_size=128, n_positions=64, use_cache=False)
    ),
    "llama": lambda: transformers.LlamaModel(
        transformers.LlamaConfig(**TEXT, num_key_value_heads=2, max_position_embeddings=64, use_cache=False)
    ),
    "t5": lambda: transformers.T5Model(_pair(use_cache=False)),
    "vit": lambda: transformers.ViTModel(transformers.ViTConfig(**IMAGE, patch_size=8)),
    "convnext": lambda: transformers.ConvNextModel(
        transformers.ConvNextConfig(hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1])
    ),
    "swin": lambda: transformers.SwinModel(
        transformers.SwinConfig(image_size=32, patch_size=4, embed_dim=16, depths=[2], num_heads=[2], window_size=4)
    ),
    "convolutions": Convolutions,
}


def inputs(name: str, batch: int, length: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(batch * 100 + length)
    if name in ("vit", "convnext", "swin", "convolutions"):
        return {"pixel_values": torch.randn(batch, 3, 32, 32, generator=generator)}
    tokens = torch.randint(3, 128, (batch, length), generator=generator)
    return {"input_ids": tokens} | ({"decoder_input_ids": tokens[:, : length // 2]} if name == "t5" else {})


def tensors(output: Any) -> dict[str, torch.Tensor]:
    """Outputs by the names that the model has for them."""
    if isinstance(output, torch.Tensor):
        return {"output": output}
    return {name: each for name, each in output.items() if isinstance(each, torch.Tensor)}


@pytest.mark.parametrize("name", MODELS)
def test_a_captured_model_runs_in_onnx_runtime_at_other_sizes(name: str) -> None:
    torch.manual_seed(0)
    module = MODELS[name]().eval()
    with torch.no_grad():
        model = pijit.export(module, format="onnx", kwargs=inputs(name, 2, 8))
        onnx.checker.check_model(model, full_check=True)
        session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        outputs = [each.name for each in session.get_outputs()]
        for batch, length in ((2, 8), (3, 11), (5, 6)):
            given = inputs(name, batch, length)
            found = dict(zip(outputs, session.run(None, {k: v.numpy() for k, v in given.items()}), strict=True))
            for key, expected in tensors(module(**given)).items():
                np.testing.assert_allclose(found[key], expected.numpy(), rtol=1e-4, atol=1e-4, err_msg=key)


def test_nodes_of_a_model_have_their_layers_and_lines() -> None:
    torch.manual_seed(0)
    module = MODELS["bert"]().eval()
    with torch.no_grad():
        for count in (1, 2):
            model = pijit.export(module, format="onnx", kwargs=inputs("bert", 2, 8 * count))
            notes = [{each.key: each.value for each in node.metadata_props} for node in model.graph.node]
            layers = {note.get("pijit.layer", "") for note in notes}
            assert {"encoder.layer.0.attention.self", "encoder.layer.1.output.dense", "pooler"} & layers
            lines = [note["pijit.line"] for note in notes if "pijit.line" in note]
            assert len(lines) > len(notes) / 2
            assert all("modeling_bert.py:" in line or ".py:" in line for line in lines)
            weights = {each.name for each in model.graph.initializer}
            assert {"embeddings.word_embeddings.weight", "encoder.layer.1.output.dense.bias"} <= weights


@pytest.mark.parametrize("name", ["bert", "llama", "convnext"])
def test_a_captured_model_runs_as_stablehlo(name: str) -> None:
    jax = pytest.importorskip("jax")
    torch.manual_seed(0)
    module = MODELS[name]().eval()
    with torch.no_grad():
        text = pijit.export(module, format="stablehlo", dynamic=False, kwargs=inputs(name, 2, 8))
        for seed in (0, 1):
            given = inputs(name, 2, 8)
            if seed:
                given = {key: each.flip(0) for key, each in given.items()}
            arrays = [
                (text.data[each].detach() if each in text.data else given[each]).numpy() for each in text.arguments
            ]
            with jax.enable_x64(True):
                found = dict(zip(text.results, compiled(jax, text.text)(arrays), strict=True))
            for key, expected in tensors(module(**given)).items():
                np.testing.assert_allclose(found[key], expected.numpy(), rtol=1e-4, atol=1e-4, err_msg=key)


def compiled(jax: Any, text: str) -> Any:
    """What jaxlib compiles from the text alone."""
    from jax._src.lib import _jax

    device = jax.devices("cpu")[0]
    program = device.client.compile_and_load(text, _jax.DeviceList((device,)), _jax.CompileOptions())
    return lambda arrays: [np.asarray(each) for each in program.execute([jax.device_put(a, device) for a in arrays])]
