"""The models of the zoo as C++ programs: how many give the bits of eager execution, in a process without Python?

    python bench/exported_cpp.py [--models bert timm/resnet10t ...] [--json FILE] [--jobs N]

Each model of bench/zoo.toml is exported (`format="cpp"`), compiled over the headers of the torch that is imported,
and run on files of safetensors: with the arguments of the export, then with others, of another length where the model
leaves that free. Each result is compared with that of the module, bit for bit. Printed are the number of operators,
the seconds of the compiler, and "equal", or what went wrong.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent))

FLAGS = ["-std=c++20", "-O1", "-ffp-contract=off", "-D_GLIBCXX_USE_CXX11_ABI=1"]
HEADERS = ("ATen/core/dispatch/Dispatcher.h", "ATen/core/grad_mode.h", "ATen/core/ivalue.h", "ATen/core/Tensor.h",
           "ATen/ops/empty.h", "ATen/ops/empty_strided.h", "ATen/Context.h")  # fmt: skip


def torch_folder() -> Path:
    import torch

    return Path(torch.__file__).parent


def compiler(folder: Path) -> list[str]:
    """The command that compiles a file; headers are compiled once."""
    command = ["g++", *FLAGS, "-isystem", str(torch_folder() / "include")]
    header = folder / "torch_headers.h"
    if not header.exists():
        header.write_text("".join(f"#include <{each}>\n" for each in HEADERS))
        subprocess.run([*command, "-x", "c++-header", str(header), "-o", f"{header}.gch"], check=True)
    return [*command, "-include", str(header)]


def build(folder: Path, headers: Path) -> Path:
    """Compiles and links the program in a directory that the format wrote."""
    program = folder / "program"
    library = torch_folder() / "lib"
    links = [f"-L{library}", f"-Wl,-rpath,{library}", "-Wl,--no-as-needed", "-ltorch", "-ltorch_cpu", "-lc10", "-ldl"]
    sources = [str(each) for each in sorted(folder.glob("*.cpp"))]
    subprocess.run([*compiler(headers), *sources, "-o", str(program), *links], check=True)
    return program


def other(arguments: dict[str, Any]) -> dict[str, Any]:
    """Arguments of the same kind with other numbers; texts are shorter, too."""
    made = {}
    for name, held in arguments.items():
        made[name] = held.flip(-1)[:, :-3] if held.dtype.is_floating_point is False else held.flip(-1)
    return made


def measure(name: str, headers: Path) -> dict[str, Any]:
    """Everything of one model, in this process."""
    warnings.filterwarnings("ignore")
    import graph_subjects
    import torch
    import zoo
    from safetensors.torch import load_file, save_file

    import pijit
    from pijit.errors import ExportError

    torch.set_num_threads(1)
    found: dict[str, Any] = {"name": name}
    model = zoo.build(name)
    arguments = zoo.inputs(name)
    with torch.no_grad(), tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "model"
        try:
            graph = graph_subjects.captured(
                model, *((tuple(arguments.values()), {}) if "x" in arguments else ((), arguments))
            )
            pijit.export(graph, format="cpp", path=folder)
        except ExportError as error:
            return found | {"said": f"refused: {error}"[:300]}
        (weights,) = folder.glob("*.safetensors")
        start = time.perf_counter()
        try:
            program = build(folder, headers)
        except subprocess.CalledProcessError:
            return found | {"said": "does not compile"}
        found |= {"operators": len(graph.nodes), "compiled": time.perf_counter() - start}
        said, equal = [], True
        for at, call in enumerate([arguments, other(arguments)]):
            names = dict(zip((value.name for value in graph.inputs), call.values(), strict=True))
            save_file({key: held.clone() for key, held in names.items()}, folder / "in.safetensors")
            command = [program, weights, folder / "in.safetensors", folder / "out.safetensors"]
            done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
            if done.returncode:
                said.append(f"call {at}: {done.stderr.strip()}"[:300])
                continue
            results = load_file(folder / "out.safetensors")
            wanted = expected(graph, zoo.call(model, call))
            wrong = [key for key, each in wanted.items() if not same(each, results.get(key))]
            equal = equal and not wrong
            said += [f"call {at}: {wrong[0]} differs"] if wrong else []
        return found | {"equal": equal and len(said) < 2, "said": "; ".join(said) or "equal"}


def same(a: Any, b: Any) -> bool:
    import torch

    return b is not None and a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b)


def expected(graph: Any, made: Any) -> dict[str, Any]:
    """The tensors of what a module gives, by the names that the program has for them."""
    import graph_subjects
    import torch

    from pijit._formats._graph_results import named

    tensors = [each for each in graph_subjects.leaves(made) if isinstance(each, torch.Tensor)]
    names = [name for name, value in named(graph.outputs) if value.kind == "tensor"]
    return dict(zip(names, tensors, strict=True))


def in_a_process(name: str, headers: Path) -> dict[str, Any]:
    command = [sys.executable, __file__, "--one", name, "--headers", str(headers)]
    done = subprocess.run(command, capture_output=True, text=True)
    lines = done.stdout.strip().splitlines()
    return json.loads(lines[-1]) if done.returncode == 0 and lines else {"name": name, "said": done.stderr[-300:]}


def main() -> None:
    import zoo

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    here = [name for name, (package, _) in zoo.MODELS.items() if importlib.util.find_spec(package) is not None]
    parser.add_argument("--models", nargs="+", default=here, metavar="NAME")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--headers", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one, options.headers)))
        return
    with tempfile.TemporaryDirectory() as place, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        compiler(Path(place))
        rows = []
        for row in pool.map(lambda name: in_a_process(name, Path(place)), options.models):
            rows.append(row)
            print(
                f"{row['name']:28} {row.get('operators', 0):5} {row.get('compiled', 0):6.1f} s  {row['said']}",
                flush=True,
            )
    print(f"{sum(bool(row.get('equal')) for row in rows)} of {len(rows)} are equal bit for bit")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
