"""Tensors on a mesh: operators, gradients and steps give what they give on whole tensors."""

from __future__ import annotations

import pytest
import ranks

import facula


@pytest.mark.parametrize("size", [2, 3])
def test_distributed_tensors(size: int):
    whole = facula.arange(15.0).reshape(5, 3)
    pieces = {2: [3, 2], 3: [2, 2, 1]}[size]
    for rank, got in enumerate(ranks.run("sharded", size)):
        assert got["piece"] == [pieces[rank], 3] and got["whole"] == whole.tolist()
        assert got["elementwise"] == [True, whole.tolist()]
        assert got["gradient"] == (whole.t() @ facula.ones(5, 4)).tolist()
        same, shape = got["other"]
        columns = {2: [2, 1], 3: [1, 1, 1]}[size][rank]
        assert same and shape == [5, columns]
        assert got["partial"] == [float(sum(range(1, size + 1)))] * 2
        assert got["local gradient"] == [3.0, 3.0]
        assert got["in place"] == 2 * whole.sum().item()
        assert got["zeros"] == [pieces[rank], 2]
        assert got["step"] == [pytest.approx([1.0, 1.0, 1.0])]
        assert "mixed torch.Tensor and DTensor" in got["mixed"] and "hint:" in got["mixed"]
