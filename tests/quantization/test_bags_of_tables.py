"""Sums of bags of quantized rows: beside loops over the numbers that the tables stand for; tables without some rows."""

import numpy
import pytest

import facula

OPS = facula.ops.quantized
RNG = numpy.random.default_rng(17)
TABLE = (RNG.standard_normal((20, 8)) * 3).astype("float32")
WORDS = ["byte", "4bit", "2bit"]


def made(word):
    """The rows with their parameters, and the numbers that they stand for."""
    rows = getattr(OPS, f"embedding_bag_{word}_prepack")(facula.from_numpy(TABLE))
    return rows, getattr(OPS, f"embedding_bag_{word}_unpack")(rows).numpy()


def bag(word, *given, **options):
    return getattr(OPS, f"embedding_bag_{word}_rowwise_offsets")(*given, **options)


def sums(numbers, indices, ends, weights=None):
    weights = numpy.ones(len(indices)) if weights is None else weights
    pairs = zip([0, *ends[:-1]], ends, strict=True)
    return [
        sum(
            (numbers[i] * w for i, w in zip(indices[a:b], weights[a:b], strict=True)),
            numpy.zeros(8),
        )
        for a, b in pairs
    ]


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_bags_are_sums_of_rows(word, last, kind):
    rows, numbers = made(word)
    assert abs(numbers - TABLE).max() < {"byte": 0.05, "4bit": 0.5, "2bit": 2.5}[word]
    indices, ends = RNG.integers(0, 20, 11), [0, 4, 4, 9, 11]
    offsets = [0, *(ends if last else ends[:-1])]
    weights = RNG.uniform(size=11).astype("float32")
    tensors = [facula.tensor(v, dtype=getattr(facula, kind)) for v in (indices, offsets)]
    for given in (None, weights):
        weight = None if given is None else facula.from_numpy(given)
        found = bag(word, rows, *tensors, per_sample_weights=weight, include_last_offset=last)
        numpy.testing.assert_allclose(
            found, sums(numbers, indices, ends, given), rtol=1e-5, atol=1e-5
        )


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_rows_that_were_left_out_count_as_zeros(word, kind):
    rows, numbers = made(word)
    kept = RNG.uniform(size=20) < 0.5
    mapping = numpy.where(kept, numpy.cumsum(kept) - 1, -1)
    indices, ends = RNG.integers(0, 20, 30), [7, 7, 30]
    given = [facula.tensor(v) for v in (indices, [0, *ends[:-1]])]
    options = {
        "pruned_weights": True,
        "compressed_indices_mapping": facula.tensor(mapping, dtype=getattr(facula, kind)),
    }
    found = bag(word, rows[facula.from_numpy(kept)], *given, **options)
    numpy.testing.assert_allclose(
        found, sums(numbers * kept[:, None], indices, ends), rtol=1e-5, atol=1e-5
    )
    # a single 0 says that all are there
    options["compressed_indices_mapping"] = facula.zeros(1, dtype=facula.int32)
    numpy.testing.assert_allclose(
        bag(word, rows, *given, **options), sums(numbers, indices, ends), rtol=1e-5, atol=1e-5
    )
    options["compressed_indices_mapping"] = facula.full((20,), -1)
    assert bag(word, rows[:0], *given, **options).tolist() == [[0.0] * 8] * 3


def test_packed_tables_know_left_out_rows():
    scale, zero = facula.full((3,), 0.5), facula.full((3,), 2.0)
    kept = facula.quantize_per_channel(
        facula.arange(12.0).reshape(3, 4), scale, zero, 0, facula.quint8
    )
    packed = OPS.embedding_bag_prepack(kept)
    mapping = facula.tensor([-1, 0, -1, 1, 2], dtype=facula.int32)
    found = OPS.embedding_bag_byte(
        packed,
        facula.tensor([0, 1, 4, 3]),
        facula.tensor([0, 3]),
        pruned_weights=True,
        compressed_indices_mapping=mapping,
    )
    rows = kept.dequantize()
    assert found.tolist() == (facula.stack([rows[0] + rows[2], rows[1]])).tolist()


@pytest.mark.parametrize(
    ("offsets", "options", "message"),
    [
        ([1, 2], {}, "offsets from 0 that rise"),
        ([0, 3, 2], {}, "offsets from 0 that rise"),
        ([0, 9], {}, "offsets from 0 that rise"),
        ([0, 3], {"include_last_offset": True}, "rise to the 4 indices"),
        ([], {"include_last_offset": True}, "rise to the 4 indices"),
        ([0], {"per_sample_weights": facula.ones(1)}, "4 weights were required"),
        ([0], {"pruned_weights": True}, "compressed_indices_mapping was required"),
        (
            [0],
            {"pruned_weights": True, "compressed_indices_mapping": facula.ones(20)},
            "int32 or int64",
        ),
        (
            [0],
            {"pruned_weights": True, "compressed_indices_mapping": facula.full((20,), -2)},
            "rows of at least -1",
        ),
        ([0], {"mode": 1}, r"mode 'sum' \(0\) was required"),
    ],
)
def test_what_is_no_bag_is_refused(offsets, options, message):
    rows, _ = made("byte")
    indices, offsets = facula.tensor([1, 2, 3, 4]), facula.tensor(offsets, dtype=facula.int64)
    with pytest.raises(RuntimeError, match=message):
        bag("byte", rows, indices, offsets, **options)


def test_indices_beyond_the_mapping_are_refused():
    rows, _ = made("byte")
    options = {"pruned_weights": True, "compressed_indices_mapping": facula.tensor([0, 1, -1])}
    with pytest.raises(IndexError, match="out of bounds"):
        bag("byte", rows[:2], facula.tensor([3]), facula.tensor([0]), **options)
    options["compressed_indices_mapping"] = facula.tensor([0, 5, -1])
    with pytest.raises(IndexError, match="out of bounds"):
        bag("byte", rows[:2], facula.tensor([1]), facula.tensor([0]), **options)
