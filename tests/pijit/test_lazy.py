"""pijit.lazy: the same numbers, forms and errors as eager execution, whatever waits and whatever cuts."""

from __future__ import annotations

import copy
import io
import os
import pickle
import subprocess
import sys
import threading

import pytest

import pijit
from pijit.compilers import market
from pijit.errors import BackendError, UsageError

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch
F = torch.nn.functional
HERE = "test_lazy.py"


def leaves(thing):
    if isinstance(thing, (list, tuple)):
        return [each for item in thing for each in leaves(item)]
    return [thing]


def bits(tensor):
    return tensor.detach().resolve_conj().reshape(-1).contiguous().view(torch.uint8).numpy().tobytes()


def look(thing):
    """All that can be seen of a result."""
    if not isinstance(thing, torch.Tensor):
        return thing
    form = (thing.shape, thing.stride(), thing.storage_offset(), thing.dtype, thing.requires_grad, thing.is_leaf)
    return (*form, type(thing.grad_fn).__name__, thing.is_inference(), bits(thing))


def both(program, *arguments, **options):
    """What a program gives eagerly and in a block, given copies of the same; and the block."""
    found = []
    for block in (None, pijit.lazy(**options)):
        torch.manual_seed(0)
        given = copy.deepcopy(arguments)
        if block is None:
            made = program(*given)
        else:
            with block:
                made = program(*given)
        same = {id(each): at for at, each in reversed([*enumerate(leaves(made))])}
        kept = [look(each) for each in (*leaves(made), *leaves(given))]
        found.append((kept, [same[id(each)] for each in leaves(made)], bits(torch.get_rng_state())))
    assert found[0] == found[1]
    return block


def helper(x):
    return torch.tanh(x) * 2


def across(x):
    y = helper(helper(x) + 1)
    return y, y.sum(1), helper(y.mean())


def in_place(x):
    y = x * 2
    z = y.add_(1)
    y[0].mul_(3)
    y[:, 1] = 7
    view = y.view(-1)[::2]
    y *= 2
    torch.add(y, 1, out=z)
    return y, z, view, view.sum()


def views(x):
    y = x + 1
    a, b = y.chunk(2, 1)
    c = y.t().contiguous().reshape(-1)
    d = y.unsqueeze(0).expand(3, -1, -1)
    e = y.as_strided((2, 2), (1, 2))
    a.add_(1)
    return a, b, c, d, e, d.sum(), y.T, y.detach(), y.data.add_(1), y


def several(x):
    values, places = (x * 2).max(1)
    first, rest = torch.split(x * 3, [1, x.shape[0] - 1])
    return values, places, first, rest, torch.linalg.qr(x + 1), torch.topk(x * 1, 2)


def external(x):
    y = x * 2
    x.add_(1)
    z = x * y
    x[0] = 0
    return y, z, x


def data(x):
    y = x * 2
    mask = y > 0
    return y[mask], torch.nonzero(mask), torch.unique(y), torch.where(mask, y, -y), y.masked_fill(mask, 0)


def random(x):
    y = x * 2
    return (
        y + torch.rand(4),
        F.dropout(y, 0.5),
        torch.randperm(5),
        y.bernoulli(0.5) if False else torch.bernoulli(y.sigmoid()),
    )


def reads(x):
    y = x * 2
    found = [float(y.sum()), y[0, 0].item(), y.tolist(), bool((y > 0).all()), repr(y), f"{y[0, 0]:.3f}", int(y.sum())]
    y = y + 1
    found += [y.numpy().sum().item(), len(y), list(map(float, (y * 1)[0])), torch.equal(y, y + 0), str(y + 1)]
    y = y + 1
    stream = io.BytesIO()
    torch.save(y, stream)
    found += [pickle.loads(pickle.dumps(y * 2)), copy.deepcopy(y * 3), torch.load(io.BytesIO(stream.getvalue()))]
    if (y + 1).sum() > 0:
        y = y + 1
    return found, y, y.numpy() is not None


def factories(x):
    return (
        torch.zeros(3) + 1,
        torch.arange(4) * 2,
        torch.tensor([1.5, 2]) + x[0, 0],
        torch.full((2,), 3),
        x.new_ones(2) * 2,
    )


def dtypes(x):
    y = x.double() * 2
    z = torch.complex(x, x * 2)
    return (
        y,
        z.conj() * 2,
        z.conj(),
        z.real + 1,
        x.int() // 2,
        (x > 0) & (x < 1),
        x.to(torch.bfloat16).float(),
        x * True,
        x * 1,
    )


