"""Every callable of torch that takes tensors, with samples of its operands.

Samples come from torch's own table of operators (torch.testing); a callable that is not in it is called with what it
turns out to accept of a list of common operands.
"""

from __future__ import annotations

import inspect
import random
import re
import sys
import types
import unittest
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from comparing import Case
from operands import Operands, rebuild
from torch import Tensor

SPACES: dict[str, Any] = {
    "torch": torch,
    "torch.nn.functional": torch.nn.functional,
    "torch.linalg": torch.linalg,
    "torch.fft": torch.fft,
    "torch.special": torch.special,
}


def op_db() -> list[Any]:
    """torch's table of operators. It needs a package for one base class of its tests, which is not needed here."""
    if "expecttest" not in sys.modules:
        try:
            import expecttest  # noqa: F401
        except ImportError:
            stand_in = types.ModuleType("expecttest")
            stand_in.TestCase = unittest.TestCase  # type: ignore[attr-defined]
            sys.modules["expecttest"] = stand_in
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db as table

        torch.backends.__allow_nonbracketed_mutation_flag = True
    return table


def resolve(path: str) -> Any:
    found: Any = torch
    for name in path.split("."):
        found = getattr(found, name, None)
    return found


def samples_of(entry: Any, dtype: torch.dtype) -> Iterator[tuple[Operands, list[str]]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sample in entry.sample_inputs("cpu", dtype, requires_grad=False):
            values = [sample.input, *sample.args, *sample.kwargs.values()]
            names = list(sample.kwargs)
            if all(map(plain, values)) and tensors(values) <= 20000:
                yield values, names


def plain(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(plain, value))
    return isinstance(
        value,
        (
            Tensor,
            int,
            float,
            complex,
            str,
            type(None),
            type(...),
            slice,
            torch.dtype,
            torch.device,
            torch.layout,
            torch.memory_format,
        ),
    )


def tensors(values: Operands) -> int:
    total = 0

    def count(tensor: Tensor) -> Tensor:
        nonlocal total
        total += tensor.numel()
        return tensor

    rebuild(values, count)
    return total


def groups(entry: Any, most: int) -> Iterator[tuple[list[str], int, tuple[Operands, ...]]]:
    """Samples by the form of the call, at most `most` of each."""
    dtypes = entry.dtypes
    dtype = next((d for d in (torch.float32, torch.int64, torch.bool, torch.complex64) if d in dtypes), None)
    if dtype is None:
        return
    found: dict[Any, list[Operands]] = {}
    form: dict[Any, tuple[list[str], int]] = {}
    for values, names in samples_of(entry, dtype):
        key = (len(values), tuple(names))
        found.setdefault(key, []).append(values)
        form[key] = (names, len(values) - len(names))
    for key, samples in found.items():
        names, positional = form[key]
        chosen = samples if len(samples) <= most else random.Random(0).sample(samples, most)
        yield names, positional, tuple(chosen)


def arguments(names: list[str], positional: int, first: int = 0) -> str:
    parts = [f"a{i}" for i in range(first, positional)]
    parts += [f"{name}=a{positional + i}" for i, name in enumerate(names)]
    return ", ".join(parts)


BINARY = {
    "__radd__": "a1 + a0", "__rsub__": "a1 - a0", "__rmul__": "a1 * a0", "__rdiv__": "a1 / a0", "__rpow__": "a1 ** a0",
    "__rmod__": "a1 % a0", "__rmatmul__": "a1 @ a0", "__rand__": "a1 & a0", "__ror__": "a1 | a0", "__rxor__": "a1 ^ a0",
    "__getitem__": "a0[a1]",
}  # fmt: skip
SYMBOLS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "pow": "**", "remainder": "%", "floor_divide": "//", "matmul": "@",
    "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">",
    "ge": ">=", "bitwise_left_shift": "<<", "bitwise_right_shift": ">>",
}  # fmt: skip


def cases_of(entry: Any, most: int = 3) -> Iterator[Case]:
    """All ways to call an operator of the table."""
    path = entry.name
    function = resolve(path)
    for names, positional, samples in groups(entry, most):
        variant = entry.variant_test_name
        label = path + (f" ({variant})" if variant else "")
        short = path.rpartition(".")[2]
        function = function if callable(function) else getattr(Tensor, path, entry.op)
        scope = {"op": function if callable(function) else entry.op}
        form = f"/{positional}{''.join('+' + name for name in names)}"
        if short in BINARY:
            yield Case(label + form, BINARY[short], {}, samples)
            continue
        yield Case(label + form, f"op({arguments(names, positional)})", scope, samples)
        method = getattr(Tensor, short, None) if entry.method_variant is not None else None
        self_is_tensor = isinstance(samples[0][0], Tensor)
        if method is not None and self_is_tensor and "." not in path and positional:
            yield Case(f"Tensor.{short}{form}", f"a0.{short}({arguments(names, positional, 1)})", {}, samples)
        if entry.inplace_variant is not None and self_is_tensor and hasattr(Tensor, short + "_") and positional:
            yield Case(f"Tensor.{short}_{form}", f"a0.{short}_({arguments(names, positional, 1)})", {}, samples)
        if short in SYMBOLS and positional == 2 and not names:
            yield Case(f"{SYMBOLS[short]}", f"a0 {SYMBOLS[short]} a1", {}, samples)
            if SYMBOLS[short] not in ("==", "!=", "<", "<=", ">", ">="):
                yield Case(f"{SYMBOLS[short]}=", f"    a0 {SYMBOLS[short]}= a1\n    return a0", {}, samples)
        if entry.supports_out and "out" not in names:
            yield from out_cases(label + form, names, positional, scope, samples)


