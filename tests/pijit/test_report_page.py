"""The report as a page: well formed, whole in itself, in agreement with the report as JSON, whatever the program is."""

from __future__ import annotations

import gc
import json
import os
import re
import subprocess
import sys
import textwrap
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import pijit
from pijit import _core
from pijit.tools import page, page_listing, page_parts, page_timeline, report

ROOT = str(Path(pijit.__file__).parents[1])
VOID = {"meta", "br"}


@dataclass
class Table:
    """A table as it is read."""

    caption: str = ""
    columns: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    numbers: list[list[float | None]] = field(default_factory=list)


class Page(HTMLParser):
    """Reads a page: its tags nest, and its tables and texts are found by section."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.section = ""
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.tables: dict[str, list[Table]] = {}
        self.texts: dict[str, str] = {}
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        assert len(given) == len(attrs)
        self.tags.append((tag, given))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "section":
            self.section = str(given["id"])
        if tag == "table":
            self.tables.setdefault(self.section, []).append(Table())
        if tag == "tr":
            self.tables[self.section][-1].rows.append([])
            self.tables[self.section][-1].numbers.append([])
        if tag in {"td", "th"}:
            table = self.tables[self.section][-1]
            table.rows[-1].append("")
            number = given.get("data-number")
            table.numbers[-1].append(None if number is None else float(number))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        if tag == "section":
            self.section = ""
        if tag == "thead":
            table = self.tables[self.section][-1]
            table.columns = table.rows.pop()
            table.numbers.pop()

    def handle_data(self, data: str) -> None:
        if self.open[-1:] in (["style"], ["script"]):
            return
        self.texts[self.section] = self.texts.get(self.section, "") + data
        if "caption" in self.open:
            self.tables[self.section][-1].caption += data
        elif {"td", "th"} & set(self.open):
            self.tables[self.section][-1].rows[-1][-1] += data

    def row(self, section: str, name: str) -> dict[str, float | None]:
        """The numbers of the row whose first cell begins with this, by column."""
        table = self.tables[section][0]
        (found,) = [at for at, row in enumerate(table.rows) if row[0].startswith(name)]
        return dict(zip(table.columns, table.numbers[found], strict=True))


def run(
    here: Path, program: str, *options: str, name: str = "program.py", code: int = 0
) -> tuple[Page, dict[str, Any]]:
    """What the two reports of a program say."""
    (here / name).write_text(textwrap.dedent(program))
    made = [here / "report.html", here / "report.json"]
    command = [sys.executable, "-m", "pijit", *options, *(f"--report={file}" for file in made), name]
    variables = {**os.environ, "PYTHONPATH": ROOT, "PIJIT_QUIET": "1"}
    done = subprocess.run(command, cwd=here, env=variables, capture_output=True, text=True, timeout=200, check=False)
    assert (done.returncode, done.stderr) == (code, ""), done.stderr
    text = made[0].read_text(encoding="utf-8")
    assert text.startswith("<!DOCTYPE html>\n")
    page = Page(text)
    check_whole(page, text)
    return page, json.loads(made[1].read_text())


def check_whole(page: Page, text: str) -> None:
    """Nothing is taken from elsewhere, links lead to what is there, and tables and the picture have their names."""
    assert not {tag for tag, _ in page.tags} & {"link", "img", "iframe", "object", "embed", "base", "form"}
    given = [(name, value) for _, attributes in page.tags for name, value in attributes.items()]
    assert not [name for name, _ in given if name in {"src", "style"} or name.startswith("on")]
    ids = [value for name, value in given if name == "id"]
    assert len(ids) == len(set(ids))
    assert {value for name, value in given if name == "href"} <= {f"#{each}" for each in ids}
    assert "url(" not in text
    assert "@import" not in text
    scripts = [attributes for tag, attributes in page.tags if tag == "script"]
    assert scripts == [{}]
    for table in (each for tables in page.tables.values() for each in tables):
        assert table.columns
        assert {len(row) for row in table.rows} <= {len(table.columns)}
    assert all(attributes.get("scope") for tag, attributes in page.tags if tag == "th")
    assert all(
        "aria-label" in attributes or "aria-hidden" in attributes or "overflow" in attributes
        for tag, attributes in page.tags
        if tag == "svg"
    )


LOOP = """
    import pijit, sys

    @pijit.jit
    def stops(x):
        y = x + 1
        sys._getframe()
        return y

    @pijit.jit
    def turns(x):
        y = x * 2
        if y > 30:
            return y - 1
        return y + 1

    def make():
        gone = pijit.jit(lambda: 1)
        return [gone() for _ in range(5)]

    assert stops(1) == 2
    for n in range(20):
        assert stops(n) == n + 1
    assert turns(3) == 7
    assert turns(20) == 39
    for n in range(40):
        assert turns(n % 20) == (n % 20) * 2 + (1 if n % 20 <= 15 else -1)
    make()
