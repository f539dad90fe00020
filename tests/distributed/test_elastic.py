"""Launchers: restarts, log folders, error files, machines that come and go, what other launchers say."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import ranks

from facula import distributed as dist
from facula.distributed import run as launcher
from facula.distributed import starters
from facula.distributed.elastic.multiprocessing import DefaultLogsSpecs, Std, errors
from facula.distributed.elastic.multiprocessing.errors import (
    ChildFailedError,
    ProcessFailure,
    record,
)
from facula.distributed.elastic.rendezvous import RendezvousParameters, RendezvousStateError
from facula.distributed.elastic.rendezvous.api import parse_rendezvous_endpoint
from facula.distributed.elastic.rendezvous.c10d_rendezvous_backend import C10dRendezvousBackend
from facula.distributed.elastic.rendezvous.dynamic_rendezvous import create_handler
from facula.distributed.elastic.rendezvous.state import State
from facula.distributed.launcher import LaunchConfig, elastic_launch

#: counts steps, in a file that all attempts share; `fail` ends rank 1 in the first attempt
PROGRAM = """
import os, sys, time
import facula
from facula import distributed as dist
from facula.distributed.elastic.multiprocessing.errors import record

@record
def main():
    folder, steps, pause = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    dist.init_process_group()
    path, rank = os.path.join(folder, "step"), dist.get_rank()
    step = int(open(path).read()) if os.path.exists(path) else 0
    dist.barrier()
    while step < steps:
        if "fail" in sys.argv and rank == 1 and attempt == 0 and step == 2:
            raise ValueError("no luck")
        x = facula.full((3,), float(rank + 1))
        dist.all_reduce(x)
        size = dist.get_world_size()
        assert x.tolist() == [size * (size + 1) / 2] * 3
        step += 1
        if rank == 0:
            with open(path + ".new", "w") as file:
                file.write(str(step))
            os.replace(path + ".new", path)
            sys.stdout.write(f"step {step} of world {size}\\n")
            sys.stdout.flush()
        time.sleep(pause)
    dist.destroy_process_group()
    dist.init_process_group()  # the agent's store is used twice
    dist.barrier()
    dist.destroy_process_group()

main()
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return str(path)


def command(*options: object) -> list[str]:
    return [sys.executable, "-m", "facula.distributed.run", *map(str, options)]


def launched(*options: object, **more):  # type: ignore[no-untyped-def]
    return subprocess.run(
        command(*options), capture_output=True, text=True, timeout=ranks.DEADLINE, **more
    )


