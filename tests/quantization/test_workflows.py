"""Observers, eager mode and graphs: what is chosen, the integers of layers, accuracy, states."""

import copy
import io

import numpy as np
import pytest

import facula
from facula import nn
from facula.ao import quantization as Q


@pytest.fixture
def numbers():
    return np.random.default_rng(3)


def tensor(numbers, *shape):
    return facula.tensor(numbers.standard_normal(shape).astype("float32"))


def test_extremes_decide_scale_and_zero_point():
    observer = Q.MinMaxObserver()
    observer(facula.tensor([-1.0, 2.0]))
    observer(facula.tensor([0.0, 3.0]))
    scale, zero = observer.calculate_qparams()
    assert scale.item() == pytest.approx(4 / 255) and zero.item() == 64


def test_symmetric_observers_have_zero_in_the_middle():
    observer = Q.MinMaxObserver(dtype=facula.qint8, qscheme=facula.per_tensor_symmetric)
    observer(facula.tensor([-1.0, 2.0]))
    scale, zero = observer.calculate_qparams()
    assert scale.item() == pytest.approx(2 / 127.5) and zero.item() == 0


def test_moving_averages_follow():
    observer = Q.MovingAverageMinMaxObserver(averaging_constant=0.5)
    observer(facula.tensor([-1.0, 2.0]))
    observer(facula.tensor([-2.0, 4.0]))
    assert observer.min_val.item() == -1.5 and observer.max_val.item() == 3.0


def test_channels_have_extremes_of_their_own(numbers):
    x = tensor(numbers, 3, 4)
    observer = Q.PerChannelMinMaxObserver(ch_axis=1, dtype=facula.qint8)
    observer(x)
    assert (observer.min_val.numpy() == x.numpy().min(0)).all()
    assert (observer.max_val.numpy() == x.numpy().max(0)).all()
    other = Q.PerChannelMinMaxObserver(ch_axis=1, dtype=facula.qint8)
    other.load_state_dict(observer.state_dict())
    assert facula.equal(other.min_val, observer.min_val)


def test_histograms_leave_single_numbers_out(numbers):
    x = tensor(numbers, 200000)
    x[0] = 8.0
    observer, plain = Q.HistogramObserver(), Q.MinMaxObserver()
    observer(x), plain(x)
    assert observer.histogram.sum().item() == 200000
    assert observer.calculate_qparams()[0] < 0.95 * plain.calculate_qparams()[0]


def test_histograms_keep_their_counts_over_wider_ranges(numbers):
    observer = Q.HistogramObserver()
    for factor in (1, 3, 0.5):
        observer(tensor(numbers, 1000) * factor)
    assert observer.histogram.sum().item() == pytest.approx(3000)


def test_an_observer_that_saw_nothing_says_so():
    with pytest.warns(UserWarning, match="must run observer before calling calculate_qparams"):
        scale, zero = Q.MinMaxObserver().calculate_qparams()
    assert scale.item() == 1.0 and zero.item() == 0


def test_an_observer_that_saw_nan_refuses():
    observer = Q.MinMaxObserver()
    observer(facula.tensor([float("nan"), 1.0]))
    with pytest.raises(AssertionError, match="min should be less than max"):
        observer.calculate_qparams()


def static(model, x, backend="x86"):
    model = model.eval()
    model.qconfig = Q.get_default_qconfig(backend)
    wrapped = Q.QuantWrapper(model)
    wrapped.qconfig = model.qconfig
    prepared = Q.prepare(wrapped)
    prepared(x)
    return Q.convert(prepared)


def test_the_integers_of_a_linear_layer(numbers):
    layer, x = nn.Linear(20, 7), tensor(numbers, 9, 20)
    made = static(layer, x)
    q = made.quant(x)
    y, w = made.module(q), made.module.weight()
    sums = (q.int_repr().long() - q.q_zero_point()) @ w.int_repr().long().t()
    numbers_ = sums.double() * (q.q_scale() * w.q_per_channel_scales()) + layer.bias.double()
    want = (numbers_ / y.q_scale()).round() + y.q_zero_point()
    assert facula.equal(y.int_repr().double(), want.clamp(0, 255).detach())


