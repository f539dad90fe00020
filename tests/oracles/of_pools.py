"""Oracles of pooling: loops over the windows, in any number of dimensions."""

import math

import numpy
from of_convolutions import several
from oracle_table import call, oracle


def _count(size, kernel, stride, padding, dilation, ceil_mode):
    """How many windows start in a dimension; one that starts beyond the padded input is left out."""
    steps = (size + 2 * padding - dilation * (kernel - 1) - 1) / stride
    count = (math.ceil(steps) if ceil_mode else math.floor(steps)) + 1
    return count - 1 if ceil_mode and (count - 1) * stride >= size + padding else count


def _pooled(a, n, counts, window, fold, results=1):
    """`fold(values, flat positions, window)` of every window of the last `n` dimensions."""
    lead = a.shape[:-n]
    planes = a.reshape(-1, *a.shape[-n:])
    made = [numpy.zeros((len(planes), *counts)), numpy.zeros((len(planes), *counts), numpy.int64)]
    for number, plane in enumerate(planes):
        for place in numpy.ndindex(*counts):
            ranges = [
                [i for i in window(d, p) if 0 <= i < a.shape[d - n]] for d, p in enumerate(place)
            ]
            flat = numpy.ravel_multi_index(numpy.ix_(*ranges), plane.shape).reshape(-1)
            found = fold(plane.reshape(-1)[flat], flat, place)
            for at, value in enumerate(found if isinstance(found, tuple) else (found,)):
                made[at][(number, *place)] = value
    return [m.reshape(*lead, *counts) for m in made]


def _largest(values, flat, place):
    at = int(numpy.argmax(values))
    return values[at], flat[at]


def _maxima(n, with_indices):
    def value(
        a, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False
    ):
        kernel, pad, gap = several(kernel_size, n), several(padding, n), several(dilation, n)
        step = several(stride, n) if stride else kernel
        counts = [
            _count(*v, ceil_mode) for v in zip(a.shape[-n:], kernel, step, pad, gap, strict=True)
        ]
        found = _pooled(
            a,
            n,
            counts,
            lambda d, p: [p * step[d] - pad[d] + i * gap[d] for i in range(kernel[d])],
            _largest,
        )
        return tuple(found) if with_indices else found[0]

    return value


def _means(n):
    def value(
        a,
        kernel_size,
        stride=None,
        padding=0,
        ceil_mode=False,
        count_include_pad=True,
        divisor_override=None,
    ):
        kernel, pad = several(kernel_size, n), several(padding, n)
        step = several(stride, n) if stride else kernel
        counts = [
            _count(*v, 1, ceil_mode) for v in zip(a.shape[-n:], kernel, step, pad, strict=True)
        ]

        def mean(values, flat, place):
            starts = [p * s - q for p, s, q in zip(place, step, pad, strict=True)]
            whole = math.prod(
                min(f + k, size + q) - f
                for f, k, size, q in zip(starts, kernel, a.shape[-n:], pad, strict=True)
            )
            return values.sum() / (
                divisor_override or (whole if count_include_pad else len(values))
            )

        return _pooled(
            a,
            n,
            counts,
            lambda d, p: range(p * step[d] - pad[d], p * step[d] - pad[d] + kernel[d]),
            mean,
        )[0]

    return value


def _powers(n):
    def value(a, norm_type, kernel_size, stride=None, ceil_mode=False):
        kernel = several(kernel_size, n)
        step = several(stride, n) if stride else kernel
        counts = [_count(*v, 0, 1, ceil_mode) for v in zip(a.shape[-n:], kernel, step, strict=True)]
        return _pooled(
            a,
            n,
            counts,
            lambda d, p: range(p * step[d], p * step[d] + kernel[d]),
            lambda values, flat, place: (values**norm_type).sum() ** (1 / norm_type),
        )[0]

    return value


def _parts(n, fold, with_indices=None):
    def value(a, output_size, return_indices=False):
        wanted = several(output_size, n) if output_size is not None else [None] * n
        counts = [s if w is None else w for w, s in zip(wanted, a.shape[-n:], strict=True)]

        def window(d, p):
            size = a.shape[d - n]
            return range(math.floor(p * size / counts[d]), math.ceil((p + 1) * size / counts[d]))

        found = _pooled(a, n, counts, window, fold)
        both = return_indices if with_indices is None else with_indices
        return tuple(found) if both else found[0]

    return value


