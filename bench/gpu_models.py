"""What gpu.py measures: each function beside `@case` builds one afresh, with random weights, on the default device.

A case is added by a function with the decorator. It is given `small`, for sizes of a moment, and makes a `Case`. It is
called with torch's seed set; what two calls of it make is equal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

INPUTS = 4


@dataclass
class Case:
    """One side: what is called, with what, and what it changes."""

    call: Callable[..., Any]
    inputs: list[tuple[Any, ...]]
    state: dict[str, Any] = field(default_factory=dict)
    training: bool = False
    compiled: Callable[..., Any] | None = None  # what torch.compile takes a share in by itself


@dataclass(frozen=True)
class Row:
    """A case, and what is asked of it.

    Attributes:
        make: builds the case.
        most: of eager's time; None: as torch.compile's reduce-overhead.
        worst: of eager's slowest call; None: it is not asked.
        long: one call takes as long as a hundred of others.
        package: that the case needs beside torch.
    """

    make: Callable[[bool], Case]
    most: float | None
    worst: float | None = None
    long: bool = False
    package: str = "torch"


ROWS: dict[str, Row] = {}  # in the order in which they are measured


def case(
    most: float | None = None, worst: float | None = None, long: bool = False, package: str = "torch"
) -> Callable[[Callable[[bool], Case]], Callable[[bool], Case]]:
    """Registers a case under the name of the function, with dashes."""

    def register(make: Callable[[bool], Case]) -> Callable[[bool], Case]:
        ROWS[make.__name__.replace("_", "-")] = Row(make, most, worst, long, package)
        return make

    return register


def several(draw: Callable[[], tuple[Any, ...]], count: int = INPUTS) -> list[tuple[Any, ...]]:
    """As many inputs as a case is called with in turn."""
    return [draw() for _ in range(count)]


def words(*sizes: int) -> Tensor:
    """Tokens that every vocabulary here has."""
    return torch.randint(3, 100, sizes)


# --- training ---------------------------------------------------------------------------------


@case(most=0.2)
def mlp_step(small: bool) -> Case:
    """Three layers of 128, Adam, batch 128."""
    wide = 8 if small else 128
    model = nn.Sequential(nn.Linear(wide, wide), nn.ReLU(), nn.Linear(wide, wide), nn.ReLU(), nn.Linear(wide, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    inputs = several(lambda: (torch.randn(128, wide), torch.randint(10, (128,))))
    return Case(step, inputs, {"model": model, "optimizer": optimizer}, training=True)


@case(most=0.2, package="transformers")
def gpt2_step(small: bool) -> Case:
    """GPT-2 of 6 layers of 256 with its dropout, AdamW, four sentences of 64 tokens."""
    from transformers import GPT2Config, GPT2LMHeadModel

    layers, hidden = (2, 32) if small else (6, 256)
    config = GPT2Config(
        n_layer=layers, n_embd=hidden, n_head=hidden // 16, vocab_size=1000, n_positions=64, bos_token_id=1,
        eos_token_id=2,
    )  # fmt: skip
    model = GPT2LMHeadModel(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step(tokens: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = model(tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        return loss.detach()

    inputs = several(lambda: (words(4, 64),))
    return Case(step, inputs, {"model": model, "optimizer": optimizer}, training=True)


# --- inference --------------------------------------------------------------------------------


def llama_model(layers: int, hidden: int, inner: int, heads: int, groups: int, vocabulary: int) -> nn.Module:
    """In bfloat16, where the device is a GPU."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=vocabulary, hidden_size=hidden, intermediate_size=inner, num_hidden_layers=layers,
        num_attention_heads=heads, num_key_value_heads=groups, max_position_embeddings=256,
    )  # fmt: skip
    config.eos_token_id = None
    return LlamaForCausalLM(config).eval().to(torch.bfloat16)


@case(most=0.25, worst=1.5, long=True, package="transformers")
def generate(small: bool) -> Case:
    """64 tokens behind 16, one sentence, a cache that grows."""
    model = llama_model(2, 32, 64, 4, 2, 128) if small else llama_model(12, 1024, 2816, 16, 4, 32000)
    settings: Any = model.generation_config
    settings.pad_token_id, settings.eos_token_id = 0, None
    tokens = 6 if small else 64

    def call(prompt: Tensor, **more: Any) -> Tensor:
        mask = torch.ones_like(prompt)
        return model.generate(prompt, attention_mask=mask, max_new_tokens=tokens, do_sample=False, **more)

    static = partial(call, cache_implementation="static")
    return Case(call, several(lambda: (words(1, 16),), 2), compiled=static)


@case(package="transformers")
def llama(small: bool) -> Case:
    """A forward of one sentence of 16 tokens, with the cache that it makes."""
    model = llama_model(2, 32, 64, 4, 2, 128) if small else llama_model(16, 2048, 5632, 32, 8, 32000)
    return Case(lambda tokens: model(tokens).logits, several(lambda: (words(1, 16),)))


def bert_model(layers: int, hidden: int, heads: int) -> nn.Module:
    """An encoder in evaluation mode."""
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=1000, hidden_size=hidden, intermediate_size=4 * hidden, num_hidden_layers=layers,
        num_attention_heads=heads,
    )  # fmt: skip
    return BertModel(config).eval()


@case(package="transformers")
def bert_small(small: bool) -> Case:
    """12 layers of 64, one sentence of 16 tokens."""
    model = bert_model(2 if small else 12, 64, 2)
    return Case(lambda tokens: model(tokens).last_hidden_state, several(lambda: (words(1, 16),)))


@case(package="transformers")
def bert_base(small: bool) -> Case:
    """12 layers of 768 in bfloat16, one sentence of 128 tokens."""
    model = (bert_model(2, 32, 2) if small else bert_model(12, 768, 12)).to(torch.bfloat16)
    return Case(lambda tokens: model(tokens).last_hidden_state, several(lambda: (words(1, 128),)))


@case(package="torchvision")
def resnet50(small: bool) -> Case:
    """One picture in float16."""
    from torchvision.models import resnet18, resnet50

    model = (resnet18 if small else resnet50)().eval().to(torch.float16)
    side = 64 if small else 224
    return Case(model, several(lambda: (torch.randn(1, 3, side, side).to(torch.float16),)))


@case(package="transformers")
def vit(small: bool) -> Case:
    """ViT-S, one picture in float16."""
    from transformers import ViTConfig, ViTModel

    sizes = {"hidden_size": 384, "intermediate_size": 1536, "num_hidden_layers": 12, "num_attention_heads": 6}
    if small:
        sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    side = 32 if small else 224
    model = ViTModel(ViTConfig(image_size=side, **sizes)).eval().to(torch.float16)
    return Case(
        lambda picture: model(picture).last_hidden_state,
        several(lambda: (torch.randn(1, 3, side, side).to(torch.float16),)),
    )


@case(most=0.5)
def policy(small: bool) -> Case:
    """Five operators on one observation of 17 numbers."""
    model = nn.Sequential(nn.Linear(17, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 6)).eval()
    return Case(model, several(lambda: (torch.randn(1, 17),)))
