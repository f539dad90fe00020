"""Oracles of Fourier transforms: NumPy's and SciPy's, and a loop over frames for the short-time ones."""

import numpy
import scipy.fft
from oracle_table import call, oracle

NORMS = (None, "ortho", "forward")


def _one(transform):
    def value(a, n=None, dim=-1, norm=None):
        return transform(a, n, dim, norm)

    return value


def _calls(made, even=True):
    return lambda S: [
        *[call(made(S, 3, n), norm=norm) for n in (4, 5) for norm in NORMS],
        call(made(S, 3, 6), 4),
        call(made(S, 3, 6), 9),
        call(made(S, 5, 2), None, 0),
        call(made(S, 2, 7), 7, dim=1),
    ]


def _real(S, *shape):
    return S(*shape)


def _complex(S, *shape):
    return S.complex(*shape)


for _name, _made in (("fft", _complex), ("ifft", _complex), ("rfft", _real), ("ihfft", _real)):
    oracle(f"fft_{_name}", kind="numpy", empty=False, factor=64, samples=_calls(_made))(
        _one(getattr(numpy.fft, _name))
    )
for _name in ("irfft", "hfft"):
    oracle(f"fft_{_name}", kind="numpy", empty=False, factor=64, samples=_calls(_complex))(
        _one(getattr(numpy.fft, _name))
    )


def _several(transform):
    def value(a, s=None, dim=None, norm=None):
        return transform(a, s, dim, norm)

    return value


def _planes(made):
    return lambda S: [
        *[call(made(S, 2, 3, 4), norm=norm) for norm in NORMS],
        call(made(S, 3, 4), (5, 6)),
        call(made(S, 4, 3, 5), (3, 4), (0, 2)),
        call(made(S, 4, 3, 5), dim=(0, 1)),
    ]


for _name, _made in (
    ("fft", _complex),
    ("ifft", _complex),
    ("rfft", _real),
    ("ihfft", _real),
    ("irfft", _complex),
    ("hfft", _complex),
):
    _all = getattr(scipy.fft, f"{_name}n")
    _two = getattr(scipy.fft, f"{_name}2")
    oracle(f"fft_{_name}n", kind="scipy", empty=False, factor=64, samples=_planes(_made))(
        _several(_all)
    )

    def _plane(a, s=None, dim=(-2, -1), norm=None, transform=_two):
        return transform(a, s, dim, norm)

    oracle(f"fft_{_name}2", kind="scipy", empty=False, factor=64, samples=_planes(_made))(_plane)


@oracle(
    "fft_fftfreq", kind="numpy", samples=lambda S: [call(5), call(6, 0.5), call(4, dtype=S.dtype)]
)
def frequencies(n, d=1.0, dtype=numpy.float32):
    return numpy.fft.fftfreq(n, d).astype(dtype)


@oracle(
    "fft_rfftfreq", kind="numpy", samples=lambda S: [call(5), call(6, 0.5), call(4, dtype=S.dtype)]
)
def real_frequencies(n, d=1.0, dtype=numpy.float32):
    return numpy.fft.rfftfreq(n, d).astype(dtype)


def _shifts(S):
    return [call(S(5)), call(S(3, 4)), call(S(3, 4), 1), call(S(3, 4, 5), (0, 2))]


oracle("fft_fftshift", kind="numpy", samples=_shifts)(
    lambda a, dim=None: numpy.fft.fftshift(a, dim)
)
oracle("fft_ifftshift", kind="numpy", samples=_shifts)(
    lambda a, dim=None: numpy.fft.ifftshift(a, dim)
)


def _centred(window, n_fft):
    made = numpy.zeros(n_fft)
    first = (n_fft - len(window)) // 2
    made[first : first + len(window)] = window
    return made


def _hann(n):
    return 0.5 - 0.5 * numpy.cos(2 * numpy.pi * numpy.arange(n) / n)


