"""Recurrent networks over operators: Elman, LSTM and GRU, dense or packed, layers and directions.

Takes inputs, initial states and a flat list of weights (per layer and direction: input, hidden,
their biases, projection).  Gives outputs and final states, with the arguments of PyTorch's `lstm`,
`gru`, `rnn_tanh`, `rnn_relu`. Keeps true: the input part of the gates of all time steps is one
matrix product; a step is one more product and the gate arithmetic, in one operator for all steps of
a dense LSTM layer; gates stand in the order input, forget, cell, output (LSTM) and reset, update,
new (GRU).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import facula
from facula import core
from facula.autograd import autocast
from facula.core.errors import fail
from facula.nn import functional as F
from facula.ops.layers.lstm import FUSED
from facula.ops.table.registry import TABLE


class Weights(NamedTuple):
    """The tensors of one layer in one direction."""

    input: Any
    hidden: Any
    input_bias: Any = None
    hidden_bias: Any = None
    projection: Any = None


def _lstm_input(x: core.Tensor, w: Weights) -> Any:
    bias = None if w.input_bias is None else w.input_bias + w.hidden_bias
    return F.linear(x, w.input, bias)


def _lstm_step(gates: core.Tensor, state: tuple, w: Weights, hidden_t: core.Tensor) -> tuple:
    h, c = state
    gates = facula.addmm(gates, h, hidden_t)
    size = c.size(-1)
    # input and forget gates lie side by side: one sigmoid for both
    both = facula.sigmoid(gates[..., : 2 * size])
    candidate = facula.tanh(gates[..., 2 * size : 3 * size])
    c = facula.addcmul(both[..., size:] * c, both[..., :size], candidate)
    h = facula.sigmoid(gates[..., 3 * size :]) * facula.tanh(c)
    if w.projection is not None:
        h = F.linear(h, w.projection)
    return h, c


def _gru_input(x: core.Tensor, w: Weights) -> Any:
    return F.linear(x, w.input, w.input_bias)


def _gru_step(projected: core.Tensor, state: tuple, w: Weights, hidden_t: core.Tensor) -> tuple:
    (h,) = state
    size = h.size(-1)
    recurrent = h @ hidden_t if w.hidden_bias is None else facula.addmm(w.hidden_bias, h, hidden_t)
    both = facula.sigmoid(projected[..., : 2 * size] + recurrent[..., : 2 * size])
    new = facula.tanh(
        facula.addcmul(projected[..., 2 * size :], both[..., :size], recurrent[..., 2 * size :])
    )
    return (facula.lerp(new, h, both[..., size:]),)


def _tanh_step(projected: core.Tensor, state: tuple, w: Weights, hidden_t: core.Tensor) -> tuple:
    return (facula.tanh(facula.addmm(projected, state[0], hidden_t)),)


def _relu_step(projected: core.Tensor, state: tuple, w: Weights, hidden_t: core.Tensor) -> tuple:
    return (facula.relu(facula.addmm(projected, state[0], hidden_t)),)


class _Cell(NamedTuple):
    input: Callable
    step: Callable
    states: int  # tensors that pass from step to step


CELLS = {
    "LSTM": _Cell(_lstm_input, _lstm_step, 2),
    "GRU": _Cell(_gru_input, _gru_step, 1),
    "RNN_TANH": _Cell(_lstm_input, _tanh_step, 1),
    "RNN_RELU": _Cell(_lstm_input, _relu_step, 1),
}


def _is_fused(cell: _Cell, x: core.Tensor, state: tuple, w: Weights) -> bool:
    """Whether one operator serves all steps of a layer."""
    if cell.step is not _lstm_step or w.projection is not None:
        return False
    tensors = [x, *state, w.input, w.hidden, *(b for b in w[2:4] if b is not None)]
    return x.dtype.code in FUSED and all(t.dtype is x.dtype and t.numel() for t in tensors)


def _scan_dense(
    cell: _Cell, x: core.Tensor, state: tuple, w: Weights, reverse: bool
) -> tuple[Any, tuple]:
    """``x [T, N, features]`` to ``[T, N, hidden]`` and the final state."""
    if _is_fused(cell, x, state, w):
        bias = None if w.input_bias is None else w.input_bias + w.hidden_bias
        out, *state = TABLE["_lstm_layer"](x, *state, w.input, w.hidden, bias, reverse)[:3]
        return out, tuple(state)
    steps = facula.unbind(cell.input(x, w), 0)
    hidden_t = w.hidden.t()
    outputs = []
    for projected in reversed(steps) if reverse else steps:
        state = cell.step(projected, state, w, hidden_t)
        outputs.append(state[0])
    if reverse:
        outputs.reverse()
    return facula.stack(outputs), state


def _scan_packed_forward(
    cell: _Cell, steps: Sequence, sizes: list[int], state: tuple, w: Weights
) -> tuple[list, tuple]:
    """Sequences end in turn, the shortest (last in the batch) first; their final states are set
    aside.
    """
    hidden_t = w.hidden.t()
    outputs, ended = [], []
    active = sizes[0]
    state = tuple(s[:active] for s in state)
    for projected, size in zip(steps, sizes, strict=True):
        if size < active:
            ended.append(tuple(s[size:] for s in state))
            state = tuple(s[:size] for s in state)
            active = size
        state = cell.step(projected, state, w, hidden_t)
        outputs.append(state[0])
    ended.append(state)
    ended.reverse()
    return outputs, tuple(facula.cat(parts) for parts in zip(*ended, strict=True))


def _scan_packed_backward(
    cell: _Cell, steps: Sequence, sizes: list[int], initial: tuple, w: Weights
) -> tuple[list, tuple]:
    """From the last step to the first; sequences join as their last element is reached."""
    hidden_t = w.hidden.t()
    outputs = []
    active = sizes[-1]
    state = tuple(s[:active] for s in initial)
    for projected, size in zip(reversed(steps), reversed(sizes), strict=True):
        if size > active:
            state = tuple(
                facula.cat([s, s0[active:size]]) for s, s0 in zip(state, initial, strict=True)
            )
            active = size
        state = cell.step(projected, state, w, hidden_t)
        outputs.append(state[0])
    outputs.reverse()
    return outputs, state


def _scan_packed(
    cell: _Cell, data: object, sizes: list[int], state: tuple, w: Weights, reverse: bool
) -> tuple[Any, tuple]:
    steps = facula.split(cell.input(data, w), sizes)
    scan = _scan_packed_backward if reverse else _scan_packed_forward
    outputs, final = scan(cell, steps, sizes, state, w)
    return facula.cat(outputs), final


def _group_weights(params: Sequence, has_biases: bool, projected: bool) -> list[Weights]:
    """The flat list by layer and direction."""
    count = 2 + 2 * has_biases + projected
    groups = []
    for start in range(0, len(params), count):
        part = list(params[start : start + count])
        projection = part.pop() if projected else None
        biases = part[2:] if has_biases else [None, None]
        groups.append(Weights(part[0], part[1], biases[0], biases[1], projection))
    return groups


def run(
    mode: str,
    x: core.Tensor,
    sizes: list[int] | None,
    initial: tuple,
    params: Sequence,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
) -> tuple[Any, tuple]:
    """All layers of a network; ``sizes`` are the batch sizes of a packed input, None for ``[T, N,
    features]``.

    ``initial`` holds one ``[layers * directions, N, hidden]`` tensor per state. Autocast lowers a
    whole LSTM, as PyTorch does.
    """
    kind = x.device.type
    if (
        mode == "LSTM"
        and autocast.is_autocast_available(kind)
        and autocast.is_autocast_enabled(kind)
    ):
        lower = autocast.get_autocast_dtype(kind)
        x, initial, params = (
            x.to(lower),
            tuple(s.to(lower) for s in initial),
            [w.to(lower) for w in params],
        )
    cell = CELLS[mode]
    directions = 2 if bidirectional else 1
    per_weight = len(params) // (num_layers * directions)
    groups = _group_weights(params, has_biases, per_weight == 3 + 2 * has_biases)
    finals = []
    for layer in range(num_layers):
        outputs = []
        for direction in range(directions):
            index = layer * directions + direction
            state = tuple(s[index] for s in initial)
            if sizes is None:
                out, final = _scan_dense(cell, x, state, groups[index], direction == 1)
            else:
                out, final = _scan_packed(cell, x, sizes, state, groups[index], direction == 1)
            outputs.append(out)
            finals.append(final)
        x = outputs[0] if directions == 1 else facula.cat(outputs, -1)
        if dropout and train and layer < num_layers - 1:
            x = F.dropout(x, dropout, True)
    return x, tuple(facula.stack(parts) for parts in zip(*finals, strict=True))


_NETWORK_DOC = """What `nn.{layer}` computes, as a function of its weights ({mode}).

