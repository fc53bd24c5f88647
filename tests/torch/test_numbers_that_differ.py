"""Numbers that differ from call to call: few recordings, then replays that are never left."""

from __future__ import annotations

import copy
import functools
import random
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import pijit

pytestmark = pytest.mark.torch

CALLS, LAST = 40, 16

Program = tuple[Callable[..., Any], Callable[[int], tuple[Any, ...]]]
TABLE: dict[str, tuple[Callable[[], Program], int]] = {}


def program(recordings: int = 3) -> Callable[[Callable[[], Program]], Callable[[], Program]]:
    """A row of the table: how many recordings it may take."""

    def add(make: Callable[[], Program]) -> Callable[[], Program]:
        TABLE[make.__name__] = (make, recordings)
        return make

    return add


class Record:
    def __init__(self, i: int) -> None:
        self.x, self.label = torch.full((4, 3), float(i)), i * 2


class Pairs:
    def __init__(self) -> None:
        self.xs = [torch.full((4, 3), float(i)) for i in range(8)]
        self.ys = [torch.full((4, 1), float(i)) for i in range(8)]

    def __len__(self) -> int:
        return len(self.xs)

    def __getitem__(self, i: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.xs[i], self.ys[i]


def net() -> Any:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1))


def batch(i: int) -> torch.Tensor:
    return torch.full((4, 3), i / 7)


def batches(count: int = 8) -> list[torch.Tensor]:
    return [batch(i) for i in range(count)]


def by_index(use: Callable[[Any, int], Any]) -> Program:
    model = net()
    return lambda i: use(model, i), lambda i: (i,)


@program()
def a_list_of_tensors() -> Program:
    data = batches()
    return by_index(lambda model, i: model(data[i % 8]).detach())


@program()
def a_list_of_tensors_by_a_counter() -> Program:
    model, data, state = net(), batches(), [0]

    def step() -> Any:
        i = state[0]
        state[0] += 1
        return model(data[i % len(data)]).detach(), i

    return step, lambda i: ()


@program()
def a_list_in_the_arguments() -> Program:
    model, data = net(), batches()
    return lambda data, i: model(data[i % 8]).detach(), lambda i: (data, i)


@program()
def a_list_of_pairs() -> Program:
    data = [(batch(i), torch.full((4, 1), i / 5)) for i in range(8)]

    def use(model: Any, i: int) -> Any:
        x, y = data[i % 8]
        return (model(x) - y).pow(2).mean().detach()

    return by_index(use)


@program()
def a_list_of_dicts() -> Program:
    data = [{"x": batch(i), "weight": i / 5} for i in range(8)]

    def use(model: Any, i: int) -> Any:
        row = data[i % 8]
        return model(row["x"]).mean().detach() * row["weight"]

    return by_index(use)


@program()
def a_dataset() -> Program:
    pairs = Pairs()

    def use(model: Any, i: int) -> Any:
        x, y = pairs[i % len(pairs)]
        return (model(x) - y).pow(2).mean().detach()

    return by_index(use)


@program()
def a_list_of_many_objects() -> Program:
    data = [Record(i) for i in range(20)]
    return by_index(lambda model, i: (model(data[i % 20].x).detach(), data[i % 20].label))


@program()
def rates_in_a_tuple() -> Program:
    rates = tuple(i / 3 for i in range(8))
    return by_index(lambda model, i: model(batch(i)).detach() * rates[-(i % 8)])


@program(4)
def weights_in_a_dict() -> Program:
    weights = {i: i / 3 for i in range(8)}
    return by_index(lambda model, i: (model(batch(i)).detach() * weights[i % 8], (i + 3) % 20 not in weights))


@program(4)
def words_in_a_vocabulary() -> Program:
    vocabulary = {f"w{i}": i for i in range(20)}
    embedding = nn.Embedding(20, 3)

    def use(model: Any, i: int) -> Any:
        return model(embedding(torch.tensor([vocabulary[f"w{i % 20}"]]))).detach()

    return by_index(use)


