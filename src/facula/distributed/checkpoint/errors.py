"""Exceptions of `distributed.checkpoint`."""

from __future__ import annotations

__all__ = ["CheckpointException"]


class CheckpointException(RuntimeError):
    """Some ranks could not write or read; the message names them."""

    def __init__(self, text: str, failures: dict[int, str]) -> None:
        super().__init__(text)
        self.failures = failures
