"""`python -m pijit` beside plain `python`: the same program sees the same and ends the same; and the subcommands."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest

import pijit
from pijit import _core
from pijit.tools import commands, tables

ROOT = str(Path(pijit.__file__).parents[1])


def execute(arguments, cwd, *, text=None, **environment):
    variables = {**os.environ, "PYTHONPATH": ROOT, "PYTHONDONTWRITEBYTECODE": "1", **environment}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=cwd, env=variables, input=text, capture_output=True, text=True, timeout=120)


def same(cwd, *arguments, python=(), text=None, **environment):
    """What plain python does with these arguments; pijit does the same."""
    plain = execute([*python, *arguments], cwd, text=text, **environment)
    mine = execute([*python, "-m", "pijit", *arguments], cwd, text=text, **environment)

    def ended(done):
        return done.returncode, *(re.sub("0x[0-9a-f]+", "0x", output) for output in (done.stdout, done.stderr))

    assert ended(mine) == ended(plain)
    return plain


SEES = """
    '''Says what it sees.'''
    import sys, os
    print(sys.argv, __name__, __file__, __spec__, __builtins__, __doc__, __package__, __cached__)
    print(sys.path, os.getcwd(), list(globals()), type(__loader__).__name__, globals().get("__annotations__"))
    print(sys.modules["__main__"].__dict__ is globals(), [name for name in sys.modules if name.startswith("torch")])
    print(sys._getframe().f_code.co_filename, sys.stdin.read(), sys.getrecursionlimit(), sys.warnoptions)
