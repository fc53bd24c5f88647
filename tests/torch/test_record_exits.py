"""Replays that are left in the middle: an operator fails or a branch flips at every place of nested frames.

What follows an exit equals the plain run: result, exception, traceback, output, appended lists, counters, locals.
"""

from __future__ import annotations

import contextvars
import gc
import os
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import side_by_side
import torch
from side_by_side import Jit, replayed
from torch import Tensor, nn

import pijit
from pijit import _core, api

pytestmark = pytest.mark.torch

TABLE = side_by_side.Table()
scenario = TABLE.add
PLACES = 12  # at which `Program` asks `point`


def data(seed: int, *shape: int) -> Tensor:
    return torch.randn(*(shape or (2, 4)), generator=torch.Generator().manual_seed(seed))


def fails(x: Tensor, switch: Tensor) -> Tensor:
    """An operator that fails if the switch has another size."""
    return x + switch


def flips(x: Tensor, switch: Tensor) -> Tensor:
    """A branch on a value."""
    if switch.sum() > 0:
        return x * 2
    return x - 1


def number(x: Tensor, switch: Tensor) -> Tensor:
    """A value that Python computes with."""
    return x * (switch.sum().item() + 1)


class Block(nn.Module):
    """One layer of the program, with state of its own."""

    def __init__(self, program: Program, index: int) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.program = [program]
        self.index = index

    def forward(self, x: Tensor, *, scale: float = 0.5, **more: Any) -> Tensor:
        y = self.linear(x)
        y = self.program[0].point(y)
        pair = (y, [y * scale, self.index])
        for item in (1, 2):
            y = y + item
        return self.program[0].point(y) + pair[1][0]


class Program(nn.Module):
    """Nested modules, functions, closures, loops, blocks and handlers; every `point` takes the next switch."""

    def __init__(self, kind: Any, effects: bool, handles: bool) -> None:
        super().__init__()
        self.kind, self.effects, self.handles = kind, effects, handles
        self.blocks = nn.ModuleList([Block(self, index) for index in range(2)])
        self.seen: list[Any] = []
        self.counts = {"points": 0}

    def point(self, x: Tensor) -> Tensor:
        """The next place."""
        place = self.place
        self.place = place + 1
        return self.kind(x, self.switches[place])

    def forward(self, x: Tensor, switches: list[Tensor]) -> Any:
        self.switches, self.place = switches, 0
        scale = x.size(0) / 4

        def inner(y: Tensor, *rest: Any, key: Any = None) -> Any:
            nonlocal scale
            y = self.point(y)
            scale = scale + 1
            return self.point(y * scale), rest, key

        for block in self.blocks:
            x = block(x, scale=scale, more=1)
            if self.effects:
                self.seen.append(len(self.seen))
                self.counts["points"] += 1
        with torch.no_grad():
            z = self.point(x)
        try:
            x, rest, key = inner(x, 1, 2, key="k")
        except RuntimeError as error:
            if not self.handles:
                raise
            self.seen.append(str(error))
            rest, key = (), None
        finally:
            x = self.point(x)
        made = [self.point(x * i) for i in range(3)]
        if self.effects:
            print("made", len(made), rest, key)
        total = {name: value for name, value in zip("abc", made, strict=True)}
        return self.point(sum(made)), total, z, scale


def usual() -> list[Tensor]:
    return [torch.full((4,), 0.25) for _ in range(PLACES)]


def unusual(kind: Any, place: int) -> list[Tensor]:
    switches = usual()
    switches[place] = torch.ones(3) if kind is fails else -torch.ones(4)
    return switches


def at_place(kind: Any, place: int, effects: bool, handles: bool) -> Any:
    def body(jit: Jit) -> Iterator[Any]:
        model = jit(Program(kind, effects, handles))

        def call(switches: list[Tensor]) -> Any:
            def made() -> Any:
                try:
                    return model(data(1), switches)
                finally:
                    model.seen.append(dict(model.counts))

            return made

        for switches in (usual(), usual(), usual()):
            yield call(switches)
            yield lambda: list(model.seen)
        for _ in range(2):
            yield call(unusual(kind, place))
            yield lambda: (list(model.seen), model.counts)
        yield call(usual())
        yield call(unusual(kind, place))
        yield call(usual())

    return body


