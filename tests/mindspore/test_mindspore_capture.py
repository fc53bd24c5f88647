"""Graphs of functions and cells of MindSpore's tensors: run in MindSpore, in NumPy, and in torch."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pijit

mindspore = pytest.importorskip("mindspore")

from checks import as_numpy, close, leaves  # noqa: E402
from tensor_functions import CELLS, FUNCTIONS, tensors  # noqa: E402

# Their operators, or what they do with them, are not in the table: graphs of them are split, or lack what is written.
NOT_SAID = {"in_place", "with_names", "items", "several", "clipped", "made_here", "transposed"}


@pytest.mark.parametrize("name", sorted(FUNCTIONS.keys() - NOT_SAID))
def test_functions(name: str) -> None:
    plain = FUNCTIONS[name]
    plain(*tensors(0, 3, 4))  # what MindSpore makes at a first call is no operator
    graph = pijit.graph.capture(plain, *tensors(0, 3, 4))
    assert not graph.foreign, graph.foreign
    for seed in (1, 2):
        given = tensors(seed, 3, 4)
        expected = [as_numpy(each) for each in leaves(plain(*given))]
        for framework in ("mindspore", "numpy"):
            arrays = given if framework == "mindspore" else tuple(map(as_numpy, given))
            found = map(np.asarray, map(as_numpy, leaves(graph.run(*arrays, framework=framework))))
            for own, other in zip(found, map(np.asarray, expected), strict=True):
                assert (own.dtype, own.shape) == (other.dtype, other.shape)
                np.testing.assert_allclose(own, other, rtol=1e-4, atol=1e-4)  # MindSpore's tanh is not exact


@pytest.mark.parametrize("name", CELLS)
def test_cells_have_the_numbers_of_mindspore_in_torch(name: str, tmp_path: Path) -> None:
    make, (shape, *_) = CELLS[name]
    cell = make()
    cell(*tensors(0, *shape, count=1))
    graph = pijit.graph.capture(cell, *tensors(0, *shape, count=1))
    assert not graph.foreign, graph.foreign
    (given,) = tensors(1, *shape, count=1)
    expected = cell(given).asnumpy()
    close([graph.run(given, framework="mindspore")], [expected])
    np.savez(tmp_path / "call.npz", given=given.asnumpy(), expected=expected)
    (tmp_path / "graph.json").write_text(graph.to_json())
    in_torch(tmp_path)


def in_torch(place: Path) -> None:
    """Runs a graph in torch, in a process that does not import MindSpore: each brings libraries of its own."""
    packages = os.environ.get("TORCH_PACKAGES")
    if not packages:
        pytest.skip("no torch to run the graph in")
    code = (
        "import pathlib, sys; sys.path.append(sys.argv[2]); place = pathlib.Path(sys.argv[1]);"
        "import numpy, torch; from pijit.graph import Graph;"
        "held = numpy.load(place / 'call.npz');"
        "graph = Graph.from_json(place / 'graph.json', framework='torch');"
        "found = graph.run(torch.from_numpy(held['given']));"
        "numpy.testing.assert_allclose(found.numpy(), held['expected'], rtol=1e-4, atol=1e-5); print(found.dtype)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(place), packages], capture_output=True, text=True)
    assert done.stdout.strip() == "torch.float32", done.stderr


def test_the_page_s_example_says_what_it_says(tmp_path: Path) -> None:
    page = Path(__file__).parents[2] / "docs" / "mindspore.md"
    found = re.search(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    assert found is not None
    (tmp_path / "train.py").write_text(found[1])
    done = subprocess.run([sys.executable, tmp_path / "train.py"], capture_output=True, text=True, check=True)
    said = [line for line in done.stdout.splitlines() if line.startswith("(") or " opaque calls" in line]
    assert said[:3] == ["(4, 8)", "(4, 8)", "(2, 8)"]
    assert said[-1] == "(4, 8)"
    assert said[3].endswith(" 0 opaque calls"), said


def test_a_graph_that_says_not_all_names_what_it_lacks() -> None:
    def strange(x: Any, y: Any) -> Any:
        return mindspore.ops.cumsum(x * y, 0) + 1

    graph = pijit.graph.capture(strange, *tensors(0, 3, 4))
    assert [node.op for node in graph.nodes if node.op.startswith("python::")] == ["python::cumsum"]
    with pytest.raises(pijit.errors.ExportError, match="cumsum"):
        graph.run(*tensors(1, 3, 4), framework="mindspore")
