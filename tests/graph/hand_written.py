"""Programs as people write them by hand, each with inputs of two sizes, and whether its graph is whole.

python tests/graph/hand_written.py [--only NAME]
"""

from __future__ import annotations

import argparse
import copy
import math
import sys
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import hand_written_pictures
import hand_written_sequences
import torch
import torch.nn.functional as F
from torch import nn


class CausalSelfAttention(nn.Module):
    """nanoGPT without flash attention."""

    def __init__(self, n_embd=16, n_head=4, block=16):
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(n_embd, 3 * n_embd), nn.Linear(n_embd, n_embd)
        self.n_head, self.n_embd, self.dropout = n_head, n_embd, nn.Dropout(0.1)
        self.register_buffer("bias", torch.tril(torch.ones(block, block)).view(1, 1, block, block))

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
        att = self.dropout(F.softmax(att, dim=-1))
        y = (att @ v).transpose(1, 2).contiguous().view(B, T, C)
        return self.c_proj(y)


class NewGELU(nn.Module):
    def forward(self, x):
        return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


class GPT(nn.Module):
    """minGPT."""

    def __init__(self, vocabulary=20, n_embd=16, block=16):
        super().__init__()
        self.block_size = block
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(vocabulary, n_embd),
                "wpe": nn.Embedding(block, n_embd),
                "drop": nn.Dropout(0.1),
                "h": nn.ModuleList([CausalSelfAttention(n_embd) for _ in range(2)]),
                "ln_f": nn.LayerNorm(n_embd),
            }
        )
        self.mlp = nn.ModuleDict({"fc": nn.Linear(n_embd, n_embd), "act": NewGELU()})
        self.lm_head = nn.Linear(n_embd, vocabulary, bias=False)

    def forward(self, idx, targets=None):
        device = idx.device
        b, t = idx.size()
        assert t <= self.block_size, f"Cannot forward sequence of length {t}, block size is only {self.block_size}"
        pos = torch.arange(0, t, dtype=torch.long, device=device).unsqueeze(0)
        x = self.transformer.drop(self.transformer.wte(idx) + self.transformer.wpe(pos))
        for block in self.transformer.h:
            x = x + block(x)
        x = x + self.mlp.act(self.mlp.fc(self.transformer.ln_f(x)))
        logits = self.lm_head(x)
        loss = None
        if targets is not None:
            loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)
        return logits, loss


def clones(module, n):
    return nn.ModuleList([copy.deepcopy(module) for _ in range(n)])


def attention(query, key, value, mask=None, dropout=None):
    d_k = query.size(-1)
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(d_k)
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    p_attn = scores.softmax(dim=-1)
    if dropout is not None:
        p_attn = dropout(p_attn)
    return torch.matmul(p_attn, value), p_attn


class MultiHeadedAttention(nn.Module):
    def __init__(self, h, d_model):
        super().__init__()
        self.d_k, self.h = d_model // h, h
        self.linears = clones(nn.Linear(d_model, d_model), 4)
        self.attn, self.dropout = None, nn.Dropout(0.1)

    def forward(self, query, key, value, mask=None):
        if mask is not None:
            mask = mask.unsqueeze(1)
        nbatches = query.size(0)
        query, key, value = [
            lin(x).view(nbatches, -1, self.h, self.d_k).transpose(1, 2)
            for lin, x in zip(self.linears, (query, key, value))
        ]
        x, self.attn = attention(query, key, value, mask=mask, dropout=self.dropout)
        x = x.transpose(1, 2).contiguous().view(nbatches, -1, self.h * self.d_k)
        return self.linears[-1](x)


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=50):
        super().__init__()
        pe = torch.zeros(max_len, d_model)
        position = torch.arange(0, max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * -(math.log(10000.0) / d_model))
        pe[:, 0::2] = torch.sin(position * div_term)
        pe[:, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe.unsqueeze(0))

    def forward(self, x):
        return x + self.pe[:, : x.size(1)].requires_grad_(False)


