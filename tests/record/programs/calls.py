# ruff: noqa
"""Calls of every argument kind, closures, recursion, callables of all sorts; each followed by a change of what was called."""


# %% global_number_rebound: f(2); k = 1 -> 5
def f(x):
    return x + k


# %% global_function_rebound: f(7); change g = lambda x: (x, "other")
def g(x):
    return [x, "g"]


def f(x):
    return g(x)


# %% global_deleted: change del k; undo k = 4
k = 3


def f():
    return k


# %% global_shadows_builtin: f([1, 2, 3]); change globals()["len"] = lambda x: "mine"; undo del globals()["len"]
def f(x):
    return len(x)


# %% positional_or_keyword: f(4)
def g(a, b, c):
    return a, b, c


def f(x):
    return g(x, c=1, b=2), g(1, 2, x), g(a=x, b=1, c=0)


def change():
    global g

    def g(c, b, a):
        return a, b, c


# %% star_arguments: change many["r"] = 9; change del many["p"]
def g(*args, **kwargs):
    return args, kwargs


def f(x, *rest, y, **more):
    return g(*rest, x, *more.values(), y=y, **more)


many = {"p": 1, "q": 2}


def call():
    return f(0, 1, 2, y=3, **many)


# %% keyword_only_and_defaults: f(5); change g.__defaults__ = (11,); change g.__kwdefaults__["c"] = 21
def g(a, b=10, *, c=20, d):
    return a, b, c, d


def f(x):
    return g(x, d=1), g(x, x, c=2, d=3)


# %% kwdefaults_replaced: change g.__kwdefaults__ = {"c": [1]}; undo g.__kwdefaults__ = None
def g(*, c=20):
    return c


def f():
    return g()


# %% own_defaults_changed: change f.__defaults__ = (3,); change f.__kwdefaults__ = {"b": 4}
def f(a=1, *, b=2):
    return a, b


# %% positional_only: f("x"); change g.__defaults__ = (7, 8)
def g(a, b=2, /, c=3, **more):
    return a, b, c, more


def f(x):
    return g(x, a=1, b=2), g(x, 1, 2)


# %% wrong_arguments: f(1); change g.__defaults__ = (2,); undo g.__defaults__ = None
def g(a, b):
    return a


def f(x):
    return g(x)


# %% mutable_default: f(1); change g.__defaults__ = ([9],)
def g(x, seen=[]):
    seen.append(x)
    return seen


def f(x):
    return g(x)


# %% code_replaced: f(3); change g.__code__ = h.__code__
def g(x):
    return x + 1


def h(x):
    return x * 100


def f(x):
    return g(x)


# %% own_code_replaced: f(3); change f.__code__ = g.__code__
def f(x):
    return x + 1


def g(x):
    return x * 100


# %% method_code_replaced: change C.m.__code__ = other.__code__
class C:
    def m(self):
        return 1


def other(self):
    return [2]


c = C()


def f():
    return c.m()


# %% closure_cell_rebound: f(1); change set_k(50)
def make():
    k = 1

    def set_k(v):
        nonlocal k
        k = v

    def read(x):
        return x + k

    return read, set_k


f, set_k = make()


# %% closure_counter: f(2); change step(1000)
def make():
    count = 0

    def step(by):
        nonlocal count
        count += by
        return count

    def read():
        return count

    return step, read


step, read = make()


def f(x):
    step(x)
    return read(), step(1)


# %% closure_cell_emptied: change drop()
def make():
    k = 1

    def drop():
        nonlocal k
        del k

    def read():
        return k

    return read, drop


f, drop = make()


# %% inner_function_returned: f(2)
def f(x):
    def inner(y, z=x):
        return x + y + z

    return inner, inner(1)


def call():
    made, value = f(2)
    return made, value, made(3), made.__closure__[0].cell_contents


# %% inner_function_unused: f(2)
def f(x):
    def double(y):
        return y * x

    return double(3) + sum(double(i) for i in (1, 2))


# %% lambda_in_loop: f(3)
def f(n):
    made = [lambda: i for i in range(n)]
    return [g() for g in made]


