"""Equalization of graphs: scales of channels, what is folded and what is multiplied, and what is left as it is.

Oracle: NumPy from the model's own weights and inputs.
"""

import copy
import warnings

import numpy as np
import pytest

import facula
from facula import nn
from facula.ao.quantization import default_qconfig, get_default_qconfig_mapping
from facula.ao.quantization.fx import _equalize
from facula.ao.quantization.quantize_fx import convert_fx, prepare_fx
from facula.nn import functional as F

EVERYWHERE = {"": _equalize.default_equalization_qconfig}


def numbers(value):
    return value.detach().numpy().astype(np.float64)


def uneven(*shape):
    """Numbers whose channels, the second dimension, have very different ranges."""
    sizes = facula.logspace(-2, 2, shape[1]).reshape(1, -1, *[1] * (len(shape) - 2))
    return facula.randn(*shape) * sizes


def scale_by_hand(x, weight, axis=1):
    """The square root of the ratio of the ranges."""
    rest = tuple(d for d in range(x.ndim) if d != axis % x.ndim)
    other = tuple(d for d in range(weight.ndim) if d != 1)
    return np.sqrt(np.ptp(weight, other) / np.ptp(x, rest))


def prepared(model, x, mapping=None):
    mapping = {"": default_qconfig} if mapping is None else mapping
    made = prepare_fx(copy.deepcopy(model), mapping, (x,), _equalization_config=EVERYWHERE)
    made(x)
    return made


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.relu, self.last = nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3)

    def forward(self, x):
        return self.last(self.relu(self.first(x)))


def test_scales_are_folded_through_relu():
    facula.manual_seed(0)
    model, x = Two().eval(), uneven(16, 4)
    made = _equalize._convert_equalization_ref(prepared(model, x))
    w0, b0, w1 = (numbers(p) for p in (*model.first.parameters(), model.last.weight))
    s0 = scale_by_hand(numbers(x), w0)
    s1 = scale_by_hand(np.maximum(numbers(x) @ w0.T + b0, 0), w1)
    layer = made.first[0]
    np.testing.assert_allclose(numbers(layer.weight), w0 / s0 * s1[:, None], rtol=1e-4)
    np.testing.assert_allclose(numbers(layer.bias), b0 * s1, rtol=1e-4)
    np.testing.assert_allclose(numbers(made.last.weight), w1 / s1, rtol=1e-4)
    (scale,) = [v for k, v in made.named_buffers() if k.endswith("equalization_scale0")]
    np.testing.assert_allclose(numbers(scale).reshape(-1), s0, rtol=1e-4)
    np.testing.assert_allclose(numbers(made(x)), numbers(model(x)), atol=1e-3)


@pytest.mark.parametrize("kind", ["linear", "three dimensions", "convolution", "function"])
def test_equalized_integers_lose_less(kind):
    facula.manual_seed(1)
    model, x = {
        "linear": (nn.Linear(6, 8), uneven(64, 6)),
        "three dimensions": (nn.Linear(6, 8), uneven(64, 6).reshape(8, 8, 6)),
        "convolution": (nn.Conv2d(6, 8, 3), uneven(8, 6, 5, 5)),
        "function": (Called(), uneven(64, 6)),
    }[kind]
    model = nn.Sequential(model).eval()
    weight = next(model.parameters())
    with facula.no_grad():  # channels that are large have small weights
        shape = [1, -1] + [1] * (weight.dim() - 2)
        weight.div_(facula.logspace(-2, 2, 6).reshape(shape))
    right = numbers(model(x))
    plain = prepare_fx(copy.deepcopy(model), {"": default_qconfig}, (x,))
    plain(x)
    equalized = prepared(model, x)
    np.testing.assert_allclose(numbers(equalized(x)), right, atol=1e-5)
    errors = [np.abs(numbers(convert_fx(m)(x)) - right).mean() for m in (plain, equalized)]
    assert errors[1] < 0.3 * errors[0]


class Called(nn.Module):
    def __init__(self):
        super().__init__()
        self.w, self.b = nn.Parameter(facula.randn(8, 6)), nn.Parameter(facula.randn(8))

    def forward(self, x):
        return F.relu(F.linear(x, self.w, self.b))


