"""Oracles of gathers, scatters, masks and searches: NumPy's indexing and loops over the places."""

import numpy
from oracle_table import call, check, near, oracle


@oracle("index_select", kind="numpy")
def taken(a, dim, index):
    return numpy.take(a, index, dim)


def _slices(a, dim):
    """A copy whose first dimension is `dim`, and that copy in its own order."""
    made = a.copy()
    return numpy.moveaxis(made, dim, 0), made


@oracle("index_add", kind="loop", factor=64)
def index_added(a, dim, index, source, alpha=1):
    rows, made = _slices(a, dim)
    for at, row in zip(index, numpy.moveaxis(source, dim, 0), strict=True):
        rows[at] += alpha * row
    return made


@oracle("index_copy", kind="loop")
def index_copied(a, dim, index, source):
    rows, made = _slices(a, dim)
    for at, row in zip(index, numpy.moveaxis(source, dim, 0), strict=True):
        rows[at] = row
    return made


@oracle("index_fill", kind="numpy")
def index_filled(a, dim, index, value):
    rows, made = _slices(a, dim)
    rows[index] = value
    return made


FOLDS = {
    "sum": numpy.add,
    "prod": numpy.multiply,
    "amax": numpy.maximum,
    "amin": numpy.minimum,
    "mean": numpy.add,
}


def _folded(values, reduce, own, include_self):
    """One element out of its own value and what comes to it."""
    if not values:
        return own
    values = [own, *values] if include_self else values
    made = values[0]
    for value in values[1:]:
        made = FOLDS[reduce](made, value)
    return made / len(values) if reduce == "mean" else made


def _gathered(a, dim, index, source, reduce, include_self):
    coming = {}
    for place in numpy.ndindex(index.shape):
        target = list(place)
        target[dim] = int(index[place])
        coming.setdefault(tuple(target), []).append(source[place])
    made = a.copy()
    for target, values in coming.items():
        made[target] = _folded(values, reduce, a[target], include_self)
    return made


@oracle("index_reduce", kind="loop", factor=64)
def index_reduced(a, dim, index, source, reduce, include_self=True):
    shape = [1] * a.ndim
    shape[dim] = -1
    return _gathered(
        a, dim, numpy.broadcast_to(index.reshape(shape), source.shape), source, reduce, include_self
    )


@oracle("scatter_reduce", kind="loop", factor=64)
def scatter_reduced(a, dim, index, src, reduce, include_self=True):
    return _gathered(a, dim, index, src, reduce, include_self)


@oracle("scatter_add", kind="loop", factor=64)
def scatter_added(a, dim, index, src):
    return _gathered(a, dim, index, src, "sum", True)


@oracle(
    "scatter",
    kind="loop",
    factor=64,
    samples=lambda S: [
        call(S(4, 5), 0, S.index(4, (3, 5)), S(3, 5), reduce="add"),
        call(S(4, 5), 0, S.index(4, (3, 5)), S(3, 5), reduce="multiply"),
    ],
)
def scattered(a, dim, index, src=None, value=None, reduce=None):
    src = (
        numpy.broadcast_to(value if src is None else src, index.shape)
        if src is None or numpy.ndim(src) == 0
        else src
    )
    if reduce is not None:
        return _gathered(a, dim, index, src, {"add": "sum", "multiply": "prod"}[reduce], True)
    made = a.copy()
    for place in numpy.ndindex(index.shape):
        target = list(place)
        target[dim] = int(index[place])
        made[tuple(target)] = src[place]
    return made


@oracle("gather", kind="loop")
def gathered(a, dim, index, sparse_grad=False):
    made = numpy.empty(index.shape, a.dtype)
    for place in numpy.ndindex(index.shape):
        source = list(place)
        source[dim] = int(index[place])
        made[place] = a[tuple(source)]
    return made


@oracle(
    "take_along_dim",
    kind="numpy",
    samples=lambda S: [
        call(S(4, 5), S.index(5, (4, 2)), 1),
        call(S(4, 5), S.index(20, (3,))),
        call(S(4, 5), S.index(4, (2, 1)), 0),
    ],
    empty=False,
)
def taken_along(a, indices, dim=None):
    return numpy.take_along_axis(a, indices, dim)


def _subscripts(indices):
    return tuple(slice(None) if i is None else i for i in indices)


