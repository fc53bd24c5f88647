"""The rewritten function: a function of Python that does what a recorded call did, where the guards of its trace hold.

    def scaled(x, *, k=2):
        if not (type(x) is Tensor and ...): return original(x, k=k)
        ...
        try:
            r5 = aten_mul_Tensor(x, weight)
        except Exception:
            undo()
        else:
            return r5
        return original(x, k=k)

It runs on plain CPython and needs neither the hook nor the trace. Where a guard does not hold, where the program
decides another way, or where an operator raises, what was done so far is undone and the original is called: values,
effects and exceptions are those of the original. `inspect.getsource(made.__code__)` is the text; what it names is in
`made.__globals__`.

1. The signature, defaults, name and doc are those of the function at the time of the export. A module, or another
   object that is called, is called with the very arguments.
2. Operators are bound as they were called, by their overload; objects of the program are the very same ones.
3. The function holds what its guards speak of, so an address always means what it meant.
4. A file is the text alone, for reading: objects of the program cannot be written there.
"""

import functools
import inspect
import itertools
import linecache
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any

from pijit import _listing, _torch_objects
from pijit._formats.code.guards import Condition, Guards
from pijit._formats.code.library import OtherWay, Unchanged, Undo, form_of, modes
from pijit._formats.code.nodes import Nodes
from pijit._formats.code.values import LIBRARY, Namespace, Unsayable, Values
from pijit.errors import ExportError
from pijit.graph.build import capture
from pijit.graph.build.arguments import leaves

NAME = "code"
PACKAGES = ()
INSTALL = ""
SUFFIX = ".py"
DOC = "the rewritten function: guards that go back to the original, calls and effects, on plain CPython"

_WIDTH = 110  # of a line of guards
_NUMBERS = itertools.count(1)


def make_of_call(fn: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, decisions: str, dynamic: Any) -> Any:
    """The function.

    Args:
        fn: what is called, once.
        args: of the call.
        kwargs: of the call.
        decisions: "assume": what is decided behind a write is asserted; "split": it is an error.
        dynamic: False: the sizes of tensors must be those of the call.

    Raises:
        ExportError: the call was not recorded to its end, or does what Python code cannot say.
    """
    if isinstance(dynamic, Mapping):
        raise ExportError("format 'code' takes dynamic=None or False: sizes are free where the program leaves them so")
    head = _Head(fn)
    before = {id(leaf.tensor): form_of(leaf.tensor) for leaf in leaves(fn, args, kwargs)}
    caller = head.caller()
    then = _modes()
    with capture.recorded(fn, caller, args, kwargs) as (data, guard_data):
        writer = _Writer(head, caller, data, guard_data, before, then)
        return writer.function(exact=dynamic is False, assume=decisions == "assume")


def write(made: Any, path: Path) -> None:
    """The text, and above it in comments the objects of the program that it names."""
    lines = [f"# {name}: {shown}" for name, shown in sorted(made.__pijit_names__.items())]
    head, _, rest = made.__pijit_text__.partition("\n")
    said = "# The text alone does not run: its names are objects of the program, and functions of pijit."
    path.write_text("\n".join([head, said, *lines, rest]), encoding="utf-8")


def _modes() -> Any:
    return modes() if "torch" in sys.modules else None


