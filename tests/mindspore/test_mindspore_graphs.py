"""Graphs that torch captured run in MindSpore: models, a training step, and `pijit.verify`."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from checks import EXPECTED, as_numpy, calls, close, graph_of, leaves

from pijit.errors import ExportError, UsageError
from pijit.graph import Graph
from pijit.graph.forms import FRAMEWORKS, load

mindspore = pytest.importorskip("mindspore")


@pytest.mark.parametrize("name", ["mlp", "bert", "alexnet"])
def test_a_graph_gives_what_torch_gives(name: str) -> None:
    graph = graph_of(name)
    for inputs, expected in calls(name):
        before = [each.copy() for each in inputs]
        for given in (tuple(map(mindspore.Tensor, inputs)), inputs):  # arrays of NumPy are taken, too
            found = leaves(graph.run(*given, framework="mindspore"))
            assert {type(each) for each in found} == {mindspore.Tensor}
            close(found, expected)
            np.testing.assert_equal([as_numpy(each) for each in given], before)


def test_a_training_step_gives_the_loss_and_the_parameters_after_it() -> None:
    held = np.load(EXPECTED / "step.npz")
    for seed in (0, 1):
        graph = Graph.from_json(EXPECTED / f"step{seed}.json", framework="numpy")
        given = [mindspore.Tensor(held[f"in{seed}_{at}"]) for at in (0, 1)]
        loss, updates = graph.run(*given, framework="mindspore", updates=True)
        after = {key.partition(":")[2]: held[key] for key in held if key.startswith(f"after{seed}:")}
        assert updates.keys() == after.keys()
        close([loss], [held[f"loss{seed}"]])
        close([updates[name] for name in after], list(after.values()))
        assert any(np.abs(after[name] - graph.data[name]).max() > 1e-3 for name in after)


def test_json_is_read_with_parameters_of_mindspore_and_written_again(monkeypatch: Any) -> None:
    source = EXPECTED / "mlp.json"
    graph = Graph.from_json(source, framework="mindspore")
    assert {type(each) for each in graph.data.values()} == {mindspore.Tensor}
    again = Graph.from_json(graph.to_json(), framework="numpy")
    for name, array in Graph.from_json(source, framework="numpy").data.items():
        np.testing.assert_array_equal(again.data[name], array)
        np.testing.assert_array_equal(as_numpy(graph.data[name]), array)
    for inputs, expected in calls("mlp"):
        close([graph.run(*inputs, framework="mindspore")], expected)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ExportError, match=r"arrays of torch, which is not installed: .*framework='numpy'"):
        Graph.from_json(source)


def test_an_operator_without_a_row_is_an_error_with_its_place() -> None:
    graph = graph_of("mlp")
    text = graph.to_json().replace('"op": "relu"', '"op": "aten::relu9"').replace('"op":"relu"', '"op":"aten::relu9"')
    with pytest.raises(ExportError, match=r"functional\.py:\d+: aten::relu9 has no row"):
        Graph.from_json(text, framework="numpy").run(*calls("mlp")[0][0], framework="mindspore")
    assert leaves(graph.run(*calls("mlp")[0][0], framework="mindspore"))


def test_a_missing_package_is_named_with_its_command(monkeypatch: Any) -> None:
    assert load("mindspore").__name__ == "pijit.graph.forms.mindspore"
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"needs the package mindspore: pip install mindspore 'numpy<2'"):
        load("mindspore")
    assert "mindspore" in FRAMEWORKS


_VERIFIED = """
import sys
sys.path.append({torch!r})
import torch, pijit
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
for seed in (0, 1):
    found = pijit.verify(model, torch.randn(5, 8))
    print([str(way.same) for way in found.ways if way.name == "graph in mindspore"])
from pijit.graph.forms import mindspore
mindspore._FORMS["relu"] = lambda x: x
found = pijit.verify(model, torch.randn(5, 8))
print([way.first.partition(" ")[0] for way in found.ways if way.name == "graph in mindspore"])
"""


def test_verify_runs_the_graph_in_mindspore_and_names_the_first_operator_that_differs() -> None:
    torch = os.environ.get("TORCH_PACKAGES")
    if not torch:
        pytest.skip("the directory of torch is not in TORCH_PACKAGES")
    code = _VERIFIED.format(torch=torch)
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    lines = [line for line in made.stdout.splitlines() if line.startswith("[")]
    assert lines == ["['True']", "['True']", "['relu']"], made.stderr
