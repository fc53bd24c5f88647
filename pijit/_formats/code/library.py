"""What the text of the format `code` calls: comparisons that run no code of the program, and a way back.

A function of that format sees that a guard fails, or that an operator raises, and calls the original. Until then it may
have done something. What can be undone exactly is noted in an `Undo`: attributes, items, cells, context variables,
appended items, the state of the random generator. `OtherWay` leaves the recorded way.
"""

import struct
from collections.abc import Callable, Iterable, Sequence
from itertools import islice, repeat
from operator import is_
from types import FunctionType
from typing import Any

from pijit._bare_objects import ABSENT, IMMUTABLE_TYPE, delete_attribute, own, set_attribute

_SCALARS = frozenset({int, float, bool, str, bytes, complex, type(None), type(...)})


class OtherWay(Exception):
    """The recorded way does not go on like this: inside the function, never outside of it."""


def same(now: Any, then: Any) -> bool:
    """The same object, or a plain number or text of the same type and bits."""
    if now is then:
        return True
    kind = type(now)
    if kind is not type(then) or kind not in _SCALARS:
        return False
    if kind is float:
        return struct.pack("d", now) == struct.pack("d", then)
    if kind is complex:
        return same(now.real, then.real) and same(now.imag, then.imag)
    return bool(now == then)


def holds(mapping: dict[Any, Any], keys: Sequence[Any], values: Sequence[Any]) -> bool:
    """A dict has these values under these keys; `ABSENT`: it has no such key."""
    found = list(map(dict.get, repeat(mapping), keys, repeat(ABSENT)))
    return all(map(is_, found, values)) or all(map(same, found, values))


def lists(now: Sequence[Any], then: Sequence[Any]) -> bool:
    """The same items."""
    return len(now) == len(then) and all(map(same, now, then))


def contains(now: Any, then: Iterable[Any]) -> bool:
    """A set has these items."""
    return all(any(same(item, each) for item in now) for each in then)


def is_quiet(items: Iterable[Any], depth: int = 3) -> bool:
    """Nobody is told when these die: plain numbers and texts, and tuples of such."""
    return all(
        type(item) in _SCALARS or (type(item) is tuple and depth > 0 and is_quiet(item, depth - 1)) for item in items
    )


def content(cell: Any) -> Any:
    """Of a cell; `ABSENT`: it is empty."""
    try:
        return cell.cell_contents
    except ValueError:
        return ABSENT


def value_of(var: Any) -> Any:
    """Of a context variable, or its default; `ABSENT`: it has neither."""
    try:
        return var.get()
    except LookupError:
        return ABSENT


def at(items: Iterable[Any], position: int) -> Any:
    """The item of a view of a dict at a position; `ABSENT`: there is none."""
    return next(islice(items, position, None), ABSENT)


class Unchanged:
    """Says whether functions, classes and dicts are as they were when this was made."""

    def __init__(self) -> None:
        self._then: dict[int, Callable[[], bool]] = {}

    def note(self, thing: Any) -> None:
        """Keep what it is now."""
        if id(thing) in self._then:
            return
        if isinstance(thing, type):
            self._then[id(thing)] = _class_check(thing)
        elif isinstance(thing, FunctionType):
            self._then[id(thing)] = _function_check(thing)
        else:
            self._then[id(thing)] = _dict_check(thing)

    def __call__(self, *things: Any) -> bool:
        then = self._then
        return all(then[id(thing)]() for thing in things)


def _function_check(function: FunctionType) -> Callable[[], bool]:
    code, defaults, keywords = function.__code__, function.__defaults__, function.__kwdefaults__
    return lambda: (
        function.__code__ is code and function.__defaults__ is defaults and function.__kwdefaults__ is keywords
    )


def _dict_check(held: dict[Any, Any]) -> Callable[[], bool]:
    keys, values = list(dict.keys(held)), list(dict.values(held))
    if not keys:
        return lambda: not len(held)
    return lambda: (
        len(held) == len(keys) and all(map(is_, dict.keys(held), keys)) and all(map(is_, dict.values(held), values))
    )


def _class_check(kind: type) -> Callable[[], bool]:
    mro = kind.__mro__
    bases = [(vars(base), list(vars(base)), list(vars(base).values())) for base in mro if _may_change(base)]

    def check() -> bool:
        if kind.__mro__ is not mro and kind.__mro__ != mro:
            return False
        for held, keys, values in bases:
            if len(held) != len(keys) or not all(map(is_, held.values(), values)):
                return False
            if list(held) != keys:
                return False
        return True

    return check


