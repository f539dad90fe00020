"""Collectives that give new tensors, and functions on the pieces of distributed tensors."""

from __future__ import annotations

import numpy as np
import pytest
import ranks

import facula
from facula import distributed as dist
from facula.distributed import _functional_collectives as functional
from facula.distributed.traffic import counting
from facula.fx.fake_tensor import FakeTensorMode

X = [np.arange(4.0).reshape(2, 2) + 10 * rank for rank in range(2)]


def run(program: str) -> list:
    return ranks.run(program, 2, script="functional_programs.py")


@pytest.fixture(scope="module")
def compiled() -> list:
    return run("compiled")


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


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled_programs_send_when_they_run(compiled: list, backend: str):
    """They sent while they were traced, and gave what lay in memory."""
    y = [2 * (np.arange(12.0).reshape(3, 4) + 100 * rank) for rank in range(2)]
    total = y[0] + y[1]
    for rank, found in enumerate(compiled):
        want = [
            total, total / 2, y[1], np.concatenate(y), 1.5 * np.concatenate(y, 1), total[:, 2 * rank : 2 * rank + 2],
            np.concatenate([y[0][:1], y[1][:2]]) if rank == 0 else np.concatenate([y[0][1:], y[1][2:]]),
        ]  # fmt: skip
        for got, one in zip(found[backend], want, strict=True):
            np.testing.assert_allclose(got, one + 1)
        assert found[f"{backend} count"] == 7


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_gradients_of_compiled_programs(compiled: list, backend: str):
    """Each result of rank r counts `number + r + 1` times, wherever its numbers come from."""
    of = lambda number, rank: number + rank + 1  # noqa: E731
    for rank, found in enumerate(compiled):
        want = np.zeros((3, 4))
        want += of(0, 0) + of(0, 1)  # the sum
        want += (of(1, 0) + of(1, 1)) / 2  # the mean
        want += of(2, 0) + of(2, 1) if rank == 1 else 0  # broadcast from rank 1
        want += of(3, 0) + of(3, 1) + 1.5 * (of(4, 0) + of(4, 1))  # gathered
        want[:, :2] += of(5, 0)  # the first half went to rank 0, the other to rank 1
        want[:, 2:] += of(5, 1)
        first = 1 if rank == 0 else 2  # rows that went to rank 0
        want[:first] += of(6, 0)
        want[first:] += of(6, 1)
        np.testing.assert_allclose(found[f"{backend} gradient"], 2 * want)


def test_collectives_that_write_are_refused_before_anything_is_sent():
    """Of a tensor without elements something was sent, and then refused."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        with counting() as traffic, FakeTensorMode():
            x = facula.ones(2)
            with pytest.raises(
                NotImplementedError, match="a tensor with elements|with elements were required"
            ):
                dist.all_reduce(x)
            assert tuple(functional.all_gather_tensor(x, 0, dist.group.WORLD).shape) == (2,)
        assert traffic.total().count == 0
    finally:
        dist.destroy_process_group()


def test_wrong_arguments_are_told_before_anything_is_sent():
    """A dimension beyond the last was taken to be another one; what is no tensor ended in an AttributeError."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    world, x = dist.group.WORLD, facula.arange(6.0).reshape(2, 3)
    try:
        assert functional.all_gather_tensor(x, -1, world).tolist() == x.tolist()
        with counting() as traffic:
            for dim in (2, -3, 5):
                with pytest.raises(IndexError, match="Dimension out of range"):
                    functional.all_gather_tensor(x, dim, world)
            calls = {
                "all_reduce": ("sum",), "all_gather_tensor": (0,), "broadcast": (0,),
                "reduce_scatter_tensor": ("sum", 0), "all_to_all_single": (None, None),
            }  # fmt: skip
            for name, more in calls.items():
                with pytest.raises(TypeError, match="a tensor was required: got list"):
                    getattr(functional, name)([1.0], *more, world)
            with pytest.raises(ValueError, match="a dimension for each of 2 tensors"):
                functional.reduce_scatter_tensor_coalesced([x, x], "sum", [0], world)
        assert traffic.total().count == 0
    finally:
        dist.destroy_process_group()


def test_functions_get_pieces():
    for found in run("pieces"):
        assert found["shapes"] == [[[2, 3], "Tensor"]]
        assert found["out"][0] == "nothing"
        assert found["made"] == [[2.0] * 3] * 2 + [[4.0] * 3] * 2
        assert found["strict"][0] == "ValueError" and "redistribute_inputs" in found["strict"][1]
        assert found["moved"] == [0.0, 0.0, 1.0, 1.0]
        assert found["plain"] == ["Tensor", [2.0, 2.0]]
        assert found["few"][0] == "AssertionError" and "in_placements of 2" in found["few"][1]
