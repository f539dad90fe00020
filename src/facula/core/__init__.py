"""The core: tensors, dispatch, the tape and its engine, memory, threads, random numbers, errors.

Takes: nothing of facula. Gives: the names below. Keeps true: it is importable without NumPy and in milliseconds.
"""

from facula.core import errors
from facula.core._core import *  # noqa: F403
from facula.core._core import _disabled_torch_function_impl, bool_
from facula.core.limits import finfo, iinfo

bool = bool_

__all__ = [name for name in globals() if not name.startswith("_")]
