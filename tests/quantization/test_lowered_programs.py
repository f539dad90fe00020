"""Programs of PT2E, compiled: what is dequantized, multiplied and quantized again is one integer kernel.

Oracle: NumPy in float64 on the same integers; a tie may round the other way.
"""

import numpy as np
import pytest

import facula
from facula import nn
from facula.ao.quantization.quantize_pt2e import convert_pt2e, prepare_pt2e
from facula.ao.quantization.quantizer import x86_inductor_quantizer as x86
from facula.capture import events
from facula.compiler import graph

words = facula.ops.quantized_decomposed
LIMITS = (0, 255, facula.uint8)


class Layer(nn.Module):
    """Bytes to numbers, a layer with signed bytes, and maybe a sum, relu and bytes again."""

    def __init__(self, shape, groups=1, zeros=False, whole=False, relu=False, adds=False, out=True):
        super().__init__()
        rng = np.random.default_rng(3)
        weight = rng.integers(-127, 128, shape).astype(np.int8)
        scale = (rng.uniform(0.5, 2, shape[0]) / np.prod(shape[1:]) / 20).astype(np.float32)
        zero = rng.integers(-4, 5, shape[0]) * zeros
        for name, value in (("weight", weight), ("scale", scale), ("zero", zero)):
            self.register_buffer(name, facula.from_numpy(value).clone())
        self.bias = nn.Parameter(facula.tensor(rng.normal(size=shape[0]), dtype=facula.float32))
        self.groups, self.whole, self.relu, self.adds, self.out = groups, whole, relu, adds, out

    def forward(self, x, other):
        x = words.dequantize_per_tensor(x, 0.03, 117, *LIMITS)
        if self.whole:
            w = words.dequantize_per_tensor(self.weight, 0.001, 0, -128, 127, facula.int8)
        else:
            given = (self.weight, self.scale, self.zero, 0, -128, 127, facula.int8)
            w = words.dequantize_per_channel(*given)
        if x.dim() == 4:
            y = nn.functional.conv2d(x, w, self.bias, 1, 1, 1, self.groups)
        else:
            y = nn.functional.linear(x, w, self.bias)
        if self.adds:
            y = y + words.dequantize_per_tensor(other, 0.02, 130, *LIMITS)
        y = facula.relu(y) if self.relu else y
        return words.quantize_per_tensor(y, 0.04, 99, *LIMITS) if self.out else y

    def expected(self, x, other):
        x = (x.numpy().astype(np.float64) - 117) * np.float32(0.03)
        across = (-1, *[1] * (self.weight.dim() - 1))
        w, scale = self.weight.numpy().astype(np.float64), self.scale.numpy().reshape(across)
        w = w * np.float32(0.001) if self.whole else (w - self.zero.numpy().reshape(across)) * scale
        bias = self.bias.detach().double()
        if x.ndim == 4:
            tensors = (facula.from_numpy(x), facula.from_numpy(w), bias)
            y = nn.functional.conv2d(*tensors, 1, 1, 1, self.groups).numpy()
        else:
            y = x @ w.T + bias.numpy()
        if self.adds:
            y = y + (other.numpy().astype(np.float64) - 130) * np.float32(0.02)
        y = np.maximum(y, 0) if self.relu else y
        return np.clip(np.rint(y / np.float32(0.04)) + 99, 0, 255) if self.out else y


def given(shape, results):
    rng = np.random.default_rng(7)
    x = facula.from_numpy(rng.integers(0, 256, shape).astype(np.uint8))
    size = (shape[0], results, *shape[2:]) if len(shape) == 4 else (*shape[:-1], results)
    return x, facula.from_numpy(rng.integers(0, 256, size).astype(np.uint8))


