"""The graph as JSON of a documented schema, to be read by any program, and read back by pijit as the same graph.

Schema "pijit.graph/1", an object of:

    schema      "pijit.graph/1", or "pijit.graph/2" where an argument is a graph; a reader refuses another number
    name        of the function or module
    framework   whose arrays `data` had: "torch", "numpy", "jax", "mindspore", or ""
    symbols     {"batch": 4}: sizes that are free, with the size that was seen
    values      {name: {"kind", "role", "dtype", "shape", "device", "path"}}: every value of the graph. What is missing
                has its default: kind "tensor", role "result", the others not known. A size in "shape" is a number, or
                an expression of symbols as text
    inputs      [name]: what the caller gives, in order
    parameters  [name]: parameters, buffers and constants
    nodes       [{"op", "arguments", "results", "origin", "writes", "aliases", "random", "region", "file", "line"}]:
                the fields of `pijit.graph.Node`; what is missing is empty. "results" has null for what nobody takes
    outputs     what the call returns: a structure
    updates     [[name, value name]]: what an input or parameter holds after the call
    effects     [{"what", "values", "file", "line"}]: what the call did to objects of Python, which a graph leaves out
    region      {"path", "type", "nodes", "regions"}: the tree of modules
    data        {name: {"dtype", "shape", "base64"}}: the bytes of parameters, elements in C order, little-endian;
                with "strides" where they were in another order, and "requires_grad": true where that is so.
                Instead of "base64" there may be "file": the name of a safetensors file that lies beside

Arguments and structures are null, true, false, numbers, strings, lists (for tuples), and objects of one key:

    {"value": "add_1"}                  a value, by its name
    {"token": ["dtype", "float32"]}     a dtype, device, layout or memory format
    {"slice": [start, stop, step]}      in an index
    {"ellipsis": true}                  in an index
    {"complex": [re, im]}               a complex number
    {"float": "nan"}                    nan, inf, -inf
    {"list": [...]}                     a list (in structures)
    {"dict": [[key, item], ...]}        a dict (in structures)
    {"graph": {...}}                    a graph, in the nodes "cond" and "while": an object with "name", "values",
                                        "inputs", "nodes", "outputs" and "region" as above. Its values are its own
"""

import base64
import importlib.util
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from pijit._array_bytes import Raw, array, framework_of, raw, read_file, write_file
from pijit._usage_errors import describe
from pijit.errors import ExportError, UsageError
from pijit.graph.forms import FRAMEWORKS
from pijit.graph.model import Effect, Graph, Node, Region, Slice, Token, Value
from pijit.graph.model.branches import has_branches

NAME = "json"
PACKAGES = ()
INSTALL = ""
SUFFIX = ".json"
DOC = "the graph as JSON of a documented schema, read back by Graph.from_json()"

SCHEMA = "pijit.graph/1"
# With graphs in nodes, which a reader of the first one does not know.
NESTED = "pijit.graph/2"
WEIGHTS = ("inline", "none", "safetensors")
# For a graph that is to be written with its arrays in a file beside: `write` knows the name of that file.
_BESIDE = "<beside>"


class WithArrays(NamedTuple):
    """A graph as JSON whose arrays go into a file beside it."""

    document: dict[str, Any]
    arrays: dict[str, Raw]
    indent: int | None


def make(
    graph: Graph, *, dynamic: Any = None, weights: str = "inline", indent: int | None = None
) -> "str | WithArrays":
    """The text, or for `weights="safetensors"` what `write` makes two files of.

    Args:
        graph: what to write.
        dynamic: not looked at.
        weights: "inline": the arrays are in the text; "safetensors": in a file beside; "none": left out.
        indent: spaces a level; None: one line.
    """
    if weights not in WEIGHTS:
        raise UsageError(f"weights= is one of {', '.join(WEIGHTS)}, not {weights!r}")
    document = _document(graph)
    if weights == "none":
        return json.dumps(document, indent=indent)
    arrays = {name: raw(each, f"parameter {name!r}") for name, each in graph.data.items()}
    document["data"] = {name: _entry(held, weights) for name, held in arrays.items()}
    if weights == "safetensors":
        return WithArrays(document, arrays, indent)
    return json.dumps(document, indent=indent)