"""


def test_numbers_agree_with_json(tmp_path: Path) -> None:
    """First calls, a change, and calls after it: each counter and each time is the same in both reports."""
    page, data = run(tmp_path, LOOP)
    functions = {row["name"]: row for row in data["functions"]}
    assert set(functions) == {"stops", "turns", "make.<locals>.<lambda>"}
    for name, root in functions.items():
        row = page.row("functions", name)
        counts = ("calls", "records", "replays", "exits")
        assert [row[column] for column in ("calls", "recorded", "replayed", "left early")] == [root[c] for c in counts]
        assert row["in CPython"] == max(root["calls"] - root["records"] - root["replays"], 0)
        assert row["lost"] == pytest.approx(root["seconds_lost"])
        assert row["saved"] == (pytest.approx(root["seconds_saved"]) if root["compared"] else float("-inf"))
    total = page.row("functions", "all 3 functions")
    assert total["calls"] == sum(root["calls"] for root in functions.values()) == 21 + 42 + 5
    assert functions["turns"]["records"] >= 2
    assert data["stats"]["replays"] == total["replayed"]
    assert functions["make.<locals>.<lambda>"]["state"] == "cold"
    assert "gone" in page.texts["functions"]


def test_the_ledger_agrees_with_json(tmp_path: Path) -> None:
    page, data = run(tmp_path, LOOP)
    columns = {
        "first calls in CPython": ("plain", "first"),
        "sampled later": ("compared_early", "compared"),
        "replays": ("replayed",),
        "recordings": ("recorded",),
        "behind replays": ("after",),
    }
    for root in data["functions"]:
        row, spent = page.row("ledger", root["name"]), root["spent"]
        for column, kinds in columns.items():
            seconds, times = (sum(spent[kind][at] for kind in kinds) for at in (0, 1))
            counted = {"replays": "replays", "recordings": "records", "behind replays": "exits"}.get(column)
            none = 0 if counted and root[counted] == 0 else float("-inf")
            assert row[column] == (pytest.approx(seconds) if times or seconds else none), column
        assert spent["replayed"][1] == root["replays"]
        assert spent["replayed"][0] > 0
        assert spent["recorded"][1] == root["records"]
    assert "not measured" in page.texts["ledger"]


def test_reasons_have_codes_and_advice(tmp_path: Path) -> None:
    page, data = run(tmp_path, LOOP)
    (stops,) = [root for root in data["functions"] if root["name"] == "stops"]
    code = stops["last_stop"]["code"]
    _, text, advice = next(row[1:] for row in _core.tables()["aborts"] if row[0] == code)
    said = page.texts["reasons"]
    assert f"{code}: {text}" in said
    assert advice in said
    assert "program.py:7 in stops()" in said
    assert page.row("reasons", "program.py:7")["lost"] == pytest.approx(stops["seconds_lost"])


def test_traces_stand_beside_their_source(tmp_path: Path) -> None:
    page, data = run(tmp_path, LOOP)
    listings = page.tables["traces"]
    assert len(listings) == sum(root["traces"] for root in (*data["functions"], *data["entries"]))
    lines = [tuple(cell.strip() for cell in row) for table in listings for row in table.rows]
    assert any(source == "program.py:6 y = x + 1" and "x + 1" in trace for source, trace in lines)
    assert any(source.startswith("program.py:7") and "stopped recording" in trace for source, trace in lines)
    marks = {attributes.get("class") for tag, attributes in page.tags if tag == "span"}
    assert "mark left" in marks


def test_replays_that_were_left_are_counted_at_their_line(tmp_path: Path) -> None:
    program = """
        import pijit

        numbers = iter(range(12))

        @pijit.opaque
        def look():
            return next(numbers)

        @pijit.jit
        def turns():
            x = look()
            if x > 5:
                return -x
            return x

        for n in range(12):
            assert turns() == (n if n <= 5 else -n)
    """
    page, data = run(tmp_path, program)
    (root,) = data["functions"]
    assert root["exits"] > 1
    assert [row for row in page.tables["traces"][0].rows if f"{root['exits']} replays left here" in row[1]]


# Its replays lose, and are given up.
LOSING = """
    import bisect, pijit
    pijit.config.update({"give_up": True})

    @pijit.jit
    def losing(n):
        kept = []
        for number in [(7 * i) % 41 for i in range(40)]:
            bisect.insort(kept, number)
        return [*kept, n]
