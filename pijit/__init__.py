"""Makes eager tensor programs fast without changing what they do: records one real call and replays it natively.

fast = pijit.jit(step)      # or @pijit.jit, or pijit.jit(model)
fast(batch)                 # runs in CPython, observed
fast(batch)                 # replayed, bit for bit the same
"""

from pijit import errors
from pijit._config import config
from pijit._version import __version__
from pijit.api import Status, disable, enable, enabled, jit, reset, stats, status, traces
from pijit.tools.explain import Report, explain

__all__ = [
    "Report",
    "Status",
    "__version__",
    "config",
    "disable",
    "enable",
    "enabled",
    "errors",
    "explain",
    "jit",
    "reset",
    "stats",
    "status",
    "traces",
]
