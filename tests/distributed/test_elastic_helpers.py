"""Timers, metrics, events, samplers and stores of `distributed.elastic`."""

from __future__ import annotations

import io
import json
import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
import ranks

from facula.distributed.elastic import events, metrics, timer
from facula.distributed.elastic.multiprocessing.subprocess_handler import get_subprocess_handler
from facula.distributed.elastic.timer.api import RequestQueue, TimerRequest
from facula.distributed.elastic.timer.file_based_local_timer import FileTimerRequest
from facula.distributed.elastic.timer.local_timer import MultiprocessingRequestQueue
from facula.distributed.elastic.utils import data, process_state
from facula.distributed.elastic.utils import distributed as stores
from facula.distributed.elastic.utils import logging as loggers
from facula.distributed.elastic.utils import store as exchange
from facula.distributed.errors import DistNetworkError, DistStoreError
from facula.distributed.stores import HashStore

# ------------------------------------------------------------------ timers


class _Notes(timer.TimerClient):
    """Keeps what a client is asked."""

    def __init__(self) -> None:
        self.said: list = []

    def acquire(self, scope_id, expiration_time):
        self.said.append(("take", scope_id, expiration_time))

    def release(self, scope_id):
        self.said.append(("release", scope_id))


def test_a_block_takes_and_releases_its_timer():
    notes = _Notes()
    before = time.time()
    with timer.expires(after=100, scope="epoch", client=notes):
        pass
    (_, scope, end), released = notes.said
    assert scope == "epoch" and before + 100 <= end <= time.time() + 100
    assert released == ("release", "epoch")
    timer.configure(notes)
    try:
        with pytest.raises(KeyError), timer.expires(after=1):
            raise KeyError("own")
    finally:
        timer.configure(None)
    assert notes.said[2][1] == notes.said[3][1] and __file__ in notes.said[2][1]
    with pytest.raises(RuntimeError, match="configure timer client"), timer.expires(after=1):
        pass


class _Server(timer.TimerServer):
    """Three workers whose time is over: one can not be ended, one raises, one ends."""

    def register_timers(self, timer_requests):
        self.seen = timer_requests

    def clear_timers(self, worker_ids):
        self.cleared = worker_ids

    def get_expired_timers(self, deadline):
        return {i: [TimerRequest(i, "t", 0)] for i in (1, 2, 3)}

    def _reap_worker(self, worker_id):
        if worker_id == 1:
            raise RuntimeError("no")
        return worker_id == 2


class _Given(RequestQueue):
    def size(self):
        return 2

    def get(self, size, timeout):
        return [TimerRequest(i, "t", 0) for i in range(size)]


def test_an_error_with_one_worker_keeps_no_other():
    server = _Server(_Given(), 1)
    server._run_watchdog()
    assert len(server.seen) == 2 and server.cleared == {1, 2}


def _wait_for_the_end(queue, seconds):
    timer.configure(timer.LocalTimerClient(queue))
    with timer.expires(after=seconds, scope="stuck"):
        time.sleep(600 if seconds < 1 else 0)


def test_a_process_whose_time_is_over_is_ended():
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    server = timer.LocalTimerServer(queue, max_interval=0.01)
    server.start()
    try:
        stuck = context.Process(target=_wait_for_the_end, args=(queue, 0.05))
        fine = context.Process(target=_wait_for_the_end, args=(queue, 500))
        for process in (stuck, fine):
            process.start()
        for process in (stuck, fine):
            process.join(ranks.DEADLINE)
        assert (stuck.exitcode, fine.exitcode) == (-signal.SIGKILL, 0)
    finally:
        server.stop()


def test_timers_by_process_and_scope():
    queue = multiprocessing.get_context("fork").Queue()
    server = timer.LocalTimerServer(queue, max_interval=0.01)
    late = time.time() + 1000
    server.register_timers(
        [TimerRequest(7, "a", late), TimerRequest(7, "b", 5), TimerRequest(8, "a", 5)]
    )
    server.register_timers([TimerRequest(8, "a", -1), TimerRequest(9, "none", -1)])
    assert {k: [t.scope_id for t in v] for k, v in server.get_expired_timers(6).items()} == {
        7: ["b"]
    }
    server.clear_timers({7})
    assert server._timers == {}
    found = MultiprocessingRequestQueue(queue)
    assert found.get(1, 0.01) == []
    queue.put(TimerRequest(1, "x", 0))
    assert found.get(1, ranks.DEADLINE) == [TimerRequest(1, "x", 0)]


_IN_A_PIPE = """
import sys, time
from facula.distributed.elastic import timer
timer.configure(timer.FileTimerClient(sys.argv[1]))
with timer.expires(after=float(sys.argv[2])):
    time.sleep(600 if float(sys.argv[2]) < 1 else 0)
"""


