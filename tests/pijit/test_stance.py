"""The stance as function, context manager and decorator."""

from __future__ import annotations

import threading

import pytest

import pijit
from pijit import _core
from pijit.api import root_of
from pijit.errors import StrictError, UsageError


@pytest.fixture(autouse=True)
def _on():
    yield
    pijit.stance("on")


def report(fast):
    return _core.root_report(root_of(fast))


@pytest.fixture
def fast():
    return pijit.jit(lambda x: {"a": 1, "b": 2}[x])


def test_off(fast):
    pijit.stance("off")
    assert [fast("a") for _ in range(3)] == [1, 1, 1]
    assert (report(fast)["calls"], pijit.traces(fast)) == (0, ())
    pijit.stance("on")
    assert [fast("a") for _ in range(3)] == [1, 1, 1]
    assert (report(fast)["records"], report(fast)["replays"]) == (1, 2)
    with pijit.stance("off"):
        assert fast("a") == 1
    assert report(fast)["replays"] == 2
    assert fast("a") == 1
    assert report(fast)["replays"] == 3


def test_replay_only(fast):
    fast("a")
    with pijit.stance("replay_only"):
        assert [fast("a"), fast("b"), fast("a")] == [1, 2, 1]
        assert (report(fast)["records"], report(fast)["replays"]) == (1, 2)
    assert fast("b") == 2
    assert report(fast)["records"] == 2


def test_fail_on_record(fast):
    fast("a")
    with pijit.stance("fail_on_record"):
        assert fast("a") == 1
        with pytest.raises(
            StrictError, match=r'test_stance\.py:\d+ in .*<lambda>\(\): this call would be recorded, .*"fail'
        ):
            fast("b")
        with pytest.raises(StrictError, match=r"\(x: 'b' now, 'a' before\)$"):
            fast("b")
        assert fast("a") == 1
    assert fast("b") == 2


def test_left_alone_is_no_record():
    """What is left to CPython for good is not recorded, and so does not fail."""
    fast = pijit.jit(lambda a, b: len(a) + len(b))
    many = [1] * 1000
    for _ in range(5):
        fast(many, many)
    assert pijit.status(fast).state == "disabled"
    with pijit.stance("fail_on_record"):
        assert fast(many, many) == 2000


def test_nested_and_restored():
    with pijit.stance("off"):
        with pijit.stance("replay_only"):
            assert _core.get_stance() == "replay_only"
        assert _core.get_stance() == "off"
        with pytest.raises(KeyError), pijit.stance("fail_on_record"):
            raise KeyError
        assert _core.get_stance() == "off"
    assert _core.get_stance() == "on"


def test_one_object_twice():
    off = pijit.stance("off")
    with off:
        pass
    assert _core.get_stance() == "on"
    with off:
        assert _core.get_stance() == "off"
    assert _core.get_stance() == "on"
    assert repr(off) == "pijit.stance('off')"


def test_decorator():
    @pijit.stance("off")
    def f(x, *, y=1):
        """Says."""
        return _core.get_stance(), x, y

    assert _core.get_stance() == "on"
    assert f(1, y=2) == ("off", 1, 2)
    assert (f.__name__, f.__doc__) == ("f", "Says.")
    assert _core.get_stance() == "on"
    with pytest.raises(UsageError, match="decorates a function, not 3"):
        pijit.stance("off")(3)
    with pytest.raises(UsageError, match="no generator or coroutine"):

        @pijit.stance("off")
        def g():
            yield

    assert _core.get_stance() == "on"


def test_all_threads():
    seen = []
    with pijit.stance("off"):
        thread = threading.Thread(target=lambda: seen.append(_core.get_stance()))
        thread.start()
        thread.join()
    assert seen == ["off"]


def test_changed_while_recording(fast):
    """What is recorded goes on being watched; the next call obeys."""

    def f(x):
        with pijit.stance("off"):
            y = fast("a")
        return x, y

    outer = pijit.jit(f)
    for _ in range(5):
        assert outer(1) == (1, 1)
        assert _core.get_stance() == "on"
    assert report(fast)["calls"] == 0


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("of", r"no 'of' \(there are 'on', 'off', 'replay_only', 'fail_on_record', 'verify'\); the nearest is 'of"),
        (3, r"no 3 \(there are"),
    ],
)
def test_refusals(name, says):
    with pytest.raises(UsageError, match=says):
        pijit.stance(name)
    assert _core.get_stance() == "on"
