"""wav2vec 2.0: convolutions over samples, then a transformer over their frames. [Baevski et al. 2020]

Takes: samples `[batch, time]`, and lengths where they differ. Gives: features of frames, or what a last layer
makes of them.
Keeps true: frames behind a length are zero and not attended to; names of parameters are torchaudio's.
"""

from __future__ import annotations

from collections.abc import Sequence

from facula import core, nn
from facula.core.errors import fail
from facula.nn.utils.parametrizations import weight_norm
from facula.ops.table.registry import F

from .conformer import behind

__all__ = [
    "Wav2Vec2Model",
    "wav2vec2_base",
    "wav2vec2_large",
    "wav2vec2_large_lv60k",
    "wav2vec2_model",
]

Tensor = core.Tensor
#: channels, kernel and stride of each convolution: 320 samples become one frame
_USUAL_CONVOLUTIONS = [(512, 10, 5), *[(512, 3, 2)] * 4, *[(512, 2, 2)] * 2]
#: what is added to the scores of frames that are not there
_UNATTENDED = -10000.0


class _ConvLayer(nn.Module):
    def __init__(
        self, inputs: int, outputs: int, kernel: int, stride: int, bias: bool, norm: str | None
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride = kernel, stride
        self.layer_norm: nn.Module | None = None
        if norm is not None:
            by_group = norm == "group_norm"
            self.layer_norm = nn.GroupNorm(outputs, outputs) if by_group else nn.LayerNorm(outputs)
        self.conv = nn.Conv1d(inputs, outputs, kernel, stride, bias=bias)

    def forward(self, x: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor | None]:
        x = self.conv(x)
        if isinstance(self.layer_norm, nn.LayerNorm):
            x = self.layer_norm(x.transpose(1, 2)).transpose(1, 2)
        elif self.layer_norm is not None:
            x = self.layer_norm(x)
        if lengths is not None:
            frames = F.div(lengths - self.kernel_size, self.stride, rounding_mode="floor") + 1
            lengths = frames.clamp(min=0)
        return F.gelu(x), lengths


class _FeatureExtractor(nn.Module):
    def __init__(self, mode: str, convolutions: Sequence[tuple[int, int, int]], bias: bool) -> None:
        super().__init__()
        if mode not in ("group_norm", "layer_norm"):
            fail(
                ValueError,
                "wav2vec2_model",
                "'group_norm' or 'layer_norm' was required as extractor_mode",
                got=repr(mode),
                hint="the base model has 'group_norm'",
            )
        inputs = [1, *(outputs for outputs, _, _ in convolutions)]
        norms = [mode if i == 0 or mode == "layer_norm" else None for i in range(len(convolutions))]
        self.conv_layers = nn.ModuleList(
            _ConvLayer(before, *shape, bias, norm)
            for before, shape, norm in zip(inputs, convolutions, norms, strict=False)
        )

    def forward(self, x: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor | None]:
        if x.dim() != 2:
            fail(
                ValueError,
                "Wav2Vec2Model",
                "samples [batch, time] were required",
                got=str(tuple(x.shape)),
                hint="one channel a sound: unsqueeze(0) makes a batch of one",
            )
        x = x.unsqueeze(1)
        for layer in self.conv_layers:
            x, lengths = layer(x, lengths)
        return x.transpose(1, 2), lengths


class _FeatureProjection(nn.Module):
    def __init__(self, inputs: int, width: int, dropout: float) -> None:
        super().__init__()
        self.layer_norm = nn.LayerNorm(inputs)
        self.projection = nn.Linear(inputs, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(self.projection(self.layer_norm(x)))


class _Positions(nn.Module):
    """Where a frame is, told by a convolution of its neighbourhood."""

    def __init__(self, width: int, kernel: int, groups: int) -> None:
        super().__init__()
        conv = nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=groups)
        nn.init.normal_(conv.weight, std=(4.0 / (width * kernel)) ** 0.5)
        nn.init.zeros_(conv.bias)
        self.conv = weight_norm(conv, dim=2)
        self.superfluous = 1 - kernel % 2  # frames too many, of an even kernel

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x.transpose(1, 2))
        return F.gelu(y.narrow(2, 0, y.shape[2] - self.superfluous)).transpose(1, 2)