def test_requests_through_a_pipe(tmp_path):
    path, heard = str(tmp_path / "pipe"), []
    server = timer.FileTimerServer(
        path, "job", 0.01, log_event=lambda name, request: heard.append(name)
    )
    server.start()
    try:
        commands = [[sys.executable, "-c", _IN_A_PIPE, path, text] for text in ("0.05", "500")]
        processes = [subprocess.Popen(command) for command in commands]
        ended = [process.wait(ranks.DEADLINE) for process in processes]
        assert ended == [-signal.SIGKILL, 0]
        server.run_once()
        assert server._timers == {} and server._request_count == 3
        assert heard.count("kill worker process") == 1 and heard.count("Timer released") == 1
    finally:
        server.stop()
    assert not os.path.exists(path) and heard[-1] == "watchdog stopped"


def test_what_a_pipe_refuses(tmp_path):
    with pytest.raises(BrokenPipeError, match="a server that reads"):
        timer.FileTimerClient(str(tmp_path / "nobody")).acquire("x", 1.0)
    path = str(tmp_path / f"pipe{uuid.uuid4()}")
    server = timer.FileTimerServer(path, "job", 0.01)
    try:
        client = timer.FileTimerClient(path, signal=0)
        with pytest.raises(RuntimeError, match="shorter scope"):
            client.acquire("x" * 10000, 1.0)
        with open(path, "w") as pipe:
            pipe.write("nonsense\n" + FileTimerRequest(os.getpid(), "b", 9e9, 9).to_json() + "\n")
        server.run_once()
        ((pid, scope),) = server._timers
        assert (pid, scope) == (os.getpid(), "b")
        # a timer that is over and asked for no signal ends nobody
        client.acquire("b", 1.0)
        server.run_once()
        assert server.get_expired_timers(2.0)[os.getpid()][0].scope_id == "b"
        assert server.get_last_progress_time() <= time.time()
    finally:
        server.stop()


def test_agents_end_workers_whose_time_is_over(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import os, time\n"
        "from facula.distributed.elastic import timer\n"
        "timer.configure(timer.FileTimerClient(os.environ['TORCHELASTIC_TIMER_FILE']))\n"
        "first = os.environ['TORCHELASTIC_RESTART_COUNT'] == '0'\n"
        "with timer.expires(after=0.05 if first else 500):\n"
        "    time.sleep(600 if first else 0)\n"
        f"open({str(tmp_path / 'done')!r}, 'w').close()\n"
    )
    command = [sys.executable, "-m", "facula.distributed.run", "--standalone", "--max-restarts=1"]
    environment = {
        **os.environ,
        "TORCHELASTIC_ENABLE_FILE_TIMER": "1",
        "TORCHELASTIC_TIMER_FILE": str(tmp_path / "timers"),
    }
    done = subprocess.run(
        [*command, str(script)], env=environment, capture_output=True, text=True, timeout=ranks.DEADLINE
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "done").exists() and not (tmp_path / "timers").exists()


# ------------------------------------------------------------------ metrics and events


class _Kept(metrics.MetricHandler):
    def __init__(self) -> None:
        self.values: list = []

    def emit(self, metric_data):
        self.values.append(metric_data)


class Machine:
    @metrics.prof(group="counted")
    def run(self, fails):
        """Its own words."""
        if fails:
            raise KeyError("own")
        return 7


def test_calls_are_counted_and_timed(capsys):
    kept = _Kept()
    metrics.configure(kept, "counted")
    assert Machine().run(False) == 7 and Machine.run.__doc__ == "Its own words."
    with pytest.raises(KeyError):
        Machine().run(True)
    names = [value.name for value in kept.values]
    ends = ("success", "duration.ms", "failure", "duration.ms")
    assert names == [f"Machine.run.{end}" for end in ends]
    assert {value.group_name for value in kept.values} == {"counted"}
    assert kept.values[0].value == 1 and kept.values[1].value >= 0
    metrics.put_metric("loss", 3, "counted")
    assert kept.values[-1][1:] == ("counted", "loss", 3)
    metrics.put_metric("nobody", 1, "unheard")
    metrics.configure(metrics.ConsoleMetricHandler(), "shown")
    metrics.publish_metric("shown", "loss", 4)
    assert "[shown]: loss=4" in capsys.readouterr().out
    assert metrics.get_elapsed_time_ms(time.time() - 2) >= 2000


def test_events_of_meetings(monkeypatch):
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    said = {"run_id": "job", "message": "met", "node_state": events.NodeState.RUNNING, "rank": 3}
    events.construct_and_record_rdzv_event(**said)  # nobody collects them
    monkeypatch.setitem(events.handlers._HANDLERS, "dynamic_rendezvous", handler)
    monkeypatch.setattr(
        logging.getLogger("facula.elastic.events.dynamic_rendezvous"), "handlers", []
    )
    events.construct_and_record_rdzv_event(**said)
    try:
        raise KeyError("lost")
    except KeyError:
        events.construct_and_record_rdzv_event("job", "left", events.NodeState.FAILED)
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert first["name"] == "test_elastic_helpers.py:test_events_of_meetings"
    assert (first["rank"], first["pid"], first["error_trace"]) == (3, os.getpid(), "")
    assert "KeyError: 'lost'" in second["error_trace"] and second["node_state"] == "FAILED"
    again = events.RdzvEvent.deserialize(json.dumps(first))
    assert again.node_state is events.NodeState.RUNNING and str(again) == json.dumps(first)
    monkeypatch.setitem(events.handlers._HANDLERS, "kept", handler)
    events.record(events.Event("started", events.EventSource.AGENT, metadata={"a": 1}), "kept")
    told = events.Event.deserialize(stream.getvalue().splitlines()[-1])
    assert (told.name, told.source, told.metadata) == (
        "started",
        events.EventSource.AGENT,
        {"a": 1},
    )
    assert told.timestamp > 0


