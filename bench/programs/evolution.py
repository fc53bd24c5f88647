"""Evolution strategies on a pole that is simulated here: mirrored noise, ranks, no backward pass."""

import torch
from _common import finish, place, scaled, start
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters


class Pole:
    """Physics of a cart with a pole, in plain floats."""

    def reset(self, rng):
        self.state = [rng.uniform(-0.05, 0.05) for _ in range(4)]
        return self.state

    def step(self, force):
        import math

        x, v, angle, spin = self.state
        push = (force + 0.05 * spin**2 * math.sin(angle)) / 1.1
        turn = (9.8 * math.sin(angle) - math.cos(angle) * push) / (0.5 * (4 / 3 - 0.1 * math.cos(angle) ** 2 / 1.1))
        speed = push - 0.05 * turn * math.cos(angle) / 1.1
        self.state = [x + 0.02 * v, v + 0.02 * speed, angle + 0.02 * spin, spin + 0.02 * turn]
        return self.state, abs(x) > 2.4 or abs(angle) > 0.21


class EvolutionStrategy:
    def __init__(self, policy, population, sigma, lr):
        self.policy, self.population, self.sigma, self.lr = policy, population, sigma, lr
        self.weights = parameters_to_vector(policy.parameters()).detach()

    def rollout(self, weights, seed, longest=60):
        import random

        vector_to_parameters(weights, self.policy.parameters())
        env, rng, total = Pole(), random.Random(seed), 0.0
        state = env.reset(rng)
        for _ in range(longest):
            action = self.policy(torch.tensor(state)).item()
            state, done = env.step(10 * action)
            total += 1 - abs(state[2])
            if done:
                break
        return total

    def generation(self, seed):
        noise = torch.randn(self.population // 2, self.weights.numel())
        noise = torch.cat((noise, -noise))
        scores = torch.tensor([self.rollout(self.weights + self.sigma * each, seed) for each in noise])
        ranks = scores.argsort().argsort().float() / (len(scores) - 1) - 0.5
        self.weights = self.weights + self.lr / (self.population * self.sigma) * (ranks @ noise)
        return scores.mean().item(), scores.max().item()


@torch.no_grad()
def main():
    torch.manual_seed(40)
    policy = place(nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1), nn.Tanh()))
    strategy = EvolutionStrategy(policy, population=20, sigma=0.1, lr=0.3)
    start()
    for number in range(scaled(96)):
        mean, best = strategy.generation(number)
        if number % 5 == 0:
            print(number, repr(mean), repr(best))
    finish(strategy.weights)


if __name__ == "__main__":
    main()
