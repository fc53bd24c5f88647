# ruff: noqa
"""defaultdict, Counter, deque and SimpleNamespace: made, filled, iterated over, changed on the way and kept."""

# %% deque_iterated_and_changed: f(5); k = 100 -> 5 -> 1
from collections import deque


def walk(queue, seen):
    for item in queue:
        seen.append(item)
        if item == k:
            queue.append(item + 10)


def f(n):
    queue, seen = deque([1, 2, n]), []
    try:
        walk(queue, seen)
    except RuntimeError as error:
        seen.append(str(error))
    one = iter(queue)
    seen.append(next(one))
    seen.append([item for item in one])
    seen.append((next(one, "over"), type(one).__name__))
    other = iter(deque())
    seen.append(next(other, "empty"))
    queue[0] = "set"
    walked = [(at, item) for at, item in enumerate(queue)]
    first, *rest = queue
    return seen, walked, first, rest, sum(deque((1, 2, n))), one, sorted(deque((3, n, 1)))


# %% deque_iterator_after_its_end: f(5); k = 1 -> 5
from collections import deque


def f(n):
    queue = deque([n])
    iterator = iter(queue)
    seen = [next(iterator), next(iterator, "over")]
    queue.append(k)
    try:
        seen.append(next(iterator, "still over"))
    except RuntimeError as error:
        seen.append(str(error))
    return seen, list(queue)


# %% deques_with_a_maximal_length: f(5); k = 1 -> 4
from collections import deque
import copy


def f(n):
    seen = []
    deque(map(seen.append, (n, k, 3)), maxlen=0)
    deque((seen.append(each) for each in range(n)), 0)
    last = deque([1, 2, n, k], maxlen=2)
    none, all_ = deque(maxlen=3), deque((n, 2), None)
    before = list(last), last.maxlen, none.maxlen, all_.maxlen
    last.append(n + 1)
    last.appendleft(7)
    none.extend([1, 2, 3, n])
    all_.append(k)
    return (
        seen,
        before,
        last,
        none,
        all_,
        copy.copy(last),
        deque(iterable=(1, n)),
        repr(deque([n], 1)),
        last[0],
        len(none),
    )


# %% deques_whose_length_is_wrong: f(5); k = -1 -> None -> "a"
from collections import deque


def f(n):
    try:
        return deque([n, 2], k), deque([n], maxlen=k).maxlen
    except (TypeError, ValueError) as error:
        return str(error)


# %% deques_that_exist: f(5); change queue.append(3); change queue.append(4)
from collections import deque

queue = deque([1, 2], maxlen=3)


def f(n):
    total = 0
    for item in queue:
        total += item
    return total + n, list(queue), 2 in queue


# %% defaultdicts_with_factories: f(2); k = 1 -> "c" -> 4
from collections import defaultdict


class Made:
    def __init__(self):
        self.k = k


def numbered():
    made.append(len(made))
    if len(made) > 6:
        raise OverflowError(len(made))
    return made[-1]


made = []


def f(n):
    made.clear()
    lists, objects, numbers, none = defaultdict(list), defaultdict(Made), defaultdict(numbered, {"a": n}), defaultdict()
    lists["x"] += [n]
    lists["y"].append(k)
    same = objects[1] is objects[1]
    seen = [numbers[key] for key in ("a", "b", k, "b")]
    try:
        none["absent"]
    except KeyError as error:
        seen.append(error.args)
    seen.append("absent" in none or lists.get("z"))
    seen.append((numbers.pop("b"), numbers.setdefault("b", "set"), len(numbers)))
    nested = defaultdict(lambda: defaultdict(int))
    nested["a"]["b"] += k
    nested["a"]["b"] += 1
    total = [(key, value) for key, value in numbers.items()]
    more = defaultdict(int, [("p", 1)], q=2)
    more.update(r=more["s"])
    seen.append((numbers == {"a": n}, lists == {"x": [n], "y": [k]}, numbers.default_factory is numbered))
    try:
        for key in range(9):
            numbers[f"n{key}"]
    except OverflowError as error:
        seen.append(error.args)
    return lists, objects, same, seen, none, dict(nested), numbers, total, more, list(more)


def call():
    try:
        return f(2)
    except TypeError as error:
        return str(error)


# %% defaultdicts_that_exist: f(len(counts) % 3)
from collections import defaultdict

counts = defaultdict(int)
groups = defaultdict(list, a=[0])


