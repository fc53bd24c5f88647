"""What `pijit.lazy` does while its block runs: operators wait, and run together when a value is read.

1. A tensor that an operator gives is a plain tensor with memory of its own, which is filled when the operator runs. So
   its form, its identity, its views and the graph of autograd are those of eager execution at once.
2. What waits is a list in the order of the program. It runs as one function of Python, made once for each list of the
   same operators on the same values, and jitted with the backend that was asked for.
3. An operator that cannot wait is a cut: the list runs, and then the operator. So is what reads a value.
4. Views are made at once, since they compute nothing, and are in the list, too: what is behind them in it reads them.
5. Memory from before the block is written at once: somebody else may look at it. So the list has no effects, and is run
   once more, step by step, where it raises: what comes before that is filled, and the error names the line.
6. Forms are found on tensors without data, once for each form of the arguments. Where torch refuses them the operator
   runs at once, and raises in its own line.
"""

import contextlib
import functools
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode, _pop_mode_temporarily
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from pijit.api import jit
from pijit.traces import place

MOST = 2048  # operators that wait
_KEPT = 64  # functions
_PLAIN = (torch.Tensor, torch.nn.Parameter)
_LITERALS = (int, float, bool, str, type(None))
_OURS = os.path.dirname(__file__) + os.sep
_TORCH = torch.__path__[0]
_said = logging.getLogger("torch._subclasses.fake_tensor")
# What reads values or memory outside of the dispatcher, or hands them to somebody.
_READS = frozenset(
    getattr(torch.Tensor, name)
    for name in (
        "item", "tolist", "numpy", "data_ptr", "untyped_storage", "storage", "__array__", "__bool__", "__int__",
        "__float__", "__complex__", "__index__", "__repr__", "__format__", "__reduce_ex__", "__deepcopy__",
        "__dlpack__", "__contains__", "backward", "share_memory_", "resize_", "set_", "apply_", "map_",
    )
)  # fmt: skip


class Cut(NamedTuple):
    """Why operators that waited were run.

    Attributes:
        place: the line of the program, as "train.py:42".
        reason: what could not wait.
        operators: how many had waited.
    """

    place: str
    reason: str
    operators: int

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}; {self.operators} operators ran"


class _Kind(NamedTuple):
    """What an operator does.

    Attributes:
        name: "new", "view" or "writes"; "": it cannot wait.
        why: it cannot wait.
        written: of "writes": positions and names of the arguments that it writes to.
        returns: how many results it has.
        dropout: the position of a probability; the operator draws random numbers if that is not 0.
    """

    name: str
    why: str = ""
    written: tuple[tuple[int, str], ...] = ()
    returns: int = 1
    dropout: int | None = None


class _Step(NamedTuple):
    """An operator that waits.

    Attributes:
        call: the operator.
        args: with `_Number` in the place of tensors.
        kwargs: likewise.
        made: numbers of what it gives; none of what it writes to.
        single: it gives one tensor, not several.
        kind: as `_Kind.name`.
        at: file and line of the program.
    """

    call: Any
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...]
    made: tuple[int, ...]
    single: bool
    kind: str
    at: tuple[str, int]

    @property
    def key(self) -> tuple[Any, ...]:
        """What the code for it is made of."""
        return self.call, self.args, self.kwargs, self.made, self.single


class _Number(NamedTuple):
    """A tensor, by its number in the list."""

    at: int


class _Other(NamedTuple):
    """An argument that is no literal, such as a dtype; its class tells it from a number that is equal."""

    thing: Any


class _Literal(NamedTuple):
    """A number or text; 1, 1.0 and True are different ones, and so are 0.0 and -0.0."""

    text: str


def _mapped(argument: Any, tensor: Callable[[torch.Tensor], Any], other: Callable[[Any], Any]) -> Any:
    """An argument with something in the place of its tensors, and of what is neither tensor nor container."""
    if isinstance(argument, torch.Tensor):
        return tensor(argument)
    if isinstance(argument, list | tuple):
        return tuple(_mapped(each, tensor, other) for each in argument)
    return other(argument)


