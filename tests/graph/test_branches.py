"""Graphs with decisions and loops in them do what their programs do, and what walks over a graph goes into them."""

from __future__ import annotations

import dataclasses
import json
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from branch_graphs import BOOL, FLOAT, INT, TENSOR, Lines, Program, close, flat, inner, programs, same_bits, whole

import pijit
from pijit import passes
from pijit.errors import ExportError, UsageError
from pijit.graph import Graph, Node, Region, Slice, Value, forms
from pijit.graph.build import autograd
from pijit.graph.build.types import typed
from pijit.graph.model.branches import all_nodes, graphs_of
from pijit.graph.model.memory import shared
from pijit.graph.model.sizes import fixed
from pijit.graph.show.text import function_name, parameters
from pijit.passes.equal_regions import outlined

pytestmark = pytest.mark.torch

PROGRAMS = programs()


def runs(program: Program, graph: Graph) -> None:
    """The graph gives the bits of the program, in each call, also a second time."""
    for call in (*program.calls, *program.calls):
        same_bits(graph.run(*call), program.plain(*call))


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_graph_does_what_its_program_does(name: str) -> None:
    program = PROGRAMS[name]
    runs(program, program.graph)
    assert program.graph.is_neutral
    assert len({str(flat(program.plain(*call))) for call in program.calls}) == len(program.calls)


@pytest.mark.parametrize("framework", ["numpy", "jax"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_other_frameworks_give_what_torch_gives(name: str, framework: str) -> None:
    pytest.importorskip(framework)
    program = PROGRAMS[name]
    for call in (*program.calls, *program.calls):
        close(program.graph.run(*(each.numpy() for each in call), framework=framework), program.plain(*call))


@pytest.mark.parametrize("name", PROGRAMS)
def test_jax_compiles_decisions_and_loops(name: str) -> None:
    jax = pytest.importorskip("jax")
    program = PROGRAMS[name]
    compiled = jax.jit(lambda x: program.graph.run(x, framework="jax"))
    with jax.enable_x64(True):
        for call in program.calls:
            close(compiled(*(each.numpy() for each in call)), program.plain(*call))
        assert compiled._cache_size() == len({each.shape for (each,) in program.calls})  # one for both ways


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_text_runs(name: str) -> None:
    program = PROGRAMS[name]
    namespace: dict[str, Any] = {}
    exec(str(program.graph), namespace)
    for call in (*program.calls, *program.calls):
        found = namespace[function_name(program.graph)](forms.load("torch"), parameters(program.graph), *call)
        same_bits(found, program.plain(*call))
    assert str(program.graph) == str(Graph.from_json(program.graph.to_json()))


def test_the_text_has_decisions_and_loops_of_python() -> None:
    text = str(PROGRAMS["grows"].graph)
    assert "    b0_0, b0_1 = x, 0  # float32[n], int\n    while True:\n" in text
    assert "        if not v2:\n            break\n" in text
    assert "        v2_1 = b0_1 + 1  # int\n        b0_0, b0_1 = v1_1, v2_1\n    return (b0_0, b0_1)\n" in text
    text = str(PROGRAMS["chooses"].graph)
    assert text.index("    if v2:") < text.index("    else:") < text.index("return")
    assert 'p["layer.w"]' in text
    text = str(PROGRAMS["until_told"].graph)
    assert "    b3_0, b3_1, b3_2 = x, x, v2  # float32[n], float32[n], bool\n    while b3_2:\n" in text
    assert "        b3_0, b3_1, b3_2 = v0_1, b3_0, v3\n    return (b3_0, b3_1)\n" in text


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_graph_comes_back_from_json(name: str) -> None:
    program = PROGRAMS[name]
    document = json.loads(program.graph.to_json())
    assert document["schema"] == "pijit.graph/2"
    again = Graph.from_json(json.dumps(document))
    runs(program, again)
    assert json.loads(again.to_json()) == document
    close(
        Graph.from_json(json.dumps(document), framework="numpy").run(program.calls[0][0]),
        program.plain(*program.calls[0]),
    )


def test_a_graph_without_branches_has_the_schema_that_it_had() -> None:
    lines = Lines("f", x=TENSOR)
    graph = lines.graph(lines.sum(x=lines.inputs[0]))
    document = json.loads(graph.to_json())
    assert document["schema"] == "pijit.graph/1"
    document["nodes"][0]["arguments"]["x"] = {"graph": {}}
    with pytest.raises(ExportError, match=r"damaged: nodes\[0\].arguments.x: .* is no argument"):
        Graph.from_json(json.dumps(document))
    assert Graph.from_json(graph.to_json()).run(torch.ones(2)) == 2


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda body: body.pop("nodes"), r"nodes\[0\].arguments.body: nodes: is missing"),
        (lambda body: body.pop("values"), r"nodes\[0\].arguments.body: values: is missing"),
        (lambda body: body.update(data={}), r"nodes\[0\].arguments.body: data: a graph in a node has none"),
        (lambda body: body["inputs"].pop(), r"nodes\[0\].arguments.body: nodes\[2\]: 'n' is used before"),
        (lambda body: body["nodes"][0].pop("op"), r"nodes\[0\].arguments.body: nodes\[0\]: has no 'op'"),
        (lambda body: body["outputs"].pop(), r"nodes\[0\]: a node 'while' is wrong: body gives 1, where 2 are wanted"),
        (lambda body: body["outputs"].reverse(), r"nodes\[0\]: .*output 0 of body is of kind 'int', where 'tensor'"),
        (
            lambda body: body.update(outputs={"value": "v9"}),
            r"nodes\[0\].arguments.body: outputs: no value is called 'v9'",
        ),
    ],
)
def test_damaged_json_says_where(change: Any, says: str) -> None:
    document = json.loads(PROGRAMS["grows"].graph.to_json())
    change(document["nodes"][0]["arguments"]["body"]["graph"])
    for _ in range(2):
        with pytest.raises(ExportError, match=f"the graph is damaged: {says}"):
            Graph.from_json(json.dumps(document).replace("program.py", ""))


