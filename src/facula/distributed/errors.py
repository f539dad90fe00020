"""Exceptions of `facula.distributed`, under PyTorch's names; all are RuntimeErrors."""

from __future__ import annotations

__all__ = [
    "DistBackendError", "DistError", "DistNetworkError", "DistStoreError", "QueueEmptyError",
]  # fmt: skip


class DistError(RuntimeError):
    """Something among processes went wrong.

    Example:
        >>> issubclass(facula.distributed.DistBackendError, facula.distributed.DistError)
        True
    """


class DistBackendError(DistError):
    """A collective did not come to its end: a rank is missing, dead, or does something else.

    Example:
        >>> raise facula.distributed.DistBackendError("a rank is missing")
        Traceback (most recent call last):
        facula.distributed.errors.DistBackendError: a rank is missing
    """


class DistNetworkError(DistError):
    """An address can not be reached or listened on.

    Example:
        >>> issubclass(facula.distributed.DistNetworkError, RuntimeError)
        True
    """


class DistStoreError(DistError):
    """A store did not get the keys that were waited for.

    Example:
        >>> import datetime
        >>> store = facula.distributed.HashStore()
        >>> try:
        ...     store.wait(["epoch"], datetime.timedelta(seconds=0.01))
        ... except facula.distributed.DistStoreError:
        ...     print("nobody set it")
        nobody set it
    """


class QueueEmptyError(DistStoreError):
    """A queue of a store has no value, and nobody waits for one.

    Example:
        >>> store = facula.distributed.HashStore()
        >>> try:
        ...     store.queue_pop("jobs", block=False)
        ... except facula.distributed.QueueEmptyError:
        ...     print("nothing to do")
        nothing to do
    """
