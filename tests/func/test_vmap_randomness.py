"""Random numbers under `vmap` in parts: the same as in one piece."""

import pytest

import facula


@pytest.mark.parametrize("chunk_size", [1, 2, 3, 5, 7])
def test_the_same_numbers_for_all_entries_also_in_parts(chunk_size):
    x = facula.randn(5, 3)

    def f(row):
        return row + facula.rand_like(row), facula.randn(2)

    facula.manual_seed(3)
    wanted = facula.vmap(f, randomness="same", out_dims=(0, None))(x)
    facula.manual_seed(3)
    found = facula.vmap(f, randomness="same", out_dims=(0, None), chunk_size=chunk_size)(x)
    assert facula.equal(found[0], wanted[0])
    assert facula.equal(found[1], wanted[1])
    after = facula.rand(3)
    facula.manual_seed(3)
    facula.vmap(f, randomness="same", out_dims=(0, None))(x)
    assert facula.equal(facula.rand(3), after)
