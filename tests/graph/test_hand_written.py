"""Programs as people write them are one graph each, and right at two sizes in torch, ONNX and JAX."""

from __future__ import annotations

import importlib.util
import warnings

import pytest

torch = pytest.importorskip("torch")
from hand_written import PROGRAMS, given, made  # noqa: E402
from one_operator_programs import differs, runner  # noqa: E402

from pijit.errors import ExportError  # noqa: E402
from pijit.graph.build.capture import captured  # noqa: E402

pytestmark = pytest.mark.torch
PACKAGES = {"onnx": "onnxruntime", "jax": "jax"}
# What is not one graph, where a package is there that another way of torch goes through.
SPLIT = {"Mamba"} if importlib.util.find_spec("opt_einsum") is not None else set()


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_is_one_graph_that_is_right_at_two_sizes(name: str) -> None:
    program = made(name)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = captured(program, given(name, 3), {})
        assert bool(graph.breaks) == (name in SPLIT), graph.breaks
        for format in ("fx", "onnx", "jax") if not graph.breaks else ():
            if format in PACKAGES and importlib.util.find_spec(PACKAGES[format]) is None:
                continue
            try:
                run = runner(graph, format)
                found = [run(*given(name, n)) for n in (3, 5)]
            except ExportError:
                assert graph.foreign
                assert format != "fx"
                continue
            for n, each in zip((3, 5), found, strict=True):
                assert not differs(program(*given(name, n)), each, format == "fx"), format
