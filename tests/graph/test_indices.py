"""Indices as torch takes them: a graph gives the bits of the program in torch, and its numbers in JAX and NumPy."""

import operator

import numpy as np
import pytest

import pijit

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


def stored(index, value):
    """A function that stores at an index."""

    def f(x):
        x = x.clone()
        x[index] = value
        return x

    return f


def added(x):
    x = x.clone()
    x[[0, -1]] += 1
    x[[0, 1]].add_(5)  # a copy
    x[:2][[1]] = 7  # a view
    return x


def written(x):
    x[[0, -1]] = 7
    return x.sum()


READS = {
    "x[[0, -1]]": lambda x: x[[0, -1]],
    "x[[0, 1, 1, 0, 1]]": lambda x: x[[0, 1, 1, 0, 1]],
    "x[[1]]": lambda x: x[[1]],
    "x[[0, 1], :]": lambda x: x[[0, 1], :],
    "x[:, [0, 2]]": lambda x: x[:, [0, 2]],
    "x[..., [0, -1]]": lambda x: x[..., [0, -1]],
    "x[[0, 1], [1, 2]]": lambda x: x[[0, 1], [1, 2]],
    "x[[0, 1], None, :2]": lambda x: x[[0, 1], None, :2],
    "x[1:, [0, 0]]": lambda x: x[1:, [0, 0]],
    "x[[0, -1], ::2]": lambda x: x[[0, -1], ::2],
    "x[[0, len(x) - 1]]": lambda x: x[[0, x.shape[0] - 1]],
    "x[0][[0, 1]]": lambda x: x[0][[0, 1]],
    "x.t()[[0, 1]]": lambda x: x.t()[[0, 1]],
    "x[[0, 1]][[1]]": lambda x: x[[0, 1]][[1]],
    "x[[]]": lambda x: x[[]],
    "x[[True, False, True]] of a row": lambda x: x[0][[True, False, True]],
    "x[:, [True, False, True]]": lambda x: x[:, [True, False, True]],
    "x[[True, 0]]": lambda x: x[[True, 0]],
    "x[[[0, 1], [1, 0]],]": lambda x: x[[[0, 1], [1, 0]],],
    "x[[[0, 1], [1, 0]]]": lambda x: x[[[0, 1], [1, 0]]],
    "x[[(0, 1), (1, 0)],]": lambda x: x[[(0, 1), (1, 0)],],
    "x[(0, 1),]": lambda x: x[(0, 1),],
    "x[:, [[0, 1], [2, 0]]]": lambda x: x[:, [[0, 1], [2, 0]]],
    "x[[slice(0, 2), 1]]": lambda x: x[[slice(0, 2), 1]],
    "x[[None, 0]]": lambda x: x[[None, 0]],
    "x[[..., 0]]": lambda x: x[[..., 0]],
    "x[x.new_ones(1).shape]": lambda x: x[x.new_ones(1).shape],
    "x[[]] = 4": stored([], 4),
    "x[[[0, 1], [1, 0]]] = 2": stored([[0, 1], [1, 0]], 2),
    "x[:, [True, False, True]] = 2": stored((slice(None), [True, False, True]), 2),
    "x[[0, -1]] = 7": stored([0, -1], 7),
    "x[:, [0, 2]] = 5": stored((slice(None), [0, 2]), 5),
    "x[[0, 1], [1, 2]] = 9": stored(([0, 1], [1, 2]), 9.0),
    "x[[0, 1]] = row": stored([0, 1], torch.ones(3)),
    "added": added,
    "written": written,
}


def check(f, *calls):
    """The graph of the first call gives what the function does, in each framework and after a round trip as JSON."""
    graph = pijit.graph.capture(f, *(each.clone() for each in calls[0]))
    again = pijit.graph.Graph.from_json(graph.to_json())
    assert not graph.breaks
    for call in calls:
        plain = [each.clone() for each in call]
        expected = f(*plain)
        for run in (graph.run, again.run):
            own = [each.clone() for each in call]
            found = run(*own)
            assert found.dtype == expected.dtype
            assert torch.equal(found, expected)
            assert all(map(torch.equal, own, plain))
        for framework in ("numpy", "jax"):
            if framework == "jax":
                pytest.importorskip("jax")
            np.testing.assert_allclose(np.asarray(graph.run(*call, framework=framework)), expected.numpy())


def rows(count):
    return (torch.arange(3.0 * count).reshape(count, 3) - 4,)


@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")
@pytest.mark.parametrize("name", READS)
def test_a_list_is_one_index(name):
    check(READS[name], rows(4), rows(6), rows(2))


