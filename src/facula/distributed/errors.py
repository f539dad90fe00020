"""Exceptions of `facula.distributed`, under PyTorch's names; all are RuntimeErrors."""

from __future__ import annotations

__all__ = ["DistBackendError", "DistError", "DistNetworkError", "DistStoreError"]


class DistError(RuntimeError):
    """Something among processes went wrong."""


class DistBackendError(DistError):
    """A collective did not come to its end: a rank is missing, dead, or does something else."""


class DistNetworkError(DistError):
    """An address can not be reached or listened on."""


class DistStoreError(DistError):
    """A store did not get the keys that were waited for."""
