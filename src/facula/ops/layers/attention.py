"""Operators: scaled dot product attention.

Takes query `[..., L, E]`, key `[..., S, E]`, value `[..., S, Ev]`; gives `[..., L, Ev]`. The fused
kernel needs memory linear in the sequence lengths and keeps the logsumexp of each query for the
backward; `math` is the same by matrix products and a softmax, of any dtype that these take.
Keeps true: a query without an allowed key gives zeros; a bool mask says what takes part; the causal
mask starts at the upper left and combines with a given one; a dropped weight depends on seed,
offset and its index alone, never on threads; double backward is a formula over operators.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.index.launch import broadcast_shapes
from facula.ops.layers.norm import widened
from facula.ops.table.registry import F, composite, operator

OP = "scaled_dot_product_attention"
#: dtypes with a fused kernel
FUSED = frozenset("f32 f64 bf16 f16".split())


class Switches(dict[str, bool]):
    """Switches that operators read: launches are kept for each of their positions."""

    def __setitem__(self, name: str, value: bool) -> None:
        self.update({name: value})

    def update(self, *values: dict[str, bool], **named: bool) -> None:  # type: ignore[override]
        """Set several, as a dictionary's `update`."""
        super().update(*values, **named)
        core.set_kept_settings(sum(value << place for place, value in enumerate(self.values())))


#: which implementations may be chosen; `nn.attention.sdpa_kernel` and its kin write here
ENABLED = Switches({"flash": True, "efficient": True, "math": True})


def _rows(x: core.Tensor) -> Any:
    """The tensor with adjacent elements in its last dimension, as kernels read it."""
    return x if x.shape[-1] <= 1 or x.stride()[-1] == 1 else x.contiguous()


def _like(x: core.Tensor, shape: Sequence[int]) -> Any:
    """Unset [B, H, S, D] in the order of `x`: heads outside of rows, or rows outside of heads."""
    batch, heads, rows, depth = shape
    stride = x.stride()
    if heads > 1 and rows > 1 and stride[1] < stride[2]:
        strides = (rows * heads * depth, depth, heads * depth, 1)
        return core.empty_strided(shape, strides, dtype=x.dtype, device=x.device)
    return core.empty(shape, dtype=x.dtype, device=x.device)


def _sizes(
    query: core.Tensor, key: core.Tensor, value: core.Tensor, mask: core.Tensor, is_causal: bool
) -> tuple[Any, list[int]]:
    """The mask as the kernel reads it, and what kernels need to know of shapes and masks."""
    kind, strides = 0, (0, 0, 0, 0)
    if mask is not None:
        strides = mask.stride()
        compute = core.float64 if query.dtype is core.float64 else core.float32
        kind = 1 if mask.dtype is core.bool_ else 2 if mask.dtype is compute else 3
    batch, heads, rows, depth = query.shape
    shape = [batch, heads, key.shape[1], rows, key.shape[2], depth, value.shape[3]]
    return mask, [*shape, int(is_causal), kind, *strides]


def _steps(*tensors: Any) -> list[int]:
    """Strides of batch, head and row of each tensor."""
    return [step for x in tensors for step in x.stride()[:3]]


def _logsumexp_dtype(query: core.Tensor) -> Any:
    return core.float64 if query.dtype is core.float64 else core.float32


def _check_kernel_dtype(query: core.Tensor) -> None:
    if query.dtype.code not in FUSED:
        fail(
            RuntimeError,
            OP,
            "a floating-point dtype was required of query, key and value",
            query.dtype,
            "convert them, or choose the math implementation",
        )