def _tensors(argument: Any) -> Iterator[torch.Tensor]:
    if isinstance(argument, torch.Tensor):
        yield argument
    elif isinstance(argument, list | tuple):
        for each in argument:
            yield from _tensors(each)


def _flat(argument: Any) -> Iterator[Any]:
    for each in argument if isinstance(argument, list | tuple) else (argument,):
        yield from _flat(each) if isinstance(each, list | tuple) else (each,)


def _other(argument: Any) -> Any:
    return _Literal(repr(argument)) if type(argument) in _LITERALS else _Other(argument)


def _memory(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _caller() -> tuple[str, int]:
    """The innermost line that is neither torch's nor pijit's."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        file = frame.f_code.co_filename
        if not file.startswith((_OURS, _TORCH)) and file != contextlib.__file__:
            break
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


@functools.cache
def _kind(call: Any) -> _Kind:
    """What an operator does, by its schema."""
    schema, tags = call._schema, call.tags
    if call.namespace not in {"aten", "prims"}:
        return _Kind("", "is no operator of torch")
    names = [each.name for each in schema.arguments]
    dropout = names.index("dropout_p") if "dropout_p" in names else None
    if torch.Tag.nondeterministic_seeded in tags and dropout is None:
        return _Kind("", "draws random numbers")
    if call.overloadpacket.__name__.startswith(("mkldnn", "miopen", "cudnn")):
        return _Kind("", "may leave a result out")
    if torch.Tag.data_dependent_output in tags:
        return _Kind("", "reads a value")
    if torch.Tag.dynamic_output_shape in tags:
        return _Kind("", "gives a size that hangs on data")
    if torch.Tag.inplace_view in tags:
        return _Kind("", "changes the form of a tensor")
    if not all(str(each.type) in {"Tensor", "List[Tensor]"} for each in schema.returns):
        return _Kind("", "gives what is no tensor")
    written = tuple(
        (at, each.name)
        for at, each in enumerate(schema.arguments)
        if each.alias_info is not None and each.alias_info.is_write
    )
    if written:
        return _Kind("writes", written=written, returns=len(schema.returns))
    view = any(each.alias_info is not None for each in schema.returns)
    return _Kind("view" if view else "new", returns=len(schema.returns), dropout=dropout)


class Waiting:
    """The operators that wait, and the tensors that they read and give."""

    def __init__(self, backend: Any) -> None:
        self.cuts: list[Cut] = []
        self.backend = backend
        self.inside = 0  # what is called now is called by the list itself
        self._lost: dict[int, tuple[torch.Tensor, BaseException]] = {}  # what was never computed, by its id
        self._begin()

    def _begin(self) -> None:
        self._steps: list[_Step] = []
        self._numbers: dict[int, int] = {}  # by ids of tensors, which are held
        self._held: list[torch.Tensor] = []
        self._own: set[int] = set()  # memory that is filled when the list runs
        self._inputs: list[int] = []

    def _number(self, tensor: torch.Tensor) -> _Number:
        found = self._numbers.get(id(tensor))
        if found is None:
            found = self._new(tensor)
            self._inputs.append(found)
        return _Number(found)

    def _new(self, tensor: torch.Tensor) -> int:
        number = self._numbers[id(tensor)] = len(self._held)
        self._held.append(tensor)
        return number

    def is_own(self, tensor: torch.Tensor) -> bool:
        """Its memory is filled when the list runs."""
        return bool(self._own) and tensor.layout is torch.strided and _memory(tensor) in self._own

    def call(self, call: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What an operator gives; it waits, or is a cut."""
        tensors = [*_tensors(args), *_tensors(tuple(kwargs.values()))]
        for each in tensors:
            if id(each) in self._lost:
                raise self._lost[id(each)][1]
        kind = _kind(call)
        if any(id(each) not in self._numbers and self.is_own(each) for each in tensors):
            self.run(f"{_word(call)} is given memory that waits by another name")
        why = kind.why or self._why_not(kind, call, args, kwargs, tensors)
        if not why:
            made = self._made(kind, call, args, kwargs)
            if made is not None:
                results, given = made
                self._add(kind, call, args, kwargs, results)
                if len(self._steps) >= MOST:
                    self.run(f"{MOST} operators wait")
                return given
            why = "cannot be told from forms alone"
        self.run(f"{_word(call)} {why}")
        return call(*args, **kwargs)

    def _why_not(
        self, kind: _Kind, call: Any, args: Any, kwargs: Mapping[str, Any], tensors: list[torch.Tensor]
    ) -> str:
        for each in tensors:
            if type(each) not in _PLAIN or each.layout is not torch.strided or each.is_quantized:
                return "is given a tensor of another kind"
            if each.is_conj() or each.is_neg():
                return "is given a conjugate"
        if kind.dropout is not None and (
            args[kind.dropout] if kind.dropout < len(args) else kwargs.get("dropout_p", 0)
        ):
            return "draws random numbers"
        if kind.name == "writes":
            for at, name in kind.written:
                written = args[at] if at < len(args) else kwargs.get(name)
                if not all(map(self.is_own, _tensors(written))):
                    return "writes to memory from before the block"
        return ""

    def _made(
        self, kind: _Kind, call: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[list[torch.Tensor], Any] | None:
        """The tensors that are new, and what the program is given; None: that is not known before it runs."""
        if kind.name == "view":
            given = call(*args, **kwargs)
            results = list(_tensors(given))
            memory = {_memory(each) for each in (*_tensors(args), *_tensors(tuple(kwargs.values())))}
            return (results, given) if all(_memory(each) in memory for each in results) else None
        forms = _forms(call, args, kwargs)
        if forms is None:
            return None
        if kind.name == "writes":
            written = [args[at] if at < len(args) else kwargs[name] for at, name in kind.written]
            given = None if not kind.returns else written[0] if kind.returns == 1 else tuple(written)
            return ([], given) if kind.returns in {0, 1, len(written)} else None
        single, found = forms
        results = [torch.empty_strided(s, t, dtype=dtype, device=device) for s, t, dtype, device in found]
        return results, results[0] if single else results if kind.returns == 1 else tuple(results)

    def _add(
        self, kind: _Kind, call: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], results: list[torch.Tensor]
    ) -> None:
        given = _mapped(args, self._number, _other)
        named = tuple((name, _mapped(each, self._number, _other)) for name, each in kwargs.items())
        made = tuple(self._new(each) for each in results)
        if kind.name == "new":
            self._own.update(map(_memory, results))
        single = kind.returns == 1 and str(call._schema.returns[0].type) == "Tensor"
        self._steps.append(_Step(call, given, named, made, single, kind.name, _caller()))

    def run(self, reason: str) -> None:
        """Runs all that waits, and fills what it gives."""
        steps, held, inputs = self._steps, self._held, self._inputs
        self._begin()
        if not any(step.kind != "view" for step in steps):
            return
        self.cuts.append(Cut(place(*_caller()), reason, sum(step.kind != "view" for step in steps)))
        wanted = _alive(steps, held)
        function = _function(steps, tuple(inputs), wanted, self.backend)
        with _without_modes(), torch.no_grad(), torch._C._DisableAutocast():
            given = [held[number].detach() for number in inputs]
            try:
                made = function(*given)
            except Exception:
                self._run_apart(steps, held, dict(zip(inputs, given, strict=True)))
                raise
            for number, result in zip(wanted, made, strict=True):
                _fill(held[number], result)

    def _run_apart(self, steps: list[_Step], held: list[torch.Tensor], values: dict[int, torch.Tensor]) -> None:
        """Step by step, to the one that raises.

        Raises:
            Exception: what it raises, with its line.
        """
        done: list[int] = []
        for at, step in enumerate(steps):
            args = _resolved(step.args, values)
            kwargs = {name: _resolved(each, values) for name, each in step.kwargs}
            try:
                results = [*_tensors(step.call(*args, **kwargs))]
            except Exception as error:
                error.add_note(f"pijit.lazy: of {_word(step.call)} at {place(*step.at)}")
                lost = [held[number] for later in steps[at:] for number in later.made]
                self._lost.update((id(each), (each, error)) for each in lost if each is not None)
                for number in done:
                    if held[number] is not None:
                        _fill(held[number], values[number])
                raise
            values.update(zip(step.made, results, strict=False))
            done += step.made if step.kind == "new" else ()


@contextlib.contextmanager
def _without_modes() -> Iterator[None]:
    """None of torch's modes is on: pijit steps aside for them."""
    with _disable_current_modes(), contextlib.ExitStack() as stack:
        while torch._C._len_torch_function_stack():
            stack.enter_context(_pop_mode_temporarily())
        yield


def _word(call: Any) -> str:
    return str(call.overloadpacket.__name__)


def _counts(held: list[Any], at: int) -> tuple[int, int, int]:
    """How many hold a tensor of the list: in Python, in C++, and its memory."""
    memory: Any = held[at].untyped_storage()._cdata
    return sys.getrefcount(held[at]), held[at]._use_count(), torch._C._storage_Use_Count(memory)


_NOBODY = _counts([torch.empty(1)], 0) if hasattr(torch.Tensor, "_use_count") else None


def _alive(steps: list[_Step], held: list[Any]) -> tuple[int, ...]:
    """The numbers of results that somebody but the list may see; the list lets go of the others."""
    alive = []
    for step in reversed(steps):
        for number in reversed(step.made):
            counts = _counts(held, number) if _NOBODY is not None else (1 << 30,) * 3
            looked = 2 if step.kind == "view" else 3  # memory of a view is that of others
            if _NOBODY is not None and all(a <= b for a, b in zip(counts[:looked], _NOBODY, strict=False)):
                held[number] = None
            elif step.kind == "new":
                alive.append(number)
    return tuple(reversed(alive))


def _resolved(argument: Any, values: Mapping[int, torch.Tensor]) -> Any:
    if isinstance(argument, _Number):
        return values[argument.at]
    if isinstance(argument, _Literal):
        return eval(argument.text, {"inf": float("inf"), "nan": float("nan")})
    if isinstance(argument, _Other):
        return argument.thing
    return [_resolved(each, values) for each in argument] if type(argument) is tuple else argument


def _fill(tensor: torch.Tensor, result: torch.Tensor) -> None:
    """Puts what an operator has given where the program has its result."""
    if tensor.is_inference():
        with torch.inference_mode():
            tensor.copy_(result)
    else:
        tensor.data.copy_(result)


_found: dict[Any, Any] = {}


def _forms(call: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[bool, list[Any]] | None:
    """Whether an operator gives one tensor, and the forms of all; None: that is not known, or it would raise."""

    def form(tensor: torch.Tensor) -> Any:
        return _Other((tuple(tensor.shape), tensor.stride(), tensor.dtype, tensor.device))

    key = call, _mapped(args, form, _other), tuple((name, _mapped(each, form, _other)) for name, each in kwargs.items())
    try:
        return _found[key]  # type: ignore[no-any-return]
    except KeyError:
        pass
    except TypeError:  # an argument has no hash
        return None
    if len(_found) > 16 * MOST:
        _found.clear()
    _found[key] = made = _inferred(call, args, kwargs)
    return made


def _inferred(call: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[bool, list[Any]] | None:
    mode, own = FakeTensorMode(allow_non_fake_inputs=False), threading.get_ident()

    def is_of_another(record: logging.LogRecord) -> bool:
        return record.thread != own

    def fake(tensor: torch.Tensor) -> torch.Tensor:
        return mode.from_tensor(tensor.detach(), static_shapes=True)

    def nested(argument: Any) -> Any:
        if isinstance(argument, torch.Tensor):
            return fake(argument)
        if isinstance(argument, list | tuple):
            return type(argument)(map(nested, argument)) if type(argument) in {list, tuple} else argument
        return argument

    _said.addFilter(is_of_another)  # what is refused here raises in the program
    try:
        with torch.no_grad():
            fakes, named = nested(args), {name: nested(each) for name, each in kwargs.items()}
            with mode:
                given = call(*fakes, **named)
    except Exception:
        return None
    finally:
        _said.removeFilter(is_of_another)
    found = []
    for each in (given,) if isinstance(given, torch.Tensor) else _flat(given):
        if not isinstance(each, torch.Tensor):  # such as a gradient that nobody wants
            return None
        dense = each.layout is torch.strided and not any(
            s == 0 and n > 1 for n, s in zip(each.shape, each.stride(), strict=True)
        )
        if not dense or not all(type(size) is int for size in each.shape):
            return None
        found.append((tuple(each.shape), each.stride(), each.dtype, each.device))
    return isinstance(given, torch.Tensor), found


_functions: dict[Any, Callable[..., Any]] = {}


def _function(steps: list[_Step], inputs: tuple[int, ...], wanted: tuple[int, ...], backend: Any) -> Callable[..., Any]:
    """A jitted function that does these steps, from the inputs to what is wanted."""
    key = tuple(step.key for step in steps), inputs, wanted, tuple(backend) if isinstance(backend, list) else backend
    found = _functions.pop(key, None)
    if found is None:
        found = jit(_written(steps, inputs, wanted), backend=backend)
        while len(_functions) >= _KEPT:
            _functions.pop(next(iter(_functions)))
    _functions[key] = found  # the last one is the newest
    return found


def _written(steps: list[_Step], inputs: tuple[int, ...], wanted: tuple[int, ...]) -> Any:
    names: dict[str, Any] = {"inf": float("inf"), "nan": float("nan")}

    def text(argument: Any) -> str:
        if isinstance(argument, _Number):
            return f"v{argument.at}"
        if isinstance(argument, _Literal):
            return argument.text
        if isinstance(argument, _Other):
            return name(argument.thing)
        return f"[{', '.join(map(text, argument))}]"

    def name(thing: Any) -> str:
        found = next((word for word, each in names.items() if each is thing), f"c{len(names)}")
        names[found] = thing
        return found

    lines = [f"def lazy({', '.join(f'v{number}' for number in inputs)}):"]
    for step in steps:
        given = [*map(text, step.args), *(f"{word}={text(each)}" for word, each in step.kwargs)]
        made = ", ".join(f"v{number}" for number in step.made) + ("" if step.single else ",")
        lines.append(f"    {f'{made} = ' if step.made else ''}{name(step.call)}({', '.join(given)})")
    lines.append(f"    return ({''.join(f'v{number}, ' for number in wanted)})")
    exec("\n".join(lines), names)
    return names["lazy"]


class Operators(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Has operators wait."""

    def __init__(self, waiting: Waiting) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._waiting = waiting

    def __torch_dispatch__(self, call: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._waiting.inside += 1
        try:
            return self._waiting.call(call, args, kwargs or {})
        finally:
            self._waiting.inside -= 1


class Reads(TorchFunctionMode):
    """Has what waits run before values are read outside of the dispatcher."""

    def __init__(self, waiting: Waiting) -> None:
        super().__init__()
        self._waiting = waiting

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function in _READS and not self._waiting.inside:
            self._waiting.run(f"{function.__name__} reads a value")
        return function(*args, **(kwargs or {}))
