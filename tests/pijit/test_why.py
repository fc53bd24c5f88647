"""why: the guard that failed last, in words, with both values."""

from __future__ import annotations

import pytest

import pijit


class Settings:
    def __init__(self):
        self.width = 64


SETTINGS = Settings()
LEVEL = 1


def test_nothing_failed():
    fast = pijit.jit(lambda x: [x])
    assert pijit.why(fast) == ""
    fast(1), fast(1)
    assert pijit.why(fast) == ""


def test_what_was_never_jitted():
    def plain():
        return 1

    assert pijit.why(len) == pijit.why(plain) == "neither jitted nor found under enable()"
    fast = pijit.jit(plain)
    assert fast() == 1
    assert pijit.why(fast) == ""
    assert pijit.why(plain) == "neither jitted nor found under enable()"
    assert pijit.why(pijit.skip(plain, reason="noise")) == "pijit.skip(): noise"
    with pytest.raises(pijit.errors.UsageError, match=r"why\(\) takes the function itself, not its name 'fast'"):
        pijit.why("fast")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("b",), "key: 'b' now, 'a' before"),
        ((None,), "key: None now, 'a' before"),
    ],
)
def test_arguments(arguments, says):
    fast = pijit.jit(lambda key: {"a": 1, "b": 2, None: 3}[key])
    fast("a")
    fast(*arguments)
    assert pijit.why(fast) == says
    fast("a")
    assert pijit.why(fast) == says  # the last one that failed
    pijit.reset(fast)
    assert pijit.why(fast) == ""


def test_state(monkeypatch):
    fast = pijit.jit(lambda: (SETTINGS.width, LEVEL))
    assert fast() == (64, 1)
    monkeypatch.setitem(globals(), "LEVEL", 2)
    assert fast() == (64, 2)
    assert "['LEVEL']: 2 now, 1 before" in pijit.why(fast)


def test_methods_and_partials():
    class Scaler:
        def scale(self, key):
            return {"a": 1, "b": 2}[key]

    fast = pijit.jit(Scaler().scale)
    fast("a"), fast("b")
    assert pijit.why(fast) == "key: 'b' now, 'a' before"


@pytest.mark.torch
def test_tensors():
    import torch

    fast = pijit.jit(lambda x: x + 1)
    fast(torch.ones(3))
    fast(torch.ones(3, dtype=torch.float64))
    assert pijit.why(fast) == "x: float64[3] now, float32[*] before"