# --- is it right? -------------------------------------------------------------------------------

THEN = inner("then", lambda b, x: (b.multiply(x=x, y=2),), x=TENSOR)
SMALL = inner("condition", lambda b, x: b.decides("less", b.sum(x=x), 9), x=TENSOR)
X, C, Y = Value("x", role="input"), Value("c", "bool", "input"), Value("y")
WRITES = Node("add", {"x": X, "y": 1}, (Y,), "aten::add_.Scalar", ("x",))
RANDOM = Node("rand_like", {"x": X}, (Y,), random=True)
COND = {"condition": C, "then": THEN, "otherwise": THEN, "operands": (X,)}
WHILE = {"condition": SMALL, "body": THEN, "carried": (X,), "operands": ()}


def graph_of(*nodes: Node, outputs: Any = (Y,), inputs: Any = (X,), **more: Any) -> Graph:
    return Graph("g", inputs, more.pop("parameters", ()), nodes, outputs, **more)


@pytest.mark.parametrize(
    ("op", "arguments", "says"),
    [
        ("cond", {"then": 3}, "then is 3, not a Graph"),
        ("cond", {"condition": X}, "condition is 'x' of kind 'tensor', not a value of kind 'bool'"),
        ("cond", {"operands": ()}, "the graph then takes 1 inputs, and is given 0"),
        ("cond", {"operands": (2.0,)}, "input 'x' of then is of kind 'tensor', and is given one of kind 'float'"),
        ("cond", {"operands": [X]}, "operands is not a tuple of values and numbers"),
        ("cond", {"operands": ("x",)}, "operands is not a tuple of values and numbers"),
        ("cond", {"extra": 1}, "it has an argument 'extra'; it takes condition, then, otherwise, operands"),
        ("cond", {"otherwise": None}, "otherwise is None, not a Graph"),
        ("cond", {"then": graph_of(outputs=X)}, "the outputs of then are not a flat tuple"),
        ("cond", {"then": graph_of(outputs=((X,),))}, "the outputs of then are not a flat tuple"),
        ("cond", {"then": graph_of(outputs=(X, X))}, "then gives 2, where 1 are wanted"),
        ("cond", {"then": graph_of(outputs=(1,))}, "output 0 of then is of kind 'int', where 'tensor' is wanted"),
        ("cond", {"then": graph_of(outputs=(Y,))}, "then gives what is not in the graph: 'y'"),
        ("cond", {"then": graph_of(WRITES)}, "then has the node 'add', which writes to an argument"),
        ("cond", {"then": graph_of(RANDOM)}, "then has the node 'rand_like', which draws random numbers"),
        ("cond", {"then": graph_of(Node("python::call", {}, (Y,)))}, "'python::call', which only Python can do"),
        ("cond", {"then": graph_of(inputs=(X, X))}, "the graph then has two inputs of one name"),
        ("cond", {"then": graph_of(parameters=(Y,))}, "the graph then has parameters; what it needs comes in as oper"),
        ("while", {"carried": ()}, "takes 1 inputs, and is given 0"),
        ("while", {"condition": THEN}, "condition gives .*, not one number of kind 'bool'"),
        ("while", {"body": graph_of(outputs=(0,))}, "output 0 of body is of kind 'int', where 'tensor' is wanted"),
        ("while", {"body": graph_of(outputs=())}, "body gives 0, where 1 are wanted"),
        ("while", {"carried": (X, 0)}, "takes 1 inputs, and is given 2"),
        ("while", {"carried": (), "operands": (X,)}, "it carries 0, and has 1 results; there is one for each"),
    ],
)
def test_a_wrong_node_is_an_error_that_says_what(op: str, arguments: dict[str, Any], says: str) -> None:
    right = {"cond": COND, "while": WHILE}[op]
    for _ in range(2):
        assert len(Node(op, right, (Y,)).results) == 1
        with pytest.raises(UsageError, match=rf"^f.py:3: a node '{op}' is wrong: .*{says}"):
            Node(op, {**right, **arguments}, (Y,), file="f.py", line=3)
    for missing in right.keys() - {"operands"}:
        with pytest.raises(UsageError, match=f"it has no argument '{missing}'"):
            Node(op, {name: each for name, each in right.items() if name != missing}, (Y,))


