"""The files of the cache: whose they are, how they are written, and what becomes of damaged ones."""

from __future__ import annotations

import functools
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
import time
import zlib
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import processes
from processes import plain, run

from pijit import _core, _kept

pytest.importorskip("torch")
pytestmark = pytest.mark.torch

PROGRAM = """
@pijit.jit
def f(x):
    return x * 2 + 1, x.sum()


tell(f(torch.ones(3)), f(torch.ones(3)))
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with the traces of the program, which no test changes."""
    place = tmp_path_factory.mktemp("made") / "cache"
    assert run(PROGRAM, place)["records"] == 1
    return place


@pytest.fixture
def cache(made: Path, tmp_path: Path) -> Path:
    """A cache with the traces of the program."""
    return Path(shutil.copytree(made, tmp_path / "cache"))


@functools.cache
def expected() -> Any:
    """What plain Python gives."""
    return plain(PROGRAM, Path("none"))


def file_of(cache: Path) -> Path:
    """Its only file."""
    (found,) = cache.glob("*.pijit")
    return found


def check_miss(cache: Path) -> str:
    """The program gives what it should, records, and writes nothing to standard error but the log; the log."""
    told = run(PROGRAM, cache)
    assert told["results"] == expected()
    assert (told["records"], told["hits"]) == (1, 0), told["log"]
    assert "Traceback" not in told["log"]
    return told["log"]


def test_only_the_user_can_enter(cache: Path) -> None:
    """Directory and files are for nobody else, and a second process replays."""
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    assert stat.S_IMODE(file_of(cache).stat().st_mode) == 0o600
    assert run(PROGRAM, cache)["records"] == 0


def test_a_directory_that_others_may_enter_is_not_used(cache: Path) -> None:
    """Neither read nor written."""
    file_of(cache).rename(cache / "other")
    cache.chmod(0o755)
    assert "others may enter" in check_miss(cache)
    assert not list(cache.glob("*.pijit"))


def test_a_link_in_place_of_the_directory_is_not_used(cache: Path, tmp_path: Path) -> None:
    """Whoever made it may have made what it leads to."""
    link = tmp_path / "link"
    link.symlink_to(cache, target_is_directory=True)
    assert "is no directory" in check_miss(link)


def test_a_link_in_place_of_a_file_is_not_read(cache: Path, tmp_path: Path) -> None:
    """It is replaced by a file."""
    file = file_of(cache)
    other = tmp_path / "other"
    file.rename(other)
    file.symlink_to(other)
    check_miss(cache)
    assert not file.is_symlink()
    assert run(PROGRAM, cache)["records"] == 0


def test_a_file_that_others_may_write_is_not_read(cache: Path) -> None:
    """Whoever they are."""
    file_of(cache).chmod(0o622)
    assert "others may have written it" in check_miss(cache)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_of_another_user_is_not_read(cache: Path) -> None:
    """And a directory of another user is not used."""
    os.chown(file_of(cache), 12345, 12345)
    assert "others may have written it" in check_miss(cache)
    os.chown(cache, 12345, 12345)
    assert "belongs to another user" in check_miss(cache)


@pytest.mark.parametrize(
    "kind", ["empty", "half", "one byte less", "one byte more", "another byte", "noise", "old", "foreign"]
)
def test_damaged_files_are_misses(kind: str, cache: Path) -> None:
    """The call is recorded, and the file is whole afterwards."""
    file = file_of(cache)
    data = file.read_bytes()
    changed = bytearray(data)
    changed[len(data) // 2] ^= 1
    file.write_bytes(
        {
            "empty": b"",
            "half": data[: len(data) // 2],
            "one byte less": data[:-1],
            "one byte more": data + b"x",
            "another byte": bytes(changed),
            "noise": random.Random(0).randbytes(len(data)),
            "old": data.replace(b"pijit cache 2", b"pijit cache 1", 1),
            "foreign": data.replace(b'"pijit": "', b'"pijit": "9', 1),
        }[kind]
    )
    check_miss(cache)
    assert run(PROGRAM, cache)["records"] == 0


def test_a_directory_in_place_of_a_file_is_a_miss(cache: Path) -> None:
    """It cannot be replaced, and nothing else happens."""
    file = file_of(cache)
    file.unlink()
    file.mkdir()
    check_miss(cache)
    assert file.is_dir()
    assert not [each for each in cache.iterdir() if each.suffix == ".new"]


def test_a_pipe_in_place_of_a_file_is_a_miss(cache: Path) -> None:
    """Nobody waits for its other end."""
    file = file_of(cache)
    file.unlink()
    os.mkfifo(file)
    check_miss(cache)


def test_a_home_that_cannot_be_written_is_a_miss(tmp_path: Path) -> None:
    """Such as a place below a file."""
    (tmp_path / "file").write_text("")
    assert "cannot be made" in check_miss(tmp_path / "file" / "cache")


def test_a_full_disk_leaves_nothing(cache: Path) -> None:
    """A file may have no more bytes than the process is allowed."""
    file_of(cache).unlink()
    limit = (
        "import resource, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))\n"
    )
    told = run(limit + PROGRAM, cache)
    assert told["results"] == expected()
    assert "no traces are kept" in told["log"]
    assert sorted(each.name for each in cache.iterdir()) == ["last.json", "lock", "size"]  # of the first process


def test_a_process_that_writes_keeps_others_out(cache: Path) -> None:
    """They keep nothing, and do not wait."""
    file_of(cache).unlink()
    with _kept.locked(cache):
        assert "no traces are kept" in check_miss(cache)
    assert not list(cache.glob("*.pijit"))
    check_miss(cache)
    assert file_of(cache)


def test_two_processes_at_once(tmp_path: Path) -> None:
    """Whichever comes first writes a whole file."""
    cache = tmp_path / "cache"
    environment = {**os.environ, "PIJIT_CACHE_DIR": str(cache)}
    command = [sys.executable, "-c", processes.ALONE + PROGRAM]
    both = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) for _ in range(2)]
    assert [each.wait(timeout=300) for each in both] == [0, 0]
    assert run(PROGRAM, cache)["records"] == 0


