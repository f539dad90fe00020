"""Collectives that give new tensors, and functions on the pieces of distributed tensors."""

from __future__ import annotations

import numpy as np
import ranks

X = [np.arange(4.0).reshape(2, 2) + 10 * rank for rank in range(2)]


def run(program: str) -> list:
    return ranks.run(program, 2, script="functional_programs.py")


def test_every_rank_gets_what_belongs_to_it():
    total = (X[0] + X[1]).tolist()
    for rank, found in enumerate(run("functions")):
        for name in ("group", "ranks", "lists", "mesh", "dim", "name", "older"):
            assert found[name] == total
        assert found["untouched"] == X[rank].tolist() and found["max"] == X[1].tolist()
        assert found["rows"] == found["operator"] == np.concatenate(X).tolist()
        assert found["columns"] == np.concatenate(X, 1).tolist()
        assert found["scattered"] == np.array(total)[:, rank : rank + 1].tolist()
        assert found["broadcast"] == X[1].tolist() and found["moved"] == X[1 - rank].tolist()
        assert found["exchanged"] == [X[0][rank].tolist(), X[1][rank].tolist()]
        assert found["each"] == [total, total]
        assert found["gradient"] == [3.0, 3.0]
        assert found["way"][0] == "ValueError" and "Unsupported reduce operation" in found["way"][1]
        assert found["no group"][0] == "ValueError" and "'nobody'" in found["no group"][1]
        assert found["odd"][0] == "AssertionError" and "multiple of group_size" in found["odd"][1]


def test_functions_get_pieces():
    for found in run("pieces"):
        assert found["shapes"] == [[[2, 3], "Tensor"]]
        assert found["out"][0] == "nothing"
        assert found["made"] == [[2.0] * 3] * 2 + [[4.0] * 3] * 2
        assert found["strict"][0] == "ValueError" and "redistribute_inputs" in found["strict"][1]
        assert found["moved"] == [0.0, 0.0, 1.0, 1.0]
        assert found["plain"] == ["Tensor", [2.0, 2.0]]
        assert found["few"][0] == "AssertionError" and "in_placements of 2" in found["few"][1]
