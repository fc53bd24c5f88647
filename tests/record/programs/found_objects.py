# ruff: noqa
"""Instances that foreign code returned or was given: what they hold is looked into again, and may be anything."""

# %% instance_that_foreign_code_returned: f(5); start = 1 -> 7; undo Box.add = lambda self, n: self
import pijit


class Box:
    def __init__(self, n):
        self.items = [n, 2]
        self.name = "box"

    def __len__(self):
        return len(self.items)

    def add(self, n):
        self.items.append(n)
        return self


@pijit.opaque
def get():
    return Box(start)


def f(n):
    box = get()
    box.add(n).name += "!"
    return len(box), sum(box.items), box.name, box


# %% instance_that_foreign_code_was_given: step = 0 -> 10
import pijit

seen = []


class Counter:
    def __init__(self):
        self.n = 0

    def up(self):
        self.n += 1
        return self.n


@pijit.opaque
def see(counter):
    counter.n += step
    seen.append(len(seen))


def f():
    counter = Counter()
    a = counter.up()
    see(counter)
    b = counter.up()
    counter.other = [a, b]
    see(counter)
    return counter.up(), vars(counter)


def state():
    return len(seen)


# %% instance_with_slots_that_foreign_code_was_given: f(3); more = False -> True -> False
import pijit


class Pair:
    __slots__ = ("a", "b", "c")

    def __init__(self, a, b):
        self.a, self.b = a, b

    def total(self):
        return self.a + self.b + getattr(self, "c", 0)


@pijit.opaque
def see(pair):
    if more:
        pair.c = 100


def f(n):
    pair = Pair(n, 1)
    see(pair)
    pair.b += 2
    return pair.total(), hasattr(pair, "c")


# %% kept_in_a_registry_with_weak_references: f(4); k = 1 -> 2
import weakref

import pijit

alive = {}
gone = []


class Part:
    def __init__(self, n):
        self.children = {"first": n}
        keep(self)

    def __setitem__(self, key, value):
        self.children[key] = value

    def __iter__(self):
        return iter(self.children.values())


@pijit.opaque
def keep(part):
    alive[id(part)] = weakref.ref(part, lambda ref, at=id(part): (alive.pop(at), gone.append(1)))


def f(n):
    part = Part(n)
    part["second"] = n + k
    return sum(x * 2 for x in part), list(part.children)


def state():
    return len(alive), len(gone)


# %% two_results_that_are_one_instance: leaves; same = False -> True -> False
import pijit


class Box:
    def __init__(self):
        self.n = 0


shared = Box()


@pijit.opaque
def get():
    return shared if same else Box()


def f():
    a, b = get(), get()
    a.n += 1
    sizes = a.n, b.n, a is b
    b.n += 10
    return sizes, a.n, b.n


def call():
    shared.n = 0
    return f()


# %% result_that_is_an_instance_known_before: leaves; same = True -> False -> True
import pijit


class Box:
    def __init__(self):
        self.n = 0
        self.items = []


known = Box()


@pijit.opaque
def maybe():
    return known if same else Box()


def f(n):
    known.n += n
    found = maybe()
    before = found.n
    known.n += 1
    known.items.append(n)
    found.n += 5
    return before, known.n, found.n, len(found.items), len(known.items), found is known


def call():
    known.n = 0
    known.items.clear()
    return f(2)


# %% result_that_is_an_instance_met_later: leaves; same = False -> True -> False
import pijit


class Box:
    def __init__(self, n=0):
        self.n = n


known = Box()


@pijit.opaque
def maybe():
    return known if same else Box()


def f(n):
    found = maybe()
    other = known
    first = found.n
    other.n = n
    second = found.n
    found.n = n + 1
    return first, second, other.n, found is other


def call():
    known.n = 0
    return f(3)


# %% written_under_another_name_before_it_is_looked_into: leaves; same = False -> True -> False
import pijit


class Box:
    def __init__(self):
        self.n = 0
        self.held = {"a": 1}


known, other = Box(), {"a": 1}


