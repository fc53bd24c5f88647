"""The constructs of the language that the recorder is to know, each with one program of programs/ that shows it.

A program is replayed whole if in steady state, which is the last call before what it depends on changes and the last
one after, its replays come to the return without an opaque call, an exit or a stop.
"""

from __future__ import annotations

import gc
import sys
from dataclasses import dataclass, field

import observe
from small_programs import Program

CONSTRUCTS = {
    # Python scalars
    "int": "int_arithmetic",
    "float": "float_arithmetic_alone",
    "bool": "bool_operations",
    "complex": "complex_numbers",
    "str": "str_operations",
    "bytes": "bytes_operations",
    "None": "none_checks",
    "big ints": "big_integers",
    "// and %": "whole_division",
    "bit operations": "bit_operations",
    "comparison": "constants_compared",
    "chained comparison": "chained_comparison",
    "is": "identity_comparison",
    "in": "membership",
    "conversions": "conversions_of_numbers",
    "-0.0": "negative_zero",
    "nan": "nan_constant",
    # containers
    "list methods": "list_methods",
    "tuple": "tuple_use",
    "dict methods": "dict_methods",
    "set methods": "sets",
    "frozenset methods": "frozenset_methods",
    "range": "range_methods",
    "slice objects": "slice_objects",
    "str methods": "str_methods",
    "bytes methods": "bytes_methods",
    "deque": "deque_methods",
    "OrderedDict": "ordered_dicts",
    "defaultdict": "defaultdict_made_and_filled",
    "Counter": "counter_of_words",
    "namedtuple": "namedtuple",
    "SimpleNamespace": "simple_namespace",
    "slicing": "slicing",
    "unpacking": "unpacking",
    "starred unpacking": "starred_unpacking",
    "containers that hold themselves": "self_containing",
    # calls
    "positional and keyword arguments": "arguments_by_position_and_name",
    "positional-only parameters": "positional_only",
    "keyword-only parameters": "keyword_only_and_defaults",
    "*args and **kwargs parameters": "star_arguments",
    "f(*args, **kwargs)": "arguments_spread",
    "defaults": "defaults_of_a_function",
    "mutable defaults": "mutable_default",
    "lambda": "lambda_in_loop",
    "closures": "closures_over_variables",
    "cells": "closure_cell_rebound",
    "nonlocal": "closure_counter",
    "global": "global_statement",
    "functions as results": "inner_function_returned",
    "decorators": "decorated",
    "recursion": "recursion_alone",
    "mutual recursion": "mutual_recursion",
    "nested pijit.jit": "jit_inside_jit",
    # classes
    "methods": "methods_of_an_instance",
    "bound methods": "bound_method_kept",
    "super()": "super_alone",
    "super() along the MRO": "super_calls",
    "property": "property_alone",
    "property with setter and deleter": "property_with_setter",
    "classmethod": "classmethods",
    "staticmethod": "staticmethods",
    "descriptors": "descriptor_replaced",
    "data descriptors": "descriptor_with_set",
    "__getattr__": "getattr_fallback",
    "__getattribute__": "getattribute",
    "__setattr__": "setattr_method",
    "__delattr__": "delattr_method",
    "__call__": "callable_instance",
    "__getitem__": "getitem_method",
    "__setitem__": "setitem_method",
    "__delitem__": "delitem_method",
    "__len__": "len_method",
    "__bool__": "bool_method",
    "__contains__": "contains_method",
    "__iter__": "iter_method",
    "__next__": "next_method",
    "__hash__": "hash_method",
    "__eq__": "eq_method",
    "__missing__": "missing_method",
    "__class_getitem__": "class_getitem_method",
    "operators": "operators_overloaded",
    "reflected operators": "reflected_operators",
    "in-place operators": "in_place_operators",
    "unary operators": "unary_operators_of_classes",
    "comparison operators": "comparisons_of_classes",
    "__int__, __float__, __index__": "numbers_of_classes",
    "__str__ and __repr__": "str_and_repr",
    "__format__": "f_strings_of_objects",
    # what makes objects
    "user classes": "user_class_made",
    "__new__": "new_method",
    "__slots__": "simple_classes_with_slots",
    "dataclass": "dataclass",
    "frozen dataclass": "dataclass_frozen_alone",
    "dataclass with slots": "dataclass_with_slots",
    "enum": "enumerations",
    "functools.partial": "partial_alone",
    "functools.reduce": "functools_reduce_and_partial",
    "functools.wraps": "wraps_alone",
    "functools.lru_cache: hits": "cached_calls_that_hit",
    "functools.lru_cache: misses": "cached_calls_that_miss",
    "functools.cached_property": "cached_property",
    "copy.copy": "shallow_copies",
    "copy.deepcopy": "deep_copies",
    # what is built in
    "itertools: chains": "itertools_chains",
    "itertools: with functions": "itertools_with_functions",
    "itertools: selections": "itertools_selections",
    "itertools.islice": "islice_step_by_step",
    "operator": "operator_functions",
    "math": "math_functions",
    "isinstance": "type_of_and_isinstance",
    "issubclass": "issubclass_of_classes",
    "getattr": "getattr_of_all_sorts",
    "hasattr": "hasattr_of_all_sorts",
    "callable": "callable_of_all_sorts",
    "type": "type_of_objects",
    "map": "map_of_a_function",
    "filter": "filter_of_a_function",
    "zip": "zip_of_all_sorts",
    "enumerate": "enumerate_of_all_sorts",
    "sorted(key)": "sorted_with_key",
    "list.sort": "sort_is_stable",
    "reversed": "reversed_of_all_sorts",
    "any": "any_of_items",
    "all": "any_all_stop_early",
    "sum": "sum_of_all_sorts",
    "min": "min_max_with_key",
    "max": "min_of_user_objects",
    "divmod": "divmod_of_numbers",
    "round": "rounding",
    "pow and abs": "power_and_absolute",
    "next with a default": "next_with_default",
    "iter with a sentinel": "iter_with_sentinel",
    # comprehensions and generators
    "list comprehension": "list_comprehension_with_conditions",
    "set comprehension": "set_comprehension",
    "dict comprehension": "dict_comprehension",
    "nested comprehension": "nested_comprehensions",
    "generator expression": "generator_expressions",
    "generators": "generator_consumed",
    "yield from": "yield_from_generator",
    "send": "generator_send",
    "throw": "generator_throw_caught",
    "close": "generator_close",
    "generators as arguments": "generators_as_arguments",
    "generators as results": "generator_results",
    "finally in a generator": "generator_with_finally",
    "coroutines": "await_of_coroutines",
    # loops and branches
    "for": "for_over_list",
    "for over a range": "for_over_range",
    "for over a dict": "for_over_dict",
    "for with else": "for_with_else",
    "while": "while_with_break",
    "while with else": "while_with_else",
    "nested loops": "nested_loops",
    "break": "break_out_of_loops",
    "continue": "continue_in_loops",
    "conditional expressions": "conditional_expressions",
    "walrus": "walrus_alone",
    "match: literals": "match_literals",
    "match: sequences": "match_sequences",
    "match: mappings": "match_mappings",
    "match: classes": "match_classes",
    "match: guards and values": "match_guards_and_values",
    # exceptions
    "try and except": "try_with_except",
    "try and else": "try_with_else",
    "try and finally": "try_with_finally",
    "nested try": "try_in_try",
    "return in try": "return_in_try",
    "return in finally": "return_in_finally_alone",
    "except*": "except_star_alone",
    "raise": "raise_and_catch",
    "raise from": "raise_from_another",
    "raise again": "raise_again",
    "assert": "assertion_caught",
    "notes": "exception_with_notes",
    "errors of operators": "error_of_an_operator",
    # context managers
    "with: user-defined": "with_own_class",
    "with: contextlib.contextmanager": "with_contextlib",
    "with: suppress and nullcontext": "with_nullcontext_and_suppress",
    "with: written in C": "with_lock",
    "with: files": "with_file",
    "ExitStack": "with_exit_stack",
    # text
    "f-strings": "f_strings_with_formats",
    "% formatting": "formatting_with_percent",
    ".format": "str_format",
    # writes and deletes
    "global writes": "globals_written",
    "global deletes": "globals_written_and_deleted",
    "attribute writes": "attribute_stored",
    "attribute deletes": "attributes_written_and_deleted",
    "iteration over the __dict__ of a new object": "names_of_a_new_object",
    "types with arguments, and what they are made of": "parts_of_generic_aliases",
    "setters that object.__setattr__ calls": "setter_of_a_descriptor_called_by_name",
    "item writes": "items_written_and_read",
    "item deletes": "deletion_of_items",
    "slice writes": "slices_written",
    "slice deletes": "slices_deleted",
    # statements of modules, in functions
    "import": "modules_imported_inside",
    "from import": "names_imported_inside",
    "class": "class_of_constants_and_functions",
    "class: super() and __class__ in its functions": "class_that_its_functions_know",
    "class: property, staticmethod, classmethod": "class_with_descriptors",
    "class: loops and branches in its body": "class_body_with_control_flow",
    "class: instances of it in the same call": "class_statement_alone",
}

