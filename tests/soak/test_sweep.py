"""The sweep: a crash, damage and an exception that nobody meant are told with their case, and the others run."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

PLANTED = """
import ctypes, time
import facula

NAMES, DTYPES = ["good", "reads", "damages", "asserts", "refuses"], ["float32"]
kept = []

def good():
    assert (facula.ones(3) + 1).tolist() == [2, 2, 2]

def reads():
    x = facula.ones(3)
    ctypes.c_char.from_address(x.data_ptr() + 12).value

def damages():
    kept.append(facula.ones(3))
    ctypes.c_char.from_address(kept[-1].data_ptr() - 1).value = 1

def asserts():
    assert not facula.ones(1).numel(), "planted"

def refuses():
    facula.ones(3) + facula.ones(2)

def cases(name, dtype, seed, guesses):
    for number in range(3):
        wrong = number == 1 and name != "good"
        yield f"case {number} of {name}", globals()[name] if wrong else good
"""


def sweep(*arguments, folder=None, **variables):
    environment = {**os.environ, **variables}
    environment["PYTHONPATH"] = os.pathsep.join([str(folder), *sys.path])
    return subprocess.run(
        [sys.executable, str(ROOT / "tools" / "sweep.py"), *arguments],
        capture_output=True, text=True, timeout=240, env=environment,
    )  # fmt: skip


def isa():
    from facula.runtime import cpu_features

    return cpu_features.detected()


def test_planted_faults_are_told_and_the_rest_runs(tmp_path):
    (tmp_path / "planted.py").write_text(PLANTED)
    result = sweep("--module", "planted", "--isa", isa(), folder=tmp_path)
    out = result.stdout
    assert result.returncode == 1, out + result.stderr
    assert "crash: reads float32 case 1" in out and "case 1 of reads" in out
    assert "[guard] read at" in out and "0 bytes behind the end of a storage of 12 bytes" in out
    assert "damage: damages float32" in out and "1 bytes before the begin of a storage" in out
    assert (
        "exception: asserts float32 case 1" in out and "AssertionError planted (planted.py:" in out
    )
    assert "refuses" not in out
    assert "1 crashes, 1 damaged, 1 foreign exceptions" in out


def test_a_few_operators_have_no_fault():
    result = sweep("--isa", isa(), "--only", "add", "sort", "--dtypes", "float32", "int16")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "faults: 0 crashes, 0 damaged, 0 foreign exceptions" in result.stdout
    done = int(result.stdout.split(" done")[0].split()[-1])
    assert done > 300
