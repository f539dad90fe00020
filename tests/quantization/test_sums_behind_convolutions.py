"""Convolutions with a sum behind them: as operators, and as layers that eager mode makes of float ones.

Oracle: NumPy with integers of 64 bits and float64 on the integers; float layers.
"""

import numpy as np
import pytest

import facula
from facula import nn
from facula.ao import quantization
from facula.ao.nn import intrinsic
from facula.ops import quantized


def given(seed, channels, groups, kind):
    """An image, a weight, a bias, and what is added, all quantized; and the sum as numbers."""
    rng = np.random.default_rng(seed)
    low = -128 if kind is facula.qint8 else 0
    x = rng.integers(low, low + 256, (2, channels, 5, 6))
    w = rng.integers(-128, 128, (70 * groups, channels // groups, 1, 1))
    more = rng.integers(low, low + 256, (2, 70 * groups, 5, 6))
    bias = rng.normal(size=70 * groups).astype(np.float32)
    rows = np.stack(np.split(x - (low + 9), groups, 1))
    parts = [
        np.einsum("oc,nchw->nohw", b[:, :, 0, 0], a)
        for a, b in zip(rows, np.split(w, groups), strict=True)
    ]
    total = (
        np.concatenate(parts, 1) * (0.03 * 0.002) + bias[:, None, None] + (more - (low + 7)) * 0.05
    )
    make = facula._make_per_tensor_quantized_tensor
    storage = np.int8 if low else np.uint8
    qx = make(facula.from_numpy(x.astype(storage)), 0.03, low + 9)
    qw = make(facula.from_numpy(w.astype(np.int8)), 0.002, 0)
    accumulated = make(facula.from_numpy(more.astype(storage)), 0.05, low + 7)
    packed = quantized.conv2d_prepack(qw, facula.from_numpy(bias), [1, 1], [0, 0], [1, 1], groups)
    return qx, accumulated, packed, total, low


@pytest.mark.parametrize("kind", [facula.quint8, facula.qint8])
@pytest.mark.parametrize(("channels", "groups"), [(8, 1), (6, 3), (5, 5)])
def test_sums_are_rounded_once(kind, channels, groups):
    qx, more, packed, total, low = given(channels, channels, groups, kind)
    for name, numbers in (("conv2d_add", total), ("conv2d_add_relu", np.maximum(total, 0))):
        made = getattr(quantized, name)(qx, more, packed, 0.06, low + 30)
        assert made.dtype is kind and made.q_scale() == 0.06 and made.q_zero_point() == low + 30
        right = np.clip(np.rint(numbers / 0.06) + low + 30, low, low + 255)
        apart = np.abs(made.int_repr().numpy().astype(np.int64) - right)
        assert (
            apart.max() <= 1 and (apart > 0).mean() < 0.01
        )  # ties, which float32 may round the other way


def test_what_does_not_fit_is_refused():
    qx, more, packed, _, _ = given(0, 8, 1, facula.quint8)
    with pytest.raises(RuntimeError, match="qaccum of the result's shape"):
        quantized.conv2d_add(qx, more[:, :1], packed, 0.1, 0)
    with pytest.raises(RuntimeError, match="qaccum of dtype"):
        quantized.conv2d_add(qx, more.dequantize(), packed, 0.1, 0)


class Sum(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.first, self.second = quantization.QuantStub(), quantization.QuantStub()
        self.layer, self.last = layer, quantization.DeQuantStub()

    def forward(self, x, y):
        return self.last(self.layer(self.first(x), self.second(y)))


@pytest.mark.parametrize("padding", ["zeros", "reflect"])
@pytest.mark.parametrize("relu", [False, True])
def test_layers_become_layers_of_integers(relu, padding):
    facula.manual_seed(3)
    conv = nn.Conv2d(3, 5, 3, padding=1, padding_mode=padding)
    layer = (
        intrinsic.ConvAddReLU2d(conv, facula.add, nn.ReLU())
        if relu
        else intrinsic.ConvAdd2d(conv, facula.add)
    )
    model = Sum(layer).eval()
    x, y = facula.randn(2, 3, 6, 6), facula.randn(2, 5, 6, 6)
    expected = conv(x) + y
    expected = expected.relu() if relu else expected
    assert facula.equal(model(x, y), expected)
    model.qconfig = quantization.get_default_qconfig("x86")
    prepared = quantization.prepare(model)
    prepared(x, y)
    made = quantization.convert(prepared)
    wanted = intrinsic.quantized.ConvAddReLU2d if relu else intrinsic.quantized.ConvAdd2d
    assert type(made.layer) is wanted and "Quantized" + wanted.__name__ in repr(made.layer)
    step = made.layer.scale
    assert (made(x, y) - expected).abs().max().item() < 3 * step
    loaded = type(made.layer)(3, 5, (3, 3), padding=(1, 1), padding_mode=padding)
    loaded.load_state_dict(made.layer.state_dict())
    stubs = made.first(x), made.second(y)
    right = made.layer(*stubs).int_repr()
    assert facula.equal(loaded(*stubs).int_repr(), right)
    assert facula.equal(facula.jit.script(made.layer)(*stubs).int_repr(), right)


def test_images_of_four_dimensions_are_required():
    layer = intrinsic.quantized.ConvAdd2d(1, 1, 1)
    x = facula.quantize_per_tensor(facula.ones(1, 2, 2), 1.0, 0, facula.quint8)
    with pytest.raises(ValueError, match="Input shape must be"):
        layer(x, x)
