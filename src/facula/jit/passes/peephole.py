"""Single nodes that say less than they seem to: sums with zero, casts to what a value is, parts of what was just built.

Takes a graph. Gives it with reads of such nodes replaced by what they give.
Keeps true: nothing that somebody writes to, or that is seen from outside, is replaced by another tensor.
"""

from __future__ import annotations

from typing import Any

from facula.jit.ir import Graph, Node, Value
from facula.jit.passes.aliases import Aliases
from facula.jit.passes.cleaning import dce, key_of
from facula.jit.passes.constants import constant
from facula.jit.passes.containers import list_idioms
from facula.ops.table.schemas import types as T

__all__ = ["peephole"]

_NEUTRAL = {"aten::add": 0, "aten::sub": 0, "aten::mul": 1, "aten::div": 1, "aten::floordiv": 1}
_DIMS = {"aten::conv1d": 3, "aten::conv2d": 4, "aten::conv3d": 5}


def peephole(graph: Graph, disable_shape_peepholes: bool = False) -> bool:
    """Replaces what single nodes say; whether anything changed."""
    work = _Peephole(graph, shapes=not disable_shape_peepholes)
    changed = work.run()
    changed = list_idioms(graph) or changed
    if changed:
        dce(graph)
    return changed


class _Peephole:
    def __init__(self, graph: Graph, shapes: bool) -> None:
        self.graph, self.shapes = graph, shapes
        self.aliases = Aliases(graph)
        self.changed = False
        #: what stands in another's place now: what was known of their memory holds no more
        self.moved: set[Value] = set()

    def run(self) -> bool:
        for block in list(self.graph.all_blocks()):
            for node in list(block.nodes_):
                if node in block.nodes_:
                    self._node(node)
        return self.changed

    def _node(self, node: Node) -> None:
        if node.kind_ == "prim::If":
            self._if(node)
            return
        rule = _RULES.get(node.kind_)
        if rule is None or len(node.outputs_) != 1:
            return
        made = rule(self, node)
        if made is not None and made is not node.outputs_[0]:
            node.outputs_[0].replaceAllUsesWith(made)
            self.changed = True
            self.moved.add(made)

    def constant_at(self, node: Node, value: object, kind: T.Type) -> Value:
        made = Node(node.block, "prim::Constant", [], [kind], {"value": value}, node.place)
        made.insertBefore(node)
        return made.outputs_[0]

    def _if(self, node: Node) -> None:
        yes, no = node.blocks_
        for out, a, b in zip(list(node.outputs_), yes.results, no.results, strict=True):
            self._refine(out, a, b)
            sides = constant(a), constant(b)
            if all(s[0] for s in sides) and out.type == T.BOOL:
                if sides[0][1] is True and sides[1][1] is False:
                    self._replace(out, node.inputs_[0])
        if node.inputs_[0].node.kind_ == "aten::__not__":
            node.inputs_[0] = node.inputs_[0].node.inputs_[0]
            node.blocks_.reverse()
            self.changed = True
        self._short_circuit(node)

    def _short_circuit(self, node: Node) -> None:
        """`c and True`: the side that is taken gives what the other is known to give, or the condition."""
        yes, no = node.blocks_
        if len(node.outputs_) != 1 or node.outputs_[0].type != T.BOOL or yes.nodes_ and no.nodes_:
            return
        for value, own in ((yes.results[0], True), (no.results[0], False)):
            if value is node.inputs_[0]:
                self._known_side(node, own)

    def _known_side(self, node: Node, own: bool) -> None:
        side = node.blocks_[0 if own else 1]
        made = Node(side, "prim::Constant", [], [T.BOOL], {"value": own})
        side.nodes_.append(made)
        side.results[0] = made.outputs_[0]
        self.changed = True

    def _refine(self, out: Value, a: Value, b: Value) -> None:
        if out.type.kind != "Optional":
            return
        kind = T.unify(a.type, b.type)
        if (
            kind is not None
            and kind != out.type
            and T.is_subtype(kind, out.type)
            and kind != T.NONE
        ):
            out.type = kind
            self.changed = True

    def _replace(self, old: Value, new: Value) -> None:
        if old.uses():
            old.replaceAllUsesWith(new)
            self.changed = True

    # ---- single nodes
    def may_stand_for(self, node: Node, value: Value) -> bool:
        """Whether a new tensor may as well be the one that it is equal to."""
        if node.outputs_[0].type.kind != "Tensor":
            return True
        known, out = self.aliases, node.outputs_[0]
        if value in self.moved:
            return False
        if known.has_writers(value) or known.has_writers(out):
            return False
        return not (known.is_outside(value) and known.is_outside(out))


