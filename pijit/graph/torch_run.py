"""Makes the calls of torch that nodes stand for, one by one."""

from collections.abc import Callable, Mapping
from typing import Any

from pijit.graph.model import Node, Slice, Token, Value
from pijit.graph.torch_calls import function_at, torch_call


def resolve(argument: Any, values: Mapping[str, Any]) -> Any:
    """An argument or structure with arrays and numbers in the place of values, and slices of Python."""
    if isinstance(argument, Value):
        return values[argument.name]
    if isinstance(argument, Slice):
        return slice(*(resolve(part, values) for part in (argument.start, argument.stop, argument.step)))
    if isinstance(argument, tuple):
        return tuple(resolve(item, values) for item in argument)
    if isinstance(argument, list):
        return [resolve(item, values) for item in argument]
    if isinstance(argument, Mapping):
        return {key: resolve(item, values) for key, item in argument.items()}
    return argument


def torch_caller(instead: Mapping[str, Callable[..., Any]] | None = None) -> Callable[[Node, Mapping[str, Any]], Any]:
    """Makes the call of torch that a node stands for: the very operator that the program called.

    Args:
        instead: functions in the place of operators, by their paths; none of them writes.
    """
    import torch

    functions: dict[str, Any] = dict(instead or {})
    device: Any = torch.device

    def word(argument: Any) -> Any:
        if isinstance(argument, Token):
            return device(argument.name) if argument.kind == "device" else getattr(torch, argument.name)
        return [word(item) for item in argument] if isinstance(argument, tuple | list) else argument

    def call(node: Node, values: Mapping[str, Any]) -> Any:
        made = torch_call(node, "torch")
        function = functions.get(made.function)
        if function is None:
            function = functions[made.function] = function_at(made.function)
        indexed = made.function.startswith("operator.")
        args = tuple(resolve(each, values) if indexed else word(resolve(each, values)) for each in made.args)
        kwargs = {name: word(resolve(each, values)) for name, each in made.kwargs.items()}
        copied = made.copied and made.function not in (instead or {})
        if copied:
            args = (args[0].clone(), *args[1:])
        if "out" in node.writes:  # torch takes none that has a gradient there: the program had gradients off
            with torch.no_grad():
                result = function(*args, **kwargs)
        else:
            result = function(*args, **kwargs)
        if copied:
            return args[0]
        return resolve(node.arguments[made.kept], values) if made.kept else result

    return call