@operator(
    "_scaled_dot_product_flash_attention(Tensor query, Tensor key, Tensor value, Tensor? mask, "
    "bool is_causal, "
    "float scale, float dropout_p, Tensor? state) -> (Tensor output, Tensor logsumexp)",
    names=(),
    out=False,
    nondifferentiable=(1,),
    node="ScaledDotProductFlashAttentionForCpuBackward0",
    edges=("query", "key", "value"),
    file_form="attention",
)
class FlashAttention:
    """The fused kernel on `[B, H, L, E]`, key and value `[B, Hkv, S, ...]`, mask expanded to `[B,
    H, L, S]`."""

    shards = "attention"

    vmap = "fold"

    def meta(query, key, value, mask, is_causal, scale, dropout_p, state):
        _check_kernel_dtype(query)
        batch, heads, rows, _ = query.shape
        logsumexp = core.empty(
            (batch, heads, rows), dtype=_logsumexp_dtype(query), device=query.device
        )
        return _like(query, (batch, heads, rows, value.shape[3])), logsumexp

    def cpu(out, query, key, value, mask, is_causal, scale, dropout_p, state):
        query, key, value = _rows(query), _rows(key), _rows(value)
        mask, sizes = _sizes(query, key, value, mask, is_causal)
        core.kernel(f"attention:{query.dtype.code}")(
            (*out, query, key, value, mask),
            (*sizes, *_steps(query, key, value, out[0])),
            (float(scale), float(dropout_p), *_draw(state)),
        )

    def backward(
        grads, query, key, value, mask, is_causal, scale, dropout_p, state, results, needs
    ):
        if grads[0] is None:
            return None, None, None, None, None
        gradients = F._scaled_dot_product_flash_attention_backward(
            grads[0],
            query,
            key,
            value,
            *results,
            mask,
            is_causal,
            scale,
            dropout_p,
            state,
            needs[3],
        )
        to_mask = gradients[3].to(mask.dtype) if needs[3] else None
        return *gradients[:3], to_mask, None

    def samples(S):
        q, k, v = S(1, 2, 5, 4), S(1, 2, 7, 4), S(1, 2, 7, 3)
        yield (q, k, v, None, False, 0.5, 0.0, None), {}
        yield (q, k, v, S(1, 2, 5, 7), True, 0.5, 0.0, None), {}


@operator(
    "_scaled_dot_product_flash_attention_backward(Tensor grad_out, Tensor query, Tensor key, "
    "Tensor value, "
    "Tensor out, Tensor logsumexp, Tensor? mask, bool is_causal, float scale, float dropout_p, "
    "Tensor? state, "
    "bool mask_grad) -> (Tensor grad_query, Tensor grad_key, Tensor grad_value, Tensor grad_mask)",
    names=(),
    out=False,
)
class FlashAttentionBackward:
    """Gradients of the fused kernel; that of the mask is `[B, H, L, S]`, or empty where it is not
    asked for."""

    shards = "attention_backward"

    vmap = "fold"

    def meta(
        grad_out, query, key, value, out, logsumexp, mask, is_causal, scale, p, state, mask_grad
    ):
        shape = (*query.shape[:3], key.shape[2]) if mask_grad else (0,)
        scores = core.empty(shape, dtype=logsumexp.dtype, device=query.device)
        return _like(query, query.shape), _like(key, key.shape), _like(value, value.shape), scores

    def cpu(
        outs,
        grad_out,
        query,
        key,
        value,
        out,
        logsumexp,
        mask,
        is_causal,
        scale,
        dropout_p,
        state,
        mask_grad,
    ):
        grad_out, query, key, value, out = map(_rows, (grad_out, query, key, value, out))
        mask, sizes = _sizes(query, key, value, mask, is_causal)
        grad_query, grad_key, grad_value, scores = outs
        core.kernel(f"attention.grad:{query.dtype.code}")(
            (
                grad_query,
                grad_key,
                grad_value,
                scores if mask_grad else None,
                grad_out,
                query,
                key,
                value,
                out,
                logsumexp.contiguous(),
                mask,
            ),
            (
                *sizes,
                *_steps(query, key, value, out, grad_out, grad_query, grad_key, grad_value),
            ),
            (float(scale), float(dropout_p), *_draw(state)),
        )

    def backward(grads, grad_out, query, key, value, mask, is_causal, scale, dropout_p, state):
        dtype = query.dtype
        # scores rounded to 16 bits miss the weights by whole percents
        grad_out, query, key, value = widened(grad_out, query, key, value)
        keep = _kept(query, key, dropout_p, state)
        grads = widened(*grads)
        first = _second_order(grads, grad_out, query, key, value, mask, is_causal, scale, keep)
        found = [x.to(dtype) for x in first[:4]]
        return *found, None, None, first[4] if mask is not None else None, None


