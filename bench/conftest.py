"""What all benchmarks share: the models of examples/, one thread, and no hook but where a benchmark asks for pijit; and
the report of guards at the end.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import pijit
from pijit import _core

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "examples")]
torch.set_num_threads(1)


@pytest.fixture(params=["BERT", "GPT-2", "Llama"])
def model(request: pytest.FixtureRequest) -> torch.nn.Module:
    """A fresh transformer, called often enough for CPython and torch to have settled."""
    import models

    built = models.MODELS[request.param]()
    with torch.no_grad():
        for _ in range(10):
            built(models.input_ids())
    return built


@pytest.fixture
def tokens() -> torch.Tensor:
    """The argument of a transformer."""
    import models

    return models.input_ids()


@pytest.fixture(autouse=True)
def _without_pijit() -> Iterator[None]:
    """With any hook CPython calls Python functions in a slower way, which a plain call is not to pay for."""
    yield
    pijit.reset()
    if _core.hook_installed():
        _core.hook_remove()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Guards of each model, with and without constant propagation, beside those of TorchDynamo."""
    import report

    session = getattr(config, "_benchmarksession", None)
    rows = [bench.extra_info["guards"] for bench in getattr(session, "benchmarks", ()) if "guards" in bench.extra_info]
    if rows:
        terminalreporter.section("guards")
        terminalreporter.write_line(report.table(rows))
