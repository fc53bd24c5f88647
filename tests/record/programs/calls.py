# ruff: noqa
"""Calls of every argument kind, closures, recursion, callables of all sorts; each followed by a change of what was called."""

# %% global_number_rebound
k = 1


def f(x):
    return x + k


def args():
    return (2,)


def change():
    global k
    k = 5


# %% global_function_rebound
def g(x):
    return [x, "g"]


def f(x):
    return g(x)


def args():
    return (7,)


def change():
    global g
    g = lambda x: (x, "other")


# %% global_deleted
k = 3


def f():
    return k


def change():
    global k
    del k


def undo():
    global k
    k = 4


# %% global_shadows_builtin
def f(x):
    return len(x)


def args():
    return ([1, 2, 3],)


def change():
    globals()["len"] = lambda x: "mine"


def undo():
    del globals()["len"]


# %% positional_or_keyword
def g(a, b, c):
    return a, b, c


def f(x):
    return g(x, c=1, b=2), g(1, 2, x), g(a=x, b=1, c=0)


def args():
    return (4,)


def change():
    global g

    def g(c, b, a):
        return a, b, c


# %% star_arguments
def g(*args, **kwargs):
    return args, kwargs


def f(x, *rest, y, **more):
    return g(*rest, x, *more.values(), y=y, **more)


many = {"p": 1, "q": 2}


def call():
    return f(0, 1, 2, y=3, **many)


def change():
    many["r"] = 9
    del many["p"]


# %% keyword_only_and_defaults
def g(a, b=10, *, c=20, d):
    return a, b, c, d


def f(x):
    return g(x, d=1), g(x, x, c=2, d=3)


def args():
    return (5,)


def change():
    g.__defaults__ = (11,)
    g.__kwdefaults__["c"] = 21


# %% kwdefaults_replaced
def g(*, c=20):
    return c


def f():
    return g()


def change():
    g.__kwdefaults__ = {"c": [1]}


def undo():
    g.__kwdefaults__ = None


# %% own_defaults_changed
def f(a=1, *, b=2):
    return a, b


def change():
    f.__defaults__ = (3,)
    f.__kwdefaults__ = {"b": 4}


# %% positional_only
def g(a, b=2, /, c=3, **more):
    return a, b, c, more


def f(x):
    return g(x, a=1, b=2), g(x, 1, 2)


def args():
    return ("x",)


def change():
    g.__defaults__ = (7, 8)


# %% wrong_arguments
def g(a, b):
    return a


def f(x):
    return g(x)


def args():
    return (1,)


def change():
    g.__defaults__ = (2,)


def undo():
    g.__defaults__ = None


# %% mutable_default
def g(x, seen=[]):
    seen.append(x)
    return seen


def f(x):
    return g(x)


def args():
    return (1,)


def change():
    g.__defaults__ = ([9],)


# %% code_replaced
def g(x):
    return x + 1


def h(x):
    return x * 100


def f(x):
    return g(x)


def args():
    return (3,)


def change():
    g.__code__ = h.__code__


# %% own_code_replaced
def f(x):
    return x + 1


def g(x):
    return x * 100


def args():
    return (3,)


def change():
    f.__code__ = g.__code__


# %% method_code_replaced
class C:
    def m(self):
        return 1


def other(self):
    return [2]


c = C()


def f():
    return c.m()


def change():
    C.m.__code__ = other.__code__


# %% closure_cell_rebound
def make():
    k = 1

    def set_k(v):
        nonlocal k
        k = v

    def read(x):
        return x + k

    return read, set_k


f, set_k = make()


def args():
    return (1,)


def change():
    set_k(50)


# %% closure_counter
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


def args():
    return (2,)


def change():
    step(1000)


# %% closure_cell_emptied
def make():
    k = 1

    def drop():
        nonlocal k
        del k

    def read():
        return k

    return read, drop


f, drop = make()


def change():
    drop()


# %% inner_function_returned
def f(x):
    def inner(y, z=x):
        return x + y + z

    return inner, inner(1)


def args():
    return (2,)


def call():
    made, value = f(2)
    return made, value, made(3), made.__closure__[0].cell_contents


# %% inner_function_unused
def f(x):
    def double(y):
        return y * x

    return double(3) + sum(double(i) for i in (1, 2))


def args():
    return (2,)


# %% lambda_in_loop
def f(n):
    made = [lambda: i for i in range(n)]
    return [g() for g in made]


def args():
    return (3,)


# %% recursion
def f(n):
    return 1 if n == 0 else n * f(n - 1)


def args():
    return (6,)


def change():
    global f
    f = lambda n: -n


# %% mutual_recursion
def even(n):
    return True if n == 0 else odd(n - 1)


def odd(n):
    return False if n == 0 else even(n - 1)


def f(n):
    return even(n), odd(n)


def args():
    return (7,)


def change():
    global odd
    odd = lambda n: "odd"


# %% partial
from functools import partial


def g(a, b, c=0):
    return a, b, c


p = partial(g, 1, c=2)


def f(x):
    return p(x), p(x, c=3)


def args():
    return (8,)


def change():
    p.keywords["c"] = 99


# %% partial_new_state
from functools import partial


def g(a, b):
    return a, b


p = partial(g, 1)


def f(x):
    return p(x)


def args():
    return (8,)


def change():
    p.__setstate__((g, ([2],), {}, None))


# %% callable_instance
class Add:
    def __init__(self, k):
        self.k = k

    def __call__(self, x):
        return x + self.k


