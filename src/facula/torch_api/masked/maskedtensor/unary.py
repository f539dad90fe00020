"""Elementwise operators of one tensor that masked tensors have.

Takes the operator table. Gives names and packets, of new results and of writes. Keeps true: derived, not listed.
"""

from facula.torch_api._maskedtensor import names as _names

UNARY_NAMES = _names.elementwise(1)
INPLACE_UNARY_NAMES = _names.inplace(UNARY_NAMES)
_NEW = _names.packets(UNARY_NAMES)
_WRITTEN = _names.packets(INPLACE_UNARY_NAMES)
NATIVE_UNARY_FNS = list(_NEW.values())
NATIVE_INPLACE_UNARY_FNS = list(_WRITTEN.values())

__all__ = [
    "UNARY_NAMES",
    "INPLACE_UNARY_NAMES",
    "NATIVE_UNARY_FNS",
    "NATIVE_INPLACE_UNARY_FNS",
]