CONVOLUTIONS = {
    "1d": (nn.Conv1d(4, 6, 3), (2, 4, 12)),
    "2d": (nn.Conv2d(4, 6, 3, stride=2, padding=1), (2, 4, 9, 8)),
    "3d": (nn.Conv3d(2, 3, 2), (1, 2, 5, 4, 6)),
    "grouped": (nn.Conv2d(4, 6, 3, groups=2), (2, 4, 9, 8)),
    "depthwise": (nn.Conv2d(4, 4, 3, padding=1, groups=4), (2, 4, 9, 8)),
    "dilated": (nn.Conv2d(4, 6, 3, dilation=2, bias=False), (2, 4, 9, 8)),
    "1x1": (nn.Conv2d(4, 6, 1), (2, 4, 9, 8)),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_the_integers_of_a_convolution(numbers, name):
    layer, shape = CONVOLUTIONS[name]
    x = tensor(numbers, *shape)
    made = static(layer, x)
    q = made.quant(x)
    y, w = made.module(q), made.module.weight()
    exact = copy.deepcopy(layer).double()
    exact.weight.data = w.dequantize().double()
    numbers_ = exact(q.dequantize().double())
    want = ((numbers_ / y.q_scale()).round() + y.q_zero_point()).clamp(0, 255)
    off = (y.int_repr().double() - want.detach()).abs()
    assert off.max() <= 1 and (off > 0).double().mean() < 0.01  # float32 scales move a few ties


def test_fused_layers_give_what_their_parts_gave(numbers):
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Linear(8, 4)).eval()
    model[1].running_mean.copy_(tensor(numbers, 8))
    fused = Q.fuse_modules(model[:3], [["0", "1", "2"]])
    x = tensor(numbers, 2, 3, 6, 6)
    assert type(fused[0]).__name__ == "ConvReLU2d" and type(fused[1]) is nn.Identity
    np.testing.assert_allclose(fused(x).detach().numpy(), model[:3](x).detach().numpy(), atol=1e-5)
    made = static(fused, x)
    assert made(x).min() >= 0
    with pytest.raises(NotImplementedError, match="Cannot fuse modules"):
        Q.fuse_modules(model, [["2", "3"]])


def test_dynamic_layers_follow_the_range_of_the_input(numbers):
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 3)).eval()
    made = Q.quantize_dynamic(model, {nn.Linear}, dtype=facula.qint8)
    for factor in (1, 1000):
        x = tensor(numbers, 8, 16) * factor
        want = model(x)
        assert (made(x) - want).abs().max() < 0.05 * want.abs().max()
    half = Q.quantize_dynamic(model, {nn.Linear}, dtype=facula.float16)
    np.testing.assert_allclose(half(x).numpy(), model(x).detach().numpy(), rtol=1e-2, atol=2)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.skip = nn.Conv2d(3, 8, 1)
        self.head = nn.Linear(32, 5)

    def forward(self, x):
        y = nn.functional.relu(self.norm(self.conv(x)) + self.skip(x))
        y = nn.functional.adaptive_avg_pool2d(y, 2).flatten(1)
        return self.head(y)


def signal_to_noise(want, got):
    return 20 * facula.log10(want.norm() / (want - got).norm()).item()


def test_graphs_of_integers(numbers):
    model, x = Net().eval(), tensor(numbers, 4, 3, 8, 8)
    prepared = Q.prepare_fx(copy.deepcopy(model), Q.get_default_qconfig_mapping(), (x,))
    assert facula.allclose(prepared(x), model(x), atol=1e-5)
    made = Q.convert_fx(prepared)
    assert "add_relu" in made.code and made.code.count("quantize_per_tensor(") == 1
    assert not [m for m in made.modules() if type(m) in (nn.Conv2d, nn.Linear, nn.BatchNorm2d)]
    assert signal_to_noise(model(x), made(x)) > 20
    stream = io.BytesIO()
    facula.save(made.state_dict(), stream)
    stream.seek(0)
    other = Q.convert_fx(prepared)
    other.load_state_dict(facula.load(stream))
    assert facula.equal(other(x), made(x))
    reference = Q.convert_to_reference_fx(prepared)
    assert signal_to_noise(made(x), reference(x)) > 20


def test_names_and_types_choose_what_stays_in_float(numbers):
    model, x = Net().eval(), tensor(numbers, 4, 3, 8, 8)
    mapping = Q.get_default_qconfig_mapping().set_module_name("skip", None)
    mapping.set_object_type(nn.Linear, None)
    made = Q.convert_fx(_seen(Q.prepare_fx(copy.deepcopy(model), mapping, (x,)), x))
    assert type(made.skip) is nn.Conv2d and type(made.head) is nn.Linear
    assert type(made.conv) is not nn.Conv2d


def _seen(prepared, x):
    prepared(x)
    return prepared


def test_training_with_levels(numbers):
    facula.manual_seed(0)
    model, x = Net().train(), tensor(numbers, 16, 3, 8, 8)
    mapping = Q.get_default_qat_qconfig_mapping()
    prepared = Q.prepare_qat_fx(copy.deepcopy(model), mapping, (x,))
    optimizer = facula.optim.SGD(prepared.parameters(), lr=0.05)
    losses = []
    for _ in range(4):
        optimizer.zero_grad()
        loss = (prepared(x) - 1).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    # fake quantizers go on observing in evaluation: the scales that are compared would be others
    prepared.eval().apply(Q.disable_observer)
    made = Q.convert_fx(prepared)
    assert signal_to_noise(prepared(x), made(x)) > 20


