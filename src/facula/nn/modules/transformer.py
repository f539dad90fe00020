"""Transformer encoder, decoder and the two together. [Vaswani et al. 2017]

Takes sequences ``[T, N, E]`` (``[N, T, E]`` with ``batch_first``), or the same without a batch.
Gives sequences of the same shape.
Keeps true: masks are as in `MultiheadAttention`; ``is_causal`` is a hint about the mask that is
given; at inference the encoder leaves padding out of its work and its output there is zero.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import facula
from facula import core
from facula.core.errors import fail
from facula.nn import attention_fast_path as fast_path
from facula.nn import functional as F
from facula.nn import init
from facula.nn.functional_composites import _as_float_mask
from facula.nn.modules.attention import MultiheadAttention
from facula.nn.modules.container import ModuleList
from facula.nn.modules.dropout import Dropout
from facula.nn.modules.linear import Linear
from facula.nn.modules.module import Module
from facula.nn.modules.normalization import LayerNorm

__all__ = [
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]


def _generate_square_subsequent_mask(
    sz: int, device: core.device | str | int | None = None, dtype: core.dtype | None = None
) -> Any:
    """``-inf`` above the diagonal, 0 elsewhere."""
    full = facula.full((sz, sz), float("-inf"), dtype=dtype, device=device)
    return facula.triu(full, diagonal=1)


def _get_seq_len(src: core.Tensor, batch_first: bool) -> int:
    if src.dim() == 2:
        return src.size(0)
    return src.size(1) if batch_first else src.size(0)


def _get_clones(module: Module, n: int) -> ModuleList:
    return ModuleList([copy.deepcopy(module) for _ in range(n)])


def _get_activation_fn(activation: str) -> Callable:
    if activation == "relu":
        return F.relu
    if activation == "gelu":
        return F.gelu
    fail(
        RuntimeError,
        "Transformer",
        f"activation should be relu/gelu, not {activation}",
        hint="a function such as facula.nn.functional.silu is taken too",
    )


def _detect_is_causal_mask(
    mask: core.Tensor, is_causal: bool | None = None, size: int | None = None
) -> bool:
    """Whether ``mask`` is the causal one; ``is_causal`` says so without a look."""
    if is_causal is not None:
        return is_causal
    if mask is None or getattr(mask, "fake_mode", None) is not None:
        return False  # without elements nobody knows; the mask is applied as it is
    length = size if size is not None else mask.size(-2)
    causal = _generate_square_subsequent_mask(length, device=mask.device, dtype=mask.dtype)
    return mask.size() == causal.size() and bool((mask == causal).all())


def _kind_of_activation(activation: Any) -> int:
    """1 for relu, 2 for gelu, 0 for others."""
    name = type(activation).__name__ if isinstance(activation, Module) else None
    if activation is F.relu or name == "ReLU":
        return 1
    exact = name == "GELU" and activation.approximate == "none"
    return 2 if activation is F.gelu or exact else 0


class _TransformerLayer(Module):
    """What the layers of encoder and decoder share; each block has a norm and a dropout of its own."""

    __constants__ = ["norm_first"]

    def _add_feed_forward(
        self,
        hidden: int,
        dropout: float,
        norm_first: bool,
        activation: Any,
        blocks: int,
        norm: dict[str, Any],
        where: dict[str, Any],
    ) -> None:
        """The feed-forward network, and norms and dropouts for all blocks."""
        size = self.self_attn.embed_dim
        self.linear1 = Linear(size, hidden, bias=norm["bias"], **where)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(hidden, size, bias=norm["bias"], **where)
        self.norm_first = norm_first
        for number in range(1, blocks + 1):
            setattr(self, f"norm{number}", LayerNorm(size, **norm, **where))
        for number in range(1, blocks + 1):
            setattr(self, f"dropout{number}", Dropout(dropout))
        self.activation = (
            _get_activation_fn(activation) if isinstance(activation, str) else activation
        )

    def __setstate__(self, state: dict) -> None:
        super().__setstate__(state)
        if "activation" not in state and "activation" not in self._modules:
            self.activation = F.relu

    def _sa_block(
        self, x: core.Tensor, attn_mask: Any, key_padding_mask: core.Tensor, is_causal: bool = False
    ) -> Any:
        x = self.self_attn(
            x,
            x,
            x,
            attn_mask=attn_mask,
            key_padding_mask=key_padding_mask,
            need_weights=False,
            is_causal=is_causal,
        )[0]
        return self.dropout1(x)


class TransformerEncoderLayer(_TransformerLayer):
    """Self-attention and a feed-forward network, each with a residual connection and a norm. [Vaswani
    et al. 2017]

    Args:
        d_model: E, the width of all tensors
        nhead: heads of each attention, a divisor of ``d_model``
        dim_feedforward: width of the feed-forward network
        dropout: probability in training, after attention and feed-forward network and inside of the
            latter
        activation: of the feed-forward network: 'relu', 'gelu', or a function
        layer_norm_eps: eps of the norms
        batch_first: whether tensors are ``[batch, length, E]`` and not ``[length, batch, E]``
        norm_first: whether norms go before each block and not after the sum
        bias: whether linear layers and norms have one
        device, dtype: of the parameters

    Shape:
        ``src`` ``[S, N, E]`` or ``[S, E]``, ``src_mask`` ``[S, S]`` and ``src_key_padding_mask``
        ``[N, S]``, to the shape of ``src``. Boolean masks are True where attention is **not**
        allowed; float ones are added to the scores.

    Example:
        >>> layer = facula.nn.TransformerEncoderLayer(16, nhead=4, batch_first=True)
        >>> layer(facula.randn(2, 10, 16)).shape
        facula.Size([2, 10, 16])
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Any = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        where = {"device": device, "dtype": dtype}
        norm = {"eps": layer_norm_eps, "bias": bias}
        self.self_attn = MultiheadAttention(
            d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, **where
        )
        self._add_feed_forward(dim_feedforward, dropout, norm_first, activation, 2, norm, where)
        self.activation_relu_or_gelu = _kind_of_activation(self.activation)

    def forward(
        self,
        src: core.Tensor,
        src_mask: Any = None,
        src_key_padding_mask: Any = None,
        is_causal: bool = False,
    ) -> Any:
        """The same shape as ``src``."""
        if src.is_nested:
            return fast_path.nested_layer(self, src, src_mask, src_key_padding_mask)
        src_key_padding_mask = _as_float_mask(
            src_key_padding_mask, "src_key_padding_mask", None, src.dtype
        )
        src_mask = _as_float_mask(src_mask, "src_mask", None, src.dtype)
        if (src_mask is None or src_mask.dim() == 2) and fast_path.usable(self, src):
            mask = fast_path.combined_mask(src_mask, src_key_padding_mask)
            return fast_path.encoder_layer(self, src, tuple(src.shape), None, mask)
        x = src
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), src_mask, src_key_padding_mask, is_causal)
            return x + self._ff_block(self.norm2(x))
        x = self.norm1(x + self._sa_block(x, src_mask, src_key_padding_mask, is_causal))
        return self.norm2(x + self._ff_block(x))

    def _ff_block(self, x: core.Tensor) -> Any:
        x = self.linear2(self.dropout(self.activation(self.linear1(x))))
        return self.dropout2(x)


