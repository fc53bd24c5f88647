"""Models and functions for the tests of the format cpp, made anew by a function, with the calls that they get."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from pijit.graph import Graph, Node, Value, vocabulary
from pijit.graph.run import caller
from pijit.graph.torch_calls import NUMBERS

sys.path.append(str(Path(__file__).parents[1] / "graph"))
from cases import CASES
from loops_that_grow import PROGRAMS as GROWING


class Case(NamedTuple):
    """What is exported: the function, calls of it (the first one is exported), and options of the export."""

    fn: Any
    calls: tuple[tuple[Any, ...], ...]
    options: dict[str, Any] = {}  # noqa: RUF012 - read only


class Mlp(nn.Module):
    """Results of every kind, nested."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(8, 16), nn.Linear(16, 4)
        self.register_buffer("scale", torch.tensor(0.5))

    def forward(self, x: Any) -> Any:
        h = F.gelu(self.first(x))
        left, right = self.last(h).split(2, -1)
        return {"left": left, "rest": [right * self.scale, (h.shape[0] * 3, None, "text")], "mean": h.mean()}


class Convolutions(nn.Module):
    """Batch normalisation that counts, in training mode; weights in another order."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.to(memory_format=torch.channels_last)

    def forward(self, image: Any) -> Any:
        return F.max_pool2d(torch.relu(self.norm(self.conv(image))), 2).flatten(1)


class Block(nn.Module):
    """A layer of a GPT, with the embedding as its head."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(31, 16), nn.Embedding(12, 16)
        self.norm, self.mlp = nn.LayerNorm(16), nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, tokens: Any) -> Any:
        b, t = tokens.shape
        x = self.words(tokens) + self.places(torch.arange(t))
        q, k, v = (each.view(b, t, 4, 4).transpose(1, 2) for each in self.qkv(self.norm(x)).chunk(3, -1))
        scores = (q @ k.transpose(-2, -1)) * 0.5
        mask = torch.ones(t, t, dtype=torch.bool).tril()
        mixed = torch.softmax(scores.masked_fill(~mask, float("-inf")), -1) @ v
        x = x + self.out(mixed.transpose(1, 2).reshape(b, t, 16))
        x = x + F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        return (x + self.mlp(x)) @ self.words.weight.t()


class Lstm(nn.Module):
    """Layers in both directions."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(6, 5, num_layers=2, bidirectional=True, batch_first=True)

    def forward(self, x: Any) -> Any:
        out, (hidden, cell) = self.rnn(x)
        return out[:, -1], hidden, cell


class Memory(nn.Module):
    """State that is written, an input that is written, and one that is a view."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", torch.zeros(4, 6))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mean", torch.ones(6))

    @torch.no_grad()
    def forward(self, x: Any, into: Any) -> Any:
        self.count.add_(1)
        self.cache[1:3, 2] = x[0, :2]
        self.cache[0] += x.mean(0)
        self.mean.lerp_(x.mean(0), 0.25)
        into[:, 0] = 7
        into.mul_(2)
        return self.cache[self.count % 4], into.sum(), self.cache * self.mean


class Chance(nn.Module):
    """Random numbers of several operators."""

    def forward(self, x: Any) -> Any:
        kept = F.dropout(x, 0.4, training=True)
        noise = torch.rand_like(x) + torch.randn(x.shape[0], 1)
        return kept * noise, torch.multinomial(torch.softmax(x, -1), 2), torch.randperm(x.shape[0])


def indices(x: Any, at: Any, mask: Any) -> Any:
    """The ways to index."""
    y = x.clone()
    y[..., 1] = -1.5
    y[mask] = 0.25
    y[0, at] = x[1, at] * 2
    y[at, :, None] += 1
    return [x[1:, ::2], x[..., None, -1], x[at], x[:, at, 1:], x[mask], y, x[[0, -1]], x[at, at], x[None, 0, True]]


def numbers(x: Any) -> Any:
    """Sizes that are computed with."""
    n, m = x.shape[0], x.shape[1]
    half, rest = (n + 1) // 2, -n % 3
    ratio = n / m
    if half > 100:
        return x
    width = max(half, rest) * 2 + min(m, 2)
    filled = torch.full((half, 2), ratio**2)
    return F.pad(x, (0, width)) * ratio, x.reshape(-1)[: n * 2 - 1], filled, width, -rest, ratio


def settle(x: Any) -> Any:
    """A loop whose rounds data decides, and a decision behind it."""
    turns = 0
    while x.norm() > 1:
        x, turns = x * 0.5, turns + 1
    if x.sum() > 0.5:
        y = x + 1
    else:
        y = x - 1
    return y, turns


