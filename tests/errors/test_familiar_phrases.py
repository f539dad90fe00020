"""Programs look for PyTorch's sentences (`pytest.raises(match=...)`): ours hold them, values included.

The sentences are written out as PyTorch 2.13 says them; the form around them is
`test_every_error_has_a_hint`'s matter, but for that each has a hint.
"""

import pytest

import facula
from facula.nn import functional as nnf

SIGNAL = facula.signal.windows


def ones(*shape, **options):
    return facula.ones(shape, **options)


def labels(*values):
    return facula.tensor(values)


CASES = [
    (lambda: ones(2, 3).sum(5), IndexError,
     "Dimension out of range (expected to be in range of [-2, 1], but got 5)"),
    (lambda: ones(2, 3).transpose(0, 5), IndexError,
     "Dimension out of range (expected to be in range of [-2, 1], but got 5)"),
    (lambda: facula.diag_embed(ones(2, 3), dim1=1, dim2=1), RuntimeError,
     "diagonal dimensions cannot be identical 1, 1"),
    (lambda: ones(10, 3).narrow(0, 11, 1), IndexError,
     "start out of range (expected to be in range of [-10, 10], but got 11)"),
    (lambda: ones(1).reshape(0, -1), RuntimeError,
     "shape '[0, -1]' is invalid for input of size 1"),
    (lambda: facula.diff(ones(3), n=-1), RuntimeError, "order must be non-negative but got -1"),
    (lambda: facula.eye(-7), RuntimeError, "n must be greater or equal to 0, got -7"),
    (lambda: facula.ones(3, dtype=facula.int64).mean(), RuntimeError,
     "Input dtype must be either a floating point or complex dtype. Got: Long"),
    (lambda: ones(3).uniform_(3, -1), RuntimeError,
     "uniform_ expects to return a [from, to) range, but found from=3 > to=-1"),
    (lambda: ones(3).exponential_(0), RuntimeError,
     "exponential_ expects lambda > 0.0, but found lambda=0"),
    (lambda: ones(3).geometric_(-1), RuntimeError,
     "geometric_ expects p to be in (0, 1), but got p=-1"),
    (lambda: facula.complex(ones(2), ones(2, dtype=facula.float64)), RuntimeError,
     "Expected object of scalar type Float but got scalar type Double for second argument"),
    (lambda: facula.complex(ones(2), ones(2, dtype=facula.int32)), RuntimeError,
     "Expected both inputs to be Half, Float or Double tensors but got Float and Int"),
    (lambda: ones(2).masked_fill(ones(2).bool(), ones(1)), RuntimeError,
     "only supports a 0-dimensional value tensor, but got tensor with 1 dimension"),
    (lambda: facula.cov(ones(5, 5), fweights=labels([1, 1], [1, 1])), RuntimeError,
     "expected fweights to have one or fewer dimensions"),
    (lambda: facula.cov(ones(5, 5), fweights=labels(1)), RuntimeError,
     "expected fweights to have the same numel"),
    (lambda: facula.multinomial(-ones(3), 1), RuntimeError, "invalid multinomial distribution"),
    (lambda: SIGNAL.hann(-1), ValueError, "requires non-negative window length, got M=-1"),
    (lambda: SIGNAL.hann(3, dtype=facula.int64), ValueError,
     "expects float32 or float64 dtypes, got: facula.int64"),
    (lambda: SIGNAL.exponential(3, tau=-1), ValueError, "Tau must be positive, got: -1 instead."),
    (lambda: nnf.gelu(ones(2), approximate="asdf"), RuntimeError,
     "approximate argument must be either none or tanh"),
    (lambda: nnf.rrelu(ones(2), 0.3, 0.1), RuntimeError,
     "Lower bound should be less than or equal to the upper bound"),
    (lambda: nnf.prelu(ones(), ones(2)), RuntimeError, "Not allow zero-dim input tensor."),
    (lambda: nnf.max_pool1d(ones(1, 1, 4), 2, padding=-1), RuntimeError,
     "pad must be non-negative, but got pad: -1"),
    (lambda: nnf.max_pool1d(ones(1, 1, 4), 0), RuntimeError,
     "kernel_size must be greater than zero"),
    (lambda: nnf.max_pool1d(ones(1, 1, 4), 2, stride=0), RuntimeError,
     "stride must be greater than zero, but got 0"),
    (lambda: nnf.max_pool2d(ones(2, 1, 4), (2, 3)), RuntimeError,
     "Given input size: (2x1x4). Calculated output size: (2x0x1). Output size is too small"),
    (lambda: nnf.avg_pool2d(ones(0, 1, 49), 3, padding=4), RuntimeError,
     "pad should be at most half of effective kernel size"),
    (lambda: nnf.conv2d(ones(1, 1, 4, 4), ones(1, 2, 2, 3), stride=0), RuntimeError,
     "non-positive stride is not supported"),
    (lambda: nnf.conv2d(ones(1, 1, 4, 3), ones(1, 2, 2)), RuntimeError,
     "Expected 3-dimensional input for 3-dimensional weight[1, 2, 2]"),
    (lambda: nnf.conv1d(ones(2, 2, 4), ones(2, 2, 1), groups=3), RuntimeError,
     "Given groups=3, expected weight to be at least 3 at dimension 0"),
    (lambda: nnf.conv1d(ones(1, 1, 4), ones(1, 1, 2), ones(1, dtype=facula.float64)), RuntimeError,
     "should be the same"),
    (lambda: nnf.multi_margin_loss(ones(5, 0), labels(0)), RuntimeError,
     "Expected non-empty vector or matrix with optional 0-dim batch size, but got: [5, 0]"),
    (lambda: nnf.multi_margin_loss(ones(5, 4), labels(0, 1)), RuntimeError,
     "Expected target size [5], but got [2]"),
    (lambda: nnf.multi_margin_loss(ones(2, 4), ones(2)), RuntimeError,
     "expected scalar type Long but found Float"),
    (lambda: nnf.multi_margin_loss(ones(2, 4), labels(0, 1), weight=ones(5)), RuntimeError,
     "inconsistent weight size, expected 4 but got [5]"),
    (lambda: nnf.triplet_margin_loss(ones(4), ones(3, 4), ones(3, 4)), RuntimeError,
     "number of dimensions, but got: anchor 1D, positive 2D, and negative 2D inputs"),
    (lambda: nnf.triplet_margin_loss(ones(2, 2), ones(2, 2), ones(2, 2), margin=-1.0), ValueError,
     "margin must be greater than 0, got -1.0"),
    (lambda: facula.vsplit(ones(3), 3), RuntimeError,
     "torch.vsplit requires a tensor with at least 2 dimension, but got a tensor with 1 dimensions"),
    (lambda: facula._chunk_cat([ones(2, 3), ones(2)], -1, 2), RuntimeError,
     "_chunk_cat expects non-negative dim when input tensors have different ndims"),
    (lambda: facula._chunk_cat([ones(2, 3), ones(4, 3)], 1, 2), RuntimeError,
     "_chunk_cat expects same sizes of 0,...,dim-1 dimensions for all tensors"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "phrase"), CASES, ids=[case[2] for case in CASES])
