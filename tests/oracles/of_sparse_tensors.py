"""Oracles of sparse tensors, whose elements are compared as dense arrays: where values go, and NumPy's products."""

import numpy
import scipy.sparse
import scipy.special
from oracle_table import call, oracle

A = [[0.0, 1.5, 0.0, 2.0], [0.0, 0.0, -1.0, 0.0], [3.0, 0.0, 0.0, 0.5], [0.0, 0.0, 0.0, 0.0]]
B = [[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 2.0, 0.0], [0.0, -1.0, 0.0, 0.0], [0.5, 0.0, 0.0, 4.0]]
LAYOUTS = ("coo", "csr", "csc", "bsr", "bsc")
OPTIONS = {"empty": False, "expanded": False}


def _same(a, *rest, **options):
    return a


# conversions keep every element

oracle(
    "to_dense",
    kind="identity",
    samples=lambda S: [call(S.sparse(A, layout)) for layout in LAYOUTS],
    **OPTIONS,
)(_same)
oracle(
    "to_sparse",
    "to_sparse_coo",
    kind="identity",
    layout="coo",
    samples=lambda S: [call(S.of(A)), *[call(S.sparse(A, layout)) for layout in LAYOUTS]],
    **OPTIONS,
)(_same)
for _layout in ("csr", "csc"):
    oracle(
        f"to_sparse_{_layout}",
        kind="identity",
        layout=_layout,
        samples=lambda S: [
            call(S.of(A)),
            *[call(S.sparse(A, layout)) for layout in ("coo", "csr", "csc")],
        ],
        **OPTIONS,
    )(_same)
for _layout in ("bsr", "bsc"):
    oracle(
        f"to_sparse_{_layout}",
        kind="identity",
        layout=_layout,
        samples=lambda S: [
            call(S.of(A), (2, 2)),
            call(S.of(A), (4, 2)),
            call(S.sparse(A, "csr"), (2, 2)),
        ],
        **OPTIONS,
    )(_same)


@oracle(
    "coalesce",
    kind="identity",
    layout="coo",
    samples=lambda S: [
        call(S.sparse(A)),
        call(S.repeated([[0, 2, 0], [1, 1, 1]], [1.0, 2.0, 4.0], (3, 2))),
    ],
    **OPTIONS,
)
def coalesced(a):
    return a


@oracle(
    "sparse_mask",
    kind="numpy",
    layout="coo",
    samples=lambda S: [call(S(4, 4), S.sparse(A))],
    **OPTIONS,
)
def masked(a, mask):
    return a * (mask != 0)


# what makes them


@oracle(
    "sparse_coo_tensor",
    kind="loop",
    layout="coo",
    samples=lambda S: [
        call(S.of([[0, 2, 1], [1, 0, 1]]), S(3), (3, 2)),
        call(S.of([[0, 0], [1, 1]]), S(2), (2, 2)),
        call(S.of([[0, 2]]), S(2, 3), (4, 3)),
        call(S.of([[0, 2], [1, 3]]), S(2)),
    ],
    **OPTIONS,
)
def coordinates(indices, values, size=None):
    size = tuple(indices.max(1) + 1) + values.shape[1:] if size is None else size
    made = numpy.zeros(size)
    for place, value in zip(indices.T, values, strict=True):
        made[tuple(place)] += value
    return made


def _lines(starts, others, values, size, rows):
    """Compressed rows or columns, of numbers or of blocks."""
    made = numpy.zeros(size)
    high, wide = values.shape[1:] or (1, 1)
    for first, (start, end) in enumerate(zip(starts[:-1], starts[1:], strict=True)):
        for at in range(start, end):
            row, column = (first, others[at]) if rows else (others[at], first)
            made[row * high : (row + 1) * high, column * wide : (column + 1) * wide] = values[at]
    return made


def _compressed(S, *block):
    size = (3, 3) if not block else (3 * block[0], 3 * block[1])
    return S.of([0, 2, 2, 3]), S.of([0, 2, 1]), S(3, *block), size


for _name, _rows in (("csr", True), ("csc", False)):
    oracle(
        f"sparse_{_name}_tensor",
        kind="loop",
        layout=_name,
        samples=lambda S: [call(*_compressed(S))],
        **OPTIONS,
    )(lambda starts, others, values, size, rows=_rows: _lines(starts, others, values, size, rows))
for _name, _rows in (("bsr", True), ("bsc", False)):
    oracle(
        f"sparse_{_name}_tensor",
        kind="loop",
        layout=_name,
        samples=lambda S: [call(*_compressed(S, 2, 3))],
        **OPTIONS,
    )(lambda starts, others, values, size, rows=_rows: _lines(starts, others, values, size, rows))