add = Add(3)


def f(x):
    return add(x)


def args():
    return (1,)


def change():
    add.k = 4


def undo():
    Add.__call__ = lambda self, x: "new"


# %% bound_method_kept
class C:
    def __init__(self, v):
        self.v = v

    def get(self):
        return self.v


c = C(1)
get = c.get


def f():
    return get()


def change():
    c.v = 2


def undo():
    C.get = lambda self: "never through the bound one"


# %% decorated
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


def args():
    return (1,)


def change():
    g.__wrapped__.__kwdefaults__ = {"y": 7}


# %% lru_cache
import functools

calls = []


@functools.lru_cache
def g(x):
    calls.append(x)
    return [x]


def f(x):
    return g(x)


def args():
    return (1,)


def change():
    g.cache_clear()


# %% import_inside
def f(x):
    import math
    from os.path import join

    return math.floor(x), join("a", "b")


def args():
    return (2.5,)


def change():
    import math

    from unittest import mock

    globals()["patch"] = mock.patch.object(math, "floor", lambda x: "patched")
    patch.start()


def undo():
    patch.stop()
    del globals()["patch"]


# %% module_attribute_patched
import types
from unittest import mock

m = types.ModuleType("m")
m.k = 1
m.g = lambda x: x + m.k


def f(x):
    return m.g(x), m.k


def args():
    return (1,)


def change():
    global patch
    patch = mock.patch.object(m, "k", 10)
    patch.start()


def undo():
    patch.stop()


# %% module_of_a_class_with_getattr
import importlib.machinery
import types


class Lazy(types.ModuleType):
    def __getattr__(self, name):
        return k, name


m = Lazy("m")
m.__spec__ = importlib.machinery.ModuleSpec("m", None)
k = 1


def f():
    return m.missing, m.__name__, hasattr(m, "other")


def change():
    global k
    k = 2


# %% module_whose_spec_is_replaced
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


def change():
    m.__spec__ = Spec()


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


# %% module_replaced_in_sys_modules
import sys
import types

sys.modules["program_m"] = types.ModuleType("program_m")
sys.modules["program_m"].k = 1


def f():
    import program_m

    return program_m.k


def change():
    sys.modules["program_m"] = types.SimpleNamespace(k=2)


def undo():
    del sys.modules["program_m"]


# %% calls_jitted_function
@jit
def g(x):
    return x + k


k = 1


@jit
def f(x):
    return g(x) * 2


def args():
    return (3,)


def change():
    global k
    k = 10


# %% arguments_mutated: stops
def f(items, table):
    items.append(len(items))
    table["n"] = table.get("n", 0) + 1
    items[0] = table
    return items


kept = [0]
tab = {}


def args():
    return kept, tab


def change():
    kept.clear()
    kept.append(5)


# %% same_argument_twice: stops
a, b = [1], [1]
second = a


def f(x, y):
    x.append(2)
    return x is y, len(x), len(y)


def args():
    return a, second


def change():
    global second
    second = b


# %% unpacking
def f(x):
    a, (b, *c), d = x
    first, *_ = c
    return d, c, b, a, first


value = (1, (2, 3, 4), 5)


def args():
    return (value,)


def change():
    global value
    value = [1, [2, 3, 4, 5], 6]


# %% arguments_rebound
def f(x, n):
    while n:
        x, n = n, n - 1
    del n
    n = x
    return locals(), n


def args():
    return [9], 3


# %% globals_written
total = 0


def f(x):
    global total, made
    total += x
    made = [total]
    return total


def args():
    return (2,)


def change():
    global total
    total = 100


# %% global_set_and_deleted
def f():
    global scratch
    scratch = 1
    before = "scratch" in globals()
    del scratch
    return before, "scratch" in globals()


# %% prints
import sys

who = "world"


def f(x):
    print("hello", who, x, sep="-", end="!\n")
    print(f"{x=} {who!r:>10} {x:03d} {1.5:.{x}f}")


def args():
    return (2,)


def change():
    global who
    who = "you"


# %% walrus_and_ternary
def f(x):
    if (n := len(x)) > 2 and (last := x[-1]):
        return n, last
    return n if n else -1


value = [1, 2, 3]


def args():
    return (value,)


def change():
    value[-1] = 0


def undo():
    value.clear()


# %% chained_comparison
low, high = 1, 5


def f(x):
    return low < x <= high, low == x != high, x in (1, 2, 3), x is None


def args():
    return (3,)


def change():
    global high
    high = 2


# %% argument_type_changes
values = iter([1, 1, True, 1.0, -0.0, 0.0, 1, True, None])


def f(x):
    return x, x * 2, type(x).__name__


def args():
    return (next(values),)


def undo():
    pass


# %% match_statement
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


value = {"kind": "a", "z": 1}


def args():
    return (value,)


def change():
    global value
    value = [1, 2]


def undo():
    global value
    value = 3


# %% closure_variable_deleted
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


def args():
    return (n,)


n = 1


def change():
    global n
    n = 3


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


# %% variable_unbound
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


def args():
    return (n,)


n = 0


def change():
    global n
    n = 2


# %% module_reloaded
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


def args():
    return (3,)


def change():
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    write("scale = 55\ndef g(x):\n    return x * scale, 'reloaded'\n")
    importlib.reload(module)
    sys.dont_write_bytecode = before


def undo():
    sys.path.remove(folder)
    del sys.modules[name]
    os.unlink(module.__file__)
