"""The backend "inductor" for tensors of a GPU, without one: what it takes, what it says, and under what code is kept.

tests/torch/test_compiled_for_gpus.py runs what it makes.
"""

from __future__ import annotations

import json
import os
import shutil
import types
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import pijit
from pijit.compilers import Options, _kept_plans, _prepare, get, inductor, market, pool, worker
from pijit.errors import BackendError
from pijit.graph.model import Graph

pytestmark = pytest.mark.torch


def graph_on(device: str, fn: Any = None, *inputs: Any) -> Graph:
    """A graph of two weights, as it would be on a device; it has no data."""
    layer = torch.nn.Linear(4, 3)
    graph = pijit.graph.capture(fn or (lambda x: layer(x).exp() * 2), *(inputs or (torch.ones(2, 4),)))
    return Graph.from_json(graph.to_json(weights="none").replace('"cpu"', f'"{device}"'))


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> types.SimpleNamespace:
    """A GPU that answers what is asked of it, with all that compiling needs; tests change what it says."""
    facts = types.SimpleNamespace(name="A GPU", major=9, minor=0, multi_processor_count=132)
    said = types.SimpleNamespace(facts=facts, driver=13000, toolkit="13.0", triton="3.5", free=8 << 30, set={})
    (tmp_path / "cuda" / "include").mkdir(parents=True)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: said.facts)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda index: (said.free, 16 << 30))
    monkeypatch.setattr(torch.cuda, "set_device", lambda index: said.set.update(device=index))
    monkeypatch.setattr(
        torch.cuda, "set_per_process_memory_fraction", lambda part, index: said.set.update(part=part, index=index)
    )
    monkeypatch.setattr(inductor, "_driver", lambda: said.driver)
    monkeypatch.setattr(inductor, "_version_of", lambda package: said.triton)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    installed = inductor.installed
    monkeypatch.setattr(inductor, "installed", lambda package: package == "triton" or installed(package))
    return said


def of_gpu() -> inductor.InductorOfGpu:
    found = get("inductor").on({"cuda"})
    assert isinstance(found, inductor.InductorOfGpu)
    return found


def test_which_devices_it_takes() -> None:
    backend = get("inductor")
    assert backend.on({"cpu"}) is backend
    assert backend.on(()) is backend
    assert [backend.takes(kinds) for kinds in ({"cpu"}, {"cuda"}, {"cpu", "cuda"}, {"xla"})] == [
        True,
        True,
        False,
        False,
    ]
    assert (of_gpu().on({"cpu"}), of_gpu().name) == (of_gpu(), "inductor")
    mixed = Graph.from_json(graph_on("cuda:0").to_json(weights="none").replace('"cuda:0"', '"cpu"', 1))
    with pytest.raises(BackendError, match="takes tensors of cuda only; this has tensors of cpu, cuda"):
        _prepare.parts(mixed, of_gpu(), Options())


