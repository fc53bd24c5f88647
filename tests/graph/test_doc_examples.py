"""The examples in the docstrings of the classes and functions of `pijit.graph`, run."""

from __future__ import annotations

import doctest

import pytest

import pijit.graph

FINDER = doctest.DocTestFinder(exclude_empty=True)
CASES = {
    test.name: test
    for name in pijit.graph.__all__
    if isinstance(thing := getattr(pijit.graph, name), type) or callable(thing)
    for test in FINDER.find(thing, f"pijit.graph.{name}", globs={})
    if test.examples
}


@pytest.mark.parametrize("name", CASES)
def test_example(name: str) -> None:
    said: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.IGNORE_EXCEPTION_DETAIL).run(CASES[name], out=said.append)
    assert not said, "".join(said)


@pytest.mark.parametrize("name", ["capture", "Graph.to_json", "Graph.from_json", "Graph.to_svg", "Token"])
def test_what_a_user_calls_has_an_example(name: str) -> None:
    assert f"pijit.graph.{name}" in CASES
