"""The options: their values, their errors, and the environment."""

import inspect
import logging
import os
import subprocess
import sys

import pytest

import pijit
from pijit import _config
from pijit.errors import ConfigError


@pytest.fixture(autouse=True)
def _restored():
    before = {name: getattr(pijit.config, name) for name in pijit.config}
    yield
    pijit.config.update(before)


def test_set_and_get():
    for name in ("max_operations", "max_nodes"):
        setattr(pijit.config, name, 12)
        assert getattr(pijit.config, name) == 12
        assert f"{name} = 12" in repr(pijit.config)
    assert set(pijit.config) <= set(dir(pijit.config))


def test_unknown_options_name_the_nearest():
    with pytest.raises(ConfigError, match="no option 'max_node'; the nearest is 'max_nodes'"):
        pijit.config.max_node
    with pytest.raises(ConfigError, match="nearest is 'max_nodes'"):
        pijit.config.max_node = 1
    assert not hasattr(pijit.config, "_repr_html_")


@pytest.mark.parametrize("value", [0, -1, "x", 1.5, None, True, 2**63])
def test_wrong_values(value):
    before = pijit.config.max_nodes
    with pytest.raises(ConfigError, match="option 'max_nodes' is"):
        pijit.config.max_nodes = value
    assert pijit.config.max_nodes == before


def test_update_is_all_or_nothing():
    before = pijit.config.max_nodes
    with pytest.raises(ConfigError):
        pijit.config.update({"max_nodes": 3, "max_operations": "often"})
    assert pijit.config.max_nodes == before
    assert pijit.config.update({"max_nodes": 3}) == {"max_nodes": before}


def test_log_channels():
    pijit.config.log = "exits, record"
    assert pijit.config.log == "record,exits"
    pijit.config.log = ""
    assert pijit.config.log == ""
    with pytest.raises(ConfigError, match="no channel 'guard'; the nearest is 'guards'"):
        pijit.config.log = "guard"
    with pytest.raises(ConfigError, match="is text"):
        pijit.config.log = 3


def test_stress_words():
    pijit.config.stress = "observe"
    assert pijit.config.stress == "observe"
    pijit.config.stress = "observe, record-all"
    assert pijit.config.stress == "record-all,observe"
    pijit.config.stress = ""
    assert pijit.config.stress == ""
    with pytest.raises(ConfigError, match="no word 'record'; the nearest is 'record-all'"):
        pijit.config.stress = "record"
    with pytest.raises(ConfigError, match="words separated by commas"):
        pijit.config.stress = 1


def test_environment(caplog):
    environment = {
        "PIJIT_MAX_NODES": "321",
        "PIJIT_MAX_OPERATIONS": "5",
        "PIJIT_MAX_NODE": "1",
        "PIJIT_FAR_FETCHED": "1",
        "OTHER": "1",
    }
    with caplog.at_level(logging.WARNING, "pijit"):
        _config.read_environment(environment)
    assert (pijit.config.max_nodes, pijit.config.max_operations) == (321, 5)
    assert [record.getMessage() for record in caplog.records] == [
        "pijit: PIJIT_MAX_NODE in the environment is no option; the nearest is PIJIT_MAX_NODES"
    ]
    with pytest.raises(ConfigError, match="PIJIT_MAX_NODES is a whole number"):
        _config.read_environment({"PIJIT_MAX_NODES": "many"})


def test_flags():
    for given, kept in ((True, True), (False, False), ("yes", True), ("0", False), ("", False), ("On", True)):
        pijit.config.quiet = given
        assert pijit.config.quiet is kept
    for wrong in (1, "perhaps", None):
        with pytest.raises(ConfigError, match="option 'quiet' is True or False"):
            pijit.config.quiet = wrong


def test_every_option_is_declared_once():
    assert list(pijit.config) == list(_config.OPTIONS) == list(_config.Config.__annotations__)
    described = inspect.cleandoc(_config.Config.__doc__)  # as CPython 3.13 has it already
    for name, row in _config.OPTIONS.items():
        assert f"\n    {name}: " in described
        assert row.variable == f"PIJIT_{name.upper()}"
        assert row.doc


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[tool.pijit]\nmax_node = 3", r"\[tool\.pijit\] has no option 'max_node'; the nearest is 'max_nodes'"),
        ("[tool.pijit]\nmax_nodes = 'many'", r"\[tool\.pijit\] max_nodes is a whole number .*, not 'many'"),
        ("[tool.pijit]\nmax_nodes = 0", "max_nodes is at least 1"),
        ("[tool.pijit]\nquiet = 1", r"quiet is True or False"),
        ("[tool]\npijit = 3", "tool.pijit is a table, not 3"),
        ("[tool.pijit\nmax_nodes = 3", "cannot be read: "),
    ],
)
def test_wrong_projects(tmp_path, text, says):
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(ConfigError, match=says) as caught:
        _config.read_project(tmp_path)
    assert str(tmp_path / "pyproject.toml") in str(caught.value)