def test_a_worker_that_fails_restarts_all(program: str, tmp_path: Path):
    logs = tmp_path / "logs"
    done = launched(
        "--standalone", "--nproc-per-node=2", "--max-restarts=1", "--log-dir", logs, "--redirects=3",
        "--tee=0:1", program, tmp_path, 4, 0, "fail",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "[default0]:step 4 of world 2" in done.stdout and "step 2" in done.stdout
    (run,) = logs.iterdir()
    assert sorted(p.name for p in run.iterdir()) == ["attempt_0", "attempt_1"]
    told = json.loads((run / "attempt_0" / "1" / "error.json").read_text())["message"]
    assert told["message"] == "ValueError: no luck"
    assert "raise ValueError" in told["extraInfo"]["py_callstack"]
    assert "no luck" in (run / "attempt_0" / "1" / "stderr.log").read_text()
    assert "step 4" in (run / "attempt_1" / "0" / "stdout.log").read_text()


def test_the_first_failure_is_the_root_cause(program: str, tmp_path: Path):
    path = tmp_path / "error.json"
    done = launched(
        "--nproc-per-node=2", "--master-port=0", program, tmp_path, 4, 0, "fail",
        env={**os.environ, "TORCHELASTIC_ERROR_FILE": str(path)},
    )  # fmt: skip
    assert done.returncode == 1
    cause = done.stderr.partition("Root Cause")[2]
    assert "ValueError: no luck" in cause and "rank      : 1" in cause
    found = json.loads(path.read_text())["message"]  # the launcher's own file: the worker's
    assert found["message"] == "ValueError: no luck" and found["errorCode"] == 1


def agents(program: str, folder: Path, count: int, port: int, *options: object):  # type: ignore[no-untyped-def]
    """One machine's launcher after the other; each runs one worker."""
    line = command(
        "--nnodes=1:2", "--nproc-per-node=1", "--rdzv-backend=c10d", f"--rdzv-endpoint=localhost:{port}",
        "--rdzv-id=job", "--max-restarts=2", "--rdzv-conf=last_call_timeout=1,keep_alive_interval=1",
        *options, program, folder, count, 0.2,
    )  # fmt: skip
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(path: Path, least: int) -> None:
    end = time.monotonic() + ranks.DEADLINE
    while not path.exists() or int(path.read_text() or 0) < least:
        assert time.monotonic() < end, "no step"
        time.sleep(0.05)


@pytest.mark.slow
def test_machines_come_and_go(program: str, tmp_path: Path):
    """The second comes later: all begin again, as two; it is killed, and the first goes on alone."""
    with ranks.held_port() as port:
        _come_and_go(program, tmp_path, int(port))


def _come_and_go(program: str, tmp_path: Path, port: int) -> None:
    first = agents(program, tmp_path, 40, port)
    second = None
    try:
        wait_for(tmp_path / "step", 3)
        second = agents(program, tmp_path, 40, port)
        end = time.monotonic() + ranks.DEADLINE
        seen: list[str] = []
        assert first.stdout is not None
        while not any("world 2" in line for line in seen):
            assert time.monotonic() < end
            seen.append(first.stdout.readline() or second.stdout.readline())  # type: ignore[union-attr]
        second.send_signal(signal.SIGTERM)
        second.communicate(timeout=ranks.DEADLINE)
        rest, errors_text = first.communicate(timeout=ranks.DEADLINE)
        assert first.returncode == 0, errors_text
        assert "step 40 of world 1" in rest and second.returncode == 128 + signal.SIGTERM
    finally:
        for one in (first, second):
            if one is not None and one.poll() is None:
                one.kill()
                one.communicate()


def test_a_signal_ends_all_workers(program: str, tmp_path: Path):
    made = subprocess.Popen(
        command("--standalone", "--nproc-per-node=2", program, tmp_path, 1000, 0.05),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_for(tmp_path / "step", 2)
        children = Path(f"/proc/{made.pid}/task/{made.pid}/children").read_text().split()
        assert len(children) == 2
        made.send_signal(signal.SIGINT)
        assert made.wait(30) == 128 + signal.SIGINT
        assert not any(Path(f"/proc/{child}").exists() for child in children)
    finally:
        made.kill()
        made.wait()


def test_machines_that_do_not_come_are_said(tmp_path: Path, program: str):
    done = launched(
        "--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", "--rdzv-conf=join_timeout=1",
        program, tmp_path, 1, 0,
    )  # fmt: skip
    assert done.returncode == 1 and "2 machines were required within 1 s: got 1" in done.stderr


# ---------------------------------------------------------------- as a library


def given(text: str) -> str:
    return f"{text} {os.environ['RANK']} of {os.environ['WORLD_SIZE']}"


def failing() -> None:
    raise ValueError(f"rank {os.environ['RANK']}")


def test_functions_give_results_by_rank():
    config = LaunchConfig(1, 1, 2, rdzv_endpoint="localhost:0", monitor_interval=0.05)
    assert elastic_launch(config, given)("rank") == {0: "rank 0 of 2", 1: "rank 1 of 2"}


def test_functions_that_fail_are_told(tmp_path: Path):
    config = LaunchConfig(
        1, 1, 1, rdzv_endpoint="localhost:0", max_restarts=0, start_method="fork",
        logs_specs=DefaultLogsSpecs(str(tmp_path), redirects=Std.ALL),
    )  # fmt: skip
    with pytest.raises(ChildFailedError) as raised:
        elastic_launch(config, failing)()
    rank, failure = raised.value.get_first_failure()
    assert (
        rank == 0 and failure.message["message"] == "ValueError: rank 0" and failure.exitcode == 1
    )


# ---------------------------------------------------------------- error files


def test_record_writes_what_ended_a_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "deep" / "error.json"
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(path))

    @record
    def function(code: object) -> str:
        if isinstance(code, Exception):
            raise code
        raise SystemExit(code)

    before = time.time()
    with pytest.raises(KeyError):
        function(KeyError("weights"))
    failure = ProcessFailure(0, 1, 1, str(path))
    assert failure.text() == "KeyError: 'weights'" and failure.timestamp >= int(before)
    assert function(0) is None
    with pytest.raises(SystemExit):
        function(3)


def test_the_first_of_one_second_is_the_root_cause(tmp_path: Path):
    """The time in the files has no parts of seconds; who noticed that another died was blamed by its lower rank."""
    said = {"message": {"message": "died", "extraInfo": {"timestamp": "1700000000"}}}
    failures = {}
    for rank, nanoseconds in ((1, 5), (0, 9)):
        path = tmp_path / f"{rank}.json"
        path.write_text(json.dumps(said))
        os.utime(path, ns=(0, 1_700_000_000_000_000_000 + nanoseconds))
        failures[rank] = ProcessFailure(rank, 1, 1, str(path))
    assert errors.ChildFailedError("program", failures).get_first_failure()[0] == 1


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "3", '{"message": 3}', '{"message": {}}', "[" * 100_000]
)
def test_error_files_that_are_none(tmp_path: Path, content: str):
    path = tmp_path / "error.json"
    path.write_text(content)
    failure = ProcessFailure(0, 1, -11, str(path))
    assert failure.signal_name() == "SIGSEGV" and failure.text() is not None
    errors.get_error_handler().dump_error_file(str(path), 1)
    assert "SIGSEGV" in failure.text() or failure.error_file == str(path)