def test_sides_and_results_are_of_one_kind() -> None:
    numbers = [inner("side", lambda b, x, n=number: (n,), x=TENSOR) for number in (1, 1.0)]
    for results in ((None,), (Value("k", "int"),)):
        with pytest.raises(UsageError, match="of kind"):
            Node("cond", {**COND, "then": numbers[0], "otherwise": numbers[1]}, results)
    with pytest.raises(UsageError, match="result 0 is of kind 'int', what is carried there of kind 'tensor'"):
        Node("while", WHILE, (Value("k", "int"),))
    assert Node("cond", {**COND, "then": numbers[0], "otherwise": numbers[0]}, (None,)).results == (None,)


def test_what_looks_for_values_does_not_look_into_a_graph() -> None:
    node = Node("cond", COND, (Y,))
    assert [value.name for value in node.operands] == ["c", "x"]
    graph = Graph("f", (X, C), (), (node,), Y)
    assert [each.op for each in all_nodes(graph)] == ["cond", "multiply", "multiply"]
    foreign = inner("then", lambda b, x: (b.enter("aten::foo", {"x": x}),), x=TENSOR)
    nested = Graph("f", (X, C), (), (Node("cond", {**COND, "then": foreign}, (Y,)),), Y)
    assert (graph.foreign, nested.foreign) == ((), ("aten::foo",))
    with pytest.raises(ExportError, match="aten::foo has no row in the vocabulary"):
        nested.run(np.ones(2), True, framework="numpy")
    np.testing.assert_array_equal(nested.run(np.ones(2), False, framework="numpy"), 2 * np.ones(2))


