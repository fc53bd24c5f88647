"""Decisions and loops on data are captured as "cond" and "while": right for data that goes other ways than was seen."""

import math

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_flatten

import pijit
from pijit.errors import ExportError, UsageError
from pijit.graph import Graph, capture_branches
from pijit.graph.model.branches import all_nodes

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def without_gradients():
    with torch.no_grad():
        yield


def t(*numbers):
    return torch.tensor([float(number) for number in numbers])


def clones(args):
    return tuple(arg.clone() for arg in args)


def assert_same(one, other):
    (ones, spec), (others, other_spec) = tree_flatten(one), tree_flatten(other)
    assert spec == other_spec
    for a, b in zip(ones, others, strict=True):
        assert type(a) is type(b)
        if isinstance(a, torch.Tensor):
            assert a.dtype == b.dtype
            assert torch.equal(a, b) or (a.isnan() == b.isnan()).all() and torch.equal(a.nan_to_num(), b.nan_to_num())
        else:
            assert a == b


def kept(fn, first, *others, also=()):
    """The graph of calls; it gives what `fn` gives for what was seen and for other data, and so it does from JSON."""
    graph = capture_branches(fn, clones(first), also=[clones(args) for args in also])
    assert graph.is_neutral or all(not node.op.startswith("python::") for node in all_nodes(graph))
    again = Graph.from_json(graph.to_json())
    for args in (first, *also, *others):
        expected = fn(*clones(args))
        assert_same(graph.run(*clones(args)), expected)
        assert_same(again.run(*clones(args)), expected)
    return graph


def ops(graph):
    return [node.op for node in all_nodes(graph)]


# -- one decision


def way(x, y):
    if y.sum() > 4:
        z = x * 2
    else:
        z = x - 1
    return z.relu() + 1


def test_a_decision_becomes_a_cond():
    x, many, few = t(1, 2, 3), torch.ones(8), torch.zeros(8)
    graph = kept(way, (x, many), (-x, few), (x * 7, torch.ones(4)), also=[(x, few)])
    assert ops(graph) == ["sum", "greater", "item_bool", "cond", "multiply", "subtract", "relu", "add"]
    (cond,) = (node for node in graph.nodes if node.op == "cond")
    assert [value.type for value in cond.results] == ["float32[x_0]"]
    assert cond.line == way.__code__.co_firstlineno + 1


def test_a_side_that_was_not_seen_is_an_error():
    with pytest.raises(
        ExportError,
        match=rf"test_branch_capture\.py:{way.__code__.co_firstlineno + 1}: .*False was never seen.*also=",
    ):
        capture_branches(way, (t(1), torch.ones(8)))


def three(x):
    if x[0] > 0:
        x = x + 1
    else:
        x = x - 1
    if x[1] > 0:
        x = x * 2
    else:
        x = x * 3
    if x[2] > 0:
        x = x.relu()
    return x


def test_decisions_in_a_row_need_each_side_once():
    """Ways that meet again are one: three decisions are three nodes, and two calls show all of them."""
    graph = kept(three, (t(5, 5, 5),), (t(5, -5, 5),), (t(-5, -5, 5),), (t(-5, 5, -5),), also=[(t(-5, -5, -5),)])
    assert ops(graph).count("cond") == 3


def factor(x):
    k = 1 if x.sum() > 0 else 2
    y = x * k
    if y.max() > 3:
        y = y - k
    return y, k


def test_a_number_of_python_that_a_decision_gives():
    graph = kept(
        factor, (t(1, 1),), (t(9, 9),), (t(-9, -9),), (t(-9, 8),), also=[(t(-1, -1),), (t(9, 9),), (t(-9, 8),)]
    )
    assert "cond" in ops(graph)


def returns(x):
    if x.sum() > 0:
        return x, 1.5
    y = x.abs()
    if y.max() > 10:
        return y, 2.5
    return y - 1, 3.5