Dense: ``(input, state, weights, has_biases, num_layers, dropout, train, bidirectional,
batch_first)``; packed: ``batch_sizes`` stands behind ``input`` (data) and ``batch_first`` is not there.

Args:
    input: ``[T, N, features]``, or the data of a `nn.utils.rnn.PackedSequence`
    *args, **kwargs: the others, in this order

Example:
    >>> layer, state = facula.nn.{layer}(2, 3), facula.zeros(1, 1, 3)
    >>> settings = (list(layer.parameters()), True, 1, 0.0, False, False, False)
    >>> facula.{name}(facula.ones(4, 1, 2), {states}, *settings)[0].shape
    facula.Size([4, 1, 3])
"""


def _entry(mode: str) -> Callable:
    """A function with the two calling forms of PyTorch's: dense, and packed with batch sizes
    second.
    """

    def network(input: core.Tensor, *args: Any, **kwargs: Any) -> tuple:
        packed = isinstance(args[2], bool) is False
        if packed:
            batch_sizes, hx, params, has_biases, layers, dropout, train, bidirectional = args
            sizes, batch_first = batch_sizes.tolist(), False
        else:
            hx, params, has_biases, layers, dropout, train, bidirectional, *rest = args
            sizes, batch_first = None, rest[0] if rest else kwargs.get("batch_first", False)
        if batch_first:
            input = input.transpose(0, 1)
        initial = tuple(hx) if isinstance(hx, (tuple, list)) else (hx,)
        output, finals = run(
            mode, input, sizes, initial, params, has_biases, layers, dropout, train, bidirectional
        )
        return (output.transpose(0, 1) if batch_first else output, *finals)

    network.__name__ = mode.lower()
    network.__doc__ = _NETWORK_DOC.format(
        mode=mode, name=mode.lower(), layer=mode[:3] if mode.startswith("RNN") else mode,
        states="[state, state]" if CELLS[mode].states > 1 else "state",
    )  # fmt: skip
    return network


lstm = _entry("LSTM")
gru = _entry("GRU")
rnn_tanh = _entry("RNN_TANH")
rnn_relu = _entry("RNN_RELU")


def _check_rows(mode: str, name: str, weight: core.Tensor, hidden: int) -> None:
    """Raise unless a weight has a row for each gate of each hidden unit."""
    gates = {"LSTM": 4, "GRU": 3}.get(mode, 1)
    if weight.dim() != 2 or weight.shape[0] != gates * hidden:
        fail(
            RuntimeError,
            mode.lower() + "_cell",
            f"{name} of {gates} * hidden_size = {gates * hidden} rows was required",
            list(weight.shape),
            hint="hidden_size is the number of columns of weight_hh",
        )


_CELL_DOC = """What `nn.{layer}` computes, as a function of its weights ({mode}).

