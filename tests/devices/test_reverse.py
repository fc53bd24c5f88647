"""A script for the CPU on another device: on "twin", the device of tests, which keeps its memory where the CPU does."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from moved import start

pytestmark = pytest.mark.torch

PROGRAM = """
    import sys
    import numpy as np
    import torch
    from torch import nn

    sys.path.append(sys.argv[1])
    from devices import twin
    twin.connect()

    device = torch.device("cpu")
    rows = np.linspace(-1, 1, 24, dtype=np.float32).reshape(8, 3)
    x, y = torch.from_numpy(rows), torch.as_tensor([i % 2 for i in range(8)])
    net = nn.Linear(3, 2)
    with torch.no_grad():
        net.weight.copy_(torch.arange(6.0, device="cpu").view(2, 3) / 10)
        net.bias.fill_(0.1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5, momentum=0.9)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=4)

    def step(a, b):
        optimizer.zero_grad()
        loss = ((net(a.to(device)).softmax(1)[:, 1] - b.to("cpu").float()) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    for epoch in range(3):
        for a, b in loader:
            loss = step(a, b)
        print(epoch, f"{loss.item():.6f}")
    print(net.weight.detach().numpy().round(4).tolist(), np.asarray(net.bias.detach()).round(4).tolist())
    print(net.weight.cpu().tolist() == net.weight.tolist(), torch.zeros(2).tolist())
    made = x, y, net.weight, loss, torch.zeros(2), torch.ones(2, device="cpu")
    print("on", {each.device.type for each in made}, file=sys.stderr)
"""


def test_on_twin(tmp_path):
    (tmp_path / "program.py").write_text(textwrap.dedent(PROGRAM))
    words = ["program.py", str(Path(__file__).parents[1] / "torch")]
    plain = start(words, tmp_path)
    if "assert command" in plain.stderr:
        pytest.skip("the device of tests needs a compiler")
    assert plain.stderr.splitlines()[-1] == "on {'cpu'}", plain.stderr
    moved = start(["-m", "pijit", "--device", "privateuseone", *words], tmp_path)
    assert moved.stderr.splitlines()[-1] == "on {'twin'}", moved.stderr
    assert moved.stdout == plain.stdout
