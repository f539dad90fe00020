"""Calls between workers: values, exceptions, references, gradients; a worker that dies is named."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
import ranks

from facula.distributed.rpc import api, constants, rref
from facula.distributed.rpc.options import WorkerInfo
from facula.distributed.rpc.threads import Threads


def run(program: str, size: int = 2) -> list:
    return ranks.run(program, size, script="rpc_programs.py")


@pytest.fixture(scope="module")
def calls() -> dict:
    return run("calls")[0]


def test_values_come_back(calls: dict):
    assert calls["sum"] == [0, 2, 4, 6] and calls["own"] == 8 and calls["later"] == 8
    assert calls["nested"] == 6 + 5 + 4 + 3 + 2 + 1 and calls["waited"]


def test_exceptions_come_back_with_their_type_and_the_remote_traceback(calls: dict):
    kind, text = calls["boom"]
    assert kind == "KeyError" and "WorkerInfo(id=1, name=w1)" in text and "in boom" in text


def test_errors_of_calls_name_the_worker(calls: dict):
    kind, text = calls["late"]
    assert kind == "RuntimeError" and "sleep on w1 (rank 1)" in text and "timeout" in text
    assert "w7" in calls["who"][1] and "'w0', 'w1'" in calls["who"][1]
    assert "imports by name" in calls["local"][1] and "init_rpc() was required" in calls["after"][1]


def test_a_worker_may_be_called_before_it_has_met_the_others():
    assert run("early")[0] == 2 + 1


def test_what_each_worker_passes_reaches_all_that_take_part():
    found = run("gathering", 3)
    for worker in found:
        assert worker["rounds"] == [{f"w{r}": [r, k] for r in range(3)} for k in range(3)]
        assert worker["sum"] == 2 * (0 + 1 + 2) and not worker["after"]
        assert "init_rpc() was required" in worker["before"][1]
    assert found[0]["some"] == found[2]["some"] == {"w0": 0, "w2": 20}
    assert "among those that take part" in found[1]["some"][1]
    assert "none of w1" in found[0]["late"][1] and "0.3 s (timeout)" in found[0]["late"][1]


def test_references_live_as_long_as_somebody_has_one():
    found = run("references", 3)[0]
    assert (found["sync"], found["there"], found["chain"]) == (6, 16, 116)
    assert found["owner"] == ["w1", False, "Counter"] and found["mine"] == [1, 1]
    assert "the owner, WorkerInfo(id=1, name=w1), was required" in found["local"][1]
    assert (
        "only be pickled when using RPC" in found["pickle"][1] and found["raises"][0] == "KeyError"
    )
    assert (found["alive"], found["left"]) == (1, 0)


def test_references_that_the_collector_finds_take_no_lock():
    assert run("rubbish")[0] == {"left": 0, "collected": True}


def test_modules_arrive_with_parameters():
    """They came with tensors in place of parameters, which required no gradients."""
    found = run("modules")[0]
    assert found["module"] == ["Parameter", True, False] and found["gradient"] == [[1.0, 1.0]] * 2
    assert found["given"] == ["Tensor", True, True, "Parameter", True]
    assert found["frozen"] == ["Tensor", False, True, "Parameter", False]


def test_gradients_go_through_calls():
    found = run("gradients")[0]
    assert found["x"] < 1e-6 and found["y"] < 1e-6 and found["plain"] and found["falls"]
    assert found["context"] and api.UNSET_RPC_TIMEOUT == constants.UNSET_RPC_TIMEOUT
    assert "a context that is open was required" in found["closed"][1]
    assert "an instance of nn.Module" in found["class"][1]


def test_a_worker_that_dies_is_named_at_once():
    result = ranks.run("killed", 2, script="rpc_programs.py", dying=[1])[0]
    first, second, end, took, until_end = result
    for kind, text in (first, second):
        assert kind == "RuntimeError" and "w1 (rank 1)" in text and "exited, died or left" in text
    assert took < 30 and "none of w1" in end[1] and "exited, died or left" in end[1]
    assert until_end < 55  # it was a minute


@pytest.mark.parametrize("lacking", [0, 2])
def test_every_worker_is_told_which_one_lacks_the_extra(lacking: int):
    """The others waited for a minute, and were told how many had come."""
    environment = {"WITHOUT_GRPC": str(lacking)}
    found = ranks.run("without_grpc", 3, script="rpc_programs.py", environment=environment)
    for rank, (kind, text, took) in enumerate(found):
        assert "pip install 'facula[rpc]'" in text and took < 30
        assert kind == ("ImportError" if rank == lacking else "RuntimeError")
        assert rank == lacking or f"all workers were required: got rank {lacking}: " in text


def test_a_worker_whose_program_failed_does_not_live_on_for_requests():
    """Python waits for pools of threads: it went when the last request had ended, and its caller heard nothing."""
    kind, text, took = ranks.run("failed", 2, script="rpc_programs.py", dying=[1])[0]
    assert kind == "RuntimeError" and "w1 (rank 1)" in text and "exited, died or left" in text
    assert took < ranks.DEADLINE / 2


def test_functions_run_at_once_in_threads_that_are_used_again():
    """Each waits for the next one: a pool with an end would stand."""
    threads, count = Threads("test"), 40

    def chained(number: int) -> int:
        return number and 1 + threads.submit(chained, number - 1).result()

    assert threads.submit(chained, count).result(ranks.DEADLINE) == count
    while threads.free <= count:  # they become free behind the result
        time.sleep(0.001)
    barrier = threading.Barrier(count)  # all run at the same time
    done = [threads.submit(barrier.wait, ranks.DEADLINE) for _ in range(count)]
    assert sorted(one.result() for one in done) == [*range(count)]
    failed = threads.submit(int, "no number")
    assert isinstance(failed.exception(), ValueError)
    assert next(threads.numbers) <= count + 2  # of which at most one for `int`
    threads.shutdown()
    assert not threads.running
    with pytest.raises(RuntimeError, match="before shutdown"):
        threads.submit(int)


def test_why_a_worker_died_is_told_with_what_it_said_of_another():
    """Who called only a worker that ended because another was gone did not hear of that one."""
    kind, text = ranks.run("chained", 3, script="rpc_programs.py", dying=[1, 2])[0]
    assert kind == "RuntimeError" and "on w1 (rank 1)" in text and "exited, died or left" in text
    assert "before, it said: [rpc] sleep on w2 (rank 2)" in text and text.count("hint") == 1


def test_workers_that_are_through_wait_for_those_that_work():
    """The end was an error where the others worked for longer than a minute."""
    assert ranks.run("patient", 2, script="rpc_programs.py") == [True, True]


def test_a_pipe_computes_what_its_layers_do():
    found = run("pipe", 1)[0]
    assert max(found[k] for k in ("never", "except_last", "always")) < 1e-6
    assert "nobody takes 'early'" in found["unmatched"][1] and "at least 1" in found["chunks"][1]


class Leaving:
    """The lock of a table; the moment it is free for the first time, the last fork that there is leaves."""

    def __init__(self, table: Any, fork: tuple[int, int]) -> None:
        self.table, self.fork, self.condition = table, fork, threading.Condition()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.condition, name)

    def __enter__(self) -> Any:
        return self.condition.__enter__()

    def __exit__(self, *args: Any) -> None:
        self.condition.__exit__(*args)
        fork, self.fork = self.fork, None  # type: ignore[assignment]
        if fork is not None:
            self.table.leave(fork, fork)


def test_a_reference_that_arrives_while_the_last_other_leaves_keeps_the_value(
    monkeypatch: pytest.MonkeyPatch,
):
    here = WorkerInfo(0, "w0")
    monkeypatch.setattr(rref, "agent", lambda: SimpleNamespace(info=here))
    monkeypatch.setattr(rref, "_TABLE", rref._Table())
    key, table = (0, 10**9), rref._TABLE
    table.enter(key, key).future.set_result("the value")
    monkeypatch.setattr(table, "lock", Leaving(table, key))
    reference = rref.join((key, None, here))
    assert table.owned[key].future.done() and table.owned[key].future.value() == "the value"
    assert table.owned[key].forks == {reference._fork}
