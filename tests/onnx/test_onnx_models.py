"""Models run by onnxruntime give what they give here, for other batches and lengths as well."""

from __future__ import annotations

import numpy
import pytest

import facula
from facula import nn
from facula.export import Dim
from tests.onnx.onnx_support import compare, exported, same

BATCH = {0: "batch"}


@pytest.fixture(autouse=True)
def _seed():
    facula.manual_seed(0)


def batches(*shape):
    return [(facula.randn(n, *shape),) for n in (2, 5, 1)]


class Block(nn.Module):
    def __init__(self, inner, outer, stride):
        super().__init__()
        self.conv = nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
        self.norm = nn.BatchNorm2d(outer)
        self.down = nn.Sequential(nn.Conv2d(inner, outer, 1, stride), nn.BatchNorm2d(outer))

    def forward(self, x):
        return nn.functional.relu(self.norm(self.conv(x)) + self.down(x))


def residual():
    return nn.Sequential(
        nn.Conv2d(3, 8, 7, 2, 3), nn.MaxPool2d(3, 2, 1), Block(8, 8, 1), Block(8, 16, 2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10),
    ).eval()  # fmt: skip


class Inverted(nn.Module):
    def __init__(self, inner, wide):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inner, wide, 1), nn.BatchNorm2d(wide), nn.Hardswish(),
            nn.Conv2d(wide, wide, 5, 1, 2, groups=wide), nn.BatchNorm2d(wide), nn.ReLU6(),
        )  # fmt: skip
        self.squeeze = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(wide, 4, 1), nn.ReLU(), nn.Conv2d(4, wide, 1),
            nn.Hardsigmoid(),
        )  # fmt: skip
        self.last = nn.Conv2d(wide, inner, 1)

    def forward(self, x):
        y = self.body(x)
        return x + self.last(y * self.squeeze(y))


class GPT(nn.Module):
    def __init__(self, words=50, width=16, context=12, heads=2):
        super().__init__()
        self.tokens, self.places = nn.Embedding(words, width), nn.Embedding(context, width)
        self.norm, self.qkv = nn.LayerNorm(width), nn.Linear(width, 3 * width)
        self.out, self.heads = nn.Linear(width, words), heads

    def forward(self, ids):
        x = self.tokens(ids) + self.places(facula.arange(ids.shape[1]))
        n, length, width = x.shape
        parts = self.qkv(self.norm(x)).view(n, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(x + y.transpose(1, 2).reshape(n, length, width))


def test_a_perceptron():
    model = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Dropout(), nn.Linear(8, 3)).eval()
    same(model, *batches(6), dynamic_shapes=(BATCH,))


@pytest.mark.parametrize("opset", [17, 18, 20, 23])
def test_a_residual_network_in_every_version(opset):
    program = same(residual(), *batches(3, 32, 32), dynamic_shapes=(BATCH,), opset_version=opset)
    assert program.model_proto.opset_import[0].version == opset


def test_inverted_residuals_with_gates():
    same(Inverted(6, 12).eval(), *batches(6, 9, 9), dynamic_shapes=(BATCH,))


@pytest.mark.parametrize("directions", [1, 2])
def test_an_lstm_over_any_number_of_steps(directions):
    model = nn.LSTM(4, 5, 2, batch_first=True, bidirectional=directions == 2)
    calls = [(facula.randn(n, t, 4),) for n, t in ((2, 3), (5, 7), (1, 2))]
    same(model, *calls, dynamic_shapes=({0: "batch", 1: "steps"},))


@pytest.mark.parametrize("kind", [nn.GRU, nn.RNN])
def test_other_cells_step_by_step(kind):
    same(kind(4, 5, 2, batch_first=True), *batches(3, 4), dynamic_shapes=(BATCH,))


def test_an_encoder_of_transformers():
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    same(nn.TransformerEncoder(layer, 2).eval(), *batches(4, 16), dynamic_shapes=(BATCH,))


