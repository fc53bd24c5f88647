"""How a callable is changed that carries a device or a process group.

A rule makes a new callable of the one that torch or a library has. The new one is Python, without state, and calls the
old one with other arguments or not at all: the recorder goes through it, and a trace has what the old one did. A mode
(`torch.overrides.TorchFunctionMode`) would see the same calls, and cost each operator a call of Python.
"""

import functools
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, NamedTuple

from pijit._usage_errors import nearest
from pijit.devices.names import here, here_or_number, target
from pijit.errors import ConfigError, DeviceError

Make = Callable[[Any], Any]

# Whose lines are not the user's.
_LIBRARY = tuple(os.path.join(os.path.dirname(file), "") for file in (os.path.dirname(__file__), os.__file__))


def _in_place_of(original: Any) -> Make:
    """Gives a function the name of what it stands for, and code of its own: traces are kept by code."""

    def give(function: Any) -> Any:
        name = getattr(original, "__name__", function.__name__)
        function.__code__ = function.__code__.replace(co_name=name, co_qualname=name)
        return functools.update_wrapper(function, original)

    return give


def _like(function: Any, original: Any) -> Any:
    """The same where the original may be a class, of which a function can have no more than the name."""
    if inspect.isclass(original):
        function.__name__ = original.__name__
        return function
    return _in_place_of(original)(function)


class Rule(NamedTuple):
    """A rule: what it makes of a callable, and what that does, for people."""

    make: Make
    doc: str


def _arguments(original: Any) -> Any:
    @_in_place_of(original)
    def moved(*args: Any, **kwargs: Any) -> Any:
        return original(*map(here, args), **{name: here(value) for name, value in kwargs.items()})

    return moved


def _keyword(original: Any) -> Any:
    @_in_place_of(original)
    def moved(*args: Any, device: Any = None, **kwargs: Any) -> Any:
        return original(*args, device=here_or_number(device), **kwargs)

    return moved


def _maker(original: Any) -> Any:
    @_in_place_of(original)
    def moved(*args: Any, device: Any = None, pin_memory: bool = False, **kwargs: Any) -> Any:
        return original(*args, device=here_or_number(device), **kwargs)

    @_in_place_of(original)
    def placed(*args: Any, device: Any = None, **kwargs: Any) -> Any:
        if device is None:  # a program for the CPU need not say where
            generator = kwargs.get("generator")
            device = target() if generator is None else generator.device
        return original(*args, device=here_or_number(device), **kwargs)

    return moved if target() == "cpu" else placed


def _converter(original: Any) -> Any:
    torch = importlib.import_module("torch")

    @_in_place_of(original)
    def placed(data: Any, *args: Any, device: Any = None, **kwargs: Any) -> Any:
        if device is None and not isinstance(data, torch.Tensor):
            device = target()
        return original(data, *args, device=here_or_number(device), **kwargs)

    return _keyword(original) if target() == "cpu" else placed


def _from_host(original: Any) -> Any:
    @_in_place_of(original)
    def placed(*args: Any, **kwargs: Any) -> Any:
        return original(*args, **kwargs).to(target())

    return original if target() == "cpu" else placed


def _to_host(original: Any) -> Any:
    @_in_place_of(original)
    def fetched(self: Any, *args: Any, **kwargs: Any) -> Any:
        return original(self.cpu(), *args, **kwargs)

    return original if target() == "cpu" else fetched


def _to(original: Any) -> Any:
    @_in_place_of(original)
    def to(self: Any, *args: Any, **kwargs: Any) -> Any:
        if args:
            args = (here_or_number(args[0]), *args[1:])
        if "device" in kwargs:
            kwargs["device"] = here_or_number(kwargs["device"])
        return original(self, *args, **kwargs)

    return to


def _tensor_to(original: Any) -> Any:
    @_in_place_of(original)
    def to(self: Any, *args: Any, **kwargs: Any) -> Any:
        where = args[0] if args else kwargs.get("device")
        if isinstance(where, str) and where == "cpu" == target():
            kwargs["copy"] = True
        elif args:
            args = (here_or_number(where), *args[1:])
        elif where is not None:
            kwargs["device"] = here_or_number(where)
        return original(self, *args, **kwargs)

    return to


