"""Many Van der Pol oscillators at once with torchode, each with its own step size, and their parameter fitted."""

import torch
import torchode
from _common import finish, place, scaled, start
from torch import nn


class VanDerPol(nn.Module):
    def __init__(self, mu):
        super().__init__()
        self.mu = nn.Parameter(torch.tensor(mu))

    def forward(self, t, y):
        x, v = y.unbind(dim=1)
        return torch.stack((v, self.mu * (1 - x**2) * v - x), dim=1)


def build(dynamics):
    term = torchode.ODETerm(dynamics)
    method = torchode.Dopri5(term=term)
    control = torchode.IntegralController(atol=1e-4, rtol=1e-3, term=term)
    return torchode.AutoDiffAdjoint(method, control)


def main():
    torch.manual_seed(16)
    truth, model = VanDerPol(1.4), place(VanDerPol(0.6))
    t = torch.linspace(0, 2.0, 8).repeat(5, 1)
    exact, solver = build(truth), build(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    start()
    for turn in range(scaled(77)):
        y0 = torch.randn(5, 2)
        with torch.no_grad():
            wanted = exact.solve(torchode.InitialValueProblem(y0=y0, t_eval=t)).ys
        solution = solver.solve(torchode.InitialValueProblem(y0=y0, t_eval=t))
        loss = (solution.ys - wanted).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if turn % 5 == 0:
            print(turn, repr(loss.item()), repr(model.mu.item()), solution.stats["n_steps"].tolist())
    finish(model)


if __name__ == "__main__":
    main()
