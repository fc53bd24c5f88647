"""The source of forms of the vocabulary, with all that it needs, as text of one file.

The forms of NumPy and JAX are methods of a class that is put together from many. Here the ones that are wanted become
one flat class; what they and their helpers name (functions, constants, imports) is copied with them, each once, before
what uses it. What is copied is found in the syntax trees of the modules; nothing of it runs.
"""

import ast
import functools
import importlib
import inspect
import textwrap
from collections.abc import Iterable
from types import ModuleType
from typing import NamedTuple

_PACKAGE = "pijit"


class Source(NamedTuple):
    """Pieces of a file: import lines; definitions in order; the class, of this name."""

    imports: set[str]
    definitions: list[str]
    forms: str


class _Module:
    """The names of a module's top level, with the statements that bind them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.text = inspect.getsource(importlib.import_module(name))
        self.bound: dict[str, ast.stmt] = {}
        self.classes: dict[str, dict[str, ast.stmt]] = {}
        for statement in ast.parse(self.text).body:
            for bound in _bound(statement):
                self.bound[bound] = statement
            if isinstance(statement, ast.ClassDef):
                self.classes[statement.name] = {name: each for each in statement.body for name in _bound(each)}

    def source(self, statement: ast.stmt) -> str:
        """The lines of a statement, its decorators and the comment above it left out only where there are none."""
        first = min([statement.lineno, *(each.lineno for each in getattr(statement, "decorator_list", ()))])
        lines = self.text.splitlines()[first - 1 : statement.end_lineno]
        return textwrap.dedent("\n".join(lines))


def _bound(statement: ast.stmt) -> list[str]:
    """The names that a statement binds."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return [statement.name]
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return [alias.asname or alias.name.partition(".")[0] for alias in statement.names]
    targets = [statement.target] if isinstance(statement, ast.AnnAssign) else getattr(statement, "targets", [])
    return [each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)]


@functools.cache
def _module(name: str) -> _Module:
    return _Module(name)


def source_of(forms: type, names: Iterable[str]) -> Source:
    """The source of some methods of a class of forms, as a class `Forms`."""
    return _Collector(forms).collect(names)


class _Collector:
    def __init__(self, forms: type) -> None:
        self.forms = forms
        self.imports: set[str] = set()
        self.definitions: list[str] = []
        self.spaces: dict[str, set[str]] = {}  # modules of pijit that are used by name, and what is used of them
        self.seen: set[tuple[str, str]] = set()
        self.pending: list[str] = []  # methods, also those that a function outside of the class calls

    def collect(self, names: Iterable[str]) -> Source:
        members: dict[str, str] = {}
        self.pending += names
        while self.pending:
            name = self.pending.pop()
            owner = next((kind for kind in self.forms.__mro__ if name in vars(kind)), None)
            if name in members or owner is None or owner is object:
                continue
            module = _module(owner.__module__)
            statement = module.classes[owner.__name__][name]
            members[name] = module.source(statement)
            self.needs(module, statement)
        # Constants first; methods in the order of their names.
        ordered = sorted(members.items(), key=lambda item: ("def " in item[1], item[0].lstrip("_"), item[0]))
        body = "\n\n".join(textwrap.indent(text, "    ") for _, text in ordered)
        spaces = [
            f"{space} = types.SimpleNamespace({', '.join(f'{name}={name}' for name in sorted(used))})"
            for space, used in self.spaces.items()
        ]
        if spaces:
            self.imports.add("import types")
        return Source(self.imports, [*self.definitions, *spaces], f"class Forms:\n{body or '    pass'}")

    def needs(self, module: _Module, statement: ast.stmt) -> None:
        """Copies what a statement names."""
        self.pending += [
            each.attr
            for each in ast.walk(statement)
            if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and each.value.id == "self"
        ]
        for each in ast.walk(statement):
            if isinstance(each, ast.Name) and each.id in module.bound:
                self.name(module, each.id)
        for each in ast.walk(statement):
            if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and each.value.id in self.spaces:
                bound = module.bound.get(each.value.id)
                if isinstance(bound, ast.ImportFrom):
                    self.spaces[each.value.id].add(each.attr)
                    self.name(_module(f"{bound.module}.{each.value.id}"), each.attr)

    def name(self, module: _Module, name: str) -> None:
        """Copies what binds a name at the top level of a module, and before it what that needs."""
        if (module.name, name) in self.seen:
            return
        self.seen.add((module.name, name))
        statement = module.bound[name]
        if isinstance(statement, ast.ImportFrom) and (statement.module or "").partition(".")[0] == _PACKAGE:
            if isinstance(getattr(importlib.import_module(statement.module or ""), name, None), ModuleType):
                self.spaces.setdefault(name, set())
            else:
                self.name(_module(statement.module or ""), name)
        elif isinstance(statement, ast.Import | ast.ImportFrom):
            alias = next(each for each in statement.names if (each.asname or each.name.partition(".")[0]) == name)
            said = f"import {alias.name}" + (f" as {alias.asname}" if alias.asname else "")
            start = f"from {statement.module} " if isinstance(statement, ast.ImportFrom) else ""
            self.imports.add(start + said)
        else:
            for other in _bound(statement):
                self.seen.add((module.name, other))
            self.needs(module, statement)
            self.definitions.append(module.source(statement))
