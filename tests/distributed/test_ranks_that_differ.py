"""One rank gives something else than the others, or goes: every rank is told, none waits."""

from __future__ import annotations

import datetime
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import ranks

import facula
from facula import distributed as dist
from facula import nn
from facula.distributed import tensor, wire
from facula.distributed.engine import Rendezvous
from facula.distributed.engines import sockets
from facula.distributed.fsdp import fully_shard
from facula.distributed.tcp_store import TCPStore

ENGINES: dict[str, dict[str, str]] = {
    "gloo": {}, "gloo by messages": {"FACULA_SHARED_COLLECTIVES": "0"},
    "mpi": {"TEST_ENGINE": "mpi"},
    "mpi by its library": {"TEST_ENGINE": "mpi", "FACULA_SHARED_COLLECTIVES": "0"},
}  # fmt: skip


def run(engine: str, program: str, size: int = 3, **options: Any) -> list[Any]:
    start = ranks.run_under_mpi if "mpi" in engine else ranks.run
    environment = ENGINES[engine]
    return start(program, size, script="differing_programs.py", environment=environment, **options)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("how", ["collective", "collective_later", "message"])
def test_a_rank_that_leaves_in_good_order_is_not_waited_for(how: str, engine: str):
    """Under MPI the others waited for as long as a collective may take: half an hour by default."""
    first, left, third = run(engine, f"leaver {how}")
    assert left[0] == "ValueError" and "a list of 3 tensors" in left[1]
    for kind, text, took in (first, third):
        assert kind == "DistBackendError" and took < ranks.DEADLINE / 2
        assert (
            "rank 1" in text or "rank 0 left" in text or "rank 2 left" in text
        )  # who was told first


def test_a_rank_that_ends_while_it_is_called_is_missed():
    """The system takes a connection for a process that is about to end; that was no sign, and nobody was told."""
    store = dist.HashStore()
    with ThreadPoolExecutor(2) as pool:
        make = lambda rank: sockets.SocketEngine(Rendezvous(store, rank, 2, 60.0))  # noqa: E731
        first, second = pool.map(make, (0, 1))
    dying = wire.listen("127.0.0.1", 0)
    first.addresses[1] = dying.getsockname()
    try:

        def end() -> None:
            connection, _ = dying.accept()
            wire.close(dying)
            connection.close()

        threading.Thread(target=end, daemon=True).start()
        ticket = first.expect(1, (0, 1, 0), lambda *message: None)
        assert ticket.done.wait(ranks.DEADLINE)
        assert "rank 1 takes no connections: it exited or died" in str(ticket.error)
    finally:
        first.close()
        second.close()


@pytest.mark.parametrize("engine", ["gloo", "mpi by its library"])
def test_groups_of_different_ranks_are_told_apart(engine: str):
    """The smaller one's rank was given the sum of three."""
    for kind, text in run(engine, "groups"):
        assert kind == "DistBackendError"
        assert "ranks [0, 1]" in text or "rank 0 left" in text


@pytest.mark.parametrize("engine", ["gloo", "mpi"])
def test_a_group_without_this_rank_is_not_taken_for_another_one(engine: str):
    """It was taken for the group of all ranks, with which the others computed nothing then."""
    (ranks_of_group, _), (found, x) = run(engine, "outside", 2)
    assert ranks_of_group == [0] and x == [1.0, 1.0] and len(found) == 9
    for name, (kind, text) in found.items():
        assert kind == "ValueError" and "group" in text, (name, kind, text)


@pytest.mark.parametrize("engine", ["gloo", "mpi by its library"])
def test_a_piece_of_another_size_is_told_on_every_rank(engine: str):
    """It was told to the rank that got it; the others went on in a group that had failed."""
    for rank, found in enumerate(run(engine, "pieces")):
        assert len(found) == 3
        for name, (kind, text) in found.items():
            assert kind == "DistBackendError", (rank, name)
            assert "with 4 elements" in text and "from rank 1, where 3 elements" in text
            assert rank == 0 or "for rank 0" in text


