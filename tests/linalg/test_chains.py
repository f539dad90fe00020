"""Products of several matrices: the order in which three are multiplied, told by where NumPy's float16 rounds."""

import numpy as np
import pytest

import facula


def _product(a, b):
    return (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float16)


@pytest.mark.parametrize(
    ("sizes", "left"),
    [((8, 8, 8, 8), True), ((4, 9, 4, 9), True), ((8, 2, 8, 2), False), ((2, 8, 8, 8), True)],
)
def test_three_matrices_are_multiplied_from_the_left_at_a_tie(sizes, left):
    random = np.random.default_rng(5)
    a, b, c = (
        random.uniform(-1, 1, pair).astype(np.float16)
        for pair in zip(sizes, sizes[1:], strict=False)
    )
    orders = _product(_product(a, b), c), _product(a, _product(b, c))
    assert (orders[0] != orders[1]).any()
    found = facula.linalg.multi_dot([facula.tensor(m) for m in (a, b, c)]).numpy()
    np.testing.assert_array_equal(found, orders[0 if left else 1])
