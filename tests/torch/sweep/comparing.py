"""Runs one call plain and jitted on the same sequence of operands, and compares all that can be observed."""

from __future__ import annotations

import ctypes
import hashlib
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from operands import Operands, make
from torch import Tensor

SEED = 7
LOWERED = re.compile(r"aten::|item\(|int\(|float\(|bool\(|not\(|contiguous\(")
# What is left of memory that was never written.
UNWRITTEN = re.compile(r"empty|resize|new\b|Storage")
# Eager torch itself reads or writes behind the end of operands of other sizes or strides.
UNSAFE = re.compile(r"(tril|triu|lu_unpack|linalg\.lu\b).*\+out|nn\.functional\.embedding_bag")
OTHER = re.compile("empty|one|more|expanded|no_dims|transposed|sliced|alias|view|overlap")


@dataclass(frozen=True)
class Case:
    """One call: `name` of the callable, `source` as an expression of a0, a1, ..., and the operands of its samples."""

    name: str
    source: str
    scope: dict[str, Any] = field(hash=False, compare=False)
    samples: tuple[Operands, ...] = field(hash=False, compare=False)

    def compile(self) -> Any:
        names = ", ".join(f"a{i}" for i in range(len(self.samples[0])))
        body = self.source if "\n" in self.source else f"    return {self.source}"
        space = dict(self.scope)
        exec(compile(f"def call({names}):\n{body}", f"<{self.name}>", "exec"), space)
        return space["call"]


class Describer:
    """Text of a value; objects and storages are numbered in the order in which they are met."""

    def __init__(self, bits: bool) -> None:
        self.bits = bits
        self.numbers: dict[int, int] = {}
        self.storages: dict[int, int] = {}
        self.kept: list[Any] = []

    def __call__(self, thing: Any) -> str:
        if isinstance(thing, Tensor):
            again = id(thing) in self.numbers
            number = self.numbers.setdefault(id(thing), len(self.numbers))
            self.kept.append(thing)
            return f"#{number}" if again else f"#{number}={self.tensor(thing)}"
        if isinstance(thing, (tuple, list)):
            return f"{type(thing).__name__}({', '.join(map(self, thing))})"
        if isinstance(thing, dict):
            return f"dict({', '.join(f'{key!r}: {self(value)}' for key, value in thing.items())})"
        if isinstance(thing, (int, float, complex, str, bytes, type(None), type(...), torch.dtype, torch.device)):
            return f"{type(thing).__name__} {thing!r}"
        return type(thing).__name__

    def tensor(self, thing: Tensor) -> str:
        if thing.layout is not torch.strided or thing.is_nested or thing.is_meta:
            return f"{type(thing).__name__} {thing.dtype} {thing.layout}" + (
                f" {tuple(thing.shape)}" if not thing.is_nested else ""
            )
        storage = thing.untyped_storage()
        self.kept.append(storage)
        number = self.storages.setdefault(storage._cdata, len(self.storages))
        data = ""
        if self.bits and not thing.is_quantized:
            with torch.no_grad():
                flat = thing.detach().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format).view(-1)
                data = hashlib.sha1(flat.view(torch.uint8).numpy().tobytes()).hexdigest()[:10]
                if flat.numel() <= 12:
                    data += str(flat.tolist())
        inference = thing.is_inference()
        return (
            f"{type(thing).__name__} {thing.dtype} {tuple(thing.shape)} {thing.stride()} +{thing.storage_offset()} "
            f"storage {number} of {storage.nbytes() if self.bits else ''} {thing.requires_grad} {thing.is_leaf} "
            f"{thing.is_conj()} {thing.is_neg()} version {None if inference else thing._version} "
            f"view {None if inference or thing._base is None else self(thing._base)} "
            f"{self.graph(thing.grad_fn)} {data}"
        )

    @staticmethod
    def graph(node: Any) -> str:
        if node is None:
            return "-"
        after = [(None if n is None else n.name(), i) for n, i in node.next_functions]
        return f"{node.name()}{after}"


