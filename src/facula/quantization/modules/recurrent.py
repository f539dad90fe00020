"""Recurrent layers with weights of 8 bits (or 16-bit floats) whose inputs are numbers, quantized by their range.

Takes: float tensors [steps, batch, features] (or batch first, or packed sequences). Gives: float tensors. Keeps
true: all steps of an input are multiplied at once, so that they share their range; gates stand in PyTorch's
order (input, forget, cell, output; reset, update, new); activations have 7 bits, as dynamic linear layers have
them.
"""

from __future__ import annotations

from typing import Any

import facula.nn as nn
from facula import core
from facula.core.errors import fail
from facula.nn.utils.rnn import PackedSequence
from facula.ops.table.registry import F
from facula.quantization import linear
from facula.quantization.modules import quantized as nnq
from facula.quantization.modules.quantized import quantized_weight
from facula.quantization.modules.recurrent_cells import (
    CellParams,
    layers,
    product,
    quantized_gru,
    quantized_lstm,
    step,
)
from facula.quantization.qconfig import default_dynamic_qconfig, float16_dynamic_qconfig
from facula.quantization.state_parts import weight_and_bias

__all__ = ["GRU", "GRUCell", "LSTM", "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase"]

_KINDS = (core.qint8, core.float16)


def _packed(weight: Any, bias: Any, dtype: core.dtype | None, observer: Any) -> Any:
    """The parameters of one product, of a float weight."""
    bias = None if bias is None else bias.detach()
    if dtype is core.float16:
        return linear.linear_prepack_fp16(weight.detach().float(), bias)
    made = observer()
    made(weight)
    return linear.linear_prepack(quantized_weight(weight, made), bias)


def _observer_of(mod: Any, dtype: core.dtype) -> Any:
    """What chooses the weights' scales: that of a module's configuration, or the default."""
    config = getattr(mod, "qconfig", None)
    if config is not None and config.weight is not None:
        return config.weight
    return (default_dynamic_qconfig if dtype is core.qint8 else float16_dynamic_qconfig).weight


def _check_dtype(op: str, dtype: core.dtype) -> None:
    if dtype not in _KINDS:
        fail(RuntimeError, op, "Unsupported dtype specified for dynamic quantized layers: qint8 or float16 "
             "was required", dtype, hint="quantize_dynamic(model, dtype=facula.qint8)")  # fmt: skip


class PackedParameter(nn.Module):
    """The two products of a layer in one direction, with their place in state dictionaries."""

    def __init__(self, param: Any) -> None:
        super().__init__()
        self.param = param

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "param"] = tuple(part.unpack() for part in self.param)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, meta: Any, strict: Any, missing: Any,
                              unexpected: Any, errors: Any) -> None:  # fmt: skip
        if prefix + "param" not in state_dict:
            missing.append(prefix + "param")
            return
        key, parts = prefix + "param", state_dict.pop(prefix + "param")
        both = parts if isinstance(parts, (tuple, list)) and len(parts) == 2 else (None, None)
        self.param = CellParams(*(_again(*weight_and_bias(key, part)) for part in both))
        super()._load_from_state_dict(state_dict, prefix, meta, False, missing, unexpected, errors)


def _again(weight: core.Tensor, bias: core.Tensor | None) -> Any:
    """Packed parameters of what was unpacked."""
    pack = linear.linear_prepack if weight.is_quantized else linear.linear_prepack_fp16
    return pack(weight, bias)


def _lstm_script(
    self: Any, input: core.Tensor, hx: tuple[core.Tensor, core.Tensor] | None = None
) -> tuple[core.Tensor, tuple[core.Tensor, core.Tensor]]:
    """`LSTM.forward` of tensors, as scripts have it."""
    if hx is None:
        rows = self.num_layers * (2 if self.bidirectional else 1)
        count = input.size(0) if self.batch_first else input.size(1)
        zeros = F.zeros([rows, count, self.hidden_size], dtype=input.dtype, device=input.device)
        states = [zeros, zeros]
    else:
        states = [hx[0], hx[1]]
    params = [each.param for each in self._all_weight_values]
    out, h, c = quantized_lstm(
        input, states, params, self.bias, self.num_layers, self.dropout, self.training, self.bidirectional,
        self.batch_first, dtype=self.dtype, use_dynamic=True,
    )  # fmt: skip
    return out, (h, c)


