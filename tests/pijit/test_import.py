"""What importing and switching off do to a process: seen from outside, in fresh ones."""

import os
import subprocess
import sys
import textwrap

import pytest


def run(code, **environment):
    """What a fresh process prints."""
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_import_imports_no_framework_and_changes_nothing():
    code = """
        import sys
        before = list(sys.meta_path)
        import pijit
        from pijit import _core
        print([name for name in ("torch", "numpy", "transformers") if name in sys.modules])
        print(sys.meta_path == before, _core.hook_installed())
    """
    assert run(code) == ["[]", "True", "False"]


def test_jit_imports_no_framework():
    code = """
        import sys, pijit
        f = pijit.jit(lambda x: x + 1)
        print(f(1), f(2), "torch" in sys.modules)
    """
    assert run(code) == ["2", "3", "False"]


OFF = """
    import sys, pijit
    from pijit import _core
    def f(x):
        return x + 1
    class Adder:
        def __call__(self, x):
            return x + 2
    g, adder = pijit.jit(f), Adder()
    same = pijit.jit(adder) is adder
    with pijit.enabled(max_nodes=3):
        pijit.enable()
        print(g(1), adder(1), same, g is not f)
    print(_core.hook_installed(), pijit.status(g).state, len(pijit.traces(g)), pijit.explain(g, 1).result)
    pijit.disable(), pijit.reset(), pijit.reset(g)
    print(len(sys.meta_path))
"""


def test_switched_off_by_the_environment():
    plain = run("import sys; print(len(sys.meta_path))")
    assert run(OFF, PIJIT="0") == ["2", "3", "True", "True", "False", "disabled", "0", "2", *plain]


@pytest.mark.parametrize("value", ["1", ""])
def test_other_values_switch_nothing_off(value):
    code = "import pijit; from pijit import _core; pijit.enable(); print(_core.hook_installed())"
    assert run(code, PIJIT=value) == ["True"]


@pytest.mark.torch
@pytest.mark.parametrize("order", ["import torch, pijit", "import pijit; pijit.enable(); import torch"])
def test_the_adapter_attaches_before_or_after(order):
    code = f"""
        import sys
        finders = len(sys.meta_path)
        {order}
        pijit.enable()
        from pijit import _adapters
        print(sorted(_adapters._attached), any(finder is _adapters._finder for finder in sys.meta_path))
        print(torch.__loader__ is torch.__spec__.loader, "exec_module" in vars(torch.__loader__))
        f = pijit.jit(lambda x: x + x)
        print(all(torch.equal(f(torch.ones(2)), torch.full((2,), 2.0)) for _ in range(3)))
    """
    assert run(code) == ["['torch']", "False", "True", "False", "True"]