class _Head:
    """How the function is called: its name, parameters, and what is handed on."""

    def __init__(self, fn: Any) -> None:
        self.fn = fn
        inner = fn.__func__ if isinstance(fn, MethodType) else fn
        self.name = getattr(inner, "__name__", None) or type(fn).__name__
        self.word = re.sub(r"\W", "_", self.name) if re.sub(r"\W", "_", self.name).isidentifier() else "function"
        self.defaults: dict[str, Any] = {}
        self.parameters: list[inspect.Parameter] = []
        if isinstance(inner, FunctionType):
            signature = inspect.signature(inner, follow_wrapped=False)
            self.parameters = list(signature.parameters.values())[1 if isinstance(fn, MethodType) else 0 :]
        taken = {each.name for each in self.parameters}
        wanted = ("self", "self_1") if _torch_objects.is_module(fn) else ("its_original", "its_original_1")
        self.own = next(name for name in wanted if name not in taken)  # what the text calls the original as an object
        if not self.parameters and not isinstance(inner, FunctionType):
            kinds = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
            self.parameters = [
                inspect.Parameter(name, kind) for name, kind in zip(("args", "kwargs"), kinds, strict=True)
            ]

    @property
    def names(self) -> list[str]:
        return [each.name for each in self.parameters]

    def signature(self) -> str:
        """The parameters, with `default_x` for the default of `x`."""
        words, star = [], False
        for at, each in enumerate(self.parameters):
            if each.kind is each.KEYWORD_ONLY and not star:
                words.append("*")
                star = True
            star = star or each.kind is each.VAR_POSITIONAL
            marks: dict[Any, str] = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}
            mark = marks.get(each.kind, "")
            words.append(f"{mark}{each.name}{'' if each.default is each.empty else f'=default_{each.name}'}")
            following = self.parameters[at + 1] if at + 1 < len(self.parameters) else None
            if each.kind is each.POSITIONAL_ONLY and (following is None or following.kind is not each.POSITIONAL_ONLY):
                words.append("/")
        return ", ".join(words)

    def handed_on(self) -> str:
        """The arguments of the call of the original."""
        words = []
        for each in self.parameters:
            form: dict[Any, str] = {
                each.VAR_POSITIONAL: "*{0}",
                each.VAR_KEYWORD: "**{0}",
                each.KEYWORD_ONLY: "{0}={0}",
            }
            words.append(form.get(each.kind, "{0}").format(each.name))
        return ", ".join(words)

    def default_values(self) -> dict[str, Any]:
        return {f"default_{each.name}": each.default for each in self.parameters if each.default is not each.empty}

    def caller(self) -> FunctionType:
        """A function of these parameters that calls the original, for the recording."""
        text = (
            f"def make({self.own}):\n    def call({self.signature()}):\n        return {self.own}({self.handed_on()})\n"
        )
        scope: dict[str, Any] = self.default_values()
        exec(compile(text + "    return call\n", f"<pijit export of {self.name}>", "exec"), scope)
        made = scope["make"](self.fn)
        made.__name__ = made.__qualname__ = self.name
        return made  # type: ignore[no-any-return]