def _here(original: Any) -> Any:
    def moved(self: Any, device: Any = None, *args: Any, **kwargs: Any) -> Any:
        return self.to(target(), *args, **kwargs)

    return _first(original) if target() == "cpu" else _like(moved, original)


def _copy(original: Any) -> Any:
    @_in_place_of(original)
    def cpu(self: Any, *args: Any, **kwargs: Any) -> Any:
        there = original(self, *args, **kwargs)
        return there.clone() if there is self else there

    return cpu if target() == "cpu" else original


def _stand_in(original: Any) -> Any:
    """A class that makes instances of `original`: torch's own cannot have subclasses."""

    class Kind(type):
        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            given = args[0] if args else kwargs.get("type", kwargs.get("device"))
            moved = target() if given is None and not args else here_or_number(given)
            return original(*args, **kwargs) if moved is given else original(moved)

        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, original)

        def __subclasscheck__(cls, other: type) -> bool:
            return issubclass(other, original)

        def __getattr__(cls, name: str) -> Any:
            return getattr(original, name)

    return Kind(
        original.__name__, (), {"__module__": original.__module__, "__doc__": original.__doc__, "__slots__": ()}
    )


def _nothing(original: Any) -> Any:
    def nothing(*args: Any, **kwargs: Any) -> None:
        return None

    return _like(nothing, original)


def _first(original: Any) -> Any:
    def first(given: Any, *args: Any, **kwargs: Any) -> Any:
        return given

    return _like(first, original)


