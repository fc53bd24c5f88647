"""Which adapter is for the torch that is imported, before anything of it is loaded.

First comes the one that the user had built (`python -m pijit build`), then the one that came with pijit. A torch for
which there is none runs as under plain Python.
"""

import importlib.util
import os
import re
import sys
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from pijit import _adapter_cache, _torches

BUILD = "python -m pijit build"


class Choice(NamedTuple):
    """The adapter of a framework: a module's name, its file (None: found by its name); or why there is none."""

    module: str
    file: Path | None = None
    why_none: str = ""


def choose(torch: ModuleType) -> Choice:
    """The adapter for a torch that is imported."""
    version, abi = facts(torch)
    return choose_for(version, abi)


def facts(torch: ModuleType) -> tuple[str, bool]:
    """The version of a torch that is imported, and whether it uses the C++11 ABI."""
    native = getattr(torch, "_C", None)
    return str(getattr(torch, "__version__", "")), bool(getattr(native, "_GLIBCXX_USE_CXX11_ABI", True))


def choose_for(version: str, abi: bool) -> Choice:
    """The adapter for a torch of this version and ABI."""
    name = f"pijit.{_torches.module_name(version)}"
    own, refused = _adapter_cache.file(version, abi), ""
    if os.path.isfile(own):  # of Path's own method a directory that cannot be entered is an error
        if not (refused := _adapter_cache.why_not(own)):
            return Choice(name, own)
        refused = f"; the one that was built is not used: {refused}"
    if abi and importlib.util.find_spec(name) is not None:
        return Choice(name)
    return Choice("", None, f"there is no adapter for torch {version} (there is one for {_has()}){refused}")


def _has() -> str:
    """For which torches this pijit came with an adapter."""
    return ", ".join(with_adapter()) or "none"


def with_adapter() -> list[str]:
    """The series of torch for which an adapter came with this pijit, in their order."""
    package = Path(__file__).parent
    names = {path.name.partition(".")[0] for end in EXTENSION_SUFFIXES[:1] for path in package.glob(f"_torch_*{end}")}
    minors = [name[1] for name in (re.fullmatch(r"_torch_(\d+_\d+)", name) for name in names) if name]
    return [minor.replace("_", ".") for minor in sorted(minors, key=lambda minor: [*map(int, minor.split("_"))])]


def load(choice: Choice) -> ModuleType:
    """The module of the adapter."""
    if choice.file is None:
        return importlib.import_module(choice.module)
    if choice.module in sys.modules:
        return sys.modules[choice.module]
    loader = ExtensionFileLoader(choice.module, str(choice.file))
    spec = importlib.util.spec_from_file_location(choice.module, choice.file, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    sys.modules[choice.module] = module
    return module
