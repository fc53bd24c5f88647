"""What is compared on a device, whatever it is: PIJIT_TEST_DEVICE names it, and `twin` and CUDA run the same.

A device has streams, generators and a current one of them; where there are two of its kind, tensors go between them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import side_by_side
import torch
import torch.nn.functional as F
from side_by_side import Jit, replayed
from torch import Tensor, nn

DEVICE = os.environ.get("PIJIT_TEST_DEVICE") or ("cuda" if torch.cuda.is_available() else "cpu")
COUNT = torch.accelerator.device_count() if torch.accelerator.is_available() else 1
OTHER = f"{DEVICE}:1" if COUNT > 1 else "cpu"

TABLE = side_by_side.Table()
scenario = TABLE.add


def modes() -> tuple[object, ...]:
    """What a call may leave changed: the current device, its current stream, the states of generators."""
    current = torch.accelerator.current_device_index()
    states = [torch.get_device_module(DEVICE).get_rng_state(i).tolist() for i in range(COUNT)]
    return current, torch.accelerator.current_stream().stream_id == 0, hash(str(states))


def data(seed: int, *shape: int, device: str = DEVICE) -> Tensor:
    """Numbers that do not depend on the device."""
    return torch.randn(*(shape or (3, 4)), generator=torch.Generator().manual_seed(seed)).to(device)


def filled(model: Any, seed: int = 0) -> Any:
    """The model on the device, with numbers that do not depend on it."""
    for place, tensor in enumerate([*model.parameters()]):
        tensor.data = data(seed + place, *tensor.shape, device="cpu") * 0.3
    return model.to(DEVICE)


def changed(model: nn.Module, seed: int) -> None:
    """Other weights, in place."""
    with torch.no_grad():
        for place, tensor in enumerate(model.parameters()):
            tensor.copy_(data(seed + place, *tensor.shape))


# models


def mlp() -> nn.Sequential:
    return filled(nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2)))


class Attention(nn.Module):
    """Two heads over a few words, with a residual."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.project, self.out, self.norm = nn.Linear(width, 3 * width), nn.Linear(width, width), nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        batch, words, width = x.shape
        q, k, v = self.project(x).view(batch, words, 3, 2, width // 2).permute(2, 0, 3, 1, 4)
        weights = torch.softmax(q @ k.transpose(-1, -2) / (width // 2) ** 0.5, -1)
        return self.norm(x + self.out((weights @ v).transpose(1, 2).reshape(batch, words, width)))


def convolutions() -> nn.Sequential:
    layers = [nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    return filled(nn.Sequential(*layers, nn.Linear(16, 3)))


class Language(nn.Module):
    """Embeddings, two layers of attention, and scores of the words."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(11, 8), nn.Embedding(6, 8)
        self.layers, self.head = nn.ModuleList([Attention(), Attention()]), nn.Linear(8, 11)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


@scenario()
def mlp_inference(jit: Jit) -> Iterator[Any]:
    model = jit(mlp())
    with torch.no_grad():
        yield lambda: model(data(1))
        yield replayed(lambda: model(data(2)))
        changed(model, 5)
        yield replayed(lambda: model(data(3, 5, 4)))


@scenario()
def the_current_accelerator(jit: Jit) -> Iterator[Any]:
    """Which device that is, torch is asked again at each replay."""
    f = jit(lambda x: x.to(torch.accelerator.current_accelerator()) * 2 + 1)
    yield lambda: f(data(1, device="cpu"))
    yield replayed(lambda: f(data(2, device="cpu")))


@scenario()
def attention_inference(jit: Jit) -> Iterator[Any]:
    model = jit(filled(Attention()).eval())
    with torch.no_grad():
        yield lambda: model(data(1, 2, 5, 8))
        changed(model, 5)
        yield replayed(lambda: model(data(2, 2, 5, 8)))


@scenario()
def convolutions_in_evaluation(jit: Jit) -> Iterator[Any]:
    model = jit(convolutions().eval())
    with torch.no_grad():
        yield lambda: model(data(1, 2, 2, 4, 4))
        changed(model, 5)
        yield replayed(lambda: model(data(2, 2, 2, 4, 4)))


@scenario()
def language_model(jit: Jit) -> Iterator[Any]:
    model = jit(filled(Language()))
    with torch.no_grad():
        for seed in range(3):
            tokens = torch.randint(11, (2, 4), generator=torch.Generator().manual_seed(seed)).to(DEVICE)
            call = lambda tokens=tokens: model(tokens)  # noqa: E731
            yield replayed(call) if seed else call


def gradients(model: nn.Module) -> list[Any]:
    return [(parameter, parameter.grad) for parameter in model.parameters()]


def training(jit: Jit, make: Any) -> Iterator[Any]:
    model = mlp()
    optimizer = make(model.parameters())

    def step(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    step = jit(step)
    for seed in range(4):
        yield lambda: (step(data(seed), data(seed + 1, 3, 2)), gradients(model))


@scenario(whole=False)
def training_with_sgd(jit: Jit) -> Iterator[Any]:
    yield from training(jit, lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9))


@scenario(whole=False)
def training_with_adam(jit: Jit) -> Iterator[Any]:
    yield from training(jit, lambda parameters: torch.optim.Adam(parameters, lr=0.1))


@scenario()
def forward_under_gradients(jit: Jit) -> Iterator[Any]:
    model = jit(mlp())

    def call(seed: int) -> Any:
        out = model(data(seed))
        out.sum().backward()
        return out, gradients(model)

    yield lambda: call(1)
    changed(model, 3)
    yield replayed(lambda: call(2))


# tensors, between devices and of other devices than before


@scenario()
def between_devices(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor) -> Any:
        there = (x * 2).to(DEVICE)
        further = there.to(OTHER, torch.float64)
        return there + 1, further - 1, further.cpu().sum().item(), there.to(DEVICE) is there

    f = jit(f)
    yield lambda: f(data(1, device="cpu"))
    yield replayed(lambda: f(data(2, device="cpu")))
    yield replayed(lambda: f(data(3, 2, 2, device="cpu")))


@scenario(whole=False)
def pinned_and_non_blocking(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor) -> Any:
        there = x.pin_memory().to(DEVICE, non_blocking=True)
        back = torch.empty(x.shape, pin_memory=True)
        back.copy_(there * 3, non_blocking=True)
        torch.accelerator.synchronize()
        return there, back, back.is_pinned()

    f = jit(f)
    for seed in range(3):
        yield lambda: f(data(seed, device="cpu"))


@scenario()
def another_device_than_before(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x: torch.softmax(x, -1) * 2)
    yield lambda: f(data(1, device="cpu"))
    yield lambda: f(data(1))
    yield replayed(lambda: f(data(2)))
    yield replayed(lambda: f(data(2, device="cpu")))
    yield lambda: f(data(2, device=OTHER))
    yield replayed(lambda: f(data(3, device=OTHER)))
    yield lambda: f(data(2, device="meta")).shape


@scenario()
def decisions_on_the_device(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor) -> Any:
        made = torch.zeros(2, device=x.device) if x.device.type != "cpu" else torch.ones(2)
        return made, x.is_cpu, x.device, x.device == torch.device(DEVICE, 0), torch.full_like(x, 2)

    f = jit(f)
    yield lambda: f(data(1))
    yield replayed(lambda: f(data(2)))
    yield lambda: f(data(1, device="cpu"))
    yield replayed(lambda: f(data(2, device="cpu")))


@scenario()
def numbers_and_indices(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor, at: int) -> Any:
        y = x.clone()
        y[at] = 5.0
        y[:, 1:3] = x[:, :2]
        y[x > 1] = -1
        rows = y[[0, 2]]
        return y, rows, y[at, -1].item(), float(x.sum()), bool((x > 0).any()), x.argmax(-1)

    f = jit(f)
    yield lambda: f(data(1), 1)
    yield replayed(lambda: f(data(2), 1))
    yield lambda: f(data(3), 2)


@scenario()
def a_number_of_the_cpu_beside_it(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x, y: x * y + torch.tensor(2.0))
    yield lambda: f(data(1), torch.tensor(3.0))
    yield replayed(lambda: f(data(2), torch.tensor(4.0)))


@scenario()
def operands_on_two_devices(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x, y: x @ y)
    yield lambda: f(data(1), data(2, 4, 2))
    yield lambda: f(data(1), data(2, 4, 2, device="cpu"))
    yield replayed(lambda: f(data(3), data(4, 4, 2)))


@scenario()
def in_place_and_views(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor) -> Any:
        x.add_(1)
        x[:, 0].mul_(3)
        return x.t(), x.view(-1)[::2], x.unflatten(1, (2, 2)).transpose(0, 1).contiguous()

    f = jit(f)
    for seed in range(3):
        x = data(seed)
        call = lambda x=x: (f(x), x)  # noqa: E731
        yield replayed(call) if seed else call


# current device, current stream, context of devices


@scenario()
def current_device(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x: (torch.ones(2, device=DEVICE), x.to(DEVICE) + 1))
    yield lambda: f(data(1, device="cpu"))
    yield replayed(lambda: f(data(2, device="cpu")))
    with torch.accelerator.device_index(COUNT - 1):
        yield lambda: f(data(1, device="cpu"))
        yield replayed(lambda: f(data(2, device="cpu")))
    yield replayed(lambda: f(data(3, device="cpu")))


@scenario(whole=False)
def current_device_inside(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor) -> Any:
        before = torch.accelerator.current_device_index()
        with torch.accelerator.device_index(COUNT - 1):
            made = torch.ones(3, device=DEVICE) + x.to(DEVICE)
            within = torch.accelerator.current_device_index()
        return made, torch.zeros(2, device=DEVICE), before, within

    f = jit(f)
    for seed in range(4):
        yield lambda: f(data(seed, 3, device="cpu"))
    with torch.accelerator.device_index(COUNT - 1):
        yield lambda: f(data(9, 3, device="cpu"))


@scenario(whole=False)
def leaves_another_device_current(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor, index: int) -> Any:
        y = x + 1
        torch.accelerator.set_device_index(index)
        return y, torch.ones(2, device=DEVICE)

    f = jit(f)
    for index in (COUNT - 1, COUNT - 1, 0, 0, COUNT - 1, 0):
        yield lambda: f(data(1), index)


@scenario()
def current_stream(jit: Jit) -> Iterator[Any]:
    side, f = torch.Stream(DEVICE), jit(lambda x: (x * 2).softmax(-1))
    yield lambda: f(data(1))
    yield replayed(lambda: f(data(2)))
    for seed in range(3):
        with side:
            yield lambda: f(data(seed))
        torch.accelerator.synchronize()
        yield replayed(lambda: f(data(seed + 3)))


@scenario(whole=False)
def current_stream_inside(jit: Jit) -> Iterator[Any]:
    side = torch.Stream(DEVICE)

    def f(x: Tensor) -> Any:
        y = x * 2
        side.wait_stream(torch.accelerator.current_stream())
        with side:
            z = y + 1
        torch.accelerator.current_stream().wait_stream(side)
        return z * y

    f = jit(f)
    for seed in range(4):
        yield lambda: f(data(seed))


@scenario(whole=False)
def a_new_stream_each_time(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor) -> Any:
        with torch.Stream(DEVICE) as side:
            z = x * 2 + 1
        side.synchronize()
        return z - 1

    f = jit(f)
    for seed in range(5):
        yield lambda: f(data(seed))


@scenario(whole=False)
def events(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor) -> Any:
        done = torch.Event(DEVICE)
        y = x.exp()
        done.record()
        done.synchronize()
        return y.log(), done.query()

    f = jit(f)
    for seed in range(3):
        yield lambda: f(data(seed))


@scenario(whole=False)
def raises_with_another_device_current(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor, y: Tensor) -> Any:
        try:
            with torch.accelerator.device_index(COUNT - 1), torch.Stream(DEVICE):
                return x @ y
        finally:
            x.add_(1)

    f = jit(f)
    for columns in (3, 3, 2, 3, 2):
        yield lambda: f(data(1, 2, 3), data(2, columns, 2))


@scenario(whole=False)
def context_of_a_device(jit: Jit) -> Iterator[Any]:
    f = jit(lambda n: torch.ones(n) * 2)
    yield lambda: f(2)
    for _ in range(3):
        with torch.device(DEVICE):
            yield lambda: f(2)
        yield lambda: f(3)
    torch.set_default_device(OTHER)
    try:
        for _ in range(3):
            yield lambda: f(2)
    finally:
        torch.set_default_device(None)
    yield lambda: f(2)


@scenario(whole=False)
def context_of_a_device_inside(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor, device: str) -> Any:
        with torch.device(device):
            made = torch.arange(4)
            layer = nn.Linear(2, 2)
        return made + 1, x.to(device) * 2, layer.weight

    f = jit(f)
    for device in (DEVICE, DEVICE, OTHER, "cpu", DEVICE, OTHER):
        yield lambda: f(data(1), device)


# random numbers


@scenario()
def dropout(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x: F.dropout(x, 0.5) + torch.rand_like(x))
    yield lambda: f(data(1))
    yield replayed(lambda: f(data(2)))
    torch.manual_seed(7)
    yield replayed(lambda: f(data(3)))


@scenario()
def numbers_drawn_on_the_device(jit: Jit) -> Iterator[Any]:
    own = torch.Generator(DEVICE).manual_seed(3)
    f = jit(lambda x: (torch.randn(2, 2, device=x.device), torch.rand(2), x.clone().uniform_()))
    yield lambda: f(data(1))
    yield replayed(lambda: f(data(2)))
    g = jit(lambda x: x.clone().normal_(1, 2, generator=own))
    yield lambda: g(data(1))
    yield replayed(lambda: g(data(2)))
    own.manual_seed(3)
    yield replayed(lambda: g(data(3)))


@scenario(whole=False)
def seeds_and_states_inside(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor, seed: int) -> Any:
        torch.manual_seed(seed)
        first = torch.randn(2, device=x.device)
        again = torch.randn(2, device=x.device)
        return first, again, x + 1

    f = jit(f)
    for seed in (1, 1, 2, 1):
        yield lambda: f(data(1), seed)


@scenario()
def drawn_on_either_device(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x: torch.bernoulli(torch.full_like(x, 0.5)) + torch.empty_like(x).exponential_())
    yield lambda: f(data(1, device=OTHER))
    yield replayed(lambda: f(data(2, device=OTHER)))
    yield lambda: f(data(1))
    yield replayed(lambda: f(data(2)))
    yield replayed(lambda: f(data(3, device=OTHER)))


# autocast


@scenario()
def autocast_outside(jit: Jit) -> Iterator[Any]:
    model = jit(mlp())
    for dtype in (torch.bfloat16, torch.bfloat16, torch.float16, torch.float16):
        with torch.autocast(DEVICE, dtype=dtype), torch.no_grad():
            yield lambda: model(data(1))
    with torch.autocast(DEVICE, dtype=torch.bfloat16), torch.no_grad():
        yield replayed(lambda: model(data(2)))


@scenario(whole=False)
def autocast_inside(jit: Jit) -> Iterator[Any]:
    model = mlp()

    def f(x: Tensor) -> Any:
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            return model(x), torch.get_autocast_dtype(DEVICE)

    f = jit(f)
    for seed in range(4):
        yield lambda: f(data(seed))


@scenario(whole=False)
def autocast_of_the_default_dtype(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor) -> Any:
        with torch.autocast(DEVICE):
            return x @ x.t(), torch.get_autocast_dtype(DEVICE)

    f = jit(f)
    before = torch.get_autocast_dtype(DEVICE)
    try:
        for dtype in (torch.bfloat16, torch.bfloat16, torch.float16, torch.bfloat16):
            torch.set_autocast_dtype(DEVICE, dtype)
            yield lambda: f(data(1))
    finally:
        torch.set_autocast_dtype(DEVICE, before)
