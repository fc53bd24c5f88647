# mypy: disable-error-code="no-untyped-call,no-any-return,func-returns-value,operator,unused-ignore"
"""Forward and backward passes that are replayed as operators beneath autograd: all bits as in plain Python."""

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from taped_steps import Side, Step, batches, classified, compare, facts, mlp, runs, seen, stepping, tapes
from torch import Tensor, nn
from torch.nn import functional as F

import pijit
from pijit import _core


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.qkv = nn.Embedding(9, 8), nn.Linear(8, 24)
        self.norm, self.out = nn.LayerNorm(8), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        h = self.table(x.abs().mul(3).long().clamp(max=8))
        q, k, v = (t.view(*t.shape[:2], 2, 4).transpose(1, 2) for t in self.qkv(self.norm(h)).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=0.2)
        return self.out(F.gelu(h + mixed.transpose(1, 2).reshape(h.shape)).mean(1))  # type: ignore[no-any-return]


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.LSTMCell(1, 8), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        h = c = x.new_zeros(len(x), 8)
        for at in range(x.shape[1]):
            h, c = self.cell(x[:, at : at + 1], (h, c))
        return self.head(h)  # type: ignore[no-any-return]


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(5, 5), nn.Linear(5, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(torch.tanh(self.a(x)) + F.linear(x, self.a.weight).relu_())  # type: ignore[no-any-return]


def convolutions() -> nn.Sequential:
    return nn.Sequential(
        nn.Unflatten(1, (1, 6, 6)),
        nn.Conv2d(1, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Dropout(0.3),
        nn.Flatten(),
        nn.Linear(16, 4),
    )


MODELS: dict[str, tuple[Callable[[], nn.Module], int]] = {
    "mlp": (lambda: mlp(nn.ReLU()), 5),
    "in place": (lambda: mlp(nn.LeakyReLU(0.1, inplace=True)), 5),
    "dropout": (lambda: mlp(nn.Tanh(), nn.Dropout(0.4)), 5),
    "batch norm": (lambda: mlp(nn.BatchNorm1d(8), nn.SiLU()), 5),
    "no bias": (lambda: mlp(nn.Linear(8, 8, bias=False), nn.Softplus()), 5),
    "convolutions": (convolutions, 36),
    "attention": (Attention, 5),
    "recurrent": (Recurrent, 5),
    "weights used twice": (Tied, 5),
    "group norm": (lambda: mlp(nn.Unflatten(1, (4, 2)), nn.GroupNorm(2, 4), nn.Flatten(), nn.ELU()), 5),
}


@pytest.mark.parametrize("to_none", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_models(name: str, to_none: bool) -> None:
    make, size = MODELS[name]
    fast = compare(lambda: stepping(make(), classified, set_to_none=to_none), batches(12, size))
    assert runs(fast) >= 6, tapes(fast)


def log_sum(model: nn.Module, x: Tensor, y: Tensor) -> Any:
    return (model(x).logsumexp(1) - model(x).gather(1, y[:, None]).squeeze(1)).mean(), None


def masked(model: nn.Module, x: Tensor, y: Tensor) -> Any:
    out = model(x)
    return out[y > 1].pow(2).sum() + out.masked_fill(out > 0.5, 0.1).sum(), None


def teacher(model: nn.Module, x: Tensor, y: Tensor) -> Any:
    with torch.no_grad():
        target = model(x).softmax(-1)
    out = model(x)
    return F.kl_div(out.log_softmax(-1), target * 0.5 + 0.1, reduction="batchmean"), target, out.detach().argmax(-1)


def views(model: nn.Module, x: Tensor, y: Tensor) -> Any:
    out = model(x).t()
    part = out[1:3]
    return part.square().mean() + out.view(-1)[:3].sum() if out.is_contiguous() else part.square().mean(), part, out


def several(model: nn.Module, x: Tensor, y: Tensor) -> Any:
    out = model(x)
    parts = out.unbind(0)
    return torch.stack([*parts[:2], out.mean(0)]).norm() + torch.cat([out, x[:, :4]]).abs().max(), parts[0]


def written(model: nn.Module, x: Tensor, y: Tensor) -> Any:
    out = model(x).clone()
    out.mul_(2).add_(x[:, :4])
    return F.smooth_l1_loss(out, x[:, 1:]) + F.nll_loss(F.log_softmax(out, 1), y, reduction="sum"), out


def scattered(model: nn.Module, x: Tensor, y: Tensor) -> Any:
    out = model(x)
    rows = torch.tensor([0, 1, 1, 2, 0, 2])
    summed = torch.zeros_like(out[:3], requires_grad=False).index_add_(0, rows, out)
    most = torch.full((3, 4), -1e9).scatter_reduce(0, rows[:, None].expand(-1, 4), out, "amax", include_self=False)
    filled = torch.zeros(6, 4)
    filled[1:] = out[:-1] * 2
    noise = torch.rand(6, 4)
    noise[0] = out[1]
    return (summed.square().mean() + most.exp().mean() + (filled * noise).sum() + F.cross_entropy(out, y), summed)


def sorted_rows(model: nn.Module, x: Tensor, y: Tensor) -> Any:
    top, at = model(x).topk(2, dim=1)
    return top.cumsum(1).mean() + model(x).sort(1).values[:, 0].sum() + top.std(), at


def unused(model: nn.Module, x: Tensor, y: Tensor) -> Any:
    out = model(x)
    spread = (out - out.mean()).square().mean().sqrt()
    return F.cross_entropy(out, y), float(spread.detach()), spread.item()


def margins(model: nn.Module, x: Tensor, y: Tensor) -> Any:
    out = model(x)
    return F.multi_margin_loss(out, y) + F.multilabel_margin_loss(out, (x[:, :4] > 0).long()), out


LOSSES = [margins, log_sum, masked, teacher, views, several, written, scattered, sorted_rows, unused]


@pytest.mark.parametrize("loss_of", LOSSES, ids=lambda loss: loss.__name__)
@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad")
def test_losses(loss_of: Callable[..., Any]) -> None:
    fast = compare(lambda: stepping(mlp(nn.Tanh()), loss_of), batches(14, 5))
    assert any(row["tapes"] or row["why"] for row in tapes(fast)), "none was looked at"
    if loss_of not in (masked, several):  # how many are picked differs from call to call; a list of views has others
        assert runs(fast) >= 6, tapes(fast)


# -- the second call


def freeze(model: nn.Module, index: int) -> None:
    next(model.parameters()).requires_grad_(index % 4 != 3)


def drop_gradients(model: nn.Module, index: int) -> None:
    for at, each in enumerate(model.parameters()):
        if index % 3 == 2 or at % 2:
            each.grad = None


def other_gradients(model: nn.Module, index: int) -> None:
    if index % 4 == 3:
        for each in model.parameters():
            each.grad = torch.full_like(each, 0.5) if each.dim() == 1 else torch.ones_like(each).t().contiguous().t()


def hook(model: nn.Module, index: int) -> None:
    each = next(model.parameters())
    if index == 7:
        model.handle = each.register_hook(lambda gradient: gradient * 2)  # type: ignore[assignment]
    if index == 10:
        model.handle.remove()  # type: ignore[operator, union-attr]


def later_hook(model: nn.Module, index: int) -> None:
    each = next(model.parameters())
    if index == 7:
        model.handle = each.register_post_accumulate_grad_hook(lambda p: p.grad.mul_(3))  # type: ignore[union-attr, assignment]
    if index == 10:
        model.handle.remove()  # type: ignore[operator, union-attr]


def other_mode(model: nn.Module, index: int) -> None:
    model.train(index % 5 != 4)


def other_memory(model: nn.Module, index: int) -> None:
    if index % 5 == 4:
        each = next(model.parameters())
        each.data = each.data.clone() * 1.5


def other_weights(model: nn.Module, index: int) -> None:
    if index == 8:
        model[0].weight = nn.Parameter(torch.full_like(model[0].weight, 0.1))  # type: ignore[index]


CHANGES = [freeze, drop_gradients, other_gradients, hook, later_hook, other_mode, other_memory, other_weights]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize("zeroed", [True, False])
def test_changes_between_calls(change: Callable[[nn.Module, int], None], zeroed: bool) -> None:
    def make() -> tuple[nn.Module, Step]:
        model = mlp(nn.BatchNorm1d(8), nn.Dropout(0.2))

        def step(x: Tensor, y: Tensor) -> Any:
            if zeroed:
                model.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            return loss

        return model, step

    fast = compare(make, batches(24, 5), change)
    assert runs(fast) >= 1 or change is other_gradients, tapes(fast)


@pytest.mark.parametrize("first", [0, 1, 2])
def test_gradients_that_gather(first: int) -> None:
    """One tape takes first gradients and adds further ones."""

    def make() -> tuple[nn.Module, Step]:
        model = mlp(nn.BatchNorm1d(8), nn.Dropout(0.2))

        def step(x: Tensor, y: Tensor) -> Any:
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            return loss

        return model, step

    def gather(model: nn.Module, index: int) -> None:
        if index % 3 == first:
            model.zero_grad()

    fast = compare(make, batches(24, 5), gather)
    assert runs(fast) >= 15, tapes(fast)
    assert sum(row["left"] for row in tapes(fast)) <= 2


def test_what_is_read_behind_the_engine_changes() -> None:
    def make() -> tuple[nn.Module, Step]:
        model = mlp(nn.Tanh())
        model.rate = 0.1  # type: ignore[assignment]

        def step(x: Tensor, y: Tensor) -> Any:
            model.zero_grad()
            loss = F.cross_entropy(model(x), y)
            given = loss.backward()
            with torch.no_grad():
                for each in model.parameters():
                    if model.rate is not None:
                        each.sub_(each.grad * model.rate)  # type: ignore[operator]
            return loss, given, model.rate

        return model, step

    def change(model: nn.Module, index: int) -> None:
        if index in (8, 9, 12):
            model.rate = None if index == 9 else f"{index}" if index == 12 else 0.3  # type: ignore[assignment]

    assert runs(compare(make, batches(8, 5), change)) >= 2
    compare(make, batches(16, 5), change)


def test_sizes_that_change() -> None:
    fast = compare(lambda: stepping(mlp(nn.Tanh()), classified), batches(30, 5, rows=lambda i: (6, 4, 6, 6, 3)[i % 5]))
    assert runs(fast) >= 6, tapes(fast)
    assert any(row["tapes"] > 1 for row in tapes(fast))


def test_layouts_and_dtypes_that_change() -> None:
    def calls() -> Iterator[Any]:
        for index, (x, y) in enumerate(batches(16, 5)):
            yield (x.t().contiguous().t(), y) if index % 3 == 1 else (x, y)

    assert runs(compare(lambda: stepping(mlp(nn.Tanh()), classified), calls())) >= 2


def test_numbers_that_change() -> None:
    def make() -> tuple[nn.Module, Step]:
        model = mlp(nn.Tanh())

        def step(x: Tensor, y: Tensor, factor: float, power: int) -> Any:
            model.zero_grad()
            loss = (F.cross_entropy(model(x) * factor + (1 - factor), y) / factor).pow(power)
            loss.backward()
            return loss

        return model, step

    calls = ((x, y, 0.5 + index % 7, 1 + index // 8) for index, (x, y) in enumerate(batches(24, 5)))
    assert runs(compare(make, calls)) >= 2


def test_an_input_that_requires_gradients() -> None:
    def make() -> tuple[nn.Module, Step]:
        model = mlp(nn.Tanh())

        def step(x: Tensor, y: Tensor, mode: int) -> Any:
            x.requires_grad_(mode > 0)
            given = x * 2 if mode == 2 else x
            loss = F.cross_entropy(model(given), y)
            loss.backward()
            return loss, x.grad

        return model, step

    calls = ((x, y, (0, 1, 1, 0, 2, 1)[index % 6]) for index, (x, y) in enumerate(batches(30, 5)))
    assert runs(compare(make, calls)) >= 4


def outer_graph(jitted: bool) -> Any:
    """The input of the step has a graph from outside."""
    torch.manual_seed(0)
    first, second = nn.Linear(5, 5), nn.Linear(5, 4)

    def step(x: Tensor) -> Tensor:
        loss = second(x).square().mean()
        loss.backward()
        return loss

    run = pijit.jit(step) if jitted else step
    return [
        (facts(run(first(x) if index % 3 else x)), facts(first.weight.grad))
        for index, (x, _) in enumerate(batches(12, 5))
    ]


def test_an_input_with_a_graph() -> None:
    assert outer_graph(True) == outer_graph(False)


# -- the way is left


def test_a_branch_before_the_engine() -> None:
    def make() -> tuple[nn.Module, Step]:
        model = mlp(nn.BatchNorm1d(8), nn.Dropout(0.3))

        def step(x: Tensor, y: Tensor, limit: float) -> Any:
            model.zero_grad()
            out = model(x)
            pooled = torch.zeros(2, 4).index_add_(0, y % 2, out)
            pooled[1:] = out[:1] * 2
            loss = F.cross_entropy(out, y) + pooled.square().mean()
            if loss.item() > limit:
                loss = loss * 0.5 + out.square().mean()
            loss.backward()
            return loss, out, pooled

        return model, step

    calls = ((x, y, 9.0 if index % 4 or index < 8 else 0.0) for index, (x, y) in enumerate(batches(26, 5)))
    fast = compare(make, calls)
    assert runs(fast) >= 2


def test_errors_in_the_forward_pass() -> None:
    def make() -> tuple[nn.Module, Step]:
        return stepping(mlp(nn.BatchNorm1d(8), nn.Dropout(0.3)), classified)

    def calls() -> Iterator[Any]:
        for index, (x, y) in enumerate(batches(16, 5)):
            yield x, y + 9 if index in (9, 12) else y

    assert runs(compare(make, calls())) >= 2


def test_errors_that_are_caught() -> None:
    def make() -> tuple[nn.Module, Step]:
        model, table = mlp(nn.Dropout(0.3)), nn.Embedding(4, 5)

        def step(x: Tensor, y: Tensor) -> Any:
            model.zero_grad()
            out = model(x)
            try:
                out = out + model(table(y))
            except IndexError as error:
                out = out * 2 + len(str(error))
            out.square().mean().backward()
            return out

        return nn.ModuleList([model, table]), step

    calls = ((x, y + 3 if index in (8, 9, 13) else y) for index, (x, y) in enumerate(batches(16, 5)))
    assert runs(compare(make, calls)) >= 4


@pytest.mark.parametrize("keyword", ["retain_graph", "create_graph"])
@pytest.mark.filterwarnings("ignore:Using backward")
def test_a_graph_that_is_kept(keyword: str) -> None:
    def make() -> tuple[nn.Module, Step]:
        model = mlp(nn.Tanh())

        def step(x: Tensor, y: Tensor, keep: bool) -> Any:
            model.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward(**{keyword: keep})
            if keep:
                loss.backward()
            return loss.detach()

        return model, step

    compare(make, ((x, y, index % 5 == 4) for index, (x, y) in enumerate(batches(16, 5))))


@pytest.mark.parametrize("opaque", [False, True])
def test_a_weight_that_is_changed_before_the_engine(opaque: bool) -> None:
    def make() -> tuple[nn.Module, Step]:
        model = mlp(nn.Tanh())

        class Callback:
            def __init__(self) -> None:
                self.calls = 0

            def __eq__(self, other: object) -> bool:
                self.calls += 1
                if self.calls in (9, 12):
                    with torch.no_grad():
                        model[2].weight.mul_(1.0)
                if self.calls == 13:
                    with torch.no_grad():
                        model[2].bias.add_(1.0)
                return False

        callback = Callback()
        compared = pijit.opaque(lambda: callback == 1) if opaque else lambda: [1].count(callback)  # type: ignore[arg-type]

        def step(x: Tensor, y: Tensor) -> Any:
            model.zero_grad()
            loss = F.cross_entropy(model(x), y)
            compared()
            loss.backward()
            return loss

        return model, step

    compare(make, batches(16, 5))


@contextmanager
def anomaly(index: int) -> Iterator[None]:
    with torch.autograd.set_detect_anomaly(index % 4 == 3, check_nan=False):
        yield


@contextmanager
def saved(index: int) -> Iterator[None]:
    if index % 4 != 3:
        yield
        return
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 1, lambda t: t + 0):
        yield


@contextmanager
def deterministic(index: int) -> Iterator[None]:
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(index % 4 == 3)
    yield
    torch.use_deterministic_algorithms(before)


@pytest.mark.parametrize("mode", [anomaly, saved, deterministic], ids=lambda mode: mode.__name__)
@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_modes(mode: Any) -> None:
    def make() -> tuple[nn.Module, Step]:
        model, step = stepping(mlp(nn.Tanh()), classified)
        return model, step

    plain, fast = Side(make, False), Side(make, True)
    for index, args in enumerate(batches(16, 5)):
        found = []
        for side in (plain, fast):
            with mode(index):
                found.append((seen(side.call(*args)), side.state()))
        assert found[0] == found[1]
    assert runs(fast.run) >= 6


def test_autocast() -> None:
    def make() -> tuple[nn.Module, Step]:
        model = mlp(nn.GELU())

        def step(x: Tensor, y: Tensor) -> Any:
            model.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                loss = F.cross_entropy(model(x), y)
            (loss * 128.0).backward()
            return loss

        return model, step

    assert runs(compare(make, batches(14, 5))) >= 6


def test_several_passes_in_a_step() -> None:
    def make() -> tuple[nn.Module, Step]:
        maker, judge = mlp(nn.Tanh()), nn.Sequential(nn.Linear(4, 6), nn.LeakyReLU(0.2, inplace=True), nn.Linear(6, 1))
        own, other = (torch.optim.Adam(each.parameters()) for each in (maker, judge))

        def step(x: Tensor, y: Tensor) -> Any:
            other.zero_grad()
            made = maker(x)
            (F.softplus(-judge(x[:, :4])).mean() + F.softplus(judge(made.detach())).mean()).backward()
            other.step()
            own.zero_grad()
            loss = F.softplus(-judge(made)).mean()
            loss.backward()
            own.step()
            return loss, made

        return nn.ModuleList([maker, judge]), step

    compare(make, batches(14, 5))


def test_gradients_that_roots_are_given() -> None:
    def make() -> tuple[nn.Module, Step]:
        model = mlp(nn.Tanh())

        def step(x: Tensor, y: Tensor) -> Any:
            out = model(x)
            out.backward(x[:, :4])
            torch.autograd.backward([model(x + 1).sum(), model(x - 1).mean()])
            return out

        return model, step

    assert runs(compare(make, batches(14, 5))) >= 6


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:  # type: ignore[override]
        return gradient * 2 + ctx.saved_tensors[0] * 0


def test_a_function_of_the_program() -> None:
    def loss_of(model: nn.Module, x: Tensor, y: Tensor) -> Any:
        out = Doubled.apply(model(x))
        return F.cross_entropy(out, y), out  # type: ignore[arg-type]

    compare(lambda: stepping(mlp(nn.Tanh()), loss_of), batches(10, 5))


def test_checkpoints() -> None:
    def loss_of(model: nn.Module, x: Tensor, y: Tensor) -> Any:
        out = torch.utils.checkpoint.checkpoint(model, x, use_reentrant=False)
        return F.cross_entropy(out, y), out  # type: ignore[arg-type]

    compare(lambda: stepping(mlp(nn.Tanh(), nn.Dropout(0.3)), loss_of), batches(10, 5))


@pytest.mark.parametrize("where", ["loss", "middle", "retained"])
def test_hooks_in_the_step(where: str) -> None:
    def make() -> tuple[nn.Module, Step]:
        model, found = mlp(nn.Tanh()), []

        def step(x: Tensor, y: Tensor) -> Any:
            out = model(x)
            loss = F.cross_entropy(out, y)
            if where == "retained":
                out.retain_grad()
            else:
                (loss if where == "loss" else out).register_hook(
                    lambda gradient: found.append(gradient) or gradient * 3
                )
            loss.backward()
            return loss, out.grad if where == "retained" else list(found)

        return model, step

    compare(make, batches(10, 5))


def test_what_is_kept_in_objects() -> None:
    def make() -> tuple[nn.Module, Step]:
        model, kept = mlp(nn.Tanh()), {}

        def step(x: Tensor, y: Tensor) -> Any:
            out = model(x)
            kept["out"] = out
            pair = [out, x]
            model.last = out  # type: ignore[assignment]
            loss = F.cross_entropy(pair[0], y)
            loss.backward()
            return loss, kept["out"], pair, len(kept)

        return model, step

    compare(make, batches(12, 5))


def test_memory_is_given_back() -> None:
    model, step = stepping(mlp(nn.Tanh()), lambda model, x, y: (F.cross_entropy(model(x), y),))
    fast = pijit.jit(step)
    alive: list[Any] = []
    for x, y in batches(12, 5):
        loss = fast(x, y)[0]
        alive += [weakref.ref(loss), weakref.ref(x), *(weakref.ref(p.grad) for p in model.parameters())]
    del loss, x, y
    model.zero_grad()
    gc.collect()
    assert [each for each in alive if each() is not None] == []
    assert runs(fast) >= 6


def test_threads() -> None:
    def make() -> tuple[nn.Module, Step]:
        return stepping(mlp(nn.Tanh()), classified)

    sides = [[Side(make, jitted) for _ in range(3)] for jitted in (False, True)]
    data = list(batches(30, 5))
    found: dict[int, Any] = {}

    def work(at: int, side: Side) -> None:
        found[at] = [seen(side.run(*args)) for args in data]

    for at, side in enumerate(sides[0]):
        work(at, side)
    threads = [threading.Thread(target=work, args=(3 + at, side)) for at, side in enumerate(sides[1])]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    for at in range(3):
        assert found[at] == found[3 + at]
        assert sides[0][at].state()[0] == sides[1][at].state()[0]


def test_sequences_of_lengths() -> None:
    """What turns integers into sizes out of sight is left to the engine."""

    def make() -> tuple[nn.Module, Step]:
        model = nn.LSTM(5, 6, batch_first=True)

        def step(x: Tensor, lengths: Tensor) -> Any:
            packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            out, _ = nn.utils.rnn.pad_packed_sequence(model(packed)[0], batch_first=True)
            loss = out.square().mean()
            loss.backward()
            return loss

        return model, step

    def calls() -> Iterator[Any]:
        drawn = torch.Generator().manual_seed(4)
        for _ in range(14):
            lengths = torch.randint(1, 7, (4,), generator=drawn)
            yield torch.randn(4, int(lengths.max()), 5, generator=drawn), lengths

    compare(make, calls())


def test_ctc() -> None:
    def make() -> tuple[nn.Module, Step]:
        model = nn.Linear(5, 4)

        def step(x: Tensor, targets: Tensor, lengths: Tensor) -> Any:
            model.zero_grad()
            out = model(x).log_softmax(-1)
            loss = F.ctc_loss(out, targets, torch.full((3,), 8), lengths)
            loss.backward()
            return loss

        return model, step

    def calls() -> Iterator[Any]:
        drawn = torch.Generator().manual_seed(4)
        for _ in range(14):
            targets = torch.randint(1, 4, (3, 4), generator=drawn)
            yield torch.randn(8, 3, 5, generator=drawn), targets, torch.randint(1, 5, (3,), generator=drawn)

    compare(make, calls())


def test_kernels_of_vmap_are_not_met() -> None:
    """torch.func registers kernels in Python for operators of losses, which see no plain tensor."""
    torch.func.vmap(torch.func.grad(lambda x: x.square().sum()))(torch.ones(2, 3))
    assert any(name.endswith("/FuncTorchBatched") for name in torch.library._impls)
    assert runs(compare(lambda: stepping(mlp(nn.Tanh()), classified), batches(12, 5))) >= 6


def test_explain_says_what_becomes_of_the_engine() -> None:
    def told(fast: Step, x: Tensor) -> list[str]:
        report = pijit.explain(fast, x, torch.zeros(6, dtype=torch.long))
        passes = [each for trace in report.traces for each in trace.backwards]
        assert all(str(each) in str(report) for each in passes)
        assert all(each.file.endswith("taped_steps.py") and each.line for each in passes)
        return [str(each).split(": ", 1)[1] for each in passes]

    x = torch.ones(6, 5)
    fast = pijit.jit(stepping(mlp(nn.Tanh()), classified)[1])
    found = [told(fast, x) for _ in range(8)]
    assert ["torch's engine runs it until a replay was watched"] in found
    assert found[-1] == ["as operators, without torch's engine, in 2 replays"]
    watched = mlp(nn.Tanh())
    next(watched.parameters()).register_hook(lambda gradient: gradient)
    fast = pijit.jit(stepping(watched, classified)[1])
    assert [told(fast, x) for _ in range(8)][-1] == ["torch's engine runs it: a hook on a leaf"]


def test_without_tapes() -> None:
    _core.set_option("tapes", 0)
    try:
        assert tapes(compare(lambda: stepping(mlp(nn.Tanh()), classified), batches(8, 5))) == []
    finally:
        _core.set_option("tapes", 1)
