"""Operators of PyTorch's files for whole layers: recurrent ones, losses with a number for the reduction,
upsampling, attention.

Takes nothing. Gives nothing: importing it fills `signatures.PRIMITIVE`.
Keeps true: each calls the library's function; the schema is PyTorch's.
"""

from __future__ import annotations

from typing import Any

import facula
from facula import core
from facula.jit.signatures import primitive
from facula.nn import functional as F

__all__: list[str] = []


def _recurrent(mode: str) -> None:
    function = getattr(facula, mode)
    states, given = ("Tensor[] hx", 3) if mode == "lstm" else ("Tensor hx", 2)
    results = ", ".join(["Tensor"] * given)
    primitive(f"aten::{mode}.input(Tensor input, {states}, Tensor[] params, bool has_biases, int num_layers, "
              f"float dropout, bool train, bool bidirectional, bool batch_first) -> ({results})",
              function)  # fmt: skip
    primitive(f"aten::{mode}.data(Tensor data, Tensor batch_sizes, {states}, Tensor[] params, "
              "bool has_biases, int num_layers, float dropout, bool train, bool bidirectional) -> "
              f"({results})", function)  # fmt: skip


for _name in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
    _recurrent(_name)


def _convolution(x: Any, w: Any, b: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
                 output_padding: Any, groups: int, *unused: object) -> Any:  # fmt: skip
    return facula.convolution(
        x, w, b, stride, padding, dilation, transposed, output_padding, groups
    )


primitive("aten::_convolution(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, "
          "int[] dilation, bool transposed, int[] output_padding, int groups, bool benchmark, "
          "bool deterministic, bool cudnn_enabled, bool allow_tf32) -> Tensor", _convolution)  # fmt: skip
for _name, _state, _result in (
    ("lstm_cell", "Tensor[]", "(Tensor, Tensor)"), ("gru_cell", "Tensor", "Tensor"),
    ("rnn_tanh_cell", "Tensor", "Tensor"), ("rnn_relu_cell", "Tensor", "Tensor"),
):  # fmt: skip
    primitive(f"aten::{_name}(Tensor input, {_state} hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, "
              f"Tensor? b_hh=None) -> {_result}", getattr(facula, _name))  # fmt: skip


def _upsample(mode: str, aligns: bool) -> Any:
    def run(x: Any, size: Any, *rest: Any) -> Any:
        align = {"align_corners": rest[0]} if aligns else {}
        factors = None if size is not None else rest[-1]
        return facula.nn.functional.interpolate(x, size, factors, mode=mode, **align)

    return run


for _kind, _name, _aligns in (
    ("nearest", "nearest1d nearest2d nearest3d", False), ("nearest-exact", "nearest_exact2d", False),
    ("linear", "linear1d", True), ("bilinear", "bilinear2d", True), ("bicubic", "bicubic2d", True),
    ("trilinear", "trilinear3d", True),
):  # fmt: skip
    for _own in _name.split():
        _extra = "bool align_corners, " if _aligns else ""
        primitive(f"aten::upsample_{_own}.vec(Tensor input, int[]? output_size, {_extra}"
                  "float[]? scale_factors) -> Tensor", _upsample(_kind, _aligns))  # fmt: skip

_REDUCTIONS = ("none", "mean", "sum")


def _loss(name: str, schema: str, order: str) -> None:
    """A loss as PyTorch's files call it: with a number for the reduction."""
    names = order.split()
    function = getattr(
        facula.nn.functional, name.removesuffix("_loss") if name.startswith("cross") else name
    )

    def run(*values: Any) -> Any:
        given = dict(zip(names, values, strict=True))
        given["reduction"] = _REDUCTIONS[given["reduction"]]
        return function(given.pop("input"), given.pop("target"), **given)

    primitive(f"aten::{name}.int(Tensor self, Tensor target, {schema}) -> Tensor", run)


_loss("mse_loss", "int reduction=1", "input target reduction")
_loss("l1_loss", "int reduction=1", "input target reduction")
_loss("soft_margin_loss", "int reduction=1", "input target reduction")
_loss("smooth_l1_loss", "int reduction=1, float beta=1", "input target reduction beta")
_loss("huber_loss", "int reduction=1, float delta=1", "input target reduction delta")
_loss("kl_div", "int reduction=1, *, bool log_target=False", "input target reduction log_target")
_loss(
    "binary_cross_entropy", "Tensor? weight=None, int reduction=1", "input target weight reduction"
)
_loss("binary_cross_entropy_with_logits", "Tensor? weight=None, Tensor? pos_weight=None, int reduction=1",
      "input target weight pos_weight reduction")  # fmt: skip