# ------------------------------------------------------------------ stores


def test_values_of_everybody():
    store, count = HashStore(), 4
    with ThreadPoolExecutor(count) as pool:
        found = list(
            pool.map(lambda i: exchange.synchronize(store, f"v{i}", i, count, "k"), range(count))
        )
        ends = list(pool.map(lambda i: exchange.barrier(store, count, "b"), range(count)))
    assert found == [[b"v0", b"v1", b"v2", b"v3"]] * count and ends == [None] * count


def test_a_barrier_names_who_is_missing():
    store = HashStore()

    def come(rank):
        with pytest.raises(DistStoreError) as caught:
            exchange.barrier(
                store, 3, "b", 0.05, rank, lambda r: f"host{r}", ranks.DEADLINE if rank else 0.5
            )
        return str(caught.value)

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(come, range(2))
    assert "missing_ranks=[host2]" in first
    assert "check rank 0 (host0) for missing rank info" in second
    with pytest.raises(DistStoreError):
        exchange.barrier(store, 9, "other", 0.01)
    store.set_timeout(timedelta(seconds=5))
    with exchange.store_timeout(store, 1):
        assert store.timeout == timedelta(seconds=1)
    assert store.timeout == timedelta(seconds=5)


def test_stores_of_agents():
    store = stores.create_c10d_store(True, "127.0.0.1")
    other = stores.create_c10d_store(False, "127.0.0.1", store.port, wait_for_workers=False)
    other.set("a", b"1")
    assert store.get("a") == b"1"
    with pytest.raises(DistNetworkError):
        stores.create_c10d_store(True, "127.0.0.1", store.port)
    other.close()
    store.close()
    with pytest.raises(ValueError, match="server_port"):
        stores.create_c10d_store(True, "127.0.0.1", world_size=2)
    with pytest.raises(DistStoreError):
        stores.create_c10d_store(True, "127.0.0.1", 0, world_size=2, timeout=0.1)
    with stores.get_socket_with_port() as held:
        assert held.getsockname()[1] != stores.get_free_port() > 0


# ------------------------------------------------------------------ the rest


def test_epochs_as_one_iterator():
    made = lambda epoch: iter(range(3 * epoch, 3 * epoch + 3))  # noqa: E731
    assert list(data.CyclingIterator(4, made)) == list(range(12))
    assert list(data.CyclingIterator(2, made, start_epoch=1)) == [3, 4, 5]
    empty = data.CyclingIterator(3, lambda epoch: iter([epoch] if epoch == 2 else []))
    assert list(empty) == [2]


@pytest.mark.parametrize(("size", "start", "count"), [(10, 0, 3), (10, 4, 4), (7, 6, 2), (5, 0, 8)])
def test_the_samples_that_are_left(size, start, count):
    for epoch in (0, 1):
        shares = []
        for rank in range(count):
            sampler = data.ElasticDistributedSampler(range(size), count, rank, start)
            sampler.set_epoch(epoch)
            shares.append(list(sampler))
            assert len(sampler) == len(shares[-1]) == -(-(size - start) // count)
        assert {i for share in shares for i in share} == set(range(start, size))
    with pytest.raises(ValueError, match="start_index"):
        data.ElasticDistributedSampler(range(size), 2, 0, size)


def test_loggers_and_processes(monkeypatch, tmp_path):
    assert loggers.get_logger().name == __name__ and loggers.get_logger("other").name == "other"
    monkeypatch.setenv("LOGLEVEL", "DEBUG")
    assert loggers.get_logger("other").level == logging.DEBUG
    assert process_state.read_proc_state(os.getpid()) in ("R", "S")
    assert process_state.read_proc_state(2**22 + 7) is None
    assert process_state.is_uninterruptible_state("D") and not process_state.is_uninterruptible_state(None)  # fmt: skip
    path = str(tmp_path / "out")
    script = (
        "import os, sys, time; print(os.environ['OWN'], sys.argv[1], flush=True); time.sleep(600)"
    )
    handler = get_subprocess_handler(
        sys.executable, ("-c", script, "x"), {"OWN": "7"}, path, None, 3
    )
    done = threading.Event()
    while not os.path.getsize(path):
        done.wait(0.01)
    handler.close()
    assert handler.proc.wait(ranks.DEADLINE) == -signal.SIGTERM and handler.local_rank_id == 3
    with open(path) as stream:
        assert stream.read() == "7 x\n"
