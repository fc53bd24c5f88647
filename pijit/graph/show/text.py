"""A graph as runnable Python: what `print(graph)` shows, and the base of the format `python`.

The text is a function over `ops`, the forms of a framework, and `p`, the parameters by their paths:

    namespace = {}
    exec(str(graph), namespace)
    ops = pijit.graph.forms.load("torch")
    outputs = namespace[function_name(graph)](ops, parameters(graph), *inputs)

It gives the bits of `graph.run(*inputs)`. An operator that writes to an argument, or that has no row, is the call of
torch itself: `ops` has functions only. Comments say the module, the user's line, and the type of what a line gives.
"""

import builtins
import keyword
import linecache
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pijit.graph.model import Graph, Node, Slice, Token, Value
from pijit.graph.model.branches import all_nodes, given, graphs_of, is_branch
from pijit.graph.torch_calls import NUMBERS, TorchCall, path_of, torch_call

_WIDTH = 120
_RESERVED = {*dir(builtins), *keyword.kwlist, "ops", "p", "torch", "operator", "math", "Token", "PARAMETERS", "INPUTS"}
_INFIX = {
    "operator.add": "+",
    "operator.sub": "-",
    "operator.mul": "*",
    "operator.truediv": "/",
    "operator.floordiv": "//",
    "operator.mod": "%",
    "operator.pow": "**",
    "operator.eq": "==",
    "operator.ne": "!=",
    "operator.lt": "<",
    "operator.le": "<=",
    "operator.gt": ">",
    "operator.ge": ">=",
    "operator.and_": "&",
    "operator.or_": "|",
    "operator.xor": "^",
    "operator.lshift": "<<",
    "operator.rshift": ">>",
}
_SHORT = {
    "torch.ops.aten.sym_size.int": "{}.size({})",
    "torch.ops.aten.dim.default": "{}.dim()",
    "torch.ops.aten.sym_numel.default": "{}.numel()",
    "operator.getitem": "{}[{}]",
    "operator.neg": "-{}",
    "operator.invert": "~{}",
    "operator.not_": "not {}",
    "operator.abs": "abs({})",
}


def to_text(graph: Graph) -> str:
    """The graph as Python over the forms of a framework."""
    return Writer(graph).text()


def function_name(graph: Graph) -> str:
    """What the function is called in the text."""
    return _identifier(graph.name, {*_RESERVED})


def parameters(graph: Graph) -> dict[str, Any]:
    """The arrays by the keys that the text has for them: paths, or names where there is no path."""
    return {key(value): graph.data[value.name] for value in graph.parameters if value.name in graph.data}


def key(parameter: Value) -> str:
    """What a parameter is called in `p`."""
    return parameter.path or parameter.name


def _identifier(name: str, taken: set[str]) -> str:
    """A name that Python takes and nobody else has; it is taken then."""
    word = re.sub(r"\W", "_", name) or "value"
    word = f"_{word}" if word[0].isdigit() else word
    found, count = word, 0
    while found in taken:
        count += 1
        found = f"{word}_{count}"
    taken.add(found)
    return found


