"""Exchange of memory with other frameworks through DLPack.

Takes tensors, capsules, and objects with `__dlpack__`. Gives capsules and tensors on the same memory.
Keeps true: nothing is copied.
"""

from __future__ import annotations

import enum

from facula.core import from_dlpack, to_dlpack

__all__ = ["DLDeviceType", "from_dlpack", "to_dlpack"]


class DLDeviceType(enum.IntEnum):
    """DLPack's numbers for kinds of devices."""

    kDLCPU = 1
    kDLCUDA = 2
    kDLCUDAHost = 3
    kDLOpenCL = 4
    kDLVulkan = 7
    kDLMetal = 8
    kDLVPI = 9
    kDLROCM = 10
    kDLROCMHost = 11
    kDLExtDev = 12
    kDLCUDAManaged = 13
    kDLOneAPI = 14
