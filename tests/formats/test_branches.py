"""Graphs with decisions and loops in each format, against the programs that they stand for."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import pijit
from pijit.errors import ExportError
from pijit.graph import Graph, Node, Value
from pijit.graph.model.branches import all_nodes

sys.path.append(str(Path(__file__).parents[1] / "graph"))
from branch_graphs import INT, TENSOR, Lines, Program, close, flat, inner, programs, same_bits, whole

pytestmark = pytest.mark.torch


def first_of_a_list() -> Program:
    """An element is chosen by the number of the turn; two results are one; a result that nobody takes."""
    operands = {"x": TENSOR, "n": INT, "w": TENSOR}
    condition = inner("condition", lambda b, x, n, w: b.decides("less", b.sum(x=x), 30), **operands)

    def turn(b: Lines, x: Value, n: Value, w: Value) -> Any:
        chosen = b.enter("select", {"x": w, "axis": 0, "index": n})
        return b.add(x=x, y=chosen), b.scalar_remainder(x=b.scalar_add(x=n, y=1), y=2)

    body = inner("body", turn, **operands)

    def make(b: Lines, x: Value) -> Any:
        loop = {"condition": condition, "body": body, "carried": (x, 0), "operands": (x,)}
        y, n = b.branch("while", (TENSOR, INT), **loop)
        then = inner("then", lambda b, x, y: (y, y, 2), x=TENSOR, y=TENSOR)
        otherwise = inner("otherwise", lambda b, x, y: (x, b.add(x=x, y=y), 3), x=TENSOR, y=TENSOR)
        sides = {"then": then, "otherwise": otherwise, "operands": (x, y)}
        b.branch("cond", (TENSOR, TENSOR, INT), condition=b.scalar_less(x=n, y=1), **sides)
        node = b.nodes[-1]
        b.nodes[-1] = dataclasses.replace(node, results=(*node.results[:2], None))
        return [*node.results[:2], n]

    def plain(x: torch.Tensor) -> Any:
        y, n = x, 0
        while y.sum() < 30:
            y = y + x[n]
            n = (n + 1) % 2
        return [y, y, n] if n < 1 else [x, x + y, n]

    return whole("first_of_a_list", make, plain, [1.0, 2.0, 3.0], [40.0, 1.0], [2.0, 3.0, 1.0, 0.5], [29.0, 0.5])


PROGRAMS = {**programs(), "first_of_a_list": first_of_a_list()}
# JAX has no number of a free size, and decides nothing by one.
FIXED_IN_JAX = ("decides_in_a_loop", "asks_for_the_size")
# torch.export.save has no number of kind bool.
NOT_SAVED = ("asks_for_the_size",)


def arrays(call: tuple[torch.Tensor, ...]) -> list[Any]:
    return [each.numpy() for each in call]


@pytest.mark.parametrize("name", PROGRAMS)
def test_fx(name: str) -> None:
    program = PROGRAMS[name]
    module = pijit.export(program.graph, format="fx")
    compiled = torch.compile(module, backend="eager", fullgraph=True)
    for call in (*program.calls, *program.calls):
        same_bits(module(*call), program.plain(*call))
        same_bits(compiled(*call), program.plain(*call))
    targets = {getattr(node.target, "__name__", "") for node in module.graph.nodes}
    assert targets & {"cond", "while_loop"}


def test_fx_writes_no_file_that_torch_does_not_read(tmp_path: Path) -> None:
    path = tmp_path / "graph.pt"
    for name in ("grows", "chooses"):
        with pytest.raises(
            ExportError, match="torch does not read back a GraphModule .* take format 'exported_program'"
        ):
            pijit.export(PROGRAMS[name].graph, format="fx", path=path)
    assert not path.exists()
    lines = Lines("f", x=TENSOR)
    pijit.export(lines.graph(lines.sum(x=lines.inputs[0])), format="fx", path=path)
    assert torch.load(path, weights_only=False)(torch.ones(2)) == 2


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_flow_through_what_fx_makes(name: str) -> None:
    """As in the program: also where a loop runs no turn, and none through what became a number of Python."""
    program = PROGRAMS[name]
    module = pijit.export(program.graph, format="fx")
    compiled = torch.compile(module, backend="eager")
    for call in (*program.calls, *program.calls):
        gradients = []
        for run in (program.plain, module, compiled):
            x = call[0].clone().requires_grad_()
            results = [each for each in flat(run(x)) if isinstance(each, torch.Tensor)]
            sum(each.sum() for each in results).backward()
            gradients.append(x.grad)
        assert torch.equal(gradients[0], gradients[1])
        assert torch.equal(gradients[0], gradients[2])


def test_a_weight_in_fx_is_the_parameter_itself() -> None:
    weight = torch.nn.Parameter(torch.tensor(2.5))
    module = pijit.export(dataclasses.replace(PROGRAMS["chooses"].graph, data={"w": weight}), format="fx")
    assert dict(module.named_parameters())["layer.w"] is weight
    for start, gradient in ((1.0, 1.5), (-1.0, None)):
        module(torch.full((3,), start, requires_grad=True))["y"].sum().backward()
        assert (None if weight.grad is None else weight.grad.item()) == gradient
        weight.grad = None


@pytest.mark.parametrize("name", PROGRAMS)
def test_exported_program(name: str, tmp_path: Path) -> None:
    program = PROGRAMS[name]
    made = pijit.export(program.graph, format="exported_program", dynamic=True)
    module = made.module()
    path = tmp_path / "graph.pt2"
    if name in NOT_SAVED:
        with pytest.raises(ExportError, match="torch.export.save has no result of kind bool, such as the 3rd of"):
            pijit.export(program.graph, format="exported_program", path=path)
        assert not path.exists()
        loaded = module
    else:
        loaded = torch.export.load(pijit.export(program.graph, format="exported_program", path=path)).module()
    for call in (*program.calls, *program.calls):
        same_bits(module(*call), program.plain(*call))
        same_bits(loaded(*call), program.plain(*call))


def test_exported_program_of_known_sizes() -> None:
    for program in PROGRAMS.values():
        module = pijit.export(program.graph, format="exported_program", dynamic=False).module()
        calls = [call for call in program.calls if call[0].shape == (3,)]
        for call in (*calls, *calls):
            same_bits(module(*call), program.plain(*call))
        with pytest.raises(Exception, match="(?i)shape|size"):
            module(torch.ones(7))


@pytest.mark.parametrize("name", PROGRAMS)
def test_onnx(name: str) -> None:
    onnx, runtime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    reference = pytest.importorskip("onnx.reference")
    program = PROGRAMS[name]
    model = pijit.export(program.graph, format="onnx")
    onnx.checker.check_model(model, full_check=True)
    plain = runtime.SessionOptions()
    plain.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    cpu = {"providers": ["CPUExecutionProvider"]}
    runs = [
        runtime.InferenceSession(model.SerializeToString(), **cpu),
        runtime.InferenceSession(model.SerializeToString(), plain, **cpu),
        reference.ReferenceEvaluator(model),
    ]
    for call in (*program.calls, *program.calls):
        expected = flat(program.plain(*call))
        for run in runs:
            close(run.run(None, {"x": call[0].numpy()}), expected)
    kinds = [node.op_type for node in model.graph.node]
    assert {"If", "Loop"} & {*kinds}
    names = [name for node in _all(model.graph) for name in node.output]
    assert len(names) == len(set(names))
    assert all(node.name for node in _all(model.graph))


def _all(graph: Any) -> Any:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _all(attribute.g)


@pytest.mark.parametrize("parameters", ["arguments", "constants"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_stablehlo(name: str, parameters: str) -> None:
    jax = pytest.importorskip("jax")
    program = PROGRAMS[name]
    made = pijit.export(program.graph, format="stablehlo", parameters=parameters)
    assert "stablehlo.while" in made.text or "stablehlo.case" in made.text
    assert bool(made.sizes) == (name in FIXED_IN_JAX)
    given = [each.numpy() for each in made.data.values()]
    with jax.enable_x64(True):
        for call in (*program.calls, *program.calls):
            if not made.sizes or call[0].shape == (3,):
                close(made.exported.call(*given, *arrays(call)), flat(program.plain(*call)))


@pytest.mark.parametrize("framework", ["torch", "numpy", "jax"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_python(name: str, framework: str) -> None:
    pytest.importorskip(framework)
    program = PROGRAMS[name]
    text = pijit.export(program.graph, format="python", framework=framework)
    namespace: dict[str, Any] = {"__name__": "exported"}
    exec(text, namespace)
    assert "import pijit" not in text
    for call in (*program.calls, *program.calls):
        if framework == "torch":
            same_bits(namespace[name](*call), program.plain(*call))
        else:
            close(namespace[name](*arrays(call)), program.plain(*call))


@pytest.mark.parametrize("name", PROGRAMS)
def test_json(name: str, tmp_path: Path) -> None:
    program = PROGRAMS[name]
    for weights in ("inline", "safetensors"):
        path = pijit.export(program.graph, format="json", path=tmp_path / "graph.json", weights=weights)
        again = Graph.from_json(Path(path))
        assert [node.op for node in all_nodes(again)] == [node.op for node in all_nodes(program.graph)]
        for call in program.calls:
            same_bits(again.run(*call), program.plain(*call))


# --- what a format cannot hold ------------------------------------------------------------------


def turns_to_float() -> Graph:
    """An int tensor that the first turn makes a float."""
    whole_number = dataclasses.replace(TENSOR, dtype="int64")
    condition = inner(
        "condition", lambda b, x: b.decides("less", b.sum(x=x), 9), x=dataclasses.replace(TENSOR, dtype=None)
    )

    def turn(b: Lines, x: Value) -> Any:
        made = b.multiply(x=x, y=1.5)
        b.nodes[-1] = dataclasses.replace(b.nodes[-1], results=(dataclasses.replace(made, dtype="float32"),))
        return b.nodes[-1].results

    body = inner("body", turn, x=whole_number)
    lines = Lines("f", x=whole_number)
    loop = {"condition": condition, "body": body, "carried": (lines.inputs[0],)}
    return lines.graph(lines.branch("while", (dataclasses.replace(TENSOR, dtype=None),), **loop), symbols={"n": 3})


@pytest.mark.parametrize("format", ["exported_program", "onnx", "stablehlo"])
def test_a_dtype_that_changes_is_an_error(format: str) -> None:
    graph = turns_to_float()
    for _ in range(2):
        with pytest.raises(
            ExportError, match=r"program.py:1: result 0 of 'while' is int64\[[n3]\] or float32\[[n3]\]: .* needs one"
        ):
            pijit.export(graph, format=format)
    for framework, call in (("torch", torch.tensor([1, 2])), ("numpy", np.array([1, 2]))):
        np.testing.assert_allclose(np.asarray(graph.run(call, framework=framework)[0]), [3.375, 6.75])
        np.testing.assert_array_equal(np.asarray(graph.run(call * 9, framework=framework)[0]), [9, 18])
    text = pijit.export(graph, format="python")
    namespace: dict[str, Any] = {"__name__": "exported"}
    exec(text, namespace)
    assert torch.equal(namespace["f"](torch.tensor([1, 2]))[0], torch.tensor([3.375, 6.75]))


def checked(of_data: bool) -> Graph:
    """A side that has a decision of its own, which has to go as in the recorded call."""

    def checking(b: Lines, x: Value) -> Any:
        size = b.scalar_less(x=b.size(x=x, axis=0), y=9)
        held = b.decides("less", b.sum(x=x), 50) if of_data else size
        origin = "python::decision" if of_data else ""
        b.nodes.append(Node("check", {"x": held, "expected": True}, (), origin, file="f.py", line=4))
        return (b.multiply(x=x, y=2),)

    then = inner("then", checking, x=TENSOR)
    otherwise = inner("otherwise", lambda b, x: (b.add(x=x, y=1),), x=TENSOR)
    lines = Lines("f", x=TENSOR)
    (x,) = lines.inputs
    up = lines.decides("greater", lines.sum(x=x), 0)
    sides = {"condition": up, "then": then, "otherwise": otherwise, "operands": (x,)}
    return lines.graph(lines.branch("cond", (TENSOR,), **sides)[0], symbols={"n": 3})


@pytest.mark.parametrize(("of_data", "wrong"), [(True, [60.0, 1.0]), (False, [1.0] * 9)])
def test_what_a_side_assumes_is_checked_or_said(of_data: bool, wrong: list[float]) -> None:
    graph = checked(of_data)
    assert [node.line for node in graph.assumptions] == ([4] if of_data else [])
    made = {format: pijit.export(graph, format=format) for format in ("fx", "exported_program", "python")}
    namespace: dict[str, Any] = {"__name__": "exported"}
    exec(made["python"], namespace)
    for run in (graph.run, made["fx"], made["exported_program"].module(), namespace["f"]):
        for _ in range(2):
            assert run(torch.tensor([1.0, 2.0])).tolist() == [2, 4]
            assert run(torch.tensor([-1.0, 0.5])).tolist() == [0, 1.5]
            with pytest.raises(Exception, match="f.py:4|Guard failed"):
                run(torch.tensor(wrong))
    if pytest.importorskip("onnx"):
        notes = {each.key: each.value for each in pijit.export(graph, format="onnx").metadata_props}
        assert notes["pijit.holds_where"].startswith("f.py:4 ")
    if pytest.importorskip("jax"):
        assert "// Holds where f.py:4 " in pijit.export(graph, format="stablehlo").text


def test_a_result_of_which_nothing_is_known_has_no_form_in_onnx() -> None:
    pytest.importorskip("onnx")
    plain = Value("x", role="input")
    side = Graph("side", (plain,), (), (), (plain,))
    more = {"condition": Value("c", "bool", "input"), "then": side, "otherwise": side, "operands": (TENSOR,)}
    graph = Graph(
        "f", (TENSOR, more["condition"]), (), (Node("cond", more, (Value("y"),), file="f.py", line=2),), Value("y")
    )
    for _ in range(2):
        with pytest.raises(
            ExportError, match="f.py:2: cond has no form in ONNX here: the dtype of a result is not known"
        ):
            pijit.export(graph, format="onnx", dynamic=None)
        assert torch.equal(graph.run(torch.ones(2), True), torch.ones(2))


def test_a_decision_that_is_known_is_taken_in_onnx() -> None:
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    then = inner("then", lambda b, x: (b.multiply(x=x, y=2),), x=TENSOR)
    otherwise = inner("otherwise", lambda b, x: (b.add(x=x, y=1),), x=TENSOR)
    for known, expected in ((True, [2.0, 4.0]), (False, [2.0, 3.0])):
        y = dataclasses.replace(TENSOR, name="y", role="result")
        node = Node("cond", {"condition": known, "then": then, "otherwise": otherwise, "operands": (TENSOR,)}, (y,))
        graph = Graph("f", (TENSOR,), (), (node,), y, symbols={"n": 2})
        model = pijit.export(graph, format="onnx")
        assert [each.op_type for each in model.graph.node] in (["Mul"], ["Add"])
        session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        for _ in range(2):
            np.testing.assert_array_equal(session.run(None, {"x": np.float32([1, 2])})[0], expected)
        assert pijit.export(graph, format="fx")(torch.tensor([1.0, 2.0])).tolist() == expected
