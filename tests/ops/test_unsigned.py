"""uint16, uint32 and uint64 at the top of their range: right numbers (NumPy's, Python's) or a refusal.

Kernels compute uint64 in int64, which is right as long as nobody asks which of two numbers is larger;
what asks is refused, as PyTorch refuses it.
"""

import math

import numpy as np
import pytest

import facula

DTYPES = ("uint16", "uint32", "uint64")


def numbers(dtype):
    """Values and others of a dtype: at its ends, around its middle, equal ones among them."""
    top = 2 ** (8 * np.dtype(dtype).itemsize)
    values = [3, top - 1, 7, top // 2, top // 2 + 5, 12, 1, top - 6]
    others = [5, 3, top - 1, top // 2, 2, top - 2, 9, top - 3]
    return np.array(values, dtype=dtype), np.array(others, dtype=dtype)


def of_python(function):
    """A function of two Python ints, elementwise; results wrap."""

    def applied(x, y):
        top = 2 ** (8 * x.dtype.itemsize)
        return np.array(
            [function(int(a), int(b)) % top for a, b in zip(x, y, strict=True)], dtype=x.dtype
        )

    return applied


def extremes(function, position):
    return lambda x, y: (function(x.reshape(2, 4), 1), position(x.reshape(2, 4), 1))


def running(function):
    values = function.accumulate
    return lambda x, y: values(x)


#: (facula, oracle, whether the order of numbers is asked for)
CALLS = {
    "max": (lambda x, y: x.max(), lambda x, y: x.max(), True),
    "min": (lambda x, y: x.min(), lambda x, y: x.min(), True),
    "amax": (lambda x, y: x.view(2, 4).amax(0), lambda x, y: x.reshape(2, 4).max(0), True),
    "amin": (lambda x, y: x.view(2, 4).amin(0), lambda x, y: x.reshape(2, 4).min(0), True),
    "aminmax": (lambda x, y: tuple(x.aminmax()), lambda x, y: (x.min(), x.max()), True),
    "max_dim": (lambda x, y: tuple(x.view(2, 4).max(1)), extremes(np.max, np.argmax), True),
    "min_dim": (lambda x, y: tuple(x.view(2, 4).min(1)), extremes(np.min, np.argmin), True),
    "argmax": (lambda x, y: x.argmax(), lambda x, y: x.argmax(), True),
    "argmin": (lambda x, y: x.argmin(), lambda x, y: x.argmin(), True),
    "cummax": (lambda x, y: x.cummax(0)[0], running(np.maximum), True),
    "cummin": (lambda x, y: x.cummin(0)[0], running(np.minimum), True),
    "maximum": (facula.maximum, np.maximum, True),
    "fmin": (facula.fmin, np.fmin, True),
    "clamp": (lambda x, y: x.clamp(5, 1000), lambda x, y: x.clip(5, 1000), True),
    "clamp_tensor": (lambda x, y: x.clamp(max=y), np.minimum, True),
    "lt": (lambda x, y: x < y, np.less, True),
    "ge": (lambda x, y: x >= y, np.greater_equal, True),
    "gt_number": (lambda x, y: x > 5, lambda x, y: x > 5, True),
    "floor_divide": (lambda x, y: x // y, np.floor_divide, True),
    "trunc_divide": (lambda x, y: x.div(y, rounding_mode="trunc"), np.floor_divide, True),
    "remainder": (lambda x, y: x % y, np.remainder, True),
    "fmod": (facula.fmod, np.fmod, True),
    "right_shift": (lambda x, y: x >> 1, lambda x, y: x >> 1, True),
    "gcd": (facula.gcd, np.gcd, True),
    "lcm": (lambda x, y: facula.lcm(x, x), lambda x, y: of_python(math.lcm)(x, x), True),
    "abs": (lambda x, y: x.abs(), lambda x, y: x, True),
    "sign": (lambda x, y: x.sign(), lambda x, y: np.sign(x), True),
    "pow": (facula.pow, of_python(lambda a, b: pow(a, b, 2**64)), True),
    "heaviside": (facula.heaviside, lambda x, y: np.ones_like(x), True),
    "relu": (lambda x, y: facula.relu(x), lambda x, y: x, True),
    "eq": (lambda x, y: x == y, np.equal, False),
    "ne": (lambda x, y: x != y, np.not_equal, False),
    "where": (lambda x, y: facula.where(x == y, x, y), lambda x, y: y, False),
    "add": (lambda x, y: x + y, np.add, False),
    "add_alpha": (lambda x, y: facula.add(x, y, alpha=3), lambda x, y: x + np.uint8(3) * y, False),
    "sub": (lambda x, y: x - y, np.subtract, False),
    "mul": (lambda x, y: x * y, np.multiply, False),
    "neg": (lambda x, y: -x, np.negative, False),
    "and": (lambda x, y: x & y, np.bitwise_and, False),
    "xor": (lambda x, y: x ^ y, np.bitwise_xor, False),
    "not": (lambda x, y: ~x, np.bitwise_not, False),
    "left_shift": (lambda x, y: x << 1, lambda x, y: x << 1, False),
    "signbit": (lambda x, y: x.signbit(), lambda x, y: np.zeros(8, bool), False),
    "to_double": (lambda x, y: x.double(), lambda x, y: x.astype(np.float64), False),
    "bool": (lambda x, y: x.bool(), lambda x, y: x.astype(bool), False),
    "sort": (lambda x, y: tuple(x.sort()), lambda x, y: (np.sort(x), np.argsort(x)), False),
    "topk": (lambda x, y: x.topk(3)[0], lambda x, y: np.sort(x)[:-4:-1], False),
    "kthvalue": (lambda x, y: x.kthvalue(5)[0], lambda x, y: np.sort(x)[4], False),
    "unique": (lambda x, y: facula.cat([x, y]).unique(), np.union1d, False),
    "isin": (facula.isin, np.isin, False),
    "bucketize": (
        lambda x, y: facula.bucketize(x, y.sort()[0]),
        lambda x, y: np.searchsorted(np.sort(y), x),
        False,
    ),
    "searchsorted_right": (
        lambda x, y: facula.searchsorted(y.sort()[0], x, right=True),
        lambda x, y: np.searchsorted(np.sort(y), x, "right"),
        False,
    ),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CALLS)
def test_values_or_a_refusal(name, dtype):
    function, oracle, ordered = CALLS[name]
    x, y = numbers(dtype)
    given = [facula.from_numpy(v.copy()) for v in (x, y)]
    if ordered and dtype == "uint64":
        with pytest.raises(NotImplementedError, match=r"^\[\w+\] a dtype other than uint64 was"):
            function(*given)
        return
    results, wanted = function(*given), oracle(x, y)
    for result, right in zip(*map(listed, (results, wanted)), strict=True):
        assert result.tolist() == right.tolist()


def listed(value):
    return value if isinstance(value, tuple) else (value,)


@pytest.mark.parametrize("dtype", DTYPES)
def test_unique_in_turn_and_in_rows(dtype):
    values = np.repeat(numbers(dtype)[0], 2)
    x = facula.from_numpy(values)
    assert x.unique_consecutive().tolist() == values[::2].tolist()
    rows = facula.stack([x[:4], x[4:8], x[:4]])
    found = facula.unique(rows, dim=0)
    assert found.tolist() == np.unique(rows.numpy(), axis=0).tolist()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("into", ["scatter_reduce", "index_reduce"])
def test_means_at_an_index(into, dtype):
    top = 2 ** (8 * np.dtype(dtype).itemsize)
    source = facula.from_numpy(np.array([top - 1, 6, 8], dtype=dtype))
    target = facula.zeros(2, dtype=source.dtype)
    call = getattr(target, into)
    index = facula.tensor([0, 1, 1])
    if dtype == "uint64":
        with pytest.raises(NotImplementedError, match=into):
            call(0, index, source, "mean", include_self=False)
        return
    assert call(0, index, source, "mean", include_self=False).tolist() == [top - 1, 7]


def test_counts_of_numbers_that_are_no_places():
    x = facula.from_numpy(np.array([2**63 + 1, 5], dtype=np.uint64))
    with pytest.raises(NotImplementedError, match=r"\[bincount\]"):
        facula.bincount(x)


@pytest.mark.parametrize(
    "call",
    [
        lambda u, i: u + i,
        lambda u, i: u == i,
        lambda u, i: i < u[0],
        lambda u, i: facula.cat([u, i]),
        lambda u, i: facula.searchsorted(u, i),
        lambda u, i: facula.promote_types(u.dtype, i.dtype),
        lambda u, i: facula.maximum(u[0], i[0]),
    ],
)
def test_no_dtype_holds_uint64_and_negative_numbers(call):
    u = facula.from_numpy(np.array([1, 2**63], dtype=np.uint64))
    with pytest.raises(RuntimeError, match="Promotion for uint16, uint32, uint64 types is not"):
        call(u, facula.tensor([1, -1]))


BIG = 2**63 + 2**60


def test_large_numbers_beside_floats():
    x = facula.tensor([1.0, 2.0])
    wide = np.array([1.0, 2.0])
    assert (x + BIG).tolist() == (wide + BIG).tolist()
    assert (x * BIG).tolist() == (wide * BIG).tolist()
    assert (x / BIG).tolist() == (wide / BIG).astype(np.float32).tolist()
    assert (x < BIG).tolist() == [True, True]
    assert (BIG - x).tolist() == (BIG - wide).tolist()
    assert x.clamp(-1, BIG).tolist() == [1.0, 2.0]
    assert (x.to(facula.complex64) * BIG).tolist() == [complex(BIG), complex(2 * BIG)]
    x.requires_grad_()
    (x * BIG).sum().backward()
    assert x.grad.tolist() == [BIG, BIG]


def test_large_numbers_beside_integers():
    x = facula.tensor([1, -3])
    wrapped = [(v * BIG + 2**63) % 2**64 - 2**63 for v in (1, -3)]
    assert (x * BIG).tolist() == wrapped  # sums and products wrap, as hashes want it
    for call in (
        lambda: x < BIG,
        lambda: x == BIG,
        lambda: x // BIG,
        lambda: x.clamp(max=BIG),
        lambda: facula.where(x > 0, x, BIG),
        lambda: facula.tensor([True]) < BIG,
    ):
        with pytest.raises(RuntimeError, match="a number that fits (int64|bool) was required"):
            call()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint16"])
def test_numbers_beyond_the_dtype_compare(dtype):
    values = np.array([0, 5, 100], dtype=dtype)
    x = facula.from_numpy(values)
    for number in (2**40, -(2**40), 2**33 + 5, 2**32 + 100):
        assert (x < number).tolist() == [int(v) < number for v in values]
        assert (x == number).tolist() == [False] * 3
        assert (number > x).tolist() == [int(v) < number for v in values]
        with pytest.raises(RuntimeError, match="without overflow"):
            x.clamp(max=number)


def test_attributes_of_more_than_64_bits():
    x = facula.ones(2, dtype=facula.int64)
    with pytest.raises(OverflowError, match=r"\[add\] a number that fits int64 was required"):
        facula.add(x, x, alpha=2**70)
    with pytest.raises(OverflowError, match=r"\[add\] a number that fits float64 was required"):
        facula.add(x.double(), x.double(), alpha=10**400)


def test_integers_that_round_to_one_double_are_not_close_without_a_tolerance():
    x = facula.tensor([2**53, 2**60])
    assert facula.isclose(x, x + 1, rtol=0, atol=0).tolist() == [False, False]
    assert facula.isclose(x, x + 1).tolist() == [True, True]
    assert facula.isclose(x, x, rtol=0, atol=0).tolist() == [True, True]


def test_assert_close_tells_uint64_apart():
    x = facula.from_numpy(np.array([2**63, 2**63 + 1], dtype=np.uint64))
    facula.testing.assert_close(x, x.clone())
    facula.testing.assert_close(x, x + 1, rtol=1e-6, atol=0)
    with pytest.raises(AssertionError, match="Mismatched elements"):
        facula.testing.assert_close(x, x + 1)


@pytest.mark.breaks
def test_compiled_programs_refuse_too():
    x = facula.from_numpy(np.array([2**63, 1], dtype=np.uint64))
    for function in (lambda v: v.max(), lambda v: v < 5, lambda v: v // 3):
        with pytest.raises(Exception, match="a dtype other than uint64"):
            facula.compile(function)(x)


def test_compiled_programs_read_numbers_alike():
    i, f = facula.tensor([5, 7], dtype=facula.int32), facula.tensor([1.0, 2.0])
    u = facula.from_numpy(np.array([2**63, 1], dtype=np.uint64))
    assert facula.compile(lambda v: v * 3 == 3)(u).tolist() == [False, True]
    assert facula.compile(lambda v: v < 2**40)(i).tolist() == [True, True]
    assert facula.compile(lambda v: (v + 1).clamp(max=2**30) + 1)(i).tolist() == [7, 9]
    assert facula.compile(lambda v: (v * 2 < BIG, v + BIG))(f)[1].tolist() == [float(BIG)] * 2
    assert facula.compile(lambda v: v * 2 < BIG)(f).tolist() == [True, True]
    assert facula.compile(lambda v: u.double() + v)(f.double()).tolist() == [2.0**63, 3.0]
    assert facula.compile(lambda v: (v + 1).double() * 2)(u).tolist() == [2.0**64, 4.0]
    assert facula.compile(lambda v: (v * 2.0**63).to(facula.uint64) + 1)(f[:1]).tolist() == [
        2**63 + 1
    ]
    assert facula.compile(lambda v: facula.full_like(v, 2**63 + 1) + v)(u).tolist() == [
        1,
        2**63 + 2,
    ]
