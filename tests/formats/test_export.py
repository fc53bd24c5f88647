"""`pijit.export` and `pijit.formats`: what is found and refused; a file is written whole or not at all."""

import importlib.metadata
import os
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import pijit
from pijit import _formats
from pijit.errors import ExportError, UsageError
from pijit.graph import Graph, Node, Value

X = Value("x", "tensor", "input", "float32", ("batch", 2))
W = Value("w", "tensor", "parameter", "float32", (2, 2), path="lin.weight")
Y = Value("y", "tensor", dtype="float32", shape=("batch", 2))
GRAPH = Graph(
    "lin", (X,), (W,), (Node("linear", {"x": X, "weight": W}, (Y,), "aten::linear"),), Y,
    data={"w": np.eye(2, dtype=np.float32)}, symbols={"batch": 4},
)  # fmt: skip


def test_formats_are_listed_without_a_framework():
    code = (
        "import sys, pijit; print(pijit.formats()); "
        "print(sorted({'torch', 'numpy', 'jax', 'onnx'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *table, imported = done.stdout.splitlines()
    assert imported == "[]"
    assert {line.split()[0] for line in table} == set(pijit.formats())
    assert all(line.split(None, 1)[1] for line in table)


def test_formats_is_a_mapping():
    found = pijit.formats()
    assert found["json"] == "usable"
    assert len(found) == len(list(found))
    assert "nothing" not in found
    with pytest.raises(KeyError, match="the nearest is 'json'"):
        found["jsn"]
    assert callable(pijit.formats)  # importing its formats put no module in its place


@pytest.mark.parametrize("name", _formats.names())
def test_every_format_has_what_a_format_has(name):
    module = sys.modules.get(f"pijit._formats.{name}") or __import__(f"pijit._formats.{name}", fromlist=["make"])
    assert name == module.NAME
    assert all(hasattr(module, each) for each in _formats._NEEDED)
    assert module.SUFFIX.startswith(".")
    assert bool(module.PACKAGES) == bool(module.INSTALL)


def test_a_missing_package_says_what_installs_it(monkeypatch):
    from pijit._formats import json

    monkeypatch.setattr(json, "PACKAGES", ("surely_not_there",))
    monkeypatch.setattr(json, "INSTALL", "pip install surely_not_there")
    with pytest.raises(ExportError, match="'json' needs surely_not_there; run: pip install surely_not_there"):
        pijit.export(GRAPH, format="json")
    assert pijit.formats()["json"] == "pip install surely_not_there"
    monkeypatch.undo()
    assert pijit.formats()["json"] == "usable"
    assert pijit.export(GRAPH, format="json") == GRAPH.to_json()


class Point:
    """An entry point of another package."""

    name, value = "shouted", "other.module"
    dist = types.SimpleNamespace(name="other")

    def __init__(self, module):
        self.module = module

    def load(self):
        if isinstance(self.module, Exception):
            raise self.module
        return self.module


def shouted():
    def make(graph, *, dynamic, volume=1):
        return graph.name.upper() * volume

    return types.SimpleNamespace(
        NAME="shouted", PACKAGES=(), INSTALL="", SUFFIX=".txt", DOC="loud", make=make,
        write=lambda made, path: path.write_text(made),
    )  # fmt: skip


def test_formats_of_other_packages(monkeypatch, tmp_path):
    monkeypatch.setattr(_formats, "entry_points", lambda group: [Point(shouted())])
    assert pijit.formats()["shouted"] == "usable"
    assert "of the package other" in str(pijit.formats())
    assert pijit.export(GRAPH, format="shouted", volume=2) == "LINLIN"
    assert pijit.export(GRAPH, format="shouted", path=tmp_path / "a.txt").read_text() == "LIN"
    monkeypatch.setattr(_formats, "entry_points", importlib.metadata.entry_points)
    with pytest.raises(ExportError, match="no format is called 'shouted'"):
        pijit.export(GRAPH, format="shouted")


@pytest.mark.parametrize(
    ("module", "says"),
    [
        (RuntimeError("broken"), r"of the package other \(other.module\) does not load: RuntimeError: broken"),
        (types.SimpleNamespace(NAME="shouted"), "of the package other .* has no PACKAGES, INSTALL"),
    ],
)
def test_a_bad_format_of_another_package(monkeypatch, module, says):
    monkeypatch.setattr(_formats, "entry_points", lambda group: [Point(module)])
    with pytest.raises(ExportError, match=says):
        pijit.export(GRAPH, format="shouted")


def test_a_file_is_the_object():
    assert pijit.export(GRAPH, format="json", indent=2) == GRAPH.to_json(indent=2)


def test_a_file_replaces_the_one_before(tmp_path):
    path = tmp_path / "graph.json"
    assert pijit.export(GRAPH, format="json", path=path) == path
    assert path.read_text() == GRAPH.to_json()
    GRAPH.data["w"][0, 0] += 1
    assert pijit.export(GRAPH, format="json", path=os.fspath(path)) == path
    assert Graph.from_json(path).data["w"][0, 0] == GRAPH.data["w"][0, 0]
    assert os.listdir(tmp_path) == ["graph.json"]
    umask = os.umask(0)
    os.umask(umask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask


def test_weights_beside(tmp_path):
    path = pijit.export(GRAPH, format="json", path=tmp_path / "graph.json", weights="safetensors")
    assert sorted(os.listdir(tmp_path)) == ["graph.json", "graph.safetensors"]
    again = Graph.from_json(path)
    assert np.array_equal(again.data["w"], GRAPH.data["w"])
    assert again.to_json() == GRAPH.to_json()
    with pytest.raises(ExportError, match=r"in the file 'graph.safetensors'; read the graph from its own file"):
        Graph.from_json(path.read_text())
    beside = tmp_path / "graph.safetensors"
    beside.write_bytes(beside.read_bytes()[:-1])
    with pytest.raises(ExportError, match="16 bytes, but has 15"):
        Graph.from_json(path)
    beside.write_bytes(b"no")
    with pytest.raises(ExportError, match="is no file of safetensors, or is damaged"):
        Graph.from_json(path)
    beside.unlink()
    with pytest.raises(ExportError, match=r"graph.safetensors cannot be read: No such file"):
        Graph.from_json(path)


def test_other_programs_read_the_weights_beside(tmp_path):
    safetensors = pytest.importorskip("safetensors.numpy")
    pijit.export(GRAPH, format="json", path=tmp_path / "graph.json", weights="safetensors")
    assert np.array_equal(safetensors.load_file(tmp_path / "graph.safetensors")["w"], GRAPH.data["w"])


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), RuntimeError("bug"), ExportError("no")])
def test_nothing_is_left_on_an_error(tmp_path, monkeypatch, error):
    from pijit._formats import json

    def write(made, path):
        path.write_text("half")
        path.with_suffix(".more").write_text("half")
        raise error

    path = tmp_path / "graph.json"
    monkeypatch.setattr(json, "write", write)
    expected = ExportError if isinstance(error, OSError) else type(error)
    with pytest.raises(expected, match="No space left|bug|no"):
        pijit.export(GRAPH, format="json", path=path)
    assert not os.listdir(tmp_path)
    path.write_text("before")
    with pytest.raises(expected):
        pijit.export(GRAPH, format="json", path=path)
    assert os.listdir(tmp_path) == ["graph.json"]
    assert path.read_text() == "before"


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link.json").symlink_to(tmp_path / "real" / "graph.json")
    pijit.export(GRAPH, format="json", path=tmp_path / "link.json")
    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "real" / "graph.json").read_text() == GRAPH.to_json()