def _gru_script(
    self: Any, input: core.Tensor, hx: core.Tensor | None = None
) -> tuple[core.Tensor, core.Tensor]:
    """`GRU.forward` of tensors, as scripts have it."""
    if hx is None:
        rows = self.num_layers * (2 if self.bidirectional else 1)
        count = input.size(0) if self.batch_first else input.size(1)
        state = F.zeros([rows, count, self.hidden_size], dtype=input.dtype, device=input.device)
    else:
        state = hx
    params = [each.param for each in self._all_weight_values]
    out, h = quantized_gru(
        input, state, params, self.bias, self.num_layers, self.dropout, self.training, self.bidirectional,
        self.batch_first,
    )  # fmt: skip
    return out, h


class RNNBase(nn.Module):
    """Layers of one mode, over sequences."""

    _FLOAT_MODULE: Any = nn.RNNBase

    def __init__(
        self, mode: str, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False,
        dtype: core.dtype = core.qint8,
    ) -> None:  # fmt: skip
        super().__init__()
        _check_dtype(mode, dtype)
        if (
            not isinstance(dropout, (int, float))
            or isinstance(dropout, bool)
            or not 0 <= dropout <= 1
        ):
            fail(ValueError, mode, "dropout should be a number in range [0, 1] representing the probability of an "
                 "element being zeroed", dropout, hint="0.0 leaves all elements")  # fmt: skip
        self.mode, self.input_size, self.hidden_size = mode, input_size, hidden_size
        self.num_layers, self.bias, self.batch_first = num_layers, bias, batch_first
        self.dropout, self.bidirectional, self.dtype = float(dropout), bidirectional, dtype
        self.version, self.training = 2, False
        floats = self._FLOAT_MODULE(input_size, hidden_size, num_layers, bias, batch_first)
        if bidirectional:
            floats = self._FLOAT_MODULE(
                input_size, hidden_size, num_layers, bias, batch_first, 0.0, True
            )
        self._take(floats, _observer_of(None, dtype))

    def _take(self, floats: Any, observer: Any) -> None:
        """Pack the weights of float layers."""
        made = []
        for layer, direction in self._places():
            ends = f"l{layer}{'_reverse' if direction else ''}"
            pair = [
                _packed(
                    getattr(floats, f"weight_{what}_{ends}"),
                    getattr(floats, f"bias_{what}_{ends}", None),
                    self.dtype,
                    observer,
                )
                for what in ("ih", "hh")
            ]
            made.append(PackedParameter(CellParams(*pair)))
        self._all_weight_values = nn.ModuleList(made)

    def _places(self) -> list[tuple[int, int]]:
        directions = 2 if self.bidirectional else 1
        return [(layer, d) for layer in range(self.num_layers) for d in range(directions)]

    def _get_name(self) -> str:
        return f"DynamicQuantized{type(self).__name__}"

    def extra_repr(self) -> str:
        """Sizes, and what differs from the defaults."""
        text = f"{self.input_size}, {self.hidden_size}"
        for name, default in (
            ("num_layers", 1), ("bias", True), ("batch_first", False), ("dropout", 0.0),
            ("bidirectional", False),
        ):  # fmt: skip
            value = getattr(self, name)
            text += f", {name}={value}" if value != default else ""
        return text

    def __repr__(self) -> str:
        return f"{self._get_name()}({self.extra_repr()})"

    def forward(self, input: core.Tensor, hx: Any = None) -> Any:
        """The results of all steps, and the state behind the last."""
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        x = input.transpose(0, 1) if self.batch_first else input
        self._check_input(x, 3)
        states = self._states(x, x.shape[1], hx, None)
        sizes = [x.shape[1]] * x.shape[0]
        data, last = self._run(x.reshape(-1, x.shape[-1]), sizes, states)
        y = data.reshape(x.shape[0], x.shape[1], -1)
        return (y.transpose(0, 1) if self.batch_first else y), last

    def _forward_packed(self, input: core.Tensor, hx: Any) -> Any:
        data, batch_sizes, order, back = input
        self._check_input(data, 2)
        sizes = batch_sizes.tolist()
        made, last = self._run(data, sizes, self._states(data, sizes[0], hx, order))
        if back is not None:
            last = tuple(h[:, back] for h in last) if isinstance(last, tuple) else last[:, back]
        return PackedSequence(made, batch_sizes, order, back), last

    def _check_input(self, x: core.Tensor, dims: int) -> None:
        if x.dim() != dims or x.shape[-1] != self.input_size:
            fail(RuntimeError, self._get_name(), f"input must have {dims} dimensions and input.size(-1) must be equal "
                 f"to input_size: {self.input_size} was required", list(x.shape),
                 hint="[steps, batch, features], or [batch, steps, features] with batch_first")  # fmt: skip

    def _states(self, x: core.Tensor, batch: int, hx: Any, order: Any) -> Any:
        """The states before the first step, [layers * directions, batch, features]."""
        wanted = (len(self._places()), batch, self.hidden_size)
        count = 2 if self.mode == "LSTM" else 1
        if hx is None:
            zeros = F.zeros(wanted, dtype=x.dtype)
            return (zeros,) * count
        given = tuple(hx) if count == 2 else (hx,)
        for h in given:
            if tuple(h.shape) != wanted:
                fail(RuntimeError, self._get_name(), f"Expected hidden size {wanted}", tuple(h.shape),
                     hint="[layers * directions, batch, hidden_size]")  # fmt: skip
        return given if order is None else tuple(h[:, order] for h in given)

    def _run(self, data: Any, sizes: list[int], states: Any) -> Any:
        """All layers over steps that lie behind each other, the longest sequences first."""
        cells = [parameter.param for parameter in self._all_weight_values]
        drop = self.dropout if self.training else 0.0
        data, ends = layers(self.mode, data, sizes, states, cells, self.bidirectional, drop)
        return data, (ends if self.mode == "LSTM" else ends[0])

    def _weight_bias(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {"weight": {}, "bias": {}}
        for (layer, direction), parameter in zip(
            self._places(), self._all_weight_values, strict=True
        ):
            ends = f"l{layer}{'_reverse' if direction else ''}"
            for what, packed in zip(("ih", "hh"), parameter.param, strict=True):
                weight, bias = packed.unpack()
                found["weight"][f"weight_{what}_{ends}"] = weight
                found["bias"][f"bias_{what}_{ends}"] = bias
        return found

    def get_weight(self) -> dict[str, Any]:
        """The weights by their names."""
        return self._weight_bias()["weight"]

    def get_bias(self) -> dict[str, Any]:
        """The biases by their names."""
        return self._weight_bias()["bias"]

    def set_weight_bias(self, weight_bias_dict: dict[str, dict[str, Any]]) -> None:
        """Take other weights (quantized) and biases."""
        weights, biases = weight_bias_dict["weight"], weight_bias_dict["bias"]
        for (layer, direction), parameter in zip(
            self._places(), self._all_weight_values, strict=True
        ):
            ends = f"l{layer}{'_reverse' if direction else ''}"
            parameter.param = CellParams(*(
                _again(weights[f"weight_{what}_{ends}"], biases[f"bias_{what}_{ends}"])
                for what in ("ih", "hh")
            ))  # fmt: skip

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """In the place of float layers; their `qconfig` says how weights are observed."""
        if not isinstance(mod, cls._FLOAT_MODULE):
            fail(AssertionError, f"{cls.__name__}.from_float", "nn.quantized.dynamic.RNNBase.from_float only works "
                 f"for {cls._FLOAT_MODULE.__name__}", type(mod).__name__,
                 hint="quantize_dynamic() calls it for the layers that it takes")  # fmt: skip
        observer = _observer_of(mod, core.qint8)
        dtype = observer().dtype
        _check_dtype(cls.__name__, dtype)
        made: Any = cls(
            mod.input_size, mod.hidden_size, mod.num_layers, mod.bias, mod.batch_first, mod.dropout,
            mod.bidirectional, dtype,
        )  # fmt: skip
        made._take(mod, observer)
        return made


class LSTM(RNNBase):
    """Long short-term memory of numbers."""

    _FLOAT_MODULE = nn.LSTM
    _script_forward = _lstm_script

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)


