"""Which handler starts a program."""

from __future__ import annotations

from typing import Any

from facula.distributed.elastic.multiprocessing.subprocess_handler.subprocess_handler import (
    SubprocessHandler,
)

__all__ = ["get_subprocess_handler"]


def get_subprocess_handler(
    entrypoint: str, args: tuple[Any, ...], env: dict[str, str], stdout: str | None, stderr: str | None,
    local_rank_id: int, numa_options: Any = None,
) -> SubprocessHandler:  # fmt: skip
    """A program that was started.

    Args:
        entrypoint: the program
        args: its arguments
        env: variables of its environment, beside those of this process
        stdout: the file of its output; nothing for this process's
        stderr: the file of its error output
        local_rank_id: its number on this machine
        numa_options: kept for PyTorch's API
    """
    return SubprocessHandler(entrypoint, args, env, stdout, stderr, local_rank_id, numa_options)
