"""How much process groups say of themselves: `DebugLevel`.

Takes: the environment variable TORCH_DISTRIBUTED_DEBUG, or a level. Gives: the level.
Keeps true: what ranks do differently is told at every level; more of it is written to the log from INFO on.
"""

from __future__ import annotations

import logging
import os
from enum import Enum

from facula.core.errors import fail
from facula.core.logs import get_logger

__all__ = ["DebugLevel", "get_debug_level", "set_debug_level", "set_debug_level_from_env"]


class DebugLevel(Enum):
    """How much is said.

    Example:
        >>> facula.distributed.DebugLevel.DETAIL
        <DebugLevel.DETAIL: 2>
    """

    OFF = 0
    INFO = 1
    DETAIL = 2


#: what the log shows
_SHOWN = {DebugLevel.INFO: logging.INFO, DebugLevel.DETAIL: logging.DEBUG}
_LEVEL: list[DebugLevel | None] = [None]


def get_debug_level() -> DebugLevel:
    """The level that was set, or that TORCH_DISTRIBUTED_DEBUG says.

    Example:
        >>> facula.distributed.get_debug_level()
        <DebugLevel.OFF: 0>
    """
    if _LEVEL[0] is None:
        set_debug_level_from_env()
    assert _LEVEL[0] is not None
    return _LEVEL[0]


def set_debug_level(level: DebugLevel) -> None:
    """Choose the level; from INFO on, the log of `distributed` is shown.

    Args:
        level: a `DebugLevel`

    Raises:
        TypeError: it is none.

    Example:
        >>> dist = facula.distributed
        >>> dist.set_debug_level(dist.DebugLevel.OFF)
        >>> dist.get_debug_level()
        <DebugLevel.OFF: 0>
    """
    if not isinstance(level, DebugLevel):
        fail(TypeError, "set_debug_level", "a distributed.DebugLevel was required", repr(level),
             hint="for example DebugLevel.DETAIL")  # fmt: skip
    if level in _SHOWN:
        get_logger("distributed").setLevel(_SHOWN[level])
    _LEVEL[0] = level


def set_debug_level_from_env() -> None:
    """Take the level from TORCH_DISTRIBUTED_DEBUG: OFF, INFO or DETAIL.

    Raises:
        RuntimeError: it says something else.

    Example:
        >>> facula.distributed.set_debug_level_from_env()
        >>> facula.distributed.get_debug_level()
        <DebugLevel.OFF: 0>
    """
    text = os.environ.get("TORCH_DISTRIBUTED_DEBUG", "") or "OFF"
    if text not in DebugLevel.__members__:
        fail(RuntimeError, "set_debug_level_from_env", "OFF, INFO or DETAIL was required in "
             "TORCH_DISTRIBUTED_DEBUG", repr(text), hint="unset it for OFF")  # fmt: skip
    set_debug_level(DebugLevel[text])
