"""Forms of layers over the namespace `self.xp`: activations, normalisation, attention and losses."""

import math
from typing import Any

import numpy as np

from pijit.graph.forms import _types
from pijit.graph.forms.arrays_elementwise import Elementwise
from pijit.graph.forms.arrays_indexing import Creation
from pijit.graph.forms.arrays_reduction import Reduction

SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805


class Activation(Elementwise):
    """Forms of activations."""

    def relu(self, x: Any) -> Any:
        return self.clip(x, 0)

    def relu6(self, x: Any) -> Any:
        return self.clip(x, 0, 6)

    def hardtanh(self, x: Any, min: Any = -1, max: Any = 1) -> Any:
        return self.clip(x, min, max)

    def gelu(self, x: Any, approximate: str = "none") -> Any:
        if approximate == "none":
            return self._scaled(x, 0.5) * (1 + self.erf(self._scaled(x, math.sqrt(0.5))))
        inner = self._scaled(x + self._scaled(x * x * x, 0.044715), math.sqrt(2 / math.pi))
        return self._scaled(x, 0.5) * (1 + self.xp.tanh(inner))

    def _scaled(self, x: Any, factor: Any) -> Any:
        """x times a number, in the dtype of x."""
        return x * self._as(factor, x.dtype)

    def sigmoid(self, x: Any) -> Any:
        x = self._floating(x)
        small = self.xp.exp(-self.xp.abs(x))
        return self.xp.where(x >= 0, 1 / (1 + small), small / (1 + small))

    def silu(self, x: Any) -> Any:
        return x * self.sigmoid(x)

    def hardsigmoid(self, x: Any) -> Any:
        return self.clip(x + 3, 0, 6) / 6

    def hardswish(self, x: Any) -> Any:
        return x * self.hardsigmoid(x)

    def leaky_relu(self, x: Any, slope: float = 0.01) -> Any:
        return self.xp.where(x > 0, x, self._scaled(x, slope))

    def elu(self, x: Any, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Any:
        below = self._scaled(self.xp.expm1(self._scaled(self.clip(x, None, 0), input_scale)), alpha * scale)
        return self.xp.where(x > 0, self._scaled(x, scale), below)

    def selu(self, x: Any) -> Any:
        return self.elu(x, SELU_ALPHA, SELU_SCALE)

    def celu(self, x: Any, alpha: float = 1.0) -> Any:
        return self.elu(x, alpha, 1, 1 / alpha)

    def softplus(self, x: Any, beta: float = 1, threshold: float = 20) -> Any:
        scaled = self._scaled(x, beta)
        soft = self.xp.log1p(self.xp.exp(self.clip(scaled, None, threshold))) / self._as(beta, x.dtype)
        return self.xp.where(scaled > threshold, x, soft)

    def mish(self, x: Any) -> Any:
        return x * self.xp.tanh(self.softplus(x))

    def prelu(self, x: Any, weight: Any) -> Any:
        if weight.ndim == 1 and weight.size > 1 and x.ndim > 1:
            weight = self.xp.reshape(weight, (-1,) + (1,) * (x.ndim - 2))
        return self.xp.where(x > 0, x, self.xp.reshape(weight, ()) * x if weight.size == 1 else weight * x)

    def threshold(self, x: Any, threshold: float, value: float) -> Any:
        return self.xp.where(x <= threshold, self._as(value, x.dtype), x)

    def softshrink(self, x: Any, lambd: float = 0.5) -> Any:
        return x - self.clip(x, -lambd, lambd)

    def hardshrink(self, x: Any, lambd: float = 0.5) -> Any:
        return self.xp.where(self.xp.abs(x) <= lambd, self._as(0, x.dtype), x)

    def glu(self, x: Any, axis: int = -1) -> Any:
        first, second = self.xp.split(x, 2, axis=axis)
        return first * self.sigmoid(second)

    def _shifted(self, x: Any, axis: int, dtype: Any) -> Any:
        """x less its largest along an axis, which the result of a softmax does not show."""
        x = self._floating(self._as(x, self._dtype(dtype, x.dtype)))
        return x - self.xp.max(x, axis=axis, keepdims=True) if x.size else x

    def softmax(self, x: Any, axis: int, dtype: Any = None) -> Any:
        if x.ndim == 0:
            return self.softmax(x[None], 0, dtype)[0]
        powers = self.xp.exp(self._shifted(x, axis, dtype))
        return powers / self.xp.sum(powers, axis=axis, keepdims=True)

    def safe_softmax(self, x: Any, axis: int, dtype: Any = None) -> Any:
        x = self._as(x, self._dtype(dtype, x.dtype))
        hidden = self.xp.max(x, axis=axis, keepdims=True) == -math.inf
        return self.xp.where(hidden, self._as(0, x.dtype), self.softmax(x, axis))

    def log_softmax(self, x: Any, axis: int, dtype: Any = None) -> Any:
        if x.ndim == 0:
            return self.log_softmax(x[None], 0, dtype)[0]
        x = self._shifted(x, axis, dtype)
        return x - self.xp.log(self.xp.sum(self.xp.exp(x), axis=axis, keepdims=True))

    def logsigmoid(self, x: Any) -> Any:
        return self.clip(x, None, 0) - self.xp.log1p(self.xp.exp(-self.xp.abs(x)))

    def logit(self, x: Any, epsilon: float | None = None) -> Any:
        x = self._floating(x)
        x = x if epsilon is None else self.clip(x, epsilon, 1 - epsilon)
        return self.xp.log(x / (1 - x))


class Normalisation(Activation, Reduction, Creation):
    """Forms of normalisation and dropout."""

    def _normalised(self, x: Any, axes: tuple[int, ...], epsilon: float) -> tuple[Any, Any, Any]:
        """x with mean 0 and variance 1 over axes, the mean, and 1 / sqrt(variance + epsilon)."""
        mean = self.xp.mean(x, axis=axes, keepdims=True)
        rstd = 1 / self.xp.sqrt(self.xp.mean((x - mean) ** 2, axis=axes, keepdims=True) + self._as(epsilon, x.dtype))
        return (x - mean) * rstd, mean, rstd

    def _scaled_by(self, x: Any, weight: Any, bias: Any, shape: Any = None) -> Any:
        """x * weight + bias where they are given, in a shape."""
        for given, join in ((weight, self.xp.multiply), (bias, self.xp.add)):
            if given is not None:
                x = join(x, given if shape is None else self.xp.reshape(given, shape))
        return x

    def native_layer_norm(self, x: Any, shape: Any, weight: Any, bias: Any, epsilon: float) -> Any:
        out, mean, rstd = self._normalised(x, tuple(range(x.ndim - len(shape), x.ndim)), epsilon)
        return self._scaled_by(out, weight, bias), mean, rstd

    def layer_norm(self, x: Any, shape: Any, weight: Any = None, bias: Any = None, epsilon: float = 1e-05) -> Any:
        return self.native_layer_norm(x, shape, weight, bias, epsilon)[0]

    def rms_norm(self, x: Any, shape: Any, weight: Any = None, epsilon: float | None = None) -> Any:
        epsilon = _types.epsilon(x.dtype) if epsilon is None else epsilon
        axes = tuple(range(x.ndim - len(shape), x.ndim))
        square = self.xp.mean(x * x, axis=axes, keepdims=True) + self._as(epsilon, x.dtype)
        return self._scaled_by(x / self.xp.sqrt(square), weight, None)

    def native_batch_norm(
        self, x: Any, weight: Any, bias: Any, mean: Any, variance: Any, training: bool, momentum: float, epsilon: float
    ) -> Any:
        shape = (1, -1) + (1,) * (x.ndim - 2)
        if training:
            out, mean, rstd = self._normalised(x, (0, *range(2, x.ndim)), epsilon)
            return self._scaled_by(out, weight, bias, shape), mean.reshape(-1), rstd.reshape(-1)
        rstd = 1 / self.xp.sqrt(variance + self._as(epsilon, variance.dtype))
        out = (x - self.xp.reshape(mean, shape)) * self.xp.reshape(rstd, shape)
        none = self.xp.zeros((0,), dtype=x.dtype)
        return self._scaled_by(out, weight, bias, shape), none, none

    def batch_norm(
        self, x: Any, weight: Any, bias: Any, mean: Any, variance: Any, training: bool, momentum: float, epsilon: float
    ) -> Any:
        return self.native_batch_norm(x, weight, bias, mean, variance, training, momentum, epsilon)[0]

    def functional_batch_norm(
        self, x: Any, weight: Any, bias: Any, mean: Any, variance: Any, training: bool, momentum: float, epsilon: float
    ) -> Any:
        found = self.native_batch_norm(x, weight, bias, mean, variance, training, momentum, epsilon)
        if not training:
            return *found, mean, variance
        axes = (0, *range(2, x.ndim))
        now = self.xp.mean(x, axis=axes), self.var(x, axes)
        after = (
            self._scaled(old, 1 - momentum) + self._scaled(self._as(new, old.dtype), momentum)
            for old, new in zip((mean, variance), now, strict=True)
        )
        return *found, *after

    def native_group_norm(
        self, x: Any, weight: Any, bias: Any, n: int, c: int, area: int, groups: int, epsilon: float
    ) -> Any:
        out, mean, rstd = self._normalised(self.xp.reshape(x, (n, groups, -1)), (2,), epsilon)
        shape = (1, c) + (1,) * (x.ndim - 2)
        return self._scaled_by(self.xp.reshape(out, x.shape), weight, bias, shape), mean[..., 0], rstd[..., 0]

    def group_norm(self, x: Any, groups: int, weight: Any = None, bias: Any = None, epsilon: float = 1e-05) -> Any:
        return self.native_group_norm(x, weight, bias, x.shape[0], x.shape[1], 0, groups, epsilon)[0]

    def instance_norm(
        self,
        x: Any,
        weight: Any,
        bias: Any,
        mean: Any,
        variance: Any,
        use_input_stats: bool,
        momentum: float,
        epsilon: float,
    ) -> Any:
        if not use_input_stats:
            return self.batch_norm(x, weight, bias, mean, variance, False, momentum, epsilon)
        out, _, _ = self._normalised(x, tuple(range(2, x.ndim)), epsilon)
        return self._scaled_by(out, weight, bias, (1, -1) + (1,) * (x.ndim - 2))

    def _dropped(self, x: Any, p: float, training: bool) -> Any:
        if training and 0 < p < 1:
            raise self._at_random("dropout")
        return self.xp.zeros(x.shape, dtype=x.dtype) if training and p == 1 else x

    def dropout(self, x: Any, p: float, training: bool) -> Any:
        return self._dropped(x, p, training)

    def feature_dropout(self, x: Any, p: float, training: bool) -> Any:
        return self._dropped(x, p, training)

    def native_dropout(self, x: Any, p: float, training: bool | None) -> Any:
        training = training is None or training
        return self._dropped(x, p, training), self.xp.full(x.shape, not training or p < 1, dtype=np.bool_)


class Attention(Normalisation):
    """Forms of attention."""

    def scaled_dot_product_attention(
        self,
        query: Any,
        key: Any,
        value: Any,
        mask: Any = None,
        dropout: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Any:
        return self.flash_attention(query, key, value, dropout, is_causal, mask, scale)[0]

    def _each_head(self, query: Any, key: Any) -> Any:
        """Keys or values for each head of the query; each may serve several."""
        shared = query.shape[-3] // key.shape[-3] if query.ndim > 2 else 1
        return self.xp.repeat(key, shared, axis=-3) if shared > 1 else key

    def _factor(self, query: Any, scale: Any) -> Any:
        """What scores are multiplied by."""
        return 1 / math.sqrt(query.shape[-1]) if scale is None else scale

    def _scores(self, query: Any, key: Any, is_causal: bool, mask: Any, scale: float | None) -> Any:
        """What a softmax over keys is taken of."""
        scores = self._scaled(self._matmul(query, self.xp.swapaxes(key, -1, -2)), self._factor(query, scale))
        least = self._as(-math.inf, scores.dtype)
        if is_causal:
            scores = self.xp.where(np.tri(*scores.shape[-2:], dtype=np.bool_), scores, least)
        if mask is None:
            return scores
        return self.xp.where(mask, scores, least) if mask.dtype == np.bool_ else scores + mask

    def flash_attention(
        self,
        query: Any,
        key: Any,
        value: Any,
        dropout: float = 0.0,
        is_causal: bool = False,
        mask: Any = None,
        scale: float | None = None,
    ) -> Any:
        key, value = (self._each_head(query, each) for each in (key, value))
        scores = self._scores(query, key, is_causal, mask, scale)
        total = self.logsumexp(scores, -1, True)
        hidden = self.xp.isneginf(total)  # a query that sees no key gets 0
        weights = self.xp.where(
            hidden, self._as(0, scores.dtype), self.xp.exp(scores - self.xp.where(hidden, 0, total))
        )
        exact = self._as(total[..., 0], _types.promoted(total.dtype, _types.FLOAT))
        return self._matmul(self._dropped(weights, dropout, True), value), exact


class Loss(Attention):
    """Forms of losses; `reduction` is 0 for none, 1 for the mean, 2 for the sum."""

    def _reduced(self, loss: Any, reduction: int) -> Any:
        return loss if reduction == 0 else self.xp.mean(loss) if reduction == 1 else self.xp.sum(loss)

    def _class_weights(self, x: Any, y: Any, weight: Any, ignore_index: int) -> tuple[Any, Any]:
        """Classes that can be looked up, and the weight of each place: 0 where the class is ignored."""
        ignored = y == ignore_index
        y = self.xp.where(ignored, self._as(0, y.dtype), y)
        weights = self.xp.ones(y.shape, dtype=x.dtype) if weight is None else weight[y]
        return y, self.xp.where(ignored, self._as(0, x.dtype), weights)

    def _at_classes(self, x: Any, y: Any) -> Any:
        """x at classes y on axis 1, or 0 if it has only one."""
        axis = min(x.ndim - 1, 1)
        return self.xp.squeeze(self.xp.take_along_axis(x, self.xp.expand_dims(y, axis), axis=axis), axis=axis)

    def nll_loss_forward(self, x: Any, y: Any, weight: Any, reduction: int, ignore_index: int) -> Any:
        y, weights = self._class_weights(x, y, weight, ignore_index)
        loss, total = -self._at_classes(x, y) * weights, self.xp.sum(weights)
        if reduction == 0:
            return loss, self._as(0, x.dtype)
        loss = self.xp.sum(loss)
        return loss / total if reduction == 1 else loss, total

    def nll_loss(self, x: Any, y: Any, weight: Any = None, reduction: int = 1, ignore_index: int = -100) -> Any:
        return self.nll_loss_forward(x, y, weight, reduction, ignore_index)[0]

    def cross_entropy_loss(
        self,
        x: Any,
        y: Any,
        weight: Any = None,
        reduction: int = 1,
        ignore_index: int = -100,
        label_smoothing: float = 0.0,
    ) -> Any:
        axis = min(x.ndim - 1, 1)
        logs, count = self.log_softmax(x, axis), x.shape[axis]
        shaped = None if weight is None else self.xp.reshape(weight, (-1,) + (1,) * (x.ndim - 1 - axis))
        if y.shape == x.shape and y.dtype.kind not in "iu":
            y = y * (1 - label_smoothing) + self._as(label_smoothing / count, y.dtype) if label_smoothing else y
            return self._reduced(-self.xp.sum(logs * y * (1 if shaped is None else shaped), axis=axis), reduction)
        plain = self.nll_loss(logs, y, weight, reduction, ignore_index)
        if not label_smoothing:
            return plain
        y, weights = self._class_weights(x, y, weight, ignore_index)
        smooth = -self.xp.sum(logs if shaped is None else logs * shaped, axis=axis)
        smooth = self.xp.where(weights != 0, smooth, self._as(0, x.dtype))
        smooth = self.xp.sum(smooth) / self.xp.sum(weights) if reduction == 1 else self._reduced(smooth, reduction)
        return self._scaled(plain, 1 - label_smoothing) + self._scaled(smooth, label_smoothing / count)

    def mse_loss(self, x: Any, y: Any, reduction: int = 1) -> Any:
        return self._reduced((x - y) ** 2, reduction)

    def l1_loss(self, x: Any, y: Any, reduction: int = 1) -> Any:
        return self._reduced(self.xp.abs(x - y), reduction)

    def smooth_l1_loss(self, x: Any, y: Any, reduction: int = 1, beta: float = 1.0) -> Any:
        if beta == 0:
            return self.l1_loss(x, y, reduction)
        return self._reduced(self.huber_loss(x, y, 0, beta) / self._as(beta, x.dtype), reduction)

    def huber_loss(self, x: Any, y: Any, reduction: int = 1, delta: float = 1.0) -> Any:
        far = self.xp.abs(x - y)
        loss = self.xp.where(
            far < delta, self._scaled(far * far, 0.5), self._scaled(far - self._as(delta / 2, x.dtype), delta)
        )
        return self._reduced(loss, reduction)

    def binary_cross_entropy(self, x: Any, y: Any, weight: Any = None, reduction: int = 1) -> Any:
        loss = -(y * self.clip(self.xp.log(x), -100) + (1 - y) * self.clip(self.xp.log1p(-x), -100))
        return self._reduced(loss if weight is None else loss * weight, reduction)

    def binary_cross_entropy_with_logits(
        self, x: Any, y: Any, weight: Any = None, pos_weight: Any = None, reduction: int = 1
    ) -> Any:
        scale = 1 if pos_weight is None else 1 + (pos_weight - 1) * y
        loss = (1 - y) * x - scale * self.logsigmoid(x)
        return self._reduced(loss if weight is None else loss * weight, reduction)

    def kl_div(self, x: Any, y: Any, reduction: int = 1, log_target: bool = False) -> Any:
        loss = self.xp.exp(y) * (y - x) if log_target else self.xlogy(y, y) - y * x
        return self._reduced(loss, reduction)
