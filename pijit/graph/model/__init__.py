"""What a graph is made of: values, nodes, regions, and the graph itself. All of it is immutable.

A graph is a straight line of nodes in the order in which the program ran them. Each value is written by one node, or
comes in as an input or a parameter.

Rules:
1. `Node.op` is a name of the vocabulary (`pijit.graph.vocabulary`), and its arguments have the row's names. An
   operator without a row is foreign: its name has the namespace of its framework ("aten::foo"), and its arguments have
   the names of its schema.
2. `Node.origin` is the operator that the program called, with its overload. With the arguments it gives the framework's
   call again, so that nothing is lost for that framework.
3. A node that writes to an argument says so in `writes`, and its first result is what the argument holds from then on.
   `pijit.graph.model.functional` makes a graph without such nodes.
4. The nodes "cond" and "while" have graphs among their arguments, for decisions on data that both ways were seen of;
   `pijit.graph.model.branches` says what such a graph may hold. What looks for the values of a node does not look into
   it.
"""

import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Union

from pijit.graph.vocabulary import hidden_writes

if TYPE_CHECKING:
    from pathlib import Path

Kind = Literal["tensor", "int", "float", "bool", "object"]
Role = Literal["input", "parameter", "buffer", "constant", "result"]
# A size: a number, or an expression of symbols, such as "batch" or "2*batch + 1".
Size = int | str


@dataclass(frozen=True, slots=True)
class Token:
    """A word of the framework as an argument: a dtype ("float32"), device ("cpu"), layout or memory format.

    Example:
        >>> from pijit.graph import Token
        >>> str(Token("dtype", "float32"))
        'float32'
    """

    kind: Literal["dtype", "device", "layout", "memory_format"]
    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Slice:
    """`start:stop:step` in the index of an item; each an `int`, a `Value` of kind "int", or None."""

    start: "Argument" = None
    stop: "Argument" = None
    step: "Argument" = None


@dataclass(frozen=True, slots=True)
class Value:
    """What a node gives or a graph is given: a tensor, or a number that the program computed from sizes.

    Attributes:
        name: unique in its graph.
        kind: "tensor", "int", "float" or "bool"; "object": what an opaque call gave.
        role: where it comes from: "input", "parameter", "buffer", "constant" or "result".
        dtype: of a tensor, such as "float32"; None: not known.
        shape: of a tensor; each size a number or an expression of symbols; None: not known.
        device: of a tensor, such as "cpu".
        path: of a parameter or buffer: its name in the module, such as "layers.3.weight".
    """

    name: str
    kind: Kind = "tensor"
    role: Role = "result"
    dtype: str | None = None
    shape: tuple[Size, ...] | None = None
    device: str | None = None
    path: str = ""

    def __str__(self) -> str:
        return self.name

    @property
    def type(self) -> str:
        """In words: "float32[batch, 8]", or the kind of number."""
        if self.kind != "tensor":
            return self.kind
        sizes = "..." if self.shape is None else ", ".join(map(str, self.shape))
        return f"{self.dtype or 'tensor'}[{sizes}]"


# A tuple stands for a list, too. Ellipsis and None stand in indices. A graph stands in the nodes "cond" and "while".
Argument = Union[
    Value, Token, Slice, int, float, complex, bool, str, None, types.EllipsisType, tuple["Argument", ...], "Graph"
]
# What a graph returns: values and literals in tuples, lists and dicts.
Structure = Argument | list["Structure"] | dict[Any, "Structure"]


def values_of(argument: Any) -> Iterator[Value]:
    """The values in an argument or structure, in order; those in a graph are its own, and none of them."""
    if isinstance(argument, Value):
        yield argument
    elif isinstance(argument, Slice):
        yield from values_of((argument.start, argument.stop, argument.step))
    elif isinstance(argument, tuple | list):
        for item in argument:
            yield from values_of(item)
    elif isinstance(argument, Mapping):
        for item in argument.values():
            yield from values_of(item)


def replaced(argument: Any, new: Mapping[str, Any]) -> Any:
    """The argument or structure with values replaced by what `new` has under their names."""
    if isinstance(argument, Value):
        return new.get(argument.name, argument)
    if isinstance(argument, Slice):
        return Slice(*(replaced(part, new) for part in (argument.start, argument.stop, argument.step)))
    if isinstance(argument, tuple):
        return tuple(replaced(item, new) for item in argument)
    if isinstance(argument, list):
        return [replaced(item, new) for item in argument]
    if isinstance(argument, Mapping):
        return {key: replaced(item, new) for key, item in argument.items()}
    return argument