def test_returns_in_the_middle():
    kept(returns, (t(1, 2),), (t(-1, 0),), (t(-20, -1),), (t(3, 3),), also=[(t(-1, -2),), (t(-11, -2),)])


def other_structure(x):
    if x.sum() > 0:
        return x
    return x, x


def test_other_structures_are_an_error():
    with pytest.raises(ExportError, match="other_structure returns something else on one way than on another"):
        capture_branches(other_structure, (t(1),), also=[(t(-1),)])


# -- loops


def grown(x):
    n = 0
    while x.sum() < 1000:
        x = x * 1.5 + 1
        n += 1
    return x, n


def test_a_while_loop():
    graph = kept(grown, (t(1, 1, 1),), (t(500, 500, 1),), (t(0, 0, 0),), (t(2000, 0, 0),), (t(-1, -1, 1),))
    assert [node.op for node in graph.nodes] == ["while"]
    (loop,) = graph.nodes
    assert [value.type for value in loop.results] == ["float32[x_0]", "int"]
    assert [node.op for node in loop.arguments["condition"].nodes] == ["sum", "less", "item_bool"]
    assert [node.op for node in loop.arguments["body"].nodes] == ["multiply", "add", "scalar_add"]


def test_a_loop_that_another_call_does_not_enter():
    graph = kept(grown, (t(2000),), (t(1),), also=[(t(5),)])
    assert [node.op for node in graph.nodes] == ["while"]


def test_a_loop_of_one_turn_does_not_show_what_its_numbers_are():
    with pytest.raises(ExportError, match="was not kept as a loop: x and x_1 hold the same.*more turns"):
        capture_branches(grown, (t(700),))


def left_in_two_ways(x):
    k = 0
    while True:
        k += 1
        x = x - 1
        if x.sum() < 0:
            return x, k
        if x.max() > 100:
            return x * 2, k


def test_a_way_that_only_first_turns_go():
    """What is known of a loop from the first call, the first turn of further calls shows, too."""
    kept(left_in_two_ways, (t(3, 3),), (t(9, 1),), (t(101, 0),), (t(103, 0),), (t(0, 0),), also=[(t(500, 0),)])


def newton(x):
    y = x
    for i in range(50):
        new = 0.5 * (y + x / y)
        if (new - y).abs().max() < 1e-5:
            break
        y = new
    return y, i


def test_a_range_with_a_break():
    graph = kept(
        newton, (t(2, 3, 10),), (t(5, 100, 4),), (t(1, 1, 1),), (t(math.nan, 1, 1),), also=[(t(math.nan, 1, 1),)]
    )
    assert "while" in ops(graph)


def steps(x):
    s = x * 0
    for i in range(2, 20, 3):
        s = s + x * i
        if s.sum() > 100:
            return s, i
    return s, -1


def test_a_range_with_a_start_and_a_step_that_is_left_by_return():
    kept(steps, (t(1, 1, 1),), (t(9, 9, 9),), (t(200, 0, 0),), (t(-2, 0, 0),), also=[(t(-1, 0, 0),)])


def fixed_point(x, w):
    z = torch.zeros_like(x)
    count = 0
    while True:
        new = torch.tanh(x @ w + z * 0.5)
        error = (new - z).norm().item()
        z = new
        count += 1
        if error < 1e-4:
            break
    return z, count, error


def test_a_fixed_point_with_a_tolerance():
    w = torch.eye(2)
    kept(fixed_point, (torch.ones(2, 2), w), (torch.ones(2, 2) * 0.1, w), (torch.zeros(2, 2), w), (torch.ones(3, 2), w))


def bisect(low, high, target):
    while (high - low) > 1e-3:
        middle = (low + high) / 2
        if middle * middle > target:
            high = middle
        else:
            low = middle
    return low, high


def test_a_decision_in_a_loop():
    def numbers(*given):
        return tuple(torch.tensor(float(each)) for each in given)

    graph = kept(bisect, numbers(0, 10, 7), numbers(0, 2, 2), numbers(1, 1, 2), numbers(0, 100, 50))
    assert [node.op for node in graph.nodes] == ["while"]
    assert ops(graph).count("cond") == 1


