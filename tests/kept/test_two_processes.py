"""What one process has recorded the next one replays, and records nothing; and gives what plain Python gives."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from processes import run_all

pytest.importorskip("torch")
pytestmark = pytest.mark.torch

MODULES = """
net = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.Tanh(), torch.nn.LayerNorm(4), torch.nn.Linear(4, 2))
pijit.jit(net)
x = torch.ones(2, 8)
with torch.no_grad():
    results = [net(x), net(x * 2), net(x * 3)]
tell(*results)
"""

OWN_MODULE = """
class Block(torch.nn.Module):
    scale = 2.0

    def __init__(self):
        super().__init__()
        self.inner = torch.nn.ModuleList([torch.nn.Linear(4, 4) for _ in range(3)])
        self.act = torch.nn.GELU()
        self.eps = 1e-3

    def forward(self, x):
        for layer in self.inner:
            x = self.act(layer(x)) * self.scale + self.eps
        return x[:, 1:], x.sum(dim=1), x.shape[0]


net = pijit.jit(Block())
with torch.no_grad():
    results = [net(torch.ones(n, 4)) for n in (2, 2, 3)]
tell(*results)
"""

FUNCTION = """
weight = torch.arange(12.0).reshape(3, 4)
table = {"bias": torch.ones(3), "times": 3}


def twice(x, by=2):
    return x * by


@pijit.jit
def f(x, flag=True):
    y = torch.nn.functional.linear(x, weight, table["bias"])
    if flag:
        y = twice(y, table["times"])
    return torch.cat([y, y.relu()], dim=-1).to(torch.float64), (x[0] > 0).any()


results = [f(torch.ones(2, 4)), f(torch.ones(2, 4) * 2), f(torch.zeros(5, 4))]
tell(*results)
"""

ARGUMENT = """
@pijit.jit
def step(model, x):
    return model(x).softmax(-1)


model = torch.nn.Linear(4, 3)
with torch.no_grad():
    results = [step(model, torch.ones(2, 4)) for _ in range(3)]
tell(*results)
"""

# The first layer is another one by the time of the call.
CHANGED = MODULES.replace("pijit.jit(net)", "pijit.jit(net)\nnet[0] = torch.nn.Linear(8, 4)")

# What the function calls is not there when it is given to jit.
LATER = """
@pijit.jit
def f(x):
    return later(x) + 1


def later(x):
    return x * 2


results = [f(torch.ones(2)), f(torch.zeros(2)), f(torch.ones(2))]
tell(*results)
"""

CLOSURE = """
def make(factor):
    offset = torch.full((3,), float(factor))

    @pijit.jit
    def inner(x):
        return x * factor + offset

    return inner


f = make(3)
results = [f(torch.ones(3)), f(torch.zeros(3)), f(torch.ones(3))]
tell(*results)
"""

# inspect.unwrap keeps the functions that it has seen by their numbers.
NUMBERS_OF_OBJECTS = """
import functools
import inspect


def scale(x, *, by=3):
    return x * by


@functools.wraps(scale)
def wrapped(*args, **kwargs):
    return scale(*args, **kwargs)


def each_once(layers, x):
    seen = {}
    for layer in layers:
        if id(layer) not in seen:
            seen[id(layer)] = layer
            x = layer(x)
    return x, len(seen)


@pijit.jit
def f(x):
    x, count = each_once(layers, x)
    return inspect.unwrap(wrapped)(x, by=count)


first = torch.nn.Linear(3, 3)
layers = [first, LAST, first]
with torch.no_grad():
    results = [f(torch.ones(2, 3)), f(torch.zeros(2, 3)), f(torch.ones(2, 3))]
tell(*results)
"""
EQUAL = NUMBERS_OF_OBJECTS.replace("LAST", "first")
NUMBERS_OF_OBJECTS = NUMBERS_OF_OBJECTS.replace("LAST", "torch.nn.Linear(3, 3)")

TRAINING = """
net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)


@pijit.jit
def step(x):
    optimizer.zero_grad()
    loss = net(x).pow(2).mean()
    loss.backward()
    optimizer.step()
    return loss.detach()


