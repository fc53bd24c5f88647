"""Forms of backward operators over the namespace `self.xp`."""

import math
from typing import Any

import numpy as np

from pijit.graph.forms.arrays_indexing import Indexing
from pijit.graph.forms.arrays_layers import Loss

_SIXTH = float(np.float32(1 / 6))  # torch has it so in float64, too


class Gradients(Loss):
    """Forms of gradients of activations and losses."""

    def threshold_backward(self, gradient: Any, x: Any, threshold: float) -> Any:
        return self.xp.where(x <= threshold, self._as(0, gradient.dtype), gradient)

    def gelu_backward(self, gradient: Any, x: Any, approximate: str = "none") -> Any:
        if approximate == "none":
            area = self._scaled(1 + self.erf(self._scaled(x, math.sqrt(0.5))), 0.5)
            return gradient * (
                area + x * self._scaled(self.xp.exp(self._scaled(x * x, -0.5)), 1 / math.sqrt(2 * math.pi))
            )
        factor = math.sqrt(2 / math.pi)
        inner = self.xp.tanh(self._scaled(x + self._scaled(x * x * x, 0.044715), factor))
        slope = self._scaled(1 + self._scaled(x * x, 3 * 0.044715), factor)
        return gradient * self._scaled(1 + inner + x * (1 - inner * inner) * slope, 0.5)

    def silu_backward(self, gradient: Any, x: Any) -> Any:
        part = self.sigmoid(x)
        return gradient * part * (1 + x * (1 - part))

    def mish_backward(self, gradient: Any, x: Any) -> Any:
        soft = self.xp.tanh(self.softplus(x))
        return gradient * (soft + x * self.sigmoid(x) * (1 - soft * soft))

    def tanh_backward(self, gradient: Any, y: Any) -> Any:
        return gradient * (1 - y * y)

    def sigmoid_backward(self, gradient: Any, y: Any) -> Any:
        return gradient * y * (1 - y)

    def hardswish_backward(self, gradient: Any, x: Any) -> Any:
        zero = self._as(0, gradient.dtype)
        middle = gradient * (x / 3 + self._as(0.5, x.dtype))
        return self.xp.where(x <= -3, zero, self.xp.where(x < 3, middle, gradient))

    def hardsigmoid_backward(self, gradient: Any, x: Any) -> Any:
        return self.xp.where((x > -3) & (x < 3), self._scaled(gradient, _SIXTH), self._as(0, gradient.dtype))

    def hardtanh_backward(self, gradient: Any, x: Any, min: float, max: float) -> Any:
        return self.xp.where((x > min) & (x < max), gradient, self._as(0, gradient.dtype))

    def leaky_relu_backward(self, gradient: Any, x: Any, slope: float, is_result: bool) -> Any:
        return self.xp.where(x > 0, gradient, self._scaled(gradient, slope))

    def elu_backward(
        self, gradient: Any, alpha: float, scale: float, input_scale: float, is_result: bool, x: Any
    ) -> Any:
        if is_result:
            below = self._scaled(x + self._as(alpha * scale, x.dtype), input_scale)
        else:
            below = self._scaled(
                self.xp.exp(self._scaled(self.clip(x, None, 0), input_scale)), alpha * scale * input_scale
            )
        return gradient * self.xp.where(x <= 0, below, self._as(scale, x.dtype))

    def softplus_backward(self, gradient: Any, x: Any, beta: float, threshold: float) -> Any:
        scaled = self._scaled(x, beta)
        return self.xp.where(scaled > threshold, gradient, gradient * self.sigmoid(scaled))

    def log_sigmoid_forward(self, x: Any) -> Any:
        return self.logsigmoid(x), self.xp.exp(-self.xp.abs(x))

    def log_sigmoid_backward(self, gradient: Any, x: Any, buffer: Any) -> Any:
        return gradient * self.sigmoid(-x)

    def prelu_backward(self, gradient: Any, x: Any, weight: Any) -> Any:
        zero = self._as(0, gradient.dtype)
        return self.xp.where(x > 0, gradient, weight * gradient), self.xp.where(x > 0, zero, x * gradient)

    def glu_backward(self, gradient: Any, x: Any, axis: int) -> Any:
        first, second = self.xp.split(x, 2, axis=axis)
        part = self.sigmoid(second)
        return self.xp.concatenate((gradient * part, gradient * first * part * (1 - part)), axis=axis)

    def softmax_backward(self, gradient: Any, y: Any, axis: int, dtype: Any = None) -> Any:
        product = gradient * y
        out = product - y * self.xp.sum(product, axis=axis, keepdims=True)
        return self._as(out, self._dtype(dtype, out.dtype))

    def log_softmax_backward(self, gradient: Any, y: Any, axis: int, dtype: Any = None) -> Any:
        out = gradient - self.xp.exp(y) * self.xp.sum(gradient, axis=axis, keepdims=True)
        return self._as(out, self._dtype(dtype, out.dtype))

    def nll_loss_backward(
        self, gradient: Any, x: Any, y: Any, weight: Any, reduction: int, ignore_index: int, total: Any
    ) -> Any:
        axis = min(x.ndim - 1, 1)
        y, weights = self._class_weights(x, y, weight, ignore_index)
        share = -weights * (gradient / total if reduction == 1 else gradient)
        classes = self.xp.reshape(self.xp.arange(x.shape[axis]), (-1,) + (1,) * (x.ndim - 1 - axis))
        here = self.xp.expand_dims(y, axis) == classes
        return self.xp.where(here, self.xp.expand_dims(share, axis), self._as(0, x.dtype))

    def _shared(self, gradient: Any, x: Any, reduction: int) -> Any:
        """The gradient of each element's loss."""
        return gradient / self._as(x.size, x.dtype) if reduction == 1 else gradient

    def mse_loss_backward(self, gradient: Any, x: Any, y: Any, reduction: int) -> Any:
        return self._shared(gradient, x, reduction) * 2 * (x - y)

    def smooth_l1_loss_backward(self, gradient: Any, x: Any, y: Any, reduction: int, beta: float) -> Any:
        slope = self.clip(self.divide(x - y, beta), -1, 1) if beta else self.sign(x - y)
        return self._shared(gradient, x, reduction) * slope

    def huber_loss_backward(self, gradient: Any, x: Any, y: Any, reduction: int, delta: float) -> Any:
        return self._shared(gradient, x, reduction) * self.clip(x - y, -delta, delta)

    def binary_cross_entropy_backward(
        self, gradient: Any, x: Any, y: Any, weight: Any = None, reduction: int = 1
    ) -> Any:
        out = self._shared(gradient, x, reduction) * (x - y) / self.clip((1 - x) * x, 1e-12)
        return out if weight is None else out * weight

    def flash_attention_backward(
        self,
        gradient: Any,
        query: Any,
        key: Any,
        value: Any,
        y: Any,
        logsumexp: Any,
        dropout: float,
        is_causal: bool,
        mask: Any = None,
        scale: float | None = None,
    ) -> Any:
        factor = self._factor(query, scale)
        shape, key, value = key.shape, self._each_head(query, key), self._each_head(query, value)
        weights = self.xp.exp(self._scores(query, key, is_causal, mask, scale) - logsumexp[..., None])
        own = self._matmul(gradient, self.xp.swapaxes(value, -1, -2))
        own = self._scaled(weights * (own - self.xp.sum(gradient * y, axis=-1, keepdims=True)), factor)
        flipped, turned = self.xp.swapaxes(own, -1, -2), self.xp.swapaxes(weights, -1, -2)
        grouped = (*shape[:-2], query.shape[-3] // shape[-3], *shape[-2:])
        for_key, for_value = (
            self.xp.sum(self.xp.reshape(self._matmul(*pair), (*grouped[:-1], -1)), axis=-3)
            for pair in ((flipped, query), (turned, gradient))
        )
        return self._matmul(own, key), for_key, for_value


class NormGradients(Gradients):
    """Forms of gradients of normalisation; a `mask` tells which of x, weight and bias are wanted."""

    def _norm_gradients(self, gradient: Any, hat: Any, rstd: Any, scale: Any, axes: Any, rest: Any, mask: Any) -> Any:
        """For x, whose normalised values are `hat`, weight and bias.

        Args:
            scale: the weight, in a shape that fits x.
            axes: that x is normalised over.
            rest: that weight and bias lack.
        """
        inner = gradient if scale is None else gradient * scale
        mean = self.xp.mean(inner, axis=axes, keepdims=True)
        for_x = (inner - mean - hat * self.xp.mean(inner * hat, axis=axes, keepdims=True)) * rstd
        for_weight = self.xp.sum(gradient * hat, axis=rest)
        return tuple(
            each if wanted else None
            for each, wanted in zip((for_x, for_weight, self.xp.sum(gradient, axis=rest)), mask, strict=True)
        )

    def layer_norm_backward(
        self, gradient: Any, x: Any, shape: Any, mean: Any, rstd: Any, weight: Any, bias: Any, mask: Any
    ) -> Any:
        lead = x.ndim - len(shape)
        axes, rest = tuple(range(lead, x.ndim)), tuple(range(lead))
        return self._norm_gradients(gradient, (x - mean) * rstd, rstd, weight, axes, rest, mask)

    def batch_norm_backward(
        self,
        gradient: Any,
        x: Any,
        weight: Any,
        mean: Any,
        variance: Any,
        save_mean: Any,
        save_rstd: Any,
        training: bool,
        epsilon: float,
        mask: Any,
    ) -> Any:
        shape, axes = (1, -1) + (1,) * (x.ndim - 2), (0, *range(2, x.ndim))
        scale = None if weight is None else self.xp.reshape(weight, shape)
        if training:
            rstd = self.xp.reshape(save_rstd, shape)
            hat = (x - self.xp.reshape(save_mean, shape)) * rstd
            return self._norm_gradients(gradient, hat, rstd, scale, axes, axes, mask)
        rstd = self.xp.reshape(1 / self.xp.sqrt(variance + self._as(epsilon, variance.dtype)), shape)
        hat = (x - self.xp.reshape(mean, shape)) * rstd
        _, for_weight, for_bias = self._norm_gradients(gradient, hat, rstd, scale, axes, axes, (False, *mask[1:]))
        return gradient * rstd * (1 if scale is None else scale) if mask[0] else None, for_weight, for_bias

    def group_norm_backward(
        self,
        gradient: Any,
        x: Any,
        mean: Any,
        rstd: Any,
        weight: Any,
        n: int,
        c: int,
        area: int,
        groups: int,
        mask: Any,
    ) -> Any:
        grouped = (n, groups, c // groups, area)
        scale = None if weight is None else self.xp.reshape(weight, (1, groups, c // groups, 1))
        rstd = self.xp.reshape(rstd, (n, groups, 1, 1))
        hat = (self.xp.reshape(x, grouped) - self.xp.reshape(mean, (n, groups, 1, 1))) * rstd
        found = self._norm_gradients(self.xp.reshape(gradient, grouped), hat, rstd, scale, (2, 3), (0, 3), mask)
        shapes = (x.shape, (c,), (c,))
        return tuple(None if g is None else self.xp.reshape(g, s) for g, s in zip(found, shapes, strict=True))

    def dropout_backward(self, gradient: Any, kept: Any, scale: float) -> Any:
        return self._scaled(gradient * self._as(kept, gradient.dtype), scale)


class PlaceGradients(Indexing):
    """Forms of gradients of operators that pick elements."""

    def embedding_backward(
        self, gradient: Any, x: Any, rows: int, padding_index: int, scale_by_frequency: bool = False
    ) -> Any:
        x = self.xp.reshape(x, (x.size,))
        gradient = self.xp.reshape(gradient, (x.size, -1))
        zero = self._as(0, gradient.dtype)
        gradient = self.xp.where((x == padding_index)[:, None], zero, gradient)
        if scale_by_frequency:
            ones = self.xp.ones(x.shape, dtype=gradient.dtype)
            count = self._put(self.xp.zeros((rows,), dtype=gradient.dtype), (x,), ones, "add")
            gradient = gradient / count[x][:, None]
        return self._put(self.xp.zeros((rows, gradient.shape[1]), dtype=gradient.dtype), (x,), gradient, "add")

    def _placed(self, gradient: Any, shape: Any, index: Any) -> Any:
        return self._put(self.xp.zeros(tuple(shape), dtype=gradient.dtype), index, gradient)

    def select_backward(self, gradient: Any, shape: Any, axis: int, index: int) -> Any:
        return self._placed(gradient, shape, (slice(None),) * (axis % len(shape)) + (index,))

    def slice_backward(self, gradient: Any, shape: Any, axis: int, start: Any, stop: Any, step: int) -> Any:
        return self._placed(gradient, shape, (slice(None),) * (axis % len(shape)) + (slice(start, stop, step),))

    def diagonal_backward(self, gradient: Any, shape: Any, offset: int, axis1: int, axis2: int) -> Any:
        places = np.diagonal(np.arange(math.prod(shape)).reshape(shape), offset, axis1, axis2)
        return self._summed(gradient, shape, places)

    def unfold_backward(self, gradient: Any, shape: Any, axis: int, size: int, step: int) -> Any:
        places = np.lib.stride_tricks.sliding_window_view(np.arange(math.prod(shape)).reshape(shape), size, axis)
        axis %= len(shape)
        return self._summed(gradient, shape, places[(slice(None),) * axis + (slice(None, None, step),)])

    def _summed(self, gradient: Any, shape: Any, places: Any) -> Any:
        """Zeros to which the gradient is added at flat indices."""
        zeros = self.xp.zeros((math.prod(shape),), dtype=gradient.dtype)
        return self.xp.reshape(self._put(zeros, (places,), gradient, "add"), tuple(shape))


class Training(NormGradients, PlaceGradients):
    """All of these."""
