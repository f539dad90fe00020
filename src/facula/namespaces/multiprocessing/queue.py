"""Queues between processes, under PyTorch's names: Python's own, which send tensors as their memory."""

from multiprocessing.connection import Connection as ConnectionWrapper
from multiprocessing.queues import Queue, SimpleQueue

from ..shared_memory import strategy as _strategy  # noqa: F401 - brings in how tensors are sent

__all__ = ["ConnectionWrapper", "Queue", "SimpleQueue"]
