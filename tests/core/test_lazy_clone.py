"""A lazy clone shares the data until one of both is written to; then each has its own values, whatever writes."""

import numpy
import pytest

import facula
from facula import _C

DTYPES = [
    facula.float32, facula.float64, facula.bfloat16, facula.int64, facula.uint8, facula.bool,
    facula.complex64,
]  # fmt: skip


def lazy_pair(dtype=facula.float32):
    x = facula.tensor([[0, 1], [2, 3]]).to(dtype)
    return x, x._lazy_clone()


@pytest.mark.parametrize("dtype", DTYPES)
def test_reading_shares_the_data(dtype):
    x, clone = lazy_pair(dtype)
    view = x.view(4)
    assert _C._data_address(x) == _C._data_address(clone) == _C._data_address(view)
    assert _C._storage_address(x) == _C._storage_address(view) != _C._storage_address(clone)
    assert (x == clone).all()
    assert _C._is_cow_tensor(x)
    assert _C._is_cow_tensor(clone)
    assert _C._is_cow_tensor(view)


@pytest.mark.parametrize("first", ["original", "clone"])
def test_the_first_writer_gets_new_memory_the_last_one_keeps_the_old(first):
    x, clone = lazy_pair()
    place = _C._data_address(x)
    writer, other = (x, clone) if first == "original" else (clone, x)
    writer.view(4).add_(10)
    assert _C._data_address(writer) != place
    assert _C._data_address(other) == place
    assert writer.tolist() == [[10, 11], [12, 13]]
    assert other.tolist() == [[0, 1], [2, 3]]
    other += 1
    assert _C._data_address(other) == place
    assert not _C._is_cow_tensor(other)
    assert other.tolist() == [[1, 2], [3, 4]]
    assert writer.tolist() == [[10, 11], [12, 13]]


WRITES = {
    "add_": lambda t: t.add_(1),
    "copy_": lambda t: t.copy_(facula.full((2, 2), 7.0)),
    "fill_": lambda t: t.fill_(7),
    "zero_": lambda t: t.zero_(),
    "index": lambda t: t.__setitem__((0, 1), 9.0),
    "mask": lambda t: t.__setitem__(t > 1, 9.0),
    "index_put_": lambda t: t.index_put_((facula.tensor([0]),), facula.tensor(5.0)),
    "scatter_": lambda t: t.scatter_(0, facula.tensor([[1, 0]]), 5.0),
    "random": lambda t: t.uniform_(5, 6),
    "out": lambda t: facula.mul(facula.ones(2, 2), 4, out=t),
    "matmul out": lambda t: facula.matmul(facula.ones(2, 2), facula.ones(2, 2), out=t),
    "a view": lambda t: t.t()[0].mul_(3).add_(1),
    "numpy": lambda t: t.numpy().__setitem__((0, 0), 5.0),
    "dlpack": lambda t: facula.from_dlpack(t).add_(1),
    "the storage": lambda t: t.untyped_storage().fill_(1),
    "share_memory_": lambda t: t.share_memory_().add_(1),
    "resize_": lambda t: t.resize_(3, 3).fill_(2),
    "cumsum_": lambda t: t.cumsum_(0),
    "swap": lambda t: t.transpose_(0, 1).sub_(1),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("twice", [False, True])
def test_every_write_leaves_the_other_alone(write, twice):
    x, clone = lazy_pair()
    expected = x.clone()
    plain = expected.clone()
    if twice:
        third = clone._lazy_clone()
    facula.manual_seed(0)
    WRITES[write](clone)
    facula.manual_seed(0)
    WRITES[write](plain)
    assert (x == expected).all()
    assert clone.shape == plain.shape
    assert (clone == plain).all()
    if twice:
        assert (third == expected).all()
        facula.manual_seed(0)
        WRITES[write](x)
        assert (x == plain).all()
        assert (third == expected).all()


def test_many_writes_of_one_kind_in_a_row():
    """The launches of an operator are kept: those of a shared tensor must not serve others, nor the other way round."""
    for _ in range(4):
        x, clone = lazy_pair()
        y = facula.ones(2, 2)
        y.add_(1)
        clone.add_(1)
        assert x.tolist() == [[0, 1], [2, 3]]
        assert clone.tolist() == [[1, 2], [3, 4]]


def test_one_that_dies_gives_its_share_back():
    x, clone = lazy_pair()
    place = _C._data_address(x)
    del clone
    x += 1
    assert _C._data_address(x) == place
    assert x.tolist() == [[1, 2], [3, 4]]
    x, clone = lazy_pair()
    del x
    clone += 1
    assert clone.tolist() == [[1, 2], [3, 4]]


def test_what_others_may_write_to_is_copied_at_once():
    array = numpy.zeros(3, dtype="float32")
    x = facula.from_numpy(array)
    clone = x._lazy_clone()
    array[0] = 5
    assert clone.tolist() == [0, 0, 0]
    y = facula.zeros(3)
    y.data_ptr()
    assert not _C._is_cow_tensor(y._lazy_clone())


def test_strides_gradients_and_compiled_writes():
    x = facula.arange(6.0).view(2, 3).t()
    clone = x[1:]._lazy_clone()
    assert clone.stride() == (1, 3)
    assert clone.tolist() == [[1, 4], [2, 5]]
    w = facula.ones(3, requires_grad=True)
    (w._lazy_clone() * 2).sum().backward()
    assert w.grad.tolist() == [2, 2, 2]

    @facula.compile
    def write(t):
        t.add_(1)
        return t * 2

    x, clone = lazy_pair()
    assert write(clone).tolist() == [[2, 4], [6, 8]]
    assert x.tolist() == [[0, 1], [2, 3]]
