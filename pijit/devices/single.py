"""A program that was written for many processes, in one: its process group, its collectives, and what starts processes.

The process group is real: gloo, of one process, whose store is in this process. What asks for ranks, groups and meshes
is answered by torch itself. Collectives are not sent to it: among one process each is a copy, or nothing.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any

# What torchrun sets for each process.
VARIABLES = {
    "RANK": "0",
    "LOCAL_RANK": "0",
    "GROUP_RANK": "0",
    "WORLD_SIZE": "1",
    "LOCAL_WORLD_SIZE": "1",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "29500",
}


def set_variables() -> None:
    """The environment is that of the only process that torchrun would start."""
    os.environ.update(VARIABLES)


class Done:
    """What an asynchronous collective returns: it is done."""

    def wait(self, timeout: Any = None) -> bool:
        """At once."""
        return True

    def is_completed(self) -> bool:
        """It is."""
        return True

    def is_success(self) -> bool:
        """It is."""
        return True

    def exception(self) -> None:
        """There is none."""


def init_process_group(original: Callable[..., None]) -> Callable[..., None]:
    """The group of one process, whatever backend, address, size and rank are asked for."""

    def init_process_group(*args: Any, **kwargs: Any) -> None:
        from torch._C._distributed_c10d import HashStore

        original("gloo", rank=0, world_size=1, store=HashStore())

    return init_process_group


def new_group(original: Callable[..., Any]) -> Callable[..., Any]:
    """A group of this process."""

    def new_group(*args: Any, **kwargs: Any) -> Any:
        return original([0])

    return new_group


def init_device_mesh(original: Callable[..., Any]) -> Callable[..., Any]:
    """A mesh of as many dimensions, each of size 1."""

    def init_device_mesh(device_type: str, mesh_shape: Sequence[int], *args: Any, **kwargs: Any) -> Any:
        return original(device_type, (1,) * len(mesh_shape), *args, **kwargs)

    return init_device_mesh


def _after(async_op: bool) -> Done | None:
    return Done() if async_op else None


def _copy(to: Any, source: Any) -> None:
    to.detach().view(source.shape).copy_(source.detach())


def all_reduce(tensor: Any, op: Any = None, group: Any = None, async_op: bool = False) -> Done | None:
    """Sum, mean, least and most of one are this one."""
    return _after(async_op)


def reduce(
    tensor: Any, dst: Any = None, op: Any = None, group: Any = None, async_op: bool = False, **kwargs: Any
) -> Any:
    """As `all_reduce`."""
    return _after(async_op)


def broadcast(tensor: Any, src: Any = None, group: Any = None, async_op: bool = False, **kwargs: Any) -> Any:
    """It is here."""
    return _after(async_op)


def barrier(group: Any = None, async_op: bool = False, *args: Any, **kwargs: Any) -> Any:
    """Nobody is waited for."""
    return _after(async_op)


def monitored_barrier(*args: Any, **kwargs: Any) -> None:
    """Nobody is waited for."""


def all_gather(tensor_list: list[Any], tensor: Any, group: Any = None, async_op: bool = False) -> Done | None:
    """The only one."""
    _copy(tensor_list[0], tensor)
    return _after(async_op)


def all_gather_into_tensor(output_tensor: Any, input_tensor: Any, group: Any = None, async_op: bool = False) -> Any:
    """The only one."""
    _copy(output_tensor, input_tensor)
    return _after(async_op)


def reduce_scatter(
    output: Any, input_list: list[Any], op: Any = None, group: Any = None, async_op: bool = False
) -> Any:
    """The only part."""
    _copy(output, input_list[0])
    return _after(async_op)


def reduce_scatter_tensor(output: Any, input: Any, op: Any = None, group: Any = None, async_op: bool = False) -> Any:
    """The only part."""
    _copy(output, input)
    return _after(async_op)


def gather(
    tensor: Any, gather_list: Any = None, dst: Any = None, group: Any = None, async_op: bool = False, **kwargs: Any
) -> Any:
    """The only one."""
    if gather_list:
        _copy(gather_list[0], tensor)
    return _after(async_op)


def scatter(
    tensor: Any, scatter_list: Any = None, src: Any = None, group: Any = None, async_op: bool = False, **kwargs: Any
) -> Any:
    """The only part."""
    if scatter_list:
        _copy(tensor, scatter_list[0])
    return _after(async_op)


def all_to_all(
    output_tensor_list: list[Any], input_tensor_list: list[Any], group: Any = None, async_op: bool = False
) -> Any:
    """From this process to itself."""
    _copy(output_tensor_list[0], input_tensor_list[0])
    return _after(async_op)


def all_to_all_single(
    output: Any,
    input: Any,
    output_split_sizes: Any = None,
    input_split_sizes: Any = None,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """From this process to itself."""
    _copy(output, input)
    return _after(async_op)


class _Joined:
    """What `spawn(join=False)` returns: the processes have ended."""

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """They have."""
        return True


def spawn(
    fn: Callable[..., Any], args: Sequence[Any] = (), nprocs: int = 1, join: bool = True, *rest: Any, **kwargs: Any
) -> Any:
    """The function of the first process, in this one."""
    fn(0, *args)
    return None if join else _Joined()
