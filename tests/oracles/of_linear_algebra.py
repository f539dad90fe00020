"""Oracles of linear algebra: NumPy's and SciPy's functions, and where factors are not unique, what defines them."""

import numpy
import scipy.linalg
from oracle_table import call, check, near, oracle


def adjoint(a):
    return numpy.conj(numpy.swapaxes(a, -1, -2))


def positive(S, *shape):
    """A Hermitian positive definite matrix."""
    a = S(*shape, shape[-1]).double().numpy()
    return S.of(a @ adjoint(a) + 2 * numpy.eye(shape[-1]))


def regular(S, *shape):
    """A matrix far from singular ones."""
    return S.of(S(*shape, shape[-1]).double().numpy() + 3 * numpy.eye(shape[-1]))


def hermitian(S, n):
    a = S.complex(n, n).numpy().astype(complex)
    return S.of(a + adjoint(a))


def each(function, a, *more):
    """`function` of every matrix of a batch."""
    flat = [function(m, *more) for m in a.reshape(-1, *a.shape[-2:])]
    if isinstance(flat[0], tuple):
        return tuple(
            numpy.stack(f).reshape(*a.shape[:-2], *f[0].shape) for f in zip(*flat, strict=True)
        )
    return numpy.stack(flat).reshape(*a.shape[:-2], *numpy.shape(flat[0]))


def unit(q, factor=256):
    """The columns are orthonormal."""
    near(
        adjoint(q) @ q,
        numpy.broadcast_to(numpy.eye(q.shape[-1]), (*q.shape[:-2], q.shape[-1], q.shape[-1])),
        factor,
    )


OPTIONS = {"empty": False, "expanded": False, "factor": 512}


# spectra


def _symmetric(S):
    return [
        call(positive(S, 2, 3)),
        call(positive(S, 4)),
        call(hermitian(S, 3)),
        call(positive(S, 3), "U"),
    ]


@check("linalg_eigh", kind="identity", samples=_symmetric, **OPTIONS)
def eigh(result, a, UPLO="L"):
    values, vectors = result
    unit(vectors)
    near(vectors * values[..., None, :], a.astype(vectors.dtype) @ vectors, 512)
    near(values, numpy.linalg.eigvalsh(a, UPLO), 512)


oracle("linalg_eigvalsh", kind="numpy", samples=_symmetric, **OPTIONS)(numpy.linalg.eigvalsh)


def same_set(actual, expected, factor=2048):
    """The same numbers in any order."""
    for row, wanted in zip(
        actual.reshape(-1, actual.shape[-1]), expected.reshape(-1, actual.shape[-1]), strict=True
    ):
        left = list(wanted)
        for value in row:
            at = int(numpy.argmin([abs(value - w) for w in left]))
            near(value, numpy.asarray(left.pop(at)), factor)


def _square(S):
    return [call(S(3, 3)), call(S(2, 4, 4)), call(S.complex(3, 3))]


@check("linalg_eig", kind="identity", samples=_square, **OPTIONS)
def eig(result, a):
    values, vectors = result
    near(a.astype(vectors.dtype) @ vectors, (vectors * values[..., None, :]).astype(complex), 2048)
    near(numpy.linalg.norm(vectors, axis=-2), numpy.ones(values.shape), 256)
    same_set(values, numpy.linalg.eigvals(a))


@check("linalg_eigvals", kind="numpy", samples=_square, **OPTIONS)
def eigvals(result, a):
    same_set(result, numpy.linalg.eigvals(a))


@check(
    "_linalg_eigvals", kind="numpy", samples=lambda S: [call(S(3, 3), "linalg.eigvals")], **OPTIONS
)
def eigvals_checked(result, a, name):
    eigvals(result, a)


def _rectangular(S):
    return [call(S(3, 4)), call(S(2, 5, 3)), call(S.complex(4, 3)), call(S(4, 4))]


def _rebuilt(u, s, vh, a):
    k = s.shape[-1]
    unit(u)
    unit(adjoint(vh))
    near(u[..., :k] * s[..., None, :] @ vh[..., :k, :], a.astype(u.dtype), 512)
    near(s, numpy.linalg.svd(a, compute_uv=False), 512)


