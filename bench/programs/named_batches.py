"""Batches are dataclasses and named tuples on their way from a collate function through a model to metrics."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import torch
from _common import finish, place, scaled, start
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Batch:
    features: Tensor
    mask: Tensor
    target: Tensor

    def to(self, dtype: torch.dtype) -> Batch:
        return replace(self, features=self.features.to(dtype), mask=self.mask.to(dtype))

    @property
    def size(self) -> int:
        return self.features.shape[0]


class Output(NamedTuple):
    logits: Tensor
    pooled: Tensor
    loss: Tensor | None = None


@dataclass
class Metrics:
    loss: float = 0.0
    right: float = 0.0
    count: int = 0

    def add(self, output: Output, batch: Batch) -> None:
        self.loss += output.loss.item() * batch.size
        self.right += (output.logits.argmax(-1) == batch.target).sum().item()
        self.count += batch.size

    def summary(self) -> dict[str, float]:
        return {field.name: getattr(self, field.name) / self.count for field in fields(self)[:2]}


class SetModel(nn.Module):
    """Rows of a set are embedded, pooled by their mask, and classified."""

    def __init__(self, width: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.phi = nn.Sequential(nn.Linear(width, hidden), nn.ELU(), nn.Linear(hidden, hidden), nn.ELU())
        self.rho = nn.Sequential(nn.Linear(2 * hidden, hidden), nn.ELU(), nn.Linear(hidden, classes))

    def forward(self, batch: Batch) -> Output:
        mask = batch.mask.unsqueeze(-1)
        rows = self.phi(batch.features) * mask
        mean = rows.sum(1) / mask.sum(1)
        most = rows.masked_fill(mask == 0, -10.0).amax(1)
        pooled = torch.cat((mean, most), dim=-1)
        output = Output(self.rho(pooled), pooled)
        return output._replace(loss=F.cross_entropy(output.logits, batch.target))


def collate(rows: list[tuple[Tensor, int]]) -> Batch:
    longest = max(len(row) for row, _ in rows)
    features, mask = torch.zeros(len(rows), longest, 5), torch.zeros(len(rows), longest, dtype=torch.bool)
    for i, (row, _) in enumerate(rows):
        features[i, : len(row)] = row
        mask[i, : len(row)] = True
    return Batch(features, mask, torch.tensor([label for _, label in rows]))


def training_step(model: SetModel, optimizer: torch.optim.Optimizer, batch: Batch) -> Output:
    output = model(batch)
    optimizer.zero_grad()
    output.loss.backward()
    optimizer.step()
    return output


def main() -> None:
    torch.manual_seed(14)
    data = []
    for _ in range(320):
        row = torch.randn(int(torch.randint(3, 9, ())), 5)
        data.append((row, int(row[:, 0].max() > 1) + int(row[:, 1].mean() > 0)))
    loader = torch.utils.data.DataLoader(data, batch_size=10, shuffle=True, collate_fn=collate)
    model = SetModel(5, 24, 3)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=2e-3)
    step = place(training_step)
    start()
    for epoch in range(scaled(81)):
        metrics = Metrics()
        for batch in loader:
            batch = batch.to(torch.float32)
            metrics.add(step(model, optimizer, batch), batch)
        if epoch % 5 == 0:
            print(epoch, metrics.summary())
    finish(model)


if __name__ == "__main__":
    main()
