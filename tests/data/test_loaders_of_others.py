"""What loaders of other packages take from PyTorch's: a base class, workers' parts, watched processes."""

import os
import queue
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import facula
from facula.data import fetch
from facula.data._utils import pin_memory, signal_handling, worker
from facula.data.dataloader import _BaseDataLoaderIter, _sharding_worker_init_fn
from facula.data.datapipes.datapipe import (
    _IterDataPipeSerializationWrapper,
    _MapDataPipeSerializationWrapper,
)
from facula.namespaces import switches
from facula.utils.data import DataLoader
from facula.utils.data.datapipes.iter import IterableWrapper
from facula.utils.data.datapipes.map import SequenceWrapper


class Counting(_BaseDataLoaderIter):
    """An iterator as other packages write them: a fetcher of its own, and a count."""

    def __init__(self, loader):
        super().__init__(loader)
        self._dataset_fetcher = facula.utils.data._DatasetKind.create_fetcher(
            self._dataset_kind,
            self._dataset,
            self._auto_collation,
            self._collate_fn,
            self._drop_last,
        )

    def _next_data(self):
        return self._dataset_fetcher.fetch(self._next_index())


class CountingLoader(DataLoader[int]):
    def _get_iterator(self):
        return Counting(self)


def test_an_iterator_of_another_package_runs_on_the_base_class():
    loader = CountingLoader(range(5), batch_size=2)
    walk = iter(loader)
    assert [batch.tolist() for batch in walk] == [[0, 1], [2, 3], [4]]
    assert (walk._num_yielded, walk._shared_seed, walk._world_size, walk._rank) == (3, None, 1, 0)
    assert (walk._pin_memory, walk._pin_memory_device) == (False, None)


def test_the_base_class_seeds_pipes_for_each_pass():
    def one(seed):
        generator = facula.Generator().manual_seed(seed)
        pipe = IterableWrapper(range(50)).shuffle()
        loader = CountingLoader(pipe, batch_size=None, shuffle=True, generator=generator)
        return [list(iter(loader)) for _ in range(2)]

    first, again, other = one(1), one(1), one(2)
    assert first == again and first != other and first[0] != first[1]


def test_an_iterable_dataset_keeps_its_iterator_where_states_look_for_it():
    reader = fetch.create_fetcher(fetch.DatasetKind.Iterable, iter([1, 2, 3]), True, list, False)
    assert next(reader.dataset_iter) == 1
    assert reader.fetch([None] * 5) == [2, 3] and reader.ended


class BeginsAgain(facula.utils.data.IterableDataset):
    """Gives itself as its iterator, and begins again whenever it is asked for one."""

    def __iter__(self):
        self.left = 5
        return self

    def __next__(self):
        if not self.left:
            raise StopIteration
        self.left -= 1
        return self.left


def test_an_iterable_dataset_is_asked_for_its_iterator_once():
    assert [b.tolist() for b in DataLoader(BeginsAgain(), batch_size=2)] == [[4, 3], [2, 1], [0]]
    assert [b.tolist() for b in DataLoader(BeginsAgain(), 2, drop_last=True)] == [[4, 3], [2, 1]]


@pytest.mark.parametrize("base", [0, 7, 2**32 - 1, 2**32, 1234567890123456789])
def test_words_for_numpy_are_a_seed_sequence_of_the_seed_and_the_worker(base):
    """The words come from the definition of the sequence, written out here."""
    for number in (0, 3):
        assert worker._generate_state(base, number) == seed_sequence([number, base & M, base >> 32])


M = 0xFFFFFFFF


def seed_sequence(entropy):
    """Four words of a pool of four [O'Neill, Developing a seed_seq alternative]."""
    constant = 0x43B0D7E5

    def scramble(value):
        nonlocal constant
        value ^= constant
        constant = constant * 0x931E8875 & M
        value = value * constant & M
        return value ^ value >> 16

    def mix(x, y):
        value = (x * 0xCA01F9DD - y * 0x4973F715) & M
        return value ^ value >> 16

    pool = [scramble(word) for word in [*entropy, 0][:4]]
    for source in range(4):
        for target in range(4):
            if source != target:
                pool[target] = mix(pool[target], scramble(pool[source]))
    constant, words = 0x8B51F9DD, []
    for value in pool:
        value ^= constant
        constant = constant * 0x58F38DED & M
        value = value * constant & M
        words.append(value ^ value >> 16)
    return words


class Draws:
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return int(np.random.randint(2**31))


def test_workers_draw_numpy_numbers_of_their_own():
    loader = DataLoader(Draws(), num_workers=2, generator=facula.Generator().manual_seed(3))
    walk = iter(loader)
    base, values = walk._base_seed, [int(v) for v in walk]
    expected = []
    for number in (0, 1):
        numbers = np.random.RandomState(seed_sequence([number, base & M, base >> 32]))
        expected.append([int(numbers.randint(2**31)) for _ in range(2)])
    assert values == [expected[0][0], expected[1][0], expected[0][1], expected[1][1]]


def test_shares_are_those_of_worker_and_rank(monkeypatch):
    pipe = IterableWrapper(range(12)).sharding_filter()
    info = worker.WorkerInfo(id=1, num_workers=2, seed=0, dataset=pipe)
    monkeypatch.setattr(worker, "_worker_info", info)
    called = []
    _sharding_worker_init_fn(called.append, 3, 2, 1)
    assert called == [1] and list(pipe) == [5, 11]  # number 1 * 3 + 2 of 2 * 3