def write(made: "str | WithArrays", path: Path) -> None:
    """The text as a file, with the arrays beside it if they are not in it."""
    if isinstance(made, WithArrays):
        beside = path.with_suffix(".safetensors")
        write_file(made.arrays, beside)
        for entry in made.document["data"].values():
            entry["file"] = beside.name
        made = json.dumps(made.document, indent=made.indent)
    path.write_text(made, encoding="utf-8")


# --- to JSON ------------------------------------------------------------------------------------


def _document(graph: Graph) -> dict[str, Any]:
    """All but the arrays."""
    framework = next(filter(None, map(framework_of, graph.data.values())), "")
    own = _own(graph)
    return {
        "schema": NESTED if has_branches(graph) else SCHEMA,
        "name": own["name"],
        "framework": framework,
        "symbols": dict(graph.symbols),
        "values": own["values"],
        "inputs": own["inputs"],
        "parameters": [value.name for value in graph.parameters],
        "nodes": own["nodes"],
        "outputs": own["outputs"],
        "updates": [[name, value.name] for name, value in graph.updates],
        "effects": [
            {"what": each.what, "values": [value.name for value in each.values], "file": each.file, "line": each.line}
            for each in graph.effects
        ],
        "region": own["region"],
    }


def _own(graph: Graph) -> dict[str, Any]:
    """What a graph in a node has, too."""
    return {
        "name": graph.name,
        "values": {value.name: _value(value) for value in _values(graph)},
        "inputs": [value.name for value in graph.inputs],
        "nodes": [_node(node) for node in graph.nodes],
        "outputs": _encoded(graph.outputs, "the outputs"),
        "region": _region(graph.region),
    }


def _values(graph: Graph) -> Iterator[Value]:
    yield from graph.inputs
    yield from graph.parameters
    for node in graph.nodes:
        yield from (value for value in node.results if value is not None)


def _value(value: Value) -> dict[str, Any]:
    entry: dict[str, Any] = {}
    if value.kind != "tensor":
        entry["kind"] = value.kind
    if value.role != "result":
        entry["role"] = value.role
    for name in ("dtype", "device"):
        if (held := getattr(value, name)) is not None:
            entry[name] = held
    if value.shape is not None:
        entry["shape"] = list(value.shape)
    if value.path:
        entry["path"] = value.path
    return entry


def _node(node: Node) -> dict[str, Any]:
    where = f"{node.place}: {node.op}" if node.place else node.op
    entry: dict[str, Any] = {
        "op": node.op,
        "arguments": {name: _encoded(argument, where) for name, argument in node.arguments.items()},
        "results": [value and value.name for value in node.results],
    }
    for name in ("origin", "random", "region", "file", "line"):
        if held := getattr(node, name):
            entry[name] = held
    for name in ("writes", "aliases"):
        if held := getattr(node, name):
            entry[name] = list(held)
    return entry


def _region(region: Region) -> dict[str, Any]:
    return {
        "path": region.path,
        "type": region.type,
        "nodes": list(region.nodes),
        "regions": [_region(inner) for inner in region.regions],
    }


def _encoded(argument: Any, where: str) -> Any:
    """An argument or structure as JSON's own types; `where` is for the error."""
    if argument is None or type(argument) in {bool, int, str}:
        return argument
    if type(argument) is float:
        return argument if math.isfinite(argument) else {"float": str(argument)}
    if type(argument) is tuple:
        return [_encoded(item, where) for item in argument]
    if isinstance(argument, Value):
        return {"value": argument.name}
    if isinstance(argument, Token):
        return {"token": [argument.kind, argument.name]}
    if isinstance(argument, Slice):
        return {"slice": [_encoded(part, where) for part in (argument.start, argument.stop, argument.step)]}
    if argument is ...:
        return {"ellipsis": True}
    if isinstance(argument, Graph):
        return {"graph": _own(argument)}
    if type(argument) is complex:
        return {"complex": [_encoded(argument.real, where), _encoded(argument.imag, where)]}
    if type(argument) is list:
        return {"list": [_encoded(item, where) for item in argument]}
    if type(argument) is dict:
        return {"dict": [[_encoded(key, where), _encoded(item, where)] for key, item in argument.items()]}
    raise ExportError(f"{where} has {describe(argument)}, which JSON of the schema {SCHEMA} cannot hold")


