"""Sums and products with `dtype=`, over all pairs of dtypes, layouts and dimensions, against NumPy.

A result that is stored narrower than its kernel writes would be written beyond its end: the last
elements of odd-sized results and their neighbours show it.
"""

import numpy as np
import pytest

import facula

NAMES = ("bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64")
NAMES += ("float16", "float32", "float64", "complex64", "complex128")
OPERATORS = {"sum": np.sum, "nansum": np.nansum, "prod": np.prod}


def values(name):
    """Numbers that every dtype holds, products and sums of which stay exact."""
    rng = np.random.default_rng(5)
    return rng.integers(0 if name[0] in "bu" else -1, 3, size=(2, 3, 5, 3)).astype(name)


def source(x, layout):
    """The same numbers, contiguous or with the memory of another order."""
    if layout == "contiguous":
        return facula.tensor(x)
    return facula.tensor(np.ascontiguousarray(x.transpose(2, 0, 3, 1))).permute(1, 3, 0, 2)


@pytest.mark.parametrize("layout", ["contiguous", "permuted"])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("operator", OPERATORS)
def test_every_pair(operator, name, layout):
    x = values(name)
    tensor = source(x, layout)
    for to in NAMES:
        if operator == "nansum" and "complex" in name + to:
            continue
        wanted = x.astype(to) if "complex" in to else x.real.astype(to)
        for dim in (0, 1, 2, 3, None):
            # bool adds up to "any" and multiplies to "all"
            if to == "bool":
                expected = (np.all if operator == "prod" else np.any)(wanted, axis=dim)
            else:
                expected = OPERATORS[operator](wanted, axis=dim, dtype=to)
            actual = getattr(facula, operator)(tensor, dim, dtype=getattr(facula, to))
            assert actual.dtype is getattr(facula, to)
            np.testing.assert_array_equal(actual.numpy(), expected, f"{to} along {dim}")


@pytest.mark.parametrize("operator", OPERATORS)
def test_nothing_behind_a_result_is_written(operator):
    """The result is the front of a longer storage, whose rest stays as it is."""
    for to in NAMES[:12]:
        longer = facula.full((11,), 3, dtype=getattr(facula, to))
        x = facula.ones(5, 4, dtype=getattr(facula, to))
        getattr(facula, operator)(x, 1, dtype=getattr(facula, to), out=longer[:5])
        rest = np.full(6, 3).astype(to)
        np.testing.assert_array_equal(longer.numpy()[5:], rest, to)
        expected = {"prod": 1}.get(operator, 4)
        np.testing.assert_array_equal(longer.numpy()[:5], np.full(5, expected).astype(to), to)


def test_nan_counts_for_nothing_in_integers_too():
    """As in PyTorch: what is left out is left out before the conversion."""
    x = facula.tensor([[1.5, float("nan")], [float("nan"), 2.0]])
    for to in ("int8", "int32", "int64", "bool"):
        actual = facula.nansum(x, 0, dtype=getattr(facula, to))
        np.testing.assert_array_equal(actual.numpy(), np.array([1, 2]).astype(to))


def test_out_decides_the_dtype():
    """`out=` without `dtype=`: NumPy sums in the dtype of the result as well."""
    x = np.array([[1.5, 2.25, 3.0], [-4.0, 0.5, 100.0]])
    for operator, expected in (("sum", np.sum), ("prod", np.prod), ("nansum", np.nansum)):
        for source, to in (("float64", "float32"), ("int64", "float64"), ("float32", "int64")):
            if operator == "nansum" and to == "int64":
                continue  # refused, as by PyTorch (`test_lossy_outputs.py`)
            values, out = x.astype(source), facula.zeros(2, dtype=getattr(facula, to))
            getattr(facula, operator)(facula.tensor(values), 1, out=out)
            np.testing.assert_array_equal(out.numpy(), expected(values.astype(to), axis=1))
    for operator, expected in (("mean", np.mean), ("nanmean", np.nanmean)):
        out = facula.zeros(2, dtype=facula.float64)
        getattr(facula, operator)(facula.tensor(x.astype("float32")), 1, out=out)
        np.testing.assert_allclose(out.numpy(), expected(x, axis=1), rtol=1e-15)
        with pytest.raises(RuntimeError, match="floating point or complex dtype"):
            getattr(facula, operator)(facula.tensor(x), 1, out=facula.zeros(2).long())


def test_spreads_and_logarithms_are_stored_in_the_dtype_of_out():
    x = facula.tensor([[1.5, 2.25, 3.0], [-4.0, 0.5, 100.0]], dtype=facula.float64)
    for operator in (facula.var, facula.std, facula.logsumexp):
        out = facula.zeros(2)
        assert operator(x, 1, out=out) is out
        np.testing.assert_array_equal(out.numpy(), operator(x, 1).numpy().astype(np.float32))
        with pytest.raises(RuntimeError, match="can't be cast to the desired"):
            operator(x, 1, out=facula.zeros(2).long())


@pytest.mark.parametrize("dim", [None, 0])
def test_a_product_in_another_dtype_has_the_gradient_of_the_converted_numbers(dim):
    numbers = np.array([[1 + 2j, 0.5 - 1j, 2 + 0.3j], [0.2 + 1j, 1.5, -0.7j]])
    x = facula.tensor(numbers, requires_grad=True)
    x.conj().prod(dim, dtype=facula.float64).sum().backward()
    real = numbers.real
    rest = np.zeros_like(real)
    for i, j in np.ndindex(*real.shape):
        others = real.copy()
        others[i, j] = 1
        rest[i, j] = others.prod() if dim is None else others[:, j].prod()
    assert np.allclose(x.grad.numpy(), rest)


def test_the_gradient_of_a_wider_product_does_not_overflow():
    x = facula.full((8,), 200.0, dtype=facula.float16, requires_grad=True)
    (x.prod(dtype=facula.float64) / 200.0**7).backward()
    assert x.grad.dtype == facula.float16 and np.allclose(x.grad.numpy(), 1, rtol=1e-3)
