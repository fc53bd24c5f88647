"""A small recurrent model with the optimizer of schedulefree, whose weights differ in training and evaluation."""

import torch
from _common import finish, place, scaled, start
from schedulefree import AdamWScheduleFree
from torch import nn
from torch.nn import functional as F


class GRUForecaster(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.cell = nn.GRUCell(1, hidden)
        self.out = nn.Linear(hidden, 1)
        self.hidden = hidden

    def forward(self, series, ahead):
        h = torch.zeros(len(series), self.hidden)
        for t in range(series.shape[1]):
            h = self.cell(series[:, t : t + 1], h)
        outputs = []
        x = series[:, -1:]
        for _ in range(ahead):
            x = x + self.out(h)
            h = self.cell(x, h)
            outputs.append(x)
        return torch.cat(outputs, dim=1)


def waves(count, length):
    phase, speed = torch.rand(count, 1) * 6, 0.3 + 0.4 * torch.rand(count, 1)
    return torch.sin(phase + speed * torch.arange(length))


def main():
    torch.manual_seed(52)
    model = place(GRUForecaster(16))
    optimizer = AdamWScheduleFree(model.parameters(), lr=1e-2, warmup_steps=20)
    test = waves(32, 20)
    start()
    for turn in range(scaled(500)):
        model.train()
        optimizer.train()
        batch = waves(8, 20)
        loss = F.l1_loss(model(batch[:, :15], 5), batch[:, 15:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if turn % 40 == 0:
            model.eval()
            optimizer.eval()
            with torch.no_grad():
                print(turn, repr(loss.item()), repr(F.l1_loss(model(test[:, :15], 5), test[:, 15:]).item()))
    optimizer.eval()
    finish(model)


if __name__ == "__main__":
    main()
