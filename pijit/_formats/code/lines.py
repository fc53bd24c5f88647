"""The lines of a function of the format `code`, and how they go on or back; see `pijit._formats.code.nodes`."""

from collections.abc import Iterator, Mapping
from typing import Any

from pijit import _listing
from pijit._formats.code.guards import Guards
from pijit._formats.code.values import Values, error

ELSEWHERE = "Move that out of the function, and export what stands before and behind it"
_ASSUME = "Move it in front of what the call writes, or export with `decisions='assume'`, which asserts it"


class Lines:
    """Collects statements, and what is known of registers.

    Attributes:
        tried: statements while the original can still be called.
        rest: statements behind them.
        final: what was done cannot be undone any more.
        exact: the form of what comes in must be that of the call.
        undoes: something is noted to be undone.
    """

    def __init__(self, data: Mapping[str, Any], guards: Guards, values: Values, *, assume: bool) -> None:
        self.data, self.guards, self.values, self.assume = data, guards, values, assume
        self.tried: list[_listing.Line] = []
        self.rest: list[_listing.Line] = []
        self.final = False
        self.exact = False
        self.undoes = False
        self._own: set[int] = set()  # registers of tensors and objects that were made here, and nobody else sees
        self._loose: set[int] = set()  # registers that follow from more than the form of what comes in
        self._built: dict[int, Any] = {}  # what objects are made of, by their registers
        self._place = ("", 0)

    @property
    def lines(self) -> list[_listing.Line]:
        return self.rest if self.final else self.tried

    def _add(self, text: str) -> None:
        self.lines.append(_listing.Line(text, *self._place))

    def _add_all(self, texts: Iterator[str]) -> None:
        for text in texts:
            self._add(text)

    def _undo(self, text: str) -> None:
        """Remember what the next statement changes."""
        if not self.final:
            self.undoes = True
            self._add(f"undo.{text}")

    def _decide(self, condition: str, *, form: bool, what: str = "") -> None:
        """The recorded way goes on if this holds; `form`: it follows from the form of what comes in."""
        if not self.final:
            self._add(f"if not ({condition}): raise OtherWay")
        elif form:
            self.exact = True
        elif self.assume:
            said = f"{self._where()}: this call goes another way than the exported one ({condition})"
            self._add(f"assert {condition}, {said!r}")
        else:
            what = what or f"the program decides here ({condition})"
            raise self._error(f"{what} after it has written to something that came in", _ASSUME)

    def _may_raise(self, row: Mapping[str, Any]) -> None:
        """An operator that cannot be tried any more."""
        if self.final and row["handled"] and not self.assume:
            raise self._error(
                f"{self._called(row)} stands within a `try` or `with`, behind what cannot be undone: if it raised, the "
                "program would go on there",
                "Move it in front of what the call writes, or export with `decisions='assume'`: then what it raises "
                "leaves the function",
            )

    def _error(self, what: str, advice: str) -> Exception:
        return error(self._where(), what, advice)

    def _where(self) -> str:
        return f"{self._place[0]}:{self._place[1]}" if self._place[0] else self.data["name"]

    def _stopped(self) -> None:
        stop = self.data["stop"]
        if stop is None:
            raise self._error("the call was not recorded to its end", "See pijit.explain(fn, ...)")
        self._place = (stop["file"], stop["line"])
        said = f"the call was recorded up to here only: {stop['reason']}"
        raise self._error(said, f"{ELSEWHERE} (python -m pijit help {stop['code']})")

    def _place_of(self, frame: int) -> tuple[str, int]:
        """The user's own line."""
        innermost, at = None, frame
        while at >= 0:
            row = self.data["frames"][at]
            if not row["library"]:
                return row["file"], row["line"]
            innermost = innermost or (row["file"], row["line"])
            at = row["parent"]
        return innermost or ("", 0)

    def _called(self, row: Mapping[str, Any]) -> str:
        """The operator or function of a node, for messages."""
        if row.get("call"):
            return str(row["call"]["name"])
        value = row["a"]
        if value is not None and value[0] == "reg":
            value = self._built.get(value[1], value)
        if value is not None and value[0] == "method":
            value = value[1]
        if value is None or value[0] != "const":
            return str(row["op"])
        return getattr(value[1], "__qualname__", None) or type(value[1]).__name__

    # -- what is known of registers

    def _registers(self, value: Any) -> Iterator[int]:
        if isinstance(value, tuple) and len(value) == 2 and value[0] == "reg":
            yield value[1]
        elif isinstance(value, tuple | list):
            for part in value:
                yield from self._registers(part)
        elif isinstance(value, dict):
            for part in value.values():
                yield from self._registers(part)

    def is_form(self, *values: Any) -> bool:
        """They follow from the form of what comes in."""
        return not any(register in self._loose for value in values for register in self._registers(value))

    def free(self, register: int) -> None:
        """A number or object that comes in, and may be another one at each call."""
        self._loose.add(register)

    def _given(self, row: Mapping[str, Any], *, own: bool = False, loose: bool = True) -> str:
        """The name of what a node gives."""
        register = row["out"]
        if own:
            self._own.add(register)
        if loose:
            self._loose.add(register)
        return self.values.register(register)

    def _is_own(self, value: Any) -> bool:
        return value is not None and value[0] == "reg" and value[1] in self._own
