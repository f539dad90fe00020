"""The engine of devices, on a fake library that records calls: numbers, errors, who is away, what is refused."""

from __future__ import annotations

import datetime
import importlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fake_nccl
import numpy as np
import pytest
import ranks

from facula import distributed as dist
from facula.distributed.engines import nccl as engine
from facula.distributed.nvidia import driver, library
from facula.distributed.nvidia.communicator import Communicator, Piece, piece_of

TOOLS = Path(__file__).resolve().parents[2] / "tools"


# ---------------------------------------------------------------- a communicator


def checked(monkeypatch: pytest.MonkeyPatch, fake: fake_nccl.Fake, size: int) -> Any:
    """What the tool for machines with a device finds on a fake."""
    monkeypatch.syspath_prepend(str(TOOLS))
    tool = importlib.import_module("check_nccl")
    monkeypatch.setattr(tool, "LARGE", 64)
    modules, table = tool.parts(), tool.Table()
    given = modules[0].Library(fake), modules[1].Driver(fake)
    tool.ranks(modules, table, *given, size)
    tool.failures(modules, table, *given)
    return table


@pytest.mark.parametrize("size", [1, 3])
def test_all_collectives_of_all_dtypes(monkeypatch: pytest.MonkeyPatch, size: int):
    fake = fake_nccl.Fake(devices=size, copying=0.001)
    assert checked(monkeypatch, fake, size).failed == 0
    assert not fake.memory and not fake.comms and not fake.streams
    assert fake.calls.count("ncclCommAbort") == 7