def _may_change(kind: type) -> bool:
    return not kind.__flags__ & IMMUTABLE_TYPE


class Undo:
    """What has to be done to take back what was done, the last first."""

    def __init__(self) -> None:
        self._steps: list[tuple[Callable[..., None], tuple[Any, ...]]] = []

    def __call__(self) -> None:
        """Take it all back."""
        while self._steps:
            step, arguments = self._steps.pop()
            step(*arguments)

    def attribute(self, thing: Any, name: str) -> None:
        """An attribute is going to be stored."""
        self._steps.append((_reset_attribute, (thing, name, own(thing, name))))

    def item(self, container: Any, key: Any) -> None:
        """An item of a list or dict is going to be stored."""
        before = dict.get(container, key, ABSENT) if isinstance(container, dict) else container[key]
        self._steps.append((_reset_item, (container, key, before)))

    def cell(self, cell: Any) -> None:
        """A variable is going to be bound."""
        self._steps.append((_reset_cell, (cell, content(cell))))

    def appended(self, items: list[Any]) -> None:
        """An item is going to be appended."""
        self._steps.append((_drop_last, (items, len(items))))

    def context(self, var: Any, token: Any) -> None:
        """A context variable was set."""
        self._steps.append((var.reset, (token,)))

    def reset(self, var: Any, token: Any) -> None:
        """A context variable was reset."""
        self._steps = [step for step in self._steps if not (step[1] and step[1][0] is token)]

    def grad_mode(self) -> None:
        """The grad mode is going to be set."""
        import torch

        self._steps.append((torch._C._set_grad_enabled, (torch.is_grad_enabled(),)))

    def random(self) -> None:
        """Random numbers are going to be drawn, on the CPU."""
        import torch

        self._steps.append((torch.set_rng_state, (torch.get_rng_state(),)))


def _reset_attribute(thing: Any, name: str, value: Any) -> None:
    if value is ABSENT:
        delete_attribute(thing, name)
    else:
        set_attribute(thing, name, value)


def _reset_item(container: Any, key: Any, value: Any) -> None:
    if value is ABSENT:
        container.pop(key, None)
    else:
        container[key] = value


def _reset_cell(cell: Any, value: Any) -> None:
    if value is not ABSENT:
        cell.cell_contents = value
    elif content(cell) is not ABSENT:
        del cell.cell_contents


def _drop_last(items: list[Any], length: int) -> None:
    del items[length:]


def modes() -> tuple[Any, ...]:
    """The modes of thread and process under which torch runs an operator."""
    import torch

    core = torch._C
    autograd = core._autograd
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        core._is_fwd_grad_enabled(),
        core._is_view_replay_enabled(),
        core._is_multithreading_enabled(),
        core._dispatch_tls_local_include_set().raw_repr(),
        core._dispatch_tls_local_exclude_set().raw_repr(),
        torch.get_autocast_dtype("cpu"),
        torch.get_autocast_dtype("cuda"),
        torch.is_autocast_cache_enabled(),
        torch.get_default_dtype(),
        core._len_torch_function_stack(),
        core._is_torch_function_enabled(),
        core._is_torch_function_all_disabled(),
        core._len_torch_dispatch_stack(),
        core._get_tracing_state() is None,
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        core._get_cudnn_enabled(),
        torch.is_anomaly_enabled(),
        torch.is_anomaly_check_nan_enabled(),
        autograd._top_saved_tensors_default_hooks(True) is None,
        autograd._profiler_enabled(),
    )


def is_tensor(thing: Any, kind: Any, dtype: Any, dim: int, device: str, keys: int) -> bool:
    """A tensor of this class, dtype and number of dimensions, which the same operators serve."""
    import torch

    return (
        type(thing) is kind
        and thing.dtype is dtype
        and thing.dim() == dim
        and torch._C._dispatch_keys(thing).raw_repr() == keys
        and str(thing.device) == device
    )


def is_exactly(tensor: Any, form: tuple[Any, ...]) -> bool:
    """A tensor of this form; see `form_of`."""
    return form_of(tensor) == form


def form_of(tensor: Any) -> tuple[Any, ...]:
    """Sizes, strides and place in the memory of a tensor, and what autograd does with it."""
    return (
        tuple(tensor.shape),
        tuple(tensor.stride()),
        tensor.storage_offset(),
        tensor.requires_grad,
        tensor.grad_fn is None,
    )


def is_bare(thing: Any) -> bool:
    """An object has no attributes of its own."""
    return not thing.__dict__
