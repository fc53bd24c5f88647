"""Writes small programs at random, of the statements that Python programs are made of.

A program is reproduced by its number. Variables have a kind (a number, a text, a list, a dict, a Thing, ...), and most
statements fit the kinds of what they name: so most of a program runs, and what raises is as often caught as not. Things
tell when they die; what is made is described, and what is alive, by the comparison that runs the program.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).parent
PRELUDE = """
import bisect
import collections
import contextlib
import heapq
import itertools
import re
import weakref

deaths = []
seen = []
k = 3
numbers = [3, 1, 2]
table = {"a": 1, "b": [2], 3: "c"}
switch = True


class Thing:
    limit = 4

    def __init__(self, tag, *more):
        self.tag = tag
        self.items = list(more)

    def grow(self, n=1, *, by=2):
        self.items.append(n * by)
        return self

    @property
    def size(self):
        return len(self.items) + k

    @size.setter
    def size(self, n):
        self.items = [n] * 2

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]

    def __contains__(self, x):
        return x == self.tag or x in self.items

    def __add__(self, other):
        return Thing(self.tag, *self.items, other)

    def __getattr__(self, name):
        if name == "extra":
            return self.limit
        raise AttributeError(name)


class Sub(Thing):
    limit = 5

    def __init__(self, tag, *more):
        super().__init__(tag, *more)
        self.sub = [tag]

    def grow(self, n=1, *, by=3):
        super().grow(n, by=by)
        return self

    def __enter__(self):
        self.items.append("in")
        return self

    def __exit__(self, kind, error, traceback):
        self.items.append("out" if kind is None else kind.__name__)
        return kind is KeyError

    def __bool__(self):
        return len(self.items) % 2 == 0


class Mortal(Thing):
    def __del__(self):
        deaths.append(vars(self).get("tag"))


class Slotted(Thing):
    __slots__ = ("extra", "other")

    def __eq__(self, other):
        return isinstance(other, Slotted) and self.items == other.items

    __hash__ = None


shared = Sub("shared", 1)


@contextlib.contextmanager
def noted(x):
    seen.append(x)
    try:
        yield x
    finally:
        seen.append(k)


def pieces(n, *rest):
    thing = Thing(("piece", n))
    for i in range(n):
        got = yield i * k
        if got is not None:
            thing.grow(got)
    yield from rest
    return len(thing)


def helper(x, y=2, *more, flag=False, **rest):
    if flag:
        return [x, y, *more]
    return {"x": x, "y": y, **rest}


def risky(n):
    if n % 3 == 1:
        raise ValueError(n, "risky")
    if n % 3 == 2:
        return numbers[n]
    return n // (n % 2)


def alive(x):
    try:
        return weakref.ref(x)
    except TypeError:
        return lambda: x
