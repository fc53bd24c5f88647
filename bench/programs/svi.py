"""Variational inference with pyro: a Bayesian regression with a guide that is made for it."""

import pyro
import pyro.distributions as dist
import torch
from _common import finish, place, scaled, start
from pyro.infer import SVI, Predictive, Trace_ELBO
from pyro.infer.autoguide import AutoDiagonalNormal
from pyro.nn import PyroModule, PyroSample
from torch import nn


class BayesianRegression(PyroModule):
    def __init__(self, width):
        super().__init__()
        self.linear = PyroModule[nn.Linear](width, 1)
        self.linear.weight = PyroSample(dist.Normal(0.0, 1.0).expand([1, width]).to_event(2))
        self.linear.bias = PyroSample(dist.Normal(0.0, 5.0).expand([1]).to_event(1))

    def forward(self, x, y=None):
        sigma = pyro.sample("sigma", dist.Uniform(0.0, 5.0))
        mean = self.linear(x).squeeze(-1)
        with pyro.plate("data", x.shape[0]):
            pyro.sample("obs", dist.Normal(mean, sigma), obs=y)
        return mean


def main():
    pyro.set_rng_seed(1)
    pyro.clear_param_store()
    x = torch.randn(60, 3)
    y = x @ torch.tensor([1.5, -2.0, 0.5]) + 0.7 + 0.3 * torch.randn(60)
    model = BayesianRegression(3)
    guide = AutoDiagonalNormal(model)
    svi = SVI(model, guide, pyro.optim.Adam({"lr": 0.03}), loss=Trace_ELBO())
    step = place(svi.step)
    start()
    for j in range(scaled(810)):
        loss = step(x, y)
        if j % 50 == 0:
            print(f"[iteration {j:04d}] {loss / len(x)!r}")
    predictive = Predictive(model, guide=guide, num_samples=scaled(72), return_sites=("obs", "linear.weight"))
    samples = predictive(x)
    print(samples["linear.weight"].mean(0).tolist(), repr(samples["obs"].std(0).mean().item()))
    finish(guide)


if __name__ == "__main__":
    main()
