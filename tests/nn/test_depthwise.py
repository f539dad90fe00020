"""Depthwise convolutions of images with channels last, which are read where they lie, equal SciPy's."""

import numpy
import pytest
from scipy.signal import correlate2d

import facula
from facula.nn import functional as F


def reference(x, w, b, stride, padding, dilation):
    """A plane at a time in float64, with the taps spread by zeros."""
    kernel = numpy.zeros((len(w), *((n - 1) * dilation + 1 for n in w.shape[2:])))
    kernel[:, ::dilation, ::dilation] = w[:, 0]
    x = numpy.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    planes = [
        [correlate2d(p, k, mode="valid") + c for p, k, c in zip(image, kernel, b, strict=True)]
        for image in x
    ]
    return numpy.array(planes)[:, :, ::stride, ::stride]


CASES = [  # channels, height, width, kernel, stride, padding, dilation
    (16, 9, 64, 3, 1, 1, 1),
    (64, 21, 70, 3, 2, 1, 1),
    (24, 5, 66, 5, 1, 2, 1),
    (72, 7, 131, 5, 2, 2, 1),
    (120, 6, 50, 3, 1, 0, 1),
    (40, 9, 80, 3, 1, 2, 2),
    (17, 4, 45, 3, 1, 4, 1),
    (136, 3, 68, 1, 2, 0, 1),
    (33, 12, 90, 3, 3, 5, 3),
]


@pytest.mark.parametrize("dtype", [facula.float32, facula.float64])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_values_and_gradients(case, dtype):
    channels, height, width, size, stride, padding, dilation = case
    chance = numpy.random.default_rng(7)
    x = chance.standard_normal((2, channels, height, width))
    w = chance.standard_normal((channels, 1, size, size))
    b = chance.standard_normal(channels)
    expected = reference(x, w, b, stride, padding, dilation)
    tensors = [facula.tensor(a, dtype=dtype) for a in (x, w, b)]
    tensors[0] = tensors[0].contiguous(memory_format=facula.channels_last)
    for tensor in tensors:
        tensor.requires_grad_()
    found = F.conv2d(*tensors, stride, padding, dilation, groups=channels)
    close = (
        {"rtol": 1e-4, "atol": 1e-4} if dtype == facula.float32 else {"rtol": 1e-12, "atol": 1e-12}
    )
    numpy.testing.assert_allclose(found.detach().numpy(), expected, **close)
    # <dy, conv(x)> is linear in x: its gradient times any z is <dy, conv(z)> without the bias
    dy, z = chance.standard_normal(expected.shape), chance.standard_normal(x.shape)
    found.backward(facula.tensor(dy, dtype=dtype).contiguous(memory_format=facula.channels_last))
    along = (dy * reference(z, w, 0 * b, stride, padding, dilation)).sum()
    numpy.testing.assert_allclose((tensors[0].grad.double().numpy() * z).sum(), along, rtol=1e-3)
    numpy.testing.assert_allclose(
        tensors[2].grad.double().numpy(), dy.sum((0, 2, 3)), rtol=1e-3, atol=1e-3
    )


@pytest.mark.parametrize("channels", [16, 72, 152])
def test_an_activation_is_applied_once_to_each_value(channels):
    conv = facula.nn.Conv2d(channels, channels, 3, padding=1, groups=channels).eval()
    x = facula.randn(1, channels, 8, 67).contiguous(memory_format=facula.channels_last)
    with facula.no_grad():
        found = facula.compile(facula.nn.Sequential(conv, facula.nn.Hardswish()))(x)
        w, b = conv.weight.double().numpy(), conv.bias.double().numpy()
    y = reference(x.double().numpy(), w, b, 1, 1, 1)
    numpy.testing.assert_allclose(
        found.numpy(), y * numpy.clip(y + 3, 0, 6) / 6, rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("form", [facula.channels_last, facula.contiguous_format], ids=str)
@pytest.mark.parametrize(("size", "stride"), [(3, 1), (5, 1), (3, 2), (5, 2)])
@pytest.mark.parametrize("width", [1, 2, 7, 14, 28])
@pytest.mark.parametrize("channels", [1, 16, 17, 24, 40, 200])
def test_rows_shorter_than_a_step(channels, width, size, stride, form):
    """With an activation behind the sum, in float32 and float64."""
    chance = numpy.random.default_rng(channels + width)
    x = chance.standard_normal((2, channels, width, width))
    for dtype, tolerance in ((facula.float32, 1e-4), (facula.float64, 1e-12)):
        conv = facula.nn.Conv2d(
            channels, channels, size, stride, size // 2, groups=channels, dtype=dtype
        )
        image = facula.tensor(x, dtype=dtype).contiguous(memory_format=form)
        with facula.no_grad():
            plain = conv.eval()(image).numpy()
            clipped = F.relu(conv(image)).numpy()
        y = reference(x, conv.weight.detach().double().numpy(), conv.bias.detach().double().numpy(),
                      stride, size // 2, 1)  # fmt: skip
        numpy.testing.assert_allclose(plain, y, rtol=tolerance, atol=tolerance)
        numpy.testing.assert_allclose(clipped, y.clip(0), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("channels", "width", "size"), [(17, 7, 5), (40, 14, 3), (200, 14, 3)])
def test_compiled_rows_shorter_than_a_step(channels, width, size):
    conv = facula.nn.Conv2d(channels, channels, size, padding=size // 2, groups=channels).eval()
    x = facula.randn(1, channels, width, width)
    with facula.no_grad():
        found = facula.compile(facula.nn.Sequential(conv, facula.nn.Hardswish()))(x)
        w, b = conv.weight.double().numpy(), conv.bias.double().numpy()
    y = reference(x.double().numpy(), w, b, 1, size // 2, 1)
    expected = y * numpy.clip(y + 3, 0, 6) / 6
    numpy.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("padding", [0, 1, 4, 7])
@pytest.mark.parametrize(("size", "stride"), [(3, 1), (5, 1), (3, 2), (5, 2)])
@pytest.mark.parametrize("width", [5, 15, 16, 17, 33])
def test_borders_of_any_width(width, size, stride, padding):
    """Windows that lie partly or wholly in the padding, on either side of a step's columns."""
    chance = numpy.random.default_rng(width + padding)
    x, w = chance.standard_normal((2, 72, 6, width)), chance.standard_normal((72, 1, size, size))
    b = chance.standard_normal(72)
    image, weight, bias = (facula.tensor(a) for a in (x, w, b))
    image = image.contiguous(memory_format=facula.channels_last)
    found = F.conv2d(image, weight, bias, stride, padding, groups=72)
    numpy.testing.assert_allclose(
        found.numpy(), reference(x, w, b, stride, padding, 1), rtol=1e-12, atol=1e-12
    )
