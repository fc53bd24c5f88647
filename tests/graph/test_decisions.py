"""A decision on the data of a tensor splits a graph, or is assumed to go as in the captured call."""

import pytest
import torch

import pijit
from pijit.errors import ExportError, UsageError
from pijit.graph import Graph
from pijit.graph.build.capture import captured

pytestmark = pytest.mark.torch


def way(x, ids):
    if 3 in ids[:, [-1, 0]]:
        return x + 1
    if not (x.sum() > 0):
        return x - 1
    if x.max().item() > 2.5:
        return x * 3
    return x * 2


X, IDS = torch.ones(2, 3), torch.zeros(2, 5, dtype=torch.int64)
# Arguments that take another way, and the line of the decision.
OTHERS = [(X, IDS + 3, 1), (-X, IDS, 3), (4 * X, IDS, 5)]


def place(line):
    return rf"test_decisions\.py:{way.__code__.co_firstlineno + line}: "


def test_split():
    graph = captured(way, (X, IDS), {})
    assert [node.op for node in graph.breaks] == ["python::decision"] * 3
    assert not graph.assumptions
    with pytest.raises(ExportError, match=place(1) + "the program decides on the data.*`decisions='assume'`"):
        pijit.export(way, X, IDS, format="fx")


def test_assume():
    graph = captured(way, (X, IDS), {}, decisions="assume")
    assert not graph.breaks
    assert graph.is_neutral
    assert len(graph.assumptions) == 3
    assert [value.shape for value in graph.results] == [("x_0", "x_1")]
    for x, ids in ((X, IDS), (torch.rand(4, 2), IDS[:, :2] + 1)):
        assert torch.equal(graph.run(x, ids), way(x, ids))
    for x, ids, line in OTHERS:
        with pytest.raises(ExportError, match=place(line) + "the program decides on data here"):
            graph.run(x, ids)


def test_a_graph_with_assumptions_is_read_back_from_json():
    graph = captured(way, (X, IDS), {}, decisions="assume")
    again = Graph.from_json(graph.to_json())
    assert again.assumptions == graph.assumptions
    with pytest.raises(ExportError, match="decides on data"):
        again.run(-X, IDS)


def test_fx_checks_them():
    made = pijit.export(way, X, IDS, format="fx", decisions="assume")
    for x, ids in ((X, IDS), (torch.rand(4, 2), IDS[:, :2] + 1)):
        assert torch.equal(made(x, ids), way(x, ids))
    for x, ids, line in OTHERS:
        with pytest.raises((RuntimeError, AssertionError), match=place(line) + "this data takes another way"):
            made(x, ids)


def test_decisions_on_sizes_are_no_assumptions():
    def f(x):
        return x + 1 if x.shape[0] > 2 else x - 1

    for rows in (4, 2):
        graph = captured(f, (torch.ones(rows, 3),), {}, decisions="assume")
        assert not graph.assumptions
        assert torch.equal(graph.run(torch.ones(rows, 3)), f(torch.ones(rows, 3)))


def test_another_word_is_an_error():
    with pytest.raises(UsageError, match='decisions= is "split", "assume" or "keep", not \'both\''):
        pijit.export(way, X, IDS, format="fx", decisions="both")


def whole(x):
    return x + 1 if int(x[0, 0] * 2) == 3 else x - 1


def negative(x):
    return x * 2 if int(x[0, 0]) == -3 else x


def double(x):
    k = float(x[0, 0])
    return x * 2 if k * 2 - 1 == -4.0 else x


def many(x):
    for _ in range(int(x[0, 0])):
        x = x + 1
    return x


def used(x):
    k = int(x[0, 0])
    return x * k if k > 2 else x


@pytest.mark.parametrize(
    ("f", "value", "other"),
    [(whole, 1.6, 2.0), (negative, -3.7, -4.1), (double, -1.5, 1.5), (many, 2.5, 1.0), (used, 3.4, 1.0)],
)
def test_numbers_of_data_are_checked(f, value, other):
    """Numbers that are computed of data, in each format of torch."""
    x = torch.full((2, 3), value)
    for form in ("fx", "exported_program", "python", "json"):
        made = pijit.export(f, x, format=form, decisions="assume")
        if form == "json":
            run = Graph.from_json(made).run
        elif form == "python":
            namespace = {}
            exec(made, namespace)  # noqa: S102
            run = namespace[f.__name__]
        else:
            run = made if form == "fx" else made.module()
        again = torch.full((2, 3), value)
        assert torch.equal(run(again), f(again))
        with pytest.raises((RuntimeError, AssertionError, ExportError)):
            run(torch.full((2, 3), other))
        assert torch.equal(run(x), f(x))
