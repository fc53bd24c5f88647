"""CUDA graphs: the kernels of a segment are launched at once, where launching them takes longer than they do.

What is captured are the operators that native replay calls, so the results are those of eager execution bit for bit.
Code that another compiler has made is captured in the same way (`_captured_calls`), with its results.

Rules:
1. A capture is made by a call of the program, with the settings, addresses and sizes that are there. The threads that
   compile leave the device alone: what they asked of it could end a capture that the program makes.
2. No tensor that the program sees lies in memory of a graph: inputs are copied in, results are copied out. Weights are
   read where the program has them. Where only operators of the trace read a result, it lies in a tensor that the graph
   writes to each time, and the graph behind it reads it there. If something has that tensor when the graph is to run
   again, as a frame that a replay was left for, the tensor is the program's from then on.
3. The graphs of a device have one pool of memory, and run one after the other, whatever their streams.
4. What a graph gives is compared once with what the operators give. One that wins no time is not kept.
   A form is captured when it was met twice. So that no call takes long, one call sees the operators, the next one
   captures them, another one compares, and another one weighs; and no call captures more than one graph.
5. CUDA raises in a thread that waits for the whole device beside a capture, and in the capture; in PyTorch 2.11 in one
   that draws random numbers, too. So no other thread runs Python during a capture: the operators are seen once, and
   then dispatched by C++ that keeps the GIL from the begin of a capture to its end (csrc/torch/launches.h). Where that
   cannot be, nothing is captured while there are other threads.
6. Random numbers are those of eager execution: a replay reads the state of the generator, and leaves it as the
   operators would. Where both run to be compared or weighed, the generator is put back in between.
"""

import contextlib
import gc
import sys
import threading
import time
import weakref
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pijit import _adapters, _core
from pijit._torches import installed
from pijit.compilers import _torch
from pijit.compilers._base import EXACT, Backend, Declines, Options, Plan, has_numbers
from pijit.compilers._compared import difference
from pijit.compilers._compiler_threads import others_run
from pijit.errors import BackendError
from pijit.graph.model import Graph, Node

# Where there is a driver of NVIDIA, one of AMD, or that of a virtual machine of Windows.
_DRIVERS = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")
_LIBRARIES = ("libtorch_cuda.so", "libtorch_hip.so")
_ALIGNED = 16  # bytes: a kernel may read as much at once, and another kernel is chosen where it cannot
_LEAST_MEETINGS = 2  # of a form, before it is captured
_MOST_CAPTURES = 8  # of one plan: weights that move, or settings that change, at every call are not for graphs
_MOST_MEMORY = 0.05  # of the device's, for the graphs of a plan
# A graph is kept if it takes at most as much of what launching or running takes, whichever is longer. The operators are
# timed from Python: replay launches them in half of that.
_GAIN, _OF_REPLAY = 0.9, 0.5


class CudaGraphs(Backend):
    """An option of its own: `always`, what wins no time is kept."""

    name = "cudagraphs"
    doc = "launches the kernels of a GPU at once: captured in a moment, bit for bit as eager"
    install = "pip install torch"
    devices = ("cuda",)
    raises = True
    random = True
    tolerance = EXACT
    tried_in_calls = True
    strided = True
    settings = ("always",)

    def usable(self) -> str | None:
        if why := super().usable():
            return why
        if not any(Path(driver).exists() for driver in _DRIVERS) and not _is_in_use():
            return "needs a GPU, and none is there"
        return None if _is_built_for_gpus() else f"needs a torch that is built for GPUs; run: {self.install}"

    def lacks(self, graph: Graph) -> tuple[Node, ...]:
        found = super().lacks(graph)
        return found or tuple(node for node in graph.nodes if has_numbers(node) or _waits(node) or _leaves(node))

    def takes(self, kinds: Collection[str]) -> bool:
        return any(kind in self.devices for kind in kinds)  # what is between is not captured

    def make(self, graph: Graph, options: Options) -> Plan:
        others = [value.name for value in (*graph.inputs, *graph.parameters) if not _is_of_device(value)]
        devices = {str(value.device) for value in (*graph.inputs, *graph.parameters) if _is_of_device(value)}
        if others or len(devices) != 1:
            what = f"{others[0]!r} is none of one" if others else f"here are {', '.join(sorted(devices))}"
            raise BackendError(f"backend {self.name!r} takes tensors of one GPU; {what}")
        draws = any(node.random for node in graph.nodes)
        captured = Captured(_torch.module_of(graph), devices.pop(), draws, **options.settings)
        plan = Plan(self.name, captured.run, results=(), rebind=captured.rebind, close=captured.close)
        plan.lend = captured.lend
        return plan


