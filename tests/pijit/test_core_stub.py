"""The stub of the core says what the core has."""

import ast
from pathlib import Path

import pijit
from pijit import _core


def test_every_function_of_the_stub_is_there():
    stub = ast.parse(Path(pijit.__file__).with_name("_core.pyi").read_text())
    functions = {
        part.name
        for part in stub.body
        if isinstance(part, ast.FunctionDef)
        or (isinstance(part, ast.ClassDef) and any(isinstance(row, ast.FunctionDef) for row in part.body))
    }
    assert functions == {name for name in dir(_core) if not name.startswith("_") and callable(getattr(_core, name))}
