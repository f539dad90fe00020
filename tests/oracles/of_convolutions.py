"""Oracles of convolutions: loops over the places of the output, in any number of dimensions."""

import numpy
from oracle_table import call, oracle


def several(value, n):
    """A number for each of `n` dimensions, out of one or a list."""
    values = [value] if isinstance(value, int) else list(value)
    return values * n if len(values) == 1 else values


def convolved(a, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    n = weight.ndim - 2
    if a.ndim == n + 1:
        return convolved(a[None], weight, bias, stride, padding, dilation, groups)[0]
    kernel, stride, dilation = weight.shape[2:], several(stride, n), several(dilation, n)
    if padding == "same":
        widths = [divmod(d * (k - 1), 2) for d, k in zip(dilation, kernel, strict=True)]
        widths = [(half, half + odd) for half, odd in widths]
    else:
        widths = [(p, p) for p in several(0 if padding == "valid" else padding, n)]
    a = numpy.pad(a, [(0, 0), (0, 0), *widths])
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    sizes = [(s - r) // t + 1 for s, r, t in zip(a.shape[2:], reach, stride, strict=True)]
    out, within = weight.shape[0] // groups, weight.shape[1]
    made = numpy.zeros((a.shape[0], weight.shape[0], *sizes), numpy.result_type(a, weight))
    for place in numpy.ndindex(*sizes):
        window = tuple(
            slice(p * t, p * t + r, d)
            for p, t, r, d in zip(place, stride, reach, dilation, strict=True)
        )
        for g in range(groups):
            patch = a[(slice(None), slice(g * within, (g + 1) * within), *window)]
            rows = weight[g * out : (g + 1) * out].reshape(out, -1)
            made[(slice(None), slice(g * out, (g + 1) * out), *place)] = (
                patch.reshape(len(a), -1) @ rows.T
            )
    return made if bias is None else made + bias.reshape(1, -1, *[1] * n)


def spread(a, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """A transposed convolution: every element adds its multiple of the kernel."""
    n = weight.ndim - 2
    if a.ndim == n + 1:
        return spread(a[None], weight, bias, stride, padding, output_padding, groups, dilation)[0]
    stride, padding, dilation = several(stride, n), several(padding, n), several(dilation, n)
    more, kernel = several(output_padding, n), weight.shape[2:]
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    sizes = [
        (s - 1) * t + r + m for s, t, r, m in zip(a.shape[2:], stride, reach, more, strict=True)
    ]
    within, out = weight.shape[0] // groups, weight.shape[1]
    made = numpy.zeros((a.shape[0], out * groups, *sizes), numpy.result_type(a, weight))
    for place in numpy.ndindex(*a.shape[2:]):
        window = tuple(
            slice(p * t, p * t + r, d)
            for p, t, r, d in zip(place, stride, reach, dilation, strict=True)
        )
        for g in range(groups):
            values = a[(slice(None), slice(g * within, (g + 1) * within), *place)]
            rows = weight[g * within : (g + 1) * within].reshape(within, -1)
            patch = (values @ rows).reshape(len(a), out, *kernel)
            made[(slice(None), slice(g * out, (g + 1) * out), *window)] += patch
    crop = tuple(slice(p, s - p) for p, s in zip(padding, sizes, strict=True))
    made = made[(slice(None), slice(None), *crop)]
    return made if bias is None else made + bias.reshape(1, -1, *[1] * n)


SIZES = (7, 6, 5)
KERNEL = (3, 2, 3)


def _samples(n):
    spatial, kernel = SIZES[:n], KERNEL[:n]

    def samples(S):
        a, w = (2, 4, *spatial), (6, 4, *kernel)
        return [
            call(S(*a), S(*w), S(6)),
            call(S(*a), S(*w), None, 2, 1),
            call(S(*a), S(*w), S(6), 1, 1, 2),
            call(S(*a), S(6, 2, *kernel), S(6), [1, 2, 2][:n], [2, 0, 1][:n], [2, 3, 1][:n], 2),
            call(S(*a), S(4, 1, *kernel), groups=4),
            call(S(*a), S(*w), padding="same", dilation=2),
            call(S(*a), S(*w), padding="valid"),
            call(S(4, *spatial), S(*w), S(6), padding=1),
            call(S(*a), S(5, 4, *[1] * n), S(5)),
            call(S.complex(*a), S.complex(*w), S.complex(6), 2),
        ]

    return samples


def _transposed(n):
    spatial, kernel = (4, 3, 3)[:n], KERNEL[:n]

    def samples(S):
        a, w = (2, 4, *spatial), (4, 3, *kernel)
        return [
            call(S(*a), S(*w), S(3)),
            call(S(*a), S(*w), None, 2, 1, 1),
            call(S(*a), S(*w), S(3), [3, 2, 2][:n], [1, 0, 2][:n], [2, 1, 0][:n]),
            call(S(*a), S(*w), S(6), 2, 1, 0, 2, 2),
            call(S(*a), S(4, 1, *kernel), groups=4, dilation=2),
            call(S(4, *spatial), S(*w), S(3), 2),
        ]

    return samples


for _n in (1, 2, 3):
    oracle(f"conv{_n}d", kind="loop", factor=128, empty=False, samples=_samples(_n))(convolved)
    oracle(f"conv_transpose{_n}d", kind="loop", factor=128, empty=False, samples=_transposed(_n))(
        spread
    )


@oracle(
    "convolution",
    kind="loop",
    factor=128,
    empty=False,
    samples=lambda S: [
        call(S(2, 4, 7, 6), S(6, 2, 3, 2), S(6), [2, 1], [1, 0], [1, 2], False, [0, 0], 2),
        call(S(2, 4, 5), S(4, 3, 3), None, [2], [1], [1], True, [1], 1),
    ],
)
def either(a, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    if transposed:
        return spread(a, weight, bias, stride, padding, output_padding, groups, dilation)
    return convolved(a, weight, bias, stride, padding, dilation, groups)


def _gradient_calls(S):
    plain = ([2, 1], [1, 0], [1, 2], False, [0, 0], 2, [True, True, True])
    turned = ([2], [1], [1], True, [1], 1, [True, True, True])
    return [
        call(S(2, 6, 4, 4), S(2, 4, 7, 6), S(6, 2, 3, 2), [6], *plain),
        call(S(2, 3, 10), S(2, 4, 5), S(4, 3, 3), [3], *turned),
    ]


@oracle("convolution_backward", kind="identity", factor=256, empty=False, samples=_gradient_calls)
def gradients(grad, a, weight, bias_sizes, stride, padding, dilation, transposed, output_padding,
              groups, output_mask):  # fmt: skip
    """A convolution is linear in each factor: <grad, conv(unit, w)> is what the gradient has at the unit."""
    call = (None, stride, padding, dilation, transposed, output_padding, groups)
    found = []
    for given, run in (
        (a, lambda unit: either(unit, weight, *call)),
        (weight, lambda unit: either(a, unit, *call)),
    ):
        made = numpy.zeros_like(given)
        for place in numpy.ndindex(given.shape):
            unit = numpy.zeros_like(given)
            unit[place] = 1
            made[place] = (grad * run(unit)).sum()
        found.append(made)
    return (*found, grad.sum((0, *range(2, grad.ndim))))


@oracle(
    "conv_tbc",
    kind="loop",
    factor=128,
    empty=False,
    samples=lambda S: [call(S(7, 2, 4), S(3, 4, 5), S(5)), call(S(7, 2, 4), S(3, 4, 5), S(5), 1)],
)
def times_first(a, weight, bias, pad=0):
    made = convolved(a.transpose(1, 2, 0), weight.transpose(2, 1, 0), bias, 1, pad)
    return made.transpose(2, 0, 1)


# windows as columns


def _places(sizes, kernel, dilation, padding, stride):
    """For each window and each of its elements, the coordinates, which may lie in the padding."""
    counts = [
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, d, p, s in zip(sizes, kernel, dilation, padding, stride, strict=True)
    ]
    for column, at in enumerate(numpy.ndindex(*counts)):
        for row, inside in enumerate(numpy.ndindex(*kernel)):
            where = tuple(
                a * s - p + i * d
                for a, s, p, i, d in zip(at, stride, padding, inside, dilation, strict=True)
            )
            if all(0 <= w < n for w, n in zip(where, sizes, strict=True)):
                yield row, column, where


def _windows(kernel_size, dilation, padding, stride):
    return tuple(several(v, 2) for v in (kernel_size, dilation, padding, stride))


@oracle(
    "im2col",
    kind="loop",
    empty=False,
    samples=lambda S: [call(S(2, 3, 5, 6), 2), call(S(3, 5, 6), [3, 2], 1, 1, 2)],
)
def columns(a, kernel_size, dilation=1, padding=0, stride=1):
    if a.ndim == 3:
        return columns(a[None], kernel_size, dilation, padding, stride)[0]
    kernel, *rest = _windows(kernel_size, dilation, padding, stride)
    size = kernel[0] * kernel[1]
    found = list(_places(a.shape[2:], kernel, *rest))
    counts = [
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, d, p, s in zip(a.shape[2:], kernel, *rest, strict=True)
    ]
    made = numpy.zeros((a.shape[0], a.shape[1], size, counts[0] * counts[1]), a.dtype)
    for row, column, where in found:
        made[:, :, row, column] = a[:, :, where[0], where[1]]
    return made.reshape(a.shape[0], -1, made.shape[-1])


@oracle(
    "col2im",
    kind="loop",
    empty=False,
    samples=lambda S: [call(S(2, 12, 20), (5, 6), 2), call(S(12, 20), (5, 6), 2)],
)
def image(a, output_size, kernel_size, dilation=1, padding=0, stride=1):
    if a.ndim == 2:
        return image(a[None], output_size, kernel_size, dilation, padding, stride)[0]
    kernel, *rest = _windows(kernel_size, dilation, padding, stride)
    rows = a.reshape(a.shape[0], -1, kernel[0] * kernel[1], a.shape[-1])
    made = numpy.zeros((*rows.shape[:2], *output_size), a.dtype)
    for row, column, where in _places(output_size, kernel, *rest):
        made[:, :, where[0], where[1]] += rows[:, :, row, column]
    return made


# channels


@oracle(
    "pixel_shuffle",
    kind="loop",
    samples=lambda S: [call(S(2, 8, 3, 2), 2), call(S(9, 2, 2), 3)],
    empty=False,
)
def finer(a, upscale_factor):
    r, (*lead, c, h, w) = upscale_factor, a.shape
    made = numpy.empty((*lead, c // r**2, h * r, w * r), a.dtype)
    for place in numpy.ndindex(*made.shape[-3:]):
        channel, row, column = place
        made[(..., *place)] = a[
            ..., channel * r**2 + row % r * r + column % r, row // r, column // r
        ]
    return made


@oracle(
    "pixel_unshuffle",
    kind="loop",
    samples=lambda S: [call(S(2, 2, 4, 6), 2), call(S(1, 6, 3), 3)],
    empty=False,
)
def coarser(a, downscale_factor):
    r, (*lead, c, h, w) = downscale_factor, a.shape
    made = numpy.empty((*lead, c * r**2, h // r, w // r), a.dtype)
    for place in numpy.ndindex(*a.shape[-3:]):
        channel, row, column = place
        made[..., channel * r**2 + row % r * r + column % r, row // r, column // r] = a[
            (..., *place)
        ]
    return made


@oracle(
    "channel_shuffle",
    "native_channel_shuffle",
    kind="loop",
    empty=False,
    samples=lambda S: [call(S(2, 6, 3), 2), call(S(1, 6, 2, 2), 3)],
)
def mixed_channels(a, groups):
    size = a.shape[1] // groups
    return a[:, [at % groups * size + at // groups for at in range(a.shape[1])]]
