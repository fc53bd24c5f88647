"""The market that options ask for, such as `pijit.config.backend`: made when the first segment is offered.

`pijit.config.backend` may be set before a framework is imported, such as by the environment. Neither a framework nor a
compiler is imported for it.
"""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pijit.errors import BackendError

if TYPE_CHECKING:
    from pijit._core import Place
    from pijit.compilers.market import Market
    from pijit.segments import Outcome

_log = logging.getLogger("pijit")


class LazyMarket:
    """Takes offers for a market that need not be there yet.

    Args:
        names: as `pijit.config.backend`.
        dynamic: as for `pijit.jit`.
    """

    def __init__(self, names: str | tuple[str, ...], dynamic: bool | None = None) -> None:
        self.names = names
        self.dynamic = dynamic
        self._market: Market | None = None
        self._failed = False

    @property
    def market(self) -> "Market | None":
        """The market, if it was made."""
        return self._market

    @property
    def outcomes(self) -> "Sequence[Outcome]":
        """What became of the offers."""
        return [] if self._market is None else self._market.outcomes

    def compare(self, *given: Any) -> None:
        """As `Market.compare`: of a plan, so there is a market."""
        assert self._market is not None
        self._market.compare(*given)

    def __call__(self, place: "Place", inputs: tuple[Any, ...], outputs: tuple[Any, ...]) -> None:
        """An offer of the engine; a backend that cannot be had is said once, and native replay answers."""
        if self._market is None and not self._failed:
            from pijit.compilers import market

            try:
                self._market = market.market(self.names, dynamic=self.dynamic)
            except BackendError as error:
                self._failed = True
                _log.warning("pijit: option 'backend': %s", error)
        if self._market is not None:
            self._market(place, inputs, outputs)
