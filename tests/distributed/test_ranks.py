"""Several processes: collectives give what their names say, failures name the rank."""

from __future__ import annotations

import gc
import os
import pickle
import socket
import subprocess
import sys

import pytest
import ranks

import facula
from facula import distributed as dist
from facula import multiprocessing
from facula.distributed import distributed_c10d as c10d
from facula.distributed import wire


def test_the_port_of_a_program_is_kept_for_its_first_rank():
    with ranks.held_port() as port, socket.socket() as other:
        with pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", int(port)))
        with pytest.raises(ConnectionRefusedError):  # who comes early waits until somebody listens
            other.connect(("127.0.0.1", int(port)))
        with wire.listen("127.0.0.1", int(port)) as first:
            assert first.getsockname()[1] == int(port)


@pytest.mark.parametrize("size", [2, 3])
def test_collectives(size: int):
    results = ranks.run("collectives", size)
    every, total = list(range(size)), sum(range(size))
    for rank, got in enumerate(results):
        assert got["big"] == [total, 9999.0 * size + total]
        product = 1
        for r in every:
            product *= r + 1
        assert [got[k] for k in ("SUM", "AVG", "PRODUCT", "MIN", "MAX")] == [
            total + size, (total + size) / size, product, 1, size
        ]  # fmt: skip
        assert got["bor"] == (1 << size) - 1 and got["broadcast"] == [size - 1] * 5
        assert got["reduce"] == ([total] * 2 if rank == 1 else [rank] * 2)
        assert got["all_gather"] == [[r, r] for r in every]
        assert got["into"] == [r for r in every for _ in range(2)]
        assert got["reduce_scatter"] == [10 * total + size * rank] * 2
        assert got["reduce_scatter_tensor"] == [size * rank]
        assert got["all_to_all"] == [10 * r + rank for r in every]
        assert got["gather"] == (every if rank == 0 else []) and got["scatter"] == rank
        assert got["objects"] == [[{"rank": r} for r in every], [0, "x"]]
        member = rank in (0, size - 1)
        assert got["some"] == ([2, int(rank == size - 1)] if member else [1, -1])


def test_messages_go_by_tag_in_any_order():
    first, second = ranks.run("messages")
    assert first[:4] == [[6.0] * 3, [2.0] * 3, 1.0, 1]
    assert second == [[5.0] * 3, [1.0] * 3, 0.0, 0, [1.0, 1.0]]


def test_ranks_that_do_different_things_are_told():
    first, second = ranks.run("mismatch")
    assert "all_reduce" in first + second and ("broadcast" in first + second)


def test_a_rank_that_does_not_come_is_named():
    text = ranks.run("missing")[0]
    assert "rank 1 is missing" in text and "all_reduce of (4, 2)" in text and "sequence 2" in text
    assert "the last that it began is barrier" in text


def test_data_parallel_training_keeps_ranks_equal():
    first, second = ranks.run("training")
    assert first[:2] == second[:2] and "find_unused_parameters=True" in first[2]


def test_gradients_flow_through_collectives():
    first, second = ranks.run("gradients")
    assert first[:4] == [[3, 3], [2, 2], [6, 6], [1, 2]]
    assert second[:4] == [[3, 3], [4, 4], [0, 0], [1, 2]]
    gathered, to_one, part, from_one, total, of_total, swapped, of_swapped = first[4:]
    assert (gathered, to_one) == ([[0, 0], [0, 0]], [6, 6]) and (part, from_one) == (
        [10, 10],
        [0, 0],
    )
    assert (total, of_total) == ([3, 3], [5, 5])
    assert (swapped, of_swapped) == ([[0, 0], [10, 10]], [2, 3])
    gathered, to_one, part, from_one, total, of_total, swapped, of_swapped = second[4:]
    assert (gathered, to_one) == ([[1, 1], [2, 2]], [8, 8]) and (part, from_one) == (
        [11, 11],
        [1, 2],
    )
    assert (total, of_total) == ([2, 2], [5, 5])
    assert (swapped, of_swapped) == ([[1, 1], [11, 11]], [12, 13])


def test_zero_redundancy_equals_the_plain_optimizer():
    assert ranks.run("zero") == [[True, 1, -1], [True, 1, 2]]


def test_pipelines_compute_the_whole_models_gradients():
    assert ranks.run("pipelines") == [[True, 0, True] * 2, [True, 3, True] * 2]


def test_mesh():
    for rank, got in enumerate(ranks.run("mesh")):
        text = "DeviceMesh((b=2), 'cpu', stride=(1,))"
        assert got == [[0, rank], 1.0, 1, 4, text]


