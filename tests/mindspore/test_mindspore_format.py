"""The format "mindspore": a cell that runs, is compiled, and is saved as MindIR or as source."""

from __future__ import annotations

import dataclasses
import inspect
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checks import EXPECTED, as_numpy, calls, close, graph_of, leaves

import pijit
from pijit.errors import ExportError
from pijit.graph import Graph, Node, Value

mindspore = pytest.importorskip("mindspore")

MODELS = ("mlp", "bert", "alexnet")
_RUN_SOURCE = """
import sys
sys.path.insert(0, {directory!r})
import numpy as np, mindspore, {name}
cell = {name}.load()
held = np.load({inputs!r})
for seed in (0, 1):
    given = [mindspore.Tensor(held[key]) for key in held if key.startswith(f"in{{seed}}_")]
    out = mindspore.jit(cell)(*given)
    out = out if isinstance(out, tuple) else (out,)
    np.savez({directory!r} + f"/out{{seed}}.npz", *[each.asnumpy() for each in out])
print("pijit" in sys.modules)
"""


def tensors(arrays: tuple[Any, ...]) -> list[Any]:
    return list(map(mindspore.Tensor, arrays))


@pytest.mark.parametrize("name", MODELS)
def test_a_cell_gives_what_torch_gives_as_it_is_and_compiled(name: str) -> None:
    graph = graph_of(name)
    cell = pijit.export(graph, format="mindspore")
    assert isinstance(cell, mindspore.nn.Cell)
    paths = {parameter.name: parameter for parameter in cell.get_parameters()}
    assert paths.keys() == {value.path for value in graph.parameters}
    assert all(not paths[v.path].requires_grad for v in graph.parameters if v.role == "buffer")
    compiled = mindspore.jit(cell)
    for inputs, expected in calls(name):
        assert len(cell.results) == len(expected)
        close(leaves(cell(*tensors(inputs))), expected)
        close(leaves(compiled(*tensors(inputs))), expected)


def test_a_cell_follows_its_parameters() -> None:
    cell = pijit.export(graph_of("mlp"), format="mindspore")
    ((inputs, expected), _) = calls("mlp")
    close([cell(*tensors(inputs))], expected)
    bias = next(each for each in cell.get_parameters() if each.name == "2.bias")
    bias.set_data(bias + 1)
    close([cell(*tensors(inputs))], [expected[0] + 1])


def test_the_source_has_layers_and_lines_and_needs_no_pijit() -> None:
    source = inspect.getsource(type(pijit.export(graph_of("mlp"), format="mindspore")))
    assert "# --- 1: ReLU" in source
    assert "functional.py" in source
    assert "ops.matmul(" in source
    assert "import pijit" not in source


def test_a_training_step_gives_what_it_updates_as_results() -> None:
    held = np.load(EXPECTED / "step.npz")
    for seed in (0, 1):
        graph = Graph.from_json(EXPECTED / f"step{seed}.json", framework="numpy")
        cell = pijit.export(graph, format="mindspore")
        before = [as_numpy(each).copy() for each in cell.get_parameters()]
        loss, *updated = cell(*(mindspore.Tensor(held[f"in{seed}_{at}"]) for at in (0, 1)))
        after = [held[f"after{seed}:{name}"] for name, _ in graph.functional().updates]
        assert [name.endswith(".updated") for name in cell.results] == [False] + [True] * len(after)
        close([loss], [held[f"loss{seed}"]])
        close(updated, after)
        np.testing.assert_equal([as_numpy(each) for each in cell.get_parameters()], before)


@pytest.mark.parametrize("name", MODELS)
def test_mindir_is_saved_and_read_again(name: str, tmp_path: Path) -> None:
    path = pijit.export(graph_of(name), format="mindspore", path=tmp_path / "model.mindir")
    assert [each.name for each in tmp_path.iterdir()] == ["model.mindir"]
    assert path.stat().st_mode & 0o777 == 0o644
    read = mindspore.nn.GraphCell(mindspore.load(str(path)))
    for inputs, expected in calls(name):
        close(leaves(read(*tensors(inputs))), expected)


@pytest.mark.parametrize("name", MODELS)
def test_source_is_saved_and_runs_in_another_process(name: str, tmp_path: Path) -> None:
    pijit.export(graph_of(name), format="mindspore", path=tmp_path / f"{name}_cell.py")
    assert sorted(each.name for each in tmp_path.iterdir()) == [f"{name}_cell.py", f"{name}_cell.safetensors"]
    code = _RUN_SOURCE.format(directory=str(tmp_path), name=f"{name}_cell", inputs=str(EXPECTED / f"{name}.npz"))
    clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=clean, check=False)
    assert made.stdout.splitlines()[-1:] == ["False"], made.stderr
    for seed, (_, expected) in enumerate(calls(name)):
        close(list(np.load(tmp_path / f"out{seed}.npz").values()), expected)


