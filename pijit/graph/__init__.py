"""The framework-neutral graph: what was recorded, as typed nodes that torch, NumPy, JAX and others can run.

graph = pijit.graph.capture(model, x)     # calls the model once
print(graph)                              # as Python
graph.run(x, framework="jax")

Importing this package imports no framework.
"""

from pijit.graph.build.capture import capture
from pijit.graph.decisions.capture import capture_branches
from pijit.graph.model import Argument, Effect, Graph, Node, Region, Size, Slice, Structure, Token, Value

__all__ = [
    "Argument",
    "Effect",
    "Graph",
    "Node",
    "Region",
    "Size",
    "Slice",
    "Structure",
    "Token",
    "Value",
    "capture",
    "capture_branches",
]
