"""A variational autoencoder on small synthetic images, with a test after each epoch."""

import argparse

import torch
from _common import finish, place, scaled, start
from torch import nn, optim
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(64, 40)
        self.fc21 = nn.Linear(40, 4)
        self.fc22 = nn.Linear(40, 4)
        self.fc3 = nn.Linear(4, 40)
        self.fc4 = nn.Linear(40, 64)

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        return mu + torch.randn_like(std) * std

    def decode(self, z):
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, x):
        mu, logvar = self.encode(x.view(-1, 64))
        return self.decode(self.reparameterize(mu, logvar)), mu, logvar


def loss_function(recon, x, mu, logvar):
    bce = F.binary_cross_entropy(recon, x.view(-1, 64), reduction="sum")
    return bce - 0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())


def train(model, loader, optimizer):
    model.train()
    total = 0
    for (data,) in loader:
        optimizer.zero_grad()
        recon, mu, logvar = model(data)
        loss = loss_function(recon, data, mu, logvar)
        loss.backward()
        total += loss.item()
        optimizer.step()
    return total / len(loader.dataset)


def test(model, loader):
    model.eval()
    total = 0
    with torch.no_grad():
        for (data,) in loader:
            recon, mu, logvar = model(data)
            total += loss_function(recon, data, mu, logvar).item()
    return total / len(loader.dataset)


def main():
    parser = argparse.ArgumentParser(description="VAE")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=scaled(55))
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    bars = (torch.rand(900, 8, 1) > 0.6).float().expand(-1, 8, 8) * (torch.rand(900, 1, 8) > 0.3).float()
    train_loader = DataLoader(TensorDataset(bars[:700]), batch_size=args.batch_size, shuffle=True)
    test_loader = DataLoader(TensorDataset(bars[700:]), batch_size=args.batch_size)
    model = place(VAE())
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    start()
    for epoch in range(1, args.epochs + 1):
        print(f"====> Epoch: {epoch} train {train(model, train_loader, optimizer)!r} test {test(model, test_loader)!r}")
        with torch.no_grad():
            sample = model.decode(torch.randn(8, 4))
    print(repr(sample.sum().item()))
    finish(model)


if __name__ == "__main__":
    main()
