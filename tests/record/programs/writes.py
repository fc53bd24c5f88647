# ruff: noqa
"""Writes to containers: those of the caller, those that existed before, those made by the call; read again afterwards."""

# %% append_to_an_existing_list: f(3); change log.clear(); undo log.append("a")
log = [0]


def f(x):
    log.append(x)
    log.extend((x, x + 1))
    return x


# %% write_and_read_an_existing_list: f(3); change log.append(5); undo log[:] = [0, 1, "a"]
log = [0, 1]


def f(x):
    log.append(x)
    y = log[-1], len(log), x in log, list(log), log == [0, 1, x]
    log[0] = x
    del log[1]
    log.insert(1, "in")
    z = log.pop(), log.pop(0), log[:]
    log[:] = [0, 1]
    log.reverse()
    log.sort()
    return y, z, log[0], bool(log)


# %% write_to_a_list_argument: f([1, 2], [3, *more]); change more.append(4); undo more.clear()
def f(xs, ys):
    xs.append(len(ys))
    ys.extend(xs)
    ys[0], xs[0] = xs[0], ys[0]
    xs += [7]
    ys *= 2
    del ys[1:3]
    xs[1:1] = "ab"
    return xs.index(7), ys.count(2), xs is ys, sum(1 for _ in ys)


more = [2]


# %% write_to_a_dict_argument: f({"a": 1, "list": []}, k); k = 4 -> "other"
def f(d, x):
    d["new"] = x
    d["list"].append(x)
    d.update({"u": 1, "v": x}, w=2)
    old = d.pop("a"), d.pop("none", "default"), d.setdefault("s", []), d.setdefault("u", 9)
    d["s"].append(1)
    del d["v"]
    return old, list(d), "a" in d, d.get("u"), len(d), {**d}


# %% write_to_an_existing_dict: f(k); k = 1 -> 2; change table["r"] = 6; undo del table["r"]
table = {"n": 0}


def f(x):
    table["n"] = x
    table["last"] = [x]
    table.update(p=1, q=x)
    found = table.get("p"), table["q"], "last" in table
    del table["p"]
    return found, "p" in table, table.pop("q"), table.setdefault("r", 5)


# %% iterate_over_a_written_dict: f(3); change table["z"] = 0; undo del table["z"]
table = {"a": 1, "b": 2}


def f(x):
    table["c"] = x
    out = list(table.items()), len(table), dict(table), sorted(table)
    del table["c"]
    return out, list(table)


# %% clear_an_existing_dict: f(3)
table = {"a": 1, "b": 2}


def f(x):
    table.clear()
    table["x"] = x
    y = list(table), table.get("a")
    table.clear()
    table.update(a=1, b=2)
    return y, table


# %% write_to_an_existing_set: f(5); change seen.add(7); undo seen.remove(7)
seen = {1, 2}


def f(x):
    seen.add(x)
    y = x in seen, 1 in seen, len(seen)
    seen.discard(x)
    seen.update([8, 9])
    seen.difference_update({8, 9})
    seen.remove(1)
    seen.add(1)
    return y, 8 in seen, seen == {1, 2}, seen <= {1, 2, 3}


# %% only_add_to_an_existing_set: f(k); k = 1 -> "a"; change seen.clear()
seen = {1, 2}


def f(x):
    seen.add(x)
    seen.add((x, "pair"))
    return x


# %% globals_written_and_deleted: f(2); k = 1 -> 10
total = 0
made = None


def f(x):
    global total, made, gone
    total = x + k
    made = [x]
    made.append(total)
    gone = 1
    del gone
    try:
        return gone
    except NameError:
        return total, made


# %% global_counter
count = 0


def f():
    global count
    before = count
    count = (before + 1) % 2
    return count


# %% deleted_global_shows_the_builtin: f(k); k = 4 -> 5
def f(x):
    global len
    len = x
    try:
        return len([1]) if callable(len) else len
    finally:
        del len


# %% argument_is_the_global: f(known if same else [5]); same = True -> False -> True
known = [1, 2]


def f(xs):
    xs.append(9)
    known.append(8)
    seen = len(known), known is xs, known[-1], xs[-1], xs == known
    xs.pop()
    known.pop()
    return seen


