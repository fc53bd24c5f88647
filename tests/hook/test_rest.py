"""The hook goes out while nothing wants it, and comes back."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import pijit

COMMON = """
import pijit
from pijit import _core

def small(n): return n + 1

def quiet(most=50):
    "Calls small functions until the hook rests, or as often as that, in thousands."
    for _ in range(most):
        if _core.hook_rests(): return True
        for i in range(1000): assert small(i) == i + 1
    return _core.hook_rests()
"""
TORCH = (
    COMMON
    + """
import threading
import torch
X = torch.ones(3)

def step(x): return (x + x) * 3

# Calls of step() at the top level, right to the bit; and its state then.
STEPS = compile('''
for k in range(count):
    assert torch.equal(step(X + k), (X + k + X + k) * 3)
state = pijit.status(step).state
''', "<steps>", "exec")
"""
)


def run(program: str, common: str = COMMON) -> None:
    """A program in a process of its own, which ends well."""
    environment = {**os.environ, "PYTHONPATH": str(Path(pijit.__file__).parents[1])}
    source = common + textwrap.dedent(program)
    done = subprocess.run(
        [sys.executable, "-c", source], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]


def test_a_program_without_a_framework() -> None:
    run(
        """
        pijit.enable()
        assert _core.hook_installed() and not _core.hook_rests()
        assert quiet() and not _core.hook_installed()
        f = pijit.jit(lambda x: [x + 1, small(x)])
        assert _core.hook_installed() and not _core.hook_rests()
        assert [f(k) for k in range(4)] == [[k + 1, k + 1] for k in range(4)]
        assert pijit.status(f).state == "replaying"
        """
    )


def test_it_stays_while_a_root_is_live() -> None:
    run(
        """
        pijit.enable()
        f = pijit.jit(lambda x: [x + 1, small(x)])
        assert f(1) == f(1) == [2, 2]
        assert not quiet(120)
        assert _core.hook_installed()
        del f
        assert quiet(120)
        """
    )


def test_switching_off_and_on() -> None:
    run(
        """
        pijit.enable()
        assert quiet()
        pijit.disable()
        assert not _core.hook_rests() and not _core.hook_installed()
        pijit.enable()
        assert _core.hook_installed()
        assert quiet()
        pijit.reset()
        assert _core.hook_installed() and not _core.hook_rests()
        """
    )


def test_a_generator_that_runs_meanwhile() -> None:
    run(
        """
        def numbers():
            for i in range(60_000): yield small(i)

        pijit.enable()
        assert sum(numbers()) == sum(range(1, 60_001))
        assert _core.hook_rests()
        assert sum(numbers()) == sum(range(1, 60_001))
        """
    )


@pytest.mark.torch
class TestWithTorch:
    def test_an_operator_brings_it_back(self) -> None:
        run(
            """
            pijit.enable()
            assert quiet()
            count = 1; exec(STEPS)  # the call that it runs in is missed
            assert state == "cold"
            assert _core.hook_installed() and not _core.hook_rests()
            count = 4; exec(STEPS); assert state == "replaying"
            assert not quiet(120)
            """,
            TORCH,
        )

    def test_a_framework_that_comes_meanwhile(self) -> None:
        run(
            """
            pijit.enable()
            assert quiet()
            import torch
            assert _core.hook_installed() and not _core.hook_rests()
            def double(x): return x + x
            for k in range(4): assert torch.equal(double(torch.ones(2) * k), torch.ones(2) * 2 * k)
            assert pijit.status(double).state == "replaying"
            """
        )

    def test_an_operator_of_another_thread(self) -> None:
        run(
            """
            pijit.enable()
            assert quiet()
            results = []
            thread = threading.Thread(target=lambda: results.append(torch.ones(2) + 1))
            thread.start(); thread.join()
            assert torch.equal(results[0], torch.full((2,), 2.0))
            for i in range(10): small(i)
            assert _core.hook_installed() and not _core.hook_rests()
            count = 4; exec(STEPS); assert state == "replaying"
            """,
            TORCH,
        )

    @pytest.mark.parametrize("between", [50, 100])
    def test_a_function_that_is_called_now_and_then(self, between: int) -> None:
        run(
            f"""
            def program():
                pijit.enable()
                assert quiet()
                for k in range(12):
                    assert torch.equal(step(X + k), (X + k + X + k) * 3)
                    for i in range(1000 * {between}): small(i)
                return pijit.status(step).state

            assert program() == "replaying"
            assert _core.hook_installed()
            """,
            TORCH,
        )

    def test_it_is_off_while_an_operator_comes(self) -> None:
        run(
            """
            pijit.enable()
            assert quiet()
            pijit.disable()
            count = 4; exec(STEPS); assert state == "cold"
            assert not _core.hook_installed()
            pijit.enable()
            count = 4; exec(STEPS); assert state == "replaying"
            """,
            TORCH,
        )

    def test_a_profiler_sees_what_it_always_sees(self) -> None:
        run(
            """
            def seen():
                with torch.profiler.profile() as profile:
                    torch.ones(2).add(1)
                return sorted(event.key for event in profile.key_averages() if event.key.startswith("aten::"))

            expected = seen()
            pijit.enable()
            assert quiet()
            assert seen() == expected
            assert quiet(120)
            count = 6; exec(STEPS); assert state == "replaying"
            """,
            TORCH,
        )

    def test_a_child_of_a_fork(self) -> None:
        run(
            """
            import os
            pijit.enable()
            assert quiet()
            child = os.fork()
            if child == 0:
                count = 4; exec(STEPS)
                ok = state == "cold" and not _core.hook_installed() and not _core.hook_rests()
                os._exit(0 if ok else 3)
            assert os.waitpid(child, 0)[1] == 0
            assert _core.hook_rests()
            count = 5; exec(STEPS); assert state == "replaying"
            """,
            TORCH,
        )

    def test_dynamo_beside_it(self) -> None:
        run(
            """
            pijit.enable()
            assert quiet()
            compiled = torch.compile(step, backend="eager")
            for k in range(3): assert torch.equal(compiled(X + k), (X + k + X + k) * 3)
            assert quiet(120) or _core.hook_installed()
            for k in range(3): assert torch.equal(compiled(X + k), (X + k + X + k) * 3)
            """,
            TORCH,
        )