# Calls of the method by its name, which a replay leaves to CPython.
CALLED = {
    "getitem(x, [0, -1])": lambda x: operator.getitem(x, [0, -1]),
    "x.__getitem__([0, -1])": lambda x: x.__getitem__([0, -1]),
    "x.__getitem__([])": lambda x: x.__getitem__([]),
    "x.__getitem__(([0, 1], [1, 2]))": lambda x: x.__getitem__(([0, 1], [1, 2])),
    "x.__getitem__([[0, 1], [1, 0]])": lambda x: x.__getitem__([[0, 1], [1, 0]]),
    "x[0].__getitem__([True, False, True])": lambda x: x[0].__getitem__([True, False, True]),
}


@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")
@pytest.mark.parametrize("name", CALLED)
def test_a_list_is_one_index_of_a_call(name):
    check(CALLED[name], rows(4), rows(6), rows(2))


# Lists that torch takes for tuples, and warns of at each call.
AS_TUPLES = {"x[[[0, 1], [1, 0]]]", "x[[slice(0, 2), 1]]", "x[[None, 0]]", "x[[..., 0]]", "x[[[0, 1], [1, 0]]] = 2"}


@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")
@pytest.mark.parametrize("name", READS)
def test_a_replay_takes_a_list_as_torch_does(name):
    fast = pijit.jit(READS[name])
    for call in (rows(4), rows(4), rows(6), rows(2), rows(4)):
        plain, own = call[0].clone(), call[0].clone()
        expected, found = READS[name](plain), fast(own)
        assert (found.dtype, found.stride()) == (expected.dtype, expected.stride())
        assert torch.equal(found, expected)
        assert torch.equal(own, plain)
        assert (found._base is own) == (expected._base is plain)
    if name not in AS_TUPLES:
        assert pijit.status(fast).state == "replaying"
        assert not any(node.op == "opaque" for node in pijit.traces(fast)[0].nodes)


def test_each_replay_warns_of_a_list_that_is_taken_for_a_tuple():
    def f(x):
        y = x + 1
        return y[[slice(0, 2), 1]] * 2

    fast = pijit.jit(f)
    for _ in range(4):
        with pytest.warns(UserWarning, match="non-tuple sequence") as seen:
            assert torch.equal(fast(*rows(4)), (rows(4)[0][:2, 1] + 1) * 2)
        assert [each.lineno for each in seen] == [f.__code__.co_firstlineno + 2]


def test_numbers_in_a_list_vary():
    def f(x, i, j):
        return x[[[i, 0], [j, i]],], x[[i, j]]

    fast = pijit.jit(f)
    for i, j in ((0, 1), (1, 3), (-1, 2), (2, 2)):
        for found, expected in zip(fast(*rows(4), i, j), f(*rows(4), i, j), strict=True):
            assert torch.equal(found, expected)
    with pytest.raises(IndexError, match="index 4 is out of bounds"):
        fast(*rows(4), 4, 0)


def test_a_list_as_the_whole_index_stands_in_a_tuple():
    graph = pijit.graph.capture(lambda x: x[[0, -1]], *rows(4))
    assert graph.nodes[0].arguments["index"] == ((0, -1),)
    assert "index=((0, -1),)" in str(graph)


OF_DATA = {
    "x[int(i)]": lambda x, t: x[int(t.argmax())],
    "x[i.item()]": lambda x, t: x[t.argmax().item()],
    "x[:, int(i)]": lambda x, t: x[:, int(t.argmax())],
    "x[-int(i)]": lambda x, t: x[-int(t.argmax())],
    "x[int(i), int(j)]": lambda x, t: x[int(t.argmax()), int(t.argmin())],
    "x[[int(i), 0]]": lambda x, t: x[[int(t.argmax()), 0]],
    "x[i:i + 1]": lambda x, t: x[int(t.argmax()) : int(t.argmax()) + 1],
    "sum over an axis": lambda x, t: x.sum(int(t.argmax()) % 2),
    "narrow": lambda x, t: x.narrow(0, int(t.argmin()), 1),
    "count": lambda x, t: x[: len(torch.nonzero(t > 4))],
    "zeros": lambda x, t: torch.zeros(int((t > 4).sum())) + x[0, 0],
}


def store_at(x, t):
    x = x.clone()
    x[int(t.argmax())] += 1
    x[int(t.argmin())][0] = 5
    return x


@pytest.mark.parametrize("name", [*OF_DATA, "store"])
def test_a_number_that_data_decides_is_an_index(name):
    calls = [(*rows(count), torch.tensor(t)) for count, t in ((4, [1.0, 5, 2]), (6, [7.0, 5, 2]), (5, [1.0, 5, 9]))]
    check(OF_DATA.get(name, store_at), *calls)