def _neutral(work: _Peephole, node: Node) -> Value | None:
    """`x + 0`, `x * 1`."""
    a, b = node.inputs_[:2]
    scale = constant(node.inputs_[2]) if len(node.inputs_) > 2 else (True, 1)
    if scale != (True, 1):
        return None
    neutral = _NEUTRAL[node.kind_]
    for value, other in ((a, b), (b, a)):
        known, number = constant(other)
        if not known or type(number) not in (int, float) or number != neutral:
            continue
        if other is a and node.kind_ not in ("aten::add", "aten::mul"):
            continue
        if type(number) is float and not (work.shapes and _is_floating(value)):
            continue
        if _is_alike(node.outputs_[0].type, value.type) and work.may_stand_for(node, value):
            return value
    return _folded(node)


def _is_alike(a: T.Type, b: T.Type) -> bool:
    """Whether types are the same, whatever is known of tensors."""
    return a == b or a.kind == b.kind == "Tensor"


def _is_floating(value: Value) -> bool:
    dtype = getattr(value.type, "element", None)
    return value.type.kind == "float" or dtype is not None and dtype.is_floating_point


def _folded(node: Node) -> Value | None:
    """`(x + 2) - 3` of ints is `x - 1`."""
    if node.kind_ not in ("aten::add", "aten::sub") or node.outputs_[0].type != T.INT:
        return None
    terms, total = _sum(node.outputs_[0])
    if total != 0 or len(terms) != 1 or next(iter(terms.values())) != 1:
        return None
    return next(iter(terms))


def _sum(value: Value) -> tuple[dict[Value, int], int]:
    """An int as the sum of others, each so many times, and a number."""
    known, number = constant(value)
    if known:
        return {}, number
    node = value.node
    if node.kind_ in ("aten::add", "aten::sub") and value.type == T.INT and len(node.inputs_) == 2:
        terms, total = _sum(node.inputs_[0])
        more, number = _sum(node.inputs_[1])
        sign = 1 if node.kind_ == "aten::add" else -1
        made = dict(terms)
        for each, count in more.items():
            made[each] = made.get(each, 0) + sign * count
        return {v: c for v, c in made.items() if c}, total + sign * number
    if (
        node.kind_ in ("aten::mul", "aten::floordiv")
        and len(node.inputs_) == 2
        and value.type == T.INT
    ):
        for a, b in (node.inputs_, node.inputs_[::-1])[: 2 if node.kind_ == "aten::mul" else 1]:
            if constant(b) == (True, 1):
                return _sum(a)
    return {value: 1}, 0


def _same_cast(work: _Peephole, node: Node) -> Value | None:
    """A cast to the type that the value has."""
    value = node.inputs_[0]
    return value if T.is_subtype(value.type, node.outputs_[0].type) else None


def _is_none(work: _Peephole, node: Node) -> Value | None:
    """`x is None` of a value that is never None, or always."""
    a, b = node.inputs_
    if a.type == T.NONE:
        a, b = b, a
    if b.type != T.NONE:
        return None
    positive = node.kind_ == "aten::__is__"
    if a.type == T.NONE:
        return work.constant_at(node, positive, T.BOOL)
    if T.NONE in T.members(a.type) or a.type.kind == "Any":
        return None
    return work.constant_at(node, not positive, T.BOOL)


def _same_compared(work: _Peephole, node: Node) -> Value | None:
    """`x == x` of what cannot be unequal to itself."""
    a, b = node.inputs_
    if a is b and (a.type in (T.INT, T.BOOL, T.STR) or a.type == T.list_of(T.INT)):
        return work.constant_at(node, node.kind_ == "aten::eq", T.BOOL)
    if {a.type, b.type} == {T.BOOL}:
        for value, other in ((a, b), (b, a)):
            known, said = constant(other)
            if known and said == (node.kind_ == "aten::eq"):
                return value
    return None


def _not(work: _Peephole, node: Node) -> Value | None:
    """`not not x`; `not (a == b)` of numbers."""
    inner = node.inputs_[0].node
    if inner.kind_ == "aten::__not__":
        return inner.inputs_[0]
    turned = {"aten::eq": "aten::ne", "aten::ne": "aten::eq"}.get(inner.kind_)
    if turned and {v.type for v in inner.inputs_} <= {T.INT, T.BOOL, T.STR}:
        made = Node(node.block, turned, list(inner.inputs_), [T.BOOL], place=node.place)
        made.insertBefore(node)
        return made.outputs_[0]
    return None


