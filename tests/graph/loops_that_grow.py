"""Programs with loops whose carried tensors grow, or thin out, from turn to turn; each with calls."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

torch.manual_seed(0)
WORDS, HEADS = torch.randn(20, 8), torch.randn(8, 20)


@dataclass(frozen=True)
class Growing:
    """A program.

    Attributes:
        run: the function.
        shown: the arguments of the calls that are recorded.
        others: those of further calls.
    """

    run: Callable[..., Any]
    shown: tuple[tuple[Any, ...], ...]
    others: tuple[tuple[Any, ...], ...]


def ids(*words: int) -> torch.Tensor:
    return torch.tensor([words])


def boxes(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    corner, size, scores = (torch.rand(count, n, generator=generator) for n in (2, 2, 1))
    return torch.cat([corner, corner + size], 1), scores[:, 0]


def doubles(x: torch.Tensor) -> torch.Tensor:
    while x.sum() < 50:
        x = torch.cat([x, x + 1])
    return x


def greedy(words: torch.Tensor) -> torch.Tensor:
    """Decodes until a word, or until there are ten."""
    while words.shape[1] < 10:
        last = (WORDS[words].mean(1) @ HEADS).argmax(-1, keepdim=True)
        words = torch.cat([words, last], 1)
        if (last == 5).all():
            break
    return words


def rounds(words: torch.Tensor) -> Any:
    """Decodes a number of rounds at most, and counts them."""
    count = 0
    for _ in range(6):
        last = (WORDS[words].mean(1) @ HEADS).argmax(-1, keepdim=True)
        words = torch.cat([words, last], 1)
        count += 1
        if last.item() == 5:
            break
    return words, count


def suppress(found: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    """Suppression of boxes that overlap a better one, written by hand."""

    def area(box: torch.Tensor) -> torch.Tensor:
        return (box[:, 2] - box[:, 0]) * (box[:, 3] - box[:, 1])

    found = found[scores.argsort(descending=True)]
    kept = torch.zeros(0, 4)
    while found.numel():
        best, rest = found[:1], found[1:]
        kept = torch.cat([kept, best])
        corner, other = torch.maximum(best[:, :2], rest[:, :2]), torch.minimum(best[:, 2:], rest[:, 2:])
        sides = (other - corner).clamp(min=0)
        both = sides[:, 0] * sides[:, 1]
        found = rest[both / (area(best) + area(rest) - both) < 0.5]
    return kept


def thins(x: torch.Tensor) -> Any:
    """Drops what is above the mean as long as something is left; what a turn carries besides keeps its size."""
    total = torch.zeros(2)
    while len(x) > 1:
        total = total + x.sum()
        x = x[x < x.mean()]
    return total, x


def shortens(x: torch.Tensor) -> torch.Tensor:
    """A loop on a size alone."""
    while x.shape[0] > 2:
        x = x[1:] + x[:-1]
    return x


PROGRAMS = {
    "doubles": Growing(
        doubles, ((torch.ones(3),),), ((torch.ones(5),), (torch.ones(2) * 0.5,), (torch.full((2,), 60.0),))
    ),
    "greedy": Growing(
        greedy, ((ids(1, 5, 2),), (ids(1, 3),), (ids(3, 5, 2, 1),)), ((ids(7, 7, 7, 7, 7),), (ids(4, 6),))
    ),
    "rounds": Growing(
        rounds, ((ids(1, 5, 2),), (ids(1, 3),), (ids(3, 5, 2, 1),)), ((ids(7, 7, 7, 7, 7),), (ids(4, 6),))
    ),
    "suppress": Growing(suppress, (boxes(6, 0),), (boxes(9, 1), boxes(30, 2), boxes(2, 3))),
    "thins": Growing(
        thins, ((torch.arange(9.0),),), ((torch.arange(40.0) ** 2,), (-torch.arange(5.0),), (torch.ones(2),))
    ),
    "shortens": Growing(shortens, ((torch.arange(6.0),),), ((torch.arange(9.0),), (torch.arange(4.0),))),
}