class _Attention(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        if width % heads:
            fail(
                ValueError,
                "wav2vec2_model",
                f"a width that {heads} heads divide was required",
                got=str(width),
                hint="each head has an equal part of the width",
            )
        self.heads, self.dropout = heads, dropout
        self.k_proj, self.v_proj = nn.Linear(width, width), nn.Linear(width, width)
        self.q_proj, self.out_proj = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        q, k, v = (
            project(x).unflatten(2, (self.heads, -1)).transpose(1, 2)
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        dropped = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropped)
        return self.out_proj(y.transpose(1, 2).flatten(2))


class _FeedForward(nn.Module):
    def __init__(self, width: int, inner: int, inner_dropout: float, dropout: float) -> None:
        super().__init__()
        self.intermediate_dense = nn.Linear(width, inner)
        self.intermediate_dropout = nn.Dropout(inner_dropout)
        self.output_dense = nn.Linear(inner, width)
        self.output_dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        y = self.intermediate_dropout(F.gelu(self.intermediate_dense(x)))
        return self.output_dropout(self.output_dense(y))


class _Layer(nn.Module):
    def __init__(
        self, attention: _Attention, feed_forward: _FeedForward, dropout: float, norm_first: bool
    ) -> None:
        super().__init__()
        width = attention.q_proj.in_features
        self.attention = attention
        self.dropout = nn.Dropout(dropout)
        self.layer_norm = nn.LayerNorm(width)
        self.feed_forward = feed_forward
        self.final_layer_norm = nn.LayerNorm(width)
        self.norm_first = norm_first

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        if self.norm_first:
            x = x + self.dropout(self.attention(self.layer_norm(x), mask))
            return x + self.feed_forward(self.final_layer_norm(x))
        x = self.layer_norm(x + self.dropout(self.attention(x, mask)))
        return self.final_layer_norm(x + self.feed_forward(x))


class _Transformer(nn.Module):
    def __init__(
        self,
        pos_conv_embed: _Positions,
        layers: nn.ModuleList,
        width: int,
        dropout: float,
        layer_drop: float,
        norm_first: bool,
    ) -> None:
        super().__init__()
        self.pos_conv_embed = pos_conv_embed
        self.layer_norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)
        self.layers = layers
        self.layer_drop, self.norm_first = layer_drop, norm_first

    def each(self, x: Tensor, mask: Tensor | None, count: int | None) -> list[Tensor]:
        """What each layer gives, of the first `count`."""
        x = x + self.pos_conv_embed(x)
        # layers that begin with a norm need one behind the last; the others want their input to have one
        x = self.dropout(x if self.norm_first else self.layer_norm(x))
        found = []
        for layer in list(self.layers)[:count]:
            if not (self.training and F.rand(()).item() <= self.layer_drop):
                x = layer(x, mask)
            found.append(x)
        return found

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        x = self.each(x, mask, None)[-1]
        return self.layer_norm(x) if self.norm_first else x


