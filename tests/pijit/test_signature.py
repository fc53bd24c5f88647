"""jit(signature=): what fits runs as under plain Python, the rest is an error with both values, replayed or not."""

from __future__ import annotations

import copy
import inspect
import os
import pickle
import subprocess
import sys
import threading

import pytest

import pijit
from pijit import api, errors

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

HERE = "test_signature.py"


def line_of(function):
    return f"{HERE}:{function.__code__.co_firstlineno} in {function.__name__}()"


def blend(x, mask=None, /, *more, scale: float = 2.0, **named):
    """Doc."""
    made = torch.tanh(x) * scale
    for each in more:
        made = made + each
    return made if mask is None else made * mask


FORMS = {"x": "float32[batch:2..64, 8]", "mask": "float32|bool[batch, *]?", "scale": float}


@pytest.fixture
def fast():
    return pijit.jit(blend, signature=FORMS)


def test_what_fits_runs_as_plain(fast):
    for n in (2, 2, 5, 64, 3):
        x = torch.randn(n, 8)
        for mask in (None, torch.ones(n, 1), torch.ones(n, 8, dtype=torch.bool)):
            assert torch.equal(fast(x, mask), blend(x, mask))
            assert torch.equal(fast(x, mask, x, scale=0.5, other=1), blend(x, mask, x, scale=0.5, other=1))
    report = pijit._core.root_report(api.root_of(fast))
    assert report["replays"] > 15
    assert report["exits"] == 0


def test_it_looks_like_the_function(fast):
    assert inspect.signature(fast) == inspect.signature(blend)
    assert (fast.__name__, fast.__qualname__, fast.__doc__) == ("blend", "blend", "Doc.")
    assert fast.__code__.co_filename == blend.__code__.co_filename
    assert fast.__code__.co_firstlineno == blend.__code__.co_firstlineno
    with pytest.raises(TypeError) as plain:
        blend()
    with pytest.raises(TypeError) as jitted:
        fast()
    assert str(jitted.value) == str(plain.value)


WRONG = [
    ((torch.ones(65, 8),), {}, "x is float32[65, 8], and its signature says float32[batch:2..64, 8]: axis 0 has 65"),
    ((torch.ones(1, 8),), {}, "axis 0 has 1; pad it"),
    ((torch.ones(3, 7),), {}, "axis 1 has 7; pass a tensor of that size"),
    ((torch.ones(3),), {}, "it has 1 axes; add or take away axes"),
    ((torch.ones(3, 8).double(),), {}, "x is float64[3, 8]"),
    (([1.0],), {}, "x is of class list, and its signature says float32[batch:2..64, 8]: its class is list"),
    ((None,), {}, "x is None"),
    ((torch.ones(3, 8), torch.ones(4, 1)), {}, "axis 0 has 4, where x.size(0) is 3; pass tensors that agree in batch"),
    ((torch.ones(3, 8), torch.ones(3, 1).int()), {}, "mask is int32[3, 1]"),
    ((torch.ones(3, 8),), {"scale": 2}, "scale is of class int, and its signature says float"),
]


@pytest.mark.parametrize(("arguments", "named", "says"), WRONG)
@pytest.mark.parametrize("calls", [0, 1, 4])
def test_what_does_not_fit_is_an_error(fast, arguments, named, says, calls):
    """Before the first call that fits, and behind replays; what fits is served behind it."""
    x = torch.randn(3, 8)
    for _ in range(calls):
        assert torch.equal(fast(x), blend(x))
    for _ in range(3):
        with pytest.raises(errors.SignatureError) as error:
            fast(*arguments, **named)
        assert str(error.value).startswith(line_of(blend) + ": ")
        assert says in str(error.value)
        assert str(error.value).endswith(", or change signature=")
        assert isinstance(error.value, TypeError)
        assert torch.equal(fast(x), blend(x))


FORM_CASES = [
    ("floating[...]", torch.ones(2, 3).half(), torch.ones(2).int()),
    ("integer", torch.ones(2).long(), torch.ones(2).bool()),
    ("complex", torch.ones(2, dtype=torch.complex64), torch.ones(2)),
    ("any[3, ..., n, n]", torch.ones(3, 7, 2, 2), torch.ones(3, 7, 2, 4)),
    ("any[..., 1..]", torch.ones(3, 2), torch.ones(3, 0)),
    ("any[]", torch.tensor(1.0), torch.ones(1)),
    ("any[..5]", torch.ones(5), torch.ones(6)),
    (torch.float64, torch.ones(2, 3).double(), torch.ones(2, 3)),
    (torch.zeros(2, 3), torch.ones(2, 3), torch.ones(2, 4)),
    (None, None, 0),
    ((int, "float32[n]"), (1, torch.ones(2)), (1.0, torch.ones(2))),
    (["float32[n]", "float32[n]"], [torch.ones(2), torch.ones(2)], [torch.ones(2), torch.ones(3)]),
    (["any"], (torch.ones(2),), (torch.ones(2), torch.ones(2))),
    ({"a": int, "b": {"c": "any[2]"}}, {"a": 1, "b": {"c": torch.ones(2)}}, {"a": 1, "b": {}}),
]


