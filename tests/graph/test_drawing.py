"""Pictures and pages of a graph: what stands in them, where, and that they are well-formed."""

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from pijit.graph import Graph, Node, Region, Slice, Value
from pijit.graph.show.boxes import Box, boxes_of

X = Value("x", "tensor", "input", "float32", ("batch", 8))


def layers(count, odd=None, sizes=8):
    """Equal layers `y = relu(linear(x)) + x`; the odd one has another operator."""
    nodes, parameters, regions, value = [], [], [], X
    for at in range(count):
        weight = Value(f"w{at}", "tensor", "parameter", "float32", (sizes, 8), path=f"layers.{at}.lin.weight")
        a, b, y = (Value(f"{name}{at}", "tensor", dtype="float32", shape=("batch", 8)) for name in "aby")
        inner, first = f"layers.{at}", len(nodes)
        act = "gelu" if at == odd else "relu"
        nodes += [
            Node(
                "linear", {"x": value, "weight": weight}, (a,), region=f"{inner}.lin", file="/home/me/model.py", line=3
            ),
            Node(act, {"x": a}, (b,), region=inner, file="model.py", line=4),
            Node("add", {"x": b, "y": value}, (y,), region=inner, file="model.py", line=5),
        ]
        lin = Region(f"{inner}.lin", "Linear", (first,))
        regions.append(Region(inner, "Block", (first + 1, first + 2), (lin,)))
        parameters.append(weight)
        value = y
    top = Region("", "Model", (), (Region("layers", "ModuleList", (), tuple(regions)),))
    return Graph("Model", (X,), tuple(parameters), tuple(nodes), {"y": value}, region=top, symbols={"batch": 2})


def drawn(graph):
    """The texts of a picture, and how many lines and rectangles it has."""
    root = ElementTree.fromstring(graph.to_svg())
    name = "{http://www.w3.org/2000/svg}"
    texts = [each.text or "" for each in root.iter(f"{name}text")]
    lines = [each for each in root.iter(f"{name}path") if each.get("marker-end")]
    return texts, len(lines), list(root.iter(f"{name}rect"))


def test_equal_layers_are_drawn_once():
    for count in (2, 12):
        texts, lines, _ = drawn(layers(count))
        assert f"× {count}" in texts
        assert f"layers.0 ... layers.{count - 1}: Block" in texts
        assert texts.count("linear") == texts.count("relu") == 1
        assert lines == 7  # into the layers, out of them; within: to linear, relu, add, around them, and out
    texts, _, _ = drawn(layers(1))
    assert "layers.0: Block" in texts
    assert not any("×" in text for text in texts)


def test_layers_that_differ_are_drawn_apart():
    texts, _, _ = drawn(layers(5, odd=2))
    assert [text for text in texts if "Block" in text] == [
        "layers.0 ... layers.1: Block",
        "layers.2: Block",
        "layers.3 ... layers.4: Block",
    ]
    assert texts.count("gelu") == 1
    assert texts.count("× 2") == 2


def test_what_stands_in_a_picture():
    texts, _, _ = drawn(layers(2))
    assert "Model" in texts
    assert "weight [8, 8]" in texts
    assert texts.count("float32[batch, 8]") >= 4  # the input, the output, edges
    assert "lin: Linear" in texts  # a module of one operator is no box
    assert "y" in texts  # the output's key
    svg = layers(2).to_svg()
    assert "<title>linear\nlayers.0.lin\nmodel.py:3</title>" in svg


def test_everything_stands_in_the_picture():
    graph = layers(3, odd=1)
    root = ElementTree.fromstring(graph.to_svg())
    width, height = float(root.get("width")), float(root.get("height"))
    _, _, rectangles = drawn(graph)
    for each in rectangles:
        x, y, w, h = (float(each.get(name)) for name in ("x", "y", "width", "height"))
        assert 0 <= x
        assert 0 <= y
        assert x + w <= width
        assert y + h <= height
    for path in re.findall(r' d="([^"]*)"', graph.to_svg()):
        numbers = [float(word) for word in re.findall(r"[-\d.]+", path)]
        assert all(0 <= number <= max(width, height) for number in numbers)


def test_a_module_that_is_called_twice_has_two_boxes():
    y, z, w = (Value(name, dtype="float32", shape=(2,)) for name in "yzw")
    nodes = (
        Node("relu", {"x": X}, (y,), region="act"),
        Node("exp", {"x": y}, (z,), region=""),
        Node("relu", {"x": z}, (w,), region="act"),
    )
    top = Region("", "F", (1,), (Region("act", "ReLU", (0, 2)),))
    items = boxes_of(Graph("f", (X,), (), nodes, w, region=top)).items
    assert [item.path if isinstance(item, Box) else item.op for item in items] == ["act", "exp", "act"]


def test_sizes_are_left_out():
    n, y = Value("n", "int"), Value("y", dtype="float32", shape=("batch",))
    nodes = (Node("size", {"x": X, "axis": 0}, (n,)), Node("reshape", {"x": X, "shape": (n, -1)}, (y,)))
    texts, lines, _ = drawn(Graph("f", (X,), (), nodes, [y]))
    assert "size" not in texts
    assert "[0]" in texts
    assert lines == 2


class Checked(HTMLParser):
    """Collects texts, ids and links, and checks that what is opened is closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.texts, self.ids, self.links = [], [], set(), set()
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)
        for name, value in attributes:
            if name == "id":
                assert value not in self.ids
                self.ids.add(value)
            if name == "href":
                self.links.add(value.removeprefix("#"))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


@pytest.mark.parametrize("graph", [layers(3), layers(4, odd=2)])
def test_page(graph):
    page = Checked(graph._repr_html_())
    assert page.links <= page.ids  # each link leads somewhere
    assert len(page.ids) == 1 + len(graph.parameters) + len(graph.nodes)
    assert "Model" in page.texts
    assert "layers.0.lin.weight" in page.texts
    assert "model.py:3" in page.texts
    assert ("× 3" if len(graph.nodes) == 9 else "× 2") in page.texts


def test_texts_are_escaped():
    evil = '<script>alert("&")</script>'
    x = Value(evil, "tensor", "input", "float32", ("<b>",))
    w = Value("w", "tensor", "parameter", "float32", (1,), path=evil)
    y, z = Value("y<i>"), Value("z")
    nodes = (
        Node(f"python::{evil}", {"x0": x}, (y,), origin=evil, region=evil, file=evil, line=1),
        Node("getitem", {"x": y, "index": (evil, Slice(1, None), ..., None)}, (z,), region=evil),
        Node("add", {"x": z, "y": w}, (Value("u"),), region=evil),
    )
    graph = Graph(evil, (x,), (w,), nodes, {evil: z}, region=Region("", evil, (), (Region(evil, evil, (0, 1, 2)),)))
    for text in (graph.to_svg(), graph._repr_html_()):
        assert "<script" not in text
        assert "<i>" not in text
        assert "<b>&lt;script" in text or "&lt;script" in text
    ElementTree.fromstring(graph.to_svg())
    Checked(graph._repr_html_())


def test_empty_graphs():
    for graph in (Graph("f", (), (), (), ()), Graph("f", (X,), (), (), X), Graph("f", (), (), (), {"a": 1})):
        ElementTree.fromstring(graph.to_svg())
        Checked(graph._repr_html_())