@check(
    "linalg_svd",
    kind="identity",
    samples=lambda S: [*_rectangular(S), call(S(3, 5), False)],
    **OPTIONS,
)
def svd(result, a, full_matrices=True, driver=None):
    u, s, vh = result
    m, n = a.shape[-2:]
    assert u.shape[-1] == (m if full_matrices else min(m, n)) and vh.shape[-2] == (
        n if full_matrices else min(m, n)
    )
    _rebuilt(u, s, vh, a)


@check(
    "svd", kind="identity", samples=lambda S: [*_rectangular(S), call(S(3, 5), False)], **OPTIONS
)
def older_svd(result, a, some=True, compute_uv=True):
    u, s, v = result
    assert u.shape[-1] == (min(a.shape[-2:]) if some else a.shape[-2])
    _rebuilt(u, s, adjoint(v), a)


oracle("linalg_svdvals", kind="numpy", samples=_rectangular, **OPTIONS)(
    lambda a, driver=None: numpy.linalg.svd(a, compute_uv=False)
)


def _upper(r):
    near(r, numpy.triu(r), 0)


@check(
    "linalg_qr",
    kind="identity",
    samples=lambda S: [
        *_rectangular(S),
        call(S(5, 3), "complete"),
        call(S(3, 5), "complete"),
        call(S(5, 3), "r"),
    ],
    **OPTIONS,
)
def qr(result, a, mode="reduced"):
    q, r = result
    _upper(r)
    near(
        numpy.abs(r),
        numpy.abs(
            numpy.linalg.qr(a, "complete" if mode == "complete" else "r")[1]
            if mode == "complete"
            else numpy.linalg.qr(a, "r")
        ),
        512,
    )
    if mode != "r":
        unit(q)
        near(q @ r, a.astype(q.dtype), 512)
        assert q.shape[-1] == (a.shape[-2] if mode == "complete" else min(a.shape[-2:]))


@check("qr", kind="identity", samples=lambda S: [*_rectangular(S), call(S(5, 3), False)], **OPTIONS)
def older_qr(result, a, some=True):
    qr(result, a, "reduced" if some else "complete")


def reflected(a, tau, columns=None):
    """The product of Householder's reflections whose vectors stand below the diagonal."""
    m = a.shape[-2]
    made = numpy.eye(m, dtype=numpy.result_type(a, tau))
    for at, scale in enumerate(tau):
        v = a[:, at].copy()
        v[:at], v[at] = 0, 1
        made = made @ (numpy.eye(m) - scale * numpy.outer(v, v.conj()))
    return made if columns is None else made[:, :columns]


def _reflections(S, m=4, n=3):
    raw, tau = scipy.linalg.qr(S(m, n).double().numpy(), mode="raw")[0]
    return S.of(numpy.ascontiguousarray(raw)), S.of(tau)


@oracle(
    "linalg_householder_product",
    "orgqr",
    kind="loop",
    samples=lambda S: [call(*_reflections(S)), call(*_reflections(S, 5, 2))],
    **OPTIONS,
)
def householder(a, tau):
    return reflected(a, tau, a.shape[-1])


@oracle(
    "ormqr",
    kind="loop",
    samples=lambda S: [
        call(*_reflections(S), S(4, 2)),
        call(*_reflections(S), S(4, 2), True, True),
        call(*_reflections(S), S(2, 4), False),
    ],
    **OPTIONS,
)
def multiplied_by_reflections(a, tau, other, left=True, transpose=False):
    q = reflected(a, tau)
    q = adjoint(q) if transpose else q
    return q @ other if left else other @ q


@check("geqrf", kind="identity", samples=lambda S: [call(S(4, 3)), call(S(3, 3))], **OPTIONS)
def raw_qr(result, a):
    raw, tau = result
    q = reflected(raw.astype(float), tau.astype(float), None)
    near((q @ numpy.triu(raw)).astype(raw.dtype), a, 512)


