"""A recommender: factors and biases of users and films, batches from a DataLoader, an early stop."""

import torch
from _common import finish, place, scaled, start
from torch import nn
from torch.utils.data import DataLoader, Dataset, random_split


class Ratings(Dataset):
    def __init__(self, users, items, count):
        self.user = torch.randint(0, users, (count,))
        self.item = torch.randint(0, items, (count,))
        taste, kind = torch.randn(users, 3), torch.randn(items, 3)
        self.rating = (3 + (taste[self.user] * kind[self.item]).sum(1)).clamp(1, 5)

    def __len__(self):
        return len(self.rating)

    def __getitem__(self, at):
        return {"user": self.user[at], "item": self.item[at], "rating": self.rating[at]}


class MatrixFactorization(nn.Module):
    def __init__(self, users, items, factors):
        super().__init__()
        self.user_factors, self.item_factors = nn.Embedding(users, factors), nn.Embedding(items, factors)
        self.user_bias, self.item_bias = nn.Embedding(users, 1), nn.Embedding(items, 1)
        self.offset = nn.Parameter(torch.tensor(3.0))
        for table in (self.user_factors, self.item_factors):
            nn.init.normal_(table.weight, std=0.1)

    def forward(self, user, item):
        dot = (self.user_factors(user) * self.item_factors(item)).sum(1)
        return dot + self.user_bias(user).squeeze(1) + self.item_bias(item).squeeze(1) + self.offset


class EarlyStop:
    def __init__(self, patience):
        self.patience, self.best, self.waited = patience, float("inf"), 0

    def __call__(self, loss):
        if loss < self.best:
            self.best, self.waited = loss, 0
        else:
            self.waited += 1
        return self.waited >= self.patience


def run_epoch(model, loader, criterion, optimizer=None):
    total, count = 0.0, 0
    for batch in loader:
        predicted = model(batch["user"], batch["item"])
        loss = criterion(predicted, batch["rating"])
        if optimizer is not None:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        total += loss.item() * len(predicted)
        count += len(predicted)
    return (total / count) ** 0.5


def main():
    torch.manual_seed(11)
    data = Ratings(60, 40, 1200)
    train, valid = random_split(data, [1000, 200])
    train_loader = DataLoader(train, batch_size=16, shuffle=True)
    valid_loader = DataLoader(valid, batch_size=16)
    model = place(MatrixFactorization(60, 40, 6))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=1e-5)
    criterion, stop = nn.MSELoss(), EarlyStop(patience=1000)
    start()
    for epoch in range(scaled(61)):
        trained = run_epoch(model, train_loader, criterion, optimizer)
        with torch.no_grad():
            tested = run_epoch(model, valid_loader, criterion)
        print(f"epoch {epoch} rmse {trained!r} valid {tested!r}")
        if stop(tested):
            break
    finish(model)


if __name__ == "__main__":
    main()