def modes(x):
    with torch.no_grad():
        a = x * 2
    with torch.inference_mode():
        b = x * 2 + a
    with torch.autocast("cpu", dtype=torch.bfloat16):
        c = x @ x.T + 1
    return a, b, c, c.float() + 1


def transformed(x):
    return torch.func.vmap(lambda row: (row * 2).sum())(x), torch.func.grad(lambda y: (y * y).sum())(x * 2)


def foreign(x):
    y = x * 2
    return (
        y.to_sparse().to_dense(),
        torch.fft.rfft(y).abs(),
        y.to(memory_format=torch.contiguous_format),
        F.pad(y, (1, 2)),
    )


PROGRAMS = [
    across,
    in_place,
    views,
    several,
    external,
    data,
    random,
    reads,
    factories,
    dtypes,
    modes,
    transformed,
    foreign,
]


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.filterwarnings("ignore")
def test_programs(program):
    for shape in ((4, 4), (4, 4), (4, 4), (6, 4)):
        both(program, torch.randn(shape, generator=torch.Generator().manual_seed(shape[0])))


@pytest.mark.parametrize("program", [across, several, modes, dtypes])
def test_programs_with_gradients(program):
    for _ in range(3):
        both(program, torch.randn(4, 4, generator=torch.Generator().manual_seed(0)).requires_grad_())


def test_operators_wait_across_functions_and_are_replayed():
    pijit.reset()  # other tests may have run the operators of `helper`
    x = torch.randn(4, 4)
    for turn in range(4):
        before = pijit.stats()["replays"]
        with pijit.lazy() as block:
            y, _, total = across(x)
            number = float(total)
            z = helper(y)
        assert number == float(across(x)[2])
        assert torch.equal(z, helper(across(x)[0]))
        assert [(each.reason, each.operators) for each in block.cuts] == [
            ("__float__ reads a value", 9), ("the block ends", 2)
        ]  # fmt: skip
        assert block.cuts[0].place.startswith(f"{HERE}:")
        assert str(block).startswith(block.cuts[0].place + ": __float__ reads a value; 9 operators ran\n")
        assert pijit.stats()["replays"] == before + (2 if turn else 0)


@pytest.mark.parametrize("make", ["SGD", "Adam", "AdamW"])
def test_training(make):
    def program(net, x, y):
        optimizer = getattr(torch.optim, make)(net.parameters(), 0.1)
        losses = []
        for _ in range(4):
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss)
        (gradient,) = torch.autograd.grad(net(x).sum(), [net[0].weight])
        return losses, gradient, [p for p in net.parameters()], [p.grad for p in net.parameters()]

    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    found = []
    for block in (None, pijit.lazy()):
        given = copy.deepcopy(net), torch.randn(6, 4, generator=torch.Generator().manual_seed(1)), torch.arange(6) % 3
        if block is None:
            made = program(*given)
        else:
            with block:
                made = program(*given)
        found.append([look(each) for each in (*leaves(made), *given[0].buffers())])
    assert found[0] == found[1]


def test_errors_of_forms_are_raised_in_their_line():
    def program(x):
        y = x * 2
        return y @ torch.ones(7, 7)

    with pytest.raises(RuntimeError) as plain:
        program(torch.ones(3, 3))
    with pytest.raises(RuntimeError) as lazily, pijit.lazy() as block:
        program(torch.ones(3, 3))
    assert str(lazily.value) == str(plain.value)
    assert any(each.name == "program" for each in lazily.traceback)
    assert "mm cannot be told from forms alone" in str(block)


def test_errors_of_data_name_their_line():
    kept = []

    def program(x, at):
        kept.append(x * 2)
        kept.append(F.embedding(torch.tensor([at]), kept[0]))
        kept.append(kept[1] + 1)
        return kept[2]

    line = program.__code__.co_firstlineno + 2
    for _ in range(2):
        kept.clear()
        with pytest.raises(IndexError, match="index out of range") as error, pijit.lazy():
            program(torch.ones(3, 3), 9)
        assert error.value.__notes__ == [f"pijit.lazy: of embedding at {HERE}:{line}"]
        assert torch.equal(kept[0], torch.full((3, 3), 2.0))  # what comes before it is there
    kept.clear()
    with pijit.lazy():
        made = program(torch.ones(3, 3), 2)
    assert torch.equal(made, torch.full((1, 3), 3.0))


def test_what_was_never_computed_raises_again():
    def program(x):
        y = F.embedding(torch.tensor([9]), x * 2) + 1
        try:
            y.sum().item()
        except IndexError:
            return y * 2
        return y

    with pytest.raises(IndexError), pijit.lazy():
        program(torch.ones(3, 3))


