# ruff: noqa
"""Containers that C code fills from iterators, and what runs between two items; the table is in test_filling.py."""

# %% extended_by_its_own_length: change xs.append(5); undo xs.pop()
xs = [3, 1, 2]


def f():
    r = []
    r.extend(len(r) for _ in xs)
    r += map(lambda y: y + len(r), xs)
    r.extend(filter(lambda y: y not in r, [0, 1, 7, 7, 8]))
    return r


# %% walked_through_while_it_is_extended: change xs.append(5); undo xs.pop()
xs = [3, 1, 2]


def seen(r, y):
    for q in r:
        if q is y:
            return True
    return False


def f():
    r = [1]
    r.extend(sum(1 for q in r) for _ in xs)
    r.extend(any(y is q for q in r) for y in xs)
    r.extend(seen(r, y) for y in xs)
    return r


# %% vocabulary_ids: change texts.append("d"); undo texts.pop()
from collections import OrderedDict, defaultdict

texts = ["a", "b", "a", "c"]


def f():
    ids, kept, found = {}, OrderedDict(), defaultdict(int)
    ids.update((t, len(ids)) for t in texts if t not in ids)
    kept.update((t, len(kept)) for t in texts)
    found.update(((t, len(found)) for t in texts), last=1)
    return ids, list(kept.items()), found


# %% what_was_filled_before_an_error_stays: change xs[2] = 3; undo xs[2] = 4
xs = [1, 2, 4]
kept = [0]
table = {}


def f():
    r, s, d = [], set(), {}
    told = []
    for fill in (
        lambda: r.extend(1 // (3 - y) for y in xs),
        lambda: s.update(1 // (3 - y) for y in xs),
        lambda: d.update((y, 1 // (3 - y)) for y in xs),
        lambda: kept.extend(1 // (3 - y) for y in xs),
        lambda: table.update((y, 1 // (3 - y)) for y in xs),
    ):
        try:
            fill()
        except ZeroDivisionError as error:
            told.append(str(error))
    return r, s, d, told, len(kept), dict(table)


# %% an_existing_list_is_filled_and_read: change xs.append(5); undo xs.pop()
xs = [3, 1, 2]
kept = []


def f():
    kept.clear()
    kept.extend(len(kept) for _ in xs)
    kept.extend(sum(kept) for _ in xs)
    return kept[-1], len(kept)


# %% an_existing_dict_is_filled_and_read: f({"z": 1}); change texts.append("d"); undo texts.pop()
texts = ["a", "b", "a", "c"]
ids = {}


def f(d):
    ids.clear()
    ids.update((t, len(ids)) for t in texts)
    d.update((t, d.get(t, len(d))) for t in texts)
    return dict(ids), len(d)


# %% slices_of_what_changes_meanwhile: change xs.append(5); undo xs.pop()
xs = [3, 1, 2]


def growing(r):
    for y in xs:
        r.append(-y)
        yield len(r)


def shrinking(r):
    for y in xs:
        if len(r) > 1:
            del r[0]
        yield len(r)


def f():
    r = [0, 1, 2, 3, 4]
    r[1:3] = growing(r)
    s = [0, 1, 2, 3, 4]
    s[2:] = shrinking(s)
    t = [0, 1, 2]
    t[:] = (len(t) for _ in xs)
    return r, s, t


# %% a_list_is_empty_while_it_is_sorted: change xs.append(5); undo xs.pop()
xs = [3, 1, 2]
kept = [3, 1, 2]


def f():
    r, seen = list(xs), []
    r.sort(key=lambda q: (seen.append(len(r)), -q)[1])
    kept.sort(key=lambda q: (seen.append(len(kept)), q)[1])
    try:
        r.sort(key=lambda q: 1 // (q - 2))
    except ZeroDivisionError:
        seen.append(len(r))
    return r, seen, kept[:]


# %% sets_filled_and_asked: change xs.append(5); undo xs.pop()
xs = [3, 1, 2]


def f():
    s = {0, 1}
    s.update(len(s) + y for y in xs)
    t = {0, 1, 2, 3}
    t.difference_update(len(t) - 1 for _ in xs)
    it = iter([9, 1, 2])
    inside = s.issuperset(it)
    other = iter([1, 2])
    return sorted(s), sorted(t), inside, list(it), s.isdisjoint(other), list(other)


# %% a_deque_is_filled_and_walked_through: change xs.append(5); undo xs.pop()
from collections import deque

xs = [3, 1, 2]


def f():
    d = deque([1])
    d.extend(sum(d) for _ in xs)
    it = iter(d)
    d.extend(len(d) for _ in xs)
    try:
        next(it)
    except RuntimeError as error:
        return d, str(error)