def outcome(function: Any, operands: Operands, bits: bool) -> str:
    """What one call did, as text."""
    describe = Describer(bits)
    torch.manual_seed(SEED)
    before = torch.is_grad_enabled()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        held = list(operands)
        describe.kept.append(held)
        describe(held)
        try:
            result = function(*held)
        except Exception as error:
            text = f"raised {type(error).__name__} {error}"
            line = error.__traceback__.tb_next.tb_lineno if error.__traceback__.tb_next else 0
            text += f" at {line}"
            del error
        else:
            text = f"returned {describe(result)}"
            describe.kept.append(result)
    describe.numbers.clear()
    after = ", ".join(map(describe, held))
    told = [(str(w.message), w.category.__name__, w.lineno) for w in caught]
    state = hashlib.sha1(torch.get_rng_state().numpy().tobytes()).hexdigest()[:8]
    changed = "" if torch.is_grad_enabled() == before else " grad mode changed"
    torch.set_grad_enabled(before)
    return f"{text}; operands {after}; warned {told}; generator {state}{changed}"


@dataclass
class Seen:
    """What a program of calls showed: where it differed from plain Python, and how much was replayed."""

    differences: list[str] = field(default_factory=list)
    calls: int = 0
    replays: int = 0
    exits: int = 0


def fate_of(traces: Any, report: dict[str, Any]) -> tuple[str, str]:
    """lowered, callable, opaque, run, stops; and what decided it."""
    if not traces:
        return "stops", str(report["last_stop"] or "not recorded")
    trace = traces[0]
    if trace.ends != "return":
        return "stops", str(trace.stop)
    kinds = {"lowered": ""}
    for node in trace.nodes:
        text = node.text.partition("  ~")[0].rpartition(" = ")[2]
        if node.op == "run":
            kinds["run"] = text
        elif node.opaque:
            kinds["opaque"] = text
        elif node.op == "adapter" and re.match(r"\w+\(", text) and not LOWERED.match(text):
            kinds["callable"] = text
    fate = next(name for name in ("run", "opaque", "callable", "lowered") if name in kinds)
    return fate, kinds[fate]


def fate(case: Case) -> tuple[str, str]:
    """What becomes of the case while recording, for the first sample and variant that do not raise; "" if all do."""
    import pijit
    from pijit import _core, api

    plain = case.compile()
    for sample in case.samples:
        for variant in ("same", "int64", "bool", "float64", "complex64"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    plain(*make(sample, variant))  # also warns what is said once a process
                except Exception:
                    continue
                jitted = pijit.jit(case.compile())
                jitted(*make(sample, variant))
            return fate_of(pijit.traces(jitted), _core.root_report(api.root_of(jitted)))
    return "", ""


def is_stable(call: Callable[[], str], expected: str) -> bool:
    """Whether eager says the same again, whatever fresh memory holds: some operators leave results unwritten."""
    malloc_perturb = -6
    library = ctypes.CDLL(None)
    try:
        return all(library.mallopt(malloc_perturb, fill) and call() == expected for fill in (0x5A, 0xA5))
    finally:
        library.mallopt(malloc_perturb, 0)


def compare(case: Case, sample: Operands, program: tuple[str, ...]) -> Seen:
    """Calls the case with each variant of the sample, plain and jitted."""
    import pijit
    from pijit import _core, api

    seen = Seen()
    bits = not UNWRITTEN.search(case.name)
    plain, jitted = case.compile(), pijit.jit(case.compile())
    for index, variant in enumerate(program):
        if UNSAFE.match(case.name) and OTHER.search(variant):
            continue
        try:
            left, right = make(sample, variant), make(sample, variant)
        except Exception:
            continue
        expected = outcome(plain, left, bits)
        actual = outcome(jitted, right, bits)
        seen.calls += 1
        if actual != expected and is_stable(lambda: outcome(plain, make(sample, variant), bits), expected):
            place = f"{case.name}: {case.source.strip()}: call {index} ({variant} of {program[: index + 1]})"
            seen.differences.append(f"{place}: {part(expected, actual)}")
    report = _core.root_report(api.root_of(jitted))
    seen.replays, seen.exits = report["replays"], report["exits"]
    return seen


def part(expected: str, actual: str) -> str:
    """Where two descriptions differ."""
    start = next((i for i, (a, b) in enumerate(zip(expected, actual)) if a != b), min(len(expected), len(actual)))
    start = max(start - 80, 0)
    return f"\n    plain  {expected[start : start + 260]}\n    jitted {actual[start : start + 260]}"
