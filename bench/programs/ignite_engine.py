"""An engine of pytorch-ignite with handlers: running averages, a scheduler of parameters, an evaluator."""

import torch
from _common import finish, place, scaled, start
from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
from ignite.handlers import PiecewiseLinear
from ignite.metrics import Accuracy, Loss, RunningAverage
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def run(epochs):
    torch.manual_seed(51)
    x = torch.randn(480, 1, 16).cumsum(dim=-1)
    y = (x[:, 0, -1] > x[:, 0].mean(dim=1)).long()
    train = DataLoader(TensorDataset(x[:360], y[:360]), batch_size=12, shuffle=True)
    valid = DataLoader(TensorDataset(x[360:], y[360:]), batch_size=24)
    model = place(nn.Sequential(nn.Conv1d(1, 6, 3), nn.ReLU(), nn.MaxPool1d(2), nn.Flatten(), nn.Linear(42, 2)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.8)
    criterion = nn.CrossEntropyLoss()
    trainer = create_supervised_trainer(model, optimizer, criterion)
    evaluator = create_supervised_evaluator(model, metrics={"accuracy": Accuracy(), "nll": Loss(criterion)})
    RunningAverage(output_transform=lambda loss: loss).attach(trainer, "average")
    steps = len(train) * epochs
    schedule = PiecewiseLinear(optimizer, "lr", [(0, 0.01), (steps // 3, 0.05), (steps, 0.005)])
    trainer.add_event_handler(Events.ITERATION_STARTED, schedule)

    @trainer.on(Events.EPOCH_COMPLETED)
    def log_results(engine):
        evaluator.run(valid)
        print(engine.state.epoch, repr(engine.state.metrics["average"]), evaluator.state.metrics)

    start()
    trainer.run(train, max_epochs=epochs)
    finish(model)


if __name__ == "__main__":
    run(scaled(68))
