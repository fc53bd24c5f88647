"""A table of what is there by name, and the command that makes the rest usable: of formats, and of backends."""

from collections.abc import Iterator, Mapping

from pijit._usage_errors import nearest


class Usable(Mapping[str, str]):
    """States by name: "usable", or what makes it so. Printed, it is a table.

    Args:
        kind: what the names are of, for errors: "format".
        rows: by name the state, and what it is for.
    """

    def __init__(self, kind: str, rows: Mapping[str, tuple[str, str]]) -> None:
        self._kind, self._rows = kind, rows

    def __getitem__(self, name: str) -> str:
        if name not in self._rows:
            raise KeyError(f"no {self._kind} is called {name!r}{nearest(str(name), self._rows)}")
        return self._rows[name][0]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __str__(self) -> str:
        rows = [(name, state, doc) for name, (state, doc) in self._rows.items()]
        widths = [max(len(row[column]) for row in rows) for column in range(2)]
        return "\n".join(f"{name:{widths[0]}}  {state:{widths[1]}}  {doc}" for name, state, doc in rows)

    __repr__ = __str__
