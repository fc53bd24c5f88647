"""The vocabulary in NumPy. Nothing is written to what is given; a result may share memory with an argument."""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pijit.graph.forms import _types
from pijit.graph.forms.arrays import Arrays, functions
from pijit.graph.forms.items import Items

_AT = {"add": np.add, "multiply": np.multiply, "max": np.maximum, "min": np.minimum}


class NumPy(Items, Arrays):
    """What NumPy does in its own way."""

    xp = np

    def _number(self, x: Any, dtype: Any, kind: Any) -> Any:
        return kind(x.item())

    def _matmul(self, x: Any, y: Any) -> Any:
        if x.dtype.itemsize > 2 or _types.category(x.dtype) != 2:
            return np.matmul(x, y)
        return np.matmul(x.astype(np.float32), y.astype(np.float32)).astype(x.dtype)  # sums as torch has them

    def erf(self, x: Any) -> Any:
        x = np.asarray(self._floating(x))
        values = np.fromiter(map(math.erf, x.ravel().tolist()), np.float64, x.size)  # NumPy has no erf
        return values.reshape(x.shape).astype(x.dtype)

    def _put(self, x: Any, index: Any, value: Any, how: str = "set") -> Any:
        out = np.array(x)
        if how == "set":
            out[index] = value
        else:
            _AT[how].at(out, index, value)
        return out

    def _picked(self, x: Any, counts: Any, kernel: Any, stride: Any, dilation: Any) -> Any:
        n = len(kernel)
        spans = tuple(d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True))
        windows: Any = np.lib.stride_tricks.sliding_window_view(x, spans, axis=tuple(range(-n, 0)))
        starts = (slice(None, (c - 1) * s + 1, s) for c, s in zip(counts, stride, strict=True))
        return windows[(..., *starts, *(slice(None, None, d) for d in dilation))]

    def _padded(self, x: Any, pads: Any, spread: Any) -> Any:
        """x with zeros between its elements, and around it; less of it where a pad is negative."""
        sizes = [max((size - 1) * s + 1, 0) for size, s in zip(x.shape[2:], spread, strict=True)]
        wide = [size + max(low, 0) + max(high, 0) for size, (low, high) in zip(sizes, pads, strict=True)]
        out: Any = np.zeros((*x.shape[:2], *wide), x.dtype)
        at = zip(sizes, pads, spread, strict=True)
        out[(..., *(slice(max(low, 0), max(low, 0) + size, s) for size, (low, _), s in at))] = x
        ends = zip(wide, pads, strict=True)
        return out[(..., *(slice(max(-low, 0), size - max(-high, 0)) for size, (low, high) in ends))]

    def _columns(self, x: Any, kernel: Any, stride: Any, dilation: Any, groups: int) -> tuple[Any, list[int]]:
        """Patches of padded x as (groups, n * places, channels * kernel), and the number of places on each axis."""
        n = len(kernel)
        counts = self._counts(x, kernel, stride, (0,) * n, dilation, False)
        windows = self._picked(x, counts, kernel, stride, dilation)
        windows = windows.reshape(x.shape[0], groups, x.shape[1] // groups, *counts, *kernel)
        order = (1, 0, *range(3, 3 + n), 2, *range(3 + n, 3 + 2 * n))
        return windows.transpose(order).reshape(groups, x.shape[0] * math.prod(counts), -1), counts

    def _convolve(self, x: Any, weight: Any, stride: Any, pads: Any, dilation: Any, groups: int, spread: Any) -> Any:
        columns, counts = self._columns(self._padded(x, pads, spread), weight.shape[2:], stride, dilation, groups)
        kernels = weight.reshape(groups, weight.shape[0] // groups, -1)
        out = self._matmul(columns, kernels.swapaxes(1, 2)).reshape(groups, x.shape[0], *counts, -1)
        return np.moveaxis(np.moveaxis(out, -1, 1), 2, 0).reshape(x.shape[0], -1, *counts)

    def _kernel_gradient(
        self, gradient: Any, x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, groups: int
    ) -> Any:
        n, o = gradient.shape[:2]
        x = self._padded(x, [(p, p) for p in padding], (1,) * len(kernel))
        spans = [
            (c - 1) * s + d * (k - 1) + 1
            for c, k, s, d in zip(gradient.shape[2:], kernel, stride, dilation, strict=True)
        ]
        columns, _ = self._columns(x[(..., *map(slice, spans))], kernel, stride, dilation, groups)
        rows = gradient.reshape(n, groups, o // groups, -1).transpose(1, 2, 0, 3).reshape(groups, o // groups, -1)
        return self._matmul(rows, columns).reshape(o, x.shape[1] // groups, *kernel)


def _quiet(form: Callable[..., Any]) -> Callable[..., Any]:
    """The form without NumPy's warnings: torch has none for infinities and NaN."""

    @functools.wraps(form)
    def quiet(*args: Any, **kwargs: Any) -> Any:
        with np.errstate(all="ignore"):
            return form(*args, **kwargs)

    return quiet


_FORMS = {name: _quiet(form) for name, form in functions(NumPy()).items()}


def __getattr__(name: str) -> Any:
    if name not in _FORMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _FORMS[name]
