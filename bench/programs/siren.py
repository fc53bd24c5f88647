"""A SIREN fits a picture and, by its gradient, the slopes of the picture."""

import math

import torch
from _common import finish, place, scaled, start
from torch import nn


class SineLayer(nn.Module):
    def __init__(self, fan_in, fan_out, first=False, omega=30.0):
        super().__init__()
        self.omega = omega
        self.linear = nn.Linear(fan_in, fan_out)
        bound = 1 / fan_in if first else math.sqrt(6 / fan_in) / omega
        with torch.no_grad():
            self.linear.weight.uniform_(-bound, bound)

    def forward(self, x):
        return torch.sin(self.omega * self.linear(x))


class Siren(nn.Module):
    def __init__(self, hidden, layers):
        super().__init__()
        net = [SineLayer(2, hidden, first=True), *(SineLayer(hidden, hidden) for _ in range(layers))]
        self.net = nn.Sequential(*net, nn.Linear(hidden, 1))

    def forward(self, coords):
        coords = coords.clone().detach().requires_grad_(True)
        return self.net(coords), coords


def gradient(y, x):
    return torch.autograd.grad(y, [x], grad_outputs=torch.ones_like(y), create_graph=True)[0]


def get_grid(side):
    axis = torch.linspace(-1, 1, side)
    return torch.stack(torch.meshgrid(axis, axis, indexing="ij"), dim=-1).reshape(-1, 2)


def main():
    torch.manual_seed(0)
    grid = get_grid(16)
    image = torch.sin(5 * grid[:, :1]) * torch.cos(3 * grid[:, 1:])
    slopes = torch.cat(
        (
            5 * torch.cos(5 * grid[:, :1]) * torch.cos(3 * grid[:, 1:]),
            -3 * image / torch.cos(3 * grid[:, 1:]) * torch.sin(3 * grid[:, 1:]),
        ),
        dim=1,
    )
    model = Siren(24, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)

    def step(at):
        output, coords = model(grid[at])
        fit = ((output - image[at]) ** 2).mean()
        slope = ((gradient(output, coords) - slopes[at]) ** 2).mean()
        loss = fit + 0.1 * slope
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return fit, slope

    step = place(step)
    start()
    for turn in range(scaled(2400)):
        fit, slope = step(torch.randperm(256)[:32])
        if turn % 100 == 0:
            print(f"step {turn}: fit {fit.item()!r}, slope {slope.item()!r}")
    finish(model)


if __name__ == "__main__":
    main()
