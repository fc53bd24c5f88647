"""Functions of mathematics, scans and matrices that torch does not decompose: pijit's decompositions give what torch
gives, also for what is not finite; and they run in ONNX and NumPy, at other sizes than those of the capture.
"""

import math
import warnings

import numpy as np
import pytest
import torch

import pijit
from pijit.graph.decompose.own import OWN

pytestmark = pytest.mark.torch

POLES = torch.tensor([0.0, -1.0, -2.0, 0.5, 1.0, 2.0, 1e-3, -1e-3, 300.0, math.inf, -math.inf, math.nan])
LINE = torch.cat([torch.linspace(-9.7, 40, 331), POLES])
UNIT = torch.cat([torch.linspace(-1, 1, 201), torch.tensor([1.5, math.nan, 0.9999999, -0.99999])])
SCAN = torch.tensor([[1.0, 3, 3, -2, 5], [math.nan, 1, 0, 0, 2], [2, math.nan, 7, -math.inf, 7], [0, 0, 0, 0, 0]])


def random(*sizes):
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(3))


MATRICES = random(3, 5, 5)
POSITIVE = MATRICES @ MATRICES.mT + torch.eye(5)
ATOL = torch.tensor([2.0, 0.1, 3.0])
FIRST_IS_ZERO = torch.tensor([[0.0, 1, 2], [3, 0, 1], [1, 1, 0]])
WHOLE = torch.tensor([[0, 4, -6, 9, 9], [12, 0, 8, 0, -3], [4, 4, 7, 12, 0]])
LABELS = torch.tensor([1, 1, 2, 2, 2, 3, 1])

# By the operator: calls of it.
CALLS = {
    "lgamma": [(LINE,), (LINE.double(),)],
    "digamma": [(LINE[:-3],)],
    "mvlgamma": [(LINE[LINE > 1], 3)],
    "polygamma": [(0, LINE[:-3]), (1, LINE[LINE > 0])],
    "erfinv": [(UNIT,)],
    "i0": [(LINE[:331],)],
    "special_log_ndtr": [(LINE - 20,), (LINE,)],
    "frexp.Tensor": [(LINE,), (LINE * 1e-30,)],
    "angle": [(LINE,), (torch.complex(SCAN, SCAN.flip(0)),), (LABELS - 2,)],
    "cummax": [(SCAN, 0), (SCAN, 1), (LABELS, 0), (random(2, 3, 4), -2)],
    "cummin": [(SCAN, 0), (SCAN, 1), (LABELS, 0)],
    "nanmedian.dim": [(SCAN, 1), (SCAN, 0, True), (torch.full((2, 2), math.nan), 1)],
    "nanmedian": [(SCAN,)],
    "unique_consecutive": [(LABELS, True, True), (LABELS.reshape(7, 1), True), (LABELS[:0],)],
    "index_reduce": [
        (SCAN[3:], 1, torch.tensor([0, 4, 0]), random(1, 3), kind) for kind in ("amax", "amin", "prod", "mean")
    ],
    "diagonal_scatter": [(random(4, 6), torch.zeros(4), 1), (random(2, 3, 4), torch.ones(3, 2), 0, 0, 2)],
    "histc": [(random(500), 5, -2, 2), (torch.tensor([0.0, 1, 2, 3, 4]), 4, 0, 4)],
    "_linalg_slogdet": [(MATRICES,), (FIRST_IS_ZERO,), (torch.zeros(2, 2),), (torch.eye(30) * 1e-3,)],
    "_pdist_forward": [(random(5, 3),), (random(1, 3),)],
    "kron": [(random(2, 3), random(4)), (random(2), random(3))],
    "take_along_dim": [(random(3, 4), torch.tensor([[1], [0], [3]]), 1), (random(3, 4), torch.tensor([5, 0]))],
    "linalg_multi_dot": [([random(4), random(4, 3), random(3)],), ([random(2, 4), random(4, 3)],)],
    "linalg_inv": [(MATRICES,), (FIRST_IS_ZERO,)],
    "linalg_solve": [
        *((MATRICES, random(3, 5, 2)), (MATRICES, random(3, 5)), (FIRST_IS_ZERO, random(3, 3))),
        *((MATRICES, random(5, 2)), (POSITIVE[:1], random(3, 5, 2)), (MATRICES, random(5))),
    ],
    "linalg_cholesky": [(POSITIVE,)],
    "linalg_qr": [
        (MATRICES,),
        (random(2, 6, 3),),
        (random(2, 6, 3), "complete"),
        (random(3, 6),),
        (torch.eye(3) * -2,),
    ],
    "linalg_solve_triangular": [],
    "linalg_svdvals": [(random(2, 6, 4),), (random(3, 5),), (random(4, 1),), (torch.zeros(3, 3),)],
    "_linalg_svd": [(MATRICES,), (random(32, 32),)],
    "_linalg_eigh": [(POSITIVE,), (MATRICES, "U"), (MATRICES, "L"), (torch.diag(torch.tensor([2.0, -2, 0, 1, 1])),)],
    "linalg_pinv.atol_rtol_tensor": [(random(2, 6, 4),), (random(3, 5),), (random(5, 2) @ random(2, 4),)],
    "linalg_matrix_exp": [(MATRICES,), (torch.zeros(2, 2),), (random(3, 3) * 4,)],
    "linalg_lu": [(MATRICES,), (random(2, 6, 3),), (random(3, 6),), (FIRST_IS_ZERO,)],
    "linalg_lu_factor": [(MATRICES,), (random(3, 6),)],
    "gcd": [(WHOLE, WHOLE.flip(0)), (WHOLE, torch.tensor([[6]], dtype=torch.int16))],
    "lcm": [(WHOLE, WHOLE.flip(0))],
    "mode": [(WHOLE, 0), (WHOLE, 1, True), (WHOLE.float(),)],
    "logspace": [(0, 2, 5), (1.5, -1, 1, 2.0)],
    "triangular_solve": [(random(3, 5, 2), POSITIVE), (random(3, 5, 2), POSITIVE, False, True, True)],
}
WORDS = {
    "linalg_solve_triangular": [
        ((POSITIVE, random(3, 5, 2)), {"upper": False}),
        ((POSITIVE, random(3, 2, 5)), {"upper": True, "left": False}),
    ],
    "linalg_pinv.atol_rtol_tensor": [((random(4, 4),), {"rtol": torch.tensor(0.5)}), ((POSITIVE,), {"atol": ATOL})],
}


