"""16-bit floats compute in float32 and round once; float32 stays near float64."""

import numpy as np
import pytest
from operator_cases import (
    DEFINITIONS,
    EVERY,
    POINTWISE,
    TABLE,
    Samples,
    admits,
    calls,
    map_tensors,
    results_near,
)

import facula
from facula.nn import functional as F

NARROW = {"bfloat16": facula.bfloat16, "float16": facula.float16}


@pytest.mark.parametrize("narrow", NARROW)
@pytest.mark.parametrize("name", [n for n in POINTWISE if admits(n, "float")])
def test_pointwise(name, narrow):
    for args, kwargs in calls(name, Samples(NARROW[narrow])):
        actual = TABLE[name](*args, **kwargs)
        wide, wide_kwargs = map_tensors(
            lambda x: x.float() if x.is_floating_point() else x, (args, kwargs)
        )
        expected = TABLE[name](*wide, **wide_kwargs)
        if expected.is_floating_point():
            assert actual.dtype == NARROW[narrow]
            expected = expected.to(NARROW[narrow])
        results_near(actual, expected, NARROW[narrow], 1)


STRUCTURED = [n for n in EVERY if DEFINITIONS[n].kind not in ("pointwise", "view")]


#: dtype -> the dtype to compare with, and how many roundings a sum of products may be off by
COMPARED = {
    "bfloat16": (facula.bfloat16, facula.float32, 8),
    "float16": (facula.float16, facula.float32, 8),
    "float32": (facula.float32, facula.float64, 32),
}


def taken(name, narrow):
    """Whether an operator takes a dtype; 16-bit floats are a field of the definition."""
    return COMPARED[narrow][0].itemsize > 2 or DEFINITIONS[name].takes_16_bits in (True, narrow)


@pytest.mark.parametrize(
    "name, narrow", [(n, d) for n in STRUCTURED for d in COMPARED if taken(n, d)]
)
def test_structured(name, narrow):
    dtype, wide, factor = COMPARED[narrow]
    for args, kwargs in calls(name, Samples(dtype)):
        actual = TABLE[name](*args, **kwargs)
        widened = map_tensors(
            lambda x, d=wide: x.to(d) if x.dtype.is_floating_point else x, [args, kwargs]
        )
        results_near(actual, TABLE[name](*widened[0], **widened[1]), dtype, factor)


@pytest.mark.parametrize(
    "name, narrow", [(n, d) for n in STRUCTURED for d in COMPARED if not taken(n, d)]
)
def test_what_is_not_taken_is_refused(name, narrow):
    for args, kwargs in calls(name, Samples(COMPARED[narrow][0])):
        with pytest.raises(NotImplementedError, match=r"^\["):
            TABLE[name](*args, **kwargs)