class Writer:
    """Writes the lines of one graph.

    A subclass says how a node is called (`called`), how a token is written (`token`), and what stands around.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.imports: set[str] = set()
        self.taken = set(_RESERVED)
        self.function = _identifier(graph.name, self.taken)
        self.names = {value.name: f"p[{quoted(key(value))}]" for value in graph.parameters}
        for value in graph.inputs:
            self.names[value.name] = _identifier(value.name, self.taken)
        self.types = dict(_regions(graph))
        self.region, self.place = "", ""
        self.condition = ""
        self.within = False

    # --- the whole

    def text(self) -> str:
        body = [*self.body()]
        head = [f"# {self.graph.name}: {self.summary()}"]
        return "\n".join([*head, *import_lines(self.imports), "", "", self.signature(), *map(_indented, body)]) + "\n"

    def signature(self) -> str:
        return f"def {self.function}({', '.join(('ops', 'p', *self.inputs()))}):"

    def inputs(self) -> list[str]:
        return [self.names[value.name] for value in self.graph.inputs]

    def summary(self) -> str:
        """The graph in a line."""
        count = sum(1 for _ in all_nodes(self.graph))
        foreign = f", {', '.join(self.graph.foreign)} foreign" if self.graph.foreign else ""
        return f"{count} operator{'' if count == 1 else 's'}{foreign}"

    def body(self) -> Iterator[str]:
        for value in self.graph.inputs:
            yield f"# {self.names[value.name]}: {value.type}"
        for symbol, size in self.graph.symbols.items():
            yield f"# {symbol} is free; it was {size}"
        if count := len(self.graph.breaks):
            said = f"the graph is split {'once' if count == 1 else f'{count} times'}; run each of graph.parts"
            yield f"raise NotImplementedError({quoted(said)})"
        for node in self.graph.nodes:
            yield from self.heading(node)
            yield from self.statements(node)
        yield from self.updates()
        for effect in self.graph.effects:
            yield f"# left out: {effect.what} in {os.path.basename(effect.file)}:{effect.line}"
        yield from wrapped(f"return {self.expression(self.graph.outputs)}", _WIDTH - 8)

    def heading(self, node: Node) -> Iterator[str]:
        """Comments: the module, where another one begins, and the user's line, where it is another one."""
        if node.region != self.region and (node.region or not self.within):
            self.region = node.region
            kind = self.types.get(node.region, "")
            yield ""
            yield f"# --- {node.region or self.graph.name}{f': {kind}' if kind else ''}"
        if node.place and node.place != self.place:
            source = linecache.getline(node.file, node.line).strip()
            said = f"# {os.path.basename(node.file)}:{node.line}{f': {source}' if source else ''}"
            yield said if len(said) <= _WIDTH - 4 else f"{said[: _WIDTH - 7]}..."

        self.place = node.place

    # --- one node

    def statements(self, node: Node) -> Iterator[str]:
        """The lines of a node."""
        if node.op.startswith("python::"):
            taken = ", ".join(self.expression(argument) for argument in node.arguments.values())
            said = (
                f"# in CPython: {node.op.removeprefix('python::')}({taken}){f', {node.origin}' if node.origin else ''}"
            )
            yield f"{self.assigned(node.results)} = ...  {said}" if any(node.results) else said
        elif node.op == "check":
            value, expected = self.operand(node.arguments["x"]), node.arguments["expected"]
            said = f"{node.place or self.graph.name}: the program goes another way than in the recorded call"
            condition = {True: value, False: f"not {value}"}.get(expected) if isinstance(expected, bool) else None
            yield f"assert {condition or f'{value} == {literal(expected)}'}, {quoted(said)}"
        elif is_branch(node):
            yield from self.branch(node)
        elif node.op in NUMBERS:
            made = self.python(path_of(NUMBERS[node.op]), tuple(node.arguments.values()))
            yield from self.assignment(node, made)
        else:
            yield from self.called(node)

    def branch(self, node: Node) -> Iterator[str]:
        """A decision, or a loop: the lines of its graphs stand in it."""
        said = ", ".join(value.type for value in node.results if value is not None)
        if node.op == "cond":
            words = ["if", "else"]
            names = self.new_names(node.results)
            for word, graph in zip(words, graphs_of(node).values(), strict=True):
                test = f" {self.expression(node.arguments['condition'])}" if word == "if" else ""
                yield f"{word}{test}:{f'  # {said}' if test and said else ''}"
                inner = [*self.inlined(graph, given(node), names)]
                yield from map(_indented, inner or ["pass"])
        else:
            graphs = graphs_of(node)
            start: Any = node.arguments["carried"]
            names = self.new_names(node.results, every=[value.name for value in graphs["body"].inputs])
            if names:
                yield from self.set(names, list(map(self.expression, start)), f"  # {said}" if said else "")
            now = [*names, *given(node)[len(names) :]]
            stop = [*self.inlined(graphs["condition"], now, None)]
            yield f"while {'True' if stop else self.condition}:"
            stop += [f"if not {self.condition}:", "    break"] if stop else []
            yield from map(_indented, [*stop, *self.inlined(graphs["body"], now, names)] or ["pass"])
        for value, name in zip(node.results, names, strict=True):
            if value is not None:
                self.names[value.name] = name

    def new_names(self, results: Iterable[Value | None], every: Iterable[str] = ()) -> list[str]:
        """A name for each result; `every`: also for those that nobody takes, these ones."""
        words = [value.name if value is not None else "" for value in results]
        for at, word in enumerate(every):
            if at < len(words):
                words[at] = words[at] or word
        return [_identifier(word, self.taken) if word else "_" for word in words]

    def inlined(self, graph: Graph, values: Iterable[Any], names: list[str] | None) -> Iterator[str]:
        """The lines of a graph in a node.

        Args:
            graph: its values are its own, so that those of the graph around it are out of sight.
            values: for its inputs: names that Python knows, or what stands in the graph around it.
            names: what takes its outputs; None: `condition` is the expression of its only one.
        """
        around, within, own = self.names, self.within, {}
        for value, held in zip(graph.inputs, values, strict=True):
            own[value.name] = held if isinstance(held, str) else self.expression(held)
        self.names, self.within = own, True
        for inner in graph.nodes:
            yield from self.heading(inner)
            yield from self.statements(inner)
        if names is None:
            self.condition = self.expression(graph.outputs)
        else:
            outputs: Any = graph.outputs
            yield from self.set(names, list(map(self.expression, outputs)))
        self.names, self.within = around, within

    def set(self, names: list[str], made: list[str], said: str = "") -> Iterator[str]:
        """An assignment of all at once, without those that are as they were, or that nobody takes."""
        kept = [(name, each) for name, each in zip(names, made, strict=True) if name not in (each, "_")]
        if kept:
            yield from _wrapped_with(f"{', '.join(a for a, _ in kept)} = {', '.join(b for _, b in kept)}", said)

    def called(self, node: Node) -> Iterator[str]:
        if node.is_foreign or node.writes:
            self.imports.add("import torch")
            yield from self.torch_statements(node, torch_call(node))
        else:
            named = [f"{name}={self.expression(argument)}" for name, argument in node.arguments.items()]
            yield from self.call_lines(node, f"ops.{node.op}", named)

    def call_lines(self, node: Node, function: str, arguments: list[str]) -> Iterator[str]:
        """A call, and the names of what it gives."""
        return self.assignment(node, _call(function, arguments))

    def torch_statements(self, node: Node, call: TorchCall) -> Iterator[str]:
        """The call of torch itself."""
        if call.gives == "nothing":
            target = self.expression(call.args[0])
            if call.copied:
                yield from self.assignment(node, f"{target}.clone()", comment=False)
                target = self.expression(node.results[0])
            rest = list(map(self.expression, call.args[1:]))
            if call.function == "operator.setitem":
                yield f"{target}[{self.index(call.args[1])}] = {rest[1]}"
            else:
                named = [f"{name}={self.expression(argument)}" for name, argument in call.kwargs.items()]
                yield f"{call.function}({', '.join([target, *rest, *named])})"
            if not call.copied and any(node.results):
                yield from self.assignment(node, self.expression(node.arguments[call.kept]))
            return
        yield from self.assignment(node, self.python(call.function, call.args, call.kwargs))

    def python(self, function: str, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None) -> str:
        """A call, by an operator of Python where there is one."""
        if function in _INFIX:
            return f" {_INFIX[function]} ".join(map(self.operand, args))
        if function == "operator.getitem":
            return f"{self.operand(args[0])}[{self.index(args[1])}]"
        if function in _SHORT:
            return _SHORT[function].format(*map(self.operand, args))
        module, _, name = function.partition(".")
        if module == "builtins":
            function = name
        else:
            self.imports.add(f"import {module}")
        named = [f"{name}={self.expression(argument)}" for name, argument in (kwargs or {}).items()]
        return _call(function, [*map(self.expression, args), *named])

    def assignment(self, node: Node, made: str, *, comment: bool = True) -> Iterator[str]:
        results = [value for value in node.results if value is not None]
        if not results:
            yield from made.split("\n")
            return
        lines = f"{self.assigned(node.results)} = {made}".split("\n")
        said = f"  # {', '.join(value.type for value in results)}" if comment else ""
        if len(lines[-1]) + len(said) <= _WIDTH - 4:
            lines[-1] += said
        yield from lines

    def assigned(self, results: Iterable[Value | None]) -> str:
        """The names of results on the left of an assignment."""
        words = []
        for value in results:
            if value is None:
                words.append("_")
            else:
                self.names[value.name] = _identifier(value.name, self.taken)
                words.append(self.names[value.name])
        return words[0] if len(words) == 1 else ", ".join(words)

    def updates(self) -> Iterator[str]:
        for name, value in self.graph.updates:
            target = self.names[name]
            yield f"{target if target.startswith('p[') else f'{target}[...]'} = {self.names[value.name]}"

    # --- arguments

    def expression(self, argument: Any) -> str:
        """An argument or structure."""
        if isinstance(argument, Value):
            return self.names[argument.name]
        if isinstance(argument, Token):
            return self.token(argument)
        if isinstance(argument, Slice):
            parts = map(self.expression, (argument.start, argument.stop, argument.step))
            return f"slice({', '.join(parts)})"
        if isinstance(argument, tuple):
            return f"({', '.join(map(self.expression, argument))}{',' if len(argument) == 1 else ''})"
        if isinstance(argument, list):
            return f"[{', '.join(map(self.expression, argument))}]"
        if isinstance(argument, Mapping):
            items = (f"{self.expression(name)}: {self.expression(item)}" for name, item in argument.items())
            return f"{{{', '.join(items)}}}"
        return literal(argument)

    def operand(self, argument: Any) -> str:
        """An argument beside an operator."""
        text = self.expression(argument)
        return f"({text})" if text.startswith("-") else text

    def index(self, argument: Any) -> str:
        """An argument within brackets."""
        if isinstance(argument, tuple) and argument:
            return ", ".join(map(self.index, argument)) + ("," if len(argument) == 1 else "")
        if isinstance(argument, Slice):
            start, stop, step = (
                "" if part is None else self.expression(part) for part in (argument.start, argument.stop, argument.step)
            )
            return f"{start}:{stop}{f':{step}' if step else ''}"
        return self.expression(argument)

    def token(self, word: Token) -> str:
        self.imports.add("from pijit.graph import Token")
        return f"Token({quoted(word.kind)}, {quoted(word.name)})"