"""


def losing(calls: int) -> str:
    """The program with so many calls."""
    return f"""{LOSING}
    for n in range({calls}):
        assert losing(n)[-1] == n
"""


def test_the_timeline_has_what_happened(tmp_path: Path) -> None:
    page, data = run(tmp_path, losing(50))
    (root,) = data["functions"]
    assert root["given_up"]["code"] == "PJ106"
    assert root["state"] == "disabled"
    happened = [event["what"] for event in data["events"]]
    assert happened.count("recorded") == root["records"] >= 1
    assert [happened[0], happened[-1]] == ["recorded", "left"]
    assert happened.count("first replay") == 1
    assert {event["root"] for event in data["events"]} == {root["root"]}
    times = [event["at"] for event in data["events"]]
    assert times == sorted(times)
    assert 0 < times[0] < times[0] + data["events"][0]["seconds"] < times[1]
    assert times[-1] <= data["seconds"]
    assert data["events_left_out"] == 0
    (table,) = page.tables["time"]
    began = (table.numbers[0][0] or 0) - times[0]  # that of the one report is not that of the other
    assert [(row[0] or 0) - began for row in table.numbers] == pytest.approx(times)
    assert abs(began) < 1e-2
    assert page.texts["time"].count("left to CPython from here on") >= 2  # the legend, a mark, the table


NOTHING_KEPT = """
    import pijit
    fast = pijit.jit(lambda a, b: len(a) + len(b))
    many = [1] * 1000
    for _ in range(4):
        assert fast(many, many) == 2000
"""
PASSED_ON = """
    import pijit
    pijit.config.update({"record_budget": 1})

    def add(left, *, right=1):
        return left + right

    @pijit.jit
    def count(n):
        total = 0
        for number in range(n):
            total = add(total, right=number % 7)
        return total

    assert count(100_000) == 299_995
    assert count(7) == 21
"""
TAKEN_UP = losing(60_000)


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (NOTHING_KEPT, ["nothing kept", "nothing kept", "nothing kept", "left"]),
        (PASSED_ON, ["nothing kept", "passed on"]),
        (TAKEN_UP, ["recorded", "first replay", "left", "taken up", "left"]),
    ],
)
def test_events(tmp_path: Path, program: str, expected: list[str]) -> None:
    """In the order in which they began, and each is explained where it is drawn. Replays are taken up now and again."""
    page, data = run(tmp_path, program)
    happened = [event["what"] for event in data["events"]]
    if program == TAKEN_UP:
        happened = [what for what, before in zip(happened, [None, *happened], strict=False) if what != before][:5]
    assert happened == expected
    for what in happened:
        assert page.texts["time"].count(page_timeline.WORDS[what]) >= 3  # the legend, a mark, the table


def test_nothing_is_noted_unless_it_is_asked_for() -> None:
    fast = pijit.jit(lambda x: x + 1)
    before = _core.events()
    assert fast(1) == 2
    assert fast(2) == 3
    assert _core.events() == before == {"rows": [], "left_out": 0}


HOSTILE = """<script>alert('1')</script>"&amp;\u202e\x07"""


def test_hostile_names(tmp_path: Path) -> None:
    """Names of functions, files, attributes and arguments, and source lines, are text and nothing else."""
    name = "<b onclick='x'>&lt;.py"
    program = f"""
        import pijit
        HOSTILE = {HOSTILE!r}
        text = "def evil(x):\\n    y = x + 1\\n    known('</td></table>')\\n    return y"
        scope = {{"known": lambda *_: set}}
        exec(compile(text, HOSTILE + "/<i>.py", "exec"), scope)
        evil = pijit.jit(scope["evil"], name=HOSTILE)

        @pijit.jit
        def here(x):
            y = x * 2  # </script></style><!--
            return [y, "<script>"]

        for n in range(9):
            assert evil(n) == n + 1
            assert here(n) == [2 * n, "<script>"]
            assert here("<u>") == ["<u><u>", "<script>"]
    """
    page, data = run(tmp_path, program, name=name)
    assert HOSTILE in {root["name"] for root in data["functions"]}
    shown = HOSTILE.replace("\u202e", "\\u202e").replace("\x07", "\\x07")
    assert page.row("functions", shown)["calls"] == 9
    assert shown in page.texts["time"]
    assert "<b onclick" in page.texts[""]
    assert "y = x * 2  # </script></style><!--" in page.texts["traces"]
    assert not {"b onclick", "img", "i", "u"} & ({tag for tag, _ in page.tags} - {"i"})