def test_the_nearest_project_counts(tmp_path):
    inner = tmp_path / "src" / "deep"
    inner.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text("[tool.pijit]\nmax_nodes = 77\nquiet = true\nlog = 'exits'\n")
    _config.read_project(inner)
    assert (pijit.config.max_nodes, pijit.config.quiet, pijit.config.log) == (77, True, "exits")
    (inner / "pyproject.toml").write_text("[tool.other]\n# not for pijit\n")
    pijit.config.max_nodes = 5
    _config.read_project(inner)
    assert pijit.config.max_nodes == 5


PRECEDENCE = """
import pijit
print(pijit.config.max_nodes, pijit.config.max_traces, pijit.config.max_operations)
with pijit.enabled(max_nodes=30):
    print(pijit.config.max_nodes)
    pijit.config.max_nodes = 40
    print(pijit.config.max_nodes)
print(pijit.config.max_nodes)
"""


def test_precedence(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.pijit]\nmax_nodes = 10\nmax_traces = 3\n")
    root = os.path.dirname(os.path.dirname(pijit.__file__))
    environment = {**os.environ, "PYTHONPATH": root, "PIJIT_MAX_NODES": "20"}
    done = subprocess.run(
        [sys.executable, "-c", PRECEDENCE], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["20", "3", "4000000", "30", "40", "20"]


def test_most_traces_of_a_function():
    pijit.config.max_traces = 2
    fast = pijit.jit(lambda key: {"a": 1, "b": 2, "c": 3}[key])
    assert [fast(key) for key in "abc"] == [1, 2, 3]
    assert len(pijit.traces(fast)) == 2
    assert [fast(key) for key in "abc"] == [1, 2, 3]  # what comes back gets one more
    assert len(pijit.traces(fast)) == 3


def test_environment_of_a_process():
    code = "import pijit; print(pijit.config.max_operations)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PIJIT_MAX_OPERATIONS": "4321"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "4321\n"


def test_type_checkers_know_every_option():
    """Tag: OPTION_TYPES."""
    known = inspect.get_annotations(_config.Options)
    assert list(known) == list(inspect.get_annotations(_config.Config)) == list(pijit.config)
    kinds = {name: type(getattr(pijit.config, name)).__name__ for name in known if name != "loops"}
    assert all(kind in str(known[name]) for name, kind in kinds.items())


@pytest.mark.parametrize("value", ["onnxruntim", ["xla", "onnxruntim"], "xla, nothing_like_it"])
def test_a_backend_that_is_not_there(value):
    with pytest.raises(ConfigError, match=r"option 'backend': no backend is called '.*there are auto, native, "):
        pijit.config.backend = value
    assert pijit.config.backend == "native"


def test_the_nearest_backend_is_named_and_registered_ones_are_known():
    with pytest.raises(ConfigError, match="no backend is called 'onnxruntim' .the nearest is 'onnxruntime'"):
        pijit.config.update({"backend": "onnxruntim"})
    with pytest.raises(ConfigError, match="it stands alone"):
        pijit.config.backend = ("auto", "xla")
    pijit.register_backend("of_a_test", lambda module, inputs: module)
    pijit.config.backend = "of_a_test"
    assert pijit.config.backend == "of_a_test"


WRONG = {
    "PIJIT_BACKEND": ("onnxruntim", "no backend is called 'onnxruntim' (the nearest is 'onnxruntime'; there are auto,"),
    "PIJIT_VERIFY": ("often", "PIJIT_VERIFY is a whole number"),
    "PIJIT_MAX_NODES": ("0", "PIJIT_MAX_NODES is at least 1"),
    "PIJIT_LOOPS": ("unrol", "PIJIT_LOOPS is one of 'unroll', 'auto', 'body', not 'unrol'; the nearest is 'unroll'"),
    "PIJIT_LOG": ("record,guard", "PIJIT_LOG has no channel 'guard'; the nearest is 'guards'"),
    "PIJIT_QUIET": ("ture", "PIJIT_QUIET is True or False"),
}


@pytest.mark.parametrize("variable", WRONG)
def test_what_is_wrong_in_the_environment_is_one_line_and_the_program_runs(variable, tmp_path):
    value, said = WRONG[variable]
    root = os.path.dirname(os.path.dirname(pijit.__file__))
    environment = {**os.environ, "PYTHONPATH": root, variable: value}
    command = [sys.executable, "-c", "import pijit; print(pijit.config.verify, pijit.config.backend)"]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "0 native\n")
    (line,) = done.stderr.splitlines()
    assert line.startswith("pijit: ")
    assert said in line
    assert line.endswith("; the default is kept")
    command = [sys.executable, "-m", "pijit", "-c", "print('runs')"]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert said in line


def test_what_is_wrong_in_pyproject_is_one_line(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.pijit]\nmax_nodes = 'many'\n")
    root = os.path.dirname(os.path.dirname(pijit.__file__))
    command = [sys.executable, "-c", "import pijit"]
    environment = {**os.environ, "PYTHONPATH": root}
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0
    (line,) = done.stderr.splitlines()
    assert "[tool.pijit] max_nodes is a whole number" in line
