"""Modules over tensordicts: a sequence of TensorDictModules, batches that are stacked, sliced and updated."""

import torch
from _common import finish, place, scaled, start
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torch.nn import functional as F


def build():
    return TensorDictSequential(
        TensorDictModule(nn.Sequential(nn.Linear(6, 16), nn.ReLU()), in_keys=["obs"], out_keys=["hidden"]),
        TensorDictModule(nn.Linear(16, 2), in_keys=["hidden"], out_keys=[("out", "mean")]),
        TensorDictModule(nn.Linear(16, 2), in_keys=["hidden"], out_keys=[("out", "log_std")]),
    )


def make_data(count):
    obs = torch.randn(count, 6)
    target = torch.stack((obs[:, 0] * obs[:, 1], obs[:, 2].cos()), dim=1)
    return TensorDict({"obs": obs, "target": target, "meta": {"index": torch.arange(count)}}, batch_size=[count])


def training_step(model, optimizer, batch):
    out = model(batch.select("obs"))
    mean, log_std = out["out", "mean"], out["out", "log_std"].clamp(-3, 2)
    loss = F.gaussian_nll_loss(mean, batch["target"], (2 * log_std).exp())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return TensorDict({"loss": loss.detach(), "norm": mean.detach().norm()}, batch_size=[])


def main():
    torch.manual_seed(49)
    data, model = make_data(320), build()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    step = place(training_step)
    seen = TensorDict({"count": torch.zeros(320)}, batch_size=[320])
    start()
    for epoch in range(scaled(45)):
        logs = []
        for at in torch.randperm(320).split(16):
            batch = data[at]
            logs.append(step(model, optimizer, batch))
            seen["count"][batch["meta", "index"]] += 1
        log = torch.stack(logs).mean()
        if epoch % 5 == 0:
            print(epoch, repr(log["loss"].item()), repr(log["norm"].item()), seen["count"].sum().item())
    finish(model)


if __name__ == "__main__":
    main()
