"""Loggers by the name of the module that asks.

Takes: a name, or nothing. Gives: a logger of Python's logging.
Keeps true: LOGLEVEL says how much they tell; nothing is written but by Python's logging.
"""

from __future__ import annotations

import inspect
import logging
import os

from facula.distributed.elastic.utils.log_level import get_log_level

__all__ = ["get_logger"]


def get_logger(name: str | None = None) -> logging.Logger:
    """A logger.

    Args:
        name: its name; default: that of the module that calls this
    """
    logger = logging.getLogger(name or _derive_module_name(depth=2))
    logger.setLevel(os.environ.get("LOGLEVEL", get_log_level()))
    return logger


def _derive_module_name(depth: int = 1) -> str | None:
    """The name of the module whose function called this one; with `depth` 2 of who called that one, and so on."""
    frame = inspect.currentframe()
    for _ in range(depth):
        frame = None if frame is None else frame.f_back
    if frame is None:
        return None
    name = frame.f_globals.get("__name__")
    if name is not None:
        return str(name)
    return os.path.splitext(os.path.basename(frame.f_code.co_filename))[0]
