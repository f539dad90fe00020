"""Pipes: steps are methods, values come one by one, workers share them, wrong uses are named."""

import pickle

import pytest

import facula
from facula.utils.data import (
    DataLoader,
    IterDataPipe,
    datapipes,
    functional_datapipe,
    graph,
    graph_settings,
    guaranteed_datapipes_determinism,
    non_deterministic,
)
from facula.utils.data.datapipes.utils import decoder

pytestmark = pytest.mark.filterwarnings("ignore:Lambda function", "ignore:Local function")
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


def test_an_iterator_of_ones_own_class_counts_and_ends():
    class Numbers(IterDataPipe):
        def __init__(self):
            self.values = iter(range(4))

        def __iter__(self):
            return self

        def __next__(self):
            return next(self.values)

        def reset(self):
            self.values = iter(range(4))

    pipe = Numbers()
    old = iter(pipe)
    assert [next(old), next(old)] == [0, 1] and pipe._number_of_samples_yielded == 2
    assert list(pipe) == [0, 1, 2, 3] and pipe._number_of_samples_yielded == 4
    with pytest.raises(RuntimeError, match="This iterator has been invalidated"):
        next(old)


def test_an_error_names_its_pipe():
    def broken(value):
        raise KeyError("sample")

    with pytest.raises(KeyError) as caught:
        list(wrap([1]).map(broken).batch(2))
    (note,) = caught.value.__notes__
    assert "thrown by __iter__ of MapperIterDataPipe(" in note and "fn=broken" in note


