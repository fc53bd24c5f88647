"""Forms of reductions, linear algebra and Fourier transforms over the namespace `self.xp`."""

import math
from typing import Any

import numpy as np

from pijit.graph.forms import _types
from pijit.graph.forms.arrays_elementwise import Base
from pijit.graph.forms.arrays_shape import as_tuple


def _axes(x: Any, axis: Any) -> Any:
    """As NumPy takes axes: None stands for all, also where torch has an empty list, or x has no axes."""
    if axis is None or axis in ((), []) or x.ndim == 0:
        return None
    return tuple(axis) if isinstance(axis, list | tuple) else axis


class Reduction(Base):
    """Forms of reductions."""

    def _summand(self, x: Any, dtype: Any) -> Any:
        """x in a dtype; integers in int64 if none is given."""
        usual = np.dtype("int64") if _types.category(_types.dtype_of(x)) < 2 else x.dtype
        return self._as(x, self._dtype(dtype, usual))

    def sum(self, x: Any, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Any:
        x = self._summand(x, dtype)
        return self.xp.sum(x, axis=_axes(x, axis), keepdims=keepdims, dtype=x.dtype)

    def prod(self, x: Any, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Any:
        x = self._summand(x, dtype)
        return self.xp.prod(x, axis=_axes(x, axis), keepdims=keepdims, dtype=x.dtype)

    def mean(self, x: Any, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Any:
        x = self._as(x, self._dtype(dtype, x.dtype))
        exact = self._as(x, _types.FLOAT) if x.dtype.itemsize < 4 else x
        total = self.xp.sum(exact, axis=_axes(x, axis), keepdims=keepdims)
        return self._as(total / self._as(self._count(x, axis), exact.dtype), x.dtype)

    def _count(self, x: Any, axis: Any) -> int:
        """How many elements are reduced to one."""
        axes = _axes(x, axis)
        return int(x.size) if axes is None else math.prod(x.shape[i] for i in as_tuple(axes))

    def var(self, x: Any, axis: Any = None, correction: Any = 1, keepdims: bool = False) -> Any:
        axes = _axes(x, axis)
        centred = x - self.xp.mean(x, axis=axes, keepdims=True)
        total = self.xp.sum(self.xp.real(centred * self.xp.conj(centred)), axis=axes, keepdims=keepdims)
        count = self._count(x, axis) - (1 if correction is None else correction)
        return total / self._as(max(count, 0), total.dtype)

    def std(self, x: Any, axis: Any = None, correction: Any = 1, keepdims: bool = False) -> Any:
        return self.xp.sqrt(self.var(x, axis, correction, keepdims))

    def var_mean(self, x: Any, axis: Any = None, correction: Any = 1, keepdims: bool = False) -> Any:
        return self.var(x, axis, correction, keepdims), self.mean(x, axis, keepdims)

    def max(self, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        return self.xp.max(x, axis=_axes(x, axis), keepdims=keepdims)

    def min(self, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        return self.xp.min(x, axis=_axes(x, axis), keepdims=keepdims)

    def max_with_indices(self, x: Any, axis: int, keepdims: bool = False) -> Any:
        return self.max(x, axis, keepdims), self.argmax(x, axis, keepdims)

    def min_with_indices(self, x: Any, axis: int, keepdims: bool = False) -> Any:
        return self.min(x, axis, keepdims), self.argmin(x, axis, keepdims)

    def any(self, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        if isinstance(axis, tuple) and not axis:
            return self._truth(x, x.dtype)
        return self._truth(self.xp.any(x, axis=_axes(x, axis), keepdims=keepdims), x.dtype)

    def all(self, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        if isinstance(axis, tuple) and not axis:
            return self._truth(x, x.dtype)
        return self._truth(self.xp.all(x, axis=_axes(x, axis), keepdims=keepdims), x.dtype)

    def _truth(self, x: Any, dtype: Any) -> Any:
        """As bool; torch has it as uint8 for uint8."""
        return self._as(x != 0 if x.dtype != np.bool_ else x, np.uint8 if dtype == np.uint8 else np.bool_)

    def argmax(self, x: Any, axis: int | None = None, keepdims: bool = False) -> Any:
        return self._as(self.xp.argmax(x, axis=_axes(x, axis), keepdims=keepdims), np.int64)

    def argmin(self, x: Any, axis: int | None = None, keepdims: bool = False) -> Any:
        return self._as(self.xp.argmin(x, axis=_axes(x, axis), keepdims=keepdims), np.int64)

    def count_nonzero(self, x: Any, axis: Any = None) -> Any:
        return self._as(self.xp.sum(self._as(x != 0, np.int64), axis=_axes(x, axis)), np.int64)

    def cumulative_sum(self, x: Any, axis: int, dtype: Any = None) -> Any:
        x = self._summand(x, dtype)
        return self.xp.cumsum(x, axis=axis, dtype=x.dtype) if x.ndim else x

    def diff(self, x: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
        parts = [each for each in (prepend, x, append) if each is not None]
        x = self.xp.concatenate(parts, axis=axis) if len(parts) > 1 else x
        if x.dtype != np.bool_:
            return self.xp.diff(x, n=n, axis=axis)
        for _ in range(n):
            size = x.shape[axis]
            late, early = (self.xp.take(x, np.arange(start, size - 1 + start), axis=axis) for start in (1, 0))
            x = late ^ early
        return x

    def cumulative_prod(self, x: Any, axis: int, dtype: Any = None) -> Any:
        x = self._summand(x, dtype)
        return self.xp.cumprod(x, axis=axis, dtype=x.dtype) if x.ndim else x

    def logsumexp(self, x: Any, axis: Any, keepdims: bool = False) -> Any:
        x, axes = self._floating(x), _axes(x, axis)
        top = self.xp.max(x, axis=axes, keepdims=True)
        top = self.xp.where(self.xp.isfinite(top), top, self._as(0, x.dtype))
        total = self.xp.log(self.xp.sum(self.xp.exp(x - top), axis=axes, keepdims=True)) + top
        return total if keepdims else self.xp.squeeze(total, axis=axes)

    def vector_norm(self, x: Any, ord: Any = 2, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Any:
        ord, axes = 2 if ord is None else ord, _axes(x, axis)
        size = self.xp.abs(self._as(x, self._dtype(dtype, x.dtype)))
        if ord == math.inf:
            return self.xp.max(size, axis=axes, keepdims=keepdims)
        if ord == -math.inf:
            return self.xp.min(size, axis=axes, keepdims=keepdims)
        if ord == 0:
            return self._as(self.xp.sum(self._as(size != 0, size.dtype), axis=axes, keepdims=keepdims), size.dtype)
        powers = size * size if ord == 2 else size ** self._as(ord, size.dtype)
        total = self.xp.sum(powers, axis=axes, keepdims=keepdims)
        return self.xp.sqrt(total) if ord == 2 else total ** self._as(1 / ord, size.dtype)


class Algebra(Base):
    """Forms of linear algebra."""

    def matmul(self, x: Any, y: Any) -> Any:
        return self._matmul(x, y)

    def det(self, x: Any) -> Any:
        return self.xp.linalg.det(x)

    def inv(self, x: Any) -> Any:
        return self.xp.linalg.inv(x)

    def solve(self, x: Any, y: Any, left: bool = True) -> Any:
        xp = self.xp
        vectors = y.ndim == 1 or (y.ndim == x.ndim - 1 and y.shape == x.shape[:-1])
        many = y[..., None] if vectors else y
        if not left:
            x, many = xp.swapaxes(x, -1, -2), many if vectors else xp.swapaxes(many, -1, -2)
        found = xp.linalg.solve(x, many)
        return found[..., 0] if vectors else found if left else xp.swapaxes(found, -1, -2)

    def cholesky(self, x: Any, upper: bool = False) -> Any:
        x = self._hermitian(x, "U" if upper else "L")
        found = self.xp.linalg.cholesky(x)
        return self.xp.conj(self.xp.swapaxes(found, -1, -2)) if upper else found

    def qr(self, x: Any, mode: str = "reduced") -> tuple[Any, Any]:
        if mode == "r":
            return self.xp.zeros((0,), dtype=x.dtype), self.xp.linalg.qr(x, mode="r")
        q, r = self.xp.linalg.qr(x, mode=mode)
        return q, r

    def singular_values(self, x: Any) -> Any:
        return self.xp.linalg.svd(x, compute_uv=False)

    def eigenvalues(self, x: Any, triangle: str = "L") -> Any:
        return self.xp.linalg.eigvalsh(self._hermitian(x, triangle))

    def _hermitian(self, x: Any, triangle: str) -> Any:
        """The matrices of which one triangle is read."""
        xp = self.xp
        half = xp.tril(x) if triangle == "L" else xp.triu(x)
        inner = xp.tril(x, -1) if triangle == "L" else xp.triu(x, 1)
        return half + xp.conj(xp.swapaxes(inner, -1, -2))

    def dot(self, x: Any, y: Any) -> Any:
        return self.xp.sum(x * y, dtype=x.dtype) if x.ndim == y.ndim == 1 else self.xp.inner(x, y)

    def vecdot(self, x: Any, y: Any, axis: int = -1) -> Any:
        x, y = self._together(x, y)
        return self.xp.sum(self.xp.conj(x) * y, axis=axis, dtype=x.dtype)

    def outer(self, x: Any, y: Any) -> Any:
        x, y = self._together(x, y)
        return x[:, None] * y

    def addmm(self, x: Any, a: Any, b: Any, beta: Any = 1, alpha: Any = 1) -> Any:
        return self._added(x, self._matmul(a, b), beta, alpha)

    def baddbmm(self, x: Any, a: Any, b: Any, beta: Any = 1, alpha: Any = 1) -> Any:
        return self._added(x, self._matmul(a, b), beta, alpha)

    def addbmm(self, x: Any, a: Any, b: Any, beta: Any = 1, alpha: Any = 1) -> Any:
        return self._added(x, self.xp.sum(self._matmul(a, b), axis=0), beta, alpha)

    def _added(self, x: Any, product: Any, beta: Any, alpha: Any) -> Any:
        """beta * x + alpha * product; a beta of 0 hides what is in x."""
        if alpha != 1:
            product = self._as(alpha, product.dtype) * product
        if beta == 0:
            return product
        return product + (x if beta == 1 else self._as(beta, x.dtype) * x)

    def linear(self, x: Any, weight: Any, bias: Any = None) -> Any:
        out = self._matmul(x, weight.T)
        return out if bias is None else out + bias

    def bilinear(self, x: Any, y: Any, weight: Any, bias: Any = None) -> Any:
        out = self.xp.sum(self._matmul(x[..., None, None, :], weight)[..., 0, :] * y[..., None, :], axis=-1)
        return out if bias is None else out + bias

    def einsum(self, equation: str, arrays: Any, path: Any = None) -> Any:
        return self.xp.einsum(equation.replace(" ", ""), *arrays)

    def tensordot(self, x: Any, y: Any, axes1: Any, axes2: Any) -> Any:
        return self.xp.tensordot(x, y, axes=(tuple(axes1), tuple(axes2)))

    def tril(self, x: Any, diagonal: int = 0) -> Any:
        return self.xp.tril(x, diagonal)

    def triu(self, x: Any, diagonal: int = 0) -> Any:
        return self.xp.triu(x, diagonal)

    def trace(self, x: Any) -> Any:
        return self.xp.sum(self.xp.diagonal(x), dtype=np.int64 if _types.category(_types.dtype_of(x)) < 2 else x.dtype)

    def cross(self, x: Any, y: Any, axis: int = -1) -> Any:
        x, y = self.xp.moveaxis(x, axis, -1), self.xp.moveaxis(y, axis, -1)
        a, b = (1, 2, 0), (2, 0, 1)
        parts = [x[..., a[i]] * y[..., b[i]] - x[..., b[i]] * y[..., a[i]] for i in range(3)]
        return self.xp.moveaxis(self.xp.stack(parts, axis=-1), -1, axis)

    def cdist(self, x: Any, y: Any, p: float = 2.0) -> Any:
        return self._norm(x[..., :, None, :] - y[..., None, :, :], p)

    def _norm(self, x: Any, ord: float) -> Any:
        norm: Any = getattr(self, "vector_norm")  # noqa: B009
        return norm(x, ord, -1)

    def cosine_similarity(self, x: Any, y: Any, axis: int = 1, epsilon: float = 1e-08) -> Any:
        x, y = self.xp.broadcast_arrays(*self._floats(x, y))
        least = self._as(epsilon, x.dtype)
        lengths = [self.xp.maximum(self.xp.sqrt(self.xp.sum(each * each, axis=axis)), least) for each in (x, y)]
        return self.xp.sum(x * y, axis=axis) / (lengths[0] * lengths[1])


class Fourier(Base):
    """Forms of Fourier transforms; torch keeps the precision, NumPy would give float64."""

    def _transformed(self, name: str, x: Any, *rest: Any) -> Any:
        x = self._floating(x)
        real = _types.real_of(x.dtype) if _types.category(x.dtype) == 3 else x.dtype
        out = getattr(self.xp.fft, name)(x, *rest)
        return self._as(out, _types.complex_of(real) if _types.category(_types.dtype_of(out)) == 3 else real)

    def fft(self, x: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
        return self._transformed("fft", x, n, axis, norm)

    def ifft(self, x: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
        return self._transformed("ifft", x, n, axis, norm)

    def rfft(self, x: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
        return self._transformed("rfft", x, n, axis, norm)

    def irfft(self, x: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
        return self._transformed("irfft", x, n, axis, norm)

    def complex_fftn(self, x: Any, axes: Any, normalization: int, forward: bool) -> Any:
        name, norms = (
            ("fftn", ("backward", "ortho", "forward")) if forward else ("ifftn", ("forward", "ortho", "backward"))
        )
        return self._transformed(name, x, None, axes, norms[normalization])

    def fftn(self, x: Any, shape: Any = None, axes: Any = None, norm: str | None = None) -> Any:
        return self._transformed("fftn", x, shape, axes, norm)

    def ifftn(self, x: Any, shape: Any = None, axes: Any = None, norm: str | None = None) -> Any:
        return self._transformed("ifftn", x, shape, axes, norm)
