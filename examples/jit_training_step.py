"""A training step: forward, backward and the optimizer are one function, and are replayed together."""

import torch

import pijit

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


@pijit.jit
def step(x, y):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.detach()


x = torch.randn(64, 8)
y = x.sum(1, keepdim=True)
losses = [step(x, y).item() for _ in range(50)]
assert losses[-1] < losses[0]

print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f};", pijit.status(step))
