"""The import hook that attaches adapters, with frameworks made up here."""

import importlib
import importlib.util
import logging
import re
import sys
import types

import pytest

import pijit
from pijit import _adapters, _core
from pijit._adapter_choice import Choice
from pijit.errors import AdapterError

FRAMEWORK = "pijit_made_up_framework"
ADAPTER = "pijit_made_up_adapter"


@pytest.fixture
def world(monkeypatch, tmp_path):
    """A framework that can be imported, its adapter, and nothing attached."""
    (tmp_path / f"{FRAMEWORK}.py").write_text("__version__ = '2.0'\n")
    adapter = types.ModuleType(ADAPTER)
    adapter.calls = 0

    def attach():
        adapter.calls += 1

    adapter.attach = attach
    adapter.built_against = lambda: "2.0"
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, ADAPTER, adapter)
    monkeypatch.setattr(_adapters, "ADAPTERS", {FRAMEWORK: lambda _: Choice(ADAPTER)})
    monkeypatch.setattr(_adapters, "_attached", set())
    for names in ("_failed", "_refused", "_modules"):
        monkeypatch.setattr(_adapters, names, {})
    monkeypatch.setattr(_adapters, "_finder", _adapters._Finder())
    monkeypatch.setattr(
        sys, "meta_path", [finder for finder in sys.meta_path if not isinstance(finder, _adapters._Finder)]
    )
    yield adapter
    sys.modules.pop(FRAMEWORK, None)


def watching():
    return _adapters._finder in sys.meta_path


def test_imported_before(world):
    importlib.import_module(FRAMEWORK)
    _adapters.ensure()
    _adapters.ensure()
    assert world.calls == 1
    assert not watching()


def test_imported_after(world):
    _adapters.ensure()
    assert world.calls == 0
    assert watching()
    module = importlib.import_module(FRAMEWORK)
    assert world.calls == 1
    assert not watching()
    assert module.__loader__ is module.__spec__.loader
    assert "exec_module" not in vars(module.__loader__)
    importlib.reload(module)
    assert world.calls == 1


def test_looking_for_it_imports_nothing(world):
    _adapters.ensure()
    assert importlib.util.find_spec(FRAMEWORK).name == FRAMEWORK
    assert importlib.util.find_spec("pijit_is_not_there") is None
    assert FRAMEWORK not in sys.modules
    assert world.calls == 0


def test_a_failed_import_is_waited_for_again(world, tmp_path):
    file = tmp_path / f"{FRAMEWORK}.py"
    good = file.read_text()
    file.write_text("raise ImportError('half installed')\n")
    _adapters.ensure()
    with pytest.raises(ImportError, match="half installed"):
        importlib.import_module(FRAMEWORK)
    assert watching()
    file.write_text(good + "# now whole\n")
    importlib.invalidate_caches()
    importlib.import_module(FRAMEWORK)
    assert world.calls == 1


def test_another_pijit(world, caplog):
    """The core does not take the adapter: it is broken."""

    def attach():
        raise ImportError("other pijit")

    world.attach = attach
    world.built_against = lambda: "1.9"
    _adapters.ensure()
    with caplog.at_level(logging.WARNING, "pijit"):
        importlib.import_module(FRAMEWORK)
    (record,) = caplog.records
    says = rf"was built against {FRAMEWORK} 1.9, and does not attach to 2.0 \(other pijit\); run: pip install"
    assert record.name == "pijit"
    assert re.search(says, record.getMessage())
    for _ in range(2):
        with pytest.raises(AdapterError, match=says):
            _adapters.ensure()
    assert not watching()


def none_there(monkeypatch):
    """There is no adapter for the framework."""
    monkeypatch.setattr(_adapters, "ADAPTERS", {FRAMEWORK: lambda _: Choice("", None, "there is no adapter for it")})
    return r"there is no adapter for it; everything runs in plain Python; .*, run: python -m pijit build"


def none_fits(monkeypatch, world):
    """The framework is laid out in another way than the adapter was built for."""

    def attach():
        raise RuntimeError("a tensor is not laid out as in 1.9")

    world.attach = attach
    return rf"the adapter does not fit {FRAMEWORK} 2.0: a tensor is not .*, run: python -m pijit build"


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("before", [False, True])
def test_without_one_everything_is_plain(world, monkeypatch, caplog, there, before):
    """One line says so, and nothing is replayed: neither what was jitted before the framework came nor after it."""
    says = none_fits(monkeypatch, world) if there else none_there(monkeypatch)
    ran = []

    def add(x):
        ran.append(x)
        return x + 1

    fast = pijit.jit(add)
    assert [fast(x) for x in (1, 1, 1)] == [2, 2, 2]
    assert pijit.status(fast).state == "replaying"
    if before:
        _adapters.ensure()
    with caplog.at_level(logging.WARNING, "pijit"):
        importlib.import_module(FRAMEWORK)
        for _ in range(2):
            _adapters.ensure()
            again = pijit.jit(add)
            pijit.enable()
    (record,) = caplog.records
    assert re.search(says, record.getMessage())
    assert not watching()
    assert not _core.hook_installed()
    for each in (fast, again):
        assert pijit.status(each).state == "disabled"
        assert re.search(says, pijit.status(each).reason)
        assert [each(x) for x in (2, 3)] == [3, 4]
        assert pijit.unjit(each) is each
    assert not pijit.enabled()
    assert ran == [1, 1, 1, 2, 3, 2, 3]
    with pytest.raises(AdapterError, match="strict=True cannot be had: .* python -m pijit build"):
        pijit.jit(add, strict=True)
    with pytest.raises(pijit.errors.ExportError, match="python -m pijit build"):
        pijit.graph.capture(add, 1)


def test_an_adapter_that_does_not_load(world, monkeypatch, tmp_path):
    (tmp_path / "pijit_broken_adapter.py").write_text("raise ImportError('undefined symbol')\n")
    monkeypatch.setattr(_adapters, "ADAPTERS", {FRAMEWORK: lambda _: Choice("pijit_broken_adapter")})
    importlib.import_module(FRAMEWORK)
    with pytest.raises(AdapterError, match=r"does not load with .* \(undefined symbol\)"):
        _adapters.ensure()


def test_a_half_imported_framework_is_left_alone(world, tmp_path):
    (tmp_path / f"{FRAMEWORK}.py").write_text("from pijit import _adapters\n_adapters.ensure()\n__version__ = '2.0'\n")
    importlib.import_module(FRAMEWORK)
    assert world.calls == 0
    _adapters.ensure()
    assert world.calls == 1