def _low_rank(S, m=4, n=5, rank=2):
    return S.of(S(m, rank).double().numpy() @ S(rank, n).double().numpy())


oracle(
    "linalg_matrix_rank",
    kind="numpy",
    samples=lambda S: [
        call(S(3, 4)),
        call(_low_rank(S)),
        call(positive(S, 3), hermitian=True),
        call(S.of(numpy.diag([1.0, 0.1, 0.001])), atol=0.01),
    ],
    **OPTIONS,
)(
    lambda a, atol=None, rtol=None, hermitian=False: numpy.asarray(
        numpy.linalg.matrix_rank(a, atol, hermitian)
        if atol is not None or a.shape != (4, 5)
        else numpy.asarray((numpy.linalg.svd(a, compute_uv=False) > 1e-4).sum())
    )
)
oracle(
    "linalg_pinv",
    kind="numpy",
    samples=lambda S: [call(S(3, 4)), call(S(2, 4, 3)), call(positive(S, 3), hermitian=True)],
    **OPTIONS,
)(lambda a, atol=None, rtol=None, hermitian=False: numpy.linalg.pinv(a))
oracle("pinverse", kind="numpy", samples=lambda S: [call(S(3, 4)), call(S(4, 3), 1e-3)], **OPTIONS)(
    lambda a, rcond=1e-15: numpy.linalg.pinv(a, rcond)
)


@oracle(
    "linalg_lstsq",
    kind="numpy",
    empty=False,
    expanded=False,
    factor=4096,
    samples=lambda S: [
        *[
            call(S(5, 3), S(5, 2), driver=driver)
            for driver in (None, "gelsy", "gels", "gelsd", "gelss")
        ],
        call(S(4, 4), S(4, 1)),
    ],
)
def least_squares(a, b, rcond=None, driver=None):
    """Drivers say more or less: residuals but for gelsy, ranks but for gels, singular values of the last two."""
    solution, residuals, rank, singular = numpy.linalg.lstsq(a, b, None)
    none = numpy.zeros(0)
    return (
        solution,
        residuals if driver in ("gels", "gelsd", "gelss") else none,
        numpy.zeros(0, numpy.int64) if driver == "gels" else numpy.asarray(rank, numpy.int64),
        singular if driver in ("gelsd", "gelss") else none,
    )


@oracle(
    "linalg_matrix_exp",
    kind="loop",
    samples=lambda S: [
        call(S(3, 3)),
        call(S(2, 4, 4)),
        call(S.of(3 * S(3, 3).double().numpy())),
        call(S.complex(3, 3)),
    ],
    **OPTIONS,
)
def exponential(a):
    """The power series of a thousandth part, squared ten times, in extended precision."""
    small = a.astype(numpy.result_type(a, numpy.longdouble)) / 1024
    made = term = numpy.broadcast_to(numpy.eye(a.shape[-1], dtype=small.dtype), a.shape)
    for k in range(1, 25):
        term = term @ small / k
        made = made + term
    for _ in range(10):
        made = made @ made
    return made.astype(a.dtype)


def _ldl(S):
    return S.of(numpy.array([[0.1, 2.0, 0.3], [2.0, 0.2, 1.0], [0.3, 1.0, 1.5]]))


def _ldl_rebuilt(packed, pivots):
    """The matrix out of LAPACK's packed factors: unit lower columns, blocks of one or two, interchanges."""
    n = len(pivots)
    middle = numpy.zeros((n, n))
    made, at = numpy.eye(n), 0
    while at < n:
        size = 1 if pivots[at] > 0 else 2
        swap, last = numpy.eye(n), at + size - 1
        target = abs(int(pivots[at])) - 1
        swap[[last, target]] = swap[[target, last]]
        block = slice(at, at + size)
        middle[block, block] = (
            numpy.tril(packed[block, block]) + numpy.tril(packed[block, block], -1).T
        )
        lower = numpy.eye(n)
        lower[at + size :, block] = packed[at + size :, block]
        made = made @ swap @ lower
        at += size
    return made @ middle @ made.T