def kinds(x: Any) -> Any:
    """Dtypes, constants, several results, reductions."""
    values, places = x.max(1)
    top = torch.topk(x, 2, dim=-1)
    whole = x.to(torch.bfloat16).float() + torch.tensor([1.5, -2.0, 3.0, 0.0]) + 2
    signal = torch.fft.fft(x) * torch.tensor(1j)
    wide = torch.cat([x, x.double() * 1e-3], 0).std(0, unbiased=False)
    spread = torch.stack(x.unbind(1), 0).clamp(min=-0.5)
    return values, places, top.values, top.indices, whole, signal, wide, spread, torch.where(x > 0, x, 1e-5), x**3


def assumed(x: Any) -> Any:
    """A decision that is checked."""
    return x * 2 if x.sum() > 0 else x - 1


class Weights(nn.Module):
    """Weights of several dtypes and orders."""

    def __init__(self) -> None:
        super().__init__()
        self.turned = nn.Parameter(torch.randn(6, 6).t())
        self.register_buffer("small", torch.randn(6).half())
        self.register_buffer("turns", torch.randn(6, dtype=torch.complex128))
        self.register_buffer("flags", torch.tensor([True, False] * 3))
        self.register_buffer("none", torch.zeros(0, 6))

    def forward(self, x: Any) -> Any:
        y = torch.cat([x @ self.turned, self.none]) + self.small
        return y.masked_fill(self.flags, 3), (self.turns * y.shape[0]).to(torch.complex64), (y.t() @ y)


class Step:
    """A step of training."""

    def __init__(self) -> None:
        self.net = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 2))
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1, momentum=0.9)
        for _ in range(2):  # gradients and momenta are there from now on
            self(torch.ones(3, 5), torch.zeros(3, 2))

    def __call__(self, x: Any, y: Any) -> Any:
        self.optimizer.zero_grad()
        loss = F.mse_loss(self.net(x), y)
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def _seeded(make: Any) -> Any:
    torch.manual_seed(0)
    return make()


def _growing(name: str) -> Case:
    """A loop whose tensors grow or thin out."""
    program = GROWING[name]
    first, *also = program.shown
    return Case(program.run, (first, *also, *program.others), {"decisions": "keep", "also": also})


def cases() -> dict[str, Case]:
    """All, each made anew."""
    generator = torch.Generator().manual_seed(1)

    def normal(*sizes: int) -> Any:
        return torch.randn(*sizes, generator=generator)

    def tokens(*sizes: int) -> Any:
        return torch.randint(0, 31, sizes, generator=generator)

    image, other = normal(2, 3, 8, 8), normal(5, 3, 8, 8)
    at, mask = torch.tensor([2, 0, 1]), torch.tensor([[True, False, True]] * 3)
    masks = (mask[:, :, None].expand(3, 3, 4).clone(), (normal(3, 3, 4) > 0.3))
    pairs = tuple((normal(6, 5), normal(6, 2)) for _ in range(3))
    both = {"decisions": "keep", "also": [(torch.full((4,), 0.4),), (torch.full((4,), 9.0),)]}
    written = tuple((normal(size, 6), normal(rows, 2)) for size, rows in ((3, 3), (5, 5), (3, 4)))
    indexed = ((normal(3, 3, 4), at, masks[0]), (normal(3, 3, 4), at.flip(0), masks[1]))
    return {
        "mlp": Case(_seeded(Mlp), ((normal(3, 8),), (normal(7, 8),))),
        "convolutions": Case(_seeded(Convolutions), ((image,), (other,))),
        "evaluated": Case(_seeded(Convolutions).eval(), ((image,), (other,))),
        "block": Case(_seeded(Block), ((tokens(2, 5),), (tokens(3, 9),))),
        "lstm": Case(_seeded(Lstm), ((normal(2, 7, 6),), (normal(3, 4, 6),))),
        "memory": Case(Memory(), written),
        "chance": Case(Chance(), ((normal(4, 6),), (normal(5, 6),))),
        "indices": Case(indices, indexed),
        "numbers": Case(numbers, ((normal(4, 3),), (normal(9, 5),))),
        "settle": Case(settle, ((normal(4) * 9,), (normal(6) * 40,), (normal(4) / 9,), (-normal(3).abs(),)), both),
        "kinds": Case(kinds, ((normal(3, 4),), (normal(6, 4),))),
        "assumed": Case(assumed, ((normal(4).abs(),), (normal(5).abs(),)), {"decisions": "assume"}),
        "weights": Case(_seeded(Weights), ((normal(3, 6),), (normal(8, 6),))),
        "step": Case(_seeded(Step), pairs),
        "greedy": _growing("greedy"),
        "suppress": _growing("suppress"),
    }


