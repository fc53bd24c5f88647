"""enable(): which functions become roots by themselves, and when."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
from module_level import at_module_level, report

import pijit
from pijit import _core

pytestmark = pytest.mark.torch

torch: Any = None  # imported by the fixture: where these tests are not run, nothing may import it
X: Any = None


@pytest.fixture(scope="module", autouse=True)
def _torch() -> None:
    global torch, X
    torch = pytest.importorskip("torch")
    X = torch.ones(3)


CALLS = """
for turn in range(5):
    assert torch.equal(f(X), X + X + 1)
    states.append(pijit.status(f).state)
"""


def test_recorded_at_the_second_call() -> None:
    names = at_module_level("def g(x): return x + x\ndef f(x): return g(x) + 1\nstates = []" + CALLS)
    assert names["states"] == ["cold", "recorded", "replaying", "replaying", "replaying"]
    assert report(names["f"])["replays"] == 3
    assert report(names["g"]) == {}  # it runs inside


def test_off_again() -> None:
    names = at_module_level("def f(x): return x + x + 1\nstates = []" + CALLS)
    replays = report(names["f"])["replays"]
    names["f"](X)
    at_module_level("with pijit.stance('off'): f(X)", f=names["f"])
    assert report(names["f"])["replays"] == replays
    at_module_level("f(X)", f=names["f"])
    assert report(names["f"])["replays"] == replays + 1


@pytest.mark.parametrize(
    "source",
    [
        "f = lambda x: x + x + 1",
        "def make(k):\n    def f(x): return x + x + k\n    return f\nf = make(1)",
        "import functools\ndef g(k, x): return x + x + k\nf = functools.partial(g, 1)",
        "class A:\n    def m(self, x): return x + x + 1\na = A()\nf = a.m",
        "class A:\n    @staticmethod\n    def m(x): return x + x + 1\nf = A.m",
        "class A:\n    @classmethod\n    def m(cls, x): return x + x + 1\nf = A.m",
        "class A:\n    def __call__(self, x): return x + x + 1\nf = A()",
        "class A(torch.nn.Module):\n    def forward(self, x): return x + x + 1\nf = A()",
        "def f(*args, **kwargs): return args[0] + args[0] + 1",
    ],
)
def test_kinds_of_functions(source: str) -> None:
    before = pijit.stats()["replays"]
    at_module_level(source + "\nfor turn in range(5):\n    assert torch.equal(f(X), X + X + 1)")
    assert pijit.stats()["replays"] == before + 3


def test_objects_of_one_class_are_apart() -> None:
    models = [torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU()) for _ in range(12)]
    expected = [model(X) for model in models]
    at_module_level("for turn in range(4):\n    got = [m(X) for m in models]", models=models)
    assert all(torch.equal(model(X), result) for model, result in zip(models, expected, strict=True))
    assert [pijit.status(model).state for model in models] == ["replaying"] * 12
    assert [len(pijit.traces(model)) for model in models] == [1] * 12


def test_a_loop_over_many_objects() -> None:
    layers = [torch.nn.Linear(3, 3) for _ in range(40)]
    at_module_level("for turn in range(4):\n    y = X\n    for layer in layers: y = layer(y)", layers=layers)
    assert [pijit.status(layer).state for layer in layers] == ["replaying"] * 40


class TestNotRoots:
    def test_top_levels_and_class_bodies(self) -> None:
        before = {root["root"] for root in _core.roots()}  # of other tests, whose objects wait for the collector
        names = at_module_level(
            """
def g(x): return x + x
for turn in range(4):
    y = X * 2
    class A:
        z = X * 3
        w = g(z)
    v = [g(x) for x in (X, X)]
    d = {k: g(x) for k, x in ((1, X), (2, X))}
"""
        )
        assert report(names["g"])["replays"] > 0
        found = {root["name"] for root in _core.roots() if root["root"] not in before}
        assert not found & {"A", "<module>", "<listcomp>", "<dictcomp>"}

    def test_generators_and_coroutines(self) -> None:
        source = """
def g(x): return x + x
import asyncio
def generator():
    for turn in range(3): yield g(X)
async def coroutine():
    return [g(X) for turn in range(3)]
for turn in range(3):
    assert all(torch.equal(y, X + X) for y in generator())
    assert len(asyncio.run(coroutine())) == 3
"""
        names = at_module_level(source)
        assert report(names["generator"]) == report(names["coroutine"]) == {}
        assert report(names["g"])["replays"] >= 6

    def test_without_operators(self) -> None:
        names = at_module_level("def f(x): return x\nfor turn in range(9): f(1)")
        assert report(names["f"]) == {}

    def test_a_driver_without_operators_of_its_own_is_looked_through(self) -> None:
        """Three calls without operators, and what it calls is outermost."""
        names = at_module_level(
            """
def g(x): return x + x
def f(x): return None if x is None else g(x)
for x in (None, None, None, X, X, X, X): f(x)
"""
        )
        assert report(names["f"]) == {}
        assert report(names["g"])["replays"] == 2

    def test_skip_and_opaque(self) -> None:
        source = "def g(x): return x + x\ndef f(x): return g(x) + 1\npijit.{}(f)\nfor turn in range(5): f(X)"
        names = at_module_level(source.format("skip"))
        assert report(names["f"]) == {}
        assert report(names["g"])["replays"] == 3
        names = at_module_level(source.format("opaque"))
        assert report(names["f"]) == report(names["g"]) == {}

    def test_opaque_once_it_has_been_left_alone(self) -> None:
        """A function without operators is not looked at any more: a mark that comes later counts all the same."""
        source = """
