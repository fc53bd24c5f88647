"""The graph as a `torch.export.ExportedProgram`, whose file another process loads without the program's source.

It is made of the GraphModule of the format `fx`, which torch.export looks at on tensors without data: so it knows the
sizes and dtypes that torch knows, and has parameters, buffers, lines and modules under the same names. Sizes that are
free in the graph are free in it; where an operator or a check allows only some sizes, torch finds the range, or that
there is one size only. That is an error where the user asked for free sizes.

Its file gives tensors and numbers. A word in the outputs, such as a dtype or a text, becomes None.

Decisions on data and loops are torch's `cond` and `while_loop`. Their gradients are torch's: that of a loop which runs
no turn is zero (torch 2.13).
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from pijit._formats._whole_graph import check_whole
from pijit._formats.fx import check_branches
from pijit._formats.fx.branches import BranchLowering
from pijit.errors import ExportError
from pijit.graph.build.forms_without_data import LOSSES, PACKED, RECURRENT
from pijit.graph.decompose.nested import padded
from pijit.graph.model import Graph, Node, Value, place_of
from pijit.graph.model.branches import all_nodes, check_dtypes, check_turns, has_branches, is_branch
from pijit.graph.model.sizes import example_shape, folded
from pijit.graph.torch_calls import function_at

NAME = "exported_program"
PACKAGES = ("torch",)
INSTALL = "pip install torch"
SUFFIX = ".pt2"
DOC = "a torch.export.ExportedProgram, which loads without the program's source"

_FREE = "export with `dynamic=False` to fix all sizes, or name those that are to be free: `dynamic={'x': {0: 'batch'}}`"


def make(graph: Graph, *, dynamic: Any = None) -> Any:
    """The ExportedProgram.

    Args:
        graph: what to export.
        dynamic: not None: a size that is free in the graph must stay free.

    Raises:
        ExportError: the graph is split, has an operator that torch has not, or a size cannot stay free.
    """
    from torch.utils._pytree import tree_flatten

    graph = padded(graph)  # tensors without data are never nested
    check_whole(graph, NAME)
    check_branches(graph, NAME)
    for node in filter(is_branch, all_nodes(graph)):
        check_dtypes(node, "torch.export")
    check_turns(graph, "torch.export")
    if has_branches(graph):  # a number that is known is given to no operator of a branch
        graph = folded(graph)
    leaves, structure = tree_flatten(graph.outputs)
    flat = tuple(leaf if isinstance(leaf, Value | int | float) else None for leaf in leaves)
    module = BranchLowering(replace(_without_lengths(graph), outputs=flat), NAME).module()
    examples = tuple(_example(value, graph) for value in graph.inputs)
    named, left = ([_dimensions(value, graph, named=named) for value in graph.inputs] for named in (True, False))
    try:
        program = _program(module, examples, named)
    except Exception as error:  # torch.export has no base class of what it raises
        if not any(left):
            raise _failed(graph, error) from error
        program = None
    if program is None:  # a named dimension is refused where it has a range, or a relation to another one
        try:
            program = _program(module, examples, left)
        except Exception as error:
            raise _failed(graph, error) from error
    if dynamic is not None:
        _check_free(graph, program)
    program.module_call_graph[0].signature.out_spec = structure
    return program


def _without_lengths(graph: Graph) -> Graph:
    """Torch pads sequences to a length that is a number; the length of the longest one is its default."""
    makers = {value.name: node for node in graph.nodes for value in node.results if value is not None}

    def changed(node: Node) -> Node:
        length = node.arguments.get("length") if node.op == "pad_sequences" else None
        maker = makers.get(length.name) if isinstance(length, Value) else None
        if maker is None or maker.op != "size" or maker.arguments["x"] != node.arguments["counts"]:
            return node
        return replace(node, arguments={name: each for name, each in node.arguments.items() if name != "length"})

    return replace(graph, nodes=tuple(map(changed, graph.nodes)))


def write(made: Any, path: Path) -> None:
    """As `torch.export.save` writes it.

    Raises:
        ExportError: a result is a number of kind bool, or torch does not write an operator.
    """
    import torch
    from torch._export.serde.serialize import SerializeError
    from torch.export.graph_signature import SymBoolArgument

    for at, spec in enumerate(made.graph_signature.output_specs, 1):
        if isinstance(spec.arg, SymBoolArgument):
            place = {1: "1st", 2: "2nd", 3: "3rd"}.get(at, f"{at}th")
            raise ExportError(
                f"torch.export.save has no result of kind bool, such as the {place} of the program; give it as a "
                "tensor, or leave out path= for the program itself"
            )
    try:
        with open(path, "wb") as file:
            torch.export.save(made, file)
    except SerializeError as error:
        raise ExportError(
            f"torch.export.save does not write this program: {str(error).partition(chr(10))[0]}; leave out path= for "
            "the program itself, or take format 'fx' or 'json'"
        ) from error


def _program(module: Any, examples: tuple[Any, ...], shapes: list[Any]) -> Any:
    """The program of a module that gives the leaves of the outputs."""
    import torch

    free = tuple(shapes) if any(shapes) else None
    with _turns_are_free():
        return torch.export.export(module, examples, dynamic_shapes=free, strict=False)


@contextmanager
def _turns_are_free() -> Iterator[None]:
    """Torch takes the sizes of recurrent layers from forms of pijit; its own go through all turns and so fix them.

    So it does for sequences of several lengths, of which it has no form without data.
    """
    import torch

    composite = torch._C.DispatchKey.CompositeImplicitAutograd
    operators = [(function_at(path), form) for path, form in {**RECURRENT, **PACKED, **LOSSES}.items()]
    known = [dict(operator.py_kernels) for operator, _ in operators]
    for operator, form in operators:
        operator.py_kernels.update(dict.fromkeys({*operator.py_kernels, composite}, form))
        operator._dispatch_cache.clear()
    try:
        yield
    finally:
        for (operator, _), kernels in zip(operators, known, strict=True):
            operator.py_kernels.clear()
            operator.py_kernels.update(kernels)
            operator._dispatch_cache.clear()


def _place(graph: Graph, said: str) -> str:
    """The user's line, where torch says in which one it was."""
    found = re.search(r'Original traceback:\s+File "([^"]+)", line (\d+)', said)
    nodes = all_nodes(graph) if found is not None else ()
    return next((place_of(each) for each in nodes if found and (each.file, str(each.line)) == found.groups()), "")


