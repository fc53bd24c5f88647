"""The names of all backends: pijit's own, those that the program has registered, and those of other packages.

Options are checked against them before anything of a compiler is imported. What stands behind a name, `pijit.compilers`
finds.
"""

from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pijit.compilers.registered import Registered

# pijit's own, in the order of what compiling costs: the first ones are tried first.
OWN = ("native", "cudagraphs", "torchscript", "onnxruntime", "openvino", "xla", "iree", "inductor", "tvm")

# What `pijit.register_backend` was given, by its name.
registered: "dict[str, Registered]" = {}


def points() -> dict[str, EntryPoint]:
    """Entry points by the name of the backend; pijit's own group goes before that of torch."""
    found = {each.name: each for each in entry_points(group="torch_dynamo_backends")}
    return found | {each.name: each for each in entry_points(group="pijit.backends")}


def names() -> tuple[str, ...]:
    """Of all backends: pijit's own, then registered ones, then those of other packages."""
    return tuple(dict.fromkeys([*OWN, *registered, *sorted(points())]))
