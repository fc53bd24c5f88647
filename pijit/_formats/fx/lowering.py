"""Makes a GraphModule of a graph: its nodes call the operators that the program called. Branches are in `branches`."""

import linecache
import re
from collections.abc import Iterable, Mapping
from typing import Any

from pijit._formats.fx.data_numbers import DataNumbers, has_functions
from pijit._formats.fx.indexing import is_by_number, item
from pijit._formats.fx.traced_numbers import traced
from pijit.errors import ExportError
from pijit.graph.model import Graph, Node, Region, Slice, Token, Value
from pijit.graph.model.branches import has_branches, is_branch
from pijit.graph.model.regions import full_name
from pijit.graph.run import computes_gradients
from pijit.graph.torch_calls import NUMBERS, function_at, torch_call

NAME = "fx"


def targets(graph: Graph) -> dict[str, str]:
    """For each parameter the path under which the module has it."""
    found: dict[str, str] = {}
    tensors: set[str] = set()
    modules: set[str] = set()
    for value in graph.parameters:
        words = [re.sub(r"\W", "_", word) or "_" for word in (value.path or value.name).split(".")]
        around = [".".join(words[:length]) for length in range(1, len(words))]
        path, count = ".".join(words), 1
        while path in tensors or path in modules or not tensors.isdisjoint(around):
            count += 1
            path = ".".join(words) + f"_{count}"
            if not tensors.isdisjoint(around):  # a tensor is where a module has to be
                words = [f"{words[0]}_{count}", *words[1:]]
                around = [".".join(words[:length]) for length in range(1, len(words))]
                path = ".".join(words)
        found[value.name] = path
        tensors.add(path)
        modules.update(around)
    return found