@dataclass(frozen=True, slots=True)
class Node:
    """One operator.

    Attributes:
        op: name in the vocabulary, or the full name of a foreign operator ("aten::foo").
        arguments: by the row's parameter names, in order; all that are not the row's default.
        results: what it gives; None stands for a result that the program did not take.
        origin: the operator that the program called: "aten::add.Tensor".
        writes: names of the arguments that it writes to.
        aliases: for each result the argument that it may share memory with, or "".
        random: draws random numbers.
        region: path of the innermost module that called it ("layers.3.attention"), "" if none.
        file: the user's source file.
        line: the line in it, from 1; 0: not known.

    Raises:
        UsageError: it is "cond" or "while", and not as `pijit.graph.model.branches` says.
    """

    op: str
    arguments: Mapping[str, Argument]
    results: tuple[Value | None, ...]
    origin: str = ""
    writes: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    random: bool = False
    region: str = ""
    file: str = ""
    line: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "arguments", types.MappingProxyType(dict(self.arguments)))
        if self.op in {"cond", "while"}:
            from pijit.graph.model.branches import check

            check(self)

    @property
    def is_foreign(self) -> bool:
        """It has no row in the vocabulary."""
        return "::" in self.op

    @property
    def operands(self) -> tuple[Value, ...]:
        """The values among its arguments, in order."""
        return tuple(values_of(self.arguments))

    @property
    def place(self) -> str:
        """ "file.py:12", or "" if that is not known."""
        return f"{self.file}:{self.line}" if self.file else ""


def place_of(node: Node) -> str:
    """The start of a message about a node: "file.py:12: ", or nothing."""
    return f"{node.place}: " if node.place else ""


