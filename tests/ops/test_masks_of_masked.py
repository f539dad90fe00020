"""The masks of inputs and results of masked operators."""

import pytest

import facula
from facula import masked


def test_masks_of_results():
    x = facula.arange(6.0).view(2, 3)
    mask = facula.tensor([[True, False, True], [False, False, False]])
    assert masked._output_mask(masked.sum, x, 1, mask=mask).tolist() == [True, False]
    assert masked._output_mask(masked.norm, x, 2.0, 0, mask=mask).tolist() == [True, False, True]
    assert masked._output_mask(masked.amax, x, mask=mask, keepdim=True).tolist() == [[True]]
    assert masked._output_mask(masked.softmax, x, 1, mask=mask).tolist() == mask.tolist()
    assert masked._input_mask(x, mask=mask[0]).tolist() == [mask[0].tolist()] * 2
    with pytest.raises(ValueError, match="explicit mask"):
        masked._input_mask(x)
    with pytest.raises(IndexError, match="broadcastable"):
        masked._input_mask(x[0], mask=mask)


def test_dimensions_in_one_form():
    assert masked._canonical_dim(None, 3) == masked._canonical_dim((), 3) == (0, 1, 2)
    assert masked._canonical_dim((-1, 0), 3) == (0, 2)
    with pytest.raises(RuntimeError, match="multiple times"):
        masked._canonical_dim((0, -2), 2)