class Lowering:
    """Makes the GraphModule of one graph."""

    def __init__(self, graph: Graph, format: str, given: Iterable[str] = ()) -> None:
        import torch

        self.torch = torch
        self.graph = graph
        self.format = format
        self.fx = torch.fx.Graph()
        self.made: dict[str, Any] = {}
        self.targets = targets(graph)
        self.around = _module_stacks(graph.region)
        self.meta: dict[str, Any] = {}
        self.region = ""  # of the node of the graph that is made
        self.paths: dict[Any, str] = {}  # by node of FX the module that called it
        self.deciding = deciding(graph)
        self.makers = {value.name: node for node in graph.nodes for value in node.results if value is not None}
        self.traced = format != NAME  # torch.export runs the module without data
        self.numbers = DataNumbers(graph, self.call, self.argument, given, self.traced)
        self.held: dict[str, Any] = {}
        # With branches a number that data decides is a tensor as long as nothing needs the number. Of no other number
        # is made what nothing needs: torch.export fixes a size where something asks for what it decides.
        self.waiting: dict[str, Node] = {}
        self.late = self.numbers.detached = has_branches(graph) or (self.traced and has_functions(graph))

    def enter_inputs(self) -> None:
        for value in self.graph.inputs:
            self.made[value.name] = self.fx.placeholder(value.name)

    def outputs(self) -> Any:
        return self.argument(self.graph.outputs)

    def module(self) -> Any:
        self.enter_inputs()
        used = used_names(self.graph)
        for value in self.graph.parameters:
            if value.name not in used:
                continue
            if value.name not in self.graph.data:
                raise ExportError(
                    f"parameter {value.path or value.name!r} has no array; read the graph with its weights"
                )
            self.held[self.targets[value.name]] = self.graph.data[value.name]
            attribute = self.fx.get_attr(self.targets[value.name])
            own = self.graph.data[value.name].requires_grad and computes_gradients(self.graph)
            self.made[value.name] = self.call(self.torch.ops.aten.detach.default, (attribute,)) if own else attribute
        for node in self.graph.nodes:
            self.meta, self.region = self.meta_of(node), node.region
            self.node(node)
        self.meta, self.region = {}, ""
        for name, value in self.graph.updates:
            self.call(self.torch.ops.aten.copy_.default, (self.made[name], self.made[value.name]))
        self.fx.output(self.outputs())
        self.fx.lint()
        name = re.sub(r"\W", "_", self.graph.name)
        return self.torch.fx.GraphModule(self.held, self.fx, class_name=name if name.isidentifier() else "Graph")

    def values(self) -> dict[Any, Value]:
        """By node of FX the value of the graph that it gives."""
        known = {value.name: value for node in self.graph.nodes for value in node.results if value is not None}
        known |= {value.name: value for value in (*self.graph.inputs, *self.graph.parameters)}
        found: dict[Any, Value] = {}
        for name, made in self.made.items():
            if isinstance(made, self.torch.fx.Node) and name in known:
                found.setdefault(made, known[name])
        return found

    def hold(self, name: str, module: Any) -> str:
        """A module becomes an attribute; the name that it gets."""
        taken = {target.partition(".")[0] for target in (*self.targets.values(), *self.held)}
        found = next(each for at in range(len(taken) + 1) if (each := f"{name}_{at}") not in taken)
        self.held[found] = module
        return found

    def enter(self, value: Value, made: Any) -> None:
        """A result that an operator of a branch has given: numbers are tensors there."""
        if value.kind == "tensor":
            self.made[value.name] = made
        else:
            self.numbers.give(value, made)

    def node(self, node: Node) -> None:
        if is_branch(node):
            self.branch(node)
            return
        result = node.results[0] if len(node.results) == 1 else None
        if self.late and result is not None and (result in self.numbers or node.op in NUMBERS):
            self.waiting[result.name] = node
        else:
            self.now(node)

    def branch(self, node: Node) -> None:
        """A node that has graphs in it; `branches` makes it."""
        raise NotImplementedError(node.op)

    def now(self, node: Node) -> None:
        """A node that is an operator."""
        result = node.results[0] if len(node.results) == 1 else None
        if node.op == "check":
            self.check(node)
            return
        if any(value is not None and value.name in self.deciding for value in node.results):
            return  # the check looks at the tensor itself
        if self.traced and any(value is not None and value.name in self.numbers.checked_only for value in node.results):
            return
        if self.traced and node.op == "item_int":
            whole = self.call(self.torch.ops.aten.to.dtype, (self.argument(node.arguments["x"]), self.torch.int64))
            for value in filter(None, node.results):
                self.made[value.name] = self.call(self.torch.ops.aten.item.default, (whole,), {}, value.name)
            return
        if self.traced and result is not None and is_by_number(node, self.numbers):
            self.made[result.name] = item(self, node)
            return
        number = traced(self, node) if self.traced and node.op in NUMBERS and result is not None else None
        if number is not None and result is not None:
            self.made[result.name] = number
            return
        call = torch_call(node, self.format)
        args = tuple(self.number_as_tensor(node, call.function, at, each) for at, each in enumerate(call.args))
        kwargs = {name: self.argument(argument) for name, argument in call.kwargs.items()}
        if "out" in node.writes:  # torch takes none that has a gradient there: the program had gradients off
            args = tuple(self.detached(each, made) for each, made in zip(call.args, args, strict=True))
            kwargs = {name: self.detached(call.kwargs[name], made) for name, made in kwargs.items()}
        copy = None
        if call.copied:
            copy = self.call(self.torch.ops.aten.clone.default, args[:1])
            args = (copy, *args[1:])
        given = [(at, value) for at, value in enumerate(node.results) if value is not None]
        alone = call.gives == "one" and given
        made = self.call(function_at(call.function), args, kwargs, given[0][1].name if alone else node.op)
        if call.gives == "nothing":
            for _, value in given[:1]:
                self.made[value.name] = copy or self.argument(node.arguments[call.kept])
        elif call.gives == "one":
            for _, value in given:
                self.made[value.name] = made
        else:
            self.check_count(node, made, call.function)
            for at, value in given:
                self.made[value.name] = self.call(function_at("operator.getitem"), (made, at), {}, value.name)

    def detached(self, argument: Any, made: Any) -> Any:
        """The same tensor without a gradient."""
        tensor = isinstance(argument, Value) and argument.kind == "tensor"
        return self.call(self.torch.ops.aten.detach.default, (made,)) if tensor else made

    def number_as_tensor(self, node: Node, function: str, at: int, argument: Any) -> Any:
        """An argument; a float that torch.export does not know is a tensor where the operator takes one."""
        result = node.results[0] if node.results else None
        unknown = self.traced and self.late and isinstance(argument, Value) and argument.kind == "float"
        dtype = result.dtype or "" if result is not None else ""
        if not unknown or argument not in self.numbers or "float" not in dtype:
            return self.argument(argument)
        schema = getattr(function_at(function), "_schema", None)
        if schema is None or str(schema.arguments[at].type) != "Tensor":
            return self.argument(argument)
        made = self.numbers.tensor(argument, "float")
        return self.call(self.torch.ops.aten.to.dtype, (made, getattr(self.torch, dtype)))

    def check_count(self, node: Node, made: Any, function: str) -> None:
        """A list is as long as at the capture: how many tensors `unbind` gives is a size. FX traces no `len`."""
        is_list = str(function_at(function)._schema.returns[0].type).startswith("List[")
        if self.traced or not is_list:  # torch.export looks at a list itself
            return
        more = self.call(function_at("operator.getitem"), (made, slice(len(node.results), None)))
        self.call(self.torch._assert, (self.call(function_at("operator.eq"), (more, [])), self.said(node)))

    def said(self, node: Node) -> str:
        """What is said where a decision goes another way."""
        if node.op == "check" and node.origin == "python::raises":
            return f"{node.place or self.graph.name}: the program raises here for this data"
        what = "this data takes" if node.op == "check" and node.origin else "these sizes take"
        return f"{node.place or self.graph.name}: {what} another way than the recorded call; export with them"

    def read(self, value: Value) -> None:
        """A number is needed that was not made yet."""
        node = self.waiting.get(value.name)
        if node is not None and (value not in self.numbers or (node.op in _OF_INTS and value.kind == "int")):
            self.now(node)
        else:
            item = self.torch.ops.aten.item.default
            self.made[value.name] = self.call(item, (self.numbers.tensor(value, value.kind),), {}, value.name)

    def check(self, node: Node) -> None:
        """The program decided on this number: other sizes, or other data, need another graph."""
        expected = node.arguments["expected"]
        said = self.said(node)
        if (condition := self.condition(node)) is not None:
            self.call(self.torch.ops.aten._assert_async.msg, (condition, said))
            return
        value = self.argument(node.arguments["x"])
        if expected is False:
            value = self.call(self.torch.sym_not, (value,))
        elif expected is not True:
            value = self.call(function_at("operator.eq"), (value, expected))
        if self.traced:
            from pijit._formats.fx.control_flow import check  # which imports torch

            self.call(check, (value, said))
        else:
            self.call(self.torch._assert, (value, said))

    def condition(self, node: Node) -> Any:
        """What a check asks of the data of a tensor, as a tensor: torch.export knows no number that data decides."""
        aten = self.torch.ops.aten
        held, expected = node.arguments["x"], node.arguments["expected"]
        if not isinstance(held, Value):
            return None
        maker = self.deciding.get(held.name)
        if maker is None and self.traced and held in self.numbers:
            return self.numbers.condition(held, expected)
        if maker is None and held.kind != "tensor":
            return None
        array = self.argument(held if maker is None else maker.arguments["x"])
        if maker is not None and maker.op == "item_not":
            expected = not expected
        if expected is True:
            return array
        if expected is False:
            return self.call(aten.logical_not.default, (array,))
        return self.call(aten.eq.Scalar, (array, expected))

    def call(
        self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None, name: str = ""
    ) -> Any:
        """A node that calls a function, with the meta of the graph's node that it is made for."""
        name = re.sub(r"\W", "_", name.rpartition("::")[2]) or function.__name__
        made = self.fx.create_node("call_function", function, args, dict(kwargs or {}), name)
        made.meta.update(self.meta)
        self.paths[made] = self.region
        return made

    def argument(self, argument: Any) -> Any:
        """An argument or structure with nodes of FX in the place of values."""
        if isinstance(argument, Value):
            if argument.name not in self.made:
                self.read(argument)
            return self.made[argument.name]
        if isinstance(argument, Token):
            return token(argument)
        if isinstance(argument, Slice):
            return slice(*(self.argument(part) for part in (argument.start, argument.stop, argument.step)))
        if isinstance(argument, tuple):
            return tuple(map(self.argument, argument))
        if isinstance(argument, list):
            return list(map(self.argument, argument))
        if isinstance(argument, Mapping):
            return {key: self.argument(item) for key, item in argument.items()}
        return argument

    def meta_of(self, node: Node) -> dict[str, Any]:
        meta: dict[str, Any] = {"nn_module_stack": dict(self.around.get(node.region, {}))}
        if node.file:
            source = linecache.getline(node.file, node.line).strip()
            where = f'  File "{node.file}", line {node.line}, in {self.graph.name}\n'
            meta["stack_trace"] = where + (f"    {source}\n" if source else "")
        return meta


