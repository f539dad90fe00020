"""Devices: the registry, a device over NumPy arrays, and kernels of the CPU that are made on first use.

Re-exports what others in the package ask for; users find it in `facula.backends`.
"""

from facula.devices.registry import get, load, register, registered
from facula.devices.results import tensors_of, unset_results

__all__ = ["get", "load", "register", "registered", "tensors_of", "unset_results"]
