"""Virtual objects, and what they are after an instruction was taken back."""

from __future__ import annotations

from types import ModuleType


def test_items_that_were_appended_are_taken_back(owners: ModuleType) -> None:
    items = owners.make(list)
    owners.append(items, 1)
    begin = owners.mark()
    owners.append(items, 2)
    owners.append(items, 3)
    owners.undo(begin)
    assert owners.items(items) == [1]
    assert owners.log_length(items) == 1
    owners.append(items, 4)
    assert owners.items(items) == [1, 4]
    assert owners.log_length(items) == 2


def test_an_item_that_was_overwritten_is_what_the_log_says(owners: ModuleType) -> None:
    items = owners.make(list)
    owners.append(items, 1)
    owners.append(items, 2)
    begin = owners.mark()
    owners.set_item(items, 0, 7)
    owners.append(items, 3)
    owners.undo(begin)
    assert owners.items(items) == [1, 2]


def test_a_dict_has_the_keys_of_before(owners: ModuleType) -> None:
    d = owners.make(dict)
    owners.put(d, "a", 1)
    begin = owners.mark()
    owners.put(d, "b", 2)
    owners.undo(begin)
    assert (owners.keys(d), owners.items(d)) == (["a"], [1])


def test_an_object_that_became_real_is_virtual_again(owners: ModuleType) -> None:
    items = owners.make(list)
    begin = owners.mark()
    owners.build(items)
    assert owners.is_real(items)
    owners.undo(begin)
    assert not owners.is_real(items)


def test_an_object_that_was_real_before_stays_real(owners: ModuleType) -> None:
    items = owners.make(list)
    owners.build(items)
    begin = owners.mark()
    other = owners.make(list)
    owners.build(other)
    owners.undo(begin)
    assert owners.is_real(items)


def test_who_holds_a_stale_object_holds_its_register(owners: ModuleType) -> None:
    inner, outer = owners.make(list), owners.make(list)
    owners.append(outer, inner)
    reg = owners.build(inner)
    begin = owners.mark()
    owners.begin_epoch()
    assert owners.items(outer) == [reg]
    owners.undo(begin)
    assert owners.items(outer) == [inner]
    owners.begin_epoch()
    assert owners.items(outer) == [reg]


def test_a_holder_that_lost_an_entry_has_the_register_of_a_stale_object(owners: ModuleType) -> None:
    inner, outer = owners.make(list), owners.make(list)
    owners.append(outer, inner)
    reg = owners.build(inner)
    owners.begin_epoch()
    begin = owners.mark()
    owners.set_item(outer, 0, 5)
    owners.undo(begin)
    assert owners.items(outer) == [reg]


def test_shapes_are_taken_back(owners: ModuleType) -> None:
    d = owners.make(dict)
    existing = {"a": 1}
    owners.reshape(d)
    owners.reshape(existing)
    begin = owners.mark()
    owners.reshape(existing)
    owners.reshape(d)
    assert (owners.reshaped(d), owners.reshaped(existing)) == (2, 2)
    owners.undo(begin)
    assert (owners.reshaped(d), owners.reshaped(existing)) == (1, 1)


def test_an_object_is_not_asked_for_what_its_family_does_not_have(owners: ModuleType) -> None:
    items, d = owners.make(list), owners.make(dict)
    assert (owners.keys(items), owners.keys(d)) == (None, [])
    assert (owners.gives_keys(items), owners.gives_keys(d)) == (False, True)


def test_what_was_reshaped_is_known_of_both_families(owners: ModuleType) -> None:
    items, d = owners.make(list), owners.make(dict)
    owners.reshape(d)
    begin = owners.mark()
    owners.reshape(items)
    owners.reshape(d)
    assert (owners.reshaped(items), owners.reshaped(d)) == (1, 2)
    owners.undo(begin)
    assert (owners.reshaped(items), owners.reshaped(d)) == (0, 1)
