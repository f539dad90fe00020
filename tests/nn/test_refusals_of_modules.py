"""What pooling, parametrizations and packed sequences refuse, and the least that they take."""

import numpy as np
import pytest

import facula
import facula.nn.functional as F
from facula import nn

POOLS = [
    (2, F.fractional_max_pool2d, nn.FractionalMaxPool2d),
    (3, F.fractional_max_pool3d, nn.FractionalMaxPool3d),
]


@pytest.mark.parametrize(("dims", "pool", "module"), POOLS)
def test_fractional_pools_give_nothing_where_nothing_was_asked(dims, pool, module):
    x = facula.rand(2, 3, *[8] * dims, requires_grad=True)
    assert pool(x, 2, output_size=0).shape == (2, 3, *[0] * dims)
    values, places = pool(x[0], 2, output_size=(0, *[3] * (dims - 1)), return_indices=True)
    assert values.shape == places.shape == (3, 0, *[3] * (dims - 1))
    assert places.dtype is facula.int64
    values.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.zeros(x.shape))
    empty = module(2, output_size=3)(facula.rand(0, 3, *[8] * dims))
    assert empty.shape == (0, 3, *[3] * dims)


@pytest.mark.parametrize(("dims", "pool", "module"), POOLS)
def test_fractional_pools_say_what_does_not_fit(dims, pool, module):
    x = facula.rand(2, 3, *[8] * dims)
    with pytest.raises(RuntimeError, match="kernel_size must either be a single int"):
        pool(x, (2,), output_size=3)
    with pytest.raises(RuntimeError, match="output_size must either be a single int"):
        pool(x, 2, output_size=())
    with pytest.raises(RuntimeError, match="too large relative to input width"):
        pool(x, 2, output_size=(*[3] * (dims - 1), 8))
    with pytest.raises(RuntimeError, match="Expected input to have non-zero size"):
        pool(facula.rand(2, 0, *[8] * dims), 2, output_size=3)


def test_unpooling_keeps_the_order_of_memory():
    x = facula.rand(2, 4, 9, 9).contiguous(memory_format=facula.channels_last)
    pooled, places = F.max_pool2d(x, 3, 2, return_indices=True)
    found = F.max_unpool2d(pooled, places, 3, 2)
    assert found.is_contiguous(memory_format=facula.channels_last)
    assert F.max_unpool2d(pooled.contiguous(), places, 3, 2).is_contiguous()
    expected = np.zeros((2, 4, 81), dtype=np.float32)
    np.put_along_axis(
        expected, places.numpy().reshape(2, 4, -1), pooled.numpy().reshape(2, 4, -1), -1
    )
    np.testing.assert_array_equal(found.numpy(), expected.reshape(2, 4, 9, 9))
    half = F.max_unpool2d(pooled.half(), places, 3, 2)
    np.testing.assert_array_equal(half.numpy(), expected.reshape(2, 4, 9, 9).astype(np.float16))


def test_unpooling_is_mapped_over_batches():
    x = facula.rand(3, 2, 4, 8)
    pooled, places = facula.vmap(lambda a: F.max_pool1d(a, 2, return_indices=True))(x)
    found = facula.vmap(lambda p, i: F.max_unpool1d(p, i, 2))(pooled, places)
    expected = np.zeros(x.shape, dtype=np.float32)
    np.put_along_axis(expected, places.numpy(), pooled.numpy(), -1)
    np.testing.assert_array_equal(found.numpy(), expected)
    with pytest.raises(RuntimeError, match="Found an invalid max index"):
        facula.vmap(lambda p, i: F.max_unpool1d(p, i, 2))(pooled, places + 8)


def test_a_parametrization_gives_a_tensor():
    class Pair(nn.Module):
        def forward(self, weight):
            return weight, weight

    with pytest.raises(ValueError, match="must return a tensor"):
        nn.utils.parametrize.register_parametrization(nn.Linear(2, 2), "weight", Pair())


def test_nothing_is_packed():
    with pytest.raises(RuntimeError, match="Cannot pack empty tensors"):
        nn.utils.rnn.pack_padded_sequence(facula.rand(0, 2), [])


@pytest.mark.parametrize("name", ["vjp", "jvp", "hvp", "vhp"])
def test_derivatives_say_how_many_tensors_v_has(name):
    x = facula.rand(3)
    with pytest.raises(RuntimeError, match="The given v should contain a single Tensor"):
        getattr(facula.autograd.functional, name)(lambda a: (a * a).sum(), x, (x, x))
    if name in ("hvp", "vhp"):
        with pytest.raises(
            RuntimeError, match=f"function given to {name} should contain a single element"
        ):
            getattr(facula.autograd.functional, name)(lambda a: a * a, x, x)


@pytest.mark.parametrize("dims", [2, 3])
def test_attention_says_how_many_dimensions_it_found(dims):
    attention = nn.MultiheadAttention(4, 2)
    whole, other = facula.ones(*[3] * (dims - 1), 4), facula.ones(*[3] * (4 - dims), 4)
    with pytest.raises(
        AssertionError, match=rf"to be {dims}-D but found {5 - dims}-D and {dims}-D tensors"
    ):
        attention(whole, other, whole)
    with pytest.raises(
        AssertionError, match=f"`key_padding_mask` to be `None` or {dims - 1}-D but found 4-D"
    ):
        attention(whole, whole, whole, key_padding_mask=facula.zeros(1, 1, 1, 3))
