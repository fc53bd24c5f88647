"""The statements of `run`: a line of C++ for each node, with the module and the user's line as comments."""

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

from pijit._formats.cpp.arguments import Arguments
from pijit._formats.cpp.numbers import number
from pijit._formats.cpp.operators import check_kernel
from pijit._formats.cpp.words import KINDS, comment, double, dtype, identifier, integer, quoted, token
from pijit.errors import ExportError
from pijit.graph.model import Graph, Node, Slice, Token, Value, place_of, values_of
from pijit.graph.model.branches import given, graphs_of, is_branch, kind_of
from pijit.graph.show.text import Writer
from pijit.graph.torch_calls import NUMBERS, TorchCall, function_at, torch_call

_WIDTH = 116
# What an operator gives of each kind, read from its result.
_READ = {"tensor": "tensor({})", "int": "{}.toInt()", "float": "{}.toDouble()", "bool": "{}.toBool()"}
# What a number of a tensor is: rows that read one.
_ITEMS = {
    "torch.ops.aten.item.default": "item",
    "builtins.int": "int",
    "builtins.float": "float",
    "builtins.bool": "bool",
    "operator.not_": "not",
}


class Body:
    """Writes the statements of one graph.

    Attributes:
        operators: what is called: name in the file, by the operator's name and overload.
        uses: names of the pieces of `support` that stand above.
    """

    def __init__(self, graph: Graph, names: dict[str, str], taken: set[str]) -> None:
        self.graph = graph
        self.names = names
        self.taken = taken
        self.operators: dict[tuple[str, str], str] = {}
        self.operator_names: set[str] = set()
        self.uses: set[str] = set()
        self.heads = Writer(graph)
        self.arguments = Arguments(self.argument)
        self.last: dict[str, int] = {}  # of values that a node of the graph makes: where nothing needs them any more
        self.movable: set[str] = set()

    def lines(self) -> Iterator[str]:
        yield from self.nodes(self.graph, values_of(self.graph.outputs))
        for name, value in self.graph.updates:
            yield f"{self.names[name]}.copy_({self.names[value.name]});"

    def nodes(self, graph: Graph, outputs: Iterable[Value]) -> Iterator[str]:
        """The statements of the nodes of a graph; tensors are given away where they are used last."""
        around = self.last
        kept = {value.name for value in outputs} | {
            each for name, value in graph.updates for each in (name, value.name)
        }
        self.last = {}
        for at, node in enumerate(graph.nodes):
            for value in node.operands:
                self.last[value.name] = at
        self.last |= dict.fromkeys(kept, len(graph.nodes))
        made: set[str] = set()
        for at, node in enumerate(graph.nodes):
            names = [value.name for value in node.operands]
            once = {name for name in names if self.last[name] == at and names.count(name) == 1}
            self.movable = set() if is_branch(node) else once & made
            yield from self.heading(node)
            yield from self.statements(node)
            made.update(value.name for value in node.results if value is not None)
        self.last = around

    def heading(self, node: Node) -> Iterator[str]:
        for line in self.heads.heading(node):
            yield comment(line[2:]) if line else ""

    def argument(self, value: Value) -> str:
        """The name of a value as an argument: given away where nothing needs it any more."""
        if value.name in self.movable and value.kind == "tensor":
            return f"std::move({self.names[value.name]})"
        return self.names[value.name]

    # --- one node

    def statements(self, node: Node) -> Iterator[str]:
        """The statements of a node."""
        if node.op == "check":
            yield from self.check(node)
        elif is_branch(node):
            yield from self.branch(node)
        elif node.op in NUMBERS:
            self.uses.add("numbers")
            yield from self.bound(node.results[:1], self.computed(node))
        else:
            yield from self.called(node, torch_call(node, "cpp"))

    def check(self, node: Node) -> Iterator[str]:
        held, expected = node.arguments["x"], node.arguments["expected"]
        value = self.names[held.name] if isinstance(held, Value) else self.number(held)
        if isinstance(expected, bool):
            is_tensor = kind_of(held) == "tensor"
            test = f"{value}{'.is_nonzero()' if is_tensor and not expected else ''}"
            test = test if expected else f"!{test}"
        elif isinstance(expected, int | float):
            read = f"{value}.item().toDouble()" if kind_of(held) == "tensor" else value
            test = f"{read} == {self.number(expected)}"
        else:
            raise ExportError(f"{place_of(node)}format 'cpp' cannot compare {held} with {expected!r:.60}")
        what = "this data takes" if node.origin else "these sizes take"
        place = node.place.rpartition("/")[2] or self.graph.name
        said = f"{place}: {what} another way than the exported call; export with them"
        yield f"check({test}, {quoted(said)});"

    def called(self, node: Node, call: TorchCall) -> Iterator[str]:
        """A call of torch."""
        if call.function.startswith("torch.ops.") and call.function not in _ITEMS:
            yield from self.operator(node, call)
        elif call.function == "operator.getitem":
            self.uses.add("indexing")
            yield from self.bound(
                node.results[:1], f"item({self.tensor(call.args[0])}, {self.index(node, call.args[1])})"
            )
        elif call.function == "operator.setitem":
            yield from self.set_item(node, call)
        elif call.function in _ITEMS:
            yield from self.bound(node.results[:1], self.read(node, _ITEMS[call.function], self.tensor(call.args[0])))
        elif call.function == "torch.tensor":
            device: Any = call.kwargs.get("device")
            made = self.literal(node, call.args[0], call.kwargs.get("dtype"), device)
            yield from self.bound(node.results[:1], made)
        else:
            raise ExportError(
                f"{place_of(node)}{node.op} is {call.function} of Python, which format 'cpp' has no form for; take "
                "format 'python', or move it out of the function"
            )

    def operator(self, node: Node, call: TorchCall) -> Iterator[str]:
        function = function_at(call.function)
        schema = function._schema
        if call.function in _MEMBERS:
            arguments = [self.tensor(call.args[0]), *(self.number(each) for each in call.args[1:])]
            yield from self.bound(node.results[:1], _MEMBERS[call.function].format(*arguments))
            return
        check_kernel(node, schema)
        self.movable.discard(getattr(node.arguments.get(call.kept), "name", ""))
        arguments = self.arguments.all(node, schema, call.args, call.kwargs)
        operator = self.handle(schema)
        if call.copied:
            raise ExportError(f"{place_of(node)}format 'cpp' cannot copy what {node.op} writes to")
        results = [value for value in node.results if value is not None]
        used = [value for value in results if value.name in self.last]
        if call.gives == "nothing":
            yield from _call("call", "", operator, arguments)
            if results:
                yield from self.bound(results[:1], self.names[node.arguments[call.kept].name])  # type: ignore[union-attr]
        elif not used:
            yield from _call("call", "", operator, arguments)
        elif call.gives == "one":
            value = used[0]
            self.reading(node, value)
            said = f"{self.declared(value)} = "
            if value.kind == "tensor":
                yield from _call("one", said, operator, arguments, value.type)
            else:
                start, end = self.reading(node, value).split("{}")
                yield from _call(f"{start}call(", said, operator, arguments, end=f".at(0){end}")
        else:
            yield from self.several(node, schema, operator, arguments)

    def several(self, node: Node, schema: Any, operator: str, arguments: list[str]) -> Iterator[str]:
        """Results of an operator that gives a list, or several things."""
        is_list = str(schema.returns[0].type).startswith("List[") and len(schema.returns) == 1
        made = identifier(f"{schema.name.rpartition('::')[2]}_results", self.taken)
        function = f"listed({len(node.results)}, " if is_list else "call("
        yield from _call(function, f"auto {made} = ", operator, arguments)
        for at, value in enumerate(node.results):
            if value is not None and value.name in self.last:
                read = "{}" if is_list else self.reading(node, value)
                yield from self.bound([value], read.format(f"{made}[{at}]"))
        if is_list or any(value is not None and value.kind == "tensor" for value in node.results):
            yield f"{made}.clear();"

    def reading(self, node: Node, value: Value) -> str:
        if value.kind not in _READ:
            raise ExportError(
                f"{place_of(node)}{node.origin or node.op} gives an object that is neither a tensor nor a number, "
                "which format 'cpp' cannot hold; take format 'fx', or move it out of the function"
            )
        return _READ[value.kind]

    def handle(self, schema: Any) -> str:
        """The name of an operator in the file."""
        name = (schema.name, schema.overload_name)
        if name not in self.operators:
            namespace, _, base = schema.name.partition("::")
            word = base if namespace == "aten" else f"{namespace}_{base}"
            word = f"{word[:-1]}_in_place" if word.endswith("_") else word
            word = f"{word}_{schema.overload_name}" if schema.overload_name else word
            self.operators[name] = identifier(word, self.operator_names)
        return f"ops.{self.operators[name]}"

    def declared(self, value: Value) -> str:
        """The declaration of a variable for a value."""
        self.names[value.name] = identifier(value.name, self.taken)
        return f"{'at::Tensor' if value.kind == 'tensor' else KINDS[value.kind]} {self.names[value.name]}"

    def bound(self, results: Iterable[Value | None], made: str) -> Iterator[str]:
        """A variable with this value; no line where nothing needs it."""
        for value in results:
            if value is None:
                yield f"{made};"
            elif value.name in self.last:
                yield _with_comment(f"{self.declared(value)} = {made};", value.type if value.kind == "tensor" else "")
            elif not made.isidentifier():
                yield f"static_cast<void>({made});"

    # --- numbers and tensors

    def tensor(self, argument: Any) -> str:
        assert isinstance(argument, Value), argument
        return self.names[argument.name]

    def number(self, argument: Any) -> str:
        """A number as an expression."""
        if isinstance(argument, Value):
            return self.names[argument.name]
        if isinstance(argument, bool):
            return str(argument).lower()
        return integer(argument) if isinstance(argument, int) else double(argument)

    def computed(self, node: Node) -> str:
        """What a row makes of numbers, as an expression.

        A compiler computes functions of constants itself, and to another last bit than the library of C. So what hangs
        on constants alone is computed here.
        """
        given = list(node.arguments.values())
        if not any(isinstance(each, Value) for each in given):
            with contextlib.suppress(ArithmeticError, ValueError, TypeError):
                if isinstance(made := NUMBERS[node.op](*given), bool | int | float):
                    return self.number(made)
        return number(node, list(map(self.number, given)))

    def read(self, node: Node, how: str, tensor: str) -> str:
        """A number of a tensor."""
        result = node.results[0]
        kind = result.kind if result is not None else "float"
        if how in {"bool", "not"}:
            return f"{'!' if how == 'not' else ''}{tensor}.is_nonzero()"
        if kind not in KINDS:
            raise ExportError(f"{place_of(node)}the number that {tensor} holds is no int, float or bool of C++")
        if how == "int":
            self.uses.add("numbers")
            return f"{tensor}.is_floating_point() ? truncate({tensor}.item().toDouble()) : {tensor}.item().toLong()"
        return f"{tensor}.item().{ {'int': 'toLong()', 'float': 'toDouble()', 'bool': 'toBool()'}[kind] }"

    def literal(self, node: Node, value: Any, word: Any = None, device: Any = None) -> str:
        """A tensor of numbers in the program."""
        items, shape = _flat(value)
        kinds = {kind_of(each) for each in items}
        if not kinds <= {"int", "float", "bool"}:
            raise ExportError(
                f"{place_of(node)}a tensor is made of {value!r:.60} here, which format 'cpp' cannot write; make it "
                "before the call, as a buffer or an argument"
            )
        self.uses.add("literals")
        kind = "float" if "float" in kinds or not items else "int" if "int" in kinds else "bool"
        wanted = (
            word.name if isinstance(word, Token) else {"int": "int64", "bool": "bool"}.get(kind) or _default_dtype()
        )
        written = {"float": self.arguments.float, "int": self.arguments.int, "bool": self.arguments.bool}[kind]
        sizes = ", ".join(map(str, shape))
        where = f", {token(device)}" if isinstance(device, Token) else ""
        return f"literal<{KINDS[kind]}>({{{', '.join(map(written, items))}}}, {{{sizes}}}, {dtype(wanted)}{where})"

    # --- indexing

    def set_item(self, node: Node, call: TorchCall) -> Iterator[str]:
        self.uses.add("indexing")
        target = self.tensor(call.args[0])
        if call.copied:
            yield from self.bound(node.results[:1], f"{target}.clone()")
            target = self.tensor(node.results[0])
        value = call.args[2]
        if kind_of(value) != "tensor":
            value = f"like({target}, {self.number(value)})"
        else:
            value = self.names[value.name]
        yield f"set_item({target}, {self.index(node, call.args[1])}, {value});"
        if not call.copied:
            yield from self.bound(node.results[:1], target)

    def index(self, node: Node, index: Any) -> str:
        parts = index if isinstance(index, tuple) else (index,)
        return f"{{{', '.join(self.part(node, each) for each in parts)}}}"

    def part(self, node: Node, part: Any) -> str:
        """One axis of an index."""
        if part is None:
            return "new_axis()"
        if part is ...:
            return "rest()"
        if isinstance(part, Slice):
            ends = ("std::nullopt" if each is None else self.arguments.int(each) for each in (part.start, part.stop))
            step = "" if part.step is None else f", {self.arguments.int(part.step)}"
            return f"range({', '.join(ends)}{step})"
        if kind_of(part) == "bool":
            return f"flag({self.number(part)})"
        if kind_of(part) == "int" or (isinstance(part, Value) and part.kind == "tensor"):
            return self.number(part)
        if isinstance(part, tuple | list):
            return self.literal(node, part, None if part else Token("dtype", "int64"))
        raise ExportError(f"{place_of(node)}format 'cpp' has no index {part!r:.60}; index with a tensor")

    # --- branches

    def branch(self, node: Node) -> Iterator[str]:
        """A decision, or a loop: the statements of its graphs stand in it."""
        carried: Any = node.arguments.get("carried", ())
        inner = graphs_of(node)
        kinds = [kind_of(each) for each in (carried if node.op == "while" else inner["then"].outputs)]  # type: ignore[union-attr]
        names = []
        for at, (value, kind) in enumerate(zip(node.results, kinds, strict=True)):
            word = (
                value.name
                if value is not None
                else f"{inner['body'].inputs[at].name if node.op == 'while' else 'unused'}"
            )
            names.append(identifier(word, self.taken))
            start = f" = {self.expression(carried[at])}" if node.op == "while" else ""
            yield f"{'at::Tensor' if kind == 'tensor' else KINDS[str(kind)]} {names[at]}{start};"
        outside = list(map(self.expression, given(node)))
        if node.op == "cond":
            yield f"if ({self.number(node.arguments['condition'])}) {{"
            yield from _indented(self.inlined(inner["then"], outside, names))
            yield "} else {"
            yield from _indented(self.inlined(inner["otherwise"], outside, names))
            yield "}"
        else:
            now = [*names, *outside[len(names) :]]
            yield "while (true) {"
            yield from _indented(self.inlined(inner["condition"], now, None))
            yield from _indented(self.inlined(inner["body"], now, names))
            yield "}"
        for value, name in zip(node.results, names, strict=True):
            if value is not None:
                self.names[value.name] = name

    def inlined(self, graph: Graph, values: list[str], names: list[str] | None) -> Iterator[str]:
        """The statements of a graph in a node; `names` take its outputs; None: a loop ends where it gives False."""
        around, within, moved = self.names, self.heads.within, self.movable
        self.names = {value.name: held for value, held in zip(graph.inputs, values, strict=True)}
        self.heads.within = True
        yield from self.nodes(graph, values_of(graph.outputs))
        if names is None:
            yield f"if (!({self.expression(graph.outputs)})) break;"
        else:
            outputs: Any = graph.outputs
            made = list(map(self.expression, outputs))
            pairs = [(name, each) for name, each in zip(names, made, strict=True) if name != each]
            clash = any(each == name for at, (name, _) in enumerate(pairs) for _, each in pairs[at + 1 :])
            for at, (name, each) in enumerate(pairs if clash else ()):
                pairs[at] = (name, fresh := identifier(f"{name}_next", self.taken))
                yield f"auto {fresh} = {each};"
            for name, each in pairs:
                yield f"{name} = {each};"
        self.names, self.heads.within, self.movable = around, within, moved

    def expression(self, argument: Any) -> str:
        return self.number(argument)


