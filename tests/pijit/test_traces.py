"""Views of traces: read-only, and printed with the user's lines."""

import collections
import contextlib
import dataclasses
import html
import re
from pathlib import Path

import pytest

import pijit
from pijit import _listing
from pijit.traces import Traces, view


def described(file, **changes):
    """A trace as the core describes it."""
    node = {"file": str(file), "outputs": ["r1"], "opaque": False}
    return {
        "name": "Model.forward",
        "code": "forward",
        "file": str(file),
        "line": 1,
        "signature": "self, x",
        "entry": "",
        "modes": "grad on",
        "loaded": [("x", "x", "float32[*] on cpu", False), ("self.w", "self.w", "float32[*] on cpu", True)],
        "guards": [
            {"text": "x: float32[4]", "source": "x", "kind": "tensor"},
            {"text": "is x.k is 2", "source": "x.k", "kind": "is"},
            {"text": "dict self._modules['h']._modules", "source": "self._modules['h']._modules", "kind": "dict"},
        ],
        "nodes": [
            {**node, "text": "r1 = torch.ops.aten.add(x, 1)", "op": "aten::add", "line": 2, "inputs": ["r0"]},
            {**node, "text": "r2 = torch.ops.aten.mul(r1, 2)", "op": "aten::mul", "line": 2, "inputs": ["r1"]},
            {**node, "text": "print(r2)", "op": "call", "line": 3, "inputs": ["r2"], "opaque": True},
        ],
        "snapshots": [{"frames": [{"name": "forward", "file": str(file), "line": 3, "offset": 8}]}],
        "segments": [],
        "constants": 0,
        "bytes": 100,
        "tapes": [],
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
            "# model.py:1: 3 guards, 3 nodes, 1 snapshot, 0 segments, 1 opaque call",
            "def Model_forward(self, x):",
            "    # guards, all with print(trace.guards): 1 of tensors, 1 of identity, 1 of attributes and globals",
            "    # modes: grad on",
            "    # x: float32[*] on cpu",
            "    # x.k is 2",
            "    # model.py:2: y = (x + 1) * 2",
            "    r1 = torch.ops.aten.add(x, 1)",
            "    r2 = torch.ops.aten.mul(r1, 2)",
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
    text = str(view(described(source, ends="exit", stop={**stop, "inside": "torch/nn/modules/linear.py:12"})))
    assert text.endswith("open(...), in torch/nn/modules/linear.py:12 [PJ203]; the rest runs in CPython")


def test_print_next_to_nothing(source):
    text = str(view(described(source, name="<lambda>", guards=[], nodes=[], snapshots=[], opaque_calls=0)))
    assert text.splitlines()[1:] == ["def _lambda_(self, x):", "    pass"]


def test_guards_on_request(source):
    trace = view(described(source))
    everything = ["x: float32[4]", "is x.k is 2", "dict self.h._modules"]
    assert str(trace.guards).splitlines() == everything
    assert repr(trace.guards) == str(trace.guards)
    lines = trace.to_text(guards="all").splitlines()
    assert lines[2:5] == [f"    # {guard}" for guard in everything]
    assert lines[5:] == str(trace).splitlines()[6:]
    assert trace.to_text(guards="none").splitlines()[2:] == lines[5:]
    with pytest.raises(pijit.errors.UsageError, match="'summary', 'all' or 'none', not 'some'"):
        trace.to_text(guards="some")


def test_shown_as_printed(source):
    one = view(described(source))
    assert repr(one) == str(one)
    assert repr(Traces([one])) == str(Traces([one]))
    assert one._repr_html_() == f"<pre>{html.escape(str(one))}</pre>"
    assert Traces([one, one])._repr_html_() == f"<pre>{html.escape(str(Traces([one, one])))}</pre>"


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
    assert all(isinstance(part, tuple) for part in (trace.guards, trace.nodes, trace.snapshots, trace.segments))
    assert str(trace.snapshots[0]) == "model.py:3 in forward()"
    assert str(trace.guards[1]) == "is x.k is 2"


# ------------------------------------------------------------------------------------------------------ shortened text


def run(lines, **names):
    """What these lines return."""
    text = "\n".join(["def made():", *_listing.with_sources(lines)])
    exec(text, names)  # noqa: S102
    return names["made"]()


class Sized(list):
    """As much of a tensor as the lines ask for."""

    shape = property(lambda self: tuple(self))

    def dim(self):
        return len(self)

    def size(self, at):
        return self[at]


def layers(count, *, last="{h}"):
    """Lines of equal layers: each takes what the one before made, and something of its own."""
    register, h, made = 1, "r0", ["r0 = x"]
    for i in range(count):
        a, b, c, d, e = (f"r{register + k}" for k in range(5))
        made += [f"{a} = {h} + self._modules['h']._modules['{i}']", f"{b} = {a} > -1", f"assert {b} is True"]
        made += [f"{c} = {a} * 2", f"{d} = {c} - {h}", f"{e} = {d} % 1000 + {a}"]
        made += [f"r{register + 5} = {e} + {c}"]
        register, h = register + 6, f"r{register + 5}"
    kept = ", ".join(f"r{4 + 6 * i}" for i in range(count))
    return [*made, "return " + last.format(h=h, kept=kept)]


class Parts:
    def __init__(self, parts):
        self.h = parts
        self._modules = {"h": self}

    def __getitem__(self, at):
        return self.h[at]


@pytest.mark.parametrize("last", ["{h}", "({h}, {kept})"])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 9])
def test_loops_do_what_the_lines_did(count, last):
    lines = [_listing.Line(text) for text in layers(count, last=last)]
    short = _listing.body(lines)
    parts = Parts(list(range(10, 10 + count)))
    plain = [_listing.Line(_listing.readable(line.text)) for line in lines]
    assert run(short, self=parts, x=3) == run(plain, self=parts, x=3)
    assert len(short) <= (17 if count > 2 else 16)
    assert any(line.text.startswith("for ") for line in short) == (count > 1)


