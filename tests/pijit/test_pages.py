"""The first example of pages that have one, run as a program; what its comments say of the output holds."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.torch
DOCS = Path(__file__).parents[2] / "docs"


SAYS = {
    "signatures.md": r"torch\.Size\(\[3, 1\]\)\ntrain\.py:3 in score\(\): x is float32\[65, 128\], and its signature",
    "precision.md": r"nodes 0 to 2: 3 operators, 100% of the trace\n(.*\n)*.*(in bfloat16: linear|faster in bfloat16)",
    "pandas.md": r"100 \(\d+,\)\n120 \(\d+,\)\n140 \(\d+,\)\n# .* 0 opaque calls\n",
    "replacements.md": r"attention replaced 1 times\n",
    "lazy.md": r"\d\ntrain\.py:10: __float__ reads a value; 11 operators ran\n",
}


@pytest.mark.parametrize(("page", "says"), SAYS.items())
def test_example(page: str, says: str, tmp_path: Path) -> None:
    if page == "pandas.md":
        pytest.importorskip("pandas", minversion="3.0")
    if page == "replacements.md":
        pytest.importorskip("onnx")
        pytest.importorskip("onnxruntime")
    found = re.search(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    assert found is not None
    program = tmp_path / "train.py"
    program.write_text(found[1].replace('"inductor"', '"torchscript"'))  # which is quick to compile
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=True, timeout=300)
    assert re.search(says, done.stdout), done.stdout