class GRU(RNNBase):
    """Gated recurrent units of numbers."""

    _FLOAT_MODULE = nn.GRU
    _script_forward = _gru_script

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("GRU", *args, **kwargs)


# ------------------------------------------------------------------ single steps


_OPS = nnq._ops()
_lstm_step, _gru_step = _OPS.quantized_lstm_cell_dynamic, _OPS.quantized_gru_cell_dynamic
_tanh_step, _relu_step = _OPS.quantized_rnn_tanh_cell_dynamic, _OPS.quantized_rnn_relu_cell_dynamic


def _lstm_cell_script(
    self: Any, input: core.Tensor, hx: tuple[core.Tensor, core.Tensor] | None = None
) -> tuple[core.Tensor, core.Tensor]:
    """`LSTMCell.forward`, as scripts have it."""
    if hx is None:
        zeros = F.zeros([input.size(0), self.hidden_size], dtype=input.dtype, device=input.device)
        states = [zeros, zeros]
    else:
        states = [hx[0], hx[1]]
    none = F.zeros([4 * self.hidden_size])
    first, second = self._packed_weight_ih.unpack()[1], self._packed_weight_hh.unpack()[1]
    ih, hh = first if first is not None else none, second if second is not None else none
    h, c = _lstm_step(input, states, self._packed_weight_ih, self._packed_weight_hh, ih, hh)
    return h, c