_captured_in = -1  # the call of the program that captured last


def _may_capture() -> bool:
    """No call of the program captures twice."""
    global _captured_in
    _, served = _core.roots_to_offer()
    may, _captured_in = served != _captured_in, served
    return may


def _is_built_for_gpus() -> bool:
    found = installed()
    return found is not None and any((found / "lib" / name).exists() for name in _LIBRARIES)


def _is_in_use() -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch.cuda.is_initialized())


def _is_of_device(value: Any) -> bool:
    return value.kind == "tensor" and value.device is not None and value.device.partition(":")[0] != "cpu"


def _waits(node: Node) -> bool:
    """Its results depend on the data: the CPU waits for them."""
    return any(value is not None and value.kind == "tensor" and value.shape is None for value in node.results)


def _leaves(node: Node) -> bool:
    """It reads or makes tensors of the CPU."""
    tensors = [value for value in (*node.operands, *node.results) if value is not None and value.kind == "tensor"]
    return not all(map(_is_of_device, tensors))


class _Pool:
    """The memory of the graphs of a device, which one of them uses at a time."""

    def __init__(self, device: Any, runtime: Any) -> None:
        import torch

        self.lock = threading.Lock()
        self.side = torch.Stream(device)  # where captures are made
        self.graphs: weakref.WeakSet[_Recording] = weakref.WeakSet()  # that have memory of it
        self.handle: Any = None
        self.last: Any = None  # the stream on which a graph ran last
        # By address: what graphs write to each time.
        self.lent: weakref.WeakValueDictionary[int, _Lent] = weakref.WeakValueDictionary()
        self.left: list[tuple[Any, Sequence[Any]]] = []  # inputs of graphs that are gone, and the stream they are of
        self._runtime = runtime

    def enter(self, stream: Any) -> None:
        """What comes on this stream comes behind what graphs do."""
        if self.last is not None and self.last != stream:
            stream.wait_stream(self.last)
        self.last = stream
        if self.left:
            self.left = [each for each in self.left if each[0] != stream]

    def begin(self, graph: Any) -> None:
        """Capture what the current stream is told."""
        graph.capture_begin(pool=self._for_graphs(), capture_error_mode="thread_local")

    def bounds(self, graph: Any) -> "_Bounds | None":
        """What begins and ends a capture and keeps the GIL; None: nothing does."""
        return _bounds(graph, self._for_graphs())

    def _for_graphs(self) -> Any:
        """The pool of the allocator; one that no graph has any longer is gone."""
        if not self.graphs:
            self.handle = self._runtime.graph_pool_handle()
        return self.handle


_pools: dict[Any, _Pool] = {}
_Bounds = tuple[Callable[[], object], Callable[[], object]]


def adapter() -> Any:
    """The adapter's module."""
    return _adapters.module("torch")


def _bounds(graph: Any, pool: Any) -> _Bounds | None:
    """The bindings of torch give up the GIL; these are the functions behind them."""
    calls = adapter()
    if not calls.can_hold(graph):
        return None
    return partial(calls.begin_capture, graph, pool), partial(calls.end_capture, graph)


