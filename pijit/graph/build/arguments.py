"""The tensors in the arguments of a call, with the names under which a graph has them."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from pijit import _torch_objects

# Where a leaf is: ("args", 0) or ("kwargs", "mask"), then keys.
Path = tuple[Any, ...]


_DEEPEST = 100  # levels of containers in containers
_MOST = 100_000  # containers in one level


class Leaf(NamedTuple):
    """A tensor in the arguments."""

    name: str
    path: Path
    tensor: Any


def leaves(
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    is_leaf: Callable[[Any], bool] = _torch_objects.is_tensor,
) -> list[Leaf]:
    """The tensors in tuples, lists and dicts of the arguments, in order, each once.

    A tensor that is an argument itself is called as the parameter of `fn`, one inside of an argument as that with its
    keys behind it: "batch_mask" is `batch["mask"]`.
    """
    found: dict[int, Leaf] = {}
    names: set[str] = set()
    seen: set[int] = set()
    positional = _positional(fn)
    for at, value in enumerate(args):
        start = positional[at] if at < len(positional) else f"arg_{at}"
        _collect(value, start, ("args", at), found, names, seen, is_leaf)
    for key, value in kwargs.items():
        _collect(value, key, ("kwargs", key), found, names, seen, is_leaf)
    return list(found.values())


def is_shallow(value: Any) -> bool:
    """Tuples, lists and dicts in it end somewhere, and soon: those of what contains itself do not."""
    level: list[Any] = [value]
    for _ in range(_DEEPEST):
        level = [item for each in level for _, item in _items(each) if isinstance(item, Mapping | tuple | list)]
        if not level or len(level) > _MOST:
            return not level
    return False


def _collect(
    value: Any,
    name: str,
    path: Path,
    found: dict[int, Leaf],
    names: set[str],
    seen: set[int],
    is_leaf: Callable[[Any], bool],
) -> None:
    """Each container is looked into once: it may contain itself."""
    if is_leaf(value):
        if id(value) not in found:
            unique, count = name, 1
            while unique in names:
                count += 1
                unique = f"{name}_{count}"
            names.add(unique)
            found[id(value)] = Leaf(unique, path, value)
        return
    if id(value) in seen:
        return
    for key, item in _items(value):
        seen.add(id(value))
        word = "".join(letter if letter.isalnum() else "_" for letter in str(key))
        _collect(item, f"{name}_{word}", (*path, key), found, names, seen, is_leaf)


def _items(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        yield from value.items()
    elif isinstance(value, tuple | list):
        yield from enumerate(value)


def _positional(fn: Any) -> list[str]:
    """Names of the parameters that can be given by position; of a module those of `forward`."""
    inner = fn.forward if _torch_objects.is_module(fn) else fn
    try:
        parameters = inspect.signature(inner).parameters.values()
    except (TypeError, ValueError):  # it has no signature that Python can read
        return []
    return [each.name for each in parameters if each.kind in {each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD}]