Args:
    input: ``[N, features]`` or ``[features]``
    hx: the state {state}
    w_ih, w_hh: weights of input and state
    b_ih, b_hh: biases; None for none

Raises:
    RuntimeError: a weight has not a row for each gate of each hidden unit.

Example:
    >>> cell, state = facula.nn.{layer}(2, 3), facula.zeros(1, 3)
    >>> {shown} = facula.{name}(facula.ones(1, 2), {state}, *cell.parameters())
    >>> h.shape
    facula.Size([1, 3])
"""


def _cell_entry(mode: str) -> Callable:
    cell = CELLS[mode]

    def single(
        input: core.Tensor,
        hx: Any,
        w_ih: core.Tensor,
        w_hh: core.Tensor,
        b_ih: core.Tensor | None = None,
        b_hh: core.Tensor | None = None,
    ) -> Any:
        weights = Weights(w_ih, w_hh, b_ih, b_hh)
        state = tuple(hx) if cell.states > 1 else (hx,)
        _check_rows(mode, "weight_ih", w_ih, w_hh.shape[1])
        _check_rows(mode, "weight_hh", w_hh, w_hh.shape[1])
        out = cell.step(cell.input(input, weights), state, weights, w_hh.t())
        return out if cell.states > 1 else out[0]

    single.__name__ = mode.lower() + "_cell"
    layer = f"{mode[:3] if mode.startswith('RNN') else mode}Cell"
    state = "(state, state)" if cell.states > 1 else "state"
    shown = "h, c" if cell.states > 1 else "h"
    single.__doc__ = _CELL_DOC.format(
        mode=mode, name=single.__name__, layer=layer, state=state, shown=shown
    )
    return single


lstm_cell = _cell_entry("LSTM")
gru_cell = _cell_entry("GRU")
rnn_tanh_cell = _cell_entry("RNN_TANH")
rnn_relu_cell = _cell_entry("RNN_RELU")
