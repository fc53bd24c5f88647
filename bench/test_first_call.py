"""What the first call of a function costs that generates text, beside a plain call: at most ten times as much, however
many tokens there are.

The ratio to a plain call is in `extra_info`.
"""

import statistics
import time

import pytest
import torch

import pijit

pytestmark = pytest.mark.benchmark(group="first call")

transformers = pytest.importorskip("transformers")
TOKENS = [4, 16, 64, 256]


@pytest.fixture(scope="module")
def llama():
    config = transformers.LlamaConfig(
        num_hidden_layers=4,
        hidden_size=64,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=128,
        vocab_size=128,
        max_position_embeddings=512,
    )
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(config).eval()


@pytest.mark.parametrize("tokens", TOKENS)
def test_generate(benchmark, llama, tokens):
    ids = torch.randint(3, 128, (1, 8), generator=torch.Generator().manual_seed(0))

    def generate(tokens):
        return llama.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=tokens,
            min_new_tokens=tokens,
            pad_token_id=0,
            do_sample=False,
        )

    plain = plain_seconds(generate, tokens)
    fast = pijit.jit(generate)
    benchmark.pedantic(fast, args=(tokens,), setup=lambda: pijit.reset(fast), rounds=3)
    if benchmark.stats is not None:
        benchmark.extra_info["ratio"] = benchmark.stats.stats.median / plain


def plain_seconds(call, tokens):
    """After twenty calls, as in a program that has run for a while."""
    times = []
    for _ in range(25):
        began = time.perf_counter()
        call(tokens)
        times.append(time.perf_counter() - began)
    return statistics.median(times[20:])