results = [step(torch.ones(2, 4)) for _ in range(5)]
tell(*results, *net.parameters())
"""


# Results that functools.lru_cache has, under a str and under a tuple with a class in it.
CACHED = """
import functools


@functools.lru_cache
def factor(kind, times):
    return times * len(kind.__name__)


@functools.lru_cache(None)
def offset(kind):
    return float(len(kind))


factor(torch.nn.Linear, 3)
offset("bias")


@pijit.jit
def f(x):
    return x * factor(torch.nn.Linear, 3) + offset("bias")


results = [f(torch.ones(2)) for _ in range(3)]
tell(*results, factor.cache_info(), offset.cache_info())
"""

# What the first call makes, and the second one finds: a way that leads nowhere when the file is read.
MADE_BY_A_CALL = """
class Scale:
    def __init__(self):
        self.by = torch.full((2,), 3.0)


made, table = None, {}


@pijit.opaque
def make():
    global made
    made = Scale()
    table["more"] = Scale()


@pijit.jit
def f(x):
    if made is None:
        make()
        return x
    return x * made.by + table["more"].by


results = [f(torch.ones(2)) for _ in range(4)]
tell(*results)
"""

# A range and a partial function on an object, and a set that the program adds to after the first call.
OF_FUNCTIONS = """
import functools

known = {torch.nn.Linear, "bias"}


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.rounds = range(1, 7, 2)
        self.norm = functools.partial(torch.nn.functional.layer_norm, normalized_shape=(3,), eps=1e-3)
        self.layer = torch.nn.Linear(3, 3)

    def forward(self, x):
        for each in self.rounds:
            x = self.norm(x) * each
        if type(self.layer) in known and "weight" not in known:
            x = self.layer(x)
        return x


block = pijit.jit(Block())
with torch.no_grad():
    results = [block(torch.arange(6.0).reshape(2, 3))]
    known.add(torch.nn.Bilinear)
    results += [block(torch.arange(6.0).reshape(2, 3)), block(torch.zeros(2, 3))]
tell(*results)
"""

# copy.deepcopy keeps what it has copied by numbers of objects, and catches the KeyError of one that is not there yet.
DEEP_COPY = """
import copy


class Config:
    def __init__(self):
        self.sizes = [1, 2, [3]]
        self.names = {"a": 1, "b": [2]}
        self.mixed = ([1], 2, None, True)
        self.shared = self.sizes
        self.rate = 0.5


config = Config()
copy.deepcopy(config)


@pijit.jit
def f(x):
    made = copy.deepcopy(config)
    made.sizes.append(4)
    return x * made.sizes[1] + made.rate, made.names["b"], made.mixed, made.shared is made.sizes, len(config.sizes)


results = [f(torch.ones(2)) for _ in range(3)]
results += [f(torch.ones(2)) for _ in range(3)]
tell(*results)
"""

# A class has a member whose text is its address, as that of `torch.autograd.Variable` has.
TOLD_BY_ADDRESS = """
class Holder:
    engine = type(torch.autograd.Variable._execution_engine)()
    scale = 2.0

    def by(self, x):
        return x * self.scale


holder = Holder()


@pijit.jit
def f(x):
    return holder.by(x) + len(type(holder).__name__)


results = [f(torch.ones(2)) for _ in range(3)]
tell(*results)
"""

# Tables whose keys are classes, a key that the trace also compares as an object, and unions of types. The second
# process may have more in its tables.
TABLES = """
import copy
import dataclasses


class First:
    number = 1


class Second(First):
    number = None


class Field:
    __slots__ = ("kind", "mode")

    def __init__(self):
        self.kind, self.mode = int | None, "fast"


field = Field()
factors = {First: 2.0, Second: 3.0}
modes = {"fast": 4.0}
things = [First(), Second()]


