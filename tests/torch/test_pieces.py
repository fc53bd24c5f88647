"""Graphs of pieces: where sizes grow from call to call, what keeps its form is captured once for all of them.

Without a GPU it runs on `twin`, as test_cudagraphs.py does.
"""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from devices.both import on_both
from devices.scenarios import DEVICE, filled
from growing import Decoder
from test_cudagraphs import counted, jitted
from torch import Tensor

import pijit
from pijit.compilers import market

pytestmark = [pytest.mark.torch]


def generated(model: Any, plain: Decoder, tokens: int, batch: int = 1, length: int = 3) -> list[list[Tensor]]:
    """All that `model` gives for so many words, one after the other."""
    words, cache, made = torch.ones(batch, 1, dtype=torch.long, device=DEVICE), plain.empty(batch, length), []
    for _ in range(tokens):
        scores, cache = model(words, cache)
        words = scores.argmax(-1)
        made.append([scores, *(each for pair in cache for each in pair)])
        assert market.wait(60)
    return made


def same(made: list[list[Tensor]], right: list[list[Tensor]]) -> bool:
    """Bits and layouts."""
    return all(
        torch.equal(one, other) and one.stride() == other.stride()
        for each, wanted in zip(made, right, strict=True)
        for one, other in zip(each, wanted, strict=True)
    )


def models() -> tuple[Decoder, Decoder]:
    return filled(Decoder().eval()), filled(Decoder().eval())


def segments(fast: Any) -> list[Any]:
    return [each for trace in pijit.traces(fast) for each in trace.segments]


def a_cache_that_grows() -> None:
    """One graph from one attention to the next, captured once whatever the number of words."""
    plain, model = models()
    fast = jitted(model)
    with torch.no_grad():
        right = generated(plain, plain, 40)
        done = counted()
        assert same(generated(fast, plain, 20), right[:20])
        pieces = segments(fast)
        assert len(pieces) == len(plain.layers) + 1, pieces
        assert done.count("capture") <= 2 * len(pieces), done  # once more where the graph before was captured later
        done.clear()
        assert same(generated(fast, plain, 40), right)
        refused = [key.refused for each in segments(fast) for key in each.keys]
        assert done.count("run") == len(done) == 40 * len(pieces), (done[:9], refused)


def one_capture_a_call() -> None:
    plain, model = models()
    fast = jitted(model)
    with torch.no_grad():
        words, cache = torch.ones(1, 1, dtype=torch.long, device=DEVICE), plain.empty()
        other = plain.empty()
        for _ in range(24):
            done = counted()
            scores, cache = fast(words, cache)
            right, other = plain(words, other)
            assert torch.equal(scores, right)
            assert done.count("capture") <= 1, done
            assert done.count("operators") <= len(plain.layers) + 1, done  # those of each piece once
            assert market.wait(60)


def another_batch_later() -> None:
    """What varied then is cut again, or replayed natively; nothing is captured at each call."""
    plain, model = models()
    fast = jitted(model)
    with torch.no_grad():
        for batch in (1, 2, 3, 4, 1, 5):
            right = generated(plain, plain, 12, batch)
            assert same(generated(fast, plain, 12, batch), right)
        done = counted()
        assert same(generated(fast, plain, 30), generated(plain, plain, 30))
        assert done.count("capture") <= 4, done


def sizes_that_all_differ() -> None:
    """No piece is left: nothing is captured for forms that never come again."""
    f = lambda x: ((x * 2).exp() + x).softmax(-1)  # noqa: E731
    fast = jitted(f)
    with torch.no_grad():
        done = counted()
        for size in range(2, 40):
            x = torch.linspace(0, 1, size).to(DEVICE)
            assert torch.equal(fast(x), f(x))
            assert market.wait(60)
        assert "capture" not in done, done


def other_compilers_are_not_asked() -> None:
    """ "auto" neither imports nor mentions a compiler that takes no tensors of the device."""
    from test_cudagraphs import connected

    connected()
    plain, model = models()
    before = set(sys.modules)
    fast = pijit.jit(model, backend="auto")
    with torch.no_grad():
        assert same(generated(fast, plain, 20), generated(plain, plain, 20))
    names = {each.backend for each in market.of(fast).outcomes}
    assert names <= {"auto", "cudagraphs"}, names
    compilers = ("jax", "openvino", "onnxruntime", "iree", "tvm", "torch._inductor.compile_fx", "onnx")
    assert not [name for name in set(sys.modules) - before if name.startswith(compilers)]


def llama() -> Any:
    """A small one, in a function that makes the same each time."""
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4}
    config = transformers.LlamaConfig(vocab_size=50, num_key_value_heads=2, **sizes)
    return filled(transformers.LlamaForCausalLM(config).eval())


def words(seed: int, count: int) -> Tensor:
    return torch.randint(50, (1, count), generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def a_language_model_is_one_graph() -> None:
    """With a cache that it makes itself, or that it is given: neither stores nor the empty first tensors end it."""
    transformers = pytest.importorskip("transformers")
    plain, model = llama(), llama()

    def given(model: Any, seed: int) -> Any:
        return model(words(seed, 6), past_key_values=transformers.DynamicCache(config=plain.config))

    def own(model: Any, seed: int) -> Any:
        return model(words(seed, 6))

    with torch.no_grad():
        for call in (own, given):
            fast = jitted(model)
            served = 0  # in a row: one is captured for each alignment of what comes in
            for seed in range(60):
                done = counted()
                call(fast, seed)
                assert market.wait(60)
                served = served + 1 if done == ["run"] else 0
                if served == 3:
                    break
            assert served == 3, done
            for seed in range(3):
                made, right = call(fast, seed), call(plain, seed)
                assert torch.equal(made.logits, right.logits)
                for mine, other in zip(made.past_key_values.layers, right.past_key_values.layers, strict=True):
                    assert torch.equal(mine.keys, other.keys)
                    assert torch.equal(mine.values, other.values)
            pijit.unjit(fast)


def tokens_of_a_language_model() -> None:
    """Of a library, with a cache that grows."""
    plain, model = llama(), llama()
    fast = jitted(model)

    def tokens(model: Any, count: int) -> Tensor:
        given, cache, made = words(0, 5), None, []
        for _ in range(count):
            out = model(given, past_key_values=cache)
            given, cache = out.logits[:, -1:].argmax(-1), out.past_key_values
            made.append(out.logits[:, -1:])
            assert market.wait(60)
        return torch.cat(made, 1)

    with torch.no_grad():
        right = tokens(plain, 30)
        assert torch.equal(tokens(fast, 30), right)
        done = counted()
        # A second generation shows what differs from the first one; where addresses were equal by chance, a later one.
        for _ in range(4):
            assert torch.equal(tokens(fast, 30), right)
            if "capture" not in done:
                break
            assert done.count("capture") <= 6, done
            done.clear()
        assert done.count("run") >= 29 * len(plain.model.layers), done


CASES = (
    a_cache_that_grows,
    one_capture_a_call,
    another_batch_later,
    sizes_that_all_differ,
    other_compilers_are_not_asked,
    a_language_model_is_one_graph,
    tokens_of_a_language_model,
)
child, test_on_twin, test_on_cuda = on_both(__file__, CASES)
