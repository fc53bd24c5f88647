"""`pijit.wait`: until compilers have done their work beside the program."""

import math
import sys

from pijit.errors import UsageError


def wait(timeout: float | None = None) -> bool:
    """Wait until nothing compiles any longer.

    Calls are answered meanwhile, and wait for nothing; this is for measuring, and for services that are to be warm
    before they take work. What the next calls bring counts, too: a function that was recorded offers what it does to
    compilers when it is replayed. Only calls bring that forward, so call again where this gives False.

    Args:
        timeout: seconds, 0 to ask only; None: as long as something compiles.

    Returns:
        True if nothing compiles. False if the time was over, or if something still comes with the next calls. For these
        it waits only if it was given a timeout, and the program has other threads that may call.

    Raises:
        UsageError: `timeout` is no such number.

    Example:
        >>> import pijit
        >>> fast = pijit.jit(lambda x: x + x, backend="native")
        >>> fast(2), fast(2)
        (4, 4)
        >>> pijit.wait(60)
        True
    """
    number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if timeout is not None and (not number or math.isnan(timeout) or timeout < 0):
        raise UsageError(f"pijit.wait(): timeout is a number of seconds from 0 on, or None, not {timeout!r}")
    if "torch" not in sys.modules:  # nothing can have been recorded for a compiler
        return True
    from pijit.compilers import market

    return market.wait_for_all(None if timeout is None or math.isinf(timeout) else timeout)
