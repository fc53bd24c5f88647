"""Forms in ONNX that are those of the arrays, over `namespace.py`: families of rows that other operators make up.

A row has a form of its own in the other modules where ONNX has an operator for it, or runtimes want it another way.
That one comes first. A row of one of these families needs none.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from pijit._formats.onnx import activations, elementwise, layers, reductions, training_layers, windows
from pijit._formats.onnx.arrays import expand_dims
from pijit._formats.onnx.builder import Builder
from pijit._formats.onnx.namespace import Array, Namespace, bare, dressed
from pijit._formats.onnx.types import words
from pijit.graph.forms.arrays import Arrays
from pijit.graph.forms.arrays_layers import Activation, Loss
from pijit.graph.forms.arrays_training import Gradients, NormGradients


class Shared(Arrays):
    """The forms of the arrays for one graph, and what ONNX does in its own way."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self.xp = Namespace(builder)

    def _as(self, x: Any, dtype: Any) -> Any:
        return x.astype(dtype) if isinstance(x, Array) else Array(self.builder.const(x, np.dtype(dtype).name))

    def _together(self, *operands: Any) -> list[Any]:
        return list(dressed(self.builder.operands(*map(bare, operands))))

    def _floating(self, x: Any) -> Any:
        return Array(elementwise.floating(self.builder, bare(x)))

    def _factor(self, query: Any, scale: Any) -> Any:
        return dressed(layers.scaling(self.builder, query.tensor, bare(scale)))

    def _each_head(self, query: Any, key: Any) -> Any:
        return Array(layers.repeated(self.builder, key.tensor, query.tensor))

    def _scores(self, query: Any, key: Any, is_causal: bool, mask: Any, scale: Any) -> Any:
        return Array(layers.scores_of(self.builder, *map(bare, (query, key, mask, is_causal, scale)))[0])

    def _forward(self, x: Any, weight: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
        given = map(bare, (x, weight, None, stride, padding, dilation, groups))
        return Array(windows.convolve(self.builder, *given))

    def _transposed(
        self, x: Any, weight: Any, stride: Any, padding: Any, dilation: Any, groups: int, output_padding: Any
    ) -> Any:
        given = map(bare, (x, weight, None, stride, padding, output_padding, groups, dilation))
        return Array(windows.conv_transpose(self.builder, *given))

    def _kernel_gradient(
        self, gradient: Any, x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, groups: int
    ) -> Any:
        given = map(bare, (x, gradient, kernel, stride, padding, dilation, groups))
        return Array(training_layers.weight_gradient(self.builder, *given))

    def _put(self, x: Any, index: Any, value: Any, how: str = "set") -> Any:
        assert how == "add"
        places = expand_dims(self.builder, bare(index[0]), 1)
        return Array(self.builder.ScatterND(x.tensor, self.builder.cast(places, "int64"), value.tensor, reduction=how))


def _own(module: Any, name: str) -> Callable[..., Any]:
    """A form in ONNX in the place of that of the arrays."""

    def form(self: Shared, *given: Any, **named: Any) -> Any:
        lower = getattr(module, name)
        return dressed(lower(self.builder, *map(bare, given), **{key: bare(each) for key, each in named.items()}))

    return form


# What forms call that ONNX has as one operator, or that depends on free sizes.
for _module, _names in (
    (activations, "sigmoid log_softmax softmax relu elu"),
    (elementwise, "erf clip xlogy sign add subtract multiply divide"),
    (reductions, "vector_norm"),
):
    for _name in _names.split():
        setattr(Shared, _name, _own(_module, _name))
del _module, _names, _name

FAMILIES = (Activation, Loss, Gradients, NormGradients)
MORE = words(
    """addcmul addcdiv vecdot outer addbmm bilinear cdist rms_norm native_group_norm
    embedding_backward convolution_backward adaptive_avg_pool2d_backward avg_pool2d_backward
    upsample_nearest2d_backward upsample_bilinear2d_backward"""
)
ROWS = MORE | {name for family in FAMILIES for name in vars(family) if not name.startswith("_")}


def form(name: str) -> Callable[..., Any] | None:
    """The form of a row, as others of ONNX are called; or None."""
    if name not in ROWS:
        return None

    def lower(o: Builder, **arguments: Any) -> Any:
        method = getattr(Shared(o), name)
        return bare(method(**{key: dressed(each) for key, each in arguments.items()}))

    return lower
