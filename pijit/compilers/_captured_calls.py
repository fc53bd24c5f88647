"""Compiled code for a GPU under a graph of pijit's own: its kernels are launched at once, as operators are.

The rules are those of `cudagraphs`. What differs:
1. The code is one C function of a list of tensors, which is called for the capture with the GIL held. What it gives
   elsewhere and what its graph gives are equal bits, or there is no graph.
2. While nothing is captured, the code answers itself. So it does where nothing can be captured, or where a graph wins
   nothing beside it.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from pijit.compilers import _torch
from pijit.compilers._base import Declines
from pijit.compilers.cudagraphs import Captured, adapter
from pijit.errors import BackendError

_log = logging.getLogger("pijit")


class Compiled(Protocol):
    """What a compiler has made.

    Attributes:
        call: a function of C, which keeps the GIL: takes a list of contiguous tensors, which it may empty, and gives
            its results in a sequence. It launches on the current stream of the current device.
        first: come before the inputs.
    """

    call: Callable[[list[Any]], Sequence[Any]]
    first: Sequence[Any]

    def rebind(self, weights: Mapping[str, Any]) -> bool:
        """Read these weights from now on; they are shared."""


class CapturedCall(Captured):
    """Compiled code, and what was captured of it.

    Attributes:
        why_not: no graph answers for it; "": one may.
    """

    of_launching = 1.0  # it was measured as it would be called

    def __init__(self, compiled: Compiled, device: str, draws: bool = False) -> None:
        super().__init__(None, device, draws)
        self._compiled: Compiled | None = compiled
        self.why_not = ""

    def run(self, *inputs: Any) -> tuple[Any, ...]:
        """As the code gives."""
        import torch

        aligned, kind = _torch.aligned, self._device.type
        given = [aligned(each.contiguous()) for each in inputs]
        if not torch.is_autocast_enabled(kind):
            return self._run(given)
        with torch.autocast(kind, enabled=False):  # the code has the dtypes that autocast has chosen
            return self._run(given)

    def _run(self, given: Sequence[Any]) -> tuple[Any, ...]:
        if self.why_not:
            return self._operators(given)
        before = self._drawn()
        try:
            return super().run(*given)
        except Declines:  # the graph is captured, or the form is a new one
            pass
        except BackendError as error:
            self.why_not = str(error)
            _log.info("pijit: compiled code runs without a graph: %s", error)
            self.close_graphs()
        self._put_back(before)
        return self._operators(given)

    def rebind(self, weights: Mapping[str, Any]) -> bool:
        """Read these weights from now on; whether they are shared."""
        self.close_graphs()
        return False if self._compiled is None else self._compiled.rebind(weights)

    def close(self) -> None:
        self.close_graphs()
        self._compiled = None

    def close_graphs(self) -> None:
        """Give their memory back."""
        super().close()

    def _given(self, inputs: Sequence[Any]) -> tuple[Callable[[list[Any]], Sequence[Any]], list[Any]]:
        """The function, and its list."""
        compiled = self._compiled
        if compiled is None:
            raise BackendError("this plan is closed; compile the graph again")
        return compiled.call, [*compiled.first, *inputs]

    def _operators(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        import torch

        call, given = self._given(inputs)
        if torch.accelerator.current_device_index() == self._index:
            return tuple(call(given))
        with torch.accelerator.device_index(self._index):
            return tuple(call(given))

    def _may_lend(self, form: Any) -> bool:
        return form.once is None

    def _watched(self, operators: Callable[..., Sequence[Any]], given: Sequence[Any]) -> Any:
        operators(*given)
        return self._given

    def _launched(
        self, launches: Any, still: Sequence[Any], lent: Sequence[Any], bounds: Any, ended: list[bool]
    ) -> Sequence[Any]:
        call, given = launches(still)
        targets = tuple(None if kept is None else kept.tensor for kept in lent)
        made: Sequence[Any] = adapter().capture_call(call, given, targets, *bounds, ended)
        return made
