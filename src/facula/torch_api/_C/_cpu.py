"""What the processor can do, under the names of PyTorch's extension module."""

from facula.torch_api.cpu import (
    _is_amx_fp16_supported,
    _is_amx_tile_supported,
    _is_avx2_supported,
    _is_avx512_bf16_supported,
    _is_avx512_supported,
    _is_vnni_supported,
)

__all__ = [
    "_is_amx_fp16_supported",
    "_is_amx_tile_supported",
    "_is_avx2_supported",
    "_is_avx512_bf16_supported",
    "_is_avx512_supported",
    "_is_vnni_supported",
]
