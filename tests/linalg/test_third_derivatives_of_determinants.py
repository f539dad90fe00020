"""Third derivatives of determinants where singular values are equal or zero: against differences, which are exact.

The determinant of four rows is of the fourth degree: what is odd in each of three directions is their product
alone, so that differences of determinants over steps of one are the derivative.
"""

import itertools

import numpy as np
import pytest

import facula


def turned(values: list[float], imaginary: bool = False) -> np.ndarray:
    """A matrix with these singular values."""
    chance = np.random.default_rng(3)
    size = (len(values), len(values))
    parts = [chance.standard_normal(size) for _ in range(4)]
    start = [parts[k] + 1j * parts[k + 2] if imaginary else parts[k] for k in range(2)]
    left, right = (np.linalg.qr(square)[0] for square in start)
    return left @ np.diag(values) @ right


def by_differences(matrix: np.ndarray, directions: list[np.ndarray]) -> complex:
    total = 0
    for signs in itertools.product((1, -1), repeat=3):
        moved = matrix + sum(s * d for s, d in zip(signs, directions, strict=True))
        total += np.prod(signs) * np.linalg.det(moved)
    return total / 8


MATRICES = {
    "zero": np.zeros((4, 4)),
    "one": np.eye(4),
    "two equal, two zero": turned([2, 2, 0, 0]),
    "three equal, one zero": turned([2, 2, 2, 0]),
    "two equal, two nearly zero": turned([1, 1, 1e-8, 1e-8]),
    "far apart": turned([3, 2, 1, 1e-160]),
    "complex": turned([2, 2, 0, 0], imaginary=True),
    "of three rows": np.ones((3, 3)),
}


@pytest.mark.parametrize("name", MATRICES)
def test_by_gradients_of_gradients(name: str):
    matrix = MATRICES[name]
    chance = np.random.default_rng(0)
    directions = [chance.standard_normal(matrix.shape) for _ in range(3)]
    x = facula.tensor(matrix).requires_grad_()
    slope = facula.linalg.det(x)
    for direction in directions:
        slope = slope.real if slope.is_complex() else slope
        (gradient,) = facula.autograd.grad(slope, x, create_graph=True)
        slope = (gradient * facula.tensor(direction)).sum()
    wanted = by_differences(matrix, directions)
    assert slope.real.item() == pytest.approx(wanted.real, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("transform", [facula.func.jacrev, facula.func.jacfwd])
def test_by_transforms(transform):
    batch = facula.tensor(np.stack([MATRICES["one"], MATRICES["two equal, two zero"]]))
    chance = np.random.default_rng(1)
    directions = [chance.standard_normal((4, 4)) for _ in range(3)]
    x, y, z = map(facula.tensor, directions)
    third = facula.vmap(transform(transform(transform(facula.linalg.det))))(batch)
    found = facula.einsum("nabcdef,ab,cd,ef->n", third, x, y, z)
    for got, matrix in zip(found.tolist(), batch.numpy(), strict=True):
        assert got == pytest.approx(by_differences(matrix, directions), rel=1e-10)
