"""Scripted and traced models become models of integers: the numbers are those of the integers, and files keep them."""

import io

import numpy as np
import pytest

import facula
from facula import nn
from facula.ao import quantization
from facula.ao.quantization import (
    convert_dynamic_jit,
    convert_jit,
    fuse_conv_bn_jit,
    prepare_dynamic_jit,
    prepare_jit,
    quantize_dynamic_jit,
    quantize_jit,
)
from facula.ao.quantization.quantize_jit import script_qconfig

F = nn.functional
CONFIG = quantization.get_default_qconfig("x86")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
        self.act, self.last = nn.ReLU(), nn.Linear(4, 5)

    def forward(self, x):
        x = self.act(self.norm(self.conv(x)))
        return self.last(F.adaptive_avg_pool2d(x, (1, 1)).flatten(1))


def made(model, x, how):
    model = model.eval()
    return facula.jit.script(model) if how == "script" else facula.jit.trace(model, x)


def integers(model, *inputs, config=CONFIG, debug=False):
    prepared = prepare_jit(model, {"": config})
    prepared(*inputs)
    return convert_jit(prepared, debug=debug)


def kinds(model):
    return [node.kind() for node in model.graph.nodes()]


def saved(model):
    buffer = io.BytesIO()
    facula.jit.save(model, buffer)
    buffer.seek(0)
    return facula.jit.load(buffer)


@pytest.mark.parametrize("how", ["script", "trace"])
def test_layers_between_bytes(how):
    facula.manual_seed(1)
    model, x = Net(), facula.rand(2, 3, 8, 8)
    model.norm.running_mean.copy_(facula.tensor([0.1, -0.2, 0.3, 0.0]))
    scripted = made(model, x, how)
    before = str(scripted.graph)
    quantized, in_floats = integers(scripted, x), integers(scripted, x, debug=True)
    assert {"quantized::conv2d_relu", "quantized::linear"} <= set(kinds(quantized))
    assert (
        "aten::batch_norm" not in kinds(quantized)
        and kinds(quantized).count("aten::dequantize") == 1
    )
    assert "quantized::linear" not in kinds(in_floats)
    wanted = model(x)
    assert float((quantized(x) - wanted).abs().max()) < 0.05 * float(wanted.abs().max())
    assert float((quantized(x) - in_floats(x)).abs().max()) < 1e-6
    assert facula.equal(saved(quantized)(x), quantized(x))
    assert str(scripted.graph) == before and facula.equal(scripted(x), model(x))


def test_the_integers_are_those_of_the_formula():
    """Of a linear layer: bytes times signed bytes, by NumPy's integers, rounded to even at the end."""
    facula.manual_seed(2)
    layer = nn.Linear(6, 4)
    config = quantization.QConfig(
        activation=quantization.MinMaxObserver, weight=quantization.default_weight_observer
    )
    x = facula.randn(5, 6)
    quantized = integers(facula.jit.script(layer.eval()), x, config=config)
    given, y = x.numpy().astype(np.float64), layer(x).detach().numpy()

    def parameters(values):
        low, high = min(values.min(), 0.0), max(values.max(), 0.0)
        scale = np.float32((np.float32(high) - np.float32(low)) / np.float32(255))
        return float(scale), int(np.clip(-np.round(low / scale), 0, 255))

    (sx, zx), (sy, zy) = parameters(x.numpy()), parameters(y)
    w = layer.weight.detach().numpy()
    sw = float(np.float32(np.abs(w).max()) / np.float32(127.5))
    xq = np.clip(np.round(given / sx) + zx, 0, 255).astype(np.int64)
    wq = np.clip(np.round(w.astype(np.float64) / sw), -128, 127).astype(np.int64)
    sums = (xq - zx) @ wq.T + np.round(layer.bias.detach().numpy() / (sx * sw)).astype(np.int64)
    wanted = (np.clip(np.round(sums * (sx * sw / sy)) + zy, 0, 255) - zy) * sy
    assert np.abs(quantized(x).numpy() - wanted).max() <= sy * 1.001
    assert (np.abs(quantized(x).numpy() - wanted) < 1e-5).mean() > 0.9


class Sums(nn.Module):
    def __init__(self, how):
        super().__init__()
        self.one, self.two, self.how = nn.Conv2d(2, 2, 1), nn.Conv2d(2, 2, 1), how

    def forward(self, x):
        a, b = self.one(x), self.two(x)
        if self.how == "sum":
            return F.relu(a + b)
        if self.how == "written":
            a += b
            return F.relu_(a)
        if self.how == "product":
            return a * b
        if self.how == "joined":
            return facula.cat([a, b], 1)
        return facula.sigmoid((a * 3).transpose(1, 2))


