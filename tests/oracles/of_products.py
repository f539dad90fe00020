"""Oracles of products of matrices and vectors, and of distances: NumPy and SciPy."""

import numpy
import scipy.spatial.distance
from oracle_table import call, oracle

_EINSUMS = [
    ("ij,jk->ik", (3, 4), (4, 2)),
    ("ij,jk", (3, 4), (4, 2)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 2)),
    ("ii->i", (3, 3)),
    ("ii", (3, 3)),
    ("i,j->ij", (3,), (4,)),
    ("...ij->...ji", (2, 3, 4)),
    ("ij,j->i", (3, 4), (4,)),
    ("ijk->", (2, 3, 4)),
    ("abc,cd,db->a", (2, 3, 4), (4, 5), (5, 3)),
    ("...i,...i->...", (2, 3, 4), (3, 4)),
]


@oracle(
    "einsum",
    kind="numpy",
    factor=64,
    empty=False,
    samples=lambda S: [call(text, *[S(*shape) for shape in shapes]) for text, *shapes in _EINSUMS],
)
def einsum(equation, *operands):
    return numpy.asarray(numpy.einsum(equation, *operands))


oracle("mm", "bmm", kind="numpy")(numpy.matmul)
oracle(
    "matmul",
    kind="numpy",
    samples=lambda S: (
        [
            call(S(*a), S(*b))
            for a, b in (
                ((3,), (3,)),
                ((2, 3), (3,)),
                ((3,), (3, 2)),
                ((2, 3), (3, 4)),
                ((5, 2, 3), (3, 4)),
                ((5, 1, 2, 3), (4, 3, 2)),
                ((4, 2, 3), (3,)),
            )
        ]
        + [call(S.complex(2, 3), S.complex(3, 4))]
    ),
    empty=False,
)(lambda a, b: numpy.asarray(numpy.matmul(a, b)))
oracle(
    "mv", kind="numpy", samples=lambda S: [call(S(3, 4), S(4)), call(S.complex(3, 4), S.complex(4))]
)(numpy.matmul)
oracle("dot", kind="numpy")(lambda a, b: numpy.asarray(numpy.dot(a, b)))
oracle(
    "vdot", kind="numpy", samples=lambda S: [call(S(4), S(4)), call(S.complex(4), S.complex(4))]
)(lambda a, b: numpy.asarray(numpy.vdot(a, b)))


def _scaled(product):
    def value(a, x, y, beta=1, alpha=1):
        return beta * a + alpha * product(x, y)

    return value


def _added(a, x, y):
    return lambda S: [call(S(*a), S(*x), S(*y)), call(S(*a), S(*x), S(*y), beta=0.5, alpha=2.0)]


oracle("addmm", "baddbmm", kind="numpy", factor=64)(_scaled(numpy.matmul))
oracle("_addmm_activation", kind="numpy", factor=64, samples=_added((5,), (3, 4), (4, 5)))(
    lambda *args, **factors: numpy.maximum(_scaled(numpy.matmul)(*args, **factors), 0)
)
oracle("addmv", kind="numpy", factor=64, samples=_added((3,), (3, 4), (4,)))(_scaled(numpy.matmul))
oracle("addbmm", "addbmm_", kind="numpy", factor=64, samples=_added((3, 2), (5, 3, 4), (5, 4, 2)))(
    _scaled(lambda x, y: numpy.matmul(x, y).sum(0))
)
oracle("addr", kind="numpy", samples=_added((3, 4), (3,), (4,)))(_scaled(numpy.outer))
oracle(
    "outer", kind="numpy", samples=lambda S: [call(S(3), S(4)), call(S.complex(3), S.complex(4))]
)(numpy.outer)
oracle(
    "inner",
    kind="numpy",
    empty=False,
    samples=lambda S: [call(S(4), S(4)), call(S(2, 4), S(3, 4)), call(S(), S(3))],
)(lambda a, b: numpy.asarray(numpy.inner(a, b)))
oracle(
    "kron",
    kind="numpy",
    samples=lambda S: [call(S(2, 3), S(4, 2)), call(S(3), S(2, 2)), call(S(2, 2, 2), S(2))],
)(numpy.kron)


@oracle(
    "tensordot",
    kind="numpy",
    factor=64,
    empty=False,
    samples=lambda S: [
        call(S(2, 3, 4), S(3, 4, 5)),
        call(S(2, 3), S(3, 2), 1),
        call(S(2, 3, 4), S(4, 5, 2), dims=([2, 0], [0, 2])),
        call(S(2), S(3), 0),
    ],
)
def tensordot(a, b, dims=2):
    return numpy.tensordot(a, b, dims)


@oracle("linear", kind="numpy", factor=64)
def linear(a, weight, bias=None):
    return a @ weight.T + (0 if bias is None else bias)


