"""The CUDA driver, as the engine asks for it: it stands in `devices.cuda`, which all that runs on CUDA shares.

Takes: nothing. Gives: the names of `devices.cuda.driver`.
"""

from facula.devices.cuda.driver import PROTOTYPES, DeviceMemory, Driver, DriverError, find

__all__ = ["PROTOTYPES", "DeviceMemory", "Driver", "DriverError", "find"]
