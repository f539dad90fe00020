"""Datasets, samplers and collation."""

from collections import namedtuple

import numpy as np
import pytest

import facula
from facula.data import (
    BatchSampler,
    ConcatDataset,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    StackDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    default_convert,
    random_split,
)

Pair = namedtuple("Pair", "a b")


def test_datasets():
    rows = TensorDataset(facula.arange(6), facula.arange(6) * 2)
    assert [int(x) for x in rows[2]] == [2, 4] and len(rows) == 6
    both = ConcatDataset([range(3), range(10, 12)])
    assert [both[i] for i in range(5)] == [0, 1, 2, 10, 11] and both[-1] == 11
    stacked = StackDataset(x=range(3), y=range(3, 6))
    assert stacked[1] == {"x": 1, "y": 4} and stacked.__getitems__([0, 2])[1] == {"x": 2, "y": 5}
    part = Subset(range(10), [3, 5])
    assert list(part[i] for i in range(2)) == [3, 5] and part.__getitems__([1]) == [5]
    with pytest.raises(AssertionError, match="Size mismatch"):
        TensorDataset(facula.ones(2), facula.ones(3))


def test_random_split():
    generator = facula.Generator()
    generator.manual_seed(1)
    parts = random_split(range(10), [0.25, 0.75], generator=generator)
    assert [len(p) for p in parts] == [3, 7]
    assert sorted(i for p in parts for i in p.indices) == list(range(10))
    with pytest.raises(ValueError, match="Sum of input lengths"):
        random_split(range(10), [3, 3])


def test_samplers():
    assert list(SequentialSampler(range(3))) == [0, 1, 2]
    assert sorted(RandomSampler(range(5))) == list(range(5))
    assert len(list(RandomSampler(range(5), replacement=True, num_samples=70))) == 70
    assert len(list(RandomSampler(range(5), num_samples=12))) == 12
    for data, count in (([], None), ([1], 0), ([1], -1), ([1], 1.5)):
        with pytest.raises(ValueError, match="should be a positive integer value"):
            RandomSampler(data, num_samples=count)
    assert sorted(SubsetRandomSampler([4, 7, 9])) == [4, 7, 9]
    assert list(BatchSampler(range(5), 2, False)) == [[0, 1], [2, 3], [4]]
    assert list(BatchSampler(range(5), 2, True)) == [[0, 1], [2, 3]]
    drawn = list(WeightedRandomSampler([0.0, 1.0, 3.0], 400))
    assert 0 not in drawn and drawn.count(2) > drawn.count(1)
    with pytest.raises(ValueError, match="positive integer"):
        BatchSampler(range(5), 0, False)


def test_distributed_sampler():
    shares = [list(DistributedSampler(range(10), 3, rank, shuffle=False)) for rank in range(3)]
    assert shares == [[0, 3, 6, 9], [1, 4, 7, 0], [2, 5, 8, 1]]
    sampler = DistributedSampler(range(10), 3, 0, seed=1)
    first = list(sampler)
    sampler.set_epoch(1)
    assert first != list(sampler)
    dropped = [list(DistributedSampler(range(10), 3, r, drop_last=True)) for r in range(3)]
    assert all(len(d) == 3 for d in dropped)


def test_collate():
    batch = default_collate([{"x": 1, "y": (2.0, "a")}, {"x": 3, "y": (4.0, "b")}])
    assert batch["x"].tolist() == [1, 3] and batch["x"].dtype == facula.int64
    assert batch["y"][0].dtype == facula.float64 and batch["y"][1] == ("a", "b")
    pairs = default_collate([Pair(1, facula.ones(2)), Pair(2, facula.ones(2))])
    assert isinstance(pairs, Pair) and tuple(pairs.b.shape) == (2, 2)
    arrays = default_collate([np.ones((2, 3), "f4"), np.zeros((2, 3), "f4")])
    assert tuple(arrays.shape) == (2, 2, 3) and arrays.dtype == facula.float32
    assert default_collate([np.float32(1), np.float32(2)]).tolist() == [1.0, 2.0]


def test_collate_errors():
    with pytest.raises(RuntimeError, match="one shape"):
        default_collate([facula.ones(2), facula.ones(3)])
    for odd in (None, 1.0, object()):
        with pytest.raises(TypeError, match="entry 1"):
            default_collate([facula.ones(2), odd])
    with pytest.raises(RuntimeError, match="equal size"):
        default_collate([[1, 2], [1]])
    with pytest.raises(TypeError, match="found <class 'object'>"):
        default_collate([object()])


def test_convert():
    converted = default_convert({"a": np.ones(2), "b": [1, "x"]})
    assert isinstance(converted["a"], facula.Tensor) and converted["b"] == [1, "x"]