"""


SEES_CODE = textwrap.dedent(SEES).replace("__file__", "__debug__").replace("__cached__", "__debug__")


@pytest.fixture
def here(tmp_path):
    """A directory with programs."""

    def write(name, text):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(textwrap.dedent(text))

    write("sees.py", SEES)
    write("sub/sees.py", SEES)
    write("sub/__main__.py", SEES)
    write("package/__init__.py", "import sys; print('package', sys.argv)")
    write("package/__main__.py", SEES)
    write("package/inner.py", SEES)
    with zipfile.ZipFile(tmp_path / "archive.pyz", "w") as archive:
        archive.writestr("__main__.py", textwrap.dedent(SEES))
    return tmp_path


class TestPrograms:
    @pytest.mark.parametrize(
        "arguments",
        [
            ["sees.py"],
            ["sees.py", "-m", "--report", "doctor", ""],
            ["./sees.py", "x"],
            ["sub/sees.py"],
            ["sub/../sees.py"],
            ["sub", "--help"],
            ["./sub/"],
            ["archive.pyz", "1"],
            ["-m", "sees", "-m", "x"],
            ["-msees"],
            ["-m", "package", "y"],
            ["-m", "package.inner"],
            ["-m", "sub.sees"],
            ["-c", SEES_CODE],
            ["-c", SEES_CODE, "-c", "x", "--report"],
            ["-cimport sys; print(sys.argv, sys.stdin.read())", "y"],
        ],
    )
    def test_what_it_sees(self, here, arguments):
        done = same(here, *arguments, text="typed")
        assert done.returncode == 0
        assert "typed" in done.stdout

    def test_absolute_and_linked(self, here):
        same(here, str(here / "sub" / "sees.py"), text="")
        (here / "linked.py").symlink_to("sub/sees.py")
        assert str(here / "sub") in same(here, "linked.py", text="").stdout
        same(here / "sub", ".", text="")
        same(here / "sub", "../sees.py", text="")

    def test_compiled(self, here):
        import py_compile

        py_compile.compile(str(here / "sees.py"), cfile=str(here / "other.pyc"), doraise=True)
        assert same(here, "other.pyc", text="").returncode == 0

    @pytest.mark.parametrize("flags", [["-P"], ["-W", "error"], ["-B", "-O"], ["-X", "utf8"]])
    def test_flags_of_python(self, here, flags):
        same(here, "sees.py", python=flags, text="")
        same(here, "sub", python=flags, text="")

    @pytest.mark.parametrize(
        ("arguments", "status"),
        [
            (["nofile.py"], 2),
            (["-m", "nomodule"], 1),
            (["-m", "package.nomodule"], 1),
            (["-m", "sys"], 1),
            (["package/../sub/.."], 1),
        ],
    )
    def test_not_there(self, here, arguments, status):
        assert same(here, *arguments).returncode == status

    def test_dont_confuse_a_script_with_a_subcommand(self, here):
        (here / "doctor").write_text("print('a script')")
        assert same(here, "./doctor").stdout == "a script\n"


class TestEnds:
    """Exit statuses and what is shown of exceptions that nobody catches."""

    ENDS = {
        "nothing": "pass",
        "exit": "import sys; sys.exit()",
        "exit none": "raise SystemExit(None)",
        "exit 3": "import sys; sys.exit(3)",
        "exit 256": "raise SystemExit(256)",
        "exit text": "import sys; sys.exit('goodbye')",
        "exit object": "raise SystemExit([1, 2])",
        "exit in a function": "def f():\n    raise SystemExit(7)\nf()",
        "os._exit": "import os; os._exit(9)",
        "abort": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
        "raise": "def f(x):\n    return 1 / x\ndef g():\n    f(0)\ng()",
        "chained": "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise KeyError('x') from e",
        "context": "try:\n    1 / 0\nexcept ZeroDivisionError:\n    {}['x']",
        "group": "raise ExceptionGroup('g', [ValueError(1), TypeError(2)])",
        "notes": "e = ValueError('x'); e.add_note('a note'); raise e",
        "own class": "class Mine(BaseException): pass\nraise Mine('x')",
        "recursion": "def f():\n    f()\ntry:\n    f()\nexcept RecursionError as e:\n    print(e)",
        "syntax": "def f(:\n    pass",
        "indent": "if 1:\npass",
        "import": "import not_there_at_all",
        "keyboard": "raise KeyboardInterrupt",
        # In the background a shell has SIGINT ignored.
        "signal": "import os, signal, time\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "os.kill(os.getpid(), signal.SIGINT)\ntime.sleep(5)",
        "hook": "import sys\nsys.excepthook = lambda *a: print('mine', a[0], a[2].tb_frame.f_code.co_name)\n1 / 0",
        "at exit": "import atexit, sys\nx = 5\n@atexit.register\ndef f():\n    print(sys.modules['__main__'].x)",
        "at exit raises": "import atexit\n@atexit.register\ndef f():\n    1 / 0",
        "thread": "import threading as t\ndef f():\n    1 / 0\nf = t.Thread(target=f, name='t'); f.start(); f.join()",
        "late thread": "import threading, time\ndef f():\n    time.sleep(0.3); import __main__; print(__main__.x)\n"
        "x = 1\nthreading.Thread(target=f).start()\n1 / 0",
        "del": "class A:\n    def __del__(self): print('dies')\na = A()",
        "warning": "import warnings\nwarnings.warn('old', DeprecationWarning)\nprint('x' is 'x')",
    }

    @pytest.mark.parametrize("name", ENDS)
    def test_script(self, here, name):
        (here / "ends.py").write_text(self.ENDS[name])
        same(here, "ends.py")

    @pytest.mark.parametrize("name", ENDS)
    def test_module(self, here, name):
        (here / "ends.py").write_text(self.ENDS[name])
        same(here, "-m", "ends")

    @pytest.mark.parametrize("name", ENDS)
    def test_code(self, here, name):
        same(here, "-c", self.ENDS[name])

    def test_statuses_are_what_they_must_be(self, here):
        for name, status in {"exit 3": 3, "exit text": 1, "keyboard": -signal.SIGINT, "raise": 1}.items():
            (here / "ends.py").write_text(self.ENDS[name])
            assert same(here, "ends.py").returncode == status

    def test_own_frames_when_debugging(self, here):
        (here / "ends.py").write_text("1 / 0")
        done = execute(["-m", "pijit", "ends.py"], here, PIJIT_DEBUG="1")
        assert done.returncode == 1
        assert "in run_script" in done.stderr

    def test_interactive_afterwards(self, here):
        (here / "ends.py").write_text("x = 41\n1 / 0\n")
        done = same(here, "ends.py", python=["-i"], text="import sys\nprint(x + 1, sys.last_type, __name__)\n")
        assert "42 <class 'ZeroDivisionError'> __main__" in done.stdout


class TestProcesses:
    POOL = """
        import multiprocessing, os, sys
        from pathlib import Path
        def f(x):
            try:
                from pijit import _core
                hooked = "pijit" in sys.modules and _core.hook_installed()
            except ImportError:
                hooked = False
            return x * x, __name__, hooked
        if __name__ == "__main__":
            with multiprocessing.get_context(sys.argv[1]).Pool(1) as pool:
                print(pool.map(f, range(3)))
    """

    @pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
    @pytest.mark.parametrize("how", [["pool.py"], ["-m", "pool"]])
    def test_children(self, here, method, how):
        (here / "pool.py").write_text(textwrap.dedent(self.POOL))
        name = "__main__" if method == "fork" else "__mp_main__"
        done = same(here, *how, method)
        assert done.stdout == f"{[(x * x, name, False) for x in range(3)]}\n"

    def test_pickles_of_main(self, here):
        (here / "pickles.py").write_text(
            "import pickle\nclass A: pass\nprint(type(pickle.loads(pickle.dumps(A()))) is A)\n"
        )
        assert same(here, "pickles.py").stdout == "True\n"


class TestSwitch:
    ASKS = "import sys\nprint('pijit' in sys.modules and sys.modules['pijit']._core.hook_installed())\n"

    def test_enabled_or_not(self, here):
        (here / "asks.py").write_text(self.ASKS)
        assert execute(["-m", "pijit", "asks.py"], here).stdout == "True\n"
        assert execute(["-m", "pijit", "asks.py"], here, PIJIT="0").stdout == "False\n"

    def test_switched_off_is_the_same(self, here):
        assert same(here, "sees.py", "x", text="", PIJIT="0").returncode == 0


class TestReport:
    LOOP = """
        import pijit, sys

        def f(x):
            sys._getframe()
            return x
        g = pijit.jit(f)
        for _ in range(20):
            g(1)
        def make():
            h = pijit.jit(lambda: 1)
            return [h() for _ in range(5)]
        make()
        print("done")
    """

    def test_to_stderr(self, here):
        (here / "loop.py").write_text(textwrap.dedent(self.LOOP))
        done = execute(["-m", "pijit", "--report", "loop.py"], here, PIJIT_QUIET="1")
        assert (done.returncode, done.stdout) == (0, "done\n")
        lines = done.stderr.splitlines()
        assert re.match(
            r"pijit: the program took .*, and without pijit about .* (saved|lost) \(recording cost", lines[0]
        )
        assert lines[2].split() == ["calls", "recorded", "replayed", "in", "CPython", "saved", "function"]
        # Five calls to compare, or six where a clear loss is looked at again.
        saved = re.match(r" +20 +1 +(?:14 +5|13 +6) +(-?[0-9.]+ (us|ms)|about 0)  f \(loop.py:4\)$", lines[3])
        assert saved, lines[3]
        assert lines[4].split()[:5] == ["5", "1", "3", "1", "-"]  # a function that is gone by then
        assert lines[4].endswith("make.<locals>.<lambda> (loop.py:11)")
        text = next(row[2] for row in _core.tables()["aborts"] if row[0] == "PJ203")
        assert re.match(r" +[0-9.]+ (us|ms) +20  ", lines[-1]), lines[-1]
        assert lines[-1].endswith(f"  loop.py:5 in f(): stopped recording: {text}: _getframe(...) [PJ203]")

    def test_times(self, here):
        """What is saved, and what is lost: the reason that cost most comes first, not the one with most calls."""
        (here / "loop.py").write_text(
            textwrap.dedent("""
            import pijit, sys, time

            @pijit.jit
            def cheap(x):
                sys._getframe()
                return x
            @pijit.jit
            def dear(x):
                sys._getframe()
                until = time.thread_time() + 0.01
                while time.thread_time() < until:
                    pass
                return x
            @pijit.jit
            def sleeps(x):
                sys._getframe()
                time.sleep(0.01)
                return x
            @pijit.jit
            def counts(x):
                for i in range(300):
                    x = (x + i) % 1000
                return x
            for n in range(20):
                dear(1)
                sleeps(1)
            for n in range(200):
                cheap(1)
                counts(1)
        """)
        )
        done = execute(["-m", "pijit", "--report=report.json", "loop.py"], here, PIJIT_QUIET="1")
        assert (done.returncode, done.stderr) == (0, "")
        data = json.loads((here / "report.json").read_text())
        rows = {row["name"]: row for row in data["functions"]}
        assert rows["dear"]["seconds_lost"] >= 0.01 * rows["dear"]["replays"] > rows["cheap"]["seconds_lost"] > 0
        assert 0 < rows["sleeps"]["seconds_lost"] < 0.005 * rows["sleeps"]["replays"]  # the thread did not compute
        assert rows["counts"]["seconds_lost"] == 0 != rows["counts"]["seconds_saved"]
        assert rows["counts"]["compared"] == 4  # of 200 calls; two in each of two rounds
        assert rows["dear"]["compared"] in (2, 4)  # of 20 calls
        saved = sum(row["seconds_saved"] for row in rows.values())
        assert data["stats"]["seconds_saved"] == pytest.approx(saved)
        done = execute(["-m", "pijit", "--report", "loop.py"], here, PIJIT_QUIET="1")
        reasons = done.stderr.partition("reason")[2].splitlines()[1:]
        assert [name for line in reasons for name in ("dear", "cheap") if f" in {name}()" in line] == ["dear", "cheap"]

    def test_nothing_is_saved_twice(self, here):
        """Calls within one that is replayed are part of that: CPython would have run all of it."""
        (here / "loop.py").write_text(
            textwrap.dedent("""
            import pijit

            @pijit.jit
            def counts(x):
                for i in range(3000):
                    x = (x + i) % 1000
                return x
            @pijit.opaque
            def between(x):
                return counts(x)
            @pijit.jit
            def outer(x):
                return between(x) + 1
            for n in range(100):
                outer(1)
        """)
        )
        done = execute(["-m", "pijit", "--report=report.json", "loop.py"], here, PIJIT_QUIET="1")
        assert (done.returncode, done.stderr) == (0, "")
        rows = {row["name"]: row for row in json.loads((here / "report.json").read_text())["functions"]}
        assert rows["counts"]["replays"] > 50 < rows["outer"]["replays"]
        assert rows["counts"]["compared"] > 0 < rows["outer"]["compared"]
        assert rows["counts"]["seconds_saved"] == 0 != rows["outer"]["seconds_saved"]

    def test_in_full(self, here):
        (here / "loop.py").write_text(textwrap.dedent(self.LOOP))
        done = execute(["-m", "pijit", "--explain", "loop.py"], here, PIJIT_QUIET="1")
        assert "trace 0: " in done.stderr
        assert "what to try: Move the call out of the function" in done.stderr

    def test_to_files(self, here):
        (here / "loop.py").write_text(textwrap.dedent(self.LOOP))
        for file in ("report.txt", "report.json"):
            done = execute(["-m", "pijit", f"--report={file}", "loop.py"], here, PIJIT_QUIET="1")
            assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
        assert "(loop.py:4)" in (here / "report.txt").read_text()
        data = json.loads((here / "report.json").read_text())
        assert data["stats"]["replays"] in (17, 16)  # as in test_to_stderr
        assert [row["calls"] for row in data["functions"] if row["name"] == "f"] == [20]

    def test_nothing_to_report(self, here):
        (here / "empty.py").write_text("pass")
        assert (
            "nothing was recorded: no tensor framework" in execute(["-m", "pijit", "--report", "empty.py"], here).stderr
        )
        assert "switched off by PIJIT=0" in execute(["-m", "pijit", "--report", "empty.py"], here, PIJIT="0").stderr

    DECORATED = """
        import functools
        import pijit

        def twice(fn):
            @functools.wraps(fn)
            def wrapper(*args):
                return fn(*args), fn(*args)
            return wrapper

        @twice
        def step(x):
            return [x]

        class Base:
            def __call__(self, x):
                return self.forward(x)

        class Net(Base):
            def forward(self, x):
                return [x, x]

        step = pijit.jit(step)
        nets = [pijit.jit(Net()) for _ in range(3)]
        for _ in range(4):
            assert step(1) == ([1], [1])
            assert [net(2) for net in nets] == [[2, 2]] * 3
        for _ in range(4):
            pijit.jit(lambda: 3)()  # never replayed
            pijit.jit(lambda: 4)()
    """

    def test_names_places_and_folding(self, here):
        """By the user's own names, what is equal in one row, and what was not replayed in one line."""
        (here / "many.py").write_text(textwrap.dedent(self.DECORATED))
        done = execute(["-m", "pijit", "--report", "many.py"], here, PIJIT_QUIET="1")
        assert done.returncode == 0, done.stderr
        rows = [line.split() for line in done.stderr.splitlines()[3:6]]
        assert rows[0][:4] + rows[0][5:] == ["12", "3", "9", "0", "Net", "(many.py:20),", "3", "of", "them"]
        assert rows[1][:4] + rows[1][5:] == ["4", "1", "3", "0", "step", "(many.py:11)"]
        assert rows[2][:4] + rows[2][5:] == ["8", "8", "0", "0", "2", "functions", "without", "replays"]
        done = execute(["-m", "pijit", "--explain", "many.py"], here, PIJIT_QUIET="1")
        assert len(re.findall(r"<lambda> \(many\.py:\d+\), 4 of them", done.stderr)) == 2
        assert "functions without replays" not in done.stderr

    @pytest.mark.torch
    def test_a_decorated_function_that_is_found(self, here):
        (here / "found.py").write_text(
            textwrap.dedent("""
            import torch

            @torch.no_grad()
            def evaluate(x):
                return x + x

            x = torch.ones(3)
            for _ in range(12):
                assert evaluate(x).sum() == 6
        """)
        )
        done = execute(["-m", "pijit", "--report", "found.py"], here)
        assert done.returncode == 0, done.stderr
        assert re.search(r" evaluate \(found\.py:4\)$", done.stderr, re.MULTILINE), done.stderr

    def test_html(self, here):
        (here / "loop.py").write_text(textwrap.dedent(self.LOOP))
        for option in ("--report", "--explain"):
            done = execute(["-m", "pijit", f"{option}=report.html", "loop.py"], here, PIJIT_QUIET="1")
            assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
            page = (here / "report.html").read_text()
            assert page.startswith("<!DOCTYPE html>")
            assert page.rstrip().endswith("</html>")
            assert ">make.&lt;locals&gt;.&lt;lambda&gt;</b>" in page
            assert ("<summary>all " in page) is (option == "--explain")

    @pytest.mark.parametrize("file", ["no/such/report.txt", "."])
    def test_files_are_opened_before_the_program_runs(self, here, file):
        (here / "loop.py").write_text("print('runs')")
        done = execute(["-m", "pijit", f"--report={file}", "loop.py"], here)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"pijit: --report={file}: the report cannot be written there: ")
        assert "Traceback" not in done.stderr

    def test_the_program_may_go_elsewhere(self, here):
        (here / "moves.py").write_text("import os; os.chdir('sub'); print('moved')")
        done = execute(["-m", "pijit", "--report=report.txt", "moves.py"], here)
        assert (done.returncode, done.stdout) == (0, "moved\n")
        assert "pijit: nothing was recorded" in (here / "report.txt").read_text()

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            (["--report", "out.json", "loop.py"], "did you mean --report=out.json?"),
            (["--explain", "out.HTML", "-m", "loop"], "did you mean --explain=out.HTML?"),
            (["--report", "out.txt"], "did you mean --report=out.txt?"),
            (["--verify", "5", "loop.py"], "did you mean --verify=5?"),
            (["--report=", "loop.py"], "--report= needs the name of a file"),
            (["-c"], "-c needs code"),
        ],
    )
    def test_asks(self, here, arguments, says):
        (here / "loop.py").write_text("print('runs')")
        done = execute(["-m", "pijit", *arguments], here)
        assert (done.returncode, done.stdout) == (2, "")
        assert f"{says} (python -m pijit --help)" in done.stderr
        assert not (here / "out.json").exists()

    def test_report_of_code(self, here):
        code = textwrap.dedent(self.LOOP)
        done = execute(["-m", "pijit", "--report", "-c", code], here, PIJIT_QUIET="1")
        assert (done.returncode, done.stdout) == (0, "done\n")
        assert " f (<string>:4)" in done.stderr

    def test_forked_children_report_nothing(self, here):
        (here / "forks.py").write_text("import os\nif os.fork():\n    os.wait()\n")
        done = execute(["-m", "pijit", "--report", "forks.py"], here)
        assert done.stderr.count("pijit: nothing was recorded") == 1


