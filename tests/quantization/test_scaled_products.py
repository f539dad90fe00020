"""Products of float8 with scales, of bytes that are not signed, and of groups, against NumPy."""

import numpy as np
import pytest

import facula
from facula._higher_order_ops.out_dtype import out_dtype
from facula.nn import functional


@pytest.fixture
def numbers():
    return np.random.default_rng(3)


def drawn(numbers, *shape):
    return facula.from_numpy(numbers.standard_normal(shape).astype("float32"))


def wide(tensor):
    return tensor.double().numpy()


@pytest.mark.parametrize("kind", (facula.float8_e4m3fn, facula.float8_e5m2))
@pytest.mark.parametrize("by_rows", (False, True))
def test_products_of_float8(numbers, kind, by_rows):
    a, b = drawn(numbers, 5, 24).to(kind), drawn(numbers, 7, 24).to(kind).t()
    scale_a = facula.rand(5, 1) + 0.5 if by_rows else facula.tensor(2.0)
    scale_b = facula.rand(1, 7) + 0.5 if by_rows else facula.tensor(0.25)
    bias = drawn(numbers, 7)
    want = (wide(a) * wide(scale_a)) @ (wide(b) * wide(scale_b))
    made = facula._scaled_mm(a, b, scale_a, scale_b, out_dtype=facula.float32)
    assert made.dtype is facula.float32 and np.allclose(made.numpy(), want, rtol=1e-5, atol=1e-5)
    made = facula._scaled_mm(a, b, scale_a, scale_b, bias, out_dtype=facula.bfloat16)
    assert np.allclose(wide(made), want + bias.numpy(), rtol=2**-8, atol=1e-5)
    made = facula._scaled_mm(a, b, scale_a, scale_b)
    assert made.dtype is kind
    assert np.allclose(
        wide(made), want, rtol=2**-4 if kind is facula.float8_e4m3fn else 2**-3, atol=2**-9
    )


def test_float8_results_end_at_its_largest():
    x = facula.full((2, 16), 400.0).to(facula.float8_e4m3fn)
    made = facula._scaled_mm(x, x.t(), facula.tensor(1.0), facula.tensor(-1.0))
    assert wide(made).tolist() == [[-448.0] * 2] * 2


@pytest.mark.parametrize(
    "change, error, words",
    (
        ({"a": facula.ones(3, 8)}, ValueError, "float8 was required for mat_a"),
        ({"b": facula.ones(8, 4)}, ValueError, "float8 was required for mat_b"),
        ({"a": facula.ones(3, 9).to(facula.float8_e4m3fn)}, RuntimeError, "cannot be multiplied"),
        ({"scale_a": facula.ones(2)}, ValueError, "as scale_a"),
        ({"scale_b": facula.ones(1, 4).double()}, ValueError, "as scale_b"),
        ({"bias": facula.ones(3)}, RuntimeError, "Bias must be size 4"),
    ),
)
def test_refused_scaled_products(change, error, words):
    given = {
        "a": facula.ones(3, 8).to(facula.float8_e4m3fn),
        "b": facula.ones(8, 4).to(facula.float8_e4m3fn),
        "scale_a": facula.tensor(1.0),
        "scale_b": facula.tensor(1.0),
        "bias": None,
        **change,
    }
    with pytest.raises(error, match=words):
        facula._scaled_mm(*given.values())


@pytest.mark.parametrize("rows, inner, results", ((3, 5, 4), (64, 100, 33), (1, 1, 1), (2, 0, 3)))
def test_bytes_without_a_sign(numbers, rows, inner, results):
    a = numbers.integers(0, 256, (rows, inner)).astype("uint8")
    b = numbers.integers(-128, 128, (inner, results)).astype("int8")
    made = facula._int_mm(facula.from_numpy(a), facula.from_numpy(b))
    assert (made.numpy() == a.astype("int32") @ b.astype("int32")).all()


