"""The command line: what stands before the program, and the subcommands.

Options end where the program begins, so that everything after it is the program's own. What an option takes stands
behind "=": a word of its own would be the program, but for --backend, which always takes one.
"""

import functools
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pijit import _core
from pijit._config import TROUBLE, config
from pijit._usage_errors import closest
from pijit._version import __version__
from pijit.errors import ConfigError, PijitError
from pijit.tools import program, tables

if TYPE_CHECKING:
    import argparse

USAGE = """\
usage: python -m pijit [options] script.py [arguments]
       python -m pijit [options] -m module [arguments]
       python -m pijit [options] -c code [arguments]
       python -m pijit subcommand

Runs an unmodified program under pijit.enable(), or one of the subcommands.

options:
  --backend NAME    compile segments with it (python -m pijit backends), several separated by commas, or auto
  --device NAME     run on this device (cpu, cuda) what was written for another (python -m pijit devices)
  --single-process  run in one process what was written for many
  --report[=FILE]   at the end, say what was recorded and replayed, what that saved, and why not; to stderr, or to
                    FILE (.json: as JSON, .html: as a page for a browser, .trace.json: as a trace that Perfetto and
                    chrome://tracing open)
  --explain[=FILE]  the same with the traces of each function and what to change
  --profile=FILE    at the end, write what was learnt of the program, for --use-profile=FILE of a later run: it records
                    nothing of what did not pay, and leaves open from the start what varied
  --verify[=N]      compare every N-th replay (each, if left out) with CPython, where it changes nothing
  --version         the version of pijit
  --help            this text

subcommands:
"""


# What the files of reports end in, and programs do not.
_REPORTS = (".json", ".html", ".htm", ".txt", ".md", ".log", ".out", ".csv")


_OPTIONS = (
    "--backend",
    "--device",
    "--single-process",
    "--report",
    "--explain",
    "--profile",
    "--use-profile",
    "--verify",
    "--version",
)


class _Wrong(Exception):
    """The command line cannot be understood; the second argument, if any, is the command that says more."""


class _Failed(Exception):
    """A subcommand cannot do its work."""


class _Command(NamedTuple):
    """A subcommand: what it does; its run, which gives the exit status; and the option or argument that it takes."""

    doc: str
    run: "Callable[[argparse.Namespace], int]"
    takes: str = ""
    about: str = ""  # what it takes

    def parser(self, name: str) -> "argparse.ArgumentParser":
        """What reads its words."""
        import argparse  # programs do not need it

        parser = argparse.ArgumentParser(f"python -m pijit {name}", description=self.doc, allow_abbrev=False)
        if self.takes.startswith("-"):
            parser.add_argument(self.takes, action="store_true", help=self.about)
        elif self.takes.endswith("..."):
            parser.add_argument(self.takes.removesuffix("..."), nargs="*", help=self.about)
        elif self.takes:
            parser.add_argument(self.takes, nargs="?", default="", help=self.about)
        return parser


def _subcommand(name: str, words: list[str]) -> int:
    """Run a subcommand; `--help` is argparse's."""
    command = COMMANDS[name]
    known, unknown = command.parser(name).parse_known_args(words)
    if unknown:
        near = _nearest(unknown[0], [*filter(None, [command.takes]), "--help"])
        raise _Wrong(f"this subcommand takes no {unknown[0]!r}{near}", f"python -m pijit {name} --help")
    return command.run(known)


def main(arguments: Sequence[str]) -> int:
    """Run what the command line says; the exit status."""
    try:
        if TROUBLE:
            raise _Wrong(TROUBLE[0])
        return _run(list(arguments))
    except _Wrong as error:
        print(f"pijit: {error.args[0]} ({(*error.args, 'python -m pijit --help')[1]})", file=sys.stderr)
        return 2
    except _Failed as error:
        print(f"pijit: {error} (python -m pijit doctor)", file=sys.stderr)
        return 1


def _run(rest: list[str]) -> int:
    asked: list[tuple[str, str | None]] = []  # reports
    device, single = "", False
    while rest and rest[0].startswith("-") and rest[0][:2] not in {"-m", "-c"}:
        option, equals, value = rest.pop(0).partition("=")
        if option in {"--report", "--explain"}:
            if equals and not value:
                raise _Wrong(f"{option}= needs the name of a file")
            _check_next(option, equals, rest, _is_report)
            asked.append((option, value if equals else None))
        elif option in {"--backend", "--device"}:
            if not equals and rest:  # it always has a value
                value = rest.pop(0)
            if not value:
                raise _Wrong(f"{option}= needs a name (python -m pijit {option[2:]}s)")
            if option == "--backend":
                _configure(option, value)
            device = value if option == "--device" else device
        elif option == "--single-process":
            single = True
        elif option in {"--profile", "--use-profile"}:
            _take_profile(option, value)
        elif option == "--verify":
            _check_next(option, equals, rest, str.isdecimal)
            _configure(option, value if equals else "1")
        elif option in {"--help", "-h"}:
            print(USAGE + "\n".join(f"  {name:16}  {command.doc}" for name, command in COMMANDS.items()))
            return 0
        elif option == "--version":
            print(f"pijit {__version__}")
            return 0
        else:
            raise _Wrong(f"there is no option {option}{_nearest(option, _OPTIONS)}")
    if not rest:
        raise _Wrong("a script, -m module, -c code or a subcommand is needed")
    if rest[0] in COMMANDS:
        return _subcommand(rest[0], rest[1:])
    if not os.path.exists(rest[0]) and (near := _nearest(rest[0], list(COMMANDS))):
        print(f"pijit: there is no subcommand {rest[0]}{near}", file=sys.stderr)
    run, what, rest = _program(rest)
    for option, file in asked:
        from pijit.tools import report_file

        try:
            report_file.at_exit(file, in_full=option == "--explain")
        except OSError as error:
            raise _Wrong(f"{option}={file}: the report cannot be written there: {error.strerror}") from None
    if not device and not single:
        run(what, rest)
        return 0
    from pijit import devices

    try:
        devices.check(device)
    except ConfigError as error:
        raise _Wrong(str(error)) from None
    run(what, rest, functools.partial(devices.move, device, single))
    return 0


