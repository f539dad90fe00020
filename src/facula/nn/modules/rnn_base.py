"""What the recurrent layers share: weights and their names, checks, dense and packed runs.

Takes the arguments of a layer.  Gives `RNNBase`.
Keeps true: weights are named ``weight_ih_l{k}{_reverse}`` and so on, in PyTorch's order; a packed
input gives a packed output, and states are in the caller's order of sequences.
"""

from __future__ import annotations

import math
import numbers
import warnings
from typing import Any

import facula
from facula.core.errors import fail
from facula.nn import init, recurrent
from facula.nn.modules.module import Module
from facula.nn.parameter import Parameter
from facula.nn.utils.rnn import PackedSequence

_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


def _permute(tensor: Any, permutation: Any, dim: int = 1) -> Any:
    return tensor.index_select(dim, permutation)


class RNNBase(Module):
    """What `RNN`, `LSTM` and `GRU` share: weights, their names and checks of shapes.

    Args:
        mode: 'RNN_TANH', 'RNN_RELU', 'LSTM' or 'GRU'
        input_size: features of the input
        hidden_size: features of the state
        num_layers: how many stand on each other
        bias: whether the sums have one
        batch_first: whether tensors are ``[batch, time, features]`` and not ``[time, batch,
            features]``
        dropout: probability with which outputs of all but the last layer are zeroed in training
        bidirectional: whether a second run goes from the end to the start; outputs have both, one
            behind the other
        proj_size: features to which an LSTM's state is projected; 0 for none
        device, dtype: of the parameters

    Raises:
        ValueError: the mode is unknown, or a size is not positive.

    Example:
        >>> [name for name, _ in facula.nn.RNNBase("GRU", 2, 3).named_parameters()]
        ['weight_ih_l0', 'weight_hh_l0', 'bias_ih_l0', 'bias_hh_l0']
    """

    __constants__ = [
        "mode",
        "input_size",
        "hidden_size",
        "num_layers",
        "bias",
        "batch_first",
        "dropout",
        "bidirectional",
        "proj_size",
    ]
    __jit_unused_properties__ = ["all_weights"]

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._check_arguments(dropout)
        self._flat_weights_names: list[str] = []
        self._all_weights: list[list[str]] = []
        for layer in range(num_layers):
            for direction in range(2 if bidirectional else 1):
                self._make_weights(layer, direction, device, dtype)
        self.reset_parameters()

    def _check_arguments(self, dropout: Any) -> None:
        if (
            not isinstance(dropout, numbers.Number)
            or not 0 <= dropout <= 1  # type: ignore[operator]
            or isinstance(dropout, bool)
        ):
            fail(
                ValueError,
                type(self).__name__,
                (
                    "dropout should be a number in range [0, 1] representing the probability of "
                    "an element being zeroed"
                ),
                hint="dropout=0 drops nothing",
            )
        if self.dropout > 0 and self.num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero "
                "dropout expects "
                f"num_layers greater than 1, but got dropout={self.dropout} and "
                f"num_layers={self.num_layers}",
                stacklevel=4,
            )
        self._check_sizes()
        if self.mode not in _GATES:
            fail(
                ValueError,
                type(self).__name__,
                "Unrecognized RNN mode: " + self.mode,
                hint="use the classes RNN, LSTM and GRU",
            )

    def _check_sizes(self) -> None:
        if not isinstance(self.hidden_size, int):
            fail(
                TypeError,
                type(self).__name__,
                f"hidden_size should be of type int, got: {type(self.hidden_size).__name__}",
                hint="int(hidden_size) converts it",
            )
        if self.hidden_size <= 0:
            fail(
                ValueError,
                type(self).__name__,
                "hidden_size must be greater than zero",
                hint="hidden_size counts the values of the state",
            )
        if self.num_layers <= 0:
            fail(
                ValueError,
                type(self).__name__,
                "num_layers must be greater than zero",
                hint="num_layers=1 is the default",
            )
        if self.proj_size < 0:
            fail(
                ValueError,
                type(self).__name__,
                "proj_size should be a positive integer or zero to disable projections",
                hint="leave proj_size out",
            )
        if self.proj_size >= self.hidden_size:
            fail(
                ValueError,
                type(self).__name__,
                "proj_size has to be smaller than hidden_size",
                hint="leave proj_size out for outputs of hidden_size",
            )

    def _make_weights(self, layer: int, direction: int, device: Any, dtype: Any) -> None:
        directions = 2 if self.bidirectional else 1
        state_size = self.proj_size if self.proj_size > 0 else self.hidden_size
        inputs = self.input_size if layer == 0 else state_size * directions
        gates = _GATES[self.mode] * self.hidden_size
        shapes = {"weight_ih": (gates, inputs), "weight_hh": (gates, state_size)}
        if self.bias:
            shapes |= {"bias_ih": (gates,), "bias_hh": (gates,)}  # type: ignore[dict-item]
        if self.proj_size > 0:
            shapes["weight_hr"] = (self.proj_size, self.hidden_size)
        suffix = f"_l{layer}{'_reverse' if direction else ''}"
        names = [name + suffix for name in shapes]
        for name, shape in zip(names, shapes.values(), strict=True):
            setattr(self, name, Parameter(facula.empty(shape, device=device, dtype=dtype)))
        self._flat_weights_names.extend(names)
        self._all_weights.append(names)

    @property
    def _flat_weights(self) -> list[Any]:
        return [getattr(self, name, None) for name in self._flat_weights_names]

    @property
    def all_weights(self) -> list[list[Any]]:
        """The weights by layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def flatten_parameters(self) -> None:
        """Nothing to do: weights need not lie in one block here."""

    def reset_parameters(self) -> None:
        """Draw new weights."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def check_input(self, input: facula.Tensor, batch_sizes: Any) -> None:
        """Raises unless the input has the right number of dimensions and features."""
        if (
            not facula.is_autocast_enabled(input.device.type)
            and input.dtype != self.weight_ih_l0.dtype
        ):
            fail(
                ValueError,
                type(self).__name__,
                (
                    f"RNN input dtype ({input.dtype}) does not match weight dtype ({self.weight_ih_l0.dtype}). "
                    f"Convert input: input.to({self.weight_ih_l0.dtype}), or convert model: "
                    f"model.to({input.dtype})"
                ),
                hint="model.half(), model.float() and their kin convert all weights",
            )
        expected = 2 if batch_sizes is not None else 3
        if input.dim() != expected:
            fail(
                RuntimeError,
                type(self).__name__,
                f"input must have {expected} dimensions, got {input.dim()}",
                hint="facula.nn.utils.rnn.pack_padded_sequence() makes packed ones",
            )
        if self.input_size != input.size(-1):
            fail(
                RuntimeError,
                type(self).__name__,
                (
                    f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got "
                    f"{input.size(-1)}"
                ),
                hint=(
                    "batch_first=True takes (batch, time, values); values are the last dimension "
                    "in any case"
                ),
            )

    def get_expected_hidden_size(self, input: Any, batch_sizes: Any) -> tuple[int, int, int]:
        """(layers * directions, batch, state size)."""
        if batch_sizes is not None:
            batch = int(batch_sizes[0])
        else:
            batch = input.size(0) if self.batch_first else input.size(1)
        directions = 2 if self.bidirectional else 1
        state_size = self.proj_size if self.proj_size > 0 else self.hidden_size
        return self.num_layers * directions, batch, state_size

    def check_hidden_size(
        self,
        hx: facula.Tensor,
        expected_hidden_size: tuple[int, int, int],
        msg: str = "Expected hidden size {}, got {}",
    ) -> None:
        """Raises unless a state has the expected shape."""
        if tuple(hx.size()) != tuple(expected_hidden_size):
            fail(
                RuntimeError,
                type(self).__name__,
                msg.format(expected_hidden_size, list(hx.size())),
                hint="leave it out to start from zeros",
            )

    def check_forward_args(self, input: Any, hidden: Any, batch_sizes: Any) -> None:
        """Raises unless input and state fit the layer."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx: Any, permutation: Any) -> Any:
        """The states in another order of sequences."""
        return hx if permutation is None else _permute(hx, permutation)

    def extra_repr(self) -> str:
        """The parameters that differ from their defaults."""
        parts = [f"{self.input_size}, {self.hidden_size}"]
        if self.proj_size != 0:
            parts.append(f"proj_size={self.proj_size}")
        if self.num_layers != 1:
            parts.append(f"num_layers={self.num_layers}")
        if self.bias is not True:
            parts.append(f"bias={self.bias}")
        if self.batch_first is not False:
            parts.append(f"batch_first={self.batch_first}")
        if self.dropout != 0:
            parts.append(f"dropout={self.dropout}")
        if self.bidirectional is not False:
            parts.append(f"bidirectional={self.bidirectional}")
        return ", ".join(parts)

    def __setstate__(self, state: dict) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("proj_size", 0)
        if "all_weights" in state:  # older pickles keep the names under this key
            self._all_weights = self.__dict__.pop("all_weights")
        if self._all_weights and not isinstance(self._all_weights[0][0], str):
            self._all_weights = [[f"{n}" for n in names] for names in self._all_weights]
        self.__dict__.pop("_flat_weights", None)
        self.__dict__.pop("_flat_weight_refs", None)
        self._flat_weights_names = [name for names in self._all_weights for name in names]

    def _initial_states(self, input: facula.Tensor, sizes: Any) -> tuple:
        layers, batch, state_size = self.get_expected_hidden_size(input, sizes)
        states = [facula.zeros(layers, batch, state_size, dtype=input.dtype, device=input.device)]
        if self.mode == "LSTM":
            shape = (layers, batch, self.hidden_size)
            states.append(facula.zeros(shape, dtype=input.dtype, device=input.device))
        return tuple(states)

    def _run(self, input: facula.Tensor, batch_sizes: Any, states: tuple) -> tuple[Any, tuple]:
        transpose = self.batch_first and batch_sizes is None
        out, finals = recurrent.run(
            self.mode,
            input.transpose(0, 1) if transpose else input,
            None if batch_sizes is None else batch_sizes.tolist(),
            states,
            self._flat_weights,
            self.bias,
            self.num_layers,
            self.dropout,
            self.training,
            self.bidirectional,
        )
        return out.transpose(0, 1) if transpose else out, finals

    def _check_states(self, input: facula.Tensor, states: tuple, batch_sizes: Any) -> None:
        self.check_forward_args(input, states if self.mode == "LSTM" else states[0], batch_sizes)

    def _state_dims(self, states: tuple, expected: int) -> None:
        for state in states:
            if state.dim() != expected:
                kind = "batched 3-D" if expected == 3 else "unbatched 2-D"
                fail(
                    RuntimeError,
                    type(self).__name__,
                    (
                        f"For {kind} input, hx should also be {expected}-D but got {state.dim()}-D "
                        "tensor"
                    ),
                    hint="leave hx out to start from zeros",
                )

    def _forward_packed(self, packed: PackedSequence, states: tuple | None) -> tuple[Any, tuple]:
        data, sizes, sorted_indices, unsorted_indices = packed
        if states is None:
            states = self._initial_states(data, sizes)
        else:
            states = tuple(self.permute_hidden(s, sorted_indices) for s in states)
        self._check_states(data, states, sizes)
        out, finals = self._run(data, sizes, states)
        result = PackedSequence(out, sizes, sorted_indices, unsorted_indices)
        return result, tuple(self.permute_hidden(s, unsorted_indices) for s in finals)

    def _forward_dense(self, input: facula.Tensor, states: tuple | None) -> tuple[Any, tuple]:
        if input.dim() not in (2, 3):
            fail(
                ValueError,
                type(self).__name__,
                (
                    f"{type(self).__name__}: Expected input to be 2D or 3D, got {input.dim()}D "
                    "instead"
                ),
                hint="flatten() or unsqueeze() to (time, batch, values)",
            )
        batched = input.dim() == 3
        if states is not None:
            self._state_dims(states, 3 if batched else 2)
        if not batched:
            input = input.unsqueeze(0 if self.batch_first else 1)
            states = None if states is None else tuple(s.unsqueeze(1) for s in states)
        if states is None:
            states = self._initial_states(input, None)
        self._check_states(input, states, None)
        out, finals = self._run(input, None, states)
        if not batched:
            out = out.squeeze(0 if self.batch_first else 1)
            finals = tuple(s.squeeze(1) for s in finals)
        return out, finals

    def forward(self, input: facula.Tensor, hx: Any = None) -> Any:
        """Outputs of all steps, and the final state."""
        states = None if hx is None else (hx,)
        run = self._forward_packed if isinstance(input, PackedSequence) else self._forward_dense
        output, finals = run(input, states)
        return output, finals[0]
