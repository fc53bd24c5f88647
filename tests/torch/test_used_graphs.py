# mypy: disable-error-code="no-untyped-call,no-any-return,func-returns-value,operator,unused-ignore"
"""Graphs of results behind a tape: those of a pass that was gone through, as in plain Python."""

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from taped_steps import Side, Step, batches, classified, facts, mlp, runs, stepping
from torch import Tensor, nn

import pijit


def test_a_second_backward_pass_raises() -> None:
    model, step = stepping(mlp(nn.Tanh()), classified)
    fast = pijit.jit(step)
    for x, y in batches(14, 5):
        loss, (out,) = fast(x, y)
    assert runs(fast) >= 4
    for tensor in (loss, out.sum(), out[0] * 2):
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            tensor.sum().backward()
    assert loss.grad_fn.name() == "NllLossBackward0"
    assert not loss.is_leaf
    assert loss.requires_grad


def test_a_second_backward_pass_runs_where_nothing_was_saved() -> None:
    def make() -> tuple[nn.Module, Step]:
        model = nn.ParameterList([torch.full((3,), 0.5), torch.ones(3)])

        def step(x: Tensor) -> Tensor:
            loss = (x + model[0] - model[1]).sum()
            loss.backward()
            return loss

        return model, step

    sides = [Side(make, False), Side(make, True)]
    for index in range(12):
        losses = [side.run(torch.full((3,), float(index))) for side in sides]
        if index % 3:
            for loss in losses:
                loss.backward()
        assert facts(losses[0]) == facts(losses[1])
        assert sides[0].state() == sides[1].state()
    assert runs(sides[1].run) >= 4


def test_what_functions_of_a_result_tell() -> None:
    def told(loss: Tensor) -> Any:
        function: Any = loss.grad_fn
        try:
            saved = function.next_functions[0][0]._saved_result
        except RuntimeError as error:
            saved = str(error)  # a traceback that is kept would hold the function
        return repr(loss), type(function), function._saved_reduction, saved

    sides = [Side(lambda: stepping(mlp(nn.Tanh()), classified), jitted) for jitted in (False, True)]
    for x, y in batches(12, 5):
        plain, fast = (side.call(x, y)[0] for side in sides)
        assert told(fast) == told(plain)
    assert runs(sides[1].run) >= 6


@pytest.mark.parametrize("inner", [False, True])
def test_functions_that_are_held(inner: bool) -> None:
    """Each pass has functions of its own."""
    sides = [Side(lambda: stepping(mlp(nn.Tanh()), classified), jitted) for jitted in (False, True)]
    held: list[list[Any]] = [[], []]
    for x, y in batches(14, 5):
        for side, functions in zip(sides, held, strict=True):
            function: Any = side.call(x, y)[0].grad_fn
            functions.append(function.next_functions[0][0] if inner else function)
        assert len(set(held[1])) == len(held[1])
        assert sides[0].state() == sides[1].state()
    assert all(after is not None for each in held[1] for after, _ in each.next_functions)


def test_a_hook_on_a_used_graph() -> None:
    sides = [Side(lambda: stepping(mlp(nn.Tanh()), classified), jitted) for jitted in (False, True)]
    called: list[list[int]] = [[], []]
    for index, (x, y) in enumerate(batches(14, 5)):
        for side, calls in zip(sides, called, strict=True):
            loss = side.call(x, y)[0]
            if index in (5, 9):
                loss.grad_fn.register_prehook(lambda _, calls=calls, index=index: calls.append(index))
            with pytest.raises(RuntimeError, match="a second time"):
                loss.backward()
        assert called[0] == called[1]
        assert sides[0].state() == sides[1].state()
    assert called[1] == [5, 9]


def test_results_that_are_kept() -> None:
    """Graphs that grow from call to call, over results that were gone through."""
    sides = [Side(lambda: stepping(mlp(nn.Tanh()), classified), jitted) for jitted in (False, True)]
    totals: list[Any] = [0, 0]
    kept: list[list[Tensor]] = [[], []]
    for x, y in batches(12, 5):
        for at, side in enumerate(sides):
            kept[at].append(side.call(x, y)[0])
            totals[at] = totals[at] + kept[at][-1]
        assert facts(totals[0]) == facts(totals[1]) or len(kept[0]) > 3
        assert totals[0].tolist() == totals[1].tolist()
        assert sides[0].state() == sides[1].state()
    assert runs(sides[1].run) >= 6
    for total in totals:
        with pytest.raises(RuntimeError, match="a second time"):
            total.backward()


@pytest.mark.parametrize("keeps", [False, True])
def test_models_that_take_turns(keeps: bool) -> None:
    def run(jitted: bool) -> Any:
        torch.manual_seed(0)
        models = [nn.Linear(5, 4) for _ in range(3)]

        def step(weight: Tensor, bias: Tensor, x: Tensor) -> Tensor:
            loss = torch.tanh(x @ weight.t() + bias).square().mean()
            loss.backward()
            return loss

        fast = pijit.jit(step) if jitted else step
        losses, found = [], []
        for index, (x, _) in enumerate(batches(24, 5)):
            model = models[index % 3]
            loss = fast(model.weight, model.bias, x)
            if keeps:
                losses.append(loss)
            leaves = [after.variable for each, _ in loss.grad_fn.next_functions for after in walk(each)]
            found.append(([any(leaf is each for each in model.parameters()) for leaf in leaves], facts(loss)))
            found.append([facts(each.grad) for each in model.parameters()])
        return found

    def walk(function: Any) -> Iterator[Any]:
        if hasattr(function, "variable"):
            yield function
        for after, _ in function.next_functions:
            if after is not None:
                yield from walk(after)

    assert run(True) == run(False)


def step_of_a_weight(weight: Tensor, x: Tensor) -> Tensor:
    loss = torch.tanh(x @ weight).square().mean()
    loss.backward()
    return loss


def test_leaves_go_with_the_last_result() -> None:
    """A trace that lives on, and its tapes, keep no weights that nothing else holds."""
    fast = pijit.jit(step_of_a_weight)
    for count in (2, 3, 4, 9):
        weight = torch.ones(5, 4, requires_grad=True)
        gone = weakref.ref(weight)
        for x, _ in batches(count, 5):
            loss = fast(weight, x)
        functions = loss.grad_fn
        del weight
        assert gone() is not None
        assert facts(loss)[0] is torch.float32
        del loss, x
        gc.collect()
        assert gone() is not None  # functions hold it
        del functions
        loss = fast(torch.ones(5, 4, requires_grad=True), torch.ones(6, 5))
        gc.collect()
        assert gone() is None
        del loss
    assert runs(fast) >= 4


def test_leaves_go_at_once() -> None:
    fast = pijit.jit(step_of_a_weight)
    for count in (2, 3, 4, 9):
        weight = torch.ones(5, 4, requires_grad=True)
        gone = weakref.ref(weight)
        for x, _ in batches(count, 5):
            loss = fast(weight, x)
        del weight
        assert gone() is not None
        del loss
        gc.collect()
        assert gone() is None, count
