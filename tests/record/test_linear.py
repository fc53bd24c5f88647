"""What a recording costs grows as the program does: four times the size is at most five times the steps.

Steps are counted, not timed: see `csrc/common/work.h`.
"""

from __future__ import annotations

import collections
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import pijit
from pijit import _core

PROGRAMS: list[tuple[Callable[[int], Any], int]] = []


def program(size: int) -> Callable[[Callable[[int], Any]], Callable[[int], Any]]:
    """A row of the table: recorded with that size, and with four times as much."""

    def add(function: Callable[[int], Any]) -> Callable[[int], Any]:
        PROGRAMS.append((function, size))
        return function

    return add


# --- lists and tuples


@program(200)
def list_append(n):
    items = []
    for i in range(n):
        items.append(i)
    return items


@program(200)
def list_set(n):
    items = [0] * n
    for i in range(n):
        items[i] = i + 1
    return items


@program(200)
def list_extend(n):
    items = []
    for i in range(n):
        items.extend((i, i))
    return items


@program(200)
def list_add(n):
    items = []
    for i in range(n):
        items += [i]
    return items


@program(200)
def list_pop(n):
    items = list(range(n))
    while items:
        items.pop()
    return items


@program(200)
def list_stack(n):
    items = []
    for i in range(n):
        items.append(i)
        items.append(i)
        items.pop()
    return items


@program(200)
def list_delete_last(n):
    items = list(range(n))
    for _ in range(n):
        del items[-1]
    return items


@program(200)
def list_index(n):
    items, total = list(range(n)), 0
    for i in range(n):
        total += items[i]
    return total


@program(200)
def list_slice(n):
    items, total = list(range(n)), 0
    for i in range(n):
        total += len(items[i : i + 4])
    return total


@program(200)
def list_of_lists(n):
    items = []
    for i in range(n):
        items.append([i, {"i": i}])
    return items


@program(200)
def comprehension(n):
    return [i * 2 for i in range(n) if i % 2], {i: i for i in range(n)}, len({i for i in range(n)})


@program(200)
def sort(n):
    return sorted([i * 7 % n for i in range(n)])


@program(200)
def tuple_chain(n):
    chain = ()
    for i in range(n):
        chain = (i, chain)
    return chain[0]


@program(200)
def deque(n):
    items = collections.deque()
    for i in range(n):
        items.append(i)
    while items:
        items.popleft()
    return len(items)


# --- dicts and sets


@program(200)
def dict_set(n):
    table = {}
    for i in range(n):
        table[i] = i
    return table


@program(200)
def dict_of_texts(n):
    table = {}
    for i in range(n):
        table[str(i)] = i
    return table


@program(200)
def dict_get(n):
    table = {}
    for i in range(n):
        table[i] = table.get(i, 0) + 1
    return table


@program(200)
def dict_of_tuples(n):
    table = {}
    for i in range(n):
        table[i, "k"] = i
    return len(table)


@program(200)
def dict_delete(n):
    table = {i: i for i in range(n)}
    for i in range(n):
        del table[i]
    return table


@program(200)
def dict_pop(n):
    table = {i: i for i in range(n)}
    for i in range(n):
        table.pop(i)
    return table


@program(200)
def dict_popitem(n):
    table = {i: i for i in range(n)}
    while table:
        table.popitem()
    return table


@program(200)
def dict_update(n):
    table = {}
    for i in range(n):
        table.update({i: i})
    return table


@program(200)
def dict_setdefault(n):
    table = {}
    for i in range(n):
        table.setdefault(i % 50, []).append(i)
    return table


@program(200)
def dict_iterate(n):
    table, total = {i: i for i in range(n)}, 0
    for key, value in table.items():
        total += key + value
    for key in table:
        total += table[key]
    return total


@program(200)
def ordered_dict(n):
    table = collections.OrderedDict()
    for i in range(n):
        table[i] = i
    return list(table.items())


@program(200)
def default_dict(n):
    table = collections.defaultdict(int)
    for i in range(n):
        table[i] += 1
    return len(table)


@program(200)
def counter(n):
    return len(collections.Counter([i for i in range(n)]))


@program(200)
def set_add(n):
    items = set()
    for i in range(n):
        items.add(i)
    return len(items)


@program(200)
def set_in(n):
    items, missing = set(), 0
    for i in range(n):
        if i not in items:
            missing += 1
            items.add(i)
    return missing


@program(200)
def set_discard(n):
    items = {i for i in range(n)}
    for i in range(n):
        items.discard(i)
    return len(items)


