"""Records and replays single calls through the adapter, without the core."""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import operator
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from pijit import _core

CALL, GETATTR, SETATTR, BINARY, UNARY, COMPARE, SUBSCR, STORE, BOOL, LEN, ITER, UNPACK, CONTAINS = range(13)

BINARY_OPERATORS = {
    "+": 0, "&": 1, "//": 2, "<<": 3, "@": 4, "*": 5, "%": 6, "|": 7, "**": 8, ">>": 9, "-": 10, "/": 11, "^": 12,
}  # fmt: skip
BINARY_FUNCTIONS = [
    operator.add, operator.and_, operator.floordiv, operator.lshift, operator.matmul, operator.mul, operator.mod,
    operator.or_, operator.pow, operator.rshift, operator.sub, operator.truediv, operator.xor,
    operator.iadd, operator.iand, operator.ifloordiv, operator.ilshift, operator.imatmul, operator.imul, operator.imod,
    operator.ior, operator.ipow, operator.irshift, operator.isub, operator.itruediv, operator.ixor,
]  # fmt: skip
COMPARE_FUNCTIONS = [operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge]
UNARY_FUNCTIONS = [operator.neg, operator.pos, operator.invert, operator.not_]


class NotRecorded(Exception):
    """The adapter did not take the call; the argument says why."""


def _compile() -> str | None:
    compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        return None
    here = Path(__file__).parent
    root = here.parent.parent / "csrc"
    out = Path(tempfile.mkdtemp()) / ("harness" + importlib.machinery.EXTENSION_SUFFIXES[0])
    include = sysconfig.get_paths()["include"]
    command = [compiler, "-std=c++20", "-O1", "-shared", "-fPIC", "-fvisibility=hidden", f"-I{root}", f"-I{include}"]
    subprocess.run([*command, str(here / "harness.cpp"), "-o", str(out)], check=True)
    return str(out)


def load() -> Any:
    """The harness, connected to the adapter; None without a compiler."""
    path = os.environ.get("PIJIT_TEST_HARNESS") or _compile()
    if path is None:
        return None
    spec = importlib.util.spec_from_file_location("harness", path)
    assert spec is not None
    assert spec.loader is not None
    harness = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(harness)
    from pijit import _adapters

    _adapters.ensure()
    adapter = _adapters.module("torch")
    assert adapter is not None
    core = types.ModuleType("pijit._core")
    core.attach_adapter = harness.connect  # type: ignore[attr-defined]
    before = sys.modules.get("pijit._core")
    sys.modules["pijit._core"] = core
    try:
        adapter.attach()
    finally:
        if before is None:
            del sys.modules["pijit._core"]
        else:
            sys.modules["pijit._core"] = before
    return harness


class Trace:
    """One recorded call."""

    def __init__(self, harness: Any, handle: Any, result: Any) -> None:
        self.harness, self.handle, self.result = harness, handle, result

    def __call__(self, *operands: Any) -> Any:
        return self.harness.replay(self.handle, operands)

    def __str__(self) -> str:
        return "; ".join(self.harness.describe(self.handle))


class Calls:
    """Records single calls."""

    def __init__(self, harness: Any) -> None:
        self.harness = harness

    def site(
        self,
        kind: int,
        operands: tuple[Any, ...],
        execute: Callable[[], Any],
        *,
        callable: Any = None,
        name: str | None = None,
        oparg: int = 0,
        kwnames: tuple[str, ...] | None = None,
        dynamic: bool = False,
    ) -> Trace:
        if _core.hook_rests():  # what is to wake it is a callback of torch's profiler, as a profiler is
            torch.zeros(1).add_(1)
        handle, why, result = self.harness.record(kind, callable, name, oparg, operands, kwnames, execute, dynamic)
        if handle is None:
            raise NotRecorded(why)
        return Trace(self.harness, handle, result)

    def call(self, function: Any, *args: Any, dynamic: bool = False, **kwargs: Any) -> Trace:
        operands = (*args, *kwargs.values())
        names = tuple(kwargs) or None
        return self.site(
            CALL, operands, lambda: function(*args, **kwargs), callable=function, kwnames=names, dynamic=dynamic
        )

    def attribute(self, name: str, owner: Any) -> Trace:
        return self.site(
            GETATTR, (owner,), lambda: getattr(owner, name), callable=getattr(type(owner), name, None), name=name
        )

    def binary(self, oparg: int, a: Any, b: Any, dynamic: bool = False) -> Trace:
        return self.site(BINARY, (a, b), lambda: BINARY_FUNCTIONS[oparg](a, b), oparg=oparg, dynamic=dynamic)

    def compare(self, oparg: int, a: Any, b: Any) -> Trace:
        return self.site(COMPARE, (a, b), lambda: COMPARE_FUNCTIONS[oparg](a, b), oparg=oparg)

    def unary(self, oparg: int, a: Any) -> Trace:
        return self.site(UNARY, (a,), lambda: UNARY_FUNCTIONS[oparg](a), oparg=oparg)

    def index(self, owner: Any, index: Any, dynamic: bool = False) -> Trace:
        return self.site(SUBSCR, (owner, index), lambda: owner[index], dynamic=dynamic)

    def store(self, owner: Any, index: Any, value: Any, dynamic: bool = False) -> Trace:
        return self.site(STORE, (owner, index, value), lambda: operator.setitem(owner, index, value), dynamic=dynamic)


def same(a: Any, b: Any) -> bool:
    """Bit for bit: type, dtype, sizes, strides, requires_grad, content."""
    if type(a) is not type(b):
        return False
    if isinstance(a, torch.Tensor):
        facts = [(t.dtype, t.shape, t.stride(), t.requires_grad, t.device, t.is_leaf) for t in (a, b)]
        if facts[0] != facts[1] or type(a.grad_fn) is not type(b.grad_fn):
            return False
        return bool(torch.equal(torch.nan_to_num(a.detach()), torch.nan_to_num(b.detach())))
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float):
        return a == b or (a != a and b != b)
    return bool(a == b)