@program()
def results_in_a_dict() -> Program:
    results: dict[int, float] = {}

    def use(model: Any, i: int) -> Any:
        results[i] = model(batch(i)).sum().item()
        return results[i]

    return by_index(use)


@program()
def a_ring() -> Program:
    ring = [0.0] * 5

    def use(model: Any, i: int) -> Any:
        ring[i % 5] = model(batch(i)).sum().item()
        return ring[i % 5] + 1

    return by_index(use)


@program(6)
def a_history() -> Program:
    history: list[float] = []

    def use(model: Any, i: int) -> Any:
        history.append(model(batch(i)).sum().item())
        return sum(history[-3:]) / len(history[-3:]), len(history), history[-1], history[0]

    return by_index(use)


@program()
def draws() -> Program:
    model, generator = net(), random.Random(3)

    def step(x: torch.Tensor) -> Any:
        return model(x).detach() * generator.random() + generator.randint(1, 5), generator.randrange(1000)

    return step, lambda i: (batch(i),)


@program()
def a_sample_of_a_buffer() -> Program:
    model, generator, buffer = net(), random.Random(3), batches(20)

    def step() -> Any:
        return model(torch.cat(generator.sample(buffer, 4))).mean().detach()

    return step, lambda i: ()


@program()
def a_choice() -> Program:
    model, generator, data = net(), random.Random(3), batches()
    return lambda: model(generator.choice(data)).detach(), lambda i: ()


@program(4)
def milestones_in_a_counter() -> Program:
    model, milestones, state = net(), Counter([5, 5, 11, 18]), [0]

    def step(x: torch.Tensor) -> Any:
        state[0] += 1
        factor = 1.0 if state[0] not in milestones else 0.5 ** milestones[state[0]]
        return model(x).detach() * factor, milestones[state[0]] if state[0] in milestones else None

    return step, lambda i: (batch(i),)


@program(4)
def numbers_in_a_set() -> Program:
    model, some, others = net(), {3, 4, 20}, frozenset({"w1", "w2"})

    def use(model: Any, i: int) -> Any:
        return model(batch(i)).detach(), i * 2 in some, f"w{i}" not in others

    return by_index(use)


@program()
def a_cached_function_of_a_number() -> Program:
    model = net()

    @functools.lru_cache(maxsize=None)
    def width(n: int) -> int:
        return n * 2 + 1

    return lambda x, i: model(x).detach() * width(i), lambda i: (batch(i), i)


@program()
def a_cached_function_of_a_shape() -> Program:
    """As einops does it: what is made of a shape is remembered by the shape, and by names."""
    model = net()

    @functools.lru_cache(maxsize=64)
    def reshaped(shape: torch.Size, axes: tuple[tuple[str, int], ...], *, last: int) -> list[int]:
        return [-1, shape[0] * dict(axes)["k"], last]

    def step(x: torch.Tensor, **axes: int) -> Any:
        y = model(x).detach()
        return y.reshape(reshaped(x.shape, tuple(axes.items()), last=y.shape[-1])).sum(0)

    return lambda x: (step(x, k=1), reshaped.cache_info()), lambda i: (torch.full((3 + i, 3), i / 7),)


@program()
def sizes() -> Program:
    model = net()

    def step(x: torch.Tensor) -> Any:
        n = x.shape[0]
        return model(x).view(n, -1).expand(n, 2).reshape(n * 2).detach(), n, len(x) / 3

    return step, lambda i: (torch.full((3 + i % 5, 3), i / 7),)


@program()
def a_default() -> Program:
    """`get` of keys that are there and of others, and a table of counts."""
    model, known, counts = net(), {i: i * 0.5 for i in range(0, 60, 3)}, {}

    def step(x: torch.Tensor, i: int) -> Any:
        counts[i % 7] = counts.get(i % 7, 0) + 1
        return model(x).detach() * known.get(i, 0.25), known.get(i + 1, 2.0), counts[i % 7]

    return step, lambda i: (batch(i), i)


WORDS = [f"word {i * 7}" for i in range(64)]


