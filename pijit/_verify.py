"""Where two results differ: what CPython gave, and what a replay of the same call gave.

Compared are types, bits of numbers and of tensors with all that their users can see of them, and what containers, plain
objects and functions hold. No method of the program's runs. Objects of C that nothing is known of are taken to be
equal.
"""

import struct
import sys
from collections import deque
from collections.abc import Iterator
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any

_Pair = tuple[Any, Any, str]
_CONTAINERS: tuple[Any, ...] = (list, tuple, dict, deque)
_PLAIN = {int, float, complex, bool, str, bytes, range, bytearray}
_TENSOR = ("dtype", "device", "layout", "shape", "requires_grad", "is_leaf", "is_inference")


def difference(plain: object, replayed: object) -> str:
    """Where the results differ, in words; "" if they do not.

    Example:
        >>> from pijit._verify import difference
        >>> difference({"a": [0.0]}, {"a": [-0.0]})
        "the result['a'][0] is -0.0 in a replay, and 0.0 in CPython"
        >>> difference([1, 2], [1, 2])
        ''
    """
    seen: dict[tuple[int, int], _Pair] = {}
    pairs: list[_Pair] = [(plain, replayed, "the result")]
    while pairs:
        a, b, where = pairs.pop()
        if a is b or (id(a), id(b)) in seen:
            continue
        seen[id(a), id(b)] = a, b, where  # both live, so the numbers stay theirs
        if type(a) is not type(b):
            return f"{where} is of type {type(b).__qualname__} in a replay, and {type(a).__qualname__} in CPython"
        if said := _differ(a, b):
            return f"{where}{said}"
        pairs.extend(reversed(list(_parts(a, b, where))))
    return ""


def _differ(a: Any, b: Any) -> str:
    """What tells two objects of one type apart, their parts left aside."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and isinstance(a, torch.Tensor):
        return _differ_as_tensors(torch, a, b)
    if numpy is not None and isinstance(a, numpy.ndarray):
        same = (a.dtype, a.shape, a.strides) == (b.dtype, b.shape, b.strides)
        return "" if same and (a.dtype.hasobject or a.tobytes() == b.tobytes()) else " is another array in a replay"
    if isinstance(a, (int, float, complex, str, bytes)):
        same = _bits(a) == _bits(b)
    elif isinstance(a, (set, frozenset)):
        items: Any = set.__iter__ if isinstance(a, set) else frozenset.__iter__
        one, other = ({(type(item), item) for item in items(each) if type(item) in _PLAIN} for each in (a, b))
        same = one == other and len(list(items(a))) == len(list(items(b)))
        return "" if same else " holds other items in a replay than in CPython"
    elif type(a) is bytearray or type(a) is range:
        same = a == b
    elif isinstance(a, _CONTAINERS):
        size = next(kind for kind in _CONTAINERS if isinstance(a, kind)).__len__
        if size(a) == size(b):
            return ""
        return f" has {size(b)} items in a replay, and {size(a)} in CPython"
    else:
        return ""
    return "" if same else f" is {_shown(b)} in a replay, and {_shown(a)} in CPython"


def _differ_as_tensors(torch: Any, a: Any, b: Any) -> str:
    for name in _TENSOR:
        one, other = (value() if callable(value := getattr(tensor, name)) else value for tensor in (a, b))
        if one != other:
            return f".{name} is {other} in a replay, and {one} in CPython"
    if type(a.grad_fn) is not type(b.grad_fn):
        return f".grad_fn is {b.grad_fn} in a replay, and {a.grad_fn} in CPython"
    if a.device.type == "meta" or a.is_quantized:
        return ""
    if a.layout is not torch.strided:
        a, b = a.detach().to_dense(), b.detach().to_dense()
    if a.stride() != b.stride():
        return f".stride() is {b.stride()} in a replay, and {a.stride()} in CPython"
    with torch.no_grad():
        one, other = (
            tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8) for tensor in (a, b)
        )
        if torch.equal(one, other):
            return ""
        rows = (one != other).reshape(a.numel(), -1).any(1)
        return f" differs in {int(rows.sum())} of {a.numel()} numbers, the first at {int(rows.nonzero()[0])}"


def _parts(a: Any, b: Any, where: str) -> Iterator[_Pair]:
    """What both hold, place by place."""
    if isinstance(a, dict):
        for (key, one), (other_key, other) in zip(dict.items(a), dict.items(b), strict=True):
            yield key, other_key, f"a key of {where}"
            yield one, other, f"{where}[{_shown(key)}]"
    for kind in _CONTAINERS:
        if isinstance(a, kind) and kind is not dict:
            for at, (one, other) in enumerate(zip(kind.__iter__(a), kind.__iter__(b), strict=True)):
                yield one, other, f"{where}[{at}]"
    for name in _names(a):
        one, other = (_held(thing, name) for thing in (a, b))
        yield one, other, f"{where}.{name}"
    if (attributes := _attributes(a)) is not None:
        yield attributes, _attributes(b), f"vars({where})"


def _names(thing: Any) -> Iterator[str]:
    """The attributes that are not in its `__dict__`."""
    if isinstance(thing, FunctionType):
        yield from ("__code__", "__defaults__", "__kwdefaults__", "__closure__")
    elif isinstance(thing, MethodType):
        yield from ("__func__", "__self__")
    elif isinstance(thing, CellType):
        yield "cell_contents"
    elif isinstance(thing, slice):
        yield from ("start", "stop", "step")
    elif isinstance(thing, BaseException):
        yield from ("args", "__cause__", "__context__")
    for kind in type(thing).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            hidden = name.startswith("__") and not name.endswith("__")
            if name not in {"__dict__", "__weakref__"}:
                yield f"_{kind.__name__.lstrip('_')}{name}" if hidden else name


def _held(thing: object, name: str) -> object:
    try:
        return object.__getattribute__(thing, name)
    except (AttributeError, ValueError):  # an empty slot or cell
        return _held


def _attributes(thing: object) -> dict[str, Any] | None:
    if isinstance(thing, (type, CodeType, FunctionType)) or type(thing).__module__ == "builtins":
        return None
    try:
        found = object.__getattribute__(thing, "__dict__")
    except AttributeError:
        return None
    return found if type(found) is dict else None


def _bits(value: Any) -> object:
    if isinstance(value, float):
        return struct.pack("<d", value)
    if isinstance(value, complex):
        return struct.pack("<dd", value.real, value.imag)
    if isinstance(value, int):
        return int.__index__(value)
    return str.__str__(value) if isinstance(value, str) else bytes.__getitem__(value, slice(None))


def _shown(value: object) -> str:
    """A short form that runs none of the program's code."""
    text = repr(value) if type(value) in _PLAIN or value is None else object.__repr__(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