@dataclass(frozen=True, slots=True)
class Effect:
    """What the call did to objects of Python, and a graph does not do: a call or a store.

    Attributes:
        what: the function that was called, or the kind of store ("setattr").
        values: what of the graph it was given.
        file: the user's source file.
        line: the line in it, from 1; 0: not known.
    """

    what: str
    values: tuple[Value, ...] = ()
    file: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class Region:
    """A module that was called: what it contains is drawn as a box.

    Attributes:
        path: its name in the module that is captured ("layers.3"), "" for the whole.
        type: the name of its class.
        nodes: indices in `Graph.nodes` of what it called itself.
        regions: the modules that it called, in order.
    """

    path: str
    type: str
    nodes: tuple[int, ...] = ()
    regions: tuple["Region", ...] = ()


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Graph:
    """One recorded call as a graph, independent of the framework that ran it.

    Attributes:
        name: of the function or module.
        inputs: what the caller gives, in order.
        parameters: parameters, buffers and constants, which stay the same from call to call.
        nodes: the operators, in the order in which they ran.
        outputs: what the call returns.
        updates: names of inputs and parameters with what they hold after the call, if it writes to them.
        effects: what the call did to objects of Python, which the graph leaves out.
        data: the arrays of the parameters by name, in the framework that was captured; not copied.
        region: the tree of modules.
        symbols: the sizes that are free, with the size that was seen at the capture.
    """

    name: str
    inputs: tuple[Value, ...]
    parameters: tuple[Value, ...]
    nodes: tuple[Node, ...]
    outputs: Structure
    updates: tuple[tuple[str, Value], ...] = ()
    effects: tuple[Effect, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict, repr=False)
    region: Region = field(default=Region("", ""), repr=False)
    symbols: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "data", types.MappingProxyType(dict(self.data)))
        object.__setattr__(self, "symbols", types.MappingProxyType(dict(self.symbols)))

    @property
    def foreign(self) -> tuple[str, ...]:
        """Names of the operators that only their own framework has, each once."""
        from pijit.graph.model.branches import all_nodes

        return tuple(dict.fromkeys(node.op for node in all_nodes(self) if node.is_foreign))

    @property
    def is_neutral(self) -> bool:
        """Every operator has a row in the vocabulary."""
        return not self.foreign

    @property
    def written(self) -> tuple[str, ...]:
        """Names of the inputs and parameters that the call writes to."""
        from pijit.graph.model.branches import is_branch
        from pijit.graph.model.memory import shared

        base: dict[str, tuple[str, ...]] = {}  # of a value: what it shares memory with
        found = [name for name, _ in self.updates]
        for node in self.nodes:
            for name in (*node.writes, *hidden_writes(node.op, node.arguments)):
                for value in values_of(node.arguments.get(name)):
                    found += base.get(value.name, (value.name,))
            for result, name in zip(node.results, node.aliases or node.writes[:1], strict=False):
                for value in values_of(node.arguments.get(name)):
                    if result is not None:
                        base[result.name] = base.get(value.name, (value.name,))
            for result, value in shared(node) if is_branch(node) else ():
                base[result.name] = (*base.get(result.name, ()), *base.get(value.name, (value.name,)))
        own = {value.name for value in (*self.inputs, *self.parameters)}
        return tuple(name for name in dict.fromkeys(found) if name in own)

    @property
    def results(self) -> tuple[Value, ...]:
        """The values among the outputs, in order."""
        return tuple(values_of(self.outputs))

    @property
    def breaks(self) -> tuple[Node, ...]:
        """What stands between the parts: opaque calls, decisions on data, the rest of a call that was not recorded."""
        return tuple(node for node in self.nodes if node.op.startswith("python::"))

    @property
    def assumptions(self) -> tuple[Node, ...]:
        """Decisions on data that the graph assumes to go as in the captured call: it is right for such data only.

        For other data the program may go another way, or raises (origin "python::raises").
        """
        from pijit.graph.model.branches import all_nodes

        origins = ("python::decision", "python::raises")
        return tuple(node for node in all_nodes(self) if node.op == "check" and node.origin in origins)

    @property
    def parts(self) -> tuple["Graph | Node", ...]:
        """The graph, or if something stands there that a graph cannot hold: parts and what is between, in order."""
        from pijit.graph.model.partition import partition

        return partition(self)

    def functional(self) -> "Graph":
        """A graph that does the same without writing: what inputs and parameters hold at the end is in `updates`.

        Raises:
            ExportError: an operator writes to a view for which there is no way back.
        """
        from pijit.graph.model.functional import functional

        return functional(self)

    def run(self, *inputs: Any, framework: str = "torch", updates: bool = False, **named: Any) -> Any:
        """Run the graph node by node in a framework.

        Args:
            *inputs: arrays of that framework, or of another one that shares them (DLPack), in the order of `inputs`.
            framework: "torch", "numpy", "jax" or "mindspore".
            updates: give also what inputs and parameters hold afterwards, those that the call writes to.
            **named: inputs by their names.

        Returns:
            The outputs, in arrays of the framework; with `updates` a pair of them and a dict by names. In torch, inputs
            and parameters are written to as in the call that was captured; in other frameworks they are not.

        Raises:
            UsageError: an input is missing or unknown, there is no such framework, or it is not installed.
            ExportError: an operator has no form in the framework, or a size is not as the call decided on.
        """
        from pijit.graph.run import run

        return run(self, inputs, named, framework, updates)

    def __str__(self) -> str:
        from pijit.graph.show.text import to_text

        return to_text(self)

    def to_svg(self) -> str:
        """A picture, as the text of an SVG file: modules as nested boxes, equal layers once, types on the edges.

        Example:
            >>> from pijit.graph import Graph, Value
            >>> x = Value("x", "tensor", "input", "float32", (2,))
            >>> Graph("same", (x,), (), (), x).to_svg()[:4]
            '<svg'
        """
        from pijit.graph.show.drawing import to_svg

        return to_svg(self)

    def _repr_html_(self) -> str:
        from pijit.graph.show.page import to_html

        return to_html(self)

    def to_json(self, *, weights: Literal["inline", "none"] = "inline", indent: int | None = None) -> str:
        """The graph as JSON; its schema is described in `pijit._formats.json`.

        Args:
            weights: "inline": the arrays of the parameters are in the text; "none": they are left out.
            indent: spaces a level; None: one line.

        Raises:
            ExportError: an argument or array cannot be written.

        Example:
            >>> from pijit.graph import Graph, Value
            >>> x = Value("x", "tensor", "input", "float32", (2,))
            >>> graph = Graph("same", (x,), (), (), x)
            >>> Graph.from_json(graph.to_json()).inputs[0].type
            'float32[2]'
        """
        from pijit._formats import json

        return json.to_json(self, weights, indent)

    @classmethod
    def from_json(cls, source: "str | bytes | Path", *, framework: str | None = None) -> "Graph":
        """The graph that `to_json` or `pijit.export(format="json")` wrote.

        Args:
            source: the text, or a `pathlib.Path` of its file.
            framework: whose arrays the parameters become ("torch", "numpy", "jax" or "mindspore"); None: that of the
                captured graph.

        Raises:
            ExportError: the text is damaged, or of another schema.

        Example:
            >>> from pijit.graph import Graph
            >>> Graph.from_json("{}")
            Traceback (most recent call last):
            pijit.errors.ExportError: this JSON is no graph: it has no "schema": "pijit.graph/1"
        """
        from pijit._formats import json

        return json.from_json(source, framework)
