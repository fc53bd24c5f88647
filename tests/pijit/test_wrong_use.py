"""What a newcomer tries first: each wrong use is a UsageError that names the right thing, and changes nothing."""

from __future__ import annotations

import pytest

import pijit
from pijit import _usage_errors
from pijit.errors import UsageError


def add(x, y=1):
    return [x, y]


class Model:
    """As a torch.nn.Module: what `__call__` takes says nothing."""

    def __call__(self, *args, **kwargs):
        return self.forward(*args, **kwargs)

    def forward(self, x):
        return [x]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: pijit.jit(None), "None has no Python code to observe; jit a Python function that calls it"),
        (lambda: pijit.jit(add, fullgraph=True), "no option 'fullgraph' .*`strict=True` raises where"),
        (lambda: pijit.jit(add, mode="max-autotune"), "no option 'mode' .*no modes; leave it out"),
        (lambda: pijit.jit(static_argnums=0), "no option 'static_argnums' .*finds out by itself"),
        (lambda: pijit.jit(add, disable=True), r"no option 'disable' .*`pijit\.skip\(fn\)`"),
        (lambda: pijit.jit(add, verfy=3), "no option 'verfy' .*; the nearest is 'verify'"),
        (lambda: pijit.status("add"), r"status\(\) takes the function itself, not its name 'add'"),
        (lambda: pijit.reset("add"), r"reset\(\) takes the function itself, not its name 'add'"),
        (lambda: pijit.traces("add"), r"traces\(\) takes the function itself, not its name 'add'"),
        (
            lambda: pijit.status(3),
            r"status\(\) takes a function, a method or an object with a __call__.*not int object",
        ),
        (lambda: pijit.explain(add), r"give it the arguments: pijit\.explain\(fn, x\)"),
        (lambda: pijit.explain(Model()), r"give it the arguments: pijit\.explain\(fn, x\)"),
        (lambda: pijit.explain(lambda: 3)(4), r"gives a report, not a function; write pijit\.explain\(fn, \*args\)"),
        (lambda: pijit.explain("add"), r"takes the function, not the name 'add'"),
        (lambda: pijit.explain(add(1)), r"not a result \(list object\).* write pijit\.explain\(fn, \*args\)"),
        (lambda: pijit.stance(add), r"pijit\.stance\(\) has no <function add"),
    ],
)
def test_says_what_is_right(wrong, says):
    before = dict(pijit.stats())
    for _ in range(2):
        with pytest.raises(UsageError, match=says):
            wrong()
    after = dict(pijit.stats())
    assert after["replays"] == before["replays"]


@pytest.mark.parametrize("keyword", _usage_errors.FOREIGN)
def test_keywords_of_others(keyword):
    with pytest.raises(UsageError) as caught:
        pijit.jit(add, **{keyword: True})
    assert str(caught.value).endswith(f"; {_usage_errors.FOREIGN[keyword]}")
    fast = pijit.jit(add)
    assert [fast(1), fast(2)] == [[1, 1], [2, 1]]


def test_explain_still_takes_what_can_be_called_without_arguments():
    class Odd:
        def __call__(self):
            return 5

        def forward(self, x):
            return x

    def decorated(*args):
        return add(1, *args)

    decorated.__wrapped__ = add
    for fn, gives in ((lambda x=1: x, 1), (Odd(), 5), (decorated, [1, 1]), (lambda *a, **k: 7, 7)):
        assert pijit.explain(fn).result == gives
        assert pijit.explain(fn).result == gives
    assert pijit.explain(add, 3).result == [3, 1]
    assert pijit.explain(Model(), 3).result == [3]