def test_what_differs_otherwise_is_listed():
    heads = [_listing.Line(f"r{i} = x + {i}") for i in range(4)]
    rounds = []
    for i in range(4):
        rounds += [f"r{10 + 4 * i + k} = r{i} * {k}" for k in range(3)] + [
            f"r{13 + 4 * i} = r{10 + 4 * i} + r{11 + 4 * i}"
        ]
    lines = [*heads, *map(_listing.Line, rounds), _listing.Line("return (r13, r17, r21, r25, r24)")]
    short = _listing.body(lines)
    assert any(line.text == "for i, each_0 in zip(range(4), (r0, r1, r2, r3)):" for line in short)
    assert run(short, x=5) == run(lines, x=5)


def test_lines_that_only_look_alike_are_no_loop():
    """The third part reads what the first made."""
    texts = []
    for i, read in enumerate(("r0", "r6", "r6", "r18")):
        texts += [f"r{1 + 6 * i} = {read} + 1", *(f"r{2 + 6 * i + k} = r{1 + 6 * i + k} + 2" for k in range(5))]
    lines = [_listing.Line(text) for text in ("r0 = x", *texts, "return (r6, r12, r18, r24)")]
    assert run(_listing.body(lines), x=1) == run(lines, x=1)


def test_sizes_are_read_at_once():
    lines = ["r1 = x", "assert r1.dim() == 3", *(f"r{2 + i} = r1.size({i})" for i in range(3)), "r9 = r2 == r4"]
    lines += [
        "assert r9 is False",
        "assert r1.dim() == 3",
        *(f"r{12 + i} = r1.size({i})" for i in range(3)),
        "return r2",
    ]
    short = _listing.body(map(_listing.Line, lines))
    assert [line.text for line in short][1:] == [
        "r2, _, r4 = r1.shape",
        "assert not (r2 == r4) and r1.dim() == 3",
        "return r2",
    ]
    assert run(short, x=Sized([2, 3, 4])) == 2