class TestSubcommands:
    def run(self, *arguments, **environment):
        return execute(["-m", "pijit", *arguments], ROOT, **environment)

    @pytest.mark.parametrize("table", ["ops", "guards", "aborts", "options"])
    def test_tables(self, table):
        done = self.run(table)
        assert (done.returncode, done.stderr) == (0, "")
        for row in _core.tables()[table]:
            assert any(line.split()[0] == row[0] for line in done.stdout.splitlines()), row

    @pytest.mark.parametrize("row", [row for table in ("aborts", "left") for row in _core.tables()[table]])
    def test_every_code_has_a_page(self, row):
        code, name, text, advice = row
        page = tables.page(code)
        assert page.startswith(f"{code} {name}: {text}\n")
        assert f"What to try: {advice}" in " ".join(page.split())
        assert advice.endswith(".")
        assert not text.endswith(".")

    def test_codes_are_used_once(self):
        codes = [row[0] for table in ("aborts", "left") for row in _core.tables()[table]]
        assert len(set(codes)) == len(codes)
        assert all(re.fullmatch(r"PJ\d\d\d", code) for code in codes)

    def test_help_for_a_code(self):
        assert self.run("help", "pj203").stdout == tables.page("PJ203") + "\n"
        done = self.run("help", "PJ999")
        assert done.returncode == 2
        assert "there is no code PJ999; the nearest is PJ" in done.stderr

    def test_usage(self):
        done = self.run("--help")
        assert done.returncode == 0
        assert all(f"\n  {name} " in done.stdout for name in ("doctor", "env", "demo", "--report[=FILE]", "help"))
        assert self.run("--version").stdout == f"pijit {pijit.__version__}\n"

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            ([], "a script, -m module, -c code or a subcommand is needed"),
            (["--repot", "x.py"], "there is no option --repot; the nearest is --report"),
            (["--verfy", "x.py"], "there is no option --verfy; the nearest is --verify"),
            (["-m"], "-m needs the name of a module"),
            (["help"], "help takes one code, such as PJ203"),
        ],
    )
    def test_wrong(self, arguments, says):
        done = self.run(*arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == f"pijit: {says} (python -m pijit --help)\n"

    @pytest.mark.parametrize("name", commands.COMMANDS)
    def test_help_for_a_subcommand(self, name):
        for done in (self.run(name, "--help"), self.run("help", name)):
            assert (done.returncode, done.stderr) == (0, "")
            assert done.stdout.startswith(f"usage: python -m pijit {name} [-h]")
            assert commands.COMMANDS[name].doc.split()[0] in done.stdout

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            (["ops", "x"], "this subcommand takes no 'x' (python -m pijit ops --help)"),
            (["build", "--forse"], "takes no '--forse'; the nearest is --force (python -m pijit build --help)"),
            (["docter"], "there is no subcommand docter; the nearest is doctor"),
        ],
    )
    def test_wrong_subcommand(self, arguments, says):
        done = self.run(*arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert says in done.stderr

    @pytest.mark.torch  # it imports the frameworks that there are
    @pytest.mark.parametrize(("option", "value"), [("--verify", 1), ("--verify=5", 5), ("--verify=0", 0)])
    def test_verify(self, tmp_path, option, value):
        (tmp_path / "says.py").write_text("import pijit; print(pijit.config.verify)")
        done = execute(["-m", "pijit", option, "says.py"], tmp_path)
        assert (done.returncode, done.stdout) == (0, f"{value}\n")

    @pytest.mark.parametrize("value", ["often", "-1", ""])
    def test_verify_how_often(self, value):
        done = self.run(f"--verify={value}", "says.py")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("pijit: option 'verify' is a whole number (")
        assert done.stderr.endswith(f", not {value!r} (python -m pijit --help)\n")

    def test_env(self):
        done = self.run("env", PIJIT_MAX_NODES="12345")
        assert done.returncode == 0
        assert f"pijit: {pijit.__version__} (on)" in done.stdout
        assert "option: max_nodes = 12345" in done.stdout
        assert "variable: PIJIT_MAX_NODES=12345" in done.stdout

    @pytest.mark.torch
    def test_doctor(self):
        done = self.run("doctor")  # in a process of its own: it imports the frameworks that there are
        lines = done.stdout.splitlines()
        assert [line[4:].partition(":")[0] for line in lines if line[:4] in {"ok  ", "NOT "}] == [
            "Python",
            "system",
            "build",
            "switch",
            "adapters",
            "adapter of torch",
            "replay",
        ]
        wrong = [number for number, line in enumerate(lines) if line.startswith("NOT ")]
        assert done.returncode == (1 if wrong else 0)
        assert all(lines[number + 1].startswith("      mend: ") for number in wrong)
        assert "ok  replay: the example is replaying" in lines
        off = self.run("doctor", PIJIT="0")
        assert off.returncode == 1
        assert "NOT switch: off: PIJIT=0 in the environment\n      mend: unset PIJIT" in off.stdout

    @pytest.mark.torch
    def test_demo(self):
        done = self.run("demo")
        assert done.returncode == 0
        assert "results: the same, bit for bit" in done.stdout
        assert re.search(r"^replayed .* times as fast, with 1 trace$", done.stdout, re.MULTILINE)
        assert "def example(x):" in done.stdout


NAMED_AS_THE_LIBRARY = """
    import sys
    print(sys.path)
    import difflib
    print(difflib.__file__)
    import pathlib, queue
    print(queue.__file__, pathlib.Path("a"), sys.modules["ntpath"].__file__)
"""


class TestTheFolderOfTheProgram:
    """pijit imports nothing from it, and the program all that it would."""

    @pytest.mark.parametrize("arguments", [["main.py"], ["-m", "main"], ["-c", NAMED_AS_THE_LIBRARY], ["sub/main.py"]])
    @pytest.mark.parametrize("python", [(), ("-P",)])
    def test_its_files_take_no_place_in_pijit(self, tmp_path, arguments, python):
        folder = tmp_path / "sub" if arguments[0].startswith("sub") else tmp_path
        folder.mkdir(exist_ok=True)
        for name in ("nt", "queue", "difflib", "html"):
            (folder / f"{name}.py").write_text(f"print('the program has its own {name}')")
        (folder / "json").mkdir()  # no package, and the library has one
        (folder / "main.py").write_text(textwrap.dedent(NAMED_AS_THE_LIBRARY))
        arguments = [textwrap.dedent(each) for each in arguments]
        plain = same(tmp_path, *arguments, python=python)
        if not python and arguments[0] != "-m":
            assert plain.stdout.count("has its own") == 3

    @pytest.mark.parametrize("kind", ["json", "html", "txt"])
    def test_a_report_is_written_beside_such_files(self, tmp_path, kind):
        for name in ("html", "json", "difflib", "pathlib", "base64"):
            (tmp_path / f"{name}.py").write_text(f"raise SystemExit('the {name} of the program')")
        (tmp_path / "main.py").write_text("print('ran')")
        done = execute(["-m", "pijit", f"--report=out.{kind}", "main.py"], tmp_path)
        assert (done.returncode, done.stdout, done.stderr) == (0, "ran\n", "")
        assert (tmp_path / f"out.{kind}").read_text()
