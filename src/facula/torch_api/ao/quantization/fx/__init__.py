"""PyTorch's place for what graph mode is made of.

Re-exports nothing; its parts are imported when they are asked for.
"""

from __future__ import annotations

from facula.quantization.forwarding import forwarded as _forwarded

__getattr__ = _forwarded(
    globals(),
    parts=(
        "_decomposed",
        "_equalize",
        "convert",
        "custom_config",
        "fuse",
        "graph_module",
        "lower_to_fbgemm",
        "match_utils",
        "pattern_utils",
        "qconfig_mapping_utils",
        "quantize_handler",
        "tracer",
        "utils",
    ),
)
