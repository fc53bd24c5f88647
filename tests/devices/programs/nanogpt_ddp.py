"""A small GPT, trained as nanoGPT does: under torchrun or not, mixed precision, accumulated gradients, clipping.

By hand for the CPU:
    device = "cuda" -> device = "cpu"
    backend = "nccl" -> backend = "gloo"
    device = f"cuda:{local_rank}" -> device = "cpu"
    torch.cuda.set_device(device) -> pass
    GradScaler("cuda", -> GradScaler("cpu",
    x.pin_memory().to -> x.to
    y.pin_memory().to -> y.to
    assert torch.cuda.is_available() -> assert not torch.cuda.is_available()
    DDP(model, device_ids=[local_rank]) -> DDP(model)
"""

import math
import os
from contextlib import nullcontext

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed import destroy_process_group, init_process_group
from torch.nn.parallel import DistributedDataParallel as DDP

backend = "nccl"
device = "cuda"
dtype = "bfloat16"
steps, batch_size, block_size, accumulation = 40, 4, 16, 2

ddp = int(os.environ.get("RANK", -1)) != -1
if ddp:
    init_process_group(backend=backend)
    rank, local_rank = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    device = f"cuda:{local_rank}"
    torch.cuda.set_device(device)
    accumulation //= world_size
else:
    rank, world_size = 0, 1
assert torch.cuda.is_available()
master = rank == 0
torch.manual_seed(1337 + rank)
torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cudnn.allow_tf32 = True
device_type = "cuda" if "cuda" in device else "cpu"
ptdtype = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}[dtype]
ctx = nullcontext() if dtype == "float32" else torch.amp.autocast(device_type=device_type, dtype=ptdtype)

text = "to be or not to be that is the question " * 50
chars = sorted(set(text))
data = torch.tensor([chars.index(c) for c in text], dtype=torch.int64)


def get_batch():
    ix = torch.randint(len(data) - block_size, (batch_size,))
    x = torch.stack([data[i : i + block_size] for i in ix])
    y = torch.stack([data[i + 1 : i + 1 + block_size] for i in ix])
    return x.pin_memory().to(device, non_blocking=True), y.pin_memory().to(device, non_blocking=True)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.attn(self.ln_1(x)).split(C, dim=2)
        q, k, v = (t.view(B, T, self.heads, C // self.heads).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).contiguous().view(B, T, C))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, vocabulary, width=32, heads=4, layers=2):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(block_size, width)
        self.h = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f, self.lm_head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.wte.weight = self.lm_head.weight

    def forward(self, idx, targets=None):
        pos = torch.arange(0, idx.size(1), dtype=torch.long, device=idx.device)
        x = self.wte(idx) + self.wpe(pos)
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


def get_lr(it):
    return 1e-3 * (it + 1) / 5 if it < 5 else 1e-4 + 0.45e-3 * (1 + math.cos(math.pi * (it - 5) / (steps - 5)))


model = GPT(len(chars)).to(device)
scaler = torch.amp.GradScaler("cuda", enabled=(dtype == "float16"))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), fused=True)
if ddp:
    model = DDP(model, device_ids=[local_rank])
raw_model = model.module if ddp else model

X, Y = get_batch()
for it in range(steps):
    for group in optimizer.param_groups:
        group["lr"] = get_lr(it)
    for micro in range(accumulation):
        if ddp:
            model.require_backward_grad_sync = micro == accumulation - 1
        with ctx:
            _, loss = model(X, Y)
            loss = loss / accumulation
        X, Y = get_batch()
        scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    if it % 10 == 0 and master:
        print(f"iter {it}: loss {loss.item() * accumulation!r}")

if master:
    checkpoint = {"model": raw_model.state_dict(), "optimizer": optimizer.state_dict()}
    print(sorted(checkpoint["model"])[:3], sum(p.abs().sum().item() for p in raw_model.parameters()))
raw_model.eval()
with torch.no_grad(), ctx:
    idx = torch.zeros((1, 1), dtype=torch.long, device=device)
    for _ in range(block_size - 1):
        probs = F.softmax(raw_model(idx)[0][:, -1, :].float(), dim=-1)
        idx = torch.cat((idx, torch.multinomial(probs, num_samples=1)), dim=1)
print("".join(chars[i] for i in idx[0].tolist()))
if ddp:
    destroy_process_group()
