"""Elementwise operators of two tensors that masked tensors have.

Takes the operator table. Gives names and packets, of new results and of writes. Keeps true: derived, not listed.
"""

from facula.torch_api._maskedtensor import names as _names

BINARY_NAMES = _names.elementwise(2)
INPLACE_BINARY_NAMES = _names.inplace(BINARY_NAMES)
_NEW = _names.packets(BINARY_NAMES)
_WRITTEN = _names.packets(INPLACE_BINARY_NAMES)
NATIVE_BINARY_FNS = list(_NEW.values())
NATIVE_INPLACE_BINARY_FNS = list(_WRITTEN.values())

__all__ = [
    "BINARY_NAMES",
    "INPLACE_BINARY_NAMES",
    "NATIVE_BINARY_FNS",
    "NATIVE_INPLACE_BINARY_FNS",
]
