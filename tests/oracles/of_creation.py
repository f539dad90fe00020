"""Oracles of what makes tensors: numbers that ascend, constants, windows, indices, spectra's frequencies."""

import numpy
import scipy.signal
from oracle_table import call, check, near, oracle

#: the dtype of floating point numbers where none is named
DEFAULT = numpy.float32


def _size(size):
    return tuple(size[0]) if size and isinstance(size[0], (tuple, list)) else size


def _sizes(S):
    return [call(3, 4), call((2, 0, 3)), call(2, 3, dtype=S.dtype), call([3], dtype=S.integer)]


@oracle("zeros", kind="numpy", samples=_sizes, empty=False)
def zeros(*size, dtype=DEFAULT, **options):
    return numpy.zeros(_size(size), dtype)


@oracle("ones", kind="numpy", samples=_sizes, empty=False)
def ones(*size, dtype=DEFAULT, **options):
    return numpy.ones(_size(size), dtype)


@check("empty", kind="identity", samples=_sizes, empty=False)
def empty(result, *size, dtype=DEFAULT, **options):
    assert result.shape == _size(size) and result.dtype == numpy.dtype(dtype)


@check(
    "empty_strided",
    kind="identity",
    samples=lambda S: [call((2, 3), (1, 2)), call([4], [3], dtype=S.dtype)],
)
def empty_strided(result, size, stride, dtype=DEFAULT):
    assert result.shape == tuple(size) and result.dtype == numpy.dtype(dtype)


@check(
    "empty_permuted",
    kind="identity",
    samples=lambda S: [call((2, 3, 4), (0, 2, 1)), call([4], [0])],
)
def empty_permuted(result, size, physical_layout, dtype=DEFAULT):
    assert result.shape == tuple(size) and result.dtype == numpy.dtype(dtype)


def _kind(value):
    """The dtype of a tensor full of a number."""
    return {bool: numpy.bool_, int: numpy.int64, float: DEFAULT, complex: numpy.complex64}[
        type(value)
    ]


@oracle(
    "full",
    kind="numpy",
    samples=lambda S: [
        call((2, 3), 1.5),
        call([3], 7),
        call((2,), True),
        call((2,), 2, dtype=S.dtype),
        call((), 1j),
    ],
)
def full(size, fill_value, dtype=None):
    return numpy.full(size, fill_value, _kind(fill_value) if dtype is None else dtype)


@oracle(
    "scalar_tensor", kind="numpy", samples=lambda S: [call(2.5), call(3, dtype=S.dtype), call(True)]
)
def scalar(s, dtype=None):
    return numpy.array(s, DEFAULT if dtype is None else dtype)


@oracle(
    "zeros_like",
    kind="numpy",
    samples=lambda S: [call(S(3, 4)), call(S.mask(3)), call(S(3), dtype=S.integer)],
)
def zeros_like(a, dtype=None):
    return numpy.zeros_like(a, dtype)


@oracle(
    "ones_like",
    kind="numpy",
    samples=lambda S: [call(S(3, 4)), call(S.mask(3)), call(S(3), dtype=S.integer)],
)
def ones_like(a, dtype=None):
    return numpy.ones_like(a, dtype)


@oracle(
    "full_like", kind="numpy", samples=lambda S: [call(S(3, 4), 2), call(S(3), 2, dtype=S.integer)]
)
def full_like(a, fill_value, dtype=None):
    return numpy.full_like(a, fill_value, dtype)


@check(
    "empty_like", kind="identity", samples=lambda S: [call(S(3, 4)), call(S(3), dtype=S.integer)]
)
def empty_like(result, a, dtype=None):
    assert result.shape == a.shape
    if dtype is not None:
        assert result.dtype == dtype


@oracle(
    "new_zeros",
    kind="numpy",
    samples=lambda S: [call(S(2), 3, 4), call(S(2), (3,), dtype=S.integer)],
)
def new_zeros(a, *size, dtype=None):
    return numpy.zeros(_size(size), a.dtype if dtype is None else dtype)


@oracle(
    "new_ones",
    kind="numpy",
    samples=lambda S: [call(S(2), 3, 4), call(S(2), (3,), dtype=S.integer)],
)
def new_ones(a, *size, dtype=None):
    return numpy.ones(_size(size), a.dtype if dtype is None else dtype)


