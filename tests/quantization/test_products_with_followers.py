"""`ops.onednn`: products of bytes, sums and activations behind them, and bytes again.

Oracle: NumPy with integers of 64 bits and float64.
"""

import numpy as np
import pytest

import facula

onednn = facula.ops.onednn
ACTIVATIONS = {
    "none": ((), lambda y: y),
    "relu": ((), lambda y: np.maximum(y, 0)),
    "hardtanh": ((-1.0, 2.0), lambda y: np.clip(y, -1, 2)),
    "hardswish": ((), lambda y: y * np.clip(y + 3, 0, 6) / 6),
    "swish": ((), lambda y: y / (1 + np.exp(-y))),
}


def case(seed, low=0):
    """Bytes of an image and a weight, and what they stand for."""
    rng = np.random.default_rng(seed)
    x = rng.integers(low, low + 256, (3, 4, 6, 5))
    w = rng.integers(-128, 128, (6, 2, 3, 2))
    scales = rng.uniform(0.001, 0.02, 6).astype(np.float32)
    bias = rng.normal(size=6).astype(np.float32)
    return rng, x, w, scales, bias, (0.03, 7 + low)


def convolved(x, w, zero, padding):
    """The sums of products in two groups, by loops over the kernel."""
    x = np.pad(x - zero, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    high, wide = x.shape[2] - 2, x.shape[3] - 1
    out = np.zeros((x.shape[0], w.shape[0], high, wide), np.int64)
    for o in range(w.shape[0]):
        for c in range(w.shape[1]):
            for i in range(3):
                for j in range(2):
                    plane = x[:, (o // 3) * 2 + c, i : i + high, j : j + wide]
                    out[:, o] += plane * w[o, c, i, j]
    return out


def as_bytes(y, scale, zero, low=0):
    return np.clip(np.rint(y / scale) + zero, low, low + 255)


def tensors(x, w, low=0):
    kind = np.uint8 if not low else np.int8
    return facula.from_numpy(x.astype(kind)), facula.from_numpy(w.astype(np.int8))


def is_close(mine, right):
    """Equal but for ties, which float32 may round the other way."""
    apart = np.abs(mine.numpy().astype(np.int64) - right)
    return apart.max() <= 1 and (apart > 0).mean() < 0.01


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("low", [0, -128])
def test_convolutions_of_bytes(name, low):
    _, x, w, scales, bias, (scale, zero) = case(1, low)
    settings, after = ACTIVATIONS[name]
    numbers = convolved(x, w, zero, 1) * (scales[:, None, None].astype(np.float64) * scale)
    numbers = after(numbers + bias[:, None, None])
    qx, qw = tensors(x, w, low)
    scales, bias = (facula.from_numpy(v) for v in (scales, bias))
    geometry = [1, 1], [1, 1], [1, 1], 2
    packed = onednn.qconv_prepack(qw, scales, scale, zero, *geometry, list(x.shape))
    given = qx, scale, zero, packed, scales, facula.zeros(6, dtype=facula.int32), bias, *geometry
    for op in (onednn.qconv2d_pointwise, onednn.qconv_pointwise):
        made = op(*given, 0.05, 9, None, name, settings, "")
        assert made.dtype is qx.dtype and is_close(made, as_bytes(numbers, 0.05, 9, low))
        made = op(*given, 1.0, 0, facula.float32, name, settings, "")
        np.testing.assert_allclose(made.numpy(), numbers, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(5, 4), (2, 3, 4)])
def test_linear_layers_with_sums(shape):
    rng, _, _, scales, bias, (scale, zero) = case(2)
    x, w = rng.integers(0, 256, shape), rng.integers(-128, 128, (6, 4))
    other = rng.integers(0, 256, (*shape[:-1], 6))
    numbers = (x - zero) @ w.T * (scales.astype(np.float64) * scale) + bias
    qx, qw = tensors(x, w)
    scales, bias = (facula.from_numpy(v) for v in (scales, bias))
    packed = onednn.qlinear_prepack(qw, list(shape))
    given = qx, facula.tensor(scale), facula.tensor(zero), packed, scales, None
    made = onednn.qlinear_pointwise(*given, bias, 0.02, 3, None, "relu", [], "")
    assert is_close(made, as_bytes(np.maximum(numbers, 0), 0.02, 3))
    right = np.maximum(numbers + (other - 4) * 0.01, 0)
    more = facula.from_numpy(other.astype(np.uint8))
    made = onednn.qlinear_pointwise.binary(
        *given, more, bias, 0.02, 3, None, 0.01, 4, "sum", 1.0, "relu", [], ""
    )
    assert is_close(made, as_bytes(right, 0.02, 3))
    numbers_of = facula.from_numpy(((other - 4) * 0.01).astype(np.float32))
    made = onednn.qlinear_pointwise.binary(
        *given, numbers_of, bias, 1.0, 0, facula.bfloat16, 1.0, 0, "add", 1.0, "relu", [], ""
    )
    np.testing.assert_allclose(made.float().numpy(), right, rtol=2**-7, atol=1e-4)


@pytest.mark.parametrize("dims", [1, 3])
def test_lines_and_volumes(dims):
    rng = np.random.default_rng(3)
    x, w = rng.integers(0, 256, (2, 3, *[4] * dims)), rng.integers(-128, 128, (5, 3, *[1] * dims))
    numbers = np.einsum("nc...,oc->no...", x - 11, w.reshape(5, 3)) * (0.1 * 0.01)
    qx, qw = tensors(x, w)
    one = facula.tensor([0.01])
    ones, zeros = [1] * dims, [0] * dims
    op = getattr(onednn, f"qconv{dims}d_pointwise")
    made = op(qx, 0.1, 11, qw, one, None, None, ones, zeros, ones, 1, 0.02, 5, None, "none", [], "")
    assert is_close(made, as_bytes(numbers, 0.02, 5))


def test_weights_of_halves():
    x, w, b = facula.randn(3, 4), facula.randn(5, 4), facula.randn(5)
    packed = onednn.linear_prepack_fp16(w, None)
    right = x.numpy() @ w.numpy().astype(np.float16).astype(np.float32).T + b.numpy()
    np.testing.assert_allclose(onednn.linear_dynamic_fp16(x, packed, b).numpy(), right, atol=1e-5)
    made = onednn.linear_relu_dynamic_fp16(x, packed, b)
    np.testing.assert_allclose(made.numpy(), np.maximum(right, 0), atol=1e-5)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"post": "square"}, "activation: one of"),
        ({"x": facula.ones(2, 4)}, "bytes were required"),
        ({"scale": 0.0}, "x_scale: a finite number above zero"),
        ({"scale": float("nan")}, "x_scale: a finite number above zero"),
        ({"w_scale": facula.ones(3)}, "1 or 6 numbers were required"),
        ({"bias": facula.ones(3)}, "bias: 6 numbers were required"),
        ({"x": facula.ones(2, 3, dtype=facula.uint8)}, "as many columns"),
        ({"y_scale": 0.0}, "output_scale: a number above zero"),
        ({"scale": facula.ones(2)}, "one x_scale for all inputs"),
    ],
)
def test_what_does_not_fit_is_refused(changes, text):
    given = {"x": facula.ones(2, 4, dtype=facula.uint8), "scale": 1.0, "w_scale": facula.ones(6),
             "bias": None, "y_scale": 1.0, "post": "none"} | changes  # fmt: skip
    with pytest.raises(RuntimeError, match=text):
        onednn.qlinear_pointwise(
            given["x"], given["scale"], 0, facula.ones(6, 4, dtype=facula.int8), given["w_scale"], None,
            given["bias"], given["y_scale"], 0, None, given["post"], [], "",
        )  # fmt: skip