def test_a_language_model_for_any_batch_and_length():
    calls = [(facula.randint(0, 50, (n, t)),) for n, t in ((2, 5), (5, 12), (1, 2))]
    same(GPT().eval(), *calls, dynamic_shapes=({0: "batch", 1: Dim("length", max=12)},))


def test_upsampling_and_transposed_convolutions():
    model = nn.Sequential(
        nn.Conv2d(2, 4, 3, padding="same"), nn.GroupNorm(2, 4), nn.SiLU(),
        nn.Upsample(scale_factor=2, mode="bilinear"), nn.InstanceNorm2d(4),
        nn.ConvTranspose2d(4, 2, 3, 2, 1, output_padding=1), nn.Upsample((9, 11), mode="bicubic"),
        nn.ReflectionPad2d(1), nn.AvgPool2d(3, 2, 1, ceil_mode=True), nn.PixelShuffle(1),
    ).eval()  # fmt: skip
    same(model, *batches(2, 5, 6), dynamic_shapes=(BATCH,))


def test_onnx_itself_gives_the_same():
    model, args = residual(), (facula.randn(1, 3, 16, 16),)
    compare(exported(model, args).call_reference(*args), model(*args))


def test_training_mode_is_exported_as_it_is_and_says_what_is_left_out(caplog):
    model = nn.Sequential(nn.Conv2d(2, 3, 1), nn.BatchNorm2d(3))
    x = facula.randn(4, 2, 3, 3)
    found = exported(model, (x,))(x)
    compare(found, model(x))


def test_dtypes_are_kept():
    for dtype in (facula.float16, facula.bfloat16, facula.float64):
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.LayerNorm(8)).to(dtype)
        x = facula.randn(2, 4).to(dtype)
        program = facula.onnx.export(model, (x,))
        weights = {w.name: w.data_type for w in program.model_proto.graph.initializer}
        assert set(weights.values()) == {facula.onnx.graph.element_type(dtype)}
        if dtype is facula.float16:
            compare(program(x), model(x), 2e-3)


def test_whole_numbers_and_truth_values_are_kept():
    def body(a, b):
        return a // b, a % b, a > b, (a > b) & (b > 0), a.sum(), a.float() / b

    from tests.onnx.onnx_support import Calls

    a, b = facula.tensor([7, -7, 9, -9]), facula.tensor([2, 2, -4, -4])
    same(Calls(body), (a, b))
    numpy.testing.assert_array_equal((a // b).numpy(), [3, -4, -3, 2])


class Decoder(nn.Module):
    """Attention to the keys and values of a cache, which is taken, written to and given back."""

    def __init__(self):
        super().__init__()
        self.embed, self.inner, self.head = nn.Embedding(20, 8), nn.Linear(8, 24), nn.Linear(8, 20)
        self.register_buffer("slots", facula.arange(10))

    def forward(self, ids, pos, keys, values):
        query, key, value = self.inner(self.embed(ids)).chunk(3, -1)
        keys, values = keys.clone(), values.clone()
        keys.index_copy_(1, pos, key)
        values.index_copy_(1, pos, value)
        seen = self.slots <= pos[:, None]
        x = nn.functional.scaled_dot_product_attention(query, keys, values, attn_mask=seen)
        return self.head(x[:, -1]), facula.stack([keys, values])


def test_decoding_with_a_cache_as_input_and_output():
    model, open_length = Decoder().eval(), {1: Dim.DYNAMIC}
    prompt = (facula.randint(0, 20, (1, 6)), facula.arange(6))
    empty = facula.zeros(1, 10, 8)
    with facula.no_grad():
        _, cache = model(*prompt, empty, empty)
    step = (facula.tensor([[3]]), facula.tensor([6]), cache[0], cache[1])
    shapes = (open_length, {0: Dim.DYNAMIC}, None, None)
    same(model, (*prompt, empty, empty), step, dynamic_shapes=shapes)
