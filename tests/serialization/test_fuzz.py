"""A sample of what `tools/fuzz_loaders.py` runs for as long as one likes: no crash, no code, no hang, no
file outside, over every kind of file that facula reads."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "tools"
sys.path.insert(0, str(TOOLS))
import fuzz_loaders  # noqa: E402
from fuzz_formats import Format  # noqa: E402
from loader_watch import Watch, forbidden  # noqa: E402

#: what becomes of a file that is not one
FATES = {
    "read", "UnpicklingError", "RuntimeError", "EOFError", "DistStoreError", "NotImplementedError", "UnknownTypeError",
    "UnsupportedNodeError", "MemoryError", "SerializeError", "OtherVersion",
}  # fmt: skip
#: for these a file that is none is a miss, not an error
QUIET = (
    "pipe: tar",
    "stored graph",
    "compiled library",
    "measured choice",
    "requests",
    "folder of",
)


@pytest.mark.parametrize("kind", list(fuzz_loaders.formats()))
def test_mutated_files(tmp_path, kind):
    fates, faults = fuzz_loaders.fuzz(kind, 1, 150, tmp_path)
    assert not faults
    assert fates.total() == 150
    assert set(fates) <= FATES
    assert kind.startswith(QUIET) or fates.total() - fates["read"] > 30


def form(load):
    return Format(b"", load, lambda data, generator: data)


def test_a_fault_is_found():
    def crash(data):
        if data:
            os._exit(9)

    results = fuzz_loaders._batch_in_child(
        [(0, b"", form(lambda data: None)), (1, b"x", form(crash))]
    )
    assert results[0] == "read" and results[1].startswith("! the process ended")


def test_a_problem_that_a_check_finds_is_a_fault():
    results = fuzz_loaders._batch_in_child([(0, b"", form(lambda data: lambda: "a problem"))])
    assert results[0] == "! a problem"


def test_code_that_runs_is_found():
    watch = Watch()
    watch.on = True
    watch("os.system", ("true",))
    watch("exec", (compile("1", "<x>", "exec"),))
    assert len(watch.seen) == 2


@pytest.mark.parametrize(
    "act",
    [
        lambda folder: exec("1"),
        lambda folder: compile("1", "<text>", "exec"),
        lambda folder: os.system("true"),
        lambda folder: subprocess.run(["true"], check=True),
        lambda folder: __import__("this_is_no_module_at_all"),
        lambda folder: __import__("socket").socket().close(),
        lambda folder: __import__("ctypes").CDLL(None),
        lambda folder: (folder.parent / "outside").write_text(""),
        lambda folder: (folder / ".." / "outside").write_text(""),
        lambda folder: (folder / "link" / "outside").write_text(""),
        lambda folder: os.rename(folder / "inside", folder.parent / "outside"),
        lambda folder: os.mkdir(folder.parent / "new"),
    ],
)
def test_each_thing_that_no_data_may_do_is_seen(tmp_path, act):
    __import__("socket"), __import__("ctypes")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "inside").write_text("")
    (folder / "link").symlink_to(tmp_path)
    with forbidden(folder) as seen:
        try:
            act(folder)
        except ImportError:
            pass
    assert seen


def test_what_data_may_do_is_not_seen(tmp_path):
    (tmp_path / "there").write_text("")
    with forbidden(tmp_path) as seen:
        (tmp_path / "there").read_text()
        (tmp_path / "new").write_text("x")
        (tmp_path / "new").rename(tmp_path / "newer")
        (tmp_path / "newer").unlink()
        sorted(os.listdir("/"))
        Path(__file__).read_bytes()
    assert not seen


def test_the_same_seed_gives_the_same_files():
    for kind in fuzz_loaders.formats():
        one, other = ([data for _, data, _ in fuzz_loaders.mutations(kind, 3, 5)] for _ in range(2))
        assert one == other
        assert one != [data for _, data, _ in fuzz_loaders.mutations(kind, 4, 5)]