def lowered(model, *inputs):
    """What the compiled model gives, how many operators became integer ones, and the text that ran."""
    seen = []
    before = events.COUNTERS["inductor"]["integer_operators"]
    graph.OBSERVERS.append(lambda source, c: seen.append(source))
    try:
        with facula.no_grad():
            found = facula.compile(model, fullgraph=True)(*inputs)
    finally:
        graph.OBSERVERS.pop()
    return found, events.COUNTERS["inductor"]["integer_operators"] - before, "".join(seen)


@pytest.mark.parametrize("out", [True, False])
@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize("adds", [True, False])
@pytest.mark.parametrize(
    "shape, weight, more",
    [
        ((5, 40), (23, 40), {}),
        ((2, 3, 40), (23, 40), {"zeros": True}),
        ((2, 8, 7, 6), (24, 8, 3, 3), {}),
        ((2, 8, 7, 6), (24, 4, 3, 3), {"groups": 2, "zeros": True}),
        ((1, 8, 7, 6), (8, 1, 3, 3), {"groups": 8, "whole": True}),
    ],
)
def test_layers_have_the_integers_of_exact_arithmetic(shape, weight, more, adds, relu, out):
    model = Layer(weight, relu=relu, adds=adds, out=out, **more)
    inputs = given(shape, weight[0])
    found, count, text = lowered(model, *inputs)
    expected = model.expected(*inputs)
    assert count == 1 and "aten__conv" not in text and "aten_linear" not in text
    if not out:
        assert np.abs(found.numpy() - expected).max() <= 1e-5 * np.abs(expected).max()
        return
    differences = np.abs(found.numpy().astype(np.int64) - expected)
    assert differences.max() <= 1 and (differences > 0).mean() < 2e-3


def test_a_sum_and_relu_are_part_of_the_layer_before_them():
    model = Layer((24, 8, 3, 3), relu=True, adds=True)
    _, _, text = lowered(model, *given((2, 8, 7, 6), 24))
    assert text.count("quantization_product") == 1 and "to_integers" not in text


def test_depthwise_layers_with_zero_points_that_may_be_any_stay_in_float():
    model = Layer((8, 1, 3, 3), groups=8)
    inputs = given((1, 8, 7, 6), 8)
    found, count, _ = lowered(model, *inputs)
    assert count == 0
    assert np.abs(found.numpy() - model.expected(*inputs)).max() <= 1


def test_a_weight_that_was_written_is_packed_again():
    model, inputs = Layer((23, 40)), given((5, 40), 23)
    compiled = facula.compile(model, fullgraph=True)
    with facula.no_grad():
        before = compiled(*inputs)
        model.weight.neg_()
        after = compiled(*inputs)
    differences = np.abs(after.numpy() - model.expected(*inputs))
    assert differences.max() <= 1 and not facula.equal(before, after)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, stride=2), nn.BatchNorm2d(8)
        self.second, self.third = nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 8, 1)
        self.relu, self.pool, self.last = nn.ReLU(), nn.MaxPool2d(2), nn.Linear(8, 4)

    def forward(self, x):
        x = self.pool(self.relu(self.norm(self.first(x))))
        x = self.relu(self.third(self.relu(self.second(x))) + x)
        return self.last(x.mean((2, 3)))


@pytest.mark.parametrize("last", [False, True])
def test_converted_networks_keep_their_numbers(last):
    facula.manual_seed(0)
    model, x = Net().eval(), facula.randn(2, 3, 32, 32)
    x = x.contiguous(memory_format=facula.channels_last) if last else x
    program = facula.export.export(model, (x,)).module()
    settings = x86.get_default_x86_inductor_quantization_config()
    prepared = prepare_pt2e(program, x86.X86InductorQuantizer().set_global(settings))
    prepared(x)
    converted = convert_pt2e(prepared)
    found, count, text = lowered(converted, x)
    with facula.no_grad():
        between, exact = converted(x), model(x)
    assert count == 5 and text.count("quantization_product") == 4 and "max_pool" not in text
    assert (found - between).abs().max() < 0.02 * exact.abs().max()
    assert (between - exact).norm() < 0.05 * exact.norm()
