"""Results lie in memory as their inputs do.

Takes: channels-last images, transposed rows, and both with gaps. Gives: the strides that PyTorch
documents for `preserve_format`: the order of dimensions stays, gaps go. Keeps true: values are those
of contiguous inputs; compiled programs give the same strides.
"""

import pytest

import facula
from facula.nn import functional as F

LAST = facula.channels_last


def images(*shape):
    return facula.randn(*shape).to(memory_format=LAST)


def check(function, *inputs):
    """The function's result, with the values that contiguous inputs give."""
    result = function(*inputs)
    expected = function(*(x.contiguous() for x in inputs))
    assert facula.equal(result, expected)
    compiled = facula.compile(function)(*inputs)
    facula.testing.assert_close(compiled, expected)
    assert compiled.stride() == result.stride()
    return result


@pytest.mark.parametrize("dim", [0, 1, 2, 3, -1])
def test_joined_images(dim):
    x, y = images(2, 3, 4, 5), images(2, 3, 4, 5)
    assert check(lambda x, y: facula.cat([x, y], dim), x, y).is_contiguous(memory_format=LAST)


def test_joined_images_and_rows_are_contiguous():
    x, y = images(2, 3, 4, 5), facula.randn(2, 3, 4, 5)
    assert check(lambda x, y: facula.cat([x, y], 1), x, y).is_contiguous()


def test_gradient_of_joined_images():
    x, y = (images(2, 3, 4, 5).requires_grad_() for _ in range(2))
    weight = facula.randn(2, 6, 4, 5)
    (facula.cat([x, y], 1) * weight).sum().backward()
    assert facula.equal(x.grad, weight[:, :3]) and facula.equal(y.grad, weight[:, 3:])


@pytest.mark.parametrize("pad", [(1, 2), (1, -1, 0, 2), (0, 0, 0, 0, 1, 1), (-1, 0)])
def test_padded_images(pad):
    x = images(2, 3, 4, 5)
    assert check(lambda x: F.pad(x, pad, value=2.0), x).is_contiguous(memory_format=LAST)


def test_padded_volumes():
    x = facula.randn(2, 3, 4, 5, 2).to(memory_format=facula.channels_last_3d)
    result = check(lambda x: F.pad(x, (1, 1)), x)
    assert result.is_contiguous(memory_format=facula.channels_last_3d)


def test_gaps_go_and_order_stays():
    part = images(2, 8, 4, 5)[:, 2:6]
    assert check(facula.relu, part).stride() == images(2, 4, 4, 5).stride()
    columns = facula.randn(6, 5)[:4].t()[::2]
    assert check(lambda x: x + 1, columns).stride() == (1, 3)
    assert check(facula.clone, columns).stride() == (1, 3)
    assert facula.empty_like(columns).stride() == (1, 3)


def test_expanded_rows_are_contiguous():
    assert check(facula.neg, facula.randn(4, 1).expand(4, 6)).stride() == (6, 1)


def test_first_operand_that_is_not_broadcast_decides():
    x, bias = images(2, 3, 4, 5), facula.randn(3, 1, 1)
    for function in (
        lambda x, b: b + x,
        lambda x, b: x + b,
        lambda x, b: facula.where(x > 0, b, x),
    ):
        assert check(function, x, bias).is_contiguous(memory_format=LAST)
