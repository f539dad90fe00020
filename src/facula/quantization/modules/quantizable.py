"""LSTM in steps that are observed: PyTorch's `ao.nn.quantizable.LSTM`.

Takes: sequences, numbers or integers. Gives: results and the last states, as `nn.LSTM` does. Keeps true: names of
parameters are PyTorch's; every product and sum is a module, so that it has parameters of its own when it becomes one of
integers.
"""

from __future__ import annotations

import warnings
from typing import Any, NoReturn

import facula.nn as nn
from facula import core
from facula.core.errors import fail, message
from facula.ops.table.registry import F
from facula.quantization import eager
from facula.quantization.create import quantize_per_tensor
from facula.quantization.modules.functional import FloatFunctional

__all__ = ["LSTM", "LSTMCell"]

_GATES = ("input", "forget", "cell", "output")
State = tuple[Any, Any]


def _linear(inputs: int, results: int, bias: bool, split: bool, options: dict[str, Any]) -> Any:
    """The product of all gates, or one for each."""
    if not split:
        return nn.Linear(inputs, 4 * results, bias=bias, **options)
    return nn.ModuleDict({g: nn.Linear(inputs, results, bias=bias, **options) for g in _GATES})


def _fill(gates: Any, weight: Any, bias: Any, split: bool) -> None:
    """Weights of all gates, one below the other, in the layers for them."""
    parts = list(gates.values()) if split else [gates]
    weights = weight.chunk(4, 0) if split else [weight]
    biases = [None] * len(parts) if bias is None else bias.chunk(4, 0) if split else [bias]
    for part, own, shift in zip(parts, weights, biases, strict=True):
        part.weight = nn.Parameter(own.detach())
        if shift is not None:
            part.bias = nn.Parameter(shift.detach())


