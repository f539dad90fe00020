"""`forward` of the library's layers as scripted code: what their own source says in Python that is no
TorchScript.

Takes nothing. Gives `STOCK`: a class of modules, and the function that stands for its `forward`; `STOCK_PACKED`, for
packed sequences.
Keeps true: each gives the numbers of the class's own `forward`, and uses operators that PyTorch has.
"""

from __future__ import annotations

from typing import Any  # noqa: UP035

import facula
from facula import Tensor, nn
from facula.nn import functional as F
from facula.nn.utils.rnn import PackedSequence

__all__ = ["STOCK", "STOCK_CONSTANTS", "STOCK_PACKED"]

#: attributes that the functions below read as constants
STOCK_CONSTANTS = (
    "stride", "padding", "dilation", "groups", "padding_mode", "momentum", "eps", "track_running_stats",
    "mode", "num_layers", "batch_first", "dropout", "bidirectional", "hidden_size", "proj_size",
    "_flat_weights_names", "kernel_size", "ceil_mode", "return_indices", "inplace", "p", "negative_slope",
    "has_biases", "_reversed_padding_repeated_twice", "output_padding", "input_size",
    "num_heads", "add_zero_attn", "nonlinearity",
)  # fmt: skip


def _conv1d(self: Any, input: Tensor) -> Tensor:
    if self.padding_mode != "zeros":
        wide = F.pad(input, self._reversed_padding_repeated_twice, self.padding_mode)
        return facula.conv1d(
            wide, self.weight, self.bias, self.stride, (0,), self.dilation, self.groups
        )
    return facula.conv1d(
        input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups
    )


def _conv2d(self: Any, input: Tensor) -> Tensor:
    if self.padding_mode != "zeros":
        wide = F.pad(input, self._reversed_padding_repeated_twice, self.padding_mode)
        return facula.conv2d(
            wide, self.weight, self.bias, self.stride, (0, 0), self.dilation, self.groups
        )
    return facula.conv2d(
        input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups
    )


def _conv3d(self: Any, input: Tensor) -> Tensor:
    if self.padding_mode != "zeros":
        wide = F.pad(input, self._reversed_padding_repeated_twice, self.padding_mode)
        return facula.conv3d(
            wide, self.weight, self.bias, self.stride, (0, 0, 0), self.dilation, self.groups
        )
    return facula.conv3d(
        input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups
    )


def _batch_norm(self: Any, input: Tensor) -> Tensor:
    factor = 0.0
    if self.momentum is not None:
        factor = self.momentum
    if self.training and self.track_running_stats:
        counted = self.num_batches_tracked
        if counted is not None:
            counted.add_(1)
            if self.momentum is None:
                factor = 1.0 / float(counted)
    if self.track_running_stats:
        return facula.batch_norm(
            input, self.weight, self.bias, self.running_mean, self.running_var, self.training, factor, self.eps,
            True,
        )  # fmt: skip
    return facula.batch_norm(
        input, self.weight, self.bias, None, None, True, factor, self.eps, True
    )


def _instance_norm(self: Any, input: Tensor) -> Tensor:
    factor = 0.0
    if self.momentum is not None:
        factor = self.momentum
    single = input.dim() == self._get_no_batch_dim()
    if single:
        input = input.unsqueeze(0)
    if input.dim() != self._get_no_batch_dim() + 1:
        raise ValueError(
            "[InstanceNorm] an input of channels and as many dimensions as the norm has was required\n"
            "hint: InstanceNorm2d takes [N, C, H, W] or [C, H, W]"
        )
    made = facula.instance_norm(
        input, self.weight, self.bias, self.running_mean, self.running_var,
        self.training or not self.track_running_stats, factor, self.eps, True,
    )  # fmt: skip
    return made.squeeze(0) if single else made


