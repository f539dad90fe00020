"""Packed parameters of recurrent layers, and the layers as functions: `quantized_lstm`, `quantized_gru`, and steps.

Takes: float tensors and, for each layer and direction, the two packed products. Gives: the results of all steps and
the state behind the last. Keeps true: a layer's sums are those of `modules.recurrent`, which calls this.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.table.registry import F, composite
from facula.quantization import linear

__all__ = ["CellParams", "quantized_gru", "quantized_lstm"]


class CellParams:
    """The packed products of one layer in one direction: of the input, and of the state."""

    def __init__(self, w_ih: Any, w_hh: Any, reduce_range: bool = True) -> None:
        self.w_ih, self.w_hh, self.reduce_range = w_ih, w_hh, bool(reduce_range)

    def __iter__(self) -> Iterator[Any]:
        return iter((self.w_ih, self.w_hh))

    def halves(self) -> bool:
        """Whether the weights are floats of 16 bits."""
        return isinstance(self.w_ih, linear.LinearPackedParamsFp16)

    def __deepcopy__(self, memo: Any) -> CellParams:
        # lazily: who copies has imported it, others need not
        import copy

        return CellParams(
            copy.deepcopy(self.w_ih, memo), copy.deepcopy(self.w_hh, memo), self.reduce_range
        )


def state_of(cell: CellParams) -> tuple[Any, ...]:
    """What a file keeps, as PyTorch has it: the kind, biases, no floats, the range's flag, the products."""
    if cell.halves():
        return "quantized_fp16", [], [], [], [cell.w_ih, cell.w_hh]
    biases = [F.zeros((0,)) if p.bias() is None else p.bias() for p in cell]
    return "quantized_dynamic", biases, [], [int(cell.reduce_range)], [cell.w_ih, cell.w_hh]


def cell_of_state(
    kind: str, tensors: list[Any], floats: list[float], numbers: list[int], products: list[Any]
) -> CellParams:
    """The parameters of such a state."""
    counts = {"quantized_dynamic": (2, 1), "quantized_fp16": (0, 0)}.get(kind)
    if len(products) != 2 or (len(tensors), len(numbers)) != counts:
        fail(RuntimeError, "CellParams", "a state of two products was required (quantized_dynamic or quantized_fp16)",
             kind, hint="the file is damaged, or of another version")  # fmt: skip
    return CellParams(products[0], products[1], bool(numbers[0]) if numbers else True)


@composite(
    "quantized::make_quantized_cell_params_dynamic(any w_ih, any w_hh, Tensor bias_ih, Tensor bias_hh, "
    "bool reduce_range=False) -> any", names=(), out=False, keeps=False,
)  # fmt: skip
def make_quantized_cell_params_dynamic(
    w_ih: Any, w_hh: Any, bias_ih: Any, bias_hh: Any, reduce_range: bool
) -> Any:
    """Parameters of a layer of two packed products, which hold their biases."""
    op = "quantized::make_quantized_cell_params_dynamic"
    return CellParams(linear._checked(op, w_ih), linear._checked(op, w_hh), reduce_range)


@composite(
    "quantized::make_quantized_cell_params_fp16(any w_ih, any w_hh) -> any", names=(), out=False, keeps=False
)  # fmt: skip
def make_quantized_cell_params_fp16(w_ih: Any, w_hh: Any) -> Any:
    """Parameters of a layer of two products with weights of 16-bit floats."""
    op = "quantized::make_quantized_cell_params_fp16"
    return CellParams(linear._halves(op, w_ih), linear._halves(op, w_hh))


def product(x: Any, packed: Any, reduce_range: bool = True) -> Any:
    """A product of numbers and a packed weight."""
    if isinstance(packed, linear.LinearPackedParamsFp16):
        return linear.linear_dynamic_fp16(x, packed)
    return linear.linear_dynamic(x, packed, reduce_range)


def step(mode: str, gates_x: Any, hidden: Any, packed: Any, reduce_range: bool = True) -> Any:
    """One step: products of the inputs, the state before, and the state's weight to the state after."""
    if mode == "LSTM":
        h, c = hidden
        i, f, g, o = (gates_x + product(h, packed, reduce_range)).chunk(4, -1)
        c = F.sigmoid(f) * c + F.sigmoid(i) * F.tanh(g)
        return F.sigmoid(o) * F.tanh(c), c
    if mode == "GRU":
        xr, xz, xn = gates_x.chunk(3, -1)
        hr, hz, hn = product(hidden, packed, reduce_range).chunk(3, -1)
        new = F.tanh(xn + F.sigmoid(xr + hr) * hn)
        update = F.sigmoid(xz + hz)
        return (hidden - new) * update + new
    total = gates_x + product(hidden, packed, reduce_range)
    return F.relu(total) if mode == "RNN_RELU" else F.tanh(total)


