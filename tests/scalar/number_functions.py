"""Functions whose loops compute with numbers of Python, by name."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

SCALE = 3.5
LIMITS = [4.0, 2.0]


def escape_time(width: int, height: int, limit: int) -> int:
    total = 0
    for row in range(height):
        for column in range(width):
            cx = column / width * SCALE - 2.5
            cy = row / height * 2.0 - 1.0
            x = y = 0.0
            n = 0
            while x * x + y * y <= 4.0 and n < limit:
                x, y = x * x - y * y + cx, 2.0 * x * y + cy
                n += 1
            total += n
    return total


def escape_with_break(cx: float, cy: float, limit: int) -> int:
    x = y = 0.0
    for n in range(limit):
        if x * x + y * y > 4:
            return n
        x, y = x * x - y * y + cx, 2 * x * y + cy
    return limit


def horner(coefficients: Any, x: Any) -> Any:
    result = 0
    for c in coefficients:
        result = result * x + c
    return result


def horner_by_index(coefficients: list[float], x: float, n: int) -> float:
    result = 0.0
    for i in range(n):
        result = result * x + coefficients[n - 1 - i]
    return result


def n_body(position: list[float], velocity: list[float], mass: list[float], steps: int, dt: float) -> float:
    count = len(mass)
    for _ in range(steps):
        for i in range(count):
            for j in range(i + 1, count):
                dx = position[3 * i] - position[3 * j]
                dy = position[3 * i + 1] - position[3 * j + 1]
                dz = position[3 * i + 2] - position[3 * j + 2]
                mag = dt / (dx * dx + dy * dy + dz * dz) ** 1.5
                velocity[3 * i] -= dx * mass[j] * mag
                velocity[3 * i + 1] -= dy * mass[j] * mag
                velocity[3 * i + 2] -= dz * mass[j] * mag
                velocity[3 * j] += dx * mass[i] * mag
                velocity[3 * j + 1] += dy * mass[i] * mag
                velocity[3 * j + 2] += dz * mass[i] * mag
        for i in range(3 * count):
            position[i] += dt * velocity[i]
    return position[0] + velocity[-1]


def n_body_nested(bodies: list[Any], steps: int) -> float:
    for _ in range(steps):
        for p, v, m in bodies:
            for q, w, k in bodies:
                if p is q:
                    continue
                dx, dy = p[0] - q[0], p[1] - q[1]
                r = math.sqrt(dx * dx + dy * dy)
                v[0] -= dx * k * 0.001 / (r * r * r)
                v[1] -= dy * k * 0.001 / (r * r * r)
        for p, v, m in bodies:
            p[0] += v[0] * 0.001
            p[1] += v[1] * 0.001
    return bodies[0][0][0]


def collatz(n: int) -> tuple[int, int]:
    steps = highest = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        highest = max(highest, n)
        steps += 1
    return steps, highest


def factorial(n: int) -> int:
    result = 1
    for i in range(2, n + 1):
        result *= i
    return result


def harmonic(n: int, first: Any) -> Any:
    total = 0.0
    for i in range(first, n):
        total += 1 / i
    return total


def grows(x: float, n: int) -> float:
    for _ in range(n):
        x = x**2.0
    return x


def bits(seed: int, n: int) -> int:
    found = 0
    for _ in range(n):
        seed = (seed * 1103515245 + 12345) & 0x7FFFFFFF
        found ^= seed >> 3 | (seed & 7) << 2
        found = ~found & 0xFFFF
    return found


def unbound(n: int) -> int:
    for i in range(n):
        if i > 2000:
            last = i
    return last


def collects(n: int, into: list[Any]) -> int:
    for i in range(n):
        into.append(i * 0.5)
        if i % 3 == 0:
            into[-1] = i
    return len(into)


def handles(n: int, where: int) -> Any:
    total = 0
    for i in range(n):
        try:
            total += 1 // (i - where)
        except ZeroDivisionError as error:
            return total, str(error)
    return total


def chained(n: int, low: float, high: float) -> int:
    inside = 0
    for i in range(n):
        if low < i * 0.5 <= high or not i % 7:
            inside += 1
    return inside


def functions(n: int, x: float) -> float:
    total = 0.0
    for i in range(n):
        total += math.sin(i * x) + math.exp(-i * 0.01) * abs(x - i) + min(x, i) - float(int(x * i)) + round(x) % 3
        total = max(total, -1e300) + math.pi
    return total


def counts_down(n: int, step: int) -> tuple[int, int]:
    total = last = 0
    for i in range(n, -n, step):
        total += i * (i & 1)
        last = i
    return total, last


def fibonacci(n: int) -> int:
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


def divides(values: list[Any]) -> Any:
    total = 0.0
    for value in values:
        total += 1.0 / value
    return total


def rotates(n: int, a: Any, b: Any, c: Any, d: Any) -> Any:
    while n > 0:
        a, b, c, d = b, c, d, a
        n -= 1
    return a, b, c, d


def infinite(n: int, x: float) -> float:
    total = x
    for _ in range(n):
        total = total * total
    return total - total


def escape_complex(width: int, height: int, limit: int) -> int:
    total = 0
    for row in range(height):
        for column in range(width):
            c = complex(column / width * 3.5 - 2.5, row / height * 2 - 1)
            z = 0j
            for n in range(limit):
                if abs(z) > 2:
                    break
                z = z * z + c
            else:
                n = limit
            total += n
    return total


def complex_arithmetic(z: complex, n: int) -> Any:
    w = 1 + 0j
    for i in range(n):
        w = (w * z + i) / (z - 1j) - z**2 * 0.001
        if w == z or w.real > 1e3:
            w = -w / abs(w)
    return w, w.imag


def point(cx: float, cy: float, limit: int) -> int:
    x = y = 0.0
    n = 0
    while n < limit and x * x + y * y <= 4:
        x, y = x * x - y * y + cx, 2 * x * y + cy
        n += 1
    return n


def escape_by_points(width: int, height: int, limit: int) -> int:
    return_value = 0
    for row in range(height):
        for column in range(width):
            return_value += point(column / width * 3.5 - 2.5, row / height * 2 - 1, limit)
    return return_value


def safe(a: float, b: float) -> float:
    return a / b


def calls(values: list[Any], b: Any) -> float:
    total = 0.0
    for value in values:
        total += safe(value, b) + safe(b, value)
    return total


found: list[int] = []


def collects_globally(n: int) -> int:
    found.clear()
    for i in range(n):
        found.append(i * i)
    return len(found)


def misses_a_name(n: int) -> int:
    total = 0
    for i in range(n):
        if i > 700:
            total += missing  # noqa: F821
        total += math.missing if i > 900 else i  # type: ignore[attr-defined]
    return total


many = 2500
FUNCTIONS: dict[str, tuple[Callable[..., Any], list[Callable[[], tuple[Any, ...]]]]] = {
    "escape_time": (escape_time, [lambda: (20, 20, 50), lambda: (21, 19, 60), lambda: (20, 20, 50), lambda: (0, 5, 9)]),
    "escape_with_break": (
        escape_with_break,
        [lambda: (0.1, 0.2, 4000), lambda: (0.3, 0.5, 5000), lambda: (2, 2, 9), lambda: (0.1, -0.2, 3000)],
    ),
    "horner": (
        horner,
        [
            lambda: ([0.5] * many, 0.9),
            lambda: ((1, 2, 3) * many, 1),
            lambda: ([1] * many, 2),
            lambda: ([1.5, 2] * 99, -0.5),
            lambda: ([1.5, "2"], 2.0),
            lambda: ([True, False] * many, True),
        ],
    ),
    "horner_by_index": (
        horner_by_index,
        [lambda: ([0.5] * many, 0.9, many), lambda: ([0.25] * 100, 1.0, 100), lambda: ([0.5] * 9, 0.1, 10)],
    ),
    "n_body": (
        n_body,
        [
            lambda: ([0.1 * i * i for i in range(12)], [0.0] * 12, [1.0, 2.0, 3.0, 0.5], 200, 0.01),
            lambda: ([0.2 * i * i for i in range(9)], [0] * 9, [1, 2.0, 3.0], 300, 0.02),
            lambda: ([0.0] * 9, [0] * 9, [1, 2.0, 3.0], 300, 0.02),
        ],
    ),
    "n_body_nested": (
        n_body_nested,
        [
            lambda: ([([0.0, 1.0], [0.1, 0.0], 1.0), ([2.0, 0.0], [0.0, 0.3], 2.0), ([5, 5], [0, 0], 3)], 400),
            lambda: ([([0.0, 1.5], [0.1, 0.0], 1.0), ([2.0, 0.0], [0.0, 0.3], 2.5)], 900),
        ],
    ),
    "collatz": (collatz, [lambda: (837799,), lambda: (27,), lambda: (9780657630,), lambda: (6171,)]),
    "factorial": (factorial, [lambda: (20,), lambda: (30,), lambda: (1200,), lambda: (1,), lambda: (19,)]),
    "harmonic": (harmonic, [lambda: (5000, 1), lambda: (6000, 2), lambda: (3000, -5), lambda: (4000, True)]),
    "grows": (grows, [lambda: (1.0000001, 2100), lambda: (1.5, 3000), lambda: (0.5, 3000), lambda: (-1.0, 2100)]),
    "bits": (bits, [lambda: (42, 4000), lambda: (7, 5000), lambda: (1 << 70, 3000)]),
    "unbound": (unbound, [lambda: (3000,), lambda: (1000,), lambda: (4000,)]),
    "collects": (collects, [lambda: (3000, []), lambda: (4000, [1]), lambda: (10, [])]),
    "handles": (handles, [lambda: (3000, 2500), lambda: (3000, -1), lambda: (3000, 7), lambda: (4000, 3999)]),
    "chained": (chained, [lambda: (3000, 10.0, 600.5), lambda: (4000, 1, 700), lambda: (3000, math.nan, 2)]),
    "functions": (functions, [lambda: (3000, 0.5), lambda: (2500, -1.25), lambda: (2500, math.inf)]),
    "counts_down": (counts_down, [lambda: (3000, -1), lambda: (4000, -3), lambda: (10, 0), lambda: (-5000, 2)]),
    "fibonacci": (fibonacci, [lambda: (2500,), lambda: (50,), lambda: (91,), lambda: (93,)]),
    "divides": (divides, [lambda: ([1.5] * 3000,), lambda: ([2, 1.5] * 3000,), lambda: ([1.0, 0.0],)]),
    "rotates": (rotates, [lambda: (3001, 1, 2.0, None, "x"), lambda: (3002, [1], {}, 3, 4), lambda: (7, 1, 2, 3, 4)]),
    "escape_complex": (escape_complex, [lambda: (20, 20, 40), lambda: (21, 18, 50), lambda: (3, 4, 9)]),
    "complex_arithmetic": (
        complex_arithmetic,
        [lambda: (0.5 + 0.25j, 3000), lambda: (1.5 - 2j, 2500), lambda: (1j, 2500), lambda: (2.0, 2500)],
    ),
    "escape_by_points": (escape_by_points, [lambda: (60, 50, 40), lambda: (61, 48, 50), lambda: (3, 4, 9)]),
    "calls": (
        calls,
        [lambda: ([1.5] * 3000, 2.0), lambda: ([2, 4.0] * 2000, 3), lambda: ([1.0, 0.0] * 9, 2), lambda: ([1, "x"], 1)],
    ),
    "collects_globally": (collects_globally, [lambda: (300,), lambda: (400,), lambda: (3,)]),
    "misses_a_name": (misses_a_name, [lambda: (300,), lambda: (800,), lambda: (1000,), lambda: (400,)]),
    "infinite": (infinite, [lambda: (3000, 1.0), lambda: (3000, 2.0), lambda: (2200, 0.5)]),
}
