"""Loops of functions that run are entered in their middle (csrc/hook/in_loop.h)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest
from module_level import entered_loops, plain_and_enabled, report

import pijit

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
    before = pijit.config.update({"long_call": 0, "enter_loops": True})
    yield
    pijit.config.update(before)


NET = """
torch.manual_seed(7)
net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.05)
data = [torch.randn(5, 3) for _ in range(8)]
said = []
def weights(): return [p.detach().clone() for p in net.parameters()]
"""


def both(body: str, call: str = "result = fit()", setup: str = NET) -> dict[str, Any]:
    """The same program in plain Python and under enable(): all that it leaves is the same."""
    return plain_and_enabled(f"{setup}{body}\n{call}\nleft = (result, weights(), said, torch.rand(3))\n")


STEP = """
        opt.zero_grad()
        loss = net(x).pow(2).mean()
        loss.backward()
        opt.step()
"""


class TestEntering:
    def test_a_loop_whose_body_is_inline(self) -> None:
        both(f"""
def fit():
    total = 0.0
    for i in range(300):
        x = data[i % 8]{STEP}
        total += loss.item()
    return total, i, x, loss, sorted(locals())
""")
        (loop,) = entered_loops("fit")
        assert loop["replays"] > 150
        assert loop["records"] <= 3

    def test_calls_before_the_loop_and_many_in_it(self) -> None:
        """The loop is found whatever was called before it."""
        both(
            f"""
def helper(x): return x * 2
def prepared():
    helper(data[0]); helper(data[1]); helper(data[2])
    for i in range(400):
        x = helper(helper(data[i % 8])){STEP}
    return i, loss
""",
            "result = prepared()",
        )
        (loop,) = entered_loops("prepared")
        assert loop["replays"] > 100

    def test_the_option_is_off(self) -> None:
        body = f"""
def unentered():
    for i in range(200):
        x = data[i % 8]{STEP}
    return loss
"""
        before = pijit.config.update({"enter_loops": False, "enter_steps": False})
        try:
            both(body, "result = unentered()")
        finally:
            pijit.config.update(before)
        assert not entered_loops("unentered")

    def test_a_method(self) -> None:
        names = both(
            f"""
class Trainer:
    def run(self, turns):
        self.losses = []
        for i in range(turns):
            x = data[i % 8]{STEP.replace("        ", "            ")}
            self.losses.append(loss.item())
        return self.losses
""",
            "trainer = Trainer()\nresult = trainer.run(300)",
        )
        (loop,) = entered_loops("Trainer.run")
        assert loop["replays"] > 150
        assert report(names["trainer"])["records"] == 0

    def test_while(self) -> None:
        both(
            f"""
def turning():
    i = 0
    while i < 300:
        x = data[i % 8]{STEP}
        i += 1
    else:
        said.append(i)
    return i, loss
""",
            "result = turning()",
        )
        assert sum(loop["replays"] for loop in entered_loops("turning")) > 150

    def test_epochs_around_it(self) -> None:
        """The inner loop is entered, and its traces go on to its next beginning."""
        both(
            f"""
def epochs():
    history = []
    for epoch in range(30):
        running = 0.0
        for k, x in enumerate(data):{STEP.replace("        ", "            ")}
            running += loss.item()
        history.append(running / (k + 1))
        if epoch % 7 == 0:
            said.append((epoch, repr(running)))
    return history, epoch, k, x
""",
            "result = epochs()",
        )
        assert sum(loop["replays"] for loop in entered_loops("epochs")) > 60

    def test_break_continue_and_else(self) -> None:
        both(
            f"""
def breaking():
    for epoch in range(40):
        for i in range(12):
            if i % 5 == 3:
                continue
            x = data[i % 8]{STEP.replace("        ", "            ")}
            if epoch % 6 == 5 and i == 7:
                said.append(("break", epoch, i, loss.item()))
                break
        else:
            said.append(("else", epoch, i))
    return epoch, i, loss
""",
            "result = breaking()",
        )
        assert entered_loops("breaking")

    def test_an_exception_in_the_middle(self) -> None:
        both(
            f"""
import traceback
def failing():
    seen = 0
    for i in range(300):
        try:
            x = data[i % 8] if i % 50 != 49 else torch.ones(2, 2){STEP.replace("        ", "            ")}
        except RuntimeError as error:
            said.append((i, str(error), traceback.extract_tb(error.__traceback__)[0].lineno))
        finally:
            seen += 1
        if i == 280:
            raise KeyError(seen)
""",
            """
try:
    failing()
except KeyError as error:
    result = (error.args, [entry.lineno for entry in traceback.extract_tb(error.__traceback__)])
""",
        )
        assert entered_loops("failing")

    def test_random_numbers_and_foreign_iterators(self) -> None:
        both(
            f"""
