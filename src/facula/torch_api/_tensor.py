"""`Tensor` in the module where PyTorch defines it.

Takes: nothing. Gives: the class, and how a tensor of a subclass is made of what a file holds.
Keeps true: re-exports.
"""

from typing import Any

from facula.core import Tensor
from facula.namespaces.overrides import get_default_nowrap_functions
from facula.serialization.rebuild import TABLE

__all__ = ["Tensor", "get_default_nowrap_functions"]

_rebuild_from_type_v2 = TABLE["torch._tensor", "_rebuild_from_type_v2"]


def _convert(ret: Any, cls: type) -> Any:
    """A result as a subclass has it: each tensor in it becomes one of the class."""
    if cls is Tensor:
        return ret
    if isinstance(ret, Tensor) and not isinstance(ret, cls):
        return ret.as_subclass(cls)
    if isinstance(ret, (tuple, list)):
        parts = [_convert(part, cls) for part in ret]
        return type(ret)(*parts) if hasattr(ret, "_fields") else type(ret)(parts)
    return ret