@oracle(
    "index_put",
    "index_put_",
    kind="numpy",
    empty=False,
    expanded=False,
    samples=lambda S: [
        call(S(4, 5), (S.index(4, (3,)),), S(3, 5), accumulate=True),
        call(S(4, 5), (None, S.index(5, (2,), unique=True)), S()),
        call(S(4, 5, 3), (S.index(4, (3,), unique=True), None, S.index(3, (3,))), S(3, 5)),
        call(S(4, 5), [S.mask(4, 5)], S()),
    ],
)
def put_at(a, indices, values, accumulate=False):
    made = a.copy()
    if accumulate:
        numpy.add.at(made, _subscripts(indices), values)
    else:
        made[_subscripts(indices)] = values
    return made


@oracle("take", kind="numpy")
def taken_flat(a, index):
    return numpy.take(a, index)


@oracle(
    "put",
    kind="numpy",
    factor=64,
    expanded=False,
    samples=lambda S: [call(S(3, 4), S.of([0, 5, -1]), S(3))],
)
def put_flat(a, index, source, accumulate=False):
    made = a.reshape(-1).copy()
    if accumulate:
        numpy.add.at(made, index, source)
    else:
        made[index] = source
    return made.reshape(a.shape)


def _holes(S):
    return S.of([[0.0, 1.5, 0.0], [2.0, 0.0, -1.0]])


@oracle(
    "nonzero",
    kind="numpy",
    samples=lambda S: [
        call(_holes(S)),
        call(S.mask(3, 4)),
        call(_holes(S), as_tuple=True),
        call(S.of(2.0)),
    ],
)
def places(a, as_tuple=False):
    return tuple(numpy.nonzero(a)) if as_tuple else numpy.argwhere(a)


@oracle(
    "nonzero_static",
    kind="numpy",
    samples=lambda S: [
        call(_holes(S), size=5),
        call(_holes(S), size=2),
        call(_holes(S), size=5, fill_value=7),
    ],
)
def places_of_size(a, size, fill_value=-1):
    made = numpy.full((size, a.ndim), fill_value)
    found = numpy.argwhere(a)[:size]
    made[: len(found)] = found
    return made


oracle("argwhere", kind="numpy", samples=lambda S: [call(_holes(S)), call(S.mask(3, 4))])(
    numpy.argwhere
)
oracle("masked_select", kind="numpy")(
    lambda a, mask: numpy.broadcast_arrays(a, mask)[0][numpy.broadcast_to(mask, a.shape)]
)


@oracle("masked_scatter", kind="numpy")
def mask_scattered(a, mask, source):
    made = a.copy()
    mask = numpy.broadcast_to(mask, a.shape)
    made[mask] = source.reshape(-1)[: mask.sum()]
    return made


@oracle(
    "masked_fill",
    kind="numpy",
    samples=lambda S: [call(S(3, 4), S.mask(3, 4), 2.5), call(S(3, 4), S.mask(4), S())],
)
def mask_filled(a, mask, value):
    return numpy.where(mask, value, a)


@oracle(
    "_unsafe_masked_index",
    kind="numpy",
    empty=False,
    samples=lambda S: [call(S(4, 5), S.mask(3), (S.index(4, (3,)), S.index(5, (3,))), 0.5)],
)
def masked_index(a, mask, indices, fill):
    return numpy.where(mask, a[_subscripts(indices)], fill)


@oracle(
    "_unsafe_masked_index_put_accumulate",
    kind="numpy",
    empty=False,
    samples=lambda S: [call(S(4, 5), S.mask(3), (S.index(4, (3,)), S.index(5, (3,))), S(3))],
)
def masked_put(a, mask, indices, values):
    made = a.copy()
    numpy.add.at(made, _subscripts(indices), numpy.where(mask, values, 0))
    return made


# searches and counts


def _side(right, side):
    return side or ("right" if right else "left")


@oracle(
    "searchsorted",
    kind="numpy",
    expanded=False,
    empty=False,
    samples=lambda S: [
        call(S.of([1.0, 2.0, 2.0, 3.0]), S.of([2.0, 0.0, 9.0])),
        call(S.of([1.0, 2.0, 2.0]), S.of([2.0]), side="right"),
        call(S.of([1.0, 2.0, 2.0]), 2.0),
        call(S.of([[1.0, 3.0], [2.0, 4.0]]), S.of([[2.0], [3.0]]), out_int32=True),
        call(S.of([3.0, 1.0, 2.0]), S.of([1.5]), sorter=S.of([1, 2, 0])),
    ],
)
def searched(sequence, a, out_int32=False, right=False, side=None, sorter=None):
    if sorter is not None:
        sequence = numpy.take_along_axis(sequence, sorter, -1)
    a = numpy.asarray(a)
    if sequence.ndim == 1:
        found = numpy.searchsorted(sequence, a, _side(right, side))
    else:
        found = numpy.stack(
            [numpy.searchsorted(s, v, _side(right, side)) for s, v in zip(sequence, a, strict=True)]
        )
    return numpy.asarray(found, numpy.int32 if out_int32 else numpy.int64)