@pytest.mark.parametrize("how,kind", [
    ("sum", "quantized::add_relu"), ("written", "quantized::add_relu"), ("product", "quantized::mul"),
    ("joined", "quantized::cat"), ("number", "quantized::mul_scalar"),
])  # fmt: skip
def test_what_is_computed_of_bytes(how, kind):
    facula.manual_seed(3)
    model, x = Sums(how), facula.randn(2, 2, 3, 3)
    quantized = integers(made(model, x, "trace"), x)
    assert kind in kinds(quantized) and kinds(quantized).count("aten::dequantize") == 1
    wanted = model(x)
    assert float((quantized(x) - wanted).abs().max()) < 0.06 * float(wanted.abs().max())


def test_sums_of_floats_stay():
    class Plain(nn.Module):
        def forward(self, x, y):
            return x + y

    x = facula.ones(3)
    quantized = integers(facula.jit.script(Plain().eval()), x, x)
    assert kinds(quantized) == ["prim::Constant", "aten::add"]


def test_observers_stand_outermost_and_once():
    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 3)

        def forward(self, x):
            return self.fc(x)

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.inner = nn.Linear(3, 3), Inner()

        def forward(self, x):
            return self.inner(self.first(x).flatten(1))

    prepared = prepare_jit(facula.jit.script(Outer().eval()), {"inner.fc": CONFIG})
    names = {
        p: [n for n, _ in m.named_children() if n.startswith("_observer_")]
        for p, m in prepared.named_modules()
    }
    assert len(names[""]) == 2 and len(names["inner.fc"]) == 1
    assert not names["first"] and not names["inner"]
    everywhere = prepare_jit(facula.jit.script(Outer().eval()), {"": CONFIG, "first": None})
    assert len([n for n, _ in everywhere.first.named_children()]) == 0


def test_branches_that_both_give_bytes():
    class Branches(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.Conv2d(1, 1, 1), nn.Conv2d(1, 1, 1)

        def forward(self, x, first: bool):
            if first:
                y = self.one(x)
            else:
                y = self.two(x)
            return self.one(y)

    facula.manual_seed(4)
    model, x = Branches(), facula.rand(1, 1, 4, 4)
    prepared = prepare_jit(facula.jit.script(model.eval()), {"": CONFIG})
    prepared(x, True), prepared(x, False)
    quantized = convert_jit(prepared)
    assert len(quantized.graph.findAllNodes("quantized::conv2d")) == 3
    for first in (True, False):
        assert float((quantized(x, first) - model(x, first)).abs().max()) < 0.03


@pytest.mark.parametrize("how", ["script", "trace"])
def test_linear_layers_by_the_range_of_each_input(how):
    facula.manual_seed(5)
    model, x = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)), facula.randn(4, 6)
    scripted = made(model, x, how)
    quantized = quantize_dynamic_jit(scripted, {"": quantization.default_dynamic_qconfig})
    assert "quantized::linear_relu_dynamic" in kinds(quantized) and "aten::linear" not in kinds(
        quantized
    )
    wanted = model(10 * x)
    assert float((quantized(10 * x) - wanted).abs().max()) < 0.05 * float(wanted.abs().max())
    assert facula.equal(saved(quantized)(x), quantized(x))
    halves = quantize_dynamic_jit(scripted, {"": quantization.float16_dynamic_qconfig})
    assert "quantized::linear_dynamic_fp16" in kinds(halves)
    assert float((halves(x) - model(x)).abs().max()) < 1e-2


def test_prepared_before_it_is_converted():
    layer = facula.jit.script(nn.Linear(2, 2).eval())
    config = {"": quantization.default_dynamic_qconfig}
    x = facula.randn(3, 2)
    prepared = prepare_dynamic_jit(layer, config)
    assert facula.equal(prepared(x), layer(x))
    assert facula.equal(convert_dynamic_jit(prepared)(x), quantize_dynamic_jit(layer, config)(x))


def test_norms_become_part_of_convolutions():
    facula.manual_seed(6)
    model = nn.Sequential(nn.Conv2d(2, 3, 3, bias=False), nn.BatchNorm2d(3), nn.ReLU()).eval()
    model[1].running_var.fill_(2.5)
    model[1].running_mean.copy_(facula.tensor([0.5, -0.5, 1.0]))
    x = facula.randn(1, 2, 6, 6)
    for scripted in (
        made(model, x, "script"),
        made(model, x, "trace"),
        saved(made(model, x, "script")),
    ):
        folded = fuse_conv_bn_jit(scripted)
        assert not folded.inlined_graph.findAllNodes("aten::batch_norm")
        assert float((folded(x) - model(x)).abs().max()) < 1e-5


