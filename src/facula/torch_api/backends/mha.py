"""The switch of the encoder layers' fast path.

Takes nothing. Gives `get_fastpath_enabled` and `set_fastpath_enabled`. Keeps true: re-exports; the
path itself stands in `nn.attention_fast_path`.
"""

from facula.nn.attention_fast_path import get_fastpath_enabled, set_fastpath_enabled

__all__ = ["get_fastpath_enabled", "set_fastpath_enabled"]
