"""Decompositions of losses that torch does not have, in calls of torch; each takes the arguments of its operator."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from pijit.graph.decompose.own_matrices import along


def _multilabel_margin_loss(x: Any, target: Any, reduction: int = 1) -> Any:
    import torch

    classes = x.shape[-1]
    places = torch.arange(classes, device=x.device)
    ended = (target < 0).to(torch.int64).cumsum(-1) > 0  # what stands behind the first that is no class
    known = target.masked_fill(ended, 0)
    is_target = ((known.unsqueeze(-1) == places) & ~ended.unsqueeze(-1)).any(-2)
    margins = (1 - x.gather(-1, known).unsqueeze(-1) + x.unsqueeze(-2)).clamp(min=0)
    counted = ~ended.unsqueeze(-1) & ~is_target.unsqueeze(-2)
    loss = (margins * counted.to(x.dtype)).sum((-2, -1)) / classes
    return loss.mean() if reduction == 1 else loss.sum() if reduction == 2 else loss


def _labels(targets: Any, lengths: Any) -> Any:
    """The labels of each sequence as a row; those of all may stand in one row, one sequence behind the other."""
    import torch

    if targets.dim() != 1:
        return targets
    places = torch.arange(targets.shape[0], device=targets.device)
    starts = (lengths.cumsum(0) - lengths).unsqueeze(1)
    return targets[(starts + places).clamp(max=targets.shape[0] - 1)]


def _likelihood(scores: Any, targets: Any, lengths: Any, counts: Any, blank: int) -> Any:
    """The logarithm of how likely the labels of each sequence are, over all ways in which they may be spread.

    Args:
        scores: logarithms, by turn, sequence and label.
        targets: labels, a row for each sequence.
        lengths: turns of each sequence.
        counts: labels of each sequence.
        blank: the label that stands between others.
    """
    import torch

    batch, most = targets.shape
    places = torch.arange(2 * most + 1, device=scores.device)
    # Between the labels, and at both ends, is a blank; behind the labels there is whatever the padding has.
    between = targets.unsqueeze(-1).expand(batch, most, 2).reshape(batch, 2 * most)
    states = torch.cat([between, between.new_zeros((batch, 1))], 1)
    states = torch.where(places % 2 == 0, blank, states)
    states = torch.where(places > 2 * counts.unsqueeze(1), blank, states)
    before = torch.cat([states.new_full((batch, 2), blank), states], 1).narrow(1, 0, 2 * most + 1)
    skips = (states != blank) & (states != before) & (places > 1)
    none = torch.full((batch, 2 * most + 1), -math.inf, dtype=scores.dtype, device=scores.device)

    def moved(now: Any, steps: int) -> Any:
        wide = torch.cat([torch.full_like(now.narrow(1, 0, 1), -math.inf)] * steps + [now], 1)
        return wide.narrow(1, 0, now.shape[1])

    def turn(at: Any, now: Any, scores: Any, states: Any, skips: Any, lengths: Any) -> Any:
        given = scores.index_select(0, at.reshape(1)).squeeze(0).gather(1, states)
        ways = [now, moved(now, 1), torch.where(skips, moved(now, 2), -math.inf)]
        after = torch.stack(ways, -1).logsumexp(-1) + given
        return torch.where((at < lengths).unsqueeze(1), after, now)

    first = torch.where(places < 1 + (counts > 0).to(torch.int64).unsqueeze(1), scores[0].gather(1, states), none)
    made = along(turn, first, (scores, states, skips, lengths))
    ends = made.gather(1, torch.stack([2 * counts, (2 * counts - 1).clamp(min=0)], 1))
    ends = torch.where(torch.stack([counts >= 0, counts > 0], 1), ends, -math.inf)
    likely = ends.logsumexp(1)
    nothing = torch.where(counts == 0, 0.0, -math.inf).to(likely.dtype)  # of a sequence without turns
    return torch.where(lengths == 0, nothing, likely)


def _ctc_loss(
    scores: Any,
    targets: Any,
    lengths: Any,
    counts: Any,
    blank: int = 0,
    reduction: int = 1,
    zero_infinity: bool = False,
) -> Any:
    import torch

    def numbers(given: Any) -> Any:
        if isinstance(given, torch.Tensor):
            return given.to(dtype=torch.int64, device=scores.device).reshape(-1)
        return torch.tensor(given, dtype=torch.int64, device=scores.device)

    lengths, counts = numbers(lengths), numbers(counts)
    batched = scores.dim() == 3
    if not batched:
        scores = scores.unsqueeze(1)
    targets = _labels(targets, counts).to(torch.int64)
    loss = -_likelihood(scores, targets, lengths, counts, blank)
    if zero_infinity:
        loss = torch.where(loss == math.inf, 0.0, loss)
    if reduction == 1:
        return (loss / counts.clamp(min=1).to(loss.dtype)).mean()
    if reduction == 2:
        return loss.sum()
    return loss if batched else loss.squeeze(0)


# By the paths of the operators.
LOSSES: Mapping[str, Callable[..., Any]] = {
    # Torch's own counts what stands behind a -1.
    "torch.ops.aten.multilabel_margin_loss.default": _multilabel_margin_loss,
    "torch.ops.aten.ctc_loss.Tensor": _ctc_loss,
    "torch.ops.aten.ctc_loss.IntList": _ctc_loss,
}