for _name in ("nll_loss", "nll_loss_nd"):
    if hasattr(facula.nn.functional, _name):
        _loss(_name, "Tensor? weight=None, int reduction=1, int ignore_index=-100",
              "input target weight reduction ignore_index")  # fmt: skip
_loss("cross_entropy_loss", "Tensor? weight=None, int reduction=1, int ignore_index=-100, "
      "float label_smoothing=0", "input target weight reduction ignore_index label_smoothing")  # fmt: skip


def _left_aligned(_: object, mask: Any) -> bool:
    """Whether no row of a mask goes on after a gap."""
    whole = mask.to(core.int8)
    return bool((whole[:, 1:] <= whole[:, :-1]).all())


primitive(
    "aten::_nested_tensor_from_mask_left_aligned(Tensor t, Tensor mask) -> bool", _left_aligned
)


# ------------------------------------------------------------------ attention: PyTorch's fast paths


def _attention(q: Any, k: object, v: object, heads: int, packed: Any, bias: Any, out: Any, out_bias: Any,
               mask: Any) -> tuple[Any, Any]:  # fmt: skip
    """Attention of `[N, L, E]`; gives the result and the weights of all heads."""
    projections = zip((q, k, v), packed.chunk(3), bias.chunk(3), strict=True)
    parts = [F.linear(x, w, b) for x, w, b in projections]
    split = [p.view(p.shape[0], p.shape[1], heads, -1).transpose(1, 2) for p in parts]
    scores = split[0] @ split[1].transpose(-2, -1) / split[0].shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(mask, float("-inf"))
    weights = scores.softmax(-1)
    joined = (weights @ split[2]).transpose(1, 2).flatten(2)
    return F.linear(joined, out, out_bias), weights


def _mask(mask: Any, kind: int | None) -> Any:
    """A mask that broadcasts over `[N, heads, L, S]`: of the source (0), of padding (1), or whole (2)."""
    if mask is None:
        return None
    mask = mask.to(core.bool)
    return mask[:, None, None, :] if kind == 1 else mask


def _multi_head(q: object, k: object, v: object, embed: int, heads: int, packed: object, bias: object, out: object,
                out_bias: object, mask: object, need: bool, average: bool, kind: int | None) -> Any:  # fmt: skip
    made, weights = _attention(q, k, v, heads, packed, bias, out, out_bias, _mask(mask, kind))
    return made, (weights.mean(1) if average else weights)


def _encoder_layer(x: object, embed: int, heads: int, packed: Any, bias: Any, out: object, out_bias: Any,
                   gelu: bool, first: bool, eps: float, w1: core.Tensor, b1: core.Tensor, w2: core.Tensor,
                   b2: core.Tensor, f1: core.Tensor, g1: core.Tensor,
                   f2: core.Tensor, g2: core.Tensor, mask: Any, kind: int | None) -> Any:  # fmt: skip
    def attend(y: object) -> Any:
        return _attention(y, y, y, heads, packed, bias, out, out_bias, _mask(mask, kind))[0]

    def feed(y: Any) -> Any:
        inner = F.linear(y, f1, g1)
        return F.linear(F.gelu(inner) if gelu else F.relu(inner), f2, g2)

    def norm(y: Any, w: core.Tensor, b: Any) -> Any:
        return F.layer_norm(y, (embed,), w, b, eps)

    if first:
        x = x + attend(norm(x, w1, b1))
        return x + feed(norm(x, w2, b2))
    x = norm(x + attend(x), w1, b1)
    return norm(x + feed(x), w2, b2)


primitive("aten::_native_multi_head_attention(Tensor query, Tensor key, Tensor value, int embed_dim, "
          "int num_head, Tensor qkv_weight, Tensor qkv_bias, Tensor proj_weight, Tensor proj_bias, "
          "Tensor? mask=None, bool need_weights=True, bool average_attn_weights=True, int? mask_type=None) "
          "-> (Tensor, Tensor)", _multi_head)  # fmt: skip
_TENSORS = ", ".join(
    f"Tensor {n}" for n in "norm_weight_1 norm_bias_1 norm_weight_2 norm_bias_2 ffn_weight_1 ffn_bias_1 "
    "ffn_weight_2 ffn_bias_2".split()
)  # fmt: skip
primitive("aten::_transformer_encoder_layer_fwd(Tensor src, int embed_dim, int num_heads, Tensor qkv_weight, "
          "Tensor qkv_bias, Tensor proj_weight, Tensor proj_bias, bool use_gelu, bool norm_first, float eps, "
          f"{_TENSORS}, Tensor? mask=None, int? mask_type=None) -> Tensor", _encoder_layer)  # fmt: skip
