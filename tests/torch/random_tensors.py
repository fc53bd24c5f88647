"""The random programs of record/ with tensors among their variables."""

from __future__ import annotations

import types
from pathlib import Path

import random_programs
import torch
from observe import Describer
from random_programs import KINDS, LITERALS, Writer

HERE = Path(__file__).parent
PRELUDE = """
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
weight = nn.Parameter(torch.randn(4, 4))
field = torch.arange(8.0).view(2, 4)
layer = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Dropout(0.5), nn.LayerNorm(4))
norm = nn.BatchNorm1d(4)


class Block(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.n = n
        self.inner = nn.ModuleList(nn.Linear(4, 4, bias=i % 2 == 0) for i in range(n))
        self.register_buffer("calls", torch.zeros(()))
        self.cache = {}

    def forward(self, x, *, scale=None):
        self.calls += 1
        for i, one in enumerate(self.inner):
            x = one(x)
            if scale is not None and i % 2:
                x = x * scale
            self.cache[i] = x.shape
        return x if self.training else (x, self.n)


block = Block(2)


def fitting(x):
    x = x.detach().float().reshape(-1)[:8]
    return F.pad(x, (0, 8 - x.numel())).view(2, 4)
"""


class TensorWriter(Writer):
    """One program with tensors."""

    kinds = (*KINDS, "tensor", "tensor", "tensor", "tensor")
    literals = {**LITERALS, "tensor": "field"}
    prelude = random_programs.PRELUDE + PRELUDE

    def tensor(self, deep: int) -> str:
        """A tensor of at most two dimensions, mostly."""
        t = lambda: self.value("tensor", deep)  # noqa: E731
        n = lambda: self.value("number", deep)  # noqa: E731
        pick = self.random.choice
        return self.one(
            lambda: f"torch.{pick(['ones', 'zeros', 'rand'])}({n()} % 4, 4)",
            lambda: f"torch.tensor([{n()}, {n()}])",
            lambda: f"torch.arange({n()} % 9)",
            lambda: f"({t()} {pick('+-*')} {t()})",
            lambda: f"({t()} {pick(['+', '-', '*', '/', '<', '=='])} {n()})",
            lambda: f"({n()} {pick('+-*')} {t()})",
            lambda: f"{t()}[{pick(['0', '-1', '1:', '...', 'None', ':, 1:3', '::2'])}]",
            lambda: f"{t()}[{t()} > {n()}]",
            lambda: f"{t()}.{pick(['clone', 'relu', 'sum', 't', 'flatten', 'detach', 'float', 'long', 'abs'])}()",
            lambda: f"{t()}.{pick(['view', 'reshape'])}({pick(['-1', '-1, 2', '2, -1', '(-1, 4)'])})",
            lambda: f"{t()}.{pick(['sum', 'mean', 'softmax', 'cumsum', 'unsqueeze', 'squeeze'])}({pick(['0', '-1'])})",
            lambda: f"{t()}.to({pick(['torch.float64', 'torch.int64', 'field', 'field.dtype'])})",
            lambda: f"torch.cat([{t()}, {t()}])",
            lambda: f"torch.stack([{t()}, {t()}], dim=-1)",
            lambda: f"torch.where({t()} > 0, {t()}, {t()})",
            lambda: f"fitting({t()})",
            lambda: f"fitting({t()}) @ weight",
            lambda: f"layer(fitting({t()}))",
            lambda: f"norm(fitting({t()}))",
            lambda: f"{t()}.split(1)[{n()} % 2]",
            lambda: f"F.dropout({t()}.float(), 0.5, training={self.condition(deep)})",
            lambda: f"{t()}.expand(2, *{t()}.shape)",
            lambda: f"block(fitting({t()}), scale={n()})",
            lambda: f"F.linear(fitting({t()}), weight).{pick(['T', 'mT', 'data', 'real'])}",
            lambda: "field",
        )

    def number(self, deep: int) -> str:
        t = lambda: self.value("tensor", deep)  # noqa: E731
        if self.chance(0.7):
            return super().number(deep)
        return self.one(
            lambda: f"{t()}.sum().item()",
            lambda: f"{t()}.numel()",
            lambda: f"{t()}.dim()",
            lambda: f"{t()}.shape[-1]",
            lambda: f"len({t()})",
            lambda: f"int({t()}.max())",
            lambda: f"{t()}.size(0)",
            lambda: f"{t()}.stride()[0]",
        )

    def condition(self, deep: int = 0) -> str:
        t = lambda: self.value("tensor", deep)  # noqa: E731
        if self.chance(0.75):
            return super().condition(deep)
        return self.one(
            lambda: f"{t()}.sum() > {self.value('number', deep)}",
            lambda: f"{t()}.is_contiguous()",
            lambda: f"{t()}.requires_grad",
            lambda: f"{t()}.dtype == torch.float32",
            lambda: f"{t()}.shape == {t()}.shape",
            lambda: f"torch.equal({t()}, {t()})",
            lambda: f"{t()}.any()",
            lambda: "torch.is_grad_enabled()",
            lambda: "layer.training",
        )

    def update(self) -> None:
        t, n = lambda: self.value("tensor"), lambda: self.value("number")
        pick = self.random.choice
        if self.chance(0.5):
            return super().update()
        name = self.name("tensor")
        self.line(
            self.one(
                lambda: f"{t()}.{pick(['add_', 'mul_', 'fill_', 'sub_'])}({n()})",
                lambda: f"{t()}[{pick(['0', '-1', '1:', '...', ':, 0'])}] = {pick([n, t])()}",
                lambda: f"{name} {pick(['+=', '*=', '-='])} {pick([n, t])()}",
                lambda: f"{t()}.copy_({t()})",
                lambda: f"{t()}.zero_()",
                lambda: f"{t()}.requires_grad_({self.condition()})",
                lambda: f"torch.add({t()}, {t()}, out={name})",
                lambda: f"{name}.data = {t()}",
                lambda: f"{name}.tag = {self.anything()}",
                lambda: f"layer.{pick(['train', 'eval'])}()",
                lambda: f"block.{pick(['train', 'eval'])}()",
                lambda: f"block.n = {n()}",
                lambda: f"(fitting({t()}) @ weight).sum().backward()",
                lambda: f"out.append(torch.autograd.grad(layer(fitting({t()})).sum(), list(layer.parameters())))",
                lambda: f"with torch.no_grad(): weight.{pick(['add_', 'mul_'])}({n()})",
                lambda: "{1}, *_ = {0}".format(t(), self.new("tensor")),
            )
        )
        return None

    def within(self) -> None:
        if self.chance(0.5):
            return super().within()
        modes = ["no_grad()", "enable_grad()", "inference_mode()", "autocast('cpu', dtype=torch.bfloat16)"]
        self.line(f"with torch.{self.random.choice(modes)}:")
        self.block()
        return None

    def setup(self) -> None:
        """Arguments and variables that all programs have."""
        super().setup()
        self.names["tensor"] = ["h"]
        self.line(f"h = {self.random.choice(['torch.ones(2, 4)', 'field', 'field.clone()', 'weight', 'field[0]'])}")

    changes = (
        *Writer.changes,
        "field = field + 1",
        "field = torch.ones(3, 4)",
        "field.add_(1)",
        "field = field.double()",
        "field = field.t()",
        "weight = nn.Parameter(torch.ones(4, 4))",
        "layer.eval()",
        "layer[0] = nn.Linear(4, 4, bias=False)",
        "norm.eval()",
        "block = Block(3)",
        "weight.requires_grad_(False)",
        "layer.register_forward_hook(lambda module, args, result: result + 1)",
        "torch.set_grad_enabled(not torch.is_grad_enabled())",
    )
    shared_names = Writer.shared_names + ", field, weight, layer, norm, block"


