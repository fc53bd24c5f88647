"""Cases of rows with graphs in them, which are functions where forms are called."""

from __future__ import annotations

from typing import Any

from case_arrays import f


def _twice(x: Any, s: Any) -> Any:
    return x * 2, s


def _less(x: Any, s: Any) -> Any:
    return x - 1, s * 0.5


_turns = {"condition": lambda x, n: n < 3, "body": lambda x, n: (x * 2, n + 1)}
_scaled = {"condition": lambda x, n, by: n < 3, "body": lambda x, n, by: (x * by, n + 2)}

BRANCHES: dict[str, list[dict[str, Any]]] = {
    "cond": [
        {"condition": condition, "then": _twice, "otherwise": _less, "operands": (f(2, 3), 1.5)}
        for condition in (True, False)
    ],
    "while": [
        *({**_turns, "carried": (f(2, 3), start)} for start in (0, 2, 3)),
        {**_scaled, "carried": (f(4), 0), "operands": (f(4),)},
    ],
}
