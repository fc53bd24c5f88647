"""What a function takes, by `jit(signature=)`: dtypes, ranks and bounds of sizes, and the error for anything else.

1. The check is Python code over the parameters of the function, recorded and replayed like the rest of a call: where
   sizes stay free, it is a comparison of numbers in the trace. So it holds in whatever way a call runs, under
   `disable()` and `PIJIT=0`, too.
2. Each rule is one row with one expression. What is recorded is made of the expressions of all rows; the error
   evaluates the same ones, one after the other, to find the first that does not hold.
3. A module comes back from `jit` as the same object: its check is a hook before its `forward`.
"""

import ast
import inspect
import re
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, NamedTuple

from pijit._roots import second_of
from pijit._usage_errors import describe, hint, nearest
from pijit.errors import SignatureError, UsageError
from pijit.traces import place

_TENSOR = re.compile(r"\s*([\w|\s]+?)\s*(?:\[(.*)\])?\s*(\?)?\s*\Z", re.DOTALL)
_AXIS = re.compile(r"(?:([A-Za-z_]\w*)\s*(?::\s*|\Z))?(?:(\d+)?\s*(\.\.)\s*(\d+)?|(\d+))?\Z")
_KINDS = {
    "any": "True",
    "floating": "{0}.dtype.is_floating_point",
    "complex": "{0}.dtype.is_complex",
    "integer": "not ({0}.dtype.is_floating_point or {0}.dtype.is_complex or {0}.dtype is {1})",
}
_FORMS = (
    "'float32[batch:1..64, 128]' for a tensor (a size, bounds, a name, a name with bounds, or * for any; ... for axes; "
    "'floating', 'integer', 'complex' or 'any' for a dtype; ? at the end where None will do), a dtype, a tensor like "
    "those to come, a class such as int, or a tuple, list or dict of these"
)


class Row(NamedTuple):
    """A rule.

    Attributes:
        expression: Python over the parameters and the names of `Rules`; raises nothing where the rows before it hold.
        path: what it is about, as Python.
        form: what the signature says of that.
        words: of what is wrong, with {} for what `seen` gives.
        seen: Python, as `expression`.
        advice: what to try.
    """

    expression: str
    path: str
    form: str
    words: str
    seen: str
    advice: str


