"""The market: what is begun, in which order, and what is left of it at the end of the program."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import pijit
from pijit.compilers import Backend, Options, Plan, get, market, pool, torchscript

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def without_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield
    market.wait(60)


def layers(width: int = 16) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 4)).eval()


class Noting(Backend):
    """Compiles with torch, and notes what it was given; folds, but for the names in `bound`."""

    packages = ()
    settings = ()

    def __init__(self, name: str, folds: bool = False) -> None:
        self.name, self.folds = name, folds
        self.compiled: list[tuple[int, bool]] = []
        self.slow = 0.0

    def make(self, graph: Any, options: Options) -> Plan:
        self.compiled.append((len(graph.nodes), options.fold))
        time.sleep(self.slow)
        return get("torchscript").make(graph, options)


def automatic(fn: Callable[..., Any], *backends: Backend, **options: Any) -> Any:
    """`fn` as by backend="auto", with these backends alone."""
    from pijit import _core, api

    fast = pijit.jit(fn)
    _core.set_market(
        api.root_of(fast), market.Market(backends, Options(threads=1, **options), turns=True, automatic=True)
    )
    return fast


def keys(fast: Any) -> list[Any]:
    return [key for trace in pijit.traces(fast) for segment in trace.segments for key in segment.keys]


def test_auto_asks_for_what_stalls_only_where_it_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = get("torchscript")
    monkeypatch.setattr(backend, "stalls", True)
    for package, asked in (("torch", True), ("compileall_of_nobody", False)):
        monkeypatch.setattr(backend, "packages", ("torch", package))
        monkeypatch.setattr(backend, "usable", lambda: None)
        made = market.market("auto")
        assert made is not None
        assert ("torchscript" in {each.name for each in made.backends}) is asked
    by_name = market.market("torchscript")
    assert by_name is not None
    assert [each.name for each in by_name.backends] == ["torchscript"]


def test_auto_begins_nothing_for_a_few_quick_operators() -> None:
    noting = Noting("noting")
    fast = automatic(lambda x: (x * 2).tanh() + 1, noting)
    x = torch.randn(2, 2)
    for _ in range(5):
        assert torch.equal(fast(x), (x * 2).tanh() + 1)
        assert market.wait(60)
    assert not noting.compiled
    assert keys(fast)[0].refused == {"auto": "not begun: 3 operators are too few to repay it"}
    big = torch.randn(400, 800)
    for _ in range(4):
        assert torch.equal(fast(big), (big * 2).tanh() + 1)
        assert market.wait(60)
    assert noting.compiled == [(3, False)]


def test_auto_begins_what_is_called_again() -> None:
    noting, module = Noting("noting"), layers()
    fast = automatic(lambda x: module(x), noting)
    x = torch.randn(3, 8)
    fast(x)
    fast(x)
    assert market.wait(60)
    assert not noting.compiled
    fast(x)
    assert market.wait(60)
    assert noting.compiled == [(5, False)]
    other = torch.randn(5, 8)
    assert torch.equal(fast(other), module(other))
    assert market.wait(60)
    assert len(noting.compiled) == 1
    assert torch.equal(fast(other), module(other))
    assert market.wait(60)
    assert len(noting.compiled) == 2
    named = Noting("named")
    fast = pijit.jit(lambda x: module(x))
    from pijit import _core, api

    _core.set_market(api.root_of(fast), market.Market([named]))
    fast(x)
    fast(x)
    assert market.wait(60)
    assert named.compiled == [(5, False)]


def test_the_hottest_segment_is_compiled_first() -> None:
    noting, small, large = Noting("noting"), layers(), nn.Sequential(layers(), nn.Linear(4, 8), layers())
    blocking = Noting("blocking")
    blocking.slow = 0.7
    first = automatic(lambda x: small(x) - 1, blocking)
    cold = automatic(lambda x: small(x) * 2, noting)
    hot = automatic(lambda x: large(x) * 2, noting)
    x = torch.randn(3, 8)
    for _ in range(3):
        first(x)
    deadline = time.monotonic() + 20
    while not blocking.compiled and time.monotonic() < deadline:
        time.sleep(0.01)
    for fast in (cold, hot):
        for _ in range(3):
            fast(x)
    assert market.wait(60)
    assert [nodes for nodes, _ in noting.compiled] == [12, 6]
    assert torch.equal(hot(x), large(x) * 2)
    assert torch.equal(cold(x), small(x) * 2)


def test_weights_that_are_written_while_it_compiles_are_no_difference() -> None:
    noting, module = Noting("noting"), layers()
    noting.slow = 0.5
    fast = automatic(lambda x: module(x), noting)
    x = torch.randn(3, 8)
    for _ in range(3):
        fast(x)
    deadline = time.monotonic() + 20
    while not noting.compiled and time.monotonic() < deadline:
        time.sleep(0.01)
    module[0].weight.mul_(2)
    assert torch.equal(fast(x), module(x))
    assert market.wait(60)
    for _ in range(4):
        assert torch.equal(fast(x), module(x))
        assert market.wait(60)
    assert market.of(fast).outcomes[-1].state == "installed"
    assert torch.equal(fast(x), module(x))


@pytest.mark.parametrize("how", ["written", "replaced"])
def test_folded_weights_are_candidates_of_their_own_and_go_when_they_change(how: str) -> None:
    folding, bound, module = Noting("folding", folds=True), Noting("bound"), layers()
    fast = automatic(lambda x: module(x), folding, bound, fold=True)
    x = torch.randn(3, 8)
    for _ in range(3):
        fast(x)
        assert market.wait(60)
    assert folding.compiled == [(5, False), (5, True)]
    assert bound.compiled == [(5, False)]
    assert [plan.backend for plan in keys(fast)[0].plans] == ["folding", "folding (folded)", "bound"]
    for _ in range(40):  # whoever answers
        torch.testing.assert_close(fast(x), module(x))
    if how == "written":
        module[0].weight.mul_(2)
    else:
        module[0].weight = nn.Parameter(module[0].weight * 2)
    for _ in range(12):
        torch.testing.assert_close(fast(x), module(x))
    (key,) = keys(fast)[:1]
    assert key.answers != "folding (folded)"  # it may still be there, as one that has lost: its next call drops it


@pytest.mark.parametrize("how", ["written", "replaced"])
def test_a_folded_plan_is_dropped_by_the_next_call(how: str) -> None:
    from pijit import _core, api

    module, x = layers(), torch.randn(3, 8)
    fast = pijit.jit(lambda x: module(x))
    _core.set_market(api.root_of(fast), market.Market([Noting("folding", folds=True)], Options(fold=True)))
    for _ in range(3):
        fast(x)
        assert market.wait(60)
    runs = keys(fast)[0].plans[0].runs
    torch.testing.assert_close(fast(x), module(x))
    assert keys(fast)[0].plans[0].runs == runs + 1
    if how == "written":
        module[0].weight.mul_(2)
    else:
        module[0].weight = nn.Parameter(module[0].weight * 2)
    assert torch.equal(fast(x), module(x))
    assert torch.equal(fast(x), module(x))
    first = keys(fast)[0]
    assert not first.plans or first.plans[0].runs == runs + 1
    if how == "written":
        assert "the weights are part of this plan" in first.refused["folding"]


def test_what_the_program_draws_meanwhile_is_not_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random numbers that the program draws while TorchScript compiles."""
    trace, drawn = torchscript._traced, []

    def tracing(*args: Any, **kwargs: Any) -> Any:
        drawn.append(torch.rand(3))
        return trace(*args, **kwargs)

    module = layers()
    graph = pijit.graph.capture(lambda x: module(x), torch.ones(3, 8))
    monkeypatch.setattr(torchscript, "_traced", tracing)
    torch.manual_seed(5)
    get("torchscript").compile(graph)
    drawn.append(torch.rand(3))
    torch.manual_seed(5)
    assert torch.equal(torch.cat(drawn), torch.rand(6))


