"""Graphs as C++: built with CMake over libtorch, and run in a process without Python and without pijit.

All programs of a session are one executable, which takes the name of a program first: torch's headers compile slowly.
The example of the README is built by its own CMakeLists.txt besides.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from cpp_programs import OPERANDS, Case, arithmetic, cases, rows, settle
from torch.utils._pytree import tree_leaves

import pijit
from pijit.errors import ExportError
from pijit.graph import Graph, Node, Value
from pijit.graph.torch_calls import NUMBERS

sys.path.append(str(Path(__file__).parents[1] / "graph"))
from branch_graphs import programs as branch_programs

safetensors = pytest.importorskip("safetensors.torch")

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(not (shutil.which("cmake") and shutil.which("c++")), reason="needs cmake and a C++ compiler"),
]

NAMES = list(cases())
BRANCHES = branch_programs()

PROJECT = """
cmake_minimum_required(VERSION 3.18)
project(programs LANGUAGES CXX)
find_package(Torch REQUIRED)
add_executable(programs programs.cpp)
target_compile_features(programs PRIVATE cxx_std_20)
target_compile_options(programs PRIVATE -O0 -ffp-contract=off -Wall -Wextra)
target_link_libraries(programs PRIVATE ${TORCH_LIBRARIES})
"""
README = (Path(__file__).parents[2] / "README.md").read_text().partition("### Without Python")[2]


def example(language: str) -> str:
    """A piece of the README."""
    return README.partition(f"```{language}\n")[2].partition("```")[0]


# Weights ask for gradients as those of the module do.
GRADIENTS = """
  if (name == "gradients") {
    Mlp model(words[2]);
    model.run({Mlp::read(words[3]).at("x")}).left.sum().backward();
    Mlp::Tensors found;
    for (const auto& [path, weight] : model.weights()) {
      if (weight.grad().defined()) found.emplace(path, weight.grad());
    }
    Mlp::write(words[4], found);
    return 0;
  }
"""


def stem(folder: Path) -> str:
    return next(folder.glob("*.safetensors")).stem


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory with all programs, exported and compiled."""
    top = tmp_path_factory.mktemp("cpp")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(top)
        torch.manual_seed(0)
        exec(example("python"), {"torch": torch, "pijit": pijit})
    for name, case in cases().items():
        pijit.export(case.fn, *case.calls[0], format="cpp", path=top / name, name=name, **case.options)
    for name, program in BRANCHES.items():
        pijit.export(program.graph, format="cpp", path=top / f"branch_{name}", name=f"branch_{name}")
    pijit.export(rows(), format="cpp", path=top / "rows", name="rows")
    pijit.export(arithmetic(), format="cpp", path=top / "arithmetic", name="arithmetic")
    with default_dtype(torch.float64):
        pijit.export(of_the_default_dtype, torch.ones(2), format="cpp", path=top / "doubles", name="doubles")
    pijit.export(of_a_library(), format="cpp", path=top / "custom", name="custom")
    parts = []
    folders = sorted(each for each in top.iterdir() if each.name != "net")
    for folder in folders:
        source = (folder / "main.cpp").read_text().replace(f'"{stem(folder)}.h"', f'"{folder.name}/{stem(folder)}.h"')
        text = (folder / f"{stem(folder)}.cpp").read_text()
        text = text.replace(f'"{stem(folder)}.h"', f'"{folder.name}/{stem(folder)}.h"')
        parts.append(f"#define main main_of_{folder.name}\n{source}\n#undef main\n{text}")
    choices = "".join(
        f'  if (name == "{folder.name}") return main_of_{folder.name}(count - 1, words + 1);\n' for folder in folders
    )
    choices = f"  const std::string name = words[1];\n{choices}{GRADIENTS}"
    main = f"int main(int count, char** words) {{\n{choices}  return 3;\n}}\n"
    (top / "programs.cpp").write_text("\n".join([*parts, main]))
    (top / "own.cpp").write_text(example("cpp"))
    (top / "CMakeLists.txt").write_text(f"{PROJECT}\n{example('cmake')}")
    prefix = f"-DCMAKE_PREFIX_PATH={torch.utils.cmake_prefix_path}"
    for command in (["cmake", "-S", ".", "-B", "build", prefix], ["cmake", "--build", "build", "-j2"]):
        done = subprocess.run(command, cwd=top, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        warned = [line for line in done.stderr.splitlines() if "warning:" in line and str(top) in line]
        assert not warned, warned
    return top


def run(built: Path, name: str, files: list[Path], *more: Any, program: str = "") -> subprocess.CompletedProcess[str]:
    executable = [built / "build" / (program or "programs"), *([] if program else [name])]
    threads = {"OMP_NUM_THREADS": str(torch.get_num_threads())}
    command = [str(each) for each in (*executable, *files, *more)]
    return subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **threads, "PYTHONHOME": "/nowhere"}
    )


