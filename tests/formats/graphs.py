"""Graphs for tests: small models, and their graphs made from what torch.export records, independent of pijit's engine.

`graph_of(module, *args, dynamic=...)` is a graph as pijit records it: the operators that the program called, under
neutral names where the vocabulary has them, with regions, source lines and symbols.
"""

import operator

import torch

from pijit.graph import Graph, Node, Region, Slice, Token, Value, vocabulary

_KINDS = {int: "int", float: "float", bool: "bool", torch.SymInt: "int"}
_NUMBERS = {
    operator.add: "scalar_add",
    operator.mul: "scalar_multiply",
    operator.sub: "scalar_subtract",
    operator.floordiv: "scalar_floor_divide",
}


class Block(torch.nn.Module):
    """One layer."""

    def __init__(self, size=8):
        super().__init__()
        self.lin = torch.nn.Linear(size, size)
        self.norm = torch.nn.LayerNorm(size)

    def forward(self, x):
        return self.norm(x + torch.nn.functional.gelu(self.lin(x)))


class Stack(torch.nn.Module):
    """Equal layers, sizes that are computed, a buffer that is written, outputs in a dict."""

    def __init__(self, layers=2, size=8):
        super().__init__()
        self.layers = torch.nn.ModuleList([Block(size) for _ in range(layers)])
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        self.count.add_(1)
        y = x.reshape(x.shape[0] * 2, 4)
        a, b = y.split(2, 1)
        return {"a": a[:, None] * self.count, "rest": [b, x.mean()]}


class Net(torch.nn.Module):
    """Convolutions and a normalisation in evaluation mode; inputs that are integers."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(11, 6)
        self.conv = torch.nn.Conv1d(6, 4, 3, padding=1)
        self.norm = torch.nn.BatchNorm1d(4)
        self.out = torch.nn.Linear(4, 3, bias=False)

    def forward(self, ids, scale):
        x = self.table(ids).transpose(1, 2)
        x = torch.relu(self.norm(self.conv(x))).mean(-1)
        return torch.softmax(self.out(x) * scale.to(torch.float32), -1), ids + 1


def stack(**sizes):
    torch.manual_seed(0)
    return Stack(**sizes).eval(), (torch.randn(3, 8),)


def net():
    torch.manual_seed(0)
    return Net().eval(), (torch.tensor([[1, 2, 3, 4], [5, 6, 7, 10]]), torch.tensor(2, dtype=torch.int64))


def graph_of(module, *args, dynamic=None, name=""):
    """The graph of a module's call; `dynamic` as `dynamic_shapes` of torch.export."""
    program = torch.export.export(module, args, dynamic_shapes=dynamic, strict=False)
    return _Builder(program, name or type(module).__name__, module).graph()