# ---------------------------------------------------------------- options


def test_options():
    assert launcher.parse_min_max_nnodes("2") == (2, 2)
    assert launcher.parse_min_max_nnodes("1:4") == (1, 4)
    for wrong in ("", "a", "1:2:3", "-1", "1:"):
        with pytest.raises(RuntimeError, match="MIN:MAX"):
            launcher.parse_min_max_nnodes(wrong)
    assert launcher.determine_local_world_size("3") == 3
    for wrong in ("gpu", "0", "none", "-2"):
        with pytest.raises(ValueError, match="processes"):
            launcher.determine_local_world_size(wrong)
    assert Std.from_str("0:3,2:1") == {0: Std.ALL, 2: Std.OUT}
    for wrong in ("", "4", "0:4", "0:1,", "x"):
        with pytest.raises(ValueError, match="stdout"):
            Std.from_str(wrong)
    parse = launcher.parse_args
    for line, text in (
        (["--rdzv-conf=a", "x"], "key=value"), (["--nnodes=3:1", "x"], "least <= most"),
        (["--local-ranks-filter=a", "x"], "comma-separated"), (["--logs-specs=none", "x"], "entry point"),
        (["--no-python", "-m", "x"], "--no-python"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=text):
            launcher.config_from_args(parse(line))
    config, entrypoint, arguments = launcher.config_from_args(
        parse(
            [
                "--rdzv_backend=c10d",
                "--nproc_per_node=2",
                "--rdzv-conf=timeout=5",
                "-m",
                "a.b",
                "--c",
                "d",
            ]
        )
    )
    assert (entrypoint, arguments) == (sys.executable, ["-u", "-m", "a.b", "--c", "d"])
    assert (config.nproc_per_node, config.rdzv_configs) == (2, {"timeout": "5"})


def test_options_come_from_the_environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PET_NNODES", "2:3")
    monkeypatch.setenv("PET_STANDALONE", "1")
    found = launcher.parse_args(["x"])
    assert found.nnodes == "2:3" and found.standalone
    assert launcher.parse_args(["--nnodes=1", "x"]).nnodes == "1"


def test_endpoints():
    assert parse_rendezvous_endpoint("h:1", 5) == ("h", 1) and parse_rendezvous_endpoint(
        "h", 5
    ) == ("h", 5)
    assert (
        parse_rendezvous_endpoint("[::1]", 5) == ("::1", 5) == parse_rendezvous_endpoint("::1", 5)
    )
    for wrong in ("h:", "h:x", ":7", "h:70000"):
        with pytest.raises(ValueError, match="address:port"):
            parse_rendezvous_endpoint(wrong, 5)


# ---------------------------------------------------------------- the rendezvous' state


def handler(store: dist.Store, least: int, most: int, **options: object):  # type: ignore[no-untyped-def]
    parameters = RendezvousParameters("c10d", "", "job", least, most, **options)  # type: ignore[arg-type]
    return create_handler(store, C10dRendezvousBackend(store, "job"), parameters)


def test_rounds():
    """Full rounds end at once; who comes later waits for the next, which begins when all have left."""
    state = State()
    for node in "cab":
        state.join(node, 3)
    state.finish()
    assert state.participants == {"a": 0, "b": 1, "c": 2}
    state.join("d", 3)
    assert not state.waiting  # no room
    state.leave("b")
    state.join("d", 3)
    assert state.waiting == ["d"] and state.complete and state.round == 0
    for node in "ac":
        state.leave(node)
    assert (state.complete, state.round, state.participants) == (False, 1, {})
    state.join("d", 3)
    assert state.participants == {"d": -1} and not state.waiting
    assert State.read(state.written()) == state


@pytest.mark.parametrize(
    "data",
    [b"x", b"[]", b'{"round": "1"}', b'{"more": 1}', b'{"waiting": [1]}', b"\xff", b"[" * 99999],
)
def test_what_is_no_state_is_said(data: bytes):
    store = dist.HashStore()
    C10dRendezvousBackend(store, "job").set_state(data)
    with pytest.raises(RendezvousStateError, match="malformed"):
        handler(store, 1, 1).next_rendezvous()


def test_a_machine_without_a_sign_of_life_is_taken_out():
    store = dist.HashStore()
    options = {"keep_alive_interval": 1, "keep_alive_max_attempt": 1, "last_call_timeout": 1}
    dead = handler(store, 1, 2, **options)
    dead.node = "~"  # the last by name
    dead._sync(lambda state: (state.join(dead.node, 2), state.beat(dead.node)))
    alive = handler(store, 1, 2, **options)
    info = alive.next_rendezvous()
    assert (info.rank, info.world_size) == (0, 2)  # it was thought to be there
    time.sleep(1.2)
    assert alive.num_nodes_waiting() == 0
    assert list(alive._sync(lambda state: None).participants) == [alive.node]
    alive.shutdown()


def test_debug_levels(monkeypatch: pytest.MonkeyPatch):
    import logging

    logger = logging.getLogger("facula.distributed")
    before = logger.level
    try:
        monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "DETAIL")
        dist.set_debug_level_from_env()
        assert dist.get_debug_level() is dist.DebugLevel.DETAIL and logger.level == logging.DEBUG
        monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "much")
        with pytest.raises(RuntimeError, match="OFF, INFO or DETAIL"):
            dist.set_debug_level_from_env()
        with pytest.raises(TypeError, match="DebugLevel"):
            dist.set_debug_level(2)  # type: ignore[arg-type]
    finally:
        dist.set_debug_level(dist.DebugLevel.OFF)
        logger.setLevel(before)