@oracle(
    "bucketize",
    kind="numpy",
    samples=lambda S: [
        call(S(3, 4), S.of([-0.5, 0.0, 0.5])),
        call(S.of([1.0, 2.0]), S.of([1.0, 2.0]), right=True, out_int32=True),
        call(0.1, S.of([0.0, 1.0])),
    ],
    empty=False,
)
def buckets(a, boundaries, out_int32=False, right=False):
    return searched(boundaries, a, out_int32, right)


@oracle(
    "bincount",
    kind="numpy",
    samples=lambda S: [
        call(S.of([3, 0, 3, 1])),
        call(S.of([3, 0, 3, 1]), S(4)),
        call(S.of([1, 1]), minlength=5),
    ],
)
def counts(a, weights=None, minlength=0):
    return numpy.bincount(a, weights, minlength)


@oracle(
    "histc",
    kind="numpy",
    samples=lambda S: [call(S(30), 4), call(S(3, 4), 5, -0.5, 0.5)],
    empty=False,
)
def histogram_counts(a, bins=100, min=0, max=0):
    low, high = (min, max) if (min, max) != (0, 0) else (a.min(), a.max())
    return numpy.histogram(a, bins, (low, high))[0].astype(float)


@oracle(
    "histogram",
    kind="numpy",
    empty=False,
    expanded=False,
    samples=lambda S: [
        call(S(30), 4),
        call(S(3, 4), 5, range=(-0.5, 0.5)),
        call(S(9), 3, weight=S(9), density=False),
        call(S(9), 3, density=True),
        call(S(9), S.of([-1.0, 0.0, 0.25, 1.0])),
    ],
)
def histogram(a, bins=100, range=None, weight=None, density=False):
    found, edges = numpy.histogram(a, bins, range, density, weight)
    return found.astype(float), edges


@oracle(
    "histogramdd",
    kind="numpy",
    empty=False,
    expanded=False,
    samples=lambda S: [
        call(S(30, 2), 3),
        call(S(30, 2), [2, 4]),
        call(S(20, 2), [2, 2], range=(-0.5, 0.5, -1.0, 1.0), density=True),
    ],
)
def histogram_of_points(a, bins, range=None, weight=None, density=False):
    pairs = None if range is None else [(range[i], range[i + 1]) for i in (0, 2)]
    found, edges = numpy.histogramdd(a, bins, pairs, density, weight)
    return found, list(edges)


@oracle(
    "one_hot",
    kind="numpy",
    samples=lambda S: [call(S.of([0, 2, 1])), call(S.of([[0, 2], [1, 1]]), 5)],
    empty=False,
)
def one_hot(a, num_classes=-1):
    return numpy.eye(a.max() + 1 if num_classes < 0 else num_classes, dtype=numpy.int64)[a]


@oracle(
    "isin",
    kind="numpy",
    samples=lambda S: [
        call(S.of([[1, 2], [3, 4]]), S.of([2, 3])),
        call(S.of([1, 2]), 2),
        call(1, S.of([1, 2])),
        call(S.of([1, 2, 3]), S.of([3]), invert=True),
        call(S.of([1, 2]), S.of([2]), assume_unique=True),
    ],
)
def contained(a, among, assume_unique=False, invert=False):
    return numpy.asarray(numpy.isin(a, among, assume_unique, invert))


# embeddings


