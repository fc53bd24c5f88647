"""Programs of one operator, or one phrase of Python over tensors: one_operator_programs.txt has them.

The free names of a program are the inputs below.

    python tests/graph/one_operator_programs.py [--only TEXT] [--formats fx numpy onnx]

prints for each program what becomes of it: "right", "refused" (an ExportError that names its line), "wrong" or "error".
"""

from __future__ import annotations

import argparse
import ast
import collections
import functools
import itertools
import math
import operator
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

NAMES: dict[str, Any] = {
    **{"torch": torch, "F": F, "math": math, "np": np, "operator": operator, "itertools": itertools},
    **{"reduce": functools.reduce, "nn": torch.nn, "collections": collections},
    "weight": torch.arange(12.0).reshape(3, 4) / 7 - 0.6,
    "kernel": torch.arange(2.0 * 3 * 3 * 3).reshape(2, 3, 3, 3).sin(),
    "kernel1": torch.arange(24.0).reshape(2, 4, 3).cos(),
    "table": torch.arange(40.0).reshape(10, 4).sin(),
    "pi": torch.tensor([2, 0, 3, 1]),
}


def inputs(seed: int, n: int) -> dict[str, Any]:
    """The inputs by name, for a seed and a size."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 4, generator=g)
    square = torch.randn(n, 4, 4, generator=g)
    return {
        "x": x,
        "y": torch.randn(n, 4, generator=g),
        "p": torch.rand(n, 4, generator=g) * 3 + 0.2,  # positive
        "u": torch.rand(n, 4, generator=g) * 0.9 + 0.05,  # between 0 and 1
        "i": torch.randint(-5, 9, (n, 4), generator=g),
        "j": torch.randint(0, 4, (n, 4), generator=g),
        "r": torch.randint(0, 3, (5,), generator=g),
        "k": torch.rand(n, 4, generator=g) > 0.4,
        "s": square @ square.mT + 3 * torch.eye(4),  # positive definite
        "m": torch.randn(n, 4, 3, generator=g),
        "v": torch.randn(4, generator=g),
        "w": torch.randn(n, generator=g),
        "a": torch.randn(n, 3, 8, 6, generator=g),  # images
        "q": torch.randn(n, 4, 9, generator=g),  # sequences
        "z": torch.tensor(2.5 + seed),
        "o": torch.tensor(2 + seed),
    }


def _read() -> Iterator[tuple[str, str]]:
    """Each program with its group."""
    group = ""
    for line in Path(__file__).with_suffix(".txt").read_text().splitlines():
        if line.startswith("[") and line.endswith("]") and line[1:-1].isidentifier():
            group = line[1:-1]
        elif line and not line.startswith("#"):
            yield group, line


PROGRAMS = list(_read())

_LEAVES = "the values leave torch, and Python computes with them"
# What a format cannot hold, and why; "" has what is in none. Each is refused, with its line where it has one.
OUTSIDE: dict[str, dict[str, str]] = {
    "": {
        **dict.fromkeys(("x.tolist()", "x.tolist()[0]", "x + sum(x[0].tolist())"), _LEAVES),
        **dict.fromkeys(("x.numpy()", "np.asarray(x).sum()", "x.apply_(abs)", "x.map_(y, lambda a, b: a)"), _LEAVES),
        "str(x.dtype)": "it gives a text, and a graph gives tensors and numbers",
    },
    "onnx": {
        "torch.nextafter(x, y)": "no operator of ONNX 21 looks at the bits of a number",
        "x.as_strided((2, 2), (1, 2))": "where numbers lie in memory is known to torch alone",
        "F.fractional_max_pool2d(a, 2, output_size=2)[:0]": "torch draws random numbers",
    },
    "jax": {
        "x.as_strided((2, 2), (1, 2))": "where numbers lie in memory is known to torch alone",
        "F.fractional_max_pool2d(a, 2, output_size=2)[:0]": "torch draws random numbers",
    },
}
GROUPS = list(dict.fromkeys(group for group, _ in PROGRAMS))
FORMATS = ("fx", "numpy", "onnx")
EXACT = {"fx", "torch"}


def program(text: str) -> tuple[Callable[..., Any], list[str]]:
    """The function of a text, and the names of its inputs."""
    names = inputs(0, 3)
    used = dict.fromkeys(each.id for each in ast.walk(ast.parse(text)) if isinstance(each, ast.Name))
    bound = {each.arg for each in ast.walk(ast.parse(text)) if isinstance(each, ast.arg)}
    taken = [name for name in used if name in names and name not in bound] or ["x"]
    return eval(f"lambda {', '.join(taken)}: {text}", dict(NAMES)), taken


def plain(thing: Any) -> Any:
    """Structures as lists of arrays and numbers, so that formats can be compared."""
    if isinstance(thing, torch.Tensor):
        return thing.detach().resolve_conj().resolve_neg().numpy()
    if isinstance(thing, dict):
        return [plain(each) for each in thing.values()]
    if isinstance(thing, tuple | list):
        return [plain(each) for each in thing]
    return thing


def leaves(thing: Any) -> list[Any]:
    """What stands in a structure, in order."""
    return [leaf for each in thing for leaf in leaves(each)] if isinstance(thing, list) else [thing]


def differs(right: Any, found: Any, exact: bool) -> str:
    """What is wrong with what was found; "" where nothing is."""
    one, other = leaves(plain(right)), leaves(plain(found))
    if len(one) != len(other):
        return f"{len(other)} results, not {len(one)}"
    for a, b in zip(one, other, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        if a.dtype.kind in "OU" or b.dtype.kind in "OU":
            if str(a) != str(b):
                return f"{b}, not {a}"
            continue
        if a.shape != b.shape:
            return f"shape {b.shape}, not {a.shape}"
        if a.dtype != b.dtype and a.shape and exact:
            return f"dtype {b.dtype}, not {a.dtype}"
        if not np.allclose(b, a, rtol=0 if exact else 1e-4, atol=0 if exact else 1e-4, equal_nan=True):
            return f"{str(b.ravel()[:4])}, not {str(a.ravel()[:4])}"
    return ""


def runner(graph: Any, format: str) -> Callable[..., Any]:
    """What calls the graph in a format."""
    import pijit

    if format in {"torch", "numpy", "jax"}:
        return lambda *args: graph.run(*args, framework=format)
    if format == "python":
        namespace: dict[str, Any] = {}
        exec(pijit.export(graph, format="python"), namespace)
        return namespace[graph.name]
    if format == "exported_program":
        return pijit.export(graph, format="exported_program").module()
    if format == "fx":
        return pijit.export(graph, format="fx")
    import onnxruntime

    if not graph.results and not graph.breaks:  # a constant: nothing of it is in a model
        return lambda *_: graph.outputs
    model = pijit.export(graph, format="onnx")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]
    count = len(graph.results)

    def run(*args: Any) -> Any:
        given = {value.name: arg for value, arg in zip(graph.inputs, args, strict=True)}
        from pijit.errors import ExportError

        try:
            found = session.run(None, {name: given[name].numpy() for name in names})
        except Exception as error:
            if "check" in str(error):  # the model says that it does not hold
                raise ExportError(f"{error}: check, :0") from None
            raise
        taken = dict(zip([value.name for value in graph.results], found[:count], strict=True))
        from pijit.graph.run import resolve

        return resolve(graph.outputs, taken)

    return run


def verdict(text: str, formats: tuple[str, ...] = FORMATS) -> dict[str, str]:
    """By format: "right", "refused: ...", "wrong: ..." or "error: ..."."""
    from pijit.errors import ExportError
    from pijit.graph.build.capture import captured

    fn, names = program(text)
    first = inputs(0, 3)
    seconds = [inputs(1, 3), inputs(2, 5)]

    def called(made: dict[str, Any]) -> list[Any]:
        return [made[name].clone() for name in names]

    try:
        rights = [fn(*called(second)) for second in seconds]
    except Exception:
        try:
            rights = [fn(*called(seconds[0]))]
        except Exception as error:
            return {"program": f"invalid: {type(error).__name__}: {error}"}
    try:
        graph = captured(fn, tuple(called(first)), {})
    except ExportError as error:
        return dict.fromkeys(formats, f"refused: {error}")
    except Exception as error:
        return dict.fromkeys(formats, f"error: capture {type(error).__name__}: {error}")
    free = not any(value.shape and value.shape[0] == 3 for value in graph.inputs)
    found: dict[str, str] = {}
    for format in formats:
        try:
            run = runner(graph, format)
            found[format] = "right"
            for at, right in enumerate(rights):
                if at and not free:
                    continue
                try:
                    got = run(*called(seconds[at]))
                except ExportError as error:
                    if not at:
                        raise
                    continue
                except (AssertionError, RuntimeError) as error:  # fx and Python files assert
                    if at and ("decides" in str(error) or "another way" in str(error) or "check" in str(error)):
                        continue
                    raise
                if wrong := differs(right, got, format in EXACT):
                    found[format] = f"wrong: input {at}: {wrong}"
                    break
        except ExportError as error:
            found[format] = f"refused: {error}"
        except Exception as error:
            found[format] = f"error: {type(error).__name__}: {error}"
    if not free and len(rights) > 1 and all(each == "right" for each in found.values()):
        found["size"] = "fixed"
    return found


def main() -> None:
    """Prints the verdicts."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="programs that hold this text, or groups of this name")
    parser.add_argument("--formats", nargs="+", default=list(FORMATS))
    parser.add_argument("--all", action="store_true", help="those that are right, too")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for group, text in PROGRAMS:
        if given.only not in text and given.only != group:
            continue
        found = verdict(text, tuple(given.formats))
        for name, each in found.items():
            counts[name][each.partition(":")[0]] += 1
        if given.all or any(each != "right" for each in found.values()):
            told = {}
            for name, each in found.items():
                told.setdefault(each, []).append(name)
            for each, which in told.items():
                if each != "right" or given.all:
                    print(f"{group:10} {text:60} {'/'.join(which)}: {each.splitlines()[0][:330]}", flush=True)
    print({name: dict(each) for name, each in counts.items()})


if __name__ == "__main__":
    sys.exit(main())
