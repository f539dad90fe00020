"""Messages about sizes that do not broadcast name the last dimension in which they differ, as PyTorch's do."""

import pytest

import facula

CALLS = {
    "arithmetic": (lambda: facula.ones(10, 10) + facula.ones(11, 11), "non-singleton dimension 1"),
    "three operands": (lambda: facula.where(facula.ones(2, 2) > 0, facula.ones(2, 3), facula.ones(4, 4)), "sion 1"),
    "earlier alone": (lambda: facula.ones(2, 3) + facula.ones(4, 3), "non-singleton dimension 0"),
    "fewer dimensions": (lambda: facula.ones(5, 2, 3) + facula.ones(4, 4), "non-singleton dimension 2"),
    "copy": (lambda: facula.ones(2, 3).copy_(facula.ones(4, 5)), "non-singleton dimension 1"),
    "expand": (lambda: facula.ones(2, 3).expand(4, 5), "non-singleton dimension 1"),
    "lists": (lambda: facula._foreach_add([facula.ones(2, 3)], [facula.ones(4, 5)]), "non-singleton dimension 1"),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_the_last_dimension_that_differs_is_named(name):
    call, said = CALLS[name]
    with pytest.raises(RuntimeError, match=said):
        call()


@pytest.mark.parametrize("shape", [(2, 3), (5, 2, 3), (5, 2, -1), (4, 5, 2, 3)])
def test_expanded_tensors_repeat_what_has_one_size(shape):
    x = facula.arange(3.0).reshape(1, 3)
    found = x.expand(shape)
    assert found.shape[-2:] == (2, 3) and found.stride()[-2:] == (0, 1)
    assert all(step == 0 for step in found.stride()[:-1])
    assert facula.equal(found.reshape(-1, 3), x.repeat(found.numel() // 3, 1))
