"""A beginner's script: a small CNN on pictures like digits, a DataLoader, a progress bar, and a scheduler."""

import os

import torch
from _common import finish, place, scaled, start
from torch import nn, optim
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

try:
    from tqdm import tqdm
except ImportError:

    class tqdm(list):
        """The batches, without a bar."""

        def __init__(self, iterable, **options):
            super().__init__(iterable)

        def set_postfix(self, **values): ...


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, 1)
        self.conv2 = nn.Conv2d(8, 16, 3, 1)
        self.dropout1 = nn.Dropout(0.25)
        self.dropout2 = nn.Dropout(0.5)
        self.fc1 = nn.Linear(2304, 32)
        self.fc2 = nn.Linear(32, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        x = F.max_pool2d(x, 2)
        x = self.dropout1(x)
        x = torch.flatten(x, 1)
        x = F.relu(self.fc1(x))
        x = self.dropout2(x)
        return F.log_softmax(self.fc2(x), dim=1)


def digits(count, patterns):
    labels = torch.randint(0, 10, (count,))
    return TensorDataset((patterns[labels] + 0.5 * torch.randn(count, 1, 28, 28)).clamp(0, 1), labels)


def main():
    torch.manual_seed(1)
    epochs, batch_size = 3, 16
    patterns = (F.interpolate(torch.rand(10, 1, 7, 7), scale_factor=4) > 0.5).float()
    train_loader = DataLoader(digits(scaled(100) * batch_size, patterns), batch_size=batch_size, shuffle=True)
    test_loader = DataLoader(digits(scaled(10) * batch_size, patterns), batch_size=batch_size)
    model = place(Net())
    optimizer = optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.7)
    quiet = open(os.devnull, "w")  # noqa: SIM115
    start()
    for epoch in range(1, epochs + 1):
        model.train()
        running = 0.0
        bar = tqdm(train_loader, desc=f"Epoch {epoch}", file=quiet)
        for data, target in bar:
            optimizer.zero_grad()
            output = model(data)
            loss = F.nll_loss(output, target)
            loss.backward()
            optimizer.step()
            running += loss.item()
            bar.set_postfix(loss=loss.item())

        model.eval()
        test_loss, correct = 0.0, 0
        with torch.no_grad():
            for data, target in test_loader:
                output = model(data)
                test_loss += F.nll_loss(output, target, reduction="sum").item()
                pred = output.argmax(dim=1, keepdim=True)
                correct += pred.eq(target.view_as(pred)).sum().item()
        scheduler.step()
        accuracy = correct / len(test_loader.dataset)
        print(f"Epoch {epoch}: train {running / len(train_loader)!r} test {test_loss!r} accuracy {accuracy!r}")
    finish(model)


if __name__ == "__main__":
    main()
