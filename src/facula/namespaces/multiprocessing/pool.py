"""A pool of processes, under PyTorch's name: Python's own, which sends tensors as their memory."""

from multiprocessing.pool import Pool

from ..shared_memory import strategy as _strategy  # noqa: F401 - brings in how tensors are sent

__all__ = ["Pool"]
