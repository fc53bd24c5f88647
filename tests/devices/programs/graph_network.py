"""A graph network with torch_geometric: a batch that moves to the device, message passing, a training loop and a test.

By hand for the CPU:
    torch.device("cuda" if torch.cuda.is_available() else "cpu") -> torch.device("cpu")
    data.cuda() -> data.cpu()
    pin_memory=True -> pin_memory=False
    torch.cuda.manual_seed(1) -> torch.manual_seed(1)
"""

import torch
import torch.nn.functional as F
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GATConv, GCNConv, global_mean_pool

torch.manual_seed(1)
torch.cuda.manual_seed(1)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def make(n):
    edges = torch.randint(n, (2, 3 * n))
    x = torch.randn(n, 5)
    return Data(x=x, edge_index=edges, y=(x[:, 0].mean() > 0).long().view(1))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = GCNConv(5, 16), GATConv(16, 8, heads=2)
        self.out = torch.nn.Linear(16, 2)

    def forward(self, x, edge_index, batch):
        x = F.dropout(F.relu(self.first(x, edge_index)), p=0.2, training=self.training)
        return self.out(global_mean_pool(F.elu(self.second(x, edge_index)), batch))


graphs = [make(6 + i % 5) for i in range(40)]
loader, test = (
    DataLoader(graphs[:32], batch_size=8, shuffle=True, pin_memory=True),
    DataLoader(graphs[32:], batch_size=4),
)
model = Net().to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=5e-4)
for epoch in range(4):
    model.train()
    total = 0.0
    for data in loader:
        data = data.to(device, non_blocking=True)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(data.x, data.edge_index, data.batch), data.y)
        loss.backward()
        optimizer.step()
        total += loss.item() * data.num_graphs
    model.eval()
    correct = 0
    with torch.no_grad():
        for data in test:
            data = data.cuda()
            correct += int((model(data.x, data.edge_index, data.batch).argmax(dim=1) == data.y).sum())
    print(f"epoch {epoch} loss {total / 32:.6f} correct {correct}")
print(sum(p.double().abs().sum().item() for p in model.parameters()))
