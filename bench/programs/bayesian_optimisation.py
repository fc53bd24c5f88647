"""Bayesian optimisation with botorch: a GP is fitted to what is known, expected improvement says where to look next."""

import torch
from _common import finish, place, scaled, start
from botorch.acquisition import LogExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.transforms import Standardize
from botorch.optim import optimize_acqf
from gpytorch.mlls import ExactMarginalLogLikelihood

BOUNDS = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)


def objective(x):
    a, b = 15 * x[:, :1] - 5, 15 * x[:, 1:]
    value = (b - 5.1 / (4 * torch.pi**2) * a**2 + 5 / torch.pi * a - 6) ** 2
    return -(value + 10 * (1 - 1 / (8 * torch.pi)) * torch.cos(a) + 10)


def next_point(train_x, train_y):
    model = SingleTaskGP(train_x, train_y, outcome_transform=Standardize(m=1))
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model), optimizer_kwargs={"options": {"maxiter": 20}})
    acquisition = place(LogExpectedImprovement(model, best_f=train_y.max()))
    candidate, value = optimize_acqf(
        acquisition, bounds=BOUNDS, q=1, num_restarts=2, raw_samples=16, options={"maxiter": 15}
    )
    return candidate, value.item()


def main():
    torch.manual_seed(2)
    train_x = torch.rand(6, 2, dtype=torch.double)
    train_y = objective(train_x)
    start()
    for number in range(scaled(20)):
        candidate, value = next_point(train_x, train_y)
        train_x = torch.cat((train_x, candidate))
        train_y = torch.cat((train_y, objective(candidate)))
        print(number, candidate.tolist(), repr(value), repr(train_y.max().item()))
    finish(train_x, train_y)


if __name__ == "__main__":
    main()
