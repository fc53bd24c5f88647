"""Programs over pictures, points and actions, as people write them by hand; hand_written.py runs them."""

from __future__ import annotations

import math
from collections import OrderedDict
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint


class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, inplanes, planes, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(inplanes, planes, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.bn1, self.bn2, self.relu = nn.BatchNorm2d(planes), nn.BatchNorm2d(planes), nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or inplanes != planes:
            self.downsample = nn.Sequential(nn.Conv2d(inplanes, planes, 1, stride, bias=False), nn.BatchNorm2d(planes))
        self.fc1, self.fc2 = nn.Conv2d(planes, planes // 2, 1), nn.Conv2d(planes // 2, planes, 1)

    def forward(self, x):
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        scale = F.adaptive_avg_pool2d(out, 1)
        out = torch.sigmoid(self.fc2(F.relu(self.fc1(scale)))) * out
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class ResNet(nn.Module):
    """With squeeze and excitation."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(
            OrderedDict(
                conv=nn.Conv2d(3, 4, 7, 2, 3, bias=False),
                bn=nn.BatchNorm2d(4),
                relu=nn.ReLU(),
                pool=nn.MaxPool2d(3, 2, 1),
            )
        )
        self.layers, self.fc = nn.Sequential(BasicBlock(4, 4), BasicBlock(4, 8, 2)), nn.Linear(8, 3)

    def forward(self, x):
        x = self.layers(self.stem(x))
        return self.fc(torch.flatten(F.adaptive_avg_pool2d(x, (1, 1)), 1))


class DenseNet(nn.Module):
    """Each layer sees all before it, and is computed again for gradients."""

    def __init__(self, growth=3, layers=3):
        super().__init__()
        self.convs = nn.ModuleList(
            [
                nn.Sequential(nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, growth, 3, padding=1))
                for width in (4 + i * growth for i in range(layers))
            ]
        )

    def forward(self, x):
        features = [x]
        for conv in self.convs:
            features.append(checkpoint(lambda *each: conv(torch.cat(each, 1)), *features, use_reentrant=False))
        return F.avg_pool2d(torch.cat(features, 1), 2)


class ViT(nn.Module):
    def __init__(self, image=16, patch=4, dim=12, heads=3):
        super().__init__()
        self.patch, self.heads = patch, heads
        self.to_patch = nn.Linear(3 * patch**2, dim)
        self.cls_token = nn.Parameter(torch.randn(1, 1, dim))
        self.pos_embedding = nn.Parameter(torch.randn(1, (image // patch) ** 2 + 1, dim))
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        norm_layer = partial(nn.LayerNorm, eps=1e-6)
        self.norm1, self.norm2, self.head = norm_layer(dim), norm_layer(dim), nn.Linear(dim, 5)

    def forward(self, img):
        b, c, h, w = img.shape
        p = self.patch
        assert (h % p, w % p) == (0, 0), "Image dimensions must be divisible by the patch size."
        x = img.reshape(b, c, h // p, p, w // p, p).permute(0, 2, 4, 3, 5, 1).reshape(b, (h // p) * (w // p), -1)
        x = torch.cat((self.cls_token.expand(b, -1, -1), self.to_patch(x)), dim=1)
        x = x + self.pos_embedding[:, : x.shape[1]]
        B, N, C = x.shape
        qkv = self.qkv(self.norm1(x)).reshape(B, N, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(B, N, C))
        return self.head(self.norm2(x)[:, 0])


def window_partition(x, window_size):
    B, H, W, C = x.shape
    x = x.view(B, H // window_size, window_size, W // window_size, window_size, C)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, window_size, window_size, C)


def window_reverse(windows, window_size, H, W):
    B = int(windows.shape[0] / (H * W / window_size / window_size))
    x = windows.view(B, H // window_size, W // window_size, window_size, window_size, -1)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(B, H, W, -1)


class Swin(nn.Module):
    """Attention in shifted windows."""

    def __init__(self, dim=8, heads=2, window=4, shift=2):
        super().__init__()
        self.window, self.shift, self.heads, self.scale = window, shift, heads, (dim // heads) ** -0.5
        self.qkv, self.table = nn.Linear(dim, 3 * dim), nn.Parameter(torch.randn((2 * window - 1) ** 2, heads))
        coords = torch.stack(torch.meshgrid([torch.arange(window), torch.arange(window)], indexing="ij")).flatten(1)
        relative = (coords[:, :, None] - coords[:, None, :]).permute(1, 2, 0).contiguous()
        relative[:, :, 0] += window - 1
        relative[:, :, 1] += window - 1
        relative[:, :, 0] *= 2 * window - 1
        self.register_buffer("index", relative.sum(-1))

    def mask(self, H, W):
        img_mask = torch.zeros((1, H, W, 1))
        slices = (slice(0, -self.window), slice(-self.window, -self.shift), slice(-self.shift, None))
        cnt = 0
        for h in slices:
            for w in slices:
                img_mask[:, h, w, :] = cnt
                cnt += 1
        windows = window_partition(img_mask, self.window).view(-1, self.window * self.window)
        mask = windows.unsqueeze(1) - windows.unsqueeze(2)
        return mask.masked_fill(mask != 0, float(-100.0)).masked_fill(mask == 0, float(0.0))

    def forward(self, x):
        _, H, W, C = x.shape
        shifted = torch.roll(x, shifts=(-self.shift, -self.shift), dims=(1, 2))
        windows = window_partition(shifted, self.window).view(-1, self.window * self.window, C)
        B_, N, _ = windows.shape
        qkv = self.qkv(windows).reshape(B_, N, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0] * self.scale, qkv[1], qkv[2]
        attn = q @ k.transpose(-2, -1)
        bias = self.table[self.index.view(-1)].view(N, N, -1).permute(2, 0, 1).contiguous()
        attn, mask = attn + bias.unsqueeze(0), self.mask(H, W)
        nW = mask.shape[0]
        attn = (attn.view(B_ // nW, nW, self.heads, N, N) + mask.unsqueeze(1).unsqueeze(0)).view(-1, self.heads, N, N)
        out = (attn.softmax(dim=-1) @ v).transpose(1, 2).reshape(B_, N, C)
        out = window_reverse(out.view(-1, self.window, self.window, C), self.window, H, W)
        return x + torch.roll(out, shifts=(self.shift, self.shift), dims=(1, 2))


class GAN(nn.Module):
    """The losses of both sides."""

    def __init__(self, latent=4):
        super().__init__()
        self.generator = nn.Sequential(
            nn.ConvTranspose2d(latent, 4, 4, 1, 0, bias=False), nn.BatchNorm2d(4), nn.ReLU(True),
            nn.ConvTranspose2d(4, 1, 4, 2, 1, bias=False), nn.Tanh(),
        )  # fmt: skip
        self.discriminator = nn.Sequential(
            nn.Conv2d(1, 4, 4, 2, 1), nn.LeakyReLU(0.2, inplace=True), nn.Flatten(), nn.Linear(64, 1), nn.Sigmoid()
        )

    def forward(self, real, z):
        fake = self.generator(z.view(z.size(0), z.size(1), 1, 1))
        valid, wrong = torch.ones(real.size(0), 1), torch.zeros(real.size(0), 1)
        g_loss = F.binary_cross_entropy(self.discriminator(fake), valid)
        real_loss = F.binary_cross_entropy(self.discriminator(real), valid)
        fake_loss = F.binary_cross_entropy(self.discriminator(fake.detach()), wrong)
        return g_loss, (real_loss + fake_loss) / 2


class VectorQuantizer(nn.Module):
    def __init__(self, codes=6, dim=4, beta=0.25):
        super().__init__()
        self.codes, self.dim, self.beta = codes, dim, beta
        self.embedding = nn.Embedding(codes, dim)
        self.embedding.weight.data.uniform_(-1.0 / codes, 1.0 / codes)

    def forward(self, z):
        z = z.permute(0, 2, 3, 1).contiguous()
        flat = z.view(-1, self.dim)
        d = (
            torch.sum(flat**2, dim=1, keepdim=True)
            + torch.sum(self.embedding.weight**2, dim=1)
            - 2 * torch.matmul(flat, self.embedding.weight.t())
        )
        indices = torch.argmin(d, dim=1).unsqueeze(1)
        encodings = torch.zeros(indices.shape[0], self.codes)
        encodings.scatter_(1, indices, 1)
        z_q = torch.matmul(encodings, self.embedding.weight).view(z.shape)
        loss = torch.mean((z_q.detach() - z) ** 2) + self.beta * torch.mean((z_q - z.detach()) ** 2)
        z_q = z + (z_q - z).detach()
        e_mean = torch.mean(encodings, dim=0)
        perplexity = torch.exp(-torch.sum(e_mean * torch.log(e_mean + 1e-10)))
        return loss, z_q.permute(0, 3, 1, 2).contiguous(), perplexity


class NeRF(nn.Module):
    """Encoded positions, and the light along rays."""

    def __init__(self, frequencies=3, width=8):
        super().__init__()
        self.frequencies = frequencies
        self.net = nn.Sequential(nn.Linear(3 + 6 * frequencies, width), nn.ReLU(), nn.Linear(width, 4))

    def encode(self, x):
        rets = [x]
        for i in range(self.frequencies):
            for fn in [torch.sin, torch.cos]:
                rets.append(fn(2.0**i * x))
        return torch.cat(rets, dim=-1)

    def forward(self, origins, directions, near: float = 1.0, far: float = 3.0, samples: int = 6):
        depth = torch.linspace(near, far, samples).expand(origins.shape[0], samples)
        points = origins[..., None, :] + directions[..., None, :] * depth[..., :, None]
        out = self.net(self.encode(points.reshape((-1, 3)))).reshape(list(points.shape[:-1]) + [4])
        sigma, rgb = F.relu(out[..., 3]), torch.sigmoid(out[..., :3])
        one_e_10 = torch.tensor([1e10]).expand(depth[..., :1].shape)
        dists = torch.cat((depth[..., 1:] - depth[..., :-1], one_e_10), dim=-1)
        alpha = 1.0 - torch.exp(-sigma * dists)
        transparent = torch.cat([torch.ones_like(alpha[:, :1]), 1.0 - alpha + 1e-10], -1)
        weights = alpha * torch.cumprod(transparent, -1)[:, :-1]
        return (weights[..., None] * rgb).sum(dim=-2), (weights * depth).sum(dim=-1), weights.sum(dim=-1)


def batch_hard_triplet(embeddings, labels, margin: float = 0.2):
    dot = torch.matmul(embeddings, embeddings.t())
    square = torch.diag(dot)
    distances = (square.unsqueeze(0) - 2.0 * dot + square.unsqueeze(1)).clamp(min=0)
    mask = torch.eq(distances, 0.0).float()
    distances = (1.0 - mask) * torch.sqrt(distances + mask * 1e-16)
    same = labels.unsqueeze(0) == labels.unsqueeze(1)
    other = torch.eye(labels.size(0)).bool().logical_not()
    hardest_positive = (distances * (same & other)).max(1, keepdim=True)[0]
    farthest, _ = distances.max(1, keepdim=True)
    hardest_negative = (distances + farthest * same).min(1, keepdim=True)[0]
    return F.relu(hardest_positive - hardest_negative + margin).mean()


def nt_xent(z1, z2, temperature: float = 0.5):
    """The loss of SimCLR."""
    n = z1.shape[0]
    z = F.normalize(torch.cat([z1, z2], dim=0), dim=1)
    sim = (z @ z.t()) / temperature
    sim.fill_diagonal_(-9e15)
    positives = torch.cat([torch.diag(sim, n), torch.diag(sim, -n)])
    targets = torch.cat([torch.arange(n, 2 * n), torch.arange(n)])
    return F.cross_entropy(sim, targets), (positives - torch.logsumexp(sim, dim=-1)).neg().mean()


class FocalDice(nn.Module):
    """Two losses of segmentation."""

    def forward(self, logits, targets, alpha: float = 0.25, gamma: float = 2):
        p = torch.sigmoid(logits)
        ce = F.binary_cross_entropy_with_logits(logits, targets, reduction="none")
        p_t = p * targets + (1 - p) * (1 - targets)
        loss = ce * ((1 - p_t) ** gamma)
        if alpha >= 0:
            loss = (alpha * targets + (1 - alpha) * (1 - targets)) * loss
        inputs, flat = p.flatten(1), targets.flatten(1)
        dice = 1 - (2 * (inputs * flat).sum(1) + 1) / (inputs.sum(-1) + flat.sum(-1) + 1)
        return loss.mean(1).sum() / len(logits) + dice.mean()


class ConvLSTM(nn.Module):
    def __init__(self, channels=2, hidden=3, kernel=3):
        super().__init__()
        self.hidden = hidden
        self.conv = nn.Conv2d(channels + hidden, 4 * hidden, kernel, padding=kernel // 2)

    def forward(self, frames):
        b, _, _, height, width = frames.size()
        h = torch.zeros(b, self.hidden, height, width, device=self.conv.weight.device)
        c, outputs = torch.zeros_like(h), []
        for t in range(frames.size(1)):
            i, f, o, g = torch.split(self.conv(torch.cat([frames[:, t], h], dim=1)), self.hidden, dim=1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            outputs.append(h)
        return torch.stack(outputs, dim=1)


class PointNet(nn.Module):
    """With the net that turns its points."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2, self.fc = nn.Conv1d(3, 8, 1), nn.Conv1d(3, 8, 1), nn.Linear(8, 9)
        self.out = nn.Linear(8, 4)

    def forward(self, x):
        turned = torch.max(F.relu(self.conv1(x)), 2, keepdim=True)[0].view(-1, 8)
        turned = self.fc(turned)
        iden = torch.eye(3).flatten().view(1, 9).repeat(x.size()[0], 1)
        trans = (turned + iden).view(-1, 3, 3)
        x = torch.bmm(x.transpose(2, 1), trans).transpose(2, 1)
        pooled = torch.max(F.relu(self.conv2(x)), 2)[0]
        away = torch.bmm(trans, trans.transpose(2, 1)) - torch.eye(3)[None, :, :]
        return F.log_softmax(self.out(pooled), dim=1), torch.mean(torch.norm(away, dim=(1, 2)))


class RealNVP(nn.Module):
    def __init__(self, dim=4, layers=2):
        super().__init__()
        self.s = nn.ModuleList([nn.Sequential(nn.Linear(dim, 8), nn.Tanh(), nn.Linear(8, dim)) for _ in range(layers)])
        self.t = nn.ModuleList([nn.Sequential(nn.Linear(dim, 8), nn.ReLU(), nn.Linear(8, dim)) for _ in range(layers)])
        self.mask = torch.stack([torch.arange(dim) % 2 == i % 2 for i in range(layers)]).float()

    def forward(self, x):
        log_det, z = x.new_zeros(x.shape[0]), x
        for i in reversed(range(len(self.t))):
            z_ = self.mask[i] * z
            s = self.s[i](z_) * (1 - self.mask[i])
            t = self.t[i](z_) * (1 - self.mask[i])
            z = (1 - self.mask[i]) * (z - t) * torch.exp(-s) + z_
            log_det -= s.sum(dim=1)
        prior = -0.5 * (z**2 + math.log(2 * math.pi)).sum(-1)
        return z, (prior + log_det).mean()


def create_window(size, channel):
    gauss = torch.tensor([math.exp(-((x - size // 2) ** 2) / float(2 * 1.5**2)) for x in range(size)])
    gauss = (gauss / gauss.sum()).unsqueeze(1)
    return gauss.mm(gauss.t()).float().unsqueeze(0).unsqueeze(0).expand(channel, 1, size, size).contiguous()


def ssim(img1, img2, size: int = 5):
    channel = img1.size(1)
    window = create_window(size, channel).type_as(img1)
    mu1 = F.conv2d(img1, window, padding=size // 2, groups=channel)
    mu2 = F.conv2d(img2, window, padding=size // 2, groups=channel)
    mu1_sq, mu2_sq, mu1_mu2 = mu1.pow(2), mu2.pow(2), mu1 * mu2
    sigma1 = F.conv2d(img1 * img1, window, padding=size // 2, groups=channel) - mu1_sq
    sigma2 = F.conv2d(img2 * img2, window, padding=size // 2, groups=channel) - mu2_sq
    sigma12 = F.conv2d(img1 * img2, window, padding=size // 2, groups=channel) - mu1_mu2
    C1, C2 = 0.01**2, 0.03**2
    found = ((2 * mu1_mu2 + C1) * (2 * sigma12 + C2)) / ((mu1_sq + mu2_sq + C1) * (sigma1 + sigma2 + C2))
    return found.mean(1).mean(1).mean(1)


def generalized_box_iou(boxes1, boxes2):
    """Of DETR, with the cost of a match."""
    area1 = (boxes1[:, 2] - boxes1[:, 0]) * (boxes1[:, 3] - boxes1[:, 1])
    area2 = (boxes2[:, 2] - boxes2[:, 0]) * (boxes2[:, 3] - boxes2[:, 1])
    wh = (torch.min(boxes1[:, None, 2:], boxes2[:, 2:]) - torch.max(boxes1[:, None, :2], boxes2[:, :2])).clamp(min=0)
    inter = wh[:, :, 0] * wh[:, :, 1]
    union = area1[:, None] + area2 - inter
    rb = torch.max(boxes1[:, None, 2:], boxes2[:, 2:])
    lt = torch.min(boxes1[:, None, :2], boxes2[:, :2])
    area = (rb - lt).clamp(min=0).prod(2)
    return inter / union - (area - union) / area + torch.cdist(boxes1, boxes2, p=1)


def nms(boxes, scores, threshold: float = 0.5):
    """Boxes that no better one covers: a loop that data ends."""
    x1, y1, x2, y2 = boxes.unbind(1)
    areas = (x2 - x1) * (y2 - y1)
    order, keep = scores.argsort(descending=True), []
    while order.numel() > 0:
        i = order[0]
        keep.append(i)
        xx1, yy1 = torch.maximum(x1[i], x1[order[1:]]), torch.maximum(y1[i], y1[order[1:]])
        xx2, yy2 = torch.minimum(x2[i], x2[order[1:]]), torch.minimum(y2[i], y2[order[1:]])
        inter = (xx2 - xx1).clamp(min=0) * (yy2 - yy1).clamp(min=0)
        iou = inter / (areas[i] + areas[order[1:]] - inter)
        order = order[1:][iou <= threshold]
    return torch.stack(keep)


class SAC(nn.Module):
    """A policy of squashed Gaussians, and the loss of two critics."""

    def __init__(self, observations=3, actions=2):
        super().__init__()
        self.net, self.mean, self.log_std = nn.Linear(observations, 8), nn.Linear(8, actions), nn.Linear(8, actions)
        self.q1, self.q2 = nn.Linear(observations + actions, 1), nn.Linear(observations + actions, 1)

    def forward(self, state, noise, reward):
        x = F.relu(self.net(state))
        mean, log_std = self.mean(x), torch.clamp(self.log_std(x), min=-20, max=2)
        std = log_std.exp()
        normal = torch.distributions.Normal(mean, std, validate_args=False)
        x_t = mean + std * noise
        action = torch.tanh(x_t)
        log_prob = normal.log_prob(x_t) - torch.log(1 - action.pow(2) + 1e-6)
        log_prob = log_prob.sum(1, keepdim=True)
        both = torch.cat([state, action], 1)
        q = torch.min(self.q1(both), self.q2(both))
        target = reward.unsqueeze(1) + 0.99 * (q - 0.2 * log_prob)
        return (0.2 * log_prob - q).mean(), F.mse_loss(self.q1(both), target.detach())


class DuelingDQN(nn.Module):
    def __init__(self, actions=4):
        super().__init__()
        self.features, self.value, self.advantage = nn.Linear(5, 8), nn.Linear(8, 1), nn.Linear(8, actions)

    def q(self, x):
        x = F.relu(self.features(x))
        advantage = self.advantage(x)
        return self.value(x) + advantage - advantage.mean(dim=1, keepdim=True)

    def forward(self, state, action, reward, following, done):
        now = self.q(state).gather(1, action.view(-1, 1)).squeeze(1)
        with torch.no_grad():
            best = self.q(following).argmax(1, keepdim=True)
            target = reward + 0.9 * self.q(following).gather(1, best)[:, 0] * (1 - done)
        return F.smooth_l1_loss(now, target)


class Adapted(nn.Module):
    """A linear layer with an adapter of low rank, in float16 by autocast, and spectra in a mixer."""

    def __init__(self, width=8, r=2, alpha=4):
        super().__init__()
        self.base, self.scaling = nn.Linear(width, width), alpha / r
        self.lora_A, self.lora_B = nn.Parameter(torch.randn(r, width) / r), nn.Parameter(torch.randn(width, r))

    def forward(self, x):
        x = torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2).real + x
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = self.base(x) + (x @ self.lora_A.transpose(0, 1) @ self.lora_B.transpose(0, 1)) * self.scaling
        return out.float().softmax(-1)


def _boxes(n):
    start = torch.rand(n, 2)
    return torch.cat([start, start + 0.2 + torch.rand(n, 2)], 1)


# What makes each, and its inputs by size.
PROGRAMS = {
    "ResNet": (ResNet, lambda n: (torch.randn(n, 3, 16, 20),)),
    "DenseNet": (DenseNet, lambda n: (torch.randn(n, 4, 6, 8),)),
    "ViT": (ViT, lambda n: (torch.randn(n, 3, 16, 16),)),
    "Swin": (Swin, lambda n: (torch.randn(n, 8, 8, 8),)),
    "GAN": (GAN, lambda n: (torch.randn(n, 1, 8, 8), torch.randn(n, 4))),
    "VQ-VAE": (VectorQuantizer, lambda n: (torch.randn(n, 4, 3, 5),)),
    "NeRF": (NeRF, lambda n: (torch.randn(n, 3), torch.randn(n, 3))),
    "hard triplets": (lambda: batch_hard_triplet, lambda n: (torch.randn(2 * n, 4), torch.arange(2 * n) % 3)),
    "SimCLR": (lambda: nt_xent, lambda n: (torch.randn(n, 4), torch.randn(n, 4))),
    "focal and dice": (FocalDice, lambda n: (torch.randn(n, 12), torch.randint(0, 2, (n, 12)).float())),
    "ConvLSTM": (ConvLSTM, lambda n: (torch.randn(n, 3, 2, 5, 6),)),
    "PointNet": (PointNet, lambda n: (torch.randn(n, 3, 4 * n),)),
    "RealNVP": (RealNVP, lambda n: (torch.randn(n, 4),)),
    "SSIM": (lambda: ssim, lambda n: (torch.rand(n, 3, 9, 10), torch.rand(n, 3, 9, 10))),
    "DETR boxes": (lambda: generalized_box_iou, lambda n: (_boxes(n), _boxes(n + 2))),
    "NMS": (lambda: nms, lambda n: (_boxes(2 * n), torch.rand(2 * n))),
    "SAC": (SAC, lambda n: (torch.randn(n, 3), torch.randn(n, 2), torch.randn(n))),
    "dueling DQN": (
        DuelingDQN,
        lambda n: (torch.randn(n, 5), torch.randint(0, 4, (n,)), torch.randn(n), torch.randn(n, 5), torch.zeros(n)),
    ),
    "LoRA under autocast": (Adapted, lambda n: (torch.randn(n, 4, 8),)),
}
