"""`vmap` in a number of parts, and the names of PyTorch's own modules for it."""

import pytest

import facula
from facula._functorch.apis import chunk_vmap


@pytest.mark.parametrize("chunks", [1, 2, 3, 9])
def test_parts_give_what_one_run_gives(chunks):
    x = facula.arange(14.0).view(7, 2)
    assert chunk_vmap(lambda t: t * t.sum(), chunks=chunks)(x).equal(
        facula.vmap(lambda t: t * t.sum())(x)
    )


def test_no_parts():
    with pytest.raises(ValueError, match="at least 1"):
        chunk_vmap(facula.sin, chunks=0)


def test_operators_under_the_older_name():
    assert facula._VF.sin is facula.sin
    assert not hasattr(facula._VF, "no_such_operator")