@pijit.opaque
def maybe():
    found = known if same else Box()
    if same:
        found.held = other
    return found


def f(n):
    found = maybe()
    known.n = n
    other["a"] = n
    return found.n, found.held["a"]


def call():
    known.n, other["a"] = 0, 1
    known.held = {"a": 1}
    return f(3)


# %% instances_that_share_their_attributes: leaves; same = True -> False -> True
import pijit


class Borg:
    shared = {"n": 0}

    def __init__(self):
        self.__dict__ = Borg.shared if same else {"n": 0}


@pijit.opaque
def get():
    return Borg()


def f(n):
    a, b = get(), get()
    a.n = n
    first = b.n
    b.n += 1
    return first, a.n, b.n


def call():
    Borg.shared["n"] = 0
    return f(3)


# %% attributes_that_are_never_looked_at: f(1); change Box.more = 1
import itertools

import pijit

numbers = itertools.count()


class Box:
    pass


@pijit.opaque
def get():
    box = Box()
    n = next(numbers)
    box.used = n * 0
    box.not_used = [n] * (n % 3) if n % 2 else None
    box.also_not = {n: n}
    return box


def f(n):
    box = get()
    return box.used + n, type(box).__name__


# %% attributes_of_other_types: value = 1 -> "ab" -> [1]
import pijit


class Box:
    pass


@pijit.opaque
def get():
    box = Box()
    box.value = value
    return box


def f():
    return get().value * 2


# %% dicts_in_instances_that_foreign_code_returned: leaves; keys = "ab" -> "xya" -> "ab"
import pijit


class Box:
    pass


@pijit.opaque
def get():
    box = Box()
    box.table = {key: n for n, key in enumerate(keys)}
    return box


def f():
    box = get()
    box.table["z"] = 5
    return list(box.table), sum(box.table.values()), "b" in box.table, box.table.get("a")


# %% instances_within_instances: f(10); k = 1 -> 6; undo Node.total = lambda self: self.n
import pijit


class Node:
    def __init__(self, n, next=None):
        self.n, self.next = n, next

    def total(self):
        return self.n + (self.next.total() if self.next else 0)

    def __bool__(self):
        return True


@pijit.opaque
def chain():
    return Node(1, Node(2, Node(3)))


def f(n):
    first = chain()
    first.next.n = n
    first.next.next.next = first.next if k > 5 else None
    return first.total() if k <= 5 else first.next.next.next.n


# %% instance_of_another_class: leaves; change made = B; undo made = A
import pijit


class A:
    n = 1

    def go(self):
        return self.n


class B(A):
    n = 2


made = A


@pijit.opaque
def get():
    return made()


def f():
    x = get()
    x.own = 3
    return x.go(), x.own, isinstance(x, B)


# %% instance_that_changes_its_class: change cls = B
import pijit


class A:
    def go(self):
        return "a"


class B:
    def go(self):
        return "b"


cls = A


@pijit.opaque
def see(x):
    x.__class__ = cls


def f():
    x = A()
    before = x.go()
    see(x)
    return before, x.go(), type(x).__name__


# %% raised_in_methods_of_found_objects: f(3); size = 1 -> 5 -> 1
import pijit


class Box:
    def __init__(self, n):
        self.n = n

    def check(self, limit):
        if self.n > limit:
            raise ValueError(self.n)
        return self.n


@pijit.opaque
def get():
    return Box(size)


def f(limit):
    box = get()
    try:
        box.n += 1
        return box.check(limit)
    except ValueError as error:
        return error.args, box.n


# %% found_in_loops_and_generators: k = 1 -> 2
import pijit


class Box:
    def __init__(self, n):
        self.n = n


@pijit.opaque
def get(n):
    return Box(n)


def boxes(n):
    for i in range(n):
        box = get(i)
        box.n += k
        yield box


def f():
    total = 0
    for box in boxes(3):
        total += box.n
        box.n = 0
    return total, [box.n for box in boxes(2)]


