"""Steps that TorchData had: values, order, buffers and errors of each."""

import os
import warnings

import pytest

import facula
from facula.data import datapipes
from facula.data.datapipes import further
from facula.data.datapipes import iter as pipes
from facula.data.datapipes import map as indexed
from facula.data.graph_settings import apply_random_seed

wrap = pipes.IterableWrapper
pytestmark = pytest.mark.filterwarnings("ignore:Lambda function", "ignore:Local function")


def test_every_name_has_a_class_and_every_method_a_docstring():
    for kind, module in (("iter", pipes), ("map", indexed)):
        for name in further.CLASSES[kind]:
            assert getattr(module, name).__doc__ and name in dir(module)
    for name, (_, cls) in datapipes.IterDataPipe.further.items():
        assert getattr(wrap([]), name).func.__doc__, cls
    with pytest.raises(AttributeError):
        _ = pipes.Nonsense


def test_a_program_may_take_a_name_that_is_loaded_on_demand():
    class Ends(datapipes.IterDataPipe):
        def __init__(self, source):
            self.source = source

        def __iter__(self):
            yield from list(self.source)[-1:]

    datapipes.functional_datapipe("header")(Ends)
    try:
        assert list(wrap([1, 2, 3]).header()) == [3]
    finally:
        del datapipes.IterDataPipe.functions["header"]
    assert list(wrap([1, 2, 3]).header(2)) == [1, 2]


def test_values_again_numbered_and_cut_off():
    assert list(wrap("ab").cycle(2)) == ["a", "b", "a", "b"] and len(wrap("ab").cycle(2)) == 4
    endless = iter(wrap("ab").cycle())
    assert [next(endless) for _ in range(5)] == list("ababa") and list(wrap([]).cycle()) == []
    assert list(wrap("ab").repeat(2)) == list("aabb")
    assert list(wrap("ab").enumerate(4)) == [(4, "a"), (5, "b")]
    assert list(wrap([{"x": 1}]).add_index("n")) == [{"x": 1, "n": 0}]
    assert list(wrap(range(9)).limit(2)) == [0, 1] and len(wrap(range(9)).header(20)) == 9
    assert len(wrap(range(3)).filter(bool).set_length(2)) == 2
    with pytest.raises(ValueError, match="repetition must be > 1"):
        wrap([1]).repeat(1)
    with pytest.raises(NotImplementedError, match="dict type"):
        list(wrap([1]).add_index())
    with pytest.raises(ValueError, match="limit of at least 0"):
        wrap([1]).header(-1)


def test_columns_of_rows():
    assert list(wrap([(0, (1, 2), "x")]).flatten()) == [(0, 1, 2, "x")]
    assert list(wrap([((0,), (1, 2))]).flatten(1)) == [((0,), 1, 2)]
    assert list(wrap([{"a": 1, "b": {"c": 2}}]).flatten()) == [{"a": 1, "c": 2}]
    assert list(wrap([[1, 2, 3]]).drop([0, 2])) == [[2]]
    assert list(wrap([(1, 2, 3)]).slice(0, 3, 2)) == [(1, 3)]
    assert list(wrap([{"a": 1, "b": 2}]).slice(["b"])) == [{"b": 2}]
    rows = wrap([{"a": 1}, {"a": 2}]).batch(2)
    assert list(rows.rows2columnar()) == [{"a": [1, 2]}]
    assert list(wrap([[(1, 2), (3, 4)]]).rows2columnar(["a", "b"])) == [{"a": [1, 3], "b": [2, 4]}]
    with pytest.raises(KeyError, match="columns"):
        list(wrap([{"a": 1}]).drop("z"))
    with pytest.raises(TypeError, match="rows that are"):
        list(wrap([1]).slice(0, 1))
    with pytest.raises(ValueError, match="one for each of column_names"):
        list(wrap([[(1, 2)]]).rows2columnar(["a"]))


