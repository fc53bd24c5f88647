"""Which values name a device, and which device a program gets that was written for another."""

from typing import Any, TypeVar

Value = TypeVar("Value")

# The devices that programs are written for, the likeliest first. "privateuseone" is what torch calls one that a package
# adds.
KINDS = ("cuda", "npu", "xpu", "mps", "hpu", "mlu", "musa", "mtia", "ipu", "privateuseone")

_target = "cpu"
_moved = frozenset(KINDS)
_device: Any = ()  # torch.device as torch has it


def move(target: str) -> None:
    """All devices are `target` from now on."""
    global _target, _moved
    _target, _moved = target, frozenset({*KINDS, "cpu"} - {target.partition(":")[0]})


def know_device(device: type) -> None:
    """The class of torch's devices."""
    global _device  # noqa: PLW0603
    _device = device


def target() -> str:
    """The device on which the program runs."""
    return _target


def here(value: Value) -> Value:
    """The device on which the program runs where the value names another one; else the value."""
    if isinstance(value, str):
        return _target if value.partition(":")[0] in _moved else value  # type: ignore[return-value]
    if isinstance(value, _device) and value.type in _moved:
        return _device(_target)  # type: ignore[no-any-return]
    return value


def here_or_number(value: Value) -> Value:
    """The same where a number stands for a device, too."""
    if type(value) is int:
        return _target  # type: ignore[return-value]
    return here(value)
