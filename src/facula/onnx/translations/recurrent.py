"""Layers over the steps of a sequence.

Takes and gives what `onnx.table` says.
Keeps true: one layer and direction is one node; other cells are written step by step, as they run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from facula import core
from facula.fx.symbols import plain
from facula.onnx.table import Call, translation

if TYPE_CHECKING:
    from facula.onnx.graph import Value


def _gates(call: Call, weight: Value, size: int) -> Any:
    """Rows for the input, forget, cell and output gates in ONNX's order, with a direction in front."""
    order = [0, 3, 1, 2]
    places = [n * size + i for n in order for i in range(size)]
    rows = call.op("Gather", weight, core.tensor(places, dtype=core.int64), axis=0)
    return call.op("Unsqueeze", rows, [0])


@translation("_lstm_layer")
def lstm_layer(
    call: Call, x: Value, h0: Any, c0: Any, w_input: Any, w_hidden: Any, bias: Any, reverse: bool
) -> Any:
    """Hidden states of all steps, and the last state."""
    size = plain(h0.shape[1])
    bias_row = None
    if bias is not None:
        zeros = core.tensor([[0.0] * (4 * size)], dtype=x.dtype)
        bias_row = call.op("Concat", _gates(call, bias, size), zeros, axis=1)
    y, h, c = call.op(
        "LSTM", x, _gates(call, w_input, size), _gates(call, w_hidden, size), bias_row, None,
        call.op("Unsqueeze", h0, [0]), call.op("Unsqueeze", c0, [0]), outputs=3, hidden_size=size,
        direction="reverse" if reverse else "forward",
    )  # fmt: skip
    return [call.op("Squeeze", y, [1]), *(call.op("Squeeze", s, [0]) for s in (h, c))]
