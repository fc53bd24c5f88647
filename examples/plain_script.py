"""A script that knows nothing of pijit. Run it with: python -m pijit --report examples/plain_script.py"""

import torch

torch.manual_seed(0)
cell = torch.nn.GRUCell(8, 16)
head = torch.nn.Linear(16, 2)


def classify(sequence):
    h = torch.zeros(1, 16)
    for x in sequence:
        h = cell(x[None], h)
    return head(h).argmax().item()


with torch.no_grad():
    classes = [classify(torch.randn(10, 8)) for _ in range(100)]

print("class 0:", classes.count(0), "class 1:", classes.count(1))