@oracle(
    "new_full",
    kind="numpy",
    samples=lambda S: [call(S(2), (3, 4), 2.5), call(S(2), (3,), 1, dtype=S.integer)],
)
def new_full(a, size, fill_value, dtype=None):
    return numpy.full(size, fill_value, a.dtype if dtype is None else dtype)


@check(
    "new_empty",
    kind="identity",
    samples=lambda S: [call(S(2), 3, 4), call(S(2), (3,), dtype=S.integer)],
)
def new_empty(result, a, *size, dtype=None):
    assert (
        result.shape == _size(size)
        and result.dtype.kind == (a.dtype if dtype is None else dtype).kind
    )


@check("new_empty_strided", kind="identity", samples=lambda S: [call(S(2), (3, 4), (1, 3))])
def new_empty_strided(result, a, size, stride):
    assert result.shape == tuple(size) and result.dtype.kind == a.dtype.kind


@oracle("fill", kind="numpy", samples=lambda S: [call(S(3, 4), 2.5), call(S(3), S())])
@oracle("fill_function_", kind="numpy", samples=lambda S: [call(S(3, 4), 2.5), call(S(3), S())])
def filled(a, value):
    return numpy.full_like(a, value)


oracle("zero_", kind="numpy", samples=lambda S: [call(S(3, 4)), call(S())])(numpy.zeros_like)


@check(
    "resize_as_",
    kind="identity",
    orders=False,
    samples=lambda S: [call(S(3, 4), S(2, 6)), call(S(6), S(2, 2))],
    empty=False,
)
def resized(result, a, template):
    assert result.shape == template.shape
    near(result.reshape(-1), a.reshape(-1)[: result.size])


@oracle(
    "arange",
    kind="loop",
    samples=lambda S: [
        call(5),
        call(2, 9, 3),
        call(1.0, 2.0, 0.3),
        call(5, 0, -2),
        call(0, 1, 0.25, dtype=S.dtype),
        call(3, dtype=S.dtype),
    ],
)
def ascending(start=None, end=None, step=1, dtype=None):
    start, end = (0, start) if end is None else (start, end)
    whole = all(isinstance(v, int) for v in (start, end, step))
    made, value, at = [], start, 0
    while value < end if step > 0 else value > end:
        made.append(value)
        at += 1
        value = start + at * step
    return numpy.array(made, dtype or (numpy.int64 if whole else DEFAULT))


@oracle(
    "range",
    kind="loop",
    samples=lambda S: [call(0, 4), call(1, 2, 0.25), call(3, 0, -1, dtype=S.dtype)],
)
def ascending_to(start, end, step=1, dtype=None):
    count = int((end - start) / step) + 1
    return numpy.array([start + at * step for at in range(count)], dtype or DEFAULT)


@oracle(
    "linspace",
    kind="numpy",
    samples=lambda S: [
        call(0, 1, 5),
        call(-2.0, 3.0, 7, dtype=S.dtype),
        call(3, 3, 1),
        call(1, 2, 0),
        call(S(), 2.0, 4, dtype=S.dtype),
    ],
)
def evenly(start, end, steps, dtype=None):
    return numpy.linspace(start, end, steps).astype(dtype or DEFAULT)


@oracle(
    "logspace",
    kind="numpy",
    factor=64,
    samples=lambda S: [call(0, 1, 5), call(-2.0, 3.0, 7, 2.0, dtype=S.dtype), call(3, 3, 1)],
)
def evenly_in_logarithm(start, end, steps, base=10.0, dtype=None):
    return numpy.logspace(start, end, steps, base=base).astype(dtype or DEFAULT)


@oracle(
    "eye", kind="numpy", samples=lambda S: [call(3), call(3, 4), call(4, 2, dtype=S.dtype), call(0)]
)
def identity(n, m=None, dtype=DEFAULT):
    return numpy.eye(n, m, dtype=dtype)


oracle("tril_indices", kind="numpy", samples=lambda S: [call(3, 4), call(4, 3, -1), call(3, 3, 1)])(
    lambda row, col, offset=0: numpy.array(numpy.tril_indices(row, offset, col))
)
oracle("triu_indices", kind="numpy", samples=lambda S: [call(3, 4), call(4, 3, -1), call(3, 3, 1)])(
    lambda row, col, offset=0: numpy.array(numpy.triu_indices(row, offset, col))
)
oracle(
    "vander",
    kind="numpy",
    factor=64,
    samples=lambda S: [call(S(4)), call(S(4), 3), call(S(4), N=5, increasing=True)],
)(numpy.vander)