def collatz(x):
    n, peak = 0, x
    while x != 1:
        if x % 2 == 0:
            x = x // 2
        else:
            x = 3 * x + 1
        n += 1
        if x > peak:
            peak = x
    return n, peak


def test_decisions_in_a_row_in_a_loop():
    graph = kept(collatz, (torch.tensor(7),), (torch.tensor(27),), (torch.tensor(1),), (torch.tensor(8),))
    assert ops(graph).count("cond") == 2


def nested(x):
    total, k = torch.zeros(()), 0
    while total < 50:
        y = x + k
        while y.sum() < 20:
            y = y * 2 + 1
        total = total + y.sum()
        k += 1
    return total, k


def test_nested_loops():
    graph = kept(nested, (t(1, 1, 1),), (t(2, 2, 2),), (t(7, 7, 7),), (t(-0.3, -0.3, -0.3),))
    assert ops(graph).count("while") == 2


def skipping(x):
    n, s = 0, torch.zeros(())
    while n < 10:
        n += 1
        x = x * 1.3
        if x.sum() > 20:
            continue
        s = s + x.sum()
    return s, n


def test_a_continue_in_a_loop_that_numbers_of_python_end():
    kept(skipping, (t(1, 1, 1),), (t(5, 5, 5),), (t(0.2, 0, 0),))


def halved(x):
    k = int(x.sum())
    while k > 1:
        k = k // 2
    return x * k


def test_a_loop_on_a_number_of_data():
    kept(halved, (t(9, 9),), (t(2, 0),), (t(1, 0),), (t(0, 0),))


def gcd(a, b):
    while b.sum() > 0.01:
        a, b = b, a - b * torch.floor(a / b)
    return a


def test_variables_that_change_places():
    kept(gcd, (t(12), t(42)), (t(35), t(14)), (t(6), t(0)))


def of_tuple(x):
    state = (x, x * 0)
    while state[0].sum() < 100:
        a, b = state
        state = (a * 1.5 + b, b + 1)
    return state


def test_a_tuple_is_carried():
    kept(of_tuple, (t(1, 1, 1),), (t(100, 1, 1),), (t(0.2, 0.2, 0.2),))


def accumulated(x):
    acc = torch.zeros_like(x)
    while acc.sum() < 10:
        acc += x
        x *= 1.1
    return acc


def test_writes_to_tensors_become_values():
    """Also the input that the loop writes to is what it is in eager."""
    graph = kept(accumulated, (t(1, 1, 1),), (t(0.3, 0.3, 0.3),), (t(7, 7, 7),))
    x, other = t(0.3, 0.4, 0.5), t(0.3, 0.4, 0.5)
    accumulated(other)
    _, updates = graph.run(x, updates=True)
    assert torch.equal(updates["x"], other)


def not_like_the_others(x):
    before, n = None, 0
    while True:
        y = x * 0.5 + 1
        if before is not None and (y - before).abs().sum() < 1e-3:
            break
        before = y
        x = y
        n += 1
    return x, n


def test_a_first_turn_that_is_not_like_the_others_stays_in_front():
    graph = kept(not_like_the_others, (t(1, 2),), (t(9, 9),), (t(-2, -50),))
    assert "while" in [node.op for node in graph.nodes]


def power_iteration(matrix, v):
    last = torch.zeros(())
    for _ in range(60):
        w = matrix @ v
        value = (w * v).sum()
        v = w / w.norm()
        if (value - last).abs() < 1e-4:
            break
        last = value
    return value, v


def test_a_variable_that_the_first_turn_sets():
    torch.manual_seed(0)
    matrices = [matrix @ matrix.T + torch.eye(3) for matrix in torch.randn(3, 3, 3)]
    v = t(1, 2, 3)
    graph = kept(power_iteration, (matrices[0], v), (matrices[1], v), also=[(matrices[2] * math.nan, v)])
    # The matrix is multiplied before the loop, and in the body once.
    assert ops(graph).count("while") == 1
    assert ops(graph).count("matmul") + ops(graph).count("matvec") <= 2


