"""Containers of classes that are derived from built-in ones: taken by kind, as plain dicts, lists and tuples are."""

from __future__ import annotations

from collections import Counter, OrderedDict, UserDict, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any

import pytest
import torch

import pijit

pytestmark = pytest.mark.torch

CALLS, MOST = 8, 3

kept: Any = None


class Holder:
    def __init__(self) -> None:
        self.state: Any = None


class Batch(dict[str, Any]):
    pass


class Missing(dict[str, Any]):
    def __missing__(self, key: str) -> Any:
        return torch.full((3,), float(len(key)))


class Attributes(dict[str, Any]):
    """Items are attributes, too."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value


class Lower(dict[str, Any]):
    """Its own methods decide what a key is."""

    def __getitem__(self, key: str) -> Any:
        return super().__getitem__(key.lower())

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key.lower(), value)

    def __contains__(self, key: object) -> bool:
        return super().__contains__(str(key).lower())


class Slotted(dict[str, Any]):
    __slots__ = ("note",)

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.note = 3


class Ordered(OrderedDict[str, Any]):
    pass


class ModelOutput(OrderedDict[str, Any]):
    """Fields of a dataclass that are items, too."""

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if value is not None:
                self[field.name] = value

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return dict(self.items())[key]
        return self.to_tuple()[key]

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.keys() and value is not None:
            super().__setitem__(name, value)
        super().__setattr__(name, value)

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        super().__setattr__(key, value)

    def to_tuple(self) -> tuple[Any, ...]:
        return tuple(self[key] for key in self.keys())


@dataclass
class Output(ModelOutput):
    v: Any = None
    u: Any = None
    w: Any = None


@dataclass
class Faced:
    """A dataclass with the face of a dict."""

    v: Any
    u: Any

    def keys(self) -> Iterator[str]:
        return iter(("v", "u"))

    def __getitem__(self, key: str) -> Any:
        return getattr(self, key)

    def __setitem__(self, key: str, value: Any) -> None:
        setattr(self, key, value)

    def __iter__(self) -> Iterator[str]:
        return self.keys()

    def __len__(self) -> int:
        return 2

    def values(self) -> Any:
        return [self.v, self.u]

    def items(self) -> Any:
        return [("v", self.v), ("u", self.u)]

    def get(self, key: str, default: Any = None) -> Any:
        return getattr(self, key, default)


def zeros() -> Any:
    return torch.zeros(3)


def make_output(d: dict[str, Any]) -> Any:
    return Output(v=d["v"], u=d["u"])


DICTS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "dict": dict,
    "OrderedDict": OrderedDict,
    "defaultdict": lambda d: defaultdict(zeros, d),
    "Batch": Batch,
    "Missing": Missing,
    "Attributes": Attributes,
    "Lower": Lower,
    "Slotted": Slotted,
    "Ordered": Ordered,
    "ModelOutput": make_output,
    "UserDict": UserDict,
    "Counter": Counter,
    "Faced": lambda d: Faced(d["v"], d["u"]),
}


def values(d: Any) -> Any:
    v, u = tuple(d.values())
    return v * 2 + u


def items(d: Any) -> Any:
    return [(key, value + 1) for key, value in d.items()]


def keys(d: Any) -> Any:
    total = 0
    for key in d.keys():
        total = total + d[key]
    return total


def walk(d: Any) -> Any:
    total = 0
    for key in d:
        total = total + d[key]
    return total


def copied(d: Any) -> Any:
    return {key: value * 2 for key, value in dict(d).items()}


def unpacked(d: Any) -> Any:
    return {**d, "w": d["v"] * 3}


def listed(d: Any) -> Any:
    return list(d), sorted(d), [d[key] * 2 for key in sorted(d)]


def indexed(d: Any) -> Any:
    return d["v"] * 2 - d["u"]


def asked(d: Any) -> Any:
    return len(d), "v" in d, "x" in d, d.get("v") * 2, d.get("x", 5), bool(d)


def popped(d: Any) -> Any:
    other = d.copy()
    return other.pop("u") * 2, other, len(other)


def popped_itself(d: Any) -> Any:
    u = d.pop("u")
    d["u"] = u * 2
    return list(d.items())


def defaulted(d: Any) -> Any:
    a, b = d.setdefault("v", 5), d.setdefault("x", d["u"] + 1)
    return a * 2, b, d.pop("x"), list(d)


def updated(d: Any) -> Any:
    d.update({"u": d["v"] * 2})
    return list(d.items())


def written(d: Any) -> Any:
    d["v"] = d["v"] + 1
    return d["v"] * d["u"]


def given_back(d: Any) -> Any:
    d["v"] = d["u"] + 1
    return d


def passed_on(d: Any) -> Any:
    return {"inner": d, "v": d["v"] * 2}


def spread(d: Any) -> Any:
    return (lambda **kwargs: kwargs["v"] * 2 - kwargs["u"])(**d)


def deleted(d: Any) -> Any:
    v = d["v"]
    del d["v"]
    names = list(d)
    d["v"] = v * 2
    return names, list(d)


DICT_USES = [
    values, items, keys, walk, copied, unpacked, listed, indexed, asked, popped, popped_itself, defaulted, updated,
    written, given_back, passed_on, spread, deleted,
]  # fmt: skip

# What a class lacks, or does by code that no trace follows.
NONE_SUCH = {
    ("Faced", use) for use in (asked, popped, popped_itself, defaulted, updated, deleted)
} | {("ModelOutput", use) for use in (popped_itself, defaulted, deleted)}  # fmt: skip


class List(list[Any]):
    pass


class Counted(list[Any]):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.reads = 0

    def first(self) -> Any:
        self.reads += 1
        return self[0]


LISTS: dict[str, Callable[[Any], Any]] = {"list": list, "List": List, "Counted": Counted}


def pair(c: Any) -> Any:
    a, b = c
    return a * 2 + b


def each(c: Any) -> Any:
    return [item * 2 for item in c]


def at(c: Any) -> Any:
    return c[0] * 2, c[-1] + 1, len(c), bool(c), c[:1]


def by_number(c: Any) -> Any:
    return [c[i] * (i + 1) for i in range(len(c))], list(reversed(c)), list(enumerate(c))


def joined(c: Any) -> Any:
    return [*c, 1], list(c), tuple(c), list(c) + [2]


def appended(c: Any) -> Any:
    c.append(c[0] * 2)
    return len(c), c.pop()


def stored(c: Any) -> Any:
    c[0] = c[1] * 3
    return c[0] + 1, c


def extended(c: Any) -> Any:
    c.extend([c[0] + 1, 2])
    del c[-1]
    return c.pop(2), c


def summed(c: Any) -> Any:
    return sum(c), torch.stack(list(c))


LIST_USES = [pair, each, at, by_number, joined, appended, stored, extended, summed]

WAYS = ["new", "same", "global", "cell", "attribute"]


def same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and torch.equal(a, b)
    if type(a) is not type(b) and not type(a).__name__ == type(b).__name__ == "Kind":
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(map(same, a.values(), b.values())) and same_attributes(a, b)
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(same, a, b)) and same_attributes(a, b)
    if isinstance(a, UserDict) or (type(a).__module__ == __name__ and not isinstance(a, type)):
        slots = getattr(type(a), "__slots__", ())
        return same_attributes(a, b) and all(same(getattr(a, name), getattr(b, name)) for name in slots)
    return a is b if callable(a) else bool(a == b)


def same_attributes(a: Any, b: Any) -> bool:
    one, other = getattr(a, "__dict__", None), getattr(b, "__dict__", None)
    return one is other if one is None or other is None else same(dict(one), dict(other))


def run(use: Callable[[Any], Any], make: Callable[[int], Any], way: str, jitted: bool) -> tuple[list[Any], int, Any]:
    """What the calls give, how many of them were recorded, and what the last container holds."""
    global kept
    torch.manual_seed(0)
    holder = Holder()
    cell: Any = None

    def from_global() -> Any:
        return use(kept)

    def from_cell() -> Any:
        return use(cell)

    def from_attribute(holder: Holder) -> Any:
        return use(holder.state)

    function: Callable[..., Any] = {"global": from_global, "cell": from_cell, "attribute": from_attribute}.get(way, use)
    if jitted:
        function = pijit.jit(function)
    before = pijit.stats()["records"]
    found = []
    container: Any = None
    for i in range(CALLS):
        fresh = make(i)
        if way != "same" or container is None:
            container = fresh
        elif isinstance(container, list):
            container[:] = fresh
        else:
            for key in ("v", "u"):
                container[key] = fresh[key]
        args: tuple[Any, ...] = (container,) if way in ("new", "same") else ()
        if way == "global":
            kept = container
        elif way == "cell":
            cell = container
        elif way == "attribute":
            holder.state = container
            args = (holder,)
        try:
            result = function(*args)
            found.append((same_shape(result), isinstance(result, type(container)) and result is container))
        except Exception as error:
            found.append((type(error), str(error)))
    return found, pijit.stats()["records"] - before, container


def same_shape(result: Any) -> Any:
    """A result that holds the container is compared as it was right after the call."""
    if isinstance(result, dict):
        return type(result), [(key, same_shape(value)) for key, value in dict.items(result)]
    if isinstance(result, (list, tuple)):
        return type(result), [same_shape(value) for value in result]
    if isinstance(result, (UserDict, Faced)):
        return type(result), same_shape(vars(result))
    return result


def check(use: Callable[[Any], Any], make: Callable[[int], Any], way: str, most: int = MOST) -> None:
    plain, none, before = run(use, make, way, jitted=False)
    fast, records, after = run(use, make, way, jitted=True)
    assert none == 0
    assert same(plain, fast)
    assert same(before, after)
    assert 0 < records <= most


# What is written teaches, too, which places vary.
LEARNS = {(kind, deleted) for kind in ("Counter", "Ordered", "UserDict")}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("use", DICT_USES)
@pytest.mark.parametrize("kind", DICTS)
def test_a_dict(kind: str, use: Callable[[Any], Any], way: str) -> None:
    if (kind, use) in NONE_SUCH:
        pytest.skip("there is no such method")
    number = kind == "Counter"

    def make(i: int) -> Any:
        v, u = (i + 2, 0.5 * i) if number else (torch.randn(3), torch.randn(3))
        return DICTS[kind]({"v": v, "u": u})

    check(use, make, way, most=MOST + 2 * ((kind, use) in LEARNS))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("use", LIST_USES)
@pytest.mark.parametrize("kind", LISTS)
def test_a_list(kind: str, use: Callable[[Any], Any], way: str) -> None:
    check(use, lambda i: LISTS[kind]([torch.randn(3), torch.randn(3)]), way)


TUPLES: dict[str, Callable[[int], Any]] = {
    "Size": lambda i: torch.Size([3, 4, 1 + i % 2]),
    "maximum": lambda i: torch.randn(3, 4).max(0),
    "svd": lambda i: torch.linalg.svd(torch.randn(3, 3)),
}


def ends(c: Any) -> Any:
    return c[0] * 2, c[-1] * 3, len(c), bool(c), c[:1], c[1:], type(c[:1]).__name__


def each_doubled(c: Any) -> Any:
    return [item * 2 for item in c], list(c), tuple(c), (*c, 5), [*reversed(c)]


def added(c: Any) -> Any:
    return c + (1,), (1, 2) + c, type(c + (1,)).__name__


def unpacked_tuple(c: Any) -> Any:
    first, *others = c
    return first * 2, others


def passed(c: Any) -> Any:
    return [c, {"c": c}], c


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("use", [ends, each_doubled, added, unpacked_tuple, passed])
@pytest.mark.parametrize("kind", TUPLES)
def test_a_tuple(kind: str, use: Callable[[Any], Any], way: str) -> None:
    if way == "same":
        pytest.skip("nothing changes in it")
    check(use, TUPLES[kind], way, most=MOST + (kind == "Size"))


@pytest.mark.parametrize("way", ["new", "global", "cell", "attribute"])
def test_a_size_is_a_shape(way: str) -> None:
    def use(size: Any) -> Any:
        x = torch.ones(size)
        return x.reshape(size[1:] + size[:1]) * size[0], size.numel(), len(size), x.shape == size, size == (3, 4)

    check(use, lambda i: torch.Size([3, 4]), way)


@pytest.mark.parametrize("way", ["new", "global", "cell", "attribute"])
def test_fields_of_what_an_operator_returns(way: str) -> None:
    def use(found: Any) -> Any:
        return found.values * 2, found.indices + 1, type(found).__name__

    check(use, lambda i: torch.randn(3, 4).max(0), way)


class Sized:
    """What a tensordict is: slots, a size among them, and a dict of what it holds."""

    __slots__ = ("_size", "_held", "_names")

    def __init__(self, held: dict[str, Any], size: Any) -> None:
        self._size = torch.Size(size)
        self._held = held
        self._names: Any = None

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return self._held[key]
        return Sized({name: value[key] for name, value in self._held.items()}, self._held["v"][key].shape[:1])

    def apply(self, function: Callable[[Any], Any]) -> Any:
        return Sized({name: function(value) for name, value in self._held.items()}, self._size)

    def __len__(self) -> int:
        return int(self._size[0])


class Lazy:
    """A distribution: attributes that are computed when they are read, and kept."""

    def __init__(self, mean: Any, scale: Any) -> None:
        self.mean, self.scale = mean, scale
        self._shape = mean.shape

    @property
    def variance(self) -> Any:
        if "kept" not in self.__dict__:
            self.__dict__["kept"] = self.scale**2
        return self.__dict__["kept"]

    def log_prob(self, x: Any) -> Any:
        assert x.shape[-1:] == self._shape[-1:]
        return -((x - self.mean) ** 2) / (2 * self.variance) - self.scale.log()


class Operator:
    """A linear operator: what it was made with, and results that it keeps."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._args, self._kwargs = args, kwargs
        self._memo: dict[Any, Any] = {}

    @property
    def shape(self) -> Any:
        return self._args[0].shape

    def kept(self, name: str, make: Callable[[], Any]) -> Any:
        key = (name, self._kwargs.get("jitter"))
        if key not in self._memo:
            self._memo[key] = make()
        return self._memo[key]

    def dense(self) -> Any:
        return self.kept("dense", lambda: self._args[0] @ self._args[0].T + self._kwargs["jitter"] * torch.eye(3))

    def add(self, other: Any) -> Any:
        return Operator(self.dense() + other.dense(), jitter=self._kwargs["jitter"])


