"""Whether this machine has a CUDA device: asked before anything else of the device is loaded.

Takes: nothing. Gives: `is_there`. Keeps true: the driver is asked once for each process.
"""

from __future__ import annotations

from functools import cache

from facula.devices.cuda.driver import Driver, DriverError, find

__all__ = ["is_there"]


@cache
def is_there() -> bool:
    """Whether there is a driver, and a device that it knows."""
    try:
        return Driver(find()).count() > 0
    except (OSError, DriverError):
        return False