def test_it_says_what_it_needs(gpu: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if shutil.which("c++") is None and shutil.which("g++") is None:
        pytest.skip("needs a C++ compiler")
    assert of_gpu().usable() is None
    monkeypatch.setattr(inductor, "_has_headers", lambda: False)
    assert "headers of CUDA" in str(of_gpu().usable())
    assert "CUDA_HOME" in str(of_gpu().usable())
    monkeypatch.setattr(inductor, "installed", lambda package: package != "triton")
    assert "pip install triton" in str(of_gpu().usable())
    monkeypatch.setattr(inductor.shutil, "which", lambda name: None)
    assert "apt install g++" in str(of_gpu().usable())
    assert get("inductor").usable() == of_gpu().usable()
    graph = graph_on("cuda:0")
    with pytest.raises(BackendError, match=r"backend 'inductor' needs a C\+\+ compiler; run: apt install g\+\+"):
        get("inductor").compile(graph)
    handle = pool.submit(graph, "inductor")
    with pytest.raises(BackendError, match=r"backend 'inductor' needs a C\+\+ compiler; run: apt install g\+\+"):
        handle.wait(60)


def test_headers_are_found_where_torch_looks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("CUDA_HOME", "CUDA_PATH", "ROCM_HOME", "ROCM_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(inductor.shutil, "which", lambda name: None)
    is_dir = Path.is_dir
    monkeypatch.setattr(Path, "is_dir", lambda self: str(self).startswith(str(tmp_path)) and is_dir(self))
    assert not inductor._has_headers()
    (tmp_path / "include").mkdir()
    (tmp_path / "bin").mkdir()
    monkeypatch.setattr(inductor.shutil, "which", lambda name: str(tmp_path / "bin" / name))
    assert inductor._has_headers()
    monkeypatch.setattr(inductor.shutil, "which", lambda name: None)
    monkeypatch.setenv("CUDA_PATH", str(tmp_path))
    assert inductor._has_headers()


def test_auto_asks_it_only_where_it_can_answer(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for automatic in (True, False):
        asked = market.Market([get("inductor"), get("torchscript")], automatic=automatic)
        names = lambda kinds, asked=asked: [(name, type(each)) for name, each, _ in asked.candidates(kinds)]  # noqa: E731
        assert ("inductor", inductor.InductorOfGpu) in names({"cuda"})
        assert ("inductor", inductor.Inductor) in names({"cpu"})
        with monkeypatch.context() as patched:
            patched.setattr(inductor, "_has_headers", lambda: False)
            assert ("inductor" in dict(names({"cuda"}))) is not automatic
            assert "inductor" in dict(names({"cpu"}))
        assert ("torchscript" in dict(names({"cuda"}))) is not automatic
        assert not asked._has_free_sizes({"cuda"})
        assert asked._has_free_sizes({"cpu"})


def test_code_is_kept_for_one_kind_of_gpu(gpu: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key of what is kept changes with each of these, and with nothing else."""
    monkeypatch.setattr(_kept_plans, "is_on", lambda: True)
    count = iter(range(100))

    def key(graph: Graph) -> str:
        directory = tmp_path / str(next(count))
        directory.mkdir()
        worker.write_job(graph, of_gpu(), Options(threads=1), 0, directory)
        return _kept_plans.key_of_job(directory)

    graph = graph_on("cuda:0")
    assert key(graph) == key(graph)
    found = {key(graph), key(Graph.from_json(graph.to_json(weights="none").replace("cuda:0", "cuda:1")))}
    for holder, name, other in (
        (gpu.facts, "name", "Another"),
        (gpu.facts, "minor", 3),
        (gpu.facts, "multi_processor_count", 78),
        (gpu, "driver", 12080),
        (gpu, "triton", "3.6"),
        (torch.version, "cuda", "12.8"),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(holder, name, other)
            found.add(key(graph))
    assert len(found) == 8
    assert key(graph) in found
    job = json.loads((tmp_path / "0" / worker.JOB).read_text())
    assert job["machine"]["device"] == 0
    assert job["machine"]["capability"] == [9, 0]


def test_who_won_is_kept_for_one_kind_of_gpu(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_kept_plans, "is_on", lambda: True)
    asked = market.Market([get("inductor")], turns=True, automatic=True)
    segment: Any = types.SimpleNamespace(partition=None, graph=graph_on("cuda:0"))
    candidates = list(asked.candidates({"cuda"}))
    before = asked._key(segment, candidates)
    assert before == asked._key(segment, candidates)
    gpu.facts.name = "Another"
    assert before != asked._key(segment, candidates)


def test_tensors_of_several_gpus(gpu: Any) -> None:
    text = graph_on("cuda:0").to_json(weights="none")
    graph = Graph.from_json(text.replace('"cuda:0"', '"cuda:1"', 1))
    assert of_gpu().machine(graph) == {}
    with pytest.raises(BackendError, match="takes tensors of one GPU; here are cuda:0, cuda:1"):
        of_gpu().begin(graph)


def test_a_process_that_compiles_leaves_memory_to_the_program(gpu: Any) -> None:
    of_gpu().begin(graph_on("cuda:1"))
    assert gpu.set == {"device": 1, "index": 1, "part": 0.25}  # half of the 8 GiB that are free, of 16
    gpu.free = 100
    with pytest.raises(BackendError, match="would take 0 MiB for weights while it compiles"):
        of_gpu().begin(graph_on("cuda:1"))
    assert not of_gpu().bounded  # a driver maps more than it holds


def test_kernels_are_kept_where_triton_keeps_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("TRITON_CACHE_DIR", "TRITON_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert of_gpu().variables() == {"TRITON_CACHE_DIR": str(tmp_path / ".triton" / "cache")}
    monkeypatch.setenv("TRITON_HOME", str(tmp_path / "other"))
    assert of_gpu().variables() == {"TRITON_CACHE_DIR": str(tmp_path / "other" / ".triton" / "cache")}
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "third"))
    assert of_gpu().variables() == {"TRITON_CACHE_DIR": str(tmp_path / "third")}
    assert get("inductor").variables() == {}


def test_the_process_is_told(gpu: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It gets Triton's directory, and no limit of memory that a driver could not live with."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    started: dict[str, Any] = {}

    def start(command: Any, env: Any, **more: Any) -> Any:
        started.update(env=env, job=json.loads((Path(command[-1]) / worker.JOB).read_text()))
        raise OSError("it is not started")

    monkeypatch.setattr(pool.subprocess, "Popen", start)
    graph = graph_on("cuda:0")
    handle = pool.submit(
        replace(graph, data={each.name: torch.zeros(each.shape) for each in graph.parameters}), "inductor"
    )
    with pytest.raises(BackendError, match="it is not started"):
        handle.wait(60)
    assert started["env"]["TRITON_CACHE_DIR"] == str(tmp_path / "triton")
    assert os.environ.get("TORCHINDUCTOR_CACHE_DIR") != started["env"]["TORCHINDUCTOR_CACHE_DIR"]
    assert started["job"]["memory"] == 0
    assert started["job"]["machine"]["driver"] == 13000


def test_what_data_decide_is_left_to_torch(gpu: Any) -> None:
    """Indices are looked at by the kernels themselves."""
    table = torch.randn(5, 3)
    whole = graph_on("cuda:0", lambda at: torch.nn.functional.embedding(at, table).exp() * 2, torch.tensor([1, 2]))
    assert of_gpu().lacks(whole) == ()
    assert of_gpu().raises
    cut = graph_on("cuda:0", lambda x: (x * 3).to(torch.int64) * 2 + 1, torch.ones(3))
    assert [node.op for node in of_gpu().lacks(cut)] == ["astype"]
    assert get("inductor").lacks(cut) == ()
