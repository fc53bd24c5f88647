"""An exact GP of gpytorch is fitted with Adam on the marginal likelihood, and predicts with its variances."""

import math

import gpytorch
import torch
from _common import finish, place, scaled, start


class ExactGPModel(gpytorch.models.ExactGP):
    def __init__(self, train_x, train_y, likelihood):
        super().__init__(train_x, train_y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel(nu=2.5))

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def train(model, likelihood, train_x, train_y, iterations):
    model.train()
    likelihood.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    mll = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    for i in range(iterations):
        optimizer.zero_grad()
        output = model(train_x)
        loss = -mll(output, train_y)
        loss.backward()
        optimizer.step()
        if i % 20 == 0:
            print(i, repr(loss.item()), repr(model.covar_module.base_kernel.lengthscale.item()))


def main():
    torch.manual_seed(0)
    train_x = torch.linspace(0, 1, 30)
    train_y = torch.sin(train_x * (2 * math.pi)) + 0.2 * torch.randn(30)
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = place(ExactGPModel(train_x, train_y, likelihood))
    start()
    train(model, likelihood, train_x, train_y, scaled(660))
    model.eval()
    likelihood.eval()
    with torch.no_grad(), gpytorch.settings.fast_pred_var():
        predicted = likelihood(model(torch.linspace(0, 1.2, 7)))
        print(predicted.mean.tolist(), predicted.variance.tolist())
    finish(model)


if __name__ == "__main__":
    main()