def _load(original: Any) -> Any:
    @_in_place_of(original)
    def load(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        if map_location is None:
            where: Any = target()
        elif isinstance(map_location, Mapping):
            where = {name: here(place) for name, place in map_location.items()}
        elif callable(map_location):
            where = _arguments(map_location)
        else:
            where = here_or_number(map_location)
        return original(f, where, *args, **kwargs)

    return load


def _scaler(original: Any) -> Any:
    @_in_place_of(original)
    def init(self: Any, device: Any = None, *args: Any, **kwargs: Any) -> None:
        original(self, target() if device is None else here(device), *args, **kwargs)

    return init


def _unpinned(original: Any) -> Any:
    return arguments({"pin_memory": False, "pin_memory_device": ""}).make(original) if target() == "cpu" else original


def _accelerator(original: Any) -> Any:
    return arguments({"accelerator": "cpu" if target() == "cpu" else "gpu"}).make(original)


def _type(original: Any) -> Any:
    @_in_place_of(original)
    def typed(*args: Any, **kwargs: Any) -> Any:
        return original(*map(_type_here, args), **{name: _type_here(value) for name, value in kwargs.items()})

    return typed


def _type_here(value: Any) -> Any:
    """The name of a tensor type, without a device."""
    parts = value.split(".") if isinstance(value, str) else []
    return f"torch.{parts[2]}" if len(parts) == 3 and here(parts[1]) != parts[1] and target() == "cpu" else value


def _plain_type(original: Any) -> Any:
    torch = importlib.import_module("torch")
    return getattr(torch, original.__name__) if target() == "cpu" else original


def _refused(original: Any) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        name = f"{getattr(original, '__module__', '')}.{getattr(original, '__qualname__', original)}"
        raise DeviceError(
            f"{_place()}: {name} cannot run on the device {target()!r}, and is nothing that can be left out"
        )

    return _like(refuse, original)


def _no_kernels(original: Any) -> Any:
    refuse = _refused(original)
    signature = inspect.signature(original)

    @_in_place_of(original)
    def build(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        sources = given.get("sources") or ()
        files = [sources] if isinstance(sources, str) else sources
        if given.get("cuda_sources") or given.get("with_cuda") or any(str(file).endswith(".cu") for file in files):
            refuse()
        return original(*args, **kwargs)

    return build


def _place() -> str:
    """The user's line that is running."""
    frame = sys._getframe(1)
    library = (*_LIBRARY, os.path.join(os.path.dirname(sys.modules["torch"].__file__ or ""), ""))
    while frame.f_back is not None and frame.f_code.co_filename.startswith(library):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _another(function: Any) -> Any:
    """The function as an object of its own: TorchDynamo knows callables by identity, each under one name."""
    return FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )


def returns(value: Any) -> Rule:
    """The rule of what is not called and returns this value."""

    def make(original: Any) -> Any:
        def constant(*args: Any, **kwargs: Any) -> Any:
            return value

        return _like(constant, original)

    return Rule(make, f"is not called, and returns {value!r}")


def arguments(values: Mapping[str, Any]) -> Rule:
    """The rule of what is called with these values for its arguments."""

    def make(original: Any) -> Any:
        signature = inspect.signature(original)

        @_in_place_of(original)
        def changed(*args: Any, **kwargs: Any) -> Any:
            bound = signature.bind(*args, **kwargs)
            bound.arguments.update({name: value for name, value in values.items() if name in signature.parameters})
            return original(*bound.args, **bound.kwargs)

        return changed

    return Rule(make, "is called with " + ", ".join(f"{name}={value!r}" for name, value in values.items()))


def given(value: object, where: str) -> Rule:
    """The rule that a user has written: a name, "module:name", or a table with `returns` or `arguments`."""
    if isinstance(value, str) and value in RULES:
        return RULES[value]
    if isinstance(value, str) and ":" in value:
        return instead(value)
    if isinstance(value, dict) and value.keys() == {"returns"}:
        return returns(value["returns"])
    if isinstance(value, dict) and value.keys() == {"arguments"} and isinstance(value["arguments"], dict):
        return arguments(value["arguments"])
    raise ConfigError(
        f"{where} is a rule{nearest(str(value), RULES)}, 'module:name', {{returns = ...}} or {{arguments = {{...}}}}, "
        f"not {value!r}"
    )


def instead(reference: str) -> Rule:
    """The rule of what another callable stands for, "module:name"."""

    def make(original: Any) -> Any:
        found = _find(reference)
        return found if inspect.isclass(found) else _another(found)

    return Rule(make, f"{reference} stands for it")


def made_by(reference: str) -> Rule:
    """The rule of a function, "module:name", that makes the new callable of the old one."""
    return Rule(lambda original: _in_place_of(original)(_find(reference)(original)), f"as {reference} makes it")


def _find(reference: str) -> Any:
    module, _, name = reference.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


RULES = {
    "device": Rule(_arguments, "arguments that name a device name this one"),
    "device=": Rule(_keyword, "the argument device names this one"),
    "maker": Rule(_maker, "device names this one; no memory is pinned for the CPU"),
    "converter": Rule(_converter, "device names this one; what is no tensor is put on it"),
    "from host": Rule(_from_host, "the result is put on this device"),
    "to host": Rule(_to_host, "memory of the CPU, copied from this device"),
    "to": Rule(_to, "the device is this one"),
    "tensor to": Rule(_tensor_to, 'the device is this one; "cpu" gives a copy'),
    "here": Rule(_here, "the tensor on this device"),
    "copy": Rule(_copy, "a copy, as from another device"),
    "made here": Rule(_stand_in, "instances are of this device"),
    "nothing": Rule(_nothing, "is not called, and returns None"),
    "first": Rule(_first, "is not called, and returns its first argument"),
    "load": Rule(_load, "map_location is this device"),
    "scaler": Rule(_scaler, "the device is this one, also where none is named"),
    "accelerator": Rule(_accelerator, "the argument accelerator is this device"),
    "unpinned": Rule(_unpinned, "no memory is pinned for the CPU"),
    "type": Rule(_type, 'the name of a type ("torch.cuda.FloatTensor") is that of the CPU'),
    "plain type": Rule(_plain_type, "the type of the CPU"),
    "no kernels": Rule(_no_kernels, "is an error, with the line, where it is given sources of CUDA"),
    "refused": Rule(_refused, "is an error, with the line"),
}
