"""Oracle of fractional max pooling: a loop over windows whose starts a random number decides. [Graham 2014]"""

import itertools

import numpy


def starts(random, size, out, kernel):
    """Where windows begin: steps of `alpha` from a random phase, the last one at the end."""
    if out == 1:
        return [size - kernel]
    alpha = (size - kernel) / (out - 1)
    return [int((i + random) * alpha) - int(random * alpha) for i in range(out - 1)] + [
        size - kernel
    ]


def pooled(a, kernel, out, samples):
    """Maxima and their flat positions; random numbers are those of T, H, W in volumes, of W, H in planes."""
    n = len(kernel)
    made, places = numpy.empty((*a.shape[:2], *out)), numpy.empty((*a.shape[:2], *out), numpy.int64)
    for batch, channel in numpy.ndindex(*a.shape[:2]):
        plane = a[batch, channel]
        draws = samples[batch, channel]
        draws = draws[::-1] if n == 2 else draws
        begin = [starts(*v) for v in zip(draws, plane.shape, out, kernel, strict=True)]
        for where in numpy.ndindex(*out):
            corner = [b[w] for b, w in zip(begin, where, strict=True)]
            window = itertools.product(
                *(range(c, c + k) for c, k in zip(corner, kernel, strict=True))
            )
            best = max(window, key=lambda p: plane[p])
            made[(batch, channel, *where)] = plane[best]
            places[(batch, channel, *where)] = numpy.ravel_multi_index(best, plane.shape)
    return made, places
