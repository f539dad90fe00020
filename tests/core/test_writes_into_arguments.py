"""Writes by index whose arguments share memory with what is written to, and writes to expanded tensors, as in
PyTorch."""

import pytest

import facula

WRITES = {
    "index_add_": lambda x, i, v: x.index_add_(0, i, v),
    "index_copy_": lambda x, i, v: x.index_copy_(0, i, v),
    "put_": lambda x, i, v: x.put_(i, v),
    "scatter_": lambda x, i, v: x.scatter_(0, i, v),
    "scatter_add_": lambda x, i, v: x.scatter_add_(0, i, v),
}


@pytest.mark.parametrize("name", WRITES)
def test_arguments_in_the_memory_that_is_written_to_are_refused(name):
    x, index = facula.rand(6), facula.tensor([2, 1, 0])
    with pytest.raises(RuntimeError, match="unsupported operation"):
        WRITES[name](x, index, x[:3])
    before = index.clone()
    with pytest.raises(RuntimeError, match="unsupported operation"):
        WRITES[name](index, index, before)
    with pytest.raises(RuntimeError, match="unsupported operation"):
        WRITES[name](facula.rand(1).expand(6), index, facula.rand(3))
    assert (index == before).all()
    WRITES[name](x, index, x[:3].clone())


def test_fills_of_expanded_tensors_warn():
    x = facula.zeros(1).expand(4)
    with pytest.warns(UserWarning, match="index_fill_ on expanded tensors"):
        x.index_fill_(0, facula.tensor([1]), 3.0)
    assert x.tolist() == [3, 3, 3, 3] or x.tolist() == [0, 0, 0, 0]
    with pytest.warns(UserWarning, match="masked_fill_ on expanded tensors"):
        x.masked_fill_(facula.tensor([True] * 4), 5.0)
    assert x.tolist() == [5, 5, 5, 5]
