"""Storages that are resized or replaced: tensors go where their bytes go, and what a running launch uses lives on.

The stress runs in child processes with guarded memory, where a read of freed memory ends the process.
"""

import gc
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import facula
from facula import core

MIB = 1 << 20

STRESS = """
import faulthandler, gc, os, sys, threading, time
import facula
from facula import core
faulthandler.dump_traceback_later(100, exit=True)
facula.set_num_threads(2)
N = 300_000
stop = time.monotonic() + 1.0
faults = []

def turns(work):
    while time.monotonic() < stop:
        try:
            work()
        except RuntimeError as error:       # a size that does not fit just now
            if "required" not in str(error):
                faults.append(error)

def race(change, *works):
    threads = [threading.Thread(target=turns, args=(work,)) for work in (change, *works)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
"""

CHANGES = {
    "resize_ of the storage": """
x = facula.ones(4)
size = [4 * N]
def change():
    size[0] = size[0] + 40_000 if size[0] < 40 * N else 0
    x.untyped_storage().resize_(0)
    x.untyped_storage().resize_(max(size[0], 4 * N))
change()
""",
    "resize_ of the tensor": """
x = facula.ones(4)
def change():
    for n in range(1, 6):
        x.resize_(n * N)
    x.set_(facula.ones(N).untyped_storage(), 0, (N,), (1,))
change()
""",
    "set_ and .data": """
x = facula.ones(N)
def change():
    x.data = facula.ones(N)
    x.set_(facula.ones(N).untyped_storage(), 0, (N,), (1,))
""",
    "out=": """
x = facula.ones(N)
def change():
    x.resize_(0)
    x.data = facula.empty(0)
    for n in (N, 2 * N, 3 * N):
        x.resize_(0)
        facula.add(facula.ones(n), 1, out=x)
""",
}

LAUNCHES = """
out = facula.empty(N)
compiled = facula.compile(lambda a: (a.sin() + a).sum(), dynamic=True)
def whole():
    y = x.detach()
    return y[:N] if y.numel() >= N else facula.ones(N)
works = (
    lambda: (facula.add(whole(), 1, out=out), whole().exp(), whole().sum(), whole().clone()),
    lambda: (whole()[::2].contiguous(), whole().view(100, -1).softmax(1), whole().fill_(1)),
    lambda: (whole().view(500, -1) @ whole().view(-1, 500), whole().normal_(), whole().view(100, -1).sort()),
    lambda: (whole().mul_(0).add_(1), whole().cumsum(0), whole().double(), whole()[1:].copy_(whole()[:-1])),
    lambda: (x.add(1), x.sum(), x.sin_(), x.zero_(), x.copy_(x.detach() + 1), compiled(whole())),
)
race(change, *works)
assert not faults, faults
del x, out, whole, works
gc.collect()
print(core.memory_stats()["live"], "storages at the end")
"""