@oracle(
    "sparse_compressed_tensor",
    kind="loop",
    samples=lambda S: [
        call(*_compressed(S), layout=S.layout("csr")),
        call(*_compressed(S), layout=S.layout("csc")),
        call(*_compressed(S, 2, 3), layout=S.layout("bsr")),
    ],
    **OPTIONS,
)
def compressed(starts, others, values, size, layout=None):
    return _lines(starts, others, values, size, layout.endswith("r"))


@oracle(
    "sparse_spdiags",
    kind="scipy",
    layout="coo",
    samples=lambda S: [
        call(S(3, 4), S.of([0, -1, 2]), (4, 4)),
        call(S(2, 3), S.of([1, -2]), (5, 3)),
        call(S(3), S.of([0]), (3, 3)),
    ],
    **OPTIONS,
)
def diagonals(a, offsets, shape, layout=None):
    return scipy.sparse.spdiags(a, offsets, *shape).toarray()


# products


@oracle(
    "sparse_mm",
    kind="numpy",
    samples=lambda S: [
        call(S.sparse(A), S(4, 3)),
        call(S.sparse(A, "csr"), S(4, 3)),
        call(S.sparse(A, "csr"), S.sparse(B, "csr")),
        call(S.sparse(A), S.sparse(B)),
        *[call(S.sparse(A, "csr"), S(4, 3), reduce) for reduce in ("sum", "mean", "amax", "amin")],
    ],
    **OPTIONS,
)
def product(a, b, reduce=None):
    if reduce in (None, "sum"):
        return a @ b
    made = numpy.zeros((a.shape[0], b.shape[1]))
    for row in range(a.shape[0]):
        terms = [a[row, k] * b[k] for k in range(a.shape[1]) if a[row, k]]
        if terms:
            made[row] = {"mean": numpy.mean, "amax": numpy.max, "amin": numpy.min}[reduce](terms, 0)
    return made


def _added(m, a, b, beta=1.0, alpha=1.0):
    return beta * m + alpha * (a @ b)


oracle(
    "sparse_addmm",
    "_sparse_addmm",
    kind="numpy",
    samples=lambda S: [
        call(S(4, 3), S.sparse(A), S(4, 3)),
        call(S(4, 3), S.sparse(A, "csr"), S(4, 3), beta=0.5, alpha=2.0),
    ],
    **OPTIONS,
)(_added)


@oracle(
    "sparse_sampled_addmm",
    kind="numpy",
    layout="csr",
    factor=64,
    samples=lambda S: [
        call(S.sparse(A, "csr"), S(4, 3), S(3, 4)),
        call(S.sparse(A, "csr"), S(4, 3), S(3, 4), beta=0.5, alpha=2.0),
    ],
    **OPTIONS,
)
def at_entries(m, a, b, beta=1.0, alpha=1.0):
    return _added(m, a, b, beta, alpha) * (m != 0)


oracle(
    "smm", kind="numpy", layout="coo", samples=lambda S: [call(S.sparse(A), S(4, 3))], **OPTIONS
)(numpy.matmul)
oracle(
    "hspmm", kind="numpy", layout="coo", samples=lambda S: [call(S.sparse(A), S(4, 3))], **OPTIONS
)(numpy.matmul)
oracle(
    "sspaddmm",
    kind="numpy",
    layout="coo",
    samples=lambda S: [
        call(S.sparse(B), S.sparse(A), S(4, 4)),
        call(S.sparse(B), S.sparse(A), S(4, 4), beta=0.5, alpha=2.0),
    ],
    **OPTIONS,
)(_added)


# reductions


@oracle(
    "sparse_sum",
    kind="numpy",
    samples=lambda S: [
        call(S.sparse(A)),
        call(S.sparse(A), 0),
        call(S.sparse(A), [1]),
        call(S.sparse(A), [0, 1]),
    ],
    **OPTIONS,
)
def summed(a, dim=None, dtype=None):
    return numpy.asarray(
        a.sum(None if dim is None else tuple(dim) if isinstance(dim, (list, tuple)) else dim)
    )


def _over_entries(a, dim):
    return numpy.where(a != 0, scipy.special.softmax(numpy.where(a != 0, a, -numpy.inf), dim), 0)


oracle(
    "sparse_softmax",
    kind="scipy",
    layout="coo",
    samples=lambda S: [call(S.sparse(A), 0), call(S.sparse(A), 1), call(S.sparse(B), -1)],
    **OPTIONS,
)(lambda a, dim: numpy.nan_to_num(_over_entries(a, dim)))
oracle(
    "sparse_log_softmax",
    kind="scipy",
    layout="coo",
    factor=64,
    samples=lambda S: [call(S.sparse(A), 0), call(S.sparse(A), 1), call(S.sparse(B), -1)],
    **OPTIONS,
)(
    lambda a, dim: numpy.where(
        a != 0, numpy.log(numpy.where(a != 0, numpy.nan_to_num(_over_entries(a, dim)), 1)), 0
    )
)
