"""Norms whose sums of powers leave the range of the dtype, against plain Python over scaled numbers."""

import math

import pytest

import facula

FAR = (1.0, 1e20, 1e-20, 1e30, 1e-30, 1e37, 2e-37)
ORDERS = (2.0, 3.0, 2.5, 1.5, 20.0, -1.0, -2.0, -20.0)


def norm_of(values, order):
    """The norm, in float64, of numbers that are divided by the one that counts most."""
    scale = max(values) if order > 0 else min(values)
    return scale * math.fsum((v / scale) ** order for v in values) ** (1 / order)


@pytest.mark.parametrize("dtype", [facula.float32, facula.float64, facula.bfloat16])
@pytest.mark.parametrize("order", ORDERS)
def test_norms_of_far_values(order, dtype):
    far = (1.0, 1e200, 1e-200, 1e300, 1e-300) if dtype is facula.float64 else FAR
    exact = {facula.float32: 2e-5, facula.float64: 1e-12, facula.bfloat16: 2e-2}[dtype]
    for size in far:
        x = facula.tensor([[0.5, 1.5, 1.0], [2.0, 1.25, 0.75]], dtype=facula.float64) * size
        x = x.to(dtype)
        rows = x.double().tolist()
        got = facula.linalg.vector_norm(x, order, 1).double().tolist()
        assert got == pytest.approx([norm_of(r, order) for r in rows], rel=exact, abs=0)
        whole = x.norm(order).double().item()
        assert whole == pytest.approx(norm_of(rows[0] + rows[1], order), rel=exact, abs=0)


@pytest.mark.parametrize("order", [2.0, 3.0, 1.5, 0.5, -1.0, -2.0])
@pytest.mark.parametrize("size", [1e30, 1e20, 1e-20, 1e-30])
def test_gradients_do_not_depend_on_the_size(order, size):
    near = facula.tensor([0.5, 1.5, -1.0], requires_grad=True)
    near.norm(order).backward()
    x = (near.detach() * size).requires_grad_()
    x.norm(order).backward()
    assert x.grad.tolist() == pytest.approx(near.grad.tolist(), rel=1e-5)


@pytest.mark.parametrize("order", [2.0, 3.0, -2.0])
def test_zeros_and_infinities_stay(order):
    inf, nan = math.inf, math.nan
    x = facula.tensor([[0.0, 0.0], [1.0, inf], [0.0, -inf], [1.0, nan]])
    got = x.norm(order, dim=1).tolist()
    assert got[0] == 0.0
    assert got[1] == (inf if order > 0 else 1.0)
    assert got[2] == (inf if order > 0 else 0.0)
    assert math.isnan(got[3])


def test_a_kept_call_sees_new_values():
    """The launch cache plays a call again: the check of its values is played with it."""
    for size in (1.0, 1.0, 1.0, 1e30, 1.0, 1e-30, 1.0):
        assert facula.full((4,), size).norm().item() == pytest.approx(2 * size, rel=1e-6)


@pytest.mark.parametrize("size", [1e30, 1e20, 1e-4])
def test_what_is_built_on_norms(size):
    x = facula.full((2, 4), size)
    assert facula.nn.functional.normalize(x).tolist() == [[0.5] * 4] * 2
    cosine = facula.nn.functional.cosine_similarity(x, x).tolist()
    assert cosine == pytest.approx([1.0, 1.0], rel=1e-6)
    weights = [facula.nn.Parameter(facula.zeros(4)) for _ in range(4)]
    for weight in weights:
        weight.grad = facula.full((4,), size)
    total = facula.nn.utils.clip_grad_norm_(weights, size)
    assert total.item() == pytest.approx(4 * size, rel=1e-6)
    assert weights[0].grad.tolist() == pytest.approx([size / 4] * 4, rel=2e-2)


def test_clipping_of_float64_has_all_digits():
    weights = [facula.nn.Parameter(facula.zeros(3, dtype=facula.float64)) for _ in range(2)]
    for weight in weights:
        weight.grad = facula.tensor([0.1, 0.7, 0.3], dtype=facula.float64)
    length = math.sqrt(2 * (0.01 + 0.49 + 0.09))
    facula.nn.utils.clip_grad_norm_(weights, 0.1)
    expected = [v * 0.1 / (length + 1e-6) for v in (0.1, 0.7, 0.3)]
    for weight in weights:
        assert weight.grad.tolist() == pytest.approx(expected, rel=1e-14)


def test_gradients_of_small_orders_stay_in_float16():
    """A norm of order 1/2 may be far larger than its elements: no ratio of the two is taken."""
    values = [0.004, *[8.0] * 24]
    x = facula.tensor(values, dtype=facula.float16, requires_grad=True)
    norm = x.norm(0.5)
    norm.backward()
    exact = sum(v**0.5 for v in x.tolist())  # the norm is its square
    assert norm.item() == pytest.approx(exact**2, rel=2e-3)
    expected = [v**-0.5 * exact for v in x.tolist()]
    assert x.grad.tolist() == pytest.approx(expected, rel=5e-3)


@pytest.mark.parametrize(
    ("dtype", "sizes"),
    [
        (facula.float16, (1e-3, 1e-4, 1e-5, 3e-6)),
        (facula.float32, (1e-38, 3e-40, 1e-42)),
        (facula.bfloat16, (1e-38, 3e-38)),
    ],
)
def test_gradients_of_norms_whose_inverse_leaves_the_range(dtype, sizes):
    for size in sizes:
        x = (facula.tensor([3.0, -4.0, 1.0]) * size).to(dtype).requires_grad_()
        x.norm().backward()
        values = x.detach().double().tolist()
        wanted = [v / norm_of([abs(v) for v in values], 2.0) for v in values]
        # the norm itself has few digits here: it is rounded to a step of `smallest`
        smallest = facula.finfo(dtype).tiny * facula.finfo(dtype).eps
        rel = 2 * facula.finfo(dtype).eps + smallest / (5 * size)
        assert x.grad.double().tolist() == pytest.approx(wanted, rel=rel, abs=0)
