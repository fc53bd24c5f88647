# ruff: noqa
"""What dies with a name, an attribute, an item, a cell or a generator's variable dies at that statement."""

# %% attribute_deleted: f(2); k = 1 -> 2
import weakref


class Thing:
    pass


class Holder:
    pass


def f(n):
    holder = Holder()
    holder.first = n
    holder.thing = Thing()
    seen = weakref.ref(holder.thing)
    before = seen() is not None
    holder.thing, holder.last = None, seen() is None
    holder.thing = Thing()
    again = weakref.ref(holder.thing)
    del holder.thing
    return before, seen() is None, again() is None, list(vars(holder)), holder, n + k


# %% attributes_of_a_context_manager: f(); k = 1 -> 2
import weakref
from contextlib import contextmanager


class Thing:
    pass


@contextmanager
def watched(a, b):
    a = weakref.ref(a)
    b = weakref.ref(b)
    yield a() is None, b() is None, k


def f():
    with watched(Thing(), b=Thing()) as seen:
        return seen


# %% items_deleted: f(2); k = 1 -> 2
import weakref


class Thing:
    pass


def f(n):
    things = [Thing(), Thing(), Thing()]
    seen = [weakref.ref(thing) for thing in things]
    alive = [tuple(s() is not None for s in seen)]
    thing = None
    del things[1]
    alive.append(tuple(s() is not None for s in seen))
    things[0] = n
    alive.append(tuple(s() is not None for s in seen))
    things.insert(0, k)
    things.clear()
    alive.append(tuple(s() is not None for s in seen))
    return alive, things


# %% keys_deleted: f(2); k = 1 -> 2
import weakref


class Thing:
    pass


def f(n):
    things = {"a": Thing(), "b": Thing(), n: Thing(), "d": Thing()}
    seen = [weakref.ref(thing) for thing in things.values()]
    alive = [tuple(s() is not None for s in seen)]
    things["a"] = k
    alive.append(tuple(s() is not None for s in seen))
    things.pop(n)
    alive.append(tuple(s() is not None for s in seen))
    things["b"], things[n] = n, k
    alive.append(tuple(s() is not None for s in seen))
    keys = list(things)
    things.clear()
    alive.append(tuple(s() is not None for s in seen))
    return alive, keys, things


# %% cells_written_again: f(2); k = 1 -> 2
import weakref


class Thing:
    pass


def f(n):
    thing = Thing()
    seen = weakref.ref(thing)

    def again():
        nonlocal thing
        thing = n + k
        return seen() is None

    before = seen() is None
    return before, again(), seen() is None, thing


# %% variables_of_generators: f(2); k = 1 -> 2
import weakref


class Thing:
    pass


def pieces(n):
    thing = Thing()
    yield weakref.ref(thing)
    thing = n
    yield k
    yield thing


def f(n):
    inner = pieces(n)
    seen = next(inner)
    before = seen() is None
    k = next(inner)
    return before, seen() is None, k, list(inner)


# %% order_of_keys_written_again: f(2); k = 1 -> 2
def f(n):
    table = {"a": [n], "b": [1], "c": [2]}
    table["a"] = [k]
    del table["b"]
    table["b"] = n
    items = [[n], [k], [3]]
    items[-1] = n
    items.insert(1, [k])
    del items[0]
    items += [n]
    items[1:3] = [k, n, k]
    return table, items, print_nothing()


def print_nothing():
    print(end="")


# %% items_of_deques_taken: f(2); k = 1 -> 2
import weakref
from collections import deque


class Thing:
    pass


def f(n):
    things, last, seen = deque(), deque(maxlen=2), []
    for i in range(6):
        thing = Thing()
        seen.append(weakref.ref(thing))
        (last if i > 2 else things).append(thing)
    thing = None
    alive = [tuple(s() is not None for s in seen)]
    things.popleft()
    alive.append(tuple(s() is not None for s in seen))
    things[0] = n
    last.appendleft(k)
    alive.append(tuple(s() is not None for s in seen))
    things.pop()
    last.pop()
    alive.append(tuple(s() is not None for s in seen))
    return alive, things, last


# %% items_and_attributes_of_one_name: f(2); k = 1 -> 2
from collections import OrderedDict
from dataclasses import dataclass


