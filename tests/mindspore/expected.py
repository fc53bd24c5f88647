"""Writes what the tests of MindSpore compare with: what torch gives, for they run where torch is not.

    python tests/mindspore/expected.py DIRECTORY

`rows.pickle` has for each row of the vocabulary the results of its cases, in arrays of NumPy. `NAME.json` is the graph
of a model with its weights, and `NAME.npz` has for two calls the inputs and what comes out: for a training step the
loss, and the parameters after it.
"""

from __future__ import annotations

import pickle
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

sys.path.append(str(Path(__file__).parents[1] / "graph"))

from cases import CASES
from test_rows import flat, in_torch

import pijit
from pijit.graph import capture


class AlexNet(nn.Module):
    """AlexNet for small images."""

    def __init__(self) -> None:
        super().__init__()
        relu = nn.ReLU(inplace=True)
        self.features = nn.Sequential(
            *(nn.Conv2d(3, 16, 11, 4, 2), relu, nn.MaxPool2d(3, 2)),
            *(nn.Conv2d(16, 32, 5, padding=2), relu, nn.MaxPool2d(3, 2)),
            *(nn.Conv2d(32, 48, 3, padding=1), relu, nn.Conv2d(48, 32, 3, padding=1), relu),
            *(nn.Conv2d(32, 32, 3, padding=1), relu, nn.MaxPool2d(3, 2, 0)),
        )
        self.avgpool = nn.AdaptiveAvgPool2d((2, 2))
        self.classifier = nn.Sequential(
            nn.Dropout(), nn.Linear(128, 64), relu, nn.Dropout(), nn.Linear(64, 64), relu, nn.Linear(64, 10)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(torch.flatten(self.avgpool(self.features(x)), 1))


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


def bert() -> nn.Module:
    from transformers import BertConfig, BertModel

    sizes = {"vocab_size": 128, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    return BertModel(BertConfig(**sizes, intermediate_size=64))


def text(seed: int) -> tuple[Any, ...]:
    random = np.random.default_rng(seed)
    mask = np.ones((2, 9), np.int64)
    mask[1, 6 + seed :] = 0
    return random.integers(0, 128, (2, 9)), mask


def numbers(*shape: int) -> Any:
    return lambda seed: (np.random.default_rng(seed).standard_normal(shape).astype(np.float32),)


MODELS = {"mlp": (mlp, numbers(5, 8)), "bert": (bert, text), "alexnet": (AlexNet, numbers(2, 3, 127, 127))}


def rows() -> dict[str, list[list[tuple[Any, str]]]]:
    """The results of all cases: arrays, numbers and None, each with the name of its dtype."""
    return {name: [list(map(_held, flat(in_torch(name, case)))) for case in cases] for name, cases in CASES.items()}


def _held(result: Any) -> tuple[Any, str]:
    if not isinstance(result, torch.Tensor):
        return result, ""
    wide = result.float() if result.dtype == torch.bfloat16 else result  # NumPy has no bfloat16
    return wide.resolve_conj().numpy(), str(result.dtype).removeprefix("torch.")


def write_model(name: str, directory: Path) -> None:
    make, inputs = MODELS[name]
    torch.manual_seed(0)
    model = make().eval()
    arrays = {}
    with torch.no_grad():
        pijit.export(
            model, *map(torch.from_numpy, inputs(0)), format="json", path=directory / f"{name}.json", decisions="assume"
        )
        for seed in (0, 1):
            given = inputs(seed)
            out = model(*map(torch.from_numpy, given))
            results = [each for each in (out if isinstance(out, torch.Tensor) else out.to_tuple(),)]
            results = results if isinstance(results[0], torch.Tensor) else list(results[0])
            arrays |= {f"in{seed}_{at}": each for at, each in enumerate(given)}
            arrays |= {f"out{seed}_{at}": each.numpy() for at, each in enumerate(results)}
    np.savez(directory / f"{name}.npz", **arrays)


def write_step(directory: Path) -> None:
    """The training step of the small model: its third call is captured, two more follow."""
    torch.manual_seed(0)
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    random = torch.Generator().manual_seed(1)
    calls = [(torch.randn(5, 8, generator=random), torch.randint(0, 4, (5,), generator=random)) for _ in range(5)]

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    for call in calls[:2]:
        step(*call)
    graph = capture(step, *calls[2])
    arrays: dict[str, Any] = {}
    for seed, (x, y) in enumerate(calls[3:]):
        (directory / f"step{seed}.json").write_text(graph.to_json())  # with the parameters of now
        arrays |= {f"in{seed}_0": x.numpy(), f"in{seed}_1": y.numpy()}
        loss, updates = graph.run(x, y, updates=True)  # a step of the model: the graph writes to its tensors
        arrays[f"loss{seed}"] = loss.numpy()
        names = [name for name, _ in graph.functional().updates]
        arrays |= {f"after{seed}:{name}": updates[name].detach().numpy().copy() for name in names}
    np.savez(directory / "step.npz", **arrays)


def main(directory: Path) -> None:
    warnings.filterwarnings("ignore")
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "rows.pickle").open("wb") as file:
        pickle.dump(rows(), file)
    for name in MODELS:
        write_model(name, directory)
    write_step(directory)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
