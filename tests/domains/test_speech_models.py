"""Conformer and wav2vec 2.0 against the same sums in NumPy."""

import math

import numpy as np
import pytest
import scipy.special

import facula
from facula.audio import models


def weights_of(model):
    return {name: value.double().numpy() for name, value in model.state_dict().items()}


def norm(w, name, x):
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    return x * w[f"{name}.weight"] + w[f"{name}.bias"]


def linear(w, name, x):
    return x @ w[f"{name}.weight"].T + w.get(f"{name}.bias", 0.0)


def gelu(x):
    return 0.5 * x * (1 + scipy.special.erf(x / math.sqrt(2)))


def silu(x):
    return x / (1 + np.exp(-x))


def convolved(x, weight, bias=0.0, stride=1, padding=0, groups=1):
    """`[channels, time]`, each output a sum over its window."""
    x = np.pad(x, ((0, 0), (padding, padding)))
    outputs, share, kernel = weight.shape
    count = (x.shape[1] - kernel) // stride + 1
    y = np.empty((outputs, count))
    for o in range(outputs):
        start = o // (outputs // groups) * share
        for t in range(count):
            y[o, t] = (weight[o] * x[start : start + share, t * stride : t * stride + kernel]).sum()
    return y + np.reshape(bias, (-1, 1))


def attend(q, k, v, heads):
    """`[time, width]` each."""
    parts = []
    for qh, kh, vh in zip(*(np.split(m, heads, 1) for m in (q, k, v)), strict=True):
        scores = qh @ kh.T / math.sqrt(qh.shape[1])
        e = np.exp(scores - scores.max(1, keepdims=True))
        parts.append(e / e.sum(1, keepdims=True) @ vh)
    return np.concatenate(parts, 1)


# ------------------------------------------------------------------ Conformer


def conformer(w, x, length, layers, group_norm, convolution_first):
    """One sound `[time, 8]`; attention sees `length` frames, convolutions all."""

    def feed_forward(name, x):
        y = silu(linear(w, f"{name}.sequential.1", norm(w, f"{name}.sequential.0", x)))
        return linear(w, f"{name}.sequential.4", y)

    def convolution(name, x):
        s = f"{name}.sequential"
        y = norm(w, f"{name}.layer_norm", x).T
        y = convolved(y, w[f"{s}.0.weight"], w[f"{s}.0.bias"])
        y = y[:8] / (1 + np.exp(-y[8:]))
        y = convolved(y, w[f"{s}.2.weight"], w[f"{s}.2.bias"], padding=2, groups=8)
        if group_norm:
            y = (y - y.mean()) / np.sqrt(y.var() + 1e-5)
        else:
            mean, var = w[f"{s}.3.running_mean"], w[f"{s}.3.running_var"]
            y = (y - mean[:, None]) / np.sqrt(var[:, None] + 1e-5)
        y = silu(y * w[f"{s}.3.weight"][:, None] + w[f"{s}.3.bias"][:, None])
        return convolved(y, w[f"{s}.5.weight"], w[f"{s}.5.bias"]).T

    for i in range(layers):
        n = f"conformer_layers.{i}"
        x = x + feed_forward(f"{n}.ffn1", x) / 2
        if convolution_first:
            x = x + convolution(f"{n}.conv_module", x)
        y = norm(w, f"{n}.self_attn_layer_norm", x)
        q, k, v = np.split(
            y @ w[f"{n}.self_attn.in_proj_weight"].T + w[f"{n}.self_attn.in_proj_bias"], 3, 1
        )
        x = x + linear(w, f"{n}.self_attn.out_proj", attend(q, k[:length], v[:length], 2))
        if not convolution_first:
            x = x + convolution(f"{n}.conv_module", x)
        x = norm(w, f"{n}.final_layer_norm", x + feed_forward(f"{n}.ffn2", x) / 2)
    return x


@pytest.mark.parametrize("group_norm", [False, True])
@pytest.mark.parametrize("convolution_first", [False, True])
def test_a_conformer_is_its_layers_in_numpy(group_norm, convolution_first):
    facula.manual_seed(1)
    model = models.Conformer(8, 2, 12, 2, 5, 0.3, group_norm, convolution_first).double().eval()
    for name, value in model.state_dict().items():
        if "running" in name:
            value.copy_(facula.rand_like(value) + 0.5)
    x, lengths = facula.randn(3, 7, 8, dtype=facula.float64), facula.tensor([7, 4, 1])
    with facula.no_grad():
        found, given = model(x, lengths)
    assert given is lengths
    w = weights_of(model)
    for row, sound, length in zip(found.numpy(), x.numpy(), lengths.tolist(), strict=True):
        expected = conformer(w, sound, length, 2, group_norm, convolution_first)
        np.testing.assert_allclose(row[:length], expected[:length], rtol=1e-8, atol=1e-10)


def test_an_even_neighbourhood_is_refused():
    with pytest.raises(ValueError, match="odd depthwise_conv_kernel_size"):
        models.Conformer(8, 2, 12, 1, 4)


# ------------------------------------------------------------------ wav2vec 2.0

SIZES = dict(
    extractor_conv_layer_config=[(6, 5, 3), (8, 3, 2)], encoder_embed_dim=12,
    encoder_projection_dropout=0.1, encoder_pos_conv_groups=2, encoder_num_layers=2,
    encoder_num_heads=3, encoder_attention_dropout=0.1, encoder_ff_interm_features=10,
    encoder_ff_interm_dropout=0.1, encoder_dropout=0.1,
)  # fmt: skip