@pytest.mark.parametrize("how", ["each", "flat"])
def test_sharded_parameters_that_differ_are_told(how: str):
    """Rows of 4 and of 5 are both cut into pieces of 2: wrong numbers went through."""
    for rank, (kind, text) in enumerate(run("gloo", f"sharded {how}")):
        assert kind == "DistBackendError" and "all_gather_into_tensor" in text, rank
        if how == "each":
            assert "weight (4, 4)" in text and "weight (5, 4)" in text


@pytest.mark.parametrize("engine", ["gloo", "mpi"])
def test_stages_that_do_not_fit_are_told(engine: str):
    first, odd, last = run(engine, "pipeline")
    assert odd[0] == "RuntimeError" and "2x4 and 5x4" in odd[1]
    for kind, text in (first, last):
        assert kind == "DistBackendError" and "rank 1" in text


@pytest.mark.parametrize("how", ["rows", "columns"])
@pytest.mark.parametrize("engine", ["gloo", "mpi"])
def test_modules_that_differ_are_told_when_they_are_cut(how: str, engine: str):
    """All ranks are told of both whole shapes, and whose the other is; nothing is computed."""
    odd = "(9, 4)" if how == "rows" else "(6, 5)"
    for rank, (kind, text, made) in enumerate(run(engine, f"parallel {how}")):
        assert kind == "DistBackendError" and not made
        assert "of a DTensor (6, 4) " in text and f"of a DTensor {odd} " in text
        assert f"from rank {0 if rank == 1 else 1}, where" in text


@pytest.mark.parametrize("engine", ENGINES)
def test_tensors_that_lie_otherwise_are_told(engine: str):
    """Rows were put where columns were expected: the numbers were wrong, and nobody was told."""
    for rank, found in enumerate(run(engine, "placed")):
        assert len(found) == 6
        for name, (kind, text) in found.items():
            assert kind == "DistBackendError", (rank, name, kind, text)
            assert text.count("of a DTensor (") == 2 and " on a mesh (" in text, (rank, name, text)


def test_a_rank_that_is_in_no_mesh_has_no_elements():
    """It was given memory that nobody had written to."""
    first, second = run("gloo", "beside", 2)
    assert first == [[[1.0] * 3] * 4, [[2.0] * 3] * 4, [4.0] * 3, 12.0]
    assert second == [[], [], [], 0.0]


def test_processes_of_mpi_do_not_wait_for_one_that_lacks_the_extra():
    """They waited for ever where MPI goes on without those that failed (ULFM), no thread of theirs ran."""
    for rank, (kind, text, took) in enumerate(run("mpi", "lacking", dying=[1])):
        assert kind == "DistBackendError" and "pip install facula[mpi]" in text and took < 60
        assert rank == 1 or "all processes that MPI started were required within 10 s" in text


@pytest.mark.parametrize("engine", ["gloo", "mpi"])
def test_the_process_that_keeps_the_store_dies(engine: str):
    for found in run(engine, "store", dying=[0])[1:]:
        (kind, text), (later, why) = found
        assert kind == "DistStoreError" and "the process of rank 0 keeps the store" in text
        assert later == "DistBackendError" and "rank 0 exited or died" in why


@pytest.mark.parametrize("engine", ["gloo", "mpi"])
def test_a_rank_that_may_write_no_more_is_named_and_the_checkpoint_before_is_whole(
    engine: str, tmp_path: Path
):
    for kind, text, step, whole in run(engine, f"full_disk {tmp_path / 'saved'}"):
        assert kind == "CheckpointException" and "rank 1: OSError: [Errno 27]" in text
        assert "failures on 1 of 3" in text and step == 1 and whole


def test_lists_of_objects():
    for rank, found in enumerate(run("gloo", "objects")):
        assert found["longer"] == [0, 1, 2, None]
        assert found["short"][0] == "ValueError" and "3 objects" in found["short"][1]
        assert found["place"][0] == "ValueError"
        assert rank or "3 objects" in found["scatter"][1]
        assert found["lengths"][0] == "DistBackendError" and "same size" in found["lengths"][1]