def test_an_unexpected_error_ends_the_row(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def __init__(self, *arguments: object) -> None:
            raise RuntimeError("no plan is made of this")

    monkeypatch.setattr(market, "Made", Broken)
    model, x = layers(), torch.randn(2, 8)
    fast = automatic(model, Noting("noted"))
    for _ in range(4):
        assert torch.equal(fast(x), model(x))
        assert market.wait(60)
    rows = {row.backend: row.state for row in market.of(fast).outcomes}
    assert rows == {"noted": "RuntimeError: no plan is made of this"}


def test_without_consent_nothing_is_folded() -> None:
    folding, module = Noting("folding", folds=True), layers()
    fast = automatic(lambda x: module(x), folding)
    for _ in range(3):
        fast(torch.ones(3, 8))
        assert market.wait(60)
    assert folding.compiled == [(5, False)]
    usable = market.market("auto", {"fold": True})
    assert usable is not None
    assert {"torchscript", "torchscript (folded)"} <= {name for name, _, _ in usable.candidates()}


def test_options_limit_what_compiles() -> None:
    before = pijit.config.update({"compile_workers": 3, "compile_seconds": 7, "compile_memory": 100})
    try:
        assert (pool.limits.workers, pool.limits.seconds, pool.limits.memory) == (3, 7, 100 << 20)
    finally:
        pijit.config.update(before)
    assert pool.limits.workers == before["compile_workers"]


SLOW = """
    import sys, time, torch, pijit
    begun = []
    def slow(module, example_inputs):
        begun.append(1)
        if {print!r}: print("compiling", flush=True)
        time.sleep({seconds})
        return module.forward
    pijit.register_backend("slow", slow)
    module = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).eval()
    fast = pijit.jit(lambda x: module(x) * 2, backend="slow")
    with torch.no_grad():
        for _ in range(3): fast(torch.ones(2, 8))
    from pijit.compilers import market
"""


def program(tmp_path: Path, tail: str, seconds: float = 60.0, says: bool = True) -> list[str]:
    file = tmp_path / "program.py"
    file.write_text(textwrap.dedent(SLOW).format(seconds=seconds, print=says) + tail)
    return [sys.executable, str(file)]


@pytest.mark.parametrize("how", ["end", "exit"])
def test_a_program_that_ends_while_something_compiles(how: str, tmp_path: Path) -> None:
    tail = "while not begun: time.sleep(0.01)\ntime.sleep(0.2)\nprint('end', flush=True)\n" + (
        "sys.exit(3)\n" if how == "exit" else ""
    )
    began = time.monotonic()
    done = subprocess.run(program(tmp_path, tail), capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == (3 if how == "exit" else 0)
    assert done.stdout == "compiling\nend\n"
    assert not done.stderr
    assert time.monotonic() - began < 50  # what compiles would take longer


def on_terminal(command: list[str], **environment: str) -> tuple[str, str]:
    """Standard error of a program, which is a terminal, and its standard output."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=theirs, env={**os.environ, "TERM": "xterm", **environment}
    )
    os.close(theirs)
    shown, until = b"", time.monotonic() + 100
    while time.monotonic() < until:
        if select.select([ours], [], [], 0.2)[0]:
            try:
                part = os.read(ours, 4096)
            except OSError:
                break
            if not part:
                break
            shown += part
        elif process.poll() is not None:
            break
    out = process.communicate(timeout=60)[0]
    os.close(ours)
    assert process.returncode == 0, shown
    return shown.decode(), out.decode()


def test_what_compiles_for_long_is_shown_on_a_terminal_and_goes(tmp_path: Path) -> None:
    pytest.importorskip("rich")
    tail = "assert market.wait(60)\ntime.sleep(1)\nprint('end', flush=True)\n"
    shown, out = on_terminal(program(tmp_path, tail, 4.5, says=False))
    assert out == "end\n"
    assert "pijit: compiling with slow, 2 s" in shown
    assert "\n" not in shown
    assert shown.endswith("\r\x1b[2K")
    command = program(tmp_path, tail, 4.5, says=False)
    assert not on_terminal(command, PIJIT_QUIET="1")[0]
    assert not subprocess.run(command, capture_output=True, timeout=100, check=True).stderr


def test_what_compiles_quickly_is_not_shown(tmp_path: Path) -> None:
    tail = "assert market.wait(60)\nprint('end', flush=True)\n"
    shown, out = on_terminal(program(tmp_path, tail, 0.5, says=False))
    assert (shown, out) == ("", "end\n")


def test_the_line_goes_when_the_program_ends(tmp_path: Path) -> None:
    pytest.importorskip("rich")
    tail = "while not begun: time.sleep(0.01)\ntime.sleep(4)\nprint('end', flush=True)\n"
    shown, out = on_terminal(program(tmp_path, tail, 60.0, says=False))
    assert out == "end\n"
    assert "pijit: compiling with slow, 3 s" in shown
    assert shown.endswith("\r\x1b[2K")


REPORTED = """
    import torch, pijit
    from pijit.compilers import market
    def bad(module, example_inputs):
        raise ZeroDivisionError("of no use")
    pijit.register_backend("bad", bad)
    module = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).eval()
    def step(x):
        with pijit.region("bad"):
            y = (x * 2).tanh() + 1
        return module(y) * 2
    with torch.no_grad():
        for _ in range(30):
            step(torch.ones(2, 8))
            assert market.wait(60)
"""


def reported(tmp_path: Path, *arguments: str) -> str:
    (tmp_path / "steps.py").write_text(textwrap.dedent(REPORTED))
    command = [sys.executable, "-m", "pijit", *arguments, "steps.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_a_report_sums_up_the_market(tmp_path: Path) -> None:
    said = reported(tmp_path, "--backend", "torchscript", "--report")
    assert "  step (steps.py:8): 2 segments, 100% of the operators" in said
    assert "nodes 1 to 3, pijit.region('bad'): 3 operators" in said
    assert "Float[2, 8]: torchscript: " in said
    assert ", beside the program: torchscript " in said
    refused = [line for line in said.splitlines() if line.startswith("  bad, ")]
    assert len(refused) == 1
    assert refused[0].startswith("  bad, 1 time: steps.py:8 in step(): backend 'bad' cannot take this graph")


def test_a_report_of_the_market_as_json_and_html(tmp_path: Path) -> None:
    reported(tmp_path, "--backend=torchscript", "--report=report.json", "--report=report.html")
    made = json.loads((tmp_path / "report.json").read_text())["compilers"]
    (function,) = made["functions"]
    inside, behind = function["segments"]
    assert (function["name"], function["share"], inside["region"]) == ("step", 1, "pijit.region('bad')")
    assert (inside["keys"][0]["answers"], behind["keys"][0]["answers"]) == ("native", "torchscript")
    assert made["seconds"]["torchscript"][0] > 0
    assert [(row["backend"], row["times"]) for row in made["refused"]] == [("bad", 1)]
    page = (tmp_path / "report.html").read_text()
    assert "<h2>Compilers</h2>" in page
    assert "pijit.region(&#x27;bad&#x27;)" in page
    reported(tmp_path, "--report=plain.json")
    plain = json.loads((tmp_path / "plain.json").read_text())["compilers"]
    assert [segment["region"] for segment in plain["functions"][0]["segments"]] == ["pijit.region('bad')"]


def test_explain_shows_the_contenders() -> None:
    module = layers()
    fast = pijit.jit(lambda x: module(x) * 2, backend=["torchscript", "native"])
    x = torch.randn(3, 8)
    for _ in range(30):
        fast(x)
        assert market.wait(60)
    told = str(pijit.explain(fast, x))
    assert re.search(r"torchscript: \d+ runs, \d+ us, compiled in \d+\.\d\d s, differs by 0", told)
    assert re.search(r"native: \d+ runs, \d+ us", told)
    assert keys(fast)[0].answers in {"torchscript", "native"}
