"""Oracles of normalisations: means and variances of NumPy, with what they leave in running statistics."""

import numpy
from oracle_table import call, oracle


def _standard(a, axis, eps):
    mean, variance = a.mean(axis, keepdims=True), a.var(axis, keepdims=True)
    return (a - mean) / numpy.sqrt(variance + eps), mean, 1 / numpy.sqrt(variance + eps)


def _scaled(a, weight, bias, shape):
    if weight is not None:
        a = a * weight.reshape(shape)
    return a if bias is None else a + bias.reshape(shape)


def _per_channel(a):
    return (1, -1, *[1] * (a.ndim - 2))


@oracle(
    "native_layer_norm",
    "native_layer_norm_of_dtype",
    kind="numpy",
    factor=128,
    samples=lambda S: [
        call(S(2, 3, 4), (3, 4), S(3, 4), S(3, 4), 1e-5),
        call(S(3, 6), [6], None, None, 0.1),
    ],
)
def native_layer_norm(a, normalized_shape, weight, bias, eps):
    axes = tuple(range(a.ndim - len(normalized_shape), a.ndim))
    made, mean, factor = _standard(a, axes, eps)
    return _scaled(made, weight, bias, normalized_shape), mean, factor


@oracle(
    "layer_norm",
    kind="numpy",
    factor=128,
    samples=lambda S: [
        call(S(2, 3, 4), (3, 4), S(3, 4), S(3, 4)),
        call(S(3, 6), [6]),
        call(S(3, 6), (6,), S(6), None, 0.1),
    ],
)
def layer_norm(a, normalized_shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True):
    return native_layer_norm(a, normalized_shape, weight, bias, eps)[0]


@oracle(
    "rms_norm",
    kind="numpy",
    factor=128,
    float32=True,
    samples=lambda S: [call(S(3, 6), (6,), S(6), 1e-5), call(S(2, 3, 4), (3, 4), None, 0.01)],
)
def rms_norm(a, normalized_shape, weight=None, eps=None):
    axes = tuple(range(a.ndim - len(normalized_shape), a.ndim))
    made = a / numpy.sqrt((a * a).mean(axes, keepdims=True) + eps)
    return _scaled(made, weight, None, normalized_shape)


