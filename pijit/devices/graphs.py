"""CUDA graphs on another device: a list of operators, which a replay calls again into the same memory.

1. A capture executes nothing, as far as the program can see: what the operators wrote to tensors that were there before
   is written back at its end, and so is the state of the generator.
2. An operator that makes tensors makes new ones in a replay, which are copied into those of the capture: whoever holds
   these sees what the replay computed. One that writes writes again; a view is a view still.
3. Operators are taken below autograd and autocast: a backward pass within the capture is in the list, too.
"""

from types import TracebackType
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode


class _Capture(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Writes down what operators are called with and give, and keeps what they write over."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[tuple[Any, Any, Any, Any]] = []
        self._made: set[int] = set()  # storages
        self._before: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._generator = torch.get_rng_state()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        returns = [each.alias_info for each in func._schema.returns]
        written = [each.name for each in func._schema.arguments if each.alias_info and each.alias_info.is_write]
        if written:
            names = [each.name for each in func._schema.arguments]
            self._keep([{**dict(zip(names, args, strict=False)), **kwargs}.get(name) for name in written])
        out = func(*args, **kwargs)
        if not returns or written or not all(returns):  # no mere view
            self.calls.append((func, args, kwargs, None if written else out))
        if not written and not any(returns):
            self._made.update(map(_storage, _tensors(out)))
        return out

    def _keep(self, written: Any) -> None:
        for tensor in _tensors(written):
            if _storage(tensor) not in self._made:
                self._before.append((tensor, tensor.detach().clone()))

    def undo(self) -> None:
        """Nothing was executed."""
        with torch.no_grad():
            for tensor, before in reversed(self._before):
                tensor.copy_(before)
        torch.set_rng_state(self._generator)


def _tensors(values: Any) -> list[torch.Tensor]:
    return [each for each in pytree.tree_leaves(values) if isinstance(each, torch.Tensor)]


def _storage(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


class CUDAGraph:
    """The operators of a capture."""

    def __init__(self, keep_graph: bool = False) -> None:
        self._capture: _Capture | None = None
        self._calls: list[tuple[Any, Any, Any, Any]] = []

    def capture_begin(self, *args: Any, **kwargs: Any) -> None:
        """Operators are captured from now on."""
        self._capture = _Capture()
        self._capture.__enter__()  # type: ignore[no-untyped-call]

    def capture_end(self) -> None:
        """Operators are no longer captured."""
        capture, self._capture = self._capture, None
        assert capture is not None, "no capture has begun"
        capture.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        capture.undo()
        self._calls = capture.calls

    def replay(self) -> None:
        """Call the operators again."""
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            for func, args, kwargs, out in self._calls:
                again = func(*args, **kwargs)
                for old, new in zip(_tensors(out), _tensors(again), strict=False):
                    if old is not new:
                        old.copy_(new)

    def reset(self) -> None:
        """Forget them."""
        self._calls = []

    def pool(self) -> tuple[int, int]:
        """There is one memory."""
        return graph_pool_handle()

    def instantiate(self) -> None:
        """It is ready."""

    def enable_debug_mode(self) -> None:
        """There is nothing to dump."""

    def debug_dump(self, debug_path: str) -> None:
        """There is nothing to dump."""


class graph:
    """`with torch.cuda.graph(g):`."""

    def __init__(self, cuda_graph: CUDAGraph, *args: Any, **kwargs: Any) -> None:
        self._graph = cuda_graph

    def __enter__(self) -> None:
        self._graph.capture_begin()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._graph.capture_end()


def graph_pool_handle() -> tuple[int, int]:
    """There is one memory."""
    return 0, 0


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    """Where optimizers keep their steps in tensors if they are asked to."""
    return ["cpu", "cuda", "xpu", "mps", "hpu", "xla"]
