"""A flow of masked autoregressive layers and permutations with nflows, conditional on a label."""

import torch
from _common import finish, place, scaled, start
from nflows.distributions.normal import ConditionalDiagonalNormal
from nflows.flows.base import Flow
from nflows.transforms.autoregressive import MaskedAffineAutoregressiveTransform
from nflows.transforms.base import CompositeTransform
from nflows.transforms.permutations import ReversePermutation
from torch import nn, optim


def build_flow(layers, features, hidden):
    transforms = []
    for _ in range(layers):
        transforms.append(ReversePermutation(features=features))
        transforms.append(
            MaskedAffineAutoregressiveTransform(features=features, hidden_features=hidden, context_features=1)
        )
    base = ConditionalDiagonalNormal(shape=[features], context_encoder=nn.Linear(1, 2 * features))
    return Flow(CompositeTransform(transforms), base)


def rings(count):
    label = torch.randint(0, 2, (count, 1)).float()
    angle = 2 * torch.pi * torch.rand(count)
    radius = 1 + label.squeeze(1) + 0.05 * torch.randn(count)
    return torch.stack((radius * angle.cos(), radius * angle.sin()), dim=1), label


if __name__ == "__main__":
    torch.manual_seed(15)
    flow = place(build_flow(3, 2, 16))
    optimizer = optim.Adam(flow.parameters(), lr=3e-3)
    start()
    for i in range(scaled(530)):
        x, label = rings(32)
        optimizer.zero_grad()
        loss = -flow.log_prob(inputs=x, context=label).mean()
        loss.backward()
        optimizer.step()
        if (i + 1) % 50 == 0:
            with torch.no_grad():
                samples = flow.sample(4, context=torch.tensor([[0.0], [1.0]]))
            print(i, repr(loss.item()), samples.norm(dim=-1).tolist())
    finish(flow)