# --- what walks over it -------------------------------------------------------------------------


@pytest.mark.parametrize("name", PROGRAMS)
def test_types_are_filled_in_also_within(name: str) -> None:
    program = PROGRAMS[name]
    bare = without_types(program.graph)
    made = typed(bare, {"x": torch.ones(3)})
    assert dict(made.symbols) == {"x_0": 3}
    values = [value for node in all_nodes(made) for value in node.results if value is not None]
    assert all(
        value.dtype in ("float32", "bool") and value.shape in ((), ("x_0",))
        for value in values
        if value.kind == "tensor"
    )
    runs(program, made)
    known = dataclasses.replace(bare, inputs=(dataclasses.replace(bare.inputs[0], shape=(3,)),))
    whole_sizes = typed(known, {"x": torch.ones(3)}, dynamic=False)
    values = [value for node in all_nodes(whole_sizes) for value in node.results if value is not None]
    assert (3,) in {value.shape for value in values if value.kind == "tensor"} <= {(), (3,)}
    runs(program, whole_sizes)


def without_types(graph: Graph) -> Graph:
    def bare(thing: Any) -> Any:
        if isinstance(thing, Graph):
            return without_types(thing)
        if isinstance(thing, Value):
            return dataclasses.replace(thing, dtype=None, shape=None, device=None)
        if isinstance(thing, dict):
            return {key: bare(each) for key, each in thing.items()}
        return tuple(map(bare, thing)) if isinstance(thing, tuple) else thing

    nodes = tuple(
        dataclasses.replace(node, arguments=bare(dict(node.arguments)), results=bare(node.results))
        for node in graph.nodes
    )
    more = {name: bare(getattr(graph, name)) for name in ("inputs", "parameters", "outputs")}
    return dataclasses.replace(graph, nodes=nodes, symbols={}, **more)


def longer() -> Program:
    """What is carried grows."""
    condition = inner("condition", lambda b, x: b.decides("less", b.sum(x=x), 40), x=TENSOR)
    body = inner("body", lambda b, x: (b.enter("concat", {"arrays": (x, x), "axis": 0}),), x=TENSOR)

    def make(b: Lines, x: Value) -> Any:
        return b.branch("while", (TENSOR,), condition=condition, body=body, carried=(x,))

    def plain(x: torch.Tensor) -> Any:
        while x.sum() < 40:
            x = torch.cat([x, x])
        return (x,)

    return whole("longer", make, plain, [1.0, 2.0, 3.0], [50.0], [9.0, 8.0])


@pytest.fixture
def concat(monkeypatch: pytest.MonkeyPatch) -> None:
    """`Lines` takes the type of a result from `x`; here it is one of a tuple."""
    own = Lines.type
    monkeypatch.setattr(
        Lines, "type", staticmethod(lambda op, held: held["arrays"][0] if op == "concat" else own(op, held))
    )


def test_a_size_that_changes_from_turn_to_turn_is_not_known(concat: None) -> None:
    program = longer()
    made = typed(without_types(program.graph), {"x": torch.ones(3)})
    (result,), (given,) = made.nodes[0].results, made.nodes[0].arguments["body"].inputs
    assert made.inputs[0].type == "float32[x_0]"
    assert result.type == given.type == "float32[u0]"
    runs(program, made)
    for call in program.calls:
        close(program.graph.run(call[0].numpy(), framework="numpy"), program.plain(*call))


