"""Tests that the check of Python's layers sees each kind of breach, and only that."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

SPEC = importlib.util.spec_from_file_location("check_python_layers", Path(__file__).with_name("check_python_layers.py"))
assert SPEC is not None
assert SPEC.loader is not None
check = importlib.util.module_from_spec(SPEC)
sys.modules[SPEC.name] = check
SPEC.loader.exec_module(check)

PACKAGE = Path(__file__).parents[2] / "pijit"

FILES = {
    "__init__.py": "",
    "errors.py": "",
    "_core.pyi": "",
    "_config.py": "",
    "_verify.py": "",
    "api.py": "",
    "traces.py": "",
    "graph/__init__.py": "",
    "graph/model.py": "",
    "graph/text.py": "",
    "graph/traced.py": "",
    "compilers/__init__.py": "",
    "compilers/pool.py": "",
}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    facades = {"traces": ["graph.traced"], "graph.model": ["graph.text"]}
    monkeypatch.setattr(check, "FACADES", {name: check.Facade(frozenset(to), "") for name, to in facades.items()})
    monkeypatch.setattr(check, "LATE", {"_verify": "few programs need it"})
    for path, text in FILES.items():
        (tmp_path / "pijit" / path).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / "pijit" / path).write_text(text)
    return tmp_path / "pijit"


def complaints(root: Path, **texts: str) -> list[str]:
    """What is said of the package, but for rows that have no module here; `a__b` is the file a/b.py."""
    for name, text in texts.items():
        (root / f"{name.replace('__', '/')}.py").write_text(text)
    said = list(check.check_tree(root))
    return [each for each in said if "as the row says" not in each and "no such module" not in each]


def late(line: str) -> str:
    return f"def f():\n    {line}\n"


ALLOWED = [
    ("graph__a", "from pijit import _core, errors\nfrom pijit.graph.model import Graph\nimport pijit.traces"),
    ("graph__a", "from . import model\nfrom ..errors import PijitError\nfrom .model import Graph"),
    ("api", "from pijit.compilers import pool"),
    ("errors", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pijit.graph import Graph"),
    ("traces", late("from pijit.graph.traced import graph_of")),  # a façade
    ("api", late("from pijit import _verify")),  # a row of LATE
    ("graph__a", "import torch\nfrom pijit_other import x\n" + late("import numpy")),
]

FORBIDDEN = [
    ("errors", "from pijit import _core", "errors (errors) may not import _core (_core)"),
    ("graph__a", "from pijit.compilers import pool", "graph.a (graph) may not import compilers.pool (compilers)"),
    ("graph__a", "from ..compilers.pool import submit", "may not import compilers.pool"),
    ("graph__a", "import pijit.api", "may not import api"),
    ("graph__a", late("from pijit import api"), "graph.a (graph) may not import api (api)"),
    ("graph__a", "import pijit", "graph.a (graph) may not import pijit (pijit)"),
    ("graph__a", "class A:\n    " + late("from pijit.api import jit").replace("\n", "\n    "), "may not import api"),
    ("_config", late("from pijit.graph.traced import graph_of"), "may not import graph.traced"),
    ("api", late("from pijit.graph import text"), "api imports graph.text inside a function"),
    ("newcomer", "", "no layer has newcomer"),
]


@pytest.mark.parametrize(("name", "text"), ALLOWED)
def test_allowed(root: Path, name: str, text: str) -> None:
    assert complaints(root, **{name: text}) == []


@pytest.mark.parametrize(("name", "text", "complaint"), FORBIDDEN)
def test_forbidden(root: Path, name: str, text: str, complaint: str) -> None:
    (found,) = complaints(root, **{name: text})
    assert complaint in found


def test_a_complaint_names_file_and_line(root: Path) -> None:
    (found,) = complaints(root, graph__a="import os\nimport pijit.api\n")
    assert found.startswith("pijit/graph/a.py:2: ")


def test_a_circle_at_heads_is_seen(root: Path) -> None:
    (found,) = complaints(root, graph__a="from pijit.graph import text", graph__text="from pijit.graph import a")
    assert found == "pijit: these import each other in a circle: graph.a, graph.text"


def test_a_circle_through_a_function_is_seen(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(check.LATE, "graph.a", "it imports a framework")
    texts = {"graph__a": "from pijit.graph import text", "graph__text": late("from pijit.graph import a")}
    assert complaints(root, **texts) == ["pijit: these import each other in a circle: graph.a, graph.text"]


def test_a_circle_through_a_facade_does_not_count(root: Path) -> None:
    texts = {
        "graph__text": "from pijit.graph.model import x",
        "graph__model": late("from pijit.graph.text import y"),
    }
    assert complaints(root, **texts) == []


def test_a_row_that_nothing_needs_is_named(root: Path) -> None:
    said = list(check.check_tree(root))
    assert "pijit: nobody imports as the row says: graph.model -> graph.text" in said
    assert "pijit: nobody imports as the row says: _verify" in said
    assert "pijit: LAYERS names passes, and there is no such module" in said


def test_each_reason_is_a_text() -> None:
    reasons = [*check.LATE.values(), *(facade.reason for facade in check.FACADES.values())]
    assert all(len(reason.split()) > 2 for reason in reasons)


def test_the_package_itself() -> None:
    assert list(check.check_tree(PACKAGE)) == []