@oracle(
    "local_response_norm",
    kind="loop",
    factor=64,
    empty=False,
    samples=lambda S: [
        call(S(2, 6, 3), 3),
        call(S(2, 6, 3, 2), 4, 0.5, 0.9, 2.0),
        call(S(1, 5, 2), 5, 1.0),
    ],
)
def response(a, size, alpha=1e-4, beta=0.75, k=1.0):
    made = numpy.empty_like(a)
    for c in range(a.shape[1]):
        near = a[:, max(c - size // 2, 0) : c + (size - 1) // 2 + 1]
        made[:, c] = a[:, c] / (k + alpha * (near**2).sum(1) / size) ** beta
    return made


def _running(a, running_mean, running_var, momentum):
    """Running statistics after a batch."""
    axes = (0, *range(2, a.ndim))
    mean, variance = a.mean(axes), a.var(axes, ddof=1)
    return [
        None if old is None else (1 - momentum) * old + momentum * new
        for old, new in ((running_mean, mean), (running_var, variance))
    ]


def _batch(a, running_mean, running_var, weight, bias, training, eps):
    """The normalised batch, and the statistics that it used."""
    shape = _per_channel(a)
    if training or running_mean is None:
        made, mean, factor = _standard(a, (0, *range(2, a.ndim)), eps)
        return _scaled(made, weight, bias, shape), mean.reshape(-1), factor.reshape(-1)
    made = (a - running_mean.reshape(shape)) / numpy.sqrt(running_var.reshape(shape) + eps)
    return _scaled(made, weight, bias, shape), numpy.zeros(0, a.dtype), numpy.zeros(0, a.dtype)


def _after(a, running_mean, running_var, training, momentum):
    if not training:
        return [running_mean, running_var]
    return _running(a, running_mean, running_var, momentum)


@oracle(
    "functional_batch_norm",
    kind="numpy",
    factor=128,
    empty=False,
    expanded=False,
    writes=(1, 2),
    samples=lambda S: [
        call(S(4, 3), S(3), S(3, low=0.5), S(3), S(3)),
        call(S(4, 3, 2), S(3), S(3, low=0.5), S(3), S(3), True, 0.3),
        call(S(4, 3, 2, 2), None, None, training=True),
        call(S(2, 3, 2, 2), S(3), S(3, low=0.5), None, None, True, 0.1, 0.01),
    ],
)
def batch_norm(
    a, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5
):
    made = _batch(a, running_mean, running_var, weight, bias, training, eps)[0]
    return made, _after(a, running_mean, running_var, training, momentum)


@oracle(
    "batch_norm",
    kind="numpy",
    factor=128,
    empty=False,
    expanded=False,
    writes=(3, 4),
    samples=lambda S: [
        call(S(4, 3), S(3), S(3), S(3), S(3, low=0.5), False, 0.1, 1e-5),
        call(S(4, 3, 2), S(3), S(3), S(3), S(3, low=0.5), True, 0.3, 1e-5),
        call(S(4, 3, 2), None, None, None, None, True, 0.1, 0.1),
    ],
)
def batch_norm_of_everything(
    a, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled=True
):
    return batch_norm(a, running_mean, running_var, weight, bias, training, momentum, eps)


@oracle(
    "native_batch_norm",
    kind="numpy",
    factor=128,
    empty=False,
    expanded=False,
    writes=(3, 4),
    samples=lambda S: [
        call(S(4, 3), S(3), S(3), S(3), S(3, low=0.5), False, 0.1, 1e-5),
        call(S(4, 3, 2), S(3), S(3), S(3), S(3, low=0.5), True, 0.3, 1e-5),
    ],
)
def native_batch_norm(a, weight, bias, running_mean, running_var, training, momentum, eps):
    return (
        _batch(a, running_mean, running_var, weight, bias, training, eps),
        _after(a, running_mean, running_var, training, momentum),
    )


@oracle(
    "_native_batch_norm_legit",
    kind="numpy",
    factor=128,
    empty=False,
    expanded=False,
    samples=lambda S: [
        call(S(4, 3), S(3), S(3), S(3), S(3, low=0.5), True, 0.1, 1e-5),
        call(S(4, 3, 2), S(3), S(3), True, 0.1, 1e-5),
    ],
)
def native_batch_norm_of_rest(a, weight, bias, *rest):
    return _batch(a, None, None, weight, bias, True, rest[-1])


@oracle(
    "_native_batch_norm_legit_no_training",
    kind="numpy",
    factor=128,
    empty=False,
    samples=lambda S: [call(S(4, 3, 2), S(3), S(3), S(3), S(3, low=0.5), 0.1, 1e-5)],
)
def batch_norm_without_training(a, weight, bias, running_mean, running_var, momentum, eps):
    none = numpy.zeros(0, a.dtype)
    return _batch(a, running_mean, running_var, weight, bias, False, eps)[0], none, none


@oracle(
    "_batch_norm_with_update",
    kind="numpy",
    factor=128,
    empty=False,
    expanded=False,
    writes=(3, 4),
    samples=lambda S: [call(S(4, 3), S(3), S(3), S(3), S(3, low=0.5), 0.1, 1e-5)],
)
def batch_norm_with_update(a, weight, bias, running_mean, running_var, momentum, eps):
    found = _batch(a, running_mean, running_var, weight, bias, True, eps)
    return ((*found, numpy.zeros(0, numpy.uint8)), _running(a, running_mean, running_var, momentum))


def _grouped(a, groups, weight, bias, eps):
    rows = a.reshape(a.shape[0], groups, -1)
    made, mean, factor = _standard(rows, -1, eps)
    return (
        _scaled(made.reshape(a.shape), weight, bias, _per_channel(a)),
        mean[..., 0],
        factor[..., 0],
    )


@oracle(
    "group_norm",
    kind="numpy",
    factor=128,
    empty=False,
    samples=lambda S: [
        call(S(2, 6, 3), 2),
        call(S(2, 6, 2, 2), 3, S(6), S(6), 0.1),
        call(S(2, 6), 6, S(6)),
    ],
    expanded=True,
)
def group_norm(a, num_groups, weight=None, bias=None, eps=1e-5, cudnn_enabled=True):
    return _grouped(a, num_groups, weight, bias, eps)[0]


@oracle(
    "native_group_norm_of_sizes",
    kind="numpy",
    factor=128,
    empty=False,
    samples=lambda S: [
        call(S(2, 6, 3), S(6), S(6), 2, 6, 3, 2, 1e-5),
        call(S(2, 6, 2, 2), None, None, 2, 6, 4, 3, 0.1),
    ],
)
def native_group_norm(a, weight, bias, N, C, HxW, group, eps):
    return _grouped(a, group, weight, bias, eps)


@oracle(
    "instance_norm",
    kind="numpy",
    factor=128,
    empty=False,
    expanded=False,
    samples=lambda S: [
        call(S(2, 3, 4)),
        call(S(2, 3, 4, 2), None, None, S(3), S(3), True, 0.1, 0.01),
        call(S(2, 3, 4), S(3), S(3, low=0.5), S(3), S(3), False),
    ],
)
def instance_norm(
    a,
    running_mean=None,
    running_var=None,
    weight=None,
    bias=None,
    use_input_stats=True,
    momentum=0.1,
    eps=1e-5,
):
    if use_input_stats:
        return _grouped(a, a.shape[1], weight, bias, eps)[0]
    return _batch(a, running_mean, running_var, weight, bias, False, eps)[0]


@oracle(
    "instance_norm_native",
    kind="numpy",
    factor=128,
    empty=False,
    expanded=False,
    samples=lambda S: [
        call(S(2, 3, 4), S(3), S(3), None, None, True, 0.1, 1e-5, True),
        call(S(2, 3, 4), S(3), S(3), S(3), S(3, low=0.5), False, 0.1, 1e-5, True),
    ],
)
def instance_norm_of_everything(
    a, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, cudnn_enabled
):
    return instance_norm(a, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)
