"""What a format leaves out of a call is said once at the export, by line."""

import warnings

import pytest

import pijit

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch
HISTORY = []


class Counts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.pos = 0
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        print("called")
        self.pos += 1
        HISTORY.append(x.shape)
        self.count += 1
        own = [x]
        own.append(" ".join(["a", "b"]))
        return own[0] * self.count


def writes(x):
    x.add_(1)
    return x * 2


def said(fn, *args, **more):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        pijit.export(fn, *args, **more)
    return [str(each.message) for each in caught if "leaves out" in str(each.message)], caught


@pytest.mark.parametrize("format", ["fx", "onnx", "python"])
def test_side_effects_are_said_once_by_line(format, capsys):
    pytest.importorskip("onnx")
    line = Counts.forward.__code__.co_firstlineno
    (message,), caught = said(Counts(), torch.randn(2), format=format)
    assert f"test_left_out.py:{line + 1} calls print" in message
    assert f"test_left_out.py:{line + 2} writes an attribute" in message
    assert f"test_left_out.py:{line + 3} calls list.append" in message
    assert not any(f":{line + at} " in message for at in (4, 5, 6, 7))  # a buffer is held; what is new is nobody's
    assert all(each.filename == __file__ for each in caught if "leaves out" in str(each.message))


def test_writes_to_inputs_are_said_where_they_become_outputs():
    pytest.importorskip("onnx")
    (message,), _ = said(writes, torch.randn(2), format="onnx")
    assert f"test_left_out.py:{writes.__code__.co_firstlineno + 1} writes to x" in message
    assert "'x.updated'" in message
    assert said(writes, torch.randn(2), format="fx")[0] == []


def test_nothing_is_said_of_what_has_no_effects_or_of_a_format_that_lists_them():
    assert said(lambda x: (f"{x.shape}", x + 1)[1], torch.randn(2), format="fx")[0] == []
    assert said(Counts(), torch.randn(2), format="json")[0] == []
    graph = pijit.graph.capture(Counts(), torch.randn(2))
    assert said(graph, format="fx")[0] == []
    assert [effect.what for effect in graph.effects if "str" in effect.what] == []
