"""Gradients of weights of convolutions between few channels, whose columns fill no vector of the register tile: against
sums of products in NumPy, in float64.
"""

import numpy as np
import pytest

import facula


def gradients(batch, inner, outer, size, kernel, dtype):
    random = np.random.default_rng(inner * 1000 + outer)
    x, dy = (
        random.standard_normal((batch, c, size + extra, size + extra))
        for c, extra in ((inner, kernel - 1), (outer, 0))
    )
    expected = np.zeros((outer, inner, kernel, kernel))
    for i in range(kernel):
        for j in range(kernel):
            expected[:, :, i, j] = np.einsum(
                "nohw,nchw->oc", dy, x[:, :, i : i + size, j : j + size]
            )
    weight = facula.zeros(outer, inner, kernel, kernel, dtype=dtype, requires_grad=True)
    bias = facula.zeros(outer, dtype=dtype, requires_grad=True)
    y = facula.conv2d(facula.tensor(x, dtype=dtype), weight, bias)
    y.backward(facula.tensor(dy, dtype=dtype))
    return (weight.grad.numpy(), expected), (bias.grad.numpy(), dy.sum((0, 2, 3)))


@pytest.mark.parametrize("dtype", [facula.float32, facula.float64])
@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize(
    "channels", [(24, 96), (72, 288), (8, 32), (20, 96), (3, 96), (24, 97), (96, 24), (40, 144)]
)
def test_excitations(channels, size, dtype):
    """1x1 convolutions of single pixels, as in squeeze-and-excitation blocks."""
    for batch in (1, 3):
        for got, expected in gradients(batch, *channels, size, 1, dtype):
            np.testing.assert_allclose(got, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("channels", [(3, 16), (24, 24), (12, 20), (30, 10), (70, 90)])
def test_windows(channels, threads):
    before = facula.get_num_threads()
    facula.set_num_threads(threads)
    try:
        for got, expected in gradients(2, *channels, 5, 3, facula.float32):
            np.testing.assert_allclose(got, expected, atol=1e-4, rtol=1e-4)
    finally:
        facula.set_num_threads(before)
