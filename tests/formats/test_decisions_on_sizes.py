"""What a program decides on sizes and counts: a model gives what the program gives, fails, or has no such size free."""

import numpy as np
import pytest
from test_onnx import dims, session

import pijit
from pijit.errors import ExportError

torch = pytest.importorskip("torch")
pytest.importorskip("onnx")
pytestmark = pytest.mark.torch


def more_rows(x):
    return x * 2 if x.shape[0] > 3 else x * 5


def at_most_rows(x):
    assert x.shape[0] <= 5
    return x + 1


def even(x):
    return x.sum() if x.numel() % 2 == 0 else x.prod()


def no_six(x):
    return x / (x.shape[0] if x.shape[0] != 6 else 1)


def picked(x):
    y = x[x > 2]
    return y.sum() if y.shape[0] > 2 else y.prod() + 1


def several(x):
    return x.sum() if len(torch.unique(x)) > 4 else x.sum() * 10


def not_zero(x):
    return x * 2 if torch.nonzero(x > 4).shape[0] > 2 else x * 3


def sums(x):
    total = 0 * x[0]
    for i in range(len(x)):
        total = total + x[i] * i
    return total


def unbound(x):
    first, *rest = x.unbind(0)
    return first + len(rest)


def by_turns(x):
    n = len(x)
    while n > 2:
        x, n = x * 2, n - 1
    return x


def wider(x):
    return x.sum() * x.shape[0] if x.shape[0] > x.shape[1] else x.sum()


def also_bits(x):
    return (x > 0, x.double(), x[:0], x.shape[0]) if len(x) > 2 else (x > 1, x.double(), x, 0)


FREE = [more_rows, at_most_rows, even, no_six, picked, several, not_zero, wider, by_turns, also_bits]
FIXED = [sums, unbound]
OF_COUNTS = [picked, several, not_zero]


def rows(count):
    return torch.arange(3.0 * count).reshape(count, 3) - 3


CALLS = [rows(4), rows(6), rows(2), rows(5), torch.ones(4, 3), rows(4) / 2]


def outcome(f, x):
    """What a function gives as a list of arrays; None: it raises."""
    try:
        made = f(x.clone())
    except Exception:
        return None
    return [np.asarray(each) for each in (made if isinstance(made, tuple | list) else [made])]


def compare(f, run, calls=CALLS):
    """How often `run` fails where the program does not; what it gives is right."""
    failed = 0
    for x in calls:
        expected, found = outcome(f, x), outcome(run, x)
        failed += found is None and expected is not None
        if found is not None:
            assert expected is not None, "it fails where the program does"
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_array_equal(one, other)
                assert one.dtype == other.dtype
    return failed


def onnx_run(model):
    running = session(model)
    return lambda x: running.run(None, {"x": x.numpy()})


@pytest.mark.parametrize("f", [*FREE, *FIXED])
def test_onnx_keeps_each_decision(f):
    pytest.importorskip("onnxruntime")
    model = pijit.export(f, CALLS[0], format="onnx")
    assert (type(dims(model.graph.input[0])[0]) is str) == (f in FREE)
    failed = compare(f, onnx_run(model))
    assert failed < len(CALLS) - 1 if f in FREE else failed == 3


def test_onnx_names_the_line_that_decides():
    pytest.importorskip("onnxruntime")
    line = more_rows.__code__.co_firstlineno + 1
    with pytest.raises(Exception, match=rf"check .*test_decisions_on_sizes.py:{line}"):
        onnx_run(pijit.export(more_rows, rows(4), format="onnx"))(rows(2))


def test_onnx_compares_sizes_that_it_takes_for_one():
    pytest.importorskip("onnxruntime")

    def same(x, y):
        return x.sum() * 2 if len(x) == len(y) else x.sum() * 3

    running = session(pijit.export(same, rows(4), rows(4)[:, 0], format="onnx"))
    for count in (4, 6):
        x = rows(count)
        found = running.run(None, {"x": x.numpy(), "y": x[:, 0].numpy()})
        np.testing.assert_array_equal(found[0], same(x, x[:, 0]))
    with pytest.raises(Exception, match="check "):
        running.run(None, {"x": rows(4).numpy(), "y": rows(6)[:, 0].numpy()})


@pytest.mark.parametrize("f", [*FREE, *FIXED])
@pytest.mark.parametrize("format", ["fx", "python", "exported_program", "stablehlo"])
def test_other_formats_keep_each_decision(f, format):
    if format == "stablehlo":
        pytest.importorskip("jax")
    if format == "stablehlo" and f in OF_COUNTS:
        with pytest.raises(ExportError):
            pijit.export(f, CALLS[0], format=format)
        return
    made = pijit.export(f, CALLS[0], format=format)
    if format == "stablehlo":
        run = lambda x: list(made.exported.call(x.numpy()))  # noqa: E731
    elif format == "exported_program":
        run = made.module()
    elif format == "python":
        namespace = {"__name__": "exported"}
        exec(made, namespace)
        run = namespace[f.__name__]
    else:
        run = made
    assert compare(f, run) < len(CALLS)


def test_stablehlo_takes_sizes_and_items_in_a_list():
    pytest.importorskip("jax")

    def f(x):
        x = x.clone()
        x[[int(x[0].argmax()), x.shape[0] - 1]] = 3
        return x

    made = pijit.export(f, rows(4), format="stablehlo")
    assert compare(f, lambda x: list(made.exported.call(x.numpy())), [rows(4), -rows(4)]) == 0


def test_stablehlo_says_a_decision_as_a_constraint():
    pytest.importorskip("jax")
    made = pijit.export(more_rows, rows(4), format="stablehlo")
    assert not made.sizes
    with pytest.raises(ValueError, match="symbolic shape constraint"):
        made.exported.call(rows(3).numpy())


@pytest.mark.parametrize("dynamic", [None, False])
def test_a_count_is_no_size_that_can_be_fixed(dynamic):
    pytest.importorskip("onnxruntime")

    def counted(x):
        return x[x > 0].numel() * x

    assert list(pijit.graph.capture(counted, rows(4)).symbols) == ["x_0", "x_1"]
    model = pijit.export(counted, rows(4), format="onnx", dynamic=dynamic)
    assert compare(counted, onnx_run(model), [rows(4), -rows(4), rows(4) / 3]) == 0
    pytest.importorskip("jax")
    with pytest.raises(ExportError, match="getitem has no form in StableHLO"):
        pijit.export(counted, rows(4), format="stablehlo", dynamic=dynamic)
