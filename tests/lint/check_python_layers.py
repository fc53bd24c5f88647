"""Checks pijit/ against the rules of the house: who may import whom, and that no modules import each other in a circle.

1. A module imports, at its head, from its own layer and from those below it.
2. An import inside a function is either a façade's (`FACADES`), or of a module that not every program pays for (`LATE`)
   and that stands in the importer's layer or below it.
3. No modules import each other in a circle, imports inside functions included; those of façades alone do not count.

An import for type checkers binds nothing when the program runs, and is free. What `importlib` imports by name, such as
formats and backends, is not seen.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

# From the bottom up: the name of a layer, and its modules and packages, without "pijit.".
LAYERS = (
    # Needs nothing of the native core; some of it runs where there is none.
    (
        "errors",
        "errors _version _path _built _installation _refuse_unbuilt _interpreter _usage_errors _availability _listing "
        "_verify _torches _adapter_cache _adapter_choice _backend_names _array_bytes _bare_objects _torch_objects "
        "_on_import _bundled _pandas",
    ),
    ("_core", "_core"),
    ("config", "_config _lazy_market _adapters _varying_sizes _left_whole"),
    ("traces", "traces segments _trace_imports _node_facts"),
    # What is recorded, and when it is replayed.
    ("roots", "_roots _switch _stance _marks _messages _signature _kept _profile"),
    ("graph", "graph"),
    ("passes", "passes"),
    ("_formats", "_formats"),
    ("compilers", "compilers"),
    ("api", "api _export _region _wait _bundle _lazy _lazy_modes _ahead"),
    ("devices", "devices"),
    ("tools", "tools"),
    ("pijit", "pijit __main__"),
)


class Facade(NamedTuple):
    """A module whose functions may import what stands above it, or what imports it."""

    targets: frozenset[str]
    reason: str


def _facade(targets: str, reason: str) -> Facade:
    return Facade(frozenset(targets.split()), reason)


FACADES = {
    "_lazy_market": _facade("compilers.market", "a market is made when the first segment is offered"),
    "_array_bytes": _facade(
        "graph.forms.mindspore_array", "arrays of MindSpore are read and made where their class is"
    ),
    "traces": _facade("graph.build.trace", "`Trace.graph()` leads from a trace to its graph"),
    "graph.model": _facade(
        "graph.model.branches graph.model.functional graph.model.memory graph.model.partition graph.run "
        "graph.show.drawing graph.show.page graph.show.text _formats.json",
        "the methods of `Graph` lead to what is done with one",
    ),
    "graph.forms.mindspore_array": _facade(
        "graph.forms.mindspore_indexing graph.forms.mindspore_namespace",
        "the operators of an `Array` are functions of its namespace, which computes with `Array`s",
    ),
    "_formats.shared_object": _facade(
        "compilers compilers._base compilers._prepare", "machine code is what a backend makes"
    ),
    "compilers._base": _facade(
        "compilers._partition compilers._prepare", "`Backend.compile` leads through all that a backend shares"
    ),
}

# Modules that are imported inside functions, and why not every program pays for them.
LATE = {
    "_bundled": "it imports torch",
    "_lazy_modes": "it imports torch",
    "_formats.fx.control_flow": "it imports torch",
    "_formats.mindspore.lower": "it imports MindSpore",
    "_formats.onnx.lower": "it imports ONNX",
    "_formats.stablehlo.lower": "it imports JAX",
    "graph.forms.mindspore_array": "it imports MindSpore",
    "compilers._gradient_plans": "it imports torch",
    "compilers": "only the subcommand `backends` lists them",
    "compilers.market": "only what is compiled needs threads, queues and processes",
    "_profile": "only a run with a profile needs it",
    "_verify": "only what is verified is compared",
    "passes": "only the subcommand `passes` lists them",
    "devices": "only a program that is moved needs it",
    "tools.build": "only the subcommand `build` needs it",
    "tools.chrome_trace": "only a report of this form needs it",
    "tools.doctor": "only its own subcommand, `env` and `demo` need it",
    "tools.kept": "only the subcommand `cache` needs it",
    "tools.page": "only a report of this form needs it",
    "tools.report_file": "only a run with a report needs it",
}


class Module(NamedTuple):
    """A file of the package: its name without "pijit.", and its text."""

    name: str
    path: str
    text: str
    is_package: bool


class Import(NamedTuple):
    """One import of another module of the package."""

    target: str
    line: int
    late: bool  # inside a function


def modules_of(root: Path) -> dict[str, Module]:
    """All modules of the package in the directory `root`, by their names; the package itself is "pijit"."""
    found = {}
    for file in sorted((*root.rglob("*.py"), *root.glob("*.pyi"))):
        parts = file.relative_to(root).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts) or "pijit"
        found[name] = Module(name, file.relative_to(root).as_posix(), file.read_text(encoding="utf-8"), is_package)
    return found


def imports_of(module: Module, names: Iterable[str]) -> list[Import]:
    """What a module imports of the package, but for what type checkers alone import.

    Args:
        module: the module.
        names: of all modules: `from pijit.a import b` is an import of `a.b` if there is such a module.
    """
    names = set(names)
    found: list[Import] = []

    def visit(node: ast.AST, late: bool) -> None:
        for inner in ast.iter_child_nodes(node):
            if isinstance(inner, ast.Import):
                own = (each.name for each in inner.names if each.name.partition(".")[0] == "pijit")
                found.extend(Import(_named(name, names), inner.lineno, late) for name in own)
            elif isinstance(inner, ast.ImportFrom):
                base = _base(module, inner)
                if base.partition(".")[0] == "pijit":
                    targets = (_named(f"{base}.{each.name}", names) for each in inner.names)
                    found.extend(Import(each, inner.lineno, late) for each in dict.fromkeys(targets))
            elif isinstance(inner, ast.If) and "TYPE_CHECKING" in ast.unparse(inner.test):
                for other in inner.orelse:
                    visit(other, late)
            else:
                visit(inner, late or isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda))

    visit(ast.parse(module.text), False)
    return [each for each in found if each.target != module.name]


def _base(module: Module, node: ast.ImportFrom) -> str:
    """The full name of what a `from` names."""
    if not node.level:
        return node.module or ""
    around = ["pijit", *([] if module.name == "pijit" else module.name.split("."))]
    up = node.level - 1 if module.is_package else node.level
    return ".".join([*around[: len(around) - up], *([node.module] if node.module else [])])


def _named(full: str, names: set[str]) -> str:
    """The longest beginning of a dotted name that is a module."""
    parts = full.split(".")[1:]
    while parts and ".".join(parts) not in names:
        parts.pop()
    return ".".join(parts) or "pijit"


def layer_of(name: str) -> int:
    """The number of a module's layer, from the bottom; -1: it has none."""
    top = name.partition(".")[0]
    return next((at for at, (_, members) in enumerate(LAYERS) if top in members.split()), -1)


