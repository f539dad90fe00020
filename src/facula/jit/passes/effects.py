"""What nodes do beside giving values: draws, prints, raises, writes, and which of their inputs they hand on.

Takes nodes. Gives answers from the definitions of their operators.
Keeps true: what is not known counts as the worst: it writes, has effects, and hands on all that it gets.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.jit.ir import Node
from facula.ops.random.drawing import draws as operator_draws
from facula.ops.table.definition import Definition
from facula.ops.table.schemas import types as T

__all__ = ["calls", "draws", "fresh", "handed_on", "has_effects", "is_mutable", "written"]

#: calls of other code
calls = (
    "prim::CallFunction",
    "prim::CallMethod",
    "prim::PythonOp",
    "prim::fork",
    "prim::awaitable",
)
_EFFECTS = {
    *calls, "prim::Print", "prim::RaiseException", "prim::SetAttr", "prim::Enter", "prim::Exit", "aten::wait",
    "aten::warn", "aten::manual_seed", "aten::set_grad_enabled", "prim::awaitable_wait", "prim::CreateObject",
    "aten::save", "prim::AddStatValue", "prim::TimePoint", "aten::backward",
}  # fmt: skip
_CONTAINERS = ("aten::append", "aten::extend", "aten::insert", "aten::clear", "aten::pop", "aten::remove",
               "aten::reverse", "aten::sort", "aten::_set_item", "aten::Delete", "aten::update", "aten::popitem",
               "aten::setdefault")  # fmt: skip
#: structure that only looks at what it gets, or puts it together
_PLAIN = {
    "prim::Constant", "prim::TupleConstruct", "prim::ListConstruct", "prim::DictConstruct", "prim::TupleUnpack",
    "prim::ListUnpack", "prim::TupleIndex", "prim::TupleSlice", "prim::unchecked_cast", "prim::Uninitialized",
    "prim::unchecked_unwrap_optional", "prim::GetAttr", "prim::isinstance", "prim::tolist", "prim::If", "prim::Loop",
    "aten::format", "aten::percentFormat", "prim::EnumName", "prim::EnumValue", "prim::Param", "prim::Return",
    "prim::awaitable_nowait",
}  # fmt: skip
#: primitives on tensors that give new ones
_NEW = {
    "aten::index", "aten::tensor", "aten::mul", "aten::add", "aten::sub", "aten::div", "aten::rsub", "aten::clone",
    "aten::ScalarImplicit", "prim::NumToTensor", "aten::cat", "aten::stack",
}  # fmt: skip
_SIMPLE = (
    "int",
    "float",
    "bool",
    "complex",
    "str",
    "NoneType",
    "Device",
    "Scalar",
    "Enum",
    "QScheme",
    "Stream",
)


def is_mutable(kind: T.Type) -> bool:
    """Whether a value of a type, or what it holds, can be written to."""
    if kind.kind in ("Tuple", "Optional", "Union"):
        return any(map(is_mutable, kind.inner))
    return kind.kind not in _SIMPLE


def _definition(node: Node) -> object:
    source = node.signature.source if node.signature is not None else None
    return getattr(source, "definition", None)


def draws(node: Node) -> bool:
    """Whether two calls with the same arguments may give different values."""
    found = _definition(node)
    return isinstance(found, Definition) and operator_draws(found)


def has_effects(node: Node) -> bool:
    """Whether the node does something beside giving values and writing to what it gets."""
    if node.kind_ in _PLAIN:
        return False
    if node.kind_ in _EFFECTS:
        return True
    return node.signature is None


def written(node: Node) -> list[int]:
    """The places of the inputs that the node writes to."""
    kind = node.kind_
    if kind == "prim::SetAttr" or kind in _CONTAINERS and not _gives_new(node):
        return [0]
    if node.signature is None:
        return [] if kind in _PLAIN or kind in _EFFECTS and kind not in calls else _mutable(node)
    if kind.endswith("_") and not kind.endswith("__"):
        return [0]
    if kind.rpartition("::")[2] in ("__iadd__", "__iand__", "__ior__", "__ixor__", "__imul__"):
        return [0]
    given = zip(node.signature.parameters, node.inputs_, strict=False)
    found = [i for i, (p, v) in enumerate(given) if p.name == "out" and v.type != T.NONE]
    mutated = getattr(_definition(node), "mutated", ()) or ()
    names = [p.name for p in node.signature.parameters]
    return found + [names.index(n) for n in mutated if n in names and names.index(n) not in found]


def _gives_new(node: Node) -> bool:
    """`aten::sort` of a tensor gives new ones; that of a list sorts it."""
    return bool(node.inputs_) and node.inputs_[0].type.kind == "Tensor"


def _mutable(node: Node) -> list[int]:
    return [i for i, v in enumerate(node.inputs_) if is_mutable(v.type)]


def fresh(node: Node) -> bool:
    """Whether what the node gives shares no memory with what it gets."""
    if not any(is_mutable(v.type) for v in node.outputs_):
        return True
    if node.kind_ == "aten::dequantize":  # that of numbers gives them themselves
        return node.inputs_[0].node.kind_.startswith("aten::quantize_per_")
    if (
        node.kind_ in ("prim::ListConstruct", "prim::DictConstruct", "prim::Constant")
        or node.kind_ in _NEW
        and not written(node)
    ):
        return True
    if node.signature is not None and not any(_holds_tensors(v.type) for v in node.inputs_):
        return all(v.type.kind == "Tensor" for v in node.outputs_)
    found = _definition(node)
    kind = getattr(found, "kind", None)
    if _is_layer(found) and not written(node):
        return True
    if isinstance(getattr(node.signature, "source", None), core.InplaceOp) or written(node):
        return False
    return kind is not None and kind not in ("view", "composite")


def _is_layer(definition: Any) -> bool:
    """Whether an operator computes with weights, or normalises: what it gives is new, though others compute it."""
    roles = {} if definition is None else definition.quantizers
    return "layer" in roles.values() or roles.get("script") == "own"


def _holds_tensors(kind: T.Type) -> bool:
    return kind.kind not in _SIMPLE and (
        not kind.inner and kind.kind != "Generator" or any(map(_holds_tensors, kind.inner))
    )


def handed_on(node: Node) -> list[int]:
    """The places of the inputs that what the node gives may share memory with."""
    if fresh(node):
        return []
    wrote = written(node)
    if wrote and node.kind_ not in calls:
        return wrote
    if getattr(_definition(node), "kind", None) == "view":
        return [0]
    return _mutable(node)
