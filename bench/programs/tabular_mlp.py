"""A table with numbers and categories: embeddings, batch norm, dropout, OneCycleLR, the best weights kept."""

import copy

import torch
from _common import finish, place, scaled, start
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class TabularModel(nn.Module):
    def __init__(self, sizes, continuous, layers, p=0.1):
        super().__init__()
        self.embeddings = nn.ModuleList(nn.Embedding(size, min(8, (size + 1) // 2)) for size in sizes)
        self.norm = nn.BatchNorm1d(continuous)
        width = sum(embedding.embedding_dim for embedding in self.embeddings) + continuous
        blocks = []
        for layer in layers:
            blocks += [nn.Linear(width, layer), nn.ReLU(inplace=True), nn.BatchNorm1d(layer), nn.Dropout(p)]
            width = layer
        self.layers = nn.Sequential(*blocks, nn.Linear(width, 2))

    def forward(self, categories, numbers):
        embedded = [embedding(categories[:, i]) for i, embedding in enumerate(self.embeddings)]
        return self.layers(torch.cat([*embedded, self.norm(numbers)], dim=1))


def make_table(rows):
    categories = torch.stack([torch.randint(0, size, (rows,)) for size in (7, 12, 3)], dim=1)
    numbers = torch.randn(rows, 6)
    score = numbers[:, 0] * (categories[:, 2] - 1) + 0.3 * categories[:, 0] - numbers[:, 1] ** 2
    return categories, numbers, (score > 0).long()


def fit(model, train, valid, epochs, lr):
    criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, lr, epochs=epochs, steps_per_epoch=len(train))
    best, kept = 0.0, None
    for epoch in range(epochs):
        model.train()
        running = 0.0
        for categories, numbers, target in train:
            optimizer.zero_grad()
            loss = criterion(model(categories, numbers), target)
            loss.backward()
            optimizer.step()
            schedule.step()
            running = 0.9 * running + 0.1 * loss.item()
        model.eval()
        with torch.no_grad():
            hits = [(model(c, n).argmax(1) == target).float().mean() for c, n, target in valid]
        accuracy = torch.stack(hits).mean().item()
        if accuracy > best:
            best, kept = accuracy, copy.deepcopy(model.state_dict())
        print(f"{epoch:3} {running!r} {accuracy!r}")
    model.load_state_dict(kept)
    return best


def main():
    torch.manual_seed(21)
    train = DataLoader(TensorDataset(*make_table(640)), batch_size=16, shuffle=True, num_workers=0)
    valid = DataLoader(TensorDataset(*make_table(160)), batch_size=32, num_workers=0)
    model = place(TabularModel((7, 12, 3), 6, (32, 16)))
    start()
    print("best", repr(fit(model, train, valid, scaled(30), 5e-3)))
    finish(model)


if __name__ == "__main__":
    main()