class Rules:
    """The rows of a signature for one function.

    Attributes:
        rows: in the order in which they are checked.
        names: objects that the expressions name.
    """

    def __init__(self, function: FunctionType, signature: Any, skipped: int = 0) -> None:
        """`skipped`: how many of the first parameters are not the caller's, such as `self`."""
        self.where = (
            f"{place(function.__code__.co_filename, function.__code__.co_firstlineno)} in {function.__name__}()"
        )
        self.names: dict[str, Any] = {"_pijit_isinstance": isinstance, "_pijit_len": len, "_pijit_type": type}
        self.rows: list[Row] = []
        self._sizes: dict[str, tuple[str, str]] = {}  # by name: the tensor that has it first, and the size there
        for name, form in _by_name(function, signature, skipped).items():
            self._add(name, form)

    @property
    def condition(self) -> str:
        """All rows hold, as Python."""
        return " and ".join(row.expression for row in self.rows) or "True"

    def failure(self, values: Mapping[str, Any]) -> SignatureError:
        """The error for arguments, by name, for which one row does not hold."""
        scope = {**self.names, **values}
        row = next((row for row in self.rows if not eval(row.expression, scope)), None)
        if row is None:
            return SignatureError(
                f"{self.where}: its arguments were changed while they were compared with its signature"
            )
        words, given = row.words.format(eval(row.seen, scope)), _form_of(eval(row.path, scope))
        return SignatureError(
            f"{self.where}: {row.path} is {given}, and its signature says {row.form}: {words}; {row.advice}, or change "
            "signature="
        )

    def _name(self, thing: Any) -> str:
        return next((name for name, each in self.names.items() if each is thing), None) or self._new_name(thing)

    def _new_name(self, thing: Any) -> str:
        self.names[name := f"_pijit_{len(self.names)}"] = thing
        return name

    def _add(self, path: str, form: Any) -> None:
        """Adds the rows for what stands at the path."""
        if isinstance(form, str):
            self._add_tensor(path, form)
        elif isinstance(form, type) or form is None:
            kind = type(None) if form is None else form
            self._add_class(path, kind, f"{'None' if form is None else form.__name__}")
        elif isinstance(form, Mapping):
            self._add_class(path, dict, "a dict")
            for key, inner in form.items():
                if not isinstance(key, str | int):
                    raise _wrong(path, f"keys of a dict are text or numbers, not {key!r}")
                advice = "put it there"
                self.rows.append(Row(f"{key!r} in {path}", path, f"an item {key!r}", "there is none", path, advice))
                self._add(f"{path}[{key!r}]", inner)
        elif isinstance(form, tuple | list):
            self._add_class(path, (tuple, list), "a tuple or list")
            many, length = f"{len(form)} items", f"_pijit_len({path})"
            advice = f"pass {len(form)}"
            self.rows.append(Row(f"{length} == {len(form)}", path, many, "there are {}", length, advice))
            for at, inner in enumerate(form):
                self._add(f"{path}[{at}]", inner)
        elif hasattr(form, "dtype") and hasattr(form, "shape"):
            self._add_tensor(path, f"{_word(form.dtype)}[{', '.join(map(str, form.shape))}]")
        elif type(form).__name__ == "dtype":
            self._add_tensor(path, _word(form))
        else:
            raise _wrong(path, f"{describe(form)} is no form")

    def _add_class(self, path: str, kind: Any, form: str) -> None:
        expression = f"_pijit_isinstance({path}, {self._name(kind)})"
        seen = f"_pijit_type({path}).__name__"
        self.rows.append(Row(expression, path, form, "its class is {}", seen, f"pass {form}"))

    def _add_tensor(self, path: str, form: str) -> None:
        """Adds the rows of "float32[batch:1..64, 128]"."""
        import torch

        found = _TENSOR.match(form)
        if found is None:
            raise _wrong(path, f"{form!r} is no form")
        dtypes, sizes, optional = found.groups()

        def add(expression: str, words: str, seen: str, advice: str) -> None:
            whole = f"({path} is None or {expression})" if optional else expression
            self.rows.append(Row(whole, path, form, words, seen, advice))

        kind = f"_pijit_type({path}).__name__"
        add(f"_pijit_isinstance({path}, {self._name(torch.Tensor)})", "its class is {}", kind, "pass a tensor")
        words = [word.strip() for word in dtypes.split("|")]
        if "any" not in words:
            either = " or ".join(self._dtype(path, word, form) for word in words)
            add(f"({either})", "its dtype is {}", f"{path}.dtype", f"pass {path}.to(...) of that dtype")
        if sizes is None:
            return
        axes = [axis.strip() for axis in sizes.split(",")] if sizes.strip() else []
        if axes.count("...") > 1:
            raise _wrong(path, f"{form!r} has ... twice")
        compared, rank = (">=", len(axes) - 1) if "..." in axes else ("==", len(axes))
        add(f"{path}.dim() {compared} {rank}", "it has {} axes", f"{path}.dim()", "add or take away axes")
        for at, axis in enumerate(axes):
            if axis not in {"...", "*"}:
                self._add_axis(path, at - len(axes) if "..." in axes[:at] else at, axis, form, add)

    def _dtype(self, path: str, word: str, form: str) -> str:
        import torch

        if word in _KINDS:
            return _KINDS[word].format(path, self._name(torch.bool))
        if isinstance(dtype := getattr(torch, word, None), torch.dtype):
            return f"{path}.dtype is {self._name(dtype)}"
        known = (*_KINDS, *(name for name, each in vars(torch).items() if isinstance(each, torch.dtype)))
        raise _wrong(path, f"in {form!r} no dtype is called {word!r}{hint(word, known)}")

    def _add_axis(self, path: str, at: int, axis: str, form: str, add: Callable[[str, str, str, str], None]) -> None:
        found = _AXIS.match(axis)
        if not axis or found is None:
            raise _wrong(path, f"in {form!r} {axis!r} is no size")
        name, low, dots, high, exact = found.groups()
        if low and high and int(low) > int(high):
            raise _wrong(path, f"in {form!r} no size is within {axis!r}")
        here, words = f"{path}.size({at})", f"axis {at} has {{}}"
        if exact:
            add(f"{here} == {int(exact)}", words, here, "pass a tensor of that size")
        if dots and low:
            add(f"{here} >= {int(low)}", words, here, "pad it")
        if dots and high:
            add(f"{here} <= {int(high)}", words, here, "pass it in parts")
        if name:
            first, size = self._sizes.setdefault(name, (path, here))
            if size != here:
                there = size.replace("{", "{{").replace("}", "}}")
                words = f"axis {at} has {{0[0]}}, where {there} is {{0[1]}}"
                seen, advice = f"({here}, {size})", f"pass tensors that agree in {name}"
                add(f"({first} is None or {here} == {size})", words, seen, advice)


def _wrong(path: str, words: str) -> UsageError:
    return UsageError(f"pijit.jit(): signature of {path}: {words}; it takes {_FORMS}")


def _word(dtype: object) -> str:
    return str(dtype).rpartition(".")[2]