@program(4)
def a_factor_that_is_an_int_now_and_then() -> Program:
    model = net()
    return lambda x, factor: (model(x) * factor).detach(), lambda i: (batch(i), 1 if i % 3 == 0 else 0.5 + i / 100)


@program(6)
def tokens() -> Program:
    model = net()

    def generate(x: torch.Tensor, count: int) -> Any:
        for _ in range(count):
            x = model[0](x)
        return x.detach()

    return generate, lambda i: (batch(i), 20 + i % 4)


@program(8)
def a_piece_of_a_text() -> Program:
    """A slice of a text is another one in each call: the function that takes it is left to CPython."""
    model, embedding, text = net(), nn.Embedding(26, 3), "".join(chr(97 + i * 7 % 26) for i in range(60))

    def piece(x: torch.Tensor) -> torch.Tensor:
        at = int(x.sum())
        return torch.tensor([ord(each) - 97 for each in text[at : at + 5]])

    return lambda x: model(embedding(piece(x))).detach(), lambda i: (torch.full((2,), float(i * 11 % 26)),)


@program(12)
def a_list_that_grows_and_is_stacked() -> Program:
    model, seen = net(), [torch.zeros(4, 1)]

    def step(x: torch.Tensor) -> Any:
        seen.append(model(x).detach())
        return torch.stack(seen).sum(), len(seen)

    return step, lambda i: (batch(i),)


def same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and torch.equal(a, b)
    if isinstance(a, (tuple, list)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, BaseException):
        return type(a) is type(b) and str(a) == str(b)
    return type(a) is type(b) and bool(a == b)


def run(make: Callable[[], Program], jitted: bool, calls: int) -> tuple[list[Any], list[dict[str, float]]]:
    """What the calls give, and what each of them adds to the counters."""
    torch.manual_seed(0)
    function, arguments = make()
    fast = pijit.jit(function) if jitted else function
    found, rows = [], []
    for i in range(calls):
        given = arguments(i)
        before = pijit.stats()
        try:
            result = fast(*given)
        except Exception as error:
            result = error
        after = pijit.stats()
        found.append(copy.deepcopy(result))
        rows.append({name: after[name] - before[name] for name in ("records", "replays", "exits")})
    return found, rows


@pytest.mark.parametrize("name", TABLE)
def test_few_recordings(name: str) -> None:
    make, most = TABLE[name]
    plain, _ = run(make, False, CALLS)
    fast, rows = run(make, True, CALLS)
    assert same(plain, fast)
    assert sum(row["records"] for row in rows) <= most
    assert all(row["replays"] >= 1 for row in rows[-LAST:])
    assert sum(row["exits"] for row in rows[-LAST:]) == 0


def check(make: Callable[[], Program], calls: int = 24) -> None:
    """The answer is that of plain Python, whatever changes."""
    assert same(run(make, False, calls)[0], run(make, True, calls)[0])


INDICES = [0, 1, 2, 3, 1, 0, -1, -4, 4, -5, True, 2.0, 2**70, "1", None, 1, 3]


@pytest.mark.parametrize("kind", [list, tuple, lambda items: dict(enumerate(items))])
def test_any_index(kind: Callable[[Any], Any]) -> None:
    def make() -> Program:
        data = kind([batch(i) for i in range(4)])
        return lambda i: data[i] * 2, lambda i: (INDICES[i],)

    check(make, len(INDICES))


def test_other_items() -> None:
    def make() -> Program:
        data: list[Any] = batches()

        def arguments(i: int) -> tuple[Any, ...]:
            if i == 8:
                data[2] = 5.0
            if i == 12:
                data[3] = torch.zeros(2, dtype=torch.int64)
            if i == 16:
                data[:] = [1.5] * 6
            if i == 20:
                data[:] = [None] * 3
            return (i % 8,)

        return lambda i: data[i] * 2, arguments

    check(make)


def test_items_that_are_written() -> None:
    def make() -> Program:
        data: list[list[Any]] = [[batch(i), i] for i in range(6)]
        data[5] = data[2]

        def step(i: int) -> Any:
            row, other = data[i % 6], data[(i + 3) % 6]
            row[1] += 1
            other[0] = other[0] + row[1]
            return row[0] * row[1], other[1], row is other

        return step, lambda i: (i,)

    check(make)