def test_training_in_eager_mode(numbers):
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()).train()
    fused = Q.fuse_modules_qat(model, [["0", "1", "2"]])
    fused.qconfig = Q.get_default_qat_qconfig()
    wrapped = Q.QuantWrapper(fused)
    wrapped.qconfig = fused.qconfig
    prepared = Q.prepare_qat(wrapped.train())
    x = tensor(numbers, 8, 3, 6, 6)
    prepared(x).sum().backward()
    assert prepared.module[0].weight.grad is not None
    made = Q.convert(prepared.eval().apply(Q.disable_observer))
    assert signal_to_noise(prepared(x), made(x)) > 20
    with pytest.raises(AssertionError, match="only works on models in training mode"):
        Q.prepare_qat(wrapped.eval())


def test_engines():
    engines = facula.backends.quantized
    assert engines.engine == "x86" and "qnnpack" in engines.supported_engines
    with pytest.raises(RuntimeError, match="not a valid value for quantized engine"):
        engines.engine = "nope"
    with pytest.raises(AssertionError, match="backend"):
        Q.get_default_qconfig("nope")


def test_parameters_of_another_engine_are_refused(numbers):
    layer, x = nn.Linear(4, 3), tensor(numbers, 2, 4)
    made = static(layer, x)
    try:
        facula.backends.quantized.engine = "qnnpack"
        with pytest.raises(RuntimeError, match="packed for the engine qnnpack were required"):
            made(x)
    finally:
        facula.backends.quantized.engine = "x86"


def test_both_names_are_one_module():
    import facula.nn.intrinsic.qat
    import facula.nn.quantized.dynamic

    assert facula.nn.quantized.Linear is facula.ao.nn.quantized.Linear
    assert facula.quantization.prepare_fx is Q.prepare_fx
    assert facula.ao.quantization.observer.MinMaxObserver is Q.MinMaxObserver


def test_tables_of_bytes(numbers):
    table = nn.EmbeddingBag(10, 8, mode="sum")
    table.qconfig = Q.float_qparams_weight_only_qconfig
    made = facula.ao.nn.quantized.EmbeddingBag.from_float(table)
    indices, offsets = facula.tensor([1, 3, 5, 1]), facula.tensor([0, 1, 1])
    want = table(indices, offsets)
    assert (made(indices, offsets) - want).abs().max() < 0.05
    other = facula.ao.nn.quantized.EmbeddingBag(10, 8)
    other.load_state_dict(made.state_dict())
    assert facula.equal(other(indices, offsets), made(indices, offsets))
    rows = facula.ao.nn.quantized.Embedding.from_float(nn.Embedding.from_pretrained(table.weight))
    assert rows(facula.tensor([[1, 2]])).shape == (1, 2, 8)


def test_products_with_integer_weights(numbers):
    a, b = numbers.integers(-128, 128, (7, 20)), numbers.integers(-128, 128, (20, 5))
    made = facula._int_mm(facula.tensor(a, dtype=facula.int8), facula.tensor(b, dtype=facula.int8))
    assert made.dtype is facula.int32 and (made.numpy() == a @ b).all()
    x, w = numbers.standard_normal((3, 20)).astype("float32"), numbers.integers(-128, 128, (5, 20))
    scales = numbers.uniform(0.01, 0.02, 5).astype("float32")
    got = facula._weight_int8pack_mm(
        facula.tensor(x), facula.tensor(w, dtype=facula.int8), facula.tensor(scales)
    )
    np.testing.assert_allclose(got.numpy(), x @ (w.T * scales), rtol=1e-5, atol=1e-5)
    with pytest.raises(RuntimeError, match="dtype to be int8"):
        facula._int_mm(facula.tensor(x), facula.tensor(x))


def test_groups_of_four_bits(numbers):
    levels = numbers.integers(0, 16, (6, 64)).astype("int32")
    x = numbers.standard_normal((3, 64)).astype("float32")
    parameters = numbers.standard_normal((2, 6, 2)).astype("float32")
    packed = facula._convert_weight_to_int4pack_for_cpu(facula.tensor(levels), 1)
    got = facula._weight_int4pack_mm_for_cpu(
        facula.tensor(x), packed, 32, facula.tensor(parameters)
    )
    grouped = levels.reshape(6, 2, 32).astype("float32") - 8
    scale, zero = parameters[..., 0].T[..., None], parameters[..., 1].T[..., None]
    want = x @ (grouped * scale + zero).reshape(6, 64).T
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-4, atol=1e-4)
    with pytest.raises(RuntimeError, match="and to divide the columns"):
        facula._weight_int4pack_mm_for_cpu(facula.tensor(x), packed, 128, facula.tensor(parameters))
