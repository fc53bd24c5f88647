"""The import hook that attaches adapters, with frameworks made up here."""

import importlib
import importlib.util
import logging
import sys
import types

import pytest

from pijit import _adapters
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
    monkeypatch.setattr(_adapters, "ADAPTERS", {FRAMEWORK: ADAPTER})
    monkeypatch.setattr(_adapters, "_attached", set())
    monkeypatch.setattr(_adapters, "_failed", {})
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


@pytest.mark.parametrize("error", [ImportError, RuntimeError])
def test_another_version(world, caplog, error):
    def attach():
        raise error("other ABI")

    world.attach = attach
    world.built_against = lambda: "1.9"
    _adapters.ensure()
    with caplog.at_level(logging.WARNING, "pijit"):
        importlib.import_module(FRAMEWORK)
    (record,) = caplog.records
    says = f"was built against {FRAMEWORK} 1.9, and {FRAMEWORK} 2.0 is imported; run: pip install --no-build-isolation"
    assert record.name == "pijit"
    assert says in record.getMessage()
    for _ in range(2):
        with pytest.raises(AdapterError, match=says):
            _adapters.ensure()
    assert not watching()


def test_no_adapter(world, monkeypatch):
    monkeypatch.setattr(_adapters, "ADAPTERS", {FRAMEWORK: "pijit_adapter_that_was_not_built"})
    importlib.import_module(FRAMEWORK)
    with pytest.raises(AdapterError, match=f"was built without {FRAMEWORK}, and {FRAMEWORK} 2.0 is imported; run: pip"):
        _adapters.ensure()


def test_an_adapter_that_does_not_load(world, monkeypatch, tmp_path):
    (tmp_path / "pijit_broken_adapter.py").write_text("raise ImportError('undefined symbol')\n")
    monkeypatch.setattr(_adapters, "ADAPTERS", {FRAMEWORK: "pijit_broken_adapter"})
    importlib.import_module(FRAMEWORK)
    with pytest.raises(AdapterError, match=r"does not load with .* \(undefined symbol\)"):
        _adapters.ensure()


def test_a_half_imported_framework_is_left_alone(world, tmp_path):
    (tmp_path / f"{FRAMEWORK}.py").write_text("from pijit import _adapters\n_adapters.ensure()\n__version__ = '2.0'\n")
    importlib.import_module(FRAMEWORK)
    assert world.calls == 0
    _adapters.ensure()
    assert world.calls == 1