class _Still:
    """A form of tensors that stay where they are, or are made anew in it."""

    def __init__(self, tensor: Any) -> None:
        sizes, self.stride = list(tensor.shape), tensor.stride()
        self.dtype, self.device, self.shape = tensor.dtype, tensor.device, tensor.shape
        self.beyond = tensor.data_ptr() % _ALIGNED
        # Elements that are one element are copied once.
        once = tuple(1 if step == 0 else size for size, step in zip(sizes, self.stride, strict=True))
        self.once = None if once == tuple(sizes) else once

    def made(self) -> Any:
        """Memory of this form, at an address that is as even as the tensor's."""
        import torch

        behind, rest = divmod(self.beyond, self.dtype.itemsize)
        if behind == 0 or rest:
            return torch.empty_strided(self.shape, self.stride, dtype=self.dtype, device=self.device)
        span = sum((size - 1) * step for size, step in zip(self.shape, self.stride, strict=True)) + 1
        memory = torch.empty(span + behind, dtype=self.dtype, device=self.device)
        return memory.as_strided(self.shape, self.stride, behind)

    def elements(self, tensor: Any) -> Any:
        """A view without elements that are twice there."""
        return tensor if self.once is None else tensor.as_strided(self.once, self.stride, tensor.storage_offset())


class _Lent:
    """A result that the graph writes to the same tensor each time."""

    def __init__(self, form: _Still) -> None:
        import torch

        self.form, tensor = form, form.made()
        self.tensor, self.address = tensor, tensor.data_ptr()
        self._count, self._storage = torch._C._storage_Use_Count, tensor.untyped_storage()._cdata
        self.own = self.holders()  # those that are there while nothing else has its memory

    def holders(self) -> int:
        """How many have its memory."""
        return int(self._count(self._storage))

    def is_free(self) -> bool:
        """Nothing else has its memory."""
        return self.holders() <= self.own

    def given(self) -> Any:
        """Another tensor of the same memory, of the mode that is there."""
        import torch

        tensor = self.tensor
        if not torch.is_inference_mode_enabled():
            return tensor.data
        made = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        return made.set_(tensor.untyped_storage(), tensor.storage_offset(), tensor.shape, tensor.stride())


