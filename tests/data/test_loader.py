"""The loader: order, workers, failures, and how batches travel."""

import multiprocessing
import os
import signal
import time

import numpy as np
import pytest

import facula
from facula.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    TensorDataset,
    get_worker_info,
    transport,
)


class Samples(Dataset):
    def __init__(self, n=24):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return {
            "image": facula.full((8, 8), float(i)),
            "label": i,
            "array": np.full((300,), i, dtype="f4"),
            "half": facula.full((3,), float(i)).bfloat16(),
            "name": str(i),
        }


class Stream(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        yield from range(first, 20, step)


class Fails(Samples):
    def __init__(self, error):
        super().__init__()
        self.error = error

    def __getitem__(self, i):
        if i == 5:
            raise self.error
        return i


class Dies(Samples):
    def __getitem__(self, i):
        if i == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        return i


class Sleeps(Samples):
    def __getitem__(self, i):
        if i == 0:
            time.sleep(1.0)
        return i


class Lambdas(Samples):
    def __getitem__(self, i):
        return lambda: i


def check(batches):
    assert [int(y) for b in batches for y in b["label"]] == list(range(24))
    assert float(batches[2]["image"][1].mean()) == 9.0
    assert float(batches[5]["array"][3, 5]) == 23.0
    assert batches[1]["half"].dtype == facula.bfloat16 and float(batches[1]["half"][0, 0]) == 4.0
    assert batches[0]["name"] == ["0", "1", "2", "3"]


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_same_batches_with_any_number_of_workers(workers):
    check(list(DataLoader(Samples(), batch_size=4, num_workers=workers)))


@pytest.mark.parametrize(
    "sources",
    [[transport._shared_directory], [transport._temporary_directory], []],
    ids=["shm", "file", "socket"],
)
def test_other_ways_to_travel(sources, monkeypatch):
    monkeypatch.setattr(transport, "BLOCK_SOURCES", sources)
    check(list(DataLoader(Samples(), batch_size=4, num_workers=2)))
    rows = facula.arange(8 * 4096).reshape(8, 4096)  # large enough for a block
    batches = list(DataLoader(TensorDataset(rows), batch_size=4, num_workers=2))
    assert facula.cat([batch[0] for batch in batches]).equal(rows)


def test_full_shared_memory_takes_another_way(monkeypatch):
    def full(size):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(transport, "BLOCK_SOURCES", [full, full])
    check(list(DataLoader(Samples(), batch_size=4, num_workers=2)))


@pytest.mark.parametrize("others", [[], [transport._memfd]], ids=["socket", "next"])
def test_room_that_runs_out_while_a_batch_is_written(others, monkeypatch):
    asked = multiprocessing.Value("i", 0)

    def full(size):
        asked.value += 1
        return os.open("/dev/full", os.O_RDWR)  # takes the descriptor, and has no room

    monkeypatch.setattr(transport, "BLOCK_SOURCES", [full, *others])
    rows = facula.arange(8 * 4096).reshape(8, 4096)
    batches = list(DataLoader(TensorDataset(rows), batch_size=4, num_workers=2))
    assert facula.cat([batch[0] for batch in batches]).equal(rows)
    assert asked.value == 2


class Turned(Dataset):
    """Large samples that do not lie in a row, and numbers of other kinds."""

    def __len__(self):
        return 3

    def __getitem__(self, i):
        plain = facula.arange(128 * 96).reshape(128, 96) + i
        return {
            "turned": plain.t(),
            "step": plain[::2, 1::3],
            "conj": facula.complex(plain.double(), -plain.double()).conj(),
            "half": plain.to(facula.bfloat16),
            "array": plain.numpy()[::-1],
            "none": plain[:0],
        }


def test_samples_of_any_layout_travel():
    samples = Turned()
    for i, got in enumerate(DataLoader(samples, batch_size=None, num_workers=2)):
        wanted = samples[i]
        assert got["array"].equal(facula.as_tensor(wanted.pop("array").copy()))
        assert all(facula.equal(got[name], value) for name, value in wanted.items())


def test_batches_can_be_written_to():
    (batch,) = DataLoader(TensorDataset(facula.ones(4, 4096)), batch_size=4, num_workers=1)
    batch[0].add_(1)
    assert float(batch[0].sum()) == 2 * 4 * 4096


def test_iterable_dataset():
    batches = list(DataLoader(Stream(), batch_size=4, num_workers=2))
    assert sorted(int(x) for b in batches for x in b) == list(range(20))
    assert len(list(DataLoader(Stream(), batch_size=3, drop_last=True))) == 6


def test_shuffle_depends_on_the_generator():
    def order(seed):
        generator = facula.Generator()
        generator.manual_seed(seed)
        loader = DataLoader(range(20), shuffle=True, generator=generator)
        return [int(x) for x in loader]

    assert order(1) == order(1) != order(2)
    assert sorted(order(3)) == list(range(20))


@pytest.mark.parametrize("error", [KeyError("five"), ValueError("five"), OSError(5, "five")])
def test_exceptions_keep_their_type_and_traceback(error):
    with pytest.raises(type(error)) as info:
        list(DataLoader(Fails(error), num_workers=2))
    text = str(info.value)
    assert "in DataLoader worker process" in text and "in __getitem__" in text


def test_killed_worker_is_named_at_once():
    start = time.monotonic()
    with pytest.raises(RuntimeError, match=r"\(pid \d+\) is killed by signal: SIGKILL"):
        list(DataLoader(Dies(), num_workers=2))
    assert time.monotonic() - start < 5


def test_timeout():
    with pytest.raises(RuntimeError, match=r"timed out after 0.2 seconds"):
        list(DataLoader(Sleeps(), num_workers=1, timeout=0.2))


def test_what_cannot_be_pickled_is_an_error_here():
    loader = DataLoader(Lambdas(), num_workers=1, collate_fn=lambda batch: batch)
    with pytest.raises((AttributeError, RuntimeError, TypeError), match="worker process|pickle"):
        list(loader)


def test_persistent_workers_stay():
    loader = DataLoader(
        Samples(8), batch_size=2, num_workers=2, persistent_workers=True, shuffle=True
    )
    pids = []
    for _ in range(3):
        labels = [int(y) for b in loader for y in b["label"]]
        assert sorted(labels) == list(range(8))
        pids.append([w.pid for w in loader._iterator._workers])
    assert pids[0] == pids[1] == pids[2]
    next(iter(loader))
    assert len(list(loader)) == 4  # a pass that was left half way does not disturb the next


def test_processes_end_with_the_iterator():
    iterator = iter(DataLoader(Samples(), num_workers=2))
    next(iterator)
    processes = iterator._workers
    del iterator
    assert not any(p.is_alive() for p in processes)


def test_out_of_order():
    loader = DataLoader(Sleeps(6), num_workers=2, in_order=False)
    labels = [int(x) for x in loader]
    assert sorted(labels) == list(range(6)) and labels[0] != 0


def test_worker_info_and_init_function():
    class Info(Samples):
        def __getitem__(self, i):
            info = get_worker_info()
            return info.id, info.num_workers, self.mark

    def init(worker_id):
        get_worker_info().dataset.mark = 10 + worker_id

    loader = DataLoader(Info(4), num_workers=2, worker_init_fn=init)
    seen = sorted(tuple(int(v) for v in b) for b in loader)
    assert seen == [(0, 2, 10), (0, 2, 10), (1, 2, 11), (1, 2, 11)]
    assert get_worker_info() is None


def test_workers_draw_different_numbers():
    class Draws(Samples):
        def __getitem__(self, i):
            return facula.rand(1)

    values = [float(b) for b in DataLoader(Draws(4), num_workers=2)]
    assert len(set(values)) == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_workers": -1}, "non-negative"),
        ({"prefetch_factor": 2}, "num_workers > 0"),
        ({"persistent_workers": True}, "num_workers > 0"),
        ({"batch_size": None, "drop_last": True}, "mutually exclusive"),
        ({"batch_sampler": [[0]], "shuffle": True}, "mutually exclusive"),
        ({"sampler": [0], "shuffle": True}, "mutually exclusive"),
        ({"multiprocessing_context": "fork"}, "num_workers > 0"),
    ],
)
def test_errors(options, message):
    with pytest.raises(ValueError, match=message):
        DataLoader(Samples(), **options)


def test_attributes_are_fixed():
    loader = DataLoader(Samples())
    with pytest.raises(ValueError, match="should not be set"):
        loader.batch_size = 3


def test_length():
    assert len(DataLoader(Samples(10), batch_size=3)) == 4
    assert len(DataLoader(Samples(10), batch_size=3, drop_last=True)) == 3
