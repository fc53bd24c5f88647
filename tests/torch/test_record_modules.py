"""Modules that are changed between two calls: state, hooks, submodules, methods and classes."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import side_by_side
import torch
from side_by_side import Jit, replayed
from straight_line import Scaled, data, mlp, thrice
from torch import Tensor, nn
from torch.nn import functional

pytestmark = pytest.mark.torch

TABLE = side_by_side.Table()
scenario = TABLE.add


@scenario()
def train_and_eval(jit: Jit) -> Iterator[Any]:
    model = jit(nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.BatchNorm1d(8)))
    x = data(1, 6, 4)
    yield from thrice(lambda: model(x))
    model.eval()
    yield from thrice(lambda: model(x))
    for _ in range(3):
        model.train()
        yield replayed(lambda: model(x))
        model.eval()
        yield replayed(lambda: model(x))
    model[1].train()
    yield lambda: model(x)
    yield replayed(lambda: model(x))


@scenario()
def batch_norm_statistics(jit: Jit) -> Iterator[Any]:
    model = nn.Sequential(nn.BatchNorm1d(4))
    model = jit(model)
    for seed in range(4):
        yield lambda: (model(data(seed)), model[0].running_mean, model[0].running_var, model[0].num_batches_tracked)
    yield lambda: model(data(1, 1, 4))
    yield lambda: (model(data(1)), model[0].running_mean, model[0].num_batches_tracked)
    model[0].reset_running_stats()
    model[0].momentum = None
    for seed in range(4):
        yield lambda: (model(data(seed)), model[0].running_mean, model[0].running_var, model[0].num_batches_tracked)


@scenario()
def dropout_draws(jit: Jit) -> Iterator[Any]:
    model = jit(nn.Sequential(nn.Linear(4, 50), nn.Dropout(0.3), nn.Dropout(0.3)))
    for _ in range(5):
        yield lambda: (model(data(1)), torch.rand(2))
    torch.manual_seed(7)
    yield replayed(lambda: (model(data(1)), torch.rand(2)))
    model[1].p = 0.9
    yield lambda: (model(data(1)), torch.rand(2))
    yield replayed(lambda: (model(data(1)), torch.rand(2)))
    model[1].p = 0.0
    yield lambda: (model(data(1)), torch.rand(2))


@scenario(whole=False)
def seeds_inside(jit: Jit) -> Iterator[Any]:
    def f(x: Tensor) -> Any:
        torch.manual_seed(3)
        a = torch.rand(2)
        return a, functional.dropout(x), torch.randn(2, generator=torch.Generator().manual_seed(5))

    f = jit(f)
    for _ in range(4):
        yield lambda: (f(data(1)), torch.rand(1))


@scenario(whole=False)
def generator_argument(jit: Jit) -> Iterator[Any]:
    f = jit(lambda x, g: x + torch.rand(4, generator=g))
    g, h = torch.Generator().manual_seed(1), torch.Generator().manual_seed(2)
    for chosen in (g, g, g, h, g, None, None, h):
        yield lambda: f(data(1), chosen)


def change(name: str, build: Any = mlp, bug: str = "") -> Any:
    """A scenario: three calls, a change of the model, and four calls."""

    def enter(mutate: Any) -> Any:
        def body(jit: Jit) -> Iterator[Any]:
            model = jit(build())
            x = data(1)
            yield from thrice(lambda: model(x))
            undo = mutate(model)
            for seed in (1, 2, 3, 1):
                yield lambda: model(data(seed))
            if callable(undo):
                undo()
                for seed in (1, 2, 3, 1):
                    yield lambda: model(data(seed))

        body.__name__ = name
        TABLE.add(bug=bug)(body)
        return mutate

    return enter


@change("parameter_replaced")
def _(model: Any) -> Any:
    model[0].weight = nn.Parameter(data(9, 8, 4))
    old = model[2].bias
    model[2].bias = None
    return lambda: setattr(model[2], "bias", old)


@change("parameter_of_other_shape")
def _(model: Any) -> Any:
    model[2].weight = nn.Parameter(data(9, 5, 8))
    model[2].bias = nn.Parameter(data(9, 5))


@change("parameter_of_wrong_shape")
def _(model: Any) -> Any:
    old = model[2].weight
    model[2].weight = nn.Parameter(data(9, 5, 7))
    return lambda: setattr(model[2], "weight", old)


@change("parameter_data_assigned")
def _(model: Any) -> Any:
    model[0].weight.data = data(9, 8, 4)
    model[0].bias.data = torch.zeros(8)


@change("parameter_data_of_other_shape")
def _(model: Any) -> Any:
    model[2].weight.data = data(9, 5, 8)
    model[2].bias.data = data(9, 5)


@change("parameter_data_of_other_dtype")
def _(model: Any) -> Any:
    old = model[2].weight.data
    model[2].weight.data = old.double()
    return lambda: setattr(model[2].weight, "data", old)


@change("parameter_data_of_other_strides")
def _(model: Any) -> Any:
    model[2].weight.data = model[2].weight.data.t().contiguous().t()


@change("parameter_written_in_place")
def _(model: Any) -> Any:
    with torch.no_grad():
        model[0].weight.mul_(2)
        model[2].bias.zero_()


@change("state_loaded")
def _(model: Any) -> Any:
    old = copy.deepcopy(model.state_dict())
    model.load_state_dict({name: value * 2 for name, value in old.items()})
    return lambda: model.load_state_dict(old)


@change("state_loaded_by_assignment")
def _(model: Any) -> Any:
    old = copy.deepcopy(model.state_dict())
    model.load_state_dict({name: value * 2 for name, value in old.items()}, assign=True)
    return lambda: model.load_state_dict(old, assign=True)


@change("module_to_double")
def _(model: Any) -> Any:
    model.double()
    return model.float


@change("module_to_bfloat16_and_back")
def _(model: Any) -> Any:
    model.to(torch.bfloat16).float()


@change("one_layer_to_double")
def _(model: Any) -> Any:
    model[2].double()
    return model[2].float


@change("grad_not_required")
def _(model: Any) -> Any:
    model.requires_grad_(False)
    return model.requires_grad_


@change("grad_of_one_not_required")
def _(model: Any) -> Any:
    model[2].weight.requires_grad_(False)
    return model[2].weight.requires_grad_


@change("tensors_swapped")
def _(model: Any) -> Any:
    torch.utils.swap_tensors(model[0].weight, nn.Parameter(data(9, 8, 4)))


@change("forward_hook")
def _(model: Any) -> Any:
    return model[1].register_forward_hook(lambda module, args, output: output + 1).remove


@change("forward_hook_on_the_root")
def _(model: Any) -> Any:
    return model.register_forward_hook(lambda module, args, output: (output, args[0])).remove


@change("forward_pre_hook")
def _(model: Any) -> Any:
    return model[0].register_forward_pre_hook(lambda module, args: (args[0] * 2,)).remove


@change("forward_hook_with_kwargs")
def _(model: Any) -> Any:
    hook = lambda module, args, kwargs, output: output * 3  # noqa: E731
    return model[2].register_forward_hook(hook, with_kwargs=True, always_call=True).remove


@change("forward_pre_hook_with_kwargs")
def _(model: Any) -> Any:
    hook = lambda module, args, kwargs: ((args[0] + 1,), kwargs)  # noqa: E731
    return model.register_forward_pre_hook(hook, with_kwargs=True, prepend=True).remove


@change("hook_that_raises")
def _(model: Any) -> Any:
    def hook(module: Any, args: Any, output: Any) -> None:
        raise ValueError("hook", tuple(output.shape))

    return model[1].register_forward_hook(hook).remove


@change("full_backward_hook")
def _(model: Any) -> Any:
    return model[1].register_full_backward_hook(lambda module, grad_in, grad_out: None).remove


@change("global_forward_hook")
def _(model: Any) -> Any:
    return nn.modules.module.register_module_forward_hook(lambda module, args, output: output + 1).remove


@change("global_forward_pre_hook")
def _(model: Any) -> Any:
    return nn.modules.module.register_module_forward_pre_hook(lambda module, args: (args[0] + 1,)).remove


@change("submodule_replaced")
def _(model: Any) -> Any:
    old = model[1]
    model[1] = nn.Tanh()
    return lambda: model.__setitem__(1, old)


@change("submodule_appended")
def _(model: Any) -> Any:
    model.append(nn.Sigmoid())
    return lambda: model.pop(3)


@change("submodule_deleted")
def _(model: Any) -> Any:
    del model[1]


@change("submodules_reordered")
def _(model: Any) -> Any:
    relu = model._modules.pop("1")
    model._modules["3"] = relu


@change("submodule_is_none")
def _(model: Any) -> Any:
    old = model[1]
    model._modules["1"] = None
    return lambda: model._modules.__setitem__("1", old)


@change("forward_of_the_instance")
def _(model: Any) -> Any:
    model[1].forward = lambda x: x * 5
    return lambda: delattr(model[1], "forward")


@change("forward_of_the_root")
def _(model: Any) -> Any:
    plain = model.forward
    model.forward = lambda input: plain(input) * 2
    return lambda: delattr(model, "forward")


@change("forward_of_the_class")
def _(model: Any) -> Any:
    plain = nn.ReLU.forward
    nn.ReLU.forward = lambda self, x: plain(self, x) - 1
    return lambda: setattr(nn.ReLU, "forward", plain)


@change("call_of_the_class")
def _(model: Any) -> Any:
    plain = nn.Module.__call__
    nn.ReLU.__call__ = lambda self, x: plain(self, x) - 1
    return lambda: delattr(nn.ReLU, "__call__")


@change("code_of_forward")
def _(model: Any) -> Any:
    plain = nn.ReLU.forward.__code__

    def forward(self, input):
        return F.relu(input) * 7  # noqa: F821

    nn.ReLU.forward.__code__ = forward.__code__
    return lambda: setattr(nn.ReLU.forward, "__code__", plain)


@change("functional_patched")
def _(model: Any) -> Any:
    plain = functional.relu
    functional.relu = lambda x, inplace=False: plain(x) + 2
    return lambda: setattr(functional, "relu", plain)


@change("operator_patched")
def _(model: Any) -> Any:
    plain = torch.relu
    torch.relu = lambda x: plain(x) + 2
    return lambda: setattr(torch, "relu", plain)


@change("class_of_an_instance")
def _(model: Any) -> Any:
    model[1].__class__ = nn.Tanh
    return lambda: setattr(model[1], "__class__", nn.ReLU)


@change("class_of_the_root")
def _(model: Any) -> Any:
    class Doubled(nn.Sequential):
        def forward(self, input: Tensor) -> Tensor:
            return super().forward(input) * 2

    model.__class__ = Doubled
    return lambda: setattr(model, "__class__", nn.Sequential)


@change("attribute_of_a_submodule")
def _(model: Any) -> Any:
    model[1].inplace = True
    return lambda: setattr(model[1], "inplace", False)


@change("class_attribute", Scaled)
def _(model: Any) -> Any:
    Scaled.factor = 3.0
    return lambda: setattr(Scaled, "factor", 2.0)


@change("instance_over_class_attribute", Scaled)
def _(model: Any) -> Any:
    model.factor = torch.tensor(5.0)
    return lambda: delattr(model, "factor")


@change("buffer_replaced", Scaled)
def _(model: Any) -> Any:
    model.shift = torch.zeros(3, dtype=torch.float64)
    return lambda: setattr(model, "shift", torch.zeros(3))


@change("buffer_written", Scaled)
def _(model: Any) -> Any:
    model.shift.mul_(7)


@change("module_turned_into_a_parameter", Scaled)
def _(model: Any) -> Any:
    model.linear = None
    return lambda: setattr(model, "linear", nn.Linear(4, 3))


@change("patched_getattr", Scaled)
def _(model: Any) -> Any:
    Scaled.__getattr__ = lambda self, name: nn.Module.__getattr__(self, name) if name != "shift" else 100
    return lambda: delattr(Scaled, "__getattr__")


@change("parametrized")
def _(model: Any) -> Any:
    class Twice(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * 2

    torch.nn.utils.parametrize.register_parametrization(model[0], "weight", Twice())
    return lambda: torch.nn.utils.parametrize.remove_parametrizations(model[0], "weight")


@change("weight_norm")
def _(model: Any) -> Any:
    torch.nn.utils.parametrizations.weight_norm(model[0])


@change("tied_parameters", lambda: nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)))
def _(model: Any) -> Any:
    model[2].weight = model[0].weight


@change("tensor_method_patched", lambda: nn.Sequential(nn.Flatten(0)))
def _(model: Any) -> Any:
    plain = Tensor.flatten
    Tensor.flatten = lambda self, *args: plain(self, *args) + 1
    return lambda: setattr(Tensor, "flatten", plain)


@scenario()
def functional_call(jit: Jit) -> Iterator[Any]:
    model = jit(mlp())
    yield from thrice(lambda: model(data(1)))
    state = {name: value.detach() * 2 for name, value in model.state_dict().items()}
    for _ in range(3):
        yield lambda: torch.func.functional_call(model, state, data(1))
    yield replayed(lambda: model(data(1)))


@scenario()
def two_instances(jit: Jit) -> Iterator[Any]:
    model, other = jit(mlp()), jit(mlp())
    for seed in range(4):
        yield lambda: model(data(seed))
        yield lambda: other(data(seed))


@scenario()
def shared_submodule(jit: Jit) -> Iterator[Any]:
    inner = nn.Linear(4, 4)
    model = jit(nn.Sequential(inner, nn.ReLU(), inner))
    yield from thrice(lambda: model(data(1)))
    inner.weight = nn.Parameter(data(5, 4, 4))
    yield lambda: model(data(1))
    yield lambda: model(data(1))


@pytest.mark.parametrize("name", TABLE.cases())
def test_same(name: str) -> None:
    TABLE.check(name, __file__)
