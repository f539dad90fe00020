"""What `resize_`, `resize_as_` and `expand` make of strides.

Takes: shapes and memory formats. Gives: nothing. Keeps true: a shape that stays keeps its strides, a
memory format sets them, and sizes that no memory has raise.
"""

import pytest

import facula


def test_the_same_shape_keeps_its_strides():
    x = facula.arange(6).view(2, 3).t()
    assert x.resize_as_(x).stride() == (1, 3)
    assert x.resize_(3, 2).tolist() == [[0, 3], [1, 4], [2, 5]]
    assert x.resize_(2, 3).stride() == (3, 1)


def test_memory_formats():
    x = facula.arange(24.0)
    x.resize_((1, 2, 3, 4), memory_format=facula.channels_last)
    assert x.stride() == (24, 1, 8, 2) and x[0, :, 0, 0].tolist() == [0, 1]
    y = facula.empty(24).resize_as_(x, memory_format=facula.preserve_format)
    assert y.is_contiguous(memory_format=facula.channels_last)
    assert facula.empty(24).resize_as_(x).stride() == (24, 12, 4, 1)
    with pytest.raises(RuntimeError, match="Unsupported memory format"):
        x.resize_(2, 2, memory_format=facula.preserve_format)


def test_strides_beyond_int64():
    with pytest.raises(RuntimeError, match="Stride calculation overflowed"):
        facula.empty(()).resize_([0, 4, 2**61])
    assert facula.empty(0, 4).shape == (0, 4)


def test_a_new_dimension_of_size_1_steps_as_unsqueeze_has_it():
    x = facula.arange(5)
    assert x.expand(1, 1, 5).stride() == x.unsqueeze(0).unsqueeze(1).stride() == (5, 5, 1)
    assert x.expand(2, 1, 5).stride() == (0, 5, 1)


def test_elements_that_share_a_place_share_its_gradient():
    x = facula.arange(3.0, dtype=facula.float64).requires_grad_()
    y = x.expand(2, 3)
    y.as_strided((3,), (1,), 0).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0, 1.0]


def test_slices_keep_their_order_with_a_dimension_of_size_1():
    x = facula.arange(2 * 3 * 8 * 8).view(2, 3, 8, 8).contiguous(memory_format=facula.channels_last)
    assert x[:1, :, ::2, ::2].float().stride() == (48, 1, 12, 3)
    assert x[:, :1].clone().stride() == (64, 1, 8, 1)