def test_sums_of_another_dtype(numbers):
    a = numbers.integers(-128, 128, (4, 300)).astype("int8")
    b = numbers.integers(-128, 128, (300, 6)).astype("int8")
    made = out_dtype(facula.ops.aten.mm.default, facula.int32, *map(facula.from_numpy, (a, b)))
    assert made.dtype is facula.int32
    assert (made.numpy() == a.astype("int32") @ b.astype("int32")).all()
    made = out_dtype(facula.ops.aten.add.Tensor, facula.int32, *map(facula.from_numpy, (a, a)))
    assert (made.numpy() == 2 * a.astype("int32")).all()
    with pytest.raises(ValueError, match="OpOverload"):
        out_dtype(facula.mm, facula.int32, facula.ones(1, 1), facula.ones(1, 1))


def grouped(a, b, ends):
    """By a loop over the groups; rows behind the last one are zeros."""
    starts = [0, *ends][:-1]
    if a.ndim == 2 and b.ndim == 3:
        made = np.zeros((a.shape[0], b.shape[2]))
        for i, (low, high) in enumerate(zip(starts, ends, strict=True)):
            made[low:high] = a[low:high] @ b[i]
        return made
    if a.ndim == 3:
        made = np.zeros((a.shape[1], b.shape[1]))
        for i, (low, high) in enumerate(zip(starts, ends, strict=True)):
            made[:, low:high] = a[i] @ b[:, low:high]
        return made
    return np.stack([a[:, low:high] @ b[low:high] for low, high in zip(starts, ends, strict=True)])


@pytest.mark.parametrize("ends", ([3, 8], [0, 6], [5, 5]))
@pytest.mark.parametrize("shapes", (((8, 4), (2, 4, 3)), ((2, 5, 4), (4, 8)), ((5, 8), (8, 3))))
def test_products_of_groups(numbers, shapes, ends):
    a, b = (drawn(numbers, *shape).requires_grad_() for shape in shapes)
    offs = facula.tensor(ends, dtype=facula.int32)
    made = functional.grouped_mm(a, b, offs=offs)
    want = grouped(wide(a.detach()), wide(b.detach()), ends)
    assert np.allclose(made.detach().numpy(), want, atol=1e-5)
    made.sum().backward()
    step = 1e-3
    moved = a.detach().clone()
    moved.reshape(-1)[5] += step
    slope = (grouped(wide(moved), wide(b.detach()), ends).sum() - want.sum()) / step
    assert abs(float(a.grad.reshape(-1)[5]) - slope) < 1e-2


def test_groups_of_whole_matrices(numbers):
    a, b = drawn(numbers, 3, 4, 5), drawn(numbers, 3, 5, 2)
    assert np.allclose(facula._grouped_mm(a, b).numpy(), a.numpy() @ b.numpy(), atol=1e-5)


@pytest.mark.parametrize(
    "a, b, offs, words",
    (
        ((8, 4), (2, 4, 3), None, "Have to provide offsets"),
        ((2, 8, 4), (2, 4, 3), [3, 8], "Have to provide offsets"),
        ((8, 4), (2, 5, 3), [3, 8], "contraction dimension"),
        ((8, 4), (3, 4, 3), [3, 8], "matrix batch sizes have to match"),
        ((8, 4), (2, 4, 3), [5, 3], "do not fall"),
        ((8, 4), (2, 4, 3), [5, 9], "end at 8 at most"),
        ((2, 8, 4), (3, 4, 3), None, "batched dimension has to match"),
        ((8,), (2, 4, 3), [3, 8], "2 or 3d"),
    ),
)
def test_refused_groups(a, b, offs, words):
    offs = None if offs is None else facula.tensor(offs, dtype=facula.int32)
    with pytest.raises(RuntimeError, match=words):
        facula._grouped_mm(facula.ones(a), facula.ones(b), offs=offs)


def test_refused_offsets_and_dtypes():
    a, b = facula.ones(8, 4), facula.ones(2, 4, 3)
    with pytest.raises(RuntimeError, match="int32"):
        facula._grouped_mm(a, b, offs=facula.tensor([3, 8]))
    offs = facula.tensor([3, 8], dtype=facula.int32)
    with pytest.raises(RuntimeError, match="Expected mat_a"):
        facula._grouped_mm(a.double(), b, offs=offs)
    with pytest.raises(RuntimeError, match="Bias not supported"):
        facula._grouped_mm(a, b, offs=offs, bias=facula.ones(3))
    with pytest.raises(RuntimeError, match="output dtype"):
        facula._grouped_mm(a, b, offs=offs, out_dtype=facula.float16)