def g(x): return x + x
def f(x): return None if x is None else g(x)
def other(x): return None if x is None else g(x)
for turn in range(9): f(None), other(None)
pijit.{}(f)
for turn in range(5): {}(X)
"""
        assert report(at_module_level(source.format("opaque", "f"))["g"]) == {}
        assert report(at_module_level(source.format("opaque", "other"))["g"])["replays"] == 3
        assert report(at_module_level(source.format("skip", "f"))["g"])["replays"] == 3

    def test_another_function_of_the_same_code_is_opaque(self) -> None:
        names = at_module_level(
            """
def make(g):
    def f(x): return None if x is None else g(x)
    return f
def g(x): return x + x
def h(x): return x + x
f, opaque = make(g), pijit.opaque(make(h))
for turn in range(9): f(None), opaque(None)
for turn in range(5): f(X), opaque(X)
"""
        )
        assert report(names["g"])["replays"] == 3
        assert report(names["h"]) == {}

    def test_skipped_later(self) -> None:
        names = at_module_level("def f(x): return x + x\nfor turn in range(5): f(X)")
        assert report(names["f"])["replays"] == 3
        pijit.skip(names["f"])
        assert report(names["f"]) == {}
        at_module_level("for turn in range(5): assert torch.equal(f(X), X + X)", f=names["f"])
        assert report(names["f"]) == {}

    def test_functions_that_are_made_anew(self) -> None:
        before = pijit.stats()["records"]
        at_module_level("for turn in range(100):\n    f = lambda x: x + x\n    assert torch.equal(f(X), X + X)")
        assert pijit.stats()["records"] - before <= 16

    def test_objects_of_a_class_two_of_which_were_given_up(self) -> None:
        """Each call of such a method would be recorded anew, and so with the next object."""
        names = at_module_level(
            "class A:\n"
            "    def m(self, x, how): return x + int(how)\n"
            "objects, found, states = [A() for _ in range(5)], [], []\n"
            "for a in objects:\n"
            "    before = pijit.stats()['records']\n"
            "    for turn in range(120): found.append(a.m(X, f'{turn:03}'))\n"
            "    states.append(pijit.stats()['records'] - before)\n"
        )
        assert all(map(torch.equal, names["found"], names["found"][:120] * 5))
        assert names["states"][0] > 0
        assert names["states"][2:] == [0, 0, 0]

    def test_objects_that_are_made_anew(self) -> None:
        before = pijit.stats()["records"]
        source = "class A:\n    def m(self, x): return x + x\nfor turn in range(100):\n    A().m(X)"
        at_module_level(source)
        assert pijit.stats()["records"] - before <= 16


class TestPassingOn:
    def test_what_a_root_left_alone_calls(self) -> None:
        source = """
def g(x): return x + x
def f(a, b): return g(a[0]) if len(b) else None
many = [X] * 1000
for turn in range(10): f(many, many)
"""
        names = at_module_level(source)
        assert report(names["f"])["disabled"]
        assert report(names["g"])["replays"] > 0


class TestElsewhere:
    def test_threads(self) -> None:
        source = """
import threading
results = []
def work(x): return x + x
def run():
    for turn in range(4): results.append(work(X))
threads = [threading.Thread(target=pijit.skip(run)) for _ in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
        names = at_module_level(source)
        assert len(names["results"]) == 12
        assert all(torch.equal(result, X + X) for result in names["results"])

    def test_recursion(self) -> None:
        names = at_module_level(
            "def f(x, n): return x + f(x, n - 1) if n else x\nfor turn in range(5): assert torch.equal(f(X, 6), 7 * X)"
        )
        assert report(names["f"])["replays"] == 3
        assert report(names["f"])["records"] == 1

    def test_exceptions(self) -> None:
        source = """
def f(x):
    y = x + x
    raise KeyError(y.shape)
for turn in range(5):
    try: f(X)
    except KeyError as error: assert error.args == ((3,),)
    else: assert False
"""
        names = at_module_level(source)
        assert pijit.status(names["f"]).state in {"recorded", "replaying", "disabled"}

    def test_found_in_a_call_from_c(self) -> None:
        names = at_module_level(
            "def f(x): return x + x\ny = list(map(f, [X] * 5))\nz = sorted([3, 1, 2], key=lambda k: -k)"
        )
        assert report(names["f"])["replays"] == 3
        assert names["z"] == [3, 2, 1]


def test_a_whole_program(tmp_path: Any) -> None:
    """`python -m pijit` with a main(): its steps are found, with the result of plain python."""
    (tmp_path / "train.py").write_text(
        """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = torch.nn.Linear(4, 8), torch.nn.Linear(8, 1)
    def forward(self, x):
        return self.two(torch.relu(self.one(x)))
def step(net, optimizer, x):
    optimizer.zero_grad()
    loss = net(x).pow(2).mean()
    loss.backward()
    optimizer.step()
    return loss.item()
def main():
    torch.manual_seed(0)
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    losses = [step(net, optimizer, torch.randn(5, 4)) for _ in range(400)]
    print([loss.hex() for loss in losses[::20]])
if __name__ == "__main__":
    main()
"""
    )
    plain = subprocess.run([sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    command = [sys.executable, "-m", "pijit", "--report", "train.py"]
    env = os.environ | {"PIJIT_LONG_CALL": "10"}
    mine = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
    assert mine.stdout == plain.stdout
    assert " step (train.py:9)" in mine.stderr