def _unpooled(n):
    def value(a, indices, kernel_size, stride=None, padding=0, output_size=None):
        kernel, pad = several(kernel_size, n), several(padding, n)
        step = several(stride, n) if stride else kernel
        sizes = [
            (s - 1) * t + k - 2 * p
            for s, t, k, p in zip(a.shape[-n:], step, kernel, pad, strict=True)
        ]
        sizes = sizes if output_size is None else list(output_size)[-n:]
        made = numpy.zeros((*a.shape[:-n], math.prod(sizes)), a.dtype)
        for place in numpy.ndindex(a.shape):
            made[(*place[:-n], indices[place])] = a[place]
        return made.reshape(*a.shape[:-n], *sizes)

    return value


SHAPE = (7, 6, 5)
PLACES = {1: [0, 3, 4], 2: [[1, 2], [9, 15]], 3: [[[0, 3], [9, 30]], [[40, 45], [57, 63]]]}


def _windows(n, dilated):
    def samples(S):
        a = (2, 3, *SHAPE[:n])
        made = [
            call(S(*a), 2),
            call(S(*a), 3, 2, 1),
            call(S(*a), [3, 2, 2][:n], [2, 1, 3][:n], [1, 1, 0][:n]),
            call(S(*a), 2, 3, 1, ceil_mode=True),
            call(S(3, *SHAPE[:n]), 2, 1),
            call(S(*a), 2, ceil_mode=True),
        ]
        if dilated:
            return [*made, call(S(*a), 2, 1, 0, 2), call(S(*a), 2, 2, 1, 3, True)]
        made += [call(S(*a), 3, 2, 1, count_include_pad=False), call(S(*a), 3, 2, 1, True, False)]
        return made + ([call(S(*a), 2, divisor_override=5)] if n > 1 else [])

    return samples


def _adaptive(n, *more):
    def samples(S):
        a = (2, 3, *SHAPE[:n])
        sizes = [3, 1, [2, 5, 4][:n]] + ([[None, 3, 2][:n]] if n > 1 else [])
        return [call(S(*a), size, *more) for size in sizes] + [call(S(3, *SHAPE[:n]), 2, *more)]

    return samples


for _n in (1, 2, 3):
    oracle(f"max_pool{_n}d", kind="loop", empty=False, samples=_windows(_n, True))(
        _maxima(_n, False)
    )
    oracle(
        f"max_pool{_n}d_with_indices",
        kind="loop",
        empty=False,
        expanded=False,
        samples=_windows(_n, True),
    )(_maxima(_n, True))
    oracle(f"avg_pool{_n}d", kind="loop", empty=False, samples=_windows(_n, False))(_means(_n))
    oracle(
        f"adaptive_max_pool{_n}d",
        kind="loop",
        empty=False,
        expanded=False,
        samples=lambda S, n=_n: [*_adaptive(n)(S), *_adaptive(n, True)(S)],
    )(_parts(_n, _largest))
    oracle(
        f"adaptive_max_pool{_n}d_with_indices",
        kind="loop",
        empty=False,
        expanded=False,
        samples=_adaptive(_n),
    )(_parts(_n, _largest, True))
    oracle(f"adaptive_avg_pool{_n}d", kind="loop", empty=False, samples=_adaptive(_n))(
        _parts(_n, lambda values, flat, place: values.mean())
    )
    if _n > 1:
        oracle(
            f"_adaptive_avg_pool{_n}d",
            kind="loop",
            empty=False,
            samples=lambda S, n=_n: [call(S(2, 3, *SHAPE[:n]), [2, 5, 4][:n])],
        )(_parts(_n, lambda values, flat, place: values.mean()))
    oracle(
        f"lp_pool{_n}d",
        kind="loop",
        empty=False,
        factor=64,
        samples=lambda S, n=_n: [
            call(S(2, 3, *SHAPE[:n]), 2, 2),
            call(S(2, 3, *SHAPE[:n]), 2, 3, 2),
            call(S(2, 3, *SHAPE[:n], low=0.1), 3.0, [2, 3, 2][:n], 2),
            call(S(2, *SHAPE[:n], low=0.1), 1.0, 2),
        ],
    )(_powers(_n))
    oracle(
        f"max_unpool{_n}d",
        kind="loop",
        empty=False,
        expanded=False,
        samples=lambda S, n=_n: [
            call(S(1, 1, *numpy.shape(PLACES[n])), S.of([[PLACES[n]]]), 2),
            call(
                S(1, *numpy.shape(PLACES[n])),
                S.of([PLACES[n]]),
                2,
                output_size=[2 * s + 1 for s in numpy.shape(PLACES[n])],
            ),
        ],
    )(_unpooled(_n))
