"""Operators and their overloads under the names of PyTorch's module.

Takes: nothing. Gives: `OpOverload`, `OpOverloadPacket`, `_OpNamespace`, and `ops`, where operators are reached by
namespace. Keeps true: re-exports; the classes are those of the operators themselves.
"""

from facula import ops
from facula.fx.higher_order import HigherOrderOperator
from facula.ops.table.overloads import Namespace as _OpNamespace
from facula.ops.table.overloads import OpOverload
from facula.ops.table.overloads import Packet as OpOverloadPacket

__all__ = ["HigherOrderOperator", "OpOverload", "OpOverloadPacket", "_OpNamespace", "ops"]
