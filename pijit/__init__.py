"""Makes eager tensor programs fast without changing what they do: records one real call and replays it natively.

fast = pijit.jit(step)      # or @pijit.jit, or pijit.jit(model)
fast(batch)                 # runs in CPython, observed
fast(batch)                 # replayed, bit for bit the same
"""

import importlib  # noqa: I001  the modules below in this order, before the core is loaded
from typing import TYPE_CHECKING, Any

from pijit import _path, _refuse_unbuilt, _interpreter, _kept, _left_whole, errors  # noqa: F401
from pijit._ahead import aot, load, save
from pijit._config import config
from pijit._varying_sizes import dynamic
from pijit._lazy import lazy
from pijit._marks import constant, opaque, skip
from pijit._region import region
from pijit._stance import stance
from pijit._switch import disable, enable, enabled
from pijit._version import __version__
from pijit._wait import wait
from pijit.api import Status, jit, reset, stats, status, traces, unjit, why

if TYPE_CHECKING:
    from pijit import compilers, graph, passes, tools  # noqa: F401
    from pijit._bundle import bundle
    from pijit._export import export, formats
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


# Where names are that a program need not pay for at its beginning: what only graphs, compilers and checks use. Half of
# pijit stands behind them.
_LATE = {
    "Report": "pijit.tools.explain",
    "Verification": "pijit.tools.verify",
    "backends": "pijit.compilers",
    "bundle": "pijit._bundle",
    "explain": "pijit.tools.explain",
    "export": "pijit._export",
    "formats": "pijit._export",
    "register_backend": "pijit.compilers",
    "register_lowering": "pijit.graph.lowerings",
    "register_pass": "pijit.passes",
    "register_replacement": "pijit.passes.replacements",
    "verify": "pijit.tools.verify",
}
_LATE_PACKAGES = ("compilers", "graph", "passes", "tools")


def __getattr__(name: str) -> Any:
    """A name that is imported when it is first asked for."""
    if name in _LATE_PACKAGES:
        return importlib.import_module(f"pijit.{name}")  # which makes it an attribute
    if name not in _LATE:
        raise AttributeError(f"module 'pijit' has no attribute {name!r}")
    found = getattr(importlib.import_module(_LATE[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """The public names alone: what completes `pijit.` under TAB."""
    return list(__all__)
