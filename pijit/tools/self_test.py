"""The test of an adapter that was built on this machine: small programs, eager and replayed, compared bit for bit.

`python -m pijit.tools.self_test FILE` takes the adapter's file; the exit status is 0 if all agree.
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from pijit import _adapters, _torches
from pijit._adapter_choice import Choice
from pijit.api import jit, status

_CALLS = 4  # of each program: recorded once, replayed then


def _data(*shape: int, gradient: bool = False) -> torch.Tensor:
    return torch.randn(shape).requires_grad_(gradient)


def _pointwise(x: Any, y: Any) -> Any:
    return torch.relu(x * 2 + y).tanh(), (x > y).sum(), x[0, 0].item() + 1


def _products(x: Any, y: Any) -> Any:
    z: Any = torch.softmax(x @ y.t(), -1)
    return torch.cat([z, z.t()]).reshape(2, -1), z.sum(0, keepdim=True), [part.shape for part in z.split(2)]


def _indexing(x: Any, y: Any) -> Any:
    z = x.clone()
    z[0] = 1.5
    z[:, 1] = y[:, 0]
    z[z > 1] = 0
    z[[1, 2]] += y[..., [2, 1]].mean()
    return z, z[1:, None], z[torch.tensor([0, 2])]


def _in_place(x: Any, y: Any) -> Any:
    z = x.detach().clone()
    z.add_(y).mul_(2)
    z.view(-1)[3] = 7
    with torch.no_grad():
        z.clamp_(max=3)
    return z, z._version, z.stride()


def _branches(x: Any, y: Any) -> Any:
    return x + 1 if bool((x.sum() > y.sum()).item()) else y - 1


def _random(x: Any, y: Any) -> Any:
    return torch.nn.functional.dropout(x, 0.5) + torch.rand_like(y), torch.randint(0, 9, (3,))


def _gradients(x: Any, y: Any) -> Any:
    x, y = (each.detach().clone().requires_grad_() for each in (x, y))
    z = x * y
    z[0] = 2.0
    z[1:, 0] = x[0, 0]
    loss: Any = (z.sin() ** 2).sum()
    loss.backward()
    return loss, x.grad, y.grad, type(z.grad_fn).__name__


def _layer() -> Callable[[Any, Any], Any]:
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.LayerNorm(8), torch.nn.Linear(8, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss: Any = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach(), [parameter.detach().clone() for parameter in model.parameters()]

    return step


def _failing(x: Any, y: Any) -> Any:
    try:
        return x @ y.repeat(2, 1)
    except RuntimeError as error:
        return str(error)


_PROGRAMS: tuple[Callable[[], Callable[[Any, Any], Any]], ...] = (
    *(
        lambda fn=fn: fn
        for fn in (_pointwise, _products, _indexing, _in_place, _branches, _random, _gradients, _failing)
    ),
    _layer,
)


def _flat(thing: Any) -> Iterator[Any]:
    if isinstance(thing, (tuple, list)) and not isinstance(thing, torch.Size):
        for each in thing:
            yield from _flat(each)
    else:
        yield thing


def _same(a: Any, b: Any) -> bool:
    left, right = list(_flat(a)), list(_flat(b))
    return len(left) == len(right) and all(map(_same_one, left, right))


def _same_one(a: Any, b: Any) -> bool:
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return type(a) is type(b) and bool(a == b)
    alike = a.dtype == b.dtype and a.stride() == b.stride() and a.requires_grad == b.requires_grad
    return alike and torch.equal(a.detach(), b.detach())


def _run(fn: Callable[[Any, Any], Any]) -> list[Any]:
    torch.manual_seed(0)
    return [fn(_data(4, 4), _data(4, 4)) for _ in range(_CALLS)]


def trouble() -> str:
    """What is wrong, for people; "": nothing."""
    for make in _PROGRAMS:
        plain, fast = make(), jit(make())
        name = plain.__name__.strip("_")
        if not _same(_run(plain), _run(fast)):
            return f"{name}: a replay differs from eager"
        if status(fast).state != "replaying":
            return f"{name}: it is not replayed ({status(fast).state}: {status(fast).reason})"
    return ""


def main(file: str) -> int:
    """Attach the adapter in a file, and test it."""
    name = f"pijit.{_torches.module_name(torch.__version__)}"
    _adapters.ADAPTERS["torch"] = lambda _: Choice(name, Path(file))
    _adapters.ensure()
    text = _adapters.refused() or trouble()
    print(text or "good")
    return 1 if text else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