def test_groups_that_can_not_be_split():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        for wrong in (None, [], [[]], [[0], [0]], [[1]], [[0, 0]]):
            with pytest.raises(ValueError, match="each in one of them"):
                dist.split_group(split_ranks=wrong)
        assert dist.split_group(split_ranks=[[0]]).size() == 1 and dist.get_pg_count() == 2
    finally:
        dist.destroy_process_group()


# ---------------------------------------------------------------- other launchers


def clean(monkeypatch: pytest.MonkeyPatch, **variables: str) -> None:
    for name in list(os.environ):
        if name.startswith(("OMPI_", "PMI", "SLURM_", "MPI_")) or name in starters.VARIABLES:
            monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


def test_mpiexec_is_recognised(monkeypatch: pytest.MonkeyPatch):
    clean(
        monkeypatch, OMPI_COMM_WORLD_RANK="1", OMPI_COMM_WORLD_SIZE="4", OMPI_COMM_WORLD_LOCAL_RANK="1",
        OMPI_COMM_WORLD_LOCAL_SIZE="4", PMIX_NAMESPACE="prterun-host-7@1",
    )  # fmt: skip
    assert [starters.value(n) for n in ("RANK", "WORLD_SIZE", "MASTER_ADDR")] == [
        "1",
        "4",
        "127.0.0.1",
    ]
    port = starters.value("MASTER_PORT")
    assert port is not None and 20000 <= int(port) < 32000 and dist.get_node_local_rank() == 1
    monkeypatch.setenv(
        "OMPI_COMM_WORLD_LOCAL_SIZE", "2"
    )  # several machines: nobody says where rank 0 is
    assert starters.value("MASTER_ADDR") is None is starters.value("MASTER_PORT")


