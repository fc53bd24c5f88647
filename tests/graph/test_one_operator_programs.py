"""Programs of one operator go right in every format, or are refused with the operator and the line; none goes wrong."""

from __future__ import annotations

import re
import warnings

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnxruntime")
from one_operator_programs import GROUPS, OUTSIDE, PROGRAMS, verdict  # noqa: E402

pytestmark = pytest.mark.torch

# Decisions on what a function that has no row makes of a size.
_DECISIONS = (
    *("math.factorial(x.shape[0]) > 10", "len(str(x.shape[0])) > 1"),
    *("str(x.shape[0]) == '5'", "math.gcd(x.shape[0], 5) in (5, 10)", "hash(x.shape[0]) == 5"),
)
# Programs that are no one graph of operators: data decides, numbers leave torch, or CPython does it alone.
REFUSED = {
    *OUTSIDE[""],
    "x + math.factorial(x.shape[0])",
    *(f"x * 2 if {test} else x" for test in _DECISIONS),
    *("max(x[0])", "min(w)", "max(z, z * 2)"),
    *(text for _, text in PROGRAMS if "a.__setitem__" in text),  # a size in an array
    "collections.namedtuple('P', 'a b')(x, y).a",
}


@pytest.mark.parametrize("group", GROUPS)
def test_no_program_of_a_sample_goes_wrong(group: str) -> None:
    check([text for each, text in PROGRAMS[::5] if each == group])


@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS)
def test_no_program_goes_wrong(group: str) -> None:
    check([text for each, text in PROGRAMS if each == group])


def check(programs: list[str]) -> None:
    wrong, refused = {}, set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for text in programs:
            found = verdict(text)
            bad = {name: said for name, said in found.items() if said.startswith(("wrong", "error", "invalid"))}
            if bad:
                wrong[text] = bad
            for said in found.values():
                if said.startswith("refused"):
                    assert ":1" in said, (text, said)
                    assert not re.search("run runs|pybind11", said), (text, said)
            if found.get("fx", "").startswith("refused"):
                refused.add(text)
    assert not wrong
    assert refused <= REFUSED


@pytest.mark.parametrize("format", OUTSIDE)
def test_what_is_outside_of_a_format_is_refused(format: str) -> None:
    """The table of the page is true, and has programs of the list alone."""
    assert OUTSIDE[format].keys() <= {text for _, text in PROGRAMS}
    formats = ("fx", "onnx") if not format else (format,)
    for text in OUTSIDE[format]:
        for said in verdict(text, formats).values():
            assert said.startswith("refused")


def test_few_programs_are_refused() -> None:
    assert len(REFUSED) < 0.05 * len(PROGRAMS)
