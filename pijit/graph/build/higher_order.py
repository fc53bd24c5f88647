"""Calls of torch's higher order operators: `torch.cond`, `while_loop`, `scan`, `map`, `associative_scan`, and others.

Such an operator calls functions of the program as often as data say. A recording leaves it to CPython as one call. For
a graph the call is traced once more, on tensors without data, as torch.export does. So both sides of a decision are in
the graph, and the functions of the program are called again; torch wants them to be pure.

What a function of the program closes over may be a value of the graph. Such a function is made anew, around that value.
A tensor that it finds elsewhere has to be there for good: a parameter or buffer, or what a function closes over that
was there before the call.
"""

import functools
import gc
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import CellType, CodeType, FunctionType
from typing import Any

from pijit import _torch_objects
from pijit.graph.decompose.branching import Unable
from pijit.graph.model import Value, values_of


@dataclass(frozen=True)
class Called:
    """A call of such a function.

    Attributes:
        function: the function of torch.
        args: what it is given, as values of the trace: see `csrc/bind/data.cpp`.
        kwargs: the same by name.
        argument: what a graph has for such a value.
        content: what the trace builds an object of.
        own: tensors that are there for good, by identity.
        paths: which parts of what it gives are the results of the node.
    """

    function: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    argument: Callable[[Any], Any]
    content: Callable[[Any], Any]
    own: frozenset[int]
    paths: tuple[tuple[Any, ...], ...] = ()
    whole: bool = True

    def giving(self, paths: Sequence[tuple[Any, ...]]) -> "Called":
        """The same, of whose result these parts are taken."""
        return replace(self, paths=tuple(paths))

    @property
    def operands(self) -> tuple[Value, ...]:
        found: dict[str, Value] = {}
        for each in (*self.args, *self.kwargs.values()):
            found |= {value.name: value for value in self._values(each)}
        return tuple(found.values())

    def given(self, values: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """What the function is given, around what stands for the operands."""
        args = [self._made(each, values) for each in self.args]
        return args, {name: self._made(each, values) for name, each in self.kwargs.items()}

    def run(self, values: Mapping[str, Any]) -> Any:
        args, kwargs = self.given(values)
        with _attention_as_operators():
            return _taken(self.function(*args, **kwargs), self.paths)

    def may_hold(self) -> Callable[[Any], bool]:
        """Whether what is traced may have a tensor for a constant: it is there for good, or tracing makes it."""
        tensor = sys.modules["torch"].Tensor
        # Of proxies, their own class. What dies meanwhile may have its address taken by a tensor that tracing makes.
        there = {id(each): weakref.ref(each) for each in gc.get_objects() if issubclass(type(each), tensor)}
        own = self.own | {id(each) for each in self._closed_over()}

        def is_there(tensor: Any) -> bool:
            return id(tensor) in there and there[id(tensor)]() is tensor

        return lambda tensor: not is_there(tensor) or id(tensor) in own

    # -- what it is given

    def _parts(self, value: Any) -> Iterator[Any]:
        """What a value of the trace is built of."""
        for part in self.content(value)[1:]:
            pending = [part]
            while pending:
                each = pending.pop()
                if isinstance(each, tuple) and each and isinstance(each[0], str):
                    yield each
                elif isinstance(each, list | tuple):
                    pending += each
                elif isinstance(each, dict):
                    pending += each.values()

    def _values(self, value: Any) -> Iterator[Value]:
        made = self.argument(value)
        if isinstance(made, Value):
            yield made
            return
        yield from values_of(made) if isinstance(made, tuple | list | dict) else ()
        for part in self._parts(value):
            yield from self._values(part)

    def _closed_over(self) -> Iterator[Any]:
        """Tensors that functions which were there before the call close over, or know by a name."""
        pending = [each for value in (*self.args, *self.kwargs.values()) for each in self._constants(value)]
        seen: set[int] = set()
        while pending:
            thing = pending.pop()
            if id(thing) in seen:
                continue
            seen.add(id(thing))
            if _torch_objects.is_tensor(thing):
                yield thing
            elif isinstance(thing, FunctionType):
                cells = [each.cell_contents for each in thing.__closure__ or () if _is_set(each)]
                names = [thing.__globals__.get(name) for name in thing.__code__.co_names]
                pending += [*cells, *names, *(thing.__defaults__ or ())]
            elif isinstance(thing, tuple | list):
                pending += thing
            elif type(thing).__module__.startswith("torch.nn.attention"):  # masks
                pending += vars(thing).values()

    def _constants(self, value: Any) -> Iterator[Any]:
        found = self.content(value)
        if found[0] == "const":
            yield found[1]
            return
        if found[0] == "function":
            yield from self._named(*map(self.content, found[1:3]))
        for part in self._parts(value):
            yield from self._constants(part)

    @staticmethod
    def _named(code: Any, space: Any) -> Iterator[Any]:
        """What a function that the call has made knows by a name of its module."""
        if code[0] == space[0] == "const" and isinstance(code[1], CodeType) and isinstance(space[1], dict):
            yield from (space[1].get(name) for name in code[1].co_names)

    def _made(self, value: Any, values: Mapping[str, Any]) -> Any:
        """The object for a value of the trace, around what stands for values of the graph."""
        given = self.argument(value)
        if isinstance(given, Value):
            return values[given.name]
        kind, *rest = self.content(value)

        def of(each: Any) -> Any:
            return self._made(each, values)

        if kind == "const":
            return rest[0]
        if kind == "none":
            return None
        if kind in {"tuple", "list"}:
            made = [of(each) for each in rest[-1]]
            if kind == "tuple" and rest[0] is not None:
                return tuple.__new__(rest[0], made)
            return tuple(made) if kind == "tuple" else made
        if kind == "dict" and rest[0] is None:
            return {of(key): of(item) for key, item in rest[1]}
        if kind == "slice":
            return slice(*map(of, rest))
        if kind == "method":
            function, owner = map(of, rest)
            return function.__get__(owner)
        if kind == "partial":
            function, args, kwargs = map(of, rest)
            return functools.partial(function, *args, **(kwargs or {}))
        if kind == "cell":
            return CellType(of(rest[0]))
        if kind == "function":
            code, space, defaults, closure = map(of, rest)
            if isinstance(code, CodeType) and isinstance(space, dict):
                return FunctionType(code, space, code.co_name, defaults, closure)
        if isinstance(given, int | float | bool | str | type(None)):
            return given
        raise Unable(f"it is given what cannot be made once more ({kind})")


@contextmanager
def _attention_as_operators() -> Iterator[None]:
    """Torch traces what `flex_attention` computes with, as it runs without a compiler, in the place of a call of it."""
    module: Any = sys.modules.get("torch._higher_order_ops.flex_attention")
    if module is None:
        yield
        return
    table, mode = module.flex_attention.python_key_table, module.ProxyTorchDispatchMode

    def traced(tracing: Any, *args: Any, **kwargs: Any) -> Any:
        with tracing:
            return module.math_attention(*args, **kwargs)

    before = table[mode]
    table[mode] = traced
    module.flex_attention._dispatch_cache.clear()
    try:
        yield
    finally:
        table[mode] = before
        module.flex_attention._dispatch_cache.clear()


def results(data: Mapping[str, Any], out: int) -> list[tuple[tuple[Any, ...], int]]:
    """Which parts of what is in register `out` the trace takes as tensors: the way to each, and its register."""
    found = []
    for row in data["inputs"]:
        source = row["source"]
        if row.get("made") and source and source[0] == ("unknown", f"r{out}"):
            if all(step[0] == "item" for step in source[1:]):
                found.append((tuple(step[1] for step in source[1:]), row["register"]))
    return found


def _taken(made: Any, paths: Sequence[tuple[Any, ...]]) -> Any:
    parts = []
    for path in paths:
        part = made
        for step in path:
            part = part[step]
        parts.append(part)
    return tuple(parts) if len(parts) != 1 else parts[0]


def _is_set(cell: Any) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False
