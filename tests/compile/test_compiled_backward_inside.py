"""Compiled functions that call backward more than once."""

import pytest

import facula


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.breaks("backward")
def test_a_detached_result_of_an_earlier_backward(backend):
    def step(a, b):
        e = facula.matmul(a, facula.ones(2, 2))
        (e - 1).pow(2).sum().backward()
        facula.matmul(b, e.detach()).sum().backward()

    facula.manual_seed(0)
    a, b = (facula.randn(2, 2, requires_grad=True) for _ in "ab")
    facula.compile(step, backend=backend)(a, b)
    row = a.detach().sum(1)
    # e has both columns equal to the sums of a's rows
    assert facula.allclose(a.grad, (4 * (row - 1)).unsqueeze(1).expand(2, 2))
    assert facula.allclose(b.grad, (2 * row).expand(2, 2))
