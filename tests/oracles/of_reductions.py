"""Oracles of sums, extremes, norms, scans, sorts and statistics: NumPy, SciPy and plain loops."""

import numpy
import scipy.special
import scipy.stats
from oracle_table import call, oracle


def axes(dim):
    """NumPy's `axis` of a `dim`: None for all."""
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        return None
    return tuple(dim) if isinstance(dim, (tuple, list)) else dim


def _reduction(function):
    def reduced(a, dim=None, keepdim=False, dtype=None):
        result = function(a if dtype is None else a.astype(dtype), axis=axes(dim), keepdims=keepdim)
        return numpy.asarray(result)

    return reduced


def _samples(S):
    return [call(S(3, 4)), call(S(2, 3, 4), 1), call(S(2, 3, 4), (0, -1), True), call(S())]


for _name, _function in {"sum": numpy.sum, "nansum": numpy.nansum, "mean": numpy.mean}.items():
    oracle(_name, kind="numpy", samples=_samples)(_reduction(_function))
oracle("prod", kind="numpy", samples=lambda S: [call(S(3, 4)), call(S(3, 4), -1, True)])(
    _reduction(numpy.prod)
)
oracle("any", kind="numpy")(_reduction(numpy.any))
oracle("all", kind="numpy")(_reduction(numpy.all))
oracle(
    "nanmean",
    kind="numpy",
    empty=False,
    samples=lambda S: [*_samples(S), call(S.of([[1.0, float("nan")], [2.0, 4.0]]), 1)],
)(_reduction(numpy.nanmean))
oracle("count_nonzero", kind="numpy")(
    lambda a, dim=None: numpy.asarray(numpy.count_nonzero(a, axes(dim)))
)


def _degrees(unbiased, correction):
    return (1 if unbiased is None or unbiased is True else 0) if correction is None else correction


def _spread(a, dim, unbiased, keepdim, correction):
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    return numpy.asarray(
        numpy.var(a, axis=axes(dim), ddof=_degrees(unbiased, correction), keepdims=keepdim)
    ), dim


def _spreads(S):
    return [
        call(S(3, 4)),
        call(S(3, 4), 1),
        call(S(3, 4), False),
        call(S(3, 4), (0, 1), False, True),
        call(S(2, 3, 4), dim=-1, correction=0, keepdim=True),
        call(S(3, 5), dim=1, correction=2),
    ]


@oracle("var", kind="numpy", samples=_spreads)
def variance(a, dim=None, unbiased=None, keepdim=False, correction=None):
    return _spread(a, dim, unbiased, keepdim, correction)[0]


@oracle("std", kind="numpy", samples=_spreads)
def deviation(a, *args, **kwargs):
    return numpy.sqrt(variance(a, *args, **kwargs))


@oracle("var_mean", kind="numpy", samples=_spreads)
def variance_and_mean(a, dim=None, unbiased=None, keepdim=False, correction=None):
    found, dim = _spread(a, dim, unbiased, keepdim, correction)
    return found, numpy.asarray(numpy.mean(a, axes(dim), keepdims=keepdim))


@oracle("std_mean", kind="numpy", samples=_spreads)
def deviation_and_mean(a, *args, **kwargs):
    found, mean = variance_and_mean(a, *args, **kwargs)
    return numpy.sqrt(found), mean


@oracle("logsumexp", kind="scipy")
def log_sum(a, dim, keepdim=False):
    if not a.size:  # SciPy has none of nothing
        return numpy.log(numpy.sum(numpy.exp(a), axes(dim), keepdims=keepdim))
    return numpy.asarray(scipy.special.logsumexp(a, axis=axes(dim), keepdims=keepdim))


# extremes


@oracle("amax", kind="numpy")
def largest(a, dim=None, keepdim=False):
    return numpy.asarray(numpy.amax(a, axes(dim), keepdims=keepdim))


@oracle("amin", kind="numpy")
def smallest(a, dim=None, keepdim=False):
    return numpy.asarray(numpy.amin(a, axes(dim), keepdims=keepdim))


@oracle("aminmax", kind="numpy")
def both(a, dim=None, keepdim=False):
    return smallest(a, dim, keepdim), largest(a, dim, keepdim)


