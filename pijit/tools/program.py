"""Runs a program as `python` itself would, under `pijit.enable()`.

1. The program gets a `__main__` module of its own, which stays in place to the end of the process: threads, exit
   handlers and pickles look for it there.
2. An exception that nobody catches goes on to CPython, which calls `sys.excepthook` and chooses the exit status; only
   the frames of this file are taken out of its traceback.
3. Modules, directories and archives are run by runpy, as `python` does.
"""

import builtins
import io
import linecache
import os
import pkgutil
import runpy
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import BuiltinImporter, SourceFileLoader, SourcelessFileLoader
from types import CodeType, ModuleType, TracebackType

from pijit import _kept, _path
from pijit._config import config
from pijit._switch import enable

_Run = Callable[[], object]
Begin = Callable[[str], None]


def _nothing(text: str) -> None:
    """What is done between `enable()` and the first line of a program with this text, if nothing was asked for."""


def run_script(path: str, arguments: Sequence[str], begin: Begin = _nothing) -> None:
    """`python path arguments`: a file, or a directory or archive with a `__main__`."""
    sys.argv = [path, *arguments]
    file = _absolute(path)
    if pkgutil.get_importer(file) is not None:
        _path.give(file, first=True)
        _fresh_main()
        return _under_pijit(lambda: runpy._run_module_as_main("__main__", alter_argv=False), lambda: begin(""))  # type: ignore[attr-defined]
    _path.give(os.path.dirname(os.path.realpath(path)))
    module = _fresh_main()
    compiled = path.endswith(".pyc")
    loader = (SourcelessFileLoader if compiled else SourceFileLoader)("__main__", file)
    vars(module).update(__file__=file, __cached__=None, __loader__=loader)
    try:
        code = _code_of(file)
    except OSError as error:
        print(f"{sys.orig_argv[0]}: can't open file {file!r}: [Errno {error.errno}] {error.strerror}", file=sys.stderr)
        sys.exit(2)
    except BaseException as error:
        _hide(error, None)
        raise
    return _under_pijit(lambda: exec(code, vars(module)), lambda: begin(_text(file)))


def _code_of(file: str) -> CodeType:
    """As `python file` finds it: compiled already, whatever the name, or source."""
    with io.open_code(file) as stream:
        code: CodeType | None = pkgutil.read_code(stream)
    if code is not None:
        return code
    with io.open_code(file) as stream:
        made: CodeType = compile(stream.read(), file, "exec")
    return made


def run_module(name: str, arguments: Sequence[str], begin: Begin = _nothing) -> None:
    """`python -m name arguments`."""
    sys.argv = ["-m", *arguments]
    _path.give(os.getcwd())
    _fresh_main()
    _under_pijit(lambda: runpy._run_module_as_main(name), lambda: begin(""))  # type: ignore[attr-defined]


def run_code(text: str, arguments: Sequence[str], begin: Begin = _nothing) -> None:
    """`python -c text arguments`."""
    sys.argv = ["-c", *arguments]
    _path.give("")
    module = _fresh_main()
    vars(module).update(__loader__=BuiltinImporter)
    try:
        code = compile(f"{text}\n", "<string>", "exec", dont_inherit=True)
    except BaseException as error:
        _hide(error, None)
        raise
    _keep_source(code, f"{text}\n")
    _under_pijit(lambda: exec(code, vars(module)), lambda: begin(text))


def _keep_source(code: CodeType, text: str) -> None:
    """As CPython does from 3.13 on, whose tracebacks have the lines of `-c`: by name at first, then by code object."""
    keep = getattr(linecache, "_register_code", None)
    if keep is not None:
        by_code = hasattr(linecache, "_interactive_cache")
        keep(code if by_code else code.co_filename, text, code.co_filename)


def _text(file: str) -> str:
    """What is written there, as far as it can be read."""
    with open(file, encoding="utf-8", errors="replace") as stream:
        return stream.read()


def _under_pijit(run: _Run, begin: Callable[[], None]) -> None:
    _kept.by_default()
    enable()
    begin()
    try:
        run()
    except SystemExit:
        raise
    except BaseException as error:
        traceback = error.__traceback__
        while traceback is not None and traceback.tb_frame.f_globals is globals():
            traceback = traceback.tb_next
        _hide(error, traceback)
        raise


def _hide(error: BaseException, traceback: TracebackType | None) -> None:
    """Have the uncaught exception shown with this traceback, by whatever the program has put into `sys.excepthook`."""
    if config.debug:
        return
    shown = sys.excepthook

    def show(kind: type[BaseException], value: BaseException, whole: TracebackType | None) -> None:
        sys.excepthook = shown
        if value is error:
            value.__traceback__ = whole = sys.last_traceback = traceback
        shown(kind, value, whole)

    sys.excepthook = show


def _fresh_main() -> ModuleType:
    """A `__main__` as CPython makes it."""
    module = ModuleType("__main__")
    annotations = {"__annotations__": dict[str, object]()} if sys.version_info < (3, 14) else {}
    vars(module).update(annotations, __builtins__=builtins)
    sys.modules["__main__"] = module
    return module


def _absolute(path: str) -> str:
    """As CPython makes the path of a script absolute: without normalising it."""
    return os.getcwd() if path == "." else os.path.join(os.getcwd(), path)