@oracle(
    "stft",
    kind="loop",
    factor=128,
    empty=False,
    expanded=True,
    samples=lambda S: [
        call(S(2, 20), 8, window=S.of(_hann(8)), return_complex=True),
        call(S(20), 8, 3, 6, S.of(_hann(6)), return_complex=True),
        call(
            S(20), 8, 4, window=S.of(_hann(8)), center=False, normalized=True, return_complex=True
        ),
        call(
            S(20),
            8,
            4,
            window=S.of(_hann(8)),
            pad_mode="constant",
            onesided=False,
            return_complex=True,
        ),
        call(S.complex(20), 8, 4, window=S.of(_hann(8)), return_complex=True),
    ],
)
def frames(
    a,
    n_fft,
    hop_length=None,
    win_length=None,
    window=None,
    center=True,
    pad_mode="reflect",
    normalized=False,
    onesided=None,
    return_complex=None,
):
    hop = hop_length or n_fft // 4
    weights = _centred(window, n_fft)
    onesided = a.dtype.kind != "c" if onesided is None else onesided
    rows = a.reshape(-1, a.shape[-1])
    if center:
        rows = numpy.pad(rows, ((0, 0), (n_fft // 2, n_fft // 2)), pad_mode)
    found = []
    for row in rows:
        starts = range(0, row.size - n_fft + 1, hop)
        found.append(numpy.stack([numpy.fft.fft(row[s : s + n_fft] * weights) for s in starts], -1))
    made = numpy.stack(found) / (numpy.sqrt(n_fft) if normalized else 1)
    made = made[:, : n_fft // 2 + 1] if onesided else made
    return made.reshape(*a.shape[:-1], *made.shape[1:])


@oracle(
    "istft",
    kind="loop",
    factor=256,
    empty=False,
    expanded=False,
    samples=lambda S: [
        call(S.of(frames(S(2, 20).numpy(), 8, 2, window=_hann(8))), 8, 2, window=S.of(_hann(8))),
        call(
            S.of(frames(S(20).numpy(), 8, 2, window=_hann(8), normalized=True)),
            8,
            2,
            window=S.of(_hann(8)),
            normalized=True,
            length=17,
        ),
    ],
)
def joined_frames(
    a,
    n_fft,
    hop_length=None,
    win_length=None,
    window=None,
    center=True,
    normalized=False,
    onesided=None,
    length=None,
    return_complex=False,
):
    weights = _centred(window, n_fft)
    rows = a.reshape(-1, *a.shape[-2:])
    size = n_fft + hop_length * (a.shape[-1] - 1)
    made, total = numpy.zeros((len(rows), size)), numpy.zeros(size)
    for at in range(a.shape[-1]):
        part = numpy.fft.irfft(rows[..., at], n_fft) * (numpy.sqrt(n_fft) if normalized else 1)
        made[:, at * hop_length : at * hop_length + n_fft] += part * weights
        total[at * hop_length : at * hop_length + n_fft] += weights**2
    first = n_fft // 2
    last = size - n_fft // 2 if length is None else first + length
    return (made[:, first:last] / total[first:last]).reshape(*a.shape[:-2], -1)


# what the public transforms are made of: which dimensions, and by which power of their size results are divided


def _divided(made, sizes, normalization):
    count = float(numpy.prod(sizes))
    return made / {0: 1.0, 1: numpy.sqrt(count), 2: count}[normalization]


@oracle(
    "_fft_c2c",
    kind="numpy",
    empty=False,
    factor=64,
    samples=lambda S: [
        call(S.complex(3, 5), dims, n, forward)
        for dims in ([1], [0, 1])
        for n in (0, 1, 2)
        for forward in (True, False)
    ],
)
def complex_transform(a, dim, normalization, forward):
    sizes = [a.shape[d] for d in dim]
    made = (
        numpy.fft.fftn(a, axes=dim) if forward else numpy.fft.ifftn(a, axes=dim) * numpy.prod(sizes)
    )
    return _divided(made, sizes, normalization)


@oracle(
    "_fft_r2c",
    kind="numpy",
    empty=False,
    factor=64,
    samples=lambda S: [
        call(S(3, 5), dims, n, half)
        for dims in ([1], [0, 1])
        for n in (0, 1, 2)
        for half in (True, False)
    ],
)
def real_transform(a, dim, normalization, onesided):
    made = numpy.fft.rfftn(a, axes=dim) if onesided else numpy.fft.fftn(a, axes=dim)
    return _divided(made, [a.shape[d] for d in dim], normalization)


@oracle(
    "_fft_c2r",
    kind="numpy",
    empty=False,
    factor=64,
    samples=lambda S: [call(S.complex(3, 4), [1], n, size) for n in (0, 1, 2) for size in (6, 7)],
)
def inverse_real_transform(a, dim, normalization, last_dim_size):
    made = numpy.fft.irfft(a, last_dim_size, dim[0]) * last_dim_size
    return _divided(made, [last_dim_size], normalization)
