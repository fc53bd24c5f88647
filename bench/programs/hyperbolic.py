"""A tree is embedded in the Poincare ball with geoopt: a manifold parameter, a Riemannian optimizer, a burn-in."""

import geoopt
import torch
from _common import finish, place, scaled, start
from torch import nn


class PoincareEmbedding(nn.Module):
    def __init__(self, count, size):
        super().__init__()
        self.ball = geoopt.PoincareBall()
        self.points = geoopt.ManifoldParameter(1e-2 * torch.randn(count, size), manifold=self.ball)

    def forward(self, source, others):
        distances = self.ball.dist(self.points[source].unsqueeze(1), self.points[others])
        return -distances


def tree(depth, branches):
    edges, level, count = [], [0], 1
    for _ in range(depth):
        following = []
        for parent in level:
            for _ in range(branches):
                edges.append((parent, count))
                following.append(count)
                count += 1
        level = following
    return torch.tensor(edges), count


def main():
    torch.manual_seed(53)
    edges, count = tree(3, 3)
    model = place(PoincareEmbedding(count, 3))
    optimizer = geoopt.optim.RiemannianSGD(model.parameters(), lr=0.03)
    start()
    for epoch in range(scaled(280)):
        optimizer.param_groups[0]["lr"] = 0.03 if epoch < 10 else 0.3
        total = 0.0
        for rows in torch.randperm(len(edges)).split(6):
            source, target = edges[rows].t()
            others = torch.cat((target[:, None], torch.randint(0, count, (len(rows), 5))), dim=1)
            loss = nn.functional.cross_entropy(model(source, others), torch.zeros(len(rows), dtype=torch.long))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        if epoch % 10 == 0:
            print(epoch, repr(total), repr(model.points.norm(dim=1).mean().item()))
    finish(model.points)


if __name__ == "__main__":
    main()