@oracle("embedding", kind="numpy")
def rows(weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    return weight[indices]


@oracle(
    "embedding_dense_backward",
    kind="loop",
    empty=False,
    samples=lambda S: [
        call(S(2, 4, 3), S.integers(0, 5, (2, 4)), 5, 2, False),
        call(S(6, 3), S.integers(0, 4, (6,)), 5, -1, True),
    ],
)
def rows_backward(grad, indices, num_weights, padding_idx, scale_grad_by_freq):
    made = numpy.zeros((num_weights, grad.shape[-1]))
    for place in numpy.ndindex(indices.shape):
        row = indices[place]
        if row != padding_idx:
            made[row] += grad[place] / ((indices == row).sum() if scale_grad_by_freq else 1)
    return made


@oracle(
    "embedding_renorm_",
    kind="loop",
    empty=False,
    samples=lambda S: [
        call(S(5, 3), S.of([0, 2, 2]), 0.5, 2.0),
        call(S(5, 3), S.of([[1], [4]]), 0.5, 1.0),
    ],
)
def renormed(weight, indices, max_norm, norm_type):
    made = weight.copy()
    for row in set(indices.reshape(-1).tolist()):
        size = (numpy.abs(weight[row]) ** norm_type).sum() ** (1 / norm_type)
        if size > max_norm:
            made[row] *= max_norm / (size + 1e-7)
    return made


@oracle(
    "_embedding_function",
    kind="numpy",
    empty=False,
    expanded=False,
    samples=lambda S: [
        call(S.integers(0, 5, (2, 4)), S(5, 3)),
        call(S.integers(0, 5, (3,)), S(5, 3), 1, max_norm=0.5),
    ],
)
def rows_by_number(
    a,
    weight,
    padding_idx=None,
    max_norm=None,
    norm_type=2.0,
    scale_grad_by_freq=False,
    sparse=False,
):
    return (weight if max_norm is None else renormed(weight, a, max_norm, norm_type))[a]


def _bags(indices, weight, offsets, mode, scales, include_last_offset, padding_idx):
    """The value of each bag, and the rows whose elements are the largest."""
    ends = [*offsets[1:], len(indices)] if not include_last_offset else offsets[1:]
    starts = offsets[:-1] if include_last_offset else offsets
    made = numpy.zeros((len(starts), weight.shape[1]))
    sizes, chosen = numpy.zeros(len(starts), numpy.int64), numpy.full(made.shape, -1, numpy.int64)
    for bag, (start, end) in enumerate(zip(starts, ends, strict=True)):
        kept = [at for at in range(start, end) if indices[at] != padding_idx]
        sizes[bag] = len(kept)
        if not kept:
            continue
        found = [weight[indices[at]] * (1 if scales is None else scales[at]) for at in kept]
        made[bag] = {"sum": numpy.sum, "mean": numpy.mean, "max": numpy.max}[mode](found, 0)
        chosen[bag] = indices[numpy.array(kept)[numpy.argmax(found, 0)]]
    return made, sizes, chosen


@oracle(
    "embedding_bag",
    kind="loop",
    empty=False,
    expanded=False,
    samples=lambda S: [
        *[
            call(S.integers(0, 5, (7,)), S(5, 3), S.of([0, 3, 3]), mode=mode)
            for mode in ("sum", "mean", "max")
        ],
        *[call(S.integers(0, 5, (3, 4)), S(5, 3), mode=mode) for mode in ("sum", "mean", "max")],
        call(S.integers(0, 5, (7,)), S(5, 3), S.of([0, 3]), mode="sum", per_sample_weights=S(7)),
        call(S.integers(0, 5, (7,)), S(5, 3), S.of([0, 3, 7]), include_last_offset=True),
        call(S.of([1, 1, 2, 1]), S(5, 3), S.of([0, 2]), padding_idx=1),
        call(S.of([1, 1, 2, 1]), S(5, 3), S.of([0, 2]), max_norm=0.5),
    ],
)
def bags(
    a,
    weight,
    offsets=None,
    max_norm=None,
    norm_type=2.0,
    scale_grad_by_freq=False,
    mode="mean",
    sparse=False,
    per_sample_weights=None,
    include_last_offset=False,
    padding_idx=None,
):
    if offsets is None:
        offsets, a = numpy.arange(0, a.size, a.shape[1]), a.reshape(-1)
    if max_norm is not None:
        weight = renormed(weight, a, max_norm, norm_type)
    return _bags(a, weight, offsets, mode, per_sample_weights, include_last_offset, padding_idx)[0]


@check(
    "embedding_bag_native",
    kind="loop",
    empty=False,
    expanded=False,
    samples=lambda S: [
        call(S(5, 3), S.integers(0, 5, (7,)), S.of([0, 3, 3]), mode=mode) for mode in (0, 1, 2)
    ],
)
def bags_with_places(result, weight, indices, offsets, mode=0):
    """The bags, the bag of each index, how many each holds; where maxima are, if they are asked for."""
    made, sizes, chosen = _bags(
        indices, weight, offsets, ("sum", "mean", "max")[mode], None, False, None
    )
    near(result[0], made)
    numpy.testing.assert_array_equal(
        result[1], numpy.searchsorted(offsets, numpy.arange(len(indices)), "right") - 1
    )
    numpy.testing.assert_array_equal(result[2], sizes)
    if mode == 2:
        numpy.testing.assert_array_equal(result[3], numpy.maximum(chosen, 0))
