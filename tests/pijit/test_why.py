"""why: the guard that failed last, in words, with both values."""

from __future__ import annotations

import pytest

import pijit


class Settings:
    def __init__(self):
        self.width = 64


SETTINGS = Settings()
LEVEL = 1
CURRENT = None


def test_nothing_failed():
    fast = pijit.jit(lambda x: [x])
    assert pijit.why(fast) == ""
    fast(1), fast(1)
    assert pijit.why(fast) == ""


def test_what_was_never_jitted():
    def plain():
        return 1

    assert pijit.why(len) == pijit.why(plain) == "neither jitted nor found under enable()"
    fast = pijit.jit(plain)
    assert fast() == 1
    assert pijit.why(fast) == ""
    assert pijit.why(plain) == "neither jitted nor found under enable()"
    assert pijit.why(pijit.skip(plain, reason="noise")) == "pijit.skip(): noise"
    with pytest.raises(pijit.errors.UsageError, match=r"why\(\) takes the function itself, not its name 'fast'"):
        pijit.why("fast")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("b",), "key: 'b' now, 'a' before"),
        ((None,), "key: None now, 'a' before"),
    ],
)
def test_arguments(arguments, says):
    fast = pijit.jit(lambda key: {"a": 1, "b": 2, None: 3}[key])
    fast("a")
    fast(*arguments)
    assert pijit.why(fast) == says
    fast("a")
    assert pijit.why(fast) == says  # the last one that failed
    pijit.reset(fast)
    assert pijit.why(fast) == ""


def test_state(monkeypatch):
    fast = pijit.jit(lambda: (SETTINGS.width, LEVEL))
    assert fast() == (64, 1)
    monkeypatch.setitem(globals(), "LEVEL", 2)
    assert fast() == (64, 2)
    assert pijit.why(fast) == "LEVEL: 2 now, 1 before"


def test_methods_and_partials():
    class Scaler:
        def scale(self, key):
            return {"a": 1, "b": 2}[key]

    fast = pijit.jit(Scaler().scale)
    fast("a"), fast("b")
    assert pijit.why(fast) == "key: 'b' now, 'a' before"


@pytest.mark.torch
def test_tensors():
    import torch

    fast = pijit.jit(lambda x: x + 1)
    fast(torch.ones(3))
    fast(torch.ones(3, dtype=torch.float64))
    assert pijit.why(fast) == "x: float64[3] now, float32[*] before"


class Rates:
    __slots__ = ("lr", "steps")

    def __init__(self, lr):
        self.lr, self.steps = lr, [1, 2]


class Layer:
    def __init__(self, size):
        self.size = size


class Tree:
    def __init__(self):
        self.rates, self.layers, self.options = Rates(0.1), [Layer(1), Layer(2)], {"dropout": 0.5}
        self.active = self.layers[0]


def of_tree(tree):
    return tree.rates.lr, [each.size for each in tree.layers], tree.active.size, tree.options["dropout"]


def changed(**changes):
    """A tree whose attributes, dotted, are set after its first calls."""

    def change(tree):
        for path, value in changes.items():
            *within, last = path.split("__")
            at = tree
            for name in within:
                at = getattr(at, name)
            setattr(at, last, value(tree) if callable(value) else value)

    return change


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (changed(rates__lr="x"), "tree.rates.lr: 'x' now, 0.1 before"),
        (changed(active=lambda tree: tree.layers[1]), "tree.active: <Layer> "),
        (changed(active=lambda tree: Layer(1)), "tree.active: <Layer> now, <Layer> (tree.layers[0]) before"),
        (changed(layers=lambda tree: [Layer(1), "x"]), "tree.layers"),
        (changed(options=lambda tree: {"dropout": 0.1}), "tree.options: another <dict> than before"),
        (lambda tree: tree.options.update(dropout=None), "tree.options['dropout']: None now, 0.5 before"),
        (changed(options=lambda tree: None), "tree.options: None now, "),
        (changed(layers=lambda tree: ()), "tree.layers: <tuple> now, <list> before"),
    ],
)
def test_places_have_the_names_of_the_program(change, says):
    """The tree is an argument, or found in a variable around the function, or it is where a method belongs."""
    for way in range(3):
        tree = Tree()
        if way == 0:
            fast = pijit.jit(of_tree)
            call, expected = (lambda: fast(tree)), says
        elif way == 1:
            fast = call = pijit.jit(lambda: of_tree(tree))
            expected = says
        else:
            fast = pijit.jit(lambda owner: of_tree(owner[0]))
            call, expected = (lambda: fast([tree])), says.replace("tree.", "owner[0].")
        for _ in range(3):
            call()
        change(tree)
        try:
            call()
        except (AttributeError, TypeError):
            pass
        told = pijit.why(fast)
        assert told.startswith(expected), (way, told)
        assert "0x" not in told
        assert "<slot" not in told
        assert "<offset" not in told


