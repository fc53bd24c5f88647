"""Values of a trace as expressions of Python, and the names of the objects that they speak of.

A plain number or text stands in the expression. Any other object has a name in the namespace of the function, made of
the expression by which the program finds it: `self.layers[0].weight` is `self_layers_0_weight`.
"""

import builtins
import keyword
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from types import BuiltinFunctionType, FunctionType
from typing import Any

from pijit import _bare_objects, _listing
from pijit._formats.code import library
from pijit.errors import ExportError
from pijit.graph.model.tokens import token

_PLAIN = (int, bool, str, bytes, type(None), type(...))
_LONGEST_TEXT = 200  # of a constant that stands in the text
LIBRARY = {
    name: thing
    for module in (_bare_objects, library)
    for name, thing in vars(module).items()
    if getattr(thing, "__module__", "") == module.__name__ and not name.startswith("_")
} | {"ABSENT": _bare_objects.ABSENT}
_SHARED = {"tuple", "list", "dict", "instance", "method", "vars"}


class Unsayable(Exception):
    """A value that Python code cannot say; the caller adds the place."""


class Namespace:
    """The objects that the text names.

    Args:
        taken: names that are something else, such as the function's parameters.
        texts: for the identities of objects the expressions by which the program finds them.
    """

    def __init__(self, taken: Iterable[str], texts: Mapping[int, str]) -> None:
        self.taken = {*dir(builtins), *keyword.kwlist, *LIBRARY, *taken, "torch", "original", "undo", "unchanged"}
        self.texts = texts
        self.objects: dict[str, Any] = {}
        self._names: dict[int, str] = {}

    def name(self, thing: Any, hint: str = "") -> str:
        """The name of an object; it has one from here on."""
        known = self._names.get(id(thing))
        if known is None:
            known = self.fresh(self.texts.get(id(thing)) or hint or _described(thing))
            self._names[id(thing)] = known
            self.objects[known] = thing
        return known

    def give(self, name: str, thing: Any) -> None:
        """An object has this very name."""
        self._names[id(thing)] = name
        self.objects[name] = thing

    def fresh(self, wanted: str) -> str:
        """A name that nothing else has."""
        word = re.sub(r"\W+", "_", _listing.readable(wanted)).strip("_") or "thing"
        word = f"_{word}" if word[0].isdigit() else word
        found, count = word, 1
        while found in self.taken:
            count += 1
            found = f"{word}_{count}"
        self.taken.add(found)
        return found

    def literal(self, thing: Any, hint: str = "") -> str:
        """A constant: itself where it is plain, else its name."""
        if type(thing) in _PLAIN and len(text := repr(thing)) <= _LONGEST_TEXT:
            return "..." if thing is ... else text
        if type(thing) is float and math.isfinite(thing):
            return repr(thing)
        if (word := token(thing)) is not None and word.kind != "device":
            self.taken.add("torch")
            return f"torch.{word.name}"
        return self.name(thing, hint)


def _described(thing: Any) -> str:
    if isinstance(thing, dict) and isinstance(module := dict.get(thing, "__name__"), str):
        return f"globals_of_{module}"
    named = type.__getattribute__(thing, "__qualname__") if isinstance(thing, type) else None
    if isinstance(thing, FunctionType | BuiltinFunctionType):
        named = thing.__qualname__
    return named if isinstance(named, str) and named else type(thing).__name__.lower()


