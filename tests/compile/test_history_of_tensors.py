"""What compiled functions know of a tensor's history: whether it is a leaf, its version, which result it is."""

import warnings

import pytest

import facula
from facula.nn.attention import SDPBackend, sdpa_kernel


def _history(x):
    return x.is_leaf, x.requires_grad, x.retains_grad, x._version, x.output_nr


def test_leaves_and_results_are_told_apart():
    compiled = facula.compile(_history)
    leaf = facula.ones(2, requires_grad=True)
    kept = leaf * 4
    kept.retain_grad()
    written = facula.ones(2)
    written += 1
    second = (leaf * 3).unbind()[1]
    tensors = [facula.ones(2), leaf, leaf * 2, leaf.detach(), kept, written, second]
    assert [compiled(x) for x in tensors] == [_history(x) for x in tensors]


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_a_tensor_of_a_tensor_is_a_copy_apart_from_the_tape(backend):
    def function(x):
        return facula.tensor(x).add_(1), facula.tensor(x, dtype=facula.float64)

    x = facula.ones(2, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        copy, wide = facula.compile(function, backend=backend, fullgraph=True)(x)
    assert copy.tolist() == [2.0, 2.0] and not copy.requires_grad
    assert wide.dtype is facula.float64
    assert x.tolist() == [1.0, 1.0]


def test_the_choice_of_an_attention_kernel_is_part_of_one_graph():
    def function(x):
        with sdpa_kernel(SDPBackend.MATH):
            y = facula.nn.functional.scaled_dot_product_attention(x, x, x)
        return y + 1

    facula.manual_seed(0)
    x = facula.randn(1, 2, 4, 8)
    weights = ((x @ x.transpose(-1, -2)) / 8**0.5).softmax(-1)
    found = facula.compile(function, fullgraph=True)(x)
    assert facula.allclose(found, weights @ x + 1, atol=1e-5)


def _copied(x, w):
    made = x.clone()
    made.copy_(w)
    return made


def _assigned(x, w):
    made = x * 2
    made[:] = w * 3
    return made


def _spread(x, w):
    made = x * 2
    made.copy_(w[0])
    return made * made


@pytest.mark.parametrize(
    ("program", "slope"), [(_copied, [1, 1, 1]), (_assigned, [3, 3, 3]), (_spread, [12, 0, 0])]
)
def test_what_is_replaced_gets_a_gradient_of_zeros(program, slope):
    """The slopes are those of sum(w), sum(3 w) and 3 w[0]**2 at w = (2, 5, 7)."""
    x = facula.ones(3, requires_grad=True)
    w = facula.tensor([2.0, 5.0, 7.0], requires_grad=True)
    facula.compile(program)(x, w).sum().backward()
    assert x.grad.tolist() == [0, 0, 0]
    assert w.grad.tolist() == slope