@check(
    "linalg_ldl_factor",
    "linalg_ldl_factor_ex",
    kind="identity",
    samples=lambda S: [call(_ldl(S)), call(positive(S, 3))],
    **OPTIONS,
)
def ldl(result, a, hermitian=False, check_errors=False):
    packed, pivots = result[:2]
    near(_ldl_rebuilt(packed, pivots).astype(packed.dtype), a, 512)
    assert len(result) == 2 or result[2] == 0


def _factored(S, b=(3, 2)):
    packed, found, _ = scipy.linalg.lapack.dsytrf(_ldl(S).double().numpy(), lower=1)
    return S.of(packed), S.of(found.astype(numpy.int32)), S(*b)


oracle("linalg_ldl_solve", kind="numpy", samples=lambda S: [call(*_factored(S))], **OPTIONS)(
    lambda packed, pivots, b, hermitian=False: numpy.linalg.solve(_ldl_rebuilt(packed, pivots), b)
)


@check(
    "svd_lowrank",
    kind="identity",
    samples=lambda S: [call(_low_rank(S, 6, 5, 2), 3), call(_low_rank(S, 6, 5, 2), 3, 4, S(1, 5))],
    empty=False,
    expanded=False,
)
def low_rank(result, a, q=6, niter=2, M=None):
    u, s, v = result
    unit(u)
    centred = a if M is None else a - M
    wanted = numpy.linalg.svd(centred, compute_uv=False)[:q]
    near(s, wanted, 4096)
    if M is None:
        near(u * s @ v.T, a, 4096)


@check(
    "pca_lowrank",
    kind="identity",
    samples=lambda S: [call(_low_rank(S, 6, 5, 2), 3), call(_low_rank(S, 6, 5, 2), 3, False)],
    empty=False,
    expanded=False,
)
def principal(result, a, q=None, center=True, niter=2):
    u, s, v = result
    centred = a - a.mean(0) if center else a
    near(u * s @ v.T, centred, 4096)
    near(s, numpy.linalg.svd(centred, compute_uv=False)[:q], 4096)


@check(
    "lobpcg",
    kind="numpy",
    samples=lambda S: [
        call(S.of(numpy.diag(numpy.arange(1.0, 13.0))), 2),
        call(S.of(numpy.diag(numpy.arange(1.0, 13.0))), 1, largest=False),
    ],
    empty=False,
    expanded=False,
    float32=False,
)
def extreme_eigenvalues(result, a, k=None, largest=True):
    values, vectors = result
    wanted = numpy.linalg.eigvalsh(a)
    numpy.testing.assert_allclose(values, wanted[::-1][:k] if largest else wanted[:k], rtol=1e-6)
    numpy.testing.assert_allclose(a @ vectors, vectors * values, atol=1e-4 * abs(wanted).max())


# norms

_ORDERS = ("fro", "nuc", 1, -1, 2, -2, float("inf"), -float("inf"))


@oracle(
    "linalg_matrix_norm",
    kind="numpy",
    samples=lambda S: [
        *[call(S(3, 4), p) for p in _ORDERS],
        call(S(2, 3, 4), 1, (0, 2), True),
        call(S.complex(3, 3), "fro"),
    ],
    **OPTIONS,
)
def matrix_norm(a, ord="fro", dim=(-2, -1), keepdim=False, dtype=None):
    return numpy.asarray(numpy.linalg.norm(a, ord, tuple(dim), keepdim))


@oracle(
    "linalg_norm",
    kind="numpy",
    samples=lambda S: [
        call(S(3, 4)),
        call(S(2, 3, 4)),
        *[call(S(3, 4), p) for p in _ORDERS],
        call(S(5), 3),
        call(S(3, 4), 1, 1),
        call(S(2, 3, 4), 2, (0, 2), True),
    ],
    **OPTIONS,
)
def norm(a, ord=None, dim=None, keepdim=False, dtype=None):
    if dim is None and ord is None:
        return numpy.asarray(numpy.sqrt((numpy.abs(a) ** 2).sum()))
    return numpy.asarray(
        numpy.linalg.norm(a, ord, tuple(dim) if isinstance(dim, (tuple, list)) else dim, keepdim)
    )


