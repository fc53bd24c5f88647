"""What torch.cuda and its like answer where their device is another: streams that are in order by themselves, events
that tell the time, and properties of the machine.
"""

import collections
import os
import time
from types import TracebackType
from typing import Any

from pijit.devices.names import target


class Event:
    """A point in time: what was asked for before it is done."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._time = 0.0

    def record(self, stream: Any = None) -> None:
        """Now."""
        self._time = time.perf_counter()

    def elapsed_time(self, end_event: "Event") -> float:
        """Milliseconds from here to `end_event`."""
        return (end_event._time - self._time) * 1000

    def query(self) -> bool:
        """It has come."""
        return True

    def wait(self, stream: Any = None) -> None:
        """It has come."""

    def synchronize(self) -> None:
        """It has come."""


class Stream:
    """A stream in which everything is done when the call that asks for it returns."""

    cuda_stream = 0
    priority = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._before: list[Stream] = []

    def record_event(self, event: Event | None = None) -> Event:
        """An event, now."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """It has come."""

    def wait_stream(self, stream: Any) -> None:
        """Its work is done."""

    def query(self) -> bool:
        """The work is done."""
        return True

    def synchronize(self) -> None:
        """The work is done."""

    def __enter__(self) -> "Stream":
        self._before.append(current_stream())
        set_stream(self)
        return self

    def __exit__(self, *error: object) -> None:
        set_stream(self._before.pop())


_streams = [Stream()]  # the current one


def current_stream(device: Any = None) -> Stream:
    """The stream of the innermost block."""
    return _streams[0]


def default_stream(device: Any = None) -> Stream:
    """The stream in which a program begins."""
    return _DEFAULT


def set_stream(stream: Stream | None) -> None:
    """Make it the current one."""
    if stream is not None:
        _streams[0] = stream


_DEFAULT = _streams[0]


class StreamContext:
    """`with torch.cuda.stream(stream):`; None: nothing changes."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            self.stream.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.stream is not None:
            self.stream.__exit__()


class device:
    """`with torch.cuda.device(0):`, and `device_of`: there is one device, and it is current."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.idx = 0

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Bytes of the machine's memory that are free, and all."""
    page = os.sysconf("SC_PAGE_SIZE")
    return os.sysconf("SC_AVPHYS_PAGES") * page, os.sysconf("SC_PHYS_PAGES") * page


class Properties:
    """What `get_device_properties` tells: of the machine; the capability is `get_device_capability`'s."""

    name = "cpu"
    major, minor = 7, 0
    is_integrated = is_multi_gpu_board = 0
    gcnArchName = "cpu"
    warp_size = 32

    def __init__(self) -> None:
        self.total_memory = mem_get_info()[1]
        self.multi_processor_count = os.cpu_count() or 1

    def __repr__(self) -> str:
        return f"Properties(name='cpu', total_memory={self.total_memory >> 20}MB)"


def get_device_properties(device: Any = None) -> Properties:
    """Of the machine."""
    return Properties()


def memory_stats(device: Any = None) -> "collections.Counter[str]":
    """No memory of a device is used: each figure is 0."""
    return collections.Counter()


def manual_seed(seed: int) -> None:
    """Seeds the generator of the device on which the program runs."""
    import torch

    torch.default_generator.manual_seed(int(seed))


def seed() -> None:
    """Seeds it by chance."""
    import torch

    torch.default_generator.seed()


def initial_seed() -> int:
    """What it was seeded with."""
    import torch

    return torch.default_generator.initial_seed()


def get_rng_state(device: Any = None) -> Any:
    """Its state."""
    import torch

    return torch.default_generator.get_state()


def get_rng_state_all() -> list[Any]:
    """Its state, as the only one's."""
    return [get_rng_state()]


def set_rng_state(new_state: Any, device: Any = None) -> None:
    """Give it a state."""
    import torch

    torch.default_generator.set_state(new_state)


def set_rng_state_all(new_states: Any) -> None:
    """Give it a state, the only one's."""
    for state in new_states:
        set_rng_state(state)


class autocast:
    """`torch.cuda.amp.autocast`: torch's own, of the device on which the program runs, and in its dtype."""

    def __new__(cls, enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> Any:
        import torch

        return torch.autocast(target(), dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


stream = StreamContext
device_of = device
manual_seed_all = manual_seed
seed_all = seed
