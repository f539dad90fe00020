"""The allocator's limits and statistics, numbers of threads, and processes that fork."""

import gc
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import facula
from facula import core

MIB = 1 << 20


def run(script, *arguments):
    result = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, timeout=120,
        env=os.environ | {"PYTHONPATH": ":".join(sys.path)},
    )  # fmt: skip
    assert result.returncode == 0, result.stderr[-1500:]
    return result.stdout


def test_statistics():
    gc.collect()
    core.empty_cache()  # memory of earlier tests would be used again
    before = core.memory_stats()
    core.reset_peak_memory()
    x = facula.zeros(4 * MIB, dtype=facula.uint8)
    during = core.memory_stats()
    assert during["allocated"] - before["allocated"] >= 4 * MIB
    assert during["live"] == before["live"] + 1 and during["allocations"] > before["allocations"]
    y = facula.zeros(8 * MIB, dtype=facula.uint8)
    del x, y
    after = core.memory_stats()
    assert after["allocated"] == before["allocated"] and after["live"] == before["live"]
    assert after["peak"] >= before["allocated"] + 12 * MIB
    core.reset_peak_memory()
    assert core.memory_stats()["peak"] == after["allocated"]


def test_freed_memory_is_used_again_and_given_back():
    core.empty_cache()
    x = facula.zeros(4 * MIB, dtype=facula.uint8)
    address = x.data_ptr()
    del x
    assert core.memory_stats()["cached"] >= 4 * MIB
    y = facula.empty(4 * MIB, dtype=facula.uint8)
    assert y.data_ptr() == address
    del y
    core.empty_cache()
    assert core.memory_stats()["cached"] == 0


LIMITED = """
import facula
from facula import core
MIB = 1 << 20
core.set_memory_limit(core.memory_stats()["allocated"] + 64 * MIB)
x = facula.zeros(40 * MIB, dtype=facula.uint8)
try:
    facula.zeros(40 * MIB, dtype=facula.uint8)
except facula.OutOfMemoryError as error:
    text = str(error)
    assert isinstance(error, RuntimeError)
    assert "[allocator] 40.00 MiB" in text and "hint:" in text and "in use" in text, text
else:
    raise SystemExit("the limit was passed")
assert x[:3].tolist() == [0, 0, 0]
del x
y = facula.zeros(60 * MIB, dtype=facula.uint8)  # what was cached is given back first
del y
a = [facula.zeros(8 * MIB, dtype=facula.uint8) for _ in range(6)]
del a
z = facula.zeros(60 * MIB, dtype=facula.uint8)
core.set_memory_limit(None)
w = facula.zeros(80 * MIB, dtype=facula.uint8)
print("done")
"""


def test_limit_and_pressure():
    assert run(LIMITED).strip() == "done"


CACHE = """
import facula
from facula import core
core.set_cache_limit(16 << 20)
tensors = [facula.zeros(8 << 20, dtype=facula.uint8) for _ in range(8)]
del tensors
assert core.memory_stats()["cached"] <= 16 << 20
print("done")
"""


def test_cache_limit():
    assert run(CACHE).strip() == "done"


@pytest.mark.parametrize("shape", [(2**40,), (2**20, 2**20, 2**10), (2**62,), (2**40, 2**40)])
def test_impossible_sizes(shape):
    before = core.memory_stats()["live"]
    with pytest.raises(RuntimeError, match=r"^\[.*required"):
        facula.empty(shape)
    with pytest.raises(RuntimeError):
        facula.ones(1).expand(2**50).contiguous()
    assert core.memory_stats()["live"] == before
    assert facula.empty(2**40, device="meta").numel() == 2**40


def test_number_of_threads():
    threads = facula.get_num_threads()
    x = facula.randn(400_003, dtype=facula.float64)
    results = []
    try:
        for count in (1, 2, 3):
            facula.set_num_threads(count)
            assert facula.get_num_threads() == count
            results.append(
                (x.exp(), x.sum(), x.view(1, -1).softmax(1), x.cumsum(0), x.sort().values)
            )
    finally:
        facula.set_num_threads(threads)
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12, atol=1e-9)
    for wrong in (0, -1):
        with pytest.raises(RuntimeError, match="positive"):
            facula.set_num_threads(wrong)


def test_python_threads_compute_at_once():
    inputs = [facula.randn(200_000, dtype=facula.float64) for _ in range(4)]
    expected = [float(np.sin(x.numpy()).sum()) for x in inputs]
    actual = [[] for _ in inputs]

    def work(i):
        for _ in range(10):
            actual[i].append(inputs[i].sin().sum().item())

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for values, value in zip(actual, expected, strict=True):
        assert len(values) == 10 and values == pytest.approx([value] * 10, rel=1e-9)


FORK = """
import os, sys, facula
facula.set_num_threads(4)
x = facula.ones(1_000_000)
w = facula.ones(300, 300, requires_grad=True)
assert x.exp().sum().item() > 0 and (w @ w).sum().item() > 0   # the pool is used before the fork
children = []
for number in range(3):
    pid = os.fork()
    if pid == 0:
        try:
            total = (x * (number + 1)).sum().item()
            (w @ w).sum().backward()
            good = total == 1_000_000 * (number + 1) and w.grad[0, 0].item() == 600
            grandchild = os.fork()
            if grandchild == 0:
                os._exit(0 if (x + 1).sum().item() == 2_000_000 else 3)
            good = good and os.waitpid(grandchild, 0)[1] == 0
            os._exit(0 if good else 1)
        except BaseException as error:
            print(error, file=sys.stderr)
            os._exit(2)
    children.append(pid)
codes = [os.waitpid(pid, 0)[1] for pid in children]
assert codes == [0, 0, 0], codes
assert x.sum().item() == 1_000_000
print("done")
"""


def test_fork_after_the_pool_was_used():
    assert run(FORK).strip() == "done"


SPAWNED = """
import facula, threading
x = facula.ones(2_000_000)
stop = False
def churn():
    while not stop:
        (x + 1).sum()
threads = [threading.Thread(target=churn, daemon=True) for _ in range(3)]
[t.start() for t in threads]
import time
time.sleep(0.3)
print("done", flush=True)
"""


def test_leaving_while_threads_compute():
    """The interpreter may end while daemon threads are inside kernels."""
    assert run(SPAWNED).strip() == "done"