class _Recording:
    """One graph, with the tensors that it reads and writes.

    Attributes:
        copied: positions of the inputs that are copied in; what lies in memory that another graph lends is not.
        lent: by output: where the graph writes it; None: it is copied out.
    """

    def __init__(
        self,
        graph: Any,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        stream: Any,
        copied: Sequence[int],
        lent: Sequence[_Lent | None],
    ) -> None:
        import torch

        self.graph, self.copied, self.lent = graph, copied, lent
        still = [inputs[at] for at in copied]
        self.inputs = [(form := _Still(each), form.elements(each)) for each in still]
        self._held = [each for each, kept in zip(outputs, lent, strict=True) if kept is None]
        self.outputs = [(form := _Still(each), form.elements(each)) for each in self._held]
        self._own = [kept for kept in lent if kept is not None]
        self.left = stream, [*still, *(kept.tensor for kept in self._own)]
        self.reads: list[tuple[_Lent, int]] = []  # of other graphs, and how often the graph holds it
        self.launching: float | None = None  # seconds that the operators took; None: nothing was compared
        self.is_settled = False  # it was compared, and is worth it
        self._copy = torch._foreach_copy_

    def is_free(self) -> bool:
        """Nothing has what it gave when it ran last in memory that it would write to."""
        return all(kept.is_free() for kept in self._own)

    def run(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Copies in, replays, and copies out."""
        if self.copied:
            given = [form.elements(inputs[at]) for at, (form, _) in zip(self.copied, self.inputs, strict=True)]
            self._copy([held for _, held in self.inputs], given)
        self.graph.replay()
        made = [form.made() for form, _ in self.outputs]
        if made:
            self._copy(
                [form.elements(each) for each, (form, _) in zip(made, self.outputs, strict=True)],
                [held for _, held in self.outputs],
            )
        if not self._own:
            return tuple(made)
        copies = iter(made)
        return tuple([next(copies) if kept is None else kept.given() for kept in self.lent])


def _copied(tensor: Any) -> Any:
    """A tensor of its own, in the same form."""
    form = _Still(tensor)
    made = form.made()
    form.elements(made).copy_(form.elements(tensor))
    return made


class _Seen:
    """Operators that were seen, to be captured by a later call.

    Attributes:
        launches: them; None: they cannot be dispatched again as they were.
        still: by position: the inputs that are copied in.
        lent: by output: where the graph will write it; None: it is copied out.
    """

    def __init__(self, launches: Any, still: dict[int, Any], lent: Sequence[_Lent | None]) -> None:
        self.launches, self.still, self.lent = launches, still, lent


def _all(still: dict[int, Any], inputs: Sequence[Any]) -> list[Any]:
    """The tensors that a graph reads: those that stay, and what other graphs lend."""
    return [each.data if (own := still.get(at)) is None else own for at, each in enumerate(inputs)]


class Captured:
    """The operators of a graph, and what was captured of them.

    Attributes:
        of_launching: what another way to launch them takes, of what was measured.
    """

    of_launching = _OF_REPLAY

    def __init__(self, module: Any, device: str, draws: bool, always: bool = False) -> None:
        import torch

        self._module, self._device, self._always = module, torch.device(device), always
        self._draws = draws  # random numbers
        self._index = self._device.index or 0
        self._recordings: dict[tuple[int, ...], _Recording] = {}  # by how even the addresses of inputs are
        self._seen: dict[tuple[int, ...], _Seen] = {}  # and what was not captured yet
        self._captures = 0
        self._is_new = True  # what the engine compares first are the operators: those of another form may never come
        self._passed: tuple[bool, ...] = ()
        self._forms: list[_Still] = []  # of the results
        self._met: dict[tuple[int, ...], int] = {}
        self._runtime: Any = torch.get_device_module(self._device)
        self._settings = _settings()
        self._known: object = None  # those of the recordings
        if not hasattr(self._runtime, "CUDAGraph"):
            raise BackendError(f"backend 'cudagraphs' finds no graphs for {self._device.type} in this torch")
        if self._device not in _pools:
            _pools[self._device] = _Pool(self._device, self._runtime)
        self._pool = _pools[self._device]

    def run(self, *inputs: Any) -> tuple[Any, ...]:
        """As the operators, one after the other."""
        import torch

        with self._pool.lock:
            stream = torch.accelerator.current_stream(self._device)
            self._pool.enter(stream)
            settings, lent = self._settings(), self._pool.lent
            # A tensor that another graph lends is read where it is.
            even = tuple([at if (at := each.data_ptr()) in lent else at % _ALIGNED for each in inputs])
            if settings != self._known:
                self._forget()
                self._known = settings
            recording = self._recordings.get(even)
            if recording is not None and recording.is_free():
                return self._replayed(even, recording, inputs, stream)
            if recording is not None:
                self._drop(self._recordings.pop(even))
            self._met[even] = self._met.get(even, 0) + 1
            if self._is_new:
                self._is_new = False
                made = self._operators(inputs)
                self._forms = [_Still(each) for each in made]
                return made
            seen = self._seen.get(even)
            if self._met[even] < _LEAST_MEETINGS or (seen is not None and not _may_capture()):
                raise Declines
            with torch.accelerator.device_index(stream.device_index):
                if seen is None:
                    self._seen[even], made = self._see(inputs, stream)
                    return made
                del self._seen[even]
                self._recordings[even] = recording = self._record(seen, inputs, stream)
            self._pool.graphs.add(recording)
            self._pool.lent.update({kept.address: kept for kept in recording.lent if kept is not None})
            raise Declines  # it runs in the next call

    def _replayed(
        self, even: tuple[int, ...], recording: "_Recording", inputs: Sequence[Any], stream: Any
    ) -> tuple[Any, ...]:
        """What the graph gives, which is compared and weighed once.

        Raises:
            BackendError: it gives other results, or is not worth it.
        """
        if recording.is_settled:
            return recording.run(inputs)
        try:
            if recording.launching is None:
                before = self._drawn()
                start = time.perf_counter()
                expected = self._operators(inputs)
                recording.launching = time.perf_counter() - start
                after = self._drawn()
                self._put_back(before)
                made = recording.run(inputs)
                _compare(made, expected)
                if after is not None and not after.equal(self._drawn()):
                    raise BackendError("backend 'cudagraphs' captured what draws other random numbers")
                recording.is_settled = self._always
            else:
                made = self._weigh(recording, inputs, stream)
                recording.is_settled = True
        except BaseException:
            self._drop(self._recordings.pop(even))
            raise
        return made

    def lend(self, passed: Sequence[bool]) -> None:
        """These results nobody sees but operators of the program's trace."""
        self._passed = tuple(passed)

    def rebind(self, weights: Any) -> bool:
        """A graph has the addresses of its weights in it."""
        self._module.pijit_rebind(weights)
        with self._pool.lock:
            self._forget()
        return True

    def close(self) -> None:
        """Give the memory back."""
        with self._pool.lock:
            self._forget()

    def _operators(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        import torch

        # The graph has the dtypes that autocast has chosen.
        with torch.no_grad(), torch.autocast(self._device.type, enabled=False):
            return tuple(self._module.forward(*inputs))

    def _drawn(self) -> Any:
        """The state of the generator; None: nothing is drawn."""
        return self._runtime.get_rng_state(self._index) if self._draws else None

    def _put_back(self, state: Any) -> None:
        """What runs next draws as what ran from this state on."""
        if state is not None:
            self._runtime.set_rng_state(state, self._index)

    def _weigh(self, recording: _Recording, inputs: Sequence[Any], stream: Any) -> tuple[Any, ...]:
        """Runs the graph; BackendError: with what is copied it takes as long as the operators."""
        launching = recording.launching or 0.0
        before = self._drawn()
        stream.synchronize()
        start = time.perf_counter()
        recording.graph.replay()
        stream.synchronize()
        alone = time.perf_counter() - start
        self._put_back(before)
        start = time.perf_counter()
        made = recording.run(inputs)
        stream.synchronize()
        whole = time.perf_counter() - start
        if whole > _GAIN * max(self.of_launching * launching, alone):
            raise BackendError(
                f"backend 'cudagraphs' wins nothing: {1e6 * whole:.0f} us with copies, where the kernels take "
                f"{1e6 * alone:.0f} us and launching them {1e6 * launching:.0f} us; with the option always=True it is "
                "kept"
            )
        return made

    def _kept(self, lent: Sequence[_Lent | None], inputs: Sequence[Any]) -> tuple[Any, ...]:
        """The same; what is lent is written where it is lent."""
        outputs = self._operators(inputs)
        for each, kept in zip(outputs, lent, strict=True):
            if kept is not None:
                kept.form.elements(kept.tensor).copy_(kept.form.elements(each))
        return outputs

    def _forget(self) -> None:
        """Where a graph still runs on another stream, memory of its inputs could soon be that of others."""
        while self._recordings:
            self._drop(self._recordings.popitem()[1])
        self._seen.clear()

    def _drop(self, recording: _Recording) -> None:
        recording.graph.reset()
        self._pool.graphs.discard(recording)
        self._pool.left.append(recording.left)
        for kept in recording.lent:
            if kept is not None:
                self._pool.lent.pop(kept.address, None)
        for read, held in recording.reads:
            read.own -= held

    def _see(self, inputs: Sequence[Any], stream: Any) -> tuple[_Seen, tuple[Any, ...]]:
        """Runs the operators on tensors that stay, and sees them; gives their results, too.

        Raises:
            BackendError: it was done so often that it is not worth it.
        """
        import torch

        self._captures += 1
        if self._captures > _MOST_CAPTURES:
            raise BackendError(f"backend 'cudagraphs' has captured this {_MOST_CAPTURES} times; its weights move")
        with torch.inference_mode(False):  # they are written to in other modes, too
            still = {
                at: _Still(each).made() for at, each in enumerate(inputs) if each.data_ptr() not in self._pool.lent
            }
            passed = self._passed or [False] * len(self._forms)
            lent = [
                _Lent(form) if is_passed and self._may_lend(form) else None
                for form, is_passed in zip(self._forms, passed, strict=True)
            ]
        for at, held in still.items():
            form = _Still(inputs[at])
            form.elements(held).copy_(form.elements(inputs[at]))
        made: Sequence[Any] = ()

        def operators(*given: Any) -> Sequence[Any]:
            nonlocal made
            made = self._kept(lent, given)
            return made

        side = self._pool.side
        side.wait_stream(stream)
        with side:  # kernels are loaded, and libraries take the memory that they keep for this stream
            launches = self._watched(operators, _all(still, inputs))
        stream.wait_stream(side)
        results = tuple(map(_copied, made))  # the memory of the other stream is soon that of other tensors there
        side.wait_stream(stream)
        return _Seen(launches, still, lent), results

    def _record(self, seen: _Seen, inputs: Sequence[Any], stream: Any) -> _Recording:
        """Captures what was seen.

        Raises:
            BackendError: it cannot be captured.
        """
        copied = list(seen.still)
        addresses = {each.data_ptr() for at, each in enumerate(inputs) if at not in seen.still}
        read = [(self._pool.lent[each], self._pool.lent[each].holders()) for each in addresses]
        recording = self._capture(_all(seen.still, inputs), stream, seen.launches, copied, seen.lent)
        # A tensor that another graph lends is not held, but by graphs that hold what they read.
        seen.launches = None
        for kept in seen.lent:
            if kept is not None:
                kept.own = kept.holders()
        recording.reads = [(each, each.holders() - before) for each, before in read]
        for each, more in recording.reads:
            each.own += more
        return recording

    def _may_lend(self, form: _Still) -> bool:
        """A result of this form may lie where the graph writes it."""
        return True

    def _watched(self, operators: Callable[..., Sequence[Any]], given: Sequence[Any]) -> Any:
        """Runs them, and gives what a capture launches; None: the operators themselves."""
        return adapter().watch_launches(lambda given: operators(*given), given)

    def _launched(
        self, launches: Any, still: Sequence[Any], lent: Sequence[_Lent | None], bounds: _Bounds, ended: list[bool]
    ) -> Sequence[Any]:
        """Captures that with the GIL held; gives its results."""
        return adapter().capture_launches(launches, still, *bounds, ended)  # type: ignore[no-any-return]

    def _end_of_failed(self, graph: Any) -> None:
        try:
            graph.capture_end()
        except RuntimeError:
            if self._device.type == "cuda":
                _mend(self._device, self._pool.handle)

    def _captured(self, graph: Any, still: Sequence[Any], launches: Any, lent: Sequence[_Lent | None]) -> Sequence[Any]:
        """What the operators give on the current stream, captured in the graph."""
        bounds = None if launches is None else self._pool.bounds(graph)
        ended: list[bool] = []
        if bounds is None and others_run():
            raise BackendError(
                "backend 'cudagraphs' captures nothing here while other threads run: one that synchronizes the device "
                "would be told that it may not"
            )
        try:
            if bounds is not None:
                return self._launched(launches, still, lent, bounds, ended)
            self._pool.begin(graph)
            outputs = self._kept(lent, still)
            graph.capture_end()
            return outputs
        except BaseException:
            if not ended:
                self._end_of_failed(graph)
            graph.reset()
            raise

    def _capture(
        self, still: Sequence[Any], stream: Any, launches: Any, copied: Sequence[int], lent: Sequence[_Lent | None]
    ) -> _Recording:
        graph = self._runtime.CUDAGraph()
        side, memory = self._pool.side, _memory(self._runtime, self._device)
        side.wait_stream(stream)
        collects = gc.isenabled()
        gc.disable()  # what a collection frees may ask for what no capture has
        try:
            with side:
                outputs = self._captured(graph, still, launches, lent)
        except RuntimeError as error:
            said = str(error).strip().partition("\n")[0]
            raise BackendError(f"backend 'cudagraphs' cannot capture this: {said}") from error
        finally:
            if collects:
                gc.enable()
            stream.wait_stream(side)
            if self._device.type == "cuda":
                _let_draw(stream.device_index)
        if memory is not None:
            taken, most = _memory(self._runtime, self._device)[0] - memory[0], _MOST_MEMORY * memory[1]
            if taken > most:
                graph.reset()
                raise BackendError(f"backend 'cudagraphs' would keep {taken >> 20} MiB, of at most {int(most) >> 20}")
        return _Recording(graph, still, outputs, stream, copied, lent)


def _mend(device: Any, pool: Any) -> None:
    """What a capture of CUDA that fails leaves behind: the allocator takes from the pool, the generator counts draws.

    Without this, whoever draws random numbers from then on is told that they are outside of a capture.
    """
    import torch

    index = torch.accelerator.current_device_index() if device.index is None else device.index
    with contextlib.suppress(RuntimeError):  # it had not begun to take, or has ended
        torch._C._cuda_endAllocateToPool(index, pool)
        torch._C._cuda_releasePool(index, pool)
    _let_draw(index)


def _let_draw(index: int) -> None:
    """A generator of a GPU that still counts what a capture draws gets another state, with the same numbers to come."""
    import torch

    generator = torch.cuda.default_generators[index]
    state = generator.get_state()
    try:
        torch.empty(1, device=f"cuda:{index}").uniform_()
    except RuntimeError:
        generator.graphsafe_set_state(generator.clone_state())
    generator.set_state(state)


def _memory(runtime: Any, device: Any) -> Any:
    """Bytes that the allocator has taken, and those of the device; None: it does not say."""
    if not hasattr(runtime, "memory_reserved"):
        return None
    return runtime.memory_reserved(device), runtime.get_device_properties(device).total_memory


def _compare(made: Sequence[Any], expected: Sequence[Any]) -> None:
    try:
        difference(BACKEND, made, expected)
    except BackendError as error:
        raise BackendError("backend 'cudagraphs' captured what gives other results than its operators do") from error


def _settings() -> Callable[[], object]:
    """What asks for the settings by which kernels are chosen: they are part of what was captured."""
    import torch

    names = [
        "_get_cudnn_enabled", "_get_cudnn_benchmark", "_get_cudnn_deterministic", "_get_deterministic_algorithms",
        "_get_cublas_allow_fp16_reduced_precision_reduction", "_get_cublas_allow_bf16_reduced_precision_reduction",
        "_get_cublas_allow_fp16_accumulation", "_get_blas_preferred_backend", "_get_linalg_preferred_backend",
        "_get_flash_sdp_enabled", "_get_mem_efficient_sdp_enabled", "_get_math_sdp_enabled", "_get_cudnn_sdp_enabled",
        "_get_overrideable_sdp_enabled", "_get_fa3_sdp_enabled", "_get_sdp_priority_order",
        "_get_math_sdp_allow_fp16_bf16_reduction", "_get_float32_matmul_precision",
    ]  # fmt: skip
    asked = [getattr(torch._C, name) for name in names if hasattr(torch._C, name)]
    precision = torch._C._get_fp32_precision_getter
    of = [("generic", "all"), ("cuda", "all"), ("cuda", "matmul"), ("cuda", "conv"), ("cuda", "rnn")]

    def settings() -> object:
        return [each() for each in asked], [precision(*each) for each in of]

    return settings


BACKEND = CudaGraphs()
