"""The operators that the program called, one after the other: what every other backend is compared with."""

from pijit.compilers import _torch
from pijit.compilers._base import EXACT, Backend, Options, Plan
from pijit.graph.model import Graph


class Native(Backend):
    name = "native"
    doc = "pijit's own replay, always there; bit for bit as eager"
    install = "pip install torch"
    tolerance = EXACT
    training = True
    symbolic = True
    random = True
    raises = True
    devices = ()

    def make(self, graph: Graph, options: Options) -> Plan:
        module = _torch.module_of(graph)
        return Plan(self.name, module.forward, results=(), rebind=module.pijit_rebind)


BACKEND = Native()