@program(200)
def set_update(n):
    items = set()
    for i in range(n):
        items.update((i,))
    return len(items)


# --- objects that existed before

LIST: list[Any] = []
DICT: dict[Any, Any] = {}
SET: set[Any] = set()


class Thing:
    pass


THING = Thing()


@program(60)
def old_list_append(n):
    LIST.clear()
    for i in range(n):
        LIST.append(i)
    return len(LIST)


@program(60)
def old_dict_set(n):
    DICT.clear()
    for i in range(n):
        DICT[i] = i
    return len(DICT)


@program(60)
def old_set_add(n):
    SET.clear()
    for i in range(n):
        SET.add(i)
    return len(SET)


OLD = {n: ([*range(n)], {i: i for i in range(n)}, {*range(n)}) for n in (200, 800)}
OLD_ORDERED = {n: collections.OrderedDict((i, i) for i in range(n)) for n in (200, 800)}


@program(200)
def old_list_read(n):
    items, total = OLD[n][0], 0
    for i in range(n):
        total += items[i]
    for item in items:
        total += item
    return total, len(items)


@program(200)
def old_dict_read(n):
    table, total = OLD[n][1], 0
    for i in range(n):
        total += table[i]
    for key, value in table.items():
        total += key + value
    return total, len(table)


@program(200)
def old_ordered_dict_read(n):
    total = 0
    for key, value in OLD_ORDERED[n].items():
        total += key + value
    return total


@program(200)
def old_set_read(n):
    items, found = OLD[n][2], 0
    for i in range(n):
        if items and i * 2 in items:
            found += 1
    return found, len(items)


@program(200)
def attribute_store(n):
    for i in range(n):
        THING.value = i
    return THING.value


# --- calls


def plus_one(x):
    return x + 1


def down(n):
    return 0 if n == 0 else 1 + down(n - 1)


class Holder:
    def __init__(self, value):
        self.value = value

    def get(self):
        return self.value


def numbers(n) -> Iterator[int]:
    for i in range(n):
        yield i


@program(200)
def calls(n):
    total = 0
    for _ in range(n):
        total = plus_one(total)
    return total