def _cell_script(self: Any, input: core.Tensor, hx: core.Tensor | None = None) -> core.Tensor:
    """`forward` of the other cells, as scripts have it."""
    if hx is None:
        hx = F.zeros([input.size(0), self.hidden_size], dtype=input.dtype, device=input.device)
    none = F.zeros([(3 if self._mode == "GRU" else 1) * self.hidden_size])
    first, second = self._packed_weight_ih.unpack()[1], self._packed_weight_hh.unpack()[1]
    ih, hh = first if first is not None else none, second if second is not None else none
    if self._mode == "GRU":
        return _gru_step(input, hx, self._packed_weight_ih, self._packed_weight_hh, ih, hh)
    if self._mode == "RNN_RELU":
        return _relu_step(input, hx, self._packed_weight_ih, self._packed_weight_hh, ih, hh)
    return _tanh_step(input, hx, self._packed_weight_ih, self._packed_weight_hh, ih, hh)


class RNNCellBase(nn.Module):
    """One step of one layer."""

    _script_forward: Any = _cell_script
    _FLOAT_MODULE: Any = nn.RNNCell
    _mode = "RNN_TANH"

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, num_chunks: int = 4,
        dtype: core.dtype = core.qint8,
    ) -> None:  # fmt: skip
        super().__init__()
        _check_dtype(type(self).__name__, dtype)
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        self.weight_dtype = dtype
        self._take(self._FLOAT_MODULE(input_size, hidden_size, bias), _observer_of(None, dtype))

    def _take(self, cell: Any, observer: Any) -> None:
        """Pack the weights of a float cell."""
        for what in ("ih", "hh"):
            weight, bias = getattr(cell, f"weight_{what}"), getattr(cell, f"bias_{what}")
            packed = _packed(weight, bias, self.weight_dtype, observer)
            setattr(self, f"_packed_weight_{what}", packed)

    def _get_name(self) -> str:
        return f"DynamicQuantized{type(self).__name__}"

    def extra_repr(self) -> str:
        """Sizes, and what differs from the defaults."""
        text = f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else ", bias=False")
        word = getattr(self, "nonlinearity", "tanh")
        return text + (f", nonlinearity={word}" if word != "tanh" else "")

    def forward(self, input: Any, hx: Any = None) -> Any:
        """The state behind the step."""
        self.check_forward_input(input)
        if hx is None:
            zeros = F.zeros((input.shape[0], self.hidden_size), dtype=input.dtype)
            hx = (zeros, zeros) if self._mode == "LSTM" else zeros
        for place, h in enumerate(hx if self._mode == "LSTM" else (hx,)):
            self.check_forward_hidden(input, h, f"[{place}]" if self._mode == "LSTM" else "")
        me: Any = self
        gates = product(input, me._packed_weight_ih)
        return step(
            self._mode, gates, tuple(hx) if self._mode == "LSTM" else hx, me._packed_weight_hh
        )

    def check_forward_input(self, input: Any) -> None:
        """RuntimeError where an input has another size."""
        if input.shape[-1] != self.input_size:
            fail(RuntimeError, self._get_name(), f"input has inconsistent input_size: {self.input_size} was required",
                 input.shape[-1], hint="[batch, features]")  # fmt: skip

    def check_forward_hidden(self, input: Any, hx: Any, hidden_label: str = "") -> None:
        """RuntimeError where a state does not belong to an input."""
        wanted = [input.shape[0], self.hidden_size]
        if list(hx.shape) != wanted:
            fail(RuntimeError, self._get_name(), f"hidden{hidden_label} has inconsistent sizes: {wanted} was required",
                 list(hx.shape), hint="[batch, hidden_size]")  # fmt: skip

    def get_weight(self) -> dict[str, Any]:
        """The weights by their names."""
        return {
            f"weight_{w}": getattr(self, f"_packed_weight_{w}").unpack()[0] for w in ("ih", "hh")
        }

    def get_bias(self) -> dict[str, Any]:
        """The biases by their names."""
        return {f"bias_{w}": getattr(self, f"_packed_weight_{w}").unpack()[1] for w in ("ih", "hh")}

    def set_weight_bias(self, weight_bias_dict: dict[str, dict[str, Any]]) -> None:
        """Take other weights (quantized) and biases."""
        weights, biases = weight_bias_dict["weight"], weight_bias_dict["bias"]
        for what in ("ih", "hh"):
            packed = _again(weights[f"weight_{what}"], biases[f"bias_{what}"])
            setattr(self, f"_packed_weight_{what}", packed)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for what in ("ih", "hh"):
            name = f"_packed_weight_{what}"
            destination[prefix + name] = getattr(self, name).unpack()

    def _load_from_state_dict(self, state_dict: Any, prefix: str, meta: Any, strict: Any, missing: Any,
                              unexpected: Any, errors: Any) -> None:  # fmt: skip
        for what in ("ih", "hh"):
            name = f"_packed_weight_{what}"
            if prefix + name not in state_dict:
                missing.append(prefix + name)
                return
            pair = weight_and_bias(prefix + name, state_dict.pop(prefix + name))
            setattr(self, name, _again(*pair))
        super()._load_from_state_dict(state_dict, prefix, meta, False, missing, unexpected, errors)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """In the place of a float cell; its `qconfig` says how weights are observed."""
        if type(mod) is not cls._FLOAT_MODULE:
            fail(AssertionError, f"{cls.__name__}.from_float", "nn.quantized.dynamic.RNNCellBase.from_float only "
                 f"works for {cls._FLOAT_MODULE.__name__}", type(mod).__name__,
                 hint="quantize_dynamic() calls it for the layers that it takes")  # fmt: skip
        observer = _observer_of(mod, core.qint8)
        made: Any = cls(mod.input_size, mod.hidden_size, mod.bias, dtype=observer().dtype)
        if hasattr(mod, "nonlinearity"):
            made._choose(mod.nonlinearity)
        made._take(mod, observer)
        return made