class Store(dict[str, Any]):
    """A part of a graph, with its items as attributes."""

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        raise AttributeError(name)

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value


class Graph:
    def __init__(self, **items: Any) -> None:
        self.__dict__["_store"] = Store(items)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._store, name, value)

    @property
    def stores(self) -> Any:
        return [self._store]

    def apply(self, function: Callable[[Any], Any]) -> Any:
        for store in self.stores:
            for name, value in store.items():
                store[name] = function(value)
        return self


def use_sized(d: Any) -> Any:
    part = d[0:2].apply(lambda value: value * 2)
    return part["v"] + part["u"], part._size, len(d), d._size[0], part._size == d._size


def use_lazy(d: Any) -> Any:
    return d.log_prob(torch.ones(3)), d.log_prob(torch.zeros(3)), sorted(vars(d))


def use_operator(d: Any) -> Any:
    return d.add(d).dense().sum(), d.shape, len(d._memo), d.dense().diagonal()


def use_graph(d: Any) -> Any:
    d.w = d.v * 2
    return d.apply(lambda value: value + 1).w - d.u, len(d.stores), hasattr(d, "x")


OBJECTS: dict[str, tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]] = {
    "Sized": (use_sized, lambda v, u: Sized({"v": v, "u": u}, v.shape[:1])),
    "Lazy": (use_lazy, lambda v, u: Lazy(v[0], u[0].exp())),
    "Operator": (use_operator, lambda v, u: Operator(v, u, jitter=0.5)),
    "Graph": (use_graph, lambda v, u: Graph(v=v, u=u)),
}


