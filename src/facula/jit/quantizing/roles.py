"""What a node is to quantization.

Takes: nodes. Gives: their roles, and their arguments by name. Keeps true: roles follow from the definitions of
operators (`Definition.quantizers`, `quantized`) and from which operators of integers there are.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.jit.ir import Node, Value
from facula.jit.node_operators import resolved
from facula.jit.signatures import operator_named
from facula.ops.table.registry import PLACES, TABLE
from facula.ops.table.schemas import types as T
from facula.quantization.calls import KEEPING_METHODS

__all__ = [
    "SIZES",
    "arguments",
    "definition_of",
    "form",
    "holds_tensors",
    "is_tensor",
    "name_of",
    "role",
    "tensors",
]


#: questions of the core about extents, whose answers for integers are those for their numbers
SIZES = ("aten::size", "aten::dim", "aten::numel", "prim::shape")


def name_of(node: Node) -> str:
    """The name of the operator that a node calls, without the mark of those that write; "" of other nodes."""
    space, _, name = node.kind_.partition("::")
    found = TABLE.get(name) if space == "aten" else None
    name = name if found is None else found.definition.public_name
    return name.lstrip("_").removeprefix("functional_").rstrip("_") if space == "aten" else ""


def definition_of(node: Node) -> Any:
    """The definition of the operator that a node calls; None where there is none.

    Where PyTorch's operator has an argument more than the function, the function's definition says what it is.
    """
    name = name_of(node)
    if not name:
        return None
    found = [operator_named(name), PLACES["nn.functional"].get(name), TABLE.get(name)]
    found += [TABLE.get(f"_functional_{name}"), TABLE.get(f"functional_{name}")]
    operators = [core.operator_of(f.op if isinstance(f, core.InplaceOp) else f) for f in found if f]
    definitions = [o.definition for o in operators if o is not None]
    said = (d for d in definitions if d.quantizers or d.quantized)
    return next(said, definitions[0] if definitions else None)


def form(name: str) -> Any:
    """The operator of integers of a name; None where there is none."""
    # lazily: programs that quantize nothing do not need them
    import facula.quantization.operators  # noqa: F401

    return TABLE.get(f"quantized::{name}")


def role(node: Node) -> str:
    """What a node is: a "layer" with a packed weight, "arithmetic", "joined", a result with parameters of its "own",
    that are "shared" with the input, or that are "fixed"; "" of what is not quantized.
    """
    name, found = name_of(node), definition_of(node)
    if name in KEEPING_METHODS or f"{name}_" in KEEPING_METHODS:
        return "shared"
    if found is None:
        return ""
    if form(name) is not None and form(f"{name}_prepack") is not None:
        return "layer"
    said = found.quantizers.get("script", found.quantizers.get("fx", ""))
    if found.quantizers.get("xnnpack") == "joined":
        return "joined"
    if said == "arithmetic":
        return "arithmetic" if found.kind == "pointwise" and form(name) is not None else ""
    if said == "own":
        return "own" if form(name) is not None else ""
    if found.quantized in ("unit", "signed unit"):
        return "fixed"
    return "shared" if said == "shared" else ""


def is_tensor(value: Value) -> bool:
    """Whether a value is a tensor."""
    return bool(value.type.kind == "Tensor")


def holds_tensors(kind: T.Type) -> bool:
    """Whether a value of a type is a tensor, or has some inside."""
    inside = kind.kind in ("List", "Tuple")
    return bool(kind.kind == "Tensor") or inside and any(map(holds_tensors, kind.inner))


def tensors(node: Node) -> list[Value]:
    """The tensors that a node reads, those in lists that are put together in front of it too."""
    found: list[Value] = []
    for value in node.inputs_:
        if is_tensor(value):
            found.append(value)
        elif value.type == T.list_of(T.TENSOR) and value.node.kind_ == "prim::ListConstruct":
            found += value.node.inputs_
    return found


def arguments(node: Node) -> dict[str, Value]:
    """The inputs of a node by the names of its operator's arguments."""
    if node.signature is None and not resolved(node):
        return {}
    names = [p.name for p in node.signature.parameters]
    return dict(zip(names, node.inputs_, strict=False))
