"""Attaches the adapter of a tensor framework, imported before pijit or after it, and never imports a framework itself.

A framework that is there already is attached at the first use of pijit. For the others a finder waits on
`sys.meta_path`: it finds nothing itself, it only has the framework's own loader tell when it is done, and leaves when
nobody is waited for.

A framework for which there is no adapter, or one that says that it does not fit, is refused: one line says why and what
to type, and everything runs in plain Python from then on. An adapter that is broken is a warning where the framework is
imported, since `import torch` must not fail on our account, and an `AdapterError` at the next use of pijit.
"""

import logging
import os
import sys
import threading
from collections.abc import Callable
from types import ModuleType

from pijit import _adapter_choice, _built, _core
from pijit._adapter_choice import BUILD, Choice
from pijit._on_import import Finder
from pijit.errors import AdapterError

logger = logging.getLogger("pijit")

# Framework, and what chooses the module of its adapter, which has attach() and built_against().
ADAPTERS: dict[str, Callable[[ModuleType], Choice]] = {"torch": _adapter_choice.choose}

_attaching = threading.RLock()
_attached: set[str] = set()
_failed: dict[str, str] = {}  # broken adapters
_refused: dict[str, str] = {}  # no adapter, or none that fits: everything runs in plain Python
_modules: dict[str, ModuleType] = {}  # the adapters that are attached
_when_refused: list[Callable[[], None]] = []
_when_attached: list[Callable[[], None]] = []


def tell_library() -> None:
    """Tell the core whose files are not the user's: places in messages are looked for in others."""
    frameworks = (sys.modules[framework].__file__ for framework in sorted(_attached))
    files = [os.__file__, __file__, *(file for file in frameworks if file)]
    _core.set_library([os.path.join(os.path.dirname(file), "") for file in files])


def attached() -> bool:
    """Whether there is a framework whose operators are seen."""
    return bool(_attached)


def module(framework: str) -> ModuleType | None:
    """The adapter of a framework, if it is attached."""
    return _modules.get(framework)


def refused() -> str:
    """Why everything runs in plain Python, for people; "": it does not."""
    return next(iter(_refused.values()), "")


def when_refused(call: Callable[[], None]) -> None:
    """What is called when a framework is refused."""
    _when_refused.append(call)


def when_attached(call: Callable[[], None]) -> None:
    """What is called when a framework is attached."""
    _when_attached.append(call)


def ensure() -> None:
    """Attach what is imported, wait for what is not; `AdapterError` for an adapter that is broken."""
    for framework in ADAPTERS.keys() - _attached - _refused.keys():
        if framework not in _failed and _is_imported(framework):
            _attach(framework)
        if framework in _failed:
            raise AdapterError(_failed[framework])
    _watch_or_leave()


def _is_imported(framework: str) -> bool:
    module = sys.modules.get(framework)
    return module is not None and not getattr(module.__spec__, "_initializing", False)


def _attach(framework: str) -> None:
    with _attaching:
        if _is_open(framework):
            _load_and_attach(framework)


def _is_open(framework: str) -> bool:
    """Nothing is known yet of the framework's adapter."""
    return framework not in _attached and framework not in _failed and framework not in _refused


def _load_and_attach(framework: str) -> None:
    version = getattr(sys.modules[framework], "__version__", "of unknown version")
    choice = ADAPTERS[framework](sys.modules[framework])
    if not choice.module:
        return _refuse(framework, choice.why_none)
    mend = f"run: {_built.reinstall() if choice.file is None else BUILD}"
    try:
        adapter = _adapter_choice.load(choice)
    except ImportError as error:
        _failed[framework] = f"pijit's adapter does not load with {framework} {version} ({error}); {mend}"
        return None
    try:
        adapter.attach()
    except RuntimeError as error:
        return _refuse(framework, f"the adapter does not fit {framework} {version}: {error}")
    except ImportError as error:
        built = adapter.built_against()
        cause = f"was built against {framework} {built}, and does not attach to {version} ({error})"
        _failed[framework] = f"pijit's adapter {cause}; {mend}"
        return None
    _modules[framework] = adapter
    _attached.add(framework)
    tell_library()
    for call in _when_attached:
        call()
    return None


def _refuse(framework: str, why: str) -> None:
    """Everything runs in plain Python from now on; said once."""
    _refused[framework] = f"{why}; everything runs in plain Python; to build an adapter, run: {BUILD}"
    logger.warning("pijit: %s", _refused[framework])
    for call in _when_refused:
        call()


def _attach_on_import(framework: str) -> None:
    """The framework was imported just now: attach, or warn."""
    if not _is_open(framework):
        return
    _attach(framework)
    _watch_or_leave()
    if framework in _failed:
        logger.warning("pijit: %s", _failed[framework])


def _watch_or_leave() -> None:
    waiting = bool(ADAPTERS.keys() - _attached - _failed.keys() - _refused.keys())
    watching = _finder in sys.meta_path
    if waiting and not watching:
        sys.meta_path.insert(0, _finder)
    elif watching and not waiting:
        sys.meta_path.remove(_finder)


class _Finder(Finder):
    """Waits for frameworks; one whose loader does not report is attached by the next use of pijit."""

    def __init__(self) -> None:
        super().__init__(lambda name: name in ADAPTERS, _attach_on_import)


_finder = _Finder()