def test_sizes_are_fixed_within() -> None:
    for program in PROGRAMS.values():
        made = fixed(program.graph, {"n": 3})
        shapes = {value.shape for node in all_nodes(made) for value in node.results if value and value.kind == "tensor"}
        assert shapes <= {(), (3,)}
        for _ in range(2):
            same_bits(made.run(*program.calls[0]), program.plain(*program.calls[0]))
        assert any("n" in (value.shape or ()) for node in all_nodes(program.graph) for value in node.results if value)
    node = fixed(PROGRAMS["keeps"].graph, {"n": 3}).nodes[-3]  # the size is a number, also within
    assert node.arguments["operands"][2] == 3
    assert [graph.outputs[2] for graph in graphs_of(node).values()] == [3, 10]


@pytest.mark.parametrize("name", PROGRAMS)
def test_passes_go_into_the_graphs_of_nodes(name: str) -> None:
    program = PROGRAMS[name]
    for fold in (False, True):
        runs(program, passes.run(program.graph, fold=fold))


def test_dead_code_and_equal_nodes_go_within() -> None:
    def turn(b: Lines, x: Value, n: Value) -> Any:
        one, two = b.multiply(x=x, y=2), b.multiply(x=x, y=2)
        b.add(x=x, y=5)
        return b.add(x=one, y=two), b.scalar_add(x=n, y=1)

    condition = inner("condition", lambda b, x, n: b.scalar_less(x=n, y=3), x=TENSOR, n=INT)
    body = inner("body", turn, x=TENSOR, n=INT)

    def make(b: Lines, x: Value) -> Any:
        b.branch("while", (TENSOR, INT), condition=condition, body=body, carried=(x, 1))
        return b.branch("while", (TENSOR, INT), condition=condition, body=body, carried=(x, 0))[:1]

    def plain(x: torch.Tensor) -> Any:
        for _ in range(3):
            x = x * 2 + x * 2
        return (x,)

    program = whole("f", make, plain, [1.0, 2.0, 3.0], [0.5])
    made = passes.run(program.graph)
    assert [node.op for node in made.nodes] == ["while"]
    assert [node.op for node in graphs_of(made.nodes[0])["body"].nodes] == ["multiply", "add", "scalar_add"]
    runs(program, made)
    runs(program, program.graph)


def sharing_graph() -> tuple[Graph, Value, Value]:
    """A decision whose second side gives its operand itself."""
    otherwise = inner("otherwise", lambda b, x: (x,), x=TENSOR)
    lines = Lines("f", x=TENSOR)
    (x,) = lines.inputs
    up = lines.decides("greater", lines.sum(x=x), 0)
    (y,) = lines.branch("cond", (TENSOR,), condition=up, then=THEN, otherwise=otherwise, operands=(x,))
    return lines.graph(y, symbols={"n": 3}), x, y


def adds_one(to: Value, name: str) -> Node:
    result = dataclasses.replace(to, name=name, role="result")
    return Node("add", {"x": to, "y": 1}, (result,), "aten::add_.Scalar", ("x",), ("x",), file="f.py", line=7)


def test_a_result_may_be_what_comes_in() -> None:
    graph, x, y = sharing_graph()
    assert [(a.name, b.name) for a, b in shared(graph.nodes[-1])] == [(y.name, "x")]
    written = dataclasses.replace(graph, nodes=(*graph.nodes, adds_one(y, "z")))
    assert written.written == ("x",)
    for start, kept in ((1.0, 1.0), (-1.0, 0.0)):  # torch writes to x where the program does
        given = torch.full((3,), start)
        assert torch.equal(written.run(given), torch.full((3,), 3.0 if start > 0 else 0.0))
        assert torch.equal(given, torch.full((3,), kept))
    for target in (x, y):
        after = dataclasses.replace(graph, nodes=(*graph.nodes, adds_one(target, "z")))
        for _ in range(2):
            with pytest.raises(
                ExportError, match=r"f.py:7: add .* writes to what program.py:4 may have given, or kept"
            ):
                after.functional()
            for format in ("fx", "exported_program"):
                with pytest.raises(
                    ExportError, match="f.py:7: add writes to '.*', which a decision before may have given"
                ):
                    pijit.export(after, format=format)