def test_an_error_of_the_program_leaves_what_was_computed():
    x, kept = torch.ones(3), []

    def program():
        kept.append(helper(x))
        raise KeyError("own")

    with pytest.raises(KeyError, match="own"), pijit.lazy():
        program()
    assert torch.equal(kept[0], helper(x))
    assert torch.equal(helper(x), torch.tanh(x) * 2)  # nothing waits any longer


def test_blocks_within_blocks():
    x = torch.ones(3)
    outer, inner = pijit.lazy(), pijit.lazy(backend="torchscript")
    with outer:
        a = x * 2
        with inner:
            b = a + 1
            with inner:
                c = b * 2
        d = c + b
    assert torch.equal(d, torch.full((3,), 9.0))
    assert [each.reason for each in inner.cuts] == ["the block ends"] * 2 + ["a block within begins"] or inner.cuts
    assert [each.operators for each in outer.cuts] == [1, 1, 1, 1]


def test_threads():
    wrong = []

    def call(seed):
        for turn in range(10):
            x = torch.randn(3 + seed, 4, generator=torch.Generator().manual_seed(turn))
            with pijit.lazy():
                made = across(x)
            wrong.extend(seed for a, b in zip(made, across(x), strict=True) if not torch.equal(a, b))

    threads = [threading.Thread(target=call, args=(seed,)) for seed in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert wrong == []


def test_a_backend_compiles_what_waited():
    x = torch.randn(4, 4)
    for _ in range(4):
        with pijit.lazy(backend="torchscript"):
            y = helper(helper(x) @ x) + helper(x).sum()
        assert torch.equal(y, helper(helper(x) @ x) + helper(x).sum())
        assert market.wait(60)
    from pijit import _lazy_modes

    rows = [str(trace.segments) for each in _lazy_modes._functions.values() for trace in pijit.traces(each)]
    assert any("torchscript" in row for row in rows)


def test_within_a_jitted_function():
    def program(x):
        y = helper(x)
        with pijit.lazy():
            y = helper(y) + 1
        return helper(y)

    fast = pijit.jit(program)
    for n in (3, 3, 3, 4):
        x = torch.randn(n)
        assert torch.equal(fast(x), program(x))
        assert torch.equal(fast(x), helper(helper(helper(x)) + 1))


def test_many_operators(monkeypatch):
    from pijit import _lazy_modes

    monkeypatch.setattr(_lazy_modes, "MOST", 50)
    with pijit.lazy() as block:
        x = torch.ones(3)
        for _ in range(120):
            x = x * 1.01
    y = torch.ones(3)
    for _ in range(120):
        y = y * 1.01
    assert torch.equal(x, y)
    assert [each.reason for each in block.cuts] == ["50 operators wait", "50 operators wait", "the block ends"]


def test_wrong_use():
    with pytest.raises(BackendError, match="no backend is called"):
        pijit.lazy(backend="nobody")
    with pytest.raises(UsageError, match="backend is a name"):
        pijit.lazy(backend=3)
    with pytest.raises(TypeError):
        pijit.lazy("native")


def test_what_nobody_holds_is_not_given(monkeypatch):
    from pijit import _lazy_modes

    filled = []
    fill = _lazy_modes._fill
    monkeypatch.setattr(_lazy_modes, "_fill", lambda tensor, result: (filled.append(1), fill(tensor, result)))
    x, kept = torch.randn(4, 4), []

    def program():
        y = helper(helper(x))  # four operators, whose results are gone but one
        view = (y + 1).view(-1)[2:]  # its memory is seen through a view
        kept.append(y.sum())
        return view

    with pijit.lazy():
        view = program()
    assert len(filled) == 2
    assert torch.equal(view, (helper(helper(x)) + 1).view(-1)[2:])
    assert torch.equal(kept[0], helper(helper(x)).sum())
    filled.clear()
    weight = torch.randn(4, 4, requires_grad=True)
    with pijit.lazy():
        loss = (helper(x) * weight).exp().sum()  # autograd holds what it needs
    loss.backward()
    right = torch.autograd.grad((helper(x) * weight).exp().sum(), [weight])
    assert torch.equal(weight.grad, right[0])
    assert len(filled) >= 3


def test_with_pijit_off():
    program = "import torch, pijit\nwith pijit.lazy() as block: y = torch.ones(2) * 2\nprint(y.tolist(), block)\n"
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | {"PIJIT": "0"}, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[2.0, 2.0] nothing has waited\n"