@pytest.mark.parametrize("guard", ["0", "1"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_launch_keeps_the_memory_that_it_began_with(change, guard):
    result = subprocess.run(
        [sys.executable, "-c", STRESS + CHANGES[change] + LAUNCHES],
        env=os.environ | {"PYTHONPATH": ":".join(sys.path), "FACULA_GUARD": guard},
        capture_output=True, text=True, timeout=180,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr[-3000:]
    assert "storages at the end" in result.stdout


LISTS = """
parts = [facula.ones(N), facula.ones(N)]
def change():
    parts[:] = [facula.ones(N), facula.ones(N)]
    gc.collect(0)
race(change, *[lambda: (facula.cat(parts), facula.stack(parts), facula.vstack(parts))] * 3)
assert not faults, faults
print("done")
"""


def test_tensors_taken_from_a_list_live_as_long_as_the_call_with_it():
    result = subprocess.run(
        [sys.executable, "-c", STRESS + LISTS],
        env=os.environ | {"PYTHONPATH": ":".join(sys.path), "FACULA_GUARD": "1"},
        capture_output=True, text=True, timeout=180,
    )  # fmt: skip
    assert result.returncode == 0 and "done" in result.stdout, result.stderr[-3000:]


GIVEN_BACK = """
x = facula.ones(N)
before = core.memory_stats()["live"]
most = changes = 0
def change():
    global most, changes
    x.data = facula.ones(N)
    changes += 1
    most = max(most, core.memory_stats()["live"])
    time.sleep(0.001)
works = [lambda: x.exp().sum()] * 3
race(change, *works)
assert not faults, faults
assert most - before < 20 + changes // 4, (before, most, changes)    # though some launch runs at every moment
facula.ones(N).exp()                          # the end of a launch gives back what waits
assert core.memory_stats()["live"] <= before + 2, (before, core.memory_stats()["live"])
if (pid := os.fork()) == 0:                    # launches of threads that the child has not
    x.data = facula.ones(N)
    os._exit(core.memory_stats()["live"] > before + 2)
assert os.waitpid(pid, 0)[1] == 0
print("done")
"""


def test_what_was_given_up_is_given_back_while_others_launch_without_a_pause():
    result = subprocess.run(
        [sys.executable, "-c", STRESS + GIVEN_BACK],
        env=os.environ | {"PYTHONPATH": ":".join(sys.path)},
        capture_output=True, text=True, timeout=180,
    )  # fmt: skip
    assert result.returncode == 0 and "done" in result.stdout, result.stderr[-3000:]


FORKED = """
x = facula.ones(N)
stop = time.monotonic() + 1.0
threads = [threading.Thread(target=turns, args=(lambda: x.exp(),)) for _ in range(3)]
[thread.start() for thread in threads]
for _ in range(5):
    if (pid := os.fork()) == 0:
        y = facula.ones(N)
        before = core.memory_stats()["live"]
        for _ in range(20):
            y.data = facula.ones(N)
            y.exp()
        os._exit(core.memory_stats()["live"] > before + 2)
    assert os.waitpid(pid, 0)[1] == 0
[thread.join() for thread in threads]
print("done")
"""


def test_a_forked_child_does_not_wait_for_launches_of_threads_that_it_has_not():
    result = subprocess.run(
        [sys.executable, "-c", STRESS + FORKED],
        env=os.environ | {"PYTHONPATH": ":".join(sys.path)},
        capture_output=True, text=True, timeout=180,
    )  # fmt: skip
    assert result.returncode == 0 and "done" in result.stdout, result.stderr[-3000:]


def test_all_tensors_on_a_storage_go_where_its_bytes_go():
    x = facula.arange(10.0)
    view, alias, root, storage = x[2:5], x.detach(), x.view(2, 5), x.untyped_storage()
    for step, count in enumerate((20_000, 400_000, 3_000_000)):
        storage.resize_(4 * count)
        assert view.storage_offset() == 2 and view.data_ptr() == storage.data_ptr() + 8
        facula.empty(0).set_(storage, 0, (count,), (1,)).fill_(step)
        for seen in (x, view, alias, root):
            assert set(seen.flatten().tolist()) == {float(step)}
        view.fill_(-1.0)
        assert x.tolist() == [step] * 2 + [-1.0] * 3 + [step] * 5


def test_views_follow_a_tensor_that_grows():
    x = facula.zeros(4)
    view = x[1:3]
    for count in (100_000, 400_000):
        x.resize_(count).fill_(count)
        assert view.tolist() == [count, count]
    grown = facula.zeros(2)
    part = grown[:1]
    facula.arange(50_000, out=grown.resize_(0))
    assert grown[49_999].item() == 49_999 and part.tolist() == [0.0]
    gc.freeze()
    try:
        grown.resize_(1_000_000).fill_(3)
        assert part.tolist() == [3.0]  # of objects that Python's collector does not show
    finally:
        gc.unfreeze()


def test_bytes_on_loan_outlive_a_resize():
    x = facula.zeros(4)
    x.resize_(100_000).fill_(2)
    seen = core.bytes_of(x.untyped_storage())
    x.resize_(2_000_000).fill_(3)
    held = [facula.full((100_000,), 7.0) for _ in range(4)]
    assert np.frombuffer(seen, np.float32).max() == 2.0 and len(held) == 4
    live = core.memory_stats()["live"]
    seen.release()
    assert core.memory_stats()["live"] == live - 1


def test_shared_storages_refuse_another_size():
    x = facula.zeros(4).share_memory_()
    with pytest.raises(RuntimeError, match="not resizable"):
        x.resize_(1000)


#: what else gives up the GIL: it waits in memory of its own, and takes no pointer of a tensor
WAITS = {
    "meeting.pxi": [
        "came = fk_meeting_wait(self.lines, self.size, self.step, limit, self.waited == self.step)"
    ]
}


def test_every_launch_without_the_gil_is_counted():
    """`launches.pxi` alone gives up the GIL for kernels, and counts around it."""
    sources = Path(core.__file__).parent
    for source in sorted(sources.rglob("*.pxi")):
        if source.name != "launches.pxi":
            found = re.findall(r"with nogil:\s*(.+)", source.read_text())
            assert found == WAITS.get(source.name, []), source.name
    text = (sources / "dispatch" / "launches.pxi").read_text()
    functions = re.split(r"\n(?=cdef )", text)
    launching = [f for f in functions if "with nogil" in f]
    assert len(launching) > 5
    for function in launching:
        assert "phase = fk_launch_begin()\n    with nogil:" in function
        assert "\n    fk_launch_end(phase)\n" in function