def _draw(state: core.Tensor | None) -> tuple[int, int]:
    """Seed and offset of a random state; two numbers where nothing is drawn."""
    if state is None:
        return 0, 0  # any value does: no kernel reads it
    return tuple(state.tolist())


def _transformed() -> bool:
    """Whether a function transform is at work that must see each draw (one that rewrites programs
    sees the state)."""
    return any(not getattr(level, "rewrites", False) for level in core.interpreters())


def _kept(query: core.Tensor, key: core.Tensor, dropout_p: float, state: object) -> Any:
    """The factor of each weight under dropout, `[B, H, L, S]`: the kernel's own choice, read off
    equal weights."""
    if dropout_p == 0:
        return None
    batch, heads, rows = query.shape[:3]
    count = key.shape[2]
    with_one = F.eye(count, dtype=core.float32).expand(batch, heads, count, count)
    equal = F.zeros((batch, heads, rows, 1), dtype=core.float32)
    nothing = F.zeros((batch, heads, count, 1), dtype=core.float32)
    weights = F._scaled_dot_product_flash_attention(
        equal, nothing, with_one, None, False, 1.0, dropout_p, state
    )[0]
    factor = 1 / (1 - dropout_p) if dropout_p < 1 else 0.0
    return (weights > 0).to(query.dtype) * factor


def _second_order(
    grads: list[Any],
    grad_out: core.Tensor,
    query: core.Tensor,
    key: core.Tensor,
    value: core.Tensor,
    mask: core.Tensor | None,
    is_causal: bool,
    scale: float,
    keep: Any,
) -> tuple[Any, ...]:
    """The vector-Jacobian product of the backward pass, for grad_out, query, key, value and mask."""
    # With weights P, their gradients dP and the scores' dS = P * (dP - sum(P * dP)), every product
    # of the backward is taken
    # back in turn; scores are materialised, as for any second order.
    group = query.shape[1] // key.shape[1]
    to_query, to_key, to_value, to_mask = grads
    k, v = _repeat(key, group), _repeat(value, group)
    weights = _weights(query, k, mask, is_causal, scale)
    grad_weights = grad_out @ v.transpose(-2, -1)
    if keep is not None:
        grad_weights = grad_weights * keep
    spread = grad_weights - (weights * grad_weights).sum(-1, True)
    grad_scores = weights * spread
    d_query, d_key, d_out, d_value = 0, 0, 0, 0
    d_scores = 0 if to_mask is None or mask is None else to_mask.to(query.dtype)
    if to_query is not None:
        d_scores = d_scores + scale * (to_query @ k.transpose(-2, -1))
        d_key = d_key + scale * (grad_scores.transpose(-2, -1) @ to_query)
    if to_key is not None:
        repeated = _repeat(to_key, group)
        d_scores = d_scores + scale * (query @ repeated.transpose(-2, -1))
        d_query = d_query + scale * (grad_scores @ repeated)
    d_weights = F.zeros_like(weights)
    if to_value is not None:
        repeated = _repeat(to_value, group)
        dropped = weights if keep is None else weights * keep
        d_out = d_out + dropped @ repeated
        d_weights = grad_out @ repeated.transpose(-2, -1)
        d_weights = d_weights if keep is None else d_weights * keep
    inner = (weights * d_scores).sum(-1, True)
    back = weights * (d_scores - inner)
    back = back if keep is None else back * keep
    d_out = d_out + back @ v
    d_value = d_value + back.transpose(-2, -1) @ grad_out
    d_weights = d_weights + d_scores * spread - grad_weights * inner
    d_plain = weights * (d_weights - (weights * d_weights).sum(-1, True))
    d_query = d_query + scale * (d_plain @ k)
    d_key = d_key + scale * (d_plain.transpose(-2, -1) @ query)
    d_mask = d_plain.to(mask.dtype) if mask is not None and mask.dtype is not core.bool_ else None
    return d_out, d_query, _fold_heads(d_key, group), _fold_heads(d_value, group), d_mask


