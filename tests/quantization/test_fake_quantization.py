"""Fake quantization against NumPy, and its gradients against their formulas."""

import numpy as np
import pytest

import facula


@pytest.fixture
def numbers():
    return np.random.default_rng(7)


def parts(x, scale, zero, low, high):
    level = zero + np.rint(x * (np.float32(1) / scale))
    return level, np.clip(level, low, high), (level >= low) & (level <= high)


def test_values_and_the_gradient_inside_of_the_range(numbers):
    x = (numbers.standard_normal((5, 7)) * 2).astype("float32")
    t = facula.tensor(x, requires_grad=True)
    y = facula.fake_quantize_per_tensor_affine(t, 0.1, 3, -8, 7)
    level, cut, inside = parts(x, np.float32(0.1), 3, -8, 7)
    np.testing.assert_allclose(y.detach().numpy(), (cut - 3) * np.float32(0.1), rtol=1e-6)
    y.sum().backward()
    assert (t.grad.numpy() == inside).all()


def test_scales_of_channels(numbers):
    x = numbers.standard_normal((4, 6)).astype("float32")
    scale = numbers.uniform(0.01, 0.1, 6).astype("float32")
    zero = numbers.integers(-5, 5, 6).astype("int32")
    y = facula.fake_quantize_per_channel_affine(
        facula.tensor(x), facula.tensor(scale), facula.tensor(zero), 1, -8, 7
    )
    _, cut, _ = parts(x, scale, zero, -8, 7)
    np.testing.assert_allclose(y.numpy(), (cut - zero) * scale, rtol=1e-6)


def test_gradients_of_scale_and_zero_point(numbers):
    x = (numbers.standard_normal(50) * 2).astype("float32")
    t = facula.tensor(x, requires_grad=True)
    scale = facula.tensor([0.11], requires_grad=True)
    zero = facula.tensor([2.2], requires_grad=True)
    y = facula._fake_quantize_learnable_per_tensor_affine(t, scale, zero, -8, 7, 0.5)
    s = np.float32(0.11)
    level, cut, inside = parts(x, s, 2, -8, 7)
    y.sum().backward()
    assert (t.grad.numpy() == inside).all()
    of_scale = np.where(inside, ((cut - 2) * s - x) / s, cut - 2).sum() * 0.5
    np.testing.assert_allclose(scale.grad.numpy(), [of_scale], rtol=1e-4)
    np.testing.assert_allclose(zero.grad.numpy(), [-s * (~inside).sum() * 0.5], rtol=1e-5)


def test_running_extremes_follow_the_numbers():
    x = facula.tensor([-1.0, 2.0])
    on = facula.ones(1, dtype=facula.int64)
    low, high = facula.tensor([float("inf")]), facula.tensor([-float("inf")])
    scale, zero = facula.ones(1), facula.zeros(1, dtype=facula.int32)
    rest = (low, high, scale, zero, 0.5, 0, 255, -1)
    facula.fused_moving_avg_obs_fake_quant(x, on, on, *rest)
    assert (low.item(), high.item()) == (-1.0, 2.0)
    facula.fused_moving_avg_obs_fake_quant(2 * x, on, on, *rest)
    assert (low.item(), high.item()) == (-1.5, 3.0)
    assert scale.item() == pytest.approx(4.5 / 255) and zero.item() == 85


def test_errors():
    x = facula.ones(2, 2)
    with pytest.raises(RuntimeError, match="less than or equal to `quant_max`"):
        facula.fake_quantize_per_tensor_affine(x, 0.1, 0, 5, 4)
    with pytest.raises(RuntimeError, match="`zero_point` must be between"):
        facula.fake_quantize_per_tensor_affine(x, 0.1, 300, 0, 255)
    with pytest.raises(RuntimeError, match="not consistent with input"):
        ones, zeros = facula.ones(3), facula.zeros(3, dtype=facula.int32)
        facula.fake_quantize_per_channel_affine(x, ones, zeros, 0, 0, 255)


@pytest.mark.parametrize("dtype", [facula.float32, facula.float64, facula.bfloat16])
@pytest.mark.parametrize("shape", [(), (3,), (2, 0)])
def test_learnable_levels_keep_shape_and_dtype(shape, dtype):
    x = facula.full(shape, 0.75, dtype=dtype)
    scale, zero = facula.tensor([0.5]), facula.tensor([1.0])
    y = facula._fake_quantize_learnable_per_tensor_affine(x, scale, zero, -8, 7, 1.0)
    assert y.shape == x.shape
    assert y.dtype is dtype
    assert facula.equal(y, facula.full(shape, 1.0, dtype=dtype))  # 1.5 is rounded to even
    if shape == (3,):
        many = facula._fake_quantize_learnable_per_channel_affine(
            x, scale.expand(3), zero.expand(3), 0, -8, 7, 1.0
        )
        assert many.dtype is dtype
    with pytest.raises(RuntimeError, match="one number as scale was required"):
        facula._fake_quantize_learnable_per_tensor_affine(x, facula.ones(2), zero, -8, 7, 1.0)