def calls_of(
    built: Path,
    name: str,
    inputs: list[str],
    calls: Any,
    folder: Path,
    *more: Any,
    program: str = "",
    weights: Any = None,
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The results of several calls in one process, and the weights behind the last one."""
    files = [weights or built / name / f"{stem(built / name)}.safetensors"]
    for at, call in enumerate(calls):
        safetensors.save_file(dict(zip(inputs, call, strict=True)), folder / f"in{at}")
        files += [folder / f"in{at}", folder / f"out{at}"]
    done = run(built, name, files, "--state", folder / "state", *more, program=program)
    assert done.returncode == 0, done.stderr
    return [safetensors.load_file(folder / f"out{at}") for at in range(len(calls))], safetensors.load_file(
        folder / "state"
    )


def tensors(structure: Any) -> list[Any]:
    """Tensors, and numbers as such, in the order of the results."""
    kept = [each for each in tree_leaves(structure) if isinstance(each, torch.Tensor | int | float)]
    kinds = {int: torch.int64, float: torch.float64, bool: torch.bool}
    return [each if isinstance(each, torch.Tensor) else torch.tensor(each, dtype=kinds[type(each)]) for each in kept]


def same(found: Any, expected: Any) -> bool:
    if expected.dtype == torch.complex128:  # a file has pairs of doubles
        expected = torch.view_as_real(expected.resolve_conj())
    return (found.dtype, found.shape) == (expected.dtype, expected.shape) and torch.equal(
        torch.view_as_real(found) if found.is_complex() else found.nan_to_num(9),
        torch.view_as_real(expected.detach().resolve_conj())
        if expected.is_complex()
        else expected.detach().nan_to_num(9),
    )


def matches(found: dict[str, Any], names: list[str], expected: Any) -> None:
    wanted = tensors(expected)
    assert len(names) == len(wanted)
    for name, each in zip(names, wanted, strict=True):
        assert same(found[name], each), name


def names_of(graph: Graph) -> list[str]:
    from pijit._formats._graph_results import named

    return [name for name, _ in named(graph.outputs)]


@pytest.mark.parametrize("name", NAMES)
def test_the_bits_of_eager(built: Path, tmp_path: Path, name: str) -> None:
    case, twin = cases()[name], cases()[name]
    graph = captured(twin)
    inputs = [value.name for value in graph.inputs]
    case.fn(*case.calls[0])  # an export makes the first call
    calls = [tuple(each.clone() for each in call) for call in cases()[name].calls]
    found, state = calls_of(built, name, inputs, calls, tmp_path, "--seed", 5)
    torch.manual_seed(5)
    for call, each in zip(calls, found, strict=True):
        matches(each, names_of(graph), case.fn(*call))
        for key, given in zip(inputs, call, strict=True):
            if f"{key}.updated" in each:
                assert same(each[f"{key}.updated"], given)
    if isinstance(case.fn, torch.nn.Module):
        after = case.fn.state_dict()
        assert all(same(held, after[key]) for key, held in state.items() if key in after)


def test_the_state_of_one_process_is_the_weights_of_the_next(built: Path, tmp_path: Path) -> None:
    case = cases()["memory"]
    inputs = [value.name for value in captured(cases()["memory"]).inputs]
    case.fn(*case.calls[0])
    calls = [tuple(each.clone() for each in call) for call in cases()["memory"].calls]
    weights = None
    for call in calls:
        (found,), _ = calls_of(built, "memory", inputs, [call], tmp_path, weights=weights)
        matches(found, ["output.0", "output.1", "output.2"], case.fn(*call))
        weights = tmp_path / "state"


def captured(case: Case) -> Graph:
    from pijit._export import _graph_of

    options = case.options
    return _graph_of(case.fn, case.calls[0], None, None, options.get("decisions", "split"), options.get("also", ()))


@pytest.mark.parametrize("name", BRANCHES)
def test_decisions_and_loops(built: Path, tmp_path: Path, name: str) -> None:
    program = BRANCHES[name]
    inputs = [value.name for value in program.graph.inputs]
    calls = [tuple(torch.as_tensor(each).clone() for each in call) for call in (*program.calls, *program.calls)]
    found, _ = calls_of(built, f"branch_{name}", inputs, calls, tmp_path)
    for call, each in zip((*program.calls, *program.calls), found, strict=True):
        matches(each, names_of(program.graph), program.plain(*call))


def test_every_row_of_the_vocabulary(built: Path, tmp_path: Path) -> None:
    graph = rows()
    assert len(graph.nodes) > 340
    (found,), _ = calls_of(built, "rows", [], [()], tmp_path, "--seed", 5)
    torch.manual_seed(5)
    matches(found, names_of(graph), graph.run())


@contextlib.contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    yield
    torch.set_default_dtype(before)


def of_the_default_dtype(x: Any) -> Any:
    return torch.ones(x.shape[0]) * 2 + x, torch.arange(x.shape[0]) / 3, torch.rand(2), torch.full((2,), 0.1)


def test_new_tensors_have_the_dtype_that_was_the_default(built: Path, tmp_path: Path) -> None:
    calls = [(torch.ones(2, dtype=torch.float64),), (torch.zeros(5, dtype=torch.float64),)]
    found, _ = calls_of(built, "doubles", ["x"], calls, tmp_path, "--seed", 3)
    torch.manual_seed(3)
    with default_dtype(torch.float64):
        for call, each in zip(calls, found, strict=True):
            matches(each, [f"output.{at}" for at in range(4)], of_the_default_dtype(*call))


def test_gradients_are_recorded(built: Path, tmp_path: Path) -> None:
    case = cases()["mlp"]
    for call in case.calls:
        safetensors.save_file({"x": call[0]}, tmp_path / "in")
        done = run(built, "gradients", [built / "mlp" / "mlp.safetensors", tmp_path / "in", tmp_path / "out"])
        assert done.returncode == 0, done.stderr
        case.fn.zero_grad()
        case.fn(*call)["left"].sum().backward()
        found = safetensors.load_file(tmp_path / "out")
        wanted = dict(case.fn.named_parameters())
        assert found.keys() == wanted.keys()
        assert all(same(each, wanted[name].grad) for name, each in found.items())


def operands(graph: Graph, call: tuple[Any, ...]) -> tuple[Any, ...]:
    kinds = {"int": torch.int64, "float": torch.float64, "bool": torch.bool}
    return tuple(torch.tensor(each, dtype=kinds[value.kind]) for each, value in zip(call, graph.inputs, strict=True))


def test_numbers_are_those_of_python(built: Path, tmp_path: Path) -> None:
    """Each row on each pair of operands, in the kinds that the graph has."""
    graph = arithmetic()
    inputs = [value.name for value in graph.inputs]
    found, _ = calls_of(built, "arithmetic", inputs, [operands(graph, call) for call in OPERANDS], tmp_path)
    compared = 0
    for call, each in zip(OPERANDS, found, strict=True):
        known = dict(zip(inputs, call, strict=True))
        for name, node in zip(names_of(graph), graph.nodes, strict=True):
            given = [known[held.name] if isinstance(held, Value) else held for held in node.arguments.values()]
            wanted = NUMBERS[node.op](*given)
            assert type(wanted).__name__ == node.results[0].kind
            assert (each[name].item(), str(each[name].item())) == (wanted, str(wanted)), (node.op, given)
            compared += 1
    assert compared > 700


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ((2**62, 3, 7.5, 2.25, True, 0.5), "does not fit into 64 bits"),
        ((-(2**63), 3, 7.5, 2.25, True, 0.5), "does not fit into 64 bits"),
        ((7, 0, 7.5, 2.25, True, 0.5), "division"),
        ((7, 3, 7.5, 0.0, True, 0.5), "by zero"),
        ((7, 3, 1e200, 2.25, True, 0.5), "is no float"),
    ],
)
def test_numbers_that_are_none_are_said(built: Path, tmp_path: Path, call: tuple[Any, ...], said: str) -> None:
    graph = arithmetic()
    given = dict(zip((value.name for value in graph.inputs), operands(graph, call), strict=True))
    safetensors.save_file(given, tmp_path / "in")
    done = run(
        built, "arithmetic", [built / "arithmetic" / "arithmetic.safetensors", tmp_path / "in", tmp_path / "out"]
    )
    assert done.returncode == 1
    assert said in done.stderr


# torch's wheel has it for tests of its own.
LIBRARY = Path(torch.__file__).parent / "lib" / "libaoti_custom_ops.so"


def of_a_library() -> Graph:
    """Calls of operators that a library in C++ has: one of them leaves a tensor out, and gives numbers."""
    names = ("x", "y", "sum", "first", "second", "third")
    x, y, *results = (Value(name, "tensor", "input" if name in "xy" else "result", "float32", ("n",)) for name in names)
    if not LIBRARY.exists():
        return Graph("custom", (x, y), (), (), x, symbols={"n": 3})
    torch.ops.load_library(LIBRARY)
    one, two = "aoti_custom_ops::custom_add", "aoti_custom_ops::fn_with_int_output"
    number = Value("number", "int")
    nodes = (
        Node(one, {"t1": x, "t2": y}, (results[0],), one),
        Node(two, {"t1": x, "t2": y, "i": 4}, (*results[1:], number, None), two),
    )
    return Graph("custom", (x, y), (), nodes, {"sum": results[0], "rest": (*results[1:], number)}, symbols={"n": 3})


@pytest.mark.skipif(not LIBRARY.exists(), reason="this torch comes without a library with operators")
def test_operators_of_a_library(built: Path, tmp_path: Path) -> None:
    graph = of_a_library()
    calls = [(torch.randn(3), torch.randn(3)), (torch.randn(5), torch.randn(5))]
    found, _ = calls_of(built, "custom", ["x", "y"], calls, tmp_path, "--library", LIBRARY)
    for call, each in zip(calls, found, strict=True):
        sum_, (first, second, third, number) = graph.run(*call).values()
        assert third is None
        assert each.keys() == {"sum", "rest.0", "rest.1", "rest.3"}
        assert same(each["sum"], sum_)
        assert same(each["rest.0"], first)
        assert same(each["rest.1"], second)
        assert each["rest.3"] == number
    files = [built / "custom" / "custom.safetensors", tmp_path / "in0", tmp_path / "out"]
    done = run(built, "custom", files)
    assert done.returncode == 1
    assert "Could not find schema for aoti_custom_ops::custom_add" in done.stderr
    graph = pijit.graph.capture(lambda x, y: torch.ops.aoti_custom_ops.custom_add(x, y) * 2, *calls[0])
    assert [node.op for node in graph.nodes] == ["aoti_custom_ops::custom_add", "multiply"]


def test_the_example_of_the_readme(built: Path, tmp_path: Path) -> None:
    """It is built by the CMakeLists.txt that the format writes, as a program of its own and as a library of another."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.Tanh())
    calls = ((torch.randn(3, 8),), (torch.randn(7, 8),))
    found, _ = calls_of(built, "net", ["input"], calls, tmp_path, program="net/net_main")
    for call, each in zip(calls, found, strict=True):
        matches(each, ["output"], net(*call))
    printed = subprocess.run([built / "build" / "own"], cwd=built, capture_output=True, text=True, check=True).stdout
    rows = [[float(word) for word in line.split()] for line in printed.splitlines() if "Float" not in line]
    assert torch.allclose(torch.tensor(rows), net(torch.ones(5, 8)), atol=1e-3)
    for program in ("own", "net/net_main", "programs"):
        linked = subprocess.run(["ldd", built / "build" / program], capture_output=True, text=True, check=True).stdout
        assert "libtorch_cpu" in linked
        assert "libpython" not in linked
        assert "torch_python" not in linked


@pytest.mark.parametrize("name", ["mlp", "weights"])
def test_the_library_reads_the_weights(built: Path, name: str) -> None:
    module = cases()[name].fn
    held = safetensors.load_file(next((built / name).glob("*.safetensors")))
    state = module.state_dict()
    assert held.keys() <= state.keys()
    for key, each in held.items():
        wanted = torch.view_as_real(state[key]) if state[key].is_complex() else state[key]
        assert torch.equal(each, wanted)


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("mlp", {"x": torch.zeros(3, 9)}, "the input x is"),
        ("mlp", {"x": torch.zeros(3, 8, dtype=torch.float64)}, "the input x is"),
        ("mlp", {"y": torch.zeros(3, 8)}, "at"),
        ("assumed", {"x": -torch.ones(4)}, "cpp_programs.py:"),
        ("numbers", {"x": torch.zeros(400, 3)}, "these sizes take another way"),
    ],
)
def test_what_does_not_fit_is_said(built: Path, tmp_path: Path, name: str, given: Any, said: str) -> None:
    safetensors.save_file(given, tmp_path / "in")
    done = run(built, name, [next((built / name).glob("*.safetensors")), tmp_path / "in", tmp_path / "out"])
    assert done.returncode == 1
    assert said in done.stderr
    assert not (tmp_path / "out").exists()