class _Builder:
    def __init__(self, program, name, module):
        self.program, self.name, self.module = program, name, module
        self.values, self.symbols, self.nodes, self.lists = {}, {}, [], {}
        self.names = {}
        self.tree = {"": ("", [], [])}
        self.types = {path: type(each).__name__ for path, each in module.named_modules()}

    def graph(self):
        spec = {each.arg.name: each for each in self.program.graph_signature.input_specs if hasattr(each.arg, "name")}
        inputs, parameters, data = [], [], {}
        state = {**self.program.state_dict, **self.program.constants}
        live = dict(self.module.named_parameters()) | dict(self.module.named_buffers())
        seen = iter(torch.utils._pytree.tree_leaves(self.program.example_inputs))
        for node in self.program.graph.nodes:
            if node.op == "placeholder":
                kind = spec[node.name].kind.name
                if kind == "USER_INPUT":
                    inputs.append(self.value(node, "input", example=next(seen)))
                else:
                    role = {"PARAMETER": "parameter", "BUFFER": "buffer"}.get(kind, "constant")
                    path = spec[node.name].target
                    parameters.append(self.value(node, role, path))
                    data[node.name] = live.get(path, state.get(path))
            elif node.op == "call_function":
                self.call(node)
            elif node.op == "output":
                leaves = [self.argument(each) for each in node.args[0]]
        outputs = torch.utils._pytree.tree_unflatten(leaves, self.program.call_spec.out_spec)
        return Graph(
            self.name, tuple(inputs), tuple(parameters), tuple(self.nodes), outputs,
            data=data, region=self.region(""), symbols=self.symbols,
        )  # fmt: skip

    def value(self, node, role="result", path="", example=None):
        val = node.meta["val"]
        self.values[node] = self.typed(node.name, val, role, path)
        if example is not None and isinstance(example, torch.Tensor):
            for size, number in zip(self.values[node].shape, example.shape):
                if isinstance(size, str):
                    self.symbols[size] = number
        return self.values[node]

    def typed(self, name, val, role="result", path=""):
        if not isinstance(val, torch.Tensor):
            return Value(name, _KINDS[type(val)], role)
        shape = tuple(int(size) if str(size).isdigit() else str(size) for size in val.shape)
        return Value(name, "tensor", role, str(val.dtype)[6:], shape, str(val.device), path)

    def argument(self, held):
        if isinstance(held, torch.fx.Node):
            return self.values[held]
        if isinstance(held, list | tuple):
            return tuple(map(self.argument, held))
        if isinstance(held, slice):
            return Slice(*map(self.argument, (held.start, held.stop, held.step)))
        if isinstance(held, torch.dtype):
            return Token("dtype", str(held)[6:])
        if isinstance(held, torch.device):
            return Token("device", str(held))
        if isinstance(held, torch.layout):
            return Token("layout", str(held)[6:])
        if isinstance(held, torch.memory_format):
            return Token("memory_format", str(held)[6:])
        return held

    def call(self, node):
        if node.target is operator.getitem:  # of a list of results
            source, at = node.args
            maker, results = self.lists[source]
            results[at] = self.value(node)
            position = self.nodes.index(maker)
            self.nodes[position] = self.lists[source] = None
            fields = {each: getattr(maker, each) for each in Node.__dataclass_fields__} | {"results": tuple(results)}
            self.nodes[position] = Node(**fields)
            self.lists[source] = self.nodes[position], results
            return
        if node.meta["val"] is None:  # a check of torch.export's own
            return
        op, origin, arguments, writes = self.operator(node)
        val = node.meta["val"]
        results = [None] * len(val) if isinstance(val, list | tuple) else [self.value(node)]
        region, file, line = self.where(node)
        self.tree[region][1].append(len(self.nodes))
        made = Node(op, arguments, tuple(results), origin, writes, region=region, file=file, line=line)
        if isinstance(val, list | tuple):
            self.lists[node] = made, results
        self.nodes.append(made)

    def operator(self, node):
        if node.target in _NUMBERS:
            return _NUMBERS[node.target], "", dict(zip("xy", map(self.argument, node.args))), ()
        if node.target is torch.ops.aten.sym_size.int:
            return "size", "tensor::size", dict(zip(("x", "axis"), map(self.argument, node.args))), ()
        schema = node.target._schema
        name = node.target.name()
        given = dict(zip([each.name for each in schema.arguments], node.args)) | node.kwargs
        ordered = [(each.name, self.argument(given.get(each.name, each.default_value))) for each in schema.arguments]
        written = [each.name for each in schema.arguments if each.is_write]
        found = vocabulary.neutral(name, ordered)
        if found is None:
            kept = {each: self.argument(held) for each, held in given.items()}
            return name, name, kept, tuple(written)
        slots = vocabulary.row_of(name)[1].slots
        return *([found[0], name, found[1]]), tuple(
            slots[at] for at, each in enumerate(schema.arguments) if each.is_write
        )

    def where(self, node):
        path = ""
        for key, (found, _) in (node.meta.get("nn_module_stack") or {}).items():
            if not found.startswith("_empty"):
                path = found
                self.enter(path)
        lines = [each for each in (node.meta.get("stack_trace") or "").splitlines() if each.strip().startswith("File")]
        if not lines:
            return path, "", 0
        _, file, rest = lines[-1].split('"')
        return path, file, int(rest.split(",")[1].removeprefix(" line "))

    def enter(self, path):
        if path not in self.tree:
            around = max((each for each in self.tree if not each or path.startswith(each + ".")), key=len)
            self.tree[path] = (self.types.get(path, "?"), [], [])
            self.tree[around][2].append(path)

    def region(self, path):
        kind, nodes, inner = self.tree[path]
        return Region(path, kind or self.types[""], tuple(nodes), tuple(map(self.region, inner)))
