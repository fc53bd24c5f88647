"""Torch traces functions for pijit apart from what other threads trace and compile.

While a tracer of FX is at work it puts functions of its own into the class `torch.nn.Module`, and says that something
is traced. It does so for modules that become nodes, which those of `make_fx` never do. Code of other threads would run
through these functions, what is compiled there would be refused, and recordings rely on the class as it is.

`make_fx` keeps the tracer that is at work in one place for all threads, where the operators of higher order look it up.
So one thread traces at a time, and none compiles with Dynamo meanwhile: Dynamo has a lock for that.

Called outside of a compiled function, an operator of higher order compiles its functions with Dynamo. What other calls
have left compiled there would be asked whether it fits, and that fixes a free size to the one of those calls. So each
call of such an operator has a compiler of its own, which nothing was compiled with before.
"""

import functools
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_here = threading.local()
# Held as long as the lock of Dynamo, and taken for a fork: a child would wait forever for what a thread of ours held.
_unforked = threading.Lock()


@contextmanager
def apart() -> Iterator[None]:
    """In this thread `make_fx` changes nothing that other threads see."""
    from torch._dynamo.convert_frame import compile_lock

    _install()
    if _is_apart():
        yield
        return
    while True:
        _unforked.acquire()
        if compile_lock.acquire(blocking=False):
            break
        # The thread that compiles may fork, and would wait for us.
        _unforked.release()
        time.sleep(0.001)
    _here.apart = True
    try:
        yield
    finally:
        _here.apart = False
        compile_lock.release()
        _unforked.release()


def _is_apart() -> bool:
    return getattr(_here, "apart", False)


@functools.cache
def _install() -> None:
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
    _install_tracer()
    _install_compiler()


def _before_fork() -> None:
    if not _is_apart():  # what is traced may fork
        _unforked.acquire()


def _after_fork() -> None:
    if not _is_apart():
        _unforked.release()


def _install_tracer() -> None:
    from torch.fx.experimental.proxy_tensor import PythonKeyTracer

    theirs = PythonKeyTracer.trace

    def trace(self: Any, root: Any, concrete_args: Any = None) -> Any:
        if not _is_apart() or not hasattr(root, "__code__"):
            return theirs(self, root, concrete_args)
        return _graph_of(self, root, concrete_args)

    PythonKeyTracer.trace = trace  # type: ignore[method-assign]


def _install_compiler() -> None:
    import torch._dynamo.convert_frame
    from torch._higher_order_ops import utils

    convert_frame: Any = torch._dynamo.convert_frame
    environment = utils.setup_compilation_env
    reasons = convert_frame.get_and_maybe_log_recompilation_reasons

    @contextmanager
    @functools.wraps(environment)
    def setup_compilation_env() -> Iterator[Any]:
        with environment() as backend:
            # By identity, Dynamo tells compilers apart.
            yield functools.partial(backend) if _is_apart() else backend

    @functools.wraps(reasons)
    def get_and_maybe_log_recompilation_reasons(*args: Any, **kwargs: Any) -> list[str]:
        # For a log, Dynamo asks each compiled function, those of other compilers as well.
        return [] if _is_apart() else reasons(*args, **kwargs)

    utils.setup_compilation_env = setup_compilation_env
    convert_frame.get_and_maybe_log_recompilation_reasons = get_and_maybe_log_recompilation_reasons


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