def wav2vec2(w, samples, length, by_group, norm_first, kernel):
    """One sound; its frames and how many there are."""
    x = samples[None]
    for i, stride in enumerate((3, 2)):
        n = f"feature_extractor.conv_layers.{i}"
        x = convolved(x, w[f"{n}.conv.weight"], w.get(f"{n}.conv.bias", 0.0), stride)
        if by_group and i == 0:
            x = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
            x = x * w[f"{n}.layer_norm.weight"][:, None] + w[f"{n}.layer_norm.bias"][:, None]
        elif not by_group:
            x = norm(w, f"{n}.layer_norm", x.T).T
        x = gelu(x)
        length = (length - (5, 3)[i]) // stride + 1
    p, t = "encoder.feature_projection", "encoder.transformer"
    x = linear(w, f"{p}.projection", norm(w, f"{p}.layer_norm", x.T))
    x[length:] = 0
    conv = f"{t}.pos_conv_embed.conv"
    g, v = (w[f"{conv}.parametrizations.weight.original{i}"] for i in (0, 1))
    weight = v * g / np.sqrt((v**2).sum((0, 1), keepdims=True))
    y = convolved(x.T, weight, w[f"{conv}.bias"], padding=kernel // 2, groups=2)
    x = x + gelu(y[:, : x.shape[0]]).T
    if not norm_first:
        x = norm(w, f"{t}.layer_norm", x)
    for i in range(2):
        n = f"{t}.layers.{i}"

        def attention(x, n=n):
            q, k, v = (linear(w, f"{n}.attention.{kind}_proj", x) for kind in "qkv")
            return linear(w, f"{n}.attention.out_proj", attend(q, k[:length], v[:length], 3))

        def feed_forward(x, n=n):
            y = gelu(linear(w, f"{n}.feed_forward.intermediate_dense", x))
            return linear(w, f"{n}.feed_forward.output_dense", y)

        if norm_first:
            x = x + attention(norm(w, f"{n}.layer_norm", x))
            x = x + feed_forward(norm(w, f"{n}.final_layer_norm", x))
        else:
            x = norm(w, f"{n}.layer_norm", x + attention(x))
            x = norm(w, f"{n}.final_layer_norm", x + feed_forward(x))
    x = norm(w, f"{t}.layer_norm", x) if norm_first else x
    return linear(w, "aux", x) if "aux.weight" in w else x, length


@pytest.mark.parametrize("mode, bias, norm_first, kernel, aux", [
    ("group_norm", False, False, 4, 5),
    ("layer_norm", True, True, 3, None),
])  # fmt: skip
def test_wav2vec2_is_its_layers_in_numpy(mode, bias, norm_first, kernel, aux):
    facula.manual_seed(2)
    model = models.wav2vec2_model(
        mode, extractor_conv_bias=bias, encoder_pos_conv_kernel=kernel, encoder_layer_drop=0.5,
        encoder_layer_norm_first=norm_first, aux_num_out=aux, **SIZES,
    ).double().eval()  # fmt: skip
    samples, lengths = facula.randn(2, 60, dtype=facula.float64), facula.tensor([60, 41])
    with facula.no_grad():
        found, frames = model(samples, lengths)
        plain, none = model(samples)
        layers, _ = model.extract_features(samples)
        first, _ = model.extract_features(samples, num_layers=1)
    assert none is None and len(layers) == 2 and len(first) == 1 and first[0].equal(layers[0])
    w = weights_of(model)
    for i, length in enumerate((60, 41)):
        expected, count = wav2vec2(
            w, samples[i].numpy(), length, mode == "group_norm", norm_first, kernel
        )
        assert frames[i] == count
        np.testing.assert_allclose(
            found[i, :count].numpy(), expected[:count], rtol=1e-8, atol=1e-10
        )
    np.testing.assert_allclose(plain[0].numpy(), found[0].numpy(), rtol=1e-8, atol=1e-10)


def test_usual_sizes_have_as_many_parameters_as_the_article_says():
    with facula.device("meta"):
        base, large = models.wav2vec2_base(), models.wav2vec2_large_lv60k(aux_num_out=32)
        other = models.wav2vec2_large()
    counts = [sum(p.numel() for p in m.parameters()) for m in (base, other, large)]
    assert [round(n / 1e6) for n in counts] == [94, 315, 315]  # "95m" and "317m" with their heads
    assert base.feature_extractor.conv_layers[1].layer_norm is None


def test_layers_are_dropped_in_training_only():
    model = models.wav2vec2_model(
        "group_norm", extractor_conv_bias=False, encoder_pos_conv_kernel=3, encoder_layer_drop=1.0,
        encoder_layer_norm_first=False, aux_num_out=None,
        **{**SIZES, "encoder_dropout": 0.0, "encoder_projection_dropout": 0.0},
    )  # fmt: skip
    x = facula.randn(1, 60)
    one, two = model.extract_features(x)[0]
    assert one.equal(two)
    one, two = model.eval().extract_features(x)[0]
    assert not one.equal(two)


def test_what_does_not_fit_is_refused():
    settings = dict(
        extractor_conv_bias=False, encoder_pos_conv_kernel=3, encoder_layer_drop=0.0,
        encoder_layer_norm_first=False, aux_num_out=None,
    )  # fmt: skip
    with pytest.raises(ValueError, match="as extractor_mode"):
        models.wav2vec2_model("batch_norm", **settings, **SIZES)
    with pytest.raises(ValueError, match="5 heads divide"):
        models.wav2vec2_model("group_norm", **settings, **{**SIZES, "encoder_num_heads": 5})
    model = models.wav2vec2_model("group_norm", **settings, **SIZES)
    with pytest.raises(ValueError, match=r"samples \[batch, time\]"):
        model(facula.randn(60))
    with pytest.raises(ValueError, match="num_layers between 1 and 2"):
        model.extract_features(facula.randn(1, 60), num_layers=3)
