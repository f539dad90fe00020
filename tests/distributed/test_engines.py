"""One suite over all engines: numbers as NumPy computes them, and failures that name the rank."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import ranks

from facula import distributed as dist
from facula.distributed import engines, wire
from facula.distributed.engine import Alone, Rendezvous

#: as the tests name them: the backend, and settings
ENGINES = {
    "gloo": {"TEST_ENGINE": "gloo"},
    "gloo by messages": {"TEST_ENGINE": "gloo", "FACULA_SHARED_COLLECTIVES": "0"},
    "of another package": {"TEST_ENGINE": "store"},
    "mpi": {"TEST_ENGINE": "mpi"},
    "mpi by its library": {"TEST_ENGINE": "mpi", "FACULA_SHARED_COLLECTIVES": "0"},
}
SCRIPT = "engine_programs.py"
SECONDS = ranks.DEADLINE


def run(engine: str, program: str, size: int = 2, **options):  # type: ignore[no-untyped-def]
    if "mpi" in engine:
        pytest.importorskip("mpi4py")  # the extra `mpi`, which `test` installs
    start = ranks.run_under_mpi if "mpi" in engine else ranks.run
    return start(program, size, script=SCRIPT, environment=ENGINES[engine], **options)


@pytest.mark.parametrize(
    "engine, size",
    [
        ("gloo", 2),
        ("gloo", 4),
        ("gloo by messages", 3),
        ("of another package", 2),
        ("mpi", 2),
        ("mpi by its library", 3),
    ],
)
def test_numbers(engine: str, size: int):
    assert run(engine, "numbers", size) == ["fine"] * size


@pytest.mark.parametrize("engine", ["gloo", "mpi"])
def test_many_sizes_again_and_again(engine: str):
    for rank, (kind, text) in enumerate(run(engine, "small_ones")):
        assert kind == "DistBackendError", text
        assert f"with [{8 - rank}] from rank {1 - rank}" in text
        assert f"with [{7 + rank}] were expected" in text


@pytest.mark.parametrize("engine", ["gloo", "gloo by messages", "mpi by its library"])
def test_ranks_that_differ_are_told_how(engine: str):
    for rank, found in enumerate(run(engine, "differences")):
        for name, (kind, text) in found.items():
            assert kind == "DistBackendError", (name, kind, text)
            assert f"rank {1 - rank}" in text, (name, text)
            assert "the same operation" in text, (name, text)
        assert "int32" in found["dtype"][1] and "MAX" in found["operation"][1]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["gloo", "gloo by messages", "mpi", "mpi by its library"])
def test_every_collective_tells_every_rank_of_a_difference(engine: str):
    """Sizes, dtypes, roots and orders that differ: an error on each rank, which names another, in time."""
    for rank, found in enumerate(run(engine, "every_difference", 3, seconds=240)):
        assert len(found) > 36
        for name, (kind, text, took) in found.items():
            assert kind == "DistBackendError" and "rank " in text, (rank, name, kind, text)
            assert took < 3 + 5, (rank, name, took)


@pytest.mark.parametrize(
    "how, where, engine",
    [("kill", 0, "gloo"), ("kill", 9, "gloo"), ("leave", 3, "gloo"), ("late", 4, "gloo"),
     ("kill", 5, "gloo by messages"), ("kill", 2, "mpi"), ("kill", 7, "mpi by its library"),
     ("late", 5, "mpi by its library"), ("leave", 4, "mpi by its library")],
)  # fmt: skip
def test_a_rank_that_is_away_is_named(how: str, where: int, engine: str):
    dying = [2] if how == "kill" else []
    for text, seconds in run(engine, f"away {how} {where}", 3, dying=dying)[:2]:
        assert "rank 2" in text, text
        assert seconds < 30


@pytest.mark.parametrize(
    "how, engine",
    [("all_reduce", "gloo"), ("first", "gloo by messages"), ("broadcast", "gloo by messages"),
     ("recv", "gloo"), ("barrier", "gloo by messages"), ("all_reduce", "mpi"), ("recv", "mpi")],
)  # fmt: skip
def test_a_rank_that_never_sent_anything_is_missed_when_it_dies(how: str, engine: str):
    """Those who waited for it knew nothing of it before the time of the group was over, half an hour by default."""
    for text, seconds in run(engine, f"early {how}", 3, dying=[2])[:2]:
        assert "rank 2" in text, text
        assert seconds < 50


@pytest.mark.parametrize("how", ["failed", "fine"])
def test_a_process_of_mpi_does_not_wait_for_ever_for_one_that_does_not_end(how: str):
    """`MPI_Finalize` waited for a rank that had stopped, though its time-out was over."""
    assert run("mpi by its library", f"ending {how}", 2, dying=[]) == [True, True]


def test_memory_goes_with_the_processes():
    """Killed ranks leave nothing behind: the memory has no name."""
    before = set(os.listdir("/dev/shm"))
    run("gloo", "away kill 9", 2, dying=[1])
    assert {name for name in os.listdir("/dev/shm") if "facula-room" in name} <= before


# ---------------------------------------------------------------- where engines come from


def test_backends_are_registered_by_name(monkeypatch: pytest.MonkeyPatch):
    assert dist.Backend("GLOO") == "gloo" == dist.Backend.GLOO
    assert dist.is_backend_available("gloo") and not dist.is_backend_available("nothing")
    made = []

    def maker(store, rank, size, timeout):  # type: ignore[no-untyped-def]
        made.append((rank, size, timeout.total_seconds()))
        return Alone(Rendezvous(store, rank, size, 1.0))

    dist.Backend.register_backend("test_engines_own", maker)
    assert dist.Backend.TEST_ENGINES_OWN in dist.Backend.backend_list
    engine = engines.make("test_engines_own", Rendezvous(dist.HashStore(), 0, 1, 7.0))
    assert isinstance(engine, Alone) and made == [(0, 1, 7.0)]
    with pytest.raises(RuntimeError, match="already exist"):
        dist.Backend.register_backend("test_engines_own", maker)
    dist.Backend.register_backend("test_engines_wrong", lambda *a: 3)
    with pytest.raises(TypeError, match="Engine or a ProcessGroup was required"):
        engines.make("test_engines_wrong", Rendezvous(dist.HashStore(), 0, 1, 7.0))
    with pytest.raises(ValueError, match="Invalid backend"):
        dist.init_process_group("nothing", rank=0, world_size=1, store=dist.HashStore())


def test_installed_packages_bring_engines(tmp_path):  # type: ignore[no-untyped-def]
    (tmp_path / "facula_brought.py").write_text(
        "from facula.distributed.engine import Alone\nclass Brought(Alone):\n    name = 'brought'\n"
    )
    info = tmp_path / "facula_brought-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: facula-brought\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[facula.engines]\nbrought = facula_brought:Brought\n")
    program = (
        "from facula.distributed import engines, HashStore\n"
        "from facula.distributed.engine import Rendezvous\n"
        "print(engines.make('brought', Rendezvous(HashStore(), 0, 1, 1.0)).name)"
    )
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=SECONDS,
    )  # fmt: skip
    assert done.stdout.strip() == "brought", done.stderr


# ---------------------------------------------------------------- one machine


def of_two_machines(monkeypatch, **options):  # type: ignore[no-untyped-def]
    """Rank 0's engine, where rank 1 says that it is on another machine."""
    store = dist.HashStore()
    store.set("transport/machine/1", "elsewhere")
    store.set("transport/1", '["127.0.0.1", 1]')
    return engines.make("gloo", Rendezvous(store, 0, 2, 5.0, address="127.0.0.2", **options))


