"""Forms that users give to operators of their own: `pijit.register_lowering`."""

from collections.abc import Callable
from typing import Any

from pijit._usage_errors import describe
from pijit.errors import UsageError

# By the names of operators, "namespace::name" or "namespace::name.overload".
_TORCH: dict[str, Callable[..., Any]] = {}
_ARRAYS: dict[str, Callable[..., Any]] = {}
_ONNX: dict[str, Callable[..., Any]] = {}
_CHANGES: list[str] = []


def register_lowering(
    op: Any,
    *,
    torch: Callable[..., Any] | None = None,
    arrays: Callable[..., Any] | None = None,
    onnx: Callable[..., Any] | None = None,
) -> None:
    """Say what an operator of your own is in frameworks that do not have it.

    Graphs hold each operator that has a schema; the formats of torch, `json` and `python` need nothing more. With
    `torch` alone, all other formats and frameworks have it: the calls of torch are lowered. A later registration of a
    form takes the place of an earlier one.

    Args:
        op: "namespace::name", with ".overload" if it has several; or the operator itself: `torch.ops.namespace.name`,
            one of its overloads, or what `torch.library.custom_op` gives.
        torch: takes the operator's arguments, and calls torch for the same result. It is traced, not run on data.
        arrays: takes an array namespace (`numpy` or `jax.numpy`), and the operator's arguments by their names in the
            schema. It gives an array, or a tuple of them.
        onnx: takes a builder, and the arguments by name. `o.Mul(x, 2.0)` adds an operator of ONNX and gives its result.

    Raises:
        UsageError: `op` is no operator, no form is given, or a form cannot be called.

    Example:
        >>> import pijit
        >>> pijit.register_lowering("mine::twice", torch=lambda x: x * 2, onnx=lambda o, x: o.Mul(x, 2.0))
    """
    name = _name(op)
    given = [(_TORCH, "torch", torch), (_ARRAYS, "arrays", arrays), (_ONNX, "onnx", onnx)]
    if all(form is None for _, _, form in given):
        raise UsageError(f"register_lowering({name!r}) is given no form; give torch=, arrays= or onnx=")
    for _, word, form in given:
        if form is not None and not callable(form):
            raise UsageError(f"{word}= takes a function, not {describe(form)}")
    for forms, _, form in given:
        if form is not None:
            forms[name] = form
    _CHANGES.append(name)


def _name(op: Any) -> str:
    """ "namespace::name", with ".overload" where it is not the default one."""
    held = getattr(op, "_opoverload", op)  # of what `custom_op` gives
    schema = getattr(held, "_schema", None)
    if schema is not None:
        return f"{schema.name}.{schema.overload_name}" if schema.overload_name else str(schema.name)
    name = held if isinstance(held, str) else getattr(held, "_qualified_op_name", "")
    namespace, _, rest = str(name).removesuffix(".default").partition("::")
    if not namespace or not rest:
        raise UsageError(f'op= is the name of an operator, such as "mine::twice", or an operator; not {describe(op)}')
    return f"{namespace}::{rest}"


def changes() -> int:
    """How often forms were given: what was made before another time may be another one now."""
    return len(_CHANGES)


def in_torch() -> dict[str, Callable[..., Any]]:
    """The forms in calls of torch, by the paths of their operators."""
    paths = {}
    for name, form in _TORCH.items():
        namespace, _, rest = name.partition("::")
        base, _, overload = rest.partition(".")
        paths[f"torch.ops.{namespace}.{base}.{overload or 'default'}"] = form
    return paths


def of_arrays(name: str) -> Callable[..., Any] | None:
    """The form of an operator over a namespace of arrays, or None."""
    return _ARRAYS.get(name)


def in_onnx(name: str) -> Callable[..., Any] | None:
    """The form of an operator in ONNX, or None."""
    return _ONNX.get(name)