# ------------------------------------------------------------------------------------------------------- of real calls


def executed(trace, function, *arguments, **names):
    """What the printed trace gives, run as Python."""
    text = str(trace)
    compile(text, "<trace>", "exec")
    scope = {**function.__globals__, **names}
    exec(text, scope)  # noqa: S102
    return scope[re.search(r"^def (\w+)\(", text, re.MULTILINE)[1]](*arguments)


@pytest.mark.torch
def test_runs_as_python():
    import torch

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.inner = torch.nn.LayerNorm(4), torch.nn.Linear(4, 4)

        def forward(self, x):
            a, b = x.shape
            return x + torch.relu(self.inner(self.norm(x))).reshape(a, -1) * (2.5 if b > 1 else 1.0)

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList(Block() for _ in range(4))
            self.head = torch.nn.Parameter(torch.ones(4, 2))

        def forward(self, x, by=1):
            kept = []
            for layer in self.layers:
                x = layer(x)
                kept.append(x)
            return {"y": x @ self.head * by, "kept": tuple(kept), "dtype": x.dtype}

    torch.manual_seed(0)
    plain, model = Model(), pijit.jit(Model())
    model.load_state_dict(plain.state_dict())
    inputs = [torch.randn(n, 4) for n in (3, 3, 5)]
    with torch.no_grad():
        for x in inputs:
            assert torch.equal(model(x)["y"], plain(x)["y"])
        (trace,) = pijit.traces(model)
        text = str(trace)
        for name in ("self.layers[i].norm.weight", "self.layers[i].inner.bias", "self.head"):
            assert name in text or name.replace("[i]", "[i + 1]") in text
        assert "object_at" not in text
        assert "0x" not in text
        assert "modes: grad off\n" in text
        assert "float32[*, *] on cpu" in text
        assert len(text.splitlines()) < 50
        assert "layers[3]" in str(trace.guards)
        for x in inputs:
            expected, given = plain(x), executed(trace, Model.forward, plain, x, torch=torch)
            assert torch.equal(given["y"], expected["y"])
            assert all(torch.equal(a, b) for a, b in zip(given["kept"], expected["kept"], strict=True))
            assert given["dtype"] == expected["dtype"]


@pytest.mark.torch
def test_names_of_a_function():
    import torch

    weight, scale = torch.ones(2), {"by": torch.full((2,), 3.0)}

    def f(x, *, k=2):
        return torch.relu(x * weight * k - scale["by"])

    fast = pijit.jit(f)
    x = torch.tensor([1.0, 5.0])
    for k in (2, 2, 3, 4):
        assert torch.equal(fast(x, k=k), f(x, k=k))
    text = str(pijit.traces(fast)[-1])
    assert "(x, *, k):" in text
    assert "torch.ops.aten.mul.Tensor(x, weight)" in text
    assert "scale['by']" in text
    assert "0x" not in text


@pytest.mark.torch
def test_a_small_gpt_is_short(monkeypatch):
    """Four layers of GPT-2 in fewer than 150 lines, all of them Python, with the names of the model's own parts."""
    import torch
    from transformers import GPT2Config, GPT2Model

    # A torch for CUDA has its runtime answer, in an opaque call behind which all guards stand once more.
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=100, n_embd=16, n_inner=32, n_layer=4, n_head=2, bos_token_id=1, eos_token_id=2)
    model = pijit.jit(GPT2Model(config).eval())
    ids = torch.randint(100, (1, 6))
    with torch.no_grad():
        first = model(ids).last_hidden_state
        assert torch.equal(model(ids).last_hidden_state, first)
        text = str(pijit.traces(model)[0])
    compile(text, "<trace>", "exec")
    assert len(text.splitlines()) < 150
    assert "self.h[i].attn.c_attn.weight" in text
    assert "self.wte.weight" in text
    assert "modeling_gpt2.py:" in text
    assert len(str(pijit.explain(model, ids)).splitlines()) < 150


