"""The range test of torch-lr-finder suggests a learning rate, from which training goes on."""

import contextlib
import io

import torch
from _common import finish, place, scaled, start
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch_lr_finder import LRFinder


def suggestion(history):
    losses, rates = history["loss"], history["lr"]
    slopes = [b - a for a, b in zip(losses[:-1], losses[1:], strict=True)]
    return rates[slopes.index(min(slopes))]


def main():
    torch.manual_seed(48)
    x = torch.randn(320, 10)
    y = (x[:, :3].prod(dim=1) > 0).long()
    loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
    model = place(nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 2)))
    criterion = nn.CrossEntropyLoss()
    start()
    for _ in range(scaled(9)):
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=1e-2)
        finder = LRFinder(model, optimizer, criterion, device="cpu")
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            finder.range_test(loader, end_lr=1, num_iter=60)
        rate = suggestion(finder.history)
        finder.reset()
        for group in optimizer.param_groups:
            group["lr"] = rate
        for _ in range(8):
            for inputs, target in loader:
                optimizer.zero_grad()
                loss = criterion(model(inputs), target)
                loss.backward()
                optimizer.step()
        print(repr(rate), repr(finder.best_loss), repr(loss.item()))
    finish(model)


if __name__ == "__main__":
    main()