def header(rows: Any, data: bytes = b"\0" * 16) -> bytes:
    text = rows if isinstance(rows, bytes) else json.dumps(rows).encode()
    return struct.pack("<Q", len(text)) + text + data


def row(**more: Any) -> dict[str, Any]:
    return {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16], **more}


DAMAGED = {
    "empty": b"",
    "short": b"\1\2\3",
    "header longer than the file": struct.pack("<Q", 2**63) + b"{}",
    "header of all ones": b"\xff" * 64,
    "no json": header(b"not json"),
    "no end": header(b'{"x": {"dtype": "F32"'),
    "no end of a text": header(b'{"x'),
    "escape at the end": header(b'{"x\\'),
    "half an escape": header(b'{"\\ud800\\'),
    "another dtype": header({"x": row(dtype="F33")}),
    "outside": header({"x": row(data_offsets=[8, 24])}),
    "backwards": header({"x": row(data_offsets=[16, 0])}),
    "negative": header({"x": row(shape=[-2, 2])}),
    "too large": header({"x": row(shape=[2**62, 2**62])}),
    "a product of zero bits": header({"x": row(shape=[2**32, 2**32], data_offsets=[0, 0])}),
    "a number of many digits": header({"x": row(shape=[10**30])}),
    "fewer bytes": header({"x": row(data_offsets=[0, 8])}),
    "many axes": header({"x": row(shape=[1] * 100)}),
    "nested": header(b'{"x": ' * 5000),
    "no dtype": header({"x": {"shape": [2, 2], "data_offsets": [0, 16]}}),
    "something behind": header(b'{"x": {"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}} {}'),
    "twice": header(b'{"x": {"dtype":"F32","shape":[4],"data_offsets":[0,16]}, "x": {"dtype":"F32","shape":[4],'
                    b'"data_offsets":[0,16]}}'),
}  # fmt: skip


