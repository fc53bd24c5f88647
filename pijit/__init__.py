"""Makes eager tensor programs fast without changing what they do: records one real call and replays it natively.

fast = pijit.jit(step)      # or @pijit.jit, or pijit.jit(model)
fast(batch)                 # runs in CPython, observed
fast(batch)                 # replayed, bit for bit the same
"""

from pijit import _path, _refuse_unbuilt, _interpreter, _kept, _left_whole, errors, graph  # noqa: F401, I001  in this order, before the core is loaded
from pijit._ahead import aot, load, save
from pijit._bundle import bundle
from pijit._config import config
from pijit._varying_sizes import dynamic
from pijit._export import export, formats
from pijit._lazy import lazy
from pijit._marks import constant, opaque, skip
from pijit._region import region
from pijit._stance import stance
from pijit._switch import disable, enable, enabled
from pijit._version import __version__
from pijit._wait import wait
from pijit.api import Status, jit, reset, stats, status, traces, unjit, why
from pijit.compilers import backends, register_backend
from pijit.graph.lowerings import register_lowering
from pijit.passes import register_pass
from pijit.passes.replacements import register_replacement
from pijit.tools.explain import Report, explain
from pijit.tools.verify import Verification, verify

__all__ = [
    "Report",
    "Status",
    "Verification",
    "__version__",
    "aot",
    "backends",
    "bundle",
    "config",
    "constant",
    "disable",
    "dynamic",
    "enable",
    "enabled",
    "errors",
    "explain",
    "export",
    "formats",
    "graph",
    "jit",
    "lazy",
    "load",
    "opaque",
    "region",
    "register_backend",
    "register_lowering",
    "register_pass",
    "register_replacement",
    "reset",
    "save",
    "skip",
    "stance",
    "stats",
    "status",
    "traces",
    "unjit",
    "verify",
    "wait",
    "why",
]


def __dir__() -> list[str]:
    """The public names alone: what completes `pijit.` under TAB."""
    return list(__all__)
