"""Forms of convolution over the namespace `self.xp`.

A framework gives `_convolve` and `_kernel_gradient`; transposed convolution and gradients are made from them.
"""

from typing import Any

from pijit.graph.forms.arrays_shape import Shape, as_tuple


def per_axis(value: Any, count: int) -> tuple[Any, ...]:
    """A number for each axis."""
    value = as_tuple(value)
    assert isinstance(value, tuple)
    return value if len(value) == count else value * count


class Convolution(Shape):
    """Forms of convolution over all axes but the first two; x without a batch gets one for the time."""

    def _convolve(self, x: Any, weight: Any, stride: Any, pads: Any, dilation: Any, groups: int, spread: Any) -> Any:
        """The convolution of x, with `spread` - 1 zeros between its elements and `pads` (before, after) around it."""
        raise NotImplementedError

    def _kernel_gradient(
        self, gradient: Any, x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, groups: int
    ) -> Any:
        """The gradient of a convolution for its weight."""
        raise NotImplementedError

    def _forward(self, x: Any, weight: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
        n = weight.ndim - 2
        stride, dilation = per_axis(stride, n), per_axis(dilation, n)
        if padding == "same":
            spans = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:], strict=True)]
            pads = [(span // 2, span - span // 2) for span in spans]
        else:
            pads = [(each, each) for each in per_axis(0 if padding == "valid" else padding, n)]
        return self._convolve(x, weight, stride, pads, dilation, groups, (1,) * n)

    def _transposed(
        self, x: Any, weight: Any, stride: Any, padding: Any, dilation: Any, groups: int, output_padding: Any
    ) -> Any:
        n = weight.ndim - 2
        stride, padding, dilation, more = (per_axis(each, n) for each in (stride, padding, dilation, output_padding))
        spans = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:], strict=True)]
        pads = [(span - p, span - p + m) for span, p, m in zip(spans, padding, more, strict=True)]
        c, o = weight.shape[:2]
        weight = self.xp.flip(weight, axis=tuple(range(2, n + 2)))
        weight = self.xp.swapaxes(self.xp.reshape(weight, (groups, c // groups, *weight.shape[1:])), 1, 2)
        weight = self.xp.reshape(weight, (groups * o, c // groups, *weight.shape[3:]))
        return self._convolve(x, weight, (1,) * n, pads, dilation, groups, stride)

    def convolution(
        self,
        x: Any,
        weight: Any,
        bias: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        transposed: bool,
        output_padding: Any,
        groups: int,
    ) -> Any:
        single = x.ndim == weight.ndim - 1
        x = x[None] if single else x
        if transposed:
            out = self._transposed(x, weight, stride, padding, dilation, groups, output_padding)
        else:
            out = self._forward(x, weight, stride, padding, dilation, groups)
        if bias is not None:
            out = out + self.xp.reshape(bias, (1, -1) + (1,) * (weight.ndim - 2))
        return out[0] if single else out

    def conv1d(
        self,
        x: Any,
        weight: Any,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Any:
        return self.convolution(x, weight, bias, stride, padding, dilation, False, 0, groups)

    conv2d = conv3d = conv1d

    def conv_transpose1d(
        self,
        x: Any,
        weight: Any,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        dilation: Any = 1,
    ) -> Any:
        return self.convolution(x, weight, bias, stride, padding, dilation, True, output_padding, groups)

    conv_transpose2d = conv_transpose3d = conv_transpose1d

    def convolution_backward(
        self,
        gradient: Any,
        x: Any,
        weight: Any,
        bias_shape: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        transposed: bool,
        output_padding: Any,
        groups: int,
        mask: Any,
    ) -> Any:
        n = weight.ndim - 2
        stride, padding, dilation = (per_axis(each, n) for each in (stride, padding, dilation))
        for_x = for_weight = for_bias = None
        if mask[0] and transposed:
            for_x = self._forward(gradient, weight, stride, padding, dilation, groups)
        elif mask[0]:
            short = zip(x.shape[2:], weight.shape[2:], gradient.shape[2:], stride, padding, dilation, strict=True)
            more = tuple(size - ((g - 1) * s - 2 * p + d * (k - 1) + 1) for size, k, g, s, p, d in short)
            for_x = self._transposed(gradient, weight, stride, padding, dilation, groups, more)
        if mask[1]:
            pair = (x, gradient) if transposed else (gradient, x)
            for_weight = self._kernel_gradient(*pair, weight.shape[2:], stride, padding, dilation, groups)
        if mask[2]:
            for_bias = self.xp.sum(gradient, axis=(0, *range(2, n + 2)))
        return for_x, for_weight, for_bias
