"""The vocabulary in JAX. All but results whose sizes depend on values (nonzero, unique) works under `jax.jit`.

Numbers of 64 bits are what they are only within `wide()`; outside of it JAX makes them 32 bits wide.
"""

import importlib
from contextlib import AbstractContextManager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pijit.graph.forms._jax_branches import Branches
from pijit.graph.forms.arrays import Arrays, functions
from pijit.graph.forms.items import Items

# Its place in JAX has changed.
_ENABLE: Any = getattr(jax if hasattr(jax, "enable_x64") else importlib.import_module("jax.experimental"), "enable_x64")  # noqa: B009


def wide() -> AbstractContextManager[Any]:
    """A context in which arrays may have 64 bits."""
    context: AbstractContextManager[Any] = _ENABLE(True)
    return context


class Jax(Branches, Items, Arrays):
    """What JAX does in its own way."""

    xp = jnp

    def erf(self, x: Any) -> Any:
        return jax.lax.erf(self._floating(x))

    def erfc(self, x: Any) -> Any:
        return jax.lax.erfc(self._floating(x))

    def _number(self, x: Any, dtype: Any, kind: Any) -> Any:
        """The only element as a number; within `jax.jit`, which does not know it, as an array without axes."""
        return self._as(x.reshape(()), dtype) if isinstance(x, jax.core.Tracer) else kind(x.item())

    def array_equal(self, x: Any, y: Any) -> Any:
        return self._number(jnp.array_equal(x, y), np.bool_, bool)

    def repeat(self, x: Any, repeats: Any, axis: int | None = None, length: int | None = None) -> Any:
        return jnp.repeat(x, repeats, axis=axis, total_repeat_length=None if isinstance(repeats, int) else length)

    def _put(self, x: Any, index: Any, value: Any, how: str = "set") -> Any:
        return getattr(x.at[index], how)(value)

    def _convolve(self, x: Any, weight: Any, stride: Any, pads: Any, dilation: Any, groups: int, spread: Any) -> Any:
        return jax.lax.conv_general_dilated(
            x, weight, stride, pads, lhs_dilation=spread, rhs_dilation=dilation, feature_group_count=groups
        )

    def _scan(self, turn: Any, start: Any, x: Any, backward: bool) -> tuple[Any, Any]:
        def step(now: Any, given: Any) -> Any:
            after = turn(now, given)
            return after, after[0]

        final, outputs = jax.lax.scan(step, start, x, reverse=backward)
        return final, outputs

    def _kernel_gradient(
        self, gradient: Any, x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, groups: int
    ) -> Any:
        def forward(weight: Any) -> Any:
            return self._forward(x, weight, stride, padding, dilation, groups)

        shape = (gradient.shape[1], x.shape[1] // groups, *kernel)
        return jax.vjp(forward, jnp.zeros(shape, x.dtype))[1](gradient)[0]

    def _max_pool(self, n: int, x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> Any:
        kernel, stride, padding, dilation = self._settings(n, kernel, stride, padding, dilation)
        counts = self._counts(x, kernel, stride, padding, dilation, ceil_mode)
        sizes = zip(x.shape[-n:], counts, kernel, stride, padding, dilation, strict=True)
        pads = [(p, (c - 1) * s + d * (k - 1) + 1 - size - p) for size, c, k, s, p, d in sizes]
        ones, none = (1,) * (x.ndim - n), [(0, 0)] * (x.ndim - n)
        least = np.asarray(self._least(x), x.dtype)
        return jax.lax.reduce_window(
            x, least, jax.lax.max, (*ones, *kernel), (*ones, *stride), none + pads, window_dilation=(*ones, *dilation)
        )


_FORMS = functions(Jax())


def __getattr__(name: str) -> Any:
    if name not in _FORMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _FORMS[name]