def f(n):
    counts[n] += 1
    groups["a"].append(n)
    groups[n % k].append(n)
    return counts[n], len(groups), counts["unknown"], dict(counts)


k = 2


def change():
    global k
    k = 3
    counts.default_factory = lambda: 10
    counts.clear()


def undo():
    counts.clear()
    counts.default_factory = None


def call():
    try:
        return f(len(counts) % 3)
    except (KeyError, TypeError) as error:
        return type(error), error.args


def state():
    return list(counts.items()), list(groups.items())


# %% defaultdicts_of_own_classes: leaves; f(2); k = 1 -> 2
from collections import defaultdict


class Loud(defaultdict):
    def __setitem__(self, key, value):
        seen.append((key, value))
        super().__setitem__(key, value)


class Missing(defaultdict):
    def __missing__(self, key):
        seen.append(key)
        return super().__missing__(key) + k


seen = []


def f(n):
    seen.clear()
    loud, missing = Loud(int), Missing(int)
    loud["a"] += n
    first = missing[n]
    return loud["b"], first, missing[n], list(seen), dict(loud), dict(missing)


# %% counters_of_all_sorts: f("hello"); k = 1 -> "a"
from collections import Counter


class Doubling(Counter):
    def __setitem__(self, key, value):
        super().__setitem__(key, 2 * value)


def f(text):
    letters = Counter(text)
    words = Counter(["a", "b", "a", k])
    words.update(("a", "c"))
    words["new"] -= 1
    del words["absent"]
    empty = Counter()
    pairs = Counter({"x": 3}, y=k)
    seen = [letters[text[0]], letters["?"], empty["?"], sorted(letters), len(empty)]
    seen.append([key for key in words if words[key] > 1])
    doubled = Doubling("aab")
    generated = Counter(letter for letter in text)
    return letters, words, empty, pairs, seen, doubled, generated, words.most_common(1), dict(words)


def call():
    try:
        return f("hello")
    except TypeError as error:
        return str(error)


# %% namespaces_written_and_compared: f(2); k = 1 -> 2; change kept.items = "others"; undo kept.a = kept
from types import SimpleNamespace

kept = SimpleNamespace(n=0, items=[1])


def f(n):
    space = SimpleNamespace(a=n, b=[k])
    space.c = space.a + k
    del space.a
    other = SimpleNamespace(b=[k], c=n + k)
    seen = [space == other, space != other, space == 3, space == kept, hasattr(space, "a")]
    vars(space)["d"] = n
    kept.n = n * k
    seen += [
        kept.n,
        kept.items,
        sorted(vars(kept)),
        space.__dict__ is vars(space),
        SimpleNamespace() == SimpleNamespace(),
    ]
    nested = SimpleNamespace(inner=space, **vars(other))
    return space, other, seen, nested, nested.inner.d, type(space)


def state():
    return vars(kept)


# %% namespaces_of_own_classes: f(2); k = 1 -> 2
from types import SimpleNamespace


class Space(SimpleNamespace):
    def __eq__(self, other):
        return NotImplemented


def f(n):
    own = Space(a=k)
    own.b = n
    plain = SimpleNamespace(a=k, b=n)
    seen = [own, own == plain, plain == own, own.a + plain.b, vars(own)]
    del plain.a
    try:
        plain.a
    except AttributeError as error:
        seen.append(str(error))
    try:
        plain < SimpleNamespace()
    except TypeError as error:
        seen.append(str(error))
    try:
        SimpleNamespace(plain)
    except TypeError as error:
        seen.append(str(error))
    return seen


# %% new_objects_as_markers: f(2); k = "a" -> "b"
def f(n):
    marker, other = object(), object()
    found = {"a": n}.get(k, marker)
    pair = [marker if found is marker else found, marker is other, marker == marker, marker != other]
    return pair, found is marker, type(marker), isinstance(other, object), {marker: 1}[marker]


# %% keys_of_dicts_of_own_classes: f(2); k = 1 -> 2
from collections import OrderedDict


class Table(OrderedDict):
    def __setattr__(self, name, value):
        seen = name in self.keys(), name in self
        if name in self.keys():
            super().__setitem__(name, value)
        super().__setattr__(name, seen)


class Strange(dict):
    def __contains__(self, key):
        return not super().__contains__(key)


def f(n):
    table, strange = Table(), Strange()
    table.first = n
    table["second"] = n
    table.second = [k]
    strange["a"] = n
    return table, "a" in strange, "a" in strange.keys(), "b" not in strange, strange
