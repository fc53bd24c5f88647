# ruff: noqa
"""Arguments that are another instance in every call; each followed by a change of what they are."""


# %% fresh_instance_read: long; k = 2 -> 5
class Point:
    def __init__(self, x, y):
        self.x = x
        self.y = y

    def norm(self):
        return self.x * self.x + self.y * self.y


def f(p):
    return p.x, p.norm(), p


def args():
    return (Point(k, (k, k) if k == 5 else 3),) if k != 5 else (Point(1.5, 2),)


# %% fresh_instance_written: long; more = False -> True
class Counter:
    pass


def f(c, again):
    before = c.n
    c.n = before + 1
    c.total = c.n * 10
    if again:
        del c.total
        c.total = [c.n]
    return before, c.n, c.total, hasattr(c, "missing"), c


def args():
    c = Counter()
    c.n = 4
    return c, more


# %% fresh_instance_keeps_its_order: long; turned = False -> True
class Thing:
    pass


def f(t):
    t.c = 1
    return list(t.__dict__), list(vars(t).items()), t


def args():
    t = Thing()
    for name in ("b", "a") if turned else ("a", "b"):
        setattr(t, name, name)
    return (t,)


# %% fresh_instance_with_a_dict: long; wide = False -> True
class Thing:
    pass


def f(t):
    t.a += 1
    t.__dict__["b"] = t.a
    return t.b, [*t.__dict__], t


def args():
    t = Thing()
    t.__dict__["a"] = 1
    if wide:
        t.__dict__["z"] = 1
    return (t,)


# %% fresh_instances_that_may_be_one: long; same = False -> True
class Cell:
    def __init__(self, value):
        self.value = value


def f(a, b):
    a.value += 1
    b.value += 10
    return a is b, a.value, b.value, a == b


def args():
    a = Cell(1)
    return a, a if same else Cell(2)


# %% fresh_instance_that_is_known_elsewhere: long; f(kept if known else Cell(kept.value)); known = False -> True
class Cell:
    def __init__(self, value):
        self.value = value


kept = Cell(0)


def f(cell):
    cell.value = cell.value + 1
    kept.value += 100
    return cell is kept, cell.value, kept.value


# %% fresh_instances_hold_each_other: long; ring = False -> True
class Node:
    def __init__(self, name):
        self.name = name
        self.next = None
        self.items = [name]


def f(node):
    names = []
    while node is not None and len(names) < 5:
        names.append(node.name)
        node.items.append(len(names))
        node = node.next
    return names


def args():
    first, second = Node("a"), Node("b")
    first.next = second
    if ring:
        second.next = first
    return (first,)


# %% fresh_instance_of_another_class: long; f((Derived if derived else Base)(3)); derived = False -> True
class Base:
    def __init__(self, k):
        self.k = k

    def get(self):
        return self.k


class Derived(Base):
    def get(self):
        return super().get() + 100


def f(x):
    return x.get(), type(x).__name__, isinstance(x, Derived)


# %% fresh_instance_whose_class_changes: long; f(Base(3)); change Base.factor = 5; undo Base.factor = 2
class Base:
    factor = 2

    def __init__(self, k):
        self.k = k

    def get(self):
        return self.k * self.factor


def f(x):
    return x.get()


# %% fresh_instance_shadows_a_method: long; shadowed = False -> True
class Base:
    def get(self):
        return 1


def f(x):
    return x.get(), x


def args():
    x = Base()
    x.k = 0
    if shadowed:
        x.get = lambda: 7
    return (x,)


# %% fresh_dataclass: long; f(Batch(size, [1])); size = 3 -> 8
from dataclasses import dataclass, field, replace


@dataclass
class Batch:
    size: int
    names: list = field(default_factory=list)
    extra: dict = field(default_factory=dict)


def f(batch):
    batch.names.append(batch.size)
    batch.extra["n"] = len(batch.names)
    other = replace(batch, size=batch.size + 1)
    return batch == other, repr(batch), other.names is batch.names, other


# %% fresh_instance_with_slots: long; k = 1 -> 2
class Slotted:
    __slots__ = ("a", "b")


def f(s):
    s.b = s.a + 1
    return s.b


def args():
    s = Slotted()
    s.a = k
    return (s,)


# %% fresh_instance_with_properties: long; f(Box(k)); k = "x" -> "y"
class Box:
    def __init__(self, value):
        self._value = value

    @property
    def value(self):
        return self._value

    @value.setter
    def value(self, new):
        self._value = (self._value, new)

    def __getattr__(self, name):
        return name * 2

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value)


