"""What the format `stablehlo` gives: a text, and what it is called with."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Module:
    """StableHLO text, and what it is called with.

    Attributes:
        text: the module; its first lines are comments that say its version, arguments and results.
        version: of StableHLO, such as "1.17.0".
        arguments: names of the arguments of `main`: paths of parameters, then names of inputs.
        results: names of the results.
        sizes: the sizes that the text is for, though the program leaves them free.
        data: arrays of the parameters that are arguments, by their names in `arguments`.
        exported: the same as a `jax.export.Exported`, which can be called and serialized.
    """

    text: str = field(repr=False)
    version: str
    arguments: tuple[str, ...]
    results: tuple[str, ...]
    sizes: Mapping[str, int]
    data: Mapping[str, Any] = field(repr=False)
    exported: Any = field(repr=False)

    def __str__(self) -> str:
        return self.text
