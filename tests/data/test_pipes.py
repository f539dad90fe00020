"""Pipes: steps are methods, values come one by one, workers share them, wrong uses are named."""

import pickle

import pytest

from facula.utils.data import (
    DataLoader,
    IterDataPipe,
    datapipes,
    functional_datapipe,
    guaranteed_datapipes_determinism,
    non_deterministic,
)

wrap = datapipes.iter.IterableWrapper
sequence = datapipes.map.SequenceWrapper


def test_steps():
    pipe = wrap(range(10)).map(lambda x: 2 * x).filter(lambda x: x % 4 == 0).batch(2)
    assert list(pipe) == list(pipe) == [[0, 4], [8, 12], [16]]
    assert len(wrap(range(10)).batch(3)) == 4 and len(wrap(range(10)).batch(3, drop_last=True)) == 3
    assert list(wrap([[1, [2]], [3]]).unbatch(-1)) == [1, 2, 3]
    assert list(wrap([(1, 2), (3, 4)]).map(lambda a: -a, input_col=1)) == [(1, -2), (3, -4)]
    assert list(wrap([(1, 2)]).map(lambda a, b: a + b, input_col=[0, 1], output_col=-1)) == [
        (1, 2, 3)
    ]
    batches = list(wrap([1.0, 2.0]).batch(2).collate())
    assert batches[0].tolist() == [1.0, 2.0]


def test_several_pipes():
    assert list(wrap(range(2)).concat(wrap("ab"))) == [0, 1, "a", "b"]
    assert list(wrap(range(2)).zip(wrap("ab"))) == [(0, "a"), (1, "b")]
    assert list(wrap(range(2)).mux(wrap("ab"))) == [0, "a", 1, "b"]
    first, second = wrap(range(3)).fork(2)
    assert list(first) == list(second) == [0, 1, 2] and list(first) == [0, 1, 2]
    even, odd = wrap(range(5)).demux(2, lambda x: x % 2)
    assert list(even) == [0, 2, 4] and list(odd) == [1, 3]
    groups = wrap(range(5)).groupby(lambda x: x % 2, group_size=2)
    assert sorted(list(groups)) == [[0, 2], [1, 3], [4]]
    with pytest.raises(BufferError, match=r"^\[fork\].*overflow"):
        left, right = wrap(range(9)).fork(2, buffer_size=3)
        list(left)


def test_random_order():
    pipe = wrap(range(50)).shuffle(buffer_size=10)
    assert sorted(pipe) == list(range(50))
    assert list(pipe.set_seed(3)) == list(pipe.set_seed(3)) != list(pipe.set_seed(4))
    assert list(pipe.set_shuffle(False)) == list(range(50))
    assert sorted(sequence(range(9)).shuffle()) == list(range(9))


def test_indexed():
    pipe = sequence(range(5)).map(lambda x: x + 1).concat(sequence([10])).batch(4)
    assert [pipe[i] for i in range(len(pipe))] == [[1, 2, 3, 4], [5, 10]]
    assert sequence({"a": 1}).zip(sequence({"a": 2}))["a"] == (1, 2)
    with pytest.raises(IndexError, match=r"^\[batch\]"):
        pipe[2]


def test_workers_share_the_values():
    loader = DataLoader(wrap(range(8)).sharding_filter(), batch_size=None, num_workers=2)
    assert sorted(int(x) for x in loader) == list(range(8))
    alone = wrap(range(8)).sharding_filter()
    alone.apply_sharding(3, 1)
    assert list(alone) == [1, 4, 7] and len(alone) == 3


def test_one_iterator_at_a_time():
    pipe = wrap(range(4))
    old = iter(pipe)
    next(old)
    next(iter(pipe))
    with pytest.raises(RuntimeError, match="invalidated because another iterator"):
        next(old)
    assert list(pickle.loads(pickle.dumps(pipe))) == [0, 1, 2, 3]


def test_steps_of_ones_own():
    @functional_datapipe("times")
    class Times(IterDataPipe):
        def __init__(self, source, factor):
            self.source, self.factor = source, factor

        def __iter__(self):
            for value in self.source:
                yield value * self.factor

    assert list(wrap([1, 2]).times(3)) == [3, 6]
    with pytest.raises(Exception, match="already taken"):
        functional_datapipe("times")(Times)
    with guaranteed_datapipes_determinism(), pytest.raises(TypeError, match="non-deterministic"):
        non_deterministic(Times)(wrap([1]), 2)
