"""A small GPT on characters in one file: a config, blocks, a training loop with warm-up and cosine, and samples."""

import math
from dataclasses import dataclass

import torch
from _common import finish, place, scaled, start
from torch import nn
from torch.nn import functional as F


@dataclass
class GPTConfig:
    block_size: int = 32
    vocab_size: int = 40
    n_layer: int = 2
    n_head: int = 2
    n_embd: int = 32


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.n_head = config.n_head
        self.qkv = nn.Linear(config.n_embd, 3 * config.n_embd, bias=False)
        self.proj = nn.Linear(config.n_embd, config.n_embd, bias=False)

    def forward(self, x):
        b, t, c = x.size()
        q, k, v = (y.view(b, t, self.n_head, c // self.n_head).transpose(1, 2) for y in self.qkv(x).split(c, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).contiguous().view(b, t, c))


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(config.n_embd), nn.LayerNorm(config.n_embd)
        self.attn = Attention(config)
        self.mlp = nn.Sequential(
            nn.Linear(config.n_embd, 4 * config.n_embd), nn.GELU(), nn.Linear(4 * config.n_embd, config.n_embd)
        )

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.wpe = nn.Embedding(config.block_size, config.n_embd)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.n_layer))
        self.ln_f = nn.LayerNorm(config.n_embd)
        self.head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, ids, targets=None):
        x = self.wte(ids) + self.wpe(torch.arange(ids.size(1)))
        for block in self.blocks:
            x = block(x)
        x = self.ln_f(x)
        if targets is None:
            return self.head(x[:, [-1], :]), None
        logits = self.head(x)
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))

    @torch.no_grad()
    def generate(self, ids, count, temperature=0.8, top_k=10):
        for _ in range(count):
            logits, _ = self(ids[:, -self.config.block_size :])
            logits = logits[:, -1, :] / temperature
            least, _ = torch.topk(logits, top_k)
            logits[logits < least[:, [-1]]] = -float("inf")
            ids = torch.cat((ids, torch.multinomial(F.softmax(logits, dim=-1), 1)), dim=1)
        return ids


def get_batch(data, size, block):
    at = torch.randint(len(data) - block - 1, (size,))
    return torch.stack([data[i : i + block] for i in at]), torch.stack([data[i + 1 : i + 1 + block] for i in at])


def learning_rate(turn, turns, most=3e-3, warmup=20):
    if turn < warmup:
        return most * (turn + 1) / warmup
    return most * (0.1 + 0.45 * (1 + math.cos(math.pi * (turn - warmup) / max(1, turns - warmup))))


torch.manual_seed(1337)
data = (torch.arange(4000) * 7 + (torch.arange(4000) // 13) ** 2) % 40
model = place(GPT(GPTConfig()))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.95), weight_decay=0.1)
turns = scaled(670)
start()
for turn in range(turns):
    for group in optimizer.param_groups:
        group["lr"] = learning_rate(turn, turns)
    x, y = get_batch(data, 4, 32)
    _, loss = model(x, y)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    if turn % 50 == 0:
        print(turn, repr(loss.item()))
for _ in range(scaled(5)):
    print(model.generate(torch.zeros(1, 1, dtype=torch.long), 50)[0].tolist())
finish(model)