# Operators that are members of tensors.
_MEMBERS = {
    "torch.ops.aten.sym_size.int": "{}.size({})",
    "torch.ops.aten.dim.default": "{}.dim()",
    "torch.ops.aten.sym_numel.default": "{}.numel()",
}


def _flat(value: Any) -> tuple[list[Any], list[int]]:
    """Items and shape of nested lists."""
    if not isinstance(value, tuple | list):
        return [value], []
    if not value:
        return [], [0]
    parts = [_flat(each) for each in value]
    return [item for items, _ in parts for item in items], [len(value), *parts[0][1]]


def _default_dtype() -> str:
    import torch

    return str(torch.get_default_dtype()).removeprefix("torch.")


def _with_comment(line: str, said: str) -> str:
    return f"{line}  // {said}" if said and len(line) + len(said) + 4 <= _WIDTH else line


def _call(function: str, start: str, operator: str, arguments: list[str], said: str = "", end: str = "") -> list[str]:
    """A statement that calls an operator, in several lines where it is long."""
    opened = function if "(" in function else f"{function}("
    line = f"{start}{opened}{operator}, {{{', '.join(arguments)}}}){end};"
    if len(line) <= _WIDTH:
        return [_with_comment(line, said)]
    lines, current = [_with_comment(f"{start}{opened}{operator}, {{", said)], ""
    for argument in arguments:
        if current and len(current) + len(argument) > _WIDTH - 8:
            lines.append(f"    {current.rstrip()}")
            current = ""
        current += f"{argument}, "
    return [*lines, f"    {current.rstrip(', ')}}}){end};"]


def _indented(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield f"  {line}" if line else ""
