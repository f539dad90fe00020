"""The operator of a node: by its name and the types of what it reads.

Takes nodes, as text or a program made them. Gives what they do when they run.
Keeps true: a node that was made with a signature keeps it; arguments that a text leaves out have their defaults.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula.core.errors import fail
from facula.jit.builder import matches
from facula.jit.ir import Node
from facula.jit.running import RUNS
from facula.jit.signatures import Signature, signatures
from facula.ops.table.schema import REQUIRED
from facula.ops.table.schemas import types as T

__all__ = ["function_of", "resolved"]


def function_of(node: Node) -> Callable[..., Any] | None:
    """What a node does when it runs; None of one whose operator does not exist."""
    if node.run is not None:
        return node.run
    if node.kind_ in RUNS:
        return RUNS[node.kind_](node)
    return node.run if resolved(node) else None


def resolved(node: Node) -> bool:
    """Finds the signature of a node; whether there is one."""
    if node.signature is not None:
        return True
    for signature in signatures(node.kind_):
        if _takes(signature, node):
            node.signature, node.run = signature, _filled(signature, len(node.inputs_))
            return True
    return False


def _takes(signature: Signature, node: Node) -> bool:
    given, parameters = node.inputs_, signature.parameters
    if len(given) > len(parameters):
        return False
    if any(p.default is REQUIRED for p in parameters[len(given) :]):
        return False
    bound: dict[str, T.Type] = {}
    return all(_fits(p.type, v.type, bound) for p, v in zip(parameters, given, strict=False))


def _fits(wanted: T.Type, have: T.Type, bound: dict[str, T.Type]) -> bool:
    if matches(wanted, have, bound):
        return True
    inner = T.without_none(wanted)
    if have.kind == "Scalar":
        return any(m.kind in ("Scalar", "int", "float") for m in T.members(wanted))
    return inner.kind == "List" and have.kind == "List" and have.item == T.NONE


def _filled(signature: Signature, count: int) -> Callable[..., Any]:
    rest = [list(p.default) if isinstance(p.default, (list, tuple)) else p.default
            for p in signature.parameters[count:]]  # fmt: skip
    run = signature.run
    return run if not rest else lambda *values: run(*values, *rest)


def needed(node: Node) -> Callable[..., Any]:
    """What a node does when it runs."""
    found = function_of(node)
    if found is None:
        kinds = ", ".join(str(v.type) for v in node.inputs_)
        fail(RuntimeError, "jit.graph", "an operator that exists, and takes the types, was required",
             f"{node.kind_}({kinds})", hint="the signatures are in the documentation of the operator")  # fmt: skip
    return found