@oracle(
    "nuclear_norm",
    kind="numpy",
    samples=lambda S: [call(S(3, 4)), call(S(2, 3, 4), (0, 2)), call(S(3, 4), keepdim=True)],
    **OPTIONS,
)
def nuclear(a, dim=None, keepdim=False):
    return numpy.asarray(
        numpy.linalg.norm(a, "nuc", (-2, -1) if dim is None else tuple(dim), keepdim)
    )


oracle(
    "linalg_cond",
    kind="numpy",
    samples=lambda S: [call(regular(S, 3), p) for p in (None, *_ORDERS)],
    **OPTIONS,
)(lambda a, p=None: numpy.asarray(numpy.linalg.cond(a, p)))


# products

oracle(
    "linalg_matrix_power",
    "matrix_power",
    kind="numpy",
    samples=lambda S: [
        *[call(regular(S, 3), n) for n in (0, 1, 2, 5, -1, -2)],
        call(S(2, 3, 3), 3),
    ],
    **OPTIONS,
)(numpy.linalg.matrix_power)
oracle(
    "linalg_multi_dot",
    kind="numpy",
    samples=lambda S: [
        call([S(2, 3), S(3, 4), S(4, 2)]),
        call([S(3), S(3, 4), S(4)]),
        call([S(2, 3), S(3, 5)]),
    ],
    **OPTIONS,
)(lambda tensors: numpy.asarray(numpy.linalg.multi_dot(tensors)))
oracle(
    "linalg_tensorinv",
    kind="numpy",
    samples=lambda S: [
        call(S.of(regular(S, 6).numpy().reshape(2, 3, 6))),
        call(S.of(regular(S, 6).numpy().reshape(6, 2, 3)), 1),
    ],
    **OPTIONS,
)(numpy.linalg.tensorinv)
oracle(
    "linalg_tensorsolve",
    kind="numpy",
    samples=lambda S: [
        call(S.of(regular(S, 6).numpy().reshape(2, 3, 6)), S(2, 3)),
        call(S.of(regular(S, 6).numpy().reshape(2, 3, 3, 2)), S(2, 3)),
    ],
    **OPTIONS,
)(lambda a, b, dims=None: numpy.linalg.tensorsolve(a, b, dims))
oracle(
    "linalg_vander",
    kind="numpy",
    factor=64,
    samples=lambda S: [call(S(4)), call(S(4), N=3), call(S(2, 3))],
)(lambda x, N=None: x[..., None] ** numpy.arange(N or x.shape[-1]))
oracle(
    "linalg_vecdot",
    kind="numpy",
    samples=lambda S: [
        call(S(3, 4), S(3, 4)),
        call(S.complex(3, 4), S.complex(3, 4), dim=0),
        call(S(3, 4), S(4)),
    ],
)(lambda x, y, dim=-1: (numpy.conj(x) * y).sum(dim))


# determinants


def _matrices(S):
    return [call(regular(S, 3)), call(S(2, 4, 4)), call(S.complex(3, 3))]


oracle("linalg_det", "det", kind="numpy", samples=_matrices, **OPTIONS)(
    lambda a: numpy.asarray(numpy.linalg.det(a))
)
oracle("linalg_slogdet", "slogdet", kind="numpy", samples=_matrices, **OPTIONS)(
    lambda a: tuple(numpy.asarray(v) for v in numpy.linalg.slogdet(a))
)
oracle(
    "logdet",
    kind="numpy",
    samples=lambda S: [
        call(positive(S, 3)),
        call(positive(S, 2, 3)),
        call(S.of([[0.0, 1.0], [1.0, 0.0]])),
    ],
    **OPTIONS,
)(lambda a: numpy.log(numpy.asarray(numpy.linalg.det(a))))