# %% argument_dict_is_the_global: f(known if same else {}); change same, k = True, 2; undo same = False
known = {"a": 1}


def f(d):
    d["x"] = k
    known["y"] = k
    return "y" in d, "x" in known, known is d, d.get("y")


same, k = False, 1


# %% escaped_containers_written: f(k); k = 4 -> 5
box = {}


def f(x):
    mine, table, some = [1], {}, {1}
    box["mine"], box["table"], box["some"] = mine, table, some
    mine.append(x)
    mine[0] = "first"
    table["k"] = x
    table.update(a=1, b=2)
    del table["a"]
    some.add(x)
    some.discard(1)
    mine.extend(table)
    return mine, len(mine), table, list(table), x in some, some


# %% deletion_of_items: f([1, 2, 3], {"a": 1, "b": k}); k = 2 -> []
def f(xs, d):
    ys = list(range(6))
    del ys[0], ys[-1], ys[1:3]
    del xs[0]
    del d["a"]
    e = {"p": 1, "q": 2}
    del e["p"]
    out = []
    for work in (lambda: xs.__delitem__(9), lambda: d.pop("a"), lambda: e.__delitem__("none")):
        try:
            work()
        except LookupError:
            out.append("missing")
    try:
        del e["none"]
    except KeyError:
        out.append("key")
    try:
        del xs[9]
    except IndexError:
        out.append("index")
    return ys, xs, d, e, out


# %% class_with_item_methods: f(5); hidden = "none" -> "a"
class M:
    def __init__(self):
        self.items = {}

    def __setitem__(self, key, value):
        self.items[key] = value

    def __getitem__(self, key):
        return self.items[key]

    def __delitem__(self, key):
        del self.items[key]

    def __contains__(self, key):
        return key in self.items and key != hidden

    def __len__(self):
        return len(self.items)

    def __iter__(self):
        return iter(self.items)


def f(x):
    m = M()
    m["a"] = x
    m[1, "b"] = 2
    m["c"] = 3
    del m["c"]
    return m["a"], m[1, "b"], "a" in m, "c" not in m, len(m), list(m), [*m]


# %% fresh_sets_and_their_order: f(7, [1, 3, 99, 33, 65])
def f(x, ys):
    s = {3, 1, x}
    t = s | {10, 20, 30, 40, 50, 60}
    u = t - {10, 1}
    v = set(ys)
    v &= t
    w = frozenset(ys) ^ s
    s.add(9)
    s.remove(1)
    return s, t, u, v, w, [i for i in {5, 6, x}], sorted(u), list(set("hello")), {*ys, *"ab"}


# %% list_methods_of_a_fresh_list: f(k); k = 2 -> 3
def f(x):
    a = [3, 1, 2]
    a.sort()
    b = a.copy()
    b.reverse()
    b.insert(1, x)
    b.insert(-1, "end")
    b.insert(100, "last")
    c = b[::-1], b[1:-1], b[:2]
    b[::2] = "xyz"
    d = b.pop(), b.pop(0), b.pop(-1)
    b.remove(x) if x in b else None
    a.extend(i * 2 for i in range(x))
    a += (7, 8)
    a *= 2
    e = a.index(2), a.count(2), a.index(7, 3)
    a.clear()
    words = ["bb", "a", "ccc"]
    words.sort(key=len, reverse=True)
    return a, b, c, d, e, words


# %% dict_methods_of_a_fresh_dict: f(k); k = 2 -> 3
def f(x):
    d = dict(a=1, b=2)
    e = d.copy()
    e["c"] = x
    p = e.popitem(), e.pop("a"), e.setdefault("z", x), e.setdefault("b")
    e.update([("l", 1), ("m", x)])
    e.update(d)
    g = dict.fromkeys("abc", x), dict.fromkeys([1, 2])
    h = list(d.keys() | e.keys()) if False else sorted(d.keys())
    d.clear()
    return d, e, p, g, h, {(x, 1): "pair"}[x, 1], {1: "one", True: "true"}, {x: 1} == {x: 1.0}, list(reversed(e))


# %% ordered_dicts: f(k); k = 2 -> 3; change kept["z"] = 1
from collections import OrderedDict

