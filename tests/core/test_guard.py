"""Guarded memory: what reads or writes outside of a block ends the process with the block's name."""

import os
import re
import signal
import subprocess
import sys

import pytest

PRELUDE = """
import ctypes, gc, os, sys
import facula
from facula import core
def peek(address): return ctypes.c_char.from_address(address).value
def poke(address): ctypes.c_char.from_address(address).value = 7
"""


def run(script, mode):
    environment = {**os.environ, "PYTHONPATH": ":".join(sys.path), "FACULA_GUARD": mode}
    return subprocess.run(
        [sys.executable, "-c", PRELUDE + script],
        env=environment, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


FAULTS = {
    "read behind": ("peek(x.data_ptr() + 20)", "1", r"read at \w+, 0 bytes behind the end of a storage of 20 b"),
    "write behind": ("poke(x.data_ptr() + 27)", "end", r"write at \w+, 7 bytes behind the end of a storage of 20 b"),
    "read before": ("peek(x.data_ptr() - 1)", "begin", r"read at \w+, 1 bytes before the begin of a storage of 20 b"),
    "read of freed memory": (
        "p = x.data_ptr(); del x; y = [facula.ones(5) for _ in range(50)]; peek(p + 4)",
        "1",
        r"read at \w+, at byte 4 of a storage of 20 bytes at \w+, freed before, by the instruction at ",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_names_the_block(name):
    statement, mode, pattern = FAULTS[name]
    result = run(f"x = facula.ones(5)\n{statement}\n", mode)
    assert result.returncode == -signal.SIGSEGV
    lines = [line for line in result.stderr.splitlines() if line.startswith("facula:")]
    assert len(lines) == 1 and re.match(r"facula: \[guard\] " + pattern, lines[0]), result.stderr


@pytest.mark.parametrize("mode,place", [("1", "x.data_ptr() - 3"), ("begin", "x.data_ptr() + 22")])
def test_damage_is_found_by_check_heap_and_when_freed(mode, place):
    script = f"""
x = facula.ones(5)
before = core.check_heap()
assert before > 0 and core.unguarded_blocks() == 0
poke({place})
try:
    core.check_heap()
except RuntimeError as error:
    print(error)
del x
print("not reached")
"""
    result = run(script, mode)
    side = "3 bytes before the begin" if mode == "1" else "2 bytes behind the end"
    said = rf"a byte was written {side} of a storage of 20 bytes at \w+: it holds 0x07"
    assert re.search(rf"\[check_heap\] .* got that {said}\nhint: ", result.stdout), result.stdout
    assert "not reached" not in result.stdout
    assert re.search(rf"facula: \[guard\] {said} \(seen when freed\)", result.stderr)
    assert result.returncode == -signal.SIGABRT


def test_a_thread_of_the_pool_tells_its_fault():
    script = """
facula.set_num_threads(2)
x = facula.ones(1 << 20)
library = ctypes.CDLL(None)
whole = facula.frombuffer((ctypes.c_char * (8 << 20)).from_address(x.data_ptr()), dtype=facula.float32)
whole.fill_(1.0)
"""
    result = run(script, "1")
    assert result.returncode == -signal.SIGSEGV
    assert re.search(r"\[guard\] write at .* behind the end of a storage of 4194304", result.stderr)


@pytest.mark.parametrize("mode", ["1", "begin"])
def test_programs_run_as_without(mode):
    script = """
facula.manual_seed(0)
model = facula.nn.Sequential(facula.nn.Linear(9, 33), facula.nn.GELU(), facula.nn.Linear(33, 3))
optimizer = facula.optim.AdamW(model.parameters(), lr=1e-2)
x, target = facula.randn(31, 9), facula.randint(0, 3, (31,))
losses = []
for _ in range(40):
    optimizer.zero_grad()
    loss = facula.nn.functional.cross_entropy(model(x), target)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
storage = x.untyped_storage()
x.resize_(100, 9)
gc.collect()
if os.environ["FACULA_GUARD"] != "0":
    assert core.check_heap() > 10
print(losses)
"""
    guarded, plain = run(script, mode), run(script, "0")
    assert guarded.returncode == 0, guarded.stderr
    assert guarded.stdout == plain.stdout and plain.stdout


def test_without_the_setting_the_heap_is_checked_only():
    result = run("print(core.check_heap(), core.unguarded_blocks())", "0")
    assert result.stdout == "0 0\n"


def test_an_unknown_mode_is_refused():
    result = run("", "yes")
    assert "ValueError: [FACULA_GUARD] 0, 1, end or begin was required: got 'yes'" in result.stderr
    assert "hint: " in result.stderr and result.returncode == 1