def test_what_is_written_before_or_made_anew_is_no_matter() -> None:
    graph, x, y = sharing_graph()
    before = dataclasses.replace(graph, nodes=(adds_one(x, "z"), *graph.nodes))
    found, updates = before.run(np.float32([1, 2]), framework="numpy", updates=True)
    np.testing.assert_array_equal(found, [4, 6])
    np.testing.assert_array_equal(updates["x"], [2, 3])
    fresh = dataclasses.replace(PROGRAMS["grows"].graph, nodes=())
    assert fresh.functional() is fresh
    both = Node("cond", {**COND, "condition": C}, (y,))
    made = Graph("f", (X, C), (), (both, adds_one(y, "z")), y)
    assert made.written == ()
    for up in (True, False):
        np.testing.assert_array_equal(made.run(np.float32([1, 2]), up, framework="numpy"), [3, 5])
    loop = PROGRAMS["grows"].graph.nodes[0]
    assert [(a.name, b.name) for a, b in shared(loop)] == [("b0_0", "x")]  # it may run no turn


def test_what_several_turns_hand_on_is_followed() -> None:
    """After two turns the first result is the third operand."""
    condition = inner("condition", lambda b, x, y, z: b.decides("less", b.sum(x=x), 9), x=TENSOR, y=TENSOR, z=TENSOR)
    body = inner("body", lambda b, x, y, z: (y, z), x=TENSOR, y=TENSOR, z=TENSOR)
    values = [Value(name, role="input") for name in "abc"]
    results = (Value("p"), Value("q"))
    node = Node(
        "while", {"condition": condition, "body": body, "carried": (*values[:2],), "operands": (values[2],)}, results
    )
    pairs = [(a.name, b.name) for a, b in shared(node)]
    assert pairs == [("p", "a"), ("p", "b"), ("p", "c"), ("q", "b"), ("q", "c")]
    graph = Graph("f", tuple(values), (), (node, adds_one(results[0], "r")), results)
    assert graph.written == ("a", "b", "c")
    given = [torch.tensor([float(each)]) for each in (1, 2, 30)]
    graph.run(*given)
    assert [each.item() for each in given] == [1, 2, 31]
    graph.run(*given[::-1])
    assert [each.item() for each in given] == [1, 2, 32]


def test_views_within_are_followed() -> None:
    first = inner("then", lambda b, x: (b.enter("getitem", {"x": x, "index": Slice(1, None)}),), x=TENSOR)
    node = Node("cond", {**COND, "then": first}, (Y,))
    assert [(a.name, b.name) for a, b in shared(node)] == [("y", "x")]
    nested = inner(
        "outer",
        lambda b, x: b.branch("cond", (TENSOR,), **{**COND, "condition": True, "then": first, "operands": (x,)}),
        x=TENSOR,
    )
    node = Node("cond", {**COND, "then": nested}, (Y,))
    assert [(a.name, b.name) for a, b in shared(node)] == [("y", "x")]
    graph = Graph("f", (X, C), (), (node,), Y)
    for up, expected in ((True, [2.0]), (False, [2.0, 4.0])):
        assert graph.run(torch.tensor([1.0, 2.0]), up).tolist() == expected


def test_equal_modules_with_branches_are_one_function() -> None:
    nodes: list[Node] = []
    x = TENSOR
    for at in range(3):
        y, z = (dataclasses.replace(TENSOR, name=f"{name}{at}", role="result") for name in "yz")
        arguments = {"condition": C, "then": THEN, "otherwise": THEN, "operands": (z,)}
        nodes.append(Node("add", {"x": x, "y": 1}, (z,), "aten::add.Scalar", region=f"layers.{at}"))
        nodes.append(Node("cond", arguments, (y,), region=f"layers.{at}"))
        x = y
    inside = tuple(Region(f"layers.{at}", "Layer", (2 * at, 2 * at + 1)) for at in range(3))
    graph = Graph("f", (TENSOR, C), (), tuple(nodes), x, region=Region("", "F", (), inside))
    outline = outlined(graph)
    assert (len(outline.functions), len(outline.steps)) == (1, 3)
    for up in (True, False):
        assert torch.equal(outline.run(torch.ones(2), up), graph.run(torch.ones(2), up))
    assert str(outline).count("# --- ") == 1  # what is in a node is in the module of the node


