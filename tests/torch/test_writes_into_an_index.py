"""`x[index] = value` for each kind of index and value: results, and what autograd keeps, as in eager.

What torch's binding calls for a number differs between its releases (csrc/torch/compat.h), and the graph shows it.
"""

import pytest
import torch

import pijit

pytestmark = pytest.mark.torch

INDICES = [
    *("...", "None", "True", "False", "0", "-1", "1:3", "::2", "(0, slice(1, None))", "(..., longs)", "(0, longs)"),
    *("mask", "(mask, None)", "rows", "octets", "longs", "(longs, longs)", "pairs", "[0, 2]", "one", "none"),
]
VALUES = ["3", "1.5", "True", "n", "n * 0.5", "torch.tensor(2.0)", "torch.arange(4.0)"]
DTYPES = [(torch.float32, True), (torch.float32, False), (torch.int64, False), (torch.bool, False)]


def operands(seed, dtype, gradient):
    torch.manual_seed(seed)
    return {
        "x": (5 * torch.randn(4, 4)).to(dtype).requires_grad_(gradient),
        "n": seed + 2,
        "mask": torch.randn(4, 4) > 0,
        "rows": torch.tensor([True, False, True, False]),
        "octets": torch.tensor([1, 0, 1, 0], dtype=torch.uint8),
        "longs": torch.tensor([0, 2, seed % 4]),
        "pairs": torch.tensor([[0, 1], [2, seed % 4]]),
        "one": torch.tensor(seed % 4),
        "none": torch.tensor([], dtype=torch.long),
    }


def nodes(function):
    """The names of the graph's nodes, breadth first."""
    found, todo = [], [function]
    while todo:
        node = todo.pop(0)
        found.append(node and type(node).__name__)
        todo += [] if node is None else [following for following, _ in node.next_functions]
    return found


def outcome(fn, *given):
    try:
        y = fn(**operands(*given))
    except Exception as error:
        return type(error), str(error)
    return y.dtype, y.detach().tolist(), y.requires_grad, nodes(y.grad_fn), y._version


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("index", INDICES)
def test_same(index):
    for value in VALUES:
        for dtype, gradient in DTYPES:
            space = {"torch": torch}
            exec(
                f"def write(x, n, mask, rows, octets, longs, pairs, one, none):\n"
                f"    y = x.clone()\n"
                f"    y[{index}] = {value}\n"
                f"    return y\n",
                space,
            )
            plain = space["write"]
            fast = pijit.jit(plain)
            for seed in (1, 1, 2, 3):
                given = seed, dtype, gradient
                assert outcome(fast, *given) == outcome(plain, *given), f"x[{index}] = {value} of {dtype}"
            assert pijit.status(fast).state == "replaying"
