"""Which handler of errors a worker has, under PyTorch's name of the module."""

from __future__ import annotations

from facula.distributed.elastic.multiprocessing.errors import get_error_handler

__all__ = ["get_error_handler"]