def _take_profile(option: str, file: str) -> None:
    """Have a profile written at the end, or begin with one."""
    if not file:
        raise _Wrong(f"{option}= needs the name of a file")
    from pijit import _profile

    try:
        (_profile.at_exit if option == "--profile" else _profile.use)(file)
    except OSError as error:
        raise _Wrong(f"{option}={file}: the profile cannot be written there: {error.strerror}") from None
    except PijitError as error:
        raise _Wrong(f"{option}={file}: {error}") from None


def _program(rest: list[str]) -> tuple[Callable[..., None], str, list[str]]:
    """How the program is run, what it is, and its own arguments."""
    kind, joined = rest[0][:2], rest[0][2:]
    if kind not in {"-m", "-c"}:
        return program.run_script, rest[0], rest[1:]
    rest = rest[1:] if not joined else [joined, *rest[1:]]
    if not rest:
        raise _Wrong("-m needs the name of a module" if kind == "-m" else "-c needs code")
    return (program.run_module if kind == "-m" else program.run_code), rest[0], rest[1:]


def _check_next(option: str, equals: str, rest: list[str], is_value: Callable[[str], bool]) -> None:
    """Ask where the word behind an option looks like its value: it would be taken for the program."""
    if not equals and rest and is_value(rest[0]) and rest[0] not in COMMANDS:
        raise _Wrong(f"{rest[0]} stands where the program is expected; did you mean {option}={rest[0]}?")


def _is_report(word: str) -> bool:
    """The word ends as the file of a report does."""
    return word.lower().endswith(_REPORTS)


def _configure(option: str, value: str) -> None:
    try:
        setattr(config, option.removeprefix("--"), value)
    except ConfigError as error:
        raise _Wrong(str(error)) from None


def _nearest(word: str, words: Sequence[str]) -> str:
    near = closest(word, words)
    return f"; the nearest is {near}" if near else ""


def _show(make: Callable[[], str]) -> "Callable[[argparse.Namespace], int]":
    """A subcommand that prints a text."""

    def run(asked: "argparse.Namespace") -> int:
        try:
            text = make()
        except PijitError as error:
            raise _Failed(str(error)) from None
        print(text)
        return 0

    return run


def _devices() -> str:
    from pijit import devices

    return devices.listing()


def _environment() -> str:
    from pijit.tools import doctor

    return doctor.environment()


def _demo() -> str:
    from pijit.tools import doctor

    return doctor.demo()


def _backends() -> str:
    from pijit.compilers import backends

    return str(backends())


def _doctor(asked: "argparse.Namespace") -> int:
    from pijit.tools import doctor

    checks = doctor.checks()
    print("\n".join(map(str, checks)))
    return 0 if all(check.good for check in checks) else 1


def _build(asked: "argparse.Namespace") -> int:
    from pijit.tools import build

    return _show(lambda: build.build(asked.force))(asked)


def _cache(asked: "argparse.Namespace") -> int:
    from pijit.tools import kept

    try:
        text, status = kept.run(asked.what)
    except (PijitError, OSError) as error:
        raise _Failed(str(error)) from None
    print(text)
    return status


def _help(asked: "argparse.Namespace") -> int:
    if not asked.code:
        raise _Wrong("help takes one code, such as PJ203")
    if asked.code in COMMANDS:
        COMMANDS[asked.code].parser(asked.code).print_help()
        return 0
    code = asked.code.upper()
    try:
        print(tables.page(code))
    except KeyError:
        codes = [row[0] for table in ("left", "aborts") for row in _core.tables()[table]]
        raise _Wrong(f"there is no code {code}{_nearest(code, codes)}") from None
    return 0


COMMANDS = {
    "doctor": _Command("check that everything fits together, and say what mends it", _doctor),
    "build": _Command(
        "build and test an adapter for the installed torch, if pijit has none that fits",
        _build,
        "--force",
        "build it all the same",
    ),
    "cache": _Command(
        "the traces that are kept for later processes",
        _cache,
        "what...",
        "info, clear, verify, or explain and the name of a function",
    ),
    "env": _Command("versions, options and variables, to put into a bug report", _show(_environment)),
    "demo": _Command("a small model recorded and replayed, beside plain Python", _show(_demo)),
    "ops": _Command("the operations of a trace", _show(tables.ops)),
    "guards": _Command("what is checked before a trace is replayed", _show(tables.guards)),
    "aborts": _Command("why recordings stop, and why functions are left to CPython", _show(tables.aborts)),
    "passes": _Command("what simplifies a graph before it is compiled", _show(tables.passes)),
    "backends": _Command("the compilers, and what makes them usable", _show(_backends)),
    "devices": _Command("what --device and --single-process change", _show(_devices)),
    "options": _Command("the options of pijit.config, their variables and values", _show(tables.options)),
    "help": _Command("what a code in a message means, and what to try", _help, "code", "such as PJ203"),
}
