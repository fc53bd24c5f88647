"""Which calls and stores of Python change something that is still there after the call."""

import functools
import re
import types
from collections.abc import Mapping
from typing import Any

_STORES = {"setattr", "delattr", "setitem", "delitem", "setcell"}
_METHODS = (types.MethodDescriptorType, types.WrapperDescriptorType)
# Classes whose objects nothing can change, so that their methods only compute.
_FIXED = (str, bytes, int, float, bool, complex, tuple, frozenset, range, type(None), re.Pattern, re.Match)
_PURE: set[Any] = {len, repr, id, hash, isinstance, issubclass, callable, format, ord, chr, ascii, bin, hex, type}
_PURE |= {dict, list, tuple, set, frozenset, str, int, float, bool, range, slice}


# Files whose code keeps its own house, as parts of their paths: modules are loaded, and compilers are told to wait.
_HOUSEKEEPING = ("<frozen importlib", "/torch/_dynamo/")


def is_housekeeping(file: str) -> bool:
    """Effects of code in this file are none of the program."""
    return any(part in file for part in _HOUSEKEEPING)


def changed(row: Mapping[str, Any]) -> Any:
    """The object that a store changes, or on which a method of C code is called, as a value of the trace."""
    if row["op"] in _STORES:
        return row["a"]
    callable_ = row["a"][1] if row.get("a") is not None and row["a"][0] == "const" else None
    operands = row.get("operands") or [("none",)]
    return operands[0] if isinstance(callable_, _METHODS) else ("none",)


def is_cache_hit(row: Mapping[str, Any]) -> bool:
    """A call that finds its result in a cache: only the cache's own counts change."""
    return bool(row["op"] == "call" and isinstance(row["a"][1], functools._lru_cache_wrapper))


def is_pure(row: Mapping[str, Any]) -> bool:
    """A call of C code that only computes."""
    if row.get("a") is None or row["a"][0] != "const":
        return False
    callable_ = row["a"][1]
    try:
        return (isinstance(callable_, _METHODS) and callable_.__objclass__ in _FIXED) or callable_ in _PURE
    except TypeError:  # it has no hash
        return False


# They look at the class of an object, or at the object itself, whatever is in it.
_OF_CLASS = {isinstance, issubclass, type, id, callable, hasattr, getattr, print}


def looks_at_content(row: Mapping[str, Any]) -> bool:
    """What a call of C code gives may hang on the numbers that it is given."""
    if row["op"] == "pure":
        return True
    try:
        own = row["a"][0] == "const" and row["a"][1] not in _OF_CLASS
    except TypeError:  # it has no hash
        return False
    return own and (is_pure(row) or getattr(row["a"][1], "__module__", "") in {"_operator", "math"})