class AnnotatedTransformer(nn.Module):
    def __init__(self, vocabulary=20, d_model=16):
        super().__init__()
        self.lut, self.pos, self.d_model = nn.Embedding(vocabulary, d_model), PositionalEncoding(d_model), d_model
        self.layers = clones(MultiHeadedAttention(4, d_model), 2)
        self.a_2, self.b_2, self.eps = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.zeros(d_model)), 1e-6

    def norm(self, x):
        mean, std = x.mean(-1, keepdim=True), x.std(-1, keepdim=True)
        return self.a_2 * (x - mean) / (std + self.eps) + self.b_2

    def forward(self, tgt):
        mask = (tgt != 0).unsqueeze(-2)
        attn_shape = (1, tgt.size(-1), tgt.size(-1))
        mask = mask & (torch.triu(torch.ones(attn_shape), diagonal=1).type(torch.uint8) == 0).type_as(mask)
        x = self.pos(self.lut(tgt) * math.sqrt(self.d_model))
        for layer in self.layers:
            x = x + layer(self.norm(x), self.norm(x), self.norm(x), mask)
        return F.log_softmax(self.norm(x), dim=-1)


class Seq2Seq(nn.Module):
    """GRU cells by hand, Bahdanau attention, teacher forcing."""

    def __init__(self, vocabulary=12, hidden=8):
        super().__init__()
        self.embedding, self.hidden = nn.Embedding(vocabulary, hidden), hidden
        self.cell, self.decoder = nn.GRUCell(hidden, hidden), nn.GRUCell(2 * hidden, hidden)
        self.Wa, self.Ua, self.Va = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden), nn.Linear(hidden, 1)
        self.out = nn.Linear(hidden, vocabulary)

    def forward(self, source, target):
        h = torch.zeros(source.size(0), self.hidden)
        outputs = []
        for x in self.embedding(source).transpose(0, 1):
            h = self.cell(x, h)
            outputs.append(h)
        keys = torch.stack(outputs, 1)
        logits = []
        for i in range(target.size(1)):
            scores = self.Va(torch.tanh(self.Wa(h.unsqueeze(1)) + self.Ua(keys))).squeeze(2).unsqueeze(1)
            context = torch.bmm(F.softmax(scores, dim=-1), keys).squeeze(1)
            h = self.decoder(torch.cat((self.embedding(target[:, i]), context), dim=1), h)
            logits.append(self.out(h))
        return F.log_softmax(torch.stack(logits, dim=1), dim=-1)


class DoubleConv(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.double_conv = nn.Sequential(
            nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True)
        )

    def forward(self, x):
        return self.double_conv(x)


