"""LBFGS with a closure fits an exponential decay, and then a small net that predicts a sine wave."""

import torch
from _common import finish, place, scaled, start
from torch import nn


class Decay(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = (nn.Parameter(torch.tensor(value)) for value in (1.0, 1.0, 0.0))

    def forward(self, t):
        return self.a * torch.exp(-self.b * t) + self.c


class Sequence(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm1, self.lstm2 = nn.LSTMCell(1, 12), nn.LSTMCell(12, 12)
        self.linear = nn.Linear(12, 1)

    def forward(self, series, future=0):
        outputs = []
        states = [torch.zeros(series.size(0), 12, dtype=series.dtype) for _ in range(4)]
        for value in series.split(1, dim=1):
            output, states = self.cell(value, states)
            outputs.append(output)
        for _ in range(future):
            output, states = self.cell(output, states)
            outputs.append(output)
        return torch.cat(outputs, dim=1)

    def cell(self, value, states):
        h1, c1 = self.lstm1(value, (states[0], states[1]))
        h2, c2 = self.lstm2(h1, (states[2], states[3]))
        return self.linear(h2), [h1, c1, h2, c2]


def fit(model, x, y, turns, **options):
    optimizer = torch.optim.LBFGS(model.parameters(), **options)
    criterion = nn.MSELoss()

    def closure():
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        return loss

    for turn in range(turns):
        loss = optimizer.step(closure)
        if turn % 4 == 0:
            print(turn, repr(loss.item()))


def main():
    torch.manual_seed(0)
    t = torch.linspace(0, 4, 50)
    decay, sequence = Decay(), place(Sequence().double())
    waves = torch.sin((torch.arange(30)[None] + torch.randint(-20, 20, (6, 1))).double() / 3)
    start()
    for seed in range(scaled(42)):
        noisy = 2.5 * torch.exp(-1.3 * t) + 0.5 + 0.05 * torch.randn(50, generator=torch.Generator().manual_seed(seed))
        fit(decay, t, noisy, 3, lr=0.5, max_iter=20, line_search_fn="strong_wolfe")
        fit(sequence, waves[:, :-1], waves[:, 1:], 1, lr=0.4, max_iter=8)
    with torch.no_grad():
        print(sequence(waves[:, :-1], future=10)[:, -1].tolist())
    finish(decay, sequence)


if __name__ == "__main__":
    main()
