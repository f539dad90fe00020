"""The exception of checkpoints.

Takes what went wrong on which ranks. Gives `CheckpointException`.
Keeps true: the message names the ranks, and what each of them said.
"""

from __future__ import annotations

import traceback

__all__ = ["CheckpointException", "wrapped"]

#: an exception, and where it was raised
Failure = tuple[BaseException, traceback.StackSummary]


def wrapped(error: BaseException) -> Failure:
    """An exception as it is sent to other ranks."""
    summary = traceback.extract_tb(error.__traceback__)
    for frame in summary:
        if hasattr(frame, "_code"):  # code can not be sent
            object.__setattr__(frame, "_code", None)
    return error, summary


class CheckpointException(RuntimeError):
    """Some ranks could not write or read; the message names them.

    Args:
        msg: the message
        failures: rank -> its exception, and where it was raised

    Example:
        >>> facula.distributed.checkpoint.load({}, checkpoint_id="/no/such/folder")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        facula.distributed.checkpoint.api.CheckpointException: ...
    """

    def __init__(self, msg: str, failures: dict[int, Failure]) -> None:
        super().__init__(msg)
        self._failures = failures

    @property
    def failures(self) -> dict[int, Failure]:
        """Each rank's exception."""
        return self._failures
