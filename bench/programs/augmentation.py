"""Image augmentations as modules with random parameters, in a pipeline before a small convolutional net."""

import math
import random

import torch
from _common import finish, place, scaled, start
from torch import nn
from torch.nn import functional as F


class RandomTransform(nn.Module):
    def __init__(self, p=0.5):
        super().__init__()
        self.p = p

    def forward(self, images):
        params = self.generate(images.shape[0])
        chosen = torch.rand(images.shape[0]) < self.p
        if not chosen.any():
            return images
        return torch.where(chosen[:, None, None, None], self.apply_transform(images, params), images)


class Flip(RandomTransform):
    def generate(self, count):
        return None

    def apply_transform(self, images, params):
        return images.flip(-1)


class Affine(RandomTransform):
    def __init__(self, degrees, shift, p=0.5):
        super().__init__(p)
        self.degrees, self.shift = degrees, shift

    def generate(self, count):
        angle = (torch.rand(count) * 2 - 1) * math.radians(self.degrees)
        return angle, (torch.rand(count, 2) * 2 - 1) * self.shift

    def apply_transform(self, images, params):
        angle, shift = params
        cos, sin = angle.cos(), angle.sin()
        rows = torch.stack((cos, -sin, shift[:, 0], sin, cos, shift[:, 1]), dim=1).view(-1, 2, 3)
        grid = F.affine_grid(rows, list(images.shape), align_corners=False)
        return F.grid_sample(images, grid, padding_mode="reflection", align_corners=False)


class Jitter(RandomTransform):
    def generate(self, count):
        return 0.6 + 0.8 * torch.rand(count, 1, 1, 1), 0.2 * torch.randn(count, 1, 1, 1)

    def apply_transform(self, images, params):
        mean = images.mean(dim=(1, 2, 3), keepdim=True)
        return ((images - mean) * params[0] + mean + params[1]).clamp(0, 1)


class Erase(RandomTransform):
    def generate(self, count):
        return [(random.randrange(12), random.randrange(12), random.randint(2, 4)) for _ in range(count)]

    def apply_transform(self, images, params):
        images = images.clone()
        for image, (top, left, size) in zip(images, params, strict=True):
            image[:, top : top + size, left : left + size] = 0.5
        return images


def main():
    torch.manual_seed(31)
    random.seed(31)
    labels = torch.randint(0, 4, (96,))
    wave = torch.linspace(0, 6, 16)
    images = 0.5 + 0.5 * torch.sin(wave[:, None] * labels[:, None, None, None] + wave).expand(96, 3, 16, 16)
    augment = place(nn.Sequential(Flip(), Affine(20, 0.2), Jitter(0.8), Erase(0.4)))
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.Conv2d(8, 8, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(72, 4)
    )
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    start()
    for epoch in range(scaled(160)):
        for at in torch.randperm(96).split(8):
            loss = F.cross_entropy(net(augment(images[at])), labels[at])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if epoch % 5 == 0:
            print(epoch, repr(loss.item()))
    finish(net)


if __name__ == "__main__":
    main()
