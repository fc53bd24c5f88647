"""What a recording has read, and what of it is taken back with an instruction."""

from __future__ import annotations

from types import ModuleType


def names(owners: ModuleType) -> list[str]:
    return [guard[0] for guard in owners.guards()]


def test_reads_of_one_dict_merge_into_one_guard(owners: ModuleType) -> None:
    d = {"a": 1, "b": 2}
    assert owners.read_item(d, "a")
    assert owners.read_item(d, "b")
    assert owners.read_item(d, "c")
    owners.close_guards()
    assert owners.guards() == [("dict", d, ("a", 1, "b", 2, "c", None), 0)]


def test_guards_are_taken_back_and_made_anew(owners: ModuleType) -> None:
    d, other = {"a": 1}, [1]
    owners.read_item(d, "a")
    begin = owners.mark()
    owners.read_list(other)
    assert names(owners) == ["dict", "list"]
    owners.undo(begin)
    assert names(owners) == ["dict"]
    owners.read_list(other)
    assert names(owners) == ["dict", "list"]


def test_a_dict_that_changed_stops_the_recording(owners: ModuleType) -> None:
    d = {"a": 1}
    owners.read_item(d, "a")
    d["a"] = 2
    assert not owners.read_item(d, "a")
    assert owners.why() == "a dict"


def test_a_dict_that_changed_is_read_anew_where_the_first_read_was_taken_back(owners: ModuleType) -> None:
    d = {"a": 1}
    begin = owners.mark()
    owners.read_item(d, "a")
    owners.undo(begin)
    d["a"] = 2
    assert owners.read_item(d, "a")
    owners.close_guards()
    assert owners.guards() == [("dict", d, ("a", 2), 0)]


def test_a_dict_that_is_read_whole_has_its_tag(owners: ModuleType) -> None:
    d = {"a": 1}
    assert owners.read_all(d)
    owners.close_guards()
    assert owners.guards() == [("dict", d, ("a", 1), 1)]


def test_a_dict_that_is_read_whole_and_written_has_its_keys(owners: ModuleType) -> None:
    d = {"a": 1}
    assert owners.read_all(d)
    assert owners.touch(d)
    owners.close_guards()
    assert owners.guards() == [("dict", d, ("a", 1), 0), ("dict_size", d, ("a",), 0)]


def test_a_write_that_is_taken_back_leaves_the_tag(owners: ModuleType) -> None:
    d = {"a": 1}
    assert owners.read_all(d)
    begin = owners.mark()
    assert owners.touch(d)
    owners.undo(begin)
    owners.close_guards()
    assert owners.guards() == [("dict", d, ("a", 1), 1)]


def test_a_write_before_the_mark_stays(owners: ModuleType) -> None:
    d, other = {"a": 1}, {"b": 2}
    assert owners.read_all(d)
    assert owners.touch(d)
    begin = owners.mark()
    assert owners.touch(d)
    assert owners.touch(other)
    owners.undo(begin)
    owners.close_guards()
    assert owners.guards() == [("dict", d, ("a", 1), 0), ("dict_size", d, ("a",), 0)]


def test_a_write_of_the_epoch_before_is_taken_back_with_it(owners: ModuleType) -> None:
    first, d = {"b": 2}, {"a": 1}
    assert owners.touch(first)
    assert owners.read_all(d)
    begin = owners.mark()
    assert owners.touch(d)
    owners.begin_epoch()
    assert owners.read_item(d, "a")
    owners.undo(begin)
    owners.close_guards()
    assert owners.guards() == [("dict", first, (), 0), ("dict", d, ("a", 1), 1)]


def test_what_a_set_holds_goes_with_its_guard(owners: ModuleType) -> None:
    keys = {1, 2}
    begin = owners.mark()
    assert owners.holds(keys, 1) == 1
    owners.undo(begin)
    keys.remove(1)
    keys.add(3)
    for _ in range(2):
        assert owners.holds(keys, 3) == 1
        assert owners.holds(keys, 1) == 0
    assert [(name, subject) for name, subject, _, _ in owners.guards()] == [("has", keys), ("has_not", keys)]


def test_a_set_that_is_asked_for_many_keys_is_guarded_as_a_whole(owners: ModuleType) -> None:
    keys = {1, 2}
    for key in range(8):
        assert owners.holds(keys, key) == int(key in keys)
    begin = owners.mark()
    assert owners.holds(keys, 8) == 0
    owners.undo(begin)
    keys.add(9)
    assert owners.holds(keys, 9) == 1
    assert owners.holds(keys, 8) == 0
    assert [name for name, _, _, _ in owners.guards()] == ["has_not", "has", "has", *["has_not"] * 5, "set"]


def test_an_epoch_forgets_what_was_read(owners: ModuleType) -> None:
    d = {"a": 1}
    owners.read_item(d, "a")
    owners.begin_epoch()
    owners.read_item(d, "a")
    assert names(owners) == ["dict", "dict"]
