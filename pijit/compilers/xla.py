"""XLA, the compiler of JAX: StableHLO of pijit's own making, compiled and run by the PJRT client.

Tensors are handed over by DLPack, without copies, where they are contiguous and aligned as XLA needs them. The client
is pijit's own, so that a program which uses JAX itself finds JAX as it left it. Calls are synchronous: the program may
write to what it gave when the call is over.

The layers of a model are a loop over stacked weights (`pijit.passes.repeats`), so that one is compiled. The stacks are
copies, made anew where the program has written to a weight.

The process that compiles imports JAX. The program's own needs the library beneath it only: importing all of JAX takes
twenty times as long, most of it with the GIL.
"""

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pijit._formats._graph_results import needed
from pijit.compilers import _torch
from pijit.compilers._base import Backend, Options, Plan
from pijit.compilers._prepare import numbers
from pijit.graph.forms import form_of, load
from pijit.graph.model import Graph, Node, Value
from pijit.passes import repeats

_FILE = "program.xla"
_ALIGNED = 63  # bits of an address that have to be 0


class Xla(Backend):
    name = "xla"
    doc = "JAX's compiler: inference and whole training steps, one program for each size"
    install = "pip install 'jax[cpu]'"
    packages = ("torch", "jax")
    training = True
    remote = True
    branches = True

    def lacks(self, graph: Graph) -> tuple[Node, ...]:
        forms = load("jax")
        usual = super().lacks(graph)
        return usual or tuple(
            node for node in graph.nodes if node.op != "check" and (node.is_foreign or form_of(forms, node.op) is None)
        )

    def build(self, graph: Graph, options: Options, directory: Path) -> None:
        executable, _ = _compiled(graph, options)
        (directory / _FILE).write_bytes(executable.serialize())

    def load(self, graph: Graph, options: Options, directory: Path) -> Plan:
        from jaxlib import _jax  # type: ignore[attr-defined]

        data = (directory / _FILE).read_bytes()
        if b"lapack" in data:
            import jax._src.lib  # noqa: F401  it makes the routines known that the code calls
        devices = _jax.DeviceList((_client().devices()[0],))
        return _plan(graph, options, _client().deserialize_executable(data, devices, None), len(data))

    def make(self, graph: Graph, options: Options) -> Plan:
        executable, size = _compiled(graph, options)
        return _plan(graph, options, executable, size)


@functools.cache
def _client() -> Any:
    from jaxlib import xla_client

    return xla_client.make_cpu_client(asynchronous=False)


def _compiled(graph: Graph, options: Options) -> tuple[Any, int]:
    """The executable of a graph, and about its size."""
    from jax._src.lib import _jax

    from pijit._formats.stablehlo import lower as stablehlo_lower

    text = str(stablehlo_lower.lowered(graph, options.fold, False, "cpu", loops=True))
    settings = _jax.CompileOptions()
    if (options.threads or _torch.threads()) == 1:
        settings.env_option_overrides = [("xla_cpu_multi_thread_eigen", False)]
    client = _client()
    return client.compile_and_load(text, _jax.DeviceList((client.devices()[0],)), settings), len(text)


def _weights(graph: Graph, options: Options) -> repeats.Arguments:
    """What the program takes of the weights, in order: the layers of a model are a loop over stacks of theirs."""
    if options.fold:
        return repeats.Arguments((), ())
    nodes = needed(graph, size_checks=True)
    return repeats.arguments(graph, nodes, repeats.find(nodes, graph))


def _plan(graph: Graph, options: Options, executable: Any, size: int) -> Plan:
    import torch
    from jaxlib import _jax  # type: ignore[attr-defined]
    from torch._C import _from_dlpack, _to_dlpack

    device = _client().devices()[0]
    take = _jax.dlpack_managed_tensor_to_buffer
    give = _jax.buffer_to_dlpack_managed_tensor
    finished = numbers(graph.results)

    def entered(tensor: Any) -> Any:
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"a tensor is expected, not {type(tensor).__name__}")
        if tensor.data_ptr() & _ALIGNED or not tensor.is_contiguous():
            tensor = tensor.clone(memory_format=torch.contiguous_format)
        return take(_to_dlpack(tensor), device, None)

    enter: list[Callable[[Any], Any]] = [_maker(value, entered) for value in graph.inputs]
    taken = _weights(graph, options)
    names = [value.name for value in taken.alone]
    stacked = {value.name for each in taken.stacks for value in each}
    weights: list[Any] = []
    held: dict[str, Any] = {}

    def rebind(given: Mapping[str, Any]) -> bool:
        held.update((name, _torch.bound(tensor)) for name, tensor in given.items() if name in names or name in stacked)
        stacks = [torch.stack([held[value.name] for value in each]) for each in taken.stacks]
        weights[:] = [*(entered(held[name]) for name in names), *map(entered, stacks)]
        alone = all(not held[name].data_ptr() & _ALIGNED and held[name].is_contiguous() for name in names)
        return alone and not stacks

    shared = rebind(graph.data)
    execute = executable.execute

    def run(*inputs: Any) -> tuple[Any, ...]:
        made = execute([*weights, *(make(each) for make, each in zip(enter, inputs, strict=True))])
        return finished([_from_dlpack(give(each, None)) for each in made])

    def close() -> None:
        weights.clear()
        held.clear()

    return Plan(
        "xla", run, results=(), shares_weights=shared, folded=options.fold, size_bytes=size, rebind=rebind, close=close
    )


def _maker(value: Value, entered: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Makes a buffer of XLA of an input."""
    if value.kind == "tensor":
        return entered
    import torch

    dtype = getattr(torch, _torch.DTYPES[value.kind])
    return lambda number: entered(torch.tensor(number, dtype=dtype))


BACKEND = Xla()