class _Writer:
    """Writes the text of one trace, and makes the function of it."""

    def __init__(
        self, head: _Head, caller: FunctionType, data: Any, guard_data: Any, before: Mapping[int, Any], then: Any
    ) -> None:
        self.caller = caller
        self.head, self.data, self.guard_data, self.before, self.then = head, data, guard_data, before, then
        names = {*head.names, head.word, head.own, *head.default_values(), "recorded_modes"}
        self.namespace = Namespace(names, guard_data["names"])
        self.namespace.give(head.own, head.fn)
        if "torch" in sys.modules:
            self.namespace.give("torch", sys.modules["torch"])
        self.unchanged = Unchanged()
        self.values = Values(self.namespace)

    def function(self, *, exact: bool, assume: bool) -> Callable[..., Any]:
        text, objects = self._text(exact, assume)
        filename = f"<pijit code {next(_NUMBERS)} of {self.head.name}>"
        scope = {**LIBRARY, **objects, **self.head.default_values(), "unchanged": self.unchanged}
        scope |= {
            "original": self.head.fn,
            "Undo": Undo,
            "OtherWay": OtherWay,
            "__name__": getattr(self.head.fn, "__module__", "pijit"),
        }
        exec(compile(text, filename, "exec"), scope)
        made: Any = scope[self.head.word]
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
        return self._dressed(made, text)

    def _dressed(self, made: Any, text: str) -> Callable[..., Any]:
        """With the name, doc and signature of the original."""
        fn = self.head.fn
        inner = fn.__func__ if isinstance(fn, MethodType) else fn
        functools.update_wrapper(made, inner, updated=())
        made.__dict__.pop("__wrapped__", None)
        made.__wrapped__ = fn
        if not isinstance(inner, FunctionType):
            made.__name__ = made.__qualname__ = self.head.name
            made.__doc__ = type(fn).__doc__
            made.__annotations__ = {}
        made.__pijit_text__ = text
        made.__pijit_names__ = self._shown()
        return made  # type: ignore[no-any-return]

    def _shown(self) -> dict[str, str]:
        """What the names of the text are, in words."""
        shown = {"original": type(self.head.fn).__name__}
        for name, thing in self.namespace.objects.items():
            source = self.namespace.texts.get(id(thing), "")
            shown[name] = type(thing).__name__ + (f", {_listing.readable(source)}" if source else "")
        return shown

    def _text(self, exact: bool, assume: bool) -> tuple[str, dict[str, Any]]:
        for at, name in enumerate(self.data["arguments"]):
            self.values.names[at] = name
        guards = Guards(self.guard_data, self.values, self.unchanged)
        nodes = Nodes(self.data, guards, self.values, assume=assume)
        try:
            rows = [row for row in self.guard_data["guards"][: self.guard_data["entry"]] if not self._is_our_own(row)]
            conditions = [condition for row in rows for condition in guards.row(row)]
            conditions += guards.tensors(self.guard_data["inputs"])
        except Unsayable as why:
            raise ExportError(
                f"{self.head.name}: {why}, which format 'code' cannot hold. Export what it calls, or pass that as an "
                "argument"
            ) from None
        for row in self.guard_data["guards"][: self.guard_data["entry"]]:
            if row["out"] is not None:
                nodes.free(row["out"])
        for at, _ in enumerate(self.data["arguments"]):
            nodes.free(at)
        for row in self.guard_data["inputs"]:
            nodes._loose.discard(row["register"])
        nodes.write()
        if exact or nodes.exact:
            conditions += self._forms()
        lines = [self._heading(), f"def {self.head.word}({self.head.signature()}):"]
        lines += [f"    {line}" for line in (*self._modes(), *self._checked(conditions), *self._body(nodes))]
        return "\n".join(lines) + "\n", {**self.namespace.objects, **self._framework()}

    def _is_our_own(self, row: Mapping[str, Any]) -> bool:
        """It is about the function that called the original for the recording."""
        return any(row["subject"][-1] is each for each in (self.caller, *(self.caller.__closure__ or ())))

    def _framework(self) -> dict[str, Any]:
        return {"torch": sys.modules["torch"], "recorded_modes": self.then} if "torch" in sys.modules else {}

    def _heading(self) -> str:
        file, line = self.data["file"], self.data["line"]
        inner = self.head.fn.__func__ if isinstance(self.head.fn, MethodType) else self.head.fn
        if isinstance(inner, FunctionType):
            file, line = inner.__code__.co_filename, inner.__code__.co_firstlineno
            return f"# {self.head.name} of {file}:{line}, rewritten by pijit from one call of it."
        return f"# {self.head.name}, rewritten by pijit from one call of it."

    def _return_original(self) -> str:
        return f"return original({self.head.handed_on()})"

    def _modes(self) -> Iterator[str]:
        if self.then is not None:
            yield f"if modes() != recorded_modes: {self._return_original()}"

    def _forms(self) -> Iterator[Condition]:
        for row in self.guard_data["inputs"]:
            origin = row["from"]
            tensor = origin[1] if origin[0] == "const" else self._tensor(row)
            form = self.before.get(id(tensor)) or form_of(tensor)
            name = self.namespace.name(form, f"form of {row['source']}")
            yield Condition(
                f"form_of({self.values.names[row['register']]}) == {name}", _listing.readable(row["source"])
            )

    def _tensor(self, row: Mapping[str, Any]) -> Any:
        found = next(each["object"] for each in self.data["inputs"] if each["register"] == row["register"])
        if found is None:
            raise ExportError(
                f"{self.head.name}: the tensor {row['source']} of the call is gone; its sizes are not known"
            )
        return found

    def _checked(self, conditions: list[Condition]) -> Iterator[str]:
        """The conditions as lines, those that stand together in one where they fit."""
        texts: list[str] = []
        sources: list[str] = []

        def line() -> Iterator[str]:
            if texts:
                shown = ", ".join(
                    dict.fromkeys(
                        source for source in sources if source[:1].isidentifier() and source not in self.head.names
                    )
                )
                said = f"  # {shown}" if shown else ""
                yield f"if not ({' and '.join(texts)}): {self._return_original()}{said}"
            texts.clear()
            sources.clear()

        seen: set[str] = set()
        for condition in conditions:
            if condition.load:
                yield from line()
                yield condition.text
                continue
            if condition.text in seen:
                continue
            seen.add(condition.text)
            if texts and len(" and ".join([*texts, condition.text])) > _WIDTH:
                yield from line()
            texts.append(condition.text)
            sources.append(condition.source)
        yield from line()

    def _body(self, nodes: Nodes) -> Iterator[str]:
        if nodes.undoes:
            yield "undo = Undo()"
        tried = list(_listing.with_sources(nodes.tried))
        if any(not line.lstrip().startswith("#") for line in tried):
            yield "try:"
            yield from tried
            yield "except Exception:"
            yield "    undo()" if nodes.undoes else "    pass"
            yield "else:"
            yield from _listing.with_sources(nodes.rest)
            yield f"    return {nodes.result}"
            yield self._return_original()
        else:
            yield from (line[4:] for line in _listing.with_sources(nodes.rest))
            yield f"return {nodes.result}"
