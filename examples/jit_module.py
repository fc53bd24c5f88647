"""A module: pijit.jit gives back the same object, which is recorded at its first call and replayed after that."""

import torch

import pijit

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
x = torch.randn(2, 16)
expected = model(x)

assert pijit.jit(model) is model

for _ in range(5):
    assert torch.equal(model(x), expected)  # bit for bit

print(pijit.status(model))