def test_names_that_utf8_does_not_have(tmp_path: Path) -> None:
    page, _ = run(
        tmp_path,
        "import pijit\nf = pijit.jit(lambda: 1, name='caf\\u00e9')\nf(); f()\nimport sys\nsys.argv = ['\\udc80']",
    )
    assert "\\udc80" in page.texts[""]
    assert page.row("functions", "café")["replayed"] == 1


@pytest.mark.parametrize("argv", ["[]", "None", "[object()]", "['']"])
def test_an_empty_program(tmp_path: Path, argv: str) -> None:
    page, data = run(tmp_path, f"import sys; sys.argv = {argv}")
    assert data["functions"] == data["events"] == []
    assert page.tables == {}
    assert "Nothing was recorded: no tensor framework was imported" in page.texts[""]
    assert "pijit: a program" in page.texts[""]


def test_a_program_that_fails(tmp_path: Path) -> None:
    page, _ = run(tmp_path, LOOP + "    raise SystemExit(3)\n", code=3)
    assert page.row("functions", "stops")["calls"] == 21


@pytest.mark.parametrize("option", ["--report", "--explain"])
def test_thousands_of_functions(tmp_path: Path, option: str) -> None:
    """What is beyond the bounds is summed up: the totals are those of all, and the page says so."""
    program = """
        import pijit
        names = {}
        exec("\\n".join(f"def f{n}(x): return x + {n}" for n in range(5000)), names)
        fast = [pijit.jit(names[f"f{n}"]) for n in range(5000)]
        for n, f in enumerate(fast):
            assert f(1) == n + 1
        for n, f in enumerate(fast):
            assert f(2) == n + 2
        pijit.config.update({"max_traces": 3})
        for n, f in enumerate(fast):
            assert f(1.5) == n + 1.5
        for n, f in enumerate(fast):
            assert f(2.5) == n + 2.5
    """
    more = (f"--explain={tmp_path / 'full.html'}",) if option == "--explain" else ()
    page, data = run(tmp_path, program, *more)
    if more:
        text = (tmp_path / "full.html").read_text()
        page = Page(text)
        check_whole(page, text)
    rows = page.tables["functions"][0].rows
    most = 1000 if more else 200
    assert len(rows) == most + 2
    assert rows[-2][0] == f"{5000 - most:,} more functions, summed up"
    total = page.row("functions", "all 5,000 functions")
    assert total["calls"] == sum(root["calls"] for root in data["functions"]) == 20000
    assert total["replayed"] == sum(root["replays"] for root in data["functions"])
    shown = [numbers for numbers in page.tables["functions"][0].numbers[:-1]]
    assert sum(row[1] or 0 for row in shown) == 20000
    assert len(page.tables["traces"]) < 1000
    assert "more are not shown" in page.texts["traces"]
    assert "Shown are the 30 functions of 5,000 that saved or lost most" in page.texts["time"]
    assert len(data["events"]) + data["events_left_out"] >= 5000 * 2
    assert (tmp_path / "report.html").stat().st_size < 3 << 20


def test_children_write_nothing(tmp_path: Path) -> None:
    program = (
        LOOP
        + """
    import os
    if os.fork() == 0:
        for n in range(10):
            stops(n)
        sys.exit(0)
    os.wait()
    """
    )
    page, data = run(tmp_path, program)
    assert page.row("functions", "stops")["calls"] == 21 == data["functions"][-2]["calls"]


def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    fifo, text = tmp_path / "fifo", tmp_path / "text.py"
    os.mkfifo(fifo)
    text.write_text("first\n  second\n")
    assert page_listing._text(str(text), 2) == "second"
    assert page_listing._text(str(text), 3) == ""
    for file in (fifo, tmp_path, tmp_path / "none", "\0", "", "<nothing>"):  # 3.13 knows the lines of -c as <string>
        assert page_listing._text(str(file), 1) == ""