@pijit.jit
def f(x):
    seen = {}
    for thing in things:
        x = x * factors[type(thing)]
        if isinstance(thing, Second | str):
            x = x + 1
        if isinstance(thing.number, field.kind):
            x = x + 2
        x = x * modes[field.mode] + (id(field.mode) in seen)
        seen[id(field.mode)] = field.mode
    return x, field.kind, copy.deepcopy(field.mode)


# more
results = [f(torch.ones(2)), f(torch.zeros(2)), f(torch.ones(2))]
tell(*results)
"""
MORE_IN_TABLES = """
factors[str] = 5.0
factors[type("Later", (), {})] = 6.0
modes["slow"] = 7.0
"""

# What is replayed in the second process from the first call on.
REPLAYED = {
    "modules": MODULES,
    "own module": OWN_MODULE,
    "function": FUNCTION,
    "argument": ARGUMENT,
    "closure": CLOSURE,
    "numbers of objects": NUMBERS_OF_OBJECTS,
    "numbers of equal objects": EQUAL,
    "cached functions": CACHED,
    "functions and ranges": OF_FUNCTIONS,
    "deep copy": DEEP_COPY,
    "told by its address": TOLD_BY_ADDRESS,
}

# What is changed between the processes, in the text of a program.
CHANGES = [
    (OWN_MODULE, "x = self.act(layer(x)) * self.scale", "x = layer(self.act(x)) * self.scale"),
    (OWN_MODULE, "scale = 2.0", "scale = 3.0"),
    (OWN_MODULE, "self.eps = 1e-3", "self.eps = 1e-2"),
    (OWN_MODULE, "torch.nn.GELU()", "torch.nn.ReLU()"),
    (OWN_MODULE, "torch.nn.GELU()", "torch.nn.GELU('tanh')"),
    (OWN_MODULE, "range(3)", "range(2)"),
    (OWN_MODULE, "torch.nn.Linear(4, 4)", "torch.nn.Linear(4, 4, bias=False)"),
    (OWN_MODULE, "with torch.no_grad():", "with torch.enable_grad():"),
    (FUNCTION, '"times": 3', '"times": 4'),
    (FUNCTION, "x * by", "x + by"),
    (FUNCTION, "torch.float64", "torch.float16"),
    (FUNCTION, "flag=True", "flag=False"),
    (FUNCTION, "weight = torch.arange(12.0).reshape(3, 4)", "weight = torch.arange(12).reshape(3, 4) * 0.5"),
    (FUNCTION, "def twice(x, by=2):", "torch.cat = lambda all, dim: all[1] - 1\n\n\ndef twice(x, by=2):"),
    (ARGUMENT, "torch.nn.Linear(4, 3)", "torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh())"),
    (CLOSURE, "f = make(3)", "f = make(4)"),
    (TOLD_BY_ADDRESS, "scale = 2.0", "scale = 4.0"),
    (TOLD_BY_ADDRESS, "    scale = 2.0\n", "    scale = property(lambda self: 5.0)\n"),
    (DEEP_COPY, "self.shared = self.sizes", "self.shared = [1, 2, [3]]"),
    (DEEP_COPY, "config = Config()", "config = Config()\nconfig.sizes.append(config.sizes)"),
    (DEEP_COPY, "results +=", "config.mixed = config.mixed + (config.names,)\nresults +="),
    (DEEP_COPY, "results +=", "config.sizes[1] = 5\nresults +="),
    (DEEP_COPY, "class Config:", "class Config:\n    def __deepcopy__(self, memo):\n        return self\n"),
    (TABLES, "int | None", "str | None"),
    (TABLES, "int | None", "float | None"),
    (TABLES, "Second | str", "First | str"),
    (TABLES, "# more", "factors[Second] = 5.0"),
    (TABLES, "# more", "modes['fast'] = 5.0"),
    (TABLES, "# more", "del modes['fast']\nmodes['fa' + 'st'] = 6.0"),
    (OF_FUNCTIONS, "range(1, 7, 2)", "range(1, 7, 3)"),
    (OF_FUNCTIONS, "eps=1e-3", "eps=1e-1"),
    (OF_FUNCTIONS, "torch.nn.functional.layer_norm, normal", "lambda x, **options: x + options['eps'], normal"),
    (OF_FUNCTIONS, '"bias"}', '"weight"}'),
    (OF_FUNCTIONS, "known = {torch.nn.Linear, ", "known = {"),
    (MODULES, "torch.nn.Tanh()", "torch.nn.Sigmoid()"),
    (MODULES, "torch.nn.LayerNorm(4)", "torch.nn.LayerNorm(4, eps=0.5)"),
    (MODULES, "pijit.jit(net)", "torch.nn.functional.linear = lambda x, w, b: x @ w.T - b\npijit.jit(net)"),
    (MODULES, "pijit.jit(net)", "torch.Tensor.__mul__ = lambda a, b: a + b\npijit.jit(net)"),
    (MODULES, "pijit.jit(net)", "net[1].register_forward_hook(lambda m, i, o: o * 2)\npijit.jit(net)"),
    (NUMBERS_OF_OBJECTS, "layers = [first, torch.nn.Linear(3, 3), first]", "layers = [first, first, first]"),
    (EQUAL, "layers = [first, first, first]", "layers = [first, torch.nn.Linear(3, 3), first]"),
    (EQUAL, "layers = [first, first, first]", "layers = [torch.nn.Linear(3, 3) for _ in range(3)]"),
    (NUMBERS_OF_OBJECTS, "@functools.wraps(scale)", "@functools.wraps(lambda x, *, by=3: x - by)"),
    (MODULES, "pijit.jit(net)", "net.train(False)\npijit.jit(net)"),
]


IDENTITY = """
class Pair:
    def __init__(self, first, second):
        self.items = (first, second)
        self.first = first
        self.second = second


