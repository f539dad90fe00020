"""Quantized programs, compiled: one graph of integer operators, whose integers are those of eager mode.

Oracle: NumPy's integers and float32 arithmetic, and eager mode where what is asked is that nothing changes.
"""

import numpy as np
import pytest

import facula
from facula import nn
from facula.ao import quantization
from facula.ao.quantization import quantize_fx
from facula.capture import events
from facula.compiler import graph


class Block(nn.Module):
    """A residual block whose one relu module is used twice."""

    def __init__(self, channels, inplace=True):
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 1)
        self.relu = nn.ReLU(inplace=inplace)

    def forward(self, x):
        y = self.relu(self.norm(self.first(x)))
        return self.relu(self.second(y) + x)


class Net(nn.Module):
    """Convolutions, a pool, two blocks, a mean and a linear layer."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.MaxPool2d(2))
        self.blocks = nn.Sequential(Block(8), Block(8))
        self.pool, self.last = nn.AdaptiveAvgPool2d(1), nn.Linear(8, 5)

    def forward(self, x):
        return self.last(facula.flatten(self.pool(self.blocks(self.stem(x))), 1))


def quantized(model, x):
    mapping = quantization.get_default_qconfig_mapping("x86")
    prepared = quantize_fx.prepare_fx(model.eval(), mapping, (x,))
    prepared(x)
    return quantize_fx.convert_fx(prepared)


def test_a_module_that_is_used_twice_is_no_identity_behind_the_layer_that_took_it():
    facula.manual_seed(0)
    model, x = Net().eval(), facula.randn(4, 3, 32, 32)
    with facula.no_grad():
        expected = model(x)
        found = quantized(model, x)(x)
    assert (found - expected).norm() < 0.1 * expected.norm()


@pytest.mark.parametrize("batch", [1, 3])
def test_a_quantized_network_is_one_graph_with_the_integers_of_eager(batch):
    facula.manual_seed(1)
    x = facula.randn(batch, 3, 32, 32)
    net = quantized(Net(), x)
    compiled = facula.compile(net, fullgraph=True)
    with facula.inference_mode():
        assert facula.equal(compiled(x), net(x))
        assert facula.equal(compiled(2 * x), net(2 * x))


def test_sums_are_part_of_the_product_before_them():
    facula.manual_seed(2)
    x = facula.randn(2, 3, 32, 32)
    net = quantized(Net(), x)
    seen = []  # the wrapper's text says what is called
    graph.OBSERVERS.append(lambda source, c: seen.append(source))
    try:
        with facula.inference_mode():
            facula.compile(net, fullgraph=True)(x)
    finally:
        graph.OBSERVERS.pop()
    text = "".join(seen)
    assert "quantization_product" in text and "quantization_added" not in text
    assert "max_pool" not in text


def test_an_output_scale_that_changed_is_seen():
    facula.manual_seed(3)
    x = facula.randn(2, 3, 32, 32)
    net = quantized(Net(), x)
    compiled = facula.compile(net)
    with facula.inference_mode():
        compiled(x)
        net.stem_0_input_scale_0.mul_(1.5)
        assert facula.equal(compiled(x), net(x))


def test_a_bias_that_was_written_is_seen():
    facula.manual_seed(4)
    layer = quantized(nn.Sequential(nn.Linear(8, 4)), facula.randn(16, 8))
    x = facula.randn(3, 8)
    compiled = facula.compile(layer, fullgraph=True)
    with facula.no_grad():
        before = compiled(x)
        getattr(layer, "0").bias().add_(0.5)
        after = compiled(x)
    assert facula.equal(after, layer(x)) and not facula.equal(after, before)


def test_quantized_tensors_pass_the_ends_of_a_graph():
    x = facula.quantize_per_tensor(facula.randn(2, 4, 6, 6), 0.1, 7, facula.quint8)

    def function(q):
        pooled = facula.max_pool2d(q, 2)
        return pooled, facula.relu(pooled), pooled.dequantize().sum()

    compiled = facula.compile(function, fullgraph=True)
    for found, expected in zip(compiled(x), function(x), strict=True):
        assert type(found) is type(expected)
        assert facula.equal(found, expected)
    other = facula.quantize_per_tensor(facula.randn(2, 4, 6, 6), 0.2, 9, facula.quint8)
    assert compiled(other)[0].q_scale() == 0.2
    assert facula.equal(compiled(other)[1], function(other)[1])


def test_questions_about_a_quantized_tensor_are_constants_of_the_graph():
    def function(q):
        return q.int_repr() + q.q_zero_point(), q.dtype, q.q_scale(), q.is_quantized, q.dim()

    x = facula.quantize_per_tensor(facula.randn(3, 5), 0.25, 2, facula.qint8)
    found = facula.compile(function, fullgraph=True)(x)
    assert found[1:] == (facula.qint8, 0.25, True, 2)
    assert np.array_equal(found[0].numpy(), x.int_repr().numpy() + 2)


def test_elements_of_a_quantized_tensor_break_the_graph():
    def function(q):
        return q.item() + 1

    events.COUNTERS["graph_break"].clear()
    x = facula.quantize_per_tensor(facula.tensor([1.0]), 0.5, 0, facula.quint8)
    with pytest.raises(facula._dynamo.exc.Unsupported):
        facula.compile(function, fullgraph=True)(x)


def test_dynamic_layers_are_in_the_graph():
    facula.manual_seed(5)
    model = nn.Sequential(nn.LayerNorm(24), nn.Linear(24, 40), nn.GELU(), nn.Linear(40, 24))
    net = quantization.quantize_dynamic(model.eval(), {nn.Linear}, dtype=facula.qint8)
    compiled = facula.compile(net, fullgraph=True)
    for x in (facula.randn(6, 24), facula.randn(2, 5, 24)):
        with facula.inference_mode():
            found, expected = compiled(x), net(x)
        assert (found - expected).abs().max() <= 1e-2 * expected.abs().max()


def test_dynamic_layers_refuse_what_is_not_finite():
    net = quantization.quantize_dynamic(nn.Sequential(nn.Linear(4, 4)), {nn.Linear})
    compiled = facula.compile(net)
    with pytest.raises(RuntimeError, match="finite numbers"), facula.inference_mode():
        compiled(facula.tensor([[1.0, float("nan"), 0.0, 2.0]]))


def rounded(x):
    return np.rint(np.float32(x))


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("kind", [facula.quint8, facula.qint8])
def test_a_product_with_a_sum_has_the_integers_of_both_steps(kind, relu):
    rng = np.random.default_rng(6)
    rows, inner, results = 37, 50, 71
    low, high = (0, 255) if kind is facula.quint8 else (-128, 127)
    x, other = (rng.integers(low, high + 1, (rows, n)) for n in (inner, results))
    w, bias = rng.integers(-127, 128, (results, inner)), rng.normal(size=results)
    sx, sw, sy, so, st = (np.float32(s) for s in (0.02, 0.01, 0.07, 0.05, 0.08))
    zx, zy, zo, zt = 3, 5, -2 if low else 9, 4
    wrap = facula._make_per_tensor_quantized_tensor
    of = np.uint8 if low == 0 else np.int8
    q = wrap(facula.from_numpy(x.astype(of)), float(sx), zx)
    r = wrap(facula.from_numpy(other.astype(of)), float(so), zo)
    weight = wrap(facula.from_numpy(w.astype(np.int8)), float(sw), 0)
    packed = facula.ops.quantized.linear_prepack(weight, facula.tensor(bias, dtype=facula.float32))
    add = facula.ops.quantized.add_relu if relu else facula.ops.quantized.add

    def function(q, r):
        return add(facula.ops.quantized.linear(q, packed, float(sy), zy), r, float(st), zt)

    found = facula.compile(function, fullgraph=True)(q, r).int_repr().numpy().astype(np.int64)
    sums = ((x - zx) @ w.T).astype(np.float32)
    scale = sx * sw
    first = rounded((sums + np.float32(bias) / scale) * (scale / sy)) + zy
    first = np.clip(first, low, high)
    total = np.float32(first - zy) * sy + np.float32(other - zo) * so
    total = np.maximum(total, 0) if relu else total
    expected = np.clip(rounded(total * (np.float32(1) / st) + np.float32(zt)), low, high)
    assert np.abs(found - expected).max() <= 1
    assert (found != expected).mean() < 5e-3
    assert np.array_equal(found, function(q, r).int_repr().numpy())