def out_cases(
    label: str, names: list[str], positional: int, scope: dict[str, Any], samples: tuple[Operands, ...]
) -> Iterator[Case]:
    """With out= of the right kind: the results of a call."""
    given = arguments(names, positional)
    probe = Case(label, f"op({given})", scope, samples).compile()
    made = []
    for values in samples:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result = probe(*rebuild(values, lambda tensor: tensor.clone()))
        except Exception:
            continue
        if isinstance(result, Tensor):
            made.append([*values, result.detach().clone()])
        elif isinstance(result, (tuple, list)) and all(isinstance(item, Tensor) for item in result):
            made.append([*values, tuple(item.detach().clone() for item in result)])
    if made:
        yield Case(label + "+out", f"op({given}, out=a{len(samples[0])})", scope, tuple(made))


# Callables that have nothing to do with one call on tensors: they set the state of the process, read files, compile.
APART = re.compile(
    r"""_|.*(manual_seed|rng_state|initial_seed|set_default|set_num|set_flush|set_float32|set_deterministic|set_warn
    |set_printoptions|use_deterministic|get_|is_grad_enabled|is_inference|is_autocast|set_autocast|clear_autocast
    |autocast|compile|export|vmap|func|cond$|while_loop|scan|load|save|import_ir|fork|wait|jit|typename|fx_|from_file
    |frombuffer|from_dlpack|share_memory|module_load|backward|register|reduce_ex|storage|data_ptr|init_num_threads
    |prepare_|unify|merge_type|parse_|classproperty|has_torch_function|handle_torch_function|boolean_dispatch
    |read_vitals|set_vital|vitals|thread_safe|inspect|assert|DType|sym_|cudnn|miopen|mkldnn|cuda|xpu|ipu
    |hpu|mtia|npu|pin_memory|is_pinned|fbgemm|quantize|dequantize|q_|sparse|int_repr|ccol_|crow_|row_ind|col_ind
    |values$|indices$|to_padded|nested|record_stream|refine_names|align_|rename|names|names_|has_names|seed$|dtensor
    |async|rpc|numpy$|tolist|rsqrt_out|variable|grad_fn|grad$|_grad|output_nr|hook|volatile|itemsize_|segment_reduce)""",
    re.VERBOSE,
)

# What is tried as the operands of a callable that torch's table does not have.
COMMON: tuple[Any, ...] = (
    (), (1,), (0,), (2.0,), ("x",), ("i",), ("m",), (0, 1), (1, 0), (0, 0), ("x", "x"), (0, "i"), ("b",), ("b", 1.0),
    ("b", "x"), ((12,),), ((3, 4),), (3, 4), (0, 1, 1), (0, 0, 2), (0, "i", "x"), (0, "i", 1.0), ("x", 1.0),
    ("x", "x", 1.0), (0.5, True), (torch.float64,), (torch.int64,), ([2, 2],), ("x", "x", "x"), ((2, 2), 0),
    (1, 2, 1, 1),
)  # fmt: skip


def operands_of(row: tuple[Any, ...]) -> Operands:
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(4, 4, generator=generator)
    known = {"x": x.flip(0), "i": torch.tensor([[1, 0, 2, 1]]), "m": x.t().contiguous(), "b": x > 0}
    return [known[part].clone() if isinstance(part, str) else part for part in row]


def others(known: set[str]) -> Iterator[Case]:
    """The callables and attributes that the table does not name."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(4, 4, generator=generator)
    spaces = {**SPACES, "Tensor": Tensor}
    for space, owner in spaces.items():
        for name in sorted(dir(owner)):
            item = getattr(owner, name, None)
            if APART.match(name) or f"{space}.{name}" in known or inspect.isclass(item) or inspect.ismodule(item):
                continue
            if space == "Tensor" and not callable(item):
                yield Case(f"Tensor.{name}", f"a0.{name}", {}, ([x.clone()],))
            elif callable(item):
                yield from accepted(f"{space}.{name}", item, space == "Tensor", x)


def accepted(label: str, function: Any, method: bool, x: Tensor) -> Iterator[Case]:
    """Cases for the first forms that are accepted, at most three."""
    found = 0
    for row in COMMON:
        values = [x.clone(), *operands_of(row)]
        given = ", ".join(f"a{i}" for i in range(1, len(values)))
        name = label.rpartition(".")[2]
        source = f"a0.{name}({given})" if method else f"op({', '.join(f'a{i}' for i in range(len(values)))})"
        case = Case(f"{label}/{len(values)}", source, {"op": function}, (values,))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                case.compile()(*rebuild(values, lambda tensor: tensor.clone()))
            except Exception:
                continue
        yield case
        found += 1
        if found == 3:
            return
