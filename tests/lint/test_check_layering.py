"""Tests that the layering check sees each kind of breach, and only that."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

SPEC = importlib.util.spec_from_file_location("check_layering", Path(__file__).with_name("check_layering.py"))
assert SPEC is not None
assert SPEC.loader is not None
check_layering = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(check_layering)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for header in (
        "common/ref.h",
        "cpython/frame.h",
        "ir/trace.h",
        "adapter.h",
        "hook/hook.h",
        "torch/rules.h",
        "record/recorder.h",
        "record/state/reads.h",
        "record/mirror/drive.h",
        "record/step/step.h",
    ):
        (tmp_path / header).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / header).write_text("// A header.\n")
    return tmp_path


ALLOWED = [
    ("common/python.h", "#include <Python.h>"),
    ("cpython/view.cpp", "#include <internal/pycore_frame.h>\n#if PY_VERSION_HEX\n#endif"),
    ("record/a.cpp", '#include "cpython/frame.h"\n#include "adapter.h"\n#include <vector>'),
    ("record/recorder.cpp", '#include "record/step/step.h"\n#include "record/state/reads.h"'),
    ("record/step/a.cpp", '#include "record/mirror/drive.h"\n#include "record/recorder.h"'),
    ("record/mirror/a.cpp", '#include "record/state/reads.h"\n#include "record/mirror/drive.h"'),
    ("hook/a.cpp", '#include "record/mirror/drive.h"'),
    ("bind/module.cpp", '#include <pybind11/pybind11.h>\n#include "hook/hook.h"'),
    (
        "torch/adapter.cpp",
        '#include <ATen/ATen.h>\n#include <Python.h>\n#include "adapter.h"\n#include "torch/rules.h"',
    ),
    ("common/ref.h", "Py_INCREF(p);"),
    ("cpython/view.cpp", "case LOAD_FAST: _PyType_Lookup(t, n); Py_SIZE(o); code->_co_code_adaptive;"),
    (
        "record/step/step.cpp",
        'case Operation::kCall:  // PRECALL, then CALL\nnb::kAdd; PyList_GET_SIZE(o); text_of("CALL");',
    ),
    ("ir/print.cpp", '// No Py_INCREF here.\nauto s = "Py_INCREF(x)"; snprintf(b, n, "x");'),
]

FORBIDDEN = [
    ("ir/a.cpp", '#include "hook/hook.h"', "ir may not include hook/hook.h"),
    ("ir/a.cpp", '#include "adapter.h"', "ir may not include adapter.h"),
    ("hook/a.cpp", '#include "torch/rules.h"', "hook may not include torch/rules.h"),
    ("torch/a.cpp", '#include "hook/hook.h"', "torch may not include hook/hook.h"),
    ("record/state/a.cpp", '#include "record/mirror/drive.h"', "record/state may not include record/mirror/drive.h"),
    ("record/mirror/a.cpp", '#include "record/step/step.h"', "record/mirror may not include record/step/step.h"),
    ("record/recorder.h", '#include "record/step/step.h"', "record may not include record/step/step.h"),
    ("hook/a.cpp", '#include "record/step/step.h"', "hook may not include record/step/step.h"),
    ("ir/a.cpp", '#include "trace.h"', "not a path from csrc/"),
    ("ir/a.cpp", "#include <Python.h>", "<Python.h> is only for"),
    ("record/a.cpp", "#include <internal/pycore_frame.h>", "is only for cpython"),
    ("record/a.cpp", "#include <structmember.h>", "is only for cpython"),
    ("hook/a.cpp", "#include <pybind11/pybind11.h>", "is only for bind"),
    ("exec/a.cpp", "#include <ATen/ATen.h>", "is only for torch"),
    ("guard/a.cpp", "#if PY_VERSION_HEX >= 0x030c0000", "Python version"),
    ("exec/a.cpp", "Py_DECREF(x);", "use Ref and Borrowed"),
    ("record/a.cpp", "case LOAD_METHOD:", "say cpython::Operation"),
    ("record/a.cpp", "if (opcode == POP_JUMP_FORWARD_IF_FALSE) return;", "say cpython::Operation"),
    ("exec/a.cpp", "x >= NB_INPLACE_ADD;", "say cpython::Operation"),
    ("guard/a.cpp", "while (_PySet_NextEntry(set, &at, &item, &hash)) n++;", "private to CPython"),
    ("hook/a.cpp", "if (_Py_IsFinalizing()) return;", "private to CPython"),
    ("record/a.cpp", "for (int i = 0; i < code->_co_firsttraceable; ++i) n++;", "private to CPython"),
    ("record/a.cpp", "bool negative = Py_SIZE(number) < 0;", "say cpython::int_sign"),
    ("exec/a.cpp", 'printf("x");', "does not print"),
    ("exec/a.cpp", "int x;\n" * 800, "find the seam"),
    ("attic/a.cpp", "", "no room is called attic"),
]


@pytest.mark.parametrize(("path", "text"), ALLOWED)
def test_allowed(root: Path, path: str, text: str) -> None:
    assert list(check_layering.check_file(path, f"// A file.\n{text}\n", root)) == []


@pytest.mark.parametrize(("path", "text", "complaint"), FORBIDDEN)
def test_forbidden(root: Path, path: str, text: str, complaint: str) -> None:
    (found,) = check_layering.check_file(path, f"// A file.\n{text}\n", root)
    assert complaint in found[1]


def test_first_line(root: Path) -> None:
    assert list(check_layering.check_file("ir/a.cpp", "int x;\n", root)) == [
        (1, "the first line does not say what lives here")
    ]


def test_tree_names_file_and_line(root: Path) -> None:
    (root / "ir/bad.cpp").write_text('// Bad.\n#include "hook/hook.h"\n')
    (line,) = check_layering.check_tree(root)
    assert line.endswith("ir/bad.cpp:2: ir may not include hook/hook.h")
