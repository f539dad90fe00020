"""What decompositions ask of tensors."""

import pytest

import facula
from facula import _prims_common as common


def test_strides_and_lengths():
    for shape in ((), (3,), (2, 3, 4), (2, 0, 3)):
        x = facula.empty(shape)
        assert common.make_contiguous_strides_for(shape) == tuple(x.stride())
    assert common.make_contiguous_strides_for((2, 3, 4), row_major=False) == (12, 1, 3)
    x = facula.empty(4, 6).t()[1:, ::2]
    length = common.compute_required_storage_length(x.shape, x.stride(), x.storage_offset())
    facula.empty(length).as_strided(x.shape, x.stride(), x.storage_offset())
    with pytest.raises(RuntimeError):
        facula.empty(length - 1).as_strided(x.shape, x.stride(), x.storage_offset())


def test_dtypes_and_dimensions():
    assert common.dtype_to_type(facula.bfloat16) is float
    assert common.type_to_dtype(int) is facula.int64
    assert common.is_integer_dtype(facula.uint8)
    assert not common.is_integer_dtype(facula.bool)
    assert common.canonicalize_dims(3, (-1, 0)) == (2, 0)
    with pytest.raises(IndexError):
        common.canonicalize_dim(2, 2)
    assert common.suggest_memory_format(
        facula.empty(2, 3, 4, 5, memory_format=facula.channels_last)
    ) is (facula.channels_last)


def test_metadata_that_differ():
    a = facula.empty(2, 3)
    common.compare_tensor_meta(a, facula.empty(2, 3), check_strides=True)
    for b in (facula.empty(3, 2), facula.empty(2, 3, dtype=facula.int64), a.to("meta")):
        with pytest.raises(AssertionError):
            common.compare_tensor_meta(a, b)
    with pytest.raises(RuntimeError, match="Stride"):
        common.compare_tensor_meta(a, facula.empty(3, 2).t(), check_strides=True)
    common.compare_tensor_meta(a, facula.empty(3, 2).t())
