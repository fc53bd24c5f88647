"""Graphs of whole programs: are they in one part, and right in every format at two sizes?

    python bench/graphs.py [--parts zoo layers programs operators cpp] [--only TEXT] [--sample N]
                           [--formats fx onnx ...] [--jobs N] [--page] [--json FILE]

The subjects are the sixty models of zoo.toml, torch's own layers (in evaluation and in training), programs as people
write them by hand, and programs of one operator; `cpp` compiles models of the zoo as C++ programs (exported_cpp.py).
Each is captured once and goes through every format (graph_subjects.py has the verdicts). Models of packages that are
not installed are left out, and counted. Printed is a line for each subject that is not right everywhere, then a table
with the bar of each number. `--sample N` takes every Nth subject, and `--page` writes docs/graphs.md, which says what
was run. `--json FILE` keeps the rows as they come. Those that are in the file are judged in formats that they lack, so
a run that was cut goes on, and another one adds formats. `--sample 0` judges nothing and tells what the file has.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import itertools
import json
import queue
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import exported_cpp
import graph_subjects
import zoo
from graph_subjects import FORMATS
from one_operator_programs import OUTSIDE

PARTS = ("zoo", "layers", "programs", "operators", "cpp")
TITLES = {
    "zoo": "models of the zoo",
    "layers": "layers of torch, in evaluation and in training",
    "programs": "programs written by hand",
    "operators": "programs of one operator",
}
PAGE = Path(__file__).resolve().parents[1] / "docs" / "graphs.md"
BY_HAND = "## Layers that repeat"  # from there on the page is not made of rows
RIGHT = ("same", "close")
LONGEST = 600  # seconds of a subject
CPP_MODELS = 6  # of a run over all of the zoo: one takes half a minute


# ---- Running


class Worker:
    """A process that judges subjects one after another; a new one takes the place of one that died."""

    def __init__(self) -> None:
        self.process: Any = None

    def judge(self, part: str, name: str, formats: list[str]) -> dict[str, Any]:
        """The row of a subject."""
        if self.process is None:
            command = [sys.executable, __file__, "--worker"]
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
        self.process.stdin.write(json.dumps([part, name, formats]) + "\n")
        self.process.stdin.flush()
        with concurrent.futures.ThreadPoolExecutor(1) as reader:
            line = reader.submit(self.process.stdout.readline)
            try:
                found = line.result(LONGEST)
            except concurrent.futures.TimeoutError:
                self.process.kill()
                found = ""
        if found:
            row: dict[str, Any] = json.loads(found)
            return row
        why = f"error: the process ended with {self.process.wait()}"
        self.process = None
        failed = {"way": "split", "breaks": [why], "foreign": [], "nodes": 0, "seconds": 0.0}
        return {"part": part, "name": name, **failed, "formats": dict.fromkeys(formats, why)}

    def close(self) -> None:
        """Ends the process."""
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait()


def work() -> None:
    """Reads subjects from the input and prints their rows."""
    out = sys.stdout
    sys.stdout = sys.stderr  # programs print
    for line in sys.stdin:
        part, name, formats = json.loads(line)
        try:
            row = graph_subjects.judged(part, name, formats)
        except Exception as error:
            why = f"error: {type(error).__name__}: {error}"[:300]
            row = {"part": part, "name": name, "way": "split", "breaks": [why], "foreign": [], "nodes": 0}
            row |= {"seconds": 0.0, "formats": dict.fromkeys(formats, why)}
        print(json.dumps(row), file=out, flush=True)


def judged(subjects: list[tuple[str, str, list[str]]], jobs: int) -> Iterator[dict[str, Any]]:
    """The rows of subjects in formats, in their order."""
    workers: queue.Queue[Worker] = queue.Queue()
    for _ in range(jobs):
        workers.put(Worker())

    def one(subject: tuple[str, str, list[str]]) -> dict[str, Any]:
        worker = workers.get()
        try:
            return worker.judge(*subject)
        finally:
            if subject[0] == "zoo":  # what models import and define stays in a process
                worker.close()
                worker.process = None
            workers.put(worker)

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(one, subjects)
    while not workers.empty():
        workers.get().close()


def programs_of_cpp(names: list[str], jobs: int) -> list[dict[str, Any]]:
    """What exported_cpp.py finds of models."""
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        exported_cpp.compiler(Path(folder))
        return list(pool.map(lambda name: exported_cpp.in_a_process(name, Path(folder)), names))


def keep(file: Path | None, rows: Mapping[Any, dict[str, Any]], cpp: list[dict[str, Any]]) -> None:
    """Writes the file of a run, whole or not at all."""
    if file is not None:
        beside = file.with_suffix(".new")
        beside.write_text(json.dumps({"rows": list(rows.values()), "cpp": cpp}, indent=1))
        beside.replace(file)


# ---- Telling


def is_whole(row: dict[str, Any]) -> bool:
    """The graph is in one part."""
    return not row["breaks"]


def kind(verdict: str) -> str:
    """What a verdict begins with."""
    return verdict.partition(":")[0]


def is_right(row: dict[str, Any], format: str) -> bool:
    """Equal, or close where the format is not one of torch."""
    return row["formats"].get(format) in (("same",) if format in graph_subjects.EXACT else RIGHT)


def is_wrong(row: dict[str, Any]) -> bool:
    """A format gives something else, without a word."""
    return any(kind(each) == "wrong" for each in row["formats"].values())


def is_refused(row: dict[str, Any]) -> bool:
    """All that is not right is refused with an ExportError."""
    return all(kind(each) in (*RIGHT, "fixed", "random", "refused") for each in row["formats"].values())


def lines(row: dict[str, Any]) -> Iterator[str]:
    """What is to be said of a subject that is not right everywhere."""
    mark = "" if row["way"] == "split" else f" [{row['way']}]"
    told: dict[str, list[str]] = {}
    for format, verdict in row["formats"].items():
        told.setdefault(verdict, []).append(format)
    for verdict, formats in told.items():
        if verdict not in (*RIGHT, "random"):
            yield f"{row['part']:9} {row['name'][:58]:58}{mark} {'/'.join(formats)}: {verdict}"


def summary(rows: list[dict[str, Any]], formats: list[str]) -> list[list[str]]:
    """The table: a row for each part, and one for all of zoo, layers and programs."""
    table = []
    groups = {part: [row for row in rows if row["part"] == part] for part in TITLES}
    groups["all but operators"] = [row for row in rows if row["part"] != "operators"]
    for part, members in groups.items():
        if not members or (part not in TITLES and len({row["part"] for row in members}) == 1):
            continue
        counts: list[Any] = [sum(map(is_whole, members))]
        for format in formats:
            judged_in = sum(format in row["formats"] for row in members)
            right = sum(is_right(row, format) for row in members)
            counts.append(right if judged_in == len(members) else f"{right} of {judged_in}")
        drawn = sum("random" in row["formats"].values() for row in members)
        fixed = sum("fixed" in row["formats"].values() for row in members)
        refused = sum(any(kind(each) == "refused" for each in row["formats"].values()) for row in members)
        other = sum(any(kind(each) == "error" for each in row["formats"].values()) for row in members)
        table.append(
            [
                TITLES.get(part, part),
                *map(str, (len(members), *counts, drawn, fixed, refused, other, sum(map(is_wrong, members)))),
            ]
        )
    return table


def of_operators(rows: list[dict[str, Any]], formats: list[str]) -> list[list[str]]:
    """The table of programs of one operator: a row for each format."""
    table = []
    for format in formats:
        outside = {**OUTSIDE[""], **OUTSIDE.get(format, {})}
        every = [row for row in rows if row["part"] == "operators" and format in row["formats"]]
        inside = [row for row in every if row["name"] not in outside]
        left_out = len(every) - len(inside)
        right = sum(is_right(row, format) for row in inside)
        fixed = sum(row["formats"].get(format) == "fixed" for row in inside)
        refused = sum(kind(row["formats"].get(format, "")) == "refused" for row in inside)
        shares = (f"{100 * (right + fixed) / max(len(each), 1):.1f} %" for each in (inside, every))
        table.append([format, *map(str, (len(inside), right, fixed)), *shares, str(refused), str(left_out)])
    return table


OPERATORS_HEAD = ["format", "programs", "right at two sizes", "right at one size"]
OPERATORS_HEAD += ["right", "right of all", "refused", "outside"]


def heads(formats: list[str]) -> list[str]:
    """Of the columns of the table."""
    return ["", "subjects", "whole", *formats, "random", "fixed size", "refused", "other errors", "wrong"]


BARS = """| what | bar |
| --- | --- |
| whole: models of the zoo, layers in each mode, programs written by hand | 60 of 60, 80 of 80, 95 % |
| of these: fx and exported_program, each bit equal at two sizes | 95 % |
| of these: ONNX and JAX, each within 1e-4 at two sizes | 90 % |
| what is not right is refused with an `ExportError`; silently wrong | all; 0 |
| programs of one operator: right; refused clearly; else | 95 %; 5 %; 0 |
| models that give the same bits as C++ programs | 50 of 60 |
"""


def page(rows: list[dict[str, Any]], formats: list[str], cpp: list[dict[str, Any]], missing: int, command: str) -> str:
    """docs/graphs.md."""
    import torch

    parts = [
        "# Graphs of whole programs",
        "",
        f"Written by `{command}`, with torch {torch.__version__}.",
        "",
        "A *subject* is a callable with arguments of two sizes. It is captured once, with the first arguments.",
        "`whole` counts graphs in one part. The columns of formats count subjects that are right with both: `fx` and",
        "`exported_program` where every bit is equal, `onnx` (in ONNX Runtime) and `jax` within 1e-4. `random`: torch",
        "draws random numbers, which other frameworks do not draw alike. `fixed size`: the graph says that it is for",
        "one size. `refused`: some format refuses with an `ExportError`. `wrong`: some format gives something else,",
        "without a word.",
        "",
        _table([heads(formats), *summary(rows, formats)]),
    ]
    if missing:
        parts += [f"{missing} models of the zoo are of packages that were not installed.", ""]
    if cpp:
        equal = sum(bool(row.get("equal")) for row in cpp)
        parts += [
            f"Of the zoo a sample of {len(cpp)} was compiled as C++ programs: {equal} give the same bits.",
            "",
        ]
    if any(row["part"] == "operators" for row in rows):
        parts += [
            "## Programs of one operator",
            "",
            "`right at one size`: the graph says that it is for the size of the capture, and is right there for two",
            "inputs. What a format cannot hold at all is `outside` of it: it is refused, and `right of all` alone",
            "counts it.",
            "",
            _table([OPERATORS_HEAD, *of_operators(rows, formats)]),
            "| outside of | program | why |",
            "| --- | --- | --- |",
            *(
                f"| {format or 'all'} | `{name}` | {why} |"
                for format, members in OUTSIDE.items()
                for name, why in members.items()
            ),
            "",
        ]
    parts += ["## What is not right", "", "| subject | formats | verdict |", "| --- | --- | --- |"]
    for row in rows:
        told: dict[str, list[str]] = {}
        for format, verdict in row["formats"].items():
            told.setdefault(verdict, []).append(format)
        for verdict, which in told.items():
            if verdict not in (*RIGHT, "random"):
                said = re.sub(r"/\S*/(?=\S+:)", "", verdict.partition("\n")[0])  # where this machine has its files
                cells = (f"`{row['name']}`", ", ".join(which), said[:160])
                parts.append("| " + " | ".join(cell.replace("|", "\\|").replace("<", "&lt;") for cell in cells) + " |")
    return "\n".join(parts) + "\n"


def _table(cells: list[list[str]]) -> str:
    head, *rest = cells
    rows = [head, ["---"] * len(head), *rest]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"


def _lacking(row: dict[str, Any] | None, formats: list[str]) -> list[str]:
    """The formats in which a subject is not judged yet."""
    if row is None:
        return formats
    return [] if "invalid" in row else [format for format in formats if format not in row["formats"]]


def main() -> None:
    """Judges the subjects and prints what is not right, and the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART")
    parser.add_argument("--only", default="", metavar="TEXT", help="subjects whose names hold this text")
    parser.add_argument("--sample", type=int, default=1, metavar="N", help="every Nth subject")
    parser.add_argument("--formats", nargs="+", choices=FORMATS, default=list(FORMATS), metavar="FORMAT")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--page", action="store_true", help="write docs/graphs.md")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work()
        return
    began = time.perf_counter()
    wanted = [
        (part, name)
        for part in options.parts
        if part != "cpp"
        for name in (graph_subjects.names(part)[:: options.sample] if options.sample else ())
        if options.only in name
    ]
    kept = options.json is not None and options.json.exists()
    known = {(row["part"], row["name"]): row for row in (json.loads(options.json.read_text())["rows"] if kept else ())}
    lacking = [(*subject, _lacking(known.get(subject), options.formats)) for subject in wanted]
    for row in judged([each for each in lacking if each[2]], options.jobs):
        before = known.get((row["part"], row["name"]), row)
        known[row["part"], row["name"]] = row | {"formats": {**before["formats"], **row["formats"]}}
        keep(options.json, known, [])
        for line in lines(row) if "invalid" not in row else ():
            print(line, flush=True)
    told = wanted if options.sample else list(known)
    rows = [row for subject in told if "invalid" not in (row := known[subject])]
    cpp = []
    if "cpp" in options.parts:
        models = [name for name in graph_subjects.names("zoo") if options.only in name]
        cpp = programs_of_cpp(models[:: max(1, len(models) // CPP_MODELS)], options.jobs)
        for each in cpp:
            print(f"cpp       {each['name']:58} {each['said']}")
    missing = len(zoo.MODELS) - len(graph_subjects.names("zoo"))
    print(f"\n{missing} models are of packages that are not installed; {time.perf_counter() - began:.0f} s")
    print(_table([heads(options.formats), *summary(rows, options.formats)]))
    if "operators" in options.parts:
        print(_table([OPERATORS_HEAD, *of_operators(rows, options.formats)]))
    print(BARS)
    print(dict(Counter(row["way"] for row in rows)), "ways of capturing decisions")
    keep(options.json, known, cpp)
    if options.page:
        words = [each for before, each in itertools.pairwise(sys.argv) if "--json" not in (before, each)]
        written = page(rows, options.formats, cpp, missing, " ".join(["python bench/graphs.py", *words]))
        _, heading, kept_by_hand = PAGE.read_text().partition(BY_HAND)
        PAGE.write_text("\n".join([written, heading + kept_by_hand]) if heading else written)


if __name__ == "__main__":
    main()
