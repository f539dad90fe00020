"""Methods of process groups, groups that programs derive, and threads that stand for ranks."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import ranks

import facula
import facula as torch
from facula import distributed as dist
from facula._C import _distributed_c10d as c10d
from facula.futures import Future


def run(program: str) -> list:
    return ranks.run(program, 2, script="group_programs.py")


def test_methods_give_what_the_ranks_hold_together():
    for rank, found in enumerate(run("methods")):
        assert found["sum"] == [[3.0]]
        assert found["several"] == [[11.0], [11.0]]  # the most of 0, 10, 1 and 11
        assert found["entries"] == [[1.0], [10.0]]
        assert found["twice"] == [[3.0], [3.0]] and found["future"] == [[1.0], [2.0]]
        assert found["broadcast"] == [[6.0], [6.0]]
        assert found["gathered"] == [[[0.0], [1.0], [2.0], [3.0]]] * 2
        assert found["rows"] == [[[0.0], [7.0]], [[1.0], [8.0]]]
        assert found["reduced"] == [[3.0 if rank == 1 else 1.0]]
        assert found["at root"] == ([[[3.0], [4.0]]] if rank == 0 else [])
        assert found["scattered"] == [[8.0 + rank]]
        assert found["own sum"] == [[[1.0], [3.0]][rank]]
        assert found["flat"] == [[1.0, 2.0], [2.0 * rank]]
        assert found["swapped"] == [[[rank], [10.0 + rank]], [rank, 10.0 + rank]]
        assert rank == 0 or found["message"] == [[4.0]]
        kinds, texts = zip(*found["errors"], strict=True)
        assert set(kinds) == {"RuntimeError"}
        wanted = ("non-empty", "invalid tensor type", "invalid tensor size", "invalid root rank", "invalid root tensor",
                  "invalid output tensor list", "same length", "empty output on non-root",
                  "single-element output tensor list")  # fmt: skip
        assert all(part in text for part, text in zip(wanted, texts, strict=True)), texts
        assert found["after errors"] == [[2.0]]


def test_a_call_has_the_time_that_its_options_name():
    (first, seconds), (second, _) = run("late")
    assert first[0] == "DistBackendError" and "0.5 s" in first[1] and seconds >= 60
    assert second[0] == "nothing"


def test_groups_are_found_by_ranks_and_tag():
    for rank, found in enumerate(run("tagged")):
        assert found["ranks"] == [rank] and found["sum"] == [3.0]
        for what in ("same", "by ranks", "of another tag", "whole"):
            assert found[what] is True, what
        assert found["tags"] == ["row", "column"] and found["default"] == "ptd:"
        kinds, texts = zip(*found["errors"], strict=True)
        assert set(kinds) == {"ValueError"}
        wanted = ("divisible by group_size", f"rank {rank} among them", "PG with empty tag")
        assert all(part in text for part, text in zip(wanted, texts, strict=True)), texts


def test_names_of_the_package_are_those_of_its_modules():
    assert dist.GradBucket is c10d.GradBucket
    assert dist.BuiltinCommHookType is c10d.BuiltinCommHookType
    assert dist.all_gather_single is dist.all_gather_into_tensor
    assert dist.default_pg_timeout == dist.constants.default_pg_timeout


# ------------------------------------------------------------------ groups that programs derive


class Doubling(dist.ProcessGroup):
    """A group whose sums are twice this rank's tensor, and which keeps what it was told."""

    def __init__(self, rank: int, size: int) -> None:
        super().__init__(rank, size)
        self.heard: list[Any] = []

    def _done(self, name: str, tensors: Any, opts: Any) -> Any:
        self.heard.append((name, opts))
        future = Future()
        future.set_result(tensors)
        return c10d._create_work_from_future(future)

    def allreduce(self, tensors: Any, opts: Any = None) -> Any:
        for tensor in tensors:
            tensor.mul_(2)
        return self._done("allreduce", tensors, opts)

    def broadcast(self, tensors: Any, opts: Any = None) -> Any:
        return self._done("broadcast", tensors, opts)

    def allgather(self, lists: Any, tensors: Any, opts: Any = None) -> Any:
        for made, tensor in zip(lists, tensors, strict=True):
            for one in made:
                one.copy_(tensor)
        return self._done("allgather", lists, opts)

    def _allgather_base(self, output: Any, input: Any, opts: Any = None) -> Any:
        output.copy_(input.repeat(self.size()))
        return self._done("_allgather_base", [output], opts)

    def getBackendName(self) -> str:
        return "doubling"