def test_letters_stand_out() -> None:
    """By the measure of WCAG 2: 4.5 to 1 for text, on each ground that it stands on, 3 to 1 for what is drawn."""
    light, dark = page_parts.STYLE.split("@media (prefers-color-scheme: dark)")[:2]
    for scheme in (light, dark.split("} }")[0]):
        colours = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", scheme))
        assert len(colours) == 14
        for letters in ("ink", "soft", "gain", "loss", "accent"):
            for ground in ("ground", "band"):
                assert contrast(colours[letters], colours[ground]) >= 4.5, (letters, ground)
        for letters in ("gain", "loss", "accent"):
            assert contrast(colours[letters], colours[f"{letters}-band"]) >= 4.5, letters
        for ground in ("loss-band", "warm-band"):
            assert contrast(colours["ink"], colours[ground]) >= 4.5, ground
        assert min(contrast(colours[drawn], colours["ground"]) for drawn in ("warm", "plan")) >= 3


def contrast(one: str, other: str) -> float:
    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    less, more = sorted((luminance(one), luminance(other)))
    return (more + 0.05) / (less + 0.05)


def test_escaping() -> None:
    assert page_parts.escaped("a<b>'\"&\n\té\u3000") == "a&lt;b&gt;&#x27;&quot;&amp;\n\té\u3000"
    assert page_parts.escaped("\x00\u202e\ud800\u2028") == "\\x00\\u202e\\ud800\\u2028"
    assert page_parts.escaped("<" * 10, most=4) == "&lt;&lt; [6 more] &lt;&lt;"


def test_lanes_of_the_functions_that_matter() -> None:
    """They stand in the order of time; what takes hardly any is drawn as well."""
    names = [f"function_{n:02}" for n in range(40)]
    rows = [page_timeline.Happening(n / 40, 1e-9, "recorded", name, n) for n, name in enumerate(names)]
    made = page_timeline.timeline(rows, {name: n for n, name in enumerate(names)}, 1.0, 0)
    picture = made.partition("</ul>")[2].partition("<details")[0]
    assert re.findall(r">(function_\d+)<", picture) == names[10:]
    widths = [float(width) for width in re.findall(r'<rect [^>]*width="([0-9.]+)%"', picture)]
    assert len(widths) == 30
    assert min(widths) > 0


def test_a_timeline_of_nothing_and_of_a_moment() -> None:
    assert page_timeline.timeline([], {}, 1.0, 0) == ""
    moment = [page_timeline.Happening(0.0, 0.0, "left", "f", 1)]
    for end in (0.0, 1e-9, 1e6):
        Page(page_timeline.timeline(moment, {}, end, 3))
    assert "3 more things happened" in page_timeline.timeline(moment, {}, 1.0, 3)


@pytest.mark.torch
def test_compiled_code_is_noted(tmp_path: Path) -> None:
    program = """
        import time, torch, pijit

        @pijit.jit(backend="torchscript")
        def step(x):
            return ((x + 1) * 2 - 3).relu().sum()

        x = torch.ones(4)
        until = time.monotonic() + 60
        while time.monotonic() < until:
            assert step(x) == 4
            if any(key.plans for trace in pijit.traces(step) for each in trace.segments for key in each.keys):
                break
            time.sleep(0.01)
        assert step(x) == 4
    """
    page, data = run(tmp_path, program)
    assert "compiled code" in [event["what"] for event in data["events"]]
    assert "compiled code arrived" in page.texts["time"]
    assert "torchscript" in page.texts["compilers"]
    assert "mark planned" in {attributes.get("class") for tag, attributes in page.tags if tag == "span"}


