"""Words of C++: identifiers, literals, dtypes."""

import math
import re

from pijit._formats.cpp.support import RESERVED
from pijit.errors import ExportError
from pijit.graph.model import Token

# Names of torch's dtypes in C++.
SCALAR_TYPES = {
    "bool": "kBool",
    "uint8": "kByte",
    "int8": "kChar",
    "int16": "kShort",
    "int32": "kInt",
    "int64": "kLong",
    "uint16": "kUInt16",
    "uint32": "kUInt32",
    "uint64": "kUInt64",
    "float16": "kHalf",
    "bfloat16": "kBFloat16",
    "float32": "kFloat",
    "float64": "kDouble",
    "complex32": "kComplexHalf",
    "complex64": "kComplexFloat",
    "complex128": "kComplexDouble",
    "float8_e4m3fn": "kFloat8_e4m3fn",
    "float8_e5m2": "kFloat8_e5m2",
}
# Kinds of numbers.
KINDS = {"int": "int64_t", "float": "double", "bool": "bool"}
_FORMATS = {
    "preserve_format": "Preserve",
    "contiguous_format": "Contiguous",
    "channels_last": "ChannelsLast",
    "channels_last_3d": "ChannelsLast3d",
}


def identifier(name: str, taken: set[str]) -> str:
    """A name that C++ takes and nobody else has; it is taken then."""
    word = re.sub(r"\W+|_{2,}", "_", name, flags=re.ASCII).strip("_") or "value"
    word = f"v{word}" if word[0].isdigit() else word
    found, count = word, 0
    while found in taken or found in RESERVED:
        count += 1
        found = f"{word}_{count}"
    taken.add(found)
    return found


def dtype(name: str | None) -> str:
    """A dtype as an expression."""
    if name not in SCALAR_TYPES:
        raise ExportError(f"C++ has no name for the dtype {name}; format 'cpp' cannot hold it, cast it with `.to(...)`")
    return f"at::{SCALAR_TYPES[name]}"


def token(word: Token) -> str:
    """A word of torch, as operators take it."""
    if word.kind == "device":
        return f"at::Device({quoted(word.name)})"
    if word.kind == "dtype":
        return f"word({dtype(word.name)})"
    if word.kind == "layout":
        if word.name != "strided":
            raise ExportError(f"format 'cpp' holds strided tensors only, none of layout {word.name}")
        return "word(at::kStrided)"
    return f"word(at::MemoryFormat::{_FORMATS[word.name]})"


def integer(number: int, place: str = "") -> str:
    """A whole number."""
    if number == -(2**63):
        return "INT64_MIN"
    if not -(2**63) < number < 2**63:
        raise ExportError(f"{place}the number {number} does not fit into 64 bits, so format 'cpp' cannot hold it")
    return str(number) if -(2**31) < number < 2**31 else f"INT64_C({number})"


def double(number: float) -> str:
    """A float of Python."""
    if math.isnan(number):
        return "std::numeric_limits<double>::quiet_NaN()"
    if math.isinf(number):
        return f"{'-' if number < 0 else ''}std::numeric_limits<double>::infinity()"
    return repr(float(number))


def quoted(text: str) -> str:
    """A text; what is no plain letter is written by its bytes."""
    made = ""
    for byte in text.encode("utf-8", "surrogatepass"):
        if byte in b'"\\':
            made += f"\\{chr(byte)}"
        elif 32 <= byte < 127 and byte != ord("?"):
            made += chr(byte)
        else:
            made += f"\\{byte:03o}"
    return f'"{made}"'


def comment(text: str) -> str:
    """A line of a comment: one without control letters, and without a backslash that would go on in the next line."""
    plain = "".join(letter if letter.isprintable() else " " for letter in text).rstrip()
    return f"// {plain}{'.' if plain.endswith(chr(92)) else ''}"
