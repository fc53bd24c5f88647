"""What cannot hold on one CPython: tests that are not run there, and why. docs/versions.md has the table."""

from __future__ import annotations

import sys

_AUDITS = "filelock has an audit hook in Python, and the format cannot hold that no more come"
_SPECIALISED = "a load that CPython has specialised asks no key of the same hash; a replay does as before that"
_COLLECTS = "CPython collects garbage between two instructions; a replay does where it has called back into Python"
_ANNOTATIONS = "to read the annotations of a class changes it: TorchScript does, and what was recorded is made anew"
_FROM_312 = {
    "formats/test_code.py::test_a_small_bert": _AUDITS,
    "formats/test_training_steps.py::test_code": _AUDITS,
    "record/test_guards_values.py::test_colliding_loud_key[attribute]": _SPECIALISED,
    "record/test_lifetime.py::test_nothing_is_collected_between_arguments_and_call": _COLLECTS,
}

# CPython -> test, from tests/ on, with its parameters, for all of them, or a module -> reason
DIFFERS: dict[str, dict[str, str]] = {
    "3.12": _FROM_312,
    "3.13": _FROM_312,
    "3.14": {
        **{test: why for test, why in _FROM_312.items() if why is _AUDITS},
        "compilers/test_market.py::test_a_report_sums_up_the_market": _ANNOTATIONS,
        "compilers/test_market.py::test_a_report_of_the_market_as_json_and_html": _ANNOTATIONS,
        "compilers/test_market.py::test_explain_shows_the_contenders": _ANNOTATIONS,
    },
}


def reason(nodeid: str) -> str | None:
    """Why this test is not run on this CPython; None: it is."""
    rows = DIFFERS.get(f"{sys.version_info.major}.{sys.version_info.minor}", {})
    test = nodeid.rpartition("tests/")[2]
    return rows.get(test) or rows.get(test.partition("[")[0]) or rows.get(test.partition("::")[0])
