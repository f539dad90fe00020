"""What calls are to those that quantize whole models: the field `quantizers` of the operators, by role.

Takes: the word of a quantizer ("fx", "xnnpack", "x86") and roles. Gives: the names of the operators whose definitions
give them one of these roles, with the names of their in-place forms; and the operators whose results lie in an interval
that is known. Keeps true: no name is written here.
"""

from __future__ import annotations

from facula.ops.registry import own_operators

__all__ = ["FIXED", "named"]

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