class Values:
    """Expressions for the values of one trace.

    Attributes:
        names: for registers the expressions that stand for them.
    """

    def __init__(self, namespace: Namespace) -> None:
        self.namespace = namespace
        self.names: dict[int, str] = {}
        self._locals: dict[int, str] = {}  # of objects that stand in several places: the variables that hold them
        self._kept: list[Any] = []

    def register(self, register: int) -> str:
        """What a register is called from here on."""
        name = self.namespace.fresh(f"r{register}")
        self.names[register] = name
        return name

    def prepared(self, *values: Any) -> Iterator[str]:
        """Lines that make what stands in several places of these values."""
        self._locals.clear()
        self._kept = list(values)
        counts: Counter[int] = Counter()
        order: list[Any] = []
        for value in values:
            _count(value, counts, order)
        for value in order:
            if counts[id(value)] > 1:
                name = self.namespace.fresh("made")
                text = self.text(value)
                self._locals[id(value)] = name
                yield f"{name} = {text}"

    def text(self, value: Any) -> str:
        """A value as an expression.

        Raises:
            Unsayable: Python code cannot make it.
        """
        kind, *rest = value
        if kind in _SHARED and (name := self._locals.get(id(value))) is not None:
            return name
        if kind == "reg":
            if rest[0] not in self.names:
                raise Unsayable(f"register {rest[0]} was not made")
            return self.names[rest[0]]
        if kind == "const":
            return self.namespace.literal(rest[0])
        if kind == "none":
            return "None"
        if kind == "slice":
            return f"slice({', '.join(map(self.text, rest))})"
        if kind == "vars":
            return f"{self.text(rest[0])}.__dict__"
        if kind == "tuple":
            items = self._tuple(rest[1])
            if rest[0] is None and rest[1] and all(map(_is_folded, rest[1])):
                return f"tuple([{', '.join(map(self.text, rest[1]))}])"  # a new one at each call
            return items if rest[0] is None else f"sequence({self.namespace.name(rest[0])}, {items})"
        if kind == "list":
            return f"[{', '.join(map(self.text, rest[0]))}]"
        if kind == "dict":
            return self._dict(rest[0], rest[1])
        if kind == "instance":
            attributes = ", ".join(f"{name!r}: {self.text(held)}" for name, held in rest[1].items())
            items = f", {self._pairs(rest[2])}" if rest[2] else ""
            return f"new({self.namespace.name(rest[0])}, {{{attributes}}}{items})"
        if kind == "method":
            return f"{self.text(rest[0])}.__get__({self.text(rest[1])})"
        raise Unsayable(_words(kind, rest))

    def _tuple(self, values: Iterable[Any]) -> str:
        items = list(map(self.text, values))
        return f"({', '.join(items)}{',' if len(items) == 1 else ''})"

    def _pairs(self, pairs: Iterable[tuple[Any, Any]]) -> str:
        return f"[{', '.join(f'({self.text(key)}, {self.text(held)})' for key, held in pairs)}]"

    def _dict(self, kind: Any, pairs: Iterable[tuple[Any, Any]]) -> str:
        if kind is None:
            return f"{{{', '.join(f'{self.text(key)}: {self.text(held)}' for key, held in pairs)}}}"
        return f"new({self.namespace.name(kind)}, {{}}, {self._pairs(pairs)})"


def _is_folded(value: Any) -> bool:
    """The compiler makes a constant of a tuple of such."""
    return bool(value[0] == "const" and type(value[1]) in {*_PLAIN, float, complex})


def _words(kind: str, rest: Any) -> str:
    if kind == "unknown":
        return f"the object {rest[0]}, which is not known to be alive"
    return f"an object of the kind {rest[0]!r}" if kind == "other" and rest else f"a value of the kind {kind!r}"


def _count(value: Any, counts: "Counter[int]", order: list[Any]) -> None:
    """How often each object stands in a value; `order`: what is inside comes first."""
    if not isinstance(value, tuple) or not value or value[0] not in _SHARED:
        return
    counts[id(value)] += 1
    if counts[id(value)] > 1:
        return
    for part in value[1:]:
        _count_part(part, counts, order)
    order.append(value)


def _count_part(part: Any, counts: "Counter[int]", order: list[Any]) -> None:
    if isinstance(part, tuple) and part and isinstance(part[0], str):
        _count(part, counts, order)
    elif isinstance(part, list | tuple):
        for each in part:
            _count_part(each, counts, order)
    elif isinstance(part, dict):
        for each in part.values():
            _count_part(each, counts, order)


def error(place: str, what: str, advice: str) -> ExportError:
    """What is where, and what to try."""
    return ExportError(f"{f'{place}: ' if place else ''}{what}, which format 'code' cannot hold. {advice}")