# %% recursion: f(6); change f = lambda n: -n
def f(n):
    return 1 if n == 0 else n * f(n - 1)


# %% mutual_recursion: f(7); change odd = lambda n: "odd"
def even(n):
    return True if n == 0 else odd(n - 1)


def odd(n):
    return False if n == 0 else even(n - 1)


def f(n):
    return even(n), odd(n)


# %% partial: f(8); change p.keywords["c"] = 99
from functools import partial


def g(a, b, c=0):
    return a, b, c


p = partial(g, 1, c=2)


def f(x):
    return p(x), p(x, c=3)


# %% partial_new_state: f(8); change p.__setstate__((g, ([2],), {}, None))
from functools import partial


def g(a, b):
    return a, b


p = partial(g, 1)


def f(x):
    return p(x)


# %% callable_instance: f(1); change add.k = 4; undo Add.__call__ = lambda self, x: "new"
class Add:
    def __init__(self, k):
        self.k = k

    def __call__(self, x):
        return x + self.k


add = Add(3)


def f(x):
    return add(x)


# %% bound_method_kept: change c.v = 2; undo C.get = lambda self: "never through the bound one"
class C:
    def __init__(self, v):
        self.v = v

    def get(self):
        return self.v


c = C(1)
get = c.get


def f():
    return get()


# %% decorated: f(1); change g.__wrapped__.__kwdefaults__ = {"y": 7}
import functools


def twice(fn):
    @functools.wraps(fn)
    def both(*args, **kwargs):
        return fn(*args, **kwargs), fn(*args, **kwargs)

    return both


@twice
def g(x, *, y=1):
    return [x, y]


def f(x):
    return g(x), g(x, y=2)


# %% lru_cache: f(1); change g.cache_clear()
import functools

calls = []


@functools.lru_cache
def g(x):
    calls.append(x)
    return [x]


def f(x):
    return g(x)


# %% import_inside: f(2.5); undo patch.stop(); undo del globals()["patch"]
def f(x):
    import math
    from os.path import join

    return math.floor(x), join("a", "b")


def change():
    import math

    from unittest import mock

    globals()["patch"] = mock.patch.object(math, "floor", lambda x: "patched")
    patch.start()


# %% module_attribute_patched: f(1); change patch = mock.patch.object(m, "k", 10); change patch.start()
import types
from unittest import mock

m = types.ModuleType("m")
m.k = 1
m.g = lambda x: x + m.k


def f(x):
    return m.g(x), m.k


def undo():
    patch.stop()


# %% module_of_a_class_with_getattr: k = 1 -> 2
import importlib.machinery
import types


class Lazy(types.ModuleType):
    def __getattr__(self, name):
        return k, name


m = Lazy("m")
m.__spec__ = importlib.machinery.ModuleSpec("m", None)


def f():
    return m.missing, m.__name__, hasattr(m, "other")


# %% module_whose_spec_is_replaced: change m.__spec__ = Spec()
import importlib.machinery
import types


class Lazy(types.ModuleType):
    def __getattr__(self, name):
        return name, list(asked)


class Spec:
    _initializing = False
    has_location = property(lambda self: asked.append("has_location"))


asked = []
m = Lazy("m")
m.__spec__ = importlib.machinery.ModuleSpec("m", None)


def f():
    return m.missing


# %% mock_patch_function_and_dict
from unittest import mock

table = {"k": 1}


def g():
    return table["k"]


def f():
    return g()


def call():
    with mock.patch.dict(table, {"k": 2, "j": 3}):
        inside = f()
    return inside, f()


# %% module_replaced_in_sys_modules: change sys.modules["program_m"] = types.SimpleNamespace(k=2)
import sys
import types

sys.modules["program_m"] = types.ModuleType("program_m")
sys.modules["program_m"].k = 1


def f():
    import program_m

    return program_m.k


def undo():
    del sys.modules["program_m"]


# %% calls_jitted_function: f(3); k = 1 -> 10
@jit
def g(x):
    return x + k


@jit
def f(x):
    return g(x) * 2


