"""Compilers of other packages: functions that take a module of torch.fx and example inputs, and give a callable.

That is the form of the backends of `torch.compile`. They come from `pijit.register_backend`, or from the entry points
of the group `torch_dynamo_backends`, which are listed without importing torch.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import EntryPoint
from typing import Any

from pijit._usage_errors import describe
from pijit.compilers import _failures, _torch
from pijit.compilers._base import Backend, Options, Plan, raised
from pijit.errors import BackendError
from pijit.graph.model import Graph

# `(module, example inputs) -> callable`.
Function = Callable[[Any, Sequence[Any]], Callable[..., Any]]


class Registered(Backend):
    """A function as a backend. The module has the weights as its first inputs, as torch.compile gives it."""

    training = True
    random = True
    raises = True
    devices = ()

    def __init__(self, name: str, function: Function, doc: str = "") -> None:
        self.name = name
        self.doc = doc or "registered by this program"
        self.function = function

    def make(self, graph: Graph, options: Options) -> Plan:
        import torch

        weights = () if options.fold else graph.parameters
        module = _torch.module_of(_torch.with_weights_as_inputs(graph) if weights else graph)
        held = {value.name: _torch.bound(graph.data[value.name]) for value in weights}
        examples = [*held.values(), *map(_torch.example, graph.inputs)]
        _fill_meta(module, examples)
        with torch.no_grad():
            made = self.function(module, examples)
        if not callable(made):
            raise BackendError(f"backend {self.name!r} gave {describe(made)}, which cannot be called")
        tensors = [value.kind == "tensor" for value in graph.results]
        boxed = getattr(made, "_boxed_call", False)

        def run(*inputs: Any) -> tuple[Any, ...]:
            try:
                given = made([*held.values(), *inputs]) if boxed else made(*held.values(), *inputs)
            except Exception as error:
                failed = raised(self.name, error)
                failed.__cause__ = error
                _failures.tell(self, failed)
                raise failed from error
            given = tuple(given) if isinstance(given, tuple | list) else (given,)
            for each, tensor in zip(given, tensors, strict=False):
                if tensor and each is not None and not isinstance(each, torch.Tensor):
                    what = f"gave {describe(each)} in the place of a tensor"
                    wrong = BackendError(f"backend {self.name!r}: what it has compiled {what}")
                    _failures.tell(self, wrong)
                    raise wrong
            return given

        def rebind(new: Mapping[str, Any]) -> bool:
            held.update((name, _torch.bound(tensor)) for name, tensor in new.items() if name in held)
            return True

        return Plan(self.name, run, results=(), folded=options.fold, rebind=rebind)


def _fill_meta(module: Any, examples: Sequence[Any]) -> None:
    """Each node knows what it gives, as tensors without data: compilers of torch.compile read that."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.passes.fake_tensor_prop import FakeTensorProp

    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with torch.no_grad():
        FakeTensorProp(module, mode).propagate(*examples)
    for node in module.graph.nodes:
        if "val" in node.meta:
            node.meta.setdefault("example_value", node.meta["val"])


class OfPackage(Registered):
    """A backend of torch.compile of another package; it is loaded when something is compiled with it."""

    def __init__(self, point: EntryPoint) -> None:
        package = point.dist.name if point.dist is not None else "?"
        super().__init__(point.name, self._load, f"of the package {package}, for torch.compile")
        self.point = point
        self.install = f"pip install {package}"

    def _load(self, module: Any, examples: Sequence[Any]) -> Callable[..., Any]:
        made: Callable[..., Any] = self.point.load()(module, examples)
        return made