def _entry(held: Raw, weights: str) -> dict[str, Any]:
    entry: dict[str, Any] = {"dtype": held.dtype, "shape": list(held.shape)}
    if held.strides is not None:
        entry["strides"] = list(held.strides)
    if held.requires_grad:
        entry["requires_grad"] = True
    if weights == "inline":
        entry["base64"] = base64.b64encode(held.data).decode("ascii")
    else:
        entry["file"] = _BESIDE
    return entry


# --- from JSON ----------------------------------------------------------------------------------


def read(text: "str | bytes", *, beside: Path | None = None, framework: str | None = None) -> Graph:
    """The graph of a text.

    Args:
        text: JSON of this schema.
        beside: the directory of the text's file, where a file of arrays is looked for.
        framework: whose arrays the parameters become: a name in
            `pijit.graph.forms.FRAMEWORKS`. None: that of the captured graph.

    Raises:
        ExportError: the text is damaged, foreign, or of another version; a file of arrays is not there.
    """
    try:
        document = json.loads(text)
    except (ValueError, UnicodeDecodeError) as error:
        raise ExportError(f"this is no JSON, or is cut off: {error}") from None
    if not isinstance(document, dict) or "schema" not in document:
        raise ExportError(f'this JSON is no graph: it has no "schema": "{SCHEMA}"')
    if document["schema"] not in (SCHEMA, NESTED):
        raise ExportError(
            f"the graph has the schema {document['schema']!r}; this version of pijit reads {SCHEMA!r} and {NESTED!r}"
        )
    return _Reader(document, beside, framework).graph()


