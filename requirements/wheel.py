"""Builds the wheel of this tree for the Python that runs it and its torch, or takes the one that was built before.

    python requirements/wheel.py BUILD [CMAKE.NAME=VALUE ...]

1. Wheels are kept in the user's cache under a key of all that goes into one: the sources, Python, torch, the compiler
   and the options. A second clone or environment, and a tree that is as it was, compile nothing.
2. The wheel is copied into BUILD/wheels, so that what is installed from there leads back to its sources.
3. A compilation shows how far it is: on a terminal in one line that changes, elsewhere a line now and then.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KEPT = 6  # wheels in the cache
TOOLS = ("scikit-build-core", "pybind11", "cmake", "ninja")
STEP = re.compile(r"^\s*\[(\d+)/(\d+)\]")
# Of one processor, the link included: 190 for 190 files, as measured once.
SECONDS_A_FILE = 1.0


def main(build: Path, options: list[str]) -> Path:
    """The wheel, in BUILD/wheels."""
    place = cache() / key(options)
    wheel = next(place.glob("*.whl"), None) if place.is_dir() else None
    if wheel is None:
        wheel = keep(made(build, options), place)
    else:
        say(f"pijit: {wheel.name} was built of these sources before ({place})")
        os.utime(place)
    target = build / "wheels"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    return Path(shutil.copy(wheel, target))


def cache() -> Path:
    """Where wheels are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pijit" / "wheels"


def key(options: list[str]) -> str:
    """All that goes into a wheel, as one number."""
    made = hashlib.sha256()
    for file in sorted(sources()):
        made.update(f"{file.relative_to(ROOT)}\0".encode())
        made.update(file.read_bytes())
    facts = [sys.version, sysconfig.get_config_var("SOABI"), *compiler(), *torches(), *options]
    facts += [f"{name} {version(name)}" for name in TOOLS]
    facts += [f"{name}={os.environ.get(name, '')}" for name in ("CXXFLAGS", "LDFLAGS", "CMAKE_ARGS")]
    made.update("\0".join(map(str, facts)).encode())
    return made.hexdigest()[:32]


def sources() -> Iterator[Path]:
    """The files of which a wheel is made."""
    yield from (ROOT / name for name in ("CMakeLists.txt", "pyproject.toml", "README.md", "LICENSE"))
    yield from (path for path in (ROOT / "csrc").rglob("*") if path.is_file())
    yield from (path for path in (ROOT / "pijit").rglob("*") if path.suffix in {".py", ".pyi", ".typed"})


def compiler() -> list[str]:
    """The compiler and its version."""
    command = os.environ.get("CXX") or "c++"
    try:
        told = subprocess.run([*command.split(), "--version"], capture_output=True, text=True, check=False).stdout
    except OSError:  # CMake says what is missing
        told = ""
    return [command, *told.splitlines()[:1]]


def torches() -> list[str]:
    """The torches for which there will be adapters."""
    reads = [sys.executable, "-P", str(ROOT / "pijit" / "_torches.py")]
    return [subprocess.run(reads, capture_output=True, text=True, check=False).stdout]


def made(build: Path, options: list[str]) -> Path:
    """A wheel that is built now."""
    files = sum(file.suffix == ".cpp" for file in sources())
    jobs = int(os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL", "1"))
    minutes = max(1, round(files * SECONDS_A_FILE / jobs / 60))
    say(f"pijit: compiling {files} files, {jobs} at a time: about {minutes} min the first time, less with ccache")
    target = Path(tempfile.mkdtemp(prefix="pijit-wheel-"))
    command = [sys.executable, "-m", "pip", "wheel", "-v", "--no-build-isolation", "--no-deps", "-w", str(target)]
    command += ["-C", f"build-dir={build}", *(word for option in options for word in ("-C", f"cmake.define.{option}"))]
    start = time.monotonic()
    run([*command, str(ROOT)])
    say(f"pijit: built in {time.monotonic() - start:.0f} s")
    return next(target.glob("*.whl"))


def run(command: list[str]) -> None:
    """Run it, showing how far it is; all that it printed where it fails."""
    lines: list[str] = []
    live, told, start = sys.stderr.isatty(), 0.0, time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            step = STEP.match(line)
            if step is None or step[1] == "0":  # ninja looks for new files before it builds
                continue
            done, count, now = int(step[1]), int(step[2]), time.monotonic()
            left = (now - start) * (count - done) / done
            text = (
                f"pijit: {done} of {count} files, about {left / 60:.0f} min to go" if done < count else "pijit: linked"
            )
            if live:
                print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
            elif now - told > 30 or done == count:
                told = now
                say(text)
    if live:
        print("\r\033[K", end="", file=sys.stderr, flush=True)
    if process.returncode != 0:
        print("".join(lines[-200:]), file=sys.stderr)
        sys.exit("pijit: the build failed; above are its last lines")


def keep(wheel: Path, place: Path) -> Path:
    """Put a wheel into the cache, whole or not at all, and take the oldest out."""
    place.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(dir=place.parent))
    shutil.move(wheel, beside)
    wheel.parent.rmdir()
    try:
        beside.rename(place)
    except OSError:  # another process was faster
        shutil.rmtree(beside)
    kept = sorted((each for each in place.parent.iterdir() if each.is_dir()), key=lambda each: -each.stat().st_mtime)
    for old in kept[KEPT:]:
        shutil.rmtree(old, ignore_errors=True)
    return next(place.glob("*.whl"))


def say(text: str) -> None:
    """For people; standard output has the name of the wheel alone."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    print(main(Path(sys.argv[1]).resolve(), sys.argv[2:]))
