"""What bench/graphs.py captures: models, layers, programs and operators with inputs of two sizes; and the verdicts.

A verdict of a format is "same" (every bit is equal at both sizes), "close" (within 1e-4), "fixed" (right for two inputs
of the size of the capture, to which an input is declared to be fixed), "random" (torch draws numbers that other
frameworks do not), "refused: ..." (an ExportError), "wrong: ..." or "error: ...".
"""

from __future__ import annotations

import importlib.util
import math
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import zoo

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path += [str(TESTS / "graph"), str(TESTS / "formats")]

CLOSE = 1e-4  # relative to the largest number of a tensor, if that is above 1
EXACT = ("fx", "exported_program")
FORMATS = (*EXACT, "onnx", "jax")
# In what a model raises whose sizes take another way than those of the capture; the last two are of torch.export.
REFUSES = ("check", "decides", "another way", "Guard failed", "Runtime assertion failed")
# How decisions are captured: the first way in which a graph is whole.
WAYS = ("split", "keep", "assume")


class Subject(NamedTuple):
    """What makes a function, and its arguments by seed and size (0: those of the capture)."""

    make: Callable[[], Any]
    given: Callable[[int, int], tuple[tuple[Any, ...], dict[str, Any]]]
    training: bool = False


def names(part: str) -> list[str]:
    """The subjects of a part; models of packages that are not installed are left out."""
    if part == "zoo":
        return [name for name, (package, _) in zoo.MODELS.items() if importlib.util.find_spec(package) is not None]
    if part == "layers":
        from layers import LAYERS

        return [f"{name}, {mode}" for name in LAYERS for mode in ("evaluation", "training")]
    if part == "programs":
        from hand_written import PROGRAMS

        return list(PROGRAMS)
    from one_operator_programs import PROGRAMS as OPERATORS

    return list(dict.fromkeys(text for _, text in OPERATORS))


def subject(part: str, name: str) -> Subject:
    """One of them."""
    return {"zoo": _model, "layers": _layer, "programs": _program, "operators": _operator}[part](name)