def _failed(graph: Graph, error: Exception) -> ExportError:
    said = str(error).strip().partition("\n")[0]
    return ExportError(
        f"{_place(graph, str(error))}torch.export does not take the graph of {graph.name!r}: {type(error).__name__}: "
        f"{said}; {_FREE}"
    )


def _example(value: Value, graph: Graph) -> Any:
    """A tensor of zeros in the place of an input."""
    import torch

    if value.kind != "tensor" or value.dtype is None:
        raise ExportError(f"input {value.name!r} is {value.type}; format {NAME!r} takes tensors only")
    return torch.zeros(example_shape(value, graph.symbols), dtype=getattr(torch, value.dtype), device=value.device)


def _dimensions(value: Value, graph: Graph, *, named: bool) -> dict[int, Any]:
    """The axes of an input that are free; each symbol under its name, or left to torch to relate."""
    import torch

    found: dict[int, Any] = {}
    for axis, size in enumerate(value.shape or ()):
        if isinstance(size, str):
            found[axis] = torch.export.Dim(size) if named and size in graph.symbols else torch.export.Dim.AUTO
    return found


def _check_free(graph: Graph, program: Any) -> None:
    """`ExportError` for a size that is free in the graph, and that torch has fixed."""
    for name, value in zip(program.graph_signature.user_inputs, graph.inputs, strict=True):
        made = next(node for node in program.graph.nodes if node.name == name).meta["val"]
        for axis, (size, held) in enumerate(zip(value.shape or (), made.shape, strict=True)):
            if isinstance(size, str) and str(held).isdigit():
                raise ExportError(
                    f"size {size!r}, axis {axis} of input {value.name!r}, cannot stay free in an ExportedProgram: an "
                    f"operator needs it to be {held}; {_FREE}"
                )
