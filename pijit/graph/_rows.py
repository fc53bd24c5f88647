"""The rows of the vocabulary: signature, meaning, and patterns of ATen's operators; see `vocabulary`."""

FAMILIES: dict[str, list[tuple[str, ...]]] = {
    "elementwise": [
        ("add(x, y, alpha=1)", "x + alpha * y", "add.Tensor(x, y, alpha)", "add.Scalar(x, y, alpha)"),
        ("subtract(x, y, alpha=1)", "x - alpha * y", "sub.Tensor(x, y, alpha)", "sub.Scalar(x, y, alpha)"),
        ("reverse_subtract(x, y, alpha=1)", "y - alpha * x", "rsub.Scalar(x, y, alpha)", "rsub.Tensor(x, y, alpha)"),
        ("multiply(x, y)", "x * y", "mul.Tensor(x, y)", "mul.Scalar(x, y)"),
        ("relu(x)", "the larger of x and 0", "relu(x)"),
        ("gelu(x, approximate='none')", "x * Phi(x); approximate 'tanh' as in torch", "gelu(x, approximate)"),
    ],
    "reduction": [
        (
            "mean(x, axis=None, keepdims=False, dtype=None)",
            "the mean over axes, or over all",
            "mean(x, dtype)",
            "mean.dim(x, axis, keepdims, dtype)",
        ),
    ],
    "linear algebra": [
        ("linear(x, weight, bias=None)", "x @ weight.T + bias", "linear(x, weight, bias)"),
    ],
    "shape": [
        ("reshape(x, shape)", "the same elements in another shape; -1: what is left", "reshape(x, shape)"),
        ("view(x, shape)", "reshape without a copy", "view(x, shape)"),
        (
            "size(x, axis)",
            "the length of an axis, an int",
            "tensor::size(x, axis)",
        ),
    ],
    "indexing": [
        ("getitem(x, index)", "x[index] as in the array API, and with arrays of integers", "tensor::getitem(x, index)"),
    ],
    "normalisation": [
        (
            "layer_norm(x, shape, weight=None, bias=None, epsilon=1e-05)",
            "(x - mean) / sqrt(variance + epsilon) * weight + bias over the last axes, whose sizes are `shape`",
            "layer_norm(x, shape, weight, bias, epsilon, _)",
        ),
    ],
}