def test_a_tensor_that_is_written() -> None:
    def make() -> Program:
        data = batches(5)
        data.append(data[0])

        def step(i: int) -> Any:
            x, y = data[i % 6], data[(i * 2) % 6]
            x.add_(1)
            return x + y, x is y

        return step, lambda i: (i,)

    check(make)


def test_an_item_that_the_trace_has_put_there() -> None:
    def make() -> Program:
        data = batches(4)

        def step(x: torch.Tensor, i: int) -> Any:
            y = x * 2
            data.append(y)
            z = data[i % 5]
            z.mul_(2)
            data.pop()
            return y + z, y is z

        return step, lambda i: (batch(i), i)

    check(make)


def test_gradients_go_through() -> None:
    def make() -> Program:
        weights = [torch.full((3,), float(i), requires_grad=True) for i in range(4)]

        def step(i: int) -> Any:
            loss: Any = (weights[i % 4] * weights[(i + 1) % 4]).sum()
            loss.backward()
            return [weight.grad for weight in weights]

        return step, lambda i: (i,)

    check(make)


def test_an_item_that_decides() -> None:
    def make() -> Program:
        steps = [torch.sin, torch.cos, lambda x: x * 2]
        flags = [True, False, True, None]
        sizes = [1, 2, 3]

        def step(x: torch.Tensor, i: int) -> Any:
            for _ in range(sizes[i % 3]):
                x = steps[i % 3](x)
            return x if flags[i % 4] else -x

        return step, lambda i: (batch(i), i)

    check(make)


class Loud:
    """Its hash is that of a number."""

    seen: list[str] = []

    def __init__(self, number: int) -> None:
        self.number = number

    def __hash__(self) -> int:
        return hash(self.number)

    def __eq__(self, other: object) -> bool:
        Loud.seen.append(str(other))
        return False


def test_keys_of_another_class() -> None:
    def make() -> Program:
        table: dict[Any, Any] = {i: batch(i) for i in range(8)}
        Loud.seen.clear()

        def arguments(i: int) -> tuple[Any, ...]:
            if i == 10:
                del table[3]
                table[Loud(3)] = batch(3)
                table[3] = batch(33)
            return (i % 8,)

        return lambda i: (table[i] * 2, i in table, list(Loud.seen)), arguments

    check(make)


@pytest.mark.parametrize("count", [3, 10, 40])
def test_texts_that_decide(count: int) -> None:
    """Each is compared, is the name of a method, or is in a table of functions."""

    def make() -> Program:
        names = (["sum", "mean", "max", "min", "prod", "numel", "dim", "std", "var", "nothing"] + WORDS)[:count]
        functions = {"sum": torch.sum, "mean": torch.mean, "max": torch.max, WORDS[3]: torch.neg}

        def step(x: torch.Tensor, name: str) -> Any:
            if name == "sum" or name.startswith("word 1"):
                x = x + 1
            elif name in ("mean", "max"):
                x = x - 1
            return x * 2, functions.get(name, torch.abs)(x), getattr(x, name)(), name.upper()

        return step, lambda i: (batch(i), names[i * 3 % count])

    check(make, 90)


