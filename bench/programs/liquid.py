"""A closed-form liquid net of ncps, wired sparsely, follows a signal that is sampled at uneven times."""

import torch
from _common import finish, place, scaled, start
from ncps.torch import CfC
from ncps.wirings import AutoNCP
from torch import nn


class Follower(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = CfC(3, AutoNCP(12, 1, seed=5), batch_first=True)

    def forward(self, x):
        return self.rnn(x)


def signals(count, length):
    spans = 0.5 + torch.rand(count, length)
    t = spans.cumsum(dim=1) / 3
    return torch.stack((torch.sin(t), torch.cos(t), spans), dim=-1), torch.sin(2 * t).unsqueeze(-1)


def main():
    torch.manual_seed(54)
    model = place(Follower())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    start()
    for turn in range(scaled(150)):
        x, y = signals(8, 12)
        out, _ = model(x)
        loss = nn.functional.mse_loss(out, y)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), 1.0)
        optimizer.step()
        if turn % 10 == 0:
            print(turn, repr(loss.item()))
    finish(model)


if __name__ == "__main__":
    main()