def check_module(module: Module, imports: Iterable[Import]) -> Iterator[tuple[int, str]]:
    """Complaints about the imports of one module, with the line that they are about."""
    own = layer_of(module.name)
    if own < 0:
        yield 1, f"no layer has {module.name}: enter it in LAYERS"
        return
    facade = FACADES.get(module.name, Facade(frozenset(), ""))
    for target, line, late in imports:
        if late and target in facade.targets:
            continue
        if layer_of(target) > own:
            yield line, f"{module.name} ({LAYERS[own][0]}) may not import {target} ({LAYERS[layer_of(target)][0]})"
        elif late and target not in LATE:
            yield line, f"{module.name} imports {target} inside a function: do so at its head, or give a reason in LATE"


def circles(edges: Mapping[str, set[str]]) -> list[list[str]]:
    """The groups of modules that import each other, sorted, each by Tarjan's way through the graph of imports."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def go(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in sorted(edges.get(name, ())):
            if other not in index:
                go(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            at = stack.index(name)
            if len(group := stack[at:]) > 1:
                found.append(sorted(group))
            del stack[at:]

    for name in sorted(edges):
        if name not in index:
            go(name)
    return sorted(found)


def check_tree(root: Path) -> Iterator[str]:
    """Complaints about the package in the directory `root`, one line each."""
    modules = modules_of(root)
    edges: dict[str, set[str]] = {}
    used: set[str] = set()
    for module in modules.values():
        imports = imports_of(module, modules)
        for line, complaint in check_module(module, imports):
            yield f"{root.name}/{module.path}:{line}: {complaint}"
        facade = FACADES.get(module.name, Facade(frozenset(), ""))
        for target, _, late in imports:
            if late and target in facade.targets:
                used.add(f"{module.name} -> {target}")
                continue
            edges.setdefault(module.name, set()).add(target)
            if late:
                used.add(target)
    for group in circles(edges):
        yield f"{root.name}: these import each other in a circle: {', '.join(group)}"
    rows = {f"{name} -> {target}" for name, facade in FACADES.items() for target in facade.targets} | LATE.keys()
    yield from (f"{root.name}: nobody imports as the row says: {row}" for row in sorted(rows - used))
    members = {name for _, layer in LAYERS for name in layer.split()}
    tops = {name.partition(".")[0] for name in modules}
    yield from (f"{root.name}: LAYERS names {name}, and there is no such module" for name in sorted(members - tops))


def main() -> int:
    """Prints what is wrong with the package named on the command line; 1 if anything is."""
    complaints = list(check_tree(Path(sys.argv[1])))
    print("\n".join(complaints) or "python layers: ok")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
