"""Wrong arguments, one by one: PyTorch's exception, what was required and what was got."""

import pytest

import facula

F = facula.nn.functional
x = facula.arange(6.0).reshape(2, 3)

CASES = {
    "a mask taken from numbers": (lambda: x - (x > 1), RuntimeError, "Subtraction"),
    "numbers taken from a mask": (lambda: (x > 1) - 1, RuntimeError, "to invert a mask"),
    "a mask taken from a number": (lambda: 1 - (x > 1), RuntimeError, "to invert a mask"),
    "a mask taken in place": (lambda: x.clone().sub_(x > 1), RuntimeError, "Subtraction"),
    "True taken from numbers": (lambda: x - True, RuntimeError, "Subtraction"),
    "weight of another length": (
        lambda: facula.native_batch_norm(
            x, facula.ones(0), None, facula.zeros(3), facula.ones(3), True, 0.1, 1e-5
        ),
        RuntimeError,
        "weight should contain 3 elements",
    ),
    "one running statistic": (
        lambda: facula.native_batch_norm(x, None, None, facula.zeros(3), None, True, 0.1, 1e-5),
        ValueError,
        "either both be None",
    ),
    "no groups": (
        lambda: facula.native_group_norm(x, None, None, 2, 3, 1, 0, 1e-5),
        RuntimeError,
        "num groups to be greater than 0",
    ),
    "two dtypes": (lambda: facula.allclose(x, x.double()), RuntimeError, "Float did not match"),
    "a fraction of a piece": (lambda: x.split(2.5), TypeError, "must be int"),
    "a fraction of a start": (lambda: x.narrow(0, 1.5, 1), TypeError, "must be int"),
    "an equation that is a list": (lambda: facula.einsum([x], "ij"), TypeError, "must be str"),
    "an offset that is a text": (
        lambda: x.as_strided((1,), (1,), "x"),
        TypeError,
        "'storage_offset' (position 4) must be int, not str",
    ),
    "a dimension of a number": (
        lambda: facula.aminmax(facula.tensor(1.0), dim=1),
        IndexError,
        "Dimension out of range",
    ),
    "a fraction of a dimension": (lambda: facula.var_mean(x, dim=2.5), TypeError, "tuple of ints"),
    "no shape": (lambda: facula.broadcast_shapes(None, (1,)), TypeError, "NoneType"),
    "too many pivots": (
        lambda: facula.lu_unpack(facula.eye(2), facula.ones(7, dtype=facula.int32)),
        RuntimeError,
        "LU_pivots of shape [2]",
    ),
    "no index": (lambda: facula.ops.aten.index(x, []), IndexError, "at least one index"),
    "a fraction of padding": (
        lambda: F.conv1d(facula.ones(1, 3, 4), facula.ones(3, 3, 3), padding=2.5),
        TypeError,
        "'padding' must be tuple of ints",
    ),
    "windows of another rank": (
        lambda: F.avg_pool1d(facula.ones(2, 3, 9), (3, 1)),
        RuntimeError,
        "one int for each dimension of the window",
    ),
    "a text for a size": (
        lambda: F.adaptive_avg_pool1d(facula.ones(2, 3, 9), "x"),
        TypeError,
        "'output_size' (position 2) must be tuple of ints",
    ),
    "a number to unpool": (
        lambda: F.max_unpool1d(facula.tensor(1.0), facula.zeros(1, 2, 1).long(), 3),
        RuntimeError,
        "2d or 3d Tensor",
    ),
    "a text for a tensor": (lambda: facula.cumsum("x", 0), TypeError, "must be Tensor, not str"),
}


@pytest.mark.parametrize("name", CASES)
def test_wrong_arguments(name):
    call, kind, message = CASES[name]
    with pytest.raises(kind) as caught:
        call()
    assert type(caught.value) is kind
    text = str(caught.value)
    assert text.startswith("[") and message in text and "\nhint: " in text


def test_nothing_has_no_pieces_and_no_counts():
    assert facula.empty(0).unbind() == ()
    counts = facula.bincount(facula.empty(0, dtype=facula.int64), facula.empty(0), 4)
    assert counts.dtype is facula.int64 and counts.tolist() == [0] * 4
    assert facula.ops.aten.index(x, [None]).tolist() == x.tolist()


def test_copies_of_views_take_any_layout():
    assert facula.view_copy(x.t(), (6,)).tolist() == [0, 3, 1, 4, 2, 5]
    spread = facula.ones(1, 1).expand(3, 3)
    made = facula.as_strided_scatter(spread, facula.zeros(2, 2), (2, 2), (1, 2))
    assert made.sum() == 5 and spread.sum() == 9


def test_results_that_are_copies():
    for call in (lambda y: F.pixel_shuffle(y, 1), lambda y: F.pixel_unshuffle(y, 1)):
        image = facula.zeros(1, 1, 2, 2)
        call(image).add_(1)
        assert image.sum() == 0
    y = facula.zeros(4, 4)[::2, ::2]
    y.ravel().add_(1)
    assert y.sum() == 0


def test_keywords_and_complex_parts():
    assert x.view(dtype=facula.int32).dtype is facula.int32
    z = facula.nan_to_num(facula.tensor([complex(float("nan"), 1)]))
    assert z.tolist() == [1j]
