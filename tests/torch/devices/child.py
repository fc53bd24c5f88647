"""A process that has the device "twin" and runs scenarios and functions of one file, by name, as it is asked to.

The parent writes names, a line each; the answer to each is a line of JSON: "" or what is wrong.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import traceback
from pathlib import Path
from typing import IO

import pytest

TESTS = Path(__file__).parents[1]
SKIPPED = "skipped: "


class Child:
    """The process, started at the first question and again after one that it did not survive."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.process: subprocess.Popen[str] | None = None

    def ask(self, name: str) -> str:
        """What is wrong with a scenario or function; "": nothing."""
        if self.process is None:
            self.process = self._started()
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if answer:
            wrong = str(json.loads(answer))
            if wrong.startswith(SKIPPED):
                pytest.skip(wrong.removeprefix(SKIPPED))
            return wrong
        code, self.process = self.process.wait(), None
        return f"the process ended with {code}"

    def _started(self) -> subprocess.Popen[str]:
        import pijit

        command = [sys.executable, __file__, self.file]
        environment = {**os.environ, "PYTHONPATH": str(Path(pijit.__file__).parents[1])}
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment)

    def end(self) -> None:
        """Let it end."""
        if self.process is not None:
            self.process.communicate()


def kernels(log: list[str]) -> list[str]:
    """What ran and where. Streams other than the default one are numbered by their first kernel."""
    numbers = {"0": 0}
    return [re.sub(r"\d+$", lambda found: str(numbers.setdefault(found[0], len(numbers))), line) for line in log]


def serve(file: str, questions: IO[str], answers: IO[str]) -> None:
    """Answer until there are no questions."""
    from devices import twin

    module = twin.connect()
    import side_by_side

    from devices import scenarios

    side_by_side.MORE_MODES += [scenarios.modes, lambda: kernels(module.take_log())]
    tests = side_by_side.load(file)
    for name in map(str.strip, questions):
        wrong = ""
        try:
            module.take_log()  # what ran before is not this one's
            if name in getattr(tests, "TABLE", ()):
                tests.TABLE.check(name, file)
            else:
                getattr(tests, name)()
        except pytest.skip.Exception as skipped:
            wrong = SKIPPED + str(skipped)
        except BaseException:
            wrong = traceback.format_exc()
        answers.write(json.dumps(wrong) + "\n")
        answers.flush()


if __name__ == "__main__":
    os.environ["PIJIT_TEST_DEVICE"] = "twin"
    sys.path[:0] = [str(TESTS), str(TESTS.parent / "record")]
    ANSWERS = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        serve(sys.argv[1], sys.stdin, ANSWERS)
