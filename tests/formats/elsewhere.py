"""A process without pijit that runs pieces of Python one after another, so that torch is imported once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

SERVER = """
import contextlib, json, sys, traceback

answers, path = sys.stdout, list(sys.path)
for name in json.loads(sys.argv[1]):
    sys.modules[name] = None  # an import of it would fail
for line in sys.stdin:
    text, *sys.argv[1:] = json.loads(line)
    wrong = ""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            exec(text, {"__name__": "__main__"})
    except BaseException:
        wrong = traceback.format_exc()
    sys.path[:] = path
    sys.modules.pop("model", None)
    print(json.dumps(wrong), file=answers, flush=True)
"""


class Elsewhere:
    """The process; it cannot import the modules that are named."""

    def __init__(self, folder: Path, *absent: str) -> None:
        command = [sys.executable, "-c", SERVER, json.dumps(absent)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, text=True, cwd=folder, env={**os.environ, "PYTHONPATH": ""}
        )

    def run(self, text: str, *words: Any) -> None:
        """The text as a program with these arguments; it ends well. A file model.py is imported anew by each."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([text, *map(str, words)]) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, f"the process ended with {self.process.wait()}"
        assert not json.loads(answer), json.loads(answer)

    def end(self) -> None:
        self.process.communicate()
