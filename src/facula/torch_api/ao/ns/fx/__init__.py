"""PyTorch's place for what the numeric suite of graph mode is made of.

Re-exports nothing; its parts are imported when they are asked for.
"""

from __future__ import annotations

from facula.quantization.forwarding import forwarded as _forwarded

__getattr__ = _forwarded(
    globals(),
    parts=(
        "graph_matcher",
        "graph_passes",
        "mappings",
        "n_shadows_utils",
        "ns_types",
        "pattern_utils",
        "qconfig_multi_mapping",
        "utils",
        "weight_utils",
    ),
)
