"""How many threads NumPy's OpenBLAS uses, for as long as a call of LAPACK needs.

`hold(count)` has OpenBLAS use so many threads until `release()`; each `hold` needs one `release`.
Keeps true: the number belongs to the process, so the largest that is held counts, and the one which
stood before the first `hold` is back after the last `release`, unless somebody else has set another
meanwhile, whose it then is.  Where NumPy has another library nothing is set.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

_lock = threading.Lock()
_held = 0  # how often `hold` was called without `release`
_before = 0  # the number that stood before the first of them
_ours = 0  # the number that stands since the last of them


def _nothing(count: int = 0) -> int:
    """Of another library than OpenBLAS."""
    return 0


_read: Callable[[], int] = _nothing
_write: Callable[[int], Any] = _nothing
_found = False


def _find() -> None:
    """Look for the functions of NumPy's OpenBLAS."""
    global _read, _write, _found
    import ctypes

    from numpy.linalg import _umath_linalg

    library = ctypes.PyDLL(_umath_linalg.__file__)  # finds the symbols of what it is linked to
    for prefix in ("scipy_openblas", "openblas"):
        for suffix in ("64_", ""):
            read = getattr(library, f"{prefix}_get_num_threads{suffix}", None)
            write = getattr(library, f"{prefix}_set_num_threads{suffix}", None)
            if not _found and read is not None and write is not None:
                _read, _write, _found = read, write, True
    _found = True


def hold(count: int) -> None:
    """Have OpenBLAS use `count` threads, or more where another call that is under way holds more."""
    global _held, _before, _ours
    with _lock:
        if not _found:
            _find()
        if not _held:
            _before = _ours = _read()
        elif count < _ours:
            count = _ours
        _held += 1
        if count != _ours:
            _write(count)
            _ours = _read()  # OpenBLAS may have fewer


def release() -> None:
    """Bring back the number of before, once nothing is held and if it is still ours that stands."""
    global _held
    with _lock:
        _held -= 1
        if not _held and _before != _ours and _read() == _ours:
            _write(_before)


def _after_fork() -> None:
    """A child has none of the calls that its parent's other threads were in."""
    global _lock, _held
    _lock = threading.Lock()
    if _held:
        _held = 1
        release()


os.register_at_fork(after_in_child=_after_fork)

__all__ = ["hold", "release"]
