"""PyTorch's questions and switches about CUDA and attention, answered for an installation without CUDA.

Takes: nothing. Gives: `is_built`, `matmul`, the switches of fused attention, `sdp_kernel`.
Keeps true: the attention switches are those that the operator reads (`facula.ops.layers.attention.ENABLED`);
the others are kept as they were set and change nothing, since there is no device that they concern.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from facula import core
from facula.namespaces.switches import get_float32_matmul_precision, set_float32_matmul_precision
from facula.nn.attention import SDPBackend as SDPBackend
from facula.ops.layers.attention import ENABLED

__all__ = [
    "SDPAParams", "allow_fp16_bf16_reduction_math_sdp", "can_use_efficient_attention",
    "can_use_flash_attention", "cudnn_sdp_enabled", "cufft_plan_cache", "enable_cudnn_sdp",
    "enable_flash_sdp", "enable_math_sdp", "enable_mem_efficient_sdp", "flash_sdp_enabled",
    "fp16_bf16_reduction_math_sdp_allowed", "is_built", "is_flash_attention_available",
    "math_sdp_enabled", "matmul", "mem_efficient_sdp_enabled", "preferred_blas_library",
    "preferred_linalg_library", "sdp_kernel",
]  # fmt: skip


class _Matmul:
    """What CUDA products may lose in precision."""

    def __init__(self) -> None:
        self.allow_fp16_reduced_precision_reduction = True
        self.allow_bf16_reduced_precision_reduction = True
        self.allow_fp16_accumulation = False
        self.fp32_precision = "none"

    @property
    def allow_tf32(self) -> bool:
        """Whether float32 products may be less precise, without effect: see
        `set_float32_matmul_precision`.
        """
        return get_float32_matmul_precision() != "highest"

    @allow_tf32.setter
    def allow_tf32(self, allowed: bool) -> None:
        set_float32_matmul_precision("high" if allowed else "highest")


class _PlanCache:
    """The cache of Fourier transform plans: there is none."""

    size = 0
    max_size = 0

    def clear(self) -> None:
        """Empties the cache."""

    def __getitem__(self, device: core.device | str | int | None) -> _PlanCache:
        return self


matmul = _Matmul()
cufft_plan_cache = _PlanCache()
_SWITCHES: dict[str, Any] = {
    "cudnn": True,
    "reduction": False,
    "linalg": "default",
    "blas": "default",
}


def is_built() -> bool:
    """Whether CUDA is part of this installation: never, it comes as a backend package."""
    return False


def flash_sdp_enabled() -> bool:
    """Whether attention may be computed tile by tile, with memory linear in the length."""
    return ENABLED["flash"]


def enable_flash_sdp(enabled: bool) -> None:
    """Allows or forbids attention tile by tile."""
    ENABLED["flash"] = bool(enabled)


def mem_efficient_sdp_enabled() -> bool:
    """The switch of PyTorch's other fused kernel; here both names mean the same one."""
    return ENABLED["efficient"]


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Sets the switch of PyTorch's other fused kernel."""
    ENABLED["efficient"] = bool(enabled)


def math_sdp_enabled() -> bool:
    """Whether attention may be computed by products and a softmax."""
    return ENABLED["math"]


def enable_math_sdp(enabled: bool) -> None:
    """Allows or forbids attention by products and a softmax."""
    ENABLED["math"] = bool(enabled)


def cudnn_sdp_enabled() -> bool:
    """The switch of cuDNN's attention, which is not there."""
    return _SWITCHES["cudnn"]


def enable_cudnn_sdp(enabled: bool) -> None:
    """Sets the switch of cuDNN's attention, which is not there."""
    _SWITCHES["cudnn"] = bool(enabled)


def allow_fp16_bf16_reduction_math_sdp(enabled: bool) -> None:
    """Kept: attention accumulates in float32 always."""
    _SWITCHES["reduction"] = bool(enabled)


def fp16_bf16_reduction_math_sdp_allowed() -> bool:
    """What `allow_fp16_bf16_reduction_math_sdp` set."""
    return _SWITCHES["reduction"]


def is_flash_attention_available() -> bool:
    """Whether CUDA's fused attention is there: never."""
    return False


class SDPAParams:
    """The arguments of an attention call, for the questions below."""

    def __init__(self, query: core.Tensor, key: core.Tensor, value: object, *rest: object) -> None:
        self.query, self.key, self.value = query, key, value


def can_use_flash_attention(params: SDPAParams, debug: bool = False) -> bool:
    """Whether CUDA's fused attention can serve a call: never."""
    return False


can_use_efficient_attention = can_use_cudnn_attention = can_use_flash_attention


@contextlib.contextmanager
def sdp_kernel(
    enable_flash: bool = True,
    enable_math: bool = True,
    enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> Iterator[dict[str, bool]]:
    """Within the block, allows the given ways to compute attention; `nn.attention.sdpa_kernel` is newer."""
    before, cudnn_before = dict(ENABLED), _SWITCHES["cudnn"]
    ENABLED.update(flash=enable_flash, math=enable_math, efficient=enable_mem_efficient)
    _SWITCHES["cudnn"] = enable_cudnn
    try:
        yield {}
    finally:
        ENABLED.update(before)
        _SWITCHES["cudnn"] = cudnn_before


def _library(kind: str, name: str | None) -> str:
    if name is not None:
        _SWITCHES[kind] = name
    return _SWITCHES[kind]


def preferred_linalg_library(backend: str | None = None) -> str:
    """Kept: which library CUDA's linear algebra should use."""
    return _library("linalg", backend)


def preferred_blas_library(backend: str | None = None) -> str:
    """Kept: which library CUDA's products should use."""
    return _library("blas", backend)
