"""What calls are to those that quantize whole models: the field `quantizers` of the operators, by role.

Takes: the word of a quantizer ("fx", "xnnpack", "x86") and roles. Gives: the names of the operators whose definitions
give them one of these roles, with the names of their in-place forms; the operators whose results lie in an interval
that is known; and the modules that are called like operators. Keeps true: no operator's name is written here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import facula.nn as nn
from facula.ops.table.registry import own_operators

__all__ = ["FIXED", "FIXED_MODULES", "KEEPING_METHODS", "modules_of", "named"]

#: methods of the core's tensors, which no definition describes, that give the tensor's own elements
KEEPING_METHODS = frozenset(("contiguous", "repeat", "detach_", "resize_"))
_INTERVALS = {"unit": "0to1", "signed unit": "neg1to1"}
#: operators whose results lie in an interval, and which one
FIXED = {
    name: _INTERVALS[operator.definition.quantized]
    for name, operator in own_operators().items()
    if operator.definition.quantized in _INTERVALS
}


def named(quantizer: str, *roles: str) -> frozenset[str]:
    """The names under which graphs call the operators that have one of the roles."""
    found = set()
    for name, operator in own_operators().items():
        definition = operator.definition
        if definition.quantizers.get(quantizer) in roles:
            found |= {name, f"{name}_"} if definition.inplace else {name}
    return frozenset(found)


def modules_of(names: Iterable[str]) -> tuple[Any, ...]:
    """The modules that are called like functions: `AvgPool2d` like `avg_pool2d`."""
    wanted = {name.replace("_", "") for name in names}
    kinds = (v for v in vars(nn).values() if isinstance(v, type) and issubclass(v, nn.Module))
    return tuple(kind for kind in kinds if kind.__name__.lower() in wanted)


#: modules whose results lie in an interval, and which one
FIXED_MODULES = {
    **{kind: FIXED[kind.__name__.lower()] for kind in modules_of(FIXED)},
    nn.Softmax: "0to1",  # whose operator gives quantized tensors a range of their own
}
