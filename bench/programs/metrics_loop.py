"""A classifier with a collection of torchmetrics that is updated each batch and computed each epoch."""

import torch
import torchmetrics
from _common import finish, place, scaled, start
from torch import nn
from torch.nn import functional as F
from torchmetrics.classification import MulticlassAccuracy, MulticlassCalibrationError, MulticlassF1Score


def build_metrics(classes):
    kept = {
        "accuracy": MulticlassAccuracy(classes),
        "f1": MulticlassF1Score(classes, average="macro"),
        "calibration": MulticlassCalibrationError(classes, n_bins=5),
    }
    return torchmetrics.MetricCollection(kept)


def run(model, batches, metrics, mean, optimizer=None):
    metrics.reset()
    mean.reset()
    model.train(optimizer is not None)
    with torch.set_grad_enabled(optimizer is not None):
        for x, y in batches:
            logits = model(x)
            loss = F.cross_entropy(logits, y)
            if optimizer is not None:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            metrics.update(logits.detach().softmax(dim=1), y)
            mean.update(loss.detach(), weight=len(x))
    return {"loss": mean.compute().item(), **{name: value.item() for name, value in metrics.compute().items()}}


def main():
    torch.manual_seed(38)
    x = torch.randn(320, 8)
    y = (x[:, 0] > 0).long() + (x[:, 1] > 0.5).long()
    data = list(zip(x.split(16), y.split(16), strict=True))
    model = place(nn.Sequential(nn.Linear(8, 24), nn.Mish(), nn.Dropout(0.1), nn.Linear(24, 3)))
    optimizer = torch.optim.NAdam(model.parameters(), lr=3e-3)
    train_metrics = build_metrics(3)
    valid_metrics, mean = train_metrics.clone(prefix="val_"), torchmetrics.MeanMetric()
    start()
    for epoch in range(scaled(170)):
        trained = run(model, data[:15], train_metrics, mean, optimizer)
        print(epoch, trained, run(model, data[15:], valid_metrics, mean))
    finish(model)


if __name__ == "__main__":
    main()
