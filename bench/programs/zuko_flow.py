"""A neural spline flow of zuko learns two moons, sampled and scored as it goes."""

import torch
import zuko
from _common import finish, place, scaled, start


def two_moons(count):
    theta = torch.pi * (torch.rand(count) - 0.5)
    r = torch.normal(0.1, 0.01, size=(count,))
    x = torch.stack((r * theta.cos() + 0.25, r * theta.sin()), dim=1)
    side = torch.where(torch.rand(count, 1) < 0.5, 1.0, -1.0)
    return side * x


def main():
    torch.manual_seed(10)
    flow = place(zuko.flows.NSF(features=2, transforms=2, hidden_features=(24, 24)))
    optimizer = torch.optim.Adam(flow.parameters(), lr=2e-3)
    start()
    for epoch in range(scaled(20)):
        losses = []
        for _ in range(24):
            x = two_moons(32)
            loss = -flow().log_prob(x).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.detach())
        with torch.no_grad():
            samples = flow().sample((16,))
        print(f"({epoch})", repr(torch.stack(losses).mean().item()), repr(samples.std().item()))
    finish(flow)


if __name__ == "__main__":
    main()
