"""Ranks that fail, and strangers that send garbage: samples of the campaigns in `tools`."""

from __future__ import annotations

import importlib
import os
import socket
import subprocess
import sys
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from facula import distributed as dist
from facula.distributed import checkpoint, wire
from facula.distributed.checkpoint.ranks import Ranks
from facula.distributed.engine import Rendezvous
from facula.distributed.engines import sockets
from facula.distributed.mailbox import Mailbox, Ticket

TOOLS = Path(__file__).resolve().parents[2] / "tools"


def tool(name: str, *options: object) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, str(TOOLS / name), *map(str, options)]
    return subprocess.run(line, capture_output=True, text=True, timeout=500)


@pytest.mark.slow
@pytest.mark.parametrize("faults", ["kill,other", "stop,slow", "cut"])
def test_survivors_name_the_rank_that_failed(faults: str):
    done = tool("fail_ranks.py", "--times=1", "--beside=2", f"--faults={faults}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1/1 well" in done.stdout or "no rank is cut off" in done.stdout


@pytest.mark.slow
def test_garbage_leaves_nothing_behind():
    """Raw bytes, changed proofs, and changed messages behind good proofs; honest peers are served."""
    done = tool("fuzz_ports.py", "--messages=1500")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("1500 messages") == 3


def test_the_campaign_sees_faults(monkeypatch: pytest.MonkeyPatch):
    """What survivors say is judged: another rank's name, no error, a wrong number, too late, nothing."""
    monkeypatch.syspath_prepend(str(TOOLS))
    fail_ranks = importlib.import_module("fail_ranks")
    trial = fail_ranks.Trial(fail_ranks.Case("all_reduce", "kill", "gloo", 0), 1, None)
    trial.victim = 2
    good = {"error": "rank 2 is missing", "time": 11.0, "began": 9.0, "starved": 0.0}
    assert trial._judged(0, good, 10.0) == ""
    for change, text in (
        ({"error": "rank 1 is missing"}, "does not name"), ({"error": "rank 21"}, "does not name"),
        ({"error": None}, "without an error"), ({"wrong": "3"}, "WRONG NUMBER"), ({"time": 17.5}, "LATE"),
    ):  # fmt: skip
        assert text in trial._judged(0, good | change, 10.0)
    trial.pids[0] = os.getpid()
    assert "HANG" in trial._judged(0, None, 10.0)
    gone = subprocess.Popen(["true"])
    gone.wait()
    trial.pids[0] = gone.pid
    assert "ENDED" in trial._judged(0, None, 10.0)


# ---------------------------------------------------------------- faults that the campaign found


def test_a_checkpoint_that_was_published_stays_where_a_rank_did_not_hear_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Ranks whose last exchange failed took their files back, though another had published them."""
    whole = Ranks.concluded

    def concluded(self, what, run, decide):  # type: ignore[no-untyped-def]
        whole(self, what, run, decide)  # the table of contents stands
        raise dist.DistBackendError("rank 1 is away")

    monkeypatch.setattr(Ranks, "concluded", concluded)
    with pytest.raises(dist.DistBackendError):
        checkpoint.save({"step": 3}, checkpoint_id=str(tmp_path))
    monkeypatch.setattr(Ranks, "concluded", whole)
    state = {"step": 0}
    checkpoint.load(state, checkpoint_id=str(tmp_path))
    assert state == {"step": 3}


def test_old_files_that_can_not_be_removed_are_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    checkpoint.save({"step": 1}, checkpoint_id=str(tmp_path))

    def refused(self: Path, missing_ok: bool = False) -> None:
        raise PermissionError(str(self))

    monkeypatch.setattr(Path, "unlink", refused)
    checkpoint.save({"step": 2}, checkpoint_id=str(tmp_path))
    monkeypatch.undo()
    state = {"step": 0}
    checkpoint.load(state, checkpoint_id=str(tmp_path))
    assert state == {"step": 2}


def test_ranks_that_never_came_are_named():
    """The error of the store named a key."""
    store = dist.HashStore()
    store.set_timeout(timedelta(seconds=0.2))
    with pytest.raises(
        dist.DistStoreError, match="all 3 ranks were required.*no sign of rank 0, 2"
    ):
        dist.init_process_group(
            "gloo", store=store, rank=1, world_size=3, timeout=timedelta(seconds=0.2)
        )
    assert not dist.is_initialized()


def test_why_a_rank_went_is_told_with_what_it_said():
    box = Mailbox()
    box.note(1, "[recv] a message was required: got rank 2 died")
    ticket = Ticket(1, lambda *message: None, (0, 1, 0))
    box.expect(ticket)
    box.leave(1, "rank 1 exited")
    assert "rank 1 exited; before, it said: [recv]" in str(ticket.error) and "rank 2" in str(
        ticket.error
    )


def test_messages_of_another_operation_are_seen():
    """Ranks that took different roots finished, with different numbers."""
    box = Mailbox()
    box.put((4, 7, 0), 1, "broadcast float32 1", bytearray(4))
    assert box.stray(4, 6) is None and box.stray(5, 9) is None
    assert box.stray(4, 7) == (1, "broadcast float32 1")


def two_ranks() -> list[sockets.SocketEngine]:
    """Engines of two ranks, both in this process."""
    store = dist.HashStore()
    with ThreadPoolExecutor(2) as pool:
        make = lambda rank: sockets.SocketEngine(Rendezvous(store, rank, 2, 60.0))  # noqa: E731
        return list(pool.map(make, (0, 1)))


def test_a_send_to_a_rank_that_takes_nothing_ends_in_time(monkeypatch: pytest.MonkeyPatch):
    """It waited for the time that the engine was given, not for that of the collective; and after a part of a
    message nothing may follow on its connection."""
    first, second = two_ranks()
    held = threading.Event()
    monkeypatch.setattr(second, "_read_one", lambda connection, rank: held.wait(30))
    try:
        with pytest.raises(TimeoutError):
            first.send_within(1, (0, 1, 0), "label", bytes(1 << 26), 0.3)
        assert 1 not in first.outgoing
        assert first.ask(1, 0, 0.3) is None
    finally:
        held.set()
        first.close()
        second.close()


def test_a_send_that_finds_a_rank_gone_tells_what_it_said(monkeypatch: pytest.MonkeyPatch):
    """Who sent when the other had just closed its connections was told `Broken pipe`: what the other had said of
    a third rank was not read yet."""
    first, second = two_ranks()
    try:
        first.mailbox.note(1, "rank 2 is in another operation")

        def broken(*message: object) -> None:
            threading.Timer(0.1, first.mailbox.leave, (1, "rank 1 left")).start()
            raise BrokenPipeError(32, "Broken pipe")

        monkeypatch.setattr(first, "_write", broken)
        with pytest.raises(dist.DistBackendError, match="rank 1 left; before, it said: rank 2"):
            first.send(1, (0, 1, 0), "all_reduce", b"")
    finally:
        monkeypatch.undo()
        first.close()
        second.close()


def test_memory_is_taken_as_bytes_arrive():
    """A peer that only announced a message cost the receiver up to 256 MB."""
    near, far = socket.socketpair()
    with near, far:
        far.sendall(b"a few bytes")
        far.close()
        tracemalloc.start()
        with pytest.raises(ConnectionError):
            wire.receive_exactly(near, 1 << 28)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert most < 4 << 20


@pytest.mark.parametrize("size", [0, 5, 1 << 20, (1 << 20) + 1, (1 << 24) + 999, 40_000_000])
def test_messages_of_any_size_arrive_whole(size: int):
    content = (os.urandom(997) * (size // 997 + 1))[:size]
    near, far = socket.socketpair()
    with near, far, ThreadPoolExecutor(1) as pool:
        sent = pool.submit(far.sendall, content)
        assert wire.receive_exactly(near, size) == content
        sent.result()
