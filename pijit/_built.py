"""Whether the native modules are there, and the command that builds or installs them anew."""

import importlib.util
import sys
from importlib.machinery import PathFinder
from pathlib import Path

INSTALL = "pip install --no-build-isolation ."
IN_PLACE = "make dev"

_PACKAGE = Path(__file__).parent
_SOURCE = _PACKAGE.parent


def reinstall() -> str:
    """The command that builds and installs pijit anew: from a directory, since no package index has it."""
    import shlex

    return f"pip install --no-build-isolation --force-reinstall --no-deps {shlex.quote(sources())}"


def sources() -> str:
    """The directory that pijit was installed from, with its sources; else words for it."""
    places = [_SOURCE, *_installed_from()]
    found = (place for place in places if (place / "CMakeLists.txt").is_file() and (place / "pijit").is_dir())
    return str(next(found, "PATH/TO/pijit"))


def _installed_from() -> list[Path]:
    """What the installer noted: a directory, or the wheel that lies somewhere below it."""
    import json
    from importlib.metadata import distributions
    from urllib.parse import unquote, urlsplit

    # Beside the package: `python -m pijit` has taken the current directory off the path.
    distribution = next(iter(distributions(name="pijit", path=[str(_SOURCE)])), None)
    try:
        noted = json.loads((distribution and distribution.read_text("direct_url.json")) or "{}")
    except (ValueError, OSError):
        return []
    parts = urlsplit(str(noted.get("url", "")))
    place = Path(unquote(parts.path))
    return [place, *place.parents] if parts.scheme == "file" else []


def missing() -> tuple[str, str]:
    """What is wrong with the native core, and the command that mends it; ("", "") if it is there."""
    if importlib.util.find_spec("pijit._core") is not None:
        return "", ""
    others = sorted(file.name for file in _PACKAGE.glob("_core.*.so"))
    python = f"Python {sys.version_info.major}.{sys.version_info.minor}"
    if others:
        return f"{_PACKAGE} was built for another Python ({', '.join(others)}), and this is {python}", reinstall()
    if not (_SOURCE / "CMakeLists.txt").is_file():
        return f"{_PACKAGE} has no native core (_core); the installation is not complete", reinstall()
    found = f"{_SOURCE} is the source directory of pijit, and nothing is built in it"
    if (other := _installed_elsewhere()) is not None:
        return f"{found}; pijit is installed in {other}, which this directory hides", f"cd {Path.home()}"
    return found, f"cd {_SOURCE} && {INSTALL}"


def missing_text() -> str:
    """The same as one text for an error, "" if the core is there."""
    found, mend = missing()
    if not found:
        return ""
    if mend.startswith("cd ") and "&&" not in mend:
        return f"{found}. Start Python in another directory, or build in place: {IN_PLACE}"
    if mend.endswith(INSTALL):
        return f"{found}. To install, type: {mend} (then leave this directory). To build in place: {IN_PLACE}"
    return f"{found}. To mend it, type: {mend}"


def _installed_elsewhere() -> Path | None:
    """Another directory on the path with a pijit that is built."""
    elsewhere = [entry for entry in sys.path if Path(entry or ".").resolve() != _SOURCE.resolve()]
    spec = PathFinder.find_spec("pijit", elsewhere)
    places = [] if spec is None else list(spec.submodule_search_locations or ())
    return next((Path(place) for place in places if PathFinder.find_spec("_core", [place]) is not None), None)