# %% ordered_dicts_in_found_objects: leaves; names = "ab" -> "ba" -> "abc"
from collections import OrderedDict

import pijit


class Box:
    pass


@pijit.opaque
def get():
    box = Box()
    box.hooks = OrderedDict()
    box.table = OrderedDict((name, n) for n, name in enumerate(names))
    box.table.move_to_end(names[0])
    return box


def f():
    box = get()
    first = bool(box.hooks), list(box.table), len(box.table)
    box.table["a"] = 7
    box.hooks["new"] = 1
    return first, list(box.table.items()), box.hooks


# %% functions_that_foreign_code_chose: leaves; f(5); name = "twice" -> "neg" -> "other"
import operator

import pijit


def twice(x):
    return x * 2


def thrice(x):
    return x * 3


table = {"twice": twice, "neg": operator.neg, "list": list}


@pijit.opaque
def choose():
    return table[name] if name in table else lambda x: x + 1


def f(n):
    function = choose()
    return function(n) if name != "list" else function((n,))


# %% dict_of_a_known_instance_found_later: leaves; shares = False -> True -> False
import pijit


class Box:
    pass


known = Box()
known.n = 5


@pijit.opaque
def get():
    box = Box()
    box.n = 1
    box.held = {"n": 1}
    vars(box)
    if shares:
        box.held = known.__dict__
    return box


@pijit.opaque
def get_another():
    box = Box()
    box.n = 1
    if shares:
        box.__dict__ = known.__dict__
    return box


def f():
    box, other = get(), get_another()
    known.n = 10
    return box.held["n"], other.n


def call():
    known.n = 5
    return f()


# %% many_found_objects_and_one_that_shares: leaves; shares = False -> True -> False
import pijit


class Box:
    def __init__(self, n):
        self.n = n


known = Box(0)
vars(known)


@pijit.opaque
def get():
    last = Box(5)
    vars(last)
    if shares:
        last.__dict__ = known.__dict__
    return [Box(n) for n in range(64)], last


def f():
    boxes, last = get()
    total = 0
    for box in boxes:
        total += box.n
    known.n = 10
    seen = last.n
    last.n = 100
    return total, seen, known.n


def call():
    known.n = 0
    return f()


# %% dict_that_foreign_code_returned: f(5); more = False -> True -> False
import pijit


@pijit.opaque
def get(n):
    return {"a": n, ("b", 1): [n, 2], 3: {"deep": n}}


def f(n):
    found = get(n)
    found["a"] += 1
    found[("b", 1)].append(5)
    found[("b", 2)] = 7
    if more:
        del found[3]
    pairs = [(key, value) for key, value in found.items() if key != "a"]
    return found["a"], pairs, len(found), ("b", 1) in found, found.get(("c", 1)), found


# %% dict_that_foreign_code_returned_with_other_keys: change keys[1] = ("meta", 2); undo keys.append(("cuda", True))
import pijit

keys = [("cpu", None), ("meta", 1)]


@pijit.opaque
def get():
    return {key: ([1, 2], [i]) for i, key in enumerate(keys)}


def f():
    result = []
    for (device, dtype), ([first, *others], [index]) in get().items():
        result.append((device, dtype, first, others, index))
    return result


# %% dict_that_foreign_code_returned_and_holds: f(3); change held.clear(); change held[(1, "a")] = 2.5
import pijit

held = {(1, "a"): 1}


@pijit.opaque
def get():
    return held


@pijit.opaque
def other():
    held[(2, "b")] = len(held)


def f(n):
    first = get()
    first[(1, "a")] += n
    before = sum(first.values())
    other()
    second = get()
    second[(1, "a")] += n
    return before, first is second, first[(1, "a")], list(second), dict(first)


# %% dict_argument_with_keys_that_are_tuples: f({(1, "x"): 2, (None, True): 3}, 4)
def f(table, n):
    total = table[(1, "x")] + n
    table[(1, "x")] = total
    table[(2, "y")] = [n]
    return total, [key for key in table], (1, "x") in table, table.pop((2, "y"))


