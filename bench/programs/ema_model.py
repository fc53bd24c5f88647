"""Averaged weights: an EMA of ema-pytorch and torch's own swa_utils follow a model, and all three are tested."""

import torch
from _common import finish, place, scaled, start
from ema_pytorch import EMA
from torch import nn
from torch.nn import functional as F
from torch.optim.swa_utils import SWALR, AveragedModel, update_bn


def build():
    return nn.Sequential(
        nn.Linear(10, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1)
    )


@torch.no_grad()
def error(model, x, y):
    model.eval()
    return F.mse_loss(model(x).squeeze(1), y).item()


def main():
    torch.manual_seed(39)
    x = torch.randn(400, 10)
    y = x[:, 0] * x[:, 1] + 0.5 * x[:, 2] + 0.1 * torch.randn(400)
    model = place(build())
    ema = EMA(model, beta=0.99, update_after_step=10, update_every=2)
    averaged = AveragedModel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    swa_schedule = SWALR(optimizer, swa_lr=0.02, anneal_epochs=5)
    start()
    epochs = scaled(200)
    for epoch in range(epochs):
        model.train()
        for at in torch.randperm(320).split(16):
            loss = F.mse_loss(model(x[at]).squeeze(1), y[at])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            ema.update()
        if epoch > epochs // 2:
            averaged.update_parameters(model)
            swa_schedule.step()
        if epoch % 5 == 0:
            print(epoch, repr(error(model, x[320:], y[320:])), repr(error(ema.ema_model, x[320:], y[320:])))
    update_bn(x[:320].split(32), averaged)
    print(repr(error(averaged, x[320:], y[320:])))
    finish(model, ema.ema_model, averaged)


if __name__ == "__main__":
    main()
