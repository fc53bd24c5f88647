"""A Kolmogorov-Arnold network: splines on the edges with a penalty on them, and a learning rate that decays."""

import torch
from _common import finish, place, scaled, start
from torch import nn
from torch.nn import functional as F


class KANLinear(nn.Module):
    def __init__(self, fan_in, fan_out, grid=5, order=3):
        super().__init__()
        self.order = order
        step = 2 / grid
        knots = torch.arange(-order, grid + order + 1) * step - 1
        self.register_buffer("grid", knots.expand(fan_in, -1).contiguous())
        self.base_weight = nn.Parameter(torch.randn(fan_out, fan_in) / fan_in**0.5)
        self.spline_weight = nn.Parameter(0.1 * torch.randn(fan_out, fan_in, grid + order))

    def b_splines(self, x):
        x = x.unsqueeze(-1)
        bases = ((x >= self.grid[:, :-1]) & (x < self.grid[:, 1:])).to(x.dtype)
        for k in range(1, self.order + 1):
            left = (x - self.grid[:, : -(k + 1)]) / (self.grid[:, k:-1] - self.grid[:, : -(k + 1)])
            right = (self.grid[:, k + 1 :] - x) / (self.grid[:, k + 1 :] - self.grid[:, 1:-k])
            bases = left * bases[:, :, :-1] + right * bases[:, :, 1:]
        return bases

    def forward(self, x):
        base = F.linear(F.silu(x), self.base_weight)
        return base + F.linear(self.b_splines(x).flatten(1), self.spline_weight.flatten(1))

    def regularization(self):
        edges = self.spline_weight.abs().mean(-1)
        p = edges / edges.sum()
        return edges.sum() - (p * (p + 1e-9).log()).sum()


class KAN(nn.Module):
    def __init__(self, *sizes):
        super().__init__()
        self.layers = nn.ModuleList(KANLinear(a, b) for a, b in zip(sizes[:-1], sizes[1:], strict=True))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

    def regularization(self):
        return sum(layer.regularization() for layer in self.layers)


def main():
    torch.manual_seed(19)
    model = place(KAN(2, 5, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.999)
    start()
    for turn in range(scaled(1600)):
        x = torch.rand(32, 2) * 2 - 1
        y = torch.exp(torch.sin(torch.pi * x[:, :1]) + x[:, 1:] ** 2)
        fit = F.mse_loss(model(x), y)
        loss = fit + 1e-4 * model.regularization()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if turn % 100 == 0:
            print(turn, repr(fit.item()), repr(loss.item()))
    finish(model)


if __name__ == "__main__":
    main()