def test_phrase(call, kind, phrase):
    with pytest.raises(kind) as caught:
        call()
    text = str(caught.value)
    assert phrase in text
    assert text.startswith("[") and "\nhint: " in text


def test_valid_arguments_pass_the_checks():
    """What stands next to the refused calls is taken."""
    rows, classes = ones(3, 4), labels(0, 1, 3)
    assert nnf.multi_margin_loss(rows, classes, weight=ones(4)).shape == ()
    assert nnf.multi_margin_loss(ones(4), labels(2).reshape(())).shape == ()
    assert nnf.multi_margin_loss(ones(0, 4), labels().long(), reduction="none").shape == (0,)
    assert nnf.triplet_margin_loss(ones(4), ones(4), ones(4), reduction="none").shape == ()
    assert nnf.conv2d(ones(1, 3, 4, 4), ones(6, 1, 2, 2), groups=3).shape == (1, 6, 3, 3)
    assert nnf.conv_transpose2d(ones(3, 4, 4), ones(3, 2, 2, 2)).shape == (2, 5, 5)
    assert nnf.prelu(ones(), ones(1)).shape == ()
    assert ones(0).reshape(0, 1).shape == (0, 1)
    assert ones(2, 3).movedim((0, 1), (1, 0)).shape == (3, 2)
    assert facula._chunk_cat([ones(2, 3), ones(2, 5)], 1, 2).shape == (2, 2, 5)