@pytest.mark.parametrize("place", range(PLACES))
@pytest.mark.parametrize("variant", ["pure", "effects", "handles"])
@pytest.mark.parametrize("kind", [fails, flips, number])
def test_every_place(kind: Any, variant: str, place: int) -> None:
    side_by_side.check(at_place(kind, place, variant != "pure", variant == "handles"), whole=False)


# The same with a program that is replayed as a whole: its place is an index, not an attribute of the module.


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor, kind: Any, first: Tensor, second: Tensor, *, scale: float = 0.5) -> Tensor:
        y = self.linear(x)
        y = kind(y, first)
        pair = (y, {"y": y * scale})
        for item in (1, 2):
            y = y + item
        return kind(y, second) + pair[1]["y"]


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Layer(), Layer()
        self.others = nn.ModuleList([Layer()])

    def forward(self, x: Tensor, kind: Any, s: list[Tensor]) -> Any:
        scale = x.size(0) / 4

        def inner(y: Tensor, *rest: Any, key: Any = None) -> Any:
            nonlocal scale
            y = kind(y, s[6])
            scale = scale + 1
            return kind(y * scale, s[7]), rest, key

        x = self.first(x, kind, s[0], s[1], scale=scale)
        x = self.second(x, kind, s[2], second=s[3])
        for layer in self.others:
            x = layer(x, kind, s[4], s[5])
        y, rest, key = inner(x, 1, 2, key="k")
        try:
            y = kind(y, s[8])
        finally:
            y = kind(y, s[9])
        made = [kind(y * i, s[10]) for i in range(3)]
        return kind(made[0] + made[2], s[11]), {"made": made, "rest": rest}, key, scale


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("place", range(PLACES))
@pytest.mark.parametrize("kind", [fails, flips, number])
def test_every_place_of_a_whole_trace(kind: Any, place: int, grad: bool) -> None:
    def body(jit: Jit) -> Iterator[Any]:
        model = jit(Layers())

        def call(switches: list[Tensor]) -> Any:
            return torch.set_grad_enabled(grad)(lambda: model(data(1), kind, switches))

        yield call(usual())
        yield replayed(call(usual()))
        for _ in range(2):
            yield call(unusual(kind, place))
        yield replayed(call(usual()))
        yield call([*unusual(kind, place)[: place + 1], *([-torch.ones(4)] * PLACES)])
        yield replayed(call(usual()))

    side_by_side.check(body)


# scenarios


@scenario(whole=False)
def exit_in_a_generator(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor, s: list[Tensor]) -> Any:
        return sum(flips(x, item) for item in s)

    f = jit(f)
    for signs in ((1, 1), (1, 1), (1, -1), (-1, 1), (1, 1), (-1, -1)):
        yield lambda: f(data(1), [torch.tensor(float(sign)) for sign in signs])


@scenario()
def exit_in_an_init(jit: Jit) -> Iterator[Any]:
    class Pair:
        def __init__(self, x: Tensor, s: Tensor) -> None:
            self.first = flips(x, s)
            self.second = x

    f = jit(lambda x, s: vars(Pair(x, s)))
    for sign in (1, 1, -1, -1, 1):
        yield lambda: f(data(1), torch.tensor(float(sign)))


class Holder:
    """Python methods that instructions call."""

    def __init__(self, x: Tensor, s: Tensor) -> None:
        self.x, self.s = x, s

    @property
    def value(self) -> Tensor:
        return flips(self.x, self.s)

    def __getattr__(self, name: str) -> Tensor:
        return flips(self.x, -self.s)

    def __add__(self, other: Any) -> Tensor:
        return flips(self.x, self.s) + other

    def __getitem__(self, key: Any) -> Tensor:
        return flips(self.x, self.s) + key

    def __call__(self) -> Tensor:
        return flips(self.x, self.s) + 1

    def __bool__(self) -> bool:
        return bool((flips(self.x, self.s) > 0).all())

    def __len__(self) -> int:
        return 2 if flips(self.x, self.s)[0] > 0 else 3

    def __enter__(self) -> Tensor:
        return flips(self.x, self.s)

    def __exit__(self, *args: Any) -> None:
        self.x.add_(flips(self.x, self.s))

    def __contains__(self, key: Any) -> bool:
        return bool(flips(self.x, self.s)[0] > key)

    def __eq__(self, other: Any) -> Any:
        return flips(self.x, self.s)