shared = torch.nn.Linear(3, 3)
pair = Pair(shared, shared if SAME else torch.nn.Linear(3, 3))
pair.first = pair.items[FIRST]


@pijit.jit
def f(x):
    y = pair.first(x)
    if pair.first is pair.items[0]:
        y = y * 2
    for item in pair.items:
        y = item(y)
    return pair.second(y)


with torch.no_grad():
    results = [f(torch.ones(2, 3)), f(torch.ones(2, 3)), f(torch.ones(2, 3))]
tell(*results)
"""
FORMS = [f"SAME, FIRST = {same}, {first}\n" + IDENTITY for same in (True, False) for first in (0, 1)]

NOT_IMPORTED = """
if FIRST:
    import wave


@pijit.jit
def f(x):
    import sys
    module = sys.modules.get("wave")
    return x * (2 if module is None else 3)


tell(f(torch.ones(2)), f(torch.ones(2)), "wave" in sys.modules)
"""

# What another process has otherwise: addresses, hashes of text, the order of a set.
OF_THIS_PROCESS = {
    "id": "x + id(thing) % 1000",
    "hash of an object": "x + hash(thing) % 1000",
    "hash of text": "x + hash(name) % 1000",
    "hash of a tuple": "x + hash((name, 'b')) % 1000",
    "hash by its method": "x + name.__hash__() % 1000",
    "order of a set": "[x + ord(each) for each in names]",
    "order of a frozenset": "[x + ord(each) for each in frozen]",
    "list of a frozenset": "(x, list(frozen))",
    "order of a set that is made": "[x + ord(each[0]) for each in {name, 'b', 'c', 'd'}]",
    "set of a set": "(x, list(frozen | {name, 'x', 'y', 'z'}))",
    "text of a set": "(x, str(frozen), f'{names}')",
    "text of an object": "(x, repr(thing), str(thing), f'{thing}')",
    "id as an item": "x + sum({id(thing): 1}) % 1000",
    "id in a tuple": "x + hash((id(thing), 1)) % 1000",
    "id as text": "(x, str({id(thing): 1}), f'{id(thing)}')",
    "id by map": "(x, list(map(id, [thing])))",
    "order of ids": "x + (1 if id(thing) < id(name) else 2)",
    "sorted by id": "(x, sorted([name, 'b', 'c'], key=id))",
    "id compared": "x + (id(thing) == other) + (id(name) == other)",
    "id of a global computed with": "x + other % 1000 + (other in {id(thing): 1})",
    "keys of ids": "x + [each % 1000 for each in {id(thing): 1}][0]",
    "values that are ids": "x + {1: id(thing)}[1] % 1000",
    "id as an argument": "x + remainder(id(thing))",
    "id of a closure": "x + (lambda number: lambda: number % 1000)(id(thing))()",
    "id of an exception": "x + missing({id(name): 1}, id(thing))",
    "id of an attribute": "x + attribute(id(thing))",
    "text of an exception": "x + int(missing_text(id(thing))) % 1000",
    "arguments of an exception": "x + missing_argument(id(thing)) % 1000",
    "exception that is handled": "x + len(missing_handled(id(thing))) + int(missing_handled(id(thing))[10:16])",
    "constant of an id": "x + constant_of(id(thing))",
    "id of None": "x + id(None) % 1000 + ({id(None): 1, id(True): 2}.get(id(True)))",
    "id got by a default": "x + {id(thing): 1}.get(id(name), id(thing)) % 1000",
    "id beside a number": "x + {other: 2}.get(id(thing), 3)",
    "id itself": "(x, id(thing), {id(thing): 1})",
    "membership": "x + (2 if 'b' in frozen else 3) + ('q' in names) + table[Colour.RED]",
}
PROCESS = """
import enum


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Holder:
    pass