kept = OrderedDict(a=1)


def f(x):
    d = OrderedDict(b=1, a=x)
    d["c"] = 3
    d.move_to_end("b")
    d.move_to_end("c", last=False)
    kept["n"] = x
    e = OrderedDict([("p", 1), ("q", 2)])
    e.pop("p")
    e.update(r=x)
    return d, list(d.items()), e, kept.get("n"), d == OrderedDict(d), len(e), list(reversed(e)) if False else None


# %% self_containing: f(3)
def f(x):
    a = [x]
    a.append(a)
    d = {}
    d["self"] = d
    d["list"] = a
    return a, d, a[1] is a


# %% list_changes_while_iterated: f(k); k = 5 -> 7
def f(n):
    xs = [1, 2, 3]
    for x in xs:
        if len(xs) < n:
            xs.append(x * 2)
    out = []
    for x in xs:
        out.append(x)
        if x == 2 and 1 in xs:
            xs.remove(1)
    return xs, out


# %% nested_containers_written: f(k); k = 4 -> 5
config = {"layers": [{"size": 1}, {"size": 2}]}


def f(x):
    config["layers"][0]["size"] = x
    config["layers"][1].setdefault("extra", []).append(x)
    for layer in config["layers"]:
        layer["seen"] = True
    return [layer["size"] for layer in config["layers"]]


# %% attributes_that_are_containers: f(k); k = 4 -> 5
class Box:
    def __init__(self):
        self.items = []
        self.table = {}

    def put(self, x):
        self.items.append(x)
        self.table[x] = len(self.items)
        return self.table[x]


box = Box()


def f(x):
    mine = Box()
    return mine.put(x), mine.put("y"), mine.items, mine.table, len(mine.items)


# %% text_of_what_contains_itself
def f():
    items = [0, 1]
    items.append(items)
    nested = []
    for _ in range(12):
        nested = [nested, nested[:1]]
    return str(items), repr((items, 3)), items == [0, 1], len(repr(nested[1]))


# %% counters: f(2); calls = 0 -> 1 << 70; change counter.n = 1 << 62; change slotted.other = None; change step()
class Counter:
    def __init__(self):
        self.n = 0
        self.text = "a"
        self.weight = 0.5

    def step(self, by):
        self.n += by
        self.text = self.text + "b"
        self.weight *= 0.75
        return self.n, self.text


class Slotted:
    __slots__ = ("n", "other")

    def __init__(self):
        self.n = 10


def make():
    count = 100

    def step():
        nonlocal count
        count -= 3
        return count

    return step


def f(x):
    global calls
    calls += 1
    slotted.n += calls
    table["n"] = table["n"] + 1
    table[1] += 2
    first = counter.step(x)
    second = counter.step(1)
    return first, second, step(), step(), calls, slotted.n, table["n"], counter.weight, "n" in table


counter = Counter()
slotted = Slotted()
step = make()
table = {"n": 0, 1: 5}


def undo():
    counter.n = 0.5
    table["n"] = True
    counter.__dict__["m"] = 4


# %% counters_in_loops_and_branches: f(4); change state_of.step = -7; undo state_of.best = 1
class State:
    pass


state_of = State()
state_of.step = 0
state_of.depth = 0
state_of.best = 100.0


def visit(n):
    state_of.depth += 1
    result = 1 if n == 0 else visit(n - 1) + state_of.depth
    state_of.depth -= 1
    return result


def f(n):
    found = []
    for i in range(n):
        state_of.step += i
        if state_of.step % 2 == 0:
            found.append(state_of.step)
        if state_of.best > 90.5:
            state_of.best -= 0.125
        print(i, state_of.step, state_of.best)
    return visit(2), len(found), f"{state_of.step:>5}", state_of.depth


# %% counter_left_where_it_is: change state_of.on = False
class State:
    n = 3
    on = False


def f():
    state_of.n = 3
    before = state_of.on
    state_of.on = True
    return before, state_of.n + 1


state_of = State()
state_of.n = 3


# %% counter_deleted: n = 0 -> "text"; undo del n; undo n = 7; undo table["gone"] = 1
def f():
    global n
    n += 1
    if "gone" in table:
        del table["gone"]
    table["here"] = n
    return n


