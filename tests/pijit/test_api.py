"""jit, the global switch, status, stats, reset: what comes back and what stays as it was."""

import copy
import functools
import gc
import inspect
import os
import pickle
import subprocess
import sys
import weakref

import pytest

import pijit
from pijit import _core


@pijit.jit
def decorated(a: int, b: float = 2.0, *rest: int, key: str = "k", **more: object) -> str:
    """Says what it got."""
    return f"{a} {b} {rest} {key} {more}"


@pijit.jit(strict=False, name="other")
def decorated_with_options(x):
    return x


def plain(x, /, y=1, *, z=3):
    """Adds."""
    return x + y + z


class Scaler:
    """An object with a __call__ written in Python."""

    def __init__(self, by):
        self.by = by

    def __call__(self, x):
        return x * self.by

    def method(self, x):
        return x + self.by

    @classmethod
    def of_class(cls, x):
        return cls.__name__, x

    @staticmethod
    def static(x):
        return -x


def generator(x):
    yield x


async def coroutine(x):
    return x


async def async_generator(x):
    yield x


class TestFunctions:
    def test_result(self):
        assert decorated(1, 2, 3, key="q", m=4) == "1 2 (3,) q {'m': 4}"
        assert [decorated_with_options(x) for x in (1, 2, 3)] == [1, 2, 3]

    def test_a_new_function_of_the_same_code(self):
        fast = pijit.jit(plain)
        assert fast is not plain
        assert type(fast) is type(plain)
        assert fast.__code__ is plain.__code__
        assert fast.__globals__ is plain.__globals__
        assert fast(1, 2, z=3) == plain(1, 2, z=3) == 6

    @pytest.mark.parametrize(
        "name", ["__name__", "__qualname__", "__module__", "__doc__", "__defaults__", "__kwdefaults__"]
    )
    def test_attributes(self, name):
        assert getattr(pijit.jit(plain), name) == getattr(plain, name)

    def test_inspect(self):
        fast = pijit.jit(plain)
        assert inspect.signature(fast) == inspect.signature(plain)
        assert inspect.getsource(fast) == inspect.getsource(plain)
        assert inspect.isfunction(fast)
        assert inspect.unwrap(fast) is fast
        assert inspect.get_annotations(decorated)["b"] is float
        assert str(inspect.signature(decorated)).startswith("(a: int, b: float = 2.0, *rest: int")

    def test_own_attributes(self):
        def f():
            pass

        f.mark = [1]
        fast = pijit.jit(f)
        assert fast.mark is f.mark
        assert not hasattr(fast, "__wrapped__")
        fast.other = 1
        assert not hasattr(f, "other")

    def test_wrapped_stays(self):
        @functools.wraps(plain)
        def wrapper(*args, **kwargs):
            return plain(*args, **kwargs)

        fast = pijit.jit(wrapper)
        assert fast.__wrapped__ is plain
        assert inspect.signature(fast) == inspect.signature(plain)

    def test_defaults_are_not_shared(self):
        def f(*, z=1):
            return z

        fast = pijit.jit(f)
        f.__kwdefaults__["z"] = 2
        assert (f(), fast()) == (2, 1)

    def test_closure_is_shared(self):
        count = 0

        def f():
            nonlocal count
            count += 1
            return count

        fast = pijit.jit(f)
        assert (f(), fast(), f(), fast()) == (1, 2, 3, 4)

    def test_pickle(self):
        assert pickle.loads(pickle.dumps(decorated)) is decorated
        assert copy.deepcopy(decorated) is decorated

    def test_lambda(self):
        fast = pijit.jit(lambda x: x + 1)
        assert [fast(1), fast(2)] == [2, 3]
        assert fast.__name__ == "<lambda>"

    def test_recursion(self):
        @pijit.jit
        def factorial(n):
            return n * factorial(n - 1) if n else 1

        assert [factorial(5), factorial(6)] == [120, 720]

    def test_the_root_dies_with_the_function(self):
        fast = pijit.jit(lambda: 1)
        fast()
        dead = weakref.ref(fast)
        del fast
        gc.collect()
        assert dead() is None

    def test_the_exception_is_the_functions_own(self):
        def f(x):
            raise KeyError(x)

        fast = pijit.jit(f)
        for _ in range(3):
            with pytest.raises(KeyError) as caught:
                fast("x")
            assert [entry.name for entry in caught.traceback][-1:] == ["f"]


