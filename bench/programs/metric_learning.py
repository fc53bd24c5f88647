"""Metric learning with pytorch-metric-learning: a miner, a triplet loss, and retrieval as a test."""

import torch
from _common import finish, place, scaled, start
from pytorch_metric_learning import distances, losses, miners, reducers
from torch import nn


def train(model, loss_func, mining_func, loader, optimizer, epoch):
    model.train()
    mined = 0
    for data, labels in loader:
        optimizer.zero_grad()
        embeddings = model(data)
        triplets = mining_func(embeddings, labels)
        loss = loss_func(embeddings, labels, triplets)
        loss.backward()
        optimizer.step()
        mined += mining_func.num_triplets
    print(f"Epoch {epoch} loss {loss.item()!r} triplets {mined}")


@torch.no_grad()
def precision(model, x, y):
    model.eval()
    embeddings = nn.functional.normalize(model(x))
    near = (embeddings @ embeddings.t()).fill_diagonal_(-2).argmax(dim=1)
    return (y[near] == y).float().mean().item()


def main():
    torch.manual_seed(46)
    centres = torch.randn(8, 16)
    y = torch.randint(0, 8, (400,))
    x = centres[y] + 0.9 * torch.randn(400, 16)
    rows = torch.utils.data.TensorDataset(x[:320], y[:320])
    loader = torch.utils.data.DataLoader(rows, batch_size=32, shuffle=True)
    model = place(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 8)))
    distance, reducer = distances.CosineSimilarity(), reducers.ThresholdReducer(low=0)
    loss_func = losses.TripletMarginLoss(margin=0.2, distance=distance, reducer=reducer)
    mining_func = miners.TripletMarginMiner(margin=0.2, distance=distance, type_of_triplets="semihard")
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    start()
    for epoch in range(1, scaled(200) + 1):
        train(model, loss_func, mining_func, loader, optimizer, epoch)
        if epoch % 5 == 0:
            print("precision at 1:", repr(precision(model, x[320:], y[320:])))
    finish(model)


if __name__ == "__main__":
    main()
