"""Softmax, norms, losses and optimizer steps against NumPy formulas.

Takes: the public operators, and with them the kernel library of this processor.
Gives: values and gradients in float64, float32 and half precision; independence of the number of
threads.
Keeps true: references are written out in float64; tolerances follow from the dtype.
"""

import numpy as np
import pytest

import facula
from facula import core
from facula.nn import functional as F
from facula.ops.layers import optimizer_kernels

EPS = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
NAMES = list(EPS)


def make(shape, name, seed=0, scale=1.0):
    """A tensor of the dtype, and exactly its values in float64."""
    x = np.random.default_rng(seed).standard_normal(shape) * scale
    tensor = facula.from_numpy(np.asarray(x)).to(getattr(facula, name))
    return tensor, tensor.to(facula.float64).numpy()


def close(got, expected, name, scale=1.0, steps=16):
    """Within a few roundings of the compute dtype, and one of the result's."""
    compute = EPS["float64" if name == "float64" else "float32"]
    tolerance = steps * compute * scale + EPS[name] * np.abs(expected)
    error = np.abs(got.detach().to(facula.float64).numpy() - expected)
    assert (error <= tolerance).all(), (error.max(), name)


def np_softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("shape", "dim"),
    [
        ((3, 17), 1),
        ((5, 1000), -1),
        ((2, 9000), 1),
        ((2, 10, 7), 1),
        ((2, 33, 300), 1),
        ((40, 3), 0),
        ((4,), 0),
    ],
)
def test_softmax(shape, dim, name):
    x, values = make(shape, name, scale=3)
    expected = np_softmax(values, dim)
    close(facula.softmax(x, dim), expected, name)
    close(facula.log_softmax(x, dim), np.log(expected), name, 16)
    y = facula.softmax(x.detach().requires_grad_(), dim)
    grad, g = make(shape, name, 1)
    leaf = x.detach().requires_grad_()
    facula.softmax(leaf, dim).backward(grad)
    kept = y.detach().to(facula.float64).numpy()
    close(leaf.grad, kept * (g - (g * kept).sum(dim, keepdims=True)), name, 16)


def test_softmax_of_nothing_and_infinity():
    row = facula.tensor([[float("-inf")] * 3, [0.0, float("-inf"), 1.0]])
    out = facula.softmax(row, 1).numpy()
    assert np.isnan(out[0]).all()
    assert out[1, 1] == 0 and abs(out[1].sum() - 1) < 1e-6
    assert facula.softmax(facula.zeros(0, 3), 1).shape == (0, 3)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [(3, 17), (70, 64), (5, 1000), (300, 33)])
@pytest.mark.parametrize("affine", [False, True])
def test_layer_norm(shape, affine, name):
    x, values = make(shape, name, scale=2)
    grad, g = make(shape, name, 1)
    weight, w = make(shape[1:], name, 2)
    bias, b = make(shape[1:], name, 3)
    if not affine:
        w, b = np.ones_like(w), np.zeros_like(b)
    mean = values.mean(1, keepdims=True)
    scale = 1 / np.sqrt(values.var(1, keepdims=True) + 1e-5)
    standard = (values - mean) * scale
    leaves = [t.detach().requires_grad_() for t in (x, weight, bias)]
    out = F.layer_norm(leaves[0], shape[1:], *(leaves[1:] if affine else ()))
    close(out, standard * w + b, name, 8)
    out.backward(grad)
    gw = g * w
    dx = scale * (
        gw - gw.mean(1, keepdims=True) - standard * (gw * standard).mean(1, keepdims=True)
    )
    close(leaves[0].grad, dx, name, 16)
    if affine:
        close(leaves[1].grad, (g * standard).sum(0), name, np.abs(g * standard).sum(0) + 8)
        close(leaves[2].grad, g.sum(0), name, np.abs(g).sum(0) + 8)


