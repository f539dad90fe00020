"""`redirect_stdout`, `redirect_stderr`: a stream of this process into a file, also for code in C.

Takes: the name of a file. Gives: context managers; after them the stream is as before.
Keeps true: what was written before goes where it went before.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Iterator
from functools import partial

from facula.core.errors import fail

__all__ = ["get_libc", "redirect", "redirect_stderr", "redirect_stdout"]


@contextlib.contextmanager
def redirect(std: str, to_file: str) -> Iterator[None]:
    """Write a stream of this process to a file, until the end of the block.

    Args:
        std: `stdout` or `stderr`
        to_file: the name of the file

    Raises:
        ValueError: there is no such stream.

    Example:
        >>> import os
        >>> from facula.distributed.elastic.multiprocessing.redirects import redirect
        >>> with redirect("stderr", os.devnull):
        ...     _ = os.write(2, b"nobody sees this")
    """
    numbers = {"stdout": 1, "stderr": 2}
    if std not in numbers:
        fail(ValueError, "redirect", "stdout or stderr was required (unknown standard stream)", repr(std),
             hint="redirect_stdout(file) and redirect_stderr(file) say which")  # fmt: skip
    stream, number = getattr(sys, std), numbers[std]
    stream.flush()
    before = os.dup(number)
    try:
        with open(to_file, "wb") as file:
            os.dup2(file.fileno(), number)
        try:
            yield
        finally:
            stream.flush()
            os.dup2(before, number)
    finally:
        os.close(before)


def get_libc() -> ctypes.CDLL:
    """The C library of this process, whose own buffers of streams it can flush."""
    return ctypes.CDLL(None)


redirect_stdout = partial(redirect, "stdout")
redirect_stderr = partial(redirect, "stderr")
