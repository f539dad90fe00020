"""How numbers get their levels: histograms, learned parameters, ranges; reference layers, inputs of modules."""

import numpy as np
import pytest

import facula
from facula import nn
from facula.ao import quantization as Q
from facula.ao.nn import quantized as nnq
from facula.ao.nn.quantized import functional, reference
from facula.ao.nn.quantized.modules.utils import _quantize_weight
from facula.ao.quantization import utils
from facula.ao.quantization._learnable_fake_quantize import _LearnableFakeQuantize


def test_histograms_move_by_parts_of_bins():
    # each bin of [0, 1] goes over to [0, 5] whole, each third of [0, 5] in 16 parts to [0, 8]
    observer = Q.HistogramObserver(bins=3, dtype=facula.qint8, qscheme=facula.per_tensor_symmetric)
    for values in ([1.0] * 4, [0.0] * 4, [0.0] * 4, [2.0, 3.0, 4.0, 5.0], [5.0, 6.0, 7.0, 8.0]):
        observer(facula.tensor(values))
    assert observer.histogram.tolist() == [13.25, 3.75, 3.0]
    assert (observer.min_val.item(), observer.max_val.item()) == (0.0, 8.0)


def test_histograms_leave_out_infinities():
    observer = Q.HistogramObserver(bins=4)
    with pytest.warns(UserWarning, match="inf detected"):
        observer(facula.tensor([0.0, 1.0, float("inf")]))
    assert observer.histogram.sum().item() == 2


@pytest.mark.parametrize("dtype", [facula.int16, facula.uint16, facula.int32])
def test_only_bytes_have_a_reduced_range(dtype):
    observer = Q.MinMaxObserver(dtype=dtype, reduce_range=True)
    assert observer.quant_max - observer.quant_min in (2**16 - 1, 2**32 - 1)


@pytest.mark.parametrize("scheme", [facula.per_tensor_symmetric, facula.per_channel_symmetric])
def test_weights_stay_within_the_range_of_their_observer(scheme):
    kind = Q.MinMaxObserver if scheme is facula.per_tensor_symmetric else Q.PerChannelMinMaxObserver
    observer = kind(dtype=facula.qint8, qscheme=scheme, quant_min=-10, quant_max=10)
    weight = facula.tensor([[-1000.0, 1000.0]])
    observer(weight)
    integers = _quantize_weight(weight * 1.2, observer).int_repr()
    assert (integers.min().item(), integers.max().item()) == (-10, 10)


def test_zero_points_of_floats_are_added_before_rounding():
    x = facula.tensor([[1.3, 5.6, -2.2, 300.0]])
    made = facula.fake_quantize_per_channel_affine(
        x, facula.tensor([1.0]), facula.tensor([0.4]), 0, -128, 127
    )
    wanted = np.clip(np.rint(x.numpy() + np.float32(0.4)), -128, 127) - np.float32(0.4)
    np.testing.assert_array_equal(made.numpy(), wanted)


@pytest.mark.parametrize("dtype", [facula.float16, facula.bfloat16, facula.float64])
def test_fake_quantization_keeps_the_dtype(dtype):
    x = facula.randn(3, 4).to(dtype)
    scale, zero = facula.rand(4) + 0.1, facula.zeros(4, dtype=facula.int32)
    assert facula.fake_quantize_per_channel_affine(x, scale, zero, 1, -128, 127).dtype is dtype
    assert facula.fake_quantize_per_tensor_affine(x[0, 0], 0.1, 0, -128, 127).dtype is dtype
    with pytest.raises(RuntimeError, match="Scale must be Float"):
        facula.fake_quantize_per_channel_affine(x, scale.half(), zero, 1, -128, 127)


def test_learned_parameters_have_gradients():
    fake = _LearnableFakeQuantize(
        Q.MovingAverageMinMaxObserver, 0, 255, dtype=facula.quint8, qscheme=facula.per_tensor_affine
    )
    fake.enable_static_estimate()
    x = facula.linspace(-1, 2, 30)
    y = fake(x)
    assert abs(fake.scale.item() - 3 / 255) < 1e-6
    assert (y - x).abs().max().item() <= 3 / 510 + 1e-6
    fake.enable_param_learning()
    fake(facula.tensor([-5.0, 0.5, 9.0])).sum().backward()
    # beyond the range the result moves with the scale by the distance of the end from zero
    assert fake.scale.grad.abs().item() > 1 and fake.zero_point.grad is not None
    with pytest.raises(AssertionError, match="positive integer"):
        _LearnableFakeQuantize(Q.MovingAverageMinMaxObserver, channel_len=-3, dtype=facula.quint8)


