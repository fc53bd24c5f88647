"""A Kalman filter and smoother over a track, and the noise of the model learned through the filter."""

import torch
from _common import finish, place, scaled, start
from torch import nn


class KalmanFilter(nn.Module):
    def __init__(self, dt=0.1):
        super().__init__()
        eye, zero = torch.eye(2), torch.zeros(2, 2)
        self.register_buffer("F", torch.cat((torch.cat((eye, dt * eye), 1), torch.cat((zero, eye), 1))))
        self.register_buffer("H", torch.cat((eye, zero), 1))
        self.log_q = nn.Parameter(torch.tensor(-3.0))
        self.log_r = nn.Parameter(torch.tensor(-1.0))

    def predict(self, mean, cov):
        return self.F @ mean, self.F @ cov @ self.F.T + self.log_q.exp() * torch.eye(4)

    def update(self, mean, cov, z):
        innovation = z - self.H @ mean
        S = self.H @ cov @ self.H.T + self.log_r.exp() * torch.eye(2)
        gain = torch.linalg.solve(S, self.H @ cov).T
        mean = mean + gain @ innovation
        cov = (torch.eye(4) - gain @ self.H) @ cov
        loglik = -0.5 * (innovation @ torch.linalg.solve(S, innovation) + torch.logdet(S))
        return mean, cov, loglik

    def forward(self, track):
        mean, cov, total = torch.zeros(4), torch.eye(4), 0.0
        steps = []
        for z in track:
            prior = self.predict(mean, cov)
            mean, cov, loglik = self.update(*prior, z)
            total = total + loglik
            steps.append((mean, cov, prior))
        return total / len(track), steps

    @torch.no_grad()
    def smooth(self, track):
        _, steps = self(track)
        mean, means = steps[-1][0], [steps[-1][0]]
        for (filtered, cov, _), (_, _, (predicted, prior)) in zip(steps[-2::-1], steps[:0:-1], strict=True):
            gain = torch.linalg.solve(prior, self.F @ cov).T
            mean = filtered + gain @ (mean - predicted)
            means.append(mean)
        return torch.stack(means[::-1])


def simulate(length):
    t = torch.arange(length) * 0.1
    truth = torch.stack((torch.sin(t), torch.cos(0.7 * t)), dim=1)
    return truth, truth + 0.3 * torch.randn(length, 2)


def main():
    torch.manual_seed(6)
    model = place(KalmanFilter())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    start()
    for turn in range(scaled(160)):
        truth, track = simulate(30 + 5 * (turn % 3))
        loglik, _ = model(track)
        optimizer.zero_grad()
        (-loglik).backward()
        optimizer.step()
        if turn % 10 == 0:
            error = (model.smooth(track)[:, :2] - truth).pow(2).mean().sqrt()
            print(turn, repr(loglik.item()), repr(error.item()))
    finish(model)


if __name__ == "__main__":
    main()
