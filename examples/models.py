"""Small transformers with random weights: twelve layers of BERT, GPT-2 and Llama from the transformers package."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

HIDDEN = 64
INNER = 128
LAYERS = 12
HEADS = 4
VOCABULARY = 1000
TOKENS = 16


def bert(seed: int = 0) -> nn.Module:
    """A BertModel, in evaluation mode."""
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=HIDDEN,
        intermediate_size=INNER,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
    )
    return _random(BertModel, config, seed)


def gpt2(seed: int = 0) -> nn.Module:
    """A GPT2Model, in evaluation mode."""
    from transformers import GPT2Model

    return _random(GPT2Model, _gpt2_config(), seed)


def gpt2_in_training(seed: int = 0) -> nn.Module:
    """A GPT2LMHeadModel with dropout."""
    from transformers import GPT2LMHeadModel

    return _random(GPT2LMHeadModel, _gpt2_config(), seed).train()


def step(model: nn.Module, optimizer: torch.optim.Optimizer, ids: Tensor) -> Tensor:
    """One training step of a language model on its own input."""
    optimizer.zero_grad()
    loss: Tensor = model(ids, labels=ids).loss
    loss.backward()
    optimizer.step()
    return loss.detach()


def llama(seed: int = 0) -> nn.Module:
    """A LlamaModel, in evaluation mode."""
    from transformers import LlamaConfig, LlamaModel

    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=HIDDEN,
        intermediate_size=INNER,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        bos_token_id=1,
        eos_token_id=2,
    )
    return _random(LlamaModel, config, seed)


MODELS: dict[str, Callable[..., nn.Module]] = {"BERT": bert, "GPT-2": gpt2, "Llama": llama}


def input_ids(seed: int = 0) -> Tensor:
    """Random tokens, 1 x 16."""
    return torch.randint(VOCABULARY, (1, TOKENS), generator=torch.Generator().manual_seed(seed))


def _gpt2_config() -> Any:
    from transformers import GPT2Config

    return GPT2Config(
        vocab_size=VOCABULARY,
        n_embd=HIDDEN,
        n_inner=INNER,
        n_layer=LAYERS,
        n_head=HEADS,
        bos_token_id=1,
        eos_token_id=2,
    )


def _random(kind: Callable[[Any], nn.Module], config: Any, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return kind(config).eval()
