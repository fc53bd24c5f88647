"""Loops whose turns are training steps become roots, at module level, too (csrc/hook/in_loop.h)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from module_level import entered_loops, plain_and_enabled

import pijit
from pijit import _core

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(sys.version_info >= (3, 12), reason="from CPython 3.12 on frames come back a few times only"),
]

torch: Any = None  # imported by the fixture: where these tests are not run, nothing may import it


@pytest.fixture(autouse=True)
def _at_once() -> Iterator[None]:
    """A call has run long when it has made a few others."""
    global torch
    torch = pytest.importorskip("torch")
    before = pijit.config.update({"long_call": 0, "enter_loops": False, "enter_steps": True})
    yield
    pijit.config.update(before)


NET = """
torch.manual_seed(7)
net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
data = [torch.randn(5, 3) for _ in range(8)]
said = []
def weights(): return [p.detach().clone() for p in net.parameters()]
"""
STEP = """
    opt.zero_grad()
    loss = net(x).pow(2).mean()
    loss.backward()
    opt.step()
"""


def deeper(text: str, by: int = 1) -> str:
    return text.replace("\n    ", "\n    " + "    " * by)


def loops(name: str = "<module>") -> list[Any]:
    return entered_loops(name)


def replays(name: str = "<module>") -> int:
    return sum(loop["replays"] for loop in loops(name))


def both(body: str, result: str = "loss, i, x", setup: str = NET) -> dict[str, Any]:
    """The same program in plain Python and under enable(): all that it leaves is the same."""
    pijit.reset()
    return plain_and_enabled(f"{setup}{body}\nleft = (({result}), weights(), said, torch.rand(3))\n")


class TestModuleLevel:
    def test_a_loop(self) -> None:
        both(
            f"""
total = 0.0
for i in range(300):
    x = data[i % 8]{STEP}
    total += loss.item()
""",
            "total, loss, i, x",
        )
        assert replays() > 150

    def test_epochs_around_it(self) -> None:
        both(
            f"""
for epoch in range(30):
    running = 0.0
    for i, x in enumerate(data):{deeper(STEP)}
        running += loss.item()
    if epoch % 7 == 0: said.append((epoch, repr(running)))
""",
            "epoch, running, i, x",
        )
        assert replays() > 60

    def test_what_it_relies_on_changes_in_it(self) -> None:
        """Variables that come and go, a rate, a size, a hook."""
        both(
            f"""
scale = 1.0
for i in range(400):
    x = data[i % 8]
    if i == 150: opt.param_groups[0]["lr"] = 0.01
    if i == 200: x = torch.cat([x, x])
    if i == 250: scale = 0.5
    if i == 280: extra = 3
    if i > 280: extra += 1
    if i == 320: del extra, scale; scale = 2
    if i == 320: extra = 0
    if i == 350: net.register_forward_hook(lambda module, args, out: said.append(out.sum().item()))
    x = x * scale{STEP}
""",
            "loss, i, x, scale, extra",
        )
        assert replays() > 60

    def test_a_name_that_is_missing(self) -> None:
        both(
            f"""
import traceback
try:
    for i in range(200):
        x = data[i % 8]{deeper(STEP)}
        if i == 180: del opt
except NameError as error:
    result = str(error), error.name, [entry.lineno for entry in traceback.extract_tb(error.__traceback__)][-1:]
""",
            "result, loss, i",
        )
        assert replays() > 60

    def test_break_continue_and_else(self) -> None:
        both(
            f"""
for epoch in range(40):
    for i in range(12):
        if i % 5 == 3: continue
        x = data[i % 8]{deeper(STEP)}
        if epoch % 6 == 5 and i == 7:
            said.append(("break", epoch, i, loss.item()))
            break
    else:
        said.append(("else", epoch, i))
""",
            "loss, i, x, epoch",
        )
        assert loops()

    def test_an_exception_in_a_turn(self) -> None:
        both(f"""
import traceback
for i in range(300):
    try:
        x = data[i % 8] if i % 50 != 49 else torch.ones(2, 2){deeper(STEP)}
    except RuntimeError as error:
        said.append((i, str(error), traceback.extract_tb(error.__traceback__)[0].lineno))
""")
        assert loops()

    def test_functions_see_its_variables(self) -> None:
        """What a function reads and writes of the module's, and a global of the same name as a builtin."""
        both(
            f"""
seen = 0
def look():
    global seen
    seen += 1
    said.append((seen, i, len(globals()) > 5, repr(loss.item())))
for i in range(240):
    x = data[i % 8]{STEP}
    if i % 10 == 0: look()
    if i == 200: abs = lambda value: -1
    y = abs(i)
""",
            "loss, i, seen, y",
        )
        assert replays() > 60