def test_gloo_stays_on_one_machine(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(
        dist.DistBackendError, match=r"one machine.*\n.*facula\[mpi\].*allow_remote"
    ):
        of_two_machines(monkeypatch)
    engine = of_two_machines(monkeypatch, allow_remote=True)
    assert engine.server.getsockname()[0] == "127.0.0.2"
    engine.close()


def test_gloo_listens_on_the_loopback_address(monkeypatch: pytest.MonkeyPatch):
    """It listened on the address by which the store was reached."""
    store = dist.HashStore()
    store.set("transport/machine/1", wire.machine())
    store.set("transport/1", '["127.0.0.1", 1]')
    engine = engines.make("gloo", Rendezvous(store, 0, 2, 5.0, address="127.0.0.2"))
    assert engine.server.getsockname()[0] == "127.0.0.1"
    engine.close()


# ---------------------------------------------------------------- what mpi needs

WITHOUT = """
import sys
sys.modules["mpi4py"] = None
from facula import distributed as dist
try:
    dist.init_process_group("mpi", rank=0, world_size=2, store=dist.HashStore())
except dist.DistBackendError as error:
    print(error)
print(dist.is_initialized())
"""


def test_a_missing_extra_is_said():
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT], capture_output=True, text=True, timeout=SECONDS
    )
    assert "pip install facula[mpi]" in done.stdout and done.stdout.strip().endswith("False"), done


ALONE = """
from facula import distributed as dist
try:
    dist.init_process_group("mpi", rank=0, world_size=2, store=dist.HashStore())
except dist.DistBackendError as error:
    print(error)
"""


def test_processes_that_mpi_did_not_start_are_told_how():
    pytest.importorskip("mpi4py")
    done = subprocess.run(
        [sys.executable, "-c", ALONE], capture_output=True, text=True, timeout=SECONDS
    )
    assert "mpiexec -n 2" in done.stdout, done
