"""A vision transformer from scratch, with rearrangements of einops, on shapes that are drawn here."""

import torch
from _common import finish, place, scaled, start
from einops import rearrange, reduce, repeat
from einops.layers.torch import Rearrange
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, dim, heads, dim_head):
        super().__init__()
        self.heads, self.scale = heads, dim_head**-0.5
        self.norm = nn.LayerNorm(dim)
        self.to_qkv = nn.Linear(dim, 3 * heads * dim_head, bias=False)
        self.to_out = nn.Linear(heads * dim_head, dim)

    def forward(self, x):
        q, k, v = (rearrange(t, "b n (h d) -> b h n d", h=self.heads) for t in self.to_qkv(self.norm(x)).chunk(3, -1))
        weights = (torch.einsum("b h i d, b h j d -> b h i j", q, k) * self.scale).softmax(dim=-1)
        return self.to_out(rearrange(weights @ v, "b h n d -> b n (h d)"))


class ViT(nn.Module):
    def __init__(self, image, patch, classes, dim, depth, heads):
        super().__init__()
        self.to_patches = nn.Sequential(
            Rearrange("b c (h p) (w q) -> b (h w) (p q c)", p=patch, q=patch), nn.Linear(patch * patch, dim)
        )
        self.positions = nn.Parameter(0.02 * torch.randn(1, (image // patch) ** 2 + 1, dim))
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))
        self.layers = nn.ModuleList()
        for _ in range(depth):
            feed = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
            self.layers.append(nn.ModuleList([Attention(dim, heads, dim // heads), feed]))
        self.head = nn.Linear(2 * dim, classes)

    def forward(self, images):
        x = self.to_patches(images)
        x = torch.cat((repeat(self.cls, "1 1 d -> b 1 d", b=len(x)), x), dim=1) + self.positions
        for attention, feed in self.layers:
            x = attention(x) + x
            x = feed(x) + x
        return self.head(torch.cat((x[:, 0], reduce(x[:, 1:], "b n d -> b d", "mean")), dim=-1))


def shapes(count):
    labels = torch.randint(0, 3, (count,))
    images = 0.2 * torch.randn(count, 1, 12, 12)
    for image, label in zip(images, labels.tolist(), strict=True):
        at = int(torch.randint(2, 9, ()))
        if label == 0:
            image[:, at : at + 2] += 1
        elif label == 1:
            image[:, :, at : at + 2] += 1
        else:
            image[:, at - 1 : at + 2, at - 1 : at + 2] += 1
    return images, labels


def main():
    torch.manual_seed(41)
    model = place(ViT(image=12, patch=4, classes=3, dim=32, depth=2, heads=4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
    images, labels = shapes(240)
    start()
    for epoch in range(scaled(32)):
        hits = 0
        for at in torch.randperm(240).split(10):
            logits = model(images[at])
            loss = F.cross_entropy(logits, labels[at])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            hits += (logits.argmax(1) == labels[at]).sum().item()
        print(epoch, repr(loss.item()), hits / 240)
    finish(model)


if __name__ == "__main__":
    main()
