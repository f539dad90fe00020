"""Looking operators up by their qualified names, and what their schemas say.

Takes qualified names (`namespace::name`, `namespace::name.overload`) and schemas. Gives overloads, the
parts of a name, and whether a schema writes to its arguments. Keeps true: one table of operators.
"""

from __future__ import annotations

from typing import Any

from facula import ops
from facula.core.errors import fail
from facula.ops.table.tags import Tag

__all__ = [
    "get_layout_constraint_tag",
    "is_functional_schema",
    "is_tensor_like_type",
    "is_tensorlist_like_type",
    "lookup_op",
    "parse_namespace",
]


def __getattr__(name: str) -> Any:
    if name != "hop_schema_from_fx_node":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # lazily: few programs ask for it, and it reads graphs
    from facula.torch_api._library.hop_schema import hop_schema_from_fx_node

    return hop_schema_from_fx_node


def parse_namespace(qualname: str) -> tuple[str, str]:
    """The namespace and the rest of a qualified name."""
    namespace, colons, name = qualname.partition("::")
    if not colons or "::" in name:
        required = "a name 'namespace::name' was required: expected `qualname` to be of that form"
        fail(ValueError, "parse_namespace", required, repr(qualname), "for example 'mylib::scale'")
    return namespace, name


def lookup_op(qualname: str) -> Any:
    """The overload of a qualified name; without one, the default."""
    namespace, name = parse_namespace(qualname)
    name, _, overload = name.partition(".")
    return getattr(getattr(getattr(ops, namespace), name), overload or "default")


#: tags about the memory layout of arguments, the strictest first
_LAYOUTS = (
    Tag.needs_exact_strides,
    Tag.needs_contiguous_strides,
    Tag.needs_fixed_stride_order,
    Tag.flexible_layout,
)


def get_layout_constraint_tag(fn: Any, *, with_default: bool = True) -> Tag | None:
    """What an operator asks of the strides of its arguments: the strictest of its tags.

    with_default: whether exact strides stand where it says nothing, else None does
    """
    for tag in _LAYOUTS:
        if tag in fn.tags:
            return tag
    return Tag.needs_exact_strides if with_default else None


def is_functional_schema(schema: object) -> bool:
    """Whether a call by this schema (a text, or an operator's) writes to none of its arguments, gives
    none of them, and gives something.
    """
    text = str(schema).strip()
    arguments, _, results = text.partition("->")
    plain = results.strip()
    aliases = "!" in text or "(a" in plain
    return bool(arguments) and plain not in ("", "()") and not aliases


def is_tensor_like_type(typ: object) -> bool:
    """Whether a type of a schema is a tensor, or one or None."""
    return str(typ) in ("Tensor", "Optional[Tensor]", "Tensor?")


def is_tensorlist_like_type(typ: object) -> bool:
    """Whether a type of a schema is a list of tensors; the list, and its entries, may be None."""
    text = str(typ).replace("Optional[", "").replace("List[", "").replace("]", "").replace("[", "")
    return text.replace("?", "") == "Tensor" and ("List[" in str(typ) or "[]" in str(typ))
