"""softmax(query @ key.T * scale + mask) @ value by hand becomes `scaled_dot_product_attention`.

The key comes transposed, whatever has transposed it; a query that was scaled before is a query. The mask is added, or
fills where it is true. Softmax is computed in the dtype of the scores, or in float32.

Rows of which everything is masked with -infinity are 0 in the operator; by hand they are NaN.
"""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention

from pijit.passes.replacements.forms import Replacement

_SCALE = 0.7310585786300049
_FILL = -30142.5

# What makes scores of products, or a query of one that is not scaled yet.
_SCALED: dict[str, Callable[[Any, float], Any]] = {
    "not": lambda scores, scale: scores,
    "multiplied": lambda scores, scale: scores * scale,
    "divided": lambda scores, scale: scores / scale,
}
_MASKED: dict[str, Callable[[Any, Any, float], Any]] = {
    "not": lambda scores, mask, fill: scores,
    "added": lambda scores, mask, fill: scores + mask,
    "filled": lambda scores, mask, fill: scores.masked_fill(mask, fill),
}
# Each with the dtypes for which it is another one.
_SOFTMAX: dict[str, tuple[Callable[[Any], Any], tuple[torch.dtype, ...]]] = {
    "own": (lambda scores: torch.softmax(scores, -1), (torch.float32,)),
    "float32": (
        lambda scores: torch.softmax(scores, -1, dtype=torch.float32).to(scores.dtype),
        (torch.float32, torch.bfloat16),
    ),
    "cast": (
        lambda scores: torch.softmax(scores.to(torch.float32), -1).to(scores.dtype),
        (torch.bfloat16,),
    ),
    "as before": (lambda scores: torch.softmax(scores.to(torch.float32), -1).type_as(scores), (torch.bfloat16,)),
}


def _replacement(scaled: str, masked: str, softmax: str, dtype: torch.dtype) -> Replacement:
    """One way to write attention."""
    scale_of, mask_of, softmax_of = _SCALED[scaled], _MASKED[masked], _SOFTMAX[softmax][0]
    arguments = ["query", "key", "value"]
    arguments += ["scale"] if scaled != "not" else []
    arguments += ["mask"] if masked != "not" else []
    arguments += ["fill"] if masked == "filled" else []

    def pattern(**given: Any) -> Any:
        scores = scale_of(given["query"] @ given["key"], given.get("scale", 1.0))
        return softmax_of(mask_of(scores, given.get("mask"), given.get("fill", 0.0))) @ given["value"]

    def replacement(**given: Any) -> Any:
        query, key = given["query"], given["key"].transpose(-2, -1)
        mask: Any = given.get("mask")
        if masked == "filled":
            mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill(mask, given["fill"])
        if scaled == "divided":
            query = query / given["scale"]
        scale = given["scale"] if scaled == "multiplied" else 1.0
        made = scaled_dot_product_attention(query, key, given["value"], attn_mask=mask, scale=scale)
        return made.contiguous()  # as a product is: the program may take a view of it

    def examples() -> tuple[Any, ...]:
        generator = torch.Generator().manual_seed(0)

        def made(*shape: int) -> torch.Tensor:
            return torch.randn(shape, generator=generator).to(dtype)

        mask = made(4, 6)
        known = {
            "query": made(2, 3, 4, 5),
            "key": made(2, 3, 5, 6),
            "value": made(2, 3, 6, 5),
            "scale": _SCALE,
            "mask": mask > 1 if masked == "filled" else mask,
            "fill": _FILL,
        }
        return tuple(known[name] for name in arguments)

    return Replacement(
        "attention",
        _by_place(pattern, arguments),
        _by_place(replacement, arguments),
        examples,
        names=tuple(arguments),
        operators=frozenset({"matmul", "softmax", *({"masked_fill"} if masked == "filled" else ())}),
        tolerance=(1e-4, 1e-5) if dtype == torch.float32 else (2e-2, 2e-2),
    )


def _by_place(function: Callable[..., Any], names: list[str]) -> Callable[..., Any]:
    return lambda *args: function(**dict(zip(names, args, strict=True)))


def _all() -> Iterator[Replacement]:
    # What has a mask, or a scale, comes first: without it the pattern would fit a part of it.
    for masked, scaled in itertools.product(("filled", "added", "not"), ("multiplied", "divided", "not")):
        for softmax, (_, dtypes) in _SOFTMAX.items():
            for dtype in dtypes:
                yield _replacement(scaled, masked, softmax, dtype)


REPLACEMENTS = tuple(_all())