"""

LITERALS = {"number": "k", "text": "'a'", "list": "numbers", "dict": "table", "thing": "shared", "pair": "(1, k)"}
KINDS = tuple(LITERALS)


class Writer:
    """One program."""

    kinds: tuple[str, ...] = KINDS
    literals = LITERALS
    prelude = PRELUDE
    shared_names = "k, numbers, table, switch, shared, given"
    changes: tuple[str, ...] = (
        "k = 5",
        "numbers.append(7)",
        "numbers = [4, 4]",
        "table['b'] = [k]",
        "table = {'x': 1}",
        "switch = False",
        "shared.items = [8]",
        "shared = Thing('other', 2)",
        "Thing.limit = 9",
        "shared.other = 1",
        "table.pop('b', None)",
        "Sub.grow = Thing.grow",
        "given = [2, 'other', [], {'a': 1}]",
        "given = [1, 'b', numbers, table]",
        "given[2].append(5)",
        "given[0] = 2",
    )

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.depth = 1
        self.names: dict[str, list[str]] = {kind: [] for kind in self.literals}
        self.count = 0
        self.loops = 0
        self.budget = 18

    # --- choices ------------------------------------------------------------------------------------

    def one(self, *ways: Callable[[], str]) -> str:
        return self.random.choice(ways)()

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def new(self, kind: str) -> str:
        self.count += 1
        name = f"{kind[0]}{self.count}"
        self.names[kind].append(name)
        return name

    def name(self, kind: str) -> str:
        return self.random.choice(self.names[kind])

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    # --- expressions --------------------------------------------------------------------------------

    def value(self, kind: str, deep: int = 0) -> str:
        if self.chance(0.3 + 0.2 * deep):
            return self.name(kind) if self.names[kind] else self.literals[kind]
        return getattr(self, kind)(deep + 1)

    def anything(self, deep: int = 0) -> str:
        return self.value(self.random.choice(self.kinds), deep)

    def number(self, deep: int) -> str:
        n = lambda: self.value("number", deep)  # noqa: E731
        return self.one(
            lambda: str(self.random.randrange(-2, 9)),
            lambda: "k",
            lambda: f"({n()} {self.random.choice('+-*')} {n()})",
            lambda: f"({n()} {self.random.choice(['//', '%', '&', '|', '^'])} {n()})",
            lambda: f"len({self.value(self.random.choice(['list', 'dict', 'text', 'thing']), deep)})",
            lambda: f"{self.value('thing', deep)}.{self.random.choice(['size', 'extra', 'limit'])}",
            lambda: f"sum({self.numbers(deep)})",
            lambda: f"max({self.numbers(deep)}, default={n()})",
            lambda: f"({n()} if {self.condition(deep)} else {n()})",
            lambda: f"abs({n()}) % 7",
            lambda: f"sum(i * {n()} for i in {self.numbers(deep)})",
            lambda: f"next(iter({self.numbers(deep)}), {n()})",
            lambda: f"int({self.value('text', deep)} or 1)",
            lambda: f"risky({n()})",
        )

    def numbers(self, deep: int) -> str:
        n = lambda: self.value("number", deep + 1)  # noqa: E731
        return self.one(
            lambda: "numbers",
            lambda: f"range({n()} % 6)",
            lambda: f"[{n()}, {n()}]",
            lambda: f"(i + {n()} for i in numbers)",
            lambda: f"pieces({n()} % 4)",
            lambda: f"map(lambda i: i + {n()}, numbers)",
            lambda: f"sorted([{n()}, {n()}, k], key=lambda i: -i)",
            lambda: f"{{{n()}, {n()}}}",
        )

    def text(self, deep: int) -> str:
        t = lambda: self.value("text", deep)  # noqa: E731
        return self.one(
            lambda: repr(self.random.choice(["a", "b", "long text", "", "3"])),
            lambda: f"format({self.value('number', deep)}, '>3')",
            lambda: f"f'{{{self.name('number')}}}{{{self.name('text')}!r:>4}}'",
            lambda: f"({t()} + {t()})",
            lambda: f"{t()}.upper()",
            lambda: f"{t()}[{self.random.choice(['1:', ':-1', '::2'])}]",
            lambda: f"str({self.value('number', deep)})",
            lambda: f"'-'.join(str(i) for i in {self.value('list', deep)} if isinstance(i, int))",
            lambda: f"'%s:%r' % ({self.value('number', deep)}, {t()})",
            lambda: f"re.sub('a', 'x', {t()})",
        )

    def list(self, deep: int) -> str:
        a = lambda: self.anything(deep)  # noqa: E731
        return self.one(
            lambda: f"[{a()}, {a()}]",
            lambda: f"[{a()}, *{self.value('list', deep)}]",
            lambda: f"list({self.numbers(deep)})",
            lambda: f"{self.value('thing', deep)}.items",
            lambda: f"[{self.value('number', deep)} for i in {self.numbers(deep)} if i {self.random.choice('<>')} k]",
            lambda: f"list({self.value('dict', deep)})",
            lambda: f"{self.value('list', deep)}[{self.random.choice(['1:', ':-1', '::-1', ':'])}]",
            lambda: f"sorted({self.numbers(deep)}, reverse={self.condition(deep)})",
            lambda: f"({self.value('list', deep)} + {self.value('list', deep)})",
            lambda: f"[*zip({self.numbers(deep)}, {self.value('list', deep)})]",
            lambda: f"[*itertools.chain({self.numbers(deep)}, {self.value('list', deep)})]",
            lambda: f"helper({a()}, {a()}, {a()}, flag=True)",
            lambda: "numbers",
        )

    def dict(self, deep: int) -> str:
        a = lambda: self.anything(deep)  # noqa: E731
        return self.one(
            lambda: f"{{{self.value('text', deep)}: {a()}, {self.value('number', deep)}: {a()}}}",
            lambda: f"{{**{self.value('dict', deep)}, 'x': {a()}}}",
            lambda: f"helper({a()}, z={a()})",
            lambda: f"dict(x={a()}, y={a()})",
            lambda: f"{{i: {a()} for i in {self.numbers(deep)}}}",
            lambda: f"dict(enumerate({self.value('list', deep)}))",
            lambda: f"vars({self.value('thing', deep)}).copy()",
            lambda: "table",
        )

    def thing(self, deep: int) -> str:
        self.count += 1
        tag = f"'t{self.count}'"
        return self.one(
            lambda: f"Thing({tag})",
            lambda: f"Mortal({tag})",
            lambda: f"Slotted({tag}, {self.value('number', deep)})",
            lambda: f"Sub({tag}, {self.anything(deep)})",
            lambda: f"Thing({tag}, *{self.value('list', deep)})",
            lambda: f"{self.value('thing', deep)}.grow({self.value('number', deep)})",
            lambda: f"{self.value('thing', deep)}.grow(by={self.value('number', deep)})",
            lambda: f"({self.value('thing', deep)} + {self.anything(deep)})",
            lambda: "shared",
        )

    def pair(self, deep: int) -> str:
        a = lambda: self.anything(deep)  # noqa: E731
        return self.one(
            lambda: f"({a()}, {a()})",
            lambda: f"divmod({self.value('number', deep)}, {self.value('number', deep)})",
            lambda: f"({a()}, *{self.value('list', deep)})",
            lambda: f"tuple({self.value('list', deep)})",
            lambda: f"tuple({self.value('dict', deep)}.items())",
        )

    def condition(self, deep: int = 0) -> str:
        return self.one(
            lambda: (
                f"{self.value('number', deep)} {self.random.choice(['<', '>', '==', '!='])} "
                f"{self.value('number', deep)}"
            ),
            lambda: f"{self.anything(deep)} in {self.value(self.random.choice(['list', 'thing', 'pair']), deep)}",
            lambda: f"not {self.anything(deep)}",
            lambda: f"{self.value('number', deep)} in {self.value('dict', deep)}",
            lambda: f"{self.anything(deep)} is {self.anything(deep)}",
            lambda: f"isinstance({self.anything(deep)}, {self.random.choice(['Thing', 'Sub', '(int, str)', 'dict'])})",
            lambda: f"hasattr({self.anything(deep)}, {self.random.choice(['tag', 'extra', 'items'])!r})",
            lambda: "switch",
            lambda: f"any(i > {self.value('number', deep)} for i in {self.numbers(deep)})",
            lambda: f"all({self.value('list', deep)})",
            lambda: f"{self.value('thing', deep)} and {self.value('number', deep)}",
            lambda: f"{self.value('list', deep)} == {self.value('list', deep)}",
        )

    # --- statements ---------------------------------------------------------------------------------

    def block(self, most: int = 3) -> None:
        """Names that a block binds may be unbound after it: at which instruction CPython finds that out depends on what
        it has specialised.
        """
        self.depth += 1
        before = {kind: list(names) for kind, names in self.names.items()}
        for _ in range(self.random.randint(1, most)):
            self.statement()
        self.depth -= 1
        self.names = before

    def statement(self) -> None:
        self.budget -= 1
        plain = (self.bind, self.bind, self.update, self.update, self.update, self.note, self.forget)
        nested = (self.branch, self.loop, self.caught, self.within, self.closure, self.generator, self.class_)
        if self.budget > 0 and self.depth < 5 and self.chance(0.4):
            self.random.choice(nested)()
        else:
            self.random.choice(plain)()

    def bind(self) -> None:
        kind = self.random.choice(self.kinds)
        value = self.value(kind, -1)
        self.line(f"{self.name(kind) if self.chance(0.4) else self.new(kind)} = {value}")

    def update(self) -> None:
        a, n = self.anything, lambda: self.value("number")
        items, table, thing = self.value("list"), self.value("dict"), self.value("thing")
        key = self.one(n, lambda: self.value("text"), lambda: "'a'", lambda: "'x'")
        self.line(
            self.one(
                lambda: f"{items}.append({a()})",
                lambda: f"{items}.insert({n()}, {a()})",
                lambda: f"{items}.pop({self.random.choice(['', '0', '-1'])})",
                lambda: f"{items}[{self.random.choice(['0', '-1', n()])}] = {a()}",
                lambda: f"{items}[{self.random.choice(['1:', ':1', '1:2'])}] = {self.value('list')}",
                lambda: f"del {items}[{self.random.choice(['0', '-1', '1:', ':1'])}]",
                lambda: f"{items}.extend({self.numbers(1)})",
                lambda: f"{items}.{self.random.choice(['reverse', 'clear'])}()",
                lambda: f"{items}.sort(key=lambda i: str(type(i)))",
                lambda: f"heapq.heappush({items}, {n()})",
                lambda: f"bisect.insort(numbers, {n()})",
                lambda: f"{table}[{key}] = {a()}",
                lambda: f"del {table}[{key}]",
                lambda: f"{table}.pop({key}, {a()})",
                lambda: f"{table}.setdefault({key}, {a()})",
                lambda: f"{table}.update({self.value('dict')})",
                lambda: f"{table}.popitem()",
                lambda: f"{thing}.{self.random.choice(['tag', 'items', 'extra', 'size', 'other'])} = {a()}",
                lambda: f"del {thing}.{self.random.choice(['items', 'extra', 'other', 'tag'])}",
                lambda: f"setattr({thing}, {self.random.choice(['tag', 'other'])!r}, {a()})",
                lambda: f"{self.name('number')} {self.random.choice(['+=', '-=', '*='])} {n()}",
                lambda: f"{self.name('list')} += {self.value('list')}",
                lambda: "{2}, *{1} = {0}".format(self.value("list"), self.new("list"), self.new("number")),
                lambda: f"{self.name('thing')}, {self.name('thing')} = {self.value('thing')}, {self.value('thing')}",
                lambda: f"Thing.limit = {n()}",
                lambda: f"print({a()} is not None, {n()})",
            )
        )

    def note(self) -> None:
        what = self.one(
            lambda: f"({self.anything()}, {self.anything()})",
            lambda: "len(deaths)",
            lambda: f"alive({self.value('thing')})() is None",
            lambda: f"type({self.anything()}).__name__",
            lambda: f"list(vars({self.name('thing')}))",
        )
        self.line(f"out.append({what})")

    def forget(self) -> None:
        kind = self.random.choice(self.kinds)
        name = self.name(kind)
        if self.chance(0.3) and self.depth == 1:
            self.line(f"del {name}")
            self.line("out.append(len(deaths))")
            self.line(f"{name} = {self.literals[kind]}")
        self.line(f"{name} = {self.value(kind)}")
        self.line("out.append(len(deaths))")

    def branch(self) -> None:
        self.line(f"if {self.condition()}:")
        self.block()
        if self.chance(0.5):
            self.line(f"elif {self.condition()}:" if self.chance(0.3) else "else:")
            self.block()

    def loop(self) -> None:
        before = {kind: list(names) for kind, names in self.names.items()}
        if self.chance(0.15):
            limit = self.new("number")
            self.line(f"{limit} = 0")
            self.line(f"while {limit} < 4 and {self.condition()}:")
            self.line(f"    {limit} += 1")
        else:
            self.line(
                self.one(
                    lambda: "for {1} in {0}:".format(self.numbers(0), self.new("number")),
                    lambda: "for {1}, x in enumerate({0}[:4]):".format(self.value("list"), self.new("number")),
                    lambda: "for x, {2} in zip({0}, {1}):".format(
                        self.value("text"), self.numbers(0), self.new("number")
                    ),
                    lambda: f"for x in {self.value('list')}[:4]:",
                    lambda: f"for x, y in list({self.value('dict')}.items()):",
                    lambda: "for {1} in {0}[:3]:".format(self.value("text"), self.new("text")),
                )
            )
        self.loops += 1
        self.block()
        if self.chance(0.4):
            self.line(f"    if {self.condition()}:")
            self.line(f"        {self.random.choice(['break', 'continue', 'return out'])}")
            self.line("    out.append('round')")
        self.loops -= 1
        if self.chance(0.2):
            self.line("else:")
            self.block(1)
        self.names = before

    def caught(self) -> None:
        self.line("try:")
        self.block()
        if self.chance(0.3):
            self.line(f"    raise {self.random.choice(['KeyError', 'ValueError', 'IndexError'])}({self.anything()})")
        if self.chance(0.8):
            kind = self.random.choice(["Exception", "(KeyError, IndexError)", "ValueError", "LookupError"])
            self.line(f"except {kind} as error:")
            self.line("    out.append((type(error), error.args))")
            self.block(1)
            if self.chance(0.2):
                self.line(f"    raise TypeError({self.anything()}){self.random.choice([' from error', ''])}")
            if self.chance(0.2):
                self.line("else:")
                self.block(1)
            if self.chance(0.3):
                self.line("finally:")
                self.block(1)
        else:
            self.line("finally:")
            self.block(1)

    def within(self) -> None:
        made = self.one(
            lambda: "Sub('w', {0}) as {1}".format(self.anything(), self.new("thing")),
            lambda: "noted({0}) as {1}".format(self.value("number"), self.new("number")),
            lambda: "contextlib.suppress(KeyError, ValueError)",
            lambda: f"noted({self.value('list')}), shared",
        )
        self.line(f"with {made}:")
        self.block()

    def closure(self) -> None:
        self.count += 1
        inner, kept = f"inner{self.count}", self.name(self.random.choice(self.kinds))
        self.line(f"def {inner}(x, y={self.anything()}):")
        if self.chance(0.5) and kept not in ("a", "b", "c", "d", "e", "g"):
            self.line(f"    nonlocal {kept}")
            self.line(f"    out.append({kept})")
            self.line(f"    {kept} = x")
        self.line(f"    out.append({self.anything()})")
        self.line(f"    return [x, y, {self.anything()}]")
        for _ in range(self.random.randint(1, 2)):
            given = self.anything()
            self.line(f"{self.new('list')} = {inner}({given})")

    def class_(self) -> None:
        self.count += 1
        name = f"Local{self.count}"
        base = self.random.choice(["", "(Thing)", "(Mortal)", "(Slotted)", "(type(shared))", "(Thing, tag=1)"])
        self.line(f"class {name}{base}:")
        for i in range(self.random.randint(1, 4)):
            self.line(
                self.one(
                    lambda i=i: f"    x{i} = {self.anything()}",
                    lambda i=i: f"    x{i}: int = {self.value('number')}",
                    lambda: f"    x0 = [x1 for x1 in {self.numbers(0)}]",
                    lambda: f"    for x1 in {self.numbers(0)}: x2 = x1",
                    lambda: f"    if {self.condition()}: x3 = {self.anything()}",
                    lambda: f"    def get(self, y={self.anything()}): return [y, {self.anything()}]",
                    lambda: f"    get = property(lambda self: {self.anything()})",
                    lambda: f"    get = staticmethod(lambda *y: {self.anything()})",
                    lambda: f"    def know(self): return __class__, {self.anything()}",
                    lambda: f"    x0 = {self.value('thing')}.grow({self.value('number')})",
                    lambda: f"    x1 = risky({self.value('number')})",
                    lambda: f"    out.append({self.anything()})",
                    lambda: "    x0 = 1; del x0",
                )
            )
        for _ in range(self.random.randint(1, 3)):
            self.line(
                self.one(
                    lambda: f"out.append([(key, {name}.__dict__[key]) for key in {name}.__dict__ if key[0] == 'x'])",
                    lambda: f"out.append(getattr({name}, '{self.random.choice(['x0', 'x1', 'x2', 'x3', 'get'])}', 0))",
                    lambda: f"if not hasattr({name}, 'tag'): {self.new('thing')} = {name}",
                    lambda: f"out.append({self.anything()})",
                )
            )

    def generator(self) -> None:
        self.count += 1
        name = f"gen{self.count}"
        self.line(
            self.one(
                lambda: f"{name} = pieces({self.value('number')} % 5, *{self.value('list')})",
                lambda: f"{name} = (({self.anything()}, i) for i in {self.numbers(0)})",
                lambda: f"{name} = iter({self.value('list')})",
                lambda: f"{name} = map(lambda i: ({self.anything()}, i), {self.numbers(0)})",
            )
        )
        for _ in range(self.random.randint(1, 3)):
            self.line(
                self.one(
                    lambda: f"out.append(next({name}, 'end'))",
                    lambda: f"{self.new('list')} = list(itertools.islice({name}, 2))",
                    lambda: f"out.append([*{name}])",
                    lambda: (
                        f"if hasattr({name}, 'send') and next({name}, None) is not None: "
                        f"out.append({name}.send({self.value('number')}))"
                    ),
                    lambda: f"if hasattr({name}, 'close'): {name}.close()",
                )
            )
            if self.chance(0.3):
                self.statement()

    def setup(self) -> None:
        """Arguments, and variables that all programs have."""
        self.names = {"number": ["a"], "text": ["b"], "list": ["c"], "dict": ["d"], "thing": ["e"], "pair": ["g"]}
        self.line(f"e = {self.random.choice(['Thing', 'Sub'])}('e', a)")
        self.line("g = (a, b)")

    def program(self) -> str:
        """The text: the prelude, `f`, its arguments and what changes between calls."""
        self.lines = ["def f(a, b, c, d):", "    out = []"]
        self.setup()
        for _ in range(self.random.randint(4, 8)):
            self.statement()
        self.line(f"return out, {self.anything()}, {self.anything()}")
        first, second = (self.random.sample(self.changes, 2) for _ in range(2))
        given = self.random.choice(["[1, 'b', [1, 2], {'a': 1}]", "[3, 'text', numbers, {}]", "[0, '', [], table]"])
        fresh = self.random.choice(["tuple(given)", "(given[0], given[1], list(given[2]), dict(given[3]))"])
        tail = [f"given = {given}", "", "", "def args():", f"    return {fresh}", ""]
        for name, steps in (("change", first), ("undo", second)):
            tail += ["", f"def {name}():", f"    global {self.shared_names}", *(f"    {step}" for step in steps), ""]
        return "\n".join([self.prelude, "", *self.lines, "", "", *tail])


def program(seed: int) -> str:
    """The text of the program of that number."""
    return Writer(seed).program()