@pytest.mark.parametrize(
    ("wrong", "error", "says"),
    [
        (lambda path: pijit.export(GRAPH, format="onxx"), ExportError, "no format is called 'onxx' .*there are .*json"),
        (lambda path: pijit.export(GRAPH, format="jsn"), ExportError, "the nearest is 'json'"),
        (lambda path: pijit.export(GRAPH, format=3), ExportError, "no format is called 3"),
        (lambda path: pijit.export(GRAPH, format="json", wieghts="none"), UsageError, "no option 'wieghts'"),
        (lambda path: pijit.export(GRAPH, format="json", mask=1), UsageError, r"go into `kwargs=\{'mask': ...\}`"),
        (lambda path: pijit.export(GRAPH, 1, format="json"), UsageError, "without arguments; leave them out"),
        (lambda path: pijit.export(GRAPH, format="json", kwargs={"x": 1}), UsageError, "without arguments"),
        (lambda path: pijit.export(GRAPH, format="json", kwargs=[1]), UsageError, "kwargs= takes a dict"),
        (lambda path: pijit.export(None, format="json"), UsageError, "a module or a pijit.graph.Graph, not None"),
        (lambda path: pijit.export("f", format="json"), UsageError, "a module or a pijit.graph.Graph, not str"),
        (lambda path: pijit.export(GRAPH, format="json", path=3), UsageError, "path= takes the name of a file"),
        (lambda path: pijit.export(GRAPH, format="json", path=path), ExportError, "is a directory; give the name"),
        (lambda path: pijit.export(GRAPH, format="json", path=path / "no" / "a"), ExportError, "no does not exist"),
        (lambda path: pijit.export(GRAPH, format="json", path="/proc/graph.json"), ExportError, "cannot be written"),
        (lambda path: pijit.export(GRAPH, format="json", dynamic="batch"), UsageError, "dynamic= is True, False, None"),
    ],
)  # fmt: skip
def test_wrong_use(tmp_path, wrong, error, says):
    with pytest.raises(error, match=says):
        wrong(tmp_path)
    assert not list(Path(tmp_path).iterdir())