def entered(holder: Holder) -> Any:
    with holder as y:
        z = y * 2
    return y, z


USES: dict[str, Any] = {
    "property": lambda holder: holder.value + 1,
    "getattr": lambda holder: holder.missing + 1,
    "getattr_by_name": lambda holder: getattr(holder, "missing") + 1,  # noqa: B009
    "getattr_with_default": lambda holder: getattr(holder, "missing", None) + 1,
    "hasattr": lambda holder: hasattr(holder, "missing"),
    "add": lambda holder: holder + 1,
    "getitem": lambda holder: holder[2],
    "call": lambda holder: holder() + 1,
    "bool": lambda holder: 1 if holder else 2,
    "not": lambda holder: not holder,
    "as_bool": lambda holder: bool(holder),
    "len": lambda holder: len(holder) + 1,
    "with": entered,
    "contains": lambda holder: 1 in holder,
    "not_contains": lambda holder: 1 not in holder,
    "equal": lambda holder: (holder == 1) + 1,
    "map": lambda holder: list(map(lambda i: flips(holder.x, holder.s) + i, (1, 2))),  # noqa: C417
    "comprehension": lambda holder: [flips(holder.x, holder.s) + i for i in (1, 2)],
    "dict_comprehension": lambda holder: {i: flips(holder.x, holder.s) + i for i in (1, 2)},
    "generator": lambda holder: tuple(flips(holder.x, holder.s) + i for i in (1, 2)),
    "all": lambda holder: all((flips(holder.x, holder.s) > i).all() for i in (-100, -200)),
    "sorted": lambda holder: sorted((2, 1), key=lambda i: flips(holder.x, holder.s)[0].item() * i),
}
STOPS = {}
if sys.version_info < (3, 14):  # which has a loop in its place
    STOPS["all"] = "stops where all() drives a generator with operators"


def use(name: str) -> None:
    def body(jit: Jit) -> Iterator[Any]:
        f = jit(lambda holder: USES[name](holder))
        for sign in (1, 1, 1, -1, -1, 1):
            yield lambda: f(Holder(torch.full((2,), 3.0), torch.tensor(float(sign))))

    body.__name__ = f"exit in {name}"
    scenario(whole=False)(body)
    whole = lambda jit: body(jit)  # noqa: E731
    whole.__name__ = f"{name} is replayed as a whole"
    scenario(bug=STOPS.get(name, ""))(whole)


for each in USES:
    use(each)


class Draws:
    """Methods that C calls, each of which changes what a second call would see."""

    def __init__(self, n: float) -> None:
        self.n, self.x = n, torch.zeros(2)

    def __bool__(self) -> bool:
        return bool(torch.rand(()).item() * 0 + self.n > 2)

    def __contains__(self, item: Any) -> bool:
        return self.x.add_(1).sum().item() * 0 + self.n > 3

    def __getattr__(self, name: str) -> Any:
        return self.x.add_(2).sum() + self.n

    def __lt__(self, other: Any) -> bool:
        return bool(torch.rand(()) + self.n > 5)


@scenario(whole=False)
def effects_in_frames_that_c_calls(jit: Jit) -> Iterator[Any]:
    """Numbers drawn and tensors changed there once, not once more after an exit."""

    def f(n: float) -> Any:
        draws, grown = Draws(n), torch.zeros(2)

        def each() -> Iterator[float]:
            for _ in range(3):
                yield grown.add_(1).sum().item() + n

        sums = sum(torch.rand(1).item() * 0 + n for _ in range(3)), sum(each()), max(each()), [*map(float, each())]
        ordered = (
            sorted([2, 1], key=lambda i: torch.rand(()).item() * 0 + i * n),
            min([draws, draws], key=lambda d: d.n),
        )
        asked = bool(draws), 1 in draws, getattr(draws, "absent", None), draws < 1, hasattr(draws, "more")
        return sums, ordered[0], asked, grown, draws.x, torch.rand(2)

    f = jit(f)
    for n in (0, 1, 2, 3, 4, 2**62, 5, 0.5, 7, 2**62):
        yield lambda: f(n)


