"""A mixture density network with torch.distributions learns a curve that has several values at a place."""

import torch
from _common import finish, place, scaled, start
from torch import distributions as D
from torch import nn


class MDN(nn.Module):
    def __init__(self, hidden, components):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(1, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.pi = nn.Linear(hidden, components)
        self.mu = nn.Linear(hidden, components)
        self.log_sigma = nn.Linear(hidden, components)

    def forward(self, x):
        h = self.body(x)
        mixture = D.Categorical(logits=self.pi(h))
        return D.MixtureSameFamily(mixture, D.Normal(self.mu(h), self.log_sigma(h).clamp(-4, 2).exp()))


def sample_curve(count):
    y = torch.rand(count, 1) * 2 - 1
    x = y + 0.3 * torch.sin(2 * torch.pi * y) + 0.05 * torch.randn(count, 1)
    return x, y


def train(model, optimizer, turns):
    for turn in range(turns):
        x, y = sample_curve(32)
        loss = -model(x).log_prob(y.squeeze(1)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if turn % 100 == 0:
            with torch.no_grad():
                drawn = model(torch.linspace(-1, 1, 5).unsqueeze(1)).sample()
            print(turn, repr(loss.item()), drawn.tolist())


def main():
    torch.manual_seed(8)
    model = place(MDN(24, 4))
    start()
    train(model, torch.optim.Adam(model.parameters(), lr=5e-3), scaled(1800))
    finish(model)


if __name__ == "__main__":
    main()