def test_a_share_outside_of_a_worker_is_refused():
    with pytest.raises(RuntimeError, match="a worker process was required"):
        _sharding_worker_init_fn(None, 1, 0, 0)


def test_pipes_travel_as_bytes():
    import pickle

    pipe = _IterDataPipeSerializationWrapper(IterableWrapper([1, 2, 3]).map(float))
    there = pickle.loads(pickle.dumps(pipe))
    assert list(there) == [1.0, 2.0, 3.0] and len(there) == 3
    table = pickle.loads(pickle.dumps(_MapDataPipeSerializationWrapper(SequenceWrapper("abc"))))
    assert table[1] == "b" and len(table) == 3
    with pytest.raises(TypeError, match="valid length"):
        len(_IterDataPipeSerializationWrapper(IterableWrapper(iter([1])).filter(bool)))


def test_batches_are_pinned_by_a_thread_until_it_is_told_to_end():
    given, taken, ended = queue.Queue(), queue.Queue(), threading.Event()

    class Fails:
        def pin_memory(self):
            raise KeyError("no memory")

    loop = threading.Thread(
        target=pin_memory._pin_memory_loop, args=(given, taken, 0, ended, None), daemon=True
    )
    loop.start()
    given.put((0, {"x": [1, "a"]}))
    given.put((1, Fails()))
    assert taken.get(timeout=10) == (0, {"x": [1, "a"]})
    number, failure = taken.get(timeout=10)
    with pytest.raises(KeyError, match="in pin memory thread for device 0"):
        failure.reraise()
    ended.set()
    loop.join(10)
    assert number == 1 and not loop.is_alive()


@pytest.mark.parametrize(
    "end, message",
    [("os._exit(3)", "exit code 3"), ("os.kill(os.getpid(), 9)", "killed by signal: SIGKILL")],
)
def test_a_watched_process_that_ends_is_named(end, message):
    child = subprocess.Popen([sys.executable, "-c", f"import os; {end}"])
    signal_handling._set_worker_pids(17, (child.pid,))
    try:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        with pytest.raises(RuntimeError, match=rf"worker \(pid {child.pid}\).*{message}"):
            signal_handling._error_if_any_worker_fails()
        signal_handling._error_if_any_worker_fails()  # it is said once
        assert child.wait() != 0  # its exit code is still there
    finally:
        signal_handling._remove_worker_pids(17)


def test_a_watched_process_may_end_well():
    child = subprocess.Popen([sys.executable, "-c", ""])
    signal_handling._set_worker_pids(18, (child.pid,))
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    signal_handling._error_if_any_worker_fails()
    signal_handling._remove_worker_pids(18)
    assert child.wait() == 0
    with pytest.raises(ValueError, match="workers are watched"):
        signal_handling._remove_worker_pids(18)


def test_the_end_of_a_worker_interrupts_the_main_thread():
    program = """
import signal, subprocess, sys, time
from facula.utils.data import _utils
before = []
signal.signal(signal.SIGCHLD, lambda *a: before.append(a))
_utils.signal_handling._set_SIGCHLD_handler()
child = subprocess.Popen([sys.executable, "-c", "import time, os; time.sleep(0.3); os._exit(5)"])
_utils.signal_handling._set_worker_pids(1, (child.pid,))
try:
    time.sleep(60)
except RuntimeError as error:
    print("exit code 5" in str(error))
"""
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "True\n", done.stderr
    assert time.monotonic() - began < 40


def test_a_watchdog_sees_its_starter():
    dog = worker.ManagerWatchdog()
    assert dog.is_alive()
    dog.manager_pid += 1
    assert not dog.is_alive()


def test_persistent_workers_end_with_their_iterator():
    walk = iter(DataLoader(range(100), num_workers=2, persistent_workers=True))
    next(walk)
    workers = walk._workers
    del walk
    for process in workers:
        process.join(20)
        assert not process.is_alive() and process.exitcode in (0, -signal.SIGTERM)


def test_names_of_threads_are_the_system_s():
    def named():
        facula.multiprocessing._set_thread_name("reader-of-batches")
        seen.append(facula.multiprocessing._get_thread_name())

    seen = []
    thread = threading.Thread(target=named)
    thread.start()
    thread.join()
    assert seen in (["reader-of-batch"], [""])  # fifteen bytes, or a system that keeps none


def test_vital_signs_are_kept_where_the_environment_asks(monkeypatch):
    monkeypatch.setattr(switches, "_vitals", {})
    monkeypatch.delenv("TORCH_VITAL", raising=False)
    assert not facula.set_vital("Vitals of a test", "a", "1") and not facula.vitals_enabled()
    monkeypatch.setenv("TORCH_VITAL", "ON")
    assert facula.set_vital("Vitals of a test", "b", "2")
    assert "[TORCH_VITAL] Vitals of a test.b\t\t 2\n" in facula.read_vitals()
    assert "Vitals of a test.a" not in facula.read_vitals()


@pytest.mark.parametrize("kind", ["nested", "sparse"])
def test_samples_that_are_no_dense_tensors_want_a_function_of_their_own(kind):
    if kind == "nested":
        sample = facula.nested.nested_tensor([facula.ones(2), facula.ones(3)])
    else:
        sample = facula.eye(2).to_sparse()
    with pytest.raises(RuntimeError, match=f"{kind} tensors are not .* by the default collate_fn"):
        next(iter(DataLoader([sample])))
    assert next(iter(DataLoader([sample], collate_fn=list)))[0] is sample