def _model(name: str) -> Subject:
    def given(seed: int, size: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        made = zoo.inputs(name, seed, batch=2 + size, length=zoo.LENGTH - 3 * size)
        return ((made["x"],), {}) if "x" in made else ((), made)

    return Subject(lambda: zoo.build(name), given)


def _layer(name: str) -> Subject:
    import torch
    from layers import LAYERS

    kind, _, mode = name.rpartition(", ")
    make, inputs = LAYERS[kind]

    def given(seed: int, size: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        torch.manual_seed(seed)
        return inputs(2 + size), {}

    return Subject(lambda: make().train(mode == "training"), given, mode == "training")


def _program(name: str) -> Subject:
    import hand_written

    return Subject(
        lambda: hand_written.made(name), lambda seed, size: (hand_written.given(name, 3 + 2 * size, seed), {})
    )


def _operator(text: str) -> Subject:
    import one_operator_programs

    function, taken = one_operator_programs.program(text)

    def given(seed: int, size: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        made = one_operator_programs.inputs(seed, 3 + 2 * size)
        return tuple(made[name] for name in taken), {}

    return Subject(lambda: function, given)


# ---- Verdicts


def judged(part: str, name: str, formats: list[str]) -> dict[str, Any]:
    """Everything of one subject, in this process."""
    warnings.filterwarnings("ignore")
    import torch

    torch.set_num_threads(1)
    found = subject(part, name)
    row: dict[str, Any] = {"part": part, "name": name, "formats": {}}
    with torch.set_grad_enabled(found.training):
        expected = []
        for at in (0, 1):
            try:
                expected.append(_called(_fresh(found), found.given(at, at)))
            except Exception as error:  # a program of one size
                if not at:
                    return row | {"invalid": f"{type(error).__name__}: {error}"[:200]}
        began = time.perf_counter()
        graph, row["way"] = _captured(found)
        row |= {"seconds": time.perf_counter() - began, "nodes": 0, "foreign": []}
        if not isinstance(graph, str):
            row |= {
                "nodes": len(graph.nodes),
                "foreign": list(graph.foreign),
                "breaks": [f"{node.op} at {Path(node.file).name}:{node.line} {node.origin}" for node in graph.breaks],
            }
        else:
            row["breaks"] = [graph]
        drawn = found.training and not _same(expected[0], _called(_fresh(found), found.given(0, 0), seed=7))
        for format in formats:
            if drawn and format not in EXACT:
                row["formats"][format] = "random"
            else:
                row["formats"][format] = _refusal(graph) or _verdict(graph, format, found, expected)
    if "jax" in sys.modules:
        sys.modules["jax"].clear_caches()  # a program of each operator and size
    return row


def _fresh(found: Subject) -> Any:
    import torch

    torch.manual_seed(0)
    return found.make()


def _called(function: Any, arguments: tuple[tuple[Any, ...], dict[str, Any]], seed: int = 5) -> list[Any]:
    """The leaves of what a function gives for copies of arguments."""
    import torch
    from torch.utils._pytree import tree_map_only

    args, kwargs = tree_map_only(torch.Tensor, torch.clone, arguments)
    torch.manual_seed(seed)
    return leaves(function(*args, **kwargs))


def _captured(found: Subject) -> tuple[Any, str]:
    """The graph of a call and how its decisions were captured; or why there is none."""
    graph: Any = None
    for way in WAYS:
        try:
            made = captured(_fresh(found), *found.given(0, 0), decisions=way)
        except Exception as error:  # "keep" does not take all
            graph = graph or f"{type(error).__name__}: {error}"[:300]
            continue
        if not made.breaks:
            return made, way
        graph = made if way == "split" else graph
    return graph, "split"


def captured(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], decisions: str = "assume") -> Any:
    """The graph of one call."""
    from pijit.graph.build.capture import captured
    from pijit.graph.decisions.capture import capture_branches

    if decisions == "keep":
        return capture_branches(function, args, kwargs)
    return captured(function, args, kwargs, decisions=decisions)


def _refusal(graph: Any) -> str:
    """The verdict on what is no whole graph."""
    from pijit._formats._whole_graph import check_whole
    from pijit.errors import ExportError

    if isinstance(graph, str):
        return f"refused: {graph}" if graph.startswith("ExportError") else f"error: {graph}"
    try:
        check_whole(graph, "fx")
    except ExportError as error:
        return f"refused: {error}"[:300]
    return ""


def _verdict(graph: Any, format: str, found: Subject, expected: list[list[Any]]) -> str:
    """The verdict on a whole graph in a format."""
    from pijit.errors import ExportError

    at, largest = 0, 0.0
    try:
        run: Any = None
        for at, right in enumerate(expected):
            if not at or graph.written:
                _restore(graph, found)
                run = RUNNERS[format](graph)
            given = _by_name(graph, found.given(at, at))
            free = not at or _is_free(graph, given)
            if not free:  # other numbers of the one size that is left
                given, right = _by_name(graph, found.given(2, 0)), _called(_fresh(found), found.given(2, 0))
            made = _called(run, (tuple(given[value.name] for value in graph.inputs), {}))
            away = gap(right, made)
            if away > (0 if format in EXACT else CLOSE):
                return f"wrong: call {at}: {away:.2g}"
            if not free:
                return "fixed"
            largest = max(largest, away)
    except ExportError as error:
        return f"refused: call {at}: {error}"[:300]
    except Exception as error:  # whatever another package raises
        if at and any(word in str(error) for word in REFUSES):
            return f"refused: call {at}: {error}"[:300]  # the model says that the call goes another way
        return f"error: {type(error).__name__}: {error}".replace("\n", " ")[:300]
    return "close" if largest else "same"


def _by_name(graph: Any, arguments: tuple[tuple[Any, ...], dict[str, Any]]) -> dict[str, Any]:
    """Arguments by the names of the inputs."""
    args, kwargs = arguments
    return dict(zip((value.name for value in graph.inputs), args, strict=False)) | kwargs


def _restore(graph: Any, found: Subject) -> None:
    """Weights and state are what they were before the captured call."""
    import torch

    fresh = _fresh(found)
    state = fresh.state_dict() if isinstance(fresh, torch.nn.Module) else {}
    with torch.no_grad():
        for value in graph.parameters:
            if value.path in state:
                graph.data[value.name].copy_(state[value.path])


def _is_free(graph: Any, given: dict[str, Any]) -> bool:
    """The sizes of inputs are free where they differ."""
    return all(
        not isinstance(size, int) or size == found
        for value in graph.inputs
        for size, found in zip(value.shape or (), getattr(given[value.name], "shape", ()), strict=False)
    )


# ---- Formats


def fx(graph: Any) -> Callable[..., Any]:
    """A GraphModule."""
    import pijit

    return pijit.export(graph, format="fx")


def exported_program(graph: Any) -> Callable[..., Any]:
    """An ExportedProgram that was written and read."""
    import torch

    import pijit

    with tempfile.TemporaryDirectory() as folder:
        path = pijit.export(graph, format="exported_program", path=Path(folder) / "model.pt2")
        return torch.export.load(path).module()


def onnx(graph: Any) -> Callable[..., Any]:
    """A model in ONNX Runtime; what the call changes is left aside."""
    from one_operator_programs import runner

    return runner(graph, "onnx")


def jax(graph: Any) -> Callable[..., Any]:
    """Node by node in JAX."""
    return lambda *args: graph.run(*args, framework="jax")


RUNNERS = {"fx": fx, "exported_program": exported_program, "onnx": onnx, "jax": jax}


# ---- Comparison


def leaves(thing: Any) -> list[Any]:
    """The arrays and numbers in an output, however nested, in order; the same array as often as it stands there."""
    return list(_leaves(thing, set()))


def _leaves(thing: Any, around: set[int]) -> Iterator[Any]:
    if isinstance(thing, bool | int | float | complex) or (hasattr(thing, "shape") and hasattr(thing, "dtype")):
        yield thing
        return
    if id(thing) in around or isinstance(thing, type):
        return
    parts: Any = ()
    if isinstance(thing, dict):
        parts = thing.values()
    elif isinstance(thing, list | tuple):
        parts = thing
    elif hasattr(thing, "__dict__") and not hasattr(thing, "named_parameters"):
        parts = vars(thing).values()
    for part in parts:
        yield from _leaves(part, around | {id(thing)})


def _same(expected: list[Any], found: list[Any]) -> bool:
    return gap(expected, found) == 0


def gap(expected: list[Any], found: list[Any]) -> float:
    """0 if every bit is equal; else the largest difference, relative to the largest number if that is above 1."""
    import torch

    if len(expected) != len(found):
        return math.inf
    largest = 0.0
    for right, made in zip(expected, found, strict=True):
        a, b = _array(right), _array(made)
        if a.shape != b.shape or (a.dtype != b.dtype and a.ndim):
            return math.inf
        if torch.equal(a, b) or not a.numel():
            continue
        wide, other = (each.to(torch.complex128 if each.is_complex() else torch.float64) for each in (a, b))
        if not torch.equal(wide.isnan(), other.isnan()):
            return math.inf
        away = torch.where(wide == other, 0, (wide - other).abs())[~wide.isnan()]
        scale = wide.abs()[wide.isfinite()].max().item() if wide.isfinite().any() else 1.0
        largest = max(largest, away.max().item() / max(1.0, scale) if away.numel() else 0.0)
    return largest


def _array(thing: Any) -> Any:
    import numpy
    import torch

    if isinstance(thing, torch.Tensor):
        return thing.detach().resolve_conj().resolve_neg()
    return torch.from_numpy(numpy.array(thing))