# --- pictures -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_picture_has_boxes_for_both_ways(name: str) -> None:
    graph = PROGRAMS[name].graph
    root = ElementTree.fromstring(graph.to_svg())
    texts = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
    for node in all_nodes(graph):
        for word in (node.op, *graphs_of(node)) if graphs_of(node) else ():
            assert texts.count(word) >= 1
    assert graph.to_svg() == Graph.from_json(graph.to_json()).to_svg()
    html = graph._repr_html_()
    assert html.count("<details") == html.count("</details>")
    assert html.count("<table>") == html.count("</table>")
    for node in all_nodes(graph):
        for word in graphs_of(node):
            assert f"<b>{word}</b>" in html


def test_equal_layers_with_branches_are_one_box() -> None:
    def graph(factor: float) -> Graph:
        nodes, x = [], TENSOR
        for at in range(3):
            then = inner("then", lambda b, x, at=at: (b.multiply(x=x, y=2 if at < 2 else factor),), x=TENSOR)
            y = dataclasses.replace(TENSOR, name=f"y{at}", role="result")
            arguments = {"condition": C, "then": then, "otherwise": THEN, "operands": (x,)}
            nodes += [Node("cond", arguments, (y,), region=f"layers.{at}")]
            x = y
        inside = tuple(Region(f"layers.{at}", "Layer", (at,)) for at in range(3))
        return Graph("f", (TENSOR, C), (), tuple(nodes), x, region=Region("", "F", (), inside))

    assert "\u00d7 3" in graph(2).to_svg()
    assert "\u00d7 2" in graph(3).to_svg()
    assert "\u00d7 3" in graph(2).to_svg()


# --- who declines -------------------------------------------------------------------------------


def test_who_does_not_take_branches_says_so() -> None:
    from pijit._formats import mindspore

    graph = PROGRAMS["grows"].graph
    for _ in range(2):
        with pytest.raises(
            ExportError, match="program.py:1: format 'mindspore' does not take the node 'while' of 'grows'"
        ):
            mindspore.make(graph)
        with pytest.raises(autograd.Unable, match="program.py:1: the step has a 'while'"):
            autograd.expanded(graph, autograd.Call({}, {"x": torch.ones(3)}, set(), True, {}))


def test_numbers_keep_their_kind() -> None:
    """A float that is whole stays a float, a bool a bool."""
    sides = {"x": FLOAT, "go": BOOL}
    then = inner("then", lambda b, x, go: (b.scalar_multiply(x=x, y=2.0), b.scalar_not(x=go)), **sides)
    otherwise = inner("otherwise", lambda b, x, go: (x, go), **sides)
    node = Node("cond", {"condition": C, "then": then, "otherwise": otherwise, "operands": (3.0, False)}, (FLOAT, BOOL))
    graph = Graph("f", (C,), (), (node,), {"x": FLOAT, "go": BOOL})
    with pytest.raises(UsageError, match="a second time|one name"):
        Node("cond", {**COND, "then": dataclasses.replace(THEN, nodes=THEN.nodes * 2)}, (Y,))
    results = tuple(dataclasses.replace(each, name=name) for each, name in ((FLOAT, "s"), (BOOL, "b")))
    graph = Graph("f", (C,), (), (dataclasses.replace(node, results=results),), results)
    for framework in ("torch", "numpy"):
        same_bits(graph.run(True, framework=framework), (6.0, True))
        same_bits(graph.run(False, framework=framework), (3.0, False))
