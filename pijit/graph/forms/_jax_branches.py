"""Decisions, loops and numbers in JAX where `jax.jit` traces them: what is not known yet is an array without axes."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np

from pijit.errors import ExportError
from pijit.graph.forms import numbers
from pijit.graph.forms._types import category
from pijit.graph.vocabulary.maths import OF_FLOATS


def _traced(*given: Any) -> bool:
    return any(isinstance(each, jax.core.Tracer) for each in jax.tree_util.tree_leaves(given))


def _open(*given: Any) -> bool:
    """Python's own functions cannot compute with it: an array that is not known yet, or a size that stays free."""
    return _traced(*given) or any(map(jax.export.is_symbolic_dim, given))


def _strong(x: Any) -> Any:
    """An array whose dtype is its own; of a number int64, float64 or bool."""
    return jnp.asarray(x, jnp.result_type(x))


def _as(x: Any, dtype: Any, what: str) -> Any:
    """The array in a dtype of the same category; elsewhere it would be another number."""
    if category(np.dtype(x.dtype)) != category(np.dtype(dtype)):
        raise ExportError(
            f"{what} is {x.dtype} and {dtype}, and JAX compiles one dtype; cast it with `.to(...)`, or run the graph "
            "outside of jax.jit"
        )
    return x.astype(dtype)


class Branches:
    """Goes before the other forms of JAX."""

    def cond(self, condition: Any, then: Any, otherwise: Any, operands: Any = ()) -> Any:
        if not _traced(condition):
            return numbers.cond(condition, then, otherwise, operands)
        sides = [lambda side=side: tuple(map(_strong, side(*operands))) for side in (then, otherwise)]
        types = [jax.eval_shape(side) for side in sides]
        wanted = [jnp.promote_types(a.dtype, b.dtype) for a, b in zip(*types, strict=True)]

        def cast(side: Any) -> Any:
            return lambda: tuple(_as(x, d, "a result of two sides") for x, d in zip(side(), wanted, strict=True))

        return jax.lax.cond(condition, *map(cast, sides))

    def while_(self, condition: Any, body: Any, carried: Any, operands: Any = ()) -> Any:
        if not _traced(carried, operands):
            return numbers.while_(condition, body, carried, operands)
        start = tuple(map(_strong, carried))

        def turn(now: Sequence[Any]) -> Any:
            made = map(_strong, body(*now, *operands))
            return tuple(_as(x, old.dtype, "what a loop carries") for x, old in zip(made, start, strict=True))

        return jax.lax.while_loop(lambda now: jnp.asarray(condition(*now, *operands), bool), turn, start)

    def scalar_truth(self, x: Any) -> Any:
        return x != 0 if _traced(x) else bool(x)

    def scalar_not(self, x: Any) -> Any:
        return x == 0 if _traced(x) else not x

    def scalar_int(self, x: Any) -> Any:
        return jnp.trunc(x).astype(np.int64) if _traced(x) else int(x)

    def scalar_float(self, x: Any) -> Any:
        return jnp.asarray(x, np.float64) if _open(x) else float(x)

    def scalar_min(self, x: Any, y: Any) -> Any:
        return jnp.where(y < x, y, x) if _traced(x, y) else min(x, y)

    def scalar_max(self, x: Any, y: Any) -> Any:
        return jnp.where(y > x, y, x) if _traced(x, y) else max(x, y)

    def scalar_round(self, x: Any, y: Any = None) -> Any:
        if not _open(x):
            return round(x, y)
        made = jnp.round(jnp.asarray(x, np.float64), y or 0)
        return made.astype(np.int64) if y is None else made


# Functions of the module math, and their names in JAX where they have another one.
_NAMES = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2"}


def _function(name: str) -> Any:
    own = jax.lax.erf if name == "erf" else getattr(jnp, _NAMES.get(name, name))
    whole = name in {"floor", "ceil", "trunc"}

    def form(self: Branches, x: Any, **more: Any) -> Any:
        given = (x, *more.values())
        if not _open(*given):
            return numbers.FORMS[f"scalar_{name}"](*given)
        made = own(*(jnp.asarray(each, np.float64) for each in given))
        return made.astype(np.int64) if whole else made

    return form


for _name in (*OF_FLOATS, "floor", "ceil", "trunc", "hypot", "atan2", "fmod"):
    setattr(Branches, f"scalar_{_name}", _function(_name))