def until_converged(x):
    converged, n = False, 0
    while not converged:
        y = x * 0.5 + 1
        converged = (y - x).abs().max() < 1e-3
        x = y
        n += 1
    return x, n


def test_a_flag_that_is_a_tensor_later():
    kept(until_converged, (t(1, 2),), (t(9, 9),), (t(-3, 0),), (t(2, 2),))


class Sized(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.wide, self.narrow = nn.Linear(4, 8), nn.Linear(8, 4)

    def forward(self, x):
        if x.abs().mean() > 1:
            x = self.narrow(torch.relu(self.wide(x)))
        return x * 2


def test_a_side_that_fixes_a_size():
    graph = kept(Sized().eval(), (t(0, 1, 0, 1),), (t(5, 5, 5, 5),), also=[(t(3, 3, 3, 3),)])
    assert graph.inputs[0].shape == (4,)


# -- modules


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embedding, self.cell, self.out = nn.Embedding(12, 8), nn.GRUCell(8, 8), nn.Linear(8, 12)
        self.limit = 12

    def step(self, token, h):
        h = self.cell(self.embedding(token), h)
        return h, self.out(h)

    def forward(self, h, token):
        score = torch.zeros(h.shape[0])
        for _ in range(self.limit):
            h, logits = self.step(token, h)
            token = logits.argmax(-1)
            score = score + logits.log_softmax(-1).amax(-1)
            if token[0] == 2:
                break
        return h, score, token


def test_a_module_that_decodes_until_a_token():
    decoder = Decoder().eval()
    torch.manual_seed(1)
    calls = [(torch.randn(2, 8) * 2, torch.zeros(2, dtype=torch.int64)) for _ in range(30)]
    graph = kept(decoder, calls[0], *calls[20:], also=calls[1:20])
    assert [node.op for node in graph.nodes if node.op in {"while", "cond"}][0] == "while"
    assert "embedding.weight" in {value.path for value in graph.parameters}


def test_a_function_that_calls_the_module():
    decoder = Decoder().eval()
    torch.manual_seed(1)
    calls = [(torch.randn(2, 8) * 2, torch.zeros(2, dtype=torch.int64)) for _ in range(30)]

    def decode(h, token):
        return decoder(h + 0, token)[1] * 2

    graph = kept(decode, calls[0], *calls[20:], also=calls[1:20])
    assert "while" in ops(graph)


class Early(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(4))

    def forward(self, x):
        for depth, layer in enumerate(self.layers):
            x = torch.tanh(layer(x))
            if x.abs().max() < 0.5 + 0.05 * depth:
                return x, depth
        return x, -1


def test_layers_of_which_the_data_decides_how_many():
    """Each layer has weights of its own: no loop, but one decision after each."""
    early = Early().eval()
    torch.manual_seed(2)
    calls = [(torch.randn(3, 4) * (0.1 + at / 8),) for at in range(40)]
    graph = kept(early, calls[0], (torch.zeros(3, 4),), also=calls[1:])
    assert "while" not in ops(graph)
    assert ops(graph).count("linear") == 4


# -- what is declined


def growing_list(x):
    outs = []
    while x.sum() < 100:
        x = x * 2
        outs.append(x)
    return torch.stack(outs)


def drawing(x):
    while x.sum() < 50:
        x = x + torch.rand(3)
    return x


class Counter:
    def __init__(self):
        self.n = 0


COUNTER = Counter()


def storing(x):
    while x.sum() < 50:
        x = x * 2
        COUNTER.n += 1
    return x


def printing(x):
    while x.sum() < 50:
        print("turn")
        x = x * 2
    return x


def in_a_dict(x):
    state = {"x": x}
    while state["x"].sum() < 50:
        state["x"] = state["x"] * 2
    return state["x"]


def of_two_names(x):
    best = x
    while x.sum() < 50:
        x = x * 1.5
        best = x
    return best


@pytest.mark.parametrize(
    ("fn", "why"),
    [
        (growing_list, r"'outs' holds an object \(list\) that changes from turn to turn; make a tensor longer"),
        (drawing, "draws random numbers in it"),
        (storing, "a turn stores in an object of Python, or calls setattr"),
        (printing, "a turn stores in an object of Python, or calls print"),
        (in_a_dict, r"'state' holds an object \(dict\) that changes"),
    ],
)
def test_a_loop_that_no_graph_holds(fn, why):
    line = fn.__code__.co_firstlineno
    with pytest.raises(
        ExportError, match=rf"test_branch_capture\.py:{line + 1}|{line + 2}: .*not kept as a loop: {why}"
    ):
        capture_branches(fn, (t(1, 1, 1),))


def test_a_call_is_made_once():
    calls = []

    def counted(x):
        calls.append(x)
        if x.sum() > 0:
            return x + 1
        return x - 1

    graph = capture_branches(counted, (t(1),), also=[(t(-1),)])
    assert len(calls) == 2
    for x in (t(3), t(-3)):
        assert torch.equal(graph.run(x), x + 1 if x.sum() > 0 else x - 1)


def drawn_on_one_side(x):
    return x + torch.rand(1) if x.sum() > 0 else x


def test_random_numbers_on_one_side_are_an_error():
    with pytest.raises(ExportError, match="draws random numbers, which a graph cannot do on one way only"):
        capture_branches(drawn_on_one_side, (t(1),), also=[(t(-1),)])


def of_python(x):
    return x + 1 if math.comb(int(x.sum()), 1) > 1 else x - 1


def test_what_a_function_of_python_computes_is_an_error():
    line = of_python.__code__.co_firstlineno + 1
    with pytest.raises(ExportError, match=rf":{line}: the program decides on what a function of Python gives"):
        capture_branches(of_python, (t(1, 1),))


def test_such_a_decision_splits_a_graph_or_is_an_error():
    graph = pijit.graph.capture(of_python, t(1, 1))
    assert [node.op for node in graph.breaks] == ["python::decision"]
    with pytest.raises(ExportError):
        pijit.export(of_python, t(1, 1), format="fx", decisions="assume")


def of_abs(x):
    return x + 1 if abs(x.sum().item()) > 1 else x - 1


def test_abs_of_a_number():
    kept(of_abs, (t(1, 1),), (t(-1, -5),), also=[(t(0, 0),)])
    graph = pijit.graph.capture(of_abs, t(1, 1))
    assert [node.op for node in graph.breaks] == ["python::decision"]


def test_other_arguments_in_also():
    with pytest.raises(ExportError, match="y is float64.* in call 1 of also=, and float32"):
        capture_branches(way, (t(1), t(9)), also=[(t(1), t(1).double())])


# -- export


def test_export():
    made = pijit.export(grown, t(1, 1), format="json", decisions="keep")
    for x in (t(1, 1), t(5, 5), t(5000, 1)):
        assert_same(Graph.from_json(made).run(x), grown(x))
    x, few = t(1, 2, 3), torch.zeros(8)
    made = pijit.export(way, x, torch.ones(8), format="python", decisions="keep", also=[(x, few)])
    namespace = {}
    exec(made, namespace)  # noqa: S102
    for y in (few, few + 1):
        assert torch.equal(namespace["way"](x, y), way(x, y))


def test_wrong_words():
    with pytest.raises(UsageError, match="also= takes a list of tuples"):
        pijit.export(way, t(1), t(1), format="json", decisions="keep", also=[t(1)])
    with pytest.raises(UsageError, match='only decisions="keep"'):
        pijit.export(way, t(1), t(1), format="json", also=[(t(1), t(1))])
    with pytest.raises(ExportError, match="format 'code' has no form"):
        pijit.export(way, t(1), t(1), format="code", decisions="keep")
