"""A GCN of torch_geometric on a random citation graph: train on a mask, test each epoch, keep the best."""

import torch
from _common import finish, place, scaled, start
from torch.nn import functional as F
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv
from torch_geometric.utils import to_undirected


class GCN(torch.nn.Module):
    def __init__(self, fan_in, hidden, fan_out):
        super().__init__()
        self.conv1 = GCNConv(fan_in, hidden)
        self.conv2 = GCNConv(hidden, fan_out)

    def forward(self, x, edge_index):
        x = F.dropout(x, p=0.5, training=self.training)
        x = self.conv1(x, edge_index).relu()
        x = F.dropout(x, p=0.5, training=self.training)
        return self.conv2(x, edge_index)


def citations(nodes, classes):
    y = torch.randint(0, classes, (nodes,))
    source = torch.randint(0, nodes, (6 * nodes,))
    target = torch.randint(0, nodes, (6 * nodes,))
    kept = (y[source] == y[target]) | (torch.rand(6 * nodes) < 0.15)
    x = torch.randn(nodes, 16) + torch.nn.functional.one_hot(y, 16)
    edges = to_undirected(torch.stack((source[kept], target[kept])))
    data = Data(x=x, y=y, edge_index=edges)
    data.train_mask = torch.rand(nodes) < 0.3
    data.test_mask = ~data.train_mask
    return data


def train(model, optimizer, data):
    model.train()
    optimizer.zero_grad()
    out = model(data.x, data.edge_index)
    loss = F.cross_entropy(out[data.train_mask], data.y[data.train_mask])
    loss.backward()
    optimizer.step()
    return float(loss)


@torch.no_grad()
def test(model, data):
    model.eval()
    predicted = model(data.x, data.edge_index).argmax(dim=-1)
    return [
        int((predicted[mask] == data.y[mask]).sum()) / int(mask.sum()) for mask in (data.train_mask, data.test_mask)
    ]


def main():
    torch.manual_seed(24)
    data = citations(150, 4)
    model = place(GCN(16, 16, 4))
    groups = [{"params": model.conv1.parameters(), "weight_decay": 5e-4}, {"params": model.conv2.parameters()}]
    optimizer = torch.optim.Adam(groups, lr=0.01)
    best = 0.0
    start()
    for epoch in range(1, scaled(800) + 1):
        loss = train(model, optimizer, data)
        trained, tested = test(model, data)
        best = max(best, tested)
        if epoch % 50 == 0:
            print(f"Epoch: {epoch:03d} {loss!r} {trained!r} {best!r}")
    finish(model)


if __name__ == "__main__":
    main()
