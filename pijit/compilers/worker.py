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

from pijit.compilers import get
from pijit.compilers._base import Backend, Options, lacking, reported
from pijit.errors import PijitError
from pijit.graph.model import Graph

JOB, GRAPH, MADE, RESULT = "job.json", "graph.json", "made", "result.json"


def write_job(graph: Graph, backend: Backend, options: Options, memory: int, directory: Path) -> None:
    """Write what a worker is to do; `graph` is the core that `_prepare.parts` gives.

    Raises:
        ExportError: the graph has something that cannot be written.
        TypeError: an option cannot be written as JSON.
    """
    from pijit._formats import json as format

    job = {
        "backend": backend.name,
        "memory": memory,
        "fold": options.fold,
        "symbolic": options.symbolic,
        "threads": options.threads,
        "settings": dict(options.settings),
    }
    (directory / JOB).write_text(json.dumps(job), encoding="utf-8")
    format.write(format.make(graph, weights="safetensors" if options.fold else "none"), directory / GRAPH)
    (directory / MADE).mkdir()


def read_result(directory: Path) -> str:
    """What went wrong; "" if nothing did.

    Raises:
        OSError: the worker has written nothing.
        ValueError: what it has written is damaged.
    """
    held = json.loads((directory / RESULT).read_text(encoding="utf-8"))
    error = held["error"]
    if not isinstance(error, str):
        raise ValueError("no text")
    return error


def run(directory: Path) -> None:
    """Do what the directory says."""
    job = json.loads((directory / JOB).read_text(encoding="utf-8"))
    if job["memory"]:
        resource.setrlimit(resource.RLIMIT_DATA, (job["memory"], job["memory"]))
    from pijit.compilers._torch import example

    options = Options(job["fold"], job["symbolic"], job["threads"], job["settings"])
    graph = Graph.from_json(directory / GRAPH, framework="torch")
    if options.threads:
        import torch

        torch.set_num_threads(options.threads)
    if not options.fold:  # weights of which only the sizes are known
        graph = replace(graph, data={value.name: example(value) for value in graph.parameters})
    backend = get(job["backend"])
    with reported(backend.name):
        if missing := backend.lacks(graph):
            raise lacking(backend.name, missing)
        backend.build(graph, options, directory / MADE)


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
    try:
        run(directory)
        error = ""
    except PijitError as failure:
        error = str(failure)
    except MemoryError:
        error = "the compiler needs more memory than it may have"
    new = directory / f"{RESULT}.new"
    new.write_text(json.dumps({"error": error}), encoding="utf-8")
    new.replace(directory / RESULT)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    os._exit(0)  # nothing that a compiler leaves behind can make a failure of it now
