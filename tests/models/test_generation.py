"""Language models that generate: each call has a cache of its own, or one that the step before has grown."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import pijit

transformers = pytest.importorskip("transformers")
pytestmark = [pytest.mark.torch, pytest.mark.slow]

TOKENS = 10


def gpt2() -> nn.Module:
    config = transformers.GPT2Config(n_layer=3, n_embd=64, n_head=2, vocab_size=128, n_positions=64)
    return transformers.GPT2LMHeadModel(config)


def llama() -> nn.Module:
    config = transformers.LlamaConfig(
        num_hidden_layers=3,
        hidden_size=64,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=96,
        vocab_size=128,
        max_position_embeddings=64,
    )
    return transformers.LlamaForCausalLM(config)


MODELS = {"GPT-2": gpt2, "Llama": llama}


def built(name: str) -> nn.Module:
    torch.manual_seed(0)
    return MODELS[name]().eval()


def prompt(seed: int, rows: int = 1, length: int = 8) -> torch.Tensor:
    return torch.randint(3, 128, (rows, length), generator=torch.Generator().manual_seed(seed))


def generate(model: Any, ids: torch.Tensor, **options: Any) -> Any:
    torch.manual_seed(1)
    return model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=TOKENS,
        pad_token_id=0,
        output_logits=True,
        return_dict_in_generate=True,
        **options,
    )


def tensors(result: Any) -> list[torch.Tensor]:
    cache = [each for layer in result.past_key_values.layers for each in (layer.keys, layer.values)]
    return [result.sequences, *result.logits, *cache]


@pytest.mark.parametrize("name", MODELS)
def test_generate(name: str) -> None:
    """Every bit of tokens, logits and caches; and few recordings: of the first step, and of all others."""
    model, plain = pijit.jit(built(name)), built(name)
    for seed in range(6):
        ids = prompt(seed, length=6 + seed)
        for fast, slow in zip(tensors(generate(model, ids)), tensors(generate(plain, ids)), strict=True):
            assert torch.equal(fast, slow)
    traces = pijit.traces(model)
    assert len(traces) <= 3
    assert sum(trace.opaque_calls + trace.exits for trace in traces) == 0
    assert sum(trace.replays for trace in traces) >= 6 * TOKENS - 8


@pytest.mark.parametrize("name", MODELS)
def test_ways_to_generate(name: str) -> None:
    """One after the other, and back: what is recorded for one is not taken for the next."""
    model, plain = pijit.jit(built(name)), built(name)
    ways = [{"do_sample": True}, {"num_beams": 2}, {"do_sample": False}, {"use_cache": False}]
    for turn in range(3):
        for way in ways:
            ids = prompt(turn, rows=1 + turn)
            fast, slow = generate(model, ids, **way), generate(plain, ids, **way)
            assert torch.equal(fast.sequences, slow.sequences), way
            for left, right in zip(fast.logits, slow.logits, strict=True):
                assert torch.equal(left, right), way


@pytest.mark.parametrize("name", MODELS)
def test_cache_of_the_caller(name: str) -> None:
    """Two caches that grow in turn, are cut, and are written to between the calls."""
    model, plain = pijit.jit(built(name)), built(name)

    def steps(it: Any) -> list[torch.Tensor]:
        first, second = transformers.DynamicCache(), transformers.DynamicCache()
        seen = []
        with torch.no_grad():
            for seed in range(10):
                for cache in (first, second):
                    if seed == 7:
                        cache.crop(-2)
                    out = it(prompt(seed, length=1 + seed % 3), past_key_values=cache)
                    assert out.past_key_values is cache
                    seen += [out.logits, *(layer.keys for layer in cache.layers)]
                first.layers[0].keys.mul_(1.5)
        return seen

    for fast, slow in zip(steps(model), steps(plain), strict=True):
        assert torch.equal(fast, slow)
    assert pijit.status(model).state == "replaying"