class TestMethods:
    def test_bound(self):
        scaler = Scaler(3)
        fast = pijit.jit(scaler.method)
        assert fast.__self__ is scaler
        assert [fast(1), fast(2)] == [4, 5]
        assert fast.__func__ is not Scaler.method
        assert not pijit.status(fast).reason.startswith("neither")

    def test_of_class(self):
        fast = pijit.jit(Scaler.of_class)
        assert [fast(1), fast(2)] == [("Scaler", 1), ("Scaler", 2)]

    def test_decorators(self):
        class Decorated:
            @pijit.jit
            def method(self, x):
                return self, x

            @pijit.jit
            @classmethod
            def of_class(cls, x):
                return cls, x

            @pijit.jit
            @staticmethod
            def static(x):
                return x

            @property
            @pijit.jit
            def value(self):
                return 1

        one = Decorated()
        for _ in range(2):
            assert one.method(1) == (one, 1)
            assert one.of_class(1) == (Decorated, 1)
            assert one.static(1) == Decorated.static(1) == one.value == 1

    def test_partial(self):
        partial = functools.partial(plain, 1, z=10)
        partial.mark = 1
        fast = pijit.jit(partial)
        assert type(fast) is functools.partial
        assert (fast.args, fast.keywords, fast.mark) == ((1,), {"z": 10}, 1)
        assert fast.func is not plain
        assert [fast(2), fast(3)] == [13, 14]


class TestInstances:
    def test_same_object(self):
        scaler = Scaler(2)
        before = dict(vars(scaler))
        assert pijit.jit(scaler) is scaler
        assert vars(scaler) == before
        assert [scaler(1), scaler(2), Scaler(5)(1)] == [2, 4, 5]
        assert type(scaler) is Scaler

    def test_twice(self):
        scaler = pijit.jit(pijit.jit(Scaler(2)))
        assert [scaler(1), scaler(2)] == [2, 4]

    def test_pickle_and_copy_are_plain(self):
        scaler = pijit.jit(Scaler(2))
        for other in (pickle.loads(pickle.dumps(scaler)), copy.deepcopy(scaler)):
            assert other(3) == 6
            assert pijit.status(other).reason

    def test_dies(self):
        scaler = pijit.jit(Scaler(2))
        scaler(1)
        dead = weakref.ref(scaler)
        del scaler
        gc.collect()
        assert dead() is None

    @pytest.mark.torch
    def test_module(self):
        import torch

        model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
        keys, variables = list(model.state_dict()), set(vars(model))
        x = torch.ones(1, 2)
        expected = model(x)
        assert pijit.jit(model) is model
        for _ in range(3):
            assert torch.equal(model(x), expected)
        assert list(model.state_dict()) == keys
        assert set(vars(model)) == variables


class TestRefusals:
    @pytest.mark.parametrize(
        ("thing", "says"),
        [
            (Scaler, r"Scaler is a class; jit an instance"),
            (len, r"builtin_function_or_method 'len' has no Python code"),
            ([].append, r"'list.append' has no Python code"),
            (42, r"int object has no Python code"),
            (functools.lru_cache(plain), r"'plain' has no Python code to observe; jit a Python function that calls it"),
            (functools.partial(print), r"'print' has no Python code"),
            (staticmethod(len), r"'len' is not made from a Python function"),
            (property(plain), r"property object has no Python code"),
            (None, r"None has no Python code to observe"),
        ],
    )
    def test_things(self, thing, says):
        with pytest.raises(pijit.errors.UsageError, match=says):
            pijit.jit(thing)

    def test_objects(self):
        class Anonymous:
            def __call__(*args):
                pass

        class Slotted:
            __slots__ = ()

            def __call__(self):
                pass

        for kind, says in ((Anonymous, "names its self"), (Slotted, "__weakref__")):
            with pytest.raises(pijit.errors.UsageError, match=says):
                pijit.jit(kind())

    def test_options(self):
        with pytest.raises(pijit.errors.UsageError, match="no option 'stict' .*nearest is 'strict'"):
            pijit.jit(plain, stict=True)
        with pytest.raises(pijit.errors.UsageError, match="no option 'static_argnums' .*finds out by itself which"):
            pijit.jit(static_argnums=0)
        with pytest.raises(pijit.errors.UsageError, match="strict is True or False"):
            pijit.jit(plain, strict="yes")
        with pytest.raises(pijit.errors.UsageError, match="name is text"):
            pijit.jit(plain, name=3)

    @pytest.mark.torch
    def test_backends(self):
        with pytest.raises(pijit.errors.BackendError, match="no backend is called 'induktor' .*nearest is 'inductor'"):
            pijit.jit(plain, backend="induktor")


