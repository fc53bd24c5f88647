"""NUTS of pyro samples the posterior of schools that share a mean."""

import pyro
import pyro.distributions as dist
import torch
from _common import finish, place, scaled, start
from pyro.infer import MCMC, NUTS

Y = torch.tensor([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
SIGMA = torch.tensor([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def model(sigma, y=None):
    mu = pyro.sample("mu", dist.Normal(0, 10))
    tau = pyro.sample("tau", dist.HalfCauchy(scale=5.0))
    with pyro.plate("schools", len(sigma)):
        eta = pyro.sample("eta", dist.Normal(0, 1))
        theta = mu + tau * eta
        return pyro.sample("obs", dist.Normal(theta, sigma), obs=y)


def main():
    pyro.set_rng_seed(20)
    kernel = NUTS(place(model), max_tree_depth=4)
    mcmc = MCMC(kernel, num_samples=scaled(66), warmup_steps=scaled(55), disable_progbar=True)
    start()
    mcmc.run(SIGMA, y=Y)
    samples = mcmc.get_samples()
    for name, values in sorted(samples.items()):
        print(name, values.mean(0).tolist())
    finish(samples["mu"], samples["tau"], samples["eta"])


if __name__ == "__main__":
    main()
