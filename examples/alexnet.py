"""AlexNet, written out, and its training loop under pijit: forward, sum, backward, one step of SGD.

python examples/alexnet.py [steps]
"""

import sys
import time

import torch
from torch import Tensor, nn

import pijit

BATCH = 16
SIZE = 64  # pixels a side; the adaptive pooling takes any size from 63 on


class AlexNet(nn.Module):
    """Five convolutions and three linear layers."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 64, kernel_size=11, stride=4, padding=2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2),
            nn.Conv2d(64, 192, kernel_size=5, padding=2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2),
            nn.Conv2d(192, 384, kernel_size=3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(384, 256, kernel_size=3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(256, 256, kernel_size=3, padding=1),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2),
        )
        self.pool = nn.AdaptiveAvgPool2d((6, 6))
        self.classifier = nn.Sequential(
            nn.Dropout(0.5),
            nn.Linear(256 * 6 * 6, 4096),
            nn.ReLU(inplace=True),
            nn.Dropout(0.5),
            nn.Linear(4096, 4096),
            nn.ReLU(inplace=True),
            nn.Linear(4096, classes),
        )

    def forward(self, images: Tensor) -> Tensor:
        """Scores (batch, classes) of images (batch, 3, height, width)."""
        features = self.pool(self.features(images))
        return self.classifier(torch.flatten(features, 1))


def build(seed: int = 0) -> AlexNet:
    """An AlexNet with random weights, ready for training."""
    torch.manual_seed(seed)
    return AlexNet().train()


def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    """Plain SGD. The sum of the outputs has no minimum: from these weights it stays finite for eight steps."""
    return torch.optim.SGD(model.parameters(), lr=1e-4)


def images(seed: int = 0) -> Tensor:
    """A batch of random images."""
    return torch.randn(BATCH, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(seed))


def step(model: nn.Module, optimizer: torch.optim.Optimizer, batch: Tensor) -> Tensor:
    """One training step; the loss is the sum of the outputs."""
    optimizer.zero_grad()
    loss = model(batch).sum()
    loss.backward()
    optimizer.step()
    return loss.detach()


def main(steps: int = 6) -> None:
    """Train for some steps under pijit; everything stays finite."""
    model = build()
    optimizer = optimizer_of(model)
    train = pijit.jit(step)
    for index in range(steps):
        start = time.perf_counter()
        loss = train(model, optimizer, images(index))
        seconds = time.perf_counter() - start
        assert torch.isfinite(loss), f"the loss of step {index} is {loss.item()}"
        print(f"step {index}: loss {loss.item():.4f}, {1e3 * seconds:.1f} ms")
    for name, parameter in model.named_parameters():
        assert torch.isfinite(parameter).all(), f"{name} is not finite"
    print(pijit.status(train))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