def _form_of(given: Any) -> str:
    """What was given, as a signature has it."""
    if hasattr(given, "dtype") and hasattr(given, "shape"):
        return f"{_word(given.dtype)}[{', '.join(map(str, given.shape))}]"
    return "None" if given is None else f"of class {type(given).__name__}"


def _by_name(function: FunctionType, signature: Any, skipped: int) -> dict[str, Any]:
    """The forms of a signature, by the parameters that they are for."""
    parameters = list(inspect.signature(function, follow_wrapped=False).parameters.values())[skipped:]
    known = [each.name for each in parameters if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]
    if isinstance(signature, tuple | list):
        if len(signature) > len(known):
            name = function.__qualname__
            raise UsageError(f"pijit.jit(): signature has {len(signature)} forms, and {name}() {len(known)} parameters")
        return dict(zip(known, signature, strict=False))
    if not isinstance(signature, Mapping):
        raise UsageError(
            f"pijit.jit(): signature is a dict of forms by the names of parameters, or a list, not {signature!r}"
        )
    for name in signature:
        if name not in known:
            has = f"{function.__qualname__}() has no parameter {name!r}{nearest(str(name), known)}"
            raise UsageError(f"pijit.jit(): signature: {has}")
    return dict(signature)


def _compiled(function: FunctionType, signature: Any, skipped: int, inner: FunctionType | None) -> FunctionType:
    """A function with the parameters of `function` that checks them, and then returns what `inner` does.

    Args:
        function: whose parameters, names and place it has.
        signature: as it was given to `jit`.
        skipped: how many of the parameters it does not have.
        inner: is called with all parameters; None: nothing is.
    """
    rules = Rules(function, signature, skipped)
    parameters = list(inspect.signature(function, follow_wrapped=False).parameters.values())[skipped:]
    bare = [
        each.replace(annotation=each.empty, default=each.empty if each.default is each.empty else None)
        for each in parameters
    ]
    kinds = inspect.Parameter
    forms: dict[Any, str] = {kinds.VAR_POSITIONAL: "*{0}", kinds.VAR_KEYWORD: "**{0}", kinds.KEYWORD_ONLY: "{0}={0}"}
    call = ", ".join(forms.get(each.kind, "{0}").format(each.name) for each in parameters)
    values = ", ".join(f"{each.name!r}: {each.name}" for each in parameters)
    names = {**rules.names, "_pijit_failure": rules.failure, "_pijit_inner": inner}
    text = (
        f"def make({', '.join(names)}):\n"
        f" def checked{inspect.Signature(bare)}:\n"
        f"  if not ({rules.condition}): raise _pijit_failure({{{values}}})\n"
        f"  return {f'_pijit_inner({call})' if inner is not None else None}\n"
        f" return checked\n"
    )
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt | ast.expr | ast.arg):  # messages name the line of the function
            node.lineno = node.end_lineno = function.__code__.co_firstlineno
    made: dict[str, Any] = {}
    exec(compile(tree, function.__code__.co_filename, "exec"), made)
    check = made["make"](**names)
    code = check.__code__.replace(co_name=function.__name__, co_qualname=function.__qualname__)
    return second_of(function, code, check.__closure__)


def checked(function: FunctionType, signature: Any) -> FunctionType:
    """A new function that checks its arguments, and then does what `function` does.

    Raises:
        UsageError: the signature is none.
    """
    return _compiled(function, signature, 0, function)


class Hook:
    """Stands before the `forward` of a module, and checks what it is given."""

    def __init__(self, forward: FunctionType, signature: Any) -> None:
        self._given = forward, signature
        self._check = _compiled(forward, signature, 1, None)

    def __call__(self, module: object, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        self._check(*arguments, **named)

    def __reduce__(self) -> tuple[Any, ...]:
        return Hook, self._given


def hook(instance: Any, signature: Any) -> None:
    """Check the arguments of a module from now on; with None, no longer.

    Raises:
        UsageError: the signature is none, or this is no module of torch.
    """
    hooks = getattr(instance, "_forward_pre_hooks", None)
    forward = getattr(type(instance), "forward", None)
    if signature is not None and (hooks is None or not isinstance(forward, FunctionType)):
        raise UsageError(
            f"pijit.jit(): signature is for functions, methods and modules, not {describe(instance)}; jit its method"
        )
    made = None if signature is None else Hook(forward, signature)  # type: ignore[arg-type]
    if hooks is not None:
        for key in [key for key, each in hooks.items() if isinstance(each, Hook)]:
            hooks.pop(key)
            instance._forward_pre_hooks_with_kwargs.pop(key, None)
    if made is not None:
        instance.register_forward_pre_hook(made, prepend=True, with_kwargs=True)