oracle("argmax", kind="numpy")(
    lambda a, dim=None, keepdim=False: numpy.asarray(numpy.argmax(a, dim, keepdims=keepdim))
)
oracle("argmin", kind="numpy")(
    lambda a, dim=None, keepdim=False: numpy.asarray(numpy.argmin(a, dim, keepdims=keepdim))
)


def _extreme(values, where, pairwise):
    def value(a, dim=None, keepdim=False, other=None):
        if other is not None or isinstance(dim, numpy.ndarray):
            return pairwise(a, dim if other is None else other)
        if dim is None:
            return numpy.asarray(values(a))
        return values(a, axis=dim, keepdims=keepdim), where(a, axis=dim, keepdims=keepdim)

    return value


def _extremes(S):
    return [
        call(S(3, 4)),
        call(S(3, 4), 1),
        call(S(3, 4), 0, True),
        call(S(3, 4), S(3, 4)),
        call(S(3, 4), other=S(4)),
    ]


oracle("max", kind="numpy", samples=_extremes)(_extreme(numpy.max, numpy.argmax, numpy.maximum))
oracle("min", kind="numpy", samples=_extremes)(_extreme(numpy.min, numpy.argmin, numpy.minimum))


# norms


def _power_norm(a, p, axis, keepdim):
    length = numpy.abs(a)
    if p == float("inf"):
        return length.max(axis, keepdims=keepdim)
    if p == -float("inf"):
        return length.min(axis, keepdims=keepdim)
    if p == 0:
        return (length != 0).sum(axis, keepdims=keepdim).astype(length.dtype)
    return (length**p).sum(axis, keepdims=keepdim) ** (1 / p)


ORDERS = (2, 1, 0, 3, 0.5, -1, float("inf"), -float("inf"))


@oracle(
    "linalg_vector_norm",
    kind="numpy",
    factor=64,
    empty=False,
    samples=lambda S: (
        [call(S(3, 4), p) for p in ORDERS]
        + [call(S(2, 3, 4), 3, (0, 2), True), call(S.complex(3, 4), 2, 1)]
    ),
)
def vector_norm(a, ord=2, dim=None, keepdim=False, dtype=None):
    return numpy.asarray(
        _power_norm(a if dtype is None else a.astype(dtype), ord, axes(dim), keepdim)
    )


@oracle(
    "norm",
    kind="numpy",
    factor=64,
    empty=False,
    samples=lambda S: [
        call(S(3, 4)),
        call(S(3, 4), 1),
        call(S(3, 4), 3, 1, True),
        call(S(3, 4), "nuc"),
        call(S(2, 3, 4), "fro", (1, 2)),
        call(S(3, 4), float("inf"), 0),
    ],
)
def norm(a, p="fro", dim=None, keepdim=False, dtype=None):
    if p == "nuc":
        return numpy.asarray(numpy.linalg.svd(a, compute_uv=False).sum(-1))
    return vector_norm(a, 2 if p in ("fro", None) else p, dim, keepdim)


@oracle(
    "frobenius_norm",
    kind="numpy",
    samples=lambda S: [call(S(3, 4)), call(S(2, 3, 4), [1, 2]), call(S(3, 4), [1], True)],
    empty=False,
)
def frobenius(a, dim=(), keepdim=False):
    return vector_norm(a, 2, dim, keepdim)


@oracle(
    "dist",
    kind="numpy",
    factor=64,
    empty=False,
    samples=lambda S: [
        call(S(3, 4), S(3, 4)),
        call(S(3, 4), S(4), 1),
        call(S(3), S(3), float("inf")),
        call(S(5), S(5), 3),
    ],
)
def distance(a, b, p=2):
    return vector_norm(a - b, p)


@oracle(
    "renorm",
    kind="loop",
    empty=False,
    expanded=True,
    samples=lambda S: [
        call(S(3, 4), 2, 0, 0.5),
        call(S(3, 4, 2), 1, 1, 1.0),
        call(S(3, 4), 2, 0, 100.0),
    ],
)
def renormed(a, p, dim, maxnorm):
    rows = numpy.moveaxis(a, dim, 0).copy()
    for row in rows:
        size = vector_norm(row, p)
        if size > maxnorm:
            row *= maxnorm / (size + 1e-7)
    return numpy.moveaxis(rows, 0, dim)