@dataclass
class Output(OrderedDict):
    first: object = None
    second: object = None

    def __post_init__(self):
        self["first"] = self.first
        self["second"] = self.second

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        super().__setattr__(key, value)

    def __setattr__(self, name, value):
        if name in {"first", "second"} and value is not None:
            super().__setitem__(name, value)
        super().__setattr__(name, value)


def f(n):
    output = Output([n], [k])
    output.second = [n, k]
    return output


# %% members_of_sets_and_keys_leave: f(4); k = 1 -> 2
import weakref


class Thing:
    def __init__(self, tag):
        self.tag = tag


def gone(watched):
    return [each() is None for each in watched]


def f(n):
    first, second, third, fourth, again = Thing(1), Thing(2), Thing(3), Thing(4), Thing(5)
    watched = [weakref.ref(each) for each in (first, second, third, fourth, again)]
    members, table = {n, "a"}, {"x": 1}
    members.add(first)
    members.discard(first)
    members.add(second)
    members.add(again)
    members.remove(again)
    members.add(again)
    table[third], table[again] = n, [n]
    table[third] = [k]
    table["y"] = third
    del table["y"]
    del first
    found = [gone(watched)]
    del table[third]
    del third
    found.append(gone(watched))
    members.discard(second)
    table[second] = n
    del second
    found.append(gone(watched))
    last = table.popitem()
    found.append((last[0].tag, last[1]))
    del last
    table[fourth] = n
    del fourth
    found.append(gone(watched))
    table.clear()
    found.append(gone(watched))
    table["z"] = k
    members.clear()
    del again
    found.append(gone(watched))
    return found, table, members, n + k


# %% what_members_and_keys_hold: k = 1 -> 2
class Mortal:
    def __init__(self, tag):
        self.tag = tag

    def __del__(self):
        deaths.append(self.tag)


class Box:
    pass


deaths = []


def f(n):
    found, members, table = [], {n, "a"}, {"x": 1}

    def box(tag):
        made = Box()
        made.held = Mortal(tag)
        return made

    members.add(box("cleared"))
    members.clear()
    found.append(list(deaths))
    inner = box("discarded")
    members.add(inner)
    members.discard(inner)
    members.add(inner)
    members.remove(inner)
    del inner
    found.append(list(deaths))
    table[box("popped")] = n
    table.popitem()
    found.append(list(deaths))
    inner = box("written twice")
    table[inner] = 1
    table[inner] = [k]
    table["y"] = 2
    del table[inner], inner
    found.append(list(deaths))
    table[box("with the table")] = box("its value")
    table.clear()
    found.append(list(deaths))
    last = box("stays")
    table["z"], table[last], table["y"] = 1, n, k
    members.add(last)
    del table["z"]
    found.append(list(deaths))
    return found, [getattr(key, "held", key) for key in table], members, n + k


def args():
    deaths.clear()
    return (4,)


# %% members_that_leave_before_an_exit: leaves; k = 1 -> 5
class Thing:
    def __init__(self, tag):
        self.tag = tag

    def __del__(self):
        deaths.append(self.tag)


deaths = []


def f(n):
    found, things = [], [Thing(i) for i in range(4)]
    members, table, kept = set(things), {thing: thing.tag for thing in things}, things[3]
    table[things[1]] = "again"
    for thing in things[:3]:
        members.remove(thing)
        if thing.tag != 1:
            del table[thing]
    things.clear()
    del thing
    found.append(list(deaths))
    if n > k:
        found.append("large")
    found.append([each.tag for each in members])
    found.append([(each.tag, value) for each, value in table.items()])
    table.clear()
    found.append(list(deaths))
    members.discard(kept)
    members.add(kept)
    del kept
    found.append(list(deaths))
    members.clear()
    return found, list(deaths), members, table


def args():
    deaths.clear()
    return (2,)


# %% what_a_container_holds_dies_from_its_end: f(k); k = 1 -> 0.5
died = []


class Mortal:
    def __init__(self, n):
        self.n = n

    def __del__(self):
        died.append(self.n)


def f(n):
    one, two = Mortal(n), Mortal(n + 1)
    held = [one, Mortal(n + 2), Mortal(n + 3)]
    pair = (Mortal(n + 4), two, [Mortal(n + 5), Mortal(n + 6)])
    again = {"held": held}
    print(n)