def _repeat(x: core.Tensor, group: int) -> Any:
    """Each head `group` times in a row: `[B, Hkv, S, D]` to `[B, Hkv * group, S, D]`."""
    if group == 1:
        return x
    batch, heads, rows, depth = x.shape
    return (
        x.unsqueeze(2)
        .expand(batch, heads, group, rows, depth)
        .reshape((batch, heads * group, rows, depth))
    )


def _fold_heads(x: core.Tensor, group: int) -> Any:
    """The transpose of `_repeat`: sums over the heads that shared one."""
    if group == 1:
        return x
    batch, heads, rows, depth = x.shape
    return x.reshape((batch, heads // group, group, rows, depth)).sum(2)


def _weights(
    query: core.Tensor, key: core.Tensor, mask: core.Tensor | None, is_causal: bool, scale: float
) -> Any:
    """Softmax of the scores; zero where no key is allowed, be it for a mask or for its score."""
    scores = (query * scale) @ key.transpose(-2, -1)
    allowed = None
    if is_causal:
        allowed = F.ones(scores.shape[-2:], dtype=core.bool_, device=query.device).tril()
    if mask is not None and mask.dtype is core.bool_:
        allowed = mask if allowed is None else allowed & mask
    elif mask is not None:
        scores = scores + mask.to(scores.dtype)
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -math.inf)
    if scores.shape[-1] == 0:
        return F.softmax(scores, -1)
    nowhere = (scores == -math.inf).all(-1, True)
    return F.softmax(scores.masked_fill(nowhere, 0.0), -1).masked_fill(nowhere, 0.0)


@composite(
    "_scaled_dot_product_attention_math(Tensor query, Tensor key, Tensor value, Tensor? mask, bool "
    "is_causal, float scale, "
    "float dropout_p) -> Tensor",
    names=(),
)
def attention_math(query, key, value, mask, is_causal, scale, dropout_p):
    """Attention by matrix products and a softmax, on `[B, H, L, E]` with key and value `[B, Hkv,
    S, ...]`."""
    group = query.shape[1] // max(key.shape[1], 1)
    weights = _weights(query, _repeat(key, group), mask, is_causal, scale)
    if dropout_p > 0:
        weights = F.dropout(weights, dropout_p, True)
    return weights @ _repeat(value, group)


def _check_mask_and_heads(
    query: core.Tensor, key: core.Tensor, value: core.Tensor, mask: core.Tensor, enable_gqa: bool
) -> None:
    if mask is not None and mask.dtype not in (core.bool_, core.float32, query.dtype):
        fail(
            RuntimeError,
            OP,
            "Expected attn_mask dtype to be bool or float or to match query dtype",
            f"attn_mask.dtype: {mask.dtype} and query.dtype: {query.dtype}",
            hint=f"attn_mask.to({query.dtype}) is added to the scores, attn_mask.bool() allows "
            "positions",
        )
    if enable_gqa and (query.dim() < 3 or key.dim() < 3 or value.dim() < 3):
        fail(
            RuntimeError,
            OP,
            "enable_gqa requires a head dimension (-3)",
            list(query.shape),
            hint="shapes are [..., heads, length, width]; unsqueeze(-3) adds a head",
        )
    if enable_gqa and (
        key.shape[-3] != value.shape[-3] or key.shape[-3] == 0 or query.shape[-3] % key.shape[-3]
    ):
        fail(
            RuntimeError,
            OP,
            "Number of heads in key and value must divide the number of heads in query",
            f"{query.shape[-3]} query, {key.shape[-3]} key and {value.shape[-3]} value heads",
            hint="key.repeat_interleave(n, dim=-3) repeats heads n times",
        )


def _check_kinds(query: core.Tensor, key: core.Tensor, value: core.Tensor) -> None:
    if not query.dtype is key.dtype is value.dtype:
        fail(
            RuntimeError,
            OP,
            "Expected query, key, and value to have the same dtype",
            f"query.dtype: {query.dtype}, key.dtype: {key.dtype}, value.dtype: {value.dtype}",
            "convert them to one dtype",
        )
    if not query.device == key.device == value.device:
        fail(
            RuntimeError,
            OP,
            "Expected query, key, and value to be on the same device",
            f"{query.device}, {key.device} and {value.device}",
            hint=f"move them with .to('{query.device}')",
        )
    if not (query.dtype.is_floating_point or query.dtype.is_complex):
        fail(
            RuntimeError,
            OP,
            "expected a floating-point dtype",
            query.dtype,
            hint="convert query, key and value with .float()",
        )


def _check(
    query: core.Tensor,
    key: core.Tensor,
    value: core.Tensor,
    mask: core.Tensor,
    dropout_p: float,
    enable_gqa: bool,
) -> None:
    """Raise for dtypes, devices and shapes that do not belong together."""
    if min(query.dim(), key.dim(), value.dim()) < 2:
        fail(
            RuntimeError,
            OP,
            "Expected query, key, and value to all be at least 2 dimensional",
            f"query.dim: {query.dim()}, key.dim: {key.dim()}, value.dim: {value.dim()}",
            hint="shapes are [..., length, width]; unsqueeze() adds what is missing",
        )
    _check_kinds(query, key, value)
    if query.shape[-1] != key.shape[-1]:
        fail(
            RuntimeError,
            OP,
            "Expected query and key to have the same size in the last dimension",
            f"query {list(query.shape)} and key {list(key.shape)}",
            hint="only value may have another last size",
        )
    if key.shape[-2] != value.shape[-2]:
        fail(
            RuntimeError,
            OP,
            "Expected key and value to have the same sequence length (dimension -2)",
            f"key {list(key.shape)} and value {list(value.shape)}",
            hint="every key goes with one value: cut or pad both alike",
        )
    if not 0 <= dropout_p <= 1:
        fail(
            RuntimeError,
            OP,
            "dropout probability has to be between 0 and 1",
            dropout_p,
            hint="pass dropout_p=0.0 outside of training",
        )
    _check_mask_and_heads(query, key, value, mask, enable_gqa)


def _four(x: core.Tensor, lead: Sequence[int], heads: int) -> Any:
    """The tensor as `[B, H, S, D]`: leading dimensions broadcast and joined."""
    if x.dim() == 4 and tuple(x.shape[:2]) == (*lead, heads):
        return x
    full = x.expand(*lead, heads, *x.shape[-2:])
    batch = math.prod(lead)
    return full if len(lead) == 1 else full.reshape((batch, heads, *x.shape[-2:]))


def _choose(query: core.Tensor) -> str:
    """The implementation: the fused one where it is allowed and can, else `math`."""
    if (ENABLED["flash"] and query.dtype.code in FUSED) or not (
        ENABLED["math"] or ENABLED["flash"]
    ):
        if not ENABLED["flash"]:
            fail(
                RuntimeError,
                OP,
                "No available kernel: one of the allowed attention backends must be able to run",
                [name for name, allowed in ENABLED.items() if allowed],
                "allow SDPBackend.FLASH_ATTENTION or SDPBackend.MATH",
            )
        return "flash"
    if not ENABLED["math"]:
        fail(
            RuntimeError,
            OP,
            "No available kernel: the fused attention backend takes floating-point tensors only",
            query.dtype,
            "allow SDPBackend.MATH",
        )
    return "math"


def _mask_of_scores(
    mask: core.Tensor, scores: tuple[int, ...], batch: tuple[Any, ...], heads: int
) -> Any:
    """The mask as `[batch, heads, rows, count]`."""
    if broadcast_shapes(OP, mask.shape, scores) != scores:
        fail(
            RuntimeError,
            OP,
            f"attn_mask must broadcast to {list(scores)}",
            list(mask.shape),
            hint="every size of attn_mask is 1 or that of the scores, from the last on",
        )
    mask = _four(mask, batch, heads) if mask.dim() > 1 else mask
    return mask.expand(math.prod(batch), heads, *scores[-2:])


@composite(
    "scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, "
    "float dropout_p=0.0, "
    "bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor",
    names=("nn.functional.scaled_dot_product_attention",),
    home="_C._nn.scaled_dot_product_attention",
    autocast="lower",
)
def scaled_dot_product_attention(
    query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa
):
    """Attention: `softmax(query @ key.mT * scale + mask) @ value`, with dropout on the weights.

    query `[..., L, E]`, key `[..., S, E]`, value `[..., S, Ev]`; attn_mask broadcasts to `[..., L,
    S]`: bool (True takes
    part) or added to the scores. scale: default `1 / sqrt(E)`. enable_gqa: dimension -3 holds
    heads, and several query
    heads share one of key and value. A query without an allowed key gives zeros. [Dao et al. 2022]
    """
    _check(query, key, value, attn_mask, dropout_p, enable_gqa)
    if scale is None:
        scale = 1.0 / math.sqrt(query.shape[-1]) if query.shape[-1] else 1.0
    tail = 3 if enable_gqa else 2
    lead = broadcast_shapes(OP, query.shape[:-tail], key.shape[:-tail], value.shape[:-tail])
    heads = key_heads = 1
    if enable_gqa:
        heads, key_heads = query.shape[-3], key.shape[-3]
    elif lead:
        heads = key_heads = lead[-1]
        lead = lead[:-1]
    batch = lead if lead else (1,)
    q, k, v = (
        _four(query, batch, heads),
        _four(key, batch, key_heads),
        _four(value, batch, key_heads),
    )
    rows, count = q.shape[2], k.shape[2]
    shape = (
        *lead,
        *((heads,) if enable_gqa or query.dim() > 2 or key.dim() > 2 or value.dim() > 2 else ()),
    )
    if attn_mask is not None:
        if query.dtype is core.float64 and attn_mask.dtype is core.float32:
            attn_mask = attn_mask.to(core.float64)
        attn_mask = _mask_of_scores(attn_mask, (*shape, rows, count), batch, heads)
    # dropout must draw where a function transform sees it, and PyTorch's stream numbers from outside of kernels
    apart = dropout_p > 0 and (_transformed() or core.by_element())
    # the fused kernel is the processor's: other devices have products and softmax
    elsewhere = q.device.type not in ("cpu", "meta") and ENABLED["math"]
    if _choose(q) == "math" or apart or elsewhere:
        out = F._scaled_dot_product_attention_math(q, k, v, attn_mask, is_causal, scale, dropout_p)
    else:
        state = F._philox_state(device=q.device) if dropout_p > 0 else None
        out = F._scaled_dot_product_flash_attention(
            q, k, v, attn_mask, is_causal, scale, dropout_p, state
        )[0]
    return out if tuple(out.shape[:-2]) == shape else out.reshape((*shape, rows, v.shape[-1]))


@composite(
    "_native_multi_head_attention(Tensor query, Tensor key, Tensor value, int embed_dim, int num_head, "
    "Tensor qkv_weight, Tensor qkv_bias, Tensor proj_weight, Tensor proj_bias, Tensor? mask=None, "
    "bool need_weights=True, bool average_attn_weights=True, int? mask_type=None) -> (Tensor, Tensor)",
    names=("_native_multi_head_attention",),
    out=False,
)
def _native_multi_head_attention(
    query, key, value, embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias, mask,
    need_weights, average_attn_weights, mask_type,
):  # fmt: skip
    """Multi-head attention of `[batch, length, embed_dim]` with its projections, as one call, and its weights.

    mask: bool, True is left out: of queries and keys (mask_type 0, `[L, S]`), of keys (1, `[batch, S]`), or of
    everything (2, `[batch, heads, L, S]`). Without need_weights the second result is None.
    """
    # lazily: import reads little code
    from facula.ops.forms.on_demand import attention_with_projections

    return attention_with_projections(
        query, key, value, embed_dim, num_head, (qkv_weight, qkv_bias), (proj_weight, proj_bias),
        mask, mask_type, need_weights, average_attn_weights,
    )  # fmt: skip
