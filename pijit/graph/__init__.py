"""The framework-neutral graph: what was recorded, as typed nodes that torch, NumPy, JAX and others can run."""

from pijit.graph.model import Argument, Graph, Node, Region, Size, Slice, Structure, Token, Value

__all__ = ["Argument", "Graph", "Node", "Region", "Size", "Slice", "Structure", "Token", "Value"]