@dataclasses.dataclass
class Pair:
    first: object
    second: object = None


class Slotted:
    __slots__ = ("held",)

    def __init__(self, held):
        self.held = held


Point = collections.namedtuple("Point", "x y")


def of_instances(x):
    one, table = Pair(x), torch_of().tensor([float(number) for number in range(100)])
    one.second = one.first * 2
    ordered = collections.OrderedDict(a=x)
    return one, Slotted(one), one, Point(x, 3), table + x.sum(), ordered, table.to(torch_of().int16), x.max(0)


def torch_of():
    import torch

    return torch


@pytest.mark.torch
def test_instances_and_large_literals_run():
    import torch

    fast = pijit.jit(of_instances)
    for x in (torch.ones(3), torch.arange(4.0)):
        fast(x)
    text = str(pijit.traces(fast)[0])
    assert "0x" not in text
    namespace = {name: thing for name, thing in globals().items() if name not in {"collections", "pijit"}}
    exec(text, namespace)  # noqa: S102
    for x in (torch.ones(3), torch.arange(4.0)):
        made, expected = namespace["of_instances"](x), of_instances(x)
        assert list(map(type, made)) == list(map(type, expected))
        assert made[0] is made[2]
        assert made[1].held is made[0]
        assert made[0].first is x
        assert list(vars(made[0])) == list(vars(expected[0]))
        assert torch.equal(made[0].second, expected[0].second)
        assert made[3] == expected[3]
        assert made[5] == expected[5]
        assert all(torch.equal(made[at], expected[at]) and made[at].dtype == expected[at].dtype for at in (4, 6))
        assert all(map(torch.equal, made[7], expected[7]))


@pytest.mark.torch
def test_classes_of_libraries_are_imported():
    """A fresh namespace has nothing of the library whose class the result is of."""
    import torch
    from transformers import BertConfig, BertModel

    config = BertConfig(vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32)
    plain, ids = BertModel(config).eval(), torch.randint(50, (2, 6))
    model = pijit.jit(BertModel(config).eval())
    model.load_state_dict(plain.state_dict())
    with torch.no_grad():
        model(ids)
        namespace = {}
        exec(str(pijit.traces(model)[0]), namespace)  # noqa: S102
        for sizes in ((2, 6), (3, 5)):
            ids = torch.randint(50, sizes)
            made, expected = namespace["BertModel"](plain, ids), plain(ids)
            assert type(made) is type(expected)
            assert list(made) == list(expected)
            assert vars(made).keys() == vars(expected).keys()
            assert torch.equal(made.last_hidden_state, expected.last_hidden_state)
            assert torch.equal(made[1], expected.pooler_output)


def test_constants_that_contain_themselves_or_are_deep():
    cyclic: list[object] = [1]
    cyclic.append(cyclic)
    pair: tuple[list[object], ...] = ([],)
    pair[0].append(pair)
    shared: list[object] = [1]
    for _ in range(60):
        shared = [shared, shared]
    deep: list[object] = []
    for _ in range(3000):
        deep = [deep]
    for constant in (cyclic, pair, shared, deep):

        def f(x, constant=constant):
            return x, constant

        def g(x, constant=constant):
            return [x, constant, len(constant)][:2]

        def h(x):
            return x, constant  # noqa: B023

        for each in (f, g, h):
            fast = pijit.jit(each)
            for x in (1, 2, 2):
                assert fast(x)[1] is constant
            for report in (pijit.explain(fast, 3), pijit.explain(each, 3)):
                assert report.result[1] is constant
                assert all((str(report), report.to_json(), report.to_html()))
            assert len(str(pijit.traces(fast))) < 1_000_000
            assert isinstance(pijit.why(fast), str)
            with contextlib.suppress(pijit.errors.ExportError):
                pijit.graph.capture(each, 3)
