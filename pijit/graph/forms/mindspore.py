"""The vocabulary in MindSpore: the forms of `arrays.py` over the namespace of `mindspore_namespace.py`.

All but results whose sizes depend on values (nonzero, unique) can be recorded for a cell. On CPUs, MindSpore's tanh and
log of float32 are off by up to 1e-4 of the result, its exp by up to 1e-5; results differ from torch's by as much.
"""

import functools
from collections.abc import Callable
from typing import Any

import mindspore
import numpy as np

from pijit.graph.forms import mindspore_namespace
from pijit.graph.forms.arrays import Arrays, functions
from pijit.graph.forms.items import Items
from pijit.graph.forms.mindspore_array import BFLOAT16, Array, call, constant, is_known
from pijit.graph.forms.mindspore_indexing import put

_CONVOLVED = (np.float16, np.float32)  # dtypes of MindSpore's kernels of convolution
_POOLED = (np.float16, np.float32, np.float64)


class MindSpore(Items, Arrays):
    """What MindSpore does in its own way."""

    xp = mindspore_namespace

    def _dtype(self, token: Any, otherwise: Any = None) -> Any:
        return BFLOAT16 if str(token) == "bfloat16" else super()._dtype(token, otherwise)

    def _as(self, x: Any, dtype: Any) -> Any:
        return x.astype(dtype) if isinstance(x, Array) else constant(np.asarray(x).astype(dtype))

    def erf(self, x: Any) -> Any:
        x = self._floating(x)
        return call("ops.erf", x) if x.size else x

    def embedding(self, weight: Any, x: Any) -> Any:
        return self.xp.take(weight, x, axis=0)

    def _number(self, x: Any, dtype: Any, kind: Any) -> Any:
        """The only element as a number; within a record, which does not know it, as an array without axes."""
        return kind(x.item()) if is_known(x) else self.xp.reshape(x, ()).astype(dtype)

    def array_equal(self, x: Any, y: Any) -> Any:
        if x.shape != y.shape:
            return False
        return self._number(self.xp.all(self.xp.equal(x, y)), np.bool_, bool)

    def _put(self, x: Any, index: Any, value: Any, how: str = "set") -> Any:
        return put(x, index, value, how)

    def _spread(self, x: Any, spread: Any) -> Any:
        """x with `spread` - 1 zeros between its elements."""
        for axis, by in enumerate(spread, 2):
            if by > 1:
                apart = self.xp.pad(
                    self.xp.expand_dims(x, axis + 1),
                    [(0, 0)] * (axis + 1) + [(0, by - 1)] + [(0, 0)] * (x.ndim - axis - 1),
                )
                size = x.shape[axis]
                x = self.xp.reshape(apart, (*x.shape[:axis], size * by, *x.shape[axis + 1 :]))
                x = x[(slice(None),) * axis + (slice(0, (size - 1) * by + 1),)]
        return x

    def _convolve(self, x: Any, weight: Any, stride: Any, pads: Any, dilation: Any, groups: int, spread: Any) -> Any:
        x = self._spread(x, spread)
        ends = zip(pads, x.shape[2:], strict=True)
        cut = tuple(slice(max(-low, 0), size - max(-high, 0)) for (low, high), size in ends)
        x, pads = x[(slice(None), slice(None), *cut)], [(max(low, 0), max(high, 0)) for low, high in pads]
        even = tuple(low for low, _ in pads)
        if any(low != high for low, high in pads):
            x, even = self.xp.pad(x, [(0, 0), (0, 0), *pads]), (0,) * len(pads)
        if x.dtype not in _CONVOLVED:
            return self._products(x, weight, stride, even, dilation, groups)
        if weight.ndim == 3:
            out = self._convolved(
                self.xp.expand_dims(x, 2),
                self.xp.expand_dims(weight, 2),
                (1, *stride),
                (0, *even),
                (1, *dilation),
                groups,
            )
            return self.xp.squeeze(out, axis=2)
        return self._convolved(x, weight, stride, even, dilation, groups)

    def _convolved(self, x: Any, weight: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
        name = "ops.conv2d" if weight.ndim == 4 else "ops.conv3d"
        return call(name, x, weight, None, tuple(stride), "pad", padding, tuple(dilation), groups)

    def _products(self, x: Any, weight: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
        """A convolution as products of matrices: windows of x, and the kernels."""
        xp, n, (o, c) = self.xp, len(padding), weight.shape[:2]
        x = xp.pad(x, [(0, 0), (0, 0), *((p, p) for p in padding)])
        counts = self._counts(x, weight.shape[2:], stride, (0,) * n, dilation, False)
        windows = self._picked(x, counts, weight.shape[2:], stride, dilation)
        windows = xp.reshape(windows, (x.shape[0], groups, c, *windows.shape[2:]))
        windows = xp.transpose(windows, (0, 1, *range(3, 3 + n), 2, *range(3 + n, 3 + 2 * n)))
        windows = xp.reshape(windows, (x.shape[0], groups, int(np.prod(counts)), -1))
        kernels = xp.swapaxes(xp.reshape(weight, (groups, o // groups, -1)), 1, 2)
        out = xp.swapaxes(xp.matmul(windows, kernels), 2, 3)
        return xp.reshape(out, (x.shape[0], o, *counts))

    def _kernel_gradient(
        self, gradient: Any, x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, groups: int
    ) -> Any:
        """The convolution of x with the gradient: batches are channels, and steps are distances."""
        xp, found = self.xp, []
        pads = [(p, p) for p in padding]
        for own, other in zip(xp.split(x, groups, 1), xp.split(gradient, groups, 1), strict=True):
            turned, kernels = xp.swapaxes(own, 0, 1), xp.swapaxes(other, 0, 1)
            out = self._convolve(turned, kernels, dilation, pads, stride, 1, (1,) * len(kernel))
            found.append(xp.swapaxes(out[(slice(None), slice(None), *map(slice, kernel))], 0, 1))
        return xp.concatenate(found, 0)

    def _max_pool(self, n: int, x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> Any:
        if n == 3 or x.dtype not in _POOLED or x.size == 0:
            return super()._max_pool(n, x, kernel, stride, padding, dilation, ceil_mode)
        settings = [(*(1,) * (2 - n), *each) for each in self._settings(n, kernel, stride, padding, dilation)]
        if n == 1:
            settings[2] = (0, *settings[2][1:])
        shape = x.shape
        x = self.xp.reshape(x, (*(1,) * (2 + n - x.ndim), *shape[:-1], *(1,) * (2 - n), shape[-1]))
        out = call("ops.max_pool2d", x, *settings, False, ceil_mode)
        return self.xp.reshape(out, (*shape[:-n], *out.shape[-n:]))


def in_arrays(argument: Any) -> Any:
    """The argument with `Array`s in the place of tensors."""
    if isinstance(argument, mindspore.Tensor):
        return Array(argument)
    if isinstance(argument, tuple | list):
        return type(argument)(map(in_arrays, argument))
    if isinstance(argument, slice):
        return slice(*map(in_arrays, (argument.start, argument.stop, argument.step)))
    return argument


def _out(result: Any) -> Any:
    """The result with tensors in the place of `Array`s."""
    if isinstance(result, Array):
        return result.tensor
    return type(result)(map(_out, result)) if isinstance(result, tuple | list) else result


def _on_tensors(form: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(form)
    def on_tensors(*args: Any, **kwargs: Any) -> Any:
        return _out(form(*map(in_arrays, args), **{name: in_arrays(each) for name, each in kwargs.items()}))

    return on_tensors


ON_ARRAYS = functions(MindSpore())
_FORMS = {name: _on_tensors(form) for name, form in ON_ARRAYS.items()}


def __getattr__(name: str) -> Any:
    if name not in _FORMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _FORMS[name]