def test_other_sizes_are_an_error_of_the_cell() -> None:
    cell = pijit.export(graph_of("mlp"), format="mindspore")
    ((inputs, expected), _) = calls("mlp")
    with pytest.raises(ValueError, match=r"of another shape than \[5, 8\]"):
        cell(mindspore.Tensor(inputs[0][:3]))
    close([cell(*tensors(inputs))], expected)


def _graph(*nodes: Node, outputs: Value, shape: tuple[Any, ...] = (4,), symbols: Any = None) -> Graph:
    x = Value("x", "tensor", "input", "float32", shape)
    return Graph("made", (x,), (), nodes, outputs, symbols=symbols or {})


def _node(op: str, *, origin: str = "", **arguments: Any) -> Node:
    y = Value("y", "tensor", "result", "float32", None)
    return dataclasses.replace(Node(op, arguments, (y,)), file="model.py", line=7, origin=origin)


@pytest.mark.parametrize(
    ("op", "said"),
    [
        ("nonzero", r"model\.py:7: nonzero needs the data of a tensor.*move that out"),
        ("aten::svd", r"model\.py:7: aten::svd has no row in the vocabulary"),
        ("python::print", r"model\.py:7: print runs in CPython; there the graph of 'made' is split"),
    ],
)
def test_what_a_cell_cannot_hold_is_an_error_that_leaves_nothing(op: str, said: str, tmp_path: Path) -> None:
    x = Value("x", "tensor", "input", "float32", (4,))
    node = _node(op, x=x)
    with pytest.raises(ExportError, match=said):
        pijit.export(_graph(node, outputs=node.results[0]), format="mindspore", path=tmp_path / "made.mindir")
    assert list(tmp_path.iterdir()) == []
    fine = _node("exp", x=x)
    pijit.export(_graph(fine, outputs=fine.results[0]), format="mindspore", path=tmp_path / "made.mindir")
    assert [each.name for each in tmp_path.iterdir()] == ["made.mindir"]


def test_names_that_the_source_has_itself_are_no_trouble(tmp_path: Path) -> None:
    inputs = tuple(Value(name, "tensor", "input", "float32", (2,)) for name in ("ops", "self", "mindspore"))
    paths = ("construct", "c1", "c1", "0.weight", "a b")
    weights = tuple(Value(f"w{at}", "tensor", "parameter", "float32", (2,), path=path) for at, path in enumerate(paths))
    nodes, total = [], inputs[0]
    for at, each in enumerate((*inputs[1:], *weights)):
        result = Value(f"v_{at}", "tensor", "result", "float32", (2,))
        nodes.append(Node("add", {"x": total, "y": each, "alpha": 2}, (result,)))
        total = result
    data = {f"w{at}": np.full(2, 10.0**at, np.float32) for at in range(5)}
    graph = Graph("3 d", inputs, weights, tuple(nodes), total, data=data)
    cell = pijit.export(graph, format="mindspore")
    for seed in (0, 1):
        given = [np.full(2, seed + at, np.float32) for at in range(3)]
        expected = [graph.run(*given, framework="numpy")]
        close([cell(*tensors(tuple(given)))], expected)
        close([mindspore.jit(cell)(*tensors(tuple(given)))], expected)
    assert len({each.name for each in cell.get_parameters()}) == len(paths)
    saved = pijit.export(graph, format="mindspore", path=tmp_path / "odd.py")
    scope: dict[str, Any] = {"__file__": str(saved), "__name__": "odd"}
    exec(compile(saved.read_text(), str(saved), "exec"), scope)  # noqa: S102
    close([scope["load"]()(*tensors(tuple(given)))], expected)


def test_sizes_cannot_be_free() -> None:
    x = Value("x", "tensor", "input", "float32", ("n",))
    node = _node("exp", x=x)
    graph = _graph(node, outputs=node.results[0], shape=("n",), symbols={"n": 3})
    with pytest.raises(ExportError, match=r"fixed sizes, so n cannot be free; leave out dynamic="):
        pijit.export(graph, format="mindspore", dynamic=True)
    cell = pijit.export(graph, format="mindspore")
    close([cell(mindspore.Tensor(np.ones(3, np.float32)))], [np.exp(np.ones(3, np.float32))])


def test_a_name_with_another_end_is_an_error_that_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_text("mine")
    with pytest.raises(ExportError, match=r"model\.onnx is no name for a cell of MindSpore; end it with \.mindir"):
        pijit.export(graph_of("mlp"), format="mindspore", path=tmp_path / "model.onnx")
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("model.onnx", "mine")]
