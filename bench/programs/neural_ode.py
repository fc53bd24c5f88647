"""A neural ODE with torchdiffeq learns a spiral: a fixed-step solver for training, an adaptive one for the test."""

import argparse

import torch
from _common import finish, place, scaled, start
from torch import nn
from torchdiffeq import odeint


class Lambda(nn.Module):
    true = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]])

    def forward(self, t, y):
        return torch.mm(y**3, self.true)


class ODEFunc(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2))
        for module in self.net.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, mean=0, std=0.1)
                nn.init.constant_(module.bias, val=0)

    def forward(self, t, y):
        return self.net(y**3)


def get_batch(true_y, t, size, time):
    at = torch.randperm(len(t) - time)[:size]
    return true_y[at], t[:time], torch.stack([true_y[at + i] for i in range(time)])


def main():
    parser = argparse.ArgumentParser("ODE demo")
    parser.add_argument("--method", default="rk4")
    parser.add_argument("--niters", type=int, default=scaled(430))
    parser.add_argument("--test-freq", type=int, default=20)
    args = parser.parse_args()
    torch.manual_seed(1)
    t = torch.linspace(0.0, 10.0, 200)
    with torch.no_grad():
        true_y = odeint(Lambda(), torch.tensor([[2.0, 0.0]]), t, method="dopri5")
    func = place(ODEFunc())
    optimizer = torch.optim.RMSprop(func.parameters(), lr=1e-3)
    start()
    for itr in range(1, args.niters + 1):
        optimizer.zero_grad()
        y0, batch_t, batch_y = get_batch(true_y, t, 10, 8)
        predicted = odeint(func, y0, batch_t, method=args.method)
        loss = torch.mean(torch.abs(predicted - batch_y))
        loss.backward()
        optimizer.step()
        if itr % args.test_freq == 0:
            with torch.no_grad():
                tested = odeint(func, true_y[0], t[:40], method="dopri5")
                print(itr, repr(loss.item()), repr(torch.mean(torch.abs(tested - true_y[:40])).item()))
    finish(func)


if __name__ == "__main__":
    main()