class TestFunctions:
    def test_it_is_entered_at_once(self) -> None:
        """A few turns are enough, and its pieces are not recorded before."""
        before = pijit.config.give_up
        pijit.config.give_up = True
        try:
            names = both(
                f"""
def fit(turns):
    for i in range(turns):
        x = data[i % 8]{deeper(STEP)}
    return loss, i
result = fit(400)
""",
                "result",
            )
        finally:
            pijit.config.give_up = before
        (loop,) = loops("fit")
        assert loop["compared"] > 0
        assert loop["replays"] > 100 or loop["disabled"]
        assert names["result"][1] == 399

    def test_the_option_is_off(self) -> None:
        pijit.config.enter_steps = False
        both(
            f"""
def unentered():
    for i in range(200):
        x = data[i % 8]{deeper(STEP)}
    return loss
result = unentered()
""",
            "result",
        )
        assert not loops("unentered")

    def test_a_loop_that_trains_nothing_is_not_entered(self) -> None:
        both(
            """
def evaluate():
    total = 0.0
    with torch.no_grad():
        for i in range(300): total += net(data[i % 8]).sum().item()
    return total
result = evaluate()
""",
            "result",
        )
        assert not loops("evaluate")

    def test_other_ways_to_compute_gradients(self) -> None:
        both(
            """
def by_grad():
    for i in range(250):
        x = data[i % 8]
        loss = net(x).pow(2).mean()
        grads = torch.autograd.grad(loss, list(net.parameters()))
        with torch.no_grad():
            for p, g in zip(net.parameters(), grads): p -= 0.01 * g
    return loss, i
def by_function():
    for i in range(250):
        x = data[i % 8]
        opt.zero_grad()
        loss = net(x).pow(2).mean()
        torch.autograd.backward([loss])
        opt.step()
    return loss, i
result = by_grad(), by_function()
""",
            "result",
        )
        assert replays("by_function") > 100

    def test_schedulers_logs_and_accumulation(self) -> None:
        both(
            """
def long_one():
    schedule = torch.optim.lr_scheduler.StepLR(opt, 20, 0.9)
    best = None
    for epoch in range(6):
        for i, x in enumerate(data * 10):
            loss = net(x).pow(2).mean() / 2
            loss.backward()
            if i % 2:
                torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
                opt.step()
                opt.zero_grad()
            if i % 10 == 0: said.append((epoch, i, repr(loss.item()), schedule.get_last_lr()))
            if best is None or loss.item() < best: best = loss.item()
            schedule.step()
    return best, loss
result = long_one()
""",
            "result",
        )
        assert loops("long_one")

    def test_a_second_call(self) -> None:
        both(
            f"""
def twice(net, opt, turns):
    for i in range(turns):
        x = data[i % 8]{deeper(STEP)}
    return loss
first = twice(net, opt, 300)
other = torch.nn.Linear(3, 1)
result = [first] + [twice(other, torch.optim.Adam(other.parameters(), lr=0.02 * (1 + k)), 150) for k in range(3)]
""",
            "result",
        )

    def test_a_generator_that_trains(self) -> None:
        both(
            f"""
def generating():
    for i in range(200):
        x = data[i % 8]{deeper(STEP)}
        if i % 20 == 0: yield loss.item()
result = list(generating())
""",
            "result",
        )


class TestNoRoots:
    @pytest.mark.parametrize("call", ["loss.backward()", "torch.autograd.backward([loss])", "again(loss)"])
    def test_what_only_computes_gradients(self, call: str) -> None:
        """Neither Tensor.backward nor what calls it is recorded by itself."""
        pijit.config.enter_steps = False
        both(
            f"""
def again(loss): (loss / 2).backward()
def turning():
    for i in range(60):
        x = data[i % 8]
        loss = net(x).pow(2).mean()
        {call}
    return loss
result = turning(), [p.grad for p in net.parameters()]
""",
            "result",
        )
        assert not [root for root in _core.roots() if "backward" in root["name"] or "again" in root["name"]]


class TestBars:
    """Functions that run no operator and call the unknown again and again are one opaque call of the turn."""

    def test_lines_that_are_drawn(self) -> None:
        both(
            f"""
import io
class Bar:
    def __init__(self): self.out, self.text, self.n = io.StringIO(), "", 0
    def draw(self, **values):
        self.text = ", ".join(f"{{k}}={{v:.3g}}" for k, v in values.items())
        self.n += 1
        self.out.write("\\r"); self.out.write(self.text); self.out.write(" " * 3); self.out.flush(); self.out.tell()
def drawing():
    bar = Bar()
    for i in range(200):
        x = data[i % 8]{deeper(STEP)}
        bar.draw(loss=loss.item(), turn=i)
        if i == 150: bar.text = bar.out = io.StringIO()
    return bar.n, bar.text, bar.out.getvalue()
result = drawing()
""",
            "result",
        )
        assert replays("drawing") > 60

    def test_tqdm(self) -> None:
        pytest.importorskip("tqdm")
        both(
            f"""
import os
from tqdm import tqdm
def drawing():
    with open(os.devnull, "w") as quiet:
        for epoch in range(4):
            bar = tqdm(data * 10, file=quiet, mininterval=0)
            for i, x in enumerate(bar):{deeper(STEP, 3)}
                bar.set_postfix(loss=loss.item())
            said.append((bar.n, bar.postfix))
    return loss, i
result = drawing()
""",
            "result",
        )


def test_a_script(tmp_path: Path) -> None:
    """`python -m pijit script.py`, whose loop stands at module level: it prints the same."""
    script = tmp_path / "script.py"
    script.write_text(f"""import torch
{NET}
total = 0.0
for i in range(300):
    x = data[i % 8]{STEP}
    total += loss.item()
print(repr(total), [p.sum().item() for p in weights()])
import sys
if "pijit" in sys.modules:
    from pijit import _core
    print(sum(entry["replays"] for entry in _core.entries() if entry["entered"]), file=sys.stderr)
""")
    variables = {**os.environ, "PIJIT_LONG_CALL": "0", "PIJIT_GIVE_UP": "0", "OMP_NUM_THREADS": "1"}

    def run(*before: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *before, str(script)]
        return subprocess.run(command, capture_output=True, text=True, check=True, env=variables)

    plain, pijits = run(), run("-m", "pijit")
    assert plain.stdout == pijits.stdout
    assert int(pijits.stderr.split()[-1]) > 150