def _lstm(
    self: Any, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    batched = input.dim() == 3
    if not batched:
        input = input.unsqueeze(0 if self.batch_first else 1)
    rows = self.num_layers * (2 if self.bidirectional else 1)
    if hx is None:
        count = input.size(0) if self.batch_first else input.size(1)
        width = self.proj_size if self.proj_size > 0 else self.hidden_size
        h = facula.zeros([rows, count, width], dtype=input.dtype, device=input.device)
        c = facula.zeros([rows, count, self.hidden_size], dtype=input.dtype, device=input.device)
        states = [h, c]
    elif batched:
        states = [hx[0], hx[1]]
    else:
        states = [hx[0].unsqueeze(1), hx[1].unsqueeze(1)]
    weights = [getattr(self, name) for name in self._flat_weights_names]
    out, h_n, c_n = facula.lstm(
        input, states, weights, self.bias, self.num_layers, self.dropout, self.training, self.bidirectional,
        self.batch_first,
    )  # fmt: skip
    if not batched:
        return out.squeeze(0 if self.batch_first else 1), (h_n.squeeze(1), c_n.squeeze(1))
    return out, (h_n, c_n)


def _gru(self: Any, input: Tensor, hx: Tensor | None = None) -> tuple[Tensor, Tensor]:
    batched = input.dim() == 3
    if not batched:
        input = input.unsqueeze(0 if self.batch_first else 1)
    if hx is None:
        rows = self.num_layers * (2 if self.bidirectional else 1)
        count = input.size(0) if self.batch_first else input.size(1)
        state = facula.zeros(
            [rows, count, self.hidden_size], dtype=input.dtype, device=input.device
        )
    else:
        state = hx if batched else hx.unsqueeze(1)
    weights = [getattr(self, name) for name in self._flat_weights_names]
    if self.mode == "GRU":
        out, h = facula.gru(
            input, state, weights, self.bias, self.num_layers, self.dropout, self.training,
            self.bidirectional, self.batch_first,
        )  # fmt: skip
    elif self.mode == "RNN_TANH":
        out, h = facula.rnn_tanh(
            input, state, weights, self.bias, self.num_layers, self.dropout, self.training,
            self.bidirectional, self.batch_first,
        )  # fmt: skip
    else:
        out, h = facula.rnn_relu(
            input, state, weights, self.bias, self.num_layers, self.dropout, self.training,
            self.bidirectional, self.batch_first,
        )  # fmt: skip
    if not batched:
        return out.squeeze(0 if self.batch_first else 1), h.squeeze(1)
    return out, h


def _lstm_packed(
    self: Any, input: PackedSequence, hx: tuple[Tensor, Tensor] | None = None
) -> tuple[PackedSequence, tuple[Tensor, Tensor]]:
    data, batch_sizes, order, back = input
    if hx is None:
        rows = self.num_layers * (2 if self.bidirectional else 1)
        count = int(batch_sizes[0])
        width = self.proj_size if self.proj_size > 0 else self.hidden_size
        h = facula.zeros([rows, count, width], dtype=data.dtype, device=data.device)
        c = facula.zeros([rows, count, self.hidden_size], dtype=data.dtype, device=data.device)
        states = [h, c]
    elif order is not None:
        states = [hx[0].index_select(1, order), hx[1].index_select(1, order)]
    else:
        states = [hx[0], hx[1]]
    weights = [getattr(self, name) for name in self._flat_weights_names]
    out, h_n, c_n = facula.lstm(
        data, batch_sizes, states, weights, self.bias, self.num_layers, self.dropout, self.training,
        self.bidirectional,
    )  # fmt: skip
    if back is not None:
        h_n, c_n = h_n.index_select(1, back), c_n.index_select(1, back)
    return PackedSequence(out, batch_sizes, order, back), (h_n, c_n)


def _gru_packed(
    self: Any, input: PackedSequence, hx: Tensor | None = None
) -> tuple[PackedSequence, Tensor]:
    data, batch_sizes, order, back = input
    if hx is None:
        rows = self.num_layers * (2 if self.bidirectional else 1)
        count = int(batch_sizes[0])
        state = facula.zeros([rows, count, self.hidden_size], dtype=data.dtype, device=data.device)
    elif order is not None:
        state = hx.index_select(1, order)
    else:
        state = hx
    weights = [getattr(self, name) for name in self._flat_weights_names]
    if self.mode == "GRU":
        out, h = facula.gru(
            data, batch_sizes, state, weights, self.bias, self.num_layers, self.dropout, self.training,
            self.bidirectional,
        )  # fmt: skip
    elif self.mode == "RNN_TANH":
        out, h = facula.rnn_tanh(
            data, batch_sizes, state, weights, self.bias, self.num_layers, self.dropout, self.training,
            self.bidirectional,
        )  # fmt: skip
    else:
        out, h = facula.rnn_relu(
            data, batch_sizes, state, weights, self.bias, self.num_layers, self.dropout, self.training,
            self.bidirectional,
        )  # fmt: skip
    if back is not None:
        h = h.index_select(1, back)
    return PackedSequence(out, batch_sizes, order, back), h


#: what stands for `forward` where the input is a packed sequence
STOCK_PACKED: dict[Any, Any] = {nn.LSTM: _lstm_packed, nn.GRU: _gru_packed, nn.RNN: _gru_packed}
STOCK: dict[Any, Any] = {
    nn.Conv1d: _conv1d, nn.Conv2d: _conv2d, nn.Conv3d: _conv3d, nn.BatchNorm1d: _batch_norm,
    nn.BatchNorm2d: _batch_norm, nn.BatchNorm3d: _batch_norm, nn.LSTM: _lstm, nn.GRU: _gru, nn.RNN: _gru,
    nn.InstanceNorm1d: _instance_norm,
}  # fmt: skip