@oracle(
    "cosine_similarity",
    kind="numpy",
    empty=False,
    samples=lambda S: [
        call(S(3, 4), S(3, 4)),
        call(S(3, 4), S(4), dim=-1),
        call(S(2, 3), S(2, 3), 0, 10.0),
    ],
)
def cosine(a, b, dim=1, eps=1e-8):
    a, b = numpy.broadcast_arrays(a, b)
    x, y = (numpy.maximum(vector_norm(v, 2, dim), eps) for v in (a, b))
    return (a * b).sum(dim) / (x * y)


@oracle(
    "pairwise_distance",
    kind="numpy",
    factor=64,
    empty=False,
    samples=lambda S: [
        call(S(3, 4), S(3, 4)),
        call(S(3, 4), S(3, 4), 1.0, 0.01),
        call(S(3, 4), S(4), 3.0, 1e-6, True),
    ],
)
def pairwise(a, b, p=2.0, eps=1e-6, keepdim=False):
    return vector_norm(a - b + eps, p, -1, keepdim)


@oracle(
    "normalize",
    kind="numpy",
    factor=64,
    samples=lambda S: [call(S(3, 4)), call(S(3, 4), 1.0, 0), call(S(3, 4), 2.0, 1, 5.0)],
)
def normalized(a, p=2.0, dim=1, eps=1e-12):
    return a / numpy.maximum(vector_norm(a, p, dim, True), eps)


@oracle(
    "norm_except_dim",
    kind="numpy",
    empty=False,
    samples=lambda S: [call(S(3, 4, 2)), call(S(3, 4), 2, 1), call(S(3, 4, 2), 1, 2)],
)
def norm_of_others(a, pow=2, dim=0):
    others = tuple(d for d in range(a.ndim) if d != dim % a.ndim)
    return vector_norm(a, pow, others, True)


# scans


@oracle("cumsum", kind="numpy")
def running_sum(a, dim, dtype=None):
    return numpy.cumsum(a, dim, dtype)


@oracle("cumprod", kind="numpy")
def running_product(a, dim, dtype=None):
    return numpy.cumprod(a, dim, dtype)


def _running(better):
    def scan(a, dim):
        rows = numpy.moveaxis(a, dim, -1)
        values, places = numpy.empty(rows.shape, a.dtype), numpy.empty(rows.shape, numpy.int64)
        for row in numpy.ndindex(rows.shape[:-1]):
            best = 0
            for at in range(rows.shape[-1]):
                if better(rows[row][at], rows[row][best]):
                    best = at
                values[row][at], places[row][at] = rows[row][best], best
        return numpy.moveaxis(values, -1, dim), numpy.moveaxis(places, -1, dim)

    return scan


oracle("cummax", kind="loop")(_running(lambda a, b: a >= b))
oracle("cummin", kind="loop")(_running(lambda a, b: a <= b))


@oracle("logcumsumexp", kind="numpy")
def running_log_sum(a, dim):
    return numpy.log(numpy.cumsum(numpy.exp(a), dim))


# sorts


def _along(a, order, dim):
    return numpy.take_along_axis(a, order, dim)


def _order(a, dim, descending):
    if not a.ndim:
        return numpy.zeros((), numpy.int64)
    return numpy.argsort(-a if descending else a, dim, kind="stable")


@oracle("sort", kind="numpy")
def ordered(a, dim=-1, descending=False, stable=None):
    order = _order(a, dim, descending)
    return (_along(a, order, dim) if a.ndim else a), order


@oracle(
    "argsort",
    kind="numpy",
    expanded=False,
    samples=lambda S: [call(S(3, 5)), call(S(3, 5), 0, True), call(S(4), stable=True)],
)
def order(a, dim=-1, descending=False, stable=False):
    return _order(a, dim, descending)


oracle("msort", kind="numpy", samples=lambda S: [call(S(4, 3)), call(S(5))])(
    lambda a: numpy.sort(a, 0)
)