def literal(thing: Any) -> str:
    """A number, text, None or Ellipsis."""
    if isinstance(thing, float) and not math.isfinite(thing):
        return f"float('{thing}')"
    if isinstance(thing, complex):
        return f"complex({literal(thing.real)}, {literal(thing.imag)})"
    if isinstance(thing, str):
        return quoted(thing)
    return "..." if thing is ... else repr(thing)


def _wrapped_with(line: str, said: str) -> Iterator[str]:
    """A line with a comment, where there is room for it."""
    yield f"{line}{said}" if len(line) + len(said) <= _WIDTH - 8 else line


def _regions(graph: Graph) -> Iterator[tuple[str, str]]:
    pending = [graph.region]
    while pending:
        region = pending.pop()
        yield region.path, region.type
        pending += region.regions


def _call(function: str, arguments: list[str]) -> str:
    """A call, in several lines where it is long."""
    made = f"{function}({', '.join(arguments)})"
    if len(made) <= _WIDTH - 30:
        return made
    lines = [""]
    for argument in arguments:
        if lines[-1] and len(lines[-1]) + len(argument) > _WIDTH - 10:
            lines.append("")
        lines[-1] += f" {argument}," if lines[-1] else f"{argument},"
    inner = [piece for line in lines for piece in wrapped(line, _WIDTH - 12, depth=1)]
    return "\n".join([f"{function}(", *(f"    {line}" for line in inner), ")"])


def wrapped(line: str, width: int, depth: int = 0) -> list[str]:
    """A line in pieces that are not longer, broken behind commas within brackets; `depth`: it stands in brackets."""
    pieces, start, last, quote = [], 0, 0, ""
    for at, letter in enumerate(line):
        if quote:
            quote = "" if letter == quote and line[at - 1] != "\\" else quote
        elif letter in "\"'":
            quote = letter
        elif letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
        elif letter == "," and depth > 0:
            if at + 1 - start > width and last > start:
                pieces.append(line[start:last])
                start = last
            last = at + 1
    if len(line) - start > width and last > start:
        pieces.append(line[start:last])
        start = last
    pieces.append(line[start:])
    return [pieces[0], *(f"    {piece.strip()}" for piece in pieces[1:])] if len(pieces) > 1 else pieces


def quoted(text: str) -> str:
    """A text as Python has it, in double quotes where these need no escapes."""
    shown = repr(text)
    return f'"{text}"' if shown == f"'{text}'" and '"' not in text else shown


def import_lines(imports: Iterable[str]) -> list[str]:
    """Imports in order, those of whole modules first."""
    return sorted(imports, key=lambda line: (line.startswith("from "), line))


def _indented(line: str) -> str:
    return f"    {line}" if line else ""