def test_another_object_of_the_same_class():
    fast = pijit.jit(lambda: CURRENT.size)
    globals()["CURRENT"] = Layer(1)
    fast(), fast()
    globals()["CURRENT"] = Layer(1)
    fast()
    assert pijit.why(fast) == "CURRENT: another <Layer> than before"


def test_attributes_that_c_keeps():
    def steps(of):
        return of.step, of.start

    fast = pijit.jit(steps)
    for step in (1, 1, "x"):
        fast(slice(0, 4, step))
    assert pijit.why(fast).startswith("of.step: 'x' now, ")


@pytest.mark.torch
def test_a_module_has_the_names_of_its_forward():
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.rate = 0.5

        def forward(self, x, mask=None, *more, scale=1):
            x = x * self.rate
            return x * scale if mask is None else x * mask + sum(more)

    Net.__qualname__ = "Net"  # as that of a class of a module
    net, x = Net(), torch.ones(2)
    fast = pijit.jit(net)
    for arguments, keywords, says in [
        ((x,), {}, ""),
        ((x.double(),), {}, "x: float64[2] now, float32[*] before"),
        ((x, x), {"scale": 2}, ""),
        ((x, x.double()), {"scale": 2}, "mask: float64[2] now, float32[*] before"),
        ((x, x, "a"), {"scale": 2}, ""),
    ]:
        try:
            fast(*arguments, **keywords)
        except TypeError:
            pass
        told = pijit.why(fast)
        assert not says or told == says
        assert not any(word in told for word in ("args", "0x", "<slot", "<offset"))
    fast(x, x, x, scale=2)
    assert pijit.why(fast) == "more[0]: <Tensor> now, 'a' before"
    pijit.reset(fast)
    fast(x, x, scale=2), fast(x, x, scale=2), fast(x, x, x, scale=2)
    assert pijit.why(fast) == "positional arguments: 3 items now, 2 before"
    pijit.reset(fast)
    fast(x, scale=2), fast(x, scale=2)
    with pytest.raises(TypeError):
        fast(x, scale="ab")
    assert pijit.why(fast) == "scale: 'ab' now, 2 before"
    text = str(pijit.traces(fast)[0])
    assert "def Net(self, x, *, scale):" in text
    assert "args" not in text
    namespace = {**globals(), "torch": torch}
    exec(text, namespace)
    assert namespace["Net"](net, x, scale=2).tolist() == net.forward(x, scale=2).tolist() == [1, 1]


@pytest.mark.torch
def test_a_function_of_a_module_has_its_own_names():
    import torch

    def run(model, *args):
        return model(*args)

    fast, x = pijit.jit(run), torch.ones(2, 2)
    model = torch.nn.Linear(2, 2)
    fast(model, x), fast(model, x)
    with pytest.raises(RuntimeError):
        fast(model, x.double())
    assert pijit.why(fast) == "args[0]: float64[2, 2] now, float32[*, *] before"


@pytest.mark.torch
def test_state_of_an_optimizer():
    import torch

    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

    fast, x = pijit.jit(step), torch.ones(1, 2)
    for _ in range(4):
        fast(x)
    guards = str(pijit.traces(fast)[-1].guards)
    state = "optimizer.state[optimizer.param_groups[0]['params'][0]]"
    assert f"instance {state}['exp_avg'] is torch.Tensor" in guards
    assert not any(word in guards for word in ("<object at", "<slot", "<offset", "0x"))


@pytest.mark.torch
def test_autocast():
    import torch

    fast, x = pijit.jit(lambda x: x @ x), torch.ones(2, 2)
    fast(x), fast(x)
    with torch.autocast("cpu"):
        fast(x)
    assert pijit.why(fast) == "autocast on cpu: on now, off before"


# ------------------------------------------------------------------------------------------------------ the log of them


def test_recompilations_are_logged(caplog):
    import logging

    def scale(x, by):
        return x * by

    fast, before = pijit.jit(scale), pijit.config.log
    pijit.config.log = "recompiles"
    try:
        with caplog.at_level(logging.DEBUG, "pijit"):
            for by in (2, 2, "ab"):
                fast(1, by)
    finally:
        pijit.config.log = before
    line = scale.__code__.co_firstlineno
    (told,) = [record.getMessage() for record in caplog.records]
    assert told.startswith("recompiles: ")
    assert f"scale (test_why.py:{line}) is recorded again, trace 1: by: 'ab' now, 2 before" in told
