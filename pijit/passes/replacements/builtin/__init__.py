"""The replacements of pijit, a file a family: patterns, what stands in their place, and the tolerance."""

import functools
import importlib
import sys

from pijit.passes.replacements.forms import Replacement

FAMILIES = ("attention", "norms", "activations")


def all_of_them() -> tuple[Replacement, ...]:
    """In the order in which they are tried: what spans most comes first. None where torch is not imported."""
    return _loaded() if "torch" in sys.modules else ()


@functools.cache
def _loaded() -> tuple[Replacement, ...]:
    modules = [importlib.import_module(f"{__name__}.{family}") for family in FAMILIES]
    return tuple(each for module in modules for each in module.REPLACEMENTS)