@oracle(
    "bilinear",
    kind="loop",
    factor=64,
    empty=False,
    samples=lambda S: [
        call(S(3, 4), S(3, 5), S(2, 4, 5)),
        call(S(2, 3, 4), S(2, 3, 5), S(2, 4, 5), S(2)),
    ],
)
def bilinear(a, b, weight, bias=None):
    made = numpy.stack([((a @ w) * b).sum(-1) for w in weight], -1)
    return made + (0 if bias is None else bias)


@oracle(
    "chain_matmul",
    kind="numpy",
    factor=64,
    samples=lambda S: [call(S(2, 3), S(3, 4), S(4, 5)), call(S(2, 3), S(3, 2))],
    empty=False,
)
def chain(*matrices):
    return numpy.linalg.multi_dot(matrices)


def _metric(p):
    if p == 0:
        return {"metric": lambda a, b: float(numpy.sum(a != b))}
    return {"metric": "chebyshev"} if p == float("inf") else {"metric": "minkowski", "p": p}


DISTANCES = (2.0, 1.0, 3.0, 0.0, float("inf"))


@oracle(
    "pdist",
    kind="scipy",
    factor=256,
    empty=False,
    expanded=False,
    samples=lambda S: [call(S(5, 3), p) for p in DISTANCES],
)
def distances_of_pairs(a, p=2.0):
    return scipy.spatial.distance.pdist(a, **_metric(p))


@oracle(
    "cdist",
    kind="scipy",
    factor=256,
    empty=False,
    samples=lambda S: [
        *[call(S(4, 3), S(5, 3), p) for p in DISTANCES],
        call(S(2, 4, 3), S(2, 5, 3)),
        call(S(4, 3), S(5, 3), 2.0, "use_mm_for_euclid_dist"),
        call(S(2, 4, 3), S(5, 3), 1.0),
    ],
)
def distances(a, b, p=2.0, compute_mode=None):
    batch = numpy.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    made = numpy.empty((*batch, a.shape[-2], b.shape[-2]))
    x, y = (numpy.broadcast_to(v, (*batch, *v.shape[-2:])) for v in (a, b))
    for at in numpy.ndindex(batch):
        made[at] = scipy.spatial.distance.cdist(x[at], y[at], **_metric(p))
    return made


oracle(
    "allclose",
    kind="numpy",
    samples=lambda S: [
        call(S.of([1.0, 2.0]), S.of([1.0, 2.0 + 1e-7])),
        call(S(3), S(3)),
        call(S.of([1.0, float("nan")]), S.of([1.0, float("nan")])),
        call(S.of([1.0, float("nan")]), S.of([1.0, float("nan")]), equal_nan=True),
        call(S.of([1.0]), S.of([1.1]), 0.2, 0.0),
    ],
)(numpy.allclose)
oracle(
    "isclose",
    kind="numpy",
    samples=lambda S: [
        call(S.of([1.0, 2.0, 0.0]), S.of([1.0, 2.0 + 1e-7, 1e-3])),
        call(S.of([1.0, float("nan"), float("inf")]), S.of([1.0, float("nan"), float("inf")])),
        call(S.of([1.0, float("nan")]), S.of([1.0, float("nan")]), equal_nan=True),
        call(S.of([1.0, 1.0]), S.of([1.1, 1.3]), 0.2, 0.0),
    ],
)(numpy.isclose)
oracle(
    "equal",
    kind="numpy",
    samples=lambda S: [
        call(S.of([1.0, 2.0]), S.of([1.0, 2.0])),
        call(S(3), S(3)),
        call(S(3), S(2)),
    ],
    empty=False,
)(numpy.array_equal)


@oracle(
    "_grouped_mm",
    kind="loop",
    factor=64,
    empty=False,
    samples=lambda S: [
        call(S(6, 3).float(), S(2, 3, 4).float(), S.of([2, 5]).int()),
        call(S(2, 3, 4).float(), S(4, 6).float(), S.of([0, 6]).int()),
        call(S(3, 5).float(), S(5, 2).float(), S.of([1, 1, 5]).int()),
        call(S(2, 3, 4).float(), S(2, 4, 5).float()),
    ],
)
def grouped_mm(a, b, ends=None):
    if ends is None:
        return numpy.stack([left @ right for left, right in zip(a, b, strict=True)])
    begin = 0
    shape = (a.shape[-2], b.shape[-1]) if a.ndim != b.ndim else (len(ends), len(a), b.shape[1])
    made = numpy.zeros(shape, dtype=a.dtype)
    for group, end in enumerate(ends):
        if a.ndim == 2 and b.ndim == 3:
            made[begin:end] = a[begin:end] @ b[group]
        elif a.ndim == 3:
            made[:, begin:end] = a[group] @ b[:, begin:end]
        else:
            made[group] = a[:, begin:end] @ b[begin:end]
        begin = end
    return made
