"""The size of a ragged dimension: a symbol that tensors of one origin share, as PyTorch's."""

import gc
import weakref

import numpy as np
import pytest

import facula
from facula.nested._internal.nested_tensor import get_tensor_symint

JAGGED = facula.jagged


def jagged(*lengths, width=3):
    rows = [facula.arange(float(n * width)).reshape(n, width) for n in lengths]
    return facula.nested.nested_tensor(rows, layout=JAGGED)


def test_tensors_of_one_origin_share_the_size():
    x, y = jagged(2, 4), jagged(2, 4)
    size = x.shape[1]
    assert isinstance(size, facula.SymInt)
    assert x.shape == x.size() == (2, size, 3)
    assert x.shape[1] is x.size(1) is x.size(-2)
    for same in (
        x * 2,
        x.clone(),
        x.sin(),
        x.detach(),
        facula.zeros_like(x),
        x.transpose(1, 2).transpose(1, 2),
    ):
        assert same.shape == x.shape
    assert y.shape != x.shape
    assert x.transpose(1, 2).shape == (2, 3, size)
    assert x.unsqueeze(-1).shape == (2, size, 3, 1)
    assert x.softmax(-1).shape == x.shape
    name = str(size)
    assert name.startswith("j") and int(name[1:]) > 0
    assert f"size=(2, {name}, 3)" in repr(x)
    assert x.stride() == (3 * size, 3, 1)
    assert x.transpose(1, 2).stride() == (3 * size, 1, 3)


def test_sizes_follow_offsets():
    offsets = facula.tensor([0, 2, 6])
    x = facula.nested.nested_tensor_from_jagged(facula.ones(6, 3), offsets)
    y = facula.nested.nested_tensor_from_jagged(facula.zeros(6, 5), offsets)
    assert x.shape[1] == y.shape[1] == get_tensor_symint(offsets, coeff=1)
    assert x.offsets() is offsets
    z = facula.nested.nested_tensor_from_jagged(facula.ones(6, 3), facula.tensor([0, 2, 6]))
    assert z.shape[1] != x.shape[1]
    again = facula.nested.nested_tensor_from_jagged(z.values(), x.offsets())
    assert (again + x).values().tolist() == [[2.0] * 3] * 6


def test_comparisons_hold_for_every_length_or_raise():
    size = jagged(2, 4).shape[1]
    other = jagged(2, 4).shape[1]
    assert size != 4 and size != other and not size == 4
    assert size >= 2 and size > 1 and not size < 2 and size >= size and not size > size
    assert 2 * size > size and 2 * size == size * 2 and 2 * size != size
    assert str(2 * size) == f"2*{size}"
    for compare in (lambda: size > 2, lambda: size < 3, lambda: size >= other, lambda: size <= 5):
        with pytest.raises(ValueError, match="indeterminate"):
            compare()
    assert len({size, other, 2 * size}) == 3


def test_shapes_with_the_size_are_taken():
    x = jagged(2, 4)
    size = x.shape[1]
    assert x.view(2, size, 3).shape == x.shape
    assert x.view(2, -1, 3, 1).shape == (2, size, 3, 1)
    turned = x.transpose(1, 2)
    assert turned.view(2, 3, size).shape == turned.shape
    wide = x.unsqueeze(-1).expand(-1, -1, -1, 2)
    assert wide.shape == (2, size, 3, 2)
    for a, b in zip(wide.unbind(), x.unbind(), strict=True):
        assert np.array_equal(a.numpy(), np.repeat(b.numpy()[..., None], 2, -1))
    with pytest.raises(RuntimeError, match="ragged"):
        x.expand(2, 5, 3)


def test_dense_factors_broadcast():
    x = jagged(2, 4, width=1)
    wider = x + facula.arange(3.0).reshape(1, 1, 3)
    assert wider.shape == (2, x.shape[1], 3)
    for a, b in zip(wider.unbind(), x.unbind(), strict=True):
        assert np.array_equal(a.numpy(), b.numpy() + np.arange(3.0))
    turned = jagged(2, 4).transpose(1, 2)
    factor = facula.tensor([[[1.0], [2.0], [3.0]], [[4.0], [5.0], [6.0]]])
    for a, b, f in zip((turned * factor).unbind(), turned.unbind(), factor.unbind(), strict=True):
        assert np.array_equal(a.numpy(), b.numpy() * f.numpy())
    with pytest.raises(RuntimeError, match="broadcasts over the ragged"):
        turned * facula.ones(2, 3, 5)


