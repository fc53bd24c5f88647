"""A program that was written for another device, or for many processes, runs on this one: `python -m pijit --device`.

Calls are changed by what they mean, where they are called: a callable of torch or of a library that carries a device or
a process group is replaced by one that names the device on which the program runs (pijit/devices/table.py). No text is
changed.

1. A module's callables are replaced when its package has been imported, before any line of the program has seen them.
2. Tensors say what is true: they are on this device. What is asked of torch about the other one (`torch.cuda`) is
   answered as if it were there, so that a program that insists on it goes on.
3. What cannot run here is an error that names the line. Nothing of a program is left out silently.
"""

import importlib
import importlib.util
import inspect
import re
import sys
import textwrap
from collections import defaultdict
from types import ModuleType
from typing import Any

from pijit._config import DEVICES
from pijit._on_import import Finder
from pijit._usage_errors import nearest
from pijit.devices import names
from pijit.devices.rules import Rule
from pijit.devices.single import set_variables
from pijit.devices.table import DEVICE, SINGLE, Row, own
from pijit.errors import ConfigError

# The devices that torch itself has modules for.
_MODULES = frozenset({"cuda", "xpu", "mps", "mtia"})

_waiting: dict[str, list[Row]] = defaultdict(list)


def move(target: str, single: bool, text: str) -> None:
    """Run on the device `target` from now on, and `single`: in one process.

    Args:
        target: a device as torch names it; "": that of the program.
        single: whether distribution is erased.
        text: of the program; the kind of device that is named in it is said to be there.
    """
    named, moved = _named(text), _MODULES - {target.partition(":")[0]}
    if named == "npu" and importlib.util.find_spec("torch_npu") is None:
        _stand_for_npu()
        moved |= {named}
    for row in [*(DEVICE if target else ()), *(SINGLE if single else ()), *own(DEVICES)]:
        for kind in sorted(moved if "KIND" in row.module else moved & {named} if "NAMED" in row.module else [""]):
            _waiting[re.sub("KIND|NAMED", kind, row.module)].append(row)
    if target:
        names.move(target)
    if single:
        set_variables()
    sys.meta_path.insert(0, Finder(_waits_for, _imported))
    for package in {module.partition(".")[0] for module in _waiting} & sys.modules.keys():
        _imported(package)


def check(target: str) -> None:
    """`ConfigError` if there is no device of this name, or a row of the user's is wrong."""
    known = ("cpu", *names.KINDS)
    if target and target.partition(":")[0] not in known:
        raise ConfigError(f"--device: no device is called {target!r}{nearest(target, known)}")
    own(DEVICES)


def _named(text: str) -> str:
    """The kind of device that a program is written for, by its text; that of most programs if it names none."""
    words = set(re.findall(r"[a-z]+", text))
    return next((kind for kind in names.KINDS if kind in words), names.KINDS[0])


def _stand_for_npu() -> None:
    """The package that adds `torch.npu` is not installed: a program that imports it finds what the table answers."""
    for name in ("torch_npu", "torch_npu.npu", "torch_npu.contrib", "torch_npu.contrib.transfer_to_npu"):
        module = sys.modules[name] = ModuleType(name)
        outer, _, inner = name.rpartition(".")
        if outer:
            setattr(sys.modules[outer], inner, module)
    for row in DEVICE:
        if row.module in {"torch.KIND", "torch.NAMED"}:
            vars(sys.modules["torch_npu.npu"]).update(dict.fromkeys(row.names.split()))


def _waits_for(name: str) -> bool:
    return any(module == name or module.startswith(f"{name}.") for module in _waiting)


def _imported(name: str) -> None:
    """A module is there: what is wanted in its package and in the package's parts is done, if the package is there."""
    package = name.partition(".")[0]
    if not _is_there(package, name):
        return  # the package's own end is reported, too
    if package == "torch":
        _know_torch(sys.modules[package])
    for module in [each for each in _waiting if each.partition(".")[0] == package and _is_there(each, name)]:
        for row in _waiting.pop(module):
            for path in row.names.split():
                _replace(sys.modules[module], path, row.rule)


def _is_there(module: str, name: str) -> bool:
    """It is imported to its end, as `name` is whose loader reports just now."""
    found = sys.modules.get(module)
    return found is not None and (module == name or not getattr(found.__spec__, "_initializing", False))


def _know_torch(torch: Any) -> None:
    """What torch keeps by the callables that are about to be replaced."""
    if "torch" in _waiting:
        names.know_device(torch.device)
        importlib.import_module("torch.utils._device")._device_constructors()
        if "torch_npu.npu" in sys.modules and not hasattr(torch, "npu"):
            torch.npu = sys.modules["torch.npu"] = sys.modules["torch_npu.npu"]
            torch.Tensor.npu, torch.nn.Module.npu = torch.Tensor.cuda, torch.nn.Module.cuda


def _replace(owner: Any, path: str, rule: Rule) -> None:
    *outer, name = path.split(".")
    for part in outer:
        owner = getattr(owner, part, None)
    if owner is None or not hasattr(owner, name):
        return
    original = inspect.getattr_static(owner, name)
    if isinstance(original, (staticmethod, classmethod)):
        setattr(owner, name, type(original)(rule.make(original.__func__)))
        return
    original = getattr(owner, name)
    made = rule.make(original)
    setattr(owner, name, made)
    home = sys.modules.get(getattr(original, "__module__", None) or "")
    if home is not None and vars(home).get(name) is original:
        setattr(home, name, made)  # where it is defined, and may be asked for, too


def listing() -> str:
    """The rows, for people."""
    tables = (
        ("--device NAME", DEVICE),
        ("--single-process", SINGLE),
        ("[tool.pijit.devices] in pyproject.toml, under either", own(DEVICES)),
    )
    return "\n".join(f"{option}\n" + "\n".join(map(_shown, rows)) for option, rows in tables if rows)


def _shown(row: Row) -> str:
    names = textwrap.fill(f"{row.module}: {row.names}", 118, initial_indent="  ", subsequent_indent="    ")
    return f"{names}\n      {row.rule.doc}"
