"""Rows that only training steps have: backward operators, and forward ones that keep what those need."""

# `gradient` is that of the result; the result is that of x, or of each operand in order. `mask`: which are wanted.
TRAINING: dict[str, list[tuple[str, ...]]] = {
    "training": [
        (
            "threshold_backward(gradient, x, threshold)",
            "gradient where x is above the threshold, else 0",
            "threshold_backward",
        ),
        ("gelu_backward(gradient, x, approximate='none')", "of gelu", "gelu_backward"),
        ("silu_backward(gradient, x)", "of silu", "silu_backward"),
        ("mish_backward(gradient, x)", "of mish", "mish_backward"),
        ("tanh_backward(gradient, y)", "of tanh, with its result y", "tanh_backward"),
        ("sigmoid_backward(gradient, y)", "of sigmoid, with its result y", "sigmoid_backward"),
        ("hardswish_backward(gradient, x)", "of hardswish", "hardswish_backward"),
        ("hardsigmoid_backward(gradient, x)", "of hardsigmoid", "hardsigmoid_backward"),
        ("hardtanh_backward(gradient, x, min, max)", "of hardtanh", "hardtanh_backward"),
        ("leaky_relu_backward(gradient, x, slope, is_result)", "of leaky_relu", "leaky_relu_backward"),
        (
            "elu_backward(gradient, alpha, scale, input_scale, is_result, x)",
            "of elu; x is its result if is_result",
            "elu_backward",
        ),
        ("softplus_backward(gradient, x, beta, threshold)", "of softplus", "softplus_backward"),
        ("log_sigmoid_forward(x)", "logsigmoid, and exp(-|x|)", "log_sigmoid_forward"),
        ("log_sigmoid_backward(gradient, x, buffer)", "of logsigmoid", "log_sigmoid_backward"),
        ("prelu_backward(gradient, x, weight)", "of prelu, before sums for the weight", "_prelu_kernel_backward"),
        ("glu_backward(gradient, x, axis)", "of glu", "glu_backward"),
        (
            "softmax_backward(gradient, y, axis, dtype=None)",
            "of softmax, with its result y, in a dtype",
            "_softmax_backward_data",
        ),
        (
            "log_softmax_backward(gradient, y, axis, dtype=None)",
            "of log_softmax, with its result y, in a dtype",
            "_log_softmax_backward_data",
        ),
        (
            "nll_loss_forward(x, y, weight, reduction, ignore_index)",
            "nll_loss, and the sum of weights of y",
            *("nll_loss_forward", "nll_loss2d_forward"),
        ),
        (
            "nll_loss_backward(gradient, x, y, weight, reduction, ignore_index, total)",
            "of nll_loss, with its sum of weights",
            *("nll_loss_backward", "nll_loss2d_backward"),
        ),
        ("mse_loss_backward(gradient, x, y, reduction)", "of mse_loss", "mse_loss_backward"),
        ("smooth_l1_loss_backward(gradient, x, y, reduction, beta)", "of smooth_l1_loss", "smooth_l1_loss_backward"),
        ("huber_loss_backward(gradient, x, y, reduction, delta)", "of huber_loss", "huber_loss_backward"),
        (
            "binary_cross_entropy_backward(gradient, x, y, weight=None, reduction=1)",
            "of binary_cross_entropy",
            "binary_cross_entropy_backward",
        ),
        (
            "layer_norm_backward(gradient, x, shape, mean, rstd, weight, bias, mask)",
            "of layer_norm for x, weight and bias, with what native_layer_norm gave",
            "native_layer_norm_backward",
        ),
        (
            "batch_norm_backward(gradient, x, weight, mean, variance, save_mean, save_rstd, training, epsilon, mask)",
            "of batch_norm for x, weight and bias, with what native_batch_norm gave",
            "native_batch_norm_backward",
        ),
        (
            "group_norm_backward(gradient, x, mean, rstd, weight, n, c, area, groups, mask)",
            "of group_norm for x, weight and bias, with what native_group_norm gave",
            "native_group_norm_backward",
        ),
        (
            "native_dropout(x, p, training)",
            "dropout, and which elements it keeps; None: training",
            "native_dropout",
        ),
        ("dropout_backward(gradient, kept, scale)", "gradient * kept * scale", "native_dropout_backward"),
        (
            "embedding_backward(gradient, x, rows, padding_index, scale_by_frequency=False)",
            "of embedding for its weight of so many rows; the row padding_index gets 0",
            *(
                "embedding_dense_backward",
                "embedding_backward(gradient, x, rows, padding_index, scale_by_frequency, False)",
            ),
        ),
        (
            "convolution_backward(gradient, x, weight, bias_shape, stride, padding, dilation, transposed, "
            "output_padding, groups, mask)",
            "of convolution for x, weight and bias",
            "convolution_backward",
        ),
        (
            "max_pool2d_backward(gradient, x, kernel, stride, padding, dilation, ceil_mode, indices)",
            "of max_pool2d, with the indices of max_pool2d_with_indices",
            "max_pool2d_with_indices_backward",
        ),
        (
            "avg_pool2d_backward(gradient, x, kernel, stride, padding, ceil_mode, count_include_pad, divisor)",
            "of avg_pool2d",
            "avg_pool2d_backward",
        ),
        (
            "adaptive_avg_pool2d_backward(gradient, x)",
            "of adaptive_avg_pool2d",
            "_adaptive_avg_pool2d_backward",
        ),
        (
            "adaptive_max_pool2d_backward(gradient, x, indices)",
            "of adaptive_max_pool2d",
            "adaptive_max_pool2d_backward",
        ),
        (
            "upsample_nearest2d_backward(gradient, shape, input_shape, scale_h=None, scale_w=None)",
            "of upsample_nearest2d",
            "upsample_nearest2d_backward",
        ),
        (
            "upsample_bilinear2d_backward(gradient, shape, input_shape, align_corners, scale_h=None, scale_w=None)",
            "of upsample_bilinear2d",
            "upsample_bilinear2d_backward",
        ),
        ("select_backward(gradient, shape, axis, index)", "of select: zeros, and gradient there", "select_backward"),
        (
            "slice_backward(gradient, shape, axis, start, stop, step)",
            "of slice: zeros, and gradient there",
            "slice_backward",
        ),
        (
            "diagonal_backward(gradient, shape, offset, axis1, axis2)",
            "of diagonal: zeros, and gradient there",
            "diagonal_backward",
        ),
        (
            "unfold_backward(gradient, shape, axis, size, step)",
            "of unfold: each element gets the sum over its windows",
            "unfold_backward",
        ),
        (
            "flash_attention_backward(gradient, query, key, value, y, logsumexp, dropout, is_causal, mask=None, "
            "scale=None)",
            "of flash_attention for query, key and value, with what it gave",
            "_scaled_dot_product_flash_attention_for_cpu_backward",
        ),
    ],
}