@pytest.mark.parametrize("way", ["new", "global", "cell", "attribute"])
@pytest.mark.parametrize("kind", OBJECTS)
def test_an_object(kind: str, way: str) -> None:
    use, make = OBJECTS[kind]
    check(use, lambda i: make(torch.randn(3, 3), torch.randn(3, 3)), way)


@pytest.mark.parametrize("kind", OBJECTS)
def test_an_object_within_another(kind: str) -> None:
    use, make = OBJECTS[kind]

    def make_holder(i: int) -> Any:
        return {"inner": make(torch.randn(3, 3), torch.randn(3, 3)), "v": 1, "u": 2}

    check(lambda d: use(d["inner"]), make_holder, "new")


def test_a_derived_dict_within_others() -> None:
    def use(given: Any) -> Any:
        inner = given["out"][0]
        return inner["v"] * 2, inner.get("x"), {**inner}, given["out"][1].first() * 3

    check(use, lambda i: Batch(out=[Ordered(v=torch.randn(3)), Counted([torch.randn(2)])]), "new", most=1)


def test_keys_that_differ() -> None:
    def make(i: int) -> Any:
        made = Output(v=torch.randn(3), u=torch.randn(3))
        if i % 3 == 2:
            made["w"] = torch.randn(3)
        return made

    check(lambda d: (d.v * 2, d.w if d.w is None else d.w * 2, len(d), d.to_tuple()), make, "new")


