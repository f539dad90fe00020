"""Conformer: attention over the whole sound and convolutions of its neighbourhood. [Gulati et al. 2020]

Takes: features `[batch, time, width]` and lengths. Gives: features of the same shape.
Keeps true: what lies behind a sound's length is not attended to; names of parameters are torchaudio's.
"""

from __future__ import annotations

from facula import core, nn
from facula.core.errors import fail
from facula.ops.table.registry import F

__all__ = ["Conformer"]

Tensor = core.Tensor


def behind(lengths: Tensor, time: int) -> Tensor:
    """Where a batch has ended: true behind each length, `[batch, time]`."""
    return F.arange(time, device=lengths.device) >= lengths.unsqueeze(1)


class _FeedForward(nn.Module):
    def __init__(self, width: int, inner: int, dropout: float) -> None:
        super().__init__()
        self.sequential = nn.Sequential(
            nn.LayerNorm(width),
            nn.Linear(width, inner),
            nn.SiLU(),
            nn.Dropout(dropout),
            nn.Linear(inner, width),
            nn.Dropout(dropout),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.sequential(x)


class _Convolution(nn.Module):
    """A gate, a convolution of each channel on its own, and a mixture of channels."""

    def __init__(self, width: int, kernel: int, dropout: float, group_norm: bool) -> None:
        super().__init__()
        self.layer_norm = nn.LayerNorm(width)
        self.sequential = nn.Sequential(
            nn.Conv1d(width, 2 * width, 1),
            nn.GLU(dim=1),
            nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width),
            nn.GroupNorm(1, width) if group_norm else nn.BatchNorm1d(width),
            nn.SiLU(),
            nn.Conv1d(width, width, 1),
            nn.Dropout(dropout),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.sequential(self.layer_norm(x).transpose(1, 2)).transpose(1, 2)


class _Layer(nn.Module):
    def __init__(
        self,
        width: int,
        heads: int,
        inner: int,
        kernel: int,
        dropout: float,
        group_norm: bool,
        convolution_first: bool,
    ) -> None:
        super().__init__()
        self.ffn1 = _FeedForward(width, inner, dropout)
        self.self_attn_layer_norm = nn.LayerNorm(width)
        self.self_attn = nn.MultiheadAttention(width, heads, dropout=dropout, batch_first=True)
        self.self_attn_dropout = nn.Dropout(dropout)
        self.conv_module = _Convolution(width, kernel, dropout, group_norm)
        self.ffn2 = _FeedForward(width, inner, dropout)
        self.final_layer_norm = nn.LayerNorm(width)
        self.convolution_first = convolution_first

    def _attend(self, x: Tensor, ended: Tensor) -> Tensor:
        y = self.self_attn_layer_norm(x)
        y, _ = self.self_attn(y, y, y, key_padding_mask=ended, need_weights=False)
        return x + self.self_attn_dropout(y)

    def forward(self, x: Tensor, ended: Tensor) -> Tensor:
        x = x + 0.5 * self.ffn1(x)
        if self.convolution_first:
            x = x + self.conv_module(x)
        x = self._attend(x, ended)
        if not self.convolution_first:
            x = x + self.conv_module(x)
        return self.final_layer_norm(x + 0.5 * self.ffn2(x))


class Conformer(nn.Module):
    """Layers of attention and convolution between two halves of a feed-forward network.

    Args:
        input_dim: width of the features
        num_heads: heads of attention
        ffn_dim: inner width of the feed-forward networks
        num_layers: how many layers
        depthwise_conv_kernel_size: odd; the neighbourhood of a convolution
        dropout: probability
        use_group_norm: `GroupNorm` of one group in the place of `BatchNorm1d`
        convolution_first: convolution before attention, not behind it

    Shape:
        - input: `[batch, time, input_dim]`, and lengths `[batch]`
        - output: the same two; frames behind a length hold nothing of meaning

    Raises:
        ValueError: the kernel size is even.

    Example:
        >>> model = facula.audio.models.Conformer(8, 2, 16, 1, depthwise_conv_kernel_size=3)
        >>> features, lengths = model(facula.randn(2, 5, 8), facula.tensor([5, 3]))
        >>> features.shape
        facula.Size([2, 5, 8])
    """

    def __init__(
        self,
        input_dim: int,
        num_heads: int,
        ffn_dim: int,
        num_layers: int,
        depthwise_conv_kernel_size: int,
        dropout: float = 0.0,
        use_group_norm: bool = False,
        convolution_first: bool = False,
    ) -> None:
        super().__init__()
        if depthwise_conv_kernel_size % 2 == 0:
            fail(
                ValueError,
                "Conformer",
                "an odd depthwise_conv_kernel_size was required, so that a sound keeps its length",
                got=str(depthwise_conv_kernel_size),
                hint="31 is usual",
            )
        self.conformer_layers = nn.ModuleList(
            _Layer(
                input_dim,
                num_heads,
                ffn_dim,
                depthwise_conv_kernel_size,
                dropout,
                use_group_norm,
                convolution_first,
            )
            for _ in range(num_layers)
        )

    def forward(self, input: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Features and their lengths."""
        ended = behind(lengths, input.shape[1])
        for layer in self.conformer_layers:
            input = layer(input, ended)
        return input, lengths