from torch.utils.data import DataLoader, TensorDataset
def loading():
    loader = DataLoader(TensorDataset(torch.randn(64, 3), torch.randn(64, 1)), batch_size=4, shuffle=True)
    losses = []
    for epoch in range(14):
        for x, y in loader:
            x = x + 0.1 * torch.randn(4, 3){STEP.replace("        ", "            ")}
            losses.append(loss.item())
    return losses
""",
            "result = loading()",
        )
        assert entered_loops("loading")

    def test_a_generator_gives_the_items(self) -> None:
        both(
            f"""
def batches(turns):
    for i in range(turns):
        yield i, data[i % 8] * (1 + i % 3)
def drawing():
    for i, x in batches(300):{STEP}
    return i, x, loss
""",
            "result = drawing()",
        )
        assert entered_loops("drawing")

    def test_printing(self, capsys: pytest.CaptureFixture[str]) -> None:
        both(
            f"""
def printing():
    for i in range(300):
        x = data[i % 8]{STEP}
        if i % 20 == 0: print(i, repr(loss.item()))
""",
            "result = printing()",
        )
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) == 30
        assert lines[:15] == lines[15:]
        assert entered_loops("printing")


class TestChanges:
    """A first run, a change, and a second one."""

    def test_what_the_loop_relies_on_changes_in_it(self) -> None:
        both(
            f"""
scale = 1.0
def changing():
    global scale
    for i in range(400):
        x = data[i % 8]
        if i == 200: opt.param_groups[0]["lr"] = 0.01
        if i == 250: x = torch.cat([x, x])
        if i == 300: scale = 0.5
        if i == 350: net.register_forward_hook(lambda module, args, out: said.append(out.sum().item()))
        x = x * scale{STEP}
    return loss
""",
            "result = changing()",
        )
        assert entered_loops("changing")

    def test_a_second_call(self) -> None:
        """It is recorded as any second call, with a net of its own."""
        both(
            f"""
def twice(net, opt, turns):
    total = 0.0
    for i in range(turns):
        x = data[i % 8]{STEP}
        total += loss.item()
    return total
""",
            """
first = twice(net, opt, 300)
other = torch.nn.Linear(3, 1)
result = [first] + [twice(other, torch.optim.Adam(other.parameters(), lr=0.02 * (1 + k)), 150) for k in range(3)]
""",
        )

    def test_the_loop_of_a_driver(self) -> None:
        """A function that passes the role on at each call: its loop is entered in later calls, too."""
        both(
            f"""
import time
def epoch_of(k):
    for i in range(150):
        x = data[i % 8] + k{STEP}
        if i == 20: time.sleep(0.1)
    return loss
""",
            "result = [epoch_of(k) for k in range(4)]",
        )
        assert entered_loops("epoch_of")


class TestLeavingAlone:
    def test_a_loop_without_operators(self) -> None:
        both(
            """
def add(a, b): return a + b
def counting():
    total = 0
    for i in range(1000): total = add(total, i)
    return total
""",
            "result = counting()",
        )
        assert not entered_loops("counting")

    def test_a_tracer_sees_all(self) -> None:
        """One that is set before, and one that is set in the loop."""
        for begin in (0, 64, 65, 90):
            both(
                f"""
import sys
def begin(tracer):
    sys.settrace(tracer)
    sys._getframe(1).f_trace = tracer
def traced_{begin}():
    lines = []
    def tracer(frame, event, argument):
        if frame.f_code.co_name == "traced_{begin}": lines.append((event, frame.f_lineno))
        return tracer
    for i in range(160):
        if i == {begin}: begin(tracer)
        x = data[i % 8]{STEP}
        if i == 140:
            sys.settrace(None)
            sys._getframe().f_trace = None
    return lines
""",
                f"result = traced_{begin}()",
            )
        assert sys.gettrace() is None

    def test_a_frame_that_is_held(self) -> None:
        both(
            f"""
import sys
def held():
    frame = sys._getframe()
    for i in range(200):
        x = data[i % 8]{STEP}
        said.append(sorted(frame.f_locals)[:3])
    return i
""",
            "result = held()",
        )

    def test_a_generator(self) -> None:
        both(
            f"""
def generating():
    for i in range(300):
        x = data[i % 8]{STEP}
        if i % 50 == 0: yield loss.item()
""",
            "result = list(generating())",
        )

    def test_in_a_handler(self) -> None:
        both(
            f"""
def handling():
    try:
        raise ValueError(3)
    except ValueError as error:
        for i in range(200):
            x = data[i % 8]{STEP}
        return str(error), i, loss
""",
            "result = handling()",
        )

    def test_traces_that_lose_are_given_up(self) -> None:
        """Where replays of the loop take longer than CPython, the loop is CPython's; its pieces stay what they are."""
        before = pijit.config.give_up
        pijit.config.give_up = True
        try:
            both(
                f"""
def compared():
    for i in range(1500):
        x = data[i % 8]{STEP}
    return i, loss
""",
                "result = compared()",
            )
        finally:
            pijit.config.give_up = before
        (loop,) = entered_loops("compared")
        assert loop["compared"] > 0
