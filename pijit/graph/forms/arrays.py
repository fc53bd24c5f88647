"""Forms that NumPy and JAX share: written against the Python array API, whose functions the namespace `xp` has.

`forms(xp)` gives them as functions of one namespace; `numpy` and `jax` add what differs.
"""

from types import SimpleNamespace
from typing import Any


def forms(xp: Any) -> SimpleNamespace:
    """The forms as functions over the namespace `xp` (numpy or jax.numpy)."""

    def add(x: Any, y: Any, alpha: float = 1) -> Any:
        return x + (y if alpha == 1 else alpha * y)

    def linear(x: Any, weight: Any, bias: Any = None) -> Any:
        out = xp.matmul(x, weight.T)
        return out if bias is None else out + bias

    return SimpleNamespace(**{name: each for name, each in locals().items() if name != "xp"})