def test_damaged_files_are_refused(built: Path, tmp_path: Path) -> None:
    weights = next((built / "mlp").glob("*.safetensors"))
    for name, content in DAMAGED.items():
        (tmp_path / "in").write_bytes(content)
        done = run(built, "mlp", [weights, tmp_path / "in", tmp_path / "out"])
        assert done.returncode == 1, (name, done)
        assert "safetensors" in done.stderr, (name, done.stderr)
    content = weights.read_bytes()
    for damaged in (content[: len(content) // 2], content.replace(b"first.weight", b"first.wright")):
        (tmp_path / "in").write_bytes(damaged)
        done = run(built, "mlp", [tmp_path / "in", tmp_path / "in", tmp_path / "out"])
        assert done.returncode == 1


def test_metadata_and_escapes_are_read(built: Path, tmp_path: Path) -> None:
    case = cases()["mlp"]
    x = case.calls[0][0]
    text = b'{"__metadata__":{"format":"pt","\\u00e9\\ud83d\\ude00":"\\"\\\\"}, "\\u0078":'
    text += b'{"data_offsets":[0,96], "shape":[3,8],"dtype":"F32"} } '
    (tmp_path / "in").write_bytes(header(text, x.numpy().tobytes()))
    done = run(built, "mlp", [next((built / "mlp").glob("*.safetensors")), tmp_path / "in", tmp_path / "out"])
    assert done.returncode == 0, done.stderr
    assert torch.equal(safetensors.load_file(tmp_path / "out")["left"], case.fn(x)["left"])


def test_a_directory_is_written_and_written_again(tmp_path: Path) -> None:
    case = cases()["mlp"]
    where = pijit.export(case.fn, *case.calls[0], format="cpp", path=tmp_path / "net")
    wanted = ["CMakeLists.txt", "main.cpp", "mlp.cpp", "mlp.h", "mlp.safetensors"]
    assert sorted(os.listdir(where)) == wanted
    (where / "own.txt").write_text("kept")
    before = (where / "mlp.safetensors").read_bytes()
    case.fn.scale.fill_(4)
    pijit.export(case.fn, *case.calls[0], format="cpp", path=where)
    assert sorted(os.listdir(where)) == sorted([*wanted, "own.txt"])
    assert (where / "mlp.safetensors").read_bytes() != before
    assert os.listdir(tmp_path) == ["net"]
    (tmp_path / "file").write_text("")
    with pytest.raises(ExportError, match="is a file; give the name of a directory"):
        pijit.export(case.fn, *case.calls[0], format="cpp", path=tmp_path / "file")


def test_what_it_refuses() -> None:
    with pytest.raises(ExportError, match=r"decides on the data .*decisions='assume'"):
        pijit.export(settle, torch.ones(3), format="cpp")

    @torch.library.custom_op("pijit_cpp::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @twice.register_fake
    def _(x: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x)

    x, y = (Value(name, "tensor", role, "float32", (2,)) for name, role in (("x", "input"), ("y", "result")))
    node = Node("pijit_cpp::twice", {"x": x}, (y,), "pijit_cpp::twice", file="own.py", line=3)
    with pytest.raises(
        ExportError, match=r"own\.py:3: pijit_cpp::twice is computed by a function of Python.*TORCH_LIB"
    ):
        pijit.export(Graph("f", (x,), (), (node,), y), format="cpp")
    thing = Value("y", "object")
    node = Node("aten::relu", {"self": x}, (thing,), "aten::relu", file="own.py", line=4)
    with pytest.raises(ExportError, match="neither a tensor nor a number"):
        pijit.export(Graph("f", (x,), (), (node,), thing), format="cpp")
    with pytest.raises(ExportError, match=r"test_cpp\.py:\d+.*hypot"):
        pijit.export(lambda x: x * math.hypot(x.shape[0], 2), torch.ones(3), format="cpp", dynamic=True)


@pytest.mark.parametrize("name", ["main", "std::vector", "log", "3d", "__init__", "größe", "class"])
def test_any_name(name: str) -> None:
    x = Value("x", "tensor", "input", "float32", (2,))
    y = Value("int", "tensor", "result", "float32", (2,))
    z = Value("a.b", "tensor", "result", "float32", (2,))
    nodes = (
        Node("exp", {"x": x}, (y,), "aten::exp"),
        Node("log", {"x": y}, (z,), "aten::log", file="a\\b.py\\", line=1),
    )
    made = pijit.export(Graph(name, (x,), (), nodes, {"for": z, "a b": y}), format="cpp")
    (source,) = (text for file, text in made.texts.items() if file.endswith(".cpp") and file != "main.cpp")
    assert not [line for line in source.splitlines() if line.endswith("\\")]
    assert " int = " not in source
    assert "at::Tensor for;" not in "".join(made.texts.values())
