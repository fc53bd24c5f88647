"""The nodes of a trace as statements of Python.

As long as the original can be called in the place of all this, a decision that goes another way raises `OtherWay`, and
so may any operator raise: what was done is undone, and the original called. `Undo` takes back stores, appended items,
context variables, and numbers drawn on the CPU. The first statement that cannot be taken back, such as a write to a
tensor that came in, or a call that nobody looks into, ends that: what follows must be sure.

1. What follows from the sizes alone is sure where the function is entered with the very sizes, strides and
   `requires_grad` of the recorded call; it asks for these then (`exact`).
2. Any other decision behind it, and a call that nobody looks into, is an `ExportError`. With `decisions="assume"` they
   are made, and asserted.
3. A call that nobody looks into leaves the modes of torch as they are; `__enter__` and `__exit__` may set some.
4. An operator behind it that stands within a `try` or `with` of the program is an `ExportError`: if it raised, the
   program would go on there.
"""

import struct
from collections.abc import Mapping
from typing import Any

from pijit._formats.code.guards import Guards
from pijit._formats.code.lines import ELSEWHERE
from pijit._formats.code.operators import Operators
from pijit._formats.code.values import Unsayable, Values

_INFIX = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "truediv": "/",
    "floordiv": "//",
    "mod": "%",
    "lt": "<",
    "le": "<=",
    "eq": "==",
    "ne": "!=",
    "gt": ">",
    "ge": ">=",
}
_PREFIX = {"neg": "-{}", "truth": "bool({})", "not_": "not {}", "bool": "bool({})", "not": "not {}"}
_SILENT = {"exit_point", "region", "return"}
_SPREAD = 2**32 - 1
# Nodes that no statement can say, in words.
_LEFT = {
    "run": "the rest of a function, whose recording stopped, runs in CPython",
    "run_raise": "the rest of a function, whose recording stopped, runs in CPython",
    "next": "an iterator of the program gives its next item",
    "advance": "an iterator of the program gives its next item",
    "opaque_raise": "a call raises that nobody looks into",
}


