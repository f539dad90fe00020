"""Recurrent layers and cells.

Takes ``[T, N, features]`` (``[N, T, features]`` with ``batch_first``), the same without a batch, or
packed sequences.
Gives outputs of all steps and final states.
Keeps true: weights are named ``weight_ih_l{k}{_reverse}`` and so on, in PyTorch's order; a packed
input gives a packed output, and states are in the caller's order of sequences.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import facula
from facula.core.errors import fail
from facula.nn import init, recurrent
from facula.nn.modules.module import Module
from facula.nn.modules.rnn_base import RNNBase, _permute
from facula.nn.parameter import Parameter
from facula.nn.utils.rnn import PackedSequence

__all__ = ["GRU", "GRUCell", "LSTM", "LSTMCell", "RNN", "RNNBase", "RNNCell", "RNNCellBase"]


def apply_permutation(tensor: Any, permutation: Any, dim: int = 1) -> Any:
    """``tensor.index_select(dim, permutation)`` (deprecated in PyTorch)."""
    warnings.warn(
        "apply_permutation is deprecated, please use tensor.index_select(dim, permutation) instead",
        FutureWarning,
        stacklevel=2,
    )
    return _permute(tensor, permutation, dim)


class RNN(RNNBase):
    """Elman network: ``h' = tanh(W_ih x + b_ih + W_hh h + b_hh)`` for every step. [Elman 1990]

    Weights are ``weight_ih_l0``, ``weight_hh_l0``, ``bias_ih_l0``, ``bias_hh_l0``, then those of
    further layers, '_reverse' at the end for the second direction; all start uniform in ``[-b, b]``
    with ``b = 1 / sqrt(hidden_size)``.

    Args:
        input_size: features of the input
        hidden_size: H, features of the state
        nonlinearity: 'tanh' or 'relu', for ``RNN`` behind ``num_layers``
        num_layers: how many stand on each other
        bias: whether the sums have one
        batch_first: whether tensors are ``[batch, time, features]`` and not ``[time, batch,
            features]``
        dropout: probability with which outputs of all but the last layer are zeroed in training
        bidirectional: whether a second run goes from the end to the start; outputs have both, one
            behind the other
        device, dtype: of the parameters

    Shape:
        input ``[T, N, input_size]``, ``[T, input_size]`` or a `utils.rnn.PackedSequence`, and
        optionally h_0, each ``[layers * directions, N, H]`` (zeros if left out), to the output of
        all steps ``[T, N, directions * H]`` and the last state.

    Raises:
        RuntimeError: at the call, where shapes of input or state do not fit.

    Example:
        >>> layer = facula.nn.RNN(10, 20, num_layers=2)
        >>> output, state = layer(facula.randn(5, 3, 10))
        >>> output.shape, state.shape
        (facula.Size([5, 3, 20]), facula.Size([2, 3, 20]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            fail(
                ValueError,
                type(self).__name__,
                "proj_size argument is only supported for LSTM, not RNN or GRU",
                hint="leave proj_size out, or take an LSTM",
            )
        if len(args) > 3:
            nonlinearity = args[3]
            args = args[:3] + args[4:]
        else:
            nonlinearity = kwargs.pop("nonlinearity", "tanh")
        if nonlinearity not in ("tanh", "relu"):
            fail(
                ValueError,
                type(self).__name__,
                f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.",
                hint="'tanh' is the default",
            )
        self.nonlinearity = nonlinearity
        super().__init__(f"RNN_{nonlinearity.upper()}", *args, **kwargs)


class GRU(RNNBase):
    """Gated recurrent unit: ``h' = (1 - z) n + z h`` for every step. [Cho et al. 2014]

    r and z are sigmoids of ``W_ih x + b_ih + W_hh h + b_hh``, and ``n = tanh(W_in x + b_in + r
    (W_hn h + b_hn))``: the reset gate applies after the product. Rows of the weights are in the
    order r, z, n.

    Weights are ``weight_ih_l0``, ``weight_hh_l0``, ``bias_ih_l0``, ``bias_hh_l0``, then those of
    further layers, '_reverse' at the end for the second direction; all start uniform in ``[-b, b]``
    with ``b = 1 / sqrt(hidden_size)``.

    Args:
        input_size: features of the input
        hidden_size: H, features of the state
        num_layers: how many stand on each other
        bias: whether the sums have one
        batch_first: whether tensors are ``[batch, time, features]`` and not ``[time, batch,
            features]``
        dropout: probability with which outputs of all but the last layer are zeroed in training
        bidirectional: whether a second run goes from the end to the start; outputs have both, one
            behind the other
        device, dtype: of the parameters

    Shape:
        input ``[T, N, input_size]``, ``[T, input_size]`` or a `utils.rnn.PackedSequence`, and
        optionally h_0, each ``[layers * directions, N, H]`` (zeros if left out), to the output of
        all steps ``[T, N, directions * H]`` and the last state.

    Raises:
        RuntimeError: at the call, where shapes of input or state do not fit.

    Example:
        >>> layer = facula.nn.GRU(10, 20, num_layers=2)
        >>> output, state = layer(facula.randn(5, 3, 10))
        >>> output.shape, state.shape
        (facula.Size([5, 3, 20]), facula.Size([2, 3, 20]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            fail(
                ValueError,
                type(self).__name__,
                "proj_size argument is only supported for LSTM, not RNN or GRU",
                hint="leave proj_size out, or take an LSTM",
            )
        super().__init__("GRU", *args, **kwargs)


class LSTM(RNNBase):
    """Long short-term memory: ``c' = f c + i g`` and ``h' = o tanh(c')`` for every step. [Hochreiter &
    Schmidhuber 1997]

    The gates i, f, o are sigmoids and g the tanh of ``W_ih x + b_ih + W_hh h + b_hh``; rows of the
    weights are in the order i, f, g, o.

    Weights are ``weight_ih_l0``, ``weight_hh_l0``, ``bias_ih_l0``, ``bias_hh_l0``, then those of
    further layers, '_reverse' at the end for the second direction; all start uniform in ``[-b, b]``
    with ``b = 1 / sqrt(hidden_size)``.

    Args:
        input_size: features of the input
        hidden_size: H, features of the state
        num_layers: how many stand on each other
        bias: whether the sums have one
        batch_first: whether tensors are ``[batch, time, features]`` and not ``[time, batch,
            features]``
        dropout: probability with which outputs of all but the last layer are zeroed in training
        bidirectional: whether a second run goes from the end to the start; outputs have both, one
            behind the other
        proj_size: features to which h is projected; 0 for none [Sak et al. 2014]
        device, dtype: of the parameters

    Shape:
        input ``[T, N, input_size]``, ``[T, input_size]`` or a `utils.rnn.PackedSequence`, and
        optionally (h_0, c_0), each ``[layers * directions, N, H]`` (zeros if left out), to the
        output of all steps ``[T, N, directions * H]`` and the last states.

    Raises:
        RuntimeError: at the call, where shapes of input or state do not fit.

    Example:
        >>> layer = facula.nn.LSTM(10, 20, num_layers=2)
        >>> output, state = layer(facula.randn(5, 3, 10))
        >>> output.shape, state[0].shape
        (facula.Size([5, 3, 20]), facula.Size([2, 3, 20]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def get_expected_cell_size(self, input: Any, batch_sizes: Any) -> tuple[int, int, int]:
        """(layers * directions, batch, hidden size)."""
        layers, batch, _ = self.get_expected_hidden_size(input, batch_sizes)
        return layers, batch, self.hidden_size

    def check_forward_args(self, input: Any, hidden: Any, batch_sizes: Any) -> None:
        """Raises unless input and states fit the layer."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(
            hidden[0],
            self.get_expected_hidden_size(input, batch_sizes),
            "Expected hidden[0] size {}, got {}",
        )
        self.check_hidden_size(
            hidden[1],
            self.get_expected_cell_size(input, batch_sizes),
            "Expected hidden[1] size {}, got {}",
        )

    def permute_hidden(self, hx: Any, permutation: Any) -> Any:
        """The states (one, or the pair) in another order of sequences."""
        if permutation is None:
            return hx
        if isinstance(hx, tuple):
            return tuple(_permute(h, permutation) for h in hx)
        return _permute(hx, permutation)

    def _state_dims(self, states: tuple, expected: int) -> None:
        if len(states) != 2 or any(s.dim() != expected for s in states):
            kind = "batched 3-D" if expected == 3 else "unbatched 2-D"
            got = ", ".join(f"{s.dim()}-D" for s in states)
            fail(
                RuntimeError,
                type(self).__name__,
                (
                    f"For {kind} input, hx and cx should also be {expected}-D but got ({got}) "
                    "tensors"
                ),
                hint="leave them out to start from zeros",
            )

    def forward(self, input: facula.Tensor, hx: Any = None) -> Any:
        """Outputs of all steps, and the final hidden and cell states."""
        states = None if hx is None else tuple(hx)
        run = self._forward_packed if isinstance(input, PackedSequence) else self._forward_dense
        output, finals = run(input, states)
        return output, finals


def _check_dimensions(name: str, input: facula.Tensor, states: tuple | None, count: int) -> None:
    if input.dim() not in (1, 2):
        fail(
            ValueError,
            name,
            f"{name}: Expected input to be 1D or 2D, got {input.dim()}D instead",
            hint="one step at a time: x[t] of a sequence",
        )
    for i, state in enumerate(states or ()):
        if state.dim() not in (1, 2):
            fail(
                ValueError,
                name,
                (
                    f"{name}: Expected hidden{(f'[{i}]' if count > 1 else '')} to be 1D or 2D, "
                    f"got {state.dim()}D instead"
                ),
                hint="leave it out to start from zeros",
            )


def _check_sizes(cell: RNNCellBase, input: facula.Tensor, states: tuple) -> None:
    """Input and states with a batch fit each other and the cell."""
    if input.size(1) != cell.input_size:
        fail(
            RuntimeError,
            type(cell).__name__,
            (f"input has inconsistent input_size: got {input.size(1)} expected {cell.input_size}"),
            hint="size(-1) of the input is the input_size that the cell was made with",
        )
    for i, state in enumerate(states):
        if state.size(0) != input.size(0) or state.size(1) != cell.hidden_size:
            fail(
                RuntimeError,
                type(cell).__name__,
                (
                    f"hidden{i} has shape {list(state.shape)}, expected "
                    f"{[input.size(0), cell.hidden_size]}"
                ),
                hint="leave it out to start from zeros",
            )


class RNNCellBase(Module):
    """What the cells share: weights and checks of shapes.

    Args:
        input_size: features of the input
        hidden_size: features of the state
        bias: whether the sums have one
        num_chunks: how many gates there are: 1, 3 or 4
        device, dtype: of the parameters

    Example:
        >>> facula.nn.RNNCellBase(4, 3, bias=True, num_chunks=4).weight_ih.shape
        facula.Size([12, 4])
    """

    __constants__ = ["input_size", "hidden_size", "bias"]
    weight_ih: Any
    weight_hh: Any

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: facula.device | str | int | None = None,
        dtype: facula.dtype | None = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        gates = num_chunks * hidden_size
        shapes = {"weight_ih": (gates, input_size), "weight_hh": (gates, hidden_size)}
        for name, shape in shapes.items():
            setattr(self, name, Parameter(facula.empty(shape, device=device, dtype=dtype)))
        for name in ("bias_ih", "bias_hh"):
            value = facula.empty(gates, device=device, dtype=dtype) if bias else None
            self.register_parameter(name, Parameter(value) if bias else None)
        self.reset_parameters()

    def extra_repr(self) -> str:
        """The parameters that differ from their defaults."""
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        if getattr(self, "nonlinearity", "tanh") != "tanh":
            text += f", nonlinearity={self.nonlinearity}"
        return text

    def reset_parameters(self) -> None:
        """Draw new weights."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _step(self, function: Any, input: facula.Tensor, states: tuple | None, count: int) -> tuple:
        """Run one step with a batch dimension added where there is none."""
        _check_dimensions(type(self).__name__, input, states, count)
        batched = input.dim() == 2
        if not batched:
            input = input.unsqueeze(0)
        if states is None:
            zeros = facula.zeros(
                input.size(0), self.hidden_size, dtype=input.dtype, device=input.device
            )
            states = (zeros,) * count
        elif not batched:
            states = tuple(s.unsqueeze(0) for s in states)
        _check_sizes(self, input, states)
        result = function(
            input,
            states if count > 1 else states[0],
            self.weight_ih,
            self.weight_hh,
            self.bias_ih,
            self.bias_hh,
        )
        result = result if count > 1 else (result,)
        return result if batched else tuple(r.squeeze(0) for r in result)


class RNNCell(RNNCellBase):
    """One step of an Elman network: ``h' = tanh(W_ih x + b_ih + W_hh h + b_hh)``.

    Weights are ``weight_ih``, ``weight_hh``, ``bias_ih`` and ``bias_hh``.

    Args:
        input_size: features of the input
        hidden_size: features of the state
        bias: whether the sums have one
        nonlinearity: 'tanh' or 'relu'
        device, dtype: of the parameters

    Shape:
        input ``[N, input_size]`` or ``[input_size]`` and optionally the state of ``[N,
        hidden_size]`` (zeros if left out), to the next state.

    Example:
        >>> cell = facula.nn.RNNCell(4, 3)
        >>> h = cell(facula.randn(2, 4))
        >>> h.shape
        facula.Size([2, 3])
    """

    __constants__ = ["input_size", "hidden_size", "bias", "nonlinearity"]

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: facula.device | str | int | None = None,
        dtype: facula.dtype | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: facula.Tensor, hx: Any = None) -> Any:
        """``[N, input_size]`` and ``[N, hidden_size]`` to the next state."""
        functions = {"tanh": recurrent.rnn_tanh_cell, "relu": recurrent.rnn_relu_cell}
        if self.nonlinearity not in functions:
            fail(
                RuntimeError,
                type(self).__name__,
                f"Unknown nonlinearity: {self.nonlinearity}",
                hint="'tanh' is the default",
            )
        states = None if hx is None else (hx,)
        return self._step(functions[self.nonlinearity], input, states, 1)[0]


class LSTMCell(RNNCellBase):
    """One step of a long short-term memory; see `LSTM`.

    Weights are ``weight_ih``, ``weight_hh``, ``bias_ih`` and ``bias_hh``.

    Args:
        input_size: features of the input
        hidden_size: features of the state
        bias: whether the sums have one
        device, dtype: of the parameters

    Shape:
        input ``[N, input_size]`` or ``[input_size]`` and optionally the (h, c) of ``[N,
        hidden_size]`` (zeros if left out), to the next (h, c).

    Example:
        >>> cell = facula.nn.LSTMCell(4, 3)
        >>> h, c = cell(facula.randn(2, 4))
        >>> h.shape
        facula.Size([2, 3])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: facula.device | str | int | None = None,
        dtype: facula.dtype | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: facula.Tensor, hx: Any = None) -> tuple[Any, Any]:
        """``[N, input_size]`` and the pair of states to the next pair."""
        states = None if hx is None else tuple(hx)
        h, c = self._step(recurrent.lstm_cell, input, states, 2)
        return h, c


class GRUCell(RNNCellBase):
    """One step of a gated recurrent unit; see `GRU`.

    Weights are ``weight_ih``, ``weight_hh``, ``bias_ih`` and ``bias_hh``.

    Args:
        input_size: features of the input
        hidden_size: features of the state
        bias: whether the sums have one
        device, dtype: of the parameters

    Shape:
        input ``[N, input_size]`` or ``[input_size]`` and optionally the state of ``[N,
        hidden_size]`` (zeros if left out), to the next state.

    Example:
        >>> cell = facula.nn.GRUCell(4, 3)
        >>> h = cell(facula.randn(2, 4))
        >>> h.shape
        facula.Size([2, 3])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: facula.device | str | int | None = None,
        dtype: facula.dtype | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: facula.Tensor, hx: Any = None) -> Any:
        """``[N, input_size]`` and ``[N, hidden_size]`` to the next state."""
        states = None if hx is None else (hx,)
        return self._step(recurrent.gru_cell, input, states, 1)[0]