class Weighted(nn.Module):
    """A convolution whose weight is the module's own, beside something else that is named bias."""

    def __init__(self):
        super().__init__()
        self.weight, self.bias = (
            nn.Parameter(facula.randn(3, 2, 1, 1)),
            nn.Parameter(facula.randn(3, 1, 1)),
        )
        self.norm = nn.BatchNorm2d(3)

    def forward(self, x):
        return self.norm(F.conv2d(x, self.weight)) + self.bias


def test_norms_behind_what_has_no_place_for_a_bias_stay():
    facula.manual_seed(8)
    model, x = Weighted().eval(), facula.randn(1, 2, 4, 4)
    model.norm.running_mean.copy_(facula.tensor([0.5, -0.5, 1.0]))
    for how in ("script", "trace"):
        folded = fuse_conv_bn_jit(made(model, x, how))
        assert float((folded(x) - model(x)).abs().max()) < 1e-5


def test_layers_that_look_at_their_mode_and_sizes():
    """As PyTorch's files have them: the norm asks for dimensions and for its mode, relu for a flag."""

    class Norm(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight, self.bias = nn.Parameter(facula.rand(3)), nn.Parameter(facula.rand(3))
            self.register_buffer("mean", facula.rand(3))
            self.register_buffer("variance", facula.rand(3) + 1)

        def forward(self, x):
            if x.dim() != 4:
                raise ValueError("four dimensions")
            mean = self.mean if not self.training else None
            variance = self.variance if not self.training else None
            return F.batch_norm(x, mean, variance, self.weight, self.bias, self.training, 0.1, 1e-5)

    facula.manual_seed(10)
    model, x = nn.Sequential(nn.Conv2d(2, 3, 1), Norm()).eval(), facula.randn(1, 2, 4, 4)
    folded = fuse_conv_bn_jit(facula.jit.script(model))
    kinds_ = [n.kind() for n in folded.inlined_graph.all_nodes()]
    assert not any("batch_norm" in kind for kind in kinds_)
    assert float((folded(x) - model(x)).abs().max()) < 1e-5


def test_what_reads_sums_of_bytes_is_saved():
    facula.manual_seed(9)
    model, x = Sums("sum"), facula.randn(2, 2, 3, 3)
    quantized = integers(made(model, x, "trace"), x)
    assert facula.equal(saved(quantized)(x), quantized(x))


class Bags(nn.Module):
    def __init__(self, mode):
        super().__init__()
        self.table = nn.EmbeddingBag(10, 12, include_last_offset=True, mode=mode)

    def forward(self, places, starts):
        return self.table(places, starts)


@pytest.mark.parametrize(
    "custom,tolerance", [("embedding_bag_byte", 0.02), ("embedding_bag_4bit", 0.3)]
)
def test_bags_of_tables(custom, tolerance):
    facula.manual_seed(7)
    observer = quantization.PlaceholderObserver.with_args(dtype=facula.float, custom_op_name=custom)
    config = {"": quantization.QConfig(activation=observer, weight=observer)}
    model = Bags("sum")
    given = facula.tensor([1, 2, 9, 4]), facula.tensor([0, 2, 4])
    quantized = convert_jit(prepare_jit(facula.jit.script(model.eval()), config))
    assert f"quantized::{custom}_rowwise_offsets" in kinds(quantized)
    assert float((quantized(*given) - model(*given)).abs().max()) < tolerance
    averaged = prepare_jit(facula.jit.script(Bags("mean").eval()), config)
    with pytest.raises(RuntimeError, match="sum as mode"):
        convert_jit(averaged)


def test_what_is_asked_for_wrongly():
    layer = facula.jit.script(nn.Linear(2, 2).eval())
    with pytest.raises(ValueError, match="input must be a script module"):
        prepare_jit(nn.Linear(2, 2), {"": CONFIG})
    with pytest.raises(ValueError, match="names"):
        prepare_jit(layer, {nn.Linear: CONFIG})
    with pytest.raises(AssertionError, match="calibration function"):
        quantize_jit(layer, {"": CONFIG}, None, [])


def test_inplace_and_scripted_configurations():
    layer = facula.jit.script(nn.Linear(2, 2).eval())
    x = facula.ones(1, 2)
    got = quantize_jit(layer, {"": CONFIG}, lambda m, x: m(x), [x], inplace=True)
    assert got is layer and "quantized::linear" in kinds(layer)
    scripted = script_qconfig(quantization.default_qconfig)
    scripted.activation._get_method("forward")(facula.tensor([0.0, 127.0]))
    scale, zero = scripted.activation.calculate_qparams()
    assert scale.item() == 1.0 and zero.item() == 0 and scripted.weight.getattr("dtype") is not None
