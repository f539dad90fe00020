"""Sequences over several ranks: attention and its gradients are those of whole sequences."""

from __future__ import annotations

import pytest
import ranks

from facula.distributed.tensor.experimental._attention import set_rotate_method


@pytest.mark.parametrize("size", [2, 4])
def test_attention_over_ranks(size):
    for found, mask, odd, count in ranks.run("attention", size, script="context_programs.py"):
        assert found == [True] * 12
        assert "attention without a mask" in mask and f"a multiple of {2 * size} places" in odd
        assert "a dimension for each of 1 buffers" in count


def test_ways_around():
    with pytest.raises(NotImplementedError, match="allgather or alltoall"):
        set_rotate_method("none")


def test_views_of_pieces_that_lie_otherwise():
    for same, gradient, wrong in ranks.run("views", 2, script="context_programs.py"):
        assert same and gradient and "a shape of 48 elements was required" in wrong