def test_functions_call_the_methods_of_derived_groups():
    group, x = Doubling(1, 3), torch.ones(2)
    assert dist.all_reduce(x, dist.ReduceOp.MAX, group) is None and x.tolist() == [2, 2]
    name, opts = group.heard[-1]
    assert name == "allreduce" and opts.reduceOp == dist.ReduceOp.MAX and opts.asyncOp is False
    work = dist.broadcast(x, src=2, group=group, async_op=True)
    assert work.wait() and group.heard[-1][1].rootRank == 2 and group.heard[-1][1].asyncOp is True
    whole = torch.zeros(6)
    dist.all_gather_into_tensor(whole, x, group)
    assert whole.tolist() == [2.0] * 6 and group.heard[-1][0] == "_allgather_base"
    assert (group.name(), group.rank(), group.size()) == ("doubling", 1, 3)
    assert dist.get_rank(group) == 1 and dist.get_world_size(group) == 3
    with pytest.raises(RuntimeError, match="No backend type associated with device type cpu"):
        dist.reduce(x, 0, group=group)
    with pytest.raises(ValueError, match="not part of group"):
        dist.broadcast(x, src=3, group=group)


def test_gradients_are_exchanged_by_a_derived_group():
    group = Doubling(0, 1)
    model = torch.nn.Linear(2, 1)
    parallel = torch.nn.parallel.DistributedDataParallel(model, process_group=group)
    x = torch.tensor([[1.0, 3.0]])
    parallel(x).sum().backward()
    assert [p.grad.tolist() for p in model.parameters()] == [[[2.0, 6.0]], [2.0]]


def test_a_group_of_other_groups_hands_its_calls_on():
    group, inner, x = dist.ProcessGroup(0, 1), Doubling(0, 1), torch.ones(1)
    with pytest.raises(RuntimeError, match="No backend type"):
        group.allreduce([x])
    group._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.CUSTOM, inner)
    group.allreduce([x]).wait()
    dist.all_reduce(x, group=group)
    assert x.tolist() == [4.0] and group._get_backend(torch.device("cpu")) is inner


@pytest.fixture
def registered():
    name = "doubling_engine"
    if not dist.is_backend_available(name):
        dist.Backend.register_backend(name, lambda store, rank, size, timeout: Doubling(rank, size))
    yield name
    if dist.is_initialized():
        dist.destroy_process_group()


def test_a_registered_function_may_give_the_group(registered):
    dist.init_process_group(registered, store=dist.HashStore(), rank=0, world_size=1)
    x = torch.ones(1)
    dist.all_reduce(x)
    few = dist.new_group([0])
    dist.all_reduce(x, group=few)
    assert x.tolist() == [4.0] and isinstance(few, Doubling) and few is not dist.group.WORLD
    assert dist.get_backend() == registered and dist.get_pg_count() == 2
    assert few.group_name != dist.group.WORLD.group_name


def test_groups_of_one_purpose_have_names_of_their_own():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        one, other = (dist.new_group([0], group_desc="mesh_dp") for _ in range(2))
        assert (
            one.group_desc == other.group_desc == "mesh_dp" and one.group_name != other.group_name
        )
        assert dist.distributed_c10d._resolve_process_group(other.group_name) is other
    finally:
        dist.destroy_process_group()


def test_threads_may_have_groups_of_their_own():
    found: dict[int, Any] = {}
    c10d._set_thread_isolation_mode(True)
    try:

        def work(rank: int) -> None:
            dist.init_process_group("fake", store=dist.HashStore(), rank=rank, world_size=3)
            few = dist.new_group([rank])
            found[rank] = (dist.get_rank(), dist.get_world_size(few), dist.GroupMember.WORLD.rank())
            dist.destroy_process_group()

        threads = [threading.Thread(target=work, args=(rank,)) for rank in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not dist.is_initialized()
    finally:
        c10d._set_thread_isolation_mode(False)
    assert found == {rank: (rank, 1, rank) for rank in range(3)}


def test_buckets_of_sizes_and_kinds():
    sizes = [
        torch.empty(n, dtype=kind) for n, kind in ((50, torch.float32), (25, torch.float64)) * 3
    ]
    assert dist._compute_bucket_assignment_by_size(sizes, [400])[0] == [[0, 2], [1, 3], [4], [5]]
    few = [torch.empty(10) for _ in range(4)]
    assert dist._compute_bucket_assignment_by_size(few, [40, 80]) == (
        [[0], [1, 2], [3]],
        [40, 80, 80],
    )
    assert dist._compute_bucket_assignment_by_size(few, [1 << 20], [False, True, False, False])[
        0
    ] == [[0, 2, 3], [1]]


def test_pieces_that_are_cut_last_begin_where_they_lie():
    """A tensor of 8 rows on a mesh of 2 x 2, cut along the second dimension of the mesh first."""
    from facula.distributed.tensor._utils import piece_at
    from facula.distributed.tensor.placement_types import Shard, _StridedShard

    class Mesh:
        @staticmethod
        def size(dim: int) -> int:
            return 2

    cut = [_StridedShard(0, split_factor=2), Shard(0)]
    begins = {
        place: piece_at((8, 2), Mesh(), place, cut) for place in ((0, 0), (0, 1), (1, 0), (1, 1))
    }  # type: ignore[arg-type]
    halves = facula.arange(8).chunk(2)
    for (outer, inner), (shape, start) in begins.items():
        rows = halves[inner].chunk(2)[outer].tolist()
        assert shape == (2, 2) and start == (rows[0], 0)
