"""Arguments of operators as C++, by the types of their schemas: what Python's bindings would make of them."""

from collections.abc import Callable
from typing import Any

from pijit._formats.cpp.words import double, integer, quoted, token
from pijit.errors import ExportError
from pijit.graph.model import Node, Token, Value, place_of

# Functions that make lists, by the type of an item.
_LISTS = {
    "TensorType": "tensors",
    "IntType": "ints",
    "SymIntType": "ints",
    "FloatType": "floats",
    "BoolType": "bools",
    "NumberType": "scalars",
}


class Arguments:
    """Writes arguments.

    Args:
        name: gives the expression of a value.
    """

    def __init__(self, name: Callable[[Value], str]) -> None:
        self.name = name

    def all(self, node: Node, schema: Any, args: tuple[Any, ...], kwargs: Any) -> list[str]:
        """Arguments by position; those behind the last one that is given are left out."""
        named = {argument.name: at for at, argument in enumerate(schema.arguments)}
        given = dict(enumerate(args)) | {named[name]: value for name, value in kwargs.items()}
        made = []
        for at in range(max(given, default=-1) + 1):
            argument = schema.arguments[at]
            value = given.get(at, argument.default_value)
            try:
                made.append(self.one(value, argument.type, argument.N))
            except _Unknown:
                raise ExportError(
                    f"{place_of(node)}the argument {argument.name!r} of {node.origin or node.op} is {value!r:.60}, "
                    f"which format 'cpp' cannot write as {argument.type}; take format 'python', or call the operator "
                    "without it"
                ) from None
        return made

    def one(self, value: Any, kind: Any, count: int | None = None) -> str:
        """One argument."""
        name = kind.kind()
        if name == "OptionalType":
            return "none" if value is None else self.one(value, kind.getElementType(), count)
        if value is None:
            return "at::Tensor()" if name == "TensorType" else "none"
        if name == "ListType":
            return self.list(value, kind.getElementType(), count)
        if isinstance(value, Token):
            return token(value)
        if name == "TensorType":
            if isinstance(value, Value) and value.kind == "tensor":
                return self.name(value)
            return f"number({self.scalar(value)})"
        if name == "NumberType":
            return self.scalar(value)
        if name in {"IntType", "SymIntType"}:
            return self.int(value)
        if name == "FloatType":
            return self.float(value)
        if name == "BoolType":
            return self.bool(value)
        if isinstance(value, str) and name == "StringType":
            return quoted(value)
        if isinstance(value, str) and name == "DeviceObjType":
            return token(Token("device", value))
        raise _Unknown

    def list(self, value: Any, item: Any, count: int | None) -> str:
        """A list; one number for a list of a fixed length is as many."""
        if not isinstance(value, tuple | list):
            value = (value,) * (count or 1)
        if item.kind() == "OptionalType" and item.getElementType().kind() == "TensorType":
            inner = ("std::nullopt" if each is None else self.one(each, item) for each in value)
            return f"optional_tensors({{{', '.join(inner)}}})"
        if item.kind() not in _LISTS:
            raise _Unknown
        return f"{_LISTS[item.kind()]}({{{', '.join(self.one(each, item) for each in value)}}})"

    def scalar(self, value: Any) -> str:
        """A number of any kind."""
        if isinstance(value, Value):
            self.known(value)
            return f"{self.name(value)}.item()" if value.kind == "tensor" else self.name(value)
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, int):
            return integer(value)
        if isinstance(value, float):
            return double(value)
        if isinstance(value, complex):
            return f"at::Scalar(c10::complex<double>({double(value.real)}, {double(value.imag)}))"
        raise _Unknown

    def known(self, value: Value) -> None:
        if value.kind == "object":
            raise _Unknown

    def int(self, value: Any) -> str:
        """A whole number."""
        if isinstance(value, Value):
            self.known(value)
            if value.kind == "tensor":
                return f"{self.name(value)}.item().toLong()"
            return self.name(value) if value.kind == "int" else f"static_cast<int64_t>({self.name(value)})"
        if isinstance(value, bool | int):
            return integer(int(value))
        raise _Unknown

    def float(self, value: Any) -> str:
        """A double."""
        if isinstance(value, Value):
            self.known(value)
            if value.kind == "tensor":
                return f"{self.name(value)}.item().toDouble()"
            return self.name(value) if value.kind == "float" else f"static_cast<double>({self.name(value)})"
        if isinstance(value, bool | int | float):
            return double(float(value))
        raise _Unknown

    def bool(self, value: Any) -> str:
        """True or false."""
        if isinstance(value, Value):
            self.known(value)
            if value.kind == "tensor":
                return f"{self.name(value)}.is_nonzero()"
            return self.name(value) if value.kind == "bool" else f"({self.name(value)} != 0)"
        if isinstance(value, bool | int):
            return str(bool(value)).lower()
        raise _Unknown


class _Unknown(Exception):
    """An argument has no form in C++."""
