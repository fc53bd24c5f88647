"""Which forms of a segment may have one plan: those that differ in sizes only.

After `ENOUGH` such forms the market asks the backends that can leave sizes free for one plan; at the first form, if
sizes are expected to vary. Rules:
1. Free are the sizes that differed, or are expected to. The others are fixed, and so are those that the operators fix
   or relate.
2. A size of 0 or 1 is never free: kernels treat it in a way of its own.
3. A number that comes in has to be the same each time, or a multiple of a size of an input and a number.
4. The plan answers under no form of which this is all that is known: the engine has replayed it natively once, and has
   compared the plan's first result with that (csrc/plan/keys.h).
"""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pijit.compilers._compared import Made
from pijit.errors import ExportError
from pijit.graph.model import Value
from pijit.graph.model.sizes import evaluate

if TYPE_CHECKING:
    from pijit.graph.build.segment import SegmentGraph

ENOUGH = 3  # forms that differ in sizes only
_PLANS = 3  # of free sizes for one kind of forms: each later one has more free sizes
_SEEN = 16  # forms of a kind that are remembered
_ALIGNED = 64  # bytes, as in csrc/torch/plan_key.cpp

Axis = tuple[int, int]  # an input, and one of its axes


@dataclass(frozen=True)
class Form:
    """The inputs of one offer.

    Attributes:
        kind: of each input what a plan of free sizes relies on: dtype, rank, order of its axes in memory, alignment.
        sizes: of each input.
        numbers: that come in, by register.
    """

    kind: tuple[Any, ...]
    sizes: tuple[tuple[int, ...], ...]
    numbers: Mapping[int, Any]

    @classmethod
    def of(cls, inputs: Sequence[Any], numbers: Mapping[int, Any]) -> "Form":
        """The form of these tensors."""
        return cls(tuple(map(_kind, inputs)), tuple(tuple(each.shape) for each in inputs), dict(numbers))

    def at(self, axis: Axis) -> int:
        """A size."""
        return self.sizes[axis[0]][axis[1]]


def _kind(tensor: Any) -> Any:
    long = [axis for axis in range(tensor.dim()) if tensor.shape[axis] != 1]
    order = tuple(sorted(long, key=lambda axis: -tensor.stride(axis)))
    steps = tuple(axis for axis in long if tensor.stride(axis) == 0)
    layout = "contiguous" if tensor.is_contiguous() else (order, steps, _is_dense(tensor, order))
    return str(tensor.dtype), tensor.dim(), layout, tensor.data_ptr() % _ALIGNED == 0


def _is_dense(tensor: Any, order: Sequence[int]) -> bool:
    """Without holes and overlaps; `order`: its axes from the largest stride on."""
    expected = 1
    for axis in reversed(order):
        if tensor.stride(axis) != expected:
            return False
        expected *= tensor.shape[axis]
    return True


@dataclass(frozen=True)
class Derived:
    """A number that comes in: `factor` times a size, and `more`."""

    axis: Axis
    factor: int
    more: int

    def of(self, form: Form) -> int:
        """The number under a form."""
        return self.factor * form.at(self.axis) + self.more


@dataclass(frozen=True)
class Free:
    """What a graph of free sizes leaves open.

    Attributes:
        axes: that are symbols in it.
        numbers: by register, how it follows from a size.
        expected: the sizes are expected to differ; those that an operator fixes are not free. Else they did differ.
    """

    axes: frozenset[Axis]
    numbers: Mapping[int, "Derived"]
    expected: bool = False


def free_of(forms: Sequence[Form]) -> Free | None:
    """What differs between these forms, the last of which is the example; None: no plan can leave that open."""
    last = forms[-1]
    every = [(at, axis) for at, sizes in enumerate(last.sizes) for axis in range(len(sizes))]
    axes = frozenset(axis for axis in every if len({form.at(axis) for form in forms}) > 1)
    if not axes or any(last.at(axis) < 2 for axis in axes):
        return None
    numbers: dict[int, Derived] = {}
    for register, number in last.numbers.items():
        if all(_same(form.numbers.get(register), number) for form in forms):
            continue
        found = next((made for axis in sorted(axes) if (made := _derived(register, axis, forms))), None)
        if found is None:
            return None
        numbers[register] = found
    return Free(axes, numbers)


def expected_of(form: Form, varying: Collection[int] | None) -> Free | None:
    """What is to be left open at the first form; None: nothing.

    Args:
        form: the first of its kind.
        varying: sizes that vary, and so do multiples of them; None: all do.
    """
    axes = {
        (at, axis)
        for at, sizes in enumerate(form.sizes)
        for axis, size in enumerate(sizes)
        if size > 1 and (varying is None or any(each > 1 and size % each == 0 for each in varying))
    }
    numbers = {
        register: Derived(axis, 1, 0)
        for axis in sorted(axes, reverse=True)
        for register, number in form.numbers.items()
        if type(number) is int and number == form.at(axis)
    }
    return Free(frozenset(axes), numbers, expected=True) if axes else None


