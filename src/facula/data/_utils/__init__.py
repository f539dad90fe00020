"""Parts of a loader that other packages call by PyTorch's names."""

from __future__ import annotations

import atexit
import importlib.util

from facula.data import collate, fetch, worker
from facula.data._utils import pin_memory, signal_handling

#: seconds between looks at whether a worker lives
MP_STATUS_CHECK_INTERVAL = 5.0
HAS_NUMPY = importlib.util.find_spec("numpy") is not None
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
