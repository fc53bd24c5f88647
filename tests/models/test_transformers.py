"""Three transformers, recorded at their first call: results, caches, errors and gradients equal the plain ones."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import models
import pytest
import side_by_side
import torch
from side_by_side import Jit, replayed
from torch import Tensor, nn

import pijit

pytest.importorskip("transformers")
pytestmark = [pytest.mark.torch, pytest.mark.slow]

NAMES = tuple(models.MODELS)
Body = Callable[[nn.Module, Jit], Iterator[Any]]
TABLE = side_by_side.Table()

# (model, scenario): what goes wrong today
BUGS = {(name, "hidden_states"): "stops at `with lock:`" for name in NAMES}


def scenario(*, whole: bool = True) -> Callable[[Body], Body]:
    """A scenario for each of the models; `whole` as in `side_by_side`."""

    def enter(body: Body) -> Body:
        for name in NAMES:
            add(name, body, whole)
        return body

    return enter


def add(name: str, body: Body, whole: bool) -> None:
    def bound(jit: Jit) -> Iterator[Any]:
        return body(models.MODELS[name](), jit)

    bound.__name__ = f"{name} {body.__name__}"
    TABLE.add(whole=whole, bug=BUGS.get((name, body.__name__), ""))(bound)


def ids(seed: int, rows: int = 1, tokens: int = models.TOKENS) -> Tensor:
    return torch.randint(models.VOCABULARY, (rows, tokens), generator=torch.Generator().manual_seed(seed))


def quietly(model: nn.Module, *args: Any, **kwargs: Any) -> Any:
    with torch.no_grad():
        return model(*args, **kwargs)


@scenario()
def other_tokens(model: nn.Module, jit: Jit) -> Iterator[Any]:
    model = jit(model)
    yield lambda: quietly(model, ids(0))
    for seed in range(1, 4):
        yield replayed(lambda: quietly(model, ids(seed)))


@scenario()
def by_keyword(model: nn.Module, jit: Jit) -> Iterator[Any]:
    model = jit(model)
    yield lambda: quietly(model, input_ids=ids(0))
    for seed in range(1, 4):
        yield replayed(lambda: quietly(model, input_ids=ids(seed)))
    yield lambda: quietly(model, ids(1))
    yield replayed(lambda: quietly(model, ids(2)))


@scenario()
def other_shapes(model: nn.Module, jit: Jit) -> Iterator[Any]:
    model = jit(model)
    yield lambda: quietly(model, ids(0))
    for rows, tokens in ((1, 8), (2, 16), (1, 1), (3, 5)):
        yield lambda: quietly(model, ids(1, rows, tokens))
        yield lambda: quietly(model, ids(2, rows, tokens))
    yield replayed(lambda: quietly(model, ids(3)))


@scenario()
def attention_mask(model: nn.Module, jit: Jit) -> Iterator[Any]:
    model = jit(model)
    full = torch.ones(2, 16, dtype=torch.int64)
    padded = full.clone()
    padded[1, 10:] = 0
    yield lambda: quietly(model, ids(0, 2), attention_mask=full)
    yield lambda: quietly(model, ids(1, 2), attention_mask=full)
    for mask in (padded, padded, full, padded):
        yield lambda: quietly(model, ids(2, 2), attention_mask=mask)
    yield lambda: quietly(model, ids(3, 2))
    yield lambda: quietly(model, ids(3, 2))


@scenario(whole=False)
def padded_first(model: nn.Module, jit: Jit) -> Iterator[Any]:
    model = jit(model)
    padded = torch.ones(2, 16, dtype=torch.int64)
    padded[0, 12:] = 0
    for mask in (padded, padded, padded.clone(), torch.ones_like(padded), padded, None):
        yield lambda: quietly(model, ids(2, 2), attention_mask=mask)


@scenario()
def position_ids(model: nn.Module, jit: Jit) -> Iterator[Any]:
    model = jit(model)
    positions = torch.arange(16)[None]
    for shift in (0, 0, 3, 3):
        yield lambda: quietly(model, ids(0), position_ids=positions + shift)


@scenario()
def embeddings_as_input(model: nn.Module, jit: Jit) -> Iterator[Any]:
    model = jit(model)
    for seed in range(4):
        x = torch.randn(1, 16, models.HIDDEN, generator=torch.Generator().manual_seed(seed))
        yield lambda: quietly(model, inputs_embeds=x)
    yield lambda: quietly(model)
    yield lambda: quietly(model, ids(1), inputs_embeds=x)
    yield lambda: quietly(model, inputs_embeds=x)


@scenario()
def hidden_states(model: nn.Module, jit: Jit) -> Iterator[Any]:
    model = jit(model)
    for seed in range(3):
        yield lambda: quietly(model, ids(seed), output_hidden_states=True)
    yield lambda: quietly(model, ids(3))
    yield lambda: quietly(model, ids(4), output_hidden_states=True)


@scenario(whole=False)
def attentions(model: nn.Module, jit: Jit) -> Iterator[Any]:
    model.set_attn_implementation("eager")
    model = jit(model)
    for seed in range(3):
        yield lambda: quietly(model, ids(seed), output_attentions=True)
    yield lambda: quietly(model, ids(3))


@scenario()
def attention_changed(model: nn.Module, jit: Jit) -> Iterator[Any]:
    model = jit(model)
    yield lambda: quietly(model, ids(1))
    yield lambda: quietly(model, ids(2))
    model.set_attn_implementation("eager")
    yield lambda: quietly(model, ids(1))
    yield lambda: quietly(model, ids(2))
    model.set_attn_implementation("sdpa")
    yield lambda: quietly(model, ids(1))
    yield lambda: quietly(model, ids(2))


@scenario()
def as_tuple(model: nn.Module, jit: Jit) -> Iterator[Any]:
    model = jit(model)
    for seed in range(3):
        yield lambda: quietly(model, ids(seed), return_dict=False)
    yield lambda: quietly(model, ids(3))
    model.config.return_dict = False
    yield lambda: quietly(model, ids(3))
    yield lambda: quietly(model, ids(4))


@scenario()
def no_cache(model: nn.Module, jit: Jit) -> Iterator[Any]:
    model = jit(model)
    for flag in (False, False, False, True, True, None, False):
        yield lambda: quietly(model, ids(1), use_cache=flag)
    model.config.use_cache = False
    yield lambda: quietly(model, ids(1))
    yield lambda: quietly(model, ids(1))


@scenario(whole=False)
def cache_goes_on(model: nn.Module, jit: Jit) -> Iterator[Any]:
    """Decoding token by token with the cache of the call before."""
    if model.config.model_type == "bert":
        return
    model = jit(model)
    for _ in range(2):
        past = None
        for step in range(5):

            def call() -> Any:
                nonlocal past
                out = quietly(model, ids(step, 1, 4 if step == 0 else 1), past_key_values=past, use_cache=True)
                past = out.past_key_values
                return out, past.get_seq_length()

            yield call


@scenario(whole=False)
def cache_given(model: nn.Module, jit: Jit) -> Iterator[Any]:
    """A cache made by the caller is written to, not one of an earlier call."""
    if model.config.model_type == "bert":
        return
    from transformers import DynamicCache

    model = jit(model)
    for seed in range(4):
        mine = DynamicCache()
        yield lambda: (quietly(model, ids(seed), past_key_values=mine), mine.get_seq_length())


@scenario()
def with_gradients(model: nn.Module, jit: Jit) -> Iterator[Any]:
    model = jit(model)
    for seed in range(4):

        def call() -> Any:
            model.zero_grad()
            out = model(ids(seed))
            out.last_hidden_state.pow(2).mean().backward()
            return out, [parameter.grad for parameter in model.parameters()]

        yield call if seed == 0 else replayed(call)
    yield lambda: quietly(model, ids(1))
    yield replayed(lambda: quietly(model, ids(1)))


@scenario()
def in_training(model: nn.Module, jit: Jit) -> Iterator[Any]:
    model = jit(model.train())
    for seed in range(3):

        def call() -> Any:
            model.zero_grad()
            out = model(ids(seed))
            out.last_hidden_state.pow(2).mean().backward()
            return out, [parameter.grad for parameter in model.parameters()], torch.rand(1)

        yield call if seed == 0 else replayed(call)
    model.eval()
    yield lambda: quietly(model, ids(1))
    yield replayed(lambda: quietly(model, ids(1)))
    model.train()
    yield replayed(call)


@scenario(whole=False)
def in_inference_mode(model: nn.Module, jit: Jit) -> Iterator[Any]:
    model = jit(model)
    for seed in range(3):
        yield torch.inference_mode()(lambda: model(ids(seed)))
    yield lambda: quietly(model, ids(1))
    yield lambda: quietly(model, ids(1))


@scenario()
def under_autocast(model: nn.Module, jit: Jit) -> Iterator[Any]:
    model = jit(model)

    def call() -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return quietly(model, ids(1))

    yield lambda: quietly(model, ids(0))
    yield call
    yield call
    yield replayed(lambda: quietly(model, ids(1)))


@scenario()
def in_double_precision(model: nn.Module, jit: Jit) -> Iterator[Any]:
    model = jit(model)
    yield lambda: quietly(model, ids(0))
    yield replayed(lambda: quietly(model, ids(0)))
    model.double()
    yield lambda: quietly(model, ids(0))
    yield lambda: quietly(model, ids(1))
    model.to(torch.bfloat16)
    yield lambda: quietly(model, ids(0))
    yield lambda: quietly(model, ids(1))
    model.float()
    yield lambda: quietly(model, ids(0))


@scenario()
def weights_change(model: nn.Module, jit: Jit) -> Iterator[Any]:
    model = jit(model)
    yield lambda: quietly(model, ids(0))
    yield replayed(lambda: quietly(model, ids(0)))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
    yield replayed(lambda: quietly(model, ids(0)))
    model.load_state_dict({name: value * 0.5 for name, value in model.state_dict().items()})
    yield replayed(lambda: quietly(model, ids(0)))
    last = list(model.modules())[-1]
    hook = last.register_forward_hook(lambda module, args, out: out * 2 if isinstance(out, Tensor) else out)
    yield lambda: quietly(model, ids(0))
    yield lambda: quietly(model, ids(1))
    hook.remove()
    yield lambda: quietly(model, ids(0))
    yield lambda: quietly(model, ids(1))


@scenario()
def a_layer_is_gone(model: nn.Module, jit: Jit) -> Iterator[Any]:
    model = jit(model)
    layers = next(module for module in model.modules() if isinstance(module, nn.ModuleList))
    yield lambda: quietly(model, ids(0))
    yield replayed(lambda: quietly(model, ids(0)))
    gone = layers.pop(3)
    yield lambda: quietly(model, ids(0), use_cache=False)
    yield lambda: quietly(model, ids(1), use_cache=False)
    layers.insert(3, gone)
    yield lambda: quietly(model, ids(0))


@scenario()
def wrong_tokens(model: nn.Module, jit: Jit) -> Iterator[Any]:
    """Eager's own error with eager's own traceback, from a replay too."""
    model = jit(model)
    yield lambda: quietly(model, ids(0))
    yield replayed(lambda: quietly(model, ids(1)))
    for wrong in (models.VOCABULARY, -1):
        bad = ids(2)
        bad[0, 5] = wrong
        yield lambda: quietly(model, bad)
        yield lambda: quietly(model, bad)
    yield lambda: quietly(model, ids(0).float())
    yield lambda: quietly(model, None)
    yield lambda: quietly(model, ids(0)[0, :0])
    yield replayed(lambda: quietly(model, ids(3)))


@scenario(whole=False)
def wrong_tokens_first(model: nn.Module, jit: Jit) -> Iterator[Any]:
    model = jit(model)
    bad = ids(2)
    bad[0, 5] = models.VOCABULARY
    yield lambda: quietly(model, bad)
    yield lambda: quietly(model, ids(0))
    yield lambda: quietly(model, ids(1))
    yield lambda: quietly(model, bad)
    yield replayed(lambda: quietly(model, ids(2)))


@scenario()
def results_are_their_own(model: nn.Module, jit: Jit) -> Iterator[Any]:
    model = jit(model)

    def call() -> Any:
        first, second = quietly(model, ids(1)), quietly(model, ids(1))
        first.last_hidden_state.zero_()
        first["more"] = 1
        return first, second

    yield call
    yield call
    yield call


@pytest.mark.parametrize("name", NAMES)
def test_recorded(name: str) -> None:
    model = pijit.jit(models.MODELS[name]())
    for seed in range(3):
        quietly(model, ids(seed))
    assert pijit.status(model) == pijit.Status("replaying", "")
    (trace,) = pijit.traces(model)
    assert (trace.ends, trace.stop, trace.opaque_calls, trace.replays, trace.exits) == ("return", None, 0, 2, 0)
    text = str(trace)
    assert "torch.ops.aten." in text
    assert "# opaque call" not in text


@pytest.mark.parametrize("name", NAMES)
def test_only_this_instance(name: str) -> None:
    model, other = models.MODELS[name](), models.MODELS[name](1)
    given = dict(vars(model))
    assert pijit.jit(model) is model
    for seed in range(3):
        quietly(model, ids(seed))
        quietly(other, ids(seed))
    assert list(vars(model)) == list(given)
    assert pijit.status(other).state == "cold"
    assert pijit.traces(other) == ()
    (trace,) = pijit.traces(model)
    assert trace.replays == 2


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_kept(name: str) -> None:
    """A model dies with its parameters, and results die, although there are traces."""
    model = pijit.jit(models.MODELS[name]())
    results = [weakref.ref(quietly(model, ids(seed)).last_hidden_state) for seed in range(3)]
    assert pijit.traces(model)[0].replays == 2
    gc.collect()
    assert [result() for result in results] == [None, None, None]
    watched = [weakref.ref(model), *map(weakref.ref, model.parameters()), *map(weakref.ref, model.modules())]
    traces = pijit.stats()["traces"]
    del model
    gc.collect()
    assert {ref() for ref in watched} == {None}
    assert pijit.stats()["traces"] == traces - 1


@pytest.mark.parametrize("name", NAMES)
def test_inputs_are_not_kept(name: str) -> None:
    model = pijit.jit(models.MODELS[name]())
    for seed in range(3):
        tokens = ids(seed)
        watched = weakref.ref(tokens)
        quietly(model, tokens)
        del tokens
        gc.collect()
        assert watched() is None


@pytest.mark.parametrize("name", NAMES)
def test_reset(name: str) -> None:
    model = pijit.jit(models.MODELS[name]())
    expected = quietly(models.MODELS[name](), ids(1)).last_hidden_state
    for _ in range(3):
        assert pijit.status(model).state == "cold"
        for _ in range(3):
            assert torch.equal(quietly(model, ids(1)).last_hidden_state, expected)
        assert pijit.status(model).state == "replaying"
        pijit.reset(model)
        assert pijit.traces(model) == ()


@pytest.mark.parametrize("name", NAMES)
def test_explain(name: str) -> None:
    report = pijit.explain(models.MODELS[name](), ids(1))
    assert isinstance(report.result.last_hidden_state, Tensor)
    assert "ends in a return" in str(report)
    assert report.to_json()


@pytest.mark.parametrize("name", NAMES)
def test_two_models_in_turn(name: str) -> None:
    plain = [models.MODELS[name](seed) for seed in (0, 1)]
    jitted = [pijit.jit(models.MODELS[name](seed)) for seed in (0, 1)]
    for turn in range(4):
        for expected, actual in zip(plain, jitted, strict=True):
            left, right = quietly(expected, ids(turn)), quietly(actual, ids(turn))
            assert type(left) is type(right)
            assert list(left) == list(right)
            assert torch.equal(left[0], right[0])
    assert [pijit.traces(model)[0].replays for model in jitted] == [3, 3]


@pytest.mark.parametrize("name", TABLE.cases())
def test_same(name: str) -> None:
    TABLE.check(name, __file__)