class TensorDescriber(Describer):
    """Tensors: bits, layout, and which share their storage. What torch's own functions have in their variables when
    they raise is left out: it may be lost (see test_record_training's graph_retained).
    """

    def variables(self, frame: types.FrameType) -> dict[str, str]:
        return super().variables(frame) if frame.f_code.co_filename.startswith(str(HERE)) else {}

    def content(self, thing: object, kind: type) -> str:
        if isinstance(thing, torch.nn.Module):
            own = {
                name: value
                for name, value in vars(thing).items()
                if not name.endswith(("hooks", "with_kwargs", "called"))
            }
            return f" {self(own)}"
        if not isinstance(thing, torch.Tensor):
            return super().content(thing, kind)
        storage = self.numbers.setdefault(thing.untyped_storage().data_ptr(), len(self.numbers))
        self.kept.append(thing.untyped_storage())  # no other one is to be at that address
        grad = self(thing.grad) if thing.is_leaf else type(thing.grad_fn).__name__
        version = None if thing.is_inference() else thing._version
        layout = tuple(thing.shape), thing.stride(), thing.storage_offset(), storage
        value = thing.detach().contiguous().view(-1).tolist()
        return f" {thing.dtype} {layout} {value} {thing.requires_grad} {version} {grad} {self(vars(thing))}"


def program(seed: int) -> str:
    """The text of the program of that number."""
    return TensorWriter(seed).program()
