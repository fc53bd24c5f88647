"""The format `code`: a first call, a change, a second call, against the original, with the hook off."""

import copy
import dataclasses
import functools
import inspect

import pytest

import pijit
from pijit.errors import ExportError

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

SCALE = 2.0


@dataclasses.dataclass
class Result:
    y: object
    count: int = 1


class Model(torch.nn.Module):
    """Stores, appends, draws numbers, and writes to its argument at the end."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Dropout(), torch.nn.Linear(8, 2)
        )
        self.factor, self.seen, self.last = 3, [], None

    def forward(self, x, *, flag=True, options=None):
        y = self.layers(x) * SCALE * self.factor
        if flag:
            y = y + 1
        self.last = y
        self.seen.append(x.shape[0])
        if options:
            y = y * options["by"]
        x.add_(1)
        return Result(y, x.shape[0])


def same(a, b):
    """Equal in type and bits, however deep."""
    assert type(a) is type(b)
    if isinstance(a, torch.Tensor):
        assert (a.dtype, a.shape, a.stride(), a.requires_grad) == (b.dtype, b.shape, b.stride(), b.requires_grad)
        assert torch.equal(torch.nan_to_num(a), torch.nan_to_num(b))
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            same(a[key], b[key])
        if dataclasses.is_dataclass(a):
            same(dict(vars(a)), dict(vars(b)))
    elif isinstance(a, list | tuple):
        assert len(a) == len(b)
        for one, other in zip(a, b, strict=True):
            same(one, other)
    elif dataclasses.is_dataclass(a):
        same(dict(vars(a)), dict(vars(b)))
    else:
        assert a == b


class Pair:
    """A function and the export of its twin, called alike; `fell_back` counts the calls of the original."""

    def __init__(self, make, *args, kwargs=None, **options):
        torch.manual_seed(0)
        self.plain = make()
        torch.manual_seed(0)
        self.twin = make()
        self.plain(*copy.deepcopy(args), **copy.deepcopy(kwargs or {}))
        self.made = pijit.export(self.twin, *args, kwargs=kwargs, format="code", **options)
        self.fell_back = 0
        self.made.__globals__["original"] = self._original

    def _original(self, *args, **kwargs):
        self.fell_back += 1
        return self.twin(*args, **kwargs)

    def call(self, *args, falls=False, **kwargs):
        """Results or exceptions, arguments, and random numbers are equal; returns what the export gave."""
        own, count = copy.deepcopy((args, kwargs)), self.fell_back
        state = torch.get_rng_state()
        expected = outcome(self.plain, args, kwargs)
        after = torch.get_rng_state()
        torch.set_rng_state(state)
        given = outcome(self.made, *own)
        assert torch.equal(torch.get_rng_state(), after)
        same((args, kwargs), own)
        assert (self.fell_back > count) == falls
        if isinstance(expected, BaseException):
            assert type(given) is type(expected)
            assert str(given) == str(expected)
            assert given.__context__ is None
        else:
            same(given, expected)
        return given


def outcome(function, args, kwargs):
    try:
        return function(*args, **kwargs)
    except Exception as error:  # noqa: BLE001
        return error


@pytest.fixture(autouse=True)
def without_the_hook():
    """The exported functions run on plain CPython."""
    torch.manual_seed(0)
    yield
    pijit.disable()


def test_a_function():
    def f(x, *, k=2):
        "its doc"
        return {"a": torch.relu(x * SCALE) * k, "n": x.shape[0]}

    pair = Pair(lambda: f, torch.randn(2, 3))
    pijit.disable()
    pair.call(torch.randn(2, 3))
    pair.call(torch.randn(5, 3))  # sizes that the program leaves free
    pair.call(torch.randn(3), falls=True)
    pair.call(torch.randn(2, 3).double(), falls=True)
    pair.call(torch.randn(2, 3), k=3, falls=True)
    pair.call(torch.randn(2, 3), k=2.0, falls=True)  # equal, and of another type
    pair.call(torch.randn(2, 3, requires_grad=True))
    pair.call(3.0, falls=True)
    made = pair.made
    assert (made.__name__, made.__doc__, inspect.signature(made)) == ("f", "its doc", inspect.signature(f))
    assert made.__kwdefaults__ == f.__kwdefaults__
    assert made.__wrapped__ is f
    text = inspect.getsource(made.__code__)
    assert "return original(x, k=k)" in text
    assert "aten_relu(" in text
    assert 'return {"a": torch.relu(x * SCALE) * k' in text  # the user's line
    assert "0x7" not in text


def test_modes_are_guarded():
    pair = Pair(lambda: lambda x: x * 2 + 1, torch.randn(2, requires_grad=True))
    x = torch.randn(2, requires_grad=True)
    pair.call(x)
    with torch.no_grad():
        pair.call(x, falls=True)
    with torch.autocast("cpu"):
        pair.call(x, falls=True)
    pair.call(x)


def test_globals_and_functions(monkeypatch):
    def helper(x, by=2):
        return x * by * SCALE

    def f(x):
        return helper(x) + 1

    pair = Pair(lambda: f, torch.randn(2))
    pair.call(torch.randn(2))
    monkeypatch.setitem(globals(), "SCALE", 5.0)
    pair.call(torch.randn(2), falls=True)
    monkeypatch.setitem(globals(), "SCALE", 2.0)
    pair.call(torch.randn(2))
    monkeypatch.setattr(helper, "__defaults__", (7,))
    pair.call(torch.randn(2), falls=True)
    monkeypatch.undo()
    first = helper

    def helper(x):  # the variable of `f`
        return x - 1

    pair.call(torch.randn(2), falls=True)
    helper = first
    pair.call(torch.randn(2))


def test_a_module_with_effects():
    pair = Pair(Model, torch.randn(2, 4), kwargs={"options": {"by": 2}})
    for rows in (2, 2, 5):
        pair.call(torch.randn(rows, 4), options={"by": 2})
        same(pair.twin.last, pair.plain.last)
        assert pair.twin.seen == pair.plain.seen
    pair.call(torch.randn(2, 4), options={"by": 3}, falls=True)
    pair.call(torch.randn(2, 4), falls=True)
    for model in (pair.plain, pair.twin):
        model.factor = 4
    pair.call(torch.randn(2, 4), options={"by": 2}, falls=True)
    for model in (pair.plain, pair.twin):
        model.factor = 3
        model.eval()
    pair.call(torch.randn(2, 4), options={"by": 2}, falls=True)
    for model in (pair.plain, pair.twin):
        model.train()
    pair.call(torch.randn(2, 4), options={"by": 2})
    assert pair.twin.seen == pair.plain.seen


def test_what_was_done_is_undone_before_the_original_is_called():
    """The wrong size is found by the last layer, behind a store and an appended item."""

    class Late(Model):
        def forward(self, x, w):
            self.last = x
            self.seen.append(x.shape[0])
            self.fresh = torch.rand(2)
            return self.layers(x) @ w

    pair = Pair(Late, torch.randn(2, 4), torch.randn(2, 2))
    for columns, falls in ((2, False), (3, True), (2, False)):
        pair.call(torch.randn(2, 4), torch.randn(columns, 2), falls=falls)
        assert pair.twin.seen == pair.plain.seen
        same(vars(pair.twin)["fresh"], vars(pair.plain)["fresh"])
        same(pair.twin.last, pair.plain.last)


def test_parameters_that_change():
    pair = Pair(lambda: torch.nn.Linear(3, 2), torch.randn(2, 3))
    pair.call(torch.randn(2, 3))
    for model in (pair.plain, pair.twin):
        with torch.no_grad():
            model.weight.mul_(2)
    pair.call(torch.randn(2, 3))
    for model in (pair.plain, pair.twin):
        torch.manual_seed(4)
        model.weight = torch.nn.Parameter(torch.randn(2, 3))
    pair.call(torch.randn(2, 3), falls=True)
    for model in (pair.plain, pair.twin):
        model.register_forward_hook(lambda module, args, result: result + 1)
    pair.call(torch.randn(2, 3), falls=True)


def test_a_method_that_is_replaced(monkeypatch):
    pair = Pair(Model, torch.randn(2, 4))
    pair.call(torch.randn(2, 4))
    monkeypatch.setattr(Model, "forward", lambda self, x: self.layers(x))
    pair.call(torch.randn(2, 4), falls=True)
    monkeypatch.undo()
    pair.call(torch.randn(2, 4))
    monkeypatch.setattr(torch.nn.Linear, "forward", lambda self, x: x @ self.weight.t())
    pair.call(torch.randn(2, 4), falls=True)


def test_writes_to_arguments_and_aliases():
    def f(x, y):
        x.mul_(2)
        z = x.view(-1)
        z[0] = 5
        y[1:].add_(x[1:])
        made = [x, z]
        return made, made, {"x": x}

    pair = Pair(lambda: f, torch.randn(3, 2), torch.randn(3, 2))
    for rows in (3, 3, 4):
        given = pair.call(torch.randn(rows, 2), torch.randn(rows, 2))
        assert given[0] is given[1]
        assert given[0][0] is given[2]["x"]
        assert given[0][0].data_ptr() == given[0][1].data_ptr()
    pair.call(torch.randn(4, 2), torch.randn(3, 2))  # raises behind the first write, as the original does


def test_exceptions_and_handlers():
    def f(x, i):
        try:
            y = x[i]
        except IndexError:
            y = x[0]
        return y * 2

    pair = Pair(lambda: f, torch.ones(3), 1)
    pair.call(torch.ones(3), 1)
    pair.call(torch.ones(3), 7, falls=True)
    pair = Pair(lambda: lambda a, b: a @ b, torch.ones(2, 2), torch.ones(2, 2))
    pair.call(torch.ones(2, 2), torch.ones(2, 2))
    pair.call(torch.ones(2, 2), torch.ones(3, 2), falls=True)


def test_decisions():
    def early(x):
        return x + 1 if x.sum() > 0 else x - 1

    def late(x):
        x.add_(1)
        return early(x)

    pair = Pair(lambda: early, torch.ones(3))
    pair.call(torch.ones(3))
    pair.call(-torch.ones(3), falls=True)
    with pytest.raises(ExportError, match=r"test_code.py:\d+: the program decides here.*decisions='assume'"):
        pijit.export(late, torch.ones(3), format="code")
    pair = Pair(lambda: late, torch.ones(3), decisions="assume")
    pair.call(torch.ones(3))
    with pytest.raises(AssertionError, match=r"test_code.py:\d+: this call goes another way"):
        pair.made(-3 * torch.ones(3))


def test_calls_that_nobody_looks_into(capsys):
    def f(x):
        y = x + 1
        print("sum", y.sum().item())
        return y * 2

    with pytest.raises(ExportError, match=r"test_code.py:\d+: print runs code that nobody looks into.*'assume'"):
        pijit.export(f, torch.ones(3), format="code")
    pair = Pair(lambda: f, torch.ones(3), decisions="assume")
    capsys.readouterr()
    for rows in (3, 4, 3):  # the number that is printed, and the sizes, are those of the call
        pair.call(torch.ones(rows))
        assert capsys.readouterr().out == f"sum {2.0 * rows}\n" * 2


@pytest.mark.parametrize("size", [None, 8])
def test_results_of_a_cached_function(size):
    caches = []

    def make():
        @functools.lru_cache(size)
        def scale(name):
            return SCALE * len(name)

        caches.append(scale)
        scale("three")
        return lambda x: x * scale("three")

    pair = Pair(make, torch.ones(3))
    before = [each.cache_info().hits for each in caches]
    pair.call(torch.ones(3))
    assert [each.cache_info().hits for each in caches] == [hits + 1 for hits in before]
    for each in caches:
        each("other")
    pair.call(torch.ones(3))
    for each in caches:
        each.cache_clear()
    pair.call(torch.ones(3), falls=True)
    assert all(each.cache_info()[:2] == (0, 1) for each in caches)


def test_sizes_decided_behind_a_write_are_those_of_the_call():
    def f(x, y):
        x.add_(1)
        return y * 2 if y.shape[0] > 2 else y * 3

    pair = Pair(lambda: f, torch.ones(3), torch.ones(3))
    pair.call(torch.ones(3), torch.ones(3))
    pair.call(torch.ones(3), torch.ones(2), falls=True)
    pair.call(torch.ones(3), torch.ones(4), falls=True)
    pair.call(torch.ones(3), torch.ones(6)[::2], falls=True)


def test_sizes_of_the_call_alone():
    pair = Pair(lambda: lambda x: x * 2, torch.ones(3), dynamic=False)
    pair.call(torch.ones(3))
    pair.call(torch.ones(4), falls=True)


def test_the_trace_may_go():
    import gc

    model = pijit.jit(torch.nn.Linear(3, 2))
    x = torch.randn(2, 3)
    expected = model(x)
    made = pijit.export(model, x, format="code")
    pijit.reset()
    pijit.unjit(model)
    gc.collect()
    same(made(x), expected)
    del model
    gc.collect()
    same(made(x), expected)


def test_arguments_as_given():
    def f(a, b=1, /, c=2, *rest, d, e=5, **more):
        return a + b + c + sum(rest) + d + e + more.get("z", 0)

    made = pijit.export(f, torch.ones(2), 1, 2, 3, kwargs={"d": 4, "z": 6}, format="code")
    calls = [
        ((torch.ones(2), 1, 2, 3), {"d": 4, "z": 6}),
        ((torch.ones(2),), {"d": 1}),
        ((torch.ones(2), 2, 3), {"d": 1, "e": 9, "y": 2}),
    ]
    for args, kwargs in calls:
        same(made(*args, **kwargs), f(*args, **kwargs))
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'd'"):
        made(torch.ones(2))
    assert inspect.signature(made) == inspect.signature(f)
    bound = pijit.export(Model().forward, torch.ones(1, 4), format="code")
    assert list(inspect.signature(bound).parameters) == ["x", "flag", "options"]


@pytest.mark.parametrize("training", [False, True])
def test_a_convolutional_network(training):
    def make():
        nn = torch.nn
        return nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.BatchNorm2d(8),
            nn.AdaptiveAvgPool2d((2, 2)), nn.Flatten(), nn.Dropout(), nn.Linear(32, 4), nn.ReLU(True),
        ).train(training)  # fmt: skip

    pair = Pair(make, torch.randn(2, 3, 8, 8))
    pair.call(torch.randn(2, 3, 8, 8))
    pair.call(torch.randn(4, 3, 8, 12), falls=training)  # the running mean is written before sizes are looked at
    pair.call(torch.randn(2, 1, 8, 8), falls=True)
    pair.call(torch.randn(2, 3, 8, 8))
    same(pair.twin.state_dict(), pair.plain.state_dict())


@pytest.mark.parametrize("training", [False, True])
def test_a_small_bert(training):
    from transformers import BertConfig, BertModel

    config = BertConfig(vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32)
    ids, mask = torch.randint(50, (2, 6)), torch.ones(2, 6, dtype=torch.long)
    pair = Pair(lambda: BertModel(config).train(training), ids)
    pair.call(torch.randint(50, (2, 6)))
    pair.call(torch.randint(50, (3, 7)))
    pair.call(torch.full((2, 6), 70), falls=True)  # an index out of range
    pair.call(input_ids=ids, falls=True)
    pair.call(torch.randint(50, (2, 6)))
    pair = Pair(lambda: BertModel(config).train(training), kwargs={"input_ids": ids, "attention_mask": mask})
    pair.call(input_ids=torch.randint(50, (2, 6)), attention_mask=mask)
    pair.call(input_ids=torch.randint(50, (2, 6)), attention_mask=mask.float(), falls=True)


def test_errors(tmp_path):
    def stops(x):
        y = x + 1
        eval("1")  # noqa: S307
        return y

    with pytest.raises(ExportError, match="format 'code' is made of a call, not of a graph"):
        pijit.export(pijit.graph.capture(lambda x: x + 1, torch.ones(1)), format="code")
    with pytest.raises(ExportError, match=r"test_code.py:\d+: .* runs in CPython"):
        pijit.export(stops, torch.ones(1), format="code")
    with pytest.raises(pijit.errors.UsageError, match="takes a function"):
        pijit.export(3, format="code")
    with pytest.raises(pijit.errors.UsageError, match="has no option 'width'"):
        pijit.export(stops, torch.ones(1), format="code", width=3)
    assert pijit.formats()["code"] == "usable"


def test_a_file_is_the_text(tmp_path):
    path = tmp_path / "scaled.py"
    x = torch.ones(2)
    assert pijit.export(lambda x: x * SCALE, x, format="code", path=path) == path
    text = path.read_text()
    assert "return original(x)" in text
    compile(text, "scaled.py", "exec")
    assert "# original: function" in text
    assert pijit.export(Model(), torch.ones(1, 4), format="code", path=path) == path
    assert "# self_layers_0_weight: Parameter, self.layers[0].weight" in path.read_text()