def test_several_values_for_one():
    assert list(wrap([2, 0, 1]).flatmap(range)) == [0, 1, 0]
    assert list(wrap([[1, 2], [3]]).flatmap()) == [1, 2, 3]
    assert list(wrap([(1, 3)]).flatmap(range, input_col=[0, 1])) == [1, 2]
    drawn = wrap([[1, 2, 3], [4, 5], []]).shuffled_flatmap(buffer_size=2)
    order = list(drawn.set_seed(1))
    assert sorted(order) == [1, 2, 3, 4, 5] and order == list(drawn.set_seed(1))
    assert list(drawn.set_shuffle(False)) == [1, 2, 3, 4, 5]
    assert list(wrap(range(5)).map_batches(lambda b: [sum(b)], 2)) == [1, 5, 4]
    with pytest.raises(TypeError, match="iterated over"):
        list(wrap([1]).flatmap(float))


def test_batches_of_like_size():
    lengths = wrap([3, 1, 2, 4, 9])
    assert list(lengths.max_token_bucketize(4, lambda n: n)) == [[1, 2], [3], [4]]
    assert list(lengths.max_token_bucketize(4, lambda n: n, include_padding=True)) == [
        [1, 2],
        [3],
        [4],
    ]
    assert list(lengths.max_token_bucketize(9, lambda n: n, buffer_size=1, min_len=2)) == [
        [2, 3, 4],
        [9],
    ]
    with pytest.raises(ValueError, match="max_len"):
        lengths.max_token_bucketize(4, max_len=5)
    bucketed = wrap(range(20)).bucketbatch(
        3, batch_num=2, sort_key=sorted, use_in_batch_shuffle=False
    )
    assert list(bucketed)[:2] == [[0, 1, 2], [3, 4, 5]] and list(bucketed)[-1] == [18, 19]
    mixed = wrap(range(20)).bucketbatch(
        3, drop_last=True, batch_num=2, bucket_num=2, sort_key=sorted
    )
    batches = list(mixed.set_seed(3))
    assert batches == list(mixed.set_seed(3)) and all(b == sorted(b) for b in batches)
    assert all(len(b) == 3 for b in batches) and len({x for b in batches for x in b}) == 18
    shuffled = wrap(range(8)).batch(4).in_batch_shuffle()
    assert [sorted(b) for b in shuffled] == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_joined_by_keys():
    left, right = wrap(["b1", "a1"]), wrap(["a2", "b2"])
    assert list(left.zip_with_iter(right, key_fn=lambda s: s[0], keep_key=True)) == [
        ("b", ("b1", "b2")),
        ("a", ("a1", "a2")),
    ]
    with pytest.raises(BufferError, match="No matching key"):
        list(left.zip_with_iter(wrap(["c2"]), key_fn=lambda s: s[0]))
    with pytest.raises(ValueError, match="Duplicate key"):
        list(left.zip_with_iter(wrap(["a1", "a2", "b2"]), key_fn=lambda s: s[0]))
    entries = wrap([("a", 1), ("b", 2)]).to_map_datapipe()
    assert entries["b"] == 2 and len(entries) == 2
    assert list(wrap("ba").zip_with_map(entries, key_fn=str)) == [("b", 2), ("a", 1)]
    with pytest.raises(KeyError, match="not a valid key"):
        list(wrap("c").zip_with_map(entries, key_fn=str))
    with pytest.raises(ValueError, match="pairs of a key"):
        _ = wrap([(1, 2, 3)]).to_map_datapipe()[1]
    with pytest.warns(UserWarning, match="duplicate key"):
        assert wrap([("a", 1), ("a", 2)]).to_map_datapipe()["a"] == 2
    assert list(entries.to_iter_datapipe(["a"])) == [1]


def test_in_turn_and_apart():
    assert list(wrap(range(3)).mux_longest(wrap("a"))) == [0, "a", 1, 2]
    assert list(wrap([1]).zip_longest(wrap("ab"))) == [(1, "a"), (None, "b")]
    first, second = wrap(range(5)).round_robin_demux(2)
    for _ in range(2):
        assert (list(first), list(second)) == ([0, 2, 4], [1, 3])
    numbers, letters = wrap([(1, "a"), (2, "b")]).unzip(2)
    assert (list(numbers), list(letters)) == ([1, 2], ["a", "b"])
    (letters,) = wrap([(1, "a")]).unzip(2, columns_to_skip=[0])
    assert list(letters) == ["a"]
    chosen = pipes.SampleMultiplexer({wrap([1] * 30): 0.9, wrap([2] * 30): 0.1}, seed=0)
    values = list(chosen)
    assert sorted(values) == [1] * 30 + [2] * 30 and sum(values[:30]) < 40
    with pytest.raises(ValueError, match="positive"):
        pipes.SampleMultiplexer({wrap([1]): 0})


