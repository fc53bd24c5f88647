"""A graph net by hand: messages along edges with index_add, random graphs of varying size in one batch."""

import torch
from _common import finish, place, scaled, start
from torch import nn
from torch.nn import functional as F


class Layer(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.message = nn.Sequential(nn.Linear(2 * size + 1, size), nn.ReLU(), nn.Linear(size, size))
        self.update = nn.GRUCell(size, size)

    def forward(self, nodes, edges, lengths):
        source, target = edges
        messages = self.message(torch.cat((nodes[source], nodes[target], lengths), dim=1))
        gathered = torch.zeros_like(nodes).index_add(0, target, messages)
        return self.update(gathered, nodes)


class GraphNet(nn.Module):
    def __init__(self, size, depth):
        super().__init__()
        self.embed = nn.Linear(2, size)
        self.layers = nn.ModuleList(Layer(size) for _ in range(depth))
        self.readout = nn.Linear(size, 1)

    def forward(self, points, edges, graph, count):
        lengths = (points[edges[0]] - points[edges[1]]).norm(dim=1, keepdim=True)
        nodes = self.embed(points)
        for layer in self.layers:
            nodes = layer(nodes, edges, lengths)
        total = torch.zeros(count, nodes.shape[1]).scatter_add(0, graph[:, None].expand_as(nodes), nodes)
        return self.readout(total).squeeze(1)


def make_graph():
    points = torch.rand(int(torch.randint(4, 10, ())), 2)
    distances = torch.cdist(points, points)
    edges = ((distances < 0.6) & (distances > 0)).nonzero().t()
    return points, edges, distances[edges[0], edges[1]].sum() / len(points)


def collate(graphs):
    offset, points, edges, graph, targets = 0, [], [], [], []
    for number, (at, links, target) in enumerate(graphs):
        points.append(at)
        edges.append(links + offset)
        graph.append(torch.full((len(at),), number))
        targets.append(target)
        offset += len(at)
    return torch.cat(points), torch.cat(edges, dim=1), torch.cat(graph), torch.stack(targets)


def main():
    torch.manual_seed(12)
    graphs = [make_graph() for _ in range(120)]
    model = place(GraphNet(16, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    start()
    for epoch in range(scaled(45)):
        total = 0.0
        for at in torch.randperm(len(graphs)).split(6):
            points, edges, graph, targets = collate([graphs[i] for i in at])
            loss = F.huber_loss(model(points, edges, graph, len(at)), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        if epoch % 5 == 0:
            print(epoch, repr(total))
    finish(model)


if __name__ == "__main__":
    main()
