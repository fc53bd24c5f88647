"""The process in which a compiler runs: `python -m pijit.compilers.worker DIRECTORY`.

It is a new process of this file, so that the program's own `__main__` is not run again. The directory holds what is
asked for (`job.json`, `graph.json`, and weights that are to be folded); the compiler's files go to `made`, and what
became of it to `result.json`. The process ends with the one that started it: its standard input closes then.
"""

import json
import os
import resource
import shutil
import signal
import sys
import threading
from dataclasses import replace
from pathlib import Path

from pijit._formats import json as format_json
from pijit.compilers import _partition, _prepare, _torch, get
from pijit.compilers._base import Backend, Options, reported
from pijit.errors import PijitError
from pijit.graph.model import Graph

JOB, GRAPH, MADE, RESULT = "job.json", "graph.json", "made", "result.json"


def write_job(graph: Graph, backend: Backend, options: Options, memory: int, directory: Path) -> None:
    """Write what a worker is to do; `graph` is the core that `_prepare.parts` gives.

    Raises:
        ExportError: the graph has something that cannot be written.
        TypeError: an option cannot be written as JSON.
    """
    job = {
        "backend": backend.name,
        "memory": memory,
        "fold": options.fold,
        "symbolic": options.symbolic,
        "threads": options.threads or _torch.threads(),
        "settings": dict(options.settings),
        "machine": dict(backend.machine(graph)),
    }
    (directory / JOB).write_text(json.dumps(job), encoding="utf-8")
    format_json.write(format_json.make(graph, weights="safetensors" if options.fold else "none"), directory / GRAPH)
    (directory / MADE).mkdir()


def read_result(directory: Path) -> tuple[str, list[int]]:
    """What went wrong, "" if nothing did; and the positions of the nodes that the backend has not got.

    Raises:
        OSError: the worker has written nothing.
        ValueError: what it has written is damaged.
    """
    held = json.loads((directory / RESULT).read_text(encoding="utf-8"))
    error, missing = held["error"], held["missing"]
    if not isinstance(error, str) or not all(type(each) is int for each in missing):
        raise ValueError("no text")
    return error, missing


def run(directory: Path) -> list[int]:
    """Do what the directory says; gives the positions of the nodes that the backend has not got."""
    job = json.loads((directory / JOB).read_text(encoding="utf-8"))
    if job["memory"]:
        resource.setrlimit(resource.RLIMIT_DATA, (job["memory"], job["memory"]))
    import torch

    options = Options(job["fold"], job["symbolic"], job["threads"], job["settings"])
    graph = Graph.from_json(directory / GRAPH, framework="torch")
    torch.set_num_threads(job["threads"])
    backend = get(job["backend"]).on(_prepare.kinds(graph))
    backend.begin(graph)
    if not options.fold:  # weights of which only the sizes are known
        graph = replace(graph, data={value.name: _torch.example(value) for value in graph.parameters})
    with reported(backend.name):
        missing = _prepare.missing(graph, backend, options)
        return _partition.build(graph, backend, options, directory / MADE, missing)


def _end_with_parent(directory: Path) -> None:
    """Ends this process, and those that it has started, when the one that started it is gone; leaves no files."""

    def watch() -> None:
        while os.read(0, 1024):
            pass
        for _ in range(20):  # the compiler may write to it meanwhile
            shutil.rmtree(directory, ignore_errors=True)
            if not directory.exists():
                break
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def main(directory: Path) -> None:
    """Run the job, and write what became of it."""
    _end_with_parent(directory)
    os.nice(5)
    missing: list[int] = []
    try:
        missing = run(directory)
        error = ""
    except PijitError as failure:
        error = str(failure)
    except MemoryError:
        error = "the compiler needs more memory than it may have"
    new = directory / f"{RESULT}.new"
    new.write_text(json.dumps({"error": error, "missing": missing}), encoding="utf-8")
    new.replace(directory / RESULT)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    os._exit(0)  # nothing that a compiler leaves behind can make a failure of it now