def test_defaults() -> None:
    """Of other classes, of none, and of tables that change or do more."""

    def make() -> Program:
        table: dict[Any, Any] = {i: i * 0.5 for i in range(0, 24, 2)}
        kinds: list[Any] = [table, Counter({1: 3}), OrderedDict({1: 0.5, 3: 2.0}), Counts({1: 3})]
        Loud.seen.clear()

        def arguments(i: int) -> tuple[Any, ...]:
            if i == 8:
                table[3] = 7
            if i == 10:
                table[5] = batch(5)
                kinds[1][True] = 9
            if i == 12:
                table[Loud(13)] = 2.5
            if i == 15:
                for key in [key for key in table if isinstance(key, Loud) or key in (3, 5)]:
                    del table[key]
            return (batch(i), {6: 2.0, 9: True, 18: "8", 19: None}.get(i, i), [0.5, 1, None, True][i // 6])

        def step(x: torch.Tensor, i: Any, other: Any) -> Any:
            found = [table.get(i, 1.5), table.get(i, 3), table.get(i), table.get(i, other), list(Loud.seen)]
            return x * 2, *found, *(each.get(i, 4) for each in kinds)

        return step, arguments

    check(make)


def test_defaults_of_a_table_that_the_call_writes() -> None:
    def make() -> Program:
        counts: dict[Any, int] = {}

        def step(x: torch.Tensor, word: str, i: int) -> Any:
            before = counts.get(i, 0), counts.get(i + 1, 5)
            counts[i] = before[0] + 1
            counts[word] = counts.get(word, 0) + 1
            return x * counts.get(i, 0), before, counts.get(i + 1, 6), dict(counts)

        return step, lambda i: (batch(i), "abcde"[i % 5], i * i % 7)

    check(make, 40)


def test_sets_that_change() -> None:
    def make() -> Program:
        some: set[Any] = {1, 2, 30}
        Loud.seen.clear()

        def arguments(i: int) -> tuple[Any, ...]:
            if i == 8:
                some.discard(2)
            if i == 12:
                some.add(Loud(3))
            if i == 16:
                some.update(range(100, 500))
            return (batch(i), i % 4)

        return lambda x, i: (x * 2 if i + 0 in some else x, list(Loud.seen)), arguments

    check(make)


class Counts(Counter[int]):
    """It finds what it has not."""

    def __contains__(self, key: object) -> bool:
        return key in (1, 2)

    def __getitem__(self, key: int) -> int:
        return key + 100


def test_dicts_that_do_more() -> None:
    class Missing(dict[int, torch.Tensor]):
        def __missing__(self, key: int) -> torch.Tensor:
            return batch(key)

    def make() -> Program:
        tables: list[Any] = [Missing({1: batch(9)}), OrderedDict({i: batch(i) for i in range(4)})]
        return lambda i: [table[i % 4] * 2 for table in tables], lambda i: (i,)

    def counted() -> Program:
        counters: list[Any] = [Counter({1: 3, 2: 5}), Counts({1: 3})]

        def arguments(i: int) -> tuple[Any, ...]:
            if i == 12:
                del Counts.__contains__
            if i == 16:
                counters[0][3] = 7
            if i == 20:
                del Counts.__getitem__
            return (batch(i), i % 4)

        before = Counts.__contains__, Counts.__getitem__

        def step(x: torch.Tensor, i: int) -> Any:
            return [(i in each, each[i] * x) for each in counters]

        def restore() -> None:
            Counts.__contains__, Counts.__getitem__ = before  # type: ignore[method-assign]

        restores.append(restore)
        return step, arguments

    restores: list[Callable[[], None]] = []
    plain, _ = run(counted, False, 24)
    restores[0]()
    fast, _ = run(counted, True, 24)
    restores[0]()
    assert same(plain, fast)
    check(make)


def test_histories() -> None:
    def make() -> Program:
        history: list[Any] = []

        def step(x: torch.Tensor, i: int) -> Any:
            history.append(x.sum().item())
            if i % 7 == 6:
                history.pop(0)
            last = history[-2:]
            last.append(1.0)
            history[-1] += 1
            return last, len(history), history[-1], history[i % 3 - 1], [value for value in history]

        return step, lambda i: (batch(i), i)

    check(make)


def test_generators_of_the_programs_own() -> None:
    class Odd(random.Random):
        def getrandbits(self, k: int) -> int:
            return super().getrandbits(k) | 1

    def make() -> Program:
        plain, odd, patched = random.Random(1), Odd(1), random.Random(2)

        def arguments(i: int) -> tuple[Any, ...]:
            if i == 8:
                patched.getrandbits = lambda k: 3  # type: ignore[method-assign]
            if i == 16:
                plain.seed(5)
            return ()

        def step() -> Any:
            numbers = [each.randrange(10) for each in (plain, odd, patched)]
            return (
                numbers,
                plain.sample(range(9), 3),
                plain.choices("abc", k=2),
                plain.getrandbits(5),
                plain.gauss(0, 1),
            )

        return step, arguments

    check(make)


def test_errors_of_draws() -> None:
    def make() -> Program:
        generator = random.Random(1)
        limits: list[Any] = [5, 6, 7, 0, -1, 2.5, "a", 2**80, 5, 3]
        return lambda limit: generator.randrange(limit), lambda i: (limits[i % 10],)

    check(make, 30)


def test_shuffles() -> None:
    def make() -> Program:
        generator, data = random.Random(4), batches(5)

        def step() -> Any:
            generator.shuffle(data)
            return torch.cat(data), generator.random()

        return step, lambda i: ()

    check(make)


@functools.singledispatch
def scale(by: Any, x: torch.Tensor) -> torch.Tensor:
    return x * 2


@scale.register
def _(by: int, x: torch.Tensor) -> torch.Tensor:
    return x * by


@scale.register(list)
def _(by: list[Any], x: torch.Tensor) -> torch.Tensor:
    return x + len(by)


def test_singledispatch_is_followed() -> None:
    def make() -> Program:
        return lambda x, by: scale(by, x), lambda i: (batch(i), i)

    plain, _ = run(make, False, CALLS)
    fast, rows = run(make, True, CALLS)
    assert same(plain, fast)
    assert sum(row["records"] for row in rows) <= 4
    assert all(row["replays"] == 1 and row["exits"] == 0 for row in rows[-LAST:])

    jitted = pijit.jit(make()[0])
    for i in range(4):
        jitted(batch(i), 2)
    assert pijit.traces(jitted)[-1].opaque_calls == 0

    @scale.register(float)
    def other(by: float, x: torch.Tensor) -> torch.Tensor:
        return x - by

    values: list[Any] = [1, 2.5, [1, 2], "a", 3, 0.5]
    for i in range(18):
        assert torch.equal(jitted(batch(i), values[i % 6]), scale(values[i % 6], batch(i)))


class Worker:
    def __init__(self, factor: float) -> None:
        self.factor = factor

    def scaled(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factor


class Holder:
    hook: Any = None


def test_bound_methods_are_made_anew() -> None:
    """A method that is put into an attribute, or passed, in each call is the same method."""

    def of_an_attribute() -> Program:
        holder, worker = Holder(), Worker(2.0)

        def arguments(i: int) -> tuple[Any, ...]:
            holder.hook = worker.scaled
            if i == 30:
                worker.factor = 3.0
            return (batch(i),)

        return lambda x: (holder.hook(x), holder.hook == worker.scaled, holder.hook is worker.scaled), arguments

    def of_a_dict() -> Program:
        hooks: dict[str, Any] = {}
        workers = [Worker(2.0), Worker(3.0)]

        def arguments(i: int) -> tuple[Any, ...]:
            hooks["hook"] = workers[i >= 30].scaled
            return (batch(i),)

        return lambda x: hooks["hook"](x), arguments

    def passed() -> Program:
        worker = Worker(2.0)
        return lambda hook, x: hook(x) + 1, lambda i: (worker.scaled, batch(i))

    for make in (of_an_attribute, of_a_dict, passed):
        plain, _ = run(make, False, CALLS)
        fast, rows = run(make, True, CALLS)
        assert same(plain, fast)
        assert sum(row["records"] for row in rows) <= 4, make
        assert all(row["replays"] == 1 for row in rows[10:26]), make


def test_devices_that_are_made_anew() -> None:
    def make() -> Program:
        def step(n: int, device: torch.device) -> Any:
            return torch.full((n,), 2.0, device=device), device.type, device == torch.device("cpu")

        return step, lambda i: (3, torch.device("cpu"))

    plain, _ = run(make, False, CALLS)
    fast, rows = run(make, True, CALLS)
    assert same(plain, fast)
    assert sum(row["records"] for row in rows) <= 4
    assert all(row["replays"] == 1 for row in rows[-LAST:])
