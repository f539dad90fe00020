"""Modules cut over ranks train as whole ones do, by themselves and with `fully_shard`."""

from __future__ import annotations

import ranks


def run(program: str, size: int = 2) -> list:
    return ranks.run(program, size, script="parallel_programs.py")


def test_a_language_model_in_pieces():
    for difference, shape in run("language_model"):
        assert difference < 1e-12 and shape == [8, 8]


def test_pieces_of_pieces():
    for difference, shape, weights, placements in run("both", 4):
        assert difference < 1e-12 and shape == [4, 8] and weights < 1e-12
        assert "_StridedShard(dim=0" in placements


def test_collectives_losses_and_errors():
    for found in run("pieces"):
        assert found["forward"][0] < 1e-6 and found["forward"][1] == {
            "c10d_functional.all_reduce": 1
        }
        assert max(found["loss"][:2]) < 1e-12 and "Shard(dim=1)" in found["loss"][2]
        assert "without weights and smoothing" in found["smooth"][1]
        assert "nn.Linear or nn.Embedding" in found["kind"][1] and "dict" in found["plan"][1]
        assert "'nothing'" in found["told"] and found["out"] == [4, 3]
        assert "gathering is forbidden" in found["forbidden"][1]
