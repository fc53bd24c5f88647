"""The stub of the core says what the core has."""

import ast
from pathlib import Path

import pijit
from pijit import _core


def test_every_function_of_the_stub_is_there():
    stub = ast.parse(Path(pijit.__file__).with_name("_core.pyi").read_text())
    functions = {part.name for part in stub.body if isinstance(part, ast.FunctionDef)}
    public = {name: getattr(_core, name) for name in dir(_core) if not name.startswith("_")}
    assert functions == {name for name, it in public.items() if callable(it) and not isinstance(it, type)}
    classes = {part.name: part for part in stub.body if isinstance(part, ast.ClassDef)}
    for name, it in public.items():
        if isinstance(it, type):
            methods = {part.name for part in classes[name].body if isinstance(part, ast.FunctionDef)}
            assert methods == {method for method in dir(it) if not method.startswith("_")}
