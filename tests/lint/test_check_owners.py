"""Tests that the check of owners sees each kind of breach, and only that."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

SPEC = importlib.util.spec_from_file_location("check_owners", Path(__file__).with_name("check_owners.py"))
assert SPEC is not None
assert SPEC.loader is not None
check_owners = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(check_owners)

ROOT = Path(__file__).resolve().parents[2]

OWNERS = """// Owners.
struct Owners {
  Heap heap;
  Reads reads;
};

void each_owner(Owners& owners) {
  auto& [heap, reads] = owners;
  all(reads, heap);
}
"""
HEAP = """// The heap.
class Heap {
 public:
  void undo(const TraceMark& mark);

  // Taken back.
  Vals built;
  Map<PyObject*, Val> keys;
  // Kept: it only counts.
  // More of that.
  uint32_t lasting = 0;

 private:
  void restore(uint32_t object);
  Kernel& recording_;
};
"""
READS = "// Reads.\nstruct Reads {\n  // Computed anew.\n  std::array<Item, 8> items{};\n};\n"
RECORDER = """// It.
class Recorder {
 public:
  bool live() const { return live_; }

 private:
  bool a_ = false, b_ = false;
};
"""


@pytest.fixture
def record(tmp_path: Path) -> Path:
    (tmp_path / "state").mkdir()
    (tmp_path / "owners.h").write_text(OWNERS)
    (tmp_path / "recorder.h").write_text(RECORDER)
    (tmp_path / "state/heap.h").write_text(HEAP)
    (tmp_path / "state/reads.h").write_text(READS)
    return tmp_path


def complaints(record: Path, name: str, old: str, new: str) -> list[str]:
    text = (record / name).read_text()
    assert old in text
    (record / name).write_text(text.replace(old, new))
    return list(check_owners.check_tree(record))


def test_what_is_right_passes(record: Path) -> None:
    assert list(check_owners.check_tree(record)) == []


def test_the_house_passes() -> None:
    assert list(check_owners.check_tree(ROOT / "csrc/record")) == []


def test_a_member_without_a_word(record: Path) -> None:
    found = complaints(record, "state/heap.h", "  // Taken back.\n", "  // In order.\n")
    assert found == [
        f"state/heap.h:{line}: {name}: taken back, kept (why), or computed anew?"
        for line, name in ((7, "built"), (8, "keys"))
    ]


def test_a_word_ends_with_its_paragraph(record: Path) -> None:
    found = complaints(record, "state/heap.h", "  Vals built;\n", "  Vals built;\n\n")
    assert found == ["state/heap.h:9: keys: taken back, kept (why), or computed anew?"]


def test_an_owner_that_is_not_taken_back(record: Path) -> None:
    found = complaints(record, "owners.h", "all(reads, heap)", "all(heap)")
    assert found == [
        "owners.h: each_owner names ['heap', 'reads'], goes over ['heap'], and there are ['Heap', 'Reads']"
    ]


def test_a_header_that_is_too_long(record: Path) -> None:
    found = complaints(record, "state/reads.h", "// Reads.\n", "// Reads.\n" * 120)
    assert found == ["state/reads.h:124: more than 120 lines: the owner has too much"]


def test_members_of_the_recorder(record: Path) -> None:
    more = ", ".join(f"x{i}_ = {i}" for i in range(11))
    found = complaints(record, "recorder.h", "  bool a_", f"  int {more};\n  bool a_")
    assert found == ["recorder.h:8: b_ is one too many: give it to an owner"]


def test_methods_of_the_recorder(record: Path) -> None:
    more = "".join(f"  // Of f{i}.\n  void f{i}();\n" for i in range(90))
    found = complaints(record, "recorder.h", " private:", f"{more}\n private:")
    assert found == ["recorder.h:185: f89 is one too many: a function of its own will do"]


def test_a_header_that_no_owner_has(record: Path) -> None:
    (record / "state/values.h").write_text("// Values.\n" * 251)
    assert list(check_owners.check_tree(record)) == ["state/values.h:251: more than 250 lines: find the seam"]
