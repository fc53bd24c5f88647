"""The tree of modules over the nodes of a graph."""

from collections.abc import Mapping, Sequence

from pijit.graph.model import Node, Region


class ClassName(str):
    """The name of a class, as `Region.type` has it, with the module of Python that defines the class."""

    __slots__ = ("module",)
    module: str

    @classmethod
    def of(cls, kind: type) -> "ClassName":
        """The name of a class."""
        made = cls(kind.__name__)
        made.module = kind.__module__
        return made


def full_name(name: str) -> str:
    """ "torch.nn.modules.linear.Linear"; the name alone where the module is not known."""
    module = getattr(name, "module", "")
    return f"{module}.{name}" if module else str(name)


def tree(nodes: Sequence[Node], types: Mapping[str, str]) -> Region:
    """The region of the whole, with those of all modules that some node comes from.

    Args:
        nodes: those of the graph.
        types: the class of each module by its path.
    """
    children: dict[str, list[str]] = {}
    own: dict[str, list[int]] = {}
    for at, node in enumerate(nodes):
        own.setdefault(node.region, []).append(at)
        path = node.region
        while path:
            above = path.rpartition(".")[0]
            while above and above not in types:
                above = above.rpartition(".")[0]
            if path not in (found := children.setdefault(above, [])):
                found.append(path)
            path = above

    def make(path: str) -> Region:
        inner = tuple(map(make, children.get(path, ())))
        return Region(path, types.get(path, ""), tuple(own.get(path, ())), inner)

    return make("")


def types_of(region: Region) -> dict[str, str]:
    """The class of each module in a tree by its path."""
    found = {region.path: region.type}
    for inner in region.regions:
        found |= types_of(inner)
    return found