def state():
    said = died[:]
    died.clear()
    return said


# %% deleted_where_cpython_runs_the_rest: f(1); k = 1 -> 2
import weakref


class Table(dict):
    pass


def inner(n):
    table, other = Table(n=n), Table(n=k)
    exec("m = n + 1", {}, table)
    found = weakref.ref(table), weakref.ref(other), table["m"]
    del table
    return found[0]() is None, found[1]() is None, found[2], other["n"]


def f(n):
    kept = Table(n=n)
    return inner(n), kept["n"]


# %% what_a_frame_held_that_raised: leaves; f(); OTHER = False -> True
import weakref


class Held:
    def __del__(self):
        log.append("dies")


log = []


def fails(seen):
    held = Held()
    seen.append(weakref.ref(held))
    raise ValueError("x")


def f():
    """A replay is left where the exception is handled: its frames are alive until then, and no longer."""
    log.clear()
    seen = []
    try:
        fails(seen)
    except ValueError:
        log.append(seen[0]() is not None)
        log.append("other" if OTHER else "one")
    log.append(seen[0]() is None)
    return list(log)


# %% what_frames_held_that_raised_one_inside_the_other: leaves; f(); OTHER = False -> True
import weakref


class Held:
    pass


def inner(seen):
    held = Held()
    seen.append(weakref.ref(held))
    raise KeyError("x")


def outer(seen):
    try:
        inner(seen)
    except KeyError as error:
        held = Held()
        seen.append(weakref.ref(held))
        raise ValueError("y") from error


def f():
    seen, alive = [], []
    try:
        outer(seen)
    except ValueError as error:
        alive.append([one() is not None for one in seen])
        alive.append("other" if OTHER else error.__cause__.args)
    alive.append([one() is not None for one in seen])
    return alive


# %% what_a_frame_held_whose_class_the_call_made: leaves; f()
import weakref


def f():
    class Held:
        pass

    def fails():
        nonlocal seen
        held = Held()
        seen = weakref.ref(held)
        int("x")

    seen = None
    try:
        fails()
    except ValueError:
        inside = seen() is not None
    return inside, seen() is None


# %% what_a_frame_held_that_a_generator_handles: leaves; f(); OTHER = False -> True
import weakref


class Held:
    pass


def fails(seen):
    held = Held()
    seen.append(weakref.ref(held))
    raise ValueError("x")


def steps(seen):
    try:
        fails(seen)
    except ValueError:
        yield seen[0]() is not None, OTHER and "other"
    yield seen[0]() is None


def f():
    seen = []
    return list(steps(seen)), len(seen)


# %% what_an_attribute_was_asked_of: leaves long
calls, sizes, log = [0], [0], []


def sign():
    return "+" if sizes[0] > 4 else "-"


class Mortal:
    def __del__(self):
        log.append("dies")


class Made(Mortal):
    @property
    def first(self):
        return sign()


class Found(Mortal):
    def __getattr__(self, name):
        return sign() + name


class Asked(Mortal):
    def __getattribute__(self, name):
        return sign() + name


def f(n):
    """A replay is left inside what finds the attribute, and what was asked dies behind it, also in a handler."""
    sizes[0] = n
    log.clear()
    log.append(Made().first)
    try:
        int("x")
    except ValueError:
        log.append(Made().first)
        log.append(Found().second)
        log.append(Asked().third)
    return list(log)


def args():
    calls[0] += 1
    return (calls[0],)


# %% exceptions_that_are_handled_one_inside_the_other: leaves long
import weakref

calls, sizes, log = [0], [0], []


class Refused(Exception):
    pass


def sign():
    return "+" if sizes[0] > 4 else "-"


def inner():
    try:
        int("x")
    except ValueError:
        log.append(sign())


def f(n):
    """A replay is left in the inner handler: what is handled further out dies with its own handler."""
    sizes[0] = n
    log.clear()
    try:
        raise Refused("x")
    except Refused as error:
        at = weakref.ref(error)
        inner()
        log.append(at() is None)
    log.append(at() is None)
    return list(log)


def args():
    calls[0] += 1
    return (calls[0],)