def test_a_function_that_dies_while_the_report_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was listed before may be dead when it is asked for more: garbage is collected at any time."""

    def made() -> Any:
        def f(x: Any) -> Any:
            total = 0
            for each in range(3000):
                total += each * x
            return total

        return pijit.jit(f)

    stale = []
    for _ in range(2):
        fast = made()
        for x in (1, 2, 3):
            fast(x)
        stale += [{**root, "segments": 1} for root in _core.roots() if root["root"] == pijit.api.root_of(fast)]
        del fast
        gc.collect()
    assert [root["alive"] for root in stale] == [True, True]
    monkeypatch.setattr(_core, "roots", lambda: stale)
    time = report.Time(0.0, 1.0)
    assert len(report.data(time)["functions"]) == 2  # type: ignore[arg-type]
    for in_full in (False, True):
        assert "f (" in report.text(1.0, in_full=in_full)
        assert page.page(time, in_full=in_full)


def test_reports_while_roots_die_in_the_middle(tmp_path: Path) -> None:
    program = """
        import gc, pijit
        def make(n):
            def f(x):
                return x * n, f
            fast = pijit.jit(f)
            fast.own = fast
            for i in range(3):
                fast(i)
        gc.disable()
        for n in range(30):
            make(n)
        gc.set_threshold(1)
        gc.enable()
    """
    (tmp_path / "program.py").write_text(textwrap.dedent(program))
    for kind in ("json", "html", "txt"):
        for option in ("--report", "--explain"):
            command = [sys.executable, "-m", "pijit", f"{option}=out.{kind}", "program.py"]
            environment = {**os.environ, "PYTHONPATH": ROOT}
            done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
            assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
            assert (tmp_path / f"out.{kind}").read_text()


# ----------------------------------------------------------------------------------------- the trace for other viewers

NUMBERS, FIELDS = (int, float), {"X": {"ts", "dur", "cat", "args"}, "i": {"ts", "s", "cat", "args"}, "M": {"args"}}


def check_chrome_trace(made: Any) -> list[dict[str, Any]]:
    """What the format asks for: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMh4h6I0nSsKchNAySU."""
    assert made["displayTimeUnit"] in {"ms", "ns"}
    events: list[dict[str, Any]] = made["traceEvents"]
    for event in events:
        assert set(event) == {"ph", "name", "pid", "tid"} | FIELDS[event["ph"]]
        assert isinstance(event["name"], str)
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        assert all(isinstance(event[key], NUMBERS) and event[key] >= 0 for key in ("ts", "dur") if key in event)
        assert event.get("s", "t") in {"t", "p", "g"}
    for track in {event["tid"] for event in events if event["ph"] == "X"}:  # slices of a track nest
        open_until = [float("inf")]
        slices = [event for event in events if event["tid"] == track and event["ph"] == "X"]
        for each in sorted(slices, key=lambda each: (each["ts"], -each["dur"])):
            while each["ts"] >= open_until[-1]:
                open_until.pop()
            assert each["ts"] + each["dur"] <= open_until[-1] + 1
            open_until.append(each["ts"] + each["dur"])
    return events


def test_a_trace_that_perfetto_opens(tmp_path: Path) -> None:
    program = """
        import pijit
        @pijit.jit
        def step(x):
            return [x + 1]
        for i in range(100):
            step(1000)
    """
    (tmp_path / "train.py").write_text(textwrap.dedent(program))
    file = tmp_path / "out.trace.json"
    command = [sys.executable, "-m", "pijit", f"--report={file}", "train.py"]
    done = subprocess.run(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": ROOT}, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    events = check_chrome_trace(json.loads(file.read_text()))
    names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert "step (train.py:3)" in names.values()
    (track,) = [tid for tid, name in names.items() if name == "step (train.py:3)"]
    slices = [event["name"] for event in events if event["tid"] == track and event["ph"] == "X"]
    assert slices.count("pijit: recording") == 1
    assert 50 <= slices.count("pijit: replay") <= 99  # some calls are CPython's, to compare


def test_what_is_local_to_main_keeps_its_text(tmp_path: Path) -> None:
    """Its traces go with it, before the report is written."""
    program = """
        import gc, pijit
        class Scale:
            def __init__(self):
                self.by, self.itself = 3, self
            def __call__(self, x):
                return x * self.by
        def main():
            def local(x):
                return [x, x]
            scale, fast = pijit.jit(Scale()), pijit.jit(local)
            for i in range(5):
                scale(i), fast(i)
            if 2 > 1:
                scale.itself = None
        main()
        gc.collect()
    """
    (tmp_path / "train.py").write_text(textwrap.dedent(program))
    for option, words in [("--report=out.html", "self.by"), ("--explain=out.txt", "trace 0: ")]:
        command = [sys.executable, "-m", "pijit", option, "train.py"]
        variables = {**os.environ, "PYTHONPATH": ROOT}
        done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        text = (tmp_path / option.partition("=")[2]).read_text()
        assert text.count("trace 0: ") == 2
        assert words in text
