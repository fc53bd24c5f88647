"""A network solves the heat equation: residuals by autograd.grad twice, with boundary and initial values."""

import torch
from _common import finish, place, scaled, start
from torch import nn


class PINN(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.activation = nn.Tanh()
        self.linears = nn.ModuleList(nn.Linear(a, b) for a, b in zip(layers[:-1], layers[1:], strict=True))
        for linear in self.linears:
            nn.init.xavier_normal_(linear.weight.data, gain=1.0)
            nn.init.zeros_(linear.bias.data)

    def forward(self, x, t):
        a = torch.cat((x, t), dim=1)
        for linear in self.linears[:-1]:
            a = self.activation(linear(a))
        return self.linears[-1](a)


class Solver:
    def __init__(self, alpha=0.1):
        self.alpha = alpha
        self.net = PINN([2, 20, 20, 20, 1])
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=2e-3)
        self.iter = 0

    def residual(self, x, t):
        x.requires_grad_(True)
        t.requires_grad_(True)
        u = self.net(x, t)
        ones = torch.ones_like(u)
        u_t = torch.autograd.grad(u, t, ones, create_graph=True)[0]
        u_x = torch.autograd.grad(u, x, ones, create_graph=True)[0]
        u_xx = torch.autograd.grad(u_x, x, torch.ones_like(u_x), create_graph=True)[0]
        return u_t - self.alpha * u_xx

    def loss(self, x, t):
        inside = (self.residual(x, t) ** 2).mean()
        initial = ((self.net(x, torch.zeros_like(t)) - torch.sin(torch.pi * x)) ** 2).mean()
        left, right = self.net(torch.zeros_like(x), t), self.net(torch.ones_like(x), t)
        return inside + initial + (left**2).mean() + (right**2).mean()

    def train_step(self, x, t):
        self.optimizer.zero_grad()
        loss = self.loss(x, t)
        loss.backward()
        self.optimizer.step()
        self.iter += 1
        if self.iter % 100 == 1:
            print(self.iter, repr(loss.item()))
        return loss

    def train(self, iterations):
        step = place(self.train_step)
        for _ in range(iterations):
            step(torch.rand(32, 1), torch.rand(32, 1))


if __name__ == "__main__":
    torch.manual_seed(1234)
    solver = Solver()
    start()
    solver.train(scaled(900))
    with torch.no_grad():
        print(repr(solver.net(torch.full((1, 1), 0.5), torch.full((1, 1), 0.5)).item()))
    finish(solver.net)
