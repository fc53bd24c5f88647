"""The example in the docstring of every public callable, run."""

import doctest
import inspect

import pytest

import pijit

FINDER = doctest.DocTestFinder(exclude_empty=True)
THINGS = {name: getattr(pijit, name) for name in pijit.__all__} | {"PijitError": pijit.errors.PijitError}
CASES = {
    test.name: test
    for name, thing in THINGS.items()
    if callable(thing)
    for test in FINDER.find(thing, f"pijit.{name}", globs={})
}
CASES |= {test.name: test for test in FINDER.find(type(pijit.config), "pijit.config", globs={})}
COMPILES = {"pijit.backends", "pijit.lazy", "pijit.region", "pijit.register_backend"}  # with graphs of torch


def needs_torch(test):
    return any("torch" in example.source for example in test.examples)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.torch] if name in COMPILES or needs_torch(test) else [])
        for name, test in CASES.items()
        if test.examples
    ],
)
def test_example(name):
    said = []
    doctest.DocTestRunner(optionflags=doctest.IGNORE_EXCEPTION_DETAIL).run(CASES[name], out=said.append)
    assert not said, "".join(said)


@pytest.mark.parametrize("name", [name for name, thing in THINGS.items() if callable(thing)])
def test_every_public_callable_has_an_example(name):
    assert CASES[f"pijit.{name}"].examples
    assert inspect.getdoc(THINGS[name])