def test_views_of_what():
    rows = facula.ones(6, 3)
    x = facula.nested.nested_tensor_from_jagged(rows, facula.tensor([0, 2, 6]))
    assert x._is_view() and x._base is rows
    dense = facula.ones(2, 4, 3)
    for layout in (JAGGED, facula.strided):
        y = facula.nested.as_nested_tensor(dense, layout=layout)
        assert y._is_view() and y._base is dense
        dense[0, 0, 0] = 7
        assert y.unbind()[0][0, 0] == 7
        with pytest.raises(RuntimeError, match="Converting between nested tensor layouts"):
            facula.nested.as_nested_tensor(y, layout={JAGGED: facula.strided}.get(layout, JAGGED))
    assert x.chunk(3, -1)[0]._base is rows
    assert x.unsqueeze(-1)._base is rows
    assert not (x * 2)._is_view()


def test_order_in_memory():
    x = jagged(2, 4)
    part = x.chunk(3, -1)[1]
    assert not part.is_contiguous() and part.contiguous().is_contiguous()
    assert "contiguous=False" in repr(part)
    y = facula.nested.nested_tensor([facula.ones(2, 4), facula.ones(3, 4)])
    turned = y.transpose(1, 2)
    assert not turned.is_contiguous() and turned.contiguous().is_contiguous()
    assert turned.transpose(1, 2).is_contiguous()
    for call, message in (
        (lambda: y.chunk(2, 1), "only supported for the last dimension"),
        (lambda: turned.chunk(2, -1), "to be contiguous"),
        (lambda: y.chunk(3, -1), "divisible by chunks"),
        (lambda: y.stride(), "doesn't support strides"),
        (lambda: y * facula.ones(1), "a nested self and non-nested other"),
        (lambda: facula.ones(1) * y, "a non-nested self and nested other"),
    ):
        with pytest.raises(RuntimeError, match=message):
            call()


def test_layers_of_layout_strided_say_what_they_take():
    linear = facula.nn.functional.linear
    for rows, message in (
        (
            [facula.ones(1), facula.ones(2)],
            "nested_tensor.dim == 3 and dense_matrix.dim == 2. Nested tensor dim: 2",
        ),
        ([facula.ones(1, 2), facula.ones(2, 3)], "the same trailing dimension"),
    ):
        with pytest.raises(RuntimeError, match=message):
            linear(facula.nested.nested_tensor(rows), facula.ones(2, 2))


def test_compiled_programs_keep_the_size():
    run = facula.compile(lambda x: (x * 2).sin(), fullgraph=True)
    x = jagged(2, 4)
    assert run(x).shape == x.shape
    y = jagged(1, 3)
    assert [r.shape[0] for r in run(y).unbind()] == [1, 3]
    assert (run(y) + y).shape[0] == 2


def test_lengths_are_told():
    x = jagged(2, 4)
    assert {k: v.shape[0] for k, v in x._metadata_cache.items()} == {
        "min_seqlen": 2,
        "max_seqlen": 4,
    }
    assert (x._maybe_min_seqlen, x._maybe_max_seqlen, x._get_max_seqlen()) == (2, 4, 4)


def test_sizes_die_with_their_tensors():
    x = jagged(2, 4)
    gone = weakref.ref(x._ragged())
    x.shape, x.offsets()
    del x
    gc.collect()
    assert gone() is None


def test_padding_of_no_entries_and_sizes_of_another_length():
    empty = facula.nested.nested_tensor([])
    assert tuple(empty.to_padded_tensor(1.0).shape) == (0,)
    with pytest.raises(RuntimeError, match="Length of output_size does not match.*\nhint"):
        facula.nested.nested_tensor([facula.ones(2)]).to_padded_tensor(0.0, (2, 3, 4))
