"""Reductions that masked tensors have.

Takes the operator table. Gives names and packets. Keeps true: derived, not listed.
"""

from facula.torch_api._maskedtensor import names as _names

REDUCE_NAMES = _names.reductions()
NATIVE_REDUCE_FNS = list(_names.packets(REDUCE_NAMES).values())

__all__ = ["NATIVE_REDUCE_FNS", "REDUCE_NAMES"]