class TransformerEncoder(Module):
    """``num_layers`` copies of an encoder layer, one after the other, and a norm at the end where
    given.

    The copies start with the same weights.

    Args:
        encoder_layer: what is copied
        num_layers: how often
        norm: a module for the end, or None
        enable_nested_tensor: whether padded batches may be run without their padding, in evaluation
        mask_check: whether the padding mask is looked at for that

    Shape:
        as of the layer, with ``mask`` for its ``src_mask``.

    Example:
        >>> layer = facula.nn.TransformerEncoderLayer(16, nhead=4, batch_first=True)
        >>> facula.nn.TransformerEncoder(layer, num_layers=2)(facula.randn(2, 10, 16)).shape
        facula.Size([2, 10, 16])
    """

    __constants__ = ["norm"]

    def __init__(
        self,
        encoder_layer: TransformerEncoderLayer,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _get_clones(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.use_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check

    def _skips_padding(self, src: core.Tensor, mask: core.Tensor, padding: core.Tensor) -> bool:
        """Whether the stack may run on the valid tokens alone."""
        if not self.use_nested_tensor or mask is not None or padding is None:
            return False
        if padding.dtype != core.bool or src.dim() != 3:
            return False
        fits = all(
            isinstance(layer, TransformerEncoderLayer)
            and not layer.norm_first
            and layer.self_attn.num_heads % 2 == 0
            and fast_path.usable(layer, src)
            for layer in self.layers
        )
        # as in PyTorch, only where the padding lies at the end of every row
        return fits and (not self.mask_check or not bool((padding[:, 1:] < padding[:, :-1]).any()))

    def forward(
        self,
        src: Any,
        mask: Any = None,
        src_key_padding_mask: Any = None,
        is_causal: bool | None = None,
    ) -> Any:
        """The same shape as ``src``."""
        if src.is_nested:
            for layer in self.layers:
                src = layer(src, mask, src_key_padding_mask)
            return src if self.norm is None else self.norm(src)
        if self._skips_padding(src, mask, src_key_padding_mask):
            output = fast_path.encoder(self.layers, src, src_key_padding_mask)
            return output if self.norm is None else self.norm(output)
        src_key_padding_mask = _as_float_mask(
            src_key_padding_mask, "src_key_padding_mask", None, src.dtype
        )
        mask = _as_float_mask(mask, "mask", None, src.dtype)
        length = _get_seq_len(src, self._batch_first())
        is_causal = _detect_is_causal_mask(mask, is_causal, length)
        output = src
        for layer in self.layers:
            output = layer(
                output,
                src_mask=mask,
                is_causal=is_causal,
                src_key_padding_mask=src_key_padding_mask,
            )
        return output if self.norm is None else self.norm(output)

    def _batch_first(self) -> bool:
        attention = getattr(self.layers[0], "self_attn", None) if len(self.layers) else None
        return bool(getattr(attention, "batch_first", False))


class TransformerDecoderLayer(_TransformerLayer):
    """Self-attention, attention to the encoder's output and a feed-forward network, each with a
    residual connection and a norm. [Vaswani et al. 2017]

    Args:
        d_model: E, the width of all tensors
        nhead: heads of each attention, a divisor of ``d_model``
        dim_feedforward: width of the feed-forward network
        dropout: probability in training, after attention and feed-forward network and inside of the
            latter
        activation: of the feed-forward network: 'relu', 'gelu', or a function
        layer_norm_eps: eps of the norms
        batch_first: whether tensors are ``[batch, length, E]`` and not ``[length, batch, E]``
        norm_first: whether norms go before each block and not after the sum
        bias: whether linear layers and norms have one
        device, dtype: of the parameters

    Shape:
        ``tgt`` ``[T, N, E]`` and ``memory`` ``[S, N, E]``, masks ``tgt_mask`` ``[T, T]``,
        ``memory_mask`` ``[T, S]`` and key padding masks ``[N, T]`` and ``[N, S]``, to the shape of
        ``tgt``. Boolean masks are True where attention is **not** allowed; float ones are added to
        the scores.

    Example:
        >>> layer = facula.nn.TransformerDecoderLayer(16, nhead=4, batch_first=True)
        >>> layer(facula.randn(2, 5, 16), facula.randn(2, 10, 16)).shape
        facula.Size([2, 5, 16])
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Any = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        where = {"device": device, "dtype": dtype}
        norm = {"eps": layer_norm_eps, "bias": bias}
        attention = {"dropout": dropout, "batch_first": batch_first, "bias": bias, **where}
        self.self_attn = MultiheadAttention(d_model, nhead, **attention)
        self.multihead_attn = MultiheadAttention(d_model, nhead, **attention)
        self._add_feed_forward(dim_feedforward, dropout, norm_first, activation, 3, norm, where)

    def forward(
        self,
        tgt: core.Tensor,
        memory: core.Tensor,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Any:
        """The same shape as ``tgt``."""
        own = (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        other = (memory_mask, memory_key_padding_mask, memory_is_causal)
        x = tgt
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), *own)
            x = x + self._mha_block(self.norm2(x), memory, *other)
            return x + self._ff_block(self.norm3(x))
        x = self.norm1(x + self._sa_block(x, *own))
        x = self.norm2(x + self._mha_block(x, memory, *other))
        return self.norm3(x + self._ff_block(x))

    def _mha_block(
        self,
        x: core.Tensor,
        mem: core.Tensor,
        attn_mask: Any,
        key_padding_mask: Any,
        is_causal: bool = False,
    ) -> Any:
        x = self.multihead_attn(
            x,
            mem,
            mem,
            attn_mask=attn_mask,
            key_padding_mask=key_padding_mask,
            is_causal=is_causal,
            need_weights=False,
        )[0]
        return self.dropout2(x)

    def _ff_block(self, x: core.Tensor) -> Any:
        x = self.linear2(self.dropout(self.activation(self.linear1(x))))
        return self.dropout3(x)


class TransformerDecoder(Module):
    """``num_layers`` copies of a decoder layer, one after the other, and a norm at the end where
    given.

    Args:
        decoder_layer: what is copied
        num_layers: how often
        norm: a module for the end, or None

    Shape:
        as of the layer.

    Example:
        >>> layer = facula.nn.TransformerDecoderLayer(16, nhead=4, batch_first=True)
        >>> decoder = facula.nn.TransformerDecoder(layer, num_layers=2)
        >>> decoder(facula.randn(2, 5, 16), facula.randn(2, 10, 16)).shape
        facula.Size([2, 5, 16])
    """

    __constants__ = ["norm"]

    def __init__(
        self, decoder_layer: TransformerDecoderLayer, num_layers: int, norm: Module | None = None
    ) -> None:
        super().__init__()
        self.layers = _get_clones(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: core.Tensor,
        memory: core.Tensor,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Any:
        """The same shape as ``tgt``."""
        attention = getattr(self.layers[0], "self_attn", None) if len(self.layers) else None
        length = _get_seq_len(tgt, bool(getattr(attention, "batch_first", False)))
        tgt_is_causal = _detect_is_causal_mask(tgt_mask, tgt_is_causal, length)
        output = tgt
        for layer in self.layers:
            output = layer(
                output,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=tgt_is_causal,
                memory_is_causal=memory_is_causal,
            )
        return output if self.norm is None else self.norm(output)


class Transformer(Module):
    """An encoder and a decoder; what goes in and comes out are vectors, not words. [Vaswani et al.
    2017]

    Args:
        d_model: E, the width of all tensors
        nhead: heads of each attention, a divisor of ``d_model``
        num_encoder_layers: layers of the encoder
        num_decoder_layers: layers of the decoder
        dim_feedforward: width of the feed-forward network
        dropout: probability in training, after attention and feed-forward network and inside of the
            latter
        activation: of the feed-forward network: 'relu', 'gelu', or a function
        custom_encoder, custom_decoder: modules in place of those
        layer_norm_eps: eps of the norms
        batch_first: whether tensors are ``[batch, length, E]`` and not ``[length, batch, E]``
        norm_first: whether norms go before each block and not after the sum
        bias: whether linear layers and norms have one
        device, dtype: of the parameters

    Shape:
        ``src`` ``[S, N, E]`` and ``tgt`` ``[T, N, E]``, to the shape of ``tgt``. Boolean masks are
        True where attention is **not** allowed; float ones are added to the scores.
        ``generate_square_subsequent_mask(T)`` makes the causal one.

    Raises:
        RuntimeError: at the call, where batch sizes or widths do not fit.

    Example:
        >>> model = facula.nn.Transformer(16, 4, 1, 1, dim_feedforward=32)
        >>> model(facula.randn(10, 2, 16), facula.randn(5, 2, 16)).shape
        facula.Size([5, 2, 16])
        >>> model.generate_square_subsequent_mask(2)
        tensor([[0., -inf],
                [0., 0.]])
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Any = F.relu,
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        where = {"device": device, "dtype": dtype}
        layer = (
            d_model,
            nhead,
            dim_feedforward,
            dropout,
            activation,
            layer_norm_eps,
            batch_first,
            norm_first,
            bias,
        )

        def final_norm() -> LayerNorm:
            return LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **where)

        if custom_encoder is not None:
            self.encoder = custom_encoder
        else:
            self.encoder = TransformerEncoder(
                TransformerEncoderLayer(*layer, **where), num_encoder_layers, final_norm()
            )
        if custom_decoder is not None:
            self.decoder = custom_decoder
        else:
            self.decoder = TransformerDecoder(
                TransformerDecoderLayer(*layer, **where), num_decoder_layers, final_norm()
            )
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def forward(
        self,
        src: core.Tensor,
        tgt: core.Tensor,
        src_mask: Any = None,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        src_key_padding_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Any:
        """The same shape as ``tgt``."""
        if src.dim() == 3:
            batch = 0 if self.batch_first else 1
            if src.size(batch) != tgt.size(batch):
                fail(
                    RuntimeError,
                    "Transformer",
                    "the batch number of src and tgt must be equal",
                    hint="batch_first=True has the batch in dimension 0, otherwise it is dimension 1",
                )
        if src.size(-1) != self.d_model or tgt.size(-1) != self.d_model:
            fail(
                RuntimeError,
                "Transformer",
                "the feature number of src and tgt must be equal to d_model",
                hint="a Linear layer or an Embedding of d_model values brings them there",
            )
        memory = self.encoder(
            src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal
        )
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(
        sz: int, device: core.device | str | int | None = None, dtype: core.dtype | None = None
    ) -> Any:
        """``-inf`` above the diagonal, 0 elsewhere."""
        return _generate_square_subsequent_mask(sz, dtype=dtype, device=device)

    def _reset_parameters(self) -> None:
        for parameter in self.parameters():
            if parameter.dim() > 1:
                init.xavier_uniform_(parameter)