# %% arguments_mutated: stops; f(kept, tab); change kept.clear(); change kept.append(5)
def f(items, table):
    items.append(len(items))
    table["n"] = table.get("n", 0) + 1
    items[0] = table
    return items


kept = [0]
tab = {}


# %% same_argument_twice: stops; f(a, second); change second = b
a, b = [1], [1]
second = a


def f(x, y):
    x.append(2)
    return x is y, len(x), len(y)


# %% unpacking: f(value); value = (1, (2, 3, 4), 5) -> [1, [2, 3, 4, 5], 6]
def f(x):
    a, (b, *c), d = x
    first, *_ = c
    return d, c, b, a, first


# %% arguments_rebound: f([9], 3)
def f(x, n):
    while n:
        x, n = n, n - 1
    del n
    n = x
    return locals(), n


# %% globals_written: f(2); total = 0 -> 100
def f(x):
    global total, made
    total += x
    made = [total]
    return total


# %% global_set_and_deleted
def f():
    global scratch
    scratch = 1
    before = "scratch" in globals()
    del scratch
    return before, "scratch" in globals()


# %% prints: f(2); who = "world" -> "you"
import sys


def f(x):
    print("hello", who, x, sep="-", end="!\n")
    print(f"{x=} {who!r:>10} {x:03d} {1.5:.{x}f}")


# %% walrus_and_ternary: f(value); change value[-1] = 0; undo value.clear()
def f(x):
    if (n := len(x)) > 2 and (last := x[-1]):
        return n, last
    return n if n else -1


value = [1, 2, 3]


# %% chained_comparison: f(3); change high = 2
low, high = 1, 5


def f(x):
    return low < x <= high, low == x != high, x in (1, 2, 3), x is None


# %% argument_type_changes: f(next(values)); undo pass
values = iter([1, 1, True, 1.0, -0.0, 0.0, 1, True, None])


def f(x):
    return x, x * 2, type(x).__name__


# %% match_statement: f(value); value = {"kind": "a", "z": 1} -> [1, 2] -> 3
def f(x):
    match x:
        case {"kind": "a", **rest}:
            return "a", rest
        case [first, *others] if first:
            return first, others
        case int(n) | float(n):
            return n
        case _:
            return None


# %% closure_variable_deleted: f(n); n = 1 -> 3
def f(x):
    y = x + 1

    def read():
        return y

    before = read()
    del y
    try:
        read()
    except NameError:
        text = "unbound"
    try:
        del y
    except UnboundLocalError:
        again = True
    if x > 2:
        y = "back"
    try:
        after = read()
    except NameError:
        after = "empty"
    return before, text, again, after, read


# %% closure_variable_of_another_deleted
def make():
    value = [1]

    def clear():
        nonlocal value
        del value

    def f(x):
        nonlocal value
        if x:
            value = [x]
            return value
        try:
            clear()
        except NameError:
            return "emptied"
        try:
            return value
        except NameError:
            return "empty"

    return f


f = make()


def call():
    return [f(0), f(0), f(2), f(0)]


# %% variable_unbound: f(n); n = 0 -> 2
def f(x):
    if x:
        y = x
    try:
        return y
    except UnboundLocalError:
        text = "unbound"
    y = 1
    del y
    try:
        del y
    except UnboundLocalError:
        return text


# %% module_reloaded: f(3); undo sys.path.remove(folder); undo del sys.modules[name]; undo os.unlink(module.__file__)
import importlib
import importlib.util
import os
import sys
import tempfile

name = f"pijit_reloaded_{os.getpid()}"
folder = os.path.join(tempfile.gettempdir(), name)
os.makedirs(folder, exist_ok=True)
sys.path.insert(0, folder)
sys.modules.pop(name, None)


def write(text):
    with open(os.path.join(folder, name + ".py"), "w") as file:
        file.write(text)
    importlib.invalidate_caches()


write("scale = 2\ndef g(x):\n    return x * scale\n")
module = importlib.import_module(name)


def f(x):
    return module.g(x), module.scale


def change():
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    write("scale = 55\ndef g(x):\n    return x * scale, 'reloaded'\n")
    importlib.reload(module)
    sys.dont_write_bytecode = before