def test_a_class_that_changes() -> None:
    def make(i: int) -> Any:
        kind = type("Kind", (dict,), {}) if i == 0 else made[0]
        made[:] = [kind]
        if i == CALLS // 2:
            kind.__getitem__ = lambda self, key: dict.get(self, key) * 10
            kind.__iter__ = lambda self: iter(["v"])
            kind.__len__ = lambda self: 7
        return kind(v=torch.randn(3), u=torch.randn(3))

    made: list[Any] = [None]

    def use(d: Any) -> Any:
        return d["v"] * 2, list(d), len(d), [key for key in d], bool(d), {**d}

    check(use, make, "new", most=4)


def test_a_list_class_that_changes() -> None:
    def make(i: int) -> Any:
        kind = type("Kind", (list,), {}) if i == 0 else made[0]
        made[:] = [kind]
        if i == CALLS // 2:
            kind.__getitem__ = lambda self, key: list.__getitem__(self, key) * 10
            kind.__iter__ = lambda self: iter([5])
            kind.__len__ = lambda self: 7
        return kind([torch.randn(3), torch.randn(3)])

    made: list[Any] = [None]

    def use(c: Any) -> Any:
        return c[0] * 2, [*c], len(c), [item for item in c], bool(c)

    check(use, make, "new", most=CALLS)