@pytest.mark.parametrize("name", ["float64", "float32", "bfloat16"])
def test_rms_norm(name):
    x, values = make((37, 50), name)
    weight, w = make((50,), name, 1)
    grad, g = make((37, 50), name, 2)
    leaves = [t.detach().requires_grad_() for t in (x, weight)]
    out = F.rms_norm(leaves[0], (50,), leaves[1], eps=1e-6)
    scale = 1 / np.sqrt((values**2).mean(1, keepdims=True) + 1e-6)
    close(out, values * scale * w, name, 8)
    out.backward(grad)
    standard, gw = values * scale, g * w
    close(
        leaves[0].grad, scale * (gw - standard * (gw * standard).mean(1, keepdims=True)), name, 16
    )
    close(leaves[1].grad, (g * standard).sum(0), name, np.abs(g * standard).sum(0))


def channels(x):
    return (1, -1) + (1,) * (x.ndim - 2)


@pytest.mark.parametrize("name", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize(
    ("shape", "last"),
    [
        ((8, 3), None),
        ((4, 5, 7), None),
        ((6, 16, 9, 11), None),
        ((6, 16, 9, 11), facula.channels_last),
        ((2, 3, 4, 5, 6), None),
        ((2, 3, 4, 5, 6), facula.channels_last_3d),
    ],
)
@pytest.mark.parametrize("affine", [False, True])
def test_batch_norm(shape, last, affine, name):
    x, values = make(shape, name, scale=2)
    grad, g = make(shape, name, 1)
    if last is not None:
        x = x.contiguous(memory_format=last)
    dims = (0, *range(2, len(shape)))
    count = values.size // shape[1]
    wide = (
        "float64" if name == "float64" else "float32"
    )  # parameters of half precision are in float32
    weight, w = make(shape[1:2], wide, 2)
    bias, b = make(shape[1:2], wide, 3)
    if not affine:
        w, b = np.ones_like(w), np.zeros_like(b)
    mean, var = values.mean(dims, keepdims=True), values.var(dims, keepdims=True)
    standard = (values - mean) / np.sqrt(var + 1e-5)
    running = [make(shape[1:2], wide, scale=0)[0], facula.ones(shape[1], dtype=weight.dtype)]
    leaves = [t.detach().requires_grad_() for t in (x, weight, bias)]
    parameters = leaves[1:] if affine else (None, None)
    out = F.batch_norm(leaves[0], *running, *parameters, training=True, momentum=0.3)
    shaped = channels(values)
    close(out, standard * w.reshape(shaped) + b.reshape(shaped), name, 16)
    assert last is None or out.is_contiguous(memory_format=last)
    np.testing.assert_allclose(running[0].numpy(), 0.3 * mean.ravel(), rtol=1e-5, atol=1e-6)
    unbiased = var.ravel() * count / (count - 1)
    np.testing.assert_allclose(running[1].numpy(), 0.7 + 0.3 * unbiased, rtol=1e-5)
    out.backward(grad)
    gw = g * w.reshape(shaped)
    dx = (
        gw - gw.mean(dims, keepdims=True) - standard * (gw * standard).mean(dims, keepdims=True)
    ) / np.sqrt(var + 1e-5)
    close(leaves[0].grad, dx, name, 32)
    if affine:
        close(leaves[1].grad, (g * standard).sum(dims), name, np.abs(g * standard).sum(dims) + 8)
        close(leaves[2].grad, g.sum(dims), name, np.abs(g).sum(dims) + 8)
    still = F.batch_norm(x, *running, *parameters, training=False)
    m, v = (r.numpy().astype(np.float64).reshape(shaped) for r in running)
    close(still, (values - m) / np.sqrt(v + 1e-5) * w.reshape(shaped) + b.reshape(shaped), name, 32)


@pytest.mark.parametrize("name", ["float64", "float32"])
@pytest.mark.parametrize(
    ("shape", "groups"), [((2, 4, 6), 2), ((3, 6, 5, 7), 3), ((2, 8, 9), 8), ((4, 6, 3), 1)]
)
def test_group_norm(shape, groups, name):
    x, values = make(shape, name)
    grad, g = make(shape, name, 1)
    weight, w = make(shape[1:2], name, 2)
    bias, b = make(shape[1:2], name, 3)
    grouped = values.reshape(shape[0], groups, -1)
    mean, var = grouped.mean(2, keepdims=True), grouped.var(2, keepdims=True)
    standard = ((grouped - mean) / np.sqrt(var + 1e-5)).reshape(shape)
    shaped = channels(values)
    leaves = [t.detach().requires_grad_() for t in (x, weight, bias)]
    out = F.group_norm(leaves[0], groups, *leaves[1:])
    close(out, standard * w.reshape(shaped) + b.reshape(shaped), name, 16)
    out.backward(grad)
    gw = (g * w.reshape(shaped)).reshape(grouped.shape)
    h = standard.reshape(grouped.shape)
    dx = (gw - gw.mean(2, keepdims=True) - h * (gw * h).mean(2, keepdims=True)) / np.sqrt(
        var + 1e-5
    )
    close(leaves[0].grad, dx.reshape(shape), name, 32)
    dims = (0, *range(2, len(shape)))
    close(leaves[1].grad, (g * standard).sum(dims), name, np.abs(g * standard).sum(dims) + 8)
    close(leaves[2].grad, g.sum(dims), name, np.abs(g).sum(dims) + 8)


def reference_cross_entropy(x, target, weight, ignore, smoothing, reduction):
    """Rows `[N, C]`; gives the loss and the gradient with respect to x."""
    rows, classes = x.shape
    logp = x - x.max(1, keepdims=True)
    logp = logp - np.log(np.exp(logp).sum(1, keepdims=True))
    w = np.ones(classes) if weight is None else weight
    kept = target != ignore
    index = np.where(kept, target, 0)
    q = np.full((rows, classes), smoothing / classes)
    q[np.arange(rows), index] += 1 - smoothing
    # the class weight of the target belongs to the hard part, that of each class to the smoothed
    # part
    hard = np.zeros_like(q)
    hard[np.arange(rows), index] = (1 - smoothing) * w[index]
    q = (hard + smoothing / classes * w) * kept[:, None]
    loss = -(q * logp).sum(1)
    dx = np.exp(logp) * q.sum(1, keepdims=True) - q
    if reduction == "none":
        return loss, dx
    divisor = (w[index] * kept).sum() if reduction == "mean" else 1.0
    return loss.sum() / divisor, dx / divisor


@pytest.mark.parametrize("name", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize("classes", [3, 100, 5000])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy(name, classes, weighted, smoothing, reduction):
    x, values = make((7, classes), name, scale=3)
    rng = np.random.default_rng(4)
    target = rng.integers(0, classes, 7)
    target[2] = -100
    weight, w = make((classes,), name, 5)
    weight, w = weight.abs(), np.abs(w)
    leaf = x.detach().requires_grad_()
    loss = F.cross_entropy(
        leaf,
        facula.from_numpy(target),
        weight if weighted else None,
        label_smoothing=smoothing,
        reduction=reduction,
    )
    expected, dx = reference_cross_entropy(
        values, target, w if weighted else None, -100, smoothing, reduction
    )
    close(loss, expected, name, 64 + np.abs(expected), steps=32)
    loss.sum().backward()
    close(leaf.grad, dx, name, 16)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("shape", [(4, 5), (2, 5, 3)])
def test_derivatives_of_cross_entropy(shape, reduction, weighted, smoothing):
    """Once and twice, with a row that is ignored."""
    facula.manual_seed(1)
    x = facula.randn(*shape, dtype=facula.float64, requires_grad=True)
    target = facula.randint(0, 5, (shape[0], *shape[2:]))
    target.reshape(-1)[1] = 2
    weight = facula.rand(5, dtype=facula.float64) + 0.5 if weighted else None

    def loss(x):
        return F.cross_entropy(
            x, target, weight, ignore_index=2, reduction=reduction, label_smoothing=smoothing
        )

    assert facula.autograd.gradcheck(loss, (x,))
    assert facula.autograd.gradgradcheck(loss, (x,))


def test_cross_entropy_of_images_and_probabilities():
    x, values = make((2, 5, 3, 4), "float64")
    target = np.random.default_rng(6).integers(0, 5, (2, 3, 4))
    rows = values.transpose(0, 2, 3, 1).reshape(-1, 5)
    expected, dx = reference_cross_entropy(rows, target.ravel(), None, -100, 0.0, "mean")
    leaf = x.requires_grad_()
    loss = F.cross_entropy(leaf, facula.from_numpy(target))
    close(loss, expected, "float64", 8)
    loss.backward()
    close(leaf.grad, dx.reshape(2, 3, 4, 5).transpose(0, 3, 1, 2), "float64")
    hot = np.eye(5)[target].transpose(0, 3, 1, 2).copy()
    close(F.cross_entropy(x, facula.from_numpy(hot)), expected, "float64", 8)
    logp = facula.log_softmax(x, 1)
    close(F.nll_loss(logp, facula.from_numpy(target)), expected, "float64", 8)


def test_cross_entropy_masked_logits_and_errors():
    x = facula.zeros(2, 4)
    x[:, 3] = float("-inf")
    loss = F.cross_entropy(x, facula.tensor([0, 1]))
    assert loss.item() == pytest.approx(np.log(3))
    with pytest.raises(IndexError, match="Target 9 is out of bounds"):
        F.cross_entropy(x, facula.tensor([0, 9]))
    with pytest.raises(RuntimeError, match="label_smoothing"):
        F.cross_entropy(x, facula.tensor([0, 1]), label_smoothing=2.0)
    assert np.isnan(F.cross_entropy(x, facula.tensor([-100, -100])).item())


def test_second_derivatives():
    """Gradients of gradients against central differences of the first ones."""
    rng = np.random.default_rng(8)
    weight = facula.from_numpy(rng.standard_normal(4))
    target = facula.tensor([1, 3, 0])
    cases = {
        "softmax": lambda t: facula.softmax(t, 1),
        "log_softmax": lambda t: facula.log_softmax(t, 1),
        "layer_norm": lambda t: F.layer_norm(t, (4,), weight),
        "rms_norm": lambda t: F.rms_norm(t, (4,), weight, 1e-5),
        "batch_norm": lambda t: F.batch_norm(t, None, None, weight, None, True),
        "group_norm": lambda t: F.group_norm(t.reshape(3, 2, 2), 1).reshape(3, 4),
        "cross_entropy": lambda t: F.cross_entropy(t, target, reduction="none"),
        "var": lambda t: t.var(1),
        "logsumexp": lambda t: t.logsumexp(1),
    }
    x = facula.from_numpy(rng.standard_normal((3, 4)))
    v = facula.from_numpy(rng.standard_normal((3, 4)))
    for name, function in cases.items():

        def gradient(point, create, function=function):
            leaf = point.detach().requires_grad_()
            out = function(leaf)
            mix = facula.linspace(-1, 1, out.numel(), dtype=facula.float64).reshape(out.shape)
            (grad,) = facula.autograd.grad((out * mix).sum(), leaf, create_graph=create)
            return leaf, grad

        leaf, grad = gradient(x, True)
        (second,) = facula.autograd.grad((grad * v).sum(), leaf)
        step = 1e-6
        numeric = np.zeros((3, 4))
        for index in np.ndindex(3, 4):
            ends = []
            for sign in (1, -1):
                moved = x.numpy().copy()
                moved[index] += sign * step
                ends.append(float((gradient(facula.from_numpy(moved), False)[1] * v).sum()))
            numeric[index] = (ends[0] - ends[1]) / (2 * step)
        np.testing.assert_allclose(second.numpy(), numeric, rtol=1e-5, atol=1e-6, err_msg=name)


def test_threads_do_not_matter():
    x, _ = make((3000, 65), "float32")
    weight, _ = make((65,), "float32", 1)
    grads = []
    before = core.get_num_threads()
    try:
        for threads in (1, 2, 3):
            core.set_num_threads(threads)
            leaves = [t.detach().requires_grad_() for t in (x, weight)]
            (F.layer_norm(leaves[0], (65,), leaves[1]) ** 2).sum().backward()
            grads.append([leaf.grad.numpy().copy() for leaf in leaves])
    finally:
        core.set_num_threads(before)
    for other in grads[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(grads[0], other, strict=True))


# --- optimizer steps: (name, states, keyword settings, reference in float64 of (p, g, states,
# step))


def ref_adam(p, g, s, t, decoupled, amsgrad=False, lr=0.01, b1=0.9, b2=0.99, eps=1e-6, wd=0.1):
    if decoupled:
        p = p * (1 - lr * wd)
    else:
        g = g + wd * p
    s["m"] = b1 * s["m"] + (1 - b1) * g
    s["v"] = b2 * s["v"] + (1 - b2) * g * g
    second = s["v"]
    if amsgrad:
        s["x"] = second = np.maximum(s["x"], s["v"])
    denominator = np.sqrt(second) / np.sqrt(1 - b2**t) + eps
    return p - lr / (1 - b1**t) * s["m"] / denominator


SIZES = [(3,), (8, 13), (20_000,), (0,), ()]


@pytest.mark.parametrize("name", ["float64", "float32"])
@pytest.mark.parametrize("decoupled", [False, True])
@pytest.mark.parametrize("amsgrad", [False, True])
def test_adam(name, decoupled, amsgrad):
    dtype = getattr(facula, name)
    params, values = zip(*(make(size, name, k) for k, size in enumerate(SIZES)), strict=True)
    params, values = list(params), [v.copy() for v in values]
    lists = [[facula.zeros(size, dtype=dtype) for size in SIZES] for _ in range(3)]
    steps = [facula.zeros(()) for _ in SIZES]
    states = [{k: np.zeros(size) for k in "mvx"} for size in SIZES]
    step = optimizer_kernels.adamw_step if decoupled else optimizer_kernels.adam_step
    for t in range(1, 4):
        grads, gs = zip(
            *(make(size, name, 10 * t + k) for k, size in enumerate(SIZES)), strict=True
        )
        step(
            params,
            grads,
            *lists,
            steps,
            lr=0.01,
            betas=(0.9, 0.99),
            eps=1e-6,
            weight_decay=0.1,
            amsgrad=amsgrad,
        )
        values = [
            ref_adam(p, g, s, t, decoupled, amsgrad)
            for p, g, s in zip(values, gs, states, strict=True)
        ]
    for param, value in zip(params, values, strict=True):
        close(param, value, name, 4 + np.abs(value), steps=16)
    assert all(s.item() == 3 for s in steps)


@pytest.mark.parametrize("nesterov", [False, True])
def test_sgd(nesterov):
    sizes = [(5,), (300,)]
    params, values = zip(*(make(size, "float64", k) for k, size in enumerate(sizes)), strict=True)
    values, buffers, kept = [v.copy() for v in values], [None, None], [None, None]
    for t in range(3):
        grads, gs = zip(
            *(make(size, "float64", 7 * t + k + 2) for k, size in enumerate(sizes)), strict=True
        )
        optimizer_kernels.sgd_step(
            list(params),
            list(grads),
            buffers,
            lr=0.1,
            momentum=0.9,
            dampening=0.0 if nesterov else 0.3,
            weight_decay=0.01,
            nesterov=nesterov,
            maximize=True,
        )
        for k, g in enumerate(gs):
            d = -g + 0.01 * values[k]
            damp = 0.0 if nesterov else 0.3
            kept[k] = d if kept[k] is None else 0.9 * kept[k] + (1 - damp) * d
            values[k] = values[k] - 0.1 * (d + 0.9 * kept[k] if nesterov else kept[k])
    for param, value in zip(params, values, strict=True):
        close(param, value, "float64", 4)


def test_many_tensors_in_one_call():
    params = [facula.ones(64) for _ in range(200)]
    grads = [facula.full((64,), float(k)) for k in range(200)]
    optimizer_kernels.sgd_step(params, grads, [None] * 200, lr=0.5)
    assert all(p[0].item() == 1 - 0.5 * k for k, p in enumerate(params))
    norms = optimizer_kernels.foreach_norm(grads)
    assert [n.item() for n in norms] == [8.0 * k for k in range(200)]
    largest = optimizer_kernels.foreach_norm(grads, float("inf"))
    assert [n.item() for n in largest] == [float(k) for k in range(200)]
    optimizer_kernels.scale_tensors(grads, facula.tensor(0.5))
    assert grads[10][0].item() == 5.0