@program(200)
def recursion(n):
    total = 0
    for _ in range(n // 40):
        total += down(40)
    return total


@program(40)
def deep_recursion(n):
    return down(n)


@program(200)
def generator(n):
    total = 0
    for i in numbers(n):
        total += i
    return total


@program(200)
def generators_that_are_left(n):
    total = 0
    for _ in range(n):
        for i in numbers(3):
            total += i
            break
    return total


@program(200)
def generator_that_is_spread(n):
    return [0, *(f"{i}" for i in range(n)), n]


@program(200)
def generator_that_fills(n):
    def each():
        items, table = [], {}
        for i in range(n):
            items.append(i)
            table[i] = items
            yield i

    return sum(each())


@program(200)
def variable_that_is_written_again(n):
    items, last = [], None

    def put(i):
        nonlocal last
        items.append(i)
        last = items

    for i in range(n):
        put(i)
    return len(last)


@program(200)
def places_that_are_written_again(n):
    items, table, thing, place = [], {}, Thing(), [None]
    for i in range(n):
        items.append(i)
        place[0] = table["k"] = thing.items = items
        del table["k"], thing.items
    return len(place[0])


@program(200)
def objects(n):
    return sum(each.get() for each in [Holder(i) for i in range(n)])


@program(200)
def attributes(n):
    thing = Thing()
    for i in range(n):
        setattr(thing, f"a{i}", i)
    return len(thing.__dict__)


@program(200)
def exceptions(n):
    caught = 0
    for i in range(n):
        try:
            raise ValueError(i)
        except ValueError:
            caught += 1
    return caught


@program(200)
def join(n):
    return ",".join(str(i) for i in range(n)), ",".join([f"{i}:{i * 2}" for i in range(n)])


@program(200)
def text(n):
    made = ""
    for _ in range(n):
        made += "x"
    return made


@program(200)
def iterators(n):
    pairs = [a + b for a, b in zip(range(n), range(n), strict=True)]
    return pairs, [a + b for a, b in enumerate(range(n))], sum(map(plus_one, range(n)))


# --- calls that the recorder does not look into


def foreign(x):
    return eval("x")


def change(items):
    eval("items.append(0)")
    return items


@program(60)
def opaque_calls(n):
    total = 0
    for i in range(n):
        total += foreign(i)
    return total


@program(60)
def opaque_results(n):
    items = []
    for i in range(n):
        items.append(foreign(i))
    return items


@program(60)
def opaque_objects(n):
    """Each is seen by foreign code, and read after it."""
    items = []
    for i in range(n):
        made = [i]
        change(made)
        items.append(made)
    return [len(item) for item in items]


@program(60)
def opaque_beside_objects(n):
    """None is seen by foreign code."""
    items = []
    for i in range(n):
        items.append({"i": [i]})
        foreign(i)
    return items


@program(60)
def opaque_growing(n):
    """Foreign code fills a container that is looked into after each call."""
    items, total = [], 0
    for _ in range(n):
        change(items)
        total += len(items)
    return total


@program(60)
def opaque_dict(n):
    table = {}
    for i in range(n):
        key = foreign(i)
        table[key] = table.get(key, 0) + 1
    return table


@program(60)
def opaque_loop(n):
    table = {}
    for key in foreign([*range(n)]):
        table[key] = table.get(key, 0) + 1
    return table


@program(60)
def opaque_in_generator(n):
    def each():
        for i in range(n):
            yield foreign(i)

    return list(each())


class Quiet(logging.Handler):
    def emit(self, record):
        pass


LOG = logging.getLogger("pijit.tests.linear")
LOG.addHandler(Quiet())
LOG.setLevel(logging.INFO)
LOG.propagate = False


@program(20)
def log(n):
    for i in range(n):
        LOG.info("number %d", i)
    return n


# --- torch

try:
    import torch
    from torch import nn
except ImportError:
    torch = None

if torch is not None:
    VECTOR = torch.arange(3.0)
    LAYERS = {n: nn.Sequential(*(nn.Linear(2, 2) for _ in range(n))) for n in (20, 80)}
    PARAMETERS = {n: [nn.Parameter(torch.ones(2)) for _ in range(n)] for n in (20, 80)}

    @program(60)
    def tensors(n):
        x = VECTOR
        for _ in range(n):
            x = x + 1
        return x

    @program(60)
    def tensor_list(n):
        return torch.stack([VECTOR + i for i in range(n)])

    @program(60)
    def tensor_items(n):
        x = torch.arange(n)
        return [x[i].item() for i in range(n)]

    @program(60)
    def tensor_tolist(n):
        counts = {}
        for value in torch.arange(n).tolist():
            counts[value] = counts.get(value, 0) + 1
        return counts

    @program(20)
    def modules(n):
        x = torch.ones(2)
        for layer in LAYERS[n]:
            x = layer(x)
        return x

    @program(20)
    def named_parameters(n):
        return [name for name, _ in LAYERS[n].named_parameters()]

    @program(20)
    def sgd(n):
        with torch.no_grad():
            for parameter in PARAMETERS[n]:
                parameter.add_(torch.ones(2), alpha=-0.0)
        return PARAMETERS[n][0].sum()


def same(a: Any, b: Any) -> bool:
    return torch.equal(a, b) if torch is not None and isinstance(a, torch.Tensor) else a == b


def steps(function: Callable[[int], Any], n: int) -> tuple[int, int]:
    """Of the recording, and of all that the next two calls do; both give what a plain call gives."""
    expected = function(n)
    fast = pijit.jit(function)
    done = [_core.work_so_far()]
    for _ in range(3):
        assert same(fast(n), expected)
        done.append(_core.work_so_far())
    pijit.reset(fast)
    return done[1] - done[0], done[3] - done[1]


@pytest.fixture(autouse=True)
def _whole_loops() -> Iterator[None]:
    """Turns that are not recorded would be no work."""
    before = pijit.config.update({"loops": "unroll"})
    yield
    pijit.config.update(before)


@pytest.mark.torch
def test_turns_that_differ() -> None:
    """Each turn is compared with the one before, and looks at no others for that."""
    torch = pytest.importorskip("torch")
    weights = {n: [torch.full((4,), 1.0 + i) for i in range(n)] for n in (20, 80)}

    def function(n: int) -> Any:
        x = torch.ones(4)
        for weight in weights[n]:
            x = torch.cat(x.chunk(2)) * weight
        return x

    pijit.config.update({"loops": "auto"})
    steps(function, 20)
    small, large = steps(function, 20), steps(function, 80)
    assert large[0] <= 5 * small[0]


@pytest.mark.parametrize(("function", "size"), PROGRAMS, ids=[function.__name__ for function, _ in PROGRAMS])
def test_linear(function: Callable[[int], Any], size: int) -> None:
    steps(function, size)  # what is done once
    small, large = steps(function, size), steps(function, 4 * size)
    assert large[0] <= 5 * small[0], "recording"
    assert large[1] <= 5 * small[1], "replay"
