"""`grid_sample` of quantized images: bytes between bytes, and the zero point outside of the image.

Oracle: a loop over places, in float64, from the definition of linear interpolation.
"""

import numpy as np
import pytest

import facula
from facula.nn import functional as F


def sampled(x, grid, corners, outside):
    """Linear interpolation of integers at places of the grid; `outside`: what stands beside the image."""
    count, channels, high, wide = x.shape
    out = np.zeros((count, channels, *grid.shape[1:3]))
    for n in range(count):
        for i in range(grid.shape[1]):
            for j in range(grid.shape[2]):
                u, v = grid[n, i, j].astype(np.float64)
                if corners:
                    u, v = (u + 1) / 2 * (wide - 1), (v + 1) / 2 * (high - 1)
                else:
                    u, v = ((u + 1) * wide - 1) / 2, ((v + 1) * high - 1) / 2
                for a in (int(np.floor(u)), int(np.floor(u)) + 1):
                    for b in (int(np.floor(v)), int(np.floor(v)) + 1):
                        inside = 0 <= a < wide and 0 <= b < high
                        value = x[n, :, b, a] if inside else outside
                        out[n, :, i, j] += (1 - abs(u - a)) * (1 - abs(v - b)) * value
    return out


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("dtype", [facula.quint8, facula.qint8])
def test_places_between_bytes(corners, dtype):
    rng = np.random.default_rng(0)
    x = facula.from_numpy(rng.normal(size=(2, 3, 4, 5)).astype(np.float32))
    grid = rng.uniform(-1.3, 1.3, (2, 3, 4, 2)).astype(np.float32)
    q = facula.quantize_per_tensor(x, 0.05, 17, dtype)
    made = F.grid_sample(q, facula.from_numpy(grid), align_corners=corners)
    right = np.rint(sampled(q.int_repr().numpy().astype(np.float64), grid, corners, 17))
    assert (made.dtype, made.q_scale(), made.q_zero_point()) == (dtype, 0.05, 17)
    apart = np.abs(made.int_repr().numpy() - right)
    assert apart.max() <= 1 and (apart > 0).mean() < 0.02  # ties in float32
