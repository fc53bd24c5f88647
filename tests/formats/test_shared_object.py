"""Machine code of a whole graph, loaded where there is no pijit, by the loaders that the README shows."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import pijit
from pijit.errors import ExportError, UsageError

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(not shutil.which("c++"), reason="needs a C++ compiler"),
]

README = (Path(__file__).parents[2] / "README.md").read_text().partition("The format `shared_object`")[2]
_, EXPORT, PYTHON, IREE, *_ = README.split("```python\n")
CPP = PYTHON.partition("```cpp\n")[2].partition("```")[0]
PROJECT = """
cmake_minimum_required(VERSION 3.18)
project(loader LANGUAGES CXX)
find_package(Torch REQUIRED)
add_executable(loader loader.cpp)
target_compile_features(loader PRIVATE cxx_std_20)
target_link_libraries(loader PRIVATE ${TORCH_LIBRARIES})
"""
# No module of pijit is found.
ALONE = """
import sys


class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "pijit":
            raise ImportError(name)


sys.meta_path.insert(0, Nothing())
"""


def net() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.Tanh())


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the README exports."""
    place = tmp_path_factory.mktemp("shared")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        exec(EXPORT.partition("```")[0], {"torch": torch, "pijit": pijit, "net": net()})
    return place / "net.pt2"


def python(text: str, file: Path) -> Any:
    """What the loader prints in a process without pijit."""
    done = subprocess.run(
        [sys.executable, "-c", ALONE + text, str(file)], cwd=file.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return torch.tensor(eval(done.stdout))


def test_the_loader_in_python(package: Path) -> None:
    """With other sizes than those of the export."""
    text = PYTHON.partition("```")[0]
    assert len(text.splitlines()) <= 20
    torch.testing.assert_close(python(text, package), net()(torch.ones(5, 8)).detach())


@pytest.mark.skipif(not shutil.which("cmake"), reason="needs cmake")
def test_the_loader_in_cpp(package: Path, tmp_path: Path) -> None:
    """The same."""
    assert len(CPP.splitlines()) <= 20
    (tmp_path / "loader.cpp").write_text(CPP)
    (tmp_path / "CMakeLists.txt").write_text(PROJECT)
    prefix = f"-DCMAKE_PREFIX_PATH={torch.utils.cmake_prefix_path}"
    for command in (["cmake", "-S", ".", "-B", "build", prefix], ["cmake", "--build", "build"]):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    done = subprocess.run([tmp_path / "build" / "loader", package], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = [[float(word) for word in line.split()] for line in done.stdout.splitlines()]
    torch.testing.assert_close(torch.tensor(rows), net()(torch.ones(5, 8)).detach(), rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(importlib.util.find_spec("iree") is None, reason="needs IREE")
def test_the_module_of_iree(tmp_path: Path) -> None:
    """With the sizes of the export."""
    file = tmp_path / "net.vmfb"
    pijit.export(net(), torch.ones(2, 8), format="shared_object", backend="iree", path=file)
    torch.testing.assert_close(python(IREE.partition("```")[0], file), net()(torch.ones(2, 8)).detach())


def keeps_structure(x: torch.Tensor, y: torch.Tensor) -> dict[str, Any]:
    return {"sum": x + y, "both": (x * 2, y.relu())}


def test_structure_and_dtypes(tmp_path: Path) -> None:
    """Results are those of the call, as it gives them."""
    x, y = torch.arange(6.0).reshape(2, 3), torch.linspace(-1, 1, 6, dtype=torch.float64).reshape(2, 3)
    file = pijit.export(keeps_structure, x, y, format="shared_object", path=tmp_path / "made.pt2")
    loaded = torch._inductor.aoti_load_package(str(file))
    for given in ((x, y), (x[:, :2] + 1, y[:, :2] - 3)):
        torch.testing.assert_close(loaded(*(each.contiguous() for each in given)), keeps_structure(*given))


def decides(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.sum() > 0 else x - 1


def test_what_it_does_not_take() -> None:
    """The error has the line."""
    with pytest.raises(ExportError, match="cannot check how the program decides here"):
        pijit.export(decides, torch.ones(2), format="shared_object", decisions="assume")


def test_another_backend_is_refused() -> None:
    """With those that there are."""
    with pytest.raises(UsageError, match="backend='inductor' or backend='iree'"):
        pijit.export(net(), torch.ones(2, 8), format="shared_object", backend="other")
