"""The programs of tests/record as rewritten functions: what can be observed is as in CPython, with a change in between.

A program is exported at its first call. Tracebacks are left out: the function stands in them, where the original is
called. So are programs that look at their own frames.
"""

import sys
from pathlib import Path

import pytest

import pijit
from pijit import _core, api
from pijit._formats import code
from pijit.errors import ExportError
from pijit.graph.build import capture

RECORD = str(Path(__file__).parents[1] / "record")
sys.path.insert(0, RECORD)
import observe  # noqa: E402
from small_programs import load_programs  # noqa: E402

OTHERS = {
    "own_defaults_changed": "the defaults are those of the export",
    "own_code_replaced": "asks for the function itself",
    "calls_jitted_function": "looks at the function itself",
    "logging_finds_its_caller": "looks at its caller",
    "locals_globals": "looks at the function itself",
    "variables_where_a_handler_calls_foreign_code": "looks at its frames",
}
PROGRAMS = [name for name, program in load_programs().items() if not program.flags - {"long"} and name not in OTHERS]


def without_traceback(describe, error):
    return f"({', '.join(map(describe, error.args))}) cause {type(error.__cause__)} context {type(error.__context__)}"


class Rewritten:
    """Exports a function at its first call, and gives what that call gave; afterwards calls what was made of it."""

    def __init__(self, function):
        self.function, self.made = function, None

    def __call__(self, *args, **kwargs):
        return self.first(args, kwargs) if self.made is None else self.made(*args, **kwargs)

    def first(self, args, kwargs):
        head = code._Head(self.function)
        caller, modes = head.caller(), code._modes()
        recorded = api.jit(caller)
        root = api.root_of(recorded)
        try:
            with capture.unlimited():
                result = recorded(*args, **kwargs)
            self.made = self.function
            if _core.root_report(root)["traces"]:
                try:
                    data, guards = _core.trace_data(root, 0), _core.guard_data(root, 0)
                    writer = code._Writer(head, caller, data, guards, {}, modes)
                    self.made = writer.function(exact=False, assume=False)
                except ExportError:
                    pass
            return result
        finally:
            _core.remove_root(root)


@pytest.mark.parametrize("name", PROGRAMS)
def test_same(name, monkeypatch):
    monkeypatch.setattr(observe.Describer, "error", without_traceback)
    program = load_programs()[name]
    made = []

    def rewritten(function):
        made.append(Rewritten(function))
        one = made[-1]
        return lambda *args, **kwargs: one(*args, **kwargs)

    expected = observe.run(program, observe.MODES[0]).entries
    assert observe.run(program, observe.MODES[0], rewritten).entries == expected


def test_most_are_rewritten():
    """Or the comparison would prove little."""
    count = 0
    for name in PROGRAMS[::10]:
        made = []
        observe.run(load_programs()[name], observe.MODES[0], lambda f, made=made: made.append(Rewritten(f)) or made[0])
        count += any(each.made is not None and hasattr(each.made, "__pijit_text__") for each in made)
    assert count > len(PROGRAMS[::10]) / 3
    pijit.disable()