def remainder(number):
    return number % 1000


def missing(table, number):
    try:
        return table[number]
    except KeyError as error:
        return error.args[0] % 1000


def missing_text(number):
    try:
        return {}[number]
    except KeyError as error:
        return str(error)


def missing_argument(number):
    try:
        return {}[number]
    except KeyError as error:
        (found,) = error.args
        return found


def missing_handled(number):
    try:
        return {}[number]
    except KeyError:
        return f"{sys.exc_info()[1]!r}"


@pijit.constant
def constant_of(number):
    return number % 1000


def attribute(number):
    holder = Holder()
    holder.number = number
    return holder.number % 1000


thing, name = object(), "abc"
other = id(thing)
names, frozen = set("abcdefgh"), frozenset("ijklmnop")
table = {Colour.RED: 5, Colour.BLUE: 6}


x = torch.ones(2)
results, functions = [], []
for what in WHAT:
    exec("def plain(x): return " + what)
    functions.append(plain)  # they live to the end
    f, before = pijit.jit(plain), pijit.stats()["records"]
    same = [words(f(each)) == words(plain(each)) for each in (x, x * 2, x * 3)]
    results.append([*same, pijit.stats()["records"] - before])
tell(results)
"""

# What each case runs in the first process, in the second, and so on, with a cache of its own.
CASES: dict[str, list[list[str]]] = {
    **{name: [[program], [program]] for name, program in REPLAYED.items()},
    "tables": [[TABLES], [TABLES]],
    "more in tables": [[TABLES], [TABLES.replace("# more", MORE_IN_TABLES)]],
    "training": [[TRAINING], [TRAINING]],
    "changed before the call": [[CHANGED], [CHANGED]],
    "there before the call": [[LATER], [LATER]],
    "made by a call": [[MADE_BY_A_CALL], [MADE_BY_A_CALL]],
    **{
        f"{number}: {after}": [[program], [program.replace(before, after), program]]
        for number, (program, before, after) in enumerate(CHANGES)
    },
    "other code": [[FUNCTION], [FUNCTION.replace("y.relu()", "y.sin()")]],
    "identity": [FORMS, FORMS[::-1]],
    "imports": [["FIRST = True\n" + NOT_IMPORTED], [f"FIRST = {first}\n" + NOT_IMPORTED for first in (False, True)]],
    "own": [[PROCESS.replace("WHAT", repr([*OF_THIS_PROCESS.values()]))]] * 3,
}


class Ran:
    """What the programs of a case have told in each process, and the files after it."""

    def __init__(self) -> None:
        self.told: list[list[dict[str, Any]]] = []
        self.files: list[int] = []

    def check(self) -> None:
        """Each gives what plain Python gives in its process."""
        for each in (each for told in self.told for each in told):
            assert each["results"] == each["plain"], each["log"]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ran]:
    """All cases, in processes that have other addresses and hashes of text."""
    places = {name: tmp_path_factory.mktemp("case") / "cache" for name in CASES}
    found = {name: Ran() for name in CASES}
    for turn in range(max(map(len, CASES.values()))):
        cases = {name: case[turn] for name, case in CASES.items() if turn < len(case)}
        told = iter(
            run_all(
                [(program, places[name]) for name, programs in cases.items() for program in programs],
                PYTHONHASHSEED=str(turn + 1),
            )
        )
        for name, programs in cases.items():
            found[name].told.append([next(told) for _ in programs])
            found[name].files.append(len([*places[name].glob("*.pijit")]))
    return found


@pytest.mark.parametrize("name", REPLAYED)
def test_the_second_process_records_nothing(name: str, ran: dict[str, Ran]) -> None:
    """It replays from the first call on."""
    ran[name].check()
    (first,), (second,) = ran[name].told
    assert first["records"] > 0
    assert first["hits"] == 0
    assert (second["records"], second["misses"], second["hits"]) == (0, 0, 1), second["log"]
    assert second["replays"] >= first["replays"] + first["records"]


@pytest.mark.parametrize(
    ("name", "hits"),
    [("changed before the call", 2), ("there before the call", 1), ("tables", 2), ("more in tables", 2)],
)
def test_what_is_another_at_the_first_call_is_found_then(name: str, hits: int, ran: dict[str, Ran]) -> None:
    """Where jit has found nothing, or other objects, the call looks again."""
    ran[name].check()
    (first,), (second,) = ran[name].told
    assert first["records"] > 0
    assert (second["records"], second["misses"], second["hits"]) == (0, 0, hits), second["log"]


def test_what_the_first_call_makes_is_found_by_the_second(ran: dict[str, Ran]) -> None:
    """A trace of which an object was not there is tried again before another one is recorded."""
    ran["made by a call"].check()
    (first,), (second,) = ran["made by a call"].told
    assert first["records"] == 2
    assert second["records"] == 0, second["log"]
    assert second["replays"] == 4


def test_a_training_step_is_right(ran: dict[str, Ran]) -> None:
    """Whether its trace can be kept or not."""
    ran["training"].check()


@pytest.mark.parametrize(
    ("number", "program", "before"),
    [pytest.param(number, *each[:2], id=each[2][:60]) for number, each in enumerate(CHANGES)],
)
def test_a_change_is_seen(number: int, program: str, before: str, ran: dict[str, Ran]) -> None:
    """A process whose program differs gives what plain Python gives for it, and so does the first program again."""
    assert before in program
    case = ran[f"{number}: {CHANGES[number][2]}"]
    case.check()
    assert [len(told) for told in case.told] == [1, 2]


def test_files_are_kept_apart_by_code(ran: dict[str, Ran]) -> None:
    """A file of the old code stays, and the new one has its own."""
    ran["other code"].check()
    assert ran["other code"].files == [1, 2]


def test_objects_that_were_one_are_two(ran: dict[str, Ran]) -> None:
    """And two that are one; a tuple that cannot change is looked into by no guard."""
    ran["identity"].check()


def test_a_file_imports_nothing(ran: dict[str, Ran]) -> None:
    """A module that the first process had is not imported for its sake."""
    ran["imports"].check()
    assert [told["results"][2] for turn in ran["imports"].told for told in turn] == ["True", "False", "True"]


@pytest.mark.parametrize("what", OF_THIS_PROCESS)
def test_what_a_process_has_for_itself_is_not_kept(what: str, ran: dict[str, Ran]) -> None:
    """Each process gives what plain Python gives there."""
    index = [*OF_THIS_PROCESS].index(what)
    rows = [told["results"][0][index] for (told,) in ran["own"].told]
    assert [row[:3] for row in rows] == [["True"] * 3] * 3
    if what == "membership":
        assert [row[3] for row in rows[1:]] == ["0", "0"]
