"""Writes over what is still to be read are refused where memory is shifted, and read first where it is interleaved."""

import numpy
import pytest

import facula

SHIFTED = "some elements of the input tensor and the written-to tensor refer to a single memory"


def row(n=30):
    return facula.arange(float(n)) + 1


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x[1:10].copy_(x[:9]),
        lambda x: x[:9].copy_(x[1:10]),
        lambda x: x[:9].view(3, 3).t().copy_(x[:9].view(3, 3)),
        lambda x: x.__setitem__(slice(1, 10), x[:9]),
        lambda x: facula.exp(x[:9], out=x[1:10]),
        lambda x: facula.add(row(9), x[:9], out=x[1:10]),
        lambda x: facula.addcmul(x[:9], row(9), row(9), out=x[1:10]),
        lambda x: facula.lerp(row(9), x[1:10], row(9), out=x[:9]),
        lambda x: x.index_put_((facula.tensor([2, 1, 0]),), x[:3]),
        lambda x: x.__setitem__(facula.tensor([2, 1, 0]), x[0]),
    ],
)
def test_shifted_memory_is_refused(write):
    x = row()
    with pytest.raises(RuntimeError, match=SHIFTED):
        write(x)
    assert x.tolist() == row().tolist()


def test_indices_that_would_be_overwritten_are_refused():
    index = facula.tensor([2, 1, 0])
    with pytest.raises(RuntimeError, match=SHIFTED):
        index.index_put_((index,), index.clone())


def test_interleaved_and_equal_memory_is_read_first():
    x = row(6)
    x[::2].copy_(x[1::2])
    assert x.tolist() == [2, 2, 4, 4, 6, 6]
    x.copy_(x)
    x[1:].copy_(x[:-1].clone())
    assert x.tolist() == [2, 2, 2, 4, 4, 6]
    x[x > 3] = x[0]
    assert x.tolist() == [2, 2, 2, 2, 2, 2]
    facula.exp(x, out=x)
    assert numpy.allclose(x.numpy(), numpy.exp(2.0))


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0), (2, 1, 0), (0, 2, 1)])
def test_an_empty_result_takes_the_memory_order_of_the_operand(order):
    x = facula.rand(2, 3, 8)[:, :, ::2].permute(*order)
    out = facula.empty(0)
    plain = facula.exp(x)
    facula.exp(x, out=out)
    assert out.stride() == plain.stride() == tuple(s // 2 for s in x.stride())
    assert facula.equal(out, plain)
    out = facula.empty(0, dtype=facula.bool)
    assert facula.eq(x, x, out=out).stride() == tuple(s // 2 for s in x.stride())
    y = facula.rand(x.shape[-1])
    out = facula.empty(0)
    assert facula.add(y, x, out=out).stride() == facula.add(y, x).stride()
    assert numpy.allclose(out.numpy(), y.numpy() + x.numpy())


@pytest.mark.parametrize(
    "run",
    [
        lambda x, i: facula.take(x, i, out=x),
        lambda x, i: facula.cat([x, x[:0]], out=x),
        lambda x, i: facula.gather(x, 0, i, out=x),
        lambda x, i: facula.index_select(x, 0, i, out=x),
        lambda x, i: facula.masked_select(x, x > -1, out=x),
        lambda x, i: facula.kthvalue(x, 1, keepdim=True, out=(x[:1], i[:1])),
    ],
)
def test_a_result_over_its_own_operand_is_refused_where_elements_move(run) -> None:
    x, i = facula.arange(4.0), facula.tensor([2, 1, 0, 3])
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        run(x, i)
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize("function", [facula.add, facula.mul, facula.maximum, facula.atan2])
def test_an_operand_is_not_resized_to_hold_the_result(function):
    """It was resized, and then read at its new size: other numbers than those of the operands."""
    x, y = facula.tensor([1.0]), facula.arange(4.0) + 1
    with pytest.raises(RuntimeError, match=r"shape \[1\] doesn't match the broadcast shape \[4\]"):
        function(x, y, out=x)
    with pytest.raises(RuntimeError, match=r"shape \[1\] doesn't match the broadcast shape \[4\]"):
        function(y, x, out=x)
    assert x.tolist() == [1.0] and y.tolist() == [1.0, 2.0, 3.0, 4.0]
    whole = facula.arange(4.0)
    for part in (whole[:0], whole[1:2]):
        with pytest.raises(RuntimeError, match="refer to a single memory location"):
            function(whole, y, out=part)
    assert whole.tolist() == [0.0, 1.0, 2.0, 3.0]
    same = facula.ones(4)
    assert function(same, y, out=same) is same