def test_what_does_not_fit_in_the_buffer_is_not_lost():
    first, second = wrap(range(6)).fork(2, buffer_size=2)
    ahead = iter(first)
    assert [next(ahead), next(ahead)] == [0, 1]
    with pytest.raises(BufferError, match="buffer size 2 is insufficient"):
        next(ahead)
    behind = iter(second)
    assert [next(behind) for _ in range(4)] == [0, 1, 2, 3]
    low, high = wrap(range(4)).demux(2, lambda x: x // 2, buffer_size=1)
    values = iter(high)
    with pytest.raises(BufferError):
        next(values)
    assert [next(iter(low)), low._number_of_samples_yielded] == [0, 1]


def test_branches_begin_together():
    first, second = wrap(range(3)).fork(2)
    assert list(first) == list(second)
    with pytest.warns(UserWarning, match="child DataPipes are not exhausted"):
        values = iter(first), iter(second), iter(first)
    with pytest.raises(RuntimeError, match="one of the ChildDataPipes"):
        next(values[0])
    assert list(values[2]) == list(second) == [0, 1, 2]


def test_columns():
    rows = wrap([{"x": 1, "y": 2}])
    assert list(rows.map(lambda a, b: a - b, ["y", "x"])) == [{"y": 1}]
    assert list(rows.map(str, "x", "z")) == [{"x": 1, "y": 2, "z": "1"}] and list(rows) == [
        {"x": 1, "y": 2}
    ]
    assert list(wrap([(1, 5), (2, 0)]).filter(lambda a, b: a > b, [0, 1])) == [(2, 0)]
    with pytest.raises(ValueError, match="one for each column"):
        rows.map(lambda a, b: a, "x")
    with pytest.raises(ValueError, match="output_col"):
        rows.map(str, None, "x")


def test_functions_that_pickle_does_not_know_are_named():
    with pytest.warns(UserWarning, match="^Lambda function is not supported by pickle"):
        wrap([1]).map(lambda x: x)
    with pytest.raises(TypeError, match="callable"):
        wrap([1]).map(3)


def test_graphs():
    source = wrap(range(9))
    first, second = source.fork(2)
    last = first.map(float).zip(second.sharding_filter())
    pipes = graph_settings.get_all_graph_pipes(graph.traverse_dps(last))
    assert [type(p).__name__ for p in pipes].count("IterableWrapperIterDataPipe") == 1
    assert len(pipes) == 7 and source in pipes and first.main_datapipe in pipes
    with pytest.warns(FutureWarning, match="traverse_dps"):
        assert graph.traverse(last, only_datapipe=True) == graph.traverse_dps(last)
    graph_settings.apply_sharding(last, 3, 1)
    assert list(last) == [(0.0, 1), (1.0, 4), (2.0, 7)]
    with pytest.raises(RuntimeError, match="Sharding twice on a single pipeline"):
        graph_settings.apply_sharding(last.sharding_filter(), 2, 0)
    with pytest.raises(RuntimeError, match="Expected `IterDataPipe`"):
        graph.traverse_dps([1])


def test_shares_of_groups_together_hold_everything():
    groups = datapipes.iter.sharding.SHARDING_PRIORITIES
    seen = []
    for rank in range(2):
        for worker in range(3):
            pipe = wrap(range(20)).sharding_filter()
            graph_settings.apply_sharding(pipe, 2, rank, groups.DISTRIBUTED)
            graph_settings.apply_sharding(pipe, 3, worker, groups.MULTIPROCESSING)
            assert len(pipe) == len(list(pipe))
            seen += pipe
    assert sorted(seen) == list(range(20))
    with pytest.raises(RuntimeError, match="cannot mix DEFAULT"):
        pipe.apply_sharding(2, 0)
    with pytest.raises(ValueError, match="should be smaller"):
        pipe.apply_sharding(2, 2, groups.DISTRIBUTED)


def test_shuffling_of_a_loader():
    pipe = wrap(range(40)).shuffle().sharding_filter()

    def order(workers, seed):
        generator = facula.Generator().manual_seed(seed)
        loader = DataLoader(
            pipe, batch_size=None, shuffle=True, num_workers=workers, generator=generator
        )
        return [int(x) for x in loader], [int(x) for x in loader]

    alone, shared = order(0, 5), order(2, 5)
    assert alone[0] != alone[1] and sorted(alone[0]) == sorted(alone[1]) == list(range(40))
    # two workers read every other value of one order
    assert shared == alone and order(0, 6) != alone
    unshuffled = DataLoader(pipe, batch_size=None, shuffle=False)
    assert [int(x) for x in unshuffled] == list(range(40))
    with pytest.warns(UserWarning, match="does not contain a `Shuffler`"):
        assert sorted(DataLoader(wrap(range(5)), batch_size=None, shuffle=True)) == list(range(5))


def test_persistent_workers_draw_a_new_order_for_each_pass():
    pipe = wrap(range(40)).shuffle().sharding_filter()
    loader = DataLoader(pipe, batch_size=None, shuffle=True, num_workers=2, persistent_workers=True)
    first, second = [int(x) for x in loader], [int(x) for x in loader]
    assert first != second and sorted(first) == sorted(second) == list(range(40))


def test_a_restored_graph_goes_on():
    from facula.utils.data.datapipes.utils.snapshot import _simple_graph_snapshot_restoration

    first, second = wrap(range(12)).map(float).shuffle(buffer_size=5).fork(2)
    pipe = first.zip(second).batch(2)
    graph_settings.apply_random_seed(pipe, facula.Generator().manual_seed(0))
    values = iter(pipe)
    head = [next(values), next(values)]
    copied = pickle.loads(pickle.dumps(pipe))
    assert copied._number_of_samples_yielded == 2
    _simple_graph_snapshot_restoration(copied, 2, facula.Generator().manual_seed(0))
    with pytest.raises(RuntimeError, match="Snapshot restoration cannot be applied"):
        _simple_graph_snapshot_restoration(copied, 2)
    rest = list(values)
    assert list(copied) == rest and len(head + rest) == 6
    with pytest.raises(RuntimeError, match="exceeds the number of samples"):
        _simple_graph_snapshot_restoration(pipe, 9, facula.Generator().manual_seed(0))


def test_orders_are_those_of_pytorch_for_the_same_seed():
    # what torch 2.13 gives for wrap(range(8)).shuffle(buffer_size=3).set_seed(7) and for map pipes
    assert list(wrap(range(8)).shuffle(buffer_size=3).set_seed(7)) == [1, 0, 3, 2, 4, 7, 5, 6]
    assert list(sequence(range(8)).shuffle().set_seed(7)) == [6, 7, 2, 4, 0, 3, 1, 5]


def test_files_and_streams(tmp_path):
    for name in ("a.txt", "b.csv", "c.txt"):
        (tmp_path / name).write_text(name)
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "d.txt").write_text("d.txt")
    names = datapipes.iter.FileLister(str(tmp_path), "*.txt", recursive=True)
    opened = names.open_files("rt")
    assert [path.rpartition("/")[2] for path, _ in opened] == ["a.txt", "c.txt", "d.txt"]
    assert [text for _, text in opened.read_from_stream(3)][:2] == ["a.t", "xt"]
    stream = next(iter(opened))[1]
    file = stream.file_obj
    assert repr(stream).startswith("StreamWrapper<") and not file.closed
    del stream
    assert file.closed
    with pytest.raises(FileNotFoundError):
        list(datapipes.iter.FileLister(str(tmp_path / "nowhere")))
    with pytest.raises(ValueError, match="Invalid mode"):
        names.open_files("w")
    with pytest.raises(TypeError, match="valid length$"):
        len(opened)


def test_decoders_take_data_and_no_programs(tmp_path):
    facula.save({"x": facula.ones(2)}, tmp_path / "a.pt")
    (tmp_path / "b.json").write_text('{"k": [1]}')
    (tmp_path / "c.cls").write_text("7")
    (tmp_path / "d.pickle").write_bytes(pickle.dumps([1]))
    handlers = decoder.basichandlers

    def decoded(mask):
        files = datapipes.iter.FileLister(str(tmp_path), mask).open_files("rb")
        return [value for _, value in files.routed_decode(handlers)]

    assert decoded("a.pt")[0]["x"].tolist() == [1, 1]
    assert decoded("b.json") == [{"k": [1]}] and decoded("c.cls") == [7]
    with pytest.raises(ValueError, match="unpickling runs"):
        decoded("d.pickle")
