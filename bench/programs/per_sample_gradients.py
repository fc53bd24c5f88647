"""Differentially private training: gradients of each sample with vmap, clipped, with noise."""

import torch
from _common import finish, place, scaled, start
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.utils.data import DataLoader, TensorDataset


class SmallNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(1, 4, 3, padding=1)
        self.fc = nn.Linear(4 * 12, 3)

    def forward(self, x):
        return self.fc(torch.relu(self.conv(x)).flatten(1))


class PrivateSGD:
    """Clips the gradient of each sample and adds noise to their sum."""

    def __init__(self, model, lr, norm, noise):
        self.model, self.lr, self.norm, self.noise = model, lr, norm, noise
        self.sample_grads = vmap(grad(self.loss), in_dims=(None, None, 0, 0))

    def loss(self, params, buffers, x, y):
        logits = functional_call(self.model, (params, buffers), (x.unsqueeze(0),))
        return nn.functional.cross_entropy(logits, y.unsqueeze(0))

    @torch.no_grad()
    def step(self, x, y):
        params = {name: value.detach() for name, value in self.model.named_parameters()}
        buffers = dict(self.model.named_buffers())
        grads = self.sample_grads(params, buffers, x, y)
        norms = torch.stack([g.flatten(1).norm(dim=1) for g in grads.values()]).norm(dim=0)
        factors = (self.norm / (norms + 1e-6)).clamp(max=1.0)
        for name, value in self.model.named_parameters():
            clipped = torch.einsum("i,i...->...", factors, grads[name])
            noise = torch.randn_like(value) * self.noise * self.norm
            value.sub_(self.lr * (clipped + noise) / len(x))
        return norms.mean()


def main():
    torch.manual_seed(7)
    y = torch.randint(0, 3, (320,))
    x = torch.randn(320, 1, 12) + torch.sin(torch.arange(12) * (1 + y[:, None].float()))[:, None]
    loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
    model = SmallNet()
    private = PrivateSGD(model, lr=0.2, norm=1.0, noise=0.3)
    step = place(private.step)
    start()
    for epoch in range(scaled(33)):
        norms = [step(data, target).item() for data, target in loader]
        with torch.no_grad():
            accuracy = (model(x).argmax(1) == y).float().mean().item()
        if epoch % 5 == 0:
            print(epoch, repr(sum(norms) / len(norms)), repr(accuracy))
    finish(model)


if __name__ == "__main__":
    main()
