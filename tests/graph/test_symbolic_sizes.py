"""What torch imports to tell frames of users from its own is not imported to type a graph."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.torch

PROGRAM = """
import sys
import torch
import pijit

graph = pijit.graph.capture(lambda x: (x.reshape(-1) * 2, x.new_zeros(x.shape[0], 3)), torch.ones(3, 4))
print([value.shape for value in graph.results], sorted(graph.symbols.values()))
print(sorted({"torch._inductor.sizevars", "torch.export._trace"} & set(sys.modules)))
from pijit.graph.symbolic_sizes import environment
from torch.fx.experimental.symbolic_shapes import uninteresting_files

print(environment()._get_user_frame(), environment(equal=False).duck_shape, environment().duck_shape)
uninteresting_files()
print(sorted({"torch._inductor.sizevars", "torch.export._trace"} & set(sys.modules)))
"""


def test_neither_inductor_nor_export_is_imported() -> None:
    """Sizes are symbols all the same; the last line says that torch would import both."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "[('x_0*x_1',), ('x_0', 3)] [3, 4]",
        "[]",
        "None False True",
        "['torch._inductor.sizevars', 'torch.export._trace']",
    ]