table = {}


def call():
    try:
        return f()
    except TypeError as error:
        return error.args


# %% existing_containers_cleared: f(1); change kept.append(object()); change seen.add(2.5)
kept, seen = [], set()


def f(x):
    kept.clear()
    seen.clear()
    kept.append((x, str(x)))
    seen.add(str(x) + "!")
    return list(kept), sorted(seen)


def undo():
    kept.append((object(), 1))
    seen.add(("a", ("b", None)))


# %% what_is_cleared_has_a_finalizer: f(1); change held.append(Item("a")); undo held.append((1, Item("b")))
class Item:
    def __init__(self, x):
        self.x = x

    def __del__(self):
        log.append(self.x)
        held.append(self.x)


log, held = [], []


def f(x):
    held.clear()
    before = len(held)
    held.append(x)
    return before, list(held), list(log)


# %% deques_made_here: f(3)
from collections import deque


def f(n):
    todo = deque()
    for i in range(n):
        todo.append(i)
        todo.appendleft(-i)
    todo.extend([n, n])
    first, last = todo.popleft(), todo.pop()
    whole = list(todo)
    todo.reverse()
    seen = []
    while todo:
        seen.append(todo.pop())
    try:
        todo.popleft()
    except IndexError as error:
        seen.append(str(error))
    todo.append(n)
    kept = todo
    try:
        for item in todo:
            todo.append(item)
    except RuntimeError as error:
        seen.append(str(error))
    return first, last, whole, seen, kept, deque("ab"), deque([1, 2, 3], 2)


# %% length_of_what_grows: f(1); change log.clear()
log, seen = [], set()


def f(x):
    log.append(x)
    before = len(log)
    seen.add(x)
    return before, len(log), len(seen)


# %% list_emptied_after_foreign_code: leaves; k = 1 -> 2
log = []


def logged(method):
    def call(*args):
        log.append((method.__name__, args))
        return method(*args)

    return call


def check(expected):
    actual = log[:]
    return expected == actual


def f():
    class Local:
        @logged
        def __getattr__(self, *args):
            return k

        @logged
        def __setattr__(self, *args):
            pass

    local = Local()
    log[:] = []
    local.first
    one = check([("__getattr__", (local, "first"))])
    log[:] = []
    local.second = k
    two = check([("__setattr__", (local, "second", k))])
    log[:] = []
    return one, two


# %% looked_for_by_the_collector: f(k); k = 1.5 -> "text"
import gc


def f(x):
    pair, nested = (1, x), (2, (x, 3))
    kept = [x]
    before = gc.is_tracked(kept)
    gc.collect()
    gc.collect()
    return gc.is_tracked(pair), gc.is_tracked(nested), gc.is_tracked(kept), before, pair, nested, kept


# %% long_containers: f(300); k = 100 -> 50
def f(n):
    squares = {i: i * i for i in range(n)}
    total = 0
    for i, square in squares.items():
        total += i * square
    items = list(squares.values())
    for i in range(len(items)):
        items[i] += i
    seen = set(items)
    for item in sorted(seen, key=repr):
        total += item
    letters = [letter for letter in "abc" * k]
    return total, items[-1], len(seen), [i for i in reversed(items)][0], letters[::k], min(squares), ",".join(letters)


# %% what_the_call_puts_and_takes_is_its_own: f(holder, [k]); k = 1 -> 2
class Holder:
    def __init__(self):
        self.table = {"first": 1}
        self.keys = {1}


def f(holder, given):
    holder.table["key"] = given
    listed = list(holder.table)
    del holder.table["key"]
    holder.table["key"] = [given]
    again = sorted(holder.table), [name for name in holder.table]
    holder.table["key"] = (given, 1)
    holder.table.update(key={"a": given}, other=2)
    last = holder.table.pop("key")
    del holder.table["other"]
    holder.keys.add(2)
    seen = sorted(holder.keys)
    holder.keys.discard(2)
    return listed, again, last, seen


holder = Holder()


def state():
    import gc
    import sys

    fresh = [k]
    f(holder, fresh)
    gc.collect()
    return sys.getrefcount(fresh)
