"""The operators of one call of a model as a program of bare.cpp.

They are taken where autograd would see them, before those that are made of others are taken apart: there pijit records
them, too.
"""

from __future__ import annotations

import operator
import re
from collections import Counter
from typing import Any

import extension
import torch
from subjects import tensors_in
from torch import Tensor, nn
from torch.fx import Graph, Node
from torch.fx.experimental.proxy_tensor import make_fx

import pijit

NOWHERE = -1  # the register of None


def operators_of(model: nn.Module, tokens: Tensor) -> torch.fx.GraphModule:
    """What a call performs, without gradients, and the tensors of its output, in order."""
    with torch.no_grad():
        return make_fx(lambda tokens: tensors_in(model(tokens)), pre_dispatch=True)(tokens)


def names(graph: Graph) -> Counter[str]:
    """How often there is each operator."""
    return Counter(name(node.target) for node in graph.nodes if isinstance(node.target, torch._ops.OpOverload))


def names_recorded(trace: pijit.traces.Trace) -> Counter[str]:
    """The same of a trace."""
    return Counter(re.findall(r"= (aten::[\w.]+)\(", "\n".join(node.text for node in trace.nodes)))


def name(target: Any) -> str:
    """As traces print it: aten::add.Tensor."""
    return ".".join(filter(None, (target._schema.name, target._schema.overload_name)))


def program(operators: torch.fx.GraphModule) -> Any:
    """Takes what the model takes, and gives the tensors of its output; without gradients."""
    made = extension.load("bare").Program()
    registers: dict[Node, Any] = {}  # a list for operators with several results
    for node in operators.graph.nodes:
        match node.op:
            case "placeholder":
                registers[node] = made.input()
            case "get_attr":
                registers[node] = made.keep(getattr(operators, node.target))
            case "output":
                made.finish([registers[output] for output in node.args[0]])
            case "call_function" if node.target is operator.getitem:
                registers[node] = registers[node.args[0]][node.args[1]]
            case "call_function" if node.target is torch._C._set_grad_enabled:
                assert not any(node.args), "the program is run without gradients"
            case _:
                registers[node] = step(made, node, registers)
    return made


def step(made: Any, node: Node, registers: dict[Node, Any]) -> Any:
    """Adds an operator; gives the register of its result, or of each of its results."""
    schema = node.target._schema
    arguments = []
    for place, argument in enumerate(schema.arguments):
        default = node.kwargs.get(argument.name, argument.default_value)
        arguments.append(source(node.args[place] if place < len(node.args) else default, registers))
    items = {user.args[1] for user in node.users if user.target is operator.getitem}
    read = [place in items for place in range(max(items) + 1)] if items else [bool(node.users)]
    results = made.step(schema.name, schema.overload_name, arguments, read)
    return results if items else results[0]


def source(value: Any, registers: dict[Node, Any]) -> tuple[list[int], Any]:
    """Of an argument: registers, or none and a constant."""
    if isinstance(value, Node):
        return [registers[value]], None
    if isinstance(value, (list, tuple)) and any(isinstance(item, Node) for item in value):
        return [NOWHERE if item is None else registers[item] for item in value], None
    return [], value
