"""The guards of a trace as conditions of Python.

What the engine compares by a version (a class, a function, the dict of hooks) is compared by what is in it. Classes
that the guards name are held by the function: an address alone proves nothing there.
"""

import functools
import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from pijit import _listing
from pijit._formats.code import library
from pijit._formats.code.values import Namespace, Unsayable, Values

_NO_NUMBER = 1 << 63


class Condition(NamedTuple):
    """Something to check, or a variable to load first.

    Attributes:
        text: an expression that is true, or an assignment.
        source: the program's own expression for what is looked at.
        load: it is an assignment.
    """

    text: str
    source: str = ""
    load: bool = False


class Guards:
    """Makes conditions of rows of `_core.guard_data`."""

    def __init__(self, data: Mapping[str, Any], values: Values, unchanged: library.Unchanged) -> None:
        self.data, self.values, self.unchanged = data, values, unchanged
        self.namespace: Namespace = values.namespace
        self.dicts: dict[int, str] = {}  # of instances: what they are called, by the address
        for row in data["guards"]:
            if row["kind"] == "instance" and row["number"] and row["source"]:
                self.dicts.setdefault(row["number"], row["source"])

    def conditions(self, first: int, count: int) -> Iterator[Condition]:
        """Those of a range of the guards.

        Raises:
            Unsayable: Python code cannot check one of them.
        """
        for row in self.data["guards"][first : first + count]:
            yield from self.row(row)

    def row(self, row: Mapping[str, Any]) -> Iterator[Condition]:
        """The conditions of one guard."""
        source = _listing.readable(row["source"])
        try:
            for text in _conditions(self, row):
                yield Condition(text, source, load=row["out"] is not None and " = " in text.partition("(")[0])
        except Unsayable as why:
            raise Unsayable(f"the guard {row['kind']!r} of {source}: {why}") from None

    def tensors(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[Condition]:
        """The conditions of tensors that come in, whose registers have names from here on."""
        for row in rows:
            text = self.values.text(row["from"])
            kind = self.namespace.name(_known(row["type"]))
            facts = f"torch.{row['dtype']}, {row['dim']}, {row['device']!r}, {row['more']:#x}"
            self.values.names[row["register"]] = text
            yield Condition(f"is_tensor({text}, {kind}, {facts})", _listing.readable(row["source"]))

    # -- parts of conditions

    def subject(self, row: Mapping[str, Any]) -> str:
        """What a guard looks at."""
        value = row["subject"]
        if value[0] == "const" and isinstance(value[1], dict):
            owner = self.dicts.get(id(value[1]))
            return self.namespace.name(value[1], f"{owner}.__dict__" if owner else "")
        return self.values.text(value)

    def value(self, value: Any, hint: str = "") -> str:
        """What is expected; nothing is `ABSENT`."""
        if value[0] == "const":
            return self.namespace.literal(value[1], hint)
        return "ABSENT" if value[0] == "none" else self.values.text(value)

    def equal(self, now: str, value: Any, *, bits: bool = True) -> str:
        """It is that object, or if `bits` will do has the bits of that number."""
        if value[0] == "const" and type(value[1]) in {int, float, str, bytes, complex}:
            return f"same({now}, {self.value(value)})" if bits else f"{now} is {self.namespace.name(value[1], 'that')}"
        return f"{now} is {self.value(value)}"

    def apart(self, row: Mapping[str, Any]) -> bool:
        """Some item is a plain number or text of which only the very object will do."""
        pairs = zip(row["items"], row["items_equal"], strict=True)
        return any(value[0] == "const" and _has_bits(value[1]) and not equal for value, equal in pairs)

    def items(self, values: Sequence[Any]) -> str:
        texts = [self.value(value) for value in values]
        return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"

    def as_it_was(self, row: Mapping[str, Any]) -> str:
        """A function, class or dict is what it was when the call ended."""
        if row["subject"][0] != "const":
            raise Unsayable("it is another object at each call")
        if not row["holds"]:
            raise Unsayable("the call itself changes it")
        text = self.subject(row)
        self.unchanged.note(row["subject"][1])
        return f"unchanged({text})"

    def assigned(self, row: Mapping[str, Any], text: str) -> str:
        return f"{self.values.register(row['out'])} = {text}"


def _types_of_caches() -> set[type]:
    """Of functions that functools.lru_cache makes, and of what they keep a result in."""
    cached = functools.lru_cache(lambda: None)
    cached()
    held = (each for each in gc.get_referents(cached) if type(each) is dict)
    return {type(cached), *(type(results[()]) for results in held if () in results)}


_CACHES = _types_of_caches()


def _has_bits(thing: Any) -> bool:
    return type(thing) in {int, float, str, bytes, complex}


def _known(value: Any) -> Any:
    if value[0] != "const":
        raise Unsayable(f"{value[-1]} is not known to be alive")
    return value[1]


def _type(of: Guards, row: Mapping[str, Any]) -> Iterator[str]:
    yield f"type({of.subject(row)}) is {of.namespace.name(_known(row['expected']))}"


def _instance(of: Guards, row: Mapping[str, Any]) -> Iterator[str]:
    yield from _type(of, row)
    if row["number"] and row["subject"][0] == "const":
        thing = row["subject"][1]
        held = getattr(thing, "__dict__", None)
        if type(held) is dict and id(held) == row["number"]:
            name = of.namespace.name(held, f"{of.dicts.get(id(held), 'vars')}.__dict__")
            yield f"{of.subject(row)}.__dict__ is {name}"


def _inline(of: Guards, row: Mapping[str, Any]) -> Iterator[str]:
    found = _found(of, row)
    yield from _type(of, row)
    yield of.equal(found, row["items"][0], bits=row["items_equal"][0])


def _no_inline(of: Guards, row: Mapping[str, Any]) -> Iterator[str]:
    yield from _type(of, row)
    names = of.namespace.name(frozenset(row["names"]), f"attributes of {_known(row['expected']).__name__}")
    yield f"{names}.issuperset({of.subject(row)}.__dict__)"


def _no_attribute(of: Guards, row: Mapping[str, Any]) -> Iterator[str]:
    yield f"{_found(of, row)} is ABSENT"


def _dict(of: Guards, row: Mapping[str, Any]) -> Iterator[str]:
    if row["aux"]:
        yield of.as_it_was(row)
        return
    keys, values = row["items"][::2], row["items"][1::2]
    if any(key[0] != "const" for key in keys):
        yield of.as_it_was(row)  # a key that may be dead: the version decides
    elif keys and any(
        value[0] == "const" and _has_bits(value[1]) and not equal
        for value, equal in zip(values, row["items_equal"][1::2], strict=True)
    ):
        for key, value, equal in zip(keys, values, row["items_equal"][1::2], strict=True):
            yield of.equal(f"dict.get({of.subject(row)}, {of.value(key)}, ABSENT)", value, bits=equal)
    elif keys:
        yield f"holds({of.subject(row)}, {of.items(keys)}, {of.items(values)})"


def _dict_size(of: Guards, row: Mapping[str, Any]) -> Iterator[str]:
    keys = of.items(row["items"])
    yield f"lists(list({of.subject(row)}), {keys})" if row["items"] else f"len({of.subject(row)}) == {row['number']}"


def _list(of: Guards, row: Mapping[str, Any]) -> Iterator[str]:
    if not of.apart(row):
        yield f"lists({of.subject(row)}, {of.items(row['items'])})"
        return
    yield f"len({of.subject(row)}) == {len(row['items'])}"
    for at, (value, equal) in enumerate(zip(row["items"], row["items_equal"], strict=True)):
        yield of.equal(f"{of.subject(row)}[{at}]", value, bits=equal)


def _set(of: Guards, row: Mapping[str, Any]) -> Iterator[str]:
    subject = of.subject(row)
    yield f"len({subject}) == {len(row['items'])}"
    if row["subject"][0] != "const" or type(row["subject"][1]) is not frozenset:
        yield f"contains({subject}, {of.items(row['items'])})"


def _parts(of: Guards, row: Mapping[str, Any]) -> Iterator[str]:
    if row["subject"][0] != "const":  # else the function holds it, and it cannot change
        raise Unsayable("it is another object at each call")
    yield from ()


def _unshared(of: Guards, row: Mapping[str, Any]) -> NoReturn:
    raise Unsayable("how many references there are to it, or to its dict, is nothing that Python code can tell")


def _suspended(of: Guards, row: Mapping[str, Any]) -> NoReturn:
    raise Unsayable("what a suspended generator holds cannot be taken out of it by Python code")


def _lasts(row: Mapping[str, Any]) -> bool:
    """The slot is set once: the results of a function that functools.lru_cache made, or the result of one call."""
    return row["subject"][0] == row["expected"][0] == "const" and type(row["subject"][1]) in _CACHES


def _slot(of: Guards, row: Mapping[str, Any]) -> Iterator[str]:
    if _lasts(row):
        return
    if row["expected"][0] == "none" and (row["attribute"] == "__dict__" or row["number"] >= _NO_NUMBER):
        yield f"is_bare({of.subject(row)})"
        return
    yield from _expected(of, row)


def _member(of: Guards, row: Mapping[str, Any]) -> str:
    name, subject = row["attribute"], of.subject(row)
    if name is None and row["subject"][0] == "const" and row["expected"][0] == "const":
        thing, expected = row["subject"][1], row["expected"][1]
        name = next((each for each in ("__annotations__",) if getattr(thing, each, None) is expected), None)
    if name is None:
        raise Unsayable("its attribute has no name")
    return f"{subject}.{name}" if name.startswith("__") else f"own({subject}, {name!r})"


def _inline_value(of: Guards, row: Mapping[str, Any]) -> str:
    if row["attribute"] is None:
        raise Unsayable("its attribute is not known")
    return f"own({of.subject(row)}, {row['attribute']!r})"


def _load(of: Guards, row: Mapping[str, Any]) -> Iterator[str]:
    found = _found(of, row)
    if row["step"] == "itself":
        of.values.names[row["out"]] = found
        return
    if row["step"] == "inline_":
        yield from _type(of, row)
    if row["kind"] == "load_list_item":
        yield f"len({of.subject(row)}) > {row['number']}"
    yield of.assigned(row, found)
    if row["step"] != "at":  # there may be nothing
        yield f"{of.values.names[row['out']]} is not ABSENT"


def _expected(of: Guards, row: Mapping[str, Any]) -> Iterator[str]:
    yield of.equal(_found(of, row), row["expected"], bits=row["equal"])


def _is(of: Guards, row: Mapping[str, Any]) -> Iterator[str]:
    yield of.equal(of.subject(row), row["expected"], bits=False)


def _function(of: Guards, row: Mapping[str, Any]) -> Iterator[str]:
    yield of.as_it_was(row)


# What gives the plain number or text that an object of a derived class holds, whatever its methods are.
_PLAIN = {
    int: "int.__pos__",
    float: "float.__pos__",
    complex: "complex.__pos__",
    str: "str.__str__",
    bytes: "bytes.__bytes__",
}


def _value(of: Guards, row: Mapping[str, Any]) -> Iterator[str]:
    yield of.equal(f"{_PLAIN[type(row['expected'][1])]}({of.subject(row)})", row["expected"])


def _abc(of: Guards, row: Mapping[str, Any]) -> Iterator[str]:
    import abc

    of.namespace.give("abc_cache_token", abc.get_cache_token)
    yield f"abc_cache_token() == {abc.get_cache_token()}"


def _recursion(of: Guards, row: Mapping[str, Any]) -> Iterator[str]:
    import sys

    of.namespace.give("recursion_limit", sys.getrecursionlimit)
    yield f"recursion_limit() == {row['number']}"


# What a guard finds in its subject, by the column `step` of guards.def.
_STEPS: dict[str, Callable[[Guards, Mapping[str, Any]], str]] = {
    "itself": lambda of, row: of.subject(row),
    "at": lambda of, row: f"{of.subject(row)}[{row['number']}]",
    "content": lambda of, row: f"content({of.subject(row)})",
    "slot": _member,
    "inline_": _inline_value,
    "attribute": lambda of, row: f"own({of.subject(row)}, {of.value(row['expected'])})",
    "entry": lambda of, row: f"dict.get({of.subject(row)}, {of.value(row['expected'])}, ABSENT)",
    "key_at": lambda of, row: f"at({of.subject(row)}, {row['number']})",
    "value_at": lambda of, row: f"at({of.subject(row)}.values(), {row['number']})",
    "get": lambda of, row: f"value_of({of.subject(row)})",
    "variable": _suspended,
    "count": _suspended,
    "function": _suspended,
}


def _found(of: Guards, row: Mapping[str, Any]) -> str:
    return _STEPS[row["step"]](of, row)


# Guards that look. Those that load do as their step says.
_ROWS: dict[str, Callable[[Guards, Mapping[str, Any]], Iterator[str]]] = {
    "is": _is,
    "type": _type,
    "scalar": _expected,
    "type_version": _function,
    "instance": _instance,
    "inline_slot": _inline,
    "no_inline": _no_inline,
    "no_attribute": _no_attribute,
    "dict": _dict,
    "dict_size": _dict_size,
    "list": _list,
    "set": _set,
    "has": lambda of, row: iter([f"{of.value(row['expected'])} in {of.subject(row)}"]),
    "has_not": lambda of, row: iter([f"{of.value(row['expected'])} not in {of.subject(row)}"]),
    "quiet": lambda of, row: iter([f"is_quiet({of.subject(row)})"]),
    "parts": _parts,
    "value": _value,
    "equal": lambda of, row: iter([f"{of.subject(row)} == {of.value(row['expected'])}"]),
    "tuple_size": lambda of, row: iter([f"len({of.subject(row)}) == {row['number']}"]),
    "list_size": lambda of, row: iter([f"len({of.subject(row)}) == {row['number']}"]),
    "function": _function,
    "cell": _expected,
    "slot": _slot,
    "context_var": _expected,
    "same": lambda of, row: iter([f"{of.subject(row)} is {of.values.text(('reg', row['number']))}"]),
    "not_same": lambda of, row: iter([f"{of.subject(row)} is not {of.values.text(('reg', row['number']))}"]),
    "unshared": _unshared,
    "own_dict": _unshared,
    "suspended": _suspended,
    "abc_registry": _abc,
    "recursion_limit": _recursion,
}


def _conditions(of: Guards, row: Mapping[str, Any]) -> Iterator[str]:
    return (_ROWS[row["kind"]] if row["out"] is None else _load)(of, row)
