"""Straight-line models recorded and replayed: what the first call leaves, errors, results, and random changes."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

import pytest
import side_by_side
import torch
from side_by_side import Jit, replayed
from straight_line import Scaled, data, mlp, thrice
from torch import Tensor, nn
from torch.nn import functional

import pijit

pytestmark = pytest.mark.torch

TABLE = side_by_side.Table()
scenario = TABLE.add


# recording


def test_state_of_a_module() -> None:
    model = mlp()
    given = model
    model = pijit.jit(model)
    assert model is given
    assert pijit.status(model).state == "cold"
    model(data(1))
    assert pijit.status(model) == pijit.Status("recorded", "")
    model(data(2))
    assert pijit.status(model) == pijit.Status("replaying", "")
    (trace,) = pijit.traces(model)
    assert trace.ends == "return"
    assert trace.stop is None
    assert trace.opaque_calls == 0
    assert [node.op for node in trace.nodes if "torch.ops.aten." in node.text] != []
    assert sum("aten.linear(" in node.text for node in trace.nodes) == 2
    assert sum("aten.relu(" in node.text for node in trace.nodes) == 1
    assert trace.guards


def test_only_this_instance() -> None:
    model, other = mlp(), mlp()
    pijit.jit(model)
    for seed in range(3):
        other(data(seed))
        model(data(seed))
    assert pijit.status(other).state == "cold"
    assert pijit.traces(other) == ()
    assert pijit.traces(model)[0].replays == 2


def test_state_dict_and_copies() -> None:
    model, plain = mlp(), mlp()
    before = list(model.state_dict())
    pijit.jit(model)
    model(data(1))
    model(data(1))
    assert list(model.state_dict()) == before
    assert list(vars(model)) == list(vars(plain))
    twin = copy.deepcopy(model)
    assert pijit.status(twin).state == "cold"
    assert torch.equal(twin(data(2)), model(data(2)))


# errors


@scenario()
def wrong_shape(jit: Jit) -> Iterator[Any]:
    model = jit(mlp())
    yield from thrice(lambda: model(data(1)))
    for _ in range(3):
        yield lambda: model(data(1, 2, 5))
    yield replayed(lambda: model(data(2)))
    for _ in range(3):
        yield lambda: model(data(1, 5))
        yield lambda: model(data(1, 1))
    yield replayed(lambda: model(data(2)))


@scenario(whole=False)
def wrong_shape_first(jit: Jit) -> Iterator[Any]:
    model = jit(mlp())
    yield lambda: model(data(1, 2, 5))
    yield lambda: model(data(2))
    yield lambda: model(data(3))
    yield replayed(lambda: model(data(4)))
    yield lambda: model(data(1, 2, 5))
    yield lambda: model(torch.zeros(()))
    yield replayed(lambda: model(data(4)))


@scenario()
def wrong_argument(jit: Jit) -> Iterator[Any]:
    model = jit(mlp())
    yield from thrice(lambda: model(data(1)))
    for wrong in (None, 1, "x", [data(1)], object):
        yield lambda: model(wrong)
    yield replayed(lambda: model(data(2)))


@scenario()
def wrong_shape_deep_inside(jit: Jit) -> Iterator[Any]:
    class Inner(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            z = x + 1
            return torch.matmul(z, y) * 2

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Inner()

        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            total = torch.zeros(())
            for i in range(3):
                total = total + self.inner(x, y).sum() * i
            return total

    model = jit(Outer())
    yield from thrice(lambda: model(data(1), data(2, 4, 2)))
    for _ in range(2):
        yield lambda: model(data(1), data(2, 3, 2))
        yield lambda: model(data(1), data(2, 3))
    yield replayed(lambda: model(data(1), data(2, 4, 2)))


@scenario()
def index_out_of_range(jit: Jit) -> Iterator[Any]:
    model = jit(nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 2)))
    yield from thrice(lambda: model(torch.tensor([1, 2])))
    for wrong in (5, -1, 10**10):
        yield lambda: model(torch.tensor([1, wrong]))
    yield replayed(lambda: model(torch.tensor([4, 0])))


@scenario()
def caught_inside(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor, y: Tensor) -> Any:
        seen = [1]
        try:
            x.add_(1)
            seen.append(2)
            return torch.matmul(x, y), seen
        except RuntimeError as error:
            seen.append(str(error))
            return x * 2, seen
        finally:
            x.add_(1)
            seen.append(3)

    f = jit(f)
    yield from thrice(lambda: f(data(1), data(2, 4, 2)))
    for _ in range(2):
        yield lambda: f(data(1), data(2, 3, 2))
    yield replayed(lambda: f(data(1), data(2, 4, 2)))


# results


@scenario()
def results_held(jit: Jit) -> Iterator[Any]:
    model = jit(mlp())
    x = data(1)
    yield from thrice(lambda: model(x))

    def two() -> Any:
        a, b = model(x), model(x)
        a.detach().zero_()
        return a, b, a.data_ptr() == b.data_ptr()

    yield two
    yield two


@scenario()
def view_of_the_input(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x: (x.view(-1), x[0], x.t(), x[:, 1:3], x.unsqueeze(0), x))
    for seed in range(4):
        x = data(seed)

        def call() -> Any:
            views = f(x)
            views[1].fill_(9)
            return views, x

        yield call if seed == 0 else replayed(call)
    y = data(1).requires_grad_()
    yield lambda: f(y)
    yield lambda: f(y)
    yield lambda: f(data(1, 1, 4))
    yield lambda: f(data(1, 4, 6)[::2])


@scenario()
def the_input_itself(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x: functional.dropout(x, 0.5, training=False).contiguous().to(torch.float32).float().add_(1))
    for seed in range(3):
        x = data(seed)
        yield lambda: (f(x), x)
    y = data(1).t()
    yield lambda: (f(y), y)
    z = data(1).double()
    yield lambda: (f(z), z)
    yield lambda: (f(z), z)


@scenario()
def in_place_on_the_input(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor) -> Tensor:
        x.add_(1)
        x[0] = 0
        x[:, 1] *= 2
        return x

    f = jit(f)
    x = data(1)
    for _ in range(3):
        yield lambda: (f(x), x)
    y = data(1).requires_grad_()
    yield lambda: f(y)
    yield lambda: f(y)
    yield lambda: f(y * 1)
    yield lambda: f(y * 1)
    yield lambda: f(data(1)[:, :2])
    yield lambda: f(data(1, 1, 4).expand(2, 4))
    yield lambda: (f(x), x)


@scenario()
def attributes_of_the_input(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor) -> Any:
        return x * 2, x.shape, x.size(0), x.dtype, x.device, x.dim(), x.requires_grad, x.is_leaf, x.numel(), x.stride()

    f = jit(f)
    yield from thrice(lambda: f(data(1)))
    for x in (data(1, 1, 4), data(1, 4), data(1).t(), data(1).double(), data(1).requires_grad_(), data(1)):
        yield lambda: f(x)
        yield lambda: f(x)


@scenario()
def shapes_in_python(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor) -> Any:
        rows, columns = x.shape
        if rows > 3:
            return x.reshape(columns, rows) * rows
        return x.view(-1, rows * columns) / columns

    f = jit(f)
    yield from thrice(lambda: f(data(1)))
    for rows in (1, 2, 3, 4, 5, 0, 4, 3):
        yield lambda: f(data(1, rows, 4))
    yield lambda: f(data(1, 4))
    yield lambda: f(data(1))


@scenario()
def loop_over_rows(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor) -> Tensor:
        total = torch.zeros(4)
        for i in range(x.size(0)):
            total = total * 2 + x[i]
        return total

    f = jit(f)
    yield from thrice(lambda: f(data(1, 3, 4)))
    for rows in (4, 2, 0, 1, 3):
        yield lambda: f(data(1, rows, 4))


@scenario(whole=False)
def iterating_a_tensor(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor) -> Any:
        a, b = x
        return a * 2 + b, [row.sum() for row in x], len(x)

    f = jit(f)
    for rows in (2, 2, 2, 3, 2, 1, 2):
        yield lambda: f(data(1, rows, 4))


@scenario()
def branch_on_values(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x: x * 2 if x.sum() > 0 else x - 1)
    up, down = torch.ones(2, 2), -torch.ones(2, 2)
    yield from thrice(lambda: f(up))
    for x in (down, down, up, down, up, torch.full((2, 2), float("nan")), torch.zeros(2, 2)):
        yield lambda: f(x)
    yield replayed(lambda: f(up))


@scenario()
def branch_the_other_way_first(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor) -> Any:
        seen = []
        while x.max() > 1:
            x = x / 2
            seen.append(x.mean().item())
        if not x.any():
            seen.append("zero")
        return x, seen

    f = jit(f)
    for value in (-1.0, -2.0, 4.0, 4.0, 0.5, 0.0, 100.0, 4.0, -3.0):
        yield lambda: f(torch.full((2,), value))


@scenario(whole=False)
def ambiguous_truth(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor) -> Any:
        if x:
            return x + 1
        return x - 1

    f = jit(f)
    for x in (
        torch.ones(1),
        torch.ones(1),
        torch.zeros(1),
        torch.ones(2),
        torch.ones(()),
        torch.ones(0),
        torch.ones(1),
    ):
        yield lambda: f(x)


@scenario()
def items(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x: (x.sum().item() * 2, x * x[0, 0].item(), int(x[0, 0]), float(x[0, 1])))
    for value in (1.5, 1.5, 2.5, -0.0, 1e30, 3.0):
        yield lambda: f(torch.full((2, 2), value))
    for value in (float("nan"), float("inf")):
        yield lambda: f(torch.full((2, 2), value))
    for dtype in (torch.int64, torch.bool, torch.float64, torch.bfloat16):
        yield lambda: f(torch.ones(2, 2, dtype=dtype))
        yield lambda: f(torch.zeros(2, 2, dtype=dtype))


@scenario(bug="stops at tolist()")
def as_lists(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x: (x * 2).tolist())
    for value in (1.5, 1.5, 2.5):
        yield lambda: f(torch.full((2, 2), value))


@scenario()
def input_with_attributes(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x: x.flatten(0) * 2)
    x = data(1)
    x.tag = "mine"
    yield from thrice(lambda: f(x))


@scenario()
def int_of_an_item(jit: Jit) -> Iterator[Any]:
    f = jit(lambda n: int(n.item()))
    for n in (3, 3, 4, 3):
        yield lambda: f(torch.tensor(n))


@scenario()
def item_as_size(jit: Jit) -> Iterator[Any]:
    f = jit(lambda n: torch.ones(int(n.item())) * 2)
    for n in (3, 3, 3, 4, 0, 3, -1, 3):
        yield lambda: f(torch.tensor(n))


@scenario()
def containers(jit: Jit) -> Iterator[Any]:
    def f(batch: dict[str, Any]) -> Any:
        result = {"sum": batch["a"] + batch["b"][0], "list": [batch["a"], batch["b"]], "all": (batch["a"] * 2,)}
        result["count"] = len(batch["b"])
        return result

    f = jit(f)
    batch = {"a": data(1), "b": [data(2), data(3)]}
    yield lambda: f(batch)
    yield lambda: f(batch)
    yield lambda: f({"a": data(4), "b": [data(2), data(3)]})
    yield lambda: f({"a": data(4), "b": [data(5), data(6)]})
    batch["b"].append(1)
    yield lambda: f(batch)
    del batch["a"]
    yield lambda: f(batch)


@scenario()
def global_tensor(jit: Jit) -> Iterator[Any]:
    holder = {"w": data(1)}

    def f(x: Tensor) -> Tensor:
        return x * holder["w"] + weight

    weight = data(2)
    f = jit(f)
    yield from thrice(lambda: f(data(3)))
    holder["w"] = data(4)
    yield lambda: f(data(3))
    weight = data(5)
    yield lambda: f(data(3))
    weight.mul_(2)
    yield lambda: f(data(3))
    weight = weight.double()
    yield lambda: f(data(3))
    yield lambda: f(data(3))


@scenario()
def constants_made_inside(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x: (torch.arange(4), torch.tensor([1.0, 2.0]), torch.zeros(2, 2), x.new_ones(2), torch.eye(2)))

    def call() -> Any:
        made = f(data(1))
        for tensor in made:
            tensor.add_(1)
        return made

    for _ in range(4):
        yield call


@scenario()
def out_argument(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x, out: torch.add(x, 1, out=out))
    x, out = data(1), torch.zeros(2, 4)
    yield from thrice(lambda: f(x, out))
    yield lambda: (f(x, x), x)
    yield lambda: f(x, torch.empty(0))
    yield lambda: f(x, torch.zeros(2, 4, dtype=torch.int64))
    yield lambda: f(x, out.double())


@scenario()
def out_is_an_operand_once(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x, out: torch.abs(x, out=out))
    x = data(1)
    yield lambda: (f(x, x), x)
    for seed in range(2):
        y, out = data(seed), torch.zeros(2, 4)
        yield lambda: (f(y, out), out, y)


@scenario()
def outs(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x, *out: torch.max(x, 1, out=out))
    for shape in ((2, 4), (2, 4), (2, 5), (2, 0), (2, 4)):
        values, indices = torch.zeros(2), torch.zeros(2, dtype=torch.int64)
        yield lambda: (f(data(1, *shape), values, indices), values, indices)


@scenario()
def out_that_cannot_grow(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x, out: torch.abs(x, out=out))

    def kept(size: int) -> Any:
        out = torch.zeros(2, 4)
        out.numpy()  # from now on the storage keeps its size
        try:
            return f(data(1, 2, size), out)
        except RuntimeError as error:  # what it says of `out` would be read behind the end of the storage
            return str(error), out.shape

    for size in (4, 4, 8, 4):
        yield lambda: kept(size)


@scenario()
def results_that_are_operands(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x, y: torch.broadcast_tensors(x, y))
    x = data(1)
    yield lambda: f(x, x)
    yield replayed(lambda: f(x, data(2)))
    yield lambda: f(nn.Parameter(data(3)), data(1, 1, 4))
    yield lambda: f(nn.Parameter(data(3)), data(4))
    yield lambda: nn.functional.l1_loss(*f(x, data(4)))


@scenario()
def random_numbers_of_a_call_that_fails(jit: Jit) -> Iterator[Any]:
    f = jit(lambda p, out: torch.multinomial(p, 3, out=out))
    for wide in (True, True, False, True):
        out = torch.zeros(3 if wide else 1, dtype=torch.int64).expand(3)
        yield lambda: f(torch.ones(9), out)


@scenario()
def rows_in_a_loop(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor) -> int:
        count = 0
        for row in x > 0:
            if not row:
                break
            count += 1
        return count

    f = jit(f)
    for values in ((1.0, 1.0, -1.0), (1.0, 1.0, -1.0), (1.0, -1.0, 1.0), (1.0, 1.0, 1.0), (1.0,), ()):
        yield lambda: f(torch.tensor(values))


@scenario()
def rows_unpacked(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor) -> Tensor:
        first, second = x * 2
        return first - second

    f = jit(f)
    yield from thrice(lambda: f(data(1)))
    yield lambda: f(data(1, 3, 4))
    yield replayed(lambda: f(data(2)))


@scenario()
def recurrent(jit: Jit) -> Iterator[Any]:
    for cell in (
        nn.LSTM(4, 3, num_layers=2, bidirectional=True),
        nn.GRU(4, 3),
        nn.RNN(4, 3),
        nn.LSTM(4, 3, proj_size=2),
    ):
        f = jit(cell)
        yield from thrice(lambda: f(data(1, 5, 2, 4)))
        yield replayed(lambda: f(data(2, 5, 2, 4)))
        yield lambda: f(data(2, 7, 4))
        cell.weight_ih_l0 = nn.Parameter(torch.ones_like(cell.weight_ih_l0))  # noticed through a weak reference
        yield lambda: f(data(3, 5, 2, 4))


@scenario()
def norms(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x: (x.norm(), torch.norm(x, 2, 1), nn.functional.normalize(x), x.device.type, x.dtype.itemsize))
    yield from thrice(lambda: f(data(1)))
    yield replayed(lambda: f(data(2)))
    yield lambda: f(data(2).double())


@scenario()
def results_of_unknown_class(jit: Jit) -> Iterator[Any]:
    f = jit(lambda p, q: p.expand_as(q).reshape(2, 4).type_as(q).unsqueeze(0).shape)
    for p in (nn.Parameter(data(1)), data(2), nn.Parameter(data(3)), nn.Parameter(data(4, 1, 4))):
        yield lambda: f(p, data(1))
    g = jit(lambda p: nn.functional.dropout(p, training=False).grad_fn)
    for p in (nn.Parameter(data(1)), data(2), nn.Parameter(data(3))):
        yield lambda: g(p)


@scenario()
def sizes_of_integers(jit: Jit) -> Iterator[Any]:
    f = jit(
        lambda x, n: (
            torch.Size([n, 4]),
            x.expand(torch.Size((n, *x.shape))),
            torch.broadcast_shapes(x.shape, (n, 1, 1)),
        )
    )
    for n in (2, 2, 3, 3):
        yield lambda: f(data(1), n)


@scenario()
def tensors_of_constants(jit: Jit) -> Iterator[Any]:
    """Each call makes fresh ones, of the numbers as they are now."""
    kept = [1.5, -0.0]

    def f(x: Tensor, n: int) -> Any:
        a = torch.tensor([], dtype=x.dtype, device=x.device)
        b = torch.tensor([[1, 2], [3, 4]])
        b[0] = n
        c = torch.tensor(kept, dtype=x.dtype)
        d = torch.tensor((True, n > 0)), torch.tensor([n, 1]), torch.tensor(1 + 2j), torch.tensor(2.5)
        e = torch.tensor([1.0], requires_grad=True)
        c += 1
        return a, b, c, d, e, torch.cat([a, x.flatten()])

    f = jit(f)
    for n in range(3):
        yield lambda n=n: f(data(n), n)
    yield lambda: f(data(1).double(), 1)
    kept[0] = 3
    yield lambda: f(data(1), 1)
    with torch.inference_mode():
        yield lambda: f(data(1), 1)
        yield replayed(lambda: f(data(2), 1))


@scenario()
def tensors_of_numbers_in_tuples(jit: Jit) -> Iterator[Any]:
    """Tuples that C code made, of numbers that differ from call to call."""

    def f(x: Tensor, n: int) -> Any:
        pairs = torch.tensor(list(zip([n, 1], [2, n], strict=True)))
        return pairs, torch.tensor(list(enumerate([n, 2]))), torch.tensor(list({1: n, 2: n + 1}.items())) + x[0, 0]

    f = jit(f)
    for n in (1, 1, 2, 3, 4, 5, 7, 1):
        yield lambda n=n: f(data(n), n)


@scenario(bug="stops at y.tag = ...")
def attributes_set_on_results(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor) -> Tensor:
        y = x * 2
        y.tag = "mine"
        return y

    f = jit(f)
    for seed in range(4):
        yield lambda: f(data(seed))


@scenario()
def detach_and_requires_grad(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor, w: Tensor) -> Any:
        y = (x * w).detach()
        y.requires_grad_()
        z = (y * 2).sum()
        return y, z, w.data, w.detach()

    f = jit(f)
    w = data(2).requires_grad_()
    for seed in range(4):
        yield lambda: f(data(seed), w)
    yield lambda: f(data(1), w.detach())


@scenario()
def counters_of_the_model(jit: Jit) -> Iterator[Any]:
    class Counts(Scaled):
        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            self.last = y = self.linear(x)
            return y * self.calls

    model = jit(Counts())
    for seed in range(5):
        yield lambda: (model(data(seed)), model.calls, model.last)
    model.calls = 10
    yield lambda: (model(data(1)), model.calls, model.last)


# much


@pytest.mark.parametrize("seed", range(40))
def test_random_changes(seed: int) -> None:
    """Random models, random changes and random inputs."""

    def body(jit: Jit) -> Iterator[Any]:
        choose = random.Random(seed)
        layers: list[Any] = []
        for _ in range(choose.randint(1, 5)):
            layers.append(
                choose.choice(
                    [
                        lambda: nn.Linear(4, 4),
                        nn.ReLU,
                        nn.Tanh,
                        lambda: nn.Dropout(0.5),
                        nn.GELU,
                        lambda: nn.LayerNorm(4),
                        nn.Softplus,
                        lambda: nn.BatchNorm1d(4),
                        nn.Identity,
                    ]
                )()
            )
        model = jit(nn.Sequential(*layers))
        removes: list[Any] = []
        for _ in range(25):
            act = choose.randrange(12)
            if act == 0:
                model.train(choose.random() < 0.5)
            elif act == 1:
                model[choose.randrange(len(model))] = choose.choice([nn.ReLU, nn.Identity, lambda: nn.Linear(4, 4)])()
            elif act == 2:
                removes.append(model[choose.randrange(len(model))].register_forward_hook(lambda m, a, o: o * 2))
            elif act == 3 and removes:
                removes.pop().remove()
            elif act == 4:
                for parameter in model.parameters():
                    parameter.requires_grad_(choose.random() < 0.5)
            elif act == 5:
                for parameter in model.parameters():
                    parameter.data.mul_(1.5)
            elif act == 6:
                model.double() if choose.random() < 0.3 else model.float()
            shape = choose.choice([(2, 4), (2, 4), (2, 4), (3, 4), (1, 4), (2, 5), (2, 3, 4)])
            x = data(choose.randrange(100), *shape)
            if choose.random() < 0.2:
                x.requires_grad_()
            mode = choose.choice([torch.enable_grad, torch.enable_grad, torch.enable_grad, torch.no_grad])

            def call() -> Any:
                with mode():
                    return model(x), x

            yield call

    side_by_side.check(body, whole=False)


@pytest.mark.parametrize("name", TABLE.cases())
def test_same(name: str) -> None:
    TABLE.check(name, __file__)
