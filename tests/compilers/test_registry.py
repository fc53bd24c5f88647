"""The list of backends, functions that a program registers, and the entry points of other packages."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint
from typing import Any

import pytest

import pijit
from pijit import _backend_names, compilers
from pijit.compilers import Backend, Options, Plan, get
from pijit.errors import BackendError, UsageError


@pytest.fixture(autouse=True)
def _registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_backend_names, "registered", {})


def test_every_file_of_a_backend_is_in_the_list() -> None:
    import pkgutil

    helpers = {"market", "registered", "worker", "pool"}
    files = {each.name for each in pkgutil.iter_modules(compilers.__path__) if not each.name.startswith("_")}
    assert files - helpers == set(compilers.OWN)
    for name in compilers.OWN:
        backend = get(name)
        assert backend.name == name
        assert backend.doc
        assert backend.install.startswith("pip install")


def test_listing_imports_nothing() -> None:
    program = (
        "import sys, pijit; print(pijit.backends()); "
        "wrong = {'torch', 'jax', 'onnx', 'onnxruntime', 'openvino', 'iree', 'tvm', 'numpy'} & sys.modules.keys(); "
        "assert not wrong, wrong"
    )
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "native" in done.stdout


def test_an_unknown_name_names_the_nearest() -> None:
    with pytest.raises(BackendError, match="the nearest is 'torchscript'"):
        get("torchscripts")
    with pytest.raises(KeyError, match="the nearest is 'xla'"):
        pijit.backends()["xlaa"]


def test_a_missing_package_gives_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = get("xla")
    monkeypatch.setattr(type(backend), "packages", ("a_package_that_is_not_there",))
    assert pijit.backends()["xla"] == "needs a_package_that_is_not_there; run: pip install 'jax[cpu]'"
    x = pijit.graph.Value("x", "tensor", "input", "float32", (2,))
    with pytest.raises(BackendError, match=r"needs a_package_that_is_not_there; run: pip install 'jax\[cpu\]'"):
        backend.compile(pijit.graph.Graph("same", (x,), (), (), x))


def test_wrong_use_says_what_to_do() -> None:
    with pytest.raises(UsageError, match="pijit's own"):
        pijit.register_backend("native", lambda module, inputs: module)
    with pytest.raises(UsageError, match="takes a function"):
        pijit.register_backend("mine", None)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="takes a name"):
        pijit.register_backend(lambda module, inputs: module, "mine")  # type: ignore[arg-type]


@pytest.mark.torch
def test_a_registered_function_is_given_what_torch_compile_gives() -> None:
    torch = pytest.importorskip("torch")
    seen: list[Any] = []

    def compiler(module: Any, examples: Any) -> Any:
        seen.append((module, examples))
        assert all("val" in node.meta for node in module.graph.nodes if node.op == "call_function")
        return module.forward

    pijit.register_backend("mine", compiler)
    assert pijit.backends()["mine"] == "usable"
    layer = torch.nn.Linear(3, 2)
    with torch.no_grad():
        graph = pijit.graph.capture(layer, torch.ones(4, 3))
        plan = get("mine").compile(graph)
        for factor in (1.0, 2.0):
            layer.weight.mul_(factor)
            x = torch.randn(4, 3)
            assert torch.equal(plan(x)[0], layer(x))
    assert [tuple(each.shape) for each in seen[0][1]] == [(2, 3), (2,), (4, 3)]


@pytest.mark.torch
def test_what_a_registered_function_raises_is_a_backend_error() -> None:
    torch = pytest.importorskip("torch")
    graph = pijit.graph.capture(torch.relu, torch.ones(2))

    def compiler(module: Any, examples: Any) -> Any:
        raise ZeroDivisionError("no")

    for made in (compiler, lambda module, examples: 3):
        pijit.register_backend("broken", made)
        with pytest.raises(BackendError, match="'broken'"):
            get("broken").compile(graph)


class _Constant(Backend):
    name = "constant"
    doc = "gives ones"
    packages = ()

    def make(self, graph: Any, options: Options) -> Plan:
        import torch

        return Plan(self.name, lambda *inputs: (torch.ones(2),), results=())


@pytest.mark.torch
def test_entry_points_of_both_groups_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    points = {
        "pijit.backends": [
            EntryPoint("constant", f"{__name__}:_Constant", "pijit.backends"),
            EntryPoint("gone", "not_there_at_all:x", "pijit.backends"),
        ],
        "torch_dynamo_backends": [EntryPoint("forward", "operator:attrgetter", "torch_dynamo_backends")],
    }
    monkeypatch.setattr(_backend_names, "entry_points", lambda group: points[group])
    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__] if __name__ in sys.modules else None)
    states = pijit.backends()
    assert {"constant", "gone", "forward"} <= set(states)
    with pytest.raises(BackendError, match="does not load: ModuleNotFoundError"):
        get("gone")
    assert get("forward").doc.endswith("for torch.compile")
    monkeypatch.setattr(EntryPoint, "load", lambda self: _Constant if self.name == "constant" else _plain)
    graph = pijit.graph.capture(torch.relu, torch.ones(2))
    for _ in range(2):
        assert get("constant").compile(graph)(torch.zeros(2))[0].tolist() == [1, 1]
        assert get("forward").compile(graph)(torch.tensor([-1.0, 2.0]))[0].tolist() == [0, 2]


def _plain(module: Any, examples: Any) -> Any:
    return module.forward


def test_the_table_in_the_readme_is_current() -> None:
    from backends_table import README, written

    if not README.exists():
        pytest.skip("the tests run without the source tree")
    text = README.read_text(encoding="utf-8")
    assert written(text) == text, "run `make docs`"
    assert written(written(text)) == text
    assert all(f"| `{name}` |" in text for name in compilers.OWN)