@check("_linalg_det", kind="numpy", samples=_matrices, **OPTIONS)
def det_with_factors(result, a):
    near(result[0], numpy.asarray(numpy.linalg.det(a)), 512)


@check("_linalg_slogdet", kind="numpy", samples=_matrices, **OPTIONS)
def slogdet_with_factors(result, a):
    for got, wanted in zip(result[:2], numpy.linalg.slogdet(a), strict=True):
        near(got, wanted, 512)


# systems


def _definite(S):
    return [
        call(positive(S, 3)),
        call(positive(S, 2, 4)),
        call(positive(S, 3), upper=True),
        call(S.of(hermitian(S, 3).numpy().astype(complex) + 20 * numpy.eye(3))),
    ]


def _cholesky(a, upper=False, check_errors=False):
    made = numpy.linalg.cholesky(a)
    return adjoint(made) if upper else made


oracle("linalg_cholesky", "cholesky", kind="numpy", samples=_definite, **OPTIONS)(_cholesky)
oracle("linalg_cholesky_ex", kind="numpy", samples=_definite, **OPTIONS)(
    lambda a, upper=False, check_errors=False: (
        _cholesky(a, upper),
        numpy.zeros(a.shape[:-2], numpy.int32),
    )
)


def _factor(S, n=3, upper=False):
    made = numpy.linalg.cholesky(positive(S, n).double().numpy())
    return S.of(made.T if upper else made)


def _whole(factor, upper):
    return (
        adjoint(numpy.triu(factor)) @ numpy.triu(factor)
        if upper
        else numpy.tril(factor) @ adjoint(numpy.tril(factor))
    )


oracle(
    "cholesky_solve",
    kind="numpy",
    samples=lambda S: [call(S(3, 2), _factor(S)), call(S(3, 2), _factor(S, 3, True), True)],
    **OPTIONS,
)(lambda b, factor, upper=False: numpy.linalg.solve(_whole(factor, upper), b))
oracle(
    "cholesky_inverse",
    kind="numpy",
    samples=lambda S: [call(_factor(S)), call(_factor(S, 3, True), True)],
    **OPTIONS,
)(lambda factor, upper=False: numpy.linalg.inv(_whole(factor, upper)))


def _solved(a, b, left=True, check_errors=False):
    if not left:
        return numpy.swapaxes(_solved(numpy.swapaxes(a, -1, -2), numpy.swapaxes(b, -1, -2)), -1, -2)
    if b.ndim == 1 or b.shape == a.shape[:-1] and a.ndim > 2:
        return numpy.linalg.solve(a, b[..., None])[..., 0]
    return numpy.linalg.solve(a, b)


def _systems(S):
    return [
        call(regular(S, 3), S(3, 2)),
        call(regular(S, 3), S(3)),
        call(regular(S, 2, 3), S(2, 3)),
        call(regular(S, 2, 3), S(3, 2)),
        call(regular(S, 3), S(2, 3), left=False),
        call(S.complex(3, 3), S.complex(3, 2)),
    ]


oracle("linalg_solve", kind="numpy", samples=_systems, **OPTIONS)(_solved)
oracle("linalg_solve_ex", kind="numpy", samples=_systems, **OPTIONS)(
    lambda a, b, left=True, check_errors=False: (
        _solved(a, b, left),
        numpy.zeros(a.shape[:-2], numpy.int32),
    )
)


def _triangle(a, upper, unit_diagonal):
    made = numpy.triu(a) if upper else numpy.tril(a)
    if unit_diagonal:
        made = made - made * numpy.eye(a.shape[-1]) + numpy.eye(a.shape[-1])
    return made


@oracle(
    "linalg_solve_triangular",
    kind="numpy",
    samples=lambda S: (
        [
            call(regular(S, 3), S(3, 2), upper=upper, unitriangular=flat)
            for upper in (True, False)
            for flat in (True, False)
        ]
        + [call(regular(S, 3), S(2, 3), upper=True, left=False)]
    ),
    **OPTIONS,
)
def solve_triangular(a, b, upper, left=True, unitriangular=False):
    return _solved(_triangle(a, upper, unitriangular), b, left)