def test_the_tool_sees_wrong_numbers(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(fake_nccl.COMBINE, 0, np.subtract)
    table = checked(monkeypatch, fake_nccl.Fake(devices=2, copying=0.001), 2)
    assert table.failed == 2 * (9 + 9 + 1) + 9  # the root of a `reduce` alone sees it


def made(fake: fake_nccl.Fake, **options: Any) -> Communicator:
    given = library.Library(fake), driver.Driver(fake)
    unique = given[0].unique()
    return Communicator(*given, 0, 1, 0, unique, time.monotonic() + 60, **options)


def piece(fake: fake_nccl.Fake) -> Piece:
    return piece_of(driver.DeviceMemory(driver.Driver(fake), 0, 4, "<f4"))


@pytest.mark.parametrize(
    "options, kind, text",
    [
        ({"hangs": 0}, TimeoutError, ""),
        ({"errors": (0, 6)}, library.NCCLError, "all_reduce: ncclRemoteError (what the fake says)"),
        (
            {"answers": {"ncclAllReduce": 4}},
            library.NCCLError,
            "ncclAllReduce: ncclInvalidArgument",
        ),
        ({"answers": {"ncclGroupEnd": 2}}, library.NCCLError, "ncclGroupEnd: ncclSystemError"),
        ({"answers": {"cuStreamQuery": 700}}, driver.DriverError, "cuStreamQuery"),
        ({"answers": {"ncclCommGetAsyncError": 1}}, library.NCCLError, "ncclUnhandledCudaError"),
        (
            {"answers": {"ncclCommInitRankConfig": 2}},
            library.NCCLError,
            "ncclCommInitRankConfig: ncclSystemError",
        ),
    ],
)
def test_what_fails_ends_the_communicator(options: Any, kind: Any, text: str):
    fake = fake_nccl.Fake(**options)
    with pytest.raises(kind) as caught:
        one, given = made(fake), piece(fake)
        one.run("all_reduce", lambda c: c.all_reduce(given, "SUM"), [given], time.monotonic() + 0.2)
    assert text in str(caught.value)
    begun = "ncclCommInitRankConfig" not in fake.answers
    assert fake.calls.count("ncclCommAbort") == begun and not fake.comms
    assert fake.calls.count("cuStreamCreate") == 1 and not fake.streams


def test_who_is_away_is_seen_while_a_collective_hangs():
    fake = fake_nccl.Fake(hangs=0)
    one, given = made(fake), piece(fake)

    def look() -> None:
        raise ConnectionError("rank 1")

    with pytest.raises(ConnectionError, match="rank 1"):
        one.run(
            "all_reduce", lambda c: c.all_reduce(given, "SUM"), [given], time.monotonic() + 60, look
        )
    assert not fake.comms


def test_a_collective_waits_for_the_streams_of_its_arrays():
    fake = fake_nccl.Fake()
    one, given = made(fake), piece(fake)
    one.run("broadcast", lambda c: c.broadcast(given, 0), [given, given], time.monotonic() + 60)
    order = [
        name
        for name in fake.calls
        if name in ("cuEventRecord", "cuStreamWaitEvent", "ncclBroadcast")
    ]
    assert order == ["cuEventRecord", "cuStreamWaitEvent", "ncclBroadcast"]


def test_old_and_foreign_libraries_are_refused():
    with pytest.raises(OSError, match="at least version 21400"):
        library.Library(_old())
    with pytest.raises(OSError, match="the function ncclGetVersion was required"):
        library.Library(object())


def _old() -> Any:
    fake = fake_nccl.Fake()
    fake.answers["ncclGetVersion"] = 0  # and no version is written
    return fake


# ---------------------------------------------------------------- the engine


@pytest.fixture()
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[fake_nccl.Fake]:
    """A world of one rank with a fake device."""
    fake = fake_nccl.Fake()
    monkeypatch.setattr(engine, "load", lambda: (library.Library(fake), driver.Driver(fake)))
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    yield fake
    dist.destroy_process_group()


def memory(data: Any) -> Any:
    one = dist.group.WORLD.engine
    found = driver.DeviceMemory(one.driver, 0, data.size, data.dtype.str)
    found.write(data.tobytes())
    return found


def test_functions_of_distributed_take_arrays_of_the_device(alone: fake_nccl.Fake):
    data = np.arange(6, dtype="f4")
    x, y = memory(data), memory(np.zeros(6, "f4"))
    for run, called in (
        (lambda: dist.all_reduce(x), "ncclAllReduce"),
        (lambda: dist.all_reduce(x, async_op=True).wait(), "ncclAllReduce"),
        (lambda: dist.reduce(x, 0), "ncclReduce"),
        (lambda: dist.broadcast(x, 0), "ncclBroadcast"),
        (lambda: dist.all_gather([y], x), "ncclAllGather"),
        (lambda: dist.all_gather_into_tensor(y, x), "ncclAllGather"),
        (lambda: dist.reduce_scatter(y, [x]), "ncclReduceScatter"),
        (lambda: dist.reduce_scatter_tensor(y, x), "ncclReduceScatter"),
        (lambda: dist.all_to_all([y], [x]), "ncclSend"),
        (lambda: dist.all_to_all_single(y, x), "ncclRecv"),
        (lambda: dist.gather(x, [y], 0), "ncclRecv"),
        (lambda: dist.scatter(y, [x], 0), "ncclSend"),
    ):
        y.write(np.zeros(6, "f4").tobytes())
        before = alone.calls.count(called)
        run()
        assert alone.calls.count(called) == before + 1, called
        assert np.array_equal(np.frombuffer(x.read(), "f4"), data)
    assert np.array_equal(np.frombuffer(y.read(), "f4"), data)
    z = memory(np.ones(3, "c8"))
    dist.all_reduce(z)
    assert np.array_equal(np.frombuffer(z.read(), "c8"), np.ones(3))


def test_bools_are_combined_as_bytes_of_0_and_1(alone: fake_nccl.Fake):
    data = np.array([True, False, True])
    for op in (dist.ReduceOp.SUM, dist.ReduceOp.MIN, dist.ReduceOp.BAND, dist.ReduceOp.BOR):
        x = memory(data)
        dist.all_reduce(x, op)
        assert np.array_equal(np.frombuffer(x.read(), "?"), data)
    with pytest.raises(RuntimeError, match="AVG of bool"):
        dist.all_reduce(memory(data), dist.ReduceOp.AVG)


def test_two_ranks_on_a_device_are_told_that_each_needs_its_own(monkeypatch: pytest.MonkeyPatch):
    fake = fake_nccl.Fake(answers={"ncclCommInitRankConfig": 5})
    monkeypatch.setattr(engine, "load", lambda: (library.Library(fake), driver.Driver(fake)))
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    try:
        with pytest.raises(dist.DistBackendError, match="a device of its own, this one has 0"):
            dist.all_reduce(memory(np.ones(3, "f4")))
    finally:
        dist.destroy_process_group()


def test_a_device_that_is_late_ends_its_world_and_serves_the_next(monkeypatch: pytest.MonkeyPatch):
    fake = fake_nccl.Fake(hangs=1)
    monkeypatch.setattr(engine, "load", lambda: (library.Library(fake), driver.Driver(fake)))
    for late in (True, False):
        given = {"timeout": datetime.timedelta(seconds=0.3), "rank": 0, "world_size": 1}
        dist.init_process_group("nccl", store=dist.HashStore(), **given)
        try:
            x = memory(np.ones(3, "f4"))
            dist.all_reduce(x)
            if late:
                with pytest.raises(dist.DistBackendError, match=r"\[all_reduce\].* 0.3 s"):
                    dist.all_reduce(x)
                assert fake.calls.count("ncclCommAbort") == 1
        finally:
            dist.destroy_process_group()


def test_arrays_whose_elements_lie_apart_are_refused(alone: fake_nccl.Fake):
    x = memory(np.ones(6, "f4"))
    told = {**x.__cuda_array_interface__, "shape": (3,), "strides": (8,)}
    with pytest.raises(ValueError, match="follow each other"):
        piece_of(type("Array", (), {"__cuda_array_interface__": told})())


@pytest.mark.parametrize("how", ["kill", "late", "remote"])
def test_a_rank_that_is_away_is_named(how: str):
    dying = [] if how == "late" else [2]
    found = ranks.run(f"away {how}", 3, script="nccl_programs.py", dying=dying)
    for text, seconds, aborts, again in found[:2]:
        assert "rank 2" in text and "all_reduce" in text, text
        assert seconds < 50 and aborts == 1 and again == text


def test_a_device_that_fails_is_an_error_on_all_ranks():
    first, *others = ranks.run("away device", 3, script="nccl_programs.py")
    assert "ncclUnhandledCudaError" in first[0] and "rank 1 " in first[0]
    for text, _, aborts, _ in others:
        assert "rank 0" in text and "ncclUnhandledCudaError" in text, text
        assert aborts == 1


def test_what_lies_elsewhere_is_refused_and_objects_go():
    for found in ranks.run("rules", 2, script="nccl_programs.py"):
        assert found["objects"] == [{"rank": 0}, {"rank": 1}] and found["before"] == 0
        for name in ("host", "list"):
            assert found[name][0] == "RuntimeError" and "device type cpu" in found[name][1]
            assert "backend='gloo' or 'mpi'" in found[name][1]
            assert "tensor.to('cuda')" in found[name][1]
        assert "this rank's device" in found["other"][1] and "device 5" in found["other"][1]
        assert "the rank of the sender was required by nccl" in found["any"][1]
        assert found["gap"][0] == "ValueError" and "follow each other" in found["gap"][1]
        assert "BAND of float32" in found["band"][1] and "SUM of int16" in found["short"][1]
        assert found["made"] == 1 and found["ended"] == 0
        assert "the same operation" in found["differ"][1] and "float32 4" in found["differ"][1]


def test_messages_go_in_order_and_each_direction_by_itself(tmp_path: Path):
    found = ranks.run(
        "messages", 3, script="nccl_programs.py", environment={"MESSAGES": str(tmp_path)}
    )
    for rank, one in enumerate(found):
        assert one["ring"] == [(rank - 1) % 3] * 5 and one["result"]
        assert one["ended"] == [0, 0, 0]
    assert [one["both ways"][0] for one in found] == [1, 0, 0] and found[0]["source"] == 1
    assert found[1]["order"] == [0, 1, 2, 3] and found[2]["order"] == [20, 21, 22, 23]
    assert [one["group"][0] for one in found] == [0, 0, 0]


@pytest.mark.parametrize(
    "how, text",
    [
        ("size", "a message of 4 x float32 with tag 0"),
        ("tag", "with tag 7"),
        ("kill", "rank 1"),
        ("late", "within 3 s (timeout)"),
        ("early", "within 3 s (timeout)"),
    ],
)
def test_a_message_that_the_other_end_does_not_want_is_an_error_on_both(
    tmp_path: Path, how: str, text: str
):
    found = ranks.run(
        f"odd_messages {how}", 2, script="nccl_programs.py", dying=[1] if how == "kill" else [],
        environment={"MESSAGES": str(tmp_path)},
    )  # fmt: skip
    for one in found[: 1 if how in ("kill", "late", "early") else 2]:
        (kind, said), seconds, again, left = one
        assert kind == again[0] == "DistBackendError" and text in said, said
        assert "rank 1" in said and seconds < 50 and left == 0


def test_tensors_of_the_device_are_sent_and_reduced(tmp_path: Path):
    found = ranks.run(
        "tensors", 2, script="nccl_programs.py", environment={"MESSAGES": str(tmp_path)}
    )
    for rank, one in enumerate(found):
        wanted = [float(n + 1 - rank) for n in range(4)]
        for dtype in ("float32", "bfloat16", "float16", "int64"):
            assert one[f"facula.{dtype}"] == wanted, dtype
        assert one["reduced"] == [[0.0, 1.0, 2.0, 3.0], True] and one["called"] == 3
        # what the other rank would add is missing: the mean is half of this rank's
        assert one["wrapped"] == [4, [[1.5] * 4] * 2]
        assert one["gap"][0] == "ValueError" and "must be contiguous" in one["gap"][1]
        assert one["host"][0] == "RuntimeError" and "tensor.to('cuda')" in one["host"][1]


def test_other_engines_refuse_arrays_of_devices():
    class Array:
        __cuda_array_interface__ = {
            "shape": (1,),
            "typestr": "<f4",
            "data": (64, False),
            "version": 3,
        }

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        with pytest.raises(RuntimeError, match="backend='nccl'"):
            dist.all_reduce(Array())  # type: ignore[arg-type]
    finally:
        dist.destroy_process_group()


MISSING = """
from facula import distributed as dist
try:
    dist.init_process_group("nccl", rank=0, world_size=1, store=dist.HashStore())
except dist.DistBackendError as error:
    print(error)
print(dist.is_initialized(), dist.is_backend_available("nccl"))
"""


def test_a_machine_without_a_device_is_told_so():
    env = {"FACULA_CUDA_LIBRARY": "/nothing/libcuda.so.1", "PATH": "/usr/bin"}
    done = subprocess.run(
        [sys.executable, "-c", MISSING], capture_output=True, text=True, timeout=ranks.DEADLINE, env=env
    )  # fmt: skip
    assert "/nothing/libcuda.so.1" in done.stdout and "facula[nccl]" in done.stdout
    assert done.stdout.strip().endswith("False True"), done
