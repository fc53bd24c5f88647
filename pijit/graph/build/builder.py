"""Makes a graph of a recorded trace: what a trace says of one call, told in the words of the vocabulary.

Rules:
1. A register of the trace becomes a `Value`, a number or a structure. What only proves that a replay is right (checks
   of types, guards) does not stand in a graph. A decision on sizes stands there as a node "check".
2. What a graph cannot hold is a node of the namespace "python": an opaque call, a decision on the data of a tensor, the
   rest of a call whose recording stopped. `Graph.parts` splits the graph there. Where decisions on data are to be
   assumed, they are nodes "check" whose origin is "python::decision"; `Graph.assumptions` gives them. Where the program
   raises if a decision goes the other way, it is such a node with the origin "python::raises" in any case.
3. An opaque call in which no operator ran, and which neither takes nor gives a tensor, is an `Effect`.
4. What makes gradients are nodes "set_grad_enabled", "backward", "grad" and "set_grad", which no graph has that leaves
   this package: `pijit.graph.build.autograd` puts operators in their place.
5. The frames of a node tell the module that called it and the user's line.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from pijit import _left_whole, _torch_objects
from pijit.errors import ExportError
from pijit.graph import vocabulary
from pijit.graph.build import (
    effects,
    functions,
    higher_order,
    lists,
    mindspore_calls,
    operators,
    python_calls,
    raising,
    trace_rows,
    transforms,
)
from pijit.graph.build.arguments import Leaf, is_shallow
from pijit.graph.build.array_functions import rule_of
from pijit.graph.build.array_values import Arrays, is_array
from pijit.graph.build.autocast import Modes
from pijit.graph.build.making import MAKERS, Making, computed
from pijit.graph.build.modules import Modules
from pijit.graph.build.opaque_objects import Known, Opaque, holds_opaque, opaque_in, plain, without_opaque
from pijit.graph.build.python_calls import Store
from pijit.graph.decompose.nested import ASKS
from pijit.graph.model import Argument, Effect, Graph, Node, Slice, Value, regions, values_of
from pijit.graph.model.names import Names
from pijit.graph.model.tokens import token

_SKIPPED = {"guard_type", "epoch", "exit_point", "region", "return", "loop_head"}
_SCALARS = {
    "add": "scalar_add",
    "sub": "scalar_subtract",
    "mul": "scalar_multiply",
    "truediv": "scalar_divide",
    "floordiv": "scalar_floor_divide",
    "mod": "scalar_remainder",
    "lt": "scalar_less",
    "le": "scalar_less_equal",
    "eq": "scalar_equal",
    "ne": "scalar_not_equal",
    "gt": "scalar_greater",
    "ge": "scalar_greater_equal",
    "neg": "scalar_negative",
    "truth": "scalar_truth",
    "not_": "scalar_not",
}
# Operations of Python that the recorder knows: what they do is their effect on objects, and nothing else.
_FOLLOWED = {"call", "pure", "setattr", "delattr", "setitem", "delitem", "setcell", "getcell", "next", "advance"}
# Operators whose result depends on the form of their tensors only.
_OF_FORM = {"size", "ndim", "numel", "zeros_like", "ones_like", "full_like", "empty_like"} | {
    f"new_{kind}" for kind in ("zeros", "ones", "full", "empty")
}
# Operators whose argument "index" is what stands between brackets.
_INDEXED = {"tensor::getitem", "tensor::setitem"}
# What becomes of a decision on the data of a tensor: the graph is split there, it holds for such data only, or it has
# both ways.
Decisions = Literal["split", "assume", "keep"]
DECISION = "python::decision"
RAISES = "python::raises"
# Operations on gradients, and what their arguments are called.
_GRADIENTS = {
    "tensor::set_grad_enabled": "set_grad_enabled",
    "tensor::grad": "grad",
    "tensor::set_grad": "set_grad",
}
# What a checkpoint keeps for the time that it computes once more: a graph has operators only.
_KEPT = {
    f"torch::_C.{name}"
    for name in (
        "Generator.get_state",
        "_autograd._make_saved_tensor",
        "_autograd._push_saved_tensors_default_hooks",
        "_autograd._pop_saved_tensors_default_hooks",
    )
}
_WORDS = {"self": "x"}
# Stores, and where a node has the key and what is stored.
_STORES = {"setattr": ("b", "c"), "setitem": ("b", "c"), "setcell": ("a", "b")}
_CALLS = {"call", "pure", "opaque"}
_LONGEST_RANGE = 10_000
_LITERALS = (int, float, complex, bool, str, type(None), type(...))


class Builder(Making):
    """Walks over the nodes of one trace.

    Args:
        data: the trace, as `_core.trace_data` gives it.
        name: of the graph.
        modules: those of the call.
        leaves: the tensors in its arguments.
        found: what the sources of the trace start from, by name.
        decisions: what becomes of decisions on data: "split", "assume" or "keep".
    """

    def __init__(
        self,
        data: Mapping[str, Any],
        name: str,
        modules: Modules,
        leaves: list[Leaf],
        found: Mapping[str, Any],
        *,
        decisions: Decisions = "split",
    ) -> None:
        self._data, self._name, self._modules, self._found = data, name, modules, found
        self._decisions = decisions
        self._registers: dict[int, Any] = {}
        self._built: dict[int, Any] = {}  # what objects are made of, by their registers
        self._fresh_lists: set[int] = set()  # registers of lists that nobody has been given since they were made
        self._inside: dict[int, Any] = {}  # what is loaded from the object in another register: the way to it
        self._new: set[int] = set()  # registers of objects that the call has made
        self.stores: list[Store] = []  # into objects that were there before
        self.complete: dict[str, dict[str, Any]] = {}  # all arguments of calls of which a row ignores some, by result
        self.sources: dict[str, str] = {}  # the last step on the way to a constant, by its name
        self.nested: set[str] = set()
        self.shared: list[tuple[Any, Value]] = []
        self._names = Names()
        self._nodes: list[Node] = []
        self._arrays: dict[str, Any] = {}
        self._parameters: dict[int, Value] = {}
        self._of_data: set[str] = set()  # names of values that depend on the data of tensors
        self._of_python: set[int] = set()  # registers of what functions of Python have made of data
        self._places: dict[int, tuple[str, str, int]] = {}
        self._inputs: dict[int, Value] = {}
        self._known_kinds: dict[int | None, str] = {}  # of registers that the trace has as objects, or not at all
        self._own_registers = 0  # how many it has not
        self.applied: dict[str, functions.Call] = {}  # calls that stand for operators, by their first results
        self.enabled = True  # gradients were on when the call began
        self._of_torch: dict[str, Any] = {}  # functions of torch that nodes call, by their origins
        self.modes: Modes | None = None  # of autocast, where casts will be made of them
        self._effects: list[Effect] = []
        self.arrays = Arrays(self, rule_of)
        self.of_mindspore = mindspore_calls.Tensors(self)
        for leaf in leaves:
            value = self._typed(leaf.tensor, Value(self._fresh(leaf.name), role="input"))
            self._inputs[id(leaf.tensor)] = value
        self._of_data.update(value.name for value in self._inputs.values())

    def build(self) -> Graph:
        """The graph."""
        for row in self._data["inputs"]:
            self._load(row)
            if row.get("made"):
                self._inside[row["register"]] = row["source"]
        self._inside.update(self._data.get("loads", ()))
        self._load_arrays(self._data.get("loads", ()))
        for row in self._data["nodes"]:
            self._node(row)
            self._forget_lists(row)
        if self._data["ends"] == "exit":
            self._rest()
            return self._finished(None)
        try:
            outputs = self._structure(self._data["result"])
        except ExportError as error:
            error.graph = self._finished(None)
            raise
        return self._finished(outputs)

    def _finished(self, outputs: Any) -> Graph:
        if any(node.op == transforms.OPEN for node in self._nodes):
            self._nodes, stretches = transforms.folded(self._nodes, outputs, self._of_torch, self.enabled)
            casts = {} if self.modes is None else self.modes.under  # which a stretch would lose
            self.applied |= {
                name: each for name, each in stretches.items() if not any(id(node) in casts for node in each.nodes)
            }
        nodes = self._needed(outputs)
        return Graph(
            self._name,
            tuple(self._inputs.values()),
            tuple(self._parameters.values()),
            nodes,
            outputs,
            effects=tuple(self._effects),
            data=self._arrays,
            region=regions.tree(nodes, self._modules.types),
        )

    def _needed(self, outputs: Any) -> tuple[Node, ...]:
        return trace_rows.without_unused(self._nodes, outputs)

    # -- what comes in

    def _fresh(self, wanted: str) -> str:
        return self._names.fresh(re.sub(r"\W", "_", wanted) or "value")

    @staticmethod
    def _typed(tensor: Any, value: Value) -> Value:
        own = mindspore_calls.is_tensor_of_mindspore(tensor)
        dtype, shape, device = mindspore_calls.facts(tensor) if own else _torch_objects.facts(tensor)
        return Value(value.name, "tensor", value.role, dtype, shape, device, value.path)

    def _load(self, row: Mapping[str, Any]) -> None:
        if row.get("made"):
            return
        tensor = row["object"] if row["object"] is not None else self._at(row["source"])
        if tensor is not None:
            self._registers[row["register"]] = self._tensor(tensor, row["source"])

    def _load_arrays(self, loads: Any) -> None:
        """Arrays of NumPy that the call finds."""
        for register, source in loads:
            array = self._at(source)
            if mindspore_calls.is_tensor_of_mindspore(array):
                self._registers[register] = self.of_mindspore.constant(array, str(source[-1][-1]))
            if is_array(array) and register not in self._registers:
                known = self._inputs.get(id(array))
                self._registers[register] = self.arrays.constant(array) if known is None else known

    def _tensor(self, tensor: Any, source: Any = ()) -> Value:
        """The value of a tensor that was there before the call."""
        value = self._inputs.get(id(tensor)) or self._parameters.get(id(tensor))
        if value is not None:
            return value
        path, role, _ = self._modules.tensors.get(id(tensor), ("", "constant", None))
        words = [str(step[-1]) for step in source if step[0] in {"attribute", "global", "cell", "item"}]
        value = Value(self._fresh(path or (words[-1] if words else "constant")), role=role, path=path)  # type: ignore[arg-type]
        value = self._typed(tensor, value)
        self.sources[value.name] = words[-1] if words else ""
        self._parameters[id(tensor)] = value
        self._arrays[value.name] = tensor
        self._of_data.add(value.name)
        return value

    def _at(self, source: Any) -> Any:
        """The object at the end of a source, or None."""
        thing: Any = None
        try:
            for kind, *step in source:
                if kind in {"argument", "cell", "global"}:
                    thing = self._found[step[-1]]
                elif kind == "constant":
                    thing = step[0]
                elif kind == "attribute":
                    thing = getattr(thing, step[0])
                elif kind == "item":
                    thing = thing[step[0]]
                elif kind == "value_at":
                    thing = list(thing.values())[step[0]]
                else:
                    return None
        except (KeyError, IndexError, AttributeError, TypeError):
            return None
        return thing

    # -- arguments

    def _literal(self, thing: Any) -> Any:
        if isinstance(thing, _LITERALS):
            return thing
        if (word := token(thing)) is not None:
            return word
        if _torch_objects.is_tensor(thing):
            return self._tensor(thing)
        if mindspore_calls.is_tensor_of_mindspore(thing):
            return self.of_mindspore.constant(thing)
        if isinstance(thing, tuple | list):
            return tuple(map(self._literal, thing)) if is_shallow(thing) else Opaque(type(thing).__name__)
        if isinstance(thing, range) and len(thing) <= _LONGEST_RANGE:
            return list(thing)
        if isinstance(thing, slice):
            return Slice(self._literal(thing.start), self._literal(thing.stop), self._literal(thing.step))
        return Opaque(type(thing).__name__)

    def _argument(self, value: Any) -> Any:
        """An argument in a graph for a value of the trace; where there is none, an object of `Opaque`."""
        kind, *rest = value
        if kind == "reg":
            if rest[0] not in self._registers and self._is_plain(value):
                return self._argument(self._content(value))
            return self._registers[rest[0]] if rest[0] in self._registers else self._loaded(rest[0])
        if kind == "const":
            return self._literal(rest[0])
        if kind == "value":  # it is one already
            return rest[0]
        if kind in {"tuple", "list"}:
            parts = tuple(map(self._argument, rest[-1]))
            return list(parts) if kind == "list" else parts
        if kind == "slice":
            return Slice(*map(self._argument, rest))
        if kind == "dict":
            return {_key(key): self._argument(item) for key, item in rest[-1]}
        if kind == "instance":
            items = {_key(key): self._argument(item) for key, item in rest[2]}
            held = items or {key: self._argument(item) for key, item in rest[1].items()}
            return {key: item for key, item in held.items() if not holds_opaque(item)}
        if kind in {"function", "cell", "partial"}:
            return Opaque(f"a {kind}")
        return None if kind == "none" else Opaque(str(rest[-1]))

    def _is_plain(self, value: Any) -> bool:
        """A tuple or slice that the trace has made, or a list that nobody could change since then."""
        kind = self._content(value)[0]
        return kind in {"tuple", "slice"} or (kind == "list" and value[1] in self._fresh_lists)

    def _loaded(self, register: int) -> Any:
        """What a register has from the object in another one, of which the graph knows more than the trace."""
        (root, *_), *steps = self._inside.get(register, [("", "")])
        name = self._inside[register][0][-1] if root == "unknown" else ""
        if not (isinstance(name, str) and name[:1] == "r" and name[1:].isdigit()):
            return Opaque("an object")
        made = self._registers.get(int(name[1:]), Opaque("an object"))
        for step in steps:
            if step[0] != "item" or not isinstance(made, tuple) or type(step[1]) is not int:
                return Opaque("an object")
            made = made[step[1]] if -len(made) <= step[1] < len(made) else Opaque("an object")
        return made

    def _forget_lists(self, row: Mapping[str, Any]) -> None:
        """Whoever was given a list may change it."""
        if row["op"] == "build":
            if row.get("built", ("",))[0] == "list":
                self._fresh_lists.add(row["out"])
            return
        if self._fresh_lists:
            self._fresh_lists.difference_update(trace_rows.mentioned(row, self._content))

    def _content(self, value: Any) -> Any:
        """What an object is built of, where the trace builds it; else the value itself."""
        return self._built.get(value[1], value) if value[0] == "reg" else value

    def _structure(self, value: Any) -> Any:
        made = self._argument(value)
        if holds_opaque(made) and any(node.op.startswith("python::") for node in self._nodes):
            return without_opaque(made)  # a part of it comes from what the graph does not hold
        if holds_opaque(made):
            raise ExportError(
                f"{self._definition()}{self._name} returns an object that a graph cannot give; return tensors, "
                "numbers, or tuples, lists and dicts of them"
            )
        return made

    def _definition(self) -> str:
        """Where the function of the graph begins, as messages say it."""
        function = self._found.get("fn")
        function = getattr(function, "__func__", getattr(function, "forward", function))
        code = getattr(function, "__code__", None)
        return "" if code is None else f"{code.co_filename}:{code.co_firstlineno}: "

    # -- nodes

    def _node(self, row: Mapping[str, Any]) -> None:
        op = row["op"]
        if op == "build" or (op in _CALLS and row["a"][0] == "const" and isinstance(row["a"][1], type)):
            self._new.update(trace_rows.outs(row))
        if row.get("call") is not None:
            self._call(row)
        elif op == "scalar":
            operands = [self._argument(row[side]) for side in ("a", "b") if row[side] not in {None, ("none",)}]
            self._number(row, _SCALARS[row["scalar"]], operands)
        elif op in {"box", "unbox"}:
            self._registers[row["out"]] = self._argument(row["b" if op == "box" else "a"])
        elif op == "build":
            self._built[row["out"]] = row.get("built", ("other", "an object"))
        elif self._of_library(row):
            pass
        elif op == "pure" and (found := python_calls.number_row(row)) is not None:
            self._number(row, found[0], [self._argument(each) for each in row["operands"]], found[1])
        elif op == "opaque" and (call := python_calls.engine_call(row, self._content)) is not None:
            self._backward(row, call)
        elif op == "opaque" and (self._operator(row) or self._function(row) or self._higher_order(row)):
            return
        elif op in {"guard_bool", "guard_int", "guard_float"}:
            self._check(row, self._argument(row["a"]), trace_rows.expected(op, row))
        elif op == "guard_is":
            self._check_object(row)
        elif op not in _SKIPPED and op != "exit":
            self._foreign(row)

    def _of_library(self, row: Mapping[str, Any]) -> bool:
        """A call of Python, of NumPy or of MindSpore that a graph says in its own words."""
        op = row["op"]
        if op in {"call", "pure"} and self.of_mindspore.call(row):
            return True
        return op in {"opaque", "pure"} and ((op == "pure" and self.arrays.call(row)) or self._known_call(row))

    def _emit(self, row: Mapping[str, Any], op: str, arguments: Mapping[str, Any], results: Any, **more: Any) -> None:
        region, file, line = self._place(row.get("frame", -1))
        node = Node(op, arguments, results, region=region, file=file, line=line, **more)
        depends = op not in _OF_FORM and any(value.name in self._of_data for value in node.operands)
        if depends or more.get("random"):
            self._of_data.update(value.name for value in results if value is not None)
        self._nodes.append(node)
        if self.modes is not None:
            self.modes.note(node)

    def _result(self, register: int | None, op: str, kind: Any = "tensor") -> Value | None:
        if register is None:
            return None
        value = Value(self._fresh(op.rpartition("::")[2].partition(".")[0]), kind)
        self._registers[register] = value
        return value

    def _operator(self, row: Mapping[str, Any]) -> bool:
        """An operator with a schema that the recorder does not know; False: the call is of something else."""
        given = python_calls.spread(row, self._content)
        if given is None:
            return False
        positional, named = given
        values = [plain(self._argument(each)) for each in positional]
        words = {name: plain(self._argument(each)) for name, each in named.items()}
        holder = self._data["frames"][row["frame"]]["self"] if row.get("frame", -1) >= 0 else None
        overload = operators.overload_of(row, holder, values, words)
        if overload is None or any(map(holds_opaque, (*values, *words.values()))):
            return False
        kinds = operators.kinds(overload)
        schema = overload._schema
        if kinds is None or not (kinds or any(each.is_write for each in schema.arguments)):
            return False
        found = operators.registers(self._data, row["out"], len(kinds))
        places = [each if each is not None else -1 - row["out"] * 64 - at for at, each in enumerate(found)]
        self._known_kinds.update(zip(places, kinds, strict=True))
        taken = dict(zip((each.name for each in schema.arguments), positional, strict=False)) | dict(named)
        call = {
            "name": operators.qualified(overload),
            "arguments": [
                (each.name, taken[each.name], each.is_write) for each in schema.arguments if each.name in taken
            ],
            "results": places,
            "aliases": list(operators.aliases(overload)),
            "random": operators.is_random(overload),
        }
        self._call_one(row, call)
        results = tuple(self._registers.get(each) for each in places)
        self._registers[row["out"]] = results[0] if len(results) == 1 else results or None
        return True

    def _function(self, row: Mapping[str, Any]) -> bool:
        """A function of autograd; False: the call is of something else."""
        if functions.is_unwrap(row):
            self._registers[row["out"]] = same = self._argument(row["operands"][0])
            self._registers.update((each, same) for each in operators.registers(self._data, row["out"], 1) if each)
            return True
        function, given = functions.class_of(row, self._content), python_calls.spread(row, self._content)
        if function is None or given is None or given[1]:
            return False
        arguments = tuple(each[1] if each[0] == "const" else plain(self._argument(each)) for each in given[0])
        if any(map(holds_opaque, arguments)):
            return False
        found, whole = functions.results(self._data, row["out"])
        places = [each if each is not None else -1 - row["out"] * 64 - at for at, each in enumerate(found)]
        self._known_kinds.update((each, "tensor") for each in places)
        results = tuple(self._result(each, f"python::{function.__name__}") for each in places)
        self._registers[row["out"]] = results[0] if len(results) == 1 else results
        self._of_data.update(value.name for value in results if value is not None)
        held = None if self.modes is None else self.modes.held
        self._stands_for(row, function.__name__, results, functions.Applied(function, arguments, whole, held))
        return True

    def _higher_order(self, row: Mapping[str, Any]) -> bool:
        """A call of a higher order operator of torch; False: the call is of something else."""
        function, given = row["a"][1] if row["a"][0] == "const" else None, python_calls.given(row, self._content)
        if given is None or not any(function is each for each in _left_whole.higher_order()):
            return False
        own = frozenset((*self._modules.tensors, *map(id, self._arrays.values())))
        call = higher_order.Called(function, tuple(given[0]), dict(given[1]), self._argument, self._content, own)
        found = higher_order.results(self._data, row["out"])
        self._known_kinds.update((register, "tensor") for _, register in found)
        word = getattr(function, "__name__", "") or "a higher order operator"
        results = tuple(self._result(register, f"python::{word}") for _, register in found)
        self._registers[row["out"]] = Opaque(f"torch.{word}", called=True)
        self._of_data.update(value.name for value in results if value is not None)
        self._stands_for(row, word, results, call.giving([path for path, _ in found]))
        if results and self.modes is not None and any(self.modes.enabled.values()):  # what is traced would lose casts
            del self.applied[results[0].name]  # type: ignore[union-attr]
        return True

    def _stands_for(self, row: Mapping[str, Any], word: str, results: Any, call: functions.Call) -> None:
        """A node of Python that may become operators."""
        taken: dict[str, Argument] = {f"x{at}": value for at, value in enumerate(call.operands)}
        self._emit(row, f"python::{word}", taken, results)
        if results and results[0] is not None:
            self.applied[results[0].name] = call

    def _kind(self, register: int | None) -> str:
        if register in self._known_kinds:
            return self._known_kinds[register]
        kind = "tensor" if register is None else self._data["registers"][register]
        return kind if kind in {"tensor", "int", "float", "bool"} else "object"

    def _call(self, row: Mapping[str, Any]) -> None:
        call = row["call"]
        by_list = self._is_on_accelerator(lists.tensors_of(call))
        for each in lists.at_once(call, self._new_register) if by_list else lists.apart(call):
            self._call_one(row, each)

    def _new_register(self) -> int:
        """Of a tensor that the trace has not got."""
        register = len(self._data["registers"]) + self._own_registers
        self._own_registers += 1
        self._known_kinds[register] = "tensor"
        return register

    def _is_on_accelerator(self, tensors: list[list[Any]]) -> bool:
        """Tensors are not of the CPU. Of those that the call makes it is not known yet: the others stand for them."""
        values = (self._argument(each) for items in tensors for each in items)
        devices = {value.device for value in values if isinstance(value, Value) and value.device}
        if tensors and not devices:
            devices = {value.device for value in (*self._inputs.values(), *self._parameters.values()) if value.device}
            devices -= {"cpu"} if len(devices) > 1 else set()  # numbers in tensors, such as counts of steps
        return bool(devices) and "cpu" not in devices

    def _call_one(self, row: Mapping[str, Any], call: Mapping[str, Any]) -> None:
        if call["name"] in MAKERS and self._makes_tensor(row, call):
            return
        registers = [each for one in call["results"] for each in (one if isinstance(one, list) else [one])]
        if call["name"] in _KEPT:
            kept = call["name"].rpartition(".")[2]
            self._registers.update((each, Opaque(kept, called=True)) for each in registers if each is not None)
            return
        arguments = [(name, self._operand(call["name"], name, value)) for name, value, _ in call["arguments"]]
        if transforms.is_level(call["name"]):
            self._level(row, call, [value for _, value in arguments], registers)
            return
        if self.modes is not None and self.modes.changes(call["name"], [value for _, value in arguments]):
            self._registers.update((each, Opaque("a number")) for each in registers if each is not None)
            return
        if call["name"].startswith("torch::") and vocabulary.row_of(call["name"]) is None:
            call = self._as_operator(self._with_sizes(row, call, arguments), arguments)
            arguments = [(name, self._operand(call["name"], name, value)) for name, value, _ in call["arguments"]]
        if call["name"] == "aten::einsum":
            arguments = [each for each in arguments if each[0] != "path"]  # contractions.py finds it for these sizes
        written = [at for at, (_, _, writes) in enumerate(call["arguments"]) if writes]
        if call["name"] in _GRADIENTS and (written or registers or "enabled" in dict(arguments)):
            self._emit_gradient(row, call["name"], arguments, registers)
            return
        if not written and not any(each is not None for each in registers):
            return  # it only looks, or changes a mode
        named = vocabulary.neutral(call["name"], arguments)
        if named is None:
            op, taken = call["name"], dict(arguments)
            writes = tuple(arguments[at][0] for at in written)
        else:
            op, taken = named
            slots = vocabulary.row_of(call["name"])[1].slots  # type: ignore[index]
            writes = tuple(slots[at] or "" for at in written)
        if any(holds_opaque(value) for value in taken.values()):
            given = next(opaque_in(tuple(taken.values())))
            self._foreign(row, op.rpartition("::")[2], given.what if given.called else "")
            return
        results: list[Value | None] = [self._result(each, op, self._kind(each)) for each in registers]
        if writes and results and results[0] is None:
            results[0] = Value(self._fresh(op.rpartition("::")[2].partition(".")[0]))
        elif writes and not results:
            of_list = not isinstance(taken.get(writes[0]), Value)  # nothing is the result
            name = self._fresh(op.rpartition("::")[2].partition(".")[0])
            results = [Value(name, "object") if of_list else Value(name)]
        flat = [
            alias for one, alias in zip(call["results"], call["aliases"], strict=True) for _ in trace_rows.each(one)
        ]
        aliases = tuple(call["arguments"][at][0] if at >= 0 else "" for at in flat)
        if named is not None:
            slots = vocabulary.row_of(call["name"])[1].slots  # type: ignore[index]
            aliases = tuple((slots[at] or "") if at >= 0 else "" for at in flat)
        if named is not None and results and results[0] is not None and call["name"].startswith("aten::"):
            pattern = vocabulary.row_of(call["name"])[1]  # type: ignore[index]
            if any(slot is None and at not in pattern.literals for at, slot in enumerate(pattern.slots)):
                self.complete[results[0].name] = dict(arguments)
        self._emit(
            row,
            op,
            taken,
            tuple(results),
            origin=call["name"],
            writes=writes,
            aliases=aliases if any(aliases) else (),
            random=call["random"],
        )

    def _level(self, row: Mapping[str, Any], call: Mapping[str, Any], given: list[Any], registers: list[Any]) -> None:
        """A call that opens or closes a level of torch.func, or wraps a tensor there."""
        function = call["callable"]
        origin = f"{transforms.PREFIX}{function.__name__}"
        if not transforms.emits(call["name"], registers):
            return
        results = tuple(self._result(each, origin, self._kind(each)) for each in registers)
        op = call["name"] if call["name"] in {transforms.OPEN, transforms.CLOSE} else origin
        self._of_torch[origin] = function
        self._emit(row, op, {f"x{at}": each for at, each in enumerate(given)}, results, origin=origin)

    def _with_sizes(self, row: Mapping[str, Any], call: Mapping[str, Any], arguments: list[Any]) -> Mapping[str, Any]:
        """The call with numbers in the place of tensors among sizes: `torch.zeros(x.max() + 1, 6)`."""
        first = 1 if call["name"].startswith("torch::Tensor.") else 0
        given = [value for name, value in arguments if not name]
        sizes = given[first] if len(given) == first + 1 and isinstance(given[first], tuple) else given[first:]
        if not operators.are_sizes(call["name"], sizes):
            return call
        numbers = []
        for size in sizes:
            number = size
            if isinstance(size, Value) and size.kind == "tensor":
                number = Value(self._fresh("item"), "int")
                self._of_data.add(number.name)
                self._emit(row, "item_int", {"x": size}, (number,), origin="tensor::int")
            numbers.append(("value", number))
        words = [each for each in call["arguments"] if each[0]]
        positional = [*call["arguments"][:first], ("", ("tuple", None, numbers), False)]
        arguments[:] = [*arguments[:first], ("", tuple(each for _, each in numbers)), *(a for a in arguments if a[0])]
        return {**call, "arguments": [*positional, *words]}

    @staticmethod
    def _as_operator(call: Mapping[str, Any], arguments: list[Any]) -> Mapping[str, Any]:
        """The call of a function of Python as that of the operator behind it, if there is one."""
        positional = [value for name, value in arguments if not name]
        named = {name: value for name, value in arguments if name}
        overload = operators.overload_named(call["name"], positional, named)
        if overload is None or len(call["results"]) != len(overload._schema.returns):
            return call
        places = {each.name: at for at, each in enumerate(overload._schema.arguments)}
        names = list(places)
        given = {name or names[at]: value for at, (name, value, _) in enumerate(call["arguments"])}
        ordered = [each for each in overload._schema.arguments if each.name in given]
        aliases = [
            next((at for at, each in enumerate(ordered) if places[each.name] == place), -1)
            for place in operators.aliases(overload)
        ]
        taken = [(each.name, given[each.name], each.is_write) for each in ordered]
        return {**call, "name": operators.qualified(overload), "arguments": taken, "aliases": aliases}

    def _operand(self, call: str, name: str, value: Any) -> Any:
        """An argument of an operator. A list as the whole index is one item of it: `x[[0, 1]]` is no `x[0, 1]`."""
        made = self._argument(value)
        return (plain(made),) if call in _INDEXED and name == "index" and isinstance(made, list) else plain(made)

    def _emit_gradient(self, row: Mapping[str, Any], name: str, arguments: list[Any], registers: list[Any]) -> None:
        given = {_WORDS.get(word, word): each for word, each in arguments}
        results = tuple(self._result(each, "grad") for each in registers)
        self._emit(row, _GRADIENTS[name], given, results)

    def _number(self, row: Mapping[str, Any], op: str, operands: list[Any], kind: str = "") -> None:
        if any(map(holds_opaque, operands)):
            given = sorted(opaque_in(operands), key=lambda each: not each.called)[0]
            if self._takes_data(row, {}):
                self._of_python.add(row["out"])
            self._registers[row["out"]] = Opaque(given.what if given.called else "a number", given.called)
            return
        if not any(isinstance(each, Value) for each in operands):  # numbers that the key of a segment fixes
            self._registers[row["out"]] = computed(op, operands)
            return
        names = ("x", "y")[: len(operands)]
        result = self._result(row["out"], op, kind or self._kind(row["out"]))
        self._emit(row, op, dict(zip(names, operands, strict=True)), (result,))

    def _check(self, row: Mapping[str, Any], value: Any, expected: Any) -> None:
        if isinstance(value, Opaque) and value.called:
            self._emit(row, DECISION, {"expected": expected}, (), origin=f"it hangs on what {value.what} gives")
        if not isinstance(value, Value):
            return
        decides = value.name in self._of_data
        assumed = self._decisions == "assume" or self._is_of_layer(value)
        raises = decides and not assumed and raising.raises(row, self._are_equal(value, expected))
        if decides and not assumed and not raises:
            self._emit(row, DECISION, {"x": value, "expected": expected}, ())
            return
        value, expected = self._decided(value, expected)
        origin = RAISES if raises else DECISION if decides else ""
        self._emit(row, "check", {"x": value, "expected": expected}, (), origin=origin)

    def _maker(self, value: Value) -> Node | None:
        return next((node for node in reversed(self._nodes) if any(each is value for each in node.results)), None)

    def _is_of_layer(self, value: Value) -> bool:
        """A layer of torch asks whether its fast path takes a mask: that is checked, as masks of one kind are usual."""
        made = self._maker(value)
        return made is not None and made.op == ASKS

    def _are_equal(self, value: Value, expected: Any) -> bool:
        """The decision is that two numbers are equal."""
        made = self._maker(value)
        return expected is True and made is not None and made.op == "scalar_equal"

    def _check_object(self, row: Mapping[str, Any]) -> None:
        """A decision on a bool that is an object of Python; of other objects the trace proves which they are."""
        if row["b"][0] != "const" or (row["b"][1] is not True and row["b"][1] is not False):
            return
        value = self._argument(row["a"])
        if isinstance(value, Value) and value.kind == "bool":
            self._check(row, value, row["b"][1])
        elif row["a"][0] == "reg" and row["a"][1] in self._of_python:
            what = value.what if isinstance(value, Opaque) else "a function"
            self._emit(row, DECISION, {"expected": row["b"][1]}, (), origin=f"it hangs on what {what} gives")

    def _decided(self, value: Value, expected: Any) -> tuple[Value, Any]:
        """The tensor that a decision looks at, and what it has to be: formats can check it without a number."""
        for node in reversed(self._nodes):
            if any(result is value for result in node.results):
                array = node.arguments.get("x")
                if not isinstance(array, Value) or array.kind != "tensor" or value.kind != "bool":
                    break
                if node.op in {"item", "item_bool", "item_not"}:
                    return array, expected != (node.op == "item_not")
        return value, expected

    def _foreign(self, row: Mapping[str, Any], name: str = "", source: str = "") -> None:
        """A call or a store of Python: an effect beside the graph, or if a tensor comes out of it a node of its own."""
        shared = self._forget_arrays(row)
        values = {value.name: value for side in trace_rows.sides(row) for value in self._within(side)}
        outs = trace_rows.outs(row)
        what = name or trace_rows.callable_name(row)
        tensors = any(self._kind(each) != "object" for each in outs)
        _, file, line = self._place(row.get("frame", -1))
        if shared and not tensors:
            self._emit(row, f"python::{what}", {}, (), origin="an array that shares its memory with a tensor")
            return
        if row["op"] in _FOLLOWED and not tensors:
            writes = row.get("effect") == "write" and not effects.is_cache_hit(row)
            if writes and not self._is_new(effects.changed(row)):
                self._add_effect(row, what, values)
            if row["op"] in _STORES and not self._is_new(row["a"]):
                key, value = (row[side] for side in _STORES[row["op"]])
                self.stores.append(Store(str(key[-1]), self._argument(value), file, line))
            if row["op"] == "pure":
                self._follow(row, what, values)
            return
        given = any(value.kind == "tensor" for value in values.values())
        if row["op"] == "opaque" and trace_rows.asks_for_class(row) and not tensors:
            self._registers.update((each, Opaque("what a call has given", called=True)) for each in outs)
            return
        looks = row["a"] == ("const", getattr)  # at what else than tensors, which nodes of their own read
        if row.get("operators") == 0 and not tensors and (looks or not given):
            if not effects.is_pure(row):
                self._add_effect(row, what, values)
            self._registers.update((each, Opaque(what, called=True)) for each in outs)
            self._follow(row, what, values)
            return
        arguments: dict[str, Argument] = {f"x{at}": value for at, value in enumerate(values.values())}
        results = tuple(self._result(each, f"python::{what}", self._kind(each)) for each in outs)
        self._of_data.update(value.name for value in results if value is not None)
        origin = f"it takes what {source} gives" if source else ""
        self._emit(row, f"python::{what}", arguments, results, origin=origin)

    def _add_effect(self, row: Mapping[str, Any], what: str, values: Mapping[str, Value]) -> None:
        at = row.get("frame", -1)
        if at < 0 or not effects.is_housekeeping(self._data["frames"][at]["file"]):
            _, file, line = self._place(at)
            self._effects.append(Effect(what, tuple(values.values()), file, line))

    def _forget_arrays(self, row: Mapping[str, Any]) -> bool:
        """Whoever is given an array of NumPy may change it, and others that share its memory; True: a tensor may."""
        found = (self._registers.get(each) for each in trace_rows.mentioned(row, self._content))
        given = [each.made for each in found if isinstance(each, Known)]
        if given:
            known = [register for register, made in self._registers.items() if isinstance(made, Known)]
            self._registers.update((register, Opaque("an array of NumPy", called=True)) for register in known)
        return any(hasattr(each, "shape") and self.is_shared(each) for each in given)

    def _follow(self, row: Mapping[str, Any], what: str, values: Mapping[str, Value]) -> None:
        """What a function of Python makes of data, or of sizes: what it decides is not known of others."""
        if not effects.looks_at_content(row) or trace_rows.compares_identity(row):
            return
        numbers = any(value.kind != "tensor" for value in values.values())
        data = row["op"] == "pure" and self._takes_data(row, values)
        if data or numbers or any(side[0] == "reg" and side[1] in self._of_python for side in trace_rows.sides(row)):
            self._of_python.update(trace_rows.outs(row))
            self._registers.update((each, Opaque(what, called=True)) for each in trace_rows.outs(row))

    def _takes_data(self, row: Mapping[str, Any], values: Mapping[str, Value]) -> bool:
        """It is given what the data of tensors decides."""
        registers = (side[1] for side in trace_rows.sides(row) if side[0] == "reg")
        return any(name in self._of_data for name in values) or any(each in self._of_python for each in registers)

    def is_of_data(self, argument: Any) -> bool:
        """The data of tensors decides it."""
        return isinstance(argument, Value) and argument.name in self._of_data

    def _is_new(self, value: Any) -> bool:
        """The call itself has made the object, so that no later call finds what is stored there."""
        return value[0] == "reg" and value[1] in self._new

    def _backward(self, row: Mapping[str, Any], call: python_calls.EngineCall) -> None:
        """The call of the engine; one that gives gradients instead of keeping them stays a call of Python."""
        sides = [plain(self._argument(each)) for each in (call.roots, call.gradients, call.inputs)]
        if not call.accumulate and self._in_transform and not any(map(holds_opaque, sides)):
            self._gives_gradients(row, call, sides)
            return
        if not call.accumulate or any(map(holds_opaque, sides)):
            self._foreign(row, "run_backward")
            return
        names = ("roots", "gradients", "inputs")
        flags = {"keep_graph": call.keep_graph, "create_graph": call.create_graph}
        self._emit(row, "backward", {**dict(zip(names, sides, strict=True)), **flags}, ())

    @property
    def _in_transform(self) -> bool:
        """The engine may go through what a transformation of torch.func has done."""
        return any(node.op == transforms.OPEN for node in self._nodes)

    def _gives_gradients(self, row: Mapping[str, Any], call: python_calls.EngineCall, sides: list[Any]) -> None:
        """The call of the engine that gives gradients to a transformation."""
        found = operators.registers(self._data, row["out"], len(sides[2]))
        places = [each if each is not None else -1 - row["out"] * 64 - at for at, each in enumerate(found)]
        self._known_kinds.update((each, "tensor") for each in places)
        results = tuple(self._result(each, "grad") for each in places)
        self._registers[row["out"]] = results
        self._emit(row, transforms.ENGINE, transforms.engine(call, *sides), results)

    def _within(self, value: Any) -> Iterator[Value]:
        """What of the graph stands in a value of the trace, however deep."""
        content = self._content(value)
        if content is value and value[0] not in {"tuple", "list", "dict", "instance", "method", "slice"}:
            yield from values_of(self._argument(value))
            return
        for part in content[1:]:
            yield from self._within_part(part)

    def _within_part(self, part: Any) -> Iterator[Value]:
        if isinstance(part, tuple) and part and isinstance(part[0], str):
            yield from self._within(part)
        elif isinstance(part, list | tuple):
            for each in part:
                yield from self._within_part(each)
        elif isinstance(part, dict):
            for each in part.values():
                yield from self._within_part(each)

    def _rest(self) -> None:
        stop = self._data["stop"] or {"reason": "it was not recorded to its end", "file": "", "line": 0}
        node = Node("python::rest", {}, (), origin=stop["reason"], file=stop["file"], line=stop["line"])
        self._nodes.append(node)

    # -- where a node comes from

    def _place(self, frame: int) -> tuple[str, str, int]:
        """Region, file and line of a frame."""
        known = self._places.get(frame)
        if known is not None:
            return known
        region, user, innermost = None, None, ("", 0)
        at = frame
        while at >= 0:
            row = self._data["frames"][at]
            if at == frame:
                innermost = (row["file"], row["line"])
            if user is None and not row["library"]:
                user = (row["file"], row["line"])
            if region is None:
                region = self._modules.paths.get(id(row["self"])) if row["self"] is not None else None
            at = row["parent"]
        made = (region or "", *(user or innermost))
        self._places[frame] = made
        return made


def _key(value: Any) -> Any:
    return value[1] if value[0] == "const" and isinstance(value[1], _LITERALS) else str(value[-1])