def test_histograms_take_the_scaled_range():
    facula.manual_seed(2)
    model, x = nn.Sequential(nn.Linear(4, 3)).eval(), uneven(32, 4)
    made = prepared(model, x, get_default_qconfig_mapping())
    np.testing.assert_allclose(
        numbers(convert_fx(made)(x)), numbers(model(x)), atol=0.1 * np.abs(numbers(model(x))).max()
    )


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 3), nn.Linear(4, 3)

    def forward(self, x):
        return self.a(x) - self.b(x)


class Again(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)

    def forward(self, x):
        return self.a(self.a(x))


class Groups(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 1, groups=2)

    def forward(self, x):
        return self.conv(x)


@pytest.mark.parametrize("kind", [Shared, Again, Groups])
def test_what_cannot_be_equalized_is_left_as_it_is(kind):
    facula.manual_seed(3)
    model, x = kind().eval(), uneven(8, 4, 2, 2) if kind is Groups else uneven(8, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = _equalize._convert_equalization_ref(prepared(model, x))
    for name, value in model.named_parameters():
        assert facula.equal(made.get_parameter(name), value)
    np.testing.assert_allclose(numbers(made(x)), numbers(model(x)), atol=1e-5)
    assert not [k for k, _ in made.named_buffers() if "equalization" in k]


def test_a_model_that_saw_nothing_is_not_scaled():
    model = nn.Sequential(nn.Linear(4, 3)).eval()
    seen = prepare_fx(model, {"": default_qconfig}, (facula.ones(1, 4),), None, EVERYWHERE)
    with pytest.warns(UserWarning, match="other channels, or none were seen"):
        made = _equalize._convert_equalization_ref(seen)
    assert facula.equal(getattr(made, "0").weight, model[0].weight)


def test_a_result_that_others_take_is_not_folded():
    class Branches(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(4, 5), nn.Linear(5, 3)

        def forward(self, x):
            y = self.first(x)
            return self.last(y), facula.tanh(y)

    facula.manual_seed(4)
    model, x = Branches().eval(), uneven(16, 4)
    mapping = get_default_qconfig_mapping().set_object_type(facula.tanh, None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = _equalize._convert_equalization_ref(prepared(model, x, mapping))
    for mine, right in zip(made(x), model(x), strict=True):
        np.testing.assert_allclose(numbers(mine), numbers(right), atol=1e-3)


def test_layers_that_lose_most_are_chosen():
    facula.manual_seed(5)
    model, x = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)).eval(), uneven(32, 4)
    seen = prepare_fx(copy.deepcopy(model), {"": default_qconfig}, (x,))
    seen(x)
    found = _equalize.get_layer_sqnr_dict(seen, convert_fx(copy.deepcopy(seen)), x)
    assert set(found) >= {"0", "2"}
    worst = min(found, key=found.get)
    chosen = _equalize.get_equalization_qconfig_dict(found, 1)
    assert chosen == {"module_name": [(worst, _equalize.default_equalization_qconfig)]}


def test_observers_in_place_of_classes_are_refused():
    with pytest.raises(ValueError, match="please pass observer class instead"):
        _equalize.EqualizationQConfig(_equalize._InputEqualizationObserver())
    with pytest.raises(TypeError, match="Input qscheme must be per-tensor"):
        _equalize._InputEqualizationObserver(qscheme=facula.per_channel_affine)
    with pytest.raises(ValueError, match="2 to 5 dimensions"):
        _equalize._WeightEqualizationObserver()(facula.ones(3))


def test_unit_intervals_of_wide_integers_are_pytorchs():
    # scale 2**-32 and zero point 0: numbers above one half are all the largest integer
    x = np.array([-2.0, 0.0, 1.0])
    q = facula.quantize_per_tensor(facula.tensor(x.tolist()), 1.0, 0, facula.qint32)
    y = facula.sigmoid(q)
    wanted = np.minimum(np.rint(1 / (1 + np.exp(-x)) * 2**32), 2**31 - 1)
    assert (y.q_scale(), y.q_zero_point()) == (2.0**-32, 0)
    np.testing.assert_allclose(y.int_repr().numpy(), wanted, atol=2**8)


def test_joined_channels_are_refused():
    q = facula.quantize_per_channel(
        facula.ones(2, 2), facula.tensor([0.5, 1.0]), facula.zeros(2), 0, facula.quint8
    )
    with pytest.raises(RuntimeError, match="Only per-tensor quantization is supported in 'cat'"):
        facula.ops.quantized.cat([q, q], 0, 1.0, 0)
