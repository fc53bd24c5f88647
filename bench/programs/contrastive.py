"""Contrastive learning in the manner of SimCLR: two noisy views, a projection head, a loss over all pairs, a probe."""

import torch
from _common import finish, place, scaled, start
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset


class TwoViews(Dataset):
    """Each row twice, changed at random."""

    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def view(self, row):
        row = row + 0.2 * torch.randn_like(row)
        row = row * (torch.rand_like(row) > 0.15)
        if torch.rand(1).item() < 0.5:
            row = row.flip(0)
        return row

    def __getitem__(self, at):
        return torch.stack((self.view(self.rows[at]), self.view(self.rows[at])))


class Encoder(nn.Module):
    def __init__(self, fan_in, hidden, out):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(fan_in, hidden), nn.BatchNorm1d(hidden), nn.ReLU())
        self.projection = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, out))

    def forward(self, x):
        return self.projection(self.backbone(x))


class SimCLR:
    def __init__(self, model, optimizer, scheduler, temperature=0.2):
        self.model, self.optimizer, self.scheduler = model, optimizer, scheduler
        self.temperature = temperature

    def info_nce_loss(self, features):
        count = features.shape[0] // 2
        labels = torch.cat([torch.arange(count) for _ in range(2)])
        labels = (labels.unsqueeze(0) == labels.unsqueeze(1)).float()
        features = F.normalize(features, dim=1)
        similarity = features @ features.T
        mask = torch.eye(labels.shape[0], dtype=torch.bool)
        labels = labels[~mask].view(labels.shape[0], -1)
        similarity = similarity[~mask].view(similarity.shape[0], -1)
        positives = similarity[labels.bool()].view(labels.shape[0], -1)
        negatives = similarity[~labels.bool()].view(similarity.shape[0], -1)
        logits = torch.cat([positives, negatives], dim=1) / self.temperature
        return logits, torch.zeros(logits.shape[0], dtype=torch.long)

    def train(self, loader, epochs):
        for epoch in range(epochs):
            for views in loader:
                features = self.model(torch.cat(views.unbind(1), dim=0))
                logits, labels = self.info_nce_loss(features)
                loss = F.cross_entropy(logits, labels)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
            if epoch >= 3:
                self.scheduler.step()
            top1 = (logits.argmax(1) == labels).float().mean()
            print(epoch, repr(loss.item()), repr(top1.item()), self.scheduler.get_last_lr()[0])


if __name__ == "__main__":
    torch.manual_seed(3)
    centres = torch.randn(6, 20)
    rows = centres[torch.arange(180) % 6] + 0.3 * torch.randn(180, 20)
    loader = DataLoader(TwoViews(rows), batch_size=12, shuffle=True, drop_last=True)
    model = place(Encoder(20, 32, 8))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=len(loader))
    start()
    SimCLR(model, optimizer, scheduler).train(loader, scaled(100))
    finish(model)
