"""Operators without a row, decomposed as torch decomposes them, at other sizes than those of the capture."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import pijit
from pijit.errors import ExportError
from pijit.graph import Graph, Node, Value
from pijit.graph.decompose import decomposed
from pijit.graph.run import having

MASK = nn.Transformer.generate_square_subsequent_mask(5)


def padding(n):
    return torch.arange(5)[None] >= torch.tensor([5, 3, 4, 2][:n])[:, None]


def encoder(**more):
    return nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, **more).eval()


def of_self(attention):
    return lambda x: attention(x, x, x)


def attention():
    return nn.MultiheadAttention(8, 2, batch_first=True).eval()


def padded_labels(n):
    return torch.tensor([[3, 0, -1, 1], [1, -1, 0, 0], [-1, 0, 0, 0]][:n])


def x(*sizes):
    return lambda n: (torch.randn(n, *sizes),)


def bags(n):
    return (torch.randint(0, 10, (n, 5)),)


def sequences(n):
    """Scores of ten turns, labels as rows, turns and labels of each."""
    scores = torch.randn(10 + n, n, 5).log_softmax(2)
    return scores, torch.randint(1, 5, (n, 4)), torch.tensor([10, 6, 3, 0][:n]), torch.tensor([4, 0, 3, 0][:n])


def repeated(scores, labels, turns, counts):
    """Labels that stand twice in a row have a blank between them; three turns are too few for some."""
    return F.ctc_loss(scores, labels % 2 + 1, turns, counts, reduction="none", zero_infinity=True)


CASES = {
    "ctc_loss": (F.ctc_loss, sequences),
    "ctc_loss of each": (repeated, sequences),
    "ctc_loss of one row": (
        lambda s, t, n: F.ctc_loss(s, t.reshape(-1), n, torch.full_like(n, 4), blank=4, reduction="sum"),
        lambda n: (torch.randn(9, n, 5).log_softmax(2), torch.randint(0, 4, (n, 4)), torch.full((n,), 9)),
    ),
    "ctc_loss of lists": (
        lambda s, t: F.ctc_loss(s, t, (9, 8), (3, 2), reduction="none"),
        lambda n: (torch.randn(9, 2, 5).log_softmax(2), torch.randint(1, 5, (2, 2 + n))),
    ),
    "affine_grid": (lambda t: F.affine_grid(t, (t.shape[0], 3, 4, 5), align_corners=False), x(2, 3)),
    "grid_sample": (
        lambda a, g: F.grid_sample(a, g, align_corners=False),
        lambda n: (torch.randn(n, 3, 4, 5), torch.rand(n, 4, 5, 2) * 2 - 1),
    ),
    "pairwise_distance": (nn.PairwiseDistance(), lambda n: (torch.randn(n, 6), torch.randn(n, 6))),
    "triplet": (nn.TripletMarginLoss(), lambda n: tuple(torch.randn(3, n, 6))),
    "labels": (nn.MultiLabelMarginLoss(), lambda n: (torch.randn(n, 4), padded_labels(n))),
    "fold": (nn.Fold((4, 4), (2, 2)), x(12, 9)),
    "polar": (lambda a: torch.view_as_real(torch.polar(a.abs(), a)), x(6)),
    "quantile": (lambda a: torch.quantile(a, 0.3, dim=1), x(6)),
    "trapezoid": (torch.trapezoid, x(6)),
    "heaviside": (lambda a: torch.heaviside(a, torch.tensor(0.5)), x(6)),
    "block_diag": (torch.block_diag, lambda n: (torch.randn(n, 2), torch.randn(3, 3))),
    "weight_norm": (torch.nn.utils.parametrizations.weight_norm(nn.Linear(6, 7)), x(5, 6)),
    "old weight_norm": (torch.nn.utils.weight_norm(nn.Linear(6, 7)), x(5, 6)),
    **{f"bag of {mode}": (nn.EmbeddingBag(10, 6, mode=mode).eval(), bags) for mode in ("sum", "mean", "max")},
    "bag with padding": (nn.EmbeddingBag(10, 6, mode="mean", padding_idx=1), bags),
    "bags": (
        nn.EmbeddingBag(10, 6, mode="sum", include_last_offset=True),
        lambda n: (torch.randint(0, 10, (4 * n,)), torch.arange(n + 1) * 4),
    ),
    "cov": (torch.cov, lambda n: (torch.randn(n + 1, 6),)),
    "corrcoef": (torch.corrcoef, lambda n: (torch.randn(n + 1, 6),)),
    "median": (lambda a: torch.median(a, 1), x(7)),
    "median of NaN": (lambda a: torch.median(a.masked_fill(a > 1, torch.nan), 1)[0].nan_to_num(9.0), x(7)),
    "median of all": (torch.median, x(5)),
    "kthvalue": (lambda a: torch.kthvalue(a, 2, 0, True), lambda n: (torch.randn(n + 1, 4),)),
    "logcumsumexp": (lambda a: torch.logcumsumexp(a * 50, 1), x(6)),
    "cumulative_trapezoid": (lambda a: torch.cumulative_trapezoid(a, dx=0.5, dim=1), x(6)),
    "rrelu": (nn.RReLU().eval(), x(6)),
    "lstm cell": (nn.LSTMCell(6, 4), x(6)),
    "gru cell": (nn.GRUCell(6, 4), x(6)),
    "rnn cell": (nn.RNNCell(6, 4), x(6)),
    "bincount": (torch.bincount, lambda n: (torch.randint(0, 5, (6 * n,)),)),
    "bincount of weights": (
        lambda a, w: torch.bincount(a, w, minlength=7),
        lambda n: (torch.randint(0, 9, (6 * n,)), torch.randn(6 * n)),
    ),
    "fake_quantize": (lambda a: torch.fake_quantize_per_tensor_affine(a, 0.1, 3, -12, 9), x(6)),
    "fft of images": (lambda a: torch.view_as_real(torch.fft.rfft2(a)), x(3, 8, 7)),
    "fft and back": (lambda a: torch.fft.irfft2(torch.fft.rfft2(a) * 2), x(3, 4, 8)),
    "attention": (of_self(attention()), x(5, 8)),
    "encoder": (encoder(), x(5, 8)),
    "encoder first": (encoder(norm_first=True, activation="gelu"), x(5, 8)),
    "encoder mask": (lambda a, layer=encoder(): layer(a, src_mask=MASK), x(5, 8)),
    "encoder padding": (
        lambda a, m, layer=encoder(): layer(a, src_key_padding_mask=m),
        lambda n: (torch.randn(n, 5, 8), padding(n)),
    ),
}


IN_ONNX = ("grid_sample", "polar", "quantile", "encoder padding", "labels", "bag of max", "bags", "cov", "median")
IN_ONNX += (
    "ctc_loss",
    "ctc_loss of each",
    "gru cell",
    "bincount",
    "bincount of weights",
    "fake_quantize",
    "fft of images",
)


def close(made, expected):
    made, expected = (list(each) if isinstance(each, tuple) else [each] for each in (made, expected))
    assert len(made) == len(expected)
    for a, b in zip(made, expected, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b.detach().numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", CASES)
def test_sizes_stay_free(name):
    function, inputs = CASES[name]
    torch.manual_seed(3)
    with torch.no_grad():
        graph = pijit.graph.capture(function, *inputs(2))
        assert graph.foreign
        assert graph.symbols
        for n in (2, 3):
            given = inputs(n)
            expected = function(*given)
            close(graph.run(*given, framework="numpy"), expected)
            close(graph.run(*given), expected)
    assert not decomposed(graph, having("numpy")).foreign


@pytest.mark.parametrize("name", IN_ONNX)
def test_onnx(name):
    runtime = pytest.importorskip("onnxruntime")
    function, inputs = CASES[name]
    torch.manual_seed(3)
    with torch.no_grad():
        model = pijit.export(function, *inputs(2), format="onnx")
        session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        for n in (2, 3):
            given = inputs(n)
            feed = {each.name: array.numpy() for each, array in zip(session.get_inputs(), given, strict=True)}
            close(tuple(session.run(None, feed)), function(*given))


LIBRARY = torch.library.Library("test_decompose", "FRAGMENT")
LIBRARY.define("rows_in_turn(Tensor x) -> Tensor")
LIBRARY.impl("rows_in_turn", lambda x: sum(x[at] * (at + 1) for at in range(x.shape[0])), "CompositeImplicitAutograd")


def test_a_size_that_is_fixed():
    """A decomposition for one size alone: another size is refused, and it cannot stay free."""
    value = Value("x", "tensor", "input", "float32", ("rows", 2), "cpu")
    made = Value("y", "tensor", "result", "float32", (2,), "cpu")
    node = Node("test_decompose::rows_in_turn", {"x": value}, (made,), origin="test_decompose::rows_in_turn")
    graph = Graph("f", (value,), (), (node,), made, symbols={"rows": 3})
    array = torch.randn(3, 2)
    expected = torch.ops.test_decompose.rows_in_turn(array)
    np.testing.assert_allclose(graph.run(array, framework="numpy"), expected.numpy(), rtol=1e-5)
    assert not decomposed(graph, having("numpy")).symbols
    with pytest.raises(ExportError, match="axis 0 of 'x' is 4 now, and was 3"):
        graph.run(torch.randn(4, 2), framework="numpy")
    with pytest.raises(ExportError, match="rows .3 in this call. cannot stay free"):
        decomposed(graph, having("numpy"), stays_free=True)


@pytest.mark.parametrize("function", [lambda a: torch.combinations(a[:, 0]), lambda a: torch.gradient(a, dim=0)[0]])
def test_a_size_that_the_capture_has_fixed(function):
    graph = pijit.graph.capture(function, torch.randn(2, 3))
    a = torch.randn(2, 3)
    close(graph.run(a, framework="numpy"), function(a))
    with pytest.raises(ExportError, match="is 4 now, and was 2"):
        graph.run(torch.randn(4, 3), framework="numpy")


def test_what_has_no_decomposition_is_refused():
    graph = pijit.graph.capture(lambda a: torch.linalg.eigvals(a), torch.randn(2, 3, 3))
    with pytest.raises(ExportError, match=r"test_decompose\.py:\d+: aten::linalg_eig has no row in the vocabulary"):
        graph.run(torch.randn(2, 3, 3), framework="numpy")


def through_squeeze(x):
    y = x * 2
    y.squeeze(1).masked_fill_(x.squeeze(1) > 0, 5.0)
    return y + 1


def through_several(x):
    y = x * 2
    z = y.flatten(1)
    z[:, 0] = 7
    y.unsqueeze(0).mul_(3)
    y.view(-1).add_(1)
    return y, z


def through_one_that_is_kept(x):
    y = x * 2
    v = y.squeeze(1)
    v.add_(1)
    v.t().mul_(2)
    return y, v


def through_diagonals(x):
    y = x[:, 0].clone()
    y.diagonal().add_(1)
    y.diagonal(2).zero_()
    y.diagonal(-1).mul_(3)
    y.diagonal(1, 1, 0).add_(5)
    y.t().diagonal()[:2].fill_(7)
    return y


@pytest.mark.parametrize("fn", [through_squeeze, through_several, through_one_that_is_kept, through_diagonals])
def test_writes_through_views_of_free_sizes(fn):
    graph = pijit.graph.capture(fn, torch.randn(3, 1, 4))
    pure = graph.functional()
    assert graph.inputs[0].shape == ("x_0", 1, "x_2")
    assert not any(node.writes for node in pure.nodes)
    for sizes in ((3, 1, 4), (5, 1, 6), (2, 1, 3)):
        x = torch.randn(sizes)
        expected = torch.utils._pytree.tree_leaves(fn(x.clone()))
        for framework in ("torch", "numpy"):
            found = torch.utils._pytree.tree_leaves(pure.run(x.clone(), framework=framework))
            for one, other in zip(found, expected, strict=True):
                assert torch.equal(torch.as_tensor(one), other)


def test_writes_through_a_view_without_a_way_back_are_refused():
    def write(a):
        z = torch.complex(a, a)
        torch.view_as_real(z)[..., 0].fill_(5.0)
        return z.real + z.imag

    graph = pijit.graph.capture(write, torch.randn(3))
    a = torch.randn(3)
    assert torch.equal(graph.run(a), write(a))
    with pytest.raises(ExportError, match="writes to what"):
        graph.run(a, framework="numpy")


def test_it_is_decomposed_once(monkeypatch):
    graph = pijit.graph.capture(nn.PairwiseDistance(), torch.randn(2, 6), torch.randn(2, 6))
    calls = []
    monkeypatch.setattr("pijit.graph.run.decomposed", lambda *given: calls.append(given) or decomposed(*given))
    for n in (2, 3, 4):
        a, b = torch.randn(n, 6), torch.randn(n, 6)
        close(graph.run(a, b, framework="numpy"), nn.PairwiseDistance()(a, b))
    assert len(calls) == 1
    pijit.register_lowering("test_decompose::rows_in_turn", torch=lambda x: x.sum(0))
    graph.run(a, b, framework="numpy")
    assert len(calls) == 2
