"""Programs over texts, sounds and graphs, as people write them by hand; hand_written.py runs them."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class PackedClassifier(nn.Module):
    """Sentences of several lengths, through a packed LSTM of two directions."""

    def __init__(self, vocabulary=20, width=6):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width, padding_idx=0)
        self.rnn = nn.LSTM(width, width, num_layers=2, bidirectional=True, dropout=0.5, batch_first=True)
        self.fc, self.dropout = nn.Linear(2 * width, 3), nn.Dropout(0.5)

    def forward(self, text, lengths):
        embedded = self.dropout(self.embedding(text))
        packed = pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
        output, (hidden, _) = self.rnn(packed)
        output, _ = pad_packed_sequence(output, batch_first=True)
        hidden = self.dropout(torch.cat((hidden[-2, :, :], hidden[-1, :, :]), dim=1))
        return self.fc(hidden), output


class CharRNN(nn.Module):
    def __init__(self, n_chars=15, hidden=8, layers=2):
        super().__init__()
        self.hidden_size, self.n_layers = hidden, layers
        self.encoder, self.decoder = nn.Embedding(n_chars, hidden), nn.Linear(hidden, n_chars)
        self.rnn = nn.GRU(hidden, hidden, layers)

    def init_hidden(self, batch_size):
        return torch.zeros(self.n_layers, batch_size, self.hidden_size)

    def forward(self, words):
        hidden, outputs = self.init_hidden(words.size(0)), []
        for step in range(words.size(1)):
            encoded = self.encoder(words[:, step])
            output, hidden = self.rnn(encoded.view(1, words.size(0), -1), hidden)
            outputs.append(self.decoder(output.view(words.size(0), -1)))
        return torch.stack(outputs, dim=1), hidden


class TextCNN(nn.Module):
    def __init__(self, vocabulary=20, width=6, kernels=4, sizes=(2, 3, 4)):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.convs = nn.ModuleList([nn.Conv2d(1, kernels, (k, width)) for k in sizes])
        self.dropout, self.fc = nn.Dropout(0.5), nn.Linear(len(sizes) * kernels, 2)

    def forward(self, x):
        x = self.embed(x).unsqueeze(1)
        x = [F.relu(conv(x)).squeeze(3) for conv in self.convs]
        x = [F.max_pool1d(i, i.size(2)).squeeze(2) for i in x]
        return self.fc(self.dropout(torch.cat(x, 1)))


class WaveNet(nn.Module):
    """Dilated causal convolutions with gates."""

    def __init__(self, channels=4, layers=3):
        super().__init__()
        self.first = nn.Conv1d(1, channels, 1)
        self.filters = nn.ModuleList([nn.Conv1d(channels, channels, 2, dilation=2**i) for i in range(layers)])
        self.gates = nn.ModuleList([nn.Conv1d(channels, channels, 2, dilation=2**i) for i in range(layers)])
        self.skips = nn.ModuleList([nn.Conv1d(channels, channels, 1) for _ in range(layers)])
        self.last = nn.Conv1d(channels, 8, 1)

    def forward(self, x):
        x, skip = self.first(x), 0
        for i, (f, g, s) in enumerate(zip(self.filters, self.gates, self.skips)):
            padded = F.pad(x, (2**i, 0))
            out = torch.tanh(f(padded)) * torch.sigmoid(g(padded))
            skip = skip + s(out)
            x = x + out
        return self.last(F.relu(skip))


class RNNT(nn.Module):
    """The joint network of a transducer, and the loss by the forward algorithm."""

    def __init__(self, vocabulary=5, width=6):
        super().__init__()
        self.predict = nn.GRU(width, width, batch_first=True)
        self.embed, self.encode = nn.Embedding(vocabulary, width), nn.Linear(4, width)
        self.joint, self.blank = nn.Linear(width, vocabulary), 0

    def forward(self, sounds, labels):
        f = self.encode(sounds)
        start = torch.zeros(labels.shape[0], 1, dtype=torch.long)
        g, _ = self.predict(self.embed(torch.cat([start, labels], dim=1)))
        logits = self.joint(torch.tanh(f.unsqueeze(2) + g.unsqueeze(1)))
        log_probs = logits.log_softmax(dim=-1)
        B, T, U, _ = log_probs.shape
        blank = log_probs[..., self.blank]
        emit = log_probs[:, :, :-1].gather(3, labels[:, None, :, None].expand(B, T, U - 1, 1)).squeeze(-1)
        alpha: Any = [[None] * U for _ in range(T)]
        for t in range(T):
            for u in range(U):
                if t == 0 and u == 0:
                    alpha[t][u] = torch.zeros(B)
                elif t == 0:
                    alpha[t][u] = alpha[t][u - 1] + emit[:, t, u - 1]
                elif u == 0:
                    alpha[t][u] = alpha[t - 1][u] + blank[:, t - 1, u]
                else:
                    both = torch.stack([alpha[t - 1][u] + blank[:, t - 1, u], alpha[t][u - 1] + emit[:, t, u - 1]])
                    alpha[t][u] = both.logsumexp(dim=0)
        return -(alpha[T - 1][U - 1] + blank[:, T - 1, U - 1]).mean()


class PointerNetwork(nn.Module):
    """Points at its inputs, each once."""

    def __init__(self, width=6):
        super().__init__()
        self.encoder, self.cell = nn.LSTM(2, width, batch_first=True), nn.LSTMCell(2, width)
        self.w1, self.w2 = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.v, self.start = nn.Linear(width, 1, bias=False), nn.Parameter(torch.rand(2))

    def forward(self, points):
        n, length, _ = points.shape
        encoded, (h, c) = self.encoder(points)
        h, c = h[0], c[0]
        mask = torch.zeros(n, length, dtype=torch.bool)
        given, tour, logs = self.start.expand(n, -1), [], []
        for _ in range(length):
            h, c = self.cell(given, (h, c))
            scores = self.v(torch.tanh(self.w1(encoded) + self.w2(h).unsqueeze(1))).squeeze(-1)
            log_p = F.log_softmax(scores.masked_fill(mask, float("-inf")), dim=-1)
            chosen = log_p.argmax(dim=-1)
            logs.append(log_p.gather(1, chosen.unsqueeze(1)))
            mask = mask.scatter(1, chosen.unsqueeze(1), True)
            given = points[torch.arange(n), chosen]
            tour.append(chosen)
        return torch.stack(tour, 1), torch.cat(logs, 1)


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.eps, self.weight = eps, nn.Parameter(torch.ones(dim))

    def _norm(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)

    def forward(self, x):
        return self._norm(x.float()).type_as(x) * self.weight


def precompute_freqs_cis(dim, end, theta=10000.0):
    freqs = 1.0 / (theta ** (torch.arange(0, dim, 2)[: (dim // 2)].float() / dim))
    return torch.polar(torch.ones(end, dim // 2), torch.outer(torch.arange(end), freqs).float())


def apply_rotary_emb(xq, xk, freqs_cis):
    xq_ = torch.view_as_complex(xq.float().reshape(*xq.shape[:-1], -1, 2))
    xk_ = torch.view_as_complex(xk.float().reshape(*xk.shape[:-1], -1, 2))
    freqs_cis = freqs_cis.view(*[d if i in (1, xq_.ndim - 1) else 1 for i, d in enumerate(xq_.shape)])
    xq_out = torch.view_as_real(xq_ * freqs_cis).flatten(3)
    xk_out = torch.view_as_real(xk_ * freqs_cis).flatten(3)
    return xq_out.type_as(xq), xk_out.type_as(xk)


def repeat_kv(x, n_rep):
    bs, slen, n_kv_heads, head_dim = x.shape
    if n_rep == 1:
        return x
    return x[:, :, :, None, :].expand(bs, slen, n_kv_heads, n_rep, head_dim).reshape(bs, slen, -1, head_dim)


class Llama(nn.Module):
    """A block with rotary embeddings in complex numbers, shared heads, and a cache that is written."""

    def __init__(self, dim=16, heads=4, kv_heads=2, longest=16):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = heads, kv_heads, dim // heads
        self.wq, self.wo = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.wk, self.wv = (nn.Linear(dim, kv_heads * self.head_dim, bias=False) for _ in range(2))
        self.w1, self.w3 = nn.Linear(dim, 2 * dim, bias=False), nn.Linear(dim, 2 * dim, bias=False)
        self.w2, self.attention_norm, self.ffn_norm = nn.Linear(2 * dim, dim, bias=False), RMSNorm(dim), RMSNorm(dim)
        self.freqs_cis = precompute_freqs_cis(self.head_dim, 2 * longest)
        self.cache_k = torch.zeros(8, longest, kv_heads, self.head_dim)
        self.cache_v = torch.zeros(8, longest, kv_heads, self.head_dim)

    def attention(self, x, start_pos, freqs_cis, mask):
        bsz, seqlen, _ = x.shape
        xq, xk, xv = self.wq(x), self.wk(x), self.wv(x)
        xq = xq.view(bsz, seqlen, self.heads, self.head_dim)
        xk = xk.view(bsz, seqlen, self.kv_heads, self.head_dim)
        xv = xv.view(bsz, seqlen, self.kv_heads, self.head_dim)
        xq, xk = apply_rotary_emb(xq, xk, freqs_cis=freqs_cis)
        self.cache_k[:bsz, start_pos : start_pos + seqlen] = xk
        self.cache_v[:bsz, start_pos : start_pos + seqlen] = xv
        keys = repeat_kv(self.cache_k[:bsz, : start_pos + seqlen], self.heads // self.kv_heads).transpose(1, 2)
        values = repeat_kv(self.cache_v[:bsz, : start_pos + seqlen], self.heads // self.kv_heads).transpose(1, 2)
        scores = torch.matmul(xq.transpose(1, 2), keys.transpose(2, 3)) / math.sqrt(self.head_dim)
        scores = F.softmax((scores + mask).float(), dim=-1).type_as(xq)
        return self.wo(torch.matmul(scores, values).transpose(1, 2).contiguous().view(bsz, seqlen, -1))

    def forward(self, h, start_pos=0):
        _bsz, seqlen, _ = h.shape
        freqs_cis = self.freqs_cis[start_pos : start_pos + seqlen]
        mask = torch.triu(torch.full((seqlen, seqlen), float("-inf")), diagonal=1)
        h = h + self.attention(self.attention_norm(h), start_pos, freqs_cis, mask)
        x = self.ffn_norm(h)
        return h + self.w2(F.silu(self.w1(x)) * self.w3(x))


class RelativeBias(nn.Module):
    """T5's attention with buckets of distances."""

    def __init__(self, heads=2, width=8, buckets=8, farthest=20):
        super().__init__()
        self.heads, self.buckets, self.farthest = heads, buckets, farthest
        self.qkv, self.bias = nn.Linear(width, 3 * width), nn.Embedding(buckets, heads)

    def bucket(self, relative_position):
        n, num_buckets = -relative_position, self.buckets // 2
        ret = (n < 0).to(torch.long) * num_buckets
        n = torch.abs(n)
        max_exact = num_buckets // 2
        large = max_exact + (
            torch.log(n.float() / max_exact) / math.log(self.farthest / max_exact) * (num_buckets - max_exact)
        ).to(torch.long)
        large = torch.min(large, torch.full_like(large, num_buckets - 1))
        return ret + torch.where(n < max_exact, n, large)

    def forward(self, x):
        n, length, width = x.shape
        q, k, v = self.qkv(x).view(n, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        places = torch.arange(length)
        bias = self.bias(self.bucket(places[None, :] - places[:, None])).permute(2, 0, 1).unsqueeze(0)
        weights = ((q @ k.mT) + bias).softmax(-1)
        return (weights @ v).transpose(1, 2).reshape(n, length, width)


class LinearAttention(nn.Module):
    """Kernels for softmax, causal by cumulated sums; ALiBi's slopes beside it."""

    def __init__(self, heads=2, width=8):
        super().__init__()
        self.heads, self.to_qkv = heads, nn.Linear(width, 3 * width, bias=False)
        slopes = [2 ** (-8 * (i + 1) / heads) for i in range(heads)]
        self.register_buffer("slopes", torch.tensor(slopes).view(1, heads, 1, 1))

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = (t.reshape(b, n, self.heads, -1).transpose(1, 2) for t in self.to_qkv(x).chunk(3, dim=-1))
        q, k = F.elu(q) + 1, F.elu(k) + 1
        context = torch.einsum("bhnd,bhne->bhnde", k, v).cumsum(dim=2)
        out = torch.einsum("bhnd,bhnde->bhne", q, context)
        out = out / torch.einsum("bhnd,bhnd->bhn", q, k.cumsum(dim=2)).unsqueeze(-1).clamp(min=1e-6)
        distance = (torch.arange(n)[None, :] - torch.arange(n)[:, None]).clamp(max=0).float()
        near = (self.slopes * distance).exp() @ v
        return (out + near).transpose(1, 2).flatten(2)


class GAT(nn.Module):
    """Attention over the edges of a graph: a softmax for each node by scattering."""

    def __init__(self, width=5, heads=2, out=4):
        super().__init__()
        self.lin, self.heads, self.out = nn.Linear(width, heads * out, bias=False), heads, out
        self.att_src, self.att_dst = nn.Parameter(torch.randn(1, heads, out)), nn.Parameter(torch.randn(1, heads, out))

    def forward(self, x, edge_index):
        n = x.size(0)
        h = self.lin(x).view(-1, self.heads, self.out)
        src, dst = edge_index
        alpha = (h * self.att_src).sum(-1)[src] + (h * self.att_dst).sum(-1)[dst]
        alpha = F.leaky_relu(alpha, 0.2)
        index = dst.unsqueeze(-1).expand_as(alpha)
        most = torch.full((n, self.heads), float("-inf")).scatter_reduce(0, index, alpha, reduce="amax")
        alpha = torch.exp(alpha - most[dst])
        total = torch.zeros(n, self.heads).index_add(0, dst, alpha)
        alpha = alpha / (total[dst] + 1e-16)
        out = torch.zeros_like(h).index_add_(0, dst, h[src] * alpha.unsqueeze(-1))
        return out.flatten(1)


class MelSpectrogram(nn.Module):
    def __init__(self, n_fft=16, hop=4, mels=5):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("window", torch.hann_window(n_fft))
        self.register_buffer("mel", torch.rand(mels, n_fft // 2 + 1))

    def forward(self, wave):
        spectrum = torch.stft(wave, self.n_fft, self.hop, window=self.window, center=True, return_complex=True)
        mel = torch.matmul(self.mel, spectrum.abs() ** 2)
        log_mel = torch.clamp(mel, min=1e-10).log10()
        log_mel = torch.maximum(log_mel, log_mel.amax(dim=(-2, -1), keepdim=True) - 8.0)
        return (log_mel + 4.0) / 4.0


class LocationAttention(nn.Module):
    """A step of Tacotron's attention, with what it has looked at before."""

    def __init__(self, width=6, filters=3, kernel=5):
        super().__init__()
        self.query, self.memory = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.v, self.place = nn.Linear(width, 1, bias=False), nn.Linear(filters, width, bias=False)
        self.conv = nn.Conv1d(2, filters, kernel, padding=(kernel - 1) // 2, bias=False)
        self.cell, self.width = nn.LSTMCell(width, width), width

    def forward(self, memory, lengths, steps: int = 3):
        n, longest, _ = memory.size()
        mask = torch.arange(longest)[None, :] >= lengths[:, None]
        weights, total = memory.new_zeros(n, longest), memory.new_zeros(n, longest)
        context, hidden = memory.new_zeros(n, self.width), (memory.new_zeros(n, self.width),) * 2
        processed, seen = self.memory(memory), []
        for _ in range(steps):
            hidden = self.cell(context, hidden)
            place = self.place(self.conv(torch.stack((weights, total), dim=1)).transpose(1, 2))
            energies = self.v(torch.tanh(self.query(hidden[0].unsqueeze(1)) + place + processed)).squeeze(-1)
            energies.data.masked_fill_(mask, -float("inf"))
            weights = F.softmax(energies, dim=1)
            total = total + weights
            context = torch.bmm(weights.unsqueeze(1), memory).squeeze(1)
            seen.append(weights)
        return context, torch.stack(seen, 1)


class DeepFM(nn.Module):
    def __init__(self, fields=(5, 7, 3), width=4):
        super().__init__()
        self.register_buffer("offsets", torch.tensor((0, *torch.tensor(fields).cumsum(0)[:-1].tolist())))
        self.linear, self.embedding = nn.Embedding(sum(fields), 1), nn.Embedding(sum(fields), width)
        self.mlp = nn.Sequential(nn.Linear(len(fields) * width, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))

    def forward(self, x):
        x = x + self.offsets.unsqueeze(0)
        e = self.embedding(x)
        square_of_sum, sum_of_square = e.sum(dim=1) ** 2, (e**2).sum(dim=1)
        fm = 0.5 * (square_of_sum - sum_of_square).sum(dim=1, keepdim=True)
        return torch.sigmoid((self.linear(x).sum(dim=1) + fm + self.mlp(e.view(-1, e[0].numel()))).squeeze(1))


def greedy_ctc(logits):
    """The best class of each step, and which of them a decoder keeps."""
    best = logits.log_softmax(-1).max(dim=-1)
    previous = torch.cat([torch.full_like(best.indices[:, :1], -1), best.indices[:, :-1]], dim=1)
    keep = (best.indices != previous) & (best.indices != 0)
    place = torch.cumsum(keep, dim=1) - 1
    out = torch.zeros_like(best.indices)
    out = out.scatter_add(1, place.clamp(min=0), best.indices * keep)
    return out, keep.sum(dim=1), best.values.sum(1)


def kalman(observations, f, h, q, r):
    """Filters a sequence of observations."""
    n = f.shape[0]
    x, p, seen = torch.zeros(n), torch.eye(n), []
    for z in observations:
        x, p = f @ x, f @ p @ f.T + q
        s = h @ p @ h.T + r
        k = torch.linalg.solve(s, h @ p).T
        x = x + k @ (z - h @ x)
        p = (torch.eye(n) - k @ h) @ p
        seen.append(x)
    return torch.stack(seen)


def _edges(n):
    return torch.stack([torch.arange(2 * n) // 2, torch.randint(0, n, (2 * n,))])


# What makes each, and its inputs by size.
PROGRAMS: dict[str, tuple[Any, Any]] = {
    "packed LSTM": (PackedClassifier, lambda n: (torch.randint(1, 20, (n, 6)), torch.arange(n) % 3 + 4)),
    "char RNN": (CharRNN, lambda n: (torch.randint(0, 15, (n, 4)),)),
    "TextCNN": (TextCNN, lambda n: (torch.randint(0, 20, (n, n + 5)),)),
    "WaveNet": (WaveNet, lambda n: (torch.randn(n, 1, 4 * n),)),
    "RNN-T": (RNNT, lambda n: (torch.randn(n, 4, 4), torch.randint(1, 5, (n, 3)))),
    "pointer network": (PointerNetwork, lambda n: (torch.rand(n, 5, 2),)),
    "Llama": (Llama, lambda n: (torch.randn(n, n + 2, 16),)),
    "relative bias": (RelativeBias, lambda n: (torch.randn(n, 2 * n, 8),)),
    "linear attention": (LinearAttention, lambda n: (torch.randn(n, n + 4, 8),)),
    "GAT": (GAT, lambda n: (torch.randn(2 * n, 5), _edges(2 * n))),
    "mel spectrogram": (MelSpectrogram, lambda n: (torch.randn(n, 40),)),
    "location attention": (LocationAttention, lambda n: (torch.randn(n, 7, 6), torch.arange(n) % 4 + 4)),
    "DeepFM": (DeepFM, lambda n: (torch.randint(0, 3, (n, 3)),)),
    "greedy CTC": (lambda: greedy_ctc, lambda n: (torch.randn(n, 2 * n, 4),)),
    "Kalman filter": (
        lambda: kalman,
        lambda n: (torch.randn(4, 2), torch.eye(3) * 0.9, torch.randn(2, 3), torch.eye(3) * 0.1, torch.eye(2)),
    ),
}
