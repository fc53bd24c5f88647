"""What each row of the vocabulary does in a framework: one module a framework, in it one function a row.

A function has the row's name (with an underscore behind it where that is a word of Python) and its parameters. It takes
arrays of its framework, numbers, tuples of both, and `Token` for dtypes and devices; in indices also Python's slices,
None and Ellipsis. It gives an array, a number, or a sequence of them.
"""

import functools
import importlib
import importlib.util
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

from pijit._usage_errors import nearest
from pijit.errors import UsageError
from pijit.graph import lowerings


class Framework(NamedTuple):
    """A framework that can run graphs: its module of forms, the package it needs, and how that is installed."""

    forms: str
    package: str
    install: str


FRAMEWORKS = {
    "torch": Framework("torch", "torch", "pip install torch"),
    "numpy": Framework("numpy", "numpy", "pip install numpy"),
    "jax": Framework("jax", "jax", "pip install 'jax[cpu]'"),
    "mindspore": Framework("mindspore", "mindspore", "pip install mindspore 'numpy<2'"),
}


# What a module of forms calls the namespace of arrays that a user's form is given.
_NAMESPACES = {"numpy": "np", "jax": "jnp"}


def load(framework: str) -> ModuleType:
    """The forms of a framework.

    Raises:
        UsageError: there is no such framework, or its package is not installed or does not load.
    """
    if framework not in FRAMEWORKS:
        raise UsageError(f"no framework is called {framework!r}{nearest(framework, FRAMEWORKS)}")
    found = FRAMEWORKS[framework]
    if importlib.util.find_spec(found.package) is None:
        raise UsageError(f"framework {framework!r} needs the package {found.package}: {found.install}")
    try:
        return importlib.import_module(f"{__name__}.{found.forms}")
    except Exception as error:  # what the package raises where another one, such as NumPy, is of a version too far away
        raise UsageError(f"framework {framework!r} does not load: {type(error).__name__}: {error}") from error


def form_of(forms: ModuleType, name: str) -> Callable[..., Any] | None:
    """The function of a row, or of an operator that a user has given a form; or None."""
    if "::" in name:
        own, namespace = lowerings.of_arrays(name), _NAMESPACES.get(forms.__name__.rpartition(".")[2])
        return None if own is None or namespace is None else functools.partial(own, getattr(forms, namespace))
    return getattr(forms, name, None) or getattr(forms, f"{name}_", None)
