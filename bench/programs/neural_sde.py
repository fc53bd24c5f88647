"""A latent path that is a stochastic differential equation, solved with torchsde and fitted to noisy data."""

import torch
import torchsde
from _common import finish, place, scaled, start
from torch import nn


class NeuralSDE(nn.Module):
    noise_type = "diagonal"
    sde_type = "ito"

    def __init__(self, size, hidden):
        super().__init__()
        self.drift = nn.Sequential(nn.Linear(size + 1, hidden), nn.Tanh(), nn.Linear(hidden, size))
        self.log_diffusion = nn.Parameter(torch.full((size,), -2.0))
        self.start = nn.Parameter(torch.zeros(size))
        self.readout = nn.Linear(size, 1)

    def f(self, t, y):
        return self.drift(torch.cat((y, t.expand(len(y), 1)), dim=1))

    def g(self, t, y):
        return self.log_diffusion.exp().expand_as(y)

    def forward(self, ts, batch, entropy):
        y0 = self.start.expand(batch, -1)
        noise = torchsde.BrownianInterval(t0=ts[0], t1=ts[-1], size=(batch, y0.shape[1]), entropy=entropy)
        path = torchsde.sdeint(self, y0, ts, dt=0.1, method="euler", bm=noise)
        return self.readout(path).squeeze(-1)


def main():
    torch.manual_seed(27)
    ts = torch.linspace(0, 1, 8)
    model = place(NeuralSDE(3, 16))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    start()
    for turn in range(scaled(510)):
        target = torch.sin(4 * ts)[:, None] + 0.1 * torch.randn(8, 16)
        path = model(ts, 16, turn)
        loss = (path.mean(1) - target.mean(1)).pow(2).mean() + (path.std(1) - target.std(1)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if turn % 20 == 0:
            print(turn, repr(loss.item()))
    finish(model)


if __name__ == "__main__":
    main()