@scenario()
def operators_in_frames_that_c_calls(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor, n: float) -> Any:
        ordered = sorted([x, x * 2, x - 3], key=lambda y: y.sum().item())
        best = max(range(3), key=lambda i: (x[i % 2] * n).sum().item())
        return [*ordered, *map(lambda y: y * n, [x, x + 1])], best, all((x[i] > -10 - n).any().item() for i in range(2))

    f = jit(f)
    for n in range(1, 4):
        yield lambda: f(data(1), n)
    for n in (4, 5, 6):
        yield replayed(lambda: f(data(1), n))
    for n in (2**62, 0.5, -1, -20):
        yield lambda: f(data(2), n)


@scenario(whole=False)
def escaped_lists(jit: Jit) -> Iterator[Any]:
    variable: contextvars.ContextVar[Any] = contextvars.ContextVar("variable")

    def f(x: Any) -> Any:
        c: Any = [[], []]
        variable.set(c)
        c[0].append(x)
        return c

    f = jit(f)

    def call() -> Any:
        c = f(0)
        return len(c), c[0] is c[1], c[0] is c, c[1] is c

    for _ in range(6):
        yield call


@scenario(whole=False)
def print_in_the_middle(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor) -> Tensor:
        y = x * 2
        print("y", y.shape)
        return y + 1

    f = jit(f)
    for seed in range(4):
        yield lambda: f(data(seed))
    yield lambda: f(data(1, 3))
    yield lambda: f(None)


@scenario(whole=False)
def locals_and_frames(jit: Jit) -> Iterator[Any]:
    import sys

    def g(y: Tensor) -> Any:
        return sorted(sys._getframe(1).f_locals), sys._getframe().f_code.co_name, sys._getframe(1).f_lineno

    def f(x: Tensor) -> Any:
        y = x * 2
        z = y + 1
        return g(z), locals().keys() - {"x"}

    f = jit(f)
    for seed in range(4):
        yield lambda: f(data(seed))


@scenario()
def exception_with_history(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor, s: Tensor) -> Tensor:
        try:
            return fails(x, s)
        except RuntimeError as error:
            raise ValueError("mine") from error

    f = jit(f)
    for size in (4, 4, 3, 3, 4, 2):
        yield lambda: f(data(1), torch.ones(size))

    def called_while_handling() -> Any:
        try:
            raise KeyError("outer")
        except KeyError:
            return f(data(1), torch.ones(3))

    yield called_while_handling


@scenario()
def recursion(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor, depth: int) -> Tensor:
        return x if depth == 0 else f(flips(x, x), depth - 1) + 1

    jitted = jit(f)
    for sign in (1, 1, -1, 1):
        yield lambda: jitted(torch.full((2,), float(sign)), 5)


# life


def test_threads() -> None:
    """Several threads replay one model, with inputs that take other ways."""
    model, plain = Layers(), Layers()
    plain.load_state_dict(model.state_dict())
    pijit.jit(model)
    model(data(0), flips, usual())
    wrong: list[Any] = []

    def work(number: int) -> None:
        try:
            for turn in range(60):
                switches = unusual(flips, turn % PLACES) if (turn + number) % 3 == 0 else usual()
                x = data(turn * 10 + number)
                actual, expected = model(x, flips, switches), plain(x, flips, switches)
                if not torch.equal(actual[0], expected[0]):
                    wrong.append((number, turn))
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert _core.root_report(api.root_of(model))["replays"] > 20


def test_threads_record() -> None:
    """Two threads call a cold model at once."""
    for _ in range(20):
        model = pijit.jit(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)))
        x = data(1)
        results: list[Any] = []
        start = threading.Barrier(2)

        def work() -> None:
            start.wait()
            results.extend(model(x) for _ in range(5))

        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(results) == 10
        assert all(torch.equal(result, results[0]) for result in results)