# What torch.export follows for ints that data decides.
_OF_INTS = {"scalar_add", "scalar_subtract", "scalar_multiply", "scalar_negative"}
_OF_DATA = {"item", "item_bool", "item_not", "item_int"}


def deciding(graph: Graph) -> dict[str, Node]:
    """Numbers that are read from the data of a tensor for checks only, by name, with the node that reads each."""
    found = {
        value.name: node
        for node in graph.nodes
        if node.op in _OF_DATA and isinstance(array := node.arguments.get("x"), Value)
        for value in node.results
        if value is not None and not (node.op == "item_int" and "float" in (array.dtype or "float"))
    }
    for node in graph.nodes:
        for value in node.operands if node.op != "check" else ():
            found.pop(value.name, None)
    for value in (*graph.results, *(value for _, value in graph.updates)):
        found.pop(value.name, None)
    return found


def used_names(graph: Graph) -> set[str]:
    """Names of the values that something in the graph needs."""
    used = {value.name for node in graph.nodes for value in node.operands}
    used.update(value.name for value in graph.results)
    for name, value in graph.updates:
        used.update((name, value.name))
    return used


def token(word: Token) -> Any:
    """A dtype, device, layout or memory format of torch."""
    import torch

    return torch.device(word.name) if word.kind == "device" else getattr(torch, word.name)


def _module_stacks(top: Region) -> dict[str, dict[str, tuple[str, str]]]:
    """For each region the modules around it, outermost first: {path: (path, type)}."""
    found: dict[str, dict[str, tuple[str, str]]] = {}
    pending: list[tuple[Region, dict[str, tuple[str, str]]]] = [(top, {})]
    while pending:
        region, around = pending.pop()
        stack = {**around, region.path: (region.path, full_name(region.type))}
        found.setdefault(region.path, stack)
        pending += [(inner, stack) for inner in region.regions]
    return found