@pytest.mark.parametrize("axis", [None, 0])
def test_reference_layers_compute_with_the_numbers_of_integers(axis):
    floats = nn.Linear(3, 4)
    parameters = {
        "qscheme": facula.per_tensor_affine,
        "dtype": facula.qint8,
        "scale": 0.05,
        "zero_point": 0,
    }
    steps = np.full((4, 1), np.float32(0.05))
    if axis is not None:
        steps = np.linspace(0.02, 0.05, 4, dtype="float32")[:, None]
        parameters = {
            "qscheme": facula.per_channel_affine, "dtype": facula.qint8, "axis": axis,
            "scale": facula.tensor(steps[:, 0]), "zero_point": facula.zeros(4, dtype=facula.int64),
        }  # fmt: skip
    layer = reference.Linear.from_float(floats, parameters)
    weight = np.clip(np.rint(floats.weight.detach().numpy() / steps), -128, 127) * steps
    x = facula.randn(2, 3)
    wanted = x.numpy() @ weight.T + floats.bias.detach().numpy()
    np.testing.assert_allclose(layer(x).detach().numpy(), wanted, atol=1e-6)
    assert layer.get_quantized_weight().int_repr().dtype is facula.int8


def test_inputs_of_modules_by_name():
    class Inner(nn.Module):
        def forward(self, x, first=facula.zeros(1), second=None):  # noqa: B008
            return x

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.inner = nn.Linear(5, 5), Inner()

        def forward(self, x):
            return self.inner(self.linear(x), second=facula.zeros(1, 2))

    found = utils.get_fqn_to_example_inputs(Outer(), (facula.rand(1, 5),))
    assert [value.dim() for value in found["inner"]] == [2, 1, 2]
    assert set(found) == {"", "linear", "inner"}


def test_functions_of_integers():
    x = facula.quantize_per_tensor(facula.tensor([[-1.0, 0.5, 2.0]]), 0.1, 10, facula.quint8)
    weight = facula.quantize_per_tensor(facula.tensor([[1.0, -1.0, 0.5]]), 0.01, 0, facula.qint8)
    made = functional.linear(x, weight, None, 0.1, 100)
    assert made.dequantize().item() == pytest.approx(-0.5, abs=0.1)
    assert functional.clamp(x, 0.0, 1.0).dequantize().tolist()[0] == pytest.approx([0.0, 0.5, 1.0])
    with pytest.raises(ValueError, match="must be quantized"):
        functional.hardtanh(facula.zeros(2))


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_instance_norms_of_integers(dims):
    floats = getattr(nn, f"InstanceNorm{dims}d")(2)
    x = facula.randn(2, 2, *[4] * dims)
    q = facula.quantize_per_tensor(x, 0.03, 128, facula.quint8)
    layer = getattr(nnq, f"InstanceNorm{dims}d")(2, floats.weight, floats.bias, 0.05, 100)
    np.testing.assert_allclose(
        layer(q).dequantize().numpy(), floats(q.dequantize()).numpy(), atol=0.026
    )


def test_tables_name_classes():
    assert Q.get_static_quant_module_class(nn.Linear) is nnq.Linear
    assert Q.get_static_quant_module_class(nn.Conv2d, is_reference=True) is reference.Conv2d
    with pytest.raises(
        AssertionError, match="does not have a corresponding quantized module class"
    ):
        Q.get_static_quant_module_class(nn.Bilinear)
    assert utils.get_quant_type(Q.default_dynamic_qconfig) is Q.QuantType.DYNAMIC
    assert utils.get_quant_type(Q.default_qconfig) is Q.QuantType.STATIC


def test_parameters_of_a_range():
    ends = facula.tensor(-1.0), facula.tensor(3.0)
    scale, zero = utils.determine_qparams(*ends, 0, 100, facula.quint8, facula.tensor([1e-7]), True)
    assert scale.item() == pytest.approx(0.04) and zero.item() == 25
