"""Parts of a loader that other packages call by PyTorch's names."""

from facula.data import collate
from facula.data._utils import pin_memory

#: seconds between looks at whether a worker lives
MP_STATUS_CHECK_INTERVAL = 5.0

__all__ = ["MP_STATUS_CHECK_INTERVAL", "collate", "pin_memory"]
