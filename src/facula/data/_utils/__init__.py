"""Parts of a loader that other packages call by PyTorch's names."""

from __future__ import annotations

import atexit

from facula.data import collate, fetch, worker
from facula.data._utils import pin_memory, signal_handling

try:
    # here, so that each worker that another package forks finds it loaded
    import numpy  # noqa: F401

    HAS_NUMPY = True
except ModuleNotFoundError:
    HAS_NUMPY = False

#: seconds between looks at whether a worker lives
MP_STATUS_CHECK_INTERVAL = 5.0
#: whether the interpreter is ending: processes are not waited for then
python_exit_status = False


def _set_python_exit_flag() -> None:
    global python_exit_status
    python_exit_status = True


atexit.register(_set_python_exit_flag)

__all__ = [
    "HAS_NUMPY",
    "MP_STATUS_CHECK_INTERVAL",
    "collate",
    "fetch",
    "pin_memory",
    "signal_handling",
    "worker",
]
