"""Loops whose tensors grow or thin out, in each format; and axes that were 1 in the call, freed by `dynamic=`."""

import sys
from pathlib import Path

import pytest
import torch

import pijit
from pijit.errors import ExportError

sys.path.append(str(Path(__file__).parents[1] / "graph"))
from loops_that_grow import PROGRAMS, Growing

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def without_gradients():
    with torch.no_grad():
        yield


def exported(program: Growing, format: str):
    first, *also = program.shown
    return pijit.export(program.run, *first, format=format, decisions="keep", also=also)


def leaves(found):
    return [torch.as_tensor(each) for each in (found if isinstance(found, tuple | list) else [found])]


def compare(program: Growing, run):
    for args in (*program.shown, *program.others):
        for one, other in zip(leaves(run(*args)), leaves(program.run(*args)), strict=True):
            assert one.shape == other.shape
            torch.testing.assert_close(one, other, check_dtype=False)


def session(model):
    onnxruntime = pytest.importorskip("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    made = onnxruntime.InferenceSession(model.SerializeToString(), options)
    names = [each.name for each in made.get_inputs()]
    return lambda *args: [
        torch.from_numpy(each) if each.shape else torch.tensor(each.item())
        for each in made.run(None, {name: x.numpy() for name, x in zip(names, args, strict=True)})
    ]


@pytest.mark.parametrize("name", PROGRAMS)
def test_formats_that_hold_loops(name):
    program = PROGRAMS[name]
    compare(program, exported(program, "fx"))
    compare(program, session(exported(program, "onnx")))
    compare(program, pijit.graph.Graph.from_json(exported(program, "json")).run)


@pytest.mark.parametrize("format", ["exported_program", "stablehlo"])
@pytest.mark.parametrize("name", ["greedy", "suppress"])
def test_formats_with_one_size_for_all_turns_name_the_loop(name, format):
    if format == "stablehlo":
        pytest.importorskip("jax")
    program = PROGRAMS[name]
    with pytest.raises(ExportError, match=r"loops_that_grow.py:\d+: the loop carries '\w+', which grows or shrinks"):
        exported(program, format)


# -- an axis that was 1


LINEAR = torch.nn.Linear(8, 4)
ROWS = torch.ones(3, 8)


def flattens(x):
    return LINEAR(x).relu().reshape(x.shape[0], -1)


def joins(x, y):
    return torch.cat([x, y], 1)


@pytest.mark.parametrize("format", ["fx", "onnx", "exported_program"])
def test_a_batch_of_one_that_is_asked_for_is_free(format):
    for fn, inputs in ((flattens, {"x": 8}), (joins, {"x": 8, "y": 2})):
        one = [torch.randn(1, size) for size in inputs.values()]
        made = pijit.export(fn, *one, format=format, dynamic={name: {0: "batch"} for name in inputs})
        run = session(made) if format == "onnx" else made.module() if format == "exported_program" else made
        for rows in (1, 5):
            args = [torch.randn(rows, size) for size in inputs.values()]
            torch.testing.assert_close(leaves(run(*args))[0], fn(*args))


def test_a_batch_of_one_that_nobody_asks_for_is_kept():
    for rows, size in ((1, 1), (2, "x_0")):
        for dynamic in (None, True):
            text = pijit.export(flattens, torch.ones(rows, 8), format="json", dynamic=dynamic)
            assert pijit.graph.Graph.from_json(text).inputs[0].shape == (size, 8)


def decides(x):
    y = x * 2
    return y if y.shape[0] == 1 else y + 1


def broadcasts(x):
    y = x * 2
    return y * ROWS


def squeezes(x):
    y = x * 2
    return y.squeeze()


def iterates(x):
    y = x * 2
    return [row.sum() for row in y]


def needs(x):
    y = x * 2
    return LINEAR(y)


@pytest.mark.parametrize(
    ("fn", "axis", "why"),
    [
        (decides, 0, "which was 1 in the call, and the program decides on the size here"),
        (broadcasts, 0, "which was 1 in the call, and multiply does not do the same with another size"),
        (squeezes, 0, "which was 1 in the call, and squeeze does not do the same with another size"),
        (iterates, 0, "which was 1 in the call, and unstack does not do the same with another size"),
        (needs, 1, "whose size linear fixes, which needs it to be so"),
    ],
)
def test_the_line_that_fixes_a_size_is_named(fn, axis, why):
    line = fn.__code__.co_firstlineno + 2
    message = rf"test_loops_that_grow.py:{line}: dynamic= names axis {axis} of 'x', {why}"
    for rows in (torch.ones(1, 8), torch.zeros(1, 8)):
        with pytest.raises(ExportError, match=message):
            pijit.export(fn, rows, format="fx", dynamic={"x": {axis: "n"}})