def f(box):
    box.value = 5
    return box.value, box.other, box


# %% fresh_instance_left_by_an_exception: long; f(Box(list(items))); change items.append(0)
class Box:
    def __init__(self, items):
        self.items = items
        self.done = 0


def f(box):
    for item in box.items:
        box.done += 1
        box.last = 10 // item
    return box


items = [1, 2]


# %% fresh_instance_across_foreign_code: long; f(Box(k)); k = 1 -> 7
import random


class Box:
    def __init__(self, k):
        self.k = k


def f(box):
    before = box.k
    random.seed(box.k)
    compile("1", "text", "eval")
    box.k += 1
    return before, box.k, box


# %% fresh_instance_as_a_key: long; k = 1 -> 2
class Box:
    def __init__(self, k):
        self.k = k


seen = {}


def f(box):
    known = box in seen
    table = {box: box.k}
    return known, table[box], len(seen), hash(box) == hash(box), id(box) == id(box)


def args():
    box = Box(k)
    if k == 2:
        seen[box] = 1
    return (box,)


# %% what_an_instance_held_is_returned: long; f(Box([k])); k = 1 -> (5,)
class Box:
    def __init__(self, held):
        self.held = held


def f(box):
    old = box.held
    box.held = [2]
    new = box.held
    box.held = None
    return old, new


# %% fresh_instance_with_a_date: long; year = 2000 -> 2001
import datetime


class Box:
    def __init__(self, when):
        self.when = when


def f(box):
    return box.when.year, box.when


def args():
    return (Box(datetime.timedelta(days=year)),) if year == 3 else (Box(datetime.date(year, 1, 1)),)


# %% fresh_slotted_dataclass: long; k = 1 -> 2
from dataclasses import dataclass


@dataclass(slots=True)
class Batch:
    size: int
    names: list
    note: str = ""


class More(Batch):
    pass


def f(batch):
    batch.names.append(batch.note)
    batch.note = batch.note + "!"
    del batch.size
    return hasattr(batch, "size"), batch, len(batch.names)


def args():
    made = More if k == 2 else Batch
    batch = made(k, [k], "note")
    if k == 2:
        batch.more = 3
    return (batch,)


# %% one_list_as_two_arguments: same = True -> False
def f(x, y):
    x[0] = 5
    y[0] += 1
    return x is y, x[0], y[0]


def args():
    a = [1, 2]
    return a, a if same else [1, 2]


# %% fresh_instance_that_is_written_as_another: long; known = False -> True
class Cell:
    def __init__(self, value):
        self.value = value


kept = Cell(0)


def f(cell):
    cell.value = 5
    seen = kept.value
    kept.value = 7
    return seen, cell.value


def args():
    kept.value = 0
    return (kept if known else Cell(0),)


# %% fresh_instance_that_is_an_argument_twice: long; turn = 0 -> 1
class Cell:
    def __init__(self, value):
        self.value = value


kept = Cell([0])


def f(first, second):
    second.value = [len(second.value)]
    first.value.append(5)
    return first.value, second.value, first


def args():
    global turn
    turn += 1
    kept.value = [0]
    return kept, kept if turn % 4 == 3 else Cell([0])


# %% attributes_written_many_at_once: f(Settings(x=k), k); k = 1 -> 2.5; undo k = 3; undo shared.configure(x=1)
class Settings:
    def __init__(self, **given):
        self.x = 1
        self.y = 2
        self.configure(**given)

    def configure(self, **given):
        self.__dict__.update(given)
        return self


def f(one, n):
    one.configure(x=n, z=n + 1)
    seen = one.x, one.z
    vars(one).update({"x": n + 2, "w": 4})
    seen += one.x, one.w
    table = one.__dict__
    table |= {"y": n, "v": 5}
    seen += one.y, one.v
    table.clear()
    one.q = n
    return seen, getattr(one, "x", None), sorted(table), Settings(y=n, x=n).y


def call():
    return f(shared, k) if k == 3 else f(*args())


shared = Settings()


# %% a_slot_and_an_item_of_one_name: leaves; f(Both(k) if k != 3 else shared, k); k = 1 -> 2.5 -> 3
class Both:
    __slots__ = ("x", "__dict__")

    def __init__(self, n):
        self.x = n
        self.y = n


def f(one, n):
    one.x = n
    one.__dict__["x"] = 9
    seen = one.x, one.__dict__["x"]
    one.x = n + 1
    vars(one).update(x=n + 2, z=1)
    other = Both(n)
    other.__dict__["x"] = 8
    return seen, one.x, one.__dict__, other.x, dict(vars(other)), other


shared = Both(0)