def test_layers_of_bytes_between_numbers():
    rng = np.random.default_rng(5)
    x, w, b = (rng.normal(size=s).astype(np.float32) for s in ((3, 4), (5, 4), 5))
    bytes_x = np.clip(np.rint(x / 0.1) + 30, 0, 255) - 30
    bytes_w = np.clip(np.rint(w / 0.02), -128, 127)
    right = np.clip(np.rint(((bytes_x @ bytes_w.T) * 0.002 + b) / 0.05) + 100, 0, 255) - 100
    given = [facula.tensor(v) for v in (0.1, 30, 0.02, 0, 0.05, 100)]
    x, w, b = (facula.from_numpy(v) for v in (x, w, b))
    op = facula.ops._quantized.wrapped_quantized_linear
    made = op(x, *given[:2], w, *given[2:4], b, *given[4:], 5)
    np.testing.assert_allclose(made.numpy(), right * 0.05, atol=1e-6)
    with pytest.raises(RuntimeError, match="a matrix with 4 rows was required"):
        op(x, *given[:2], w, *given[2:4], b, *given[4:], 4)


def test_weights_that_are_rounded_when_they_are_taken():
    x, w, b = facula.randn(3, 4), facula.randn(5, 4), facula.randn(5)
    right = x.numpy() @ w.numpy().astype(np.float16).astype(np.float32).T + b.numpy()
    ops = facula.ops._quantized
    packed = ops.wrapped_fbgemm_pack_gemm_matrix_fp16(w)
    for made in (
        ops.wrapped_fbgemm_linear_fp16_weight(x, packed, b, 5),
        facula.ops.quantized.linear_dynamic_fp16_unpacked_weight(x, w, b),
    ):
        np.testing.assert_allclose(made.numpy(), right, atol=1e-5)
