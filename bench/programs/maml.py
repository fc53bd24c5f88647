"""MAML on sine waves with torch.func: an inner loop of functional steps, an outer one with Adam."""

import torch
from _common import finish, place, scaled, start
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(1, 40), nn.Linear(40, 40), nn.Linear(40, 1)

    def forward(self, x):
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


def sample_tasks(count, shots):
    amplitude, phase = 0.1 + 4.9 * torch.rand(count, 1, 1), 3.14 * torch.rand(count, 1, 1)
    x = torch.rand(count, 2 * shots, 1) * 10 - 5
    y = amplitude * torch.sin(x + phase)
    return x[:, :shots], y[:, :shots], x[:, shots:], y[:, shots:]


def main():
    torch.manual_seed(0)
    net = Net()
    params = {name: value.detach().clone().requires_grad_() for name, value in net.named_parameters()}
    optimizer = torch.optim.Adam(params.values(), lr=1e-3)

    def loss_of(params, x, y):
        return F.mse_loss(functional_call(net, params, (x,)), y)

    def adapted_loss(params, x1, y1, x2, y2, lr=0.01, steps=2):
        for _ in range(steps):
            gradients = grad(loss_of)(params, x1, y1)
            params = {name: params[name] - lr * gradients[name] for name in params}
        return loss_of(params, x2, y2)

    def outer_step(batch):
        losses = vmap(adapted_loss, in_dims=(None, 0, 0, 0, 0))(params, *batch)
        loss = losses.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    outer_step = place(outer_step)
    start()
    for turn in range(scaled(580)):
        loss = outer_step(sample_tasks(8, 10))
        if turn % 40 == 0:
            print(turn, repr(loss.item()))
    finish(params)


if __name__ == "__main__":
    main()
