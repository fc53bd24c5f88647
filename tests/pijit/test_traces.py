"""Views of traces: read-only, and printed with the user's lines."""

import dataclasses
from pathlib import Path

import pytest

from pijit.traces import Traces, view


def described(file, **changes):
    """A trace as the core describes it."""
    node = {"file": str(file), "outputs": ["r1"], "opaque": False}
    return {
        "name": "Model.forward",
        "code": "forward",
        "file": str(file),
        "line": 1,
        "guards": [
            {"text": "x: float32[4]", "source": "x", "kind": "tensor"},
            {"text": "k is 2", "source": "C.k", "kind": "is"},
        ],
        "nodes": [
            {**node, "text": "r1 = aten::add(r0, 1)", "op": "aten::add", "line": 2, "inputs": ["r0"]},
            {**node, "text": "r2 = aten::mul(r1, 2)", "op": "aten::mul", "line": 2, "inputs": ["r1"]},
            {**node, "text": "print(r2)", "op": "call", "line": 3, "inputs": ["r2"], "opaque": True},
        ],
        "snapshots": [{"frames": [{"name": "forward", "file": str(file), "line": 3, "offset": 8}]}],
        "segments": [],
        "constants": 0,
        "bytes": 100,
        "opaque_calls": 1,
        "ends": "return",
        "stop": None,
        "operations": 12,
        "record_seconds": 0.001,
        "replays": 3,
        "exits": 0,
        **changes,
    }


@pytest.fixture
def source(tmp_path):
    file = Path(tmp_path, "model.py")
    file.write_text("def forward(self, x):\n    y = (x + 1) * 2\n    print(y)\n    return open(y)\n")
    return file


def test_print(source):
    assert str(view(described(source))) == "\n".join(
        [
            "# model.py:1: 2 guards, 3 nodes, 1 snapshot, 0 segments, 1 opaque call",
            "def Model_forward(*arguments):",
            "    assert x: float32[4]",
            "    assert k is 2  # C.k",
            "    # model.py:2: y = (x + 1) * 2",
            "    r1 = aten::add(r0, 1)",
            "    r2 = aten::mul(r1, 2)",
            "    # model.py:3: print(y)",
            "    print(r2)  # opaque call",
        ]
    )


def test_print_a_stop(source):
    stop = {"code": "PJ203", "reason": "open(...)", "file": str(source), "line": 4, "function": "forward"}
    stop["inside"] = ""
    text = str(view(described(source, ends="exit", stop=stop)))
    assert text.endswith(
        "    # model.py:4 in forward(): stopped recording: open(...) [PJ203]; the rest runs in CPython"
    )


def test_print_next_to_nothing(source):
    text = str(view(described(source, name="<lambda>", guards=[], nodes=[], snapshots=[], opaque_calls=0)))
    assert text.splitlines()[1:] == ["def _lambda_(*arguments):", "    pass"]


def test_several(source):
    one = view(described(source))
    assert str(Traces([one, one])) == f"{one}\n\n{one}"
    assert str(Traces()) == "# no trace"


def test_read_only(source):
    trace = view(described(source))
    with pytest.raises(dataclasses.FrozenInstanceError):
        trace.guards = ()
    with pytest.raises(dataclasses.FrozenInstanceError):
        trace.nodes[0].line = 1
    assert [type(part) for part in (trace.guards, trace.nodes, trace.snapshots, trace.segments)] == [tuple] * 4
    assert str(trace.snapshots[0]) == "model.py:3 in forward()"
    assert str(trace.guards[1]) == "k is 2"
