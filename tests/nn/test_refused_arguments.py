"""Arguments that PyTorch refuses, refused with its types and gists; and gradients that take their output's dtype."""

import pytest

import facula

F = facula.nn.functional


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_images_of_integers_other_than_bytes(mode, dtype):
    x = facula.ones(1, 1, 4, 4, dtype=getattr(facula, dtype))
    with pytest.raises(NotImplementedError, match="not implemented for"):
        F.interpolate(x, size=(2, 2), mode=mode)


def test_sizes_beyond_int64():
    with pytest.raises(RuntimeError, match="should be greater than 0"):
        F.interpolate(facula.ones(1, 1, 4, 4), scale_factor=1e20, mode="bilinear")


@pytest.mark.parametrize("name, gates", [("lstm", 4), ("gru", 3), ("rnn_tanh", 1), ("rnn_relu", 1)])
def test_rows_of_the_weights_of_cells(name, gates):
    cell = getattr(facula, f"{name}_cell")
    x, h = facula.ones(2, 3), facula.ones(2, 5)
    state = (h, h) if name == "lstm" else h
    good, bad = facula.ones(gates * 5, 3), facula.ones(gates * 5 + 1, 3)
    with pytest.raises(RuntimeError, match="weight_ih"):
        cell(x, state, bad, facula.ones(gates * 5, 5))
    with pytest.raises(RuntimeError, match="weight_hh"):
        cell(x, state, good, facula.ones(gates * 5 + 1, 5))


def test_nothing_to_align():
    none = facula.tensor([], dtype=facula.int64)
    with pytest.raises(RuntimeError, match="log_probs tensor must not be empty"):
        F.ctc_loss(facula.rand(0, 0, 4), none, none, none)


def test_bounds_that_are_not_finite():
    with pytest.raises(RuntimeError, match="lower bound must be finite"):
        F.rrelu(facula.ones(1), lower=float("inf"), upper=1.0)


def test_angles_of_vectors_of_two_dtypes():
    x = facula.tensor([[3.0, 4.0]])
    assert F.cosine_similarity(x.to(facula.int8), x).item() == pytest.approx(1)


def test_a_gradient_takes_the_dtype_of_its_output():
    x = facula.ones(2, dtype=facula.bfloat16, requires_grad=True)
    (x * 2).backward(facula.ones(2))
    assert x.grad.dtype is facula.bfloat16 and x.grad.tolist() == [2, 2]


def test_forward_over_reverse_of_a_linear_function():
    x = facula.arange(12.0, dtype=facula.float64).view(1, 4, 3).requires_grad_()

    def fold(t):
        return F.fold(t, output_size=(2, 4), kernel_size=(2, 2))

    assert facula.autograd.gradgradcheck(fold, [x], check_fwd_over_rev=True)


def test_an_empty_stride_is_that_of_the_kernel():
    """As in PyTorch, whose pools declare `stride=[]`."""
    x = facula.arange(16.0).reshape(1, 1, 4, 4)
    blocks = x.numpy().reshape(2, 2, 2, 2)
    for stride in ((), []):
        mean = F.avg_pool2d(x, (2, 2), stride)
        assert mean[0, 0].tolist() == blocks.mean((1, 3)).tolist()
        highest = F.max_pool2d(x, 2, stride=stride)
        assert highest[0, 0].tolist() == blocks.max((1, 3)).tolist()
    with pytest.raises(RuntimeError, match=r"list of 2 values: got \[1, 2, 3\]"):
        F.max_pool2d(x, 2, stride=(1, 2, 3))