@pytest.mark.filterwarnings("ignore:Unlimited buffer", "ignore:Some child")
def test_random_parts_are_the_same_in_each_pass():
    parts = {"train": 0.7, "test": 0.3}
    train, test = wrap(range(20)).random_split(parts, seed=1)
    first = list(train), list(test)
    assert (list(train), list(test)) == first and sorted(first[0] + first[1]) == list(range(20))
    assert (len(train), len(test)) == (14, 6) == (len(first[0]), len(first[1]))
    alone = wrap(range(20)).random_split(parts, seed=1, target="test")
    assert list(alone) == list(alone) == first[1]
    with pytest.raises(KeyError, match="does not match any key"):
        wrap(range(20)).random_split(parts, seed=1, target="other")
    with pytest.raises(TypeError, match="total_length"):
        wrap(range(20)).filter(bool).random_split(parts, seed=1)


def test_threads_keep_the_order_and_the_errors():
    def half(value):
        return 1 // (value - 3)

    assert list(wrap(range(50)).prefetch(3)) == list(range(50))
    ahead = iter(wrap(range(50)).prefetch(3))
    assert next(ahead) == 0
    ahead.close()
    with pytest.raises(ZeroDivisionError):
        list(wrap(range(9)).map(half).prefetch(2))
    assert list(wrap(range(9)).threadpool_map(str, scheduled_tasks=2, max_workers=2)) == list(
        "012345678"
    )
    with pytest.raises(ZeroDivisionError):
        list(wrap(range(9)).threadpool_map(half))
    pinned = list(wrap([{"x": facula.ones(2)}]).pin_memory())
    assert pinned[0]["x"].tolist() == [1, 1]


def test_asynchronous_functions():
    async def double(value):
        return 2 * value

    assert list(wrap(range(5)).async_map_batches(double, 2)) == [0, 2, 4, 6, 8]
    assert list(wrap([(1, 5)]).async_map_batches(double, 2, input_col=1)) == [(1, 10)]
    assert list(wrap(range(3)).async_map_batches(double, 2, flatten=False)) == [[0, 2], [4]]
    with pytest.raises(ValueError, match="coroutine"):
        wrap([1]).async_map_batches(str, 2)


def test_kept_in_memory():
    read = []

    def count(value):
        read.append(value)
        return value

    pipe = wrap(range(3)).map(count).in_memory_cache()
    assert list(pipe) == list(pipe) == [0, 1, 2] and read == [0, 1, 2] and len(pipe) == 3
    small = wrap(["x" * 600_000] * 3).in_memory_cache(size=1)
    assert len(list(small)) == len(list(small)) == 3
    items = indexed.SequenceWrapper(range(3)).map(count).in_memory_cache()
    assert [items[1], items[1]] == [1, 1] and read[3:] == [1]


def test_random_steps_take_their_seeds_from_the_graph():
    pipe = wrap([[1, 2], [3, 4], [5, 6]]).shuffled_flatmap().batch(3).in_batch_shuffle()
    orders = []
    for _ in range(2):
        apply_random_seed(pipe, facula.Generator().manual_seed(3))
        orders.append(list(pipe))
    assert orders[0] == orders[1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(pipe) is not None


def test_files_are_written_whole_and_as_their_mode_says(tmp_path):
    from facula.data.datapipes.extended.caching import write_whole

    path = tmp_path / "new" / "a.txt"
    write_whole(str(path), ["one ", "two"], "w")
    assert path.read_text() == "one two"
    with pytest.raises(TypeError, match="bytes was required for .*a.txt, by the mode 'wb'"):
        write_whole(str(path), [b"three", "four"], "wb")
    with pytest.raises(TypeError, match="text was required"):
        write_whole(str(path), b"three", "w")
    assert path.read_text() == "one two" and [p.name for p in path.parent.iterdir()] == ["a.txt"]
    mask = os.umask(0o022)
    try:
        write_whole(str(tmp_path / "b"), b"x")
        assert (tmp_path / "b").stat().st_mode & 0o777 == 0o644  # as any new file
    finally:
        os.umask(mask)
