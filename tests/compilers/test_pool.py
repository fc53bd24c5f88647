"""Compiling beside the program: in a process of its own, within limits, and nothing of it left at the end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from plans import agrees, captured, model

import pijit
from pijit.compilers import Backend, Options, Plan, get, pool
from pijit.errors import BackendError

pytestmark = pytest.mark.torch

REMOTE = [name for name in ("xla", "onnxruntime", "openvino") if pijit.backends().get(name) == "usable"]
SLOW = [name for name in ("iree", "tvm", "inductor") if pijit.backends().get(name) == "usable"]
needs_remote = pytest.mark.skipif(not REMOTE, reason="no backend that compiles in a process is installed")


@pytest.fixture(autouse=True)
def _limits() -> Iterator[None]:
    names = ("compile_workers", "compile_seconds", "compile_memory")
    before = {name: getattr(pijit.config, name) for name in names}
    yield
    pijit.config.update(before)


@pytest.mark.parametrize(
    "name", ["native", "torchscript", *REMOTE, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]
)
def test_a_plan_comes_of_itself_and_sees_what_is_written_meanwhile(name: str) -> None:
    module, inputs, _ = model("mlp")
    compiler = get(name)
    pijit.config.update({"compile_seconds": 600})  # a busy machine
    handle = pool.submit(captured(module, inputs(0)), name)
    with torch.no_grad():
        module[0].weight.mul_(1.5)
    plan = handle.wait()
    assert plan is not None
    assert handle.state == "done"
    assert handle.poll() is plan
    agrees(compiler, plan, module, inputs(0))
    with torch.no_grad():
        module[0].weight.mul_(1.5)
    if not plan.shares_weights:
        plan.rebind({name: weight for name, weight in captured(module, inputs(0)).data.items()})
    agrees(compiler, plan, module, inputs(1))


@needs_remote
def test_folded_weights_travel_with_the_graph() -> None:
    module, inputs, _ = model("convolutions")
    for name in REMOTE:
        plan = pool.submit(captured(module, inputs(0)), name, Options(fold=True)).wait(100)
        assert plan is not None and plan.folded  # noqa: PT018
        agrees(get(name), plan, module, inputs(0))
        agrees(get(name), plan, module, inputs(1))


@needs_remote
def test_a_process_says_what_a_backend_has_not_got() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.special.bessel_j0(x.sin() * 2).cos() + 1

    graph = captured(fn, torch.ones(3))
    for name in REMOTE:
        plan = pool.submit(graph, name).wait(100)
        assert plan is not None
        assert len(plan.left_out) == 1
        for seed in range(2):
            agrees(get(name), plan, fn, torch.randn(3, generator=torch.Generator().manual_seed(seed)))


class _Bad(Backend):
    """Does what is asked of it: raises, exits, hangs, takes memory, is killed, or gives nothing."""

    name = "bad"
    doc = "fails"
    packages = ()
    remote = True
    settings = ("what",)

    def build(self, graph: Any, options: Options, directory: Path) -> None:
        what = options.settings["what"]
        if what == "raise":
            raise ZeroDivisionError("in the compiler")
        if what == "exit":
            print("the last words", flush=True)
            os._exit(3)
        if what == "hang":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            subprocess.Popen(["sleep", "77"])
            time.sleep(77)
        if what == "threads":
            raise ValueError(f"{options.threads} threads, {torch.get_num_threads()} of torch")
        if what == "memory":
            held = []
            while True:
                held.append(bytearray(1 << 26))
        if what == "killed":
            os.kill(os.getpid(), signal.SIGKILL)

    def load(self, graph: Any, options: Options, directory: Path) -> Plan:
        if options.settings["what"] == "thread":
            raise OSError("nothing there")
        return Plan(self.name, lambda *inputs: (), results=())


BACKEND = _Bad()


@pytest.fixture
def bad(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Backend:
    """The backend above as that of an installed package, which the process finds, too."""
    package = tmp_path / "bad_backend-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: bad-backend\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text("[pijit.backends]\nbad = bad_backend:BACKEND\n")
    source = "import sys\n" + f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n" + Path(__file__).read_text()
    (tmp_path / "bad_backend.py").write_text(source.replace("from __future__ import annotations\n", ""))
    monkeypatch.syspath_prepend(str(tmp_path))
    return BACKEND


def test_a_process_has_as_many_threads_as_torch(bad: Backend) -> None:
    graph, before = captured(torch.exp, torch.ones(3)), torch.get_num_threads()
    try:
        for threads in (2, 1):
            torch.set_num_threads(threads)
            with pytest.raises(BackendError, match=f"{threads} threads, {threads} of torch"):
                pool.submit(graph, bad, Options(settings={"what": "threads"})).wait()
        with pytest.raises(BackendError, match="2 threads, 2 of torch"):
            pool.submit(graph, bad, Options(threads=2, settings={"what": "threads"})).wait()
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("raise", "'bad' cannot take this graph: ZeroDivisionError: in the compiler"),
        ("exit", "ended with status 3: the last words"),
        ("hang", "longer than 6 seconds"),
        ("memory", "more memory than it may have|ended with"),
        ("killed", "ended with SIGKILL"),
        ("thread", "OSError: nothing there"),
    ],
)
def test_whatever_goes_wrong_in_the_process_is_a_backend_error(bad: Backend, what: str, message: str) -> None:
    pijit.config.compile_seconds = 6 if what == "hang" else 60
    pijit.config.compile_memory = 2048
    graph = pijit.graph.capture(torch.relu, torch.ones(2))
    before = _sleepers()
    handle = pool.submit(graph, bad, Options(settings={"what": what}))
    assert handle.poll() is None
    for _ in range(2):
        with pytest.raises(BackendError, match=message):
            handle.wait(100)
    assert handle.state == "failed"
    assert _sleepers() == before
    plan = pool.submit(graph, "torchscript").wait(60)
    assert plan is not None
    assert plan(torch.tensor([-1.0, 1.0]))[0].tolist() == [0, 1]


def _sleepers() -> set[str]:
    found = set()
    for each in Path("/proc").iterdir():
        try:
            if each.name.isdecimal() and (each / "cmdline").read_bytes() == b"sleep\x0077\x00":
                if (each / "stat").read_text().rpartition(")")[2].split()[0] != "Z":
                    found.add(each.name)
        except OSError:
            continue
    return found


def test_the_most_urgent_is_compiled_first_and_one_can_be_given_up() -> None:
    order: list[str] = []
    graph = pijit.graph.capture(torch.relu, torch.ones(2))

    class Slow(Backend):
        packages = ()

        def __init__(self, name: str) -> None:
            self.name = name

        def make(self, graph: Any, options: Options) -> Plan:
            order.append(self.name)
            time.sleep(0.2)
            return Plan(self.name, lambda x: (x,), results=())

    first = pool.submit(graph, Slow("first"))
    while first.state == "waiting":
        time.sleep(0.01)
    handles = [pool.submit(graph, Slow(f"{priority}"), priority=priority) for priority in (1, 3, 2)]
    given_up = pool.submit(graph, Slow("given up"), priority=9)
    given_up.cancel()
    for handle in (first, *handles):
        assert handle.wait(60) is not None
    assert order == ["first", "3", "2", "1"]
    with pytest.raises(BackendError, match="given up"):
        given_up.poll()


@needs_remote
@pytest.mark.parametrize("how", ["end", "exit", "kill"])
def test_nothing_is_left_when_the_program_ends(how: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import os, sys, time, torch, pijit\n"
        "from pijit.compilers import pool\n"
        "print('main runs')\n"
        "graph = pijit.graph.capture(torch.relu, torch.ones(2))\n"
        f"handles = [pool.submit(graph, {REMOTE[0]!r}) for _ in range(3)]\n"
        "while handles[0]._process is None: time.sleep(0.01)\n"
        "print(handles[0]._process.pid, flush=True)\n"
        f"if {how!r} == 'exit': sys.exit(0)\n"
        f"if {how!r} == 'kill': os.kill(os.getpid(), 9)\n"
    )
    began = time.monotonic()
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environment)
    assert done.returncode == (-9 if how == "kill" else 0), done.stderr
    said, process = done.stdout.split("\n")[:2]
    assert done.stdout.count("main runs") == 1
    assert not done.stderr
    while Path(f"/proc/{process}").exists() and time.monotonic() - began < 60:
        time.sleep(0.05)
    assert not Path(f"/proc/{process}").exists()
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith("pijit-")] == []


def test_a_child_that_is_forked_compiles_for_itself() -> None:
    graph = pijit.graph.capture(torch.relu, torch.ones(2))
    assert pool.submit(graph, "torchscript").wait(60) is not None
    child = os.fork()
    if child == 0:
        plan = pool.submit(graph, "torchscript").wait(30)
        os._exit(0 if plan is not None and plan(torch.ones(2))[0].tolist() == [1, 1] else 1)
    assert os.waitpid(child, 0)[1] == 0
