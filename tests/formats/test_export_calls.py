"""`pijit.export` of functions and modules: they are called once, and what leaves does the same."""

import json

import pytest
import torch

import pijit
from pijit.errors import ExportError

pytestmark = pytest.mark.torch


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(4, 4)
        self.calls = 0

    def forward(self, x, *, scale, mask=None):
        self.calls += 1
        y = self.lin(x) * scale
        return y if mask is None else {"y": y.masked_fill(mask, 0.0), "rows": x.shape[0]}


@torch.no_grad()
def test_a_module_is_called_once():
    module = Scaled()
    x, mask = torch.randn(3, 4), torch.tensor([True, False, False, True])
    made = pijit.export(module, x, format="fx", kwargs={"scale": 2.0, "mask": mask})
    assert module.calls == 1
    for rows in (3, 5):
        x = torch.randn(rows, 4)
        given, expected = made(x, mask), module(x, scale=2.0, mask=mask)
        assert torch.equal(given["y"], expected["y"])
        assert given["rows"] == rows
        module.lin.weight.mul_(1.5)


@torch.no_grad()
def test_sizes_that_are_to_be_fixed():
    module, x = Scaled(), torch.randn(3, 4)
    free = json.loads(pijit.export(module, x, format="json", kwargs={"scale": 2.0}))
    fixed = json.loads(pijit.export(module, x, format="json", kwargs={"scale": 2.0}, dynamic=False))
    named = json.loads(pijit.export(module, x, format="json", kwargs={"scale": 2.0}, dynamic={"x": {0: "rows"}}))
    assert free["values"]["x"]["shape"] == ["x_0", 4]
    assert fixed["values"]["x"]["shape"] == [3, 4]
    assert named["values"]["x"]["shape"] == ["rows", 4]
    assert named["symbols"] == {"rows": 3}
    assert module.calls == 3


@torch.no_grad()
@pytest.mark.parametrize("format", ["json", "python", "fx", "exported_program"])
def test_every_format_of_a_function(format, tmp_path):
    table = torch.randn(5, 4)

    def look_up(ids, twice=False):
        y = table[ids].softmax(-1)
        y[0] = 7
        return [y * 2 if twice else y, (ids + 1).sum()]

    ids = torch.tensor([1, 4, 0])
    made = pijit.export(look_up, ids, True, format=format)
    path = pijit.export(look_up, ids, True, format=format, path=tmp_path / "look_up")
    assert path.stat().st_size
    functions = [made, made]
    if format == "json":
        functions = [pijit.graph.Graph.from_json(each).run for each in (made, path)]
    elif format == "python":
        namespaces = [{"__name__": "a"}, {"__name__": "b"}]
        exec(made, namespaces[0])
        exec(path.read_text(), namespaces[1])
        functions = [each["look_up"] for each in namespaces]
    elif format == "exported_program":
        with open(path, "rb") as file:
            functions = [made.module(), torch.export.load(file).module()]
    for inputs in (ids, torch.tensor([2, 3, 3]), torch.tensor([0, 0, 1, 4])):
        for function in functions:
            assert all(map(torch.equal, function(inputs), look_up(inputs, True)))


def test_what_is_split_names_the_users_line():
    def decides(x):
        if x.sum() > 0:
            return x + 1
        return x - 1

    for format in ("fx", "python", "exported_program"):
        with pytest.raises(ExportError, match=r"test_export_calls.py:\d+: the program decides on the data"):
            pijit.export(decides, torch.ones(3), format=format)
    assert "python::decision" in pijit.export(decides, torch.ones(3), format="json")


def test_what_the_function_raises_is_raised(tmp_path):
    def fails(x):
        raise KeyError("mine")

    for _ in range(2):
        with pytest.raises(KeyError, match="mine"):
            pijit.export(fails, torch.ones(3), format="json", path=tmp_path / "graph.json")
    assert not list(tmp_path.iterdir())
