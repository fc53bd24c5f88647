"""torch's environment of symbolic sizes, without its records of who asked for a size."""

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.fx.experimental.symbolic_shapes import ShapeEnv


@cache
def _environments() -> "type[ShapeEnv]":
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    class Environment(ShapeEnv):
        def _get_user_frame(self) -> None:
            """Nobody: pijit tells lines from its own nodes.

            To tell the user's frames from its own, torch imports Inductor and torch.export, a second of work. A plan
            that was compiled in an earlier process would wait for that.
            """

    return Environment


def environment(equal: bool = True) -> "ShapeEnv":
    """A new one.

    Args:
        equal: equal sizes are taken to be one symbol.
    """
    return _environments()(duck_shape=equal)