class LSTMCell(nn.Module):
    """One step of an LSTM.

    Args:
        input_dim: how many numbers an input has
        hidden_dim: how many a state has
        bias: whether products have one
        device, dtype: of the parameters
        split_gates: whether each gate has products of its own

    Example:
        >>> cell = facula.ao.nn.quantizable.LSTMCell(2, 3)
        >>> [state.shape for state in cell(facula.ones(4, 2))]
        [facula.Size([4, 3]), facula.Size([4, 3])]
    """

    _FLOAT_MODULE: Any = nn.LSTMCell

    def __init__(
        self, input_dim: int, hidden_dim: int, bias: bool = True, device: Any = None, dtype: Any = None, *,
        split_gates: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        options = {"device": device, "dtype": dtype}
        self.input_size, self.hidden_size, self.bias = input_dim, hidden_dim, bias
        self.split_gates = split_gates
        self.igates = _linear(input_dim, hidden_dim, bias, split_gates, options)
        self.hgates = _linear(hidden_dim, hidden_dim, bias, split_gates, options)
        sums = {g: FloatFunctional() for g in _GATES}
        self.gates: Any = nn.ModuleDict(sums) if split_gates else FloatFunctional()
        self.input_gate, self.forget_gate = nn.Sigmoid(), nn.Sigmoid()
        self.cell_gate, self.output_gate = nn.Tanh(), nn.Sigmoid()
        self.fgate_cx, self.igate_cgate = FloatFunctional(), FloatFunctional()
        self.fgate_cx_igate_cgate, self.ogate_cy = FloatFunctional(), FloatFunctional()
        self.initial_hidden_state_qparams = self.initial_cell_state_qparams = (1.0, 0)
        self.hidden_state_dtype = self.cell_state_dtype = core.quint8

    def _sums(self, x: Any, state: Any) -> Any:
        """The numbers of the four gates."""
        if not self.split_gates:
            return self.gates.add(self.igates(x), self.hgates(state)).chunk(4, 1)
        return [self.gates[g].add(self.igates[g](x), self.hgates[g](state)) for g in _GATES]

    def forward(self, x: Any, hidden: Any = None) -> State:
        """The next states."""
        if hidden is None or hidden[0] is None or hidden[1] is None:
            hidden = self.initialize_hidden(x.shape[0], x.is_quantized)
        state, memory = hidden
        enters, keeps, new, leaves = self._sums(x, state)
        kept = self.fgate_cx.mul(self.forget_gate(keeps), memory)
        added = self.igate_cgate.mul(self.input_gate(enters), self.cell_gate(new))
        memory = self.fgate_cx_igate_cgate.add(kept, added)
        return self.ogate_cy.mul(self.output_gate(leaves), F.tanh(memory)), memory

    def initialize_hidden(self, batch_size: int, is_quantized: bool = False) -> State:
        """States of zeros."""
        made = []
        for chosen, dtype in (
            (self.initial_hidden_state_qparams, self.hidden_state_dtype),
            (self.initial_cell_state_qparams, self.cell_state_dtype),
        ):
            zeros = F.zeros((batch_size, self.hidden_size))
            made.append(quantize_per_tensor(zeros, *chosen, dtype) if is_quantized else zeros)
        return made[0], made[1]

    def _get_name(self) -> str:
        return "QuantizableLSTMCell"

    @classmethod
    def from_params(
        cls, wi: Any, wh: Any, bi: Any = None, bh: Any = None, split_gates: bool = False
    ) -> Any:
        """A cell of weights and biases: of the input, and of the state."""
        if (bi is None) != (bh is None):
            fail(AssertionError, "LSTMCell.from_params", "two biases or none were required (bi and bh must both be "
                 "None or both have values)", "one", hint="give zeros for the other")  # fmt: skip
        made = cls(wi.shape[1], wh.shape[1], bias=bi is not None, split_gates=split_gates)
        _fill(made.igates, wi, bi, split_gates)
        _fill(made.hgates, wh, bh, split_gates)
        return made

    @classmethod
    def from_float(
        cls, other: Any, use_precomputed_fake_quant: bool = False, split_gates: bool = False
    ) -> Any:
        """A cell with the weights of a float one, and its configuration."""
        config = _config("LSTMCell.from_float", other, cls._FLOAT_MODULE)
        bi, bh = (other.bias_ih, other.bias_hh) if other.bias else (None, None)
        made = cls.from_params(other.weight_ih, other.weight_hh, bi, bh, split_gates)
        for module in (made, made.igates, made.hgates):
            for each in (module, *module.children()):
                each.qconfig = config
        return made


def _config(op: str, other: Any, kind: Any, given: Any = None) -> Any:
    """The configuration of a float layer, which has to be of a class."""
    if not isinstance(other, kind):
        fail(AssertionError, op, f"Expected module type {kind}", type(other).__name__,
             hint="prepare() calls it for layers that have a qconfig")  # fmt: skip
    found = getattr(other, "qconfig", given)
    if found is None:
        fail(AssertionError, op, "The float module must have 'qconfig'", "none",
             hint="layer.qconfig = get_default_qconfig()")  # fmt: skip
    return found


class _LSTMSingleLayer(nn.Module):
    """All steps in one direction."""

    def __init__(
        self, input_dim: int, hidden_dim: int, bias: bool = True, device: Any = None, dtype: Any = None, *,
        split_gates: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.cell = LSTMCell(input_dim, hidden_dim, bias, device, dtype, split_gates=split_gates)

    def forward(self, x: Any, hidden: Any = None) -> tuple[Any, State]:
        """The results of all steps, and the last states."""
        results = []
        for i in range(x.shape[0]):
            hidden = self.cell(x[i], hidden)
            results.append(hidden[0])
        return F.stack(results, 0), hidden

    @classmethod
    def from_params(cls, *args: Any, **kwargs: Any) -> Any:
        """A layer of weights and biases."""
        cell = LSTMCell.from_params(*args, **kwargs)
        made = cls(cell.input_size, cell.hidden_size, cell.bias, split_gates=cell.split_gates)
        made.cell = cell
        return made


class _LSTMLayer(nn.Module):
    """One layer, in one direction or both."""

    def __init__(
        self, input_dim: int, hidden_dim: int, bias: bool = True, batch_first: bool = False,
        bidirectional: bool = False, device: Any = None, dtype: Any = None, *, split_gates: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.batch_first, self.bidirectional = batch_first, bidirectional
        given: tuple[Any, ...] = (input_dim, hidden_dim, bias, device, dtype)
        self.layer_fw = _LSTMSingleLayer(*given, split_gates=split_gates)
        if bidirectional:
            self.layer_bw = _LSTMSingleLayer(*given, split_gates=split_gates)

    def forward(self, x: Any, hidden: Any = None) -> tuple[Any, State]:
        """The results of all steps, and the last states."""
        x = x.transpose(0, 1) if self.batch_first else x
        states = _of_direction(hidden, 0) if self.bidirectional else hidden
        result, (state, memory) = self.layer_fw(x, states)
        if self.bidirectional:
            back, last = self.layer_bw(x.flip(0), _of_direction(hidden, 1))
            result = F.cat([result, back.flip(0)], result.dim() - 1)
            state, memory = F.stack([state, last[0]], 0), F.stack([memory, last[1]], 0)
        return (result.transpose(0, 1) if self.batch_first else result), (state, memory)

    @classmethod
    def from_float(cls, other: Any, layer_idx: int = 0, qconfig: Any = None, **kwargs: Any) -> Any:
        """The layer of a float LSTM with that number."""
        split = kwargs.pop("split_gates", False)
        sizes = {n: kwargs.get(n, getattr(other, n)) for n in (
            "input_size", "hidden_size", "bias", "batch_first", "bidirectional",
        )}  # fmt: skip
        made = cls(*sizes.values(), split_gates=split)
        made.qconfig = _config("_LSTMLayer.from_float", other, nn.LSTM, qconfig)
        made.layer_fw = _direction(other, layer_idx, "", split)
        if other.bidirectional:
            made.layer_bw = _direction(other, layer_idx, "_reverse", split)
        return made


def _direction(other: Any, at: int, suffix: str, split: bool) -> _LSTMSingleLayer:
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    parts = [getattr(other, f"{name}_l{at}{suffix}", None) for name in names]
    made: _LSTMSingleLayer = _LSTMSingleLayer.from_params(*parts, split_gates=split)
    return made


def _of_direction(hidden: Any, at: int) -> Any:
    return None if hidden is None else (hidden[0][at], hidden[1][at])


class LSTM(nn.Module):
    """Layers of an LSTM whose steps are observed.

    Args:
        input_size: how many numbers an input has
        hidden_size: how many a state has
        num_layers: how many layers follow each other
        bias: whether products have one
        batch_first: whether inputs are ``[batch, length, width]``
        dropout: kept as in PyTorch: nothing is dropped
        bidirectional: whether each layer goes in both directions
        device, dtype: of the parameters
        split_gates: whether each gate has products of its own

    Raises:
        ValueError: `dropout` is no probability.

    Example:
        >>> layer = facula.ao.nn.quantizable.LSTM(2, 3, num_layers=2)
        >>> result, (state, memory) = layer(facula.ones(5, 4, 2))
        >>> result.shape, state.shape
        (facula.Size([5, 4, 3]), facula.Size([2, 4, 3]))
    """

    _FLOAT_MODULE: Any = nn.LSTM

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False,
        dropout: float = 0.0, bidirectional: bool = False, device: Any = None, dtype: Any = None, *,
        split_gates: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        _check_dropout(dropout, num_layers)
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.bidirectional = bias, batch_first, bidirectional
        self.dropout, self.training = float(dropout), False
        width = hidden_size * (2 if bidirectional else 1)
        self.layers = nn.ModuleList(
            _LSTMLayer(
                width if i else input_size, hidden_size, bias, False, bidirectional, device, dtype,
                split_gates=split_gates,
            )
            for i in range(num_layers)
        )  # fmt: skip

    def _states(self, x: Any, hidden: Any) -> list[Any]:
        """The states with which each layer begins."""
        directions = 2 if self.bidirectional else 1
        batch = x.size(1)
        if hidden is None:
            zeros = F.zeros((directions, batch, self.hidden_size), device=x.device).squeeze(0)
            zeros = quantize_per_tensor(zeros, 1.0, 0, x.dtype) if x.is_quantized else zeros
            return [(zeros, zeros)] * self.num_layers
        if not isinstance(hidden[0], core.Tensor):
            return list(hidden)
        shape = (self.num_layers, directions, batch, self.hidden_size)
        states, memories = (part.reshape(shape) for part in hidden)
        return [(states[i].squeeze(0), memories[i].squeeze(0)) for i in range(self.num_layers)]

    def forward(self, x: Any, hidden: Any = None) -> tuple[Any, State]:
        """The results of all steps, and the last states of all layers."""
        x = x.transpose(0, 1) if self.batch_first else x
        given, last = self._states(x, hidden), []
        for layer, states in zip(self.layers, given, strict=True):
            x, own = layer(x, states)
            last.append(own)
        made = [F.stack([own[i] for own in last], 0) for i in (0, 1)]
        flat = [part.reshape(-1, part.shape[-2], part.shape[-1]) for part in made]
        return (x.transpose(0, 1) if self.batch_first else x), (flat[0], flat[1])

    def _get_name(self) -> str:
        return "QuantizableLSTM"

    @classmethod
    def from_float(cls, other: Any, qconfig: Any = None, split_gates: bool = False) -> Any:
        """The layers of a float LSTM, with observers."""
        config = _config("LSTM.from_float", other, cls._FLOAT_MODULE, qconfig)
        made = cls(
            other.input_size, other.hidden_size, other.num_layers, other.bias, other.batch_first, other.dropout,
            other.bidirectional, split_gates=split_gates,
        )  # fmt: skip
        made.qconfig = config
        for i in range(other.num_layers):
            made.layers[i] = _LSTMLayer.from_float(
                other, i, config, batch_first=False, split_gates=split_gates
            )
        made.train(other.training)
        return (eager.prepare_qat if other.training else eager.prepare)(made, inplace=True)

    @classmethod
    def from_observed(cls, other: Any) -> NoReturn:
        """Raises NotImplementedError: the class of integers has it."""
        fail(NotImplementedError, "LSTM.from_observed", "It looks like you are trying to convert a non-quantizable "
             "LSTM module", type(other).__name__, hint="ao.nn.quantized.LSTM.from_observed makes integers")  # fmt: skip


def _check_dropout(dropout: Any, layers: int) -> None:
    number = isinstance(dropout, (int, float)) and not isinstance(dropout, bool)
    if not number or not 0 <= dropout <= 1:
        fail(ValueError, "quantizable.LSTM", "dropout should be a number in range [0, 1] representing the probability "
             "of an element being zeroed", dropout, hint="0.0 drops nothing")  # fmt: skip
    if dropout > 0:
        hint = "train nn.LSTM, and prepare it then"
        text = "dropout option for quantizable LSTM is ignored"
        warnings.warn(message("quantizable.LSTM", text, hint=hint), UserWarning, stacklevel=3)
