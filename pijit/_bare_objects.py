"""Objects of the program, made, read and changed without running a method of the program."""

from collections.abc import Iterable, Mapping
from typing import Any

ABSENT: Any = type("absent", (), {"__repr__": lambda _: "absent", "__slots__": ()})()
IMMUTABLE_TYPE = 1 << 8  # of `type.__flags__`: a class of C, whose attributes cannot change


def own(thing: Any, name: str) -> Any:
    """What an object itself has under a name, in its dict or a slot; `ABSENT`: nothing."""
    slot = _slot(type(thing), name)
    if slot is None:
        return getattr(thing, "__dict__", {}).get(name, ABSENT)
    try:
        return slot.__get__(thing)
    except AttributeError:
        return ABSENT


def _slot(kind: type, name: str) -> Any:
    for base in kind.__mro__:
        found = vars(base).get(name)
        if found is not None:
            return found if type(found).__name__ in {"member_descriptor", "getset_descriptor"} else None
    return None


def set_attribute(thing: Any, name: str, value: Any) -> None:
    """Store what an object keeps itself; no method of the program runs."""
    if _slot(type(thing), name) is None:
        thing.__dict__[name] = value
    else:
        object.__setattr__(thing, name, value)


def delete_attribute(thing: Any, name: str) -> None:
    """Delete what an object keeps itself; no method of the program runs."""
    if _slot(type(thing), name) is None:
        del thing.__dict__[name]
    else:
        object.__delattr__(thing, name)


def new(kind: type, attributes: Mapping[str, Any], items: Iterable[tuple[Any, Any]] = ()) -> Any:
    """An instance whose class is not called: it has these attributes, and if it is a dict these items."""
    base: Any = next(each for each in kind.__mro__ if not _is_written(each))
    made = base.__new__(kind)
    for key, value in items:
        base.__setitem__(made, key, value)
    for name, value in attributes.items():
        set_attribute(made, name, value)
    return made


def _is_written(kind: type) -> bool:
    """It was made by a `class` statement."""
    return bool(kind.__flags__ & (1 << 9)) and not kind.__flags__ & IMMUTABLE_TYPE


def sequence(kind: type, items: tuple[Any, ...]) -> Any:
    """A tuple of a class that is derived from `tuple`, such as a named one."""
    return tuple.__new__(kind, items) if _is_written(kind) else kind(items)
