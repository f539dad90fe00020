"""Quantized tensors in scripts: making them, what they say of themselves, and recurrent layers.

Takes nothing. Gives nothing: importing it fills `signatures.PRIMITIVE`.
Keeps true: each is PyTorch's schema and the library's function; dtypes come as their numbers.
"""

from __future__ import annotations

from typing import Any

import facula
from facula.jit.signatures import primitive
from facula.ops.table.schemas.codes import dtype_of

__all__: list[str] = []

for _kind, _overload in (("float scale, int", ""), ("Tensor scale, Tensor", ".tensor_qparams")):
    primitive(f"aten::quantize_per_tensor{_overload}(Tensor self, {_kind} zero_point, int dtype) -> Tensor",
              lambda x, s, z, t: facula.quantize_per_tensor(x, s, z, dtype_of(t)))  # fmt: skip
primitive("aten::quantize_per_channel(Tensor self, Tensor scales, Tensor zero_points, int axis, int dtype) -> Tensor",
          lambda x, s, z, a, t: facula.quantize_per_channel(x, s, z, a, dtype_of(t)))  # fmt: skip
primitive("aten::quantize_per_tensor_dynamic(Tensor self, int dtype, bool reduce_range) -> Tensor",
          lambda x, t, r: facula.quantize_per_tensor_dynamic(x, dtype_of(t), r))  # fmt: skip
primitive("aten::dequantize(Tensor self) -> Tensor", lambda x: x.dequantize())
primitive(
    "aten::dequantize.tensors(Tensor[] tensors) -> Tensor[]", lambda x: [t.dequantize() for t in x]
)
primitive("aten::q_scale(Tensor self) -> float", lambda x: x.q_scale())
primitive("aten::q_zero_point(Tensor self) -> int", lambda x: x.q_zero_point())
primitive("aten::q_per_channel_axis(Tensor self) -> int", lambda x: x.q_per_channel_axis())
primitive("aten::qscheme(Tensor self) -> QScheme", lambda x: x.qscheme())
for _name, _run in (("eq", lambda a, b: a == b), ("ne", lambda a, b: a != b)):
    primitive(f"aten::{_name}.qscheme(QScheme a, QScheme b) -> bool", _run)
primitive("aten::_choose_qparams_per_tensor(Tensor self, bool reduce_range=False) -> (float, int)",
          lambda x, r: tuple(facula._choose_qparams_per_tensor(x, r)))  # fmt: skip

_LAYERS = "bool has_biases, int num_layers, float dropout, bool train, bool bidirectional"
_LSTM = "*, int? dtype=None, bool use_dynamic=False) -> (Tensor, Tensor, Tensor)"


def _recurrent(name: str, options: int) -> Any:
    """The function of packed recurrent layers; its last arguments, which say what the cells say, are left out."""

    def run(*given: Any) -> Any:
        # lazily: programs without such layers do not need them
        from facula.quantization.modules import recurrent_cells

        return getattr(recurrent_cells, name)(*given[: len(given) - options])

    return run


primitive(f"aten::quantized_lstm.input(Tensor input, Tensor[] hx, t[] params, {_LAYERS}, bool batch_first, {_LSTM}",
          _recurrent("quantized_lstm", 2))  # fmt: skip
primitive(f"aten::quantized_lstm.data(Tensor data, Tensor batch_sizes, Tensor[] hx, t[] params, {_LAYERS}, {_LSTM}",
          _recurrent("quantized_lstm_data", 2))  # fmt: skip
primitive(f"aten::quantized_gru.input(Tensor input, Tensor hx, t[] params, {_LAYERS}, bool batch_first) "
          "-> (Tensor, Tensor)", _recurrent("quantized_gru", 0))  # fmt: skip
primitive(f"aten::quantized_gru.data(Tensor data, Tensor batch_sizes, Tensor hx, t[] params, {_LAYERS}) "
          "-> (Tensor, Tensor)", _recurrent("quantized_gru_data", 0))  # fmt: skip


def _with_geometry(name: str) -> Any:
    """A convolution as older files call it: they repeat what the packed parameters say."""

    def run(x: Any, packed: Any, *rest: Any) -> Any:
        return getattr(facula.ops.quantized, name)(x, packed, *rest[-2:])

    return run


for _name in ("conv2d", "conv2d_relu", "conv3d", "conv3d_relu"):
    primitive(f"quantized::{_name}.with_geometry(Tensor qx, any packed_weight, int[] stride, int[] padding, "
              f"int[] dilation, "
              "int groups, float output_scale, int output_zero_point) -> Tensor", _with_geometry(_name))  # fmt: skip