def direction(mode: str, data: Any, sizes: list[int], state: Any, cell: Any, back: bool) -> Any:
    """All steps of one layer in one direction: the results and the state at the end."""
    first, second = cell
    reduce_range = getattr(cell, "reduce_range", True)
    gates = product(data, first, reduce_range).split(sizes)
    steps = range(len(sizes) - 1, -1, -1) if back else range(len(sizes))
    made: list[Any] = [None] * len(sizes)
    for place in steps:
        count = sizes[place]
        now = tuple(h[:count] for h in state)
        after = step(mode, gates[place], now if len(now) == 2 else now[0], second, reduce_range)
        parts = after if isinstance(after, tuple) else (after,)
        made[place] = parts[0]
        # sequences that have ended (or, backwards, not begun) keep their state
        state = tuple(
            p if count == h.shape[0] else F.cat([p, h[count:]])
            for p, h in zip(parts, state, strict=True)
        )
    return F.cat(made), state


def layers(
    mode: str,
    data: Any,
    sizes: list[int],
    states: Any,
    cells: Any,
    bidirectional: bool,
    dropout: float,
) -> Any:
    """All layers over steps that lie behind each other, the longest sequences first; the states at the end."""
    directions = 2 if bidirectional else 1
    count = len(cells) // directions
    ends: list[Any] = []
    for layer in range(count):
        made = []
        for way in range(directions):
            place = layer * directions + way
            before = tuple(h[place] for h in states)
            y, after = direction(mode, data, sizes, before, cells[place], bool(way))
            made.append(y)
            ends.append(after)
        data = made[0] if directions == 1 else F.cat(made, -1)
        if dropout and layer < count - 1:
            data = F.dropout(data, dropout)
    return data, tuple(F.stack(list(parts)) for parts in zip(*ends, strict=True))


def _of_steps(
    mode: str, x: Any, states: Any, cells: Any, both: bool, drop: float, first: bool
) -> Any:
    x = x.transpose(0, 1) if first else x
    sizes = [x.shape[1]] * x.shape[0]
    data, last = layers(mode, x.reshape(-1, x.shape[-1]), sizes, states, cells, both, drop)
    y = data.reshape(x.shape[0], x.shape[1], -1)
    return (y.transpose(0, 1) if first else y, *last)


def quantized_lstm(
    input: core.Tensor, hx: list[core.Tensor], params: list[Any], has_biases: bool, num_layers: int, dropout: float,
    train: bool, bidirectional: bool, batch_first: bool, *, dtype: Any = None, use_dynamic: bool = False,
) -> Any:  # fmt: skip
    """Results, hidden and cell states of layers with packed products over [steps, batch, features]."""
    drop = dropout if train else 0.0
    return _of_steps("LSTM", input, tuple(hx), params, bidirectional, drop, batch_first)


def quantized_lstm_data(
    data: core.Tensor, batch_sizes: core.Tensor, hx: list[core.Tensor], params: list[Any], has_biases: bool,
    num_layers: int, dropout: float, train: bool, bidirectional: bool, *, dtype: Any = None,
    use_dynamic: bool = False,
) -> Any:  # fmt: skip
    """The same over the steps of a packed sequence."""
    drop = dropout if train else 0.0
    made, last = layers("LSTM", data, batch_sizes.tolist(), tuple(hx), params, bidirectional, drop)
    return (made, *last)


def quantized_gru(
    input: core.Tensor, hx: core.Tensor, params: list[Any], has_biases: bool, num_layers: int, dropout: float,
    train: bool, bidirectional: bool, batch_first: bool,
) -> Any:  # fmt: skip
    """Results and states of gated layers with packed products over [steps, batch, features]."""
    drop = dropout if train else 0.0
    return _of_steps("GRU", input, (hx,), params, bidirectional, drop, batch_first)


def quantized_gru_data(
    data: core.Tensor, batch_sizes: core.Tensor, hx: core.Tensor, params: list[Any], has_biases: bool,
    num_layers: int, dropout: float, train: bool, bidirectional: bool,
) -> Any:  # fmt: skip
    """The same over the steps of a packed sequence."""
    drop = dropout if train else 0.0
    made, last = layers("GRU", data, batch_sizes.tolist(), (hx,), params, bidirectional, drop)
    return (made, *last)


def _define_step(name: str, mode: str) -> None:
    pair = mode == "LSTM"
    hidden, result = ("Tensor[] hx", "(Tensor, Tensor)") if pair else ("Tensor hx", "Tensor")
    schema = (f"quantized::{name}(Tensor input, {hidden}, any w_ih, any w_hh, Tensor? bias_ih, Tensor? bias_hh) "
              f"-> {result}")  # fmt: skip

    def run(input, hx, w_ih, w_hh, bias_ih, bias_hh):  # type: ignore
        return step(mode, product(input, w_ih), tuple(hx) if pair else hx, w_hh)

    run.__doc__ = "One step of a layer with packed products, which hold their biases."
    composite(schema, names=(), out=False, keeps=False)(run)


for _name, _mode in (
    ("lstm", "LSTM"),
    ("gru", "GRU"),
    ("rnn_tanh", "RNN_TANH"),
    ("rnn_relu", "RNN_RELU"),
):
    _define_step(f"quantized_{_name}_cell_dynamic", _mode)