# What is not replayed whole, and why.
OPAQUE = {
    "functools.lru_cache: misses": "what a new cache keeps and counts is C's own",
    "with: files": "files are the world's",
    "class: instances of it in the same call": "their class is another one at each call",
}

# The same for one CPython only.
UNRUN = "one that has not begun is closed without a frame that tells of it"
OPAQUE_ON = {
    "3.12": {"close": UNRUN},
    "3.13": {"close": UNRUN},
    "3.14": {"close": UNRUN},
}


def opaque(version: str = f"{sys.version_info.major}.{sys.version_info.minor}") -> dict[str, str]:
    """What is not replayed whole on a CPython, and why."""
    return OPAQUE | OPAQUE_ON.get(version, {})


@dataclass
class Steady:
    """What the replays of a program did in steady state."""

    replays: int = 0
    calls: int = 0
    counts: dict[str, int] = field(default_factory=dict)

    def whole(self) -> bool:
        return self.replays == self.calls and not any(self.counts.values())


def steady_state(program: Program) -> Steady:
    """The last call before the change, and the last one after it and after it was undone."""
    import pijit
    from pijit import api

    log = observe.run(program, observe.MODES[0], pijit.jit, api.root_of)
    gc.collect()
    steady = Steady(counts=dict.fromkeys(("exits", "stopped", "opaque_calls", "records", "aborts"), 0))
    for last in range(2, len(log.reports), 3):
        before, after = log.reports[last - 1], log.reports[last]
        steady.calls += 1
        steady.replays += after["replays"] - before["replays"]
        for name in steady.counts:
            steady.counts[name] += after[name] - before[name]
    return steady