@pytest.mark.parametrize("kind", ["OrderedDict", "Ordered"])
@pytest.mark.parametrize("way", WAYS)
def test_an_order_that_is_its_own(kind: str, way: str) -> None:
    def use(d: Any) -> Any:
        before = [(key, d[key] * 2) for key in d]
        d.move_to_end("v", last=False)
        between = list(d.values())
        d.move_to_end("v")
        return before, between, list(d), list(reversed(d)), d.popitem(last=True)[0], d.popitem(last=False)[1] * 2

    def make(i: int) -> Any:
        made = DICTS[kind]({"v": torch.randn(3), "u": torch.randn(3), "w": 1.5})
        if i == 5:
            made.move_to_end("v")
        return made

    check(use, make, way, most=5)


@pytest.mark.parametrize("way", WAYS)
def test_a_default_factory(way: str) -> None:
    def use(d: Any) -> Any:
        d["x"] = d["x"] + d["v"]
        d["y"].add_(1)
        return list(d.items()), d.default_factory is zeros

    check(use, lambda i: defaultdict(zeros, {"v": torch.randn(3), "u": torch.randn(3)}), way, most=4)


@pytest.mark.parametrize("way", ["new", "attribute"])
def test_counts(way: str) -> None:
    def use(d: Any) -> Any:
        d["v"] += 1
        d["x"] += 2
        d.update({"u": 3})
        return d.most_common(1), sum(d.values()), d["none"], list(d)

    check(use, lambda i: Counter({"v": 5 + i, "u": i}), way)


def test_the_truth_of_a_size_that_stays() -> None:
    holder = Holder()
    holder.state = torch.Size([3])

    def use(holder: Any, x: Any) -> Any:
        return x * 2 if holder.state else x, not holder.state, bool(holder.state)

    def rows(function: Any) -> list[Any]:
        found = []
        for size in ((3,), (3,), (), (3,), (3,)):
            if tuple(holder.state) != size:
                holder.state = torch.Size(size)
            found.append(function(holder, torch.ones(2)))
        return found

    fast = pijit.jit(use)
    assert same(rows(use), rows(fast))
    assert not any("truth of an object" in str(trace) for trace in pijit.traces(fast))