def _type_as(work: _Peephole, node: Node) -> Value | None:
    """`x.type_as(y)` of tensors of one known dtype."""
    a, b = (getattr(v.type, "element", None) for v in node.inputs_[:2])
    return node.inputs_[0] if work.shapes and a is not None and a == b else None


def _dim(work: _Peephole, node: Node) -> Value | None:
    """The number of dimensions, where that is known."""
    value = node.inputs_[0]
    count = _DIMS.get(value.node.kind_)
    if count is not None and work.shapes and not work.aliases.has_writers(value):
        return work.constant_at(node, count, T.INT)
    sizes = getattr(value.type, "shape", None)
    if sizes is not None and work.shapes:
        return work.constant_at(node, len(sizes), T.INT)
    return None


def _is_number(size: int | None) -> bool:
    """Whether a size is known: negative ones are names."""
    return size is not None and size >= 0


def _size(work: _Peephole, node: Node) -> Value | None:
    """Sizes that are known."""
    sizes = getattr(node.inputs_[0].type, "shape", None)
    if sizes is None or not work.shapes:
        return None
    if len(node.inputs_) == 1 or node.inputs_[1].type == T.NONE:
        if not all(map(_is_number, sizes)) or work.aliases.has_writers(node.outputs_[0]):
            return None
        return work.constant_at(node, list(sizes), T.list_of(T.INT))
    known, dim = constant(node.inputs_[1])
    if known and -len(sizes) <= dim < len(sizes) and _is_number(sizes[dim]):
        return work.constant_at(node, sizes[dim], T.INT)
    return None


def _length(work: _Peephole, node: Node) -> Value | None:
    """The number of sizes of a tensor whose dimensions are known."""
    inner = node.inputs_[0].node
    if inner.kind_ != "aten::size" or len(inner.inputs_) != 1:
        return None
    if work.aliases.has_writers(inner.outputs_[0]):
        return None
    sizes = getattr(inner.inputs_[0].type, "shape", None)
    if sizes is None or not work.shapes:
        return None
    return work.constant_at(node, len(sizes), T.INT)


def _number(work: _Peephole, node: Node) -> Value | None:
    """`int(x)` of an int, and of a tensor that was made of one."""
    value = node.inputs_[0]
    if value.type == node.outputs_[0].type:
        return value
    made = value.node
    if (
        made.kind_ == "aten::div"
        and node.kind_ == "aten::Int"
        and constant(made.inputs_[1]) == (True, 1)
    ):
        return made.inputs_[0] if made.inputs_[0].type == T.INT else None
    if made.kind_ == "prim::NumToTensor" and made.inputs_[0].type == node.outputs_[0].type:
        return made.inputs_[0]
    return None


def _twice(work: _Peephole, node: Node) -> Value | None:
    """`x.t().t()`."""
    inner = node.inputs_[0].node
    return inner.inputs_[0] if inner.kind_ == "aten::t" else None


def _expand(work: _Peephole, node: Node) -> Value | None:
    """An expansion to the sizes that the tensor has."""
    sizes = getattr(node.inputs_[0].type, "shape", None)
    known, wanted = constant(node.inputs_[1])
    return (
        node.inputs_[0]
        if work.shapes
        and known
        and sizes is not None
        and all(map(_is_number, sizes))
        and list(sizes) == list(wanted)
        else None
    )


def _asked(work: _Peephole, node: Node) -> Value | None:
    """The device of a tensor whose type says it."""
    found = getattr(node.inputs_[0].type, "place", None)
    if found is None or not work.shapes or key_of(found) is None:
        return None
    return work.constant_at(node, found, T.DEVICE)


_RULES: dict[str, Any] = {
    **dict.fromkeys(_NEUTRAL, _neutral),
    "prim::unchecked_cast": _same_cast, "aten::_unwrap_optional": _same_cast,
    "prim::unchecked_unwrap_optional": _same_cast, "aten::__is__": _is_none, "aten::__isnot__": _is_none,
    "aten::eq": _same_compared, "aten::ne": _same_compared, "aten::__not__": _not, "aten::type_as": _type_as,
    "aten::dim": _dim, "aten::size": _size, "aten::len": _length,
    "aten::Int": _number, "aten::Float": _number, "aten::Bool": _number,
    "aten::t": _twice, "aten::expand": _expand, "prim::device": _asked,
}  # fmt: skip
