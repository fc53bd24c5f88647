"""The modules of a call: what they and their parameters are called."""

from collections.abc import Mapping
from typing import Any

from pijit import _torch_objects
from pijit.graph.model.regions import ClassName


class Modules:
    """The modules of a call: their paths, and those of their parameters.

    `tops` are modules with the prefix of their paths ("" for the one that is captured itself).
    """

    def __init__(self, tops: Mapping[str, Any]) -> None:
        self.paths: dict[int, str] = {}
        self.types: dict[str, str] = {}
        self.tensors: dict[int, tuple[str, str, Any]] = {}
        for prefix, top in tops.items():
            dot = f"{prefix}." if prefix else ""
            for path, module in top.named_modules():
                name = f"{dot}{path}".rstrip(".")
                self.paths.setdefault(id(module), name)
                self.types.setdefault(name, ClassName.of(type(module)))
            for path, role, tensor in _torch_objects.named_tensors(top):
                self.tensors.setdefault(id(tensor), (dot + path, role, tensor))