def test_a_barrier_that_tells_who_is_late_keeps_its_time_when_nobody_has_met_before():
    """Its ranks met first, for which the group's time counted."""
    first, _, third = run("gloo", "late")
    assert first[0] == third[0] == "DistBackendError"
    assert "within 0.5 s" in first[1] and "ranks 1 failed to come" in first[1]


def test_what_can_not_be_combined_is_said_before_anything_is_sent():
    for found in run("gloo", "numbers", 2):
        for name in ("complex MAX", "complex BOR"):
            assert found[name][0] == "ValueError" and "on complex tensors" in found[name][1]
        assert "with non-integral dtype" in found["bits"][1]
        assert "Cannot use ReduceOp.PREMUL_SUM with Gloo" in found["scaled"][1]
        assert found["truth"] == [True, False, True]


def test_a_store_that_ended_is_said_to_have_ended_each_time():
    """The second question was told of a `Bad file descriptor`."""
    listening = wire.listen("127.0.0.1", 0)
    listening.close()
    served = TCPStore("127.0.0.1", 0, 1, True, wait_for_workers=False)
    client = TCPStore("127.0.0.1", served.port, 1, False, wait_for_workers=False)
    served.close()
    for ask in (lambda: client.get("key"), lambda: client.set("key", "value")):
        with pytest.raises(dist.DistStoreError, match=r"connection closed(?!.*descriptor)"):
            ask()
    client.close()


@pytest.fixture
def alone():  # type: ignore[no-untyped-def]
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield dist.init_device_mesh("cpu", (1,))
    dist.destroy_process_group()


def test_distributed_tensors_of_dimensions_that_are_not_there(alone: Any):
    cut = [tensor.Shard(5)]
    for make in (tensor.distribute_tensor, tensor.DTensor.from_local):
        with pytest.raises(RuntimeError, match="Sharding dim 5 greater than tensor ndim 2"):
            make(facula.ones(2, 3), alone, cut)
    with pytest.raises(TypeError, match="a tensor and a mesh were required: got list"):
        tensor.distribute_tensor([1.0], alone, [tensor.Shard(0)])
    with pytest.raises(RuntimeError, match="No device mesh is currently active"):
        tensor.distribute_tensor(facula.ones(2), None, [tensor.Shard(0)])


def test_grids_modules_and_groups_that_can_not_be(alone: Any):
    """A grid of a device that nobody knows was made, and a group that may take no time, or less."""
    for device in ("banana", "nothing"):
        with pytest.raises(
            RuntimeError, match=f"\\[device\\] one of .* was required: got '{device}'"
        ):
            dist.init_device_mesh(device, (1,))
    for shape in ((0,), (-1,), (1, 0)):
        with pytest.raises(RuntimeError, match="at least one rank along each dimension"):
            dist.init_device_mesh("cpu", shape)
    with pytest.raises(TypeError, match="a datetime.timedelta was required .*: got int"):
        dist.new_group(timeout=5)
    with pytest.raises(RuntimeError, match="a timeout of 0 or more was required"):
        dist.new_group(timeout=datetime.timedelta(seconds=-1))
    for given in ("ab", [0.0]):
        with pytest.raises(TypeError, match="ranks were required"):
            dist.new_group(given)
    for given in ({"device_ids": [0]}, {"output_device": 0, "device_ids": [0]}):
        with pytest.raises(ValueError, match="no device_ids and no output_device were required"):
            nn.parallel.DistributedDataParallel(nn.Linear(1, 1), **given)
    with pytest.raises(ValueError, match="a mesh of one or two dimensions was required"):
        fully_shard(nn.Linear(1, 1), mesh=[0])


@pytest.mark.parametrize("device", ["cuda:7", "cpu", 0])
def test_a_device_that_is_not_there(device: Any):
    with pytest.raises(ValueError, match="does not match the current compilation's accelerator"):
        dist.init_process_group(
            "gloo", store=dist.HashStore(), rank=0, world_size=1, device_id=device
        )
    assert not dist.is_initialized()
