"""Torch traces functions for pijit without what its tracer changes for all threads.

While a tracer of FX is at work it puts functions of its own into the class `torch.nn.Module`, and says that something
is traced. It does so for modules that become nodes, which those of `make_fx` never do. Code of other threads would run
through these functions, what is compiled there would be refused, and recordings rely on the class as it is.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

_here = threading.local()


@contextmanager
def apart() -> Iterator[None]:
    """In this thread `make_fx` changes nothing that other threads see."""
    _install()
    before = getattr(_here, "apart", False)
    _here.apart = True
    try:
        yield
    finally:
        _here.apart = before


@cache
def _install() -> None:
    from torch.fx.experimental.proxy_tensor import PythonKeyTracer

    theirs = PythonKeyTracer.trace

    def trace(self: Any, root: Any, concrete_args: Any = None) -> Any:
        if not getattr(_here, "apart", False) or not hasattr(root, "__code__"):
            return theirs(self, root, concrete_args)
        return _graph_of(self, root, concrete_args)

    PythonKeyTracer.trace = trace  # type: ignore[method-assign]


def _graph_of(tracer: Any, function: Any, concrete_args: Any) -> Any:
    """What `torch.fx.Tracer.trace` gives of a function."""
    import torch

    tracer.root = torch.nn.Module()
    tracer.graph = torch.fx.Graph(tracer_cls=type(tracer))
    tracer.tensor_attrs = {}
    function, args = tracer.create_args_for_root(function, False, concrete_args)
    tracer.create_node("output", "output", (tracer.create_arg(function(*args)),), {}, type_expr=None)
    tracer.submodule_paths = None
    return tracer.graph