@oracle("topk", kind="numpy")
def highest(a, k, dim=-1, largest=True, sorted=True):
    order = _order(a, dim, largest).take(range(k), dim)
    return _along(a, order, dim), order


@oracle("kthvalue", kind="numpy", expanded=False)
def kth(a, k, dim=-1, keepdim=False):
    order = _order(a, dim, False).take([k - 1], dim)
    found = _along(a, order, dim), order
    return found if keepdim else tuple(f.squeeze(dim) for f in found)


def _lower_median(a, dim, keepdim, skip):
    if dim is None:
        kept = a[~numpy.isnan(a)] if skip else a.reshape(-1)
        return numpy.asarray(numpy.sort(kept)[(kept.size - 1) // 2])
    rows = numpy.moveaxis(a, dim, -1)
    values, places = (
        numpy.empty(rows.shape[:-1], a.dtype),
        numpy.empty(rows.shape[:-1], numpy.int64),
    )
    for row in numpy.ndindex(rows.shape[:-1]):
        order = numpy.argsort(rows[row], kind="stable")
        count = int((~numpy.isnan(rows[row])).sum()) if skip else len(order)
        places[row] = order[(count - 1) // 2]
        values[row] = rows[row][places[row]]
    if keepdim:
        values, places = (numpy.expand_dims(v, dim) for v in (values, places))
    return values, places


def _medians(S):
    return [call(S(3, 5)), call(S(3, 4), 1), call(S(3, 4), 0, True)]


@oracle("median", kind="loop", empty=False, expanded=False, samples=_medians)
def median(a, dim=None, keepdim=False):
    return _lower_median(a, dim, keepdim, False)


@oracle(
    "nanmedian",
    kind="loop",
    empty=False,
    expanded=False,
    samples=lambda S: [
        *_medians(S),
        call(S.of([[1.0, float("nan"), 0.0, 3.0]]), 1),
        call(S.of([float("nan"), 2.0, 1.0, 5.0])),
    ],
)
def median_of_numbers(a, dim=None, keepdim=False):
    return _lower_median(a, dim, keepdim, True)


@oracle("mode", kind="scipy", expanded=False)
def commonest(a, dim=-1, keepdim=False):
    values = scipy.stats.mode(a, axis=dim, keepdims=True).mode
    rows = numpy.moveaxis(a == values, dim, -1)
    places = numpy.expand_dims(rows.shape[-1] - 1 - numpy.argmax(rows[..., ::-1], -1), dim)
    return (values, places) if keepdim else (values.squeeze(dim), places.squeeze(dim))


METHODS = ("linear", "lower", "higher", "midpoint", "nearest")


def _quantiles(S):
    return [
        *[call(S(3, 5), 0.3, 1, interpolation=method) for method in METHODS],
        call(S(3, 4), S.of([0.1, 0.5, 1.0]), 0, True),
        call(S(3, 4), 0.25),
    ]


def _quantile(function):
    def value(a, q, dim=None, keepdim=False, interpolation="linear"):
        return numpy.asarray(function(a, q, axis=dim, keepdims=keepdim, method=interpolation))

    return value


oracle("quantile", kind="numpy", empty=False, samples=_quantiles)(_quantile(numpy.quantile))
oracle(
    "nanquantile",
    kind="numpy",
    empty=False,
    samples=lambda S: [*_quantiles(S), call(S.of([[1.0, float("nan"), 3.0, 0.0]]), 0.5, 1)],
)(_quantile(numpy.nanquantile))


@oracle(
    "unique",
    kind="numpy",
    empty=False,
    samples=lambda S: [
        call(S.of([3, 1, 3, 2])),
        call(S.of([[3, 1], [1, 2]]), return_inverse=True, return_counts=True),
        call(S.of([[1, 2], [1, 2], [0, 5]]), dim=0),
        call(S.of([2.5, -1.0, 2.5]), True, True),
    ],
)
def distinct(a, sorted=True, return_inverse=False, return_counts=False, dim=None):
    return numpy.unique(a, return_inverse=return_inverse, return_counts=return_counts, axis=dim)


@oracle(
    "unique_consecutive",
    kind="loop",
    empty=False,
    samples=lambda S: [
        call(S.of([3, 3, 1, 3, 3, 3])),
        call(S.of([1, 1, 2, 1]), True, True),
        call(S.of([[1, 2], [1, 2], [0, 5]]), True, True, 0),
    ],
)
def runs(a, return_inverse=False, return_counts=False, dim=None):
    rows = a.reshape(-1) if dim is None else numpy.moveaxis(a, dim, 0)
    kept, inverse, counts = [], [], []
    for row in rows:
        if not kept or numpy.any(kept[-1] != row):
            kept.append(row)
            counts.append(0)
        counts[-1] += 1
        inverse.append(len(kept) - 1)
    values = numpy.array(kept)
    found = [values if dim is None else numpy.moveaxis(values, 0, dim)]
    if return_inverse:
        found.append(numpy.array(inverse).reshape(a.shape if dim is None else -1))
    return (*found, numpy.array(counts)) if return_counts else found if len(found) > 1 else found[0]


# statistics

oracle("trace", kind="numpy", samples=lambda S: [call(S(3, 4))], empty=False)(
    lambda a: numpy.asarray(numpy.trace(a))
)


@oracle(
    "cov",
    kind="numpy",
    empty=False,
    expanded=False,
    samples=lambda S: [
        call(S(3, 5)),
        call(S(5)),
        call(S(3, 5), correction=0),
        call(S(3, 4), fweights=S.of([1, 2, 3, 1])),
        call(S(3, 4), aweights=S(4, low=0.1)),
        call(S(3, 4), correction=0, fweights=S.of([1, 2, 0, 1]), aweights=S(4, low=0.1)),
        call(S.complex(3, 5)),
    ],
)
def covariance(a, correction=1, fweights=None, aweights=None):
    return numpy.asarray(numpy.cov(a, ddof=correction, fweights=fweights, aweights=aweights))


oracle(
    "corrcoef",
    kind="numpy",
    empty=False,
    expanded=False,
    samples=lambda S: [call(S(3, 5)), call(S.complex(3, 5))],
)(numpy.corrcoef)


@oracle(
    "cross",
    kind="numpy",
    empty=False,
    samples=lambda S: [call(S(2, 3), S(2, 3)), call(S(3, 4), S(3, 4)), call(S(4, 3), S(4, 3), 1)],
)
def cross(a, b, dim=None):
    axis = dim if dim is not None else next(d for d, n in enumerate(a.shape) if n == 3)
    return numpy.cross(a, b, axis=axis)


oracle(
    "linalg_cross",
    kind="numpy",
    samples=lambda S: [
        call(S(2, 3), S(2, 3)),
        call(S(3, 4), S(3, 4), dim=0),
        call(S(2, 3), S(1, 3)),
    ],
    empty=False,
)(lambda a, b, dim=-1: numpy.cross(a, b, axis=dim))


@oracle(
    "gradient",
    kind="numpy",
    empty=False,
    samples=lambda S: [
        call(S(5)),
        call(S(4, 5)),
        call(S(4, 5), spacing=0.5),
        call(S(4, 5), dim=1, edge_order=2),
        call(S(4, 5), spacing=[2.0, 0.5]),
        call(S(4, 5), spacing=[S.of([0.0, 1.0, 3.0, 4.0])], dim=0),
    ],
)
def gradient(a, spacing=None, dim=None, edge_order=1):
    steps = (
        [1.0] if spacing is None else spacing if isinstance(spacing, (list, tuple)) else [spacing]
    )
    found = numpy.gradient(a, *steps, axis=axes(dim), edge_order=edge_order)
    return list(found) if isinstance(found, (list, tuple)) else [found]


@oracle(
    "hash_tensor",
    kind="loop",
    empty=False,
    samples=lambda S: [call(S(3, 4)), call(S(3, 4), 1), call(S(3, 4), 0, keepdim=True)],
)
def hashed(a, dim=(), keepdim=False, mode=0):
    return numpy.bitwise_xor.reduce(
        a.astype(numpy.float64).view(numpy.uint64), axes(dim), keepdims=keepdim
    )


@oracle(
    "segment_reduce",
    kind="loop",
    empty=False,
    samples=lambda S: (
        [
            call(S(5, 2), reduce, lengths=S.of([2, 0, 3]), initial=0.5)
            for reduce in ("sum", "mean", "max", "min", "prod")
        ]
        + [call(S(5), "sum", offsets=S.of([0, 2, 5])), call(S(5, 2), "max", lengths=S.of([2, 3]))]
    ),
)
def segments(
    data, reduce, lengths=None, indices=None, offsets=None, axis=0, unsafe=False, initial=None
):
    bounds = offsets if lengths is None else numpy.concatenate([[0], numpy.cumsum(lengths)])
    made = []
    for first, last in zip(bounds[:-1], bounds[1:], strict=True):
        rows = list(data[first:last])
        if initial is not None:
            rows = [numpy.full(data.shape[1:], initial), *rows]
        count = max(last - first, 1)
        made.append(
            {
                "sum": lambda r: sum(r),
                "mean": lambda r, n=count: sum(r) / n,
                "max": lambda r: numpy.max(r, 0),
                "min": lambda r: numpy.min(r, 0),
                "prod": lambda r: numpy.prod(r, 0),
            }[reduce](rows)
        )
    return numpy.array(made)


# softmax


def _softmax(a, dim=None, *rest, dtype=None, **options):
    if dim is None:
        dim = 0 if a.ndim in (0, 1, 3) else 1
    a = a if dtype is None else a.astype(dtype)
    return scipy.special.softmax(a, dim) if a.size else a


def _log_softmax(a, dim=None, *rest, dtype=None, **options):
    if dim is None:
        dim = 0 if a.ndim in (0, 1, 3) else 1
    a = a if dtype is None else a.astype(dtype)
    return scipy.special.log_softmax(a, dim) if a.size else a


def _softmaxes(S):
    return [call(S(3, 4), 1), call(S(2, 3, 4), 0), call(S(5), -1)]


oracle("softmax", "functional_softmax", kind="scipy", samples=_softmaxes)(_softmax)
oracle("log_softmax", "functional_log_softmax", kind="scipy", samples=_softmaxes)(_log_softmax)
for _name, _function in (("_softmax", _softmax), ("_log_softmax", _log_softmax)):
    oracle(
        _name,
        kind="scipy",
        samples=lambda S: [call(S(3, 4), 1, False), call(S(2, 3, 4), -3, False)],
    )(_function)
oracle("softmin", kind="scipy", samples=_softmaxes)(lambda a, dim=None: _softmax(-a, dim))


@oracle(
    "_safe_softmax",
    kind="scipy",
    samples=lambda S: [
        *_softmaxes(S),
        call(S.of([[-float("inf")] * 3, [0.5, -float("inf"), 1.0]]), -1),
    ],
)
def safe_softmax(a, dim, dtype=None):
    return numpy.where(numpy.all(a == -numpy.inf, dim, keepdims=True), 0, _softmax(a, dim))


@oracle(
    "_softmax_backward_data",
    kind="differences",
    factor=64,
    float32=False,
    expanded=False,
    samples=lambda S: [call(S(3, 4), S.rows_of_one(3, 4), 1, S.dtype)],
)
def softmax_backward(grad, output, dim, input_dtype):
    logits, step = numpy.log(output), 1e-200j
    made = numpy.empty_like(grad)
    for place in numpy.ndindex(grad.shape):  # a complex step has no cancellation
        moved = logits.astype(complex)
        moved[place] += step
        powers = numpy.exp(moved)
        made[place] = (grad * (powers / powers.sum(dim, keepdims=True)).imag).sum() / step.imag
    return made


@oracle(
    "_log_softmax_backward_data",
    kind="differences",
    factor=64,
    float32=False,
    expanded=False,
    samples=lambda S: [call(S(3, 4), S.of(numpy.log(S.rows_of_one(3, 4).numpy())), 1, S.dtype)],
)
def log_softmax_backward(grad, output, dim, input_dtype):
    step = 1e-200j
    made = numpy.empty_like(grad)
    for place in numpy.ndindex(grad.shape):
        moved = output.astype(complex)
        moved[place] += step
        made[place] = (
            grad * (moved - numpy.log(numpy.exp(moved).sum(dim, keepdims=True))).imag
        ).sum() / step.imag
    return made
