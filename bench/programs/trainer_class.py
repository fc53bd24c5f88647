"""A Trainer of one's own with a deep chain of calls: fit, partial_fit, fit_loop, epoch, train_step, and callbacks."""

import torch
from _common import finish, place, scaled, start
from torch import nn


class Callback:
    def on_epoch_begin(self, trainer): ...

    def on_batch_end(self, trainer, loss): ...

    def on_epoch_end(self, trainer): ...


class History(Callback):
    def __init__(self):
        self.epochs, self.running = [], []

    def on_epoch_begin(self, trainer):
        self.running = []

    def on_batch_end(self, trainer, loss):
        self.running.append(loss.item())

    def on_epoch_end(self, trainer):
        self.epochs.append(sum(self.running) / len(self.running))


class Printer(Callback):
    def on_epoch_end(self, trainer):
        if trainer.epoch_number % 5 == 0:
            print(trainer.epoch_number, repr(trainer.history.epochs[-1]), repr(trainer.optimizer.param_groups[0]["lr"]))


class Trainer:
    def __init__(self, model, criterion, optimizer_class=torch.optim.SGD, epochs=10, batch=16, callbacks=(), **options):
        self.model, self.criterion = model, criterion
        self.optimizer_class, self.epochs, self.batch, self.options = optimizer_class, epochs, batch, options
        self.history = History()
        self.callbacks = [self.history, *callbacks]
        self.initialized = False

    def initialize(self):
        self.optimizer = self.optimizer_class(self.model.parameters(), **self.options)
        self.schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, 10, 0.9)
        self.epoch_number = 0
        self.initialized = True
        self.step = place(self.train_step)

    def notify(self, method, *args):
        for callback in self.callbacks:
            getattr(callback, method)(self, *args)

    def fit(self, x, y):
        if not self.initialized:
            self.initialize()
        return self.partial_fit(x, y)

    def partial_fit(self, x, y):
        try:
            self.fit_loop(x, y, self.epochs)
        except KeyboardInterrupt:
            pass
        return self

    def fit_loop(self, x, y, epochs):
        for _ in range(epochs):
            self.notify("on_epoch_begin")
            self.run_epoch(self.iterate(x, y))
            self.schedule.step()
            self.notify("on_epoch_end")
            self.epoch_number += 1

    def iterate(self, x, y):
        for at in torch.randperm(len(x)).split(self.batch):
            yield x[at], y[at]

    def run_epoch(self, batches):
        for xb, yb in batches:
            loss = self.step(xb, yb)
            self.notify("on_batch_end", loss)

    def train_step(self, x, y):
        self.model.train()
        self.optimizer.zero_grad()
        predicted = self.infer(x)
        loss = self.get_loss(predicted, y)
        loss.backward()
        self.optimizer.step()
        return loss

    def infer(self, x):
        return self.model(x)

    def get_loss(self, predicted, y):
        return self.criterion(predicted, y)


def main():
    torch.manual_seed(23)
    x = torch.randn(480, 8)
    y = torch.stack((x[:, 0] * x[:, 1], x[:, 2].sin()), dim=1)
    model = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 2))
    trainer = Trainer(model, nn.SmoothL1Loss(), epochs=scaled(150), callbacks=[Printer()], lr=0.05, momentum=0.9)
    start()
    trainer.fit(x, y)
    finish(model)


if __name__ == "__main__":
    main()