def test_a_world_of_one_needs_nobody(monkeypatch: pytest.MonkeyPatch):
    for name in ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match="RANK"):
        dist.init_process_group("gloo")
    dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    try:
        x = facula.ones(3)
        assert dist.all_reduce(x, async_op=True).wait() and x.tolist() == [1, 1, 1]
        gathered = [None]
        dist.all_gather_object(gathered, "me")
        assert gathered == ["me"] and dist.get_world_size() == 1
        with pytest.raises(ValueError, match="twice"):
            dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    finally:
        dist.destroy_process_group()
    assert not dist.is_initialized()
    with pytest.raises(ValueError, match="not been initialized"):
        dist.barrier()
    with pytest.raises(RuntimeError, match="not built in"):
        dist.init_process_group("ucc", rank=0, world_size=1, store=dist.HashStore())


PROGRAM = """
import facula, sys
from facula import distributed as dist
dist.init_process_group()
x = facula.ones(1) * (dist.get_rank() + 1)
dist.all_reduce(x)
sys.stdout.write(f"sum {int(x)}\\n")  # one write: unbuffered pieces of two ranks mix
sys.exit(3 if "fail" in sys.argv and dist.get_rank() == 1 else 0)
"""


def test_launcher_starts_ranks_and_passes_on_failure(tmp_path):  # type: ignore[no-untyped-def]
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    launcher = [
        sys.executable,
        "-m",
        "facula.distributed.run",
        "--standalone",
        "--nproc-per-node=2",
    ]
    for extra, status in (([], 0), (["fail"], 3)):
        done = subprocess.run(
            [*launcher, str(program), *extra],
            capture_output=True,
            text=True,
            timeout=ranks.DEADLINE,
        )
        assert done.returncode == status, done.stderr
        assert "sum 3" in done.stdout


def work(index: int, folder: str) -> None:
    """What a spawned process does."""
    if folder == "fail" and index == 1:
        raise ValueError("no luck")
    if folder != "fail":
        with open(os.path.join(folder, str(index)), "w") as file:
            file.write("done")


@pytest.fixture
def temporary(tmp_path, monkeypatch):  # type: ignore[no-untyped-def]
    """The folder for temporary files: empty, and the test's own."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", None)
    return folder


@pytest.mark.parametrize("given", ["fine", "fail"])
def test_spawn_leaves_no_folder(temporary, tmp_path, given):  # type: ignore[no-untyped-def]
    argument = str(tmp_path) if given == "fine" else given
    context = multiprocessing.start_processes(work, (argument,), nprocs=2, join=False)
    assert context is not None and len(list(temporary.glob("facula-spawn-*"))) == 1
    try:
        while not context.join():
            pass
    except multiprocessing.ProcessRaisedException as error:
        assert "ValueError: no luck" in str(error) and given == "fail"
    assert not list(temporary.glob("facula-spawn-*"))


def test_a_context_that_nobody_joins_leaves_no_folder(temporary, tmp_path):  # type: ignore[no-untyped-def]
    context = multiprocessing.start_processes(work, (str(tmp_path),), nprocs=1, join=False)
    context.processes[0].join()
    del context
    gc.collect()
    assert not list(temporary.glob("facula-spawn-*"))


def test_processes_that_can_not_start_leave_no_folder(temporary):  # type: ignore[no-untyped-def]
    with pytest.raises((AttributeError, TypeError, pickle.PicklingError)):
        multiprocessing.spawn(lambda index: None, nprocs=2)
    assert not list(temporary.glob("facula-spawn-*"))


def test_spawn(tmp_path):  # type: ignore[no-untyped-def]
    multiprocessing.spawn(work, (str(tmp_path),), nprocs=2)
    assert sorted(os.listdir(tmp_path)) == ["0", "1"]
    with pytest.raises(multiprocessing.ProcessRaisedException, match="no luck"):
        multiprocessing.spawn(work, ("fail",), nprocs=2)


def test_names_of_the_module_that_libraries_import():
    """`torch.distributed.distributed_c10d` was missing."""
    assert c10d.all_reduce is dist.all_reduce and c10d.ReduceOp is dist.ReduceOp
    assert not hasattr(c10d, "of_no_name")
    with pytest.raises(ValueError, match="has not been initialized"):
        c10d._get_default_group()
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        whole = c10d._get_default_group()
        assert whole is dist.group.WORLD and c10d._resolve_process_group(whole.group_name) is whole
        assert c10d._get_group_size(None) == c10d._get_group_size_by_name(whole.group_name) == 1
        c10d._get_default_store().set("key", "value")
        assert c10d._get_default_store().get("key") == b"value"
        assert c10d._rank_not_in_group(dist.GroupMember.NON_GROUP_MEMBER)
        assert not c10d._rank_not_in_group(None) and not c10d._rank_not_in_group(whole)
        with pytest.raises(RuntimeError, match="Could not resolve"):
            c10d._resolve_process_group("another")
    finally:
        dist.destroy_process_group()
    data, size = c10d._object_to_tensor({"step": [1, 2]}, facula.device("cpu"), None)
    assert data.dtype == facula.uint8 and int(size) == data.numel()
    padded = facula.cat([data, facula.zeros(9, dtype=facula.uint8)])
    assert c10d._tensor_to_object(padded, size, None) == {"step": [1, 2]}
