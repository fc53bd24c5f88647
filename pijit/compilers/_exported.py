"""Graphs as programs of torch.export, for the compilers that begin with one."""

from dataclasses import replace
from typing import Any

from pijit._formats import exported_program
from pijit.compilers._torch import with_weights_as_inputs
from pijit.graph.model import Argument, Graph, Node, Value


def program_of(graph: Graph, *, bound: bool = False, plain: bool = False) -> Any:
    """A `torch.export.ExportedProgram` of a graph that writes to nothing.

    Args:
        graph: its outputs are values in a tuple.
        bound: its weights are inputs, before the others.
        plain: what some compilers lack is written in other operators: batch normalisation in evaluation, `t`.
    """
    import torch

    if plain:
        graph = in_plain_operators(graph)
    if bound:
        graph = with_weights_as_inputs(graph)
    data = {name: tensor.detach() for name, tensor in graph.data.items()}
    with torch.no_grad():
        return exported_program.make(replace(graph, data=data))


def in_plain_operators(graph: Graph) -> Graph:
    """The graph with arithmetic in the place of batch normalisations in evaluation, and without `t`."""
    names = {value.name for node in graph.nodes for value in node.results if value is not None}
    names.update(value.name for value in (*graph.inputs, *graph.parameters))
    nodes: list[Node] = []
    for node in graph.nodes:
        x, mean = node.arguments.get("x"), node.arguments.get("mean")
        evaluates = node.op == "batch_norm" and node.arguments.get("training") is False
        if node.op == "t" and isinstance(x, Value) and len(x.shape or ()) == 2:
            arguments: dict[str, Argument] = {"x": x, "axis1": 0, "axis2": 1}
            nodes.append(replace(node, op="swapaxes", origin="aten::transpose.int", arguments=arguments))
        elif evaluates and isinstance(x, Value) and x.shape is not None and isinstance(mean, Value):
            nodes += _plain_norm(node, mean, len(x.shape), names)
        else:
            nodes.append(node)
    return replace(graph, nodes=tuple(nodes))


def _plain_norm(node: Node, mean: Value, rank: int, names: set[str]) -> list[Node]:
    """x * scale + shift, where scale and shift are of weights."""
    made: list[Node] = []
    given = node.arguments

    def step(op: str, result: Value | None = None, **arguments: Argument) -> Value:
        if result is None:
            count = 1
            while (name := f"{op}_norm_{count}") in names:
                count += 1
            names.add(name)
            result = replace(mean, name=name, role="result", path="")
        made.append(Node(op, arguments, (result,), region=node.region, file=node.file, line=node.line))
        return result

    def wide(value: Value) -> Value:
        return step("reshape", x=value, shape=(-1, *(1,) * (rank - 2)))

    scale = step("rsqrt", x=step("add", x=given["variance"], y=given["epsilon"]))
    if given.get("weight") is not None:
        scale = step("multiply", x=scale, y=given["weight"])
    shift = step("multiply", x=mean, y=scale)
    shift = step("negative", x=shift) if given.get("bias") is None else step("subtract", x=given["bias"], y=shift)
    product = step("multiply", x=given["x"], y=wide(scale))
    step("add", node.results[0], x=product, y=wide(shift))
    return made
