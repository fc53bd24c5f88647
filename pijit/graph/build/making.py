"""Nodes that stand for calls of Python: what `known_calls` and `creation` ask the builder for."""

from collections.abc import Mapping
from typing import Any

from pijit.graph import vocabulary
from pijit.graph.build import creation, known_calls, python_calls, trace_rows
from pijit.graph.build.opaque_objects import Known, Opaque, plain
from pijit.graph.model import Value
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
        call = known_calls.call_of(row["a"][1]) if row["a"][0] == "const" else None
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
        if made is known_calls.UNKNOWN:
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
        if made is known_calls.UNKNOWN:
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

    def constant(self, tensor: Any) -> Value:
        """The value of a tensor that every call has."""
        return self._tensor(tensor)


def computed(op: str, operands: list[Any]) -> Any:
    """What arithmetic gives for numbers."""
    try:
        return NUMBERS[op](*operands)
    except (KeyError, TypeError, ValueError, ArithmeticError):
        return Opaque("a number")
