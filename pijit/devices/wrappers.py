"""The wrappers of modules that are of many processes or devices, for one.

`DataParallel` and `DistributedDataParallel` stay modules with the model inside: names of weights begin with "module.",
as those in checkpoints do. What FSDP wraps stays the module that it is, and gets a class that derives from its own:
under FSDP names of weights are those of the model.
"""

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

import torch

logger = logging.getLogger("pijit")


class DataParallel(torch.nn.Module):
    """A model under the name "module"."""

    def __init__(self, module: torch.nn.Module, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        self.module = module
        self.device_ids: list[int] = []
        self.output_device = None

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the model gives."""
        return self.module(*inputs, **kwargs)


class DistributedDataParallel(DataParallel):
    """The same; gradients are already those of all processes."""

    require_backward_grad_sync = True
    require_forward_param_sync = True

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """There is nobody to be in step with."""
        yield

    @contextlib.contextmanager
    def join(self, *args: Any, **kwargs: Any) -> Iterator[None]:
        """There is nobody to wait for."""
        yield

    def register_comm_hook(self, state: object, hook: object) -> None:
        """Nothing is communicated."""

    def _set_static_graph(self) -> None:
        """There is no reducer that would use it."""


def data_parallel(
    module: Any, inputs: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0, module_kwargs: Any = None
) -> Any:
    """What the module gives."""
    return module(*(inputs if isinstance(inputs, tuple) else (inputs,)), **(module_kwargs or {}))


def convert_sync_batchnorm(cls: type, module: torch.nn.Module, process_group: Any = None) -> torch.nn.Module:
    """The statistics of one process are those of all."""
    return module


def sync_batchnorm_forward(self: Any, input: torch.Tensor) -> torch.Tensor:
    """As the batch norm of one process."""
    self._check_input_dim(input)
    return torch.nn.modules.batchnorm._BatchNorm.forward(self, input)


class FSDPModule:
    """A module that `fully_shard` was given; nothing is sharded."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Made by `copy` and `pickle` only."""
        return object.__new__(cls)

    def unshard(self, async_op: bool = False) -> Any:
        """It is whole."""
        return contextlib.nullcontext() if not async_op else _Whole()

    def reshard(self) -> None:
        """It stays whole."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("set_") or name == "reset_iter_state":  # how and when it is communicated
            return _nothing
        return super().__getattr__(name)  # type: ignore[misc]


class _Whole:
    """What `unshard(async_op=True)` returns."""

    def wait(self) -> None:
        """It is whole."""


def _nothing(*args: Any, **kwargs: Any) -> None:
    return None


def _give_class(module: torch.nn.Module, base: type) -> None:
    kind = type(module)
    if not issubclass(kind, base):
        module.__class__ = type(f"FSDP{kind.__name__}", (base, kind), {"__module__": kind.__module__})


def fully_shard(module: Any, *args: Any, **kwargs: Any) -> Any:
    """The module, or the modules, with FSDP's methods."""
    _tell_precision(kwargs.get("mp_policy"))
    for each in module if isinstance(module, list | tuple) else [module]:
        _give_class(each, FSDPModule)
    return module


class FullyShardedDataParallel:
    """A module that was wrapped; nothing is sharded."""

    def __new__(cls, module: Any = None, *args: Any, **kwargs: Any) -> Any:
        """The module itself, with FSDP's methods; by `copy` and `pickle` an empty one."""
        if cls is not FullyShardedDataParallel:
            return object.__new__(cls)
        _tell_precision(kwargs.get("mixed_precision"))
        _give_class(module, FullyShardedDataParallel)
        return module

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """The module is there already."""

    @property
    def module(self) -> Any:
        """The module that was wrapped."""
        return self

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> torch.Tensor:
        """Of all gradients, which are here."""
        return torch.nn.utils.clip_grad_norm_(self.parameters(), max_norm, norm_type)  # type: ignore[attr-defined]

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """There is nobody to be in step with."""
        yield

    def register_comm_hook(self, state: object, hook: object) -> None:
        """Nothing is communicated."""

    def check_is_root(self) -> bool:
        """It is."""
        return True

    @staticmethod
    @contextlib.contextmanager
    def summon_full_params(*args: Any, **kwargs: Any) -> Iterator[None]:
        """They are whole."""
        yield

    @staticmethod
    @contextlib.contextmanager
    def state_dict_type(*args: Any, **kwargs: Any) -> Iterator[None]:
        """Each kind is the whole one."""
        yield

    @staticmethod
    def set_state_dict_type(*args: Any, **kwargs: Any) -> None:
        """Each kind is the whole one."""

    @staticmethod
    def fsdp_modules(module: torch.nn.Module, root_only: bool = False) -> list[Any]:
        """Those that were wrapped."""
        return [each for each in module.modules() if isinstance(each, FullyShardedDataParallel)]

    @staticmethod
    def optim_state_dict(model: Any, optim: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> Any:
        """The optimizer's own, which is whole."""
        return optim.state_dict()

    full_optim_state_dict = sharded_optim_state_dict = optim_state_dict

    @staticmethod
    def optim_state_dict_to_load(model: Any, optim: Any, optim_state_dict: Any, *args: Any, **kwargs: Any) -> Any:
        """It fits as it is."""
        return optim_state_dict


def _tell_precision(policy: Any) -> None:
    if getattr(policy, "param_dtype", None) is not None:
        logger.warning("pijit: FSDP's mixed precision (%s) is left out with its sharding", policy.param_dtype)