class UNet(nn.Module):
    """With the padding of skip connections."""

    def __init__(self):
        super().__init__()
        self.inc, self.down = DoubleConv(3, 4), nn.Sequential(nn.MaxPool2d(2), DoubleConv(4, 8))
        self.up, self.conv = nn.ConvTranspose2d(8, 4, 2, stride=2), DoubleConv(8, 4)
        self.outc = nn.Conv2d(4, 2, 1)

    def forward(self, x):
        x2 = self.inc(x)
        x1 = self.up(self.down(x2))
        diffY, diffX = x2.size()[2] - x1.size()[2], x2.size()[3] - x1.size()[3]
        x1 = F.pad(x1, [diffX // 2, diffX - diffX // 2, diffY // 2, diffY - diffY // 2])
        return self.outc(self.conv(torch.cat([x2, x1], dim=1)))


class YoloHead(nn.Module):
    """The decoding of a YOLOv3 layer."""

    def __init__(self, classes=3):
        super().__init__()
        self.anchors, self.num_classes = torch.tensor([[10.0, 13], [16, 30], [33, 23]]), classes
        self.bbox_attrs, self.stride, self.grid = 5 + classes, 8, None

    def forward(self, x):
        bs, _, ny, nx = x.shape
        x = x.view(bs, 3, self.bbox_attrs, ny, nx).permute(0, 1, 3, 4, 2).contiguous()
        yv, xv = torch.meshgrid([torch.arange(ny), torch.arange(nx)], indexing="ij")
        grid = torch.stack((xv, yv), 2).view((1, 1, ny, nx, 2)).float()
        y = x.sigmoid()
        y[..., 0:2] = (y[..., 0:2] * 2.0 - 0.5 + grid) * self.stride
        y[..., 2:4] = (y[..., 2:4] * 2) ** 2 * self.anchors.view(1, 3, 1, 1, 2)
        return y.view(bs, -1, self.bbox_attrs)


def box_iou(boxes):
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    lt, rb = torch.max(boxes[:, None, :2], boxes[:, :2]), torch.min(boxes[:, None, 2:], boxes[:, 2:])
    wh = (rb - lt).clamp(min=0)
    inter = wh[:, :, 0] * wh[:, :, 1]
    return inter / (area[:, None] + area - inter)


def soft_nms(boxes, scores, sigma: float = 0.5):
    """Matrix NMS: no loop that data ends."""
    order = scores.sort(descending=True).indices
    iou = box_iou(boxes[order]).triu(diagonal=1)
    most = iou.max(0).values.expand(len(order), len(order)).T
    decay = torch.exp((most**2 - iou**2) / sigma).min(0).values
    return boxes[order], scores[order] * decay


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc21, self.fc22 = nn.Linear(12, 8), nn.Linear(8, 3), nn.Linear(8, 3)
        self.fc3, self.fc4 = nn.Linear(3, 8), nn.Linear(8, 12)

    def forward(self, x, eps):
        h = F.relu(self.fc1(x.view(-1, 12)))
        mu, logvar = self.fc21(h), self.fc22(h)
        z = mu + eps * torch.exp(0.5 * logvar)
        recon = torch.sigmoid(self.fc4(F.relu(self.fc3(z))))
        BCE = F.binary_cross_entropy(recon, x.view(-1, 12), reduction="sum")
        KLD = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
        return {"recon": recon, "loss": BCE + KLD}


class MoE(nn.Module):
    """Every expert on all tokens, weighted: a dense mixture; and the balance loss."""

    def __init__(self, dim=8, experts=4, k=2):
        super().__init__()
        self.gate, self.k = nn.Linear(dim, experts), k
        self.experts = nn.ModuleList(
            [nn.Sequential(nn.Linear(dim, 16), nn.GELU(), nn.Linear(16, dim)) for _ in range(experts)]
        )

    def forward(self, x):
        scores = F.softmax(self.gate(x), dim=-1)
        weights, chosen = scores.topk(self.k, dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            mask = (chosen == i).float()
            out = out + (weights * mask).sum(-1, keepdim=True) * expert(x)
        load = F.one_hot(chosen, len(self.experts)).float().mean((0, 1)).sum(0)
        return out, len(self.experts) * (load * scores.mean((0, 1))).sum()


class Mamba(nn.Module):
    """A selective scan by hand (mamba-minimal)."""

    def __init__(self, d_model=6, d_state=4, d_conv=3):
        super().__init__()
        self.d_inner, self.dt_rank = 2 * d_model, math.ceil(d_model / 16)
        self.in_proj = nn.Linear(d_model, self.d_inner * 2, bias=False)
        self.conv1d = nn.Conv1d(self.d_inner, self.d_inner, d_conv, groups=self.d_inner, padding=d_conv - 1)
        self.x_proj = nn.Linear(self.d_inner, self.dt_rank + d_state * 2, bias=False)
        self.dt_proj = nn.Linear(self.dt_rank, self.d_inner)
        self.A_log = nn.Parameter(torch.log(torch.arange(1.0, d_state + 1).repeat(self.d_inner, 1)))
        self.D, self.out_proj = nn.Parameter(torch.ones(self.d_inner)), nn.Linear(self.d_inner, d_model, bias=False)

    def forward(self, x):
        (_, length, _) = x.shape
        x, res = self.in_proj(x).split(split_size=[self.d_inner, self.d_inner], dim=-1)
        x = F.silu(self.conv1d(x.transpose(1, 2))[:, :, :length].transpose(1, 2))
        y = self.ssm(x) * F.silu(res)
        return self.out_proj(y)

    def ssm(self, x):
        n = self.A_log.shape[1]
        A, D = -torch.exp(self.A_log.float()), self.D.float()
        delta, B, C = self.x_proj(x).split(split_size=[self.dt_rank, n, n], dim=-1)
        return self.scan(x, F.softplus(self.dt_proj(delta)), A, B, C, D)

    def scan(self, u, delta, A, B, C, D):
        (b, length, d_in) = u.shape
        deltaA = torch.exp(torch.einsum("bld,dn->bldn", delta, A))
        deltaB_u = torch.einsum("bld,bln,bld->bldn", delta, B, u)
        x = torch.zeros((b, d_in, A.shape[1]))
        ys = []
        for i in range(length):
            x = deltaA[:, i] * x + deltaB_u[:, i]
            ys.append(torch.einsum("bdn,bn->bd", x, C[:, i, :]))
        return torch.stack(ys, dim=1) + u * D


class CRF(nn.Module):
    """The log likelihood of a linear chain."""

    def __init__(self, tags=4):
        super().__init__()
        self.start, self.end = nn.Parameter(torch.randn(tags)), nn.Parameter(torch.randn(tags))
        self.transitions = nn.Parameter(torch.randn(tags, tags))

    def forward(self, emissions, tags, mask):
        length, batch = tags.shape
        score = self.start[tags[0]] + emissions[0, torch.arange(batch), tags[0]]
        forward = self.start + emissions[0]
        for i in range(1, length):
            step = self.transitions[tags[i - 1], tags[i]] + emissions[i, torch.arange(batch), tags[i]]
            score = score + step * mask[i]
            nxt = torch.logsumexp(forward.unsqueeze(2) + self.transitions + emissions[i].unsqueeze(1), dim=1)
            forward = torch.where(mask[i].bool().unsqueeze(1), nxt, forward)
        last = tags[mask.long().sum(dim=0) - 1, torch.arange(batch)]
        return (score + self.end[last] - torch.logsumexp(forward + self.end, dim=1)).sum()


def beam_search(log_probs, width: int = 3):
    """Over the scores of each step, which are given."""
    batch, steps, vocabulary = log_probs.shape
    scores, sequences = log_probs[:, 0].topk(width, dim=-1)
    sequences = sequences.unsqueeze(-1)
    for t in range(1, steps):
        total = scores.unsqueeze(-1) + log_probs[:, t].unsqueeze(1)
        scores, flat = total.view(batch, -1).topk(width, dim=-1)
        beam, token = torch.div(flat, vocabulary, rounding_mode="floor"), flat % vocabulary
        chosen = sequences.gather(1, beam.unsqueeze(-1).expand(-1, -1, sequences.size(-1)))
        sequences = torch.cat([chosen, token.unsqueeze(-1)], dim=-1)
    return sequences[:, 0], scores.max(1).values


class Conv2dSame(nn.Conv2d):
    """timm's, by hand."""

    def calc_same_pad(self, i, k, s, d):
        return max((math.ceil(i / s) - 1) * s + (k - 1) * d + 1 - i, 0)

    def forward(self, x):
        ih, iw = x.size()[-2:]
        pad_h = self.calc_same_pad(ih, self.kernel_size[0], self.stride[0], self.dilation[0])
        pad_w = self.calc_same_pad(iw, self.kernel_size[1], self.stride[1], self.dilation[1])
        if pad_h > 0 or pad_w > 0:
            x = F.pad(x, [pad_w // 2, pad_w - pad_w // 2, pad_h // 2, pad_h - pad_h // 2])
        return F.conv2d(x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class GCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1, self.w2 = nn.Linear(5, 8), nn.Linear(8, 3)

    def forward(self, x, edges):
        n = x.size(0)
        loops = torch.arange(n).repeat(2, 1)
        row, col = torch.cat([edges, loops], dim=1)
        degree = torch.zeros(n).scatter_add_(0, col, torch.ones(col.size(0)))
        norm = degree.pow(-0.5)[row] * degree.pow(-0.5)[col]
        for i, layer in enumerate([self.w1, self.w2]):
            x = layer(x)
            x = torch.zeros(n, x.size(1)).index_add_(0, col, norm.unsqueeze(1) * x[row])
            x = F.relu(x) if i == 0 else x
        return x


class NeuralODE(nn.Module):
    """Runge and Kutta's method."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 3))

    def forward(self, y, t):
        out = [y]
        for t0, t1 in zip(t[:-1], t[1:]):
            h = t1 - t0
            k1 = self.net(y)
            k2 = self.net(y + h / 2 * k1)
            k3 = self.net(y + h / 2 * k2)
            k4 = self.net(y + h * k3)
            y = y + h / 6 * sum([k1, 2 * k2, 2 * k3, k4])
            out.append(y)
        return torch.stack(out)


class DDPM(nn.Module):
    """A step of diffusion, with sinusoidal times."""

    def __init__(self):
        super().__init__()
        self.time, self.net = nn.Linear(8, 6), nn.Linear(6, 6)
        betas = torch.linspace(1e-4, 0.02, 100)
        self.register_buffer("alphas_cumprod", torch.cumprod(1 - betas, 0))

    def forward(self, x, t, noise):
        half = 4
        emb = torch.exp(torch.arange(half) * -(math.log(10000) / (half - 1)))
        emb = t[:, None] * emb[None, :]
        emb = torch.cat((emb.sin(), emb.cos()), dim=-1)
        a = self.alphas_cumprod[t].reshape(t.shape[0], *((1,) * (len(x.shape) - 1)))
        noisy = a.sqrt() * x + (1 - a).sqrt() * noise
        return F.mse_loss(self.net(F.silu(noisy + self.time(emb))), noise)


class PPO(nn.Module):
    def __init__(self):
        super().__init__()
        self.critic, self.actor = nn.Linear(4, 1), nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))

    def forward(self, obs, action, old, advantages):
        logits = self.actor(obs)
        logprob = logits.log_softmax(-1).gather(1, action[:, None]).squeeze(1)
        ratio = (logprob - old).exp()
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        loss = torch.max(-advantages * ratio, -advantages * torch.clamp(ratio, 0.8, 1.2)).mean()
        entropy = -(logits.softmax(-1) * logits.log_softmax(-1)).sum(-1).mean()
        return loss - 0.01 * entropy + self.critic(obs).square().mean()


class ConvStack(nn.Module):
    """The first layers of wav2vec, with the lengths that they leave."""

    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList([nn.Conv1d(1, 4, 4, 2), nn.Conv1d(4, 4, 3, 2)])
        self.norm = nn.GroupNorm(2, 4)

    def forward(self, x):
        x = x.unsqueeze(1)
        for i, conv in enumerate(self.convs):
            x = F.gelu(self.norm(conv(x)) if i == 0 else conv(x))
        return x.transpose(1, 2)


class Program(NamedTuple):
    """A program: what makes it, and inputs by size."""

    make: Callable[[], Any]
    inputs: Callable[[int], tuple[Any, ...]]


def _boxes(n):
    start = torch.rand(n, 2)
    return torch.cat([start, start + torch.rand(n, 2)], 1), torch.rand(n)


PROGRAMS: dict[str, Program] = {
    "nanoGPT": Program(CausalSelfAttention, lambda n: (torch.randn(n, n + 3, 16),)),
    "minGPT": Program(GPT, lambda n: (torch.randint(0, 20, (n, n + 3)), torch.randint(0, 20, (n, n + 3)))),
    "annotated transformer": Program(AnnotatedTransformer, lambda n: (torch.randint(0, 20, (n, n + 3)),)),
    "seq2seq": Program(Seq2Seq, lambda n: (torch.randint(0, 12, (n, 5)), torch.randint(0, 12, (n, 4)))),
    "U-Net": Program(UNet, lambda n: (torch.randn(n, 3, 11, 13),)),
    "YOLO head": Program(YoloHead, lambda n: (torch.randn(n, 24, n + 2, n + 4),)),
    "soft NMS": Program(lambda: soft_nms, lambda n: _boxes(2 * n)),
    "VAE": Program(VAE, lambda n: (torch.rand(n, 12), torch.randn(n, 3))),
    "MoE": Program(MoE, lambda n: (torch.randn(n, n + 2, 8),)),
    "Mamba": Program(Mamba, lambda n: (torch.randn(n, 5, 6),)),
    "CRF": Program(CRF, lambda n: (torch.randn(5, n, 4), torch.randint(0, 4, (5, n)), torch.ones(5, n))),
    "beam search": Program(lambda: beam_search, lambda n: (torch.randn(n, 4, 7),)),
    "Conv2dSame": Program(lambda: Conv2dSame(3, 4, 3, 2), lambda n: (torch.randn(n, 3, 9, 11),)),
    "GCN": Program(GCN, lambda n: (torch.randn(2 * n, 5), torch.randint(0, 2 * n, (2, 3 * n)))),
    "neural ODE": Program(NeuralODE, lambda n: (torch.randn(n, 3), torch.linspace(0, 1, 4))),
    "DDPM": Program(DDPM, lambda n: (torch.randn(n, 6), torch.randint(0, 100, (n,)), torch.randn(n, 6))),
    "PPO": Program(PPO, lambda n: (torch.randn(n, 4), torch.randint(0, 2, (n,)), torch.randn(n), torch.randn(n))),
    "conv stack": Program(ConvStack, lambda n: (torch.randn(n, 40),)),
    **{
        name: Program(*each)
        for name, each in (hand_written_sequences.PROGRAMS | hand_written_pictures.PROGRAMS).items()
    },
}


def made(name: str) -> Any:
    """The program, as it is used."""
    torch.manual_seed(0)
    found = PROGRAMS[name].make()
    return found.eval() if isinstance(found, nn.Module) else found


def given(name: str, n: int, seed: int = 0) -> tuple[Any, ...]:
    """Its inputs of a size."""
    torch.manual_seed(100 * seed + n)
    return PROGRAMS[name].inputs(n)


def main() -> None:
    """Prints for each program whether it is whole, and what each format gives at other sizes."""
    from one_operator_programs import differs, runner

    from pijit.graph.build.capture import captured

    warnings.filterwarnings("ignore")
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="")
    wanted = parser.parse_args()
    for name in PROGRAMS:
        if wanted.only not in name:
            continue
        program = made(name)
        with torch.no_grad():
            graph = captured(program, given(name, 3), {})
            told = {
                "breaks": [f"{node.op} {node.place} {node.origin}" for node in graph.breaks],
                "foreign": graph.foreign,
            }
            print(f"{name}: {told} free {dict(graph.symbols)}", flush=True)
            for format in ("fx", "exported_program", "python", "onnx", "jax") if not graph.breaks else ():
                said = "right"
                try:
                    run = runner(graph, format)
                    for n in (3, 5):
                        right = program(*given(name, n))
                        if gap := differs(right, run(*given(name, n)), format in {"fx", "exported_program", "python"}):
                            said = f"wrong at {n}: {gap}"
                            break
                except Exception as error:
                    said = f"{type(error).__name__}: {str(error)[:250]}"
                print(f"    {format}: {said}".replace("\n", " "), flush=True)


if __name__ == "__main__":
    sys.exit(main())
