"""What a call costs that is recorded, beside the plain call that it would have been."""

import statistics
import time

import pytest
import torch

import pijit

pytestmark = pytest.mark.benchmark(group="record")


def test_plain(benchmark, model, tokens):
    with torch.no_grad():
        benchmark.pedantic(model, args=(tokens,), rounds=30)


def test_recorded(benchmark, model, tokens):
    pijit.jit(model)
    with torch.no_grad():
        benchmark.pedantic(model, args=(tokens,), setup=lambda: pijit.reset(model), rounds=30)


# --- pure Python: what a bytecode costs


def arithmetic(n):
    total = 0
    for i in range(n):
        x = i * 3 + 1
        total = total + x if x % 2 else total - 1
    return total


class Point:
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __add__(self, other):
        return Point(self.x + other.x, self.y + other.y)

    @property
    def norm(self):
        return self.x * self.x + self.y * self.y


def objects(n):
    at = Point(0, 0)
    for i in range(n):
        at = at + Point(i, 1)
    return at.norm


def containers(n):
    counts, items = {}, []
    for i in range(n):
        counts[i % 7] = counts.get(i % 7, 0) + 1
        items.append((i, str(i)))
    return len(counts), [name for number, name in items if number % 2]


def exceptions(n):
    missed = 0
    for i in range(n):
        try:
            {}[i]
        except KeyError:
            missed += 1
        finally:
            missed += 2
    return missed


def generators(n):
    def numbers():
        yield from range(n)

    return sum(x * 2 for x in range(n)) + sum(1 for _ in numbers())


@pytest.mark.parametrize("program", [arithmetic, objects, containers, exceptions, generators], ids=lambda f: f.__name__)
def test_pure_python(benchmark, program):
    """The time over a plain call, by bytecode, is in `extra_info` as `ns_per_bytecode`."""
    program(500)
    plain = benchmark_plain(program)
    fast = pijit.jit(program)
    benchmark.pedantic(fast, args=(500,), setup=lambda: pijit.reset(fast), rounds=30)
    operations = pijit.traces(fast)[0].operations
    benchmark.extra_info["bytecodes"] = operations
    if benchmark.stats is not None:
        benchmark.extra_info["ns_per_bytecode"] = (benchmark.stats.stats.median - plain) / operations * 1e9


def benchmark_plain(program):
    times = []
    for _ in range(30):
        began = time.perf_counter()
        program(500)
        times.append(time.perf_counter() - began)
    return statistics.median(times)