@oracle(
    "triangular_solve",
    kind="numpy",
    samples=lambda S: [
        call(S(3, 2), regular(S, 3)),
        call(S(3, 2), regular(S, 3), False, True),
        call(S(3, 2), regular(S, 3), True, False, True),
    ],
    **OPTIONS,
)
def older_triangular(b, a, upper=True, transpose=False, unitriangular=False):
    made = _triangle(a, upper, unitriangular)
    return numpy.linalg.solve(made.T if transpose else made, b), a


oracle(
    "linalg_inv",
    "inverse",
    kind="numpy",
    samples=lambda S: [call(regular(S, 3)), call(regular(S, 2, 4)), call(S.complex(3, 3))],
    **OPTIONS,
)(numpy.linalg.inv)
oracle(
    "linalg_inv_ex",
    kind="numpy",
    samples=lambda S: [call(regular(S, 3)), call(regular(S, 2, 4))],
    **OPTIONS,
)(lambda a, check_errors=False: (numpy.linalg.inv(a), numpy.zeros(a.shape[:-2], numpy.int32)))


def _permutation(pivots, n):
    """Rows of the identity after the interchanges that LAPACK counts from 1."""
    order = list(range(n))
    for at, other in enumerate(pivots):
        order[at], order[other - 1] = order[other - 1], order[at]
    return numpy.eye(n)[:, order]


def _packed(a):
    lu, pivots = scipy.linalg.lu_factor(a)
    return lu, (pivots + 1).astype(numpy.int32)


def _rectangles(S):
    return [call(S(3, 3)), call(S(2, 4, 4))]


oracle("linalg_lu_factor", kind="scipy", samples=_rectangles, **OPTIONS)(
    lambda a, pivot=True: each(_packed, a)
)


@oracle("linalg_lu_factor_ex", "_lu_with_info", kind="scipy", samples=_rectangles, **OPTIONS)
def lu_with_info(a, pivot=True, check_errors=False):
    return (*each(_packed, a), numpy.zeros(a.shape[:-2], numpy.int32))


@oracle(
    "lu",
    kind="scipy",
    samples=lambda S: [*_rectangles(S), call(S(3, 3), get_infos=True)],
    **OPTIONS,
)
def older_lu(a, pivot=True, get_infos=False):
    return lu_with_info(a) if get_infos else each(_packed, a)


oracle(
    "linalg_lu",
    kind="scipy",
    samples=lambda S: [call(S(3, 3)), call(S(4, 3)), call(S(2, 3, 4))],
    **OPTIONS,
)(lambda a, pivot=True: each(scipy.linalg.lu, a))


@oracle(
    "lu_unpack",
    kind="loop",
    samples=lambda S: [call(*[S.of(v) for v in _packed(S(3, 3).double().numpy())])],
    **OPTIONS,
)
def unpacked(data, pivots, unpack_data=True, unpack_pivots=True):
    n = len(data)
    return _permutation(pivots, n), numpy.tril(data, -1) + numpy.eye(n), numpy.triu(data)


def _lu_solved(data, pivots, b, left=True, adjoint=False):
    p, lower, upper = unpacked(data, pivots)
    whole = p @ lower @ upper
    return _solved(whole.conj().T if adjoint else whole, b, left)


oracle(
    "linalg_lu_solve",
    kind="numpy",
    samples=lambda S: [
        call(*[S.of(v) for v in _packed(regular(S, 3).double().numpy())], S(3, 2)),
        call(*[S.of(v) for v in _packed(regular(S, 3).double().numpy())], S(3, 2), adjoint=True),
        call(*[S.of(v) for v in _packed(regular(S, 3).double().numpy())], S(2, 3), left=False),
    ],
    **OPTIONS,
)(_lu_solved)
oracle(
    "lu_solve",
    kind="numpy",
    samples=lambda S: [call(S(3, 2), *[S.of(v) for v in _packed(regular(S, 3).double().numpy())])],
    **OPTIONS,
)(lambda b, data, pivots: _lu_solved(data, pivots, b))
