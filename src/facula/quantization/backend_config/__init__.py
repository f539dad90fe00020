"""What backends quantize: PyTorch's `ao.quantization.backend_config`.

Gives: the classes of `classes`, the backends of `native` and `others`, and what others ask of them (`questions`).
Keeps true: a backend is data; nothing is made of it before somebody asks.
"""

from __future__ import annotations

from facula.quantization.backend_config.classes import (
    BackendConfig,
    BackendPatternConfig,
    DTypeConfig,
    DTypeWithConstraints,
    ObservationType,
)
from facula.quantization.backend_config.native import (
    get_fbgemm_backend_config,
    get_native_backend_config,
    get_native_backend_config_dict,
    get_onednn_backend_config,
    get_qnnpack_backend_config,
    get_x86_backend_config,
)

__all__ = [
    "BackendConfig",
    "BackendPatternConfig",
    "DTypeConfig",
    "DTypeWithConstraints",
    "ObservationType",
    "get_fbgemm_backend_config",
    "get_native_backend_config",
    "get_native_backend_config_dict",
    "get_onednn_backend_config",
    "get_qnnpack_backend_config",
    "get_x86_backend_config",
]
