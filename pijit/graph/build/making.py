"""Nodes that stand for calls of Python: what `known_calls` and `creation` ask the builder for."""

import functools
import sys
from collections.abc import Mapping
from types import MethodDescriptorType
from typing import Any

from pijit.graph import vocabulary
from pijit.graph.build import creation, known_calls, nested, python_calls, trace_rows
from pijit.graph.build.opaque_objects import UNKNOWN, Known, Opaque, plain
from pijit.graph.model import Node, Value
from pijit.graph.torch_calls import NUMBERS

# Callables of torch, or of Python on tensors, whose operators the trace does not name.
MAKERS = {
    "torch::tensor": creation.tensor,
    "torch::as_tensor": creation.as_tensor,
    "torch::Tensor.new_tensor": creation.new_tensor,
    **known_calls.OF_TORCH,
}


class Making:
    """Makes nodes by what they mean; the builder says where they go, and what values are called."""

    _registers: dict[int, Any]
    _nodes: list[Node]
    nested: set[str]  # names of nested tensors
    shared: list[tuple[Any, Value]]  # arrays of NumPy, and the tensors that share their memory

    def _emit(self, row: Mapping[str, Any], op: str, arguments: Mapping[str, Any], results: Any, **more: Any) -> None:
        raise NotImplementedError

    def _fresh(self, wanted: str) -> str:
        raise NotImplementedError

    def _tensor(self, tensor: Any, source: Any = ()) -> Value:
        raise NotImplementedError

    def _argument(self, value: Any) -> Any:
        raise NotImplementedError

    def _content(self, value: Any) -> Any:
        raise NotImplementedError

    def _known_call(self, row: Mapping[str, Any]) -> bool:
        """A call of Python that a graph says in its own words."""
        held = self._registers.get(row["a"][1]) if row["a"][0] == "reg" else None
        call = known_calls.call_of(_called(self._content(row["a"])))
        if isinstance(held, nested.Bound):
            call = functools.partial(nested.method, held)
        if call is None:
            return False
        if row["aux"] == python_calls.SPREAD:
            spread = python_calls.spread(row, self._content)
            if spread is None:
                return False
            positional, named = spread
        else:
            operands = row.get("operands", ())
            names = row["b"][1] if row.get("b") is not None and row["b"][0] == "const" else ()
            names = names if isinstance(names, tuple) else ()
            first = len(operands) - len(names)
            positional, named = operands[:first], dict(zip(names, operands[first:], strict=True))
        given = {name: self._known_or_argument(each) for name, each in named.items()}
        made = call(self, row, [self._known_or_argument(each) for each in positional], given)
        if made is UNKNOWN:
            return False
        for register in trace_rows.outs(row):
            self._registers[register] = made
        return True

    def _known_or_argument(self, value: Any) -> Any:
        """What a graph has for a value; a dtype of NumPy is the same in each call, as its arrays are."""
        return Known(value[1]) if value[0] == "const" and known_calls.is_dtype(value[1]) else self._argument(value)

    def _makes_tensor(self, row: Mapping[str, Any], call: Mapping[str, Any]) -> bool:
        """A callable of torch that makes a tensor of what it is given: `torch.tensor([n, 2.5])`."""
        maker = MAKERS.get(call["name"])
        registers = [each for each in call["results"] if isinstance(each, int)]
        if maker is None or len(registers) != 1:
            return False
        given = [(name, self._argument(value)) for name, value, _ in call["arguments"]]
        made = maker(self, row, [each for name, each in given if not name], {name: v for name, v in given if name})
        if made is UNKNOWN:
            return False
        self._registers[registers[0]] = made
        return True

    def number(self, row: Mapping[str, Any], op: str, operands: list[Any], kind: str) -> Any:
        """The result of a row of numbers."""
        if not any(isinstance(each, Value) for each in operands):
            return computed(op, operands)
        result = Value(self._fresh(op), kind)  # type: ignore[arg-type]
        self._emit(row, op, dict(zip(("x", "y"), operands, strict=False)), (result,))
        return result

    def operator(
        self, row: Mapping[str, Any], name: str, operands: list[Any], words: Mapping[str, Any] | None = None
    ) -> Any:
        """The tensor that an operator of torch gives; it has a row."""
        found = vocabulary.row_of(name)
        assert found is not None, name
        named = vocabulary.neutral(name, [("", plain(each)) for each in operands])
        op = found[0].name if named is None else named[0]
        taken: dict[str, Any] = {}
        if named is None:
            taken.update((str(slot), plain(each)) for slot, each in zip(found[1].slots, operands, strict=False))
        else:
            taken.update(named[1])
        result = Value(self._fresh(op))
        self._emit(row, op, {**taken, **(words or {})}, (result,), origin=name)
        return result

    def astype(self, row: Mapping[str, Any], array: Any, words: Mapping[str, Any]) -> Any:
        """The array in a dtype, or on a device."""
        result = Value(self._fresh("astype"))
        origin = "aten::to.dtype" if "device" not in words else "aten::to.dtype_layout"
        self._emit(row, "astype", {"x": array, **words}, (result,), origin=origin)
        return result

    def item(self, row: Mapping[str, Any], array: Any) -> Any:
        """The only element of an array as a float."""
        result = Value(self._fresh("item"), "float")
        self._emit(row, "item_float", {"x": array}, (result,), origin="tensor::float")
        return result

    def foreign(self, row: Mapping[str, Any], name: str, arguments: Mapping[str, Any]) -> Value:
        """The tensor that an operator without a row gives."""
        result = Value(self._fresh(name.rpartition("::")[2].strip("_")))
        self._emit(row, name, arguments, (result,), origin=name)
        return result

    def negated(self, row: Mapping[str, Any], array: Any) -> Any:
        """Whether the only element of an array is none."""
        result = Value(self._fresh("not"), "bool")
        self._emit(row, "item_not", {"x": array}, (result,), origin="tensor::not")
        return result

    def fixed(self, row: Mapping[str, Any], number: Any) -> int | None:
        """A number as it was in the call, with a check that it is so; None: it is not known."""
        if not isinstance(number, Value):
            return number if type(number) is int else None
        maker = next((node for node in self._nodes if any(each is number for each in node.results)), None)
        array, axis = (None, None) if maker is None or maker.op != "size" else maker.arguments.values()
        size = array.shape[axis] if isinstance(array, Value) and array.shape and isinstance(axis, int) else None
        if not isinstance(size, int):
            return None
        self._emit(row, "check", {"x": number, "expected": size}, ())
        return size

    def is_shared(self, array: Any) -> bool:
        """A tensor shares memory with an array of NumPy: what is written to the one is written to the other."""
        return any(sys.modules["numpy"].shares_memory(array, each) for each, _ in self.shared)

    def is_written(self, array: Any) -> bool:
        """An operator may have written to an array of NumPy."""
        return any(node.writes for node in self._nodes) and hasattr(array, "shape") and self.is_shared(array)

    def constant(self, tensor: Any) -> Value:
        """The value of a tensor that every call has."""
        return self._tensor(tensor)


def _called(value: Any) -> Any:
    """What is called, if the trace knows it: an object, or the method of one; else None."""
    if value[0] == "method" and value[1][0] == value[2][0] == "const":
        function = value[1][1]
        return function.__get__(value[2][1]) if isinstance(function, MethodDescriptorType) else None
    return value[1] if value[0] == "const" else None


def computed(op: str, operands: list[Any]) -> Any:
    """What arithmetic gives for numbers."""
    try:
        return NUMBERS[op](*operands)
    except (KeyError, TypeError, ValueError, ArithmeticError):
        return Opaque("a number")