@pytest.mark.parametrize("name", ["float8_e5m2", "float8_e4m3fn"])
def test_logsumexp_of_8_bit_floats(name):
    """In float32, rounded once: it wrote float32 results behind those of 8 bits."""
    dtype = getattr(facula, name)
    x = np.linspace(-3, 3, 15, dtype=np.float32).reshape(3, 5)
    narrow = facula.tensor(x).to(dtype)
    values = narrow.float().numpy().astype(np.float64)
    for dim, keepdim in ((1, False), (0, True), ((0, 1), False)):
        expected = np.log(np.exp(values).sum(dim, keepdims=keepdim))
        actual = narrow.logsumexp(dim, keepdim)
        assert actual.dtype == dtype
        np.testing.assert_allclose(
            actual.float().numpy(), expected, rtol=facula.finfo(dtype).eps / 2
        )


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("space", [1, 2, 3])
@pytest.mark.parametrize("narrow", COMPARED)
def test_convolutions_and_their_gradients(narrow, space, groups):
    """Small whole numbers, so that sums are exact before they are rounded once."""
    dtype = COMPARED[narrow][0]
    random = np.random.default_rng(space)
    convolve = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[space]
    shapes = (2, 4, *(7, 6, 5)[:space]), (6, 4 // groups, *(3, 2, 3)[:space]), (6,)
    arrays = [random.integers(-3, 4, shape) for shape in shapes]
    found, wanted = [], []
    for leaves, results in ((dtype, found), (facula.float64, wanted)):
        leaves = [facula.tensor(a).to(leaves).requires_grad_() for a in arrays]
        y = convolve(*leaves, stride=2, padding=1, groups=groups)
        weight = facula.arange(y.numel()).reshape(y.shape).remainder(5).sub(2).to(y.dtype)
        results += [y, *facula.autograd.grad(y, leaves, weight)]
    for actual, expected in zip(found, wanted, strict=True):
        assert actual.dtype == dtype
        assert facula.equal(actual.detach(), expected.detach().to(dtype))


def _classes(**settings):
    target = facula.tensor([1, 0, 6, 3])
    return lambda x, w: F.cross_entropy(x, target, **settings)


#: of a matrix and a row as long as its rows
NORMS_AND_LOSSES = {
    "layer_norm": lambda x, w: F.layer_norm(x, (7,)),
    "layer_norm weight": lambda x, w: F.layer_norm(x, (7,), w),
    "layer_norm both": lambda x, w: F.layer_norm(x, (7,), w, w * 2),
    "rms_norm": lambda x, w: F.rms_norm(x, (7,), eps=1e-3),
    "rms_norm weight": lambda x, w: F.rms_norm(x, (7,), w, eps=1e-3),
    "group_norm": lambda x, w: F.group_norm(x.reshape(2, 7, 2), 1, w),
    "batch_norm": lambda x, w: F.batch_norm(x, None, None, w, training=True),
    "instance_norm": lambda x, w: F.instance_norm(x.reshape(1, 4, 7)),
    "cross_entropy": _classes(),
    "cross_entropy smooth": _classes(label_smoothing=0.2),
    "cross_entropy sum": _classes(reduction="sum"),
    "mse_loss": lambda x, w: F.mse_loss(x, w.expand(4, 7)),
    "mse_loss sum": lambda x, w: F.mse_loss(x, w.expand(4, 7), reduction="sum"),
    "l1_loss": lambda x, w: F.l1_loss(x, w.expand(4, 7)),
    "l1_loss sum": lambda x, w: F.l1_loss(x, w.expand(4, 7), reduction="sum"),
    "bce sum": lambda x, w: F.binary_cross_entropy_with_logits(
        x, w.expand(4, 7).detach().sigmoid(), reduction="sum"
    ),
    "bce": lambda x, w: F.binary_cross_entropy_with_logits(x, w.expand(4, 7).detach().sigmoid()),
}


@pytest.mark.parametrize("narrow", COMPARED)
@pytest.mark.parametrize("name", NORMS_AND_LOSSES)
def test_norms_and_losses_and_their_gradients(name, narrow):
    """Variants with and without weights are kernels of their own."""
    dtype, function = COMPARED[narrow][0], NORMS_AND_LOSSES[name]
    random = np.random.default_rng(6)
    x = facula.tensor(random.uniform(-2, 2, (4, 7))).to(dtype)
    w = facula.tensor(random.uniform(0.5, 1.5, 7)).to(dtype)
    found, wanted = [], []
    for kind, results in ((dtype, found), (facula.float64, wanted)):
        leaves = [t.detach().to(kind).requires_grad_() for t in (x, w)]
        y = function(*leaves)
        weight = facula.linspace(1, 2, y.numel(), dtype=facula.float64).to(dtype).to(kind)
        grads = facula.autograd.grad(y, leaves, weight.reshape(y.shape), allow_unused=True)
        results += [y.detach(), *(g for g in grads if g is not None)]
    assert len(found) == len(wanted)
    for actual, expected in zip(found, wanted, strict=True):
        assert actual.dtype == dtype
        results_near(actual.double(), expected, dtype, 32)