class _Encoder(nn.Module):
    def __init__(self, feature_projection: _FeatureProjection, transformer: _Transformer) -> None:
        super().__init__()
        self.feature_projection = feature_projection
        self.transformer = transformer

    def prepared(self, x: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Projected frames, zero behind each length, and what is added to scores."""
        x = self.feature_projection(x)
        if lengths is None:
            return x, None
        ended = behind(lengths, x.shape[1])
        mask = (_UNATTENDED * ended.to(x.dtype))[:, None, None]
        return x.masked_fill(ended.unsqueeze(2), 0.0), mask

    def forward(self, x: Tensor, lengths: Tensor | None) -> Tensor:
        return self.transformer(*self.prepared(x, lengths))


class Wav2Vec2Model(nn.Module):
    """Features of speech; `wav2vec2_model` and its kin make one.

    Args:
        feature_extractor: frames of samples
        encoder: features of frames
        aux: a last layer, such as letters of a text; None for none

    Shape:
        - samples: `[batch, time]`, and lengths `[batch]` or None
        - output: `[batch, frames, width]`, and the lengths in frames or None

    Example:
        >>> model = facula.audio.models.wav2vec2_base(aux_num_out=29).eval()
        >>> with facula.no_grad():
        ...     letters, _ = model(facula.randn(1, 1600))
        >>> letters.shape
        facula.Size([1, 4, 29])
    """

    def __init__(
        self, feature_extractor: nn.Module, encoder: nn.Module, aux: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.feature_extractor = feature_extractor
        self.encoder = encoder
        self.aux = aux

    def extract_features(
        self, waveforms: Tensor, lengths: Tensor | None = None, num_layers: int | None = None
    ) -> tuple[list[Tensor], Tensor | None]:
        """What each layer of the transformer gives.

        Args:
            waveforms: samples `[batch, time]`
            lengths: of the sounds; None where all fill the batch
            num_layers: how many layers; None for all

        Raises:
            ValueError: there are not so many layers.
        """
        transformer = self.encoder.transformer
        if num_layers is not None and not 0 < num_layers <= len(transformer.layers):
            fail(
                ValueError,
                "extract_features",
                f"num_layers between 1 and {len(transformer.layers)} was required",
                got=str(num_layers),
                hint="None gives all layers",
            )
        x, lengths = self.feature_extractor(waveforms, lengths)
        return transformer.each(*self.encoder.prepared(x, lengths), num_layers), lengths

    def forward(
        self, waveforms: Tensor, lengths: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Features, or what the last layer makes of them, and lengths in frames."""
        x, lengths = self.feature_extractor(waveforms, lengths)
        x = self.encoder(x, lengths)
        return x if self.aux is None else self.aux(x), lengths


def wav2vec2_model(
    extractor_mode: str,
    extractor_conv_layer_config: list[tuple[int, int, int]] | None,
    extractor_conv_bias: bool,
    encoder_embed_dim: int,
    encoder_projection_dropout: float,
    encoder_pos_conv_kernel: int,
    encoder_pos_conv_groups: int,
    encoder_num_layers: int,
    encoder_num_heads: int,
    encoder_attention_dropout: float,
    encoder_ff_interm_features: int,
    encoder_ff_interm_dropout: float,
    encoder_dropout: float,
    encoder_layer_norm_first: bool,
    encoder_layer_drop: float,
    aux_num_out: int | None,
) -> Wav2Vec2Model:
    """A `Wav2Vec2Model` of any size.

    Args:
        extractor_mode: "group_norm" (behind the first convolution) or "layer_norm" (behind each)
        extractor_conv_layer_config: channels, kernel and stride of each convolution; None for the usual seven
        extractor_conv_bias: whether the convolutions have one
        encoder_embed_dim: width of the transformer
        encoder_projection_dropout: behind the projection of frames
        encoder_pos_conv_kernel: of the convolution that tells places
        encoder_pos_conv_groups: of the same
        encoder_num_layers: of the transformer
        encoder_num_heads: of each layer
        encoder_attention_dropout: of weights of attention
        encoder_ff_interm_features: inner width of a layer
        encoder_ff_interm_dropout: inside of a layer
        encoder_dropout: behind each part of a layer
        encoder_layer_norm_first: whether layers begin with their norms
        encoder_layer_drop: probability that a layer is left out in training
        aux_num_out: width of a last linear layer; None for none

    Raises:
        ValueError: the mode is unknown, or the heads do not divide the width.
    """
    convolutions = extractor_conv_layer_config or _USUAL_CONVOLUTIONS
    width = encoder_embed_dim
    layers = nn.ModuleList(
        _Layer(
            _Attention(width, encoder_num_heads, encoder_attention_dropout),
            _FeedForward(
                width, encoder_ff_interm_features, encoder_ff_interm_dropout, encoder_dropout
            ),
            encoder_dropout,
            encoder_layer_norm_first,
        )
        for _ in range(encoder_num_layers)
    )
    positions = _Positions(width, encoder_pos_conv_kernel, encoder_pos_conv_groups)
    transformer = _Transformer(
        positions, layers, width, encoder_dropout, encoder_layer_drop, encoder_layer_norm_first
    )
    projection = _FeatureProjection(convolutions[-1][0], width, encoder_projection_dropout)
    return Wav2Vec2Model(
        _FeatureExtractor(extractor_mode, convolutions, extractor_conv_bias),
        _Encoder(projection, transformer),
        None if aux_num_out is None else nn.Linear(width, aux_num_out),
    )


def wav2vec2_base(
    encoder_projection_dropout: float = 0.1,
    encoder_attention_dropout: float = 0.1,
    encoder_ff_interm_dropout: float = 0.1,
    encoder_dropout: float = 0.1,
    encoder_layer_drop: float = 0.1,
    aux_num_out: int | None = None,
) -> Wav2Vec2Model:
    """The base model: 12 layers of width 768 (see `wav2vec2_model` for the arguments)."""
    return wav2vec2_model(
        "group_norm", None, False, 768, encoder_projection_dropout, 128, 16, 12, 12,
        encoder_attention_dropout, 3072, encoder_ff_interm_dropout, encoder_dropout, False,
        encoder_layer_drop, aux_num_out,
    )  # fmt: skip


def wav2vec2_large(
    encoder_projection_dropout: float = 0.1,
    encoder_attention_dropout: float = 0.1,
    encoder_ff_interm_dropout: float = 0.1,
    encoder_dropout: float = 0.1,
    encoder_layer_drop: float = 0.1,
    aux_num_out: int | None = None,
) -> Wav2Vec2Model:
    """The large model: 24 layers of width 1024 (see `wav2vec2_model` for the arguments)."""
    return wav2vec2_model(
        "group_norm", None, False, 1024, encoder_projection_dropout, 128, 16, 24, 16,
        encoder_attention_dropout, 4096, encoder_ff_interm_dropout, encoder_dropout, False,
        encoder_layer_drop, aux_num_out,
    )  # fmt: skip


def wav2vec2_large_lv60k(
    encoder_projection_dropout: float = 0.1,
    encoder_attention_dropout: float = 0.0,
    encoder_ff_interm_dropout: float = 0.1,
    encoder_dropout: float = 0.0,
    encoder_layer_drop: float = 0.1,
    aux_num_out: int | None = None,
) -> Wav2Vec2Model:
    """The large model whose layers begin with their norms (see `wav2vec2_model` for the arguments)."""
    return wav2vec2_model(
        "layer_norm", None, True, 1024, encoder_projection_dropout, 128, 16, 24, 16,
        encoder_attention_dropout, 4096, encoder_ff_interm_dropout, encoder_dropout, True,
        encoder_layer_drop, aux_num_out,
    )  # fmt: skip
