"""A wide teacher is trained, then a narrow student learns from its soft labels, with a hook on a hidden layer."""

import torch
from _common import finish, place, scaled, start
from torch import nn
from torch.nn import functional as F


def mlp(*sizes):
    layers = []
    for fan_in, fan_out in zip(sizes[:-2], sizes[1:-1], strict=True):
        layers += [nn.Linear(fan_in, fan_out), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(*sizes[-2:]))


class Distiller(nn.Module):
    def __init__(self, teacher, student, temperature=3.0, alpha=0.7):
        super().__init__()
        self.teacher, self.student = teacher, student
        self.temperature, self.alpha = temperature, alpha
        self.hidden = {}
        self.adapter = nn.Linear(12, 48)
        teacher[1].register_forward_hook(self.keep("teacher"))
        student[1].register_forward_hook(self.keep("student"))

    def keep(self, name):
        def hook(module, args, output):
            self.hidden[name] = output

        return hook

    def forward(self, x, y):
        with torch.no_grad():
            wanted = self.teacher(x)
        got = self.student(x)
        soft = F.kl_div(
            F.log_softmax(got / self.temperature, dim=1),
            F.softmax(wanted / self.temperature, dim=1),
            reduction="batchmean",
        )
        hard = F.cross_entropy(got, y)
        hint = F.mse_loss(self.adapter(self.hidden["student"]), self.hidden["teacher"])
        return self.alpha * self.temperature**2 * soft + (1 - self.alpha) * hard + 0.1 * hint


def batches(x, y, size):
    for at in torch.randperm(len(x)).split(size):
        yield x[at], y[at]


def train_teacher(teacher, x, y, epochs):
    optimizer = torch.optim.Adam(teacher.parameters(), lr=2e-3)
    for _ in range(epochs):
        for data, target in batches(x, y, 20):
            loss = F.cross_entropy(teacher(data), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    print("teacher", repr(loss.item()))


def train_student(distiller, x, y, epochs):
    kept = [*distiller.student.parameters(), *distiller.adapter.parameters()]
    optimizer = torch.optim.SGD(kept, lr=0.02, momentum=0.9, nesterov=True)
    for epoch in range(epochs):
        total = 0.0
        for data, target in batches(x, y, 20):
            loss = distiller(data, target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        if epoch % 5 == 0:
            right = (distiller.student(x).argmax(1) == y).float().mean().item()
            print("student", epoch, repr(total), repr(right))


if __name__ == "__main__":
    torch.manual_seed(13)
    x = torch.randn(400, 10)
    y = (x[:, :5].pow(2).sum(1) - x[:, 5:].abs().sum(1)).add(4).div(2.5).clamp(0, 3).long()
    distiller = place(Distiller(mlp(10, 48, 48, 4), mlp(10, 12, 4)))
    start()
    train_teacher(distiller.teacher, x, y, scaled(60))
    distiller.teacher.eval()
    train_student(distiller, x, y, scaled(82))
    finish(distiller)
