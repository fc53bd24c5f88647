"""Root mean square norms and layer norms by hand become `rms_norm` and `layer_norm` over the last axis.

Weights of another form than that of the last axis stay as the program has them.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn import functional as F

from pijit.graph.model import Value
from pijit.passes.replacements.forms import Replacement

_EPSILON = 0.00137

_SQUARED: tuple[Callable[[Any], Any], ...] = (lambda x: x.pow(2), lambda x: x * x, torch.square)
_DIVIDED: tuple[Callable[[Any, Any], Any], ...] = (
    lambda x, variance: x * torch.rsqrt(variance),
    lambda x, variance: x / torch.sqrt(variance),
)


def _fits(x: Value, weight: Value | None = None, bias: Value | None = None, **numbers: float) -> bool:
    """The weights are of the last axis."""
    last = x.shape[-1:] if x.shape else None
    return bool(last) and all(each is None or each.shape == last for each in (weight, bias))


def _examples(dtype: torch.dtype, *weights: int) -> Callable[[], tuple[Any, ...]]:
    def made() -> tuple[Any, ...]:
        generator = torch.Generator().manual_seed(0)
        shapes = ((2, 3, 8), *((8,) for _ in weights))
        return (*(torch.randn(shape, generator=generator).to(dtype) for shape in shapes), _EPSILON)

    return made


def _rms_norms() -> Iterator[Replacement]:
    def made(pattern: Callable[..., Any], dtype: torch.dtype, weighted: bool) -> Replacement:
        def with_weight(x: Any, weight: Any, epsilon: float) -> Any:
            return F.rms_norm(x, (x.shape[-1],), weight, epsilon)

        def without(x: Any, epsilon: float) -> Any:
            return F.rms_norm(x, (x.shape[-1],), None, epsilon)

        return Replacement(
            "rms_norm",
            pattern,
            with_weight if weighted else without,
            _examples(dtype, *([1] if weighted else [])),
            where=_fits,
            operators=frozenset({"mean"}),
            tolerance=(1e-4, 1e-5) if dtype == torch.float32 else (2e-2, 2e-2),
        )

    for squared in _SQUARED:
        for divided in _DIVIDED:

            def norm(x: Any, epsilon: float, squared: Any = squared, divided: Any = divided) -> Any:
                return divided(x, squared(x).mean(-1, keepdim=True) + epsilon)

            def cast(x: Any, epsilon: float, norm: Any = norm) -> Any:
                return norm(x.to(torch.float32), epsilon).to(x.dtype)

            def weighted(x: Any, weight: Any, epsilon: float, cast: Any = cast) -> Any:
                return weight * cast(x, epsilon)

            def weighted_in_float32(x: Any, weight: Any, epsilon: float, norm: Any = norm) -> Any:
                return (weight.to(torch.float32) * norm(x.to(torch.float32), epsilon)).to(x.dtype)

            for dtype in (torch.float32, torch.bfloat16):
                yield made(weighted, dtype, True)
            yield made(weighted_in_float32, torch.bfloat16, True)
            for dtype in (torch.float32, torch.bfloat16):
                yield made(cast, dtype, False)


def _layer_norms() -> Iterator[Replacement]:
    variances: tuple[Callable[[Any, Any], Any], ...] = (
        lambda x, centred: x.var(-1, keepdim=True, unbiased=False),
        lambda x, centred: centred.pow(2).mean(-1, keepdim=True),
        lambda x, centred: (centred * centred).mean(-1, keepdim=True),
    )
    for variance in variances:
        for divided in _DIVIDED:

            def norm(x: Any, epsilon: float, variance: Any = variance, divided: Any = divided) -> Any:
                centred = x - x.mean(-1, keepdim=True)
                return divided(centred, variance(x, centred) + epsilon)

            def affine(x: Any, weight: Any, bias: Any, epsilon: float, norm: Any = norm) -> Any:
                return norm(x, epsilon) * weight + bias

            def with_weights(x: Any, weight: Any, bias: Any, epsilon: float) -> Any:
                return F.layer_norm(x, (x.shape[-1],), weight, bias, epsilon)

            def without(x: Any, epsilon: float) -> Any:
                return F.layer_norm(x, (x.shape[-1],), None, None, epsilon)

            for pattern, replacement, weights in ((affine, with_weights, (1, 1)), (norm, without, ())):
                yield Replacement(
                    "layer_norm",
                    pattern,
                    replacement,
                    _examples(torch.float32, *weights),
                    where=_fits,
                    operators=frozenset({"mean", "subtract"}),
                )


REPLACEMENTS = (*_layer_norms(), *_rms_norms())