@pytest.mark.parametrize("name", CALLS)
def test_a_decomposition_gives_what_torch_gives(name):
    base, _, overload = name.partition(".")
    operator = getattr(getattr(torch.ops.aten, base), overload or "default")
    function = OWN[f"torch.ops.aten.{base}.{overload or 'default'}"]
    calls = [*((args, {}) for args in CALLS[name]), *WORDS.get(name, ())]
    assert len(calls) > 0
    for args, named in calls:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected, found = operator(*args, **named), function(*args, **named)
        expected, found = (each if isinstance(each, tuple) else (each,) for each in (expected, found))
        assert len(expected) == len(found)
        for one, other in zip(found, expected, strict=True):
            if one is not None:  # what nobody asks for
                torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5, equal_nan=True)


# Functions whose graphs hold these operators, and inputs of n rows.
ROWS = {
    "lgamma": (lambda x: torch.lgamma(x.abs() + 0.1), (4,)),
    "digamma": (lambda x: torch.digamma(x.abs() + 0.1), (4,)),
    "polygamma": (lambda x: torch.polygamma(1, x.abs() + 0.1), (4,)),
    "mvlgamma": (lambda x: torch.mvlgamma(x.abs() + 2, 2), (4,)),
    "erfinv": (lambda x: torch.erfinv(x.tanh()), (4,)),
    "i0": (lambda x: torch.i0(x * 3), (4,)),
    "log_ndtr": (lambda x: torch.special.log_ndtr(x * 9), (4,)),
    "frexp": (lambda x: tuple(torch.frexp(x)), (4,)),
    "angle": (lambda x: torch.complex(x, x.flip(0)).angle(), (4,)),
    "cummax": (lambda x: tuple(x.round().cummax(0)), (4,)),
    "cummin": (lambda x: tuple(x.round().cummin(-1)), (4,)),
    "nanmedian": (lambda x: x.log().nanmedian(), (5,)),
    "unique_consecutive": (lambda x: torch.unique_consecutive(x.round().flatten()), (4,)),
    "index_reduce": (lambda x: x.index_reduce(1, torch.tensor([0, 2, 2]), x[:, :3] * 2, "amax"), (4,)),
    "diagonal_scatter": (lambda x: x.diagonal_scatter(x[:, :, 0] * 0, 0, 1, 2), (3, 3)),
    "histc": (lambda x: torch.histc(x, 5, -2.0, 2.0), (9,)),
    "slogdet": (lambda x: tuple(torch.linalg.slogdet(x)), (4, 4)),
    "pdist": (torch.nn.functional.pdist, (4,)),
    "kron": (lambda x: torch.kron(x, x[0]), (4,)),
    "take_along_dim": (lambda x: torch.take_along_dim(x, x.argsort(1), 1), (4,)),
    "vander": (lambda x: torch.vander(x[:, 0]), (2,)),
    "multi_dot": (lambda x: torch.linalg.multi_dot((x, x[0, :, None] * x[0], x[0])), (4,)),
    "inv": (lambda x: torch.linalg.inv(x + 3 * torch.eye(4)), (4, 4)),
    "solve": (lambda x: torch.linalg.solve(x + 3 * torch.eye(4), x[..., :2]), (4, 4)),
    "cholesky": (lambda x: torch.linalg.cholesky(x @ x.mT + torch.eye(4)), (4, 4)),
    "qr": (lambda x: tuple(torch.linalg.qr(x)), (4, 3)),
    "svdvals": (torch.linalg.svdvals, (4, 3)),
    "eigvalsh": (lambda x: torch.linalg.eigvalsh(x + x.mT), (4, 4)),
    "pinv": (torch.linalg.pinv, (3, 4)),
    "matrix_exp": (torch.matrix_exp, (3, 3)),
    "lu": (lambda x: tuple(torch.linalg.lu(x)), (4, 3)),
    "gcd": (lambda x: torch.gcd((x * 9).long(), torch.tensor([6, 4, 0, -9])), (4,)),
    "mode": (lambda x: x.round().mode(1).values, (7,)),
    "spaces": (lambda x: (torch.linspace(0, 1, x.shape[0]), torch.logspace(0, 1, x.shape[0])), (2,)),
    "allclose": (lambda x: (x * torch.allclose(x, x + 1e-9), x * torch.allclose(x, x + 1)), (2,)),
    "numbers": (lambda x: x * math.gcd(x.shape[0], 6) + math.comb(x.shape[0], 2), (2,)),
    "halves": (lambda x: torch.fft.irfft(torch.fft.rfft(x)), (4,)),
    "solve_triangular": (lambda x: torch.linalg.solve_triangular(x + 3 * torch.eye(4), x, upper=True), (4, 4)),
}


@pytest.mark.parametrize("name", ROWS)
def test_in_onnx_and_numpy_at_other_sizes(name):
    runtime = pytest.importorskip("onnxruntime")
    function, sizes = ROWS[name]
    with torch.no_grad():
        graph = pijit.graph.capture(function, random(3, *sizes))
        assert not graph.breaks
        model = pijit.export(graph, format="onnx")
        session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        for n in (3, 5):
            given = random(n, *sizes)
            expected = function(given)
            found = session.run(None, {session.get_inputs()[0].name: given.numpy()})
            in_numpy = graph.run(given, framework="numpy")
            every = (found, in_numpy if isinstance(in_numpy, tuple) else (in_numpy,))
            for results in every:
                for one, other in zip(results, expected if isinstance(expected, tuple) else (expected,), strict=True):
                    np.testing.assert_allclose(one, other.numpy(), rtol=2e-4, atol=1e-4)


def test_matrices_that_are_too_large_are_refused():
    graph = pijit.graph.capture(torch.linalg.inv, random(33, 33))
    assert torch.equal(graph.run(MATRICES), torch.linalg.inv(MATRICES))
    with pytest.raises(pijit.errors.ExportError, match="inv has no form in ONNX"):
        pijit.export(graph, format="onnx")
