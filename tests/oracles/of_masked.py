"""Oracles of masked reductions: the elements that count, taken out one line at a time."""

import numpy
import scipy.special
from of_reductions import vector_norm
from oracle_table import call, oracle


def _counting(a, mask):
    return numpy.ones(a.shape, bool) if mask is None else numpy.broadcast_to(mask, a.shape)


def _lines(fold):
    """`fold` of the elements that count along some dimensions."""

    def value(a, dim=None, *, keepdim=False, dtype=None, mask=None, **options):
        counts = _counting(a, mask)
        dims = (
            tuple(range(a.ndim))
            if dim is None or dim == ()
            else tuple(d % a.ndim for d in (dim if isinstance(dim, (tuple, list)) else [dim]))
        )
        kept = [d for d in range(a.ndim) if d not in dims]
        made = numpy.empty([a.shape[d] for d in kept])
        for place in numpy.ndindex(*made.shape):
            index = [slice(None)] * a.ndim
            for d, at in zip(kept, place, strict=True):
                index[d] = at
            line = a[tuple(index)].reshape(-1)
            made[place] = fold(line, counts[tuple(index)].reshape(-1), **options)
        if keepdim:
            made = made.reshape([1 if d in dims else n for d, n in enumerate(a.shape)])
        return made

    return value


def _reductions(S):
    return [
        call(S(3, 4)),
        call(S(3, 4), mask=S.some(3, 4)),
        call(S(3, 4), 1, mask=S.some(3, 4)),
        call(S(3, 4, 2), (0, 2), keepdim=True, mask=S.some(3, 4, 2)),
        call(S(3, 4), -1, mask=S.some(4)),
    ]


def _single(S):
    return [
        call(S(3, 4), 1, mask=S.some(3, 4)),
        call(S(3, 4), 0, keepdim=True, mask=S.some(3, 4)),
        call(S(3, 4), 1),
    ]


for _name, _fold in {
    "sum": lambda v, m: v[m].sum(),
    "prod": lambda v, m: v[m].prod(),
    "amax": lambda v, m: v[m].max() if m.any() else -numpy.inf,
    "amin": lambda v, m: v[m].min() if m.any() else numpy.inf,
    "mean": lambda v, m: v[m].mean() if m.any() else numpy.nan,
    "logsumexp": lambda v, m: scipy.special.logsumexp(v[m]) if m.any() else -numpy.inf,
}.items():
    oracle(f"_masked_{_name}", kind="numpy", empty=False, samples=_reductions)(_lines(_fold))

for _name, _fold in {
    "argmax": lambda v, m: numpy.argmax(numpy.where(m, v, -numpy.inf)),
    "argmin": lambda v, m: numpy.argmin(numpy.where(m, v, numpy.inf)),
    "median": lambda v, m: numpy.sort(v[m])[(m.sum() - 1) // 2] if m.any() else numpy.nan,
}.items():
    oracle(f"_masked_{_name}", kind="numpy", empty=False, samples=_single)(_lines(_fold))


@oracle(
    "_masked_norm",
    kind="numpy",
    empty=False,
    samples=lambda S: [
        call(S(3, 4), 2.0, 1, mask=S.some(3, 4)),
        call(S(3, 4), 1.0, mask=S.some(3, 4)),
        call(S(3, 4), 3.0, 0, keepdim=True),
    ],
)
def norm(a, ord=2.0, dim=None, keepdim=False, dtype=None, mask=None):
    return _lines(lambda v, m: vector_norm(v[m], ord))(a, dim, keepdim=keepdim, mask=mask)


def _variance(a, dim=None, unbiased=None, correction=None, keepdim=False, dtype=None, mask=None):
    freedom = correction if correction is not None else 1 if unbiased is None or unbiased else 0
    return _lines(lambda v, m: v[m].var(ddof=freedom))(a, dim, keepdim=keepdim, mask=mask)


def _variances(S):
    return [
        call(S(3, 6), 1, mask=S.some(3, 6)),
        call(S(3, 6), None, False, mask=S.some(3, 6)),
        call(S(3, 6), (0, 1), correction=2, keepdim=True),
    ]


oracle("_masked_var", kind="numpy", factor=64, empty=False, samples=_variances)(_variance)
oracle("_masked_std", kind="numpy", factor=64, empty=False, samples=_variances)(
    lambda *a, **k: numpy.sqrt(_variance(*a, **k))
)


@oracle(
    "_masked_logaddexp",
    kind="numpy",
    samples=lambda S: [
        call(S(3, 4), S(3, 4)),
        call(S(3, 4), S(3, 4), input_mask=S.some(3, 4), other_mask=S.some(3, 4)),
    ],
)
def logaddexp(a, b, dtype=None, input_mask=None, other_mask=None):
    first = numpy.where(_counting(a, input_mask), a, -numpy.inf)
    return numpy.logaddexp(first, numpy.where(_counting(b, other_mask), b, -numpy.inf))


def _rows(transform):
    """`transform` of every row along a dimension, given which of its elements count."""

    def value(a, dim, *, dtype=None, mask=None, **options):
        counts = numpy.moveaxis(_counting(a, mask), dim, -1)
        rows = numpy.moveaxis(a, dim, -1)
        made = numpy.zeros(rows.shape)
        for place in numpy.ndindex(rows.shape[:-1]):
            made[place] = transform(rows[place], counts[place], **options)
        return numpy.moveaxis(made, -1, dim)

    return value


def _softmax(values, counts):
    made = numpy.zeros(values.shape)
    made[counts] = scipy.special.softmax(values[counts])
    return made


def _masked_rows(S):
    return [
        call(S(3, 4), 1, mask=S.some(3, 4)),
        call(S(3, 4), 0, mask=S.some(3, 4)),
        call(S(3, 4), -1),
    ]


for _name, _transform in {
    "softmax": _softmax,
    "log_softmax": lambda v, m: numpy.log(_softmax(v, m)),
    "softmin": lambda v, m: _softmax(-v, m),
    "cumsum": lambda v, m: numpy.cumsum(numpy.where(m, v, 0)),
    "cumprod": lambda v, m: numpy.cumprod(numpy.where(m, v, 1)),
}.items():
    oracle(f"_masked_{_name}", kind="numpy", factor=64, empty=False, samples=_masked_rows)(
        _rows(_transform)
    )


@oracle(
    "_masked_normalize",
    kind="numpy",
    empty=False,
    samples=lambda S: [
        call(S(3, 4), 2.0, 1, mask=S.some(3, 4)),
        call(S(3, 4), 1.0, 0),
        call(S(3, 4), 2.0, 1, eps=5.0, mask=S.some(3, 4)),
    ],
)
def normalized(a, ord, dim, eps=1e-12, dtype=None, mask=None):
    kept = numpy.where(_counting(a, mask), a, 0)
    return kept / numpy.maximum(vector_norm(kept, ord, dim, True), eps)