@pytest.mark.parametrize(("form", "fits", "differs"), FORM_CASES)
def test_forms(form, fits, differs):
    def give(thing):
        return [thing]

    fast = pijit.jit(give, signature=[form])
    for _ in range(3):
        assert fast(fits)[0] is fits
        with pytest.raises(errors.SignatureError, match="thing"):
            fast(differs)


@pytest.mark.parametrize(
    ("signature", "says"),
    [
        ({"y": "float32"}, "has no parameter 'y' .there are x"),
        ({"x": "float33[2]"}, "no dtype is called 'float33'; the nearest is 'float32'"),
        ({"x": "float32[2..1]"}, "no size is within '2..1'"),
        ({"x": "float32[2;3]"}, "'2;3' is no size"),
        ({"x": "float32[...,...]"}, "has ... twice"),
        ({"x": "float32[2"}, "is no form"),
        ({"x": 3}, "int object is no form"),
        ("float32", "signature is a dict of forms"),
        (["any"] * 2, "has 2 forms, and .* 1 parameters"),
        ({"x": {1.5: int}}, "keys of a dict are text or numbers"),
    ],
)
def test_what_is_no_signature(signature, says):
    with pytest.raises(errors.UsageError, match=says):
        pijit.jit(lambda x: x, signature=signature)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(4, 2)

    def forward(self, x, shift=0.0):
        return self.inner(x) + shift


def test_a_module_stays_the_same_object():
    net, plain = Net().eval(), Net().eval()
    plain.load_state_dict(net.state_dict())
    assert pijit.jit(net, signature={"x": "float32[*, 4]"}) is net
    assert list(net.state_dict()) == list(plain.state_dict())
    wrong = torch.ones(2, 5)
    others = [net, copy.deepcopy(net), pickle.loads(pickle.dumps(net))]
    for n in (2, 2, 3, 7):
        x = torch.randn(n, 4)
        for each in others:
            assert torch.equal(each(x, shift=1.0), plain(x, shift=1.0))
            with pytest.raises(errors.SignatureError, match=r"in forward\(\): x is float32\[2, 5\]"):
                each(wrong)
    assert pijit._core.root_report(api.root_of(net))["replays"] > 0
    assert pijit.jit(net, signature={"x": "float32[3, 4]"}) is net  # instead of the first one
    assert torch.equal(net(torch.ones(3, 4)), plain(torch.ones(3, 4)))
    with pytest.raises(errors.SignatureError):
        net(torch.ones(2, 4))
    pijit.unjit(net)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        net(wrong)


def test_methods_and_partials():
    class Holder:
        by = 2.0

        def scale(self, x):
            return x * self.by

    x = torch.ones(3)
    fast = pijit.jit(Holder().scale, signature={"x": "float32[3]"})
    for _ in range(3):
        assert torch.equal(fast(x), x * 2)
    with pytest.raises(errors.SignatureError, match="x is float32"):
        fast(torch.ones(4))

    class Callable:
        def __call__(self, x):
            return x

    with pytest.raises(errors.UsageError, match="jit its method"):
        pijit.jit(Callable(), signature={"x": "any"})

    def numbers(x):
        yield x

    with pytest.raises(errors.UsageError, match="signature cannot be had: the body of a generator"):
        pijit.jit(numbers, signature={"x": "any"})


def test_it_holds_where_pijit_is_off(fast):
    program = (
        "import torch, pijit\n"
        "f = pijit.jit(lambda x: x + 1, signature=['float32[2]'])\n"
        "print(f(torch.ones(2)).tolist())\n"
        "try: f(torch.ones(3))\n"
        "except pijit.errors.SignatureError: print('refused')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | {"PIJIT": "0"}, capture_output=True, text=True
    )
    assert done.stdout == "[2.0, 2.0]\nrefused\n", done.stderr
    pijit.disable()
    try:
        with pytest.raises(errors.SignatureError):
            fast(torch.ones(1, 8))
    finally:
        pijit.jit(lambda: None)


def test_threads(fast):
    """Some call with what fits, others with what does not."""
    wrong = []

    def call(n):
        for turn in range(30):
            x = torch.full((n, 8), float(turn))
            try:
                made = fast(x)
            except errors.SignatureError:
                wrong.extend([n] * (2 <= n <= 64))
            else:
                wrong.extend([n] * (not torch.equal(made, blend(x))))

    threads = [threading.Thread(target=call, args=(n,)) for n in (1, 2, 64, 65)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert wrong == []
