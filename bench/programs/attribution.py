"""Attributions of captum for a trained net: integrated gradients, saliency, occlusion, row by row."""

import torch
from _common import finish, place, scaled, start
from captum.attr import FeatureAblation, InputXGradient, IntegratedGradients, Saliency
from torch import nn


class ToyModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin1, self.relu, self.lin2 = nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 3)

    def forward(self, x):
        return self.lin2(self.relu(self.lin1(x)))


def fit(model, x, y, turns):
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(turns):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    return loss.item()


def main():
    torch.manual_seed(47)
    x = torch.randn(200, 8)
    y = (x[:, 0] > 0).long() + (x[:, 3] > 0).long()
    model = place(ToyModel())
    start()
    print("loss", repr(fit(model, x, y, scaled(960))))
    model.eval()
    methods = {
        "integrated": (IntegratedGradients(model), {"n_steps": 20}),
        "gradient": (InputXGradient(model), {}),
        "saliency": (Saliency(model), {}),
        "ablation": (FeatureAblation(model), {}),
    }
    totals = {name: torch.zeros(8) for name in methods}
    for row in range(scaled(380)):
        inputs, target = x[row % 200 : row % 200 + 1], int(y[row % 200])
        for name, (method, options) in methods.items():
            totals[name] += method.attribute(inputs, target=target, **options)[0].detach()
    for name, total in totals.items():
        print(name, total.tolist())
    finish(model, totals)


if __name__ == "__main__":
    main()
