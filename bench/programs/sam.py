"""Sharpness-aware minimisation: an optimizer of one's own that goes up to the worst neighbour and steps from there."""

import torch
from _common import finish, place, scaled, start
from torch import nn
from torch.nn import functional as F


class SAM(torch.optim.Optimizer):
    def __init__(self, params, base, rho=0.05, **options):
        super().__init__(params, {"rho": rho, **options})
        self.base = base(self.param_groups, **options)
        self.param_groups = self.base.param_groups

    @torch.no_grad()
    def first_step(self):
        norm = self.grad_norm()
        for group in self.param_groups:
            factor = group["rho"] / (norm + 1e-12)
            for p in group["params"]:
                if p.grad is None:
                    continue
                self.state[p]["old"] = p.data.clone()
                p.add_(p.grad * factor)
        self.zero_grad()

    @torch.no_grad()
    def second_step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                p.data = self.state[p]["old"]
        self.base.step()
        self.zero_grad()

    def grad_norm(self):
        norms = [p.grad.norm(p=2) for group in self.param_groups for p in group["params"] if p.grad is not None]
        return torch.norm(torch.stack(norms), p=2)

    def step(self, closure=None):
        raise NotImplementedError("first_step and second_step")


class ResidualMLP(nn.Module):
    def __init__(self, width, hidden, classes, blocks):
        super().__init__()
        self.stem = nn.Linear(width, hidden)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(hidden), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, hidden))
            for _ in range(blocks)
        )
        self.head = nn.Linear(hidden, classes)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = x + block(x)
        return self.head(x)


def train(model, optimizer, x, y, epochs):
    for epoch in range(epochs):
        hits = 0
        for at in torch.randperm(len(x)).split(16):
            logits = model(x[at])
            loss = F.cross_entropy(logits, y[at], label_smoothing=0.1)
            loss.backward()
            optimizer.first_step()
            F.cross_entropy(model(x[at]), y[at], label_smoothing=0.1).backward()
            optimizer.second_step()
            hits += (logits.argmax(1) == y[at]).sum().item()
        if epoch % 4 == 0:
            print(epoch, repr(loss.item()), hits / len(x))


if __name__ == "__main__":
    torch.manual_seed(18)
    x = torch.randn(256, 12)
    y = (x[:, 0] > 0).long() + 2 * (x[:, 1] * x[:, 2] > 0).long()
    model = place(ResidualMLP(12, 24, 4, 3))
    start()
    train(model, SAM(model.parameters(), torch.optim.SGD, rho=0.05, lr=0.05, momentum=0.9), x, y, scaled(90))
    finish(model)