def change():
    def args():
        return {(1, "x"): 2, (None, False): 3}, 4

    globals()["args"] = args


def undo():
    def args():
        return {(None, True): 3, (1, "x"): 2}, 4

    globals()["args"] = args


# %% dict_whose_keys_are_looked_at_by_identity: change keys[0] = (1, "x" + ""); change keys[1] = tuple([2, "y"])
import pijit

keys = [(1, "x"), (2, "y")]


@pijit.opaque
def get():
    return {key: (key, i) for i, key in enumerate(keys)}, keys[0]


def f():
    table, first = get()
    same = [key is value[0] for key, value in table.items()]
    return same, next(iter(table)) is first, table, first in table


def undo():
    keys[:] = [(key[0], key[1]) for key in keys]


# %% ordered_dict_written_by_methods_of_dict: removed = "" -> "b" -> "a"
from collections import OrderedDict

import pijit


class Box:
    pass


@pijit.opaque
def get():
    box = Box()
    box.table = OrderedDict(a=1, b=2)
    if removed:
        dict.pop(box.table, removed)
    return box


def look(table):
    try:
        return list(table.items()), len(table)
    except KeyError as error:
        return str(error), len(table)


def f():
    box = get()
    first = look(box.table)
    dict.pop(box.table, "b", None)
    return first, look(box.table)


# %% ordered_dict_with_attributes: change named = True; undo named, late = False, True
from collections import OrderedDict

import pijit

named, late = False, False


class Box:
    pass


@pijit.opaque
def get():
    box = Box()
    box.table = OrderedDict(a=1, b=2)
    if named:
        box.table.name = "named"
    return box


@pijit.opaque
def give(table):
    if late:
        table.other = [3]


def f():
    table = get().table
    before = hasattr(table, "name"), getattr(table, "name", None), list(table)
    give(table)
    return before, getattr(table, "other", None), hasattr(table, "name"), len(table), vars(table)


# %% ordered_dict_that_foreign_code_returned_with_attributes: named = False -> True -> False
from collections import OrderedDict

import pijit


@pijit.opaque
def get():
    table = OrderedDict(a=1, b=2)
    if named:
        table.name = "named"
    return table


def f():
    table = get()
    before = hasattr(table, "name"), list(table.items())
    table.more = {"a": 1}
    table.move_to_end("a")
    return before, vars(table), table


# %% keys_that_are_tuples_are_the_ones_of_the_dict: f(5); mixed = False -> True; undo globals()["args"] = lambda: (6,)
import pijit


@pijit.opaque
def get(n):
    table = {(n, "a"): [n], ((n, 1), "b"): [2], (): [3], (("c",), n): [4]}
    keep = list(table)
    if mixed:
        keep[0], keep[1] = (n, "a"), ((n, 1), "b")
    return table, keep


def f(n):
    table, keep = get(n)
    keys = [key for key in table]
    (first, _), (nested, _), empty, ((_, *rest), last) = keys
    copy = {key: value[0] for key, value in table.items()}
    same = [key is kept for key, kept in zip(keys, keep)]
    inner = keys[1][0] is keep[1][0], nested is keys[1][0], next(iter(copy)) is keys[0]
    del table[keys[0]]
    table[keys[1]].append(keys[1])
    del keys[2:]
    return same, inner, keys, (first, nested, empty, rest, last), copy, table, keys[1] in table, keys[0] in table


# %% keys_that_are_one_tuple: change order[:] = [a, tuple([1, "x"]), a]; undo order[:] = [b, b, b]
import pijit

a, b = (1, "x"), (1, "x" + "")
order = [a, a, b]


@pijit.opaque
def get():
    return {order[0]: 1}, {order[1]: 2}, {order[2]: 3}


def f():
    first, second, third = get()
    keys = [next(iter(table)) for table in (first, second, third)]
    same = [one is other for one in keys for other in keys]
    del first[keys[1]]
    third[keys[0]] = keys[1]
    return same, keys, first, third, [key is a for key in keys], list(third)[0] is keys[2]
