"""A vector-quantised autoencoder with vector-quantize-pytorch: codes are looked up, moved and counted."""

import torch
from _common import finish, place, scaled, start
from torch import nn
from torch.nn import functional as F
from vector_quantize_pytorch import VectorQuantize


class VQAutoEncoder(nn.Module):
    def __init__(self, codes, width):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(1, width, 3, 2, 1), nn.GELU(), nn.Conv2d(width, width, 3, 2, 1))
        self.vq = VectorQuantize(dim=width, codebook_size=codes, accept_image_fmap=True, decay=0.9)
        self.decoder = nn.Sequential(
            nn.Upsample(scale_factor=2), nn.Conv2d(width, width, 3, padding=1), nn.GELU(), nn.Upsample(scale_factor=2),
            nn.Conv2d(width, 1, 3, padding=1),
        )  # fmt: skip

    def forward(self, x):
        quantized, indices, commit = self.vq(self.encoder(x))
        return self.decoder(quantized).clamp(-1, 1), indices, commit


def train(model, images, iterations, alpha=10):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for i in range(iterations):
        optimizer.zero_grad()
        x = images[torch.randint(0, len(images), (8,))]
        out, indices, commit = model(x)
        rec = (out - x).abs().mean()
        (rec + alpha * commit.mean()).backward()
        optimizer.step()
        if i % 40 == 0:
            print(f"{i}: rec {rec.item()!r} commit {commit.mean().item()!r} active {indices.unique().numel()}")


def main():
    torch.manual_seed(1234)
    axis = torch.linspace(-2, 2, 12)
    images = torch.stack([torch.sin(a * axis)[:, None] + torch.cos(b * axis) for a in range(8) for b in range(8)])
    images = F.hardtanh(images[:, None])
    model = place(VQAutoEncoder(16, 8))
    start()
    train(model, images, scaled(900))
    finish(model)


if __name__ == "__main__":
    main()
