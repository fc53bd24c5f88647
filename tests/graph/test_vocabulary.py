"""The table of the vocabulary: its patterns fit the schemas of torch, and calls go to a row and back."""

from __future__ import annotations

from typing import Any

import pytest

from pijit.graph import vocabulary
from pijit.graph.vocabulary import Pattern, called, neutral, row_of, rows

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

# Arguments that have no default and no meaning for the result.
WITHOUT_MEANING = {"benchmark", "deterministic", "cudnn_enabled", "allow_tf32", "stable", "stride", "compute_mode"}


def patterns_of(name: str) -> list[Pattern]:
    return [pattern for pattern in rows()[name].patterns if pattern.operator.startswith("aten::")]


def schema_of(operator: str) -> Any:
    name, _, overload = operator.partition(".")
    return torch._C._get_schema(name, overload)


def test_the_table_has_what_models_run() -> None:
    assert len(rows()) >= 200
    for name in (
        "aten::linear",
        "aten::add_.Tensor",
        "aten::native_layer_norm_backward",
        "aten::copy_",
        "tensor::size",
    ):
        assert row_of(name) is not None
    for name in ("aten::no_such_operator", "aten::__and__", "aten::_foreach_add.Scalar"):
        assert row_of(name) is None


def test_a_row_says_what_it_does() -> None:
    for row in rows().values():
        assert row.doc
        assert row.family
        assert len({each.name for each in row.parameters}) == len(row.parameters)
        assert row.signature.startswith(f"{row.name}(")
        required = [each.required for each in row.parameters]
        assert required == sorted(required, reverse=True)


@pytest.mark.parametrize("name", rows())
def test_patterns_fit_their_schemas(name: str) -> None:
    for pattern in patterns_of(name):
        fits(name, pattern)


def fits(name: str, pattern: Pattern) -> None:
    row = rows()[name]
    schema = schema_of(pattern.operator)
    assert len(pattern.slots) <= len(schema.arguments)
    named = [slot for slot in pattern.slots if slot is not None]
    assert len(set(named)) == len(named)
    assert set(named) <= {each.name for each in row.parameters}
    assert {each.name for each in row.parameters if each.required} <= set(named)
    for at, argument in enumerate(schema.arguments):
        if at >= len(pattern.slots):  # left at its default, which has to be nothing
            assert argument.has_default_value()
            assert argument.default_value in (None, False)
        elif pattern.slots[at] is None and at not in pattern.literals:
            assert argument.has_default_value() or argument.name in WITHOUT_MEANING


def arguments_of(operator: str, **values: Any) -> list[tuple[str, Any]]:
    """All arguments of a schema: those that are given, else defaults, else their names."""
    return [
        (each.name, values.get(each.name, each.default_value if each.has_default_value() else each.name))
        for each in schema_of(operator).arguments
    ]


@pytest.mark.parametrize("name", rows())
def test_a_call_goes_to_its_row_and_back(name: str) -> None:
    for pattern in patterns_of(name):
        goes_and_comes(name, pattern)


def goes_and_comes(row: str, pattern: Pattern) -> None:
    values = {each.name: ("given", at) for at, each in enumerate(schema_of(pattern.operator).arguments)}
    values |= {schema_of(pattern.operator).arguments[at].name: value for at, value in pattern.literals.items()}
    for at in range(len(pattern.slots), len(values)):
        del values[schema_of(pattern.operator).arguments[at].name]
    arguments = arguments_of(pattern.operator, **values)
    name, named = neutral(pattern.operator, arguments) or ("", {})
    assert name == row
    back = dict(called(pattern.operator, named))
    for at, (_, value) in enumerate(arguments[: len(pattern.slots)]):
        assert at not in back if pattern.slots[at] is None and at not in pattern.literals else back[at] == value


def test_defaults_are_left_out_and_come_back() -> None:
    plain = neutral("aten::add.Tensor", [("self", "a"), ("other", "b"), ("alpha", 1)])
    assert plain == ("add", {"x": "a", "y": "b"})
    assert dict(called("aten::add.Tensor", {"x": "a", "y": "b"})) == {0: "a", 1: "b", 2: 1}
    scaled = neutral("aten::add.Tensor", [("self", "a"), ("other", "b"), ("alpha", 2)])
    assert scaled == ("add", {"x": "a", "y": "b", "alpha": 2})
    summed = neutral("aten::sum.dim_IntList", [("self", "a"), ("dim", [1]), ("keepdim", True), ("dtype", None)])
    assert summed == ("sum", {"x": "a", "axis": [1], "keepdims": True})


def test_a_call_that_no_pattern_takes_is_foreign() -> None:
    softmax = [("self", "a"), ("dim", 1), ("half_to_float", False)]
    assert neutral("aten::_softmax", softmax) == ("softmax", {"x": "a", "axis": 1})
    assert neutral("aten::_softmax", [*softmax[:2], ("half_to_float", True)]) is None
    assert neutral("aten::_softmax", softmax) == ("softmax", {"x": "a", "axis": 1})
    assert neutral("aten::mm", [("self", "a"), ("mat2", "b")]) == ("matmul", {"x": "a", "y": "b"})
    assert neutral("aten::mm", [("self", "a"), ("mat2", "b"), ("more", 1)]) is None
    assert neutral("aten::grid_sampler", [("input", "a")]) is None


def test_one_operator_has_one_row() -> None:
    operators = [pattern.operator for row in rows().values() for pattern in row.patterns]
    assert len(set(operators)) == len(operators)
    assert vocabulary.row_of("aten::relu_") == vocabulary.row_of("aten::relu")
