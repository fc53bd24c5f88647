"""`pijit.verify`: every way of a call gives the same, the operator that differs is named, and state is put back."""

import random

import pytest

import pijit
from pijit.errors import UsageError

torch = pytest.importorskip("torch")
forms = pytest.importorskip("pijit.graph.forms.numpy")

pytestmark = pytest.mark.torch


def way(found, name):
    return next(each for each in found.ways if each.name == name)


def test_a_training_module_whose_state_and_random_numbers_are_put_back():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5)).train()
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    states = torch.get_rng_state(), random.getstate()
    for rows in (5, 7):
        found = pijit.verify(net, torch.randn(rows, 3, generator=torch.Generator().manual_seed(rows)))
        assert found.same, found
        assert [each.name for each in found.ways[:4]] == [
            "CPython", "native replay", "graph in torch", "graph in numpy",
        ]  # fmt: skip
        assert [each.largest for each in found.ways[:3]] == [0, 0, 0]
        assert all(each.same for each in found.ways[:4])
        assert way(found, "graph in numpy").note == "random numbers are torch's"
        assert all(torch.equal(before[name], tensor) for name, tensor in net.state_dict().items())
        assert torch.equal(states[0], torch.get_rng_state())
        assert states[1] == random.getstate()


def test_arguments_are_cloned():
    def f(x, more):
        x.add_(1)
        return x * more["y"][0]

    x, y = torch.ones(2), torch.ones(2)
    for _ in range(2):
        assert pijit.verify(f, x, {"y": [y]}).same
        assert torch.equal(x, torch.ones(2))
    assert torch.equal(f(x, {"y": [y]}), torch.full((2,), 2.0))


def test_the_first_operator_that_differs(monkeypatch):
    def f(x):
        a = torch.tanh(x * 2)
        return torch.tanh(a + 1).sum()

    line = f.__code__.co_firstlineno + 1
    right, wrong = forms.tanh, lambda x: right(x) + 0.5
    for form, same in ((right, True), (wrong, False), (right, True)):
        monkeypatch.setattr(forms, "tanh", form)
        found = pijit.verify(f, torch.ones(3))
        numpy = way(found, "graph in numpy")
        assert found.same == numpy.same == same
        assert way(found, "graph in torch").same
        if not same:
            assert numpy.first == f"tanh ({__file__}:{line})"
            assert 0.5 <= numpy.largest < 2
            assert f"DIFFERENT by {numpy.largest:.1g}, first at tanh" in str(found)


def test_an_operator_without_a_form_is_said(monkeypatch):
    monkeypatch.setattr(forms, "tanh", None)
    for function, same in ((torch.tanh, None), (torch.exp, True)):
        found = pijit.verify(lambda x, function=function: function(x), torch.ones(3))
        assert way(found, "graph in numpy").same is same
        assert found.same
    assert "all ways give the same" in str(found)


def test_decisions_on_data_are_those_of_this_call():
    def f(x):
        return x + 1 if x.sum() > 0 else x - 1

    for x in (torch.ones(2), -torch.ones(2)):
        assert pijit.verify(f, x).same


class Counter:
    calls = 0


COUNTER = Counter()


def counted(x):
    COUNTER.calls += 1
    return x + COUNTER.calls


def printed(x):
    print("seen")
    return x + 1


WEIGHT = torch.ones(2)


def written(x):
    WEIGHT.add_(1)
    return x * WEIGHT


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (counted, r"test_tools_verify\.py:\d+: setattr changes an object of Python"),
        (printed, r"test_tools_verify\.py:\d+: print runs in CPython, and may change anything"),
        (written, "it writes to the tensor WEIGHT, which is of no module that the function names"),
    ],
)
def test_what_cannot_be_undone_is_refused_after_one_call(function, why, capsys):
    COUNTER.calls = 0
    for _ in range(2):
        with pytest.raises(UsageError, match=rf"pijit\.verify\(\).*{why}.*pijit\.jit\(fn, verify=1\)"):
            pijit.verify(function, torch.ones(2))
    assert COUNTER.calls == 2 * (function is counted)
    assert capsys.readouterr().out == "seen\n" * 2 * (function is printed)


LOG: list[int] = []


def noted():
    LOG.append(1)
    return iter(LOG)


def kept(x):
    COUNTER.calls += 1
    return COUNTER


@pytest.mark.parametrize("function", [noted, kept])
def test_an_effect_is_seen_where_the_result_fits_no_graph(function):
    arguments = (1,) * (function is kept)
    for calls in (1, 2):
        COUNTER.calls, LOG[:] = 0, []
        for _ in range(calls):
            with pytest.raises(UsageError, match="cannot be undone"):
                pijit.verify(function, *arguments)
        assert COUNTER.calls + len(LOG) == calls


def test_a_call_that_was_not_recorded_is_not_repeated():
    @pijit.skip
    def f():
        LOG.append(1)
        return object()

    LOG.clear()
    with pytest.raises(UsageError):
        pijit.verify(f)
    assert len(LOG) == 1


def test_containers_in_themselves_and_twice_in_the_arguments():
    def f(x, more, again):
        assert again is more
        return x + len(more)

    items: list[object] = [1]
    for _ in range(2):
        assert pijit.verify(f, torch.ones(2), items, items).same
    items.append(items)
    with pytest.raises(UsageError, match="not recorded"):
        pijit.verify(f, torch.ones(2), items, items)
    assert len(items) == 2


def test_a_context_variable_that_is_set_back():
    import contextvars

    variable = contextvars.ContextVar("variable", default=1)

    def f(x):
        token = variable.set(3)
        try:
            return x * variable.get()
        finally:
            variable.reset(token)

    for _ in range(2):
        assert pijit.verify(f, torch.ones(2)).same
    assert variable.get() == 1


def test_what_the_call_raises_is_raised():
    def f(x):
        return x.reshape(7)

    for size in (3, 4):
        with pytest.raises(RuntimeError, match="shape"):
            pijit.verify(f, torch.ones(size))
    assert pijit.verify(f, torch.ones(7)).same


def test_a_name_is_an_error():
    with pytest.raises(UsageError, match="verify"):
        pijit.verify("f", 1)
