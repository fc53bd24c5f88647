"""Programs as people write them are one graph each, and right at two sizes in torch and ONNX, a part of them in JAX."""

from __future__ import annotations

import importlib.util
import warnings
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
from hand_written import PROGRAMS, given, made  # noqa: E402
from one_operator_programs import differs, runner  # noqa: E402

from pijit.errors import ExportError  # noqa: E402
from pijit.graph.build.capture import captured  # noqa: E402

pytestmark = pytest.mark.torch
PACKAGES = {"onnx": "onnxruntime", "jax": "jax"}
# JAX compiles each operator for each size, which takes long; bench/graphs.py has all of them there.
JAX = dict.fromkeys(list(PROGRAMS)[::8], ("jax",))
# What is not one graph.
SPLIT: set[str] = set()
# ONNX Runtime has no kernels of bfloat16.
LACKING = {("LoRA under autocast", "onnx")}
# Whose sizes are those of the call: a pool over all of an axis, a batch that is computed with floats, and in ONNX a
# diagonal as far away as a size.
FIXED = {"TextCNN", "Swin", "SimCLR"}
# Whose data decides how often a loop turns: other data go another way, and the graph says so.
DECIDES = {"NMS"}
# Torch computes with sizes of these for twenty seconds.
LONG = {"Swin"}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", [pytest.param(each, marks=[pytest.mark.slow] * (each in LONG)) for each in PROGRAMS])
def test_program_is_one_graph_that_is_right_at_two_sizes(name: str) -> None:
    program = made(name)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = captured(program, given(name, 3), {})
        assert bool(graph.breaks) == (name in SPLIT), graph.breaks
        sizes = (3,) if name in FIXED | DECIDES else (3, 5)
        if name in DECIDES:
            with pytest.raises((ExportError, AssertionError, RuntimeError)):
                graph.run(*given(name, 5))
        for format in ("fx", "onnx", *JAX.get(name, ())) if not graph.breaks else ():
            if (name, format) in LACKING:
                continue
            if format in PACKAGES and importlib.util.find_spec(PACKAGES[format]) is None:
                continue
            run = runner(graph, format)
            for n in sizes:
                assert not differs(program(*given(name, n)), run(*given(name, n)), format == "fx"), format


def test_the_pages_have_the_share() -> None:
    top = Path(__file__).parents[2]
    whole = len(PROGRAMS) - len(SPLIT)
    assert f"{whole} of {len(PROGRAMS)} programs written by hand" in (top / "README.md").read_text()
    assert f"| programs written by hand | {len(PROGRAMS)} | {whole} |" in (top / "docs" / "graphs.md").read_text()
