"""Programs as workers: one process, its output, its end."""

from __future__ import annotations

from facula.distributed.elastic.multiprocessing.subprocess_handler.handlers import (
    get_subprocess_handler,
)
from facula.distributed.elastic.multiprocessing.subprocess_handler.subprocess_handler import (
    SubprocessHandler,
)

__all__ = ["SubprocessHandler", "get_subprocess_handler"]
