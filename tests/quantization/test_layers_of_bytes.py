"""Quantized sums, maxima and layers in the memory orders that their kernels take, against NumPy."""

import numpy as np
import pytest

import facula

KINDS = {"quint8": np.uint8, "qint8": np.int8}
ops = facula.ops.quantized


@pytest.fixture
def numbers():
    return np.random.default_rng(11)


def given(numbers, name, shape, scale, zero, last=False):
    low = np.iinfo(KINDS[name]).min
    integers = numbers.integers(low, low + 256, shape).astype(KINDS[name])
    x = facula.from_numpy(integers)
    if last:
        x = x.contiguous(memory_format=facula.channels_last)
    made = facula._make_per_tensor_quantized_tensor(x, scale, zero)
    return integers.astype(np.int64), made


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("relu", (False, True))
@pytest.mark.parametrize("last", (False, True))
def test_sums_are_rounded_once(numbers, name, relu, last):
    shape = (2, 37, 6, 7)
    a, x = given(numbers, name, shape, 0.031, 3, last)
    b, y = given(numbers, name, shape, 0.017, -2 if name == "qint8" else 200)
    made = (ops.add_relu if relu else ops.add)(x, y, 0.05, 9)
    first = (a - 3).astype("float32") * np.float32(0.031)
    second = (b - y.q_zero_point()).astype("float32") * np.float32(0.017)
    total = np.maximum(first + second, 0) if relu else first + second
    low = np.iinfo(KINDS[name]).min
    want = np.rint(total * (np.float32(1) / np.float32(0.05)) + np.float32(9))
    assert (made.int_repr().numpy() == np.clip(want, low, low + 255)).all()
    assert made.is_contiguous(memory_format=facula.channels_last) == last


@pytest.mark.parametrize("name", KINDS)
def test_sums_of_other_shapes(numbers, name):
    a, x = given(numbers, name, (4, 5), 0.5, 0)
    b, y = given(numbers, name, (5,), 0.5, 0)
    low = np.iinfo(KINDS[name]).min
    want = np.clip(a + b, low, low + 255)
    assert (ops.add(x, y, 0.5, 0).int_repr().numpy() == want).all()


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("last", (False, True))
def test_maxima_of_windows(numbers, name, last):
    integers, x = given(numbers, name, (2, 19, 9, 8), 0.1, 3, last)
    made = facula.nn.functional.max_pool2d(x, (3, 2), (2, 1), (1, 0), (1, 2))
    low = np.iinfo(KINDS[name]).min
    padded = np.pad(integers, ((0, 0), (0, 0), (1, 1), (0, 0)), constant_values=low)
    rows = [padded[:, :, i : i + 9 : 2][:, :, :5] for i in range(3)]
    tall = np.maximum.reduce(rows)
    want = np.maximum(tall[..., :6], tall[..., 2:8])
    assert (made.int_repr().numpy() == want).all()
    assert made.q_zero_point() == 3 and made.q_scale() == 0.1
    assert made.is_contiguous(memory_format=facula.channels_last) == last


def test_weights_with_zero_points(numbers):
    """PyTorch's engines take weights without; ours any that are given."""
    a, x = given(numbers, "quint8", (13, 70), 0.02, 100)
    w = numbers.integers(-128, 128, (9, 70)).astype(np.int8)
    scales, zeros = numbers.uniform(0.001, 0.01, 9), numbers.integers(-9, 9, 9)
    weight = facula._make_per_channel_quantized_tensor(
        facula.from_numpy(w), facula.from_numpy(scales), facula.from_numpy(zeros), 0
    )
    made = ops.linear(x, ops.linear_prepack(weight, None), 0.3, 120)
    sums = (a - 100) @ (w - zeros[:, None]).T
    want = np.clip(np.rint(sums * (0.02 * scales / 0.3)) + 120, 0, 255)
    assert (made.int_repr().numpy() == want).all()


def half_bytes(numbers, results, inner, group):
    levels = numbers.integers(0, 16, (results, inner)).astype("int32")
    parameters = numbers.standard_normal((inner // group, results, 2)).astype("float32")
    scale, zero = parameters[..., 0].T[..., None], parameters[..., 1].T[..., None]
    grouped = levels.reshape(results, -1, group).astype("float64") - 8
    weight = (grouped * scale + zero).reshape(results, inner)
    packed = facula._convert_weight_to_int4pack_for_cpu(facula.from_numpy(levels), 1)
    return weight, packed, facula.from_numpy(parameters)


@pytest.mark.parametrize("rows", (0, 1, 2, 3, 7, 40))
@pytest.mark.parametrize("group", (32, 64, 256))
def test_weights_of_half_bytes(numbers, rows, group):
    inner = 70 * group if group == 32 else 2 * group  # more groups than are gathered at a time
    weight, packed, parameters = half_bytes(numbers, 37, inner, group)
    x = numbers.standard_normal((rows, inner)).astype("float32")
    made = facula._weight_int4pack_mm_for_cpu(facula.from_numpy(x), packed, group, parameters)
    size = np.abs(x).astype("float64") @ np.abs(weight).T
    assert (np.abs(made.numpy() - x @ weight.T) <= 1e-6 * size + 1e-6).all()


@pytest.mark.parametrize("rows", (1, 5, 40))
@pytest.mark.parametrize("inner", (1, 15, 64, 203))
def test_weights_of_bytes(numbers, rows, inner):
    w = numbers.integers(-128, 128, (35, inner)).astype("int8")
    x = numbers.standard_normal((rows, inner)).astype("float32")
    scale = numbers.uniform(0.5, 2, 35).astype("float32")
    made = facula._weight_int8pack_mm(*map(facula.from_numpy, (x, w, scale)))
    size = np.abs(x).astype("float64") @ np.abs(w.astype("float64")).T * scale
    assert (np.abs(made.numpy() - x @ (w.T * scale)) <= 1e-6 * size + 1e-6).all()


@pytest.mark.parametrize("dtype", (facula.bfloat16, facula.float16))
def test_weights_of_few_bits_for_halves(numbers, dtype):
    weight, packed, parameters = half_bytes(numbers, 33, 64, 32)
    x = facula.from_numpy(numbers.standard_normal((2, 64)).astype("float32")).to(dtype)
    made = facula._weight_int4pack_mm_for_cpu(x, packed, 32, parameters.to(dtype))
    assert made.dtype is dtype
    want = x.double().numpy() @ weight.T
    assert np.abs(made.double().numpy() - want).max() <= 0.02 * np.abs(want).max()


def test_compiled_products_with_few_bits_are_eager_ones(numbers):
    weight, packed, parameters = half_bytes(numbers, 33, 64, 32)
    x = facula.from_numpy(numbers.standard_normal((1, 64)).astype("float32"))

    def product(x):
        return facula._weight_int4pack_mm_for_cpu(x * 2, packed, 32, parameters) + 1

    compiled = facula.compile(product, fullgraph=True)
    assert facula.allclose(compiled(x), product(x))