def test_grad_mode_of_a_thread() -> None:
    model = pijit.jit(nn.Linear(4, 2))
    with torch.no_grad():
        model(data(1))
        model(data(1))
        seen: list[bool] = []
        thread = threading.Thread(target=lambda: seen.append(model(data(1)).requires_grad))
        thread.start()
        thread.join()
        assert not model(data(1)).requires_grad
    assert seen == [True]


def test_enable_finds_roots() -> None:
    """enable(): the outermost function is a root from its second call on; what is under it is not."""
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())

    def step(x: Tensor) -> Tensor:
        return model(x).sum() * 2

    expected = [step(data(seed)) for seed in range(5)]

    def loop() -> Tensor:
        return step(data(9))

    with pijit.enabled():
        actual = [step(data(0))]
        assert pijit.traces(step) == ()
        actual.append(step(data(1)))
        assert len(pijit.traces(step)) == 1
        assert pijit.status(step).state == "recorded"
        actual += [step(data(seed)) for seed in range(2, 5)]
        assert pijit.status(step).state == "replaying"
        assert pijit.traces(step)[0].ends == "return"
        assert pijit.traces(step)[0].replays == 3
        assert pijit.traces(model) == ()
    assert all(torch.equal(a, b) for a, b in zip(actual, expected, strict=True))


def test_disable_leaves_what_was_found() -> None:
    named = pijit.jit(lambda x: x + 1)
    named(data(1))

    def step(x: Tensor) -> Tensor:
        return x * 2

    with pijit.enabled():
        for seed in range(4):
            step(data(seed))
    before = pijit.traces(step)[0].replays
    step(data(1))
    assert pijit.traces(step)[0].replays == before


def test_counts() -> None:
    model, x = pijit.jit(Layers()), data(1)
    calls = [usual(), usual(), unusual(flips, 5), usual()]
    pijit.reset()  # other models came to the same places in the middle, and their arrivals count
    before = pijit.stats()
    for switches in calls:
        model(x, flips, switches)
    after = pijit.stats()
    changed = {name: after[name] - before[name] for name in after if name not in ("bytes", "seconds_saved")}
    assert changed["records"] == 1
    assert changed["aborts"] == 0
    assert changed["replays"] == 3
    assert changed["exits"] == 1
    assert changed["traces"] == 1
    assert after["bytes"] > before["bytes"]
    (trace,) = (each for each in pijit.traces(model) if not each.entry)
    assert (trace.replays, trace.exits) == (3, 1)
    pijit.reset(model)
    assert pijit.traces(model) == ()
    assert pijit.status(model).state == "cold"
    assert pijit.stats()["traces"] == before["traces"]
    model(data(1), flips, usual())
    assert pijit.status(model).state == "recorded"


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def tensors() -> int:
    return sum(isinstance(thing, Tensor) for thing in gc.get_objects())


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="the resident set is read from /proc")
@pytest.mark.parametrize("what", ["replay", "exit", "raise", "miss"])
def test_no_leak(what: str) -> None:
    """Thousands of replays, exits, errors and misses: neither objects nor memory grow."""
    model = pijit.jit(Layers())
    x = data(1)
    switches = {"replay": usual(), "exit": unusual(flips, 5), "raise": unusual(fails, 9), "miss": usual()}[what]
    kind = fails if what == "raise" else flips
    model(x, kind, usual())
    count = 10_000 if what == "replay" else 3_000

    def work(times: int) -> None:
        for turn in range(times):
            try:
                if what == "miss":
                    model(x.double() if turn % 2 else x, kind, switches)
                else:
                    model(x, kind, switches)
            except RuntimeError:
                pass

    work(300)
    gc.collect()
    objects, held, size = len(gc.get_objects()), tensors(), resident()
    work(count)
    gc.collect()
    assert tensors() == held
    assert abs(len(gc.get_objects()) - objects) < 50
    assert resident() - size < 6_000_000


@pytest.mark.parametrize("name", TABLE.cases())
def test_same(name: str) -> None:
    TABLE.check(name, __file__)
