"""The operators of a graph: a table, one row each, and the way from a framework's call to a row and back.

A row gives the neutral name and its parameters, what it means, and which operators of ATen it stands for. Names and
meanings are those of the Python array API standard (2024.12) where it has the operator, else those of ONNX or torch
under a plain name. What a row does in a framework is the function of its name in `pijit.graph.forms`.

A pattern such as "sum.dim_IntList(x, axis, keepdims, dtype)" names, for each argument of that operator in the order of
its schema, the row's parameter that takes it. `_` is an argument without meaning for the result (pin_memory); a
literal is the only value that the row can take there; an argument that is not named has to be None or False. A pattern
without parentheses takes the row's parameters in their order. `add_.Tensor` needs no pattern: it is `add.Tensor` that
writes to its first argument.
"""

import ast
import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pijit.graph.vocabulary.families import FAMILIES

_REQUIRED: Any = type("_Required", (), {"__repr__": lambda self: "<required>", "__slots__": ()})()


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a row: its `name` and `default`; `Row.required` tells whether it has one."""

    name: str
    default: Any = _REQUIRED

    @property
    def required(self) -> bool:
        """It has no default."""
        return self.default is _REQUIRED


@dataclass(frozen=True, slots=True)
class Pattern:
    """An operator of torch that a row stands for.

    Attributes:
        operator: "aten::sum.dim_IntList".
        slots: for each argument of the schema a parameter's name, or None if it is ignored.
        literals: what an argument has to be, by its position.
    """

    operator: str
    slots: tuple[str | None, ...]
    literals: Mapping[int, Any]


@dataclass(frozen=True, slots=True)
class Row:
    """One operator of the vocabulary.

    Attributes:
        name: neutral name.
        parameters: in order.
        doc: what it gives, in a line.
        patterns: operators of torch that it stands for, the usual one first.
        family: heading in the documentation: "elementwise", "reduction", ...
    """

    name: str
    parameters: tuple[Parameter, ...]
    doc: str
    patterns: tuple[Pattern, ...]
    family: str

    @property
    def signature(self) -> str:
        """ "sum(x, axis=None, keepdims=False, dtype=None)"."""
        texts = (p.name if p.required else f"{p.name}={p.default!r}" for p in self.parameters)
        return f"{self.name}({', '.join(texts)})"

    @property
    def defaults(self) -> dict[str, Any]:
        """Of the parameters that have one."""
        return {p.name: p.default for p in self.parameters if not p.required}


def _parameters(text: str) -> tuple[Parameter, ...]:
    arguments = ast.parse(f"def f({text}): 0").body[0].args  # type: ignore[attr-defined]
    defaults = [ast.literal_eval(each) for each in arguments.defaults]
    names = [each.arg for each in arguments.args]
    first = len(names) - len(defaults)
    return tuple(Parameter(name, defaults[i - first] if i >= first else _REQUIRED) for i, name in enumerate(names))


def _pattern(text: str, parameters: tuple[Parameter, ...]) -> Pattern:
    operator, paren, rest = text.partition("(")
    if not paren:
        rest = ", ".join(each.name for each in parameters) + ")"
    call = ast.parse(f"f({rest}", mode="eval").body
    assert isinstance(call, ast.Call)
    slots: list[str | None] = []
    literals = {}
    for at, argument in enumerate(call.args):
        if isinstance(argument, ast.Name):
            slots.append(None if argument.id == "_" else argument.id)
        else:
            slots.append(None)
            literals[at] = ast.literal_eval(argument)
    return Pattern(operator if "::" in operator else f"aten::{operator}", tuple(slots), literals)


@functools.cache
def rows() -> Mapping[str, Row]:
    """All rows by name."""
    table = {}
    for family, lines in FAMILIES.items():
        for signature, doc, *patterns in lines:
            name, _, parameters = signature.partition("(")
            assert name not in table, name
            named = _parameters(parameters.removesuffix(")"))
            table[name] = Row(name, named, doc, tuple(_pattern(each, named) for each in patterns), family)
    return table


@functools.cache
def _by_operator() -> Mapping[str, tuple[Row, Pattern]]:
    table = {}
    for row in rows().values():
        for pattern in row.patterns:
            assert pattern.operator not in table, pattern.operator
            table[pattern.operator] = (row, pattern)
    return table


def row_of(operator: str) -> tuple[Row, Pattern] | None:
    """The row that an operator of torch has ("aten::add_.Tensor" has that of "aten::add.Tensor"), or None."""
    table = _by_operator()
    found = table.get(operator)
    if found is None:
        namespace, _, name = operator.partition("::")
        base, dot, overload = name.partition(".")
        if base.endswith("_") and not base.endswith("__"):
            found = table.get(f"{namespace}::{base[:-1]}{dot}{overload}")
    return found


def _same(a: Any, b: Any) -> bool:
    """Equal literals of one type; a list is a tuple."""
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    return type(a) is type(b) and bool(a == b)


def neutral(operator: str, arguments: Sequence[tuple[str, Any]]) -> tuple[str, dict[str, Any]] | None:
    """The name and arguments of a row for a call of torch.

    Args:
        operator: full name with overload.
        arguments: name and value of each argument, in the order of the schema; sequences as tuples.

    Returns:
        The row's name, and the arguments that are not its defaults, in its order. None: no row takes this call.
    """
    found = row_of(operator)
    if found is None:
        return None
    row, pattern = found
    given = {}
    if operator.startswith("torch::"):  # a function of Python: arguments by position have no name
        if any(name and name not in pattern.slots for name, _ in arguments):
            return None
        arguments = [(name or str(pattern.slots[at]), value) for at, (name, value) in enumerate(arguments)]
        given = dict(arguments)
        arguments = []
    for at, (_, value) in enumerate(arguments):
        if at in pattern.literals:
            if not _same(value, pattern.literals[at]):
                return None
        elif at >= len(pattern.slots):
            if value is not None and value is not False:
                return None
        elif pattern.slots[at] is not None:
            given[str(pattern.slots[at])] = value
    named = {}
    for parameter in row.parameters:
        if parameter.name in given:
            value = given[parameter.name]
            if parameter.required or not _same(value, parameter.default):
                named[parameter.name] = value
        elif parameter.required:
            return None
    return row.name, named


# Rows that may write to running statistics, and the argument that says so.
_OF_BATCH = {"batch_norm": "training", "native_batch_norm": "training", "instance_norm": "use_input_stats"}


def hidden_writes(row: str, arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """The arguments that torch's operator of a row writes to without saying so: running statistics in training."""
    if arguments.get(_OF_BATCH.get(row, "")) is not True:
        return ()
    return tuple(name for name in ("mean", "variance") if arguments.get(name) is not None)


def called(operator: str, arguments: Mapping[str, Any]) -> Iterator[tuple[int, Any]]:
    """The way back: position in the schema and value of each argument of torch's operator that is not its default.

    Args:
        operator: full name with overload; it has a row.
        arguments: by the names of the row.
    """
    found = row_of(operator)
    assert found is not None, operator
    row, pattern = found
    complete = {**row.defaults, **arguments}
    for at, slot in enumerate(pattern.slots):
        if at in pattern.literals:
            yield at, pattern.literals[at]
        elif slot is not None:
            yield at, complete[slot]