def rows() -> Any:
    """The graph of one call of each row of the vocabulary, on arrays that are its constants."""
    nodes: list[Node] = []
    arrays: dict[str, Any] = {}
    for name, given in CASES.items():
        if name not in (*UNINITIALISED, *(f"scalar_{each}" for each in REFUSED), "check", "cond", "while"):
            nodes += next((made for case in given if (made := _node(name, case, arrays)) is not None), [])
    parameters = [
        Value(key, "tensor", "constant", str(held.dtype)[6:], tuple(held.shape), "cpu") for key, held in arrays.items()
    ]
    outputs = tuple(value for node in nodes for value in node.results if value is not None)
    return Graph("rows", (), tuple(parameters), tuple(nodes), outputs, data=arrays)


# Python has a way of its own to compute it, whose last bit is another one; the format refuses it.
REFUSED = ("hypot",)
# What they give is not told.
UNINITIALISED = ("empty", "empty_like", "new_empty")
_KINDS: dict[type, Any] = {bool: "bool", int: "int", float: "float"}


def _node(name: str, case: dict[str, Any], arrays: dict[str, Any]) -> list[Node] | None:
    """The call of a row; None: it wants another operator of torch than the usual one, which a graph would name."""
    own: dict[str, Any] = {}

    def argument(given: Any) -> Any:
        if isinstance(given, dict):
            return {key: argument(each) for key, each in given.items()}
        if isinstance(given, tuple | list):
            return tuple(map(argument, given))
        if not isinstance(given, np.ndarray | np.generic):
            return given
        key = f"{name}_of_{len(own)}"
        own[key] = torch.from_numpy(np.array(given))
        return Value(key, "tensor", "constant")

    arguments = argument(case)
    try:
        made = caller("torch")(Node(name, arguments, ()), {key: held.clone() for key, held in own.items()})
    except (RuntimeError, TypeError):
        return None
    several = made if isinstance(made, tuple | list) else [made]
    results = [
        Value(f"{name}_{at}", "tensor" if isinstance(each, torch.Tensor) else _KINDS[type(each)])
        for at, each in enumerate(several)
    ]
    arrays |= own
    return [Node(name, arguments, tuple(results))]


# Arguments of each call of `arithmetic`: two whole numbers, two floats, a bool, a float between 0 and 1.
OPERANDS = (
    (7, 3, 7.5, 2.25, True, 0.5),
    (-7, 3, -7.5, 2.25, False, 0.1),
    (7, -3, 7.5, -2.25, True, 0.999),
    (-7, -3, -0.75, -2.5, False, 1e-9),
    (0, 5, -4.0, 1e15, True, 0.25),
    (2**30 + 1, -(2**20), 0.1, 0.3, False, 1 / 3),
    (-1, -1, 1.0, -1.0, True, 0.75),
)
_BITS = ("and", "or", "xor", "left_shift", "right_shift", "invert", "gcd")


def arithmetic() -> Any:
    """A graph of every row that computes with numbers, on inputs that are numbers."""
    kinds = ("int", "int", "float", "float", "bool", "float")
    inputs = [Value(name, kind, "input") for name, kind in zip("abfgtp", kinds, strict=True)]
    a, b, f, g, t, p = inputs
    nodes: list[Node] = []
    for op, function in NUMBERS.items():
        name = op.removeprefix("scalar_")
        pairs: list[tuple[Any, ...]] = [(a, b), (f, g), (a, f), (g, b), (t, b), (5, b), (p, g)]
        if name in _BITS:
            pairs = [(a, 3), (t, 1), (a, b)] if "shift" not in name else [(a, 3), (t, 1)]
        if name == "pow":
            pairs = [(a, 2), (b, 3), (f, 2), (g, 3), (f, 2.0)]
        count = 1 if name == "round" else len(vocabulary.rows()[op].parameters)
        for at, pair in enumerate(dict.fromkeys(each[:count] for each in pairs)):
            kind = _kind(function, [[dict(zip(inputs, row, strict=True)).get(x, x) for x in pair] for row in OPERANDS])
            if kind and name not in REFUSED:
                nodes.append(Node(op, dict(zip("xy", pair, strict=False)), (Value(f"{name}_{at}", kind),)))
    return Graph("arithmetic", tuple(inputs), (), tuple(nodes), tuple(node.results[0] for node in nodes))


def _kind(function: Any, calls: list[list[Any]]) -> Any:
    """The kind of what a function gives in all calls; None: it raises in one, or its kinds differ."""
    try:
        kinds = {_KINDS.get(type(function(*given))) for given in calls}
    except (ValueError, TypeError, OverflowError):
        return None
    return kinds.pop() if len(kinds) == 1 else None