class Nodes(Operators):
    """Writes the statements of one trace.

    Attributes:
        result: what is returned, as an expression.
    """

    def __init__(self, data: Mapping[str, Any], guards: Guards, values: Values, *, assume: bool) -> None:
        super().__init__(data, guards, values, assume=assume)
        self.result = "None"
        self._modes_before = ""
        self._handlers = {
            "adapter": self._call, "check": self._call, "build": self._build,
            "setattr": self._setattr, "delattr": self._delattr, "setitem": self._setitem, "delitem": self._delitem,
            "setcell": self._setcell, "call": self._c_call, "opaque": self._opaque, "pure": self._pure,
            "scalar": self._scalar, "epoch": self._epoch, "getcell": self._getcell, "box": self._box,
            "unbox": self._unbox, "guard_bool": self._number, "guard_int": self._number, "guard_float": self._number,
            "guard_is": self._identity, "guard_type": self._type,
        }  # fmt: skip

    def write(self) -> None:
        """All of them.

        Raises:
            ExportError: one cannot be said, with its line.
        """
        for row in self.data["nodes"]:
            self._place = self._place_of(row["frame"])
            op = row["op"]
            if op == "exit":
                self._stopped()
            if op in _SILENT:
                continue
            handler = self._handlers.get(op)
            if handler is None:
                raise self._error(_LEFT.get(op, f"{self._called(row)} is a node {op!r}"), ELSEWHERE)
            try:
                handler(row)
            except Unsayable as why:
                raise self._error(f"{self._called(row)} takes {why}", ELSEWHERE) from None
        self._place = ("", 0)
        try:
            self._add_all(self.values.prepared(self.data["result"]))
            self.result = self.values.text(self.data["result"])
        except Unsayable as why:
            raise self._error(f"{self.data['name']} returns {why}", "Return something else") from None

    # -- decisions

    def _number(self, row: Mapping[str, Any]) -> None:
        op, text = row["op"], self.values.text(row["a"])
        if op == "guard_bool":
            condition = f"{text}" if row["imm"] else f"not {text}"
        elif op == "guard_int":
            condition = f"{text} == {row['imm']}"
        else:
            expected = row["imm"]
            expected = struct.unpack("<d", expected.to_bytes(8, "little"))[0] if type(expected) is int else expected
            condition = f"same({text}, {self.values.namespace.literal(expected)})"
        self._decide(condition, form=self.is_form(row["a"]))

    def _identity(self, row: Mapping[str, Any]) -> None:
        condition = self.guards.equal(self.values.text(row["a"]), row["b"], bits=False)
        self._decide(condition, form=self.is_form(row["a"]))

    def _type(self, row: Mapping[str, Any]) -> None:
        self._decide(f"type({self.values.text(row['a'])}) is {self.values.text(row['b'])}", form=self.is_form(row["a"]))

    def _epoch(self, row: Mapping[str, Any]) -> None:
        """What code that nobody looked into may have changed."""
        epoch = self.guards.data["epochs"][row["aux"]]
        what = "what the call before may have changed is looked at again"
        if epoch["modes"] and self._modes_before:
            self._decide(f"modes() == {self._modes_before}", form=False, what=what)
        for condition in self.guards.conditions(epoch["first"], epoch["count"]):
            if condition.load:
                self._add(condition.text)
            else:
                self._decide(condition.text, form=False, what=what)
        for condition in self.guards.tensors(epoch["inputs"]):
            self._decide(condition.text, form=False, what=what)

    # -- objects and numbers

    def _scalar(self, row: Mapping[str, Any]) -> None:
        a, b, name = row["a"], row["b"], row["scalar"]
        sides = [self.values.text(a)] + ([self.values.text(b)] if b is not None and name in _INFIX else [])
        self._may_raise(row) if name in {"truediv", "floordiv", "mod"} else None
        loose = not self.is_form(a, b or ("none",))
        sides = [f"({side})" if side.startswith("-") else side for side in sides]
        text = f" {_INFIX[name]} ".join(sides) if name in _INFIX else _PREFIX[name].format(sides[0])
        self._add(f"{self._given(row, loose=loose)} = {text}")

    def _box(self, row: Mapping[str, Any]) -> None:
        self._alias(row, row["b"])

    def _unbox(self, row: Mapping[str, Any]) -> None:
        self._alias(row, row["a"])

    def _alias(self, row: Mapping[str, Any], value: Any) -> None:
        self.values.names[row["out"]] = self.values.text(value)
        if not self.is_form(value):
            self._loose.add(row["out"])
        if self._is_own(value):
            self._own.add(row["out"])

    def _build(self, row: Mapping[str, Any]) -> None:
        built = row["built"]
        self._add_all(self.values.prepared(built))
        text = self.values.text(built)
        self._built[row["out"]] = built
        self._add(f"{self._given(row, own=True, loose=not self.is_form(built))} = {text}")

    def _setattr(self, row: Mapping[str, Any]) -> None:
        thing, name = self._prepared(row["a"], row["c"]), row["b"][1]
        if not self._is_own(row["a"]):
            self._undo(f"attribute({thing}, {name!r})")
        kind: Any = type(row["a"][1]) if row["a"][0] == "const" else None
        plain = kind is not None and kind.__setattr__ is object.__setattr__
        value = self.values.text(row["c"])
        self._add(f"{thing}.{name} = {value}" if plain else f"set_attribute({thing}, {name!r}, {value})")

    def _delattr(self, row: Mapping[str, Any]) -> None:
        self._add(f"delete_attribute({self._prepared(row['a'])}, {row['b'][1]!r})")
        self._leave(row["a"])

    def _setitem(self, row: Mapping[str, Any]) -> None:
        thing = self._prepared(row["a"], row["b"], row["c"])
        key = self.values.text(row["b"])
        if not self._is_own(row["a"]):
            self._undo(f"item({thing}, {key})")
        self._add(f"{thing}[{key}] = {self.values.text(row['c'])}")

    def _delitem(self, row: Mapping[str, Any]) -> None:
        self._add(f"del {self._prepared(row['a'])}[{self.values.text(row['b'])}]")
        self._leave(row["a"])

    def _setcell(self, row: Mapping[str, Any]) -> None:
        cell = self._prepared(row["a"], row["b"] or ("none",))
        self._undo(f"cell({cell})")
        if row["b"] is None or row["b"] == ("none",):
            self._add(f"del {cell}.cell_contents")
        else:
            self._add(f"{cell}.cell_contents = {self.values.text(row['b'])}")

    def _getcell(self, row: Mapping[str, Any]) -> None:
        self._add(f"{self._given(row)} = {self.values.text(row['a'])}.cell_contents")

    def _prepared(self, first: Any, *values: Any) -> str:
        self._add_all(self.values.prepared(first, *values))
        return self.values.text(first)

    def _leave(self, thing: Any) -> None:
        """This cannot be undone, unless nobody else sees it."""
        if not self._is_own(thing):
            self.final = True

    # -- calls

    def _text_of_call(self, row: Mapping[str, Any]) -> str:
        called, names = row["a"], row["b"]
        operands = list(row["operands"])
        self._add_all(self.values.prepared(called, *operands))
        function = self._function(called)
        if row["aux"] == _SPREAD:
            starred = [f"*{self.values.text(operands[0])}"] + [f"**{self.values.text(each)}" for each in operands[1:]]
            return f"{function}({', '.join(starred)})"
        words = list(names[1]) if names is not None and names[0] == "const" else []
        if names is not None and names[0] == "tuple":
            words = [each[1] for each in names[-1]]
        count = len(operands) - (row["aux"] if words else 0)
        texts = [self.values.text(each) for each in operands]
        named = [f"{word}={text}" for word, text in zip(words, texts[count:], strict=True)]
        return f"{function}({', '.join([*texts[:count], *named])})"

    def _function(self, called: Any) -> str:
        """What is called; a method of a built-in class has its name."""
        thing = called[1] if called[0] == "const" else None
        owner = getattr(thing, "__objclass__", None)
        name = getattr(thing, "__name__", "")
        if (
            isinstance(owner, type)
            and owner in {list, dict, set, tuple, str, bytes, int, float}
            and name.isidentifier()
        ):
            return f"{owner.__name__}.{name}"
        return self.values.text(called)

    def _c_call(self, row: Mapping[str, Any]) -> None:
        """A callable of C whose effects are known: they are on its first argument."""
        name = self._called(row)
        first = row["operands"][0] if row["operands"] else None
        text = self._text_of_call(row)
        self._may_raise(row)
        own = self._is_own(first)
        shown = "" if first is None else self.values.text(first)
        if name == "list.append" and not own:
            self._undo(f"appended({shown})")
        target = self._given(row) if row["out"] is not None else "_"
        self._add(text if target == "_" else f"{target} = {text}")
        if name == "ContextVar.set":
            target = target if target != "_" else self._named_last()
            self._undo(f"context({shown}, {target})")
        elif name == "ContextVar.reset":
            self._undo(f"reset({shown}, {self.values.text(row['operands'][1])})")
        elif not own and name not in {"list.append", "ContextVar.reset"}:
            self.final = True

    def _named_last(self) -> str:
        """The value of the last statement gets a name."""
        name = self.values.namespace.fresh("token")
        last = self.lines.pop()
        self._add(f"{name} = {last.text}")
        return name

    def _opaque(self, row: Mapping[str, Any]) -> None:
        if not self.assume:
            raise self._error(
                f"{self._called(row)} runs code that nobody looks into: it may change what the rest relies on, and "
                "look at the frames of its callers",
                f"{ELSEWHERE}, or export with `decisions='assume'`: then what it may have changed is asserted",
            )
        text = self._text_of_call(row)
        self.final = True
        self._may_raise(row)
        self._modes_before = ""
        manager = self._called(row).rpartition(".")[2] in {"__enter__", "__exit__"}  # what it sets is its own affair
        if not manager and any(epoch["modes"] for epoch in self.guards.data["epochs"]):
            self._modes_before = self.values.namespace.fresh("modes_before")
            self._add(f"{self._modes_before} = modes()")
        target = self._given(row) if row["out"] is not None else ""
        self._add(f"{target} = {text}" if target else text)

    def _pure(self, row: Mapping[str, Any]) -> None:
        self._may_raise(row)
        text = self._text_of_call(row)
        kind = row["type"]
        loose = not self.is_form(*row["operands"])
        target = self._given(row, loose=loose)
        self._add(f"{target} = {text}")
        if kind[0] == "const" and isinstance(kind[1], type):
            self._decide(f"type({target}) is {self.values.namespace.literal(kind[1])}", form=not loose)