class RNNCell(RNNCellBase):
    """A step of ``tanh`` or ``relu`` of the sum of two products."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh",
        dtype: core.dtype = core.qint8,
    ) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, bias, 1, dtype)
        self._choose(nonlinearity)

    def _choose(self, nonlinearity: str) -> None:
        if nonlinearity not in ("tanh", "relu"):
            fail(RuntimeError, "RNNCell", "Unknown nonlinearity: tanh or relu was required", nonlinearity,
                 hint="tanh is the default")  # fmt: skip
        self.nonlinearity = nonlinearity
        self._mode = f"RNN_{nonlinearity.upper()}"


class LSTMCell(RNNCellBase):
    """A step of long short-term memory."""

    _script_forward = _lstm_cell_script
    _FLOAT_MODULE = nn.LSTMCell
    _mode = "LSTM"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)


class GRUCell(RNNCellBase):
    """A step of gated recurrent units."""

    _FLOAT_MODULE = nn.GRUCell
    _mode = "GRU"

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, dtype: core.dtype = core.qint8
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, dtype)


#: float layer or cell -> the one that takes its place
BY_FLOAT: dict[type[nn.Module], Any] = {
    kind._FLOAT_MODULE: kind for kind in (LSTM, GRU, LSTMCell, GRUCell, RNNCell)
}