def _derived(register: int, axis: Axis, forms: Sequence[Form]) -> Derived | None:
    """How a number follows from a size in all of these forms; None: it does not."""
    last = forms[-1]
    other = next(form for form in forms if form.at(axis) != last.at(axis))
    one, two = (form.numbers.get(register) for form in (last, other))
    if type(one) is not int or type(two) is not int:
        return None
    factor, rest = divmod(one - two, last.at(axis) - other.at(axis))
    made = Derived(axis, factor, one - factor * last.at(axis))
    return made if not rest and all(_same(form.numbers.get(register), made.of(form)) for form in forms) else None


def _same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and a == b


@dataclass
class Plans:
    """The plans of free sizes for forms of one kind.

    Attributes:
        example: the form that they were compiled with.
        free: what they leave open.
        segment: that they were compiled of.
        made: the plans; none is left when all were wrong.
    """

    example: Form
    free: Free
    segment: "SegmentGraph"
    made: list[Made] = field(default_factory=list)

    @classmethod
    def of(cls, example: Form, free: Free, segment: "SegmentGraph") -> "Plans":
        """Those of a graph, none of which is made yet.

        Raises:
            ExportError: operators fix a size that differed, or all that were expected to.
        """
        inputs = segment.graph.inputs
        left = frozenset(axis for axis in free.axes if not isinstance(inputs[axis[0]].shape[axis[1]], int))  # type: ignore[index]
        if not left or (left != free.axes and not free.expected):
            raise ExportError("a size that differs from call to call is fixed by an operator of this segment")
        numbers = {register: number for register, number in free.numbers.items() if number.axis in left}
        return cls(example, Free(left, numbers, free.expected), segment)

    def admit(self, form: Form, inputs: Sequence[Any]) -> bool:
        """They are for this form: it differs from the example in free sizes only, and those are as the graph says."""
        symbols: dict[str, int] = {}
        given = self.segment.graph.inputs[: len(form.sizes)]  # without those that functions of the program read
        for value, sizes in zip(given, form.sizes, strict=True):
            if not _bound(value, sizes, symbols):
                return False
        for value, sizes in zip(given, form.sizes, strict=True):
            if any(evaluate(size, symbols) != found for size, found in zip(value.shape or (), sizes, strict=True)):
                return False
        for register, number in self.example.numbers.items():
            derived = self.free.numbers.get(register)
            if not _same(form.numbers.get(register), number if derived is None else derived.of(form)):
                return False
        return min(symbols.values(), default=2) >= 2 and all(
            made.plan.holds(*inputs, *self.segment.extras) for made in self.made
        )


def _bound(value: Value, sizes: Sequence[int], symbols: dict[str, int]) -> bool:
    """Notes what the symbols of an input are; False: one of them has another size already."""
    for size, found in zip(value.shape or (), sizes, strict=True):
        if isinstance(size, str) and size.isidentifier() and symbols.setdefault(size, found) != found:
            return False
    return True


@dataclass
class Kind:
    """Forms of one kind.

    Attributes:
        seen: that no plan of free sizes is for.
        plans: the newest ones.
        tried: how often plans were asked for.
        compiling: how many of these are on their way.
        waiting: what is done when they have come, for forms that were offered meanwhile.
    """

    seen: list[Form] = field(default_factory=list)
    plans: Plans | None = None
    tried: int = 0
    compiling: int = 0
    waiting: list[Callable[[], None]] = field(default_factory=list)

    def give_up(self) -> None:
        """No backend can make a plan of free sizes, or one was wrong: no other is asked for."""
        self.tried = _PLANS

    def wants_plans(self, form: Form) -> Free | None:
        """What plans are to leave open that the market asks for now; None: it asks for none."""
        if self.tried >= _PLANS:
            return None
        del self.seen[:-_SEEN]
        if all(form.sizes != other.sizes or form.numbers != other.numbers for other in self.seen):
            self.seen.append(form)
        elif len(self.seen) < ENOUGH:
            return None
        enough = len(self.seen) >= ENOUGH and not self.compiling
        return free_of([*(each for each in self.seen if each is not form), form]) if enough else None


@dataclass
class Memo:
    """What a market remembers of a segment, by the kind of its forms; it holds no place in the segment itself.

    Attributes:
        kinds: of forms.
        process: that compiles what is on its way.
    """

    kinds: dict[tuple[Any, ...], Kind] = field(default_factory=dict)
    process: int = field(default_factory=os.getpid)

    def kind(self, form: Form) -> Kind:
        """Where forms like this one are remembered."""
        if self.process != os.getpid():  # what was on its way when it was forked comes to the parent alone
            self.process = os.getpid()
            for each in self.kinds.values():
                each.compiling, each.waiting = 0, []
        return self.kinds.setdefault(form.kind, Kind())

    def forget(self, made: Made) -> None:
        """A plan of free sizes was wrong."""
        for kind in self.kinds.values():
            if kind.plans is not None and made in kind.plans.made:
                kind.plans.made.remove(made)
                kind.give_up()
