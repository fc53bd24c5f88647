"""A whole training step in each format: the graph of the third step, run on the next batches beside plain steps."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

import pijit
from pijit.errors import ExportError
from pijit.graph import Graph

pytestmark = pytest.mark.torch


def momentum(model):
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def adamw(model):
    return torch.optim.AdamW(model.parameters(), lr=0.01)


class Training:
    """A model with its optimizer after three steps, the third of which was exported, and an equal pair."""

    def __init__(self, make, form, **options):
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
        self.optimizer = make(self.model)
        self.batches = [(torch.randn(5, 8), torch.randint(0, 4, (5,))) for _ in range(6)]
        model, optimizer = self.model, self.optimizer

        def step(x, y):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss.detach()

        for batch in self.batches[:2]:
            step(*batch)
        self.made = pijit.export(step, *self.batches[2], format=form, **options)
        self.plain = copy.deepcopy(self.model)
        self.plain_optimizer = make(self.plain)
        self.plain_optimizer.load_state_dict(copy.deepcopy(self.optimizer.state_dict()))
        for mine, theirs in zip(self.plain.parameters(), self.model.parameters(), strict=True):
            mine.grad = theirs.grad.clone()

    def copied(self):
        """With a plain pair of its own."""
        made = copy.copy(self)
        made.plain = copy.deepcopy(self.plain)
        made.plain_optimizer = type(self.plain_optimizer)(made.plain.parameters(), lr=0.1)
        made.plain_optimizer.load_state_dict(copy.deepcopy(self.plain_optimizer.state_dict()))
        return made

    def plain_step(self, x, y):
        self.plain_optimizer.zero_grad(set_to_none=False)
        loss = nn.functional.cross_entropy(self.plain(x), y)
        loss.backward()
        self.plain_optimizer.step()
        return loss.detach()

    def state(self, model, optimizer):
        found = dict(model.named_parameters())
        for name, parameter in model.named_parameters():
            found[f"{name}.grad"] = parameter.grad
            held = optimizer.state[parameter]
            found |= {f"{name}.{key}": each for key, each in held.items() if isinstance(each, torch.Tensor)}
        return found

    def check_state(self):
        """The model, its gradients and the state of its optimizer have the bits of the plain pair's."""
        mine, theirs = self.state(self.model, self.optimizer), self.state(self.plain, self.plain_optimizer)
        assert mine.keys() == theirs.keys()
        for name, tensor in mine.items():
            assert torch.equal(tensor, theirs[name]), name

    def check_updates(self, updates, tolerance):
        """By the paths of parameters what the step leaves in them."""
        for name, parameter in self.plain.named_parameters():
            given = torch.from_numpy(np.array(updates[f"model.{name}.updated"]))
            torch.testing.assert_close(given, parameter.detach(), rtol=tolerance, atol=tolerance)


MAKES = pytest.mark.parametrize("make", [momentum, adamw])


@MAKES
@pytest.mark.parametrize("form", ["fx", "exported_program"])
def test_formats_that_write_to_the_model(make, form):
    training = Training(make, form)
    run = training.made if form == "fx" else training.made.module()
    for batch in training.batches[3:]:
        assert torch.equal(run(*batch), training.plain_step(*batch))
        training.check_state()


@MAKES
@pytest.mark.parametrize("form", ["json", "python"])
def test_formats_with_tensors_of_their_own(make, form):
    training = Training(make, form)
    before = copy.deepcopy(training.model.state_dict())
    if form == "json":
        run = Graph.from_json(training.made).run
    else:
        namespace = {}
        exec(training.made, namespace)  # noqa: S102
        run = namespace["step"]
    for batch in training.batches[3:]:  # each relies on what the one before has left
        assert torch.equal(run(*batch), training.plain_step(*batch))
    assert all(torch.equal(before[name], each) for name, each in training.model.state_dict().items())


@MAKES
def test_onnx(make):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    training = Training(make, "onnx")
    session = runtime.InferenceSession(training.made.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_outputs()]
    for batch in training.batches[3:5]:
        fresh = training.copied()
        expected = fresh.plain_step(*batch)
        given = dict(zip((each.name for each in session.get_inputs()), map(np.asarray, batch), strict=True))
        found = dict(zip(names, session.run(None, given), strict=True))
        torch.testing.assert_close(torch.from_numpy(found[names[0]]), expected, rtol=1e-4, atol=1e-4)
        fresh.check_updates(found, 1e-4)


@MAKES
def test_stablehlo(make):
    pytest.importorskip("jax")
    from test_stablehlo import compiled

    training = Training(make, "stablehlo")
    run = compiled(training.made)
    for batch in training.batches[3:5]:
        fresh = training.copied()
        expected = fresh.plain_step(*batch)
        found = run(**dict(zip(("x", "y"), batch, strict=True)))
        torch.testing.assert_close(torch.from_numpy(np.array(found["output"])), expected, rtol=1e-4, atol=1e-4)
        fresh.check_updates(found, 1e-4)


@MAKES
def test_code(make):
    """What the engine's call may have changed is looked at again: behind a write there is no way back."""
    with pytest.raises(ExportError, match=r"test_training_steps.py:\d+: .*decisions='assume'"):
        Training(make, "code")
    training = Training(make, "code", decisions="assume")
    for batch in training.batches[3:]:
        assert torch.equal(training.made(*batch), training.plain_step(*batch))
        training.check_state()