@check(
    "result_type",
    kind="numpy",
    orders=False,
    expanded=False,
    empty=False,
    float32=False,
    samples=lambda S: [
        call(S.of([1]), S(2)),
        call(S(2), 3.5),
        call(S.mask(2), S.of([1])),
        call(S(2), S.complex(2)),
    ],
)
def promoted(result, a, b):
    both = [v.dtype if isinstance(v, numpy.ndarray) else v for v in (a, b)]
    assert result == numpy.result_type(*both)


# windows


def _window(name, **fixed):
    """SciPy's window of a name: symmetric is SciPy's `sym`, periodic its opposite."""

    def value(length, *shape, periodic=None, sym=True, dtype=DEFAULT, **options):
        if periodic is not None:
            sym = not periodic
        if not length:
            return numpy.zeros(0, dtype)
        made = getattr(scipy.signal.windows, name)(length, *shape, **options, **fixed, sym=sym)
        return made.astype(dtype)

    return value


def _periodic(name, **fixed):
    value = _window(name, **fixed)

    def window(length, periodic=True, **options):
        return value(length, periodic=periodic, **options)

    return window


def _lengths(S, *more):
    return [call(n, *more) for n in (1, 2, 7, 8)] + [call(8, False, dtype=S.dtype)]


for _name in ("bartlett", "blackman", "hann"):
    oracle(f"{_name}_window", kind="scipy", factor=64, samples=_lengths)(_periodic(_name))


@oracle(
    "hamming_window",
    kind="scipy",
    factor=64,
    samples=lambda S: [*_lengths(S), call(6, True, 0.6, 0.4, dtype=S.dtype)],
)
def hamming(length, periodic=True, alpha=0.54, beta=0.46, dtype=DEFAULT):
    if length == 1:
        return numpy.ones(1, dtype)
    return scipy.signal.windows.general_cosine(length, [alpha, beta], not periodic).astype(dtype)


@oracle(
    "kaiser_window",
    kind="scipy",
    factor=64,
    samples=lambda S: [*_lengths(S), call(6, True, 5.0, dtype=S.dtype)],
)
def kaiser(length, periodic=True, beta=12.0, dtype=DEFAULT):
    return scipy.signal.windows.kaiser(length, beta, not periodic).astype(dtype)


def _symmetric(S, **more):
    return [*[call(n, **more) for n in (1, 2, 7, 8)], call(8, sym=False, dtype=S.dtype, **more)]


for _name in ("bartlett", "blackman", "cosine", "hamming", "hann", "nuttall"):
    oracle(f"signal_{_name}", kind="scipy", factor=64, samples=_symmetric)(_window(_name))
oracle(
    "signal_exponential",
    kind="scipy",
    factor=64,
    samples=lambda S: [*_symmetric(S), call(6, center=1.0, tau=2.0, sym=False, dtype=S.dtype)],
)(_window("exponential"))
oracle(
    "signal_gaussian",
    kind="scipy",
    factor=64,
    samples=lambda S: [call(7, std=1.5, dtype=S.dtype), call(8, std=0.9, sym=False), call(5)],
)(lambda length, std=1.0, **options: _window("gaussian")(length, std=std, **options))
oracle(
    "signal_general_cosine",
    kind="scipy",
    factor=64,
    samples=lambda S: _symmetric(S, a=[0.4, 0.5, 0.1]),
)(_window("general_cosine"))
oracle(
    "signal_general_hamming", kind="scipy", factor=64, samples=lambda S: _symmetric(S, alpha=0.6)
)(_window("general_hamming"))
oracle(
    "signal_kaiser", kind="scipy", factor=64, samples=lambda S: [*_symmetric(S, beta=5.0), call(6)]
)(lambda length, beta=12.0, **options: _window("kaiser")(length, beta=beta, **options))


@check(
    "_assert_tensor_metadata",
    kind="identity",
    empty=False,
    samples=lambda S: [call(S(3, 4)), call(S(3, 4), [3, 4], None, S.dtype)],
)
def nothing_comes_of_what_holds(result, a, *rest):
    """A tensor that is what it was taken for gives nothing; what is refused has tests of its own."""
    assert result is None
