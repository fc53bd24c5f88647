"""Rows that compute with numbers, as C++. Whole numbers of Python have no end; here they have 64 bits."""

from pijit._formats.cpp.words import KINDS
from pijit.errors import ExportError
from pijit.graph.model import Node, Value, place_of
from pijit.graph.model.branches import kind_of

_INFIX = {
    "scalar_equal": "==",
    "scalar_not_equal": "!=",
    "scalar_less": "<",
    "scalar_less_equal": "<=",
    "scalar_greater": ">",
    "scalar_greater_equal": ">=",
    "scalar_and": "&",
    "scalar_or": "|",
    "scalar_xor": "^",
}
# What whole numbers may leave 64 bits by, and the sign for floats.
_CHECKED = {
    "scalar_add": ("plus", "+"),
    "scalar_subtract": ("minus", "-"),
    "scalar_multiply": ("times", "*"),
    "scalar_left_shift": ("shift_left", ""),
    "scalar_right_shift": ("shift_right", ""),
}
_OF_TWO = {
    "scalar_floor_divide": ("floor_divide", "floor_divide_floats"),
    "scalar_remainder": ("remainder", "remainder_of_floats"),
    "scalar_pow": ("power", "power_of_floats"),
}
# Functions of the module math of one float; the library of C computes them for Python, too.
_NAMES = "sqrt exp log log2 log10 log1p expm1 sin cos tan asin acos atan sinh cosh tanh erf"
_FUNCTIONS = frozenset(_NAMES.split())
_WHOLE = {"scalar_floor": "std::floor", "scalar_ceil": "std::ceil", "scalar_round": "std::nearbyint"}


def number(node: Node, sides: list[str]) -> str:
    """The expression of a row.

    Args:
        node: one of `NUMBERS`.
        sides: its arguments as expressions.

    Raises:
        ExportError: there is no form of it.
    """
    kinds = [kind_of(each) for each in node.arguments.values()]
    result = node.results[0] if node.results else None
    kind = result.kind if isinstance(result, Value) else "int"
    floats = kind == "float" or "float" in kinds
    if sign := _INFIX.get(node.op):
        return f" {sign} ".join(sides)
    if node.op in _CHECKED and floats:
        return f" {_CHECKED[node.op][1]} ".join(sides)
    if node.op in _CHECKED:
        return f"{_CHECKED[node.op][0]}({', '.join(sides)})"
    if node.op in _OF_TWO:
        whole, real = _OF_TWO[node.op]
        return f"{real if floats else whole}({', '.join(sides)})"
    x = sides[0]
    if node.op.removeprefix("scalar_") in _FUNCTIONS:
        return f"of_math(std::{node.op.removeprefix('scalar_')}({_as(x, 'float')}), {x})"
    if node.op in _WHOLE and len(sides) == 1:
        return f"truncate({_WHOLE[node.op]}({x}))" if floats else _as(x, "int")
    made = {
        "scalar_divide": lambda: f"divide({', '.join(sides)})",
        "scalar_negative": lambda: f"-({x})" if floats else f"minus(0, {x})",
        "scalar_abs": lambda: f"std::abs({_as(x, kind)})",
        "scalar_min": lambda: _chosen(f"{sides[1]} < {x}", sides, kinds, kind),
        "scalar_max": lambda: _chosen(f"{sides[1]} > {x}", sides, kinds, kind),
        "scalar_invert": lambda: f"~{_as(x, 'int')}",
        "scalar_not": lambda: f"({x} == 0)",
        "scalar_truth": lambda: f"({x} != 0)",
        "scalar_trunc": lambda: f"truncate({x})" if "float" in kinds else _as(x, "int"),
        "scalar_isqrt": lambda: f"whole_root({x})",
        "scalar_gcd": lambda: f"std::gcd({', '.join(_as(side, 'int') for side in sides)})",
        "scalar_atan2": lambda: f"std::atan2({', '.join(_as(side, 'float') for side in sides)})",
        "scalar_fmod": lambda: f"of_math(std::fmod({', '.join(_as(side, 'float') for side in sides)}), {x})",
        "scalar_int": lambda: f"truncate({x})" if "float" in kinds else _as(x, "int"),
        "scalar_float": lambda: _as(x, "float"),
    }.get(node.op)
    if made is None:
        raise ExportError(
            f"{place_of(node)}format 'cpp' has no form for {node.op}, which computes with numbers; take format "
            "'python', or compute it before the call and give it as an argument"
        )
    return made()


def _chosen(second: str, sides: list[str], kinds: list[str | None], kind: str) -> str:
    """One of two numbers; of two kinds the one that the graph has, where another one is an error."""
    if kinds[0] == kinds[1]:
        return f"({second} ? {_as(sides[1], kind)} : {_as(sides[0], kind)})"
    at = kinds.index(kind)
    return f"of_kind({second if at else f'!({second})'}, {sides[at]})"


def _as(text: str, kind: str) -> str:
    return f"static_cast<{KINDS.get(kind, 'int64_t')}>({text})"
