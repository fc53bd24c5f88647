"""The exceptions: one family, each by its public name."""

import pickle

import pytest

import pijit

NAMES = ("PijitError", "UsageError", "ConfigError", "AdapterError", "StrictError", "BackendError", "CacheError")


@pytest.mark.parametrize("name", NAMES)
def test_family(name):
    kind = getattr(pijit.errors, name)
    assert issubclass(kind, pijit.errors.PijitError)
    assert issubclass(kind, Exception)
    assert kind.__doc__
    assert str(pickle.loads(pickle.dumps(kind("what and where")))) == "what and where"
