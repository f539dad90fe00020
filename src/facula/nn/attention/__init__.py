"""Choosing how attention is computed.

Takes `SDPBackend`s. Gives `sdpa_kernel`, a block in which only these may be used.
Keeps true: it writes the switches that the operator reads (`facula.ops.layers.attention.ENABLED`), and
puts them back.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator

from facula.core.errors import fail
from facula.nn.attention.implementations import (
    activate_flash_attention_impl,
    current_flash_attention_impl,
    list_flash_attention_impls,
    register_flash_attention_impl,
    restore_flash_attention_impl,
)
from facula.ops.layers.attention import ENABLED

__all__ = [
    "WARN_FOR_UNFUSED_KERNELS",
    "SDPBackend",
    "activate_flash_attention_impl",
    "current_flash_attention_impl",
    "list_flash_attention_impls",
    "register_flash_attention_impl",
    "restore_flash_attention_impl",
    "sdpa_kernel",
]

#: kept for PyTorch's programs: every way to compute attention here is one kernel
WARN_FOR_UNFUSED_KERNELS = False


class SDPBackend(enum.Enum):
    """Ways to compute attention, with PyTorch's numbers; ``int(way)`` is the number of one.

    Example:
        >>> facula.nn.attention.SDPBackend.MATH.name
        'MATH'
    """

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4

    def __index__(self) -> int:
        return self.value

    __int__ = __index__


_SWITCH = {
    SDPBackend.MATH: "math",
    SDPBackend.FLASH_ATTENTION: "flash",
    SDPBackend.EFFICIENT_ATTENTION: "efficient",
}


def _cur_sdpa_kernel_backends(with_priority: bool = False) -> list[SDPBackend]:
    """The ways that are allowed now."""
    return [way for way, switch in _SWITCH.items() if ENABLED[switch]]


@contextlib.contextmanager
def sdpa_kernel(
    backends: list[SDPBackend] | SDPBackend, set_priority: bool = False
) -> Iterator[dict[str, bool]]:
    """A block in which attention is computed in one of the given ways only.

    Args:
        backends: a `SDPBackend`, or a list of them
        set_priority: whether the list is an order of preference

    Raises:
        AssertionError: something else was given.

    Example:
        >>> q = facula.ones(1, 2, 4)
        >>> with facula.nn.attention.sdpa_kernel(facula.nn.attention.SDPBackend.MATH):
        ...     facula.nn.functional.scaled_dot_product_attention(q, q, q).shape
        facula.Size([1, 2, 4])
    """
    chosen = [backends] if isinstance(backends, SDPBackend) else list(backends)
    if not all(isinstance(way, SDPBackend) for way in chosen):
        required = "Backend must be an instance of SDPBackend or a list of SDPBackend instances"
        fail(AssertionError, "sdpa_kernel", required, backends, hint="for example SDPBackend.MATH")
    before = dict(ENABLED)
    ENABLED.update({switch: way in chosen for way, switch in _SWITCH.items()})
    try:
        yield {}
    finally:
        ENABLED.update(before)
