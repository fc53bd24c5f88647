"""Loops whose tensors grow or thin out are captured as "while" with sizes that no turn fixes."""

import pytest
import torch
from loops_that_grow import PROGRAMS, greedy, ids
from torch.utils._pytree import tree_flatten

from pijit.errors import ExportError
from pijit.graph import Graph, capture_branches
from pijit.graph.model.branches import all_nodes

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def without_gradients():
    with torch.no_grad():
        yield


def assert_same(found, expected):
    (ones, spec), (others, other_spec) = tree_flatten(found), tree_flatten(expected)
    assert spec == other_spec
    for one, other in zip(ones, others, strict=True):
        assert torch.equal(torch.as_tensor(one), torch.as_tensor(other))


@pytest.mark.parametrize("name", PROGRAMS)
def test_other_data_takes_other_turns(name):
    program = PROGRAMS[name]
    first, *also = program.shown
    graph = capture_branches(program.run, first, also=also)
    (loop,) = (node for node in all_nodes(graph) if node.op == "while")
    assert any("u" in str(size) for value in loop.results if value is not None for size in value.shape or ())
    again = Graph.from_json(graph.to_json())
    for args in (*program.shown, *program.others):
        assert_same(graph.run(*args), program.run(*args))
        assert_same(again.run(*args), program.run(*args))


def test_a_loop_that_one_way_was_not_left():
    """Every call that was seen stops at the word; a size at which the loop ends was not seen, and is an error."""
    graph = capture_branches(greedy, (ids(1, 5, 2),))
    assert_same(graph.run(ids(1, 5, 2)), greedy(ids(1, 5, 2)))
    with pytest.raises(ExportError, match=rf"loops_that_grow.py:{greedy.__code__.co_firstlineno + 2}: .* on a size"):
        graph.run(ids(1, 3))
    with pytest.raises(ExportError, match="True was never seen; give inputs that go the other way: also="):
        capture_branches(greedy, (ids(1, 3),))


def fixed(x):
    size, y = x.shape[1], x
    while size > 1:
        y, size = y[:, : size // 2] + y[:, size // 2 :], size // 2
    return y


def test_a_loop_on_a_size_that_is_known_is_unrolled():
    weight = torch.arange(8.0).reshape(1, 8)
    graph = capture_branches(lambda x: fixed(weight) + x, (torch.ones(3, 1),))
    assert "while" not in [node.op for node in all_nodes(graph)]
    for x in (torch.ones(3, 1), torch.ones(2, 1)):
        assert_same(graph.run(x), fixed(weight) + x)


def two_ways(x, y):
    if y.sum() > 0:
        x = torch.cat([x, x])
    return x * 2


def test_two_ways_that_give_other_sizes():
    many, few = torch.ones(2), -torch.ones(2)
    graph = capture_branches(two_ways, (torch.arange(3.0), many), also=[(torch.arange(3.0), few)])
    for args in ((torch.arange(4.0), few), (torch.arange(5.0), many)):
        assert_same(graph.run(*args), two_ways(*args))


def on_a_size(x):
    if x.shape[0] > 3:
        y = x[:3] * 2
    else:
        y = x + 1
    return y.relu() - 1


def test_both_sides_of_a_decision_on_a_size():
    graph = capture_branches(on_a_size, (torch.arange(3.0),), also=[(torch.arange(5.0),)])
    assert [node.op for node in all_nodes(graph)].count("cond") == 1
    for x in (torch.arange(2.0), torch.arange(4.0), torch.arange(9.0)):
        assert_same(graph.run(x), on_a_size(x))
