"""What is measured: each subject is one fresh model with what calls it, and says what the same work leaves behind.

`run` is what a compiler may replace; `args` are its arguments. Two subjects of one name are equal and share nothing.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import alexnet
import models
import torch
from torch import Tensor

CHECKED_CALLS = 3  # calls with other inputs whose results are compared


class OnDevice:
    """What all subjects have: a device."""

    def __init__(self, device: str) -> None:
        self.device = device

    def finish(self) -> None:
        """The device has done what it was told."""
        if self.device != "cpu":
            torch.accelerator.synchronize()


class Transformer(OnDevice):
    """One forward call of a model without gradients."""

    def __init__(self, build: Callable[[], torch.nn.Module], device: str) -> None:
        super().__init__(device)
        self.run: Callable[..., Any] = build().to(device)
        self.args = (models.input_ids().to(device),)

    def mode(self) -> AbstractContextManager[Any]:
        """Under what the call runs."""
        return torch.no_grad()

    def prepare(self, call: int) -> None:
        """Nothing is left over from the call before."""

    def results(self) -> list[Tensor]:
        """All tensors in the outputs, caches included."""
        found: list[Tensor] = []
        with self.mode():
            for seed in range(CHECKED_CALLS):
                found += tensors_in(self.run(models.input_ids(seed).to(self.device)))
        return found


class Training(OnDevice):
    """One training step of a model, on the batch that `batch` makes of a seed."""

    RESTART = 4  # steps after which training starts over, since that of AlexNet does not stay finite for many more

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        step: Callable[..., Any],
        batch: Callable[..., Tensor],
        device: str,
    ) -> None:
        super().__init__(device)
        self.model, self.optimizer, self.batch = model, optimizer, batch
        self.start = {name: value.clone() for name, value in model.state_dict().items()}
        self.run = step
        self.args = (model, optimizer, batch().to(device))

    def mode(self) -> AbstractContextManager[Any]:
        """Under what the call runs."""
        return nullcontext()

    def prepare(self, call: int) -> None:
        """Start over now and then, and draw the same dropout masks for the same step."""
        if call % self.RESTART == 0:
            self.model.load_state_dict(self.start)
            for state in self.optimizer.state.values():
                for value in state.values():
                    value.zero_()
        torch.manual_seed(call)

    def results(self) -> list[Tensor]:
        """Losses and parameters after some steps from the start."""
        losses = []
        for seed in range(CHECKED_CALLS):
            self.prepare(seed)
            losses.append(self.run(self.model, self.optimizer, self.batch(seed).to(self.device)))
        return [*losses, *(parameter.detach().clone() for parameter in self.model.parameters())]


Subject = Transformer | Training


def make(name: str, device: str = "cpu") -> Subject:
    """A fresh subject of this name; the weights of all of one name are equal."""
    if name == "AlexNet":
        model: torch.nn.Module = alexnet.build().to(device)
        return Training(model, alexnet.optimizer_of(model), alexnet.step, alexnet.images, device)
    if name == "GPT-2 step":
        model = models.gpt2_in_training().to(device)
        return Training(model, torch.optim.AdamW(model.parameters()), models.step, models.input_ids, device)
    return Transformer(models.MODELS[name], device)


NAMES = (*models.MODELS, "GPT-2 step", "AlexNet")


def tensors_in(thing: object) -> list[Tensor]:
    """All tensors in an output, however nested, in order."""
    return list(_tensors(thing, set()))


def _tensors(thing: object, seen: set[int]) -> Iterator[Tensor]:
    if isinstance(thing, Tensor):
        yield thing
    elif id(thing) not in seen:
        seen.add(id(thing))
        parts: Any = ()
        if isinstance(thing, Mapping):
            parts = thing.values()
        elif isinstance(thing, (list, tuple)):
            parts = thing
        elif not isinstance(thing, (type, torch.nn.Module)):
            parts = vars(thing).values() if hasattr(thing, "__dict__") else ()
        for part in parts:
            yield from _tensors(part, seen)


def difference(left: list[Tensor], right: list[Tensor]) -> float:
    """0 if equal bit for bit, any NaN equal to any NaN; else the largest difference, infinite if not comparable."""
    if len(left) != len(right):
        return float("inf")
    return max((_difference(a.detach(), b.detach()) for a, b in zip(left, right, strict=True)), default=0.0)


def _difference(a: Tensor, b: Tensor) -> float:
    if (a.dtype, a.shape, a.stride(), a.requires_grad) != (b.dtype, b.shape, b.stride(), b.requires_grad):
        return float("inf")
    wide_a, wide_b = a.double(), b.double()
    same = (wide_a == wide_b) & (wide_a.signbit() == wide_b.signbit()) | wide_a.isnan() & wide_b.isnan()
    if bool(same.all()):
        return 0.0
    gap = (wide_a - wide_b).abs()[~same].max().item()
    return float("inf") if math.isnan(gap) else max(gap, 5e-324)  # a zero of the other sign is a difference too