class _Reader:
    """Reads one document, and knows where it is in it."""

    def __init__(self, document: dict[str, Any], beside: Path | None, framework: str | None, where: str = "") -> None:
        self.document = document
        self.beside = beside
        self.framework = framework if framework is not None else str(document.get("framework") or "numpy")
        self.where = where
        self.values: dict[str, Value] = {}
        self.files: dict[str, dict[str, Raw]] = {}

    def graph(self) -> Graph:
        read = self.field
        for name, entry in read("values", dict).items():
            self.values[name] = self.value(name, entry)
        graph = Graph(
            name=read("name", str),
            inputs=tuple(self.named(name, "inputs") for name in read("inputs", list)),
            parameters=tuple(self.named(name, "parameters") for name in read("parameters", list)),
            nodes=tuple(self.node(at, entry) for at, entry in enumerate(read("nodes", list))),
            outputs=self.argument(read("outputs", object), "outputs"),
            updates=tuple(self.update(pair) for pair in read("updates", list)),
            effects=tuple(self.effect(at, entry) for at, entry in enumerate(read("effects", list))),
            region=self.region(read("region", dict)),
            symbols={name: self.checked(size, int, "symbols") for name, size in read("symbols", dict).items()},
            data={name: self.array(name, entry) for name, entry in (self.document.get("data") or {}).items()},
        )
        self.check(graph)
        return graph

    def inner(self) -> Graph:
        """The graph of an argument."""
        known = {"name", "values", "inputs", "nodes", "outputs", "region"}
        if wrong := self.document.keys() - known:
            self.bad(min(wrong), "a graph in a node has none")
        self.document = {"parameters": [], "updates": [], "effects": [], "symbols": {}, **self.document}
        return self.graph()

    def bad(self, where: str, what: str) -> NoReturn:
        raise ExportError(f"the graph is damaged: {self.where}{where}: {what}")

    def checked(self, held: Any, kind: type, where: str) -> Any:
        if not isinstance(held, kind) or (kind is int and isinstance(held, bool)):
            self.bad(where, f"{json.dumps(held)[:60]} is not of type {kind.__name__}")
        return held

    def field(self, name: str, kind: type) -> Any:
        if name not in self.document:
            self.bad(name, "is missing")
        return self.checked(self.document[name], kind, name)

    def named(self, name: Any, where: str) -> Value:
        if not isinstance(name, str) or name not in self.values:
            self.bad(where, f"no value is called {name!r}")
        return self.values[name]

    def value(self, name: str, entry: Any) -> Value:
        self.checked(entry, dict, f"values.{name}")
        shape = entry.get("shape")
        known = {"kind", "role", "dtype", "device", "path"}
        if wrong := entry.keys() - known - {"shape"}:
            self.bad(f"values.{name}", f"no field is called {min(wrong)!r}")
        if shape is not None and not (isinstance(shape, list) and all(type(size) in {int, str} for size in shape)):
            self.bad(f"values.{name}.shape", "is no list of numbers and texts")
        if entry.get("kind", "tensor") not in {"tensor", "int", "float", "bool", "object"}:
            self.bad(f"values.{name}.kind", f"{entry['kind']!r} is none")
        sizes = None if shape is None else tuple(shape)
        fields = {each: self.checked(entry[each], str, f"values.{name}.{each}") for each in known & entry.keys()}
        return Value(name, shape=sizes, **fields)

    def node(self, at: int, entry: Any) -> Node:
        where = f"nodes[{at}]"
        self.checked(entry, dict, where)
        for name in ("op", "arguments", "results"):
            if name not in entry:
                self.bad(where, f"has no {name!r}")
        arguments = self.checked(entry["arguments"], dict, f"{where}.arguments")
        results = self.checked(entry["results"], list, f"{where}.results")
        kinds = {
            "origin": str,
            "random": bool,
            "region": str,
            "file": str,
            "line": int,
            "writes": list,
            "aliases": list,
        }
        if wrong := entry.keys() - kinds.keys() - {"op", "arguments", "results"}:
            self.bad(where, f"no field is called {min(wrong)!r}")
        fields: dict[str, Any] = {}
        for name in kinds & entry.keys():
            held = self.checked(entry[name], kinds[name], f"{where}.{name}")
            fields[name] = tuple(held) if kinds[name] is list else held
        op = self.checked(entry["op"], str, f"{where}.op")
        held = {name: self.argument(each, f"{where}.arguments.{name}") for name, each in arguments.items()}
        given = tuple(name if name is None else self.named(name, f"{where}.results") for name in results)
        try:
            return Node(op=op, arguments=held, results=given, **fields)
        except UsageError as error:  # a branch that is none
            self.bad(where, str(error))

    def update(self, pair: Any) -> tuple[str, Value]:
        if not isinstance(pair, list) or len(pair) != 2:
            self.bad("updates", f"{json.dumps(pair)[:60]} is no pair")
        return self.named(pair[0], "updates").name, self.named(pair[1], "updates")

    def effect(self, at: int, entry: Any) -> Effect:
        where = f"effects[{at}]"
        self.checked(entry, dict, where)
        if entry.keys() != {"what", "values", "file", "line"}:
            self.bad(where, f"has {', '.join(entry)} instead of what, values, file, line")
        return Effect(
            what=self.checked(entry["what"], str, where),
            values=tuple(self.named(name, where) for name in self.checked(entry["values"], list, where)),
            file=self.checked(entry["file"], str, where),
            line=self.checked(entry["line"], int, where),
        )

    def region(self, entry: Any, where: str = "region") -> Region:
        self.checked(entry, dict, where)
        if entry.keys() != {"path", "type", "nodes", "regions"}:
            self.bad(where, f"has {', '.join(entry)} instead of path, type, nodes, regions")
        inner = self.checked(entry["regions"], list, where)
        return Region(
            path=self.checked(entry["path"], str, where),
            type=self.checked(entry["type"], str, where),
            nodes=tuple(self.checked(at, int, where) for at in self.checked(entry["nodes"], list, where)),
            regions=tuple(self.region(each, f"{where}.regions[{at}]") for at, each in enumerate(inner)),
        )

    def argument(self, held: Any, where: str) -> Any:  # noqa: RET503  the end is an error
        if isinstance(held, list):
            return tuple(self.argument(item, where) for item in held)
        if not isinstance(held, dict):
            return held
        if len(held) != 1:
            self.bad(where, f"{json.dumps(held)[:60]} is no argument")
        ((key, inner),) = held.items()
        if key == "value":
            return self.named(inner, where)
        if key == "ellipsis":
            return ...
        if key == "graph" and self.document.get("schema", NESTED) == NESTED:
            return _Reader(self.checked(inner, dict, where), None, self.framework, f"{self.where}{where}: ").inner()
        if key == "float" and inner in {"nan", "inf", "-inf"}:
            return float(inner)
        if isinstance(inner, list):
            if key == "token" and len(inner) == 2 and inner[0] in {"dtype", "device", "layout", "memory_format"}:
                return Token(inner[0], self.checked(inner[1], str, where))
            if key == "slice" and len(inner) == 3:
                return Slice(*(self.argument(part, where) for part in inner))
            if key == "complex" and len(inner) == 2:
                real, imaginary = (self.checked(self.argument(part, where), float, where) for part in inner)
                return complex(real, imaginary)
            if key == "list":
                return [self.argument(item, where) for item in inner]
            if key == "dict" and all(isinstance(pair, list) and len(pair) == 2 for pair in inner):
                return {self.argument(key, where): self.argument(item, where) for key, item in inner}
        self.bad(where, f"{json.dumps(held)[:60]} is no argument")

    def array(self, name: str, entry: Any) -> Any:
        where = f"data.{name}"
        self.named(name, "data")
        self.checked(entry, dict, where)
        if lacks := {"dtype", "shape"} - entry.keys():
            self.bad(where, f"has no {min(lacks)!r}")
        shape = tuple(self.checked(size, int, where) for size in self.checked(entry["shape"], list, where))
        strides = entry.get("strides")
        if strides is not None:
            strides = tuple(self.checked(each, int, where) for each in self.checked(strides, list, where))
        held = Raw(str(entry["dtype"]), shape, self.bytes(name, entry), strides, entry.get("requires_grad") is True)
        needs = FRAMEWORKS.get(self.framework)
        if needs is not None and importlib.util.find_spec(needs.package) is None:
            raise ExportError(
                f"the parameters are to be arrays of {self.framework}, which is not installed: {needs.install}; or "
                "take another framework, such as framework='numpy'"
            )
        return array(held, self.framework, f"parameter {name!r}")

    def bytes(self, name: str, entry: dict[str, Any]) -> bytes:
        where = f"data.{name}"
        if "base64" in entry:
            try:
                return base64.b64decode(self.checked(entry["base64"], str, where), validate=True)
            except ValueError as error:
                self.bad(where, str(error))
        file = self.checked(entry.get("file"), str, where)
        if self.beside is None:
            raise ExportError(f"the arrays are in the file {file!r}; read the graph from its own file: from_json(path)")
        if Path(file).name != file:
            self.bad(where, f"{file!r} is not the name of a file beside")
        if file not in self.files:
            self.files[file] = read_file(self.beside / file)
        if name not in self.files[file]:
            self.bad(where, f"{file} has no array of this name")
        return self.files[file][name].data

    def check(self, graph: Graph) -> None:
        """A value is written before it is read, and once; regions name nodes that exist."""
        known = {value.name for value in (*graph.inputs, *graph.parameters)}
        for at, node in enumerate(graph.nodes):
            for value in node.operands:
                if value.name not in known:
                    self.bad(f"nodes[{at}]", f"{value.name!r} is used before a node gives it")
            for result in node.results:
                if result is not None:
                    if result.name in known:
                        self.bad(f"nodes[{at}]", f"{result.name!r} is given twice")
                    known.add(result.name)
        for value in graph.results:
            if value.name not in known:
                self.bad("outputs", f"no node gives {value.name!r}")
        pending = [graph.region]
        while pending:
            region = pending.pop()
            pending += region.regions
            if any(not 0 <= at < len(graph.nodes) for at in region.nodes):
                self.bad(f"region {region.path!r}", "names a node that does not exist")


def to_json(graph: Graph, weights: str, indent: int | None) -> str:
    """`Graph.to_json`."""
    made = make(graph, weights=weights, indent=indent)
    if not isinstance(made, str):
        raise UsageError(
            "arrays in a file beside need a file: pijit.export(graph, format='json', path=..., weights=...)"
        )
    return made


def from_json(source: Any, framework: str | None) -> Graph:
    """`Graph.from_json`: `source` is the text, or a `Path` of its file."""
    if framework is not None and framework not in FRAMEWORKS:
        raise UsageError(f"framework= is one of {', '.join(FRAMEWORKS)}, not {framework!r}")
    if isinstance(source, str | bytes):
        return read(source, framework=framework)
    if not isinstance(source, Path):
        raise UsageError(f"Graph.from_json() takes a text, or a pathlib.Path of a file; not {describe(source)}")
    try:
        text = source.read_bytes()
    except OSError as error:
        raise ExportError(f"{source} cannot be read: {error.strerror or error}") from error
    return read(text, beside=source.parent, framework=framework)
