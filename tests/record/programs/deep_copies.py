# ruff: noqa
"""copy.deepcopy, id(), and what else configurations do: attributes by name, arguments from generators, union types."""

# %% deep_copy_of_an_instance: f(n)
import copy


class Settings:
    def __init__(self):
        self.sizes = [1, 2, {"x": 3}]
        self.again = self.sizes
        self.count = 5
        self.pair = (1, [2])
        self.plain = (3, 4)
        self.name = "some name"
        self.ratio = 0.25


settings = Settings()
vars(settings)


def f(n):
    other = copy.deepcopy(settings)
    other.sizes.append(n)
    shared = other.sizes is other.again, other.sizes is settings.sizes
    same = other.plain is settings.plain, other.name is settings.name, other.pair is settings.pair
    return other, shared, same, other.pair[1] is settings.pair[1], settings


n = 1


def change():
    settings.sizes = [k for k in range(2)]
    settings.more = {"of": settings.sizes}


def undo():
    global n
    settings.count = 6
    n = 2


# %% deep_copy_with_cycles: f(n); change old.items[0] = 7; undo n = 5
import copy


class Node:
    pass


def make(n):
    node = Node()
    node.items = [n]
    node.items.append(node.items)
    node.self = node
    return node


old = make(k := 3)
vars(old)


def f(n):
    new = make(n)
    a, b, c = copy.deepcopy(old), copy.deepcopy(new), copy.deepcopy([new, new, old])
    checks = a.self is a, a.items[1] is a.items, b.self is b, c[0] is c[1], c[2] is old
    return a.items[0], b.items[0], c[0].items[0], checks, new.self is new


n = 1


# %% deep_copy_of_an_argument: long; shift = 0 -> 1
import copy


def f(items, memo):
    out = copy.deepcopy(items, memo)
    out["numbers"].append(1)
    return out, items, out["numbers"] is out["again"], len(memo) if memo is not None else None


def args():
    numbers = [1.5 + shift, 2 + shift]
    return {"numbers": numbers, "again": numbers, "text": "t", "none": None, "yes": True}, None


# %% deep_copy_with_a_memo_of_the_caller: leaves; n = 1 -> 2
import copy

kept = [1, 2]
replacement = ["instead"]


def f(memo):
    return copy.deepcopy({"kept": kept, "n": n}, memo), len(memo) > 0


def call():
    return f({id(kept): replacement})


# %% deep_copy_by_its_own_way: f(); change things[1].n = [4, 5]
import copy


class Own:
    def __init__(self, n):
        self.n = n

    def __deepcopy__(self, memo):
        return Own((self.n, len(memo)))


class Reads:
    names = {"count": "n"}

    def __init__(self, n):
        self.n = [n]

    def __getattribute__(self, name):
        names = super().__getattribute__("names")
        return super().__getattribute__(names[name] if name in names else name)


class Shifted(Reads):
    def __getstate__(self):
        return {"n": ["state"]}


things = [Own(1), Reads(2), Shifted(3)]
for thing in things:
    vars(thing)


def f():
    out = copy.deepcopy(things)
    return out, [thing.n for thing in out], out[1].count, out[1].n is things[1].n


def undo():
    Reads.names = {}
    Reads.count = property(lambda self: "property")


# %% deep_copy_that_is_handed_out: f(n); n = 1 -> 2; undo source["a"] = [3, [4]]
import copy

seen = []
source = {"a": [1], "b": [2]}


def f(n):
    memo = {}
    first = copy.deepcopy(source["a"], memo)
    seen.append(id(first))
    same = seen[-1] == id(first), seen[-1] in {id(first): n}
    second = copy.deepcopy([source["a"], source["b"]], memo)
    del seen[:]
    return first, second, second[0] is first, same, id(memo) in memo


# %% numbers_of_objects: f(n); here = lambda: id(names) -> lambda: 5; undo n = 2
def f(n):
    a, b = [n], [n]
    shared = {id(a): "a", id(b): "b"}
    seen = set()
    for each in (a, b, a, names, None, f):
        if id(each) in seen:
            shared[id(each)] += "again"
        seen.add(id(each))
    by = [shared[id(a)], shared[id(b)], id(a) == id(b), id(a) != id(b), id(a) == id(a), len(shared), len(seen)]
    return (
        by,
        id(names) == id(names),
        id(names) == here(),
        id(a) == here(),
        id(None) == id(None),
        (id(a), 1) in {(id(a), 1): 2},
    )


names = [1]
n = 1


# %% number_of_a_fresh_object_outlives_it: leaves; f(1); change del died[:]
import weakref

died = []


class Thing:
    pass


def hold(thing):
    died.append(weakref.ref(thing, lambda ref: died.append("gone")))


def f(n):
    thing = Thing()
    number = id(thing)
    hold(thing)
    thing = None
    before = len(died)
    return before, isinstance(number, int), number == id(f), number > 0