def test_srun_is_recognised(monkeypatch: pytest.MonkeyPatch):
    clean(
        monkeypatch, SLURM_PROCID="3", SLURM_STEP_NUM_TASKS="8", SLURM_LOCALID="1", SLURM_JOB_ID="77",
        SLURM_STEP_ID="0", SLURM_STEP_NODELIST="gpu[07-09,12],login1", SLURM_STEP_NUM_NODES="4",
    )  # fmt: skip
    assert [starters.value(n) for n in ("RANK", "WORLD_SIZE", "LOCAL_RANK")] == ["3", "8", "1"]
    assert starters.value("MASTER_ADDR") == "gpu07"
    monkeypatch.setenv("RANK", "5")  # what the user sets comes first
    assert starters.value("RANK") == "5"


@pytest.mark.parametrize(
    "nodes, first",
    [
        ("a", "a"),
        ("a,b", "a"),
        ("n[1-3]", "n1"),
        ("n[08,09]-ib", "n08-ib"),
        ("x-1,y[2]", "x-1"),
        ("", ""),
    ],
)
def test_the_first_node_of_slurms_list(nodes: str, first: str):
    assert starters.first_node(nodes) == first


def test_a_program_of_mpiexec_needs_no_address(tmp_path: Path):
    """The variables that Open MPI sets, without its library: gloo."""
    text = (
        "import facula\nfrom facula import distributed as dist\n"
        "dist.init_process_group('gloo')\nx = facula.ones(1)\ndist.all_reduce(x)\nprint(int(x))\n"
    )
    base = {k: v for k, v in os.environ.items() if k not in starters.VARIABLES}
    base |= {
        "OMPI_COMM_WORLD_SIZE": "2",
        "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
        "PMIX_NAMESPACE": str(tmp_path),
    }
    made = [
        subprocess.Popen(
            [sys.executable, "-c", text], env={**base, "OMPI_COMM_WORLD_RANK": str(rank)},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for rank in range(2)
    ]  # fmt: skip
    for one in made:
        out, bad = one.communicate(timeout=ranks.DEADLINE)
        assert out.strip() == "2", bad


def test_ways_to_meet_are_registered(monkeypatch: pytest.MonkeyPatch):
    def alone(url: str, **options: object):  # type: ignore[no-untyped-def]
        assert url.startswith("test-elastic://somewhere") and "timeout" in options
        yield dist.HashStore(), 0, 1

    dist.register_rendezvous_handler("test-elastic", alone)
    with pytest.raises(RuntimeError, match="already registered"):
        dist.register_rendezvous_handler("test-elastic", alone)
    with pytest.raises(RuntimeError, match="already registered"):
        dist.register_rendezvous_handler("tcp", alone)
    dist.init_process_group("gloo", init_method="test-elastic://somewhere")
    assert dist.get_world_size() == 1
    dist.destroy_process_group()
    with pytest.raises(RuntimeError, match="No rendezvous handler"):
        next(dist.rendezvous("nowhere://", 0, 1))
