"""Rows of layers: convolution and pooling, activations, normalisation, attention, losses."""

LAYERS: dict[str, list[tuple[str, ...]]] = {
    "convolution and pooling": [
        *(
            (
                f"conv{n}d(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1)",
                f"convolution over the last {n} axes; padding 'same', 'valid' or numbers",
                *(f"conv{n}d", f"conv{n}d.padding"),
            )
            for n in (1, 2, 3)
        ),
        *(
            (
                f"conv_transpose{n}d(x, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, "
                "dilation=1)",
                f"transposed convolution over the last {n} axes",
                f"conv_transpose{n}d" + (".input" if n > 1 else ""),
            )
            for n in (1, 2, 3)
        ),
        (
            "convolution(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups)",
            "convolution or transposed convolution over all axes but the first two",
            *(
                "convolution",
                "convolution_overrideable",
                "_convolution(x, weight, bias, stride, padding, dilation, "
                "transposed, output_padding, groups, _, _, _, _)",
            ),
        ),
        *(
            (
                f"max_pool{n}d(x, kernel, stride=(), padding=0, dilation=1, ceil_mode=False)",
                f"the largest of windows over the last {n} axes; stride (): kernel",
                f"max_pool{n}d",
            )
            for n in (1, 2, 3)
        ),
        (
            "max_pool2d_with_indices(x, kernel, stride=(), padding=0, dilation=1, ceil_mode=False)",
            "max_pool2d, and where the largest are in the flat image",
            "max_pool2d_with_indices",
        ),
        (
            "avg_pool1d(x, kernel, stride=(), padding=0, ceil_mode=False, count_include_pad=True)",
            "the mean of windows over the last axis; stride (): kernel",
            "avg_pool1d",
        ),
        *(
            (
                f"avg_pool{n}d(x, kernel, stride=(), padding=0, ceil_mode=False, count_include_pad=True, divisor=None)",
                f"the mean of windows over the last {n} axes; stride (): kernel",
                f"avg_pool{n}d",
            )
            for n in (2, 3)
        ),
        *(
            (
                f"adaptive_avg_pool{n}d(x, shape)",
                f"the mean of windows that make the last {n} axes this long; None: as long as it is",
                *(f"adaptive_avg_pool{n}d", *([f"_adaptive_avg_pool{n}d"] if n > 1 else [])),
            )
            for n in (1, 2, 3)
        ),
        *(
            (
                f"adaptive_max_pool{n}d(x, shape)",
                f"the largest of windows that make the last {n} axes this long, and where they are",
                f"adaptive_max_pool{n}d",
            )
            for n in (1, 2)
        ),
        (
            "upsample_nearest(x, shape=None, scale=None)",
            "last axes in another size by the nearest below",
            *(f"upsample_nearest{n}d.vec" for n in (1, 2, 3)),
        ),
        (
            "upsample_nearest2d(x, shape, scale_h=None, scale_w=None)",
            "upsample_nearest of images",
            "upsample_nearest2d",
        ),
        (
            "upsample_linear(x, shape, align_corners=False, scale=None)",
            "last axes in another size by linear interpolation",
            *("upsample_bilinear2d.vec", "upsample_linear1d.vec", "upsample_trilinear3d.vec"),
        ),
        (
            "upsample_bilinear2d(x, shape, align_corners=False, scale_h=None, scale_w=None)",
            "upsample_linear of images",
            "upsample_bilinear2d",
        ),
        (
            "upsample_bicubic(x, shape, align_corners=False, scale=None)",
            "last two axes in another size by cubic interpolation (a = -0.75)",
            "upsample_bicubic2d.vec",
        ),
    ],
    "activation": [
        ("relu(x)", "the larger of x and 0", "relu"),
        ("relu6(x)", "clip(x, 0, 6)", "relu6"),
        ("gelu(x, approximate='none')", "x * Phi(x); approximate 'tanh' as in torch", "gelu"),
        ("silu(x)", "x * sigmoid(x)", "silu"),
        ("sigmoid(x)", "1 / (1 + exp(-x))", "sigmoid", "special_expit"),
        ("hardsigmoid(x)", "clip(x + 3, 0, 6) / 6", "hardsigmoid"),
        ("hardswish(x)", "x * hardsigmoid(x)", "hardswish"),
        ("hardtanh(x, min=-1, max=1)", "clip(x, min, max)", "hardtanh"),
        ("leaky_relu(x, slope=0.01)", "x, times slope below 0", "leaky_relu"),
        (
            "elu(x, alpha=1, scale=1, input_scale=1)",
            "scale * x, below 0 scale * alpha * (exp(input_scale * x) - 1)",
            "elu",
        ),
        ("selu(x)", "elu with alpha 1.67326 and scale 1.0507", "selu"),
        ("celu(x, alpha=1.0)", "x, below 0 alpha * (exp(x / alpha) - 1)", "celu"),
        (
            "softplus(x, beta=1, threshold=20)",
            "log(1 + exp(beta * x)) / beta; x where beta * x is above the threshold",
            "softplus",
        ),
        ("mish(x)", "x * tanh(softplus(x))", "mish"),
        ("prelu(x, weight)", "x, below 0 times the weight of its channel", "prelu", "_prelu_kernel"),
        ("threshold(x, threshold, value)", "x where it is above the threshold, else the value", "threshold"),
        ("softshrink(x, lambd=0.5)", "x nearer to 0 by lambd, 0 within", "softshrink"),
        ("hardshrink(x, lambd=0.5)", "x, 0 within lambd", "hardshrink"),
        ("glu(x, axis=-1)", "the first half times sigmoid of the second", "glu"),
        (
            "softmax(x, axis, dtype=None)",
            "exp(x) / sum(exp(x))",
            *("softmax.int", "_softmax(x, axis, False)"),
        ),
        ("safe_softmax(x, axis, dtype=None)", "softmax; 0 where all of x is -infinity", "_safe_softmax"),
        (
            "log_softmax(x, axis, dtype=None)",
            "log(softmax(x))",
            *("log_softmax.int", "_log_softmax(x, axis, False)"),
        ),
        ("logsigmoid(x)", "log(sigmoid(x))", "log_sigmoid"),
        ("logit(x, epsilon=None)", "log(x / (1 - x)), x clipped to epsilon from 0 and 1", "logit", "special_logit"),
    ],
    "normalisation": [
        (
            "layer_norm(x, shape, weight=None, bias=None, epsilon=1e-05)",
            "(x - mean) / sqrt(variance + epsilon) * weight + bias over the last axes, whose sizes are `shape`",
            "layer_norm(x, shape, weight, bias, epsilon, _)",
        ),
        (
            "native_layer_norm(x, shape, weight, bias, epsilon)",
            "layer_norm, the mean, and 1 / sqrt(variance + epsilon)",
            "native_layer_norm",
        ),
        (
            "rms_norm(x, shape, weight=None, epsilon=None)",
            "x / sqrt(mean(x * x) + epsilon) * weight over the last axes; epsilon None: the dtype's own",
            "rms_norm",
        ),
        (
            "batch_norm(x, weight, bias, mean, variance, training, momentum, epsilon)",
            "normalised over all axes but 1, by the batch's mean and variance if training, else by these",
            "batch_norm(x, weight, bias, mean, variance, training, momentum, epsilon, _)",
        ),
        (
            "native_batch_norm(x, weight, bias, mean, variance, training, momentum, epsilon)",
            "batch_norm, and the batch's mean and 1 / sqrt(variance + epsilon), which are empty if not training",
            *("native_batch_norm", "_native_batch_norm_legit"),
        ),
        (
            "functional_batch_norm(x, weight, bias, mean, variance, training, momentum, epsilon)",
            "native_batch_norm, and the mean and variance after it: (1 - momentum) * old + momentum * the batch's",
            "_native_batch_norm_legit_functional",
        ),
        (
            "group_norm(x, groups, weight=None, bias=None, epsilon=1e-05)",
            "each group of channels normalised",
            "group_norm(x, groups, weight, bias, epsilon, _)",
        ),
        (
            "native_group_norm(x, weight, bias, n, c, area, groups, epsilon)",
            "group_norm, the means, and 1 / sqrt(variance + epsilon)",
            "native_group_norm",
        ),
        (
            "instance_norm(x, weight, bias, mean, variance, use_input_stats, momentum, epsilon)",
            "each channel of each example normalised",
            "instance_norm(x, weight, bias, mean, variance, use_input_stats, momentum, epsilon, _)",
        ),
        ("dropout(x, p, training)", "x if not training; else some elements are 0, at random", "dropout"),
        (
            "feature_dropout(x, p, training)",
            "x if not training; else some channels are 0, at random",
            "feature_dropout",
        ),
    ],
    "attention": [
        (
            "scaled_dot_product_attention(query, key, value, mask=None, dropout=0.0, is_causal=False, scale=None, "
            "enable_gqa=False)",
            "softmax(query @ key.T * scale + mask) @ value; a bool mask keeps; scale None: 1 / sqrt(length of a query)",
            "scaled_dot_product_attention",
        ),
        (
            "flash_attention(query, key, value, dropout=0.0, is_causal=False, mask=None, scale=None)",
            "scaled_dot_product_attention, and log(sum(exp)) of the scores",
            "_scaled_dot_product_flash_attention_for_cpu",
        ),
    ],
    # `reduction` of a loss: 0 none, 1 the mean, 2 the sum.
    "loss": [
        (
            "cross_entropy_loss(x, y, weight=None, reduction=1, ignore_index=-100, label_smoothing=0.0)",
            "-log_softmax(x) at classes y, or summed over probabilities y",
            "cross_entropy_loss",
        ),
        (
            "nll_loss(x, y, weight=None, reduction=1, ignore_index=-100)",
            "-x at classes y on axis 1",
            *("nll_loss", "nll_loss_nd", "nll_loss2d"),
        ),
        ("mse_loss(x, y, reduction=1)", "(x - y) ** 2", "mse_loss"),
        ("l1_loss(x, y, reduction=1)", "|x - y|", "l1_loss"),
        (
            "smooth_l1_loss(x, y, reduction=1, beta=1.0)",
            "(x - y) ** 2 / (2 * beta) within beta, else |x - y| - beta / 2",
            "smooth_l1_loss",
        ),
        (
            "huber_loss(x, y, reduction=1, delta=1.0)",
            "(x - y) ** 2 / 2 within delta, else delta * (|x - y| - delta / 2)",
            "huber_loss",
        ),
        (
            "binary_cross_entropy(x, y, weight=None, reduction=1)",
            "-(y log x + (1 - y) log(1 - x)), logarithms not below -100",
            "binary_cross_entropy",
        ),
        (
            "binary_cross_entropy_with_logits(x, y, weight=None, pos_weight=None, reduction=1)",
            "binary_cross_entropy of sigmoid(x)",
            "binary_cross_entropy_with_logits",
        ),
        (
            "kl_div(x, y, reduction=1, log_target=False)",
            "y * (log(y) - x); log_target: exp(y) * (y - x)",
            "kl_div",
        ),
    ],
}
