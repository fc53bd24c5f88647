"""Arrays as raw bytes and back, for any framework that is imported; and files of such arrays.

Files are in the format of safetensors: the length of a JSON header in eight bytes (little-endian), the header, and the
bytes of the arrays one after another. pijit writes and reads it itself, so that no package is needed.
"""

import json
import math
import struct
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from pijit.errors import ExportError

# Name of a dtype: its bytes an element, and its name in a file of safetensors ("": it has none).
DTYPES = {
    "bool": (1, "BOOL"),
    "int8": (1, "I8"),
    "int16": (2, "I16"),
    "int32": (4, "I32"),
    "int64": (8, "I64"),
    "uint8": (1, "U8"),
    "uint16": (2, "U16"),
    "uint32": (4, "U32"),
    "uint64": (8, "U64"),
    "float8_e4m3fn": (1, "F8_E4M3"),
    "float8_e5m2": (1, "F8_E5M2"),
    "float16": (2, "F16"),
    "bfloat16": (2, "BF16"),
    "float32": (4, "F32"),
    "float64": (8, "F64"),
    "complex64": (8, "C64"),
    "complex128": (16, ""),
}
_OF_FILE = {short: name for name, (_, short) in DTYPES.items() if short}


@dataclass(frozen=True, slots=True)
class Raw:
    """An array as bytes, elements in C order, little-endian.

    Attributes:
        dtype: such as "float32".
        shape: sizes.
        data: the bytes.
        strides: in elements, where the array was not in C order; None: it was.
        requires_grad: a tensor of torch asks for gradients.
    """

    dtype: str
    shape: tuple[int, ...]
    data: bytes
    strides: tuple[int, ...] | None = None
    requires_grad: bool = False


def framework_of(array: Any) -> str:
    """ "torch", "numpy", "jax" or "mindspore": whose array it is."""
    for kind in type(array).__mro__:
        package = kind.__module__.partition(".")[0]
        if package in {"torch", "numpy", "mindspore"}:
            return package
        if package in {"jax", "jaxlib"}:
            return "jax"
    return ""


def raw(array: Any, name: str) -> Raw:
    """The bytes of an array.

    Raises:
        ExportError: it has none (meta, sparse, quantised), or is of no framework that is known.
    """
    framework = framework_of(array)
    if framework == "torch":
        return _raw_of_tensor(array, name)
    if framework in {"numpy", "jax", "mindspore"}:
        import numpy as np

        held = np.asarray(array) if framework != "mindspore" else _array_of_mindspore(array)
        dtype = held.dtype.name
        if dtype not in DTYPES:
            raise ExportError(f"{name} is an array of {dtype}, which has no bytes to write")
        return Raw(dtype, held.shape, held.astype(held.dtype.newbyteorder("<"), copy=False).tobytes())
    raise ExportError(f"{name} is a {type(array).__name__}, not an array of torch, numpy, jax or mindspore")


def _array_of_mindspore(tensor: Any) -> Any:
    from pijit.graph.forms.mindspore_array import numpy_of

    return numpy_of(tensor)


def _raw_of_tensor(tensor: Any, name: str) -> Raw:
    import ctypes

    torch = sys.modules["torch"]
    dtype = str(tensor.dtype).removeprefix("torch.")
    if tensor.layout is not torch.strided or dtype not in DTYPES or tensor.is_meta:
        kind = "a tensor without data" if tensor.is_meta else f"a tensor of layout {tensor.layout} and dtype {dtype}"
        raise ExportError(f"{name} is {kind}, which has no bytes to write; make it dense and real first")
    with torch.no_grad():
        held = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
    length = held.numel() * held.element_size()
    data = ctypes.string_at(held.data_ptr(), length) if length else b""
    strides = None if tensor.is_contiguous() or 0 in tensor.stride() else tuple(tensor.stride())
    return Raw(dtype, tuple(tensor.shape), data, strides, bool(tensor.requires_grad))


def array(held: Raw, framework: str, name: str) -> Any:
    """An array of the framework ("torch", "numpy", "jax" or "mindspore") with these bytes.

    Raises:
        ExportError: their number does not fit the shape, or the framework has no such dtype.
    """
    if held.dtype not in DTYPES:
        raise ExportError(f"{name} is of dtype {held.dtype!r}, which is not known")
    length = DTYPES[held.dtype][0] * math.prod(held.shape)
    if length != len(held.data):
        raise ExportError(f"{name} is {held.dtype}{list(held.shape)}, {length} bytes, but has {len(held.data)}")
    if framework == "torch":
        return _tensor(held)
    import numpy as np

    try:
        dtype = np.dtype(held.dtype)
    except TypeError:
        try:
            import ml_dtypes
        except ImportError:
            raise ExportError(f"{name} is {held.dtype}, which NumPy lacks; run: pip install ml_dtypes") from None
        dtype = np.dtype(getattr(ml_dtypes, held.dtype))
    made = np.frombuffer(bytearray(held.data), dtype).reshape(held.shape)
    if framework == "jax":
        import jax.numpy as jnp

        return jnp.asarray(made)
    if framework == "mindspore":
        from pijit.graph.forms.mindspore_array import constant

        return constant(made).tensor
    return made


def _tensor(held: Raw) -> Any:
    import torch

    dtype = getattr(torch, held.dtype)
    if held.data:
        made = torch.frombuffer(bytearray(held.data), dtype=dtype).reshape(held.shape)
    else:
        made = torch.empty(held.shape, dtype=dtype)
    if held.strides is not None:
        made = torch.empty_strided(held.shape, held.strides, dtype=dtype).copy_(made)
    return made.requires_grad_() if held.requires_grad else made


def write_file(arrays: Mapping[str, Raw], path: Path) -> None:
    """A file of safetensors.

    Raises:
        ExportError: such a file cannot hold one of the dtypes.
    """
    header: dict[str, Any] = {}
    at = 0
    for name, held in arrays.items():
        if not DTYPES[held.dtype][1]:
            raise ExportError(f'{name} is {held.dtype}, which a file of safetensors cannot hold; take weights="inline"')
        header[name] = {
            "dtype": DTYPES[held.dtype][1],
            "shape": list(held.shape),
            "data_offsets": [at, at + len(held.data)],
        }
        at += len(held.data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        _write_all(file, (struct.pack("<Q", len(text)), text, *(held.data for held in arrays.values())))


def _write_all(file: BinaryIO, parts: Iterable[bytes]) -> None:
    for part in parts:
        file.write(part)


def read_file(path: Path) -> dict[str, Raw]:
    """The arrays of a file of safetensors.

    Raises:
        ExportError: the file cannot be read, or is none.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ExportError(f"{path} cannot be read: {error.strerror or error}") from error
    try:
        (length,) = struct.unpack_from("<Q", content)
        header = json.loads(content[8 : 8 + length])
        found = {}
        for name, row in header.items():
            if name != "__metadata__":
                start, stop = row["data_offsets"]
                data = content[8 + length + start : 8 + length + stop]
                found[name] = Raw(_OF_FILE[row["dtype"]], tuple(row["shape"]), data)
    except (struct.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ExportError(f"{path} is no file of safetensors, or is damaged: {error}") from error
    return found