def state():
    return len(died)


# %% numbers_of_equal_values: leaves; f(held, 1000); change held, other = other, held
def f(text, count):
    return (
        id(text) == id(held),
        id(count) == id(count),
        id(text) == id(text),
        id(text) == id(None),
        hash(id(text)) == id(text),
    )


held = "".join(["ab", "cd"])
other = "".join(["ab", "cd"])


# %% objects_as_keys_that_leave_with_their_dict: f(5); k = 1 -> 2
class Key:
    pass


out = []


def keep(table):
    out.append(table)


def f(n):
    key, pair = Key(), (n, k)
    table = {key: n}
    table[pair] = key
    keep(table)
    table[key] += 1
    held = key in table, next(iter(out[-1])) is key, table[key], pair in table
    del table[key]
    del out[:]
    return held, len(table), key


# %% attributes_by_name_of_classes_that_write_themselves: leaves; f(5); k = 2 -> 3; undo del Doubles.__setattr__
class Doubles:
    def __init__(self):
        self.__dict__["log"] = []

    def __setattr__(self, name, value):
        self.log.append(name)
        object.__setattr__(self, name, value * k)
        return value

    def __delattr__(self, name):
        self.log.append("-" + name)
        object.__delattr__(self, name)


old = Doubles()


def f(n):
    new = Doubles()
    results = []
    for each in (old, new):
        results.append(setattr(each, "a", n))
        each.b = n
        results.append(delattr(each, "b"))
        try:
            delattr(each, "b")
        except AttributeError as error:
            results.append(type(error))
    return results, old.a, new.a, vars(new), old.log[-4:], hasattr(new, "b")


# %% attributes_deleted_by_name: f(n); change Plain.kind = "changed"; undo n = 2
class Plain:
    kind = "class"


old = Plain()
old.kind = "own"


def f(n):
    new = Plain()
    new.kind = n
    before = new.kind, old.kind
    for each in (new, old):
        delattr(each, "kind")
    after = new.kind, old.kind
    setattr(old, "kind", n)
    try:
        delattr(new, "kind")
    except AttributeError as error:
        return before, after, old.kind, "raised"


n = 1


# %% arguments_from_iterators: f(4, [k, "x"]); k = 1 -> 2
def g(*args, **names):
    return args, names


class Point:
    def __init__(self, x, y=0, *more):
        self.all = (x, y, more)


def pairs(n):
    yield n
    yield n + k
    return 3


def f(n, more):
    one = g(*(x * n for x in range(3)))
    two = g(*pairs(n), last=k), g(*map(str, more), *pairs(k))
    three = Point(*pairs(n)).all, Point(*iter(more)).all, max(*pairs(n)), list(zip(*(more for _ in range(2))))
    try:
        Point(*(x for x in ()))
    except TypeError as error:
        return one, two, three, str(error)


# %% arguments_from_a_generator_that_raises: f(2); k = 3 -> 1 -> 9
def pairs(n):
    yield n
    if n > k:
        raise ValueError(n)
    yield n + 1


def g(a, b):
    if b == 5:
        raise KeyError(b)
    return a, b


def f(n):
    try:
        return g(*pairs(n))
    except (ValueError, KeyError) as error:
        return type(error), error.args, error.__traceback__.tb_next.tb_frame.f_code.co_name


# %% members_of_union_types: f(n); change Either = int | bytes; undo n = 1.5
import typing

Either, Other = int | str, float | None


def f(n):
    return (
        Either.__args__,
        typing.get_args(Either),
        typing.get_origin(Other),
        isinstance(n, Either),
        isinstance(n, Other),
    )


n = 1


# %% registry_by_number: leaves; kept = [1] -> [2]
class Thing:
    def __init__(self, n):
        self.n = n


registry, numbers = {}, set()


def f(n, old):
    thing = Thing(n)
    found = id(thing) in registry, registry.get(id(old)), id(old) in numbers
    registry[id(thing)] = thing
    numbers.add(id(thing))
    inside = registry[id(thing)] is thing, id(thing) in numbers, {id(old): 1}.get(id(thing)), {id(old): n}[id(old)]
    same = id(old) == id(kept), {id(kept): n}.get(id(old)), [id(old)].count(id(kept))
    registry.clear()
    numbers.clear()
    return found, inside, same


def call():
    registry[id(kept)] = "kept"
    numbers.add(id(kept))
    return f(1, kept), f(1, [2])


# %% number_of_an_argument_known_before: long leaves; given = [2] -> kept
def f(x):
    here = known()
    return id(x) == here, here != id(x), id(x) in (here, 5), [here].count(id(x)), {here: "it"}.get(id(x))


kept = [1]
known = lambda: id(kept)


def call():
    return f(given), f(kept)