class TestSwitch:
    def test_idempotent(self):
        pijit.enable()
        pijit.enable()
        assert _core.hook_installed()
        pijit.disable()
        pijit.disable()

    def test_results_are_those_of_python(self):
        with pijit.enabled():
            assert [plain(x) for x in range(4)] == [4, 5, 6, 7]

    def test_options_are_restored(self):
        before = pijit.config.max_nodes
        with pijit.enabled(max_nodes=77):
            assert pijit.config.max_nodes == 77
        assert pijit.config.max_nodes == before

    def test_a_wrong_option_changes_nothing(self):
        before = pijit.config.max_nodes
        with (
            pytest.raises(pijit.errors.ConfigError, match="nearest is 'max_nodes'"),
            pijit.enabled(max_nodes=5, max_nodez=5),
        ):
            pass
        assert pijit.config.max_nodes == before

    def test_as_decorator(self):
        @pijit.enabled()
        def f(x):
            return plain(x)

        assert [f(1), f(2)] == [5, 6]

    def test_jitted_functions_outlive_it(self):
        fast = pijit.jit(plain)
        with pijit.enabled():
            fast(1)
        assert _core.hook_installed()
        assert fast(1) == 5

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
    def test_a_forked_child_is_plain(self):
        with pijit.enabled():
            child = os.fork()
            if child == 0:
                os._exit(3 if _core.hook_installed() or decorated_with_options(1) != 1 else 0)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            assert _core.hook_installed()


class TestViews:
    def test_status(self):
        fast = pijit.jit(plain)
        assert pijit.status(fast).state == "cold"
        fast(1)
        assert pijit.status(fast).state in {"cold", "recorded", "replaying", "disabled"}
        assert pijit.status(plain) == pijit.Status("cold", "neither jitted nor found under enable()")

    def test_stats(self):
        names = "records aborts replays exits guard_failures opaque_calls traces segments bytes seconds_saved"
        assert set(names.split()) <= set(pijit.stats())

    def test_reset(self):
        fast = pijit.jit(plain)
        fast(1)
        pijit.reset(fast)
        assert pijit.traces(fast) == ()
        assert fast(1) == 5
        pijit.reset(plain)
        pijit.reset()
        assert fast(1) == 5

    def test_traces(self):
        assert pijit.traces(plain) == ()
        assert isinstance(str(pijit.traces(pijit.jit(plain))), str)


def test_the_public_names():
    assert len(pijit.__all__) <= 40
    assert all(hasattr(pijit, name) for name in pijit.__all__)
    assert callable(pijit.traces)
    assert "pijit.traces" in sys.modules


def test_what_only_graphs_and_compilers_need_is_imported_late() -> None:
    code = """
import sys, pijit
late = [name for name in sys.modules if name.startswith(("pijit.graph", "pijit.compilers", "pijit.passes"))]
assert not late, late
assert callable(pijit.traces) and pijit.graph.capture and pijit.compilers.OWN and pijit.passes and pijit.tools
assert callable(pijit.traces)
from pijit import Report, Verification, backends, bundle, explain, export, formats
from pijit import register_backend, register_lowering, register_pass, register_replacement, verify
assert pijit.export is export and "export" in vars(pijit)
try:
    pijit.exprot
except AttributeError as error:
    assert str(error) == "module 'pijit' has no attribute 'exprot'", error
else:
    raise AssertionError
try:
    from pijit import exprot
except ImportError as error:
    assert "exprot" in str(error), error
else:
    raise AssertionError
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_tab_completes_public_names_alone():
    assert set(dir(pijit)) == set(pijit.__all__)
    assert not {"api", "compilers", "segments", "tools", "traces_of"} & set(dir(pijit))
    assert all(hasattr(pijit, name) for name in dir(pijit))