def test_a_killed_process_leaves_nothing_that_is_read(cache: Path) -> None:
    """What it has begun to write has another name."""
    environment = {**os.environ, "PIJIT_CACHE_DIR": str(cache)}
    program = (
        processes.ALONE + PROGRAM.replace("x * 2", "x * 3") + "print('here', flush=True)\nimport time; time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    while "here" not in process.stdout.readline():
        pass
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=60)
    process.stdout.close()
    assert len(list(cache.glob("*.pijit"))) == 1
    assert run(PROGRAM, cache)["records"] == 0


# As if the time for a write had come.
KILLED = """
import _thread, functools, time
from pijit import _kept


@pijit.jit
def f(x):
    return x * 2 + 1, x.sum()


f(torch.ones(3))
_core.set_writer(functools.partial(_thread.start_new_thread, _kept.write, ()), 0.0)
results = [f(torch.ones(3)) for _ in range(2)], f(torch.ones(3).double())
until = time.monotonic() + 60
while config.cache and not [*_kept.directory().glob("*.pijit")] and time.monotonic() < until:
    time.sleep(0.05)
import threading
tell(results, threading.active_count())
sys.stdout.flush()
if END:
    os.kill(os.getpid(), 9)
"""


def test_a_thread_writes_while_the_program_runs(tmp_path: Path) -> None:
    """What a process has recorded is there when it is killed."""
    cache = tmp_path / "cache"
    environment = {**os.environ, "PIJIT_CACHE_DIR": str(cache)}
    program = processes.ALONE + "END = True\n" + KILLED
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    second = run("END = False\n" + KILLED, cache)
    assert second["results"] == plain("END = False\n" + KILLED, tmp_path / "other")
    assert second["records"] == 0


def test_what_was_left_half_written_goes(cache: Path) -> None:
    """After an hour: its process was killed."""
    old, new = cache / ".a.pijit.1.new", cache / ".b.pijit.2.new"
    for each in (old, new):
        each.write_text("half")
    for each in (old, cache / "size"):  # it is looked for once a day
        os.utime(each, (1, 1))
    run(PROGRAM.replace("x * 2", "x * 3"), cache)
    assert not old.exists()
    assert new.exists()


@pytest.mark.parametrize("size", [1, 10**6, 2**40])
def test_what_is_packed_says_how_large_it_is(size: int, tmp_path: Path) -> None:
    """No more than that is unpacked, and what has another size is damaged."""
    file = tmp_path / "file.pijit"
    heads = b'pijit cache 2\nenvironment {}\nroot {"function": "f"}\npacked '
    packed = zlib.compress(b"\0" * 10**6)
    file.write_bytes(heads + str(size).encode() + b"\n" + packed)
    assert _core.read_kept(str(file), "{}") == ([], "it is damaged")


def test_a_forked_child_writes_nothing(tmp_path: Path) -> None:
    """What it has was its parent's."""
    fork = (
        "\nif os.fork() == 0:\n    sys.exit()\nos.wait()\n"
        "assert not os.listdir(sys.modules['pijit._kept'].directory())\n"
    )
    program = PROGRAM.replace("tell(", "found = (").rstrip() + fork + "tell(found)\n"
    told = run(program, tmp_path / "cache")
    assert told["records"] == 1
    assert file_of(tmp_path / "cache")


def test_the_least_recently_used_files_go(cache: Path) -> None:
    """Until the others fit; reading counts as use."""
    first = file_of(cache)
    os.utime(first, (1, 1))
    second = PROGRAM.replace("x * 2", "x * 3")
    run(second, cache)
    (other,) = set(cache.glob("*.pijit")) - {first}
    os.utime(other, (2, 2))
    run(PROGRAM, cache)  # which uses the first one
    third = PROGRAM.replace("x * 2", "x * 4")
    run(third, cache, PIJIT_CACHE_LIMIT=str(first.stat().st_size * 5 // 2))
    assert first.exists()
    assert not other.exists()
    assert len(list(cache.glob("*.pijit"))) == 2


def test_what_was_read_and_used_is_not_written_again(cache: Path) -> None:
    """Its time says that it was used."""
    file = file_of(cache)
    os.utime(file, (1, 1))
    before = file.read_bytes()
    assert run(PROGRAM, cache)["records"] == 0
    assert file.read_bytes() == before
    assert time.time() - file.stat().st_mtime < 300


def test_reading_names_what_is_wrong(tmp_path: Path) -> None:
    """A file gives its texts, or a reason."""
    file = tmp_path / "file.pijit"
    assert _core.read_kept(str(file), "{}") == ([], "there is none")
    _kept.write_file(file, "{}", {"function": "f"}, ["one\n", "", "two"])
    assert _core.read_kept(str(file), "{}") == (["one\n", "", "two"], "")
    assert _core.read_kept(str(file), "{ }") == ([], "it is of another environment")
    file.write_bytes(file.read_bytes()[:-3] + b"two")
    assert _core.read_kept(str(file), "{}") == ([], "it is damaged")
