"""What follows a product, taken into the product: batch norm, residuals, elementwise functions.

Takes: a flat inference graph whose placeholders say `meta["owned"]` where they are a module's own.
Gives: `fold_batch_norm` and `fuse_epilogues`, which rewrite it in terms of `_conv_epilogue` and
`_linear_epilogue`, whose weights are packed where they are owned (`freezing` computes that once).
Keeps true: a value in between that somebody else reads stays as it is; which functions may follow
is asked of the operator table and of the kernels that are there, not of a list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from facula import core
from facula.fx import Graph, Node
from facula.fx.node import map_arg
from facula.lower import table
from facula.ops.expr.scalar import Runtime
from facula.ops.table.overloads import overload_of
from facula.ops.table.pointwise_rules import variant_parts
from facula.ops.table.registry import F, Pointwise

if TYPE_CHECKING:
    from facula.ops.table.definition import Definition


#: names the fastest of some functions; the text says what their times depend on
Fastest = Callable[[str, Mapping[str, Callable[[], Any]]], str]


class Choices(NamedTuple):
    """What is open about products: whether they take what follows, and what is chosen by measurement."""

    epilogues: bool = True
    #: how the kernel of a convolution is chosen; None for the usual one
    convolution: Fastest | None = None
    #: whether the weights of a linear layer are packed; None packs them
    product: Fastest | None = None


#: rows of a product below which weights are read as fast where they lie
FEW_ROWS = 2


def frozen_nodes(graph: Graph) -> set[Node]:
    """The nodes that depend on a module's own tensors alone."""
    found: set[Node] = set()
    for node in graph.nodes:
        if node.op == "placeholder":
            if node.meta.get("owned") and not node.meta.get("written"):
                found.add(node)
        elif node.op == "get_attr":
            found.add(node)
        elif node.op == "call_function" and not table.is_random(node):
            inputs = node.all_input_nodes
            if inputs and all(n in found for n in inputs):
                found.add(node)
    return found


class Builder:
    """Adds calls with their fake values before a node."""

    def __init__(self, graph: Graph, before: Node) -> None:
        self.graph, self.before = graph, before

    def __call__(self, function: Callable[..., Any], *args: Any) -> Node:
        values = map_arg(args, lambda n: n.meta["val"])
        target = overload_of(function, values, {})
        with self.graph.inserting_before(self.before):
            node = self.graph.call_function(target, args)
        node.meta["val"] = target(*values)
        return node


def given_to(node: Node) -> list[Any]:
    """The arguments of a call in schema order."""
    definition = table.definition_of(node)
    assert definition is not None
    return table.complete(definition.schema, node.args, node.kwargs)


def _calls(node: Node, function: Callable[..., Any]) -> bool:
    if not isinstance(node, Node) or node.op != "call_function":
        return False
    return table.operator_of(node.target) is function


def fold_batch_norm(graph: Graph) -> int:
    """Let convolutions do what a batch norm behind them does; gives how many went."""
    frozen = frozen_nodes(graph)
    count = 0
    for node in list(graph.nodes):
        if not _calls(node, F.batch_norm_eval):
            continue
        source, mean, var, gamma, beta, eps = given_to(node)
        if not _calls(source, F._conv) or len(source.users) != 1:
            continue
        x, weight, bias, *settings = given_to(source)
        tensors = [t for t in (weight, bias, mean, var, gamma, beta) if t is not None]
        if not all(t in frozen for t in tensors) or not _same_dtype(tensors):
            continue
        build = Builder(graph, node)
        folded = _folded(build, weight, bias, mean, var, gamma, beta, eps)
        made = build(F._conv, x, *folded, *settings)
        made.meta = {**node.meta, "val": made.meta["val"]}
        node.replace_all_uses_with(made)
        graph.erase_node(node)
        graph.erase_node(source)
        count += 1
    return count


def _same_dtype(nodes: Sequence[Node]) -> bool:
    return len({n.meta["val"].dtype for n in nodes}) == 1


def _folded(
    build: Builder,
    weight: Node,
    bias: Node | None,
    mean: Node,
    var: Node,
    gamma: Node,
    beta: Node,
    eps: float,
) -> tuple[Node, Node]:
    """Weight and bias of the convolution that normalises its results."""
    scale = build(F.rsqrt, build(F.add, var, eps))
    scale = scale if gamma is None else build(F.mul, scale, gamma)
    rank = weight.meta["val"].dim()
    along = build(F.view, scale, (-1, *[1] * (rank - 1)))
    shift = build(F.neg, mean) if bias is None else build(F.sub, bias, mean)
    shift = build(F.mul, shift, scale)
    shift = shift if beta is None else build(F.add, shift, beta)
    return build(F.mul, weight, along), shift


@dataclass(slots=True)
class _Epilogue:
    """What follows a product."""

    last: Node
    residual: Node | None = None
    map: str = ""
    attributes: tuple[float, ...] = ()


def fuse_epilogues(graph: Graph, packs: bool, choices: Choices) -> int:
    """Let products take what follows them, and read packed weights; gives how many changed.

    Without `packs` weights are read where they lie: those of a training step change with each.
    """
    frozen = frozen_nodes(graph) if packs else set()
    count = 0
    for node in list(graph.nodes):
        rule = _RULES.get(table.operator_of(node.target) if node.op == "call_function" else None)
        if rule is not None and node not in frozen:
            count += rule(graph, node, frozen, choices)
    return count


def _epilogue_of(node: Node, residuals: bool, choices: Choices) -> _Epilogue:
    """The residual and the function that follow a product, as far as nobody else reads between."""
    epilogue = _Epilogue(node)
    if not choices.epilogues:
        return epilogue
    user = _only_user(epilogue.last)
    if residuals and user is not None and _calls(user, F.add):
        a, b, *alpha = given_to(user)
        other = b if a is epilogue.last else a
        if alpha in ([], [1]) and isinstance(other, Node) and other is not node:
            if _alike(other, node) and _alike(user, node):
                epilogue.last, epilogue.residual = user, other
                user = _only_user(user)
    if user is not None:
        found = _map_of(user)
        if found is not None:
            epilogue.last, (epilogue.map, epilogue.attributes) = user, found
    return epilogue


def _only_user(node: Node) -> Node | None:
    return next(iter(node.users)) if len(node.users) == 1 else None


def _alike(a: Node, b: Node) -> bool:
    """Whether two values have shape, dtype and order of memory in common."""
    x, y = a.meta.get("val"), b.meta.get("val")
    if not isinstance(x, core.Tensor) or x.dtype is not y.dtype or x.shape != y.shape:
        return False
    pairs = zip(x.shape, x.stride(), y.stride(), strict=True)
    return all(n == 1 or i == k for n, i, k in pairs)


def _map_of(node: Node) -> tuple[str, tuple[float, ...]] | None:
    """The kernel of an elementwise function of one tensor, and its numbers."""
    definition = table.definition_of(node)
    if not isinstance(definition, Pointwise) or not _takes_one(definition, node):
        return None
    value, source = node.meta["val"], node.all_input_nodes[0].meta["val"]
    if not _alike(node, node.all_input_nodes[0]) or value.dtype is not source.dtype:
        return None
    code = "f64" if value.dtype is core.float64 else "f32"
    for chosen in ({}, *definition.prebuilt):
        numbers = _numbers(definition, given_to(node), chosen)
        if numbers is None:
            continue
        key, _, _ = variant_parts(definition, chosen, code)
        name = f"{definition.name}.{key}:{code}" if key else f"{definition.name}:{code}"
        if core.has_kernel(name):
            return name, numbers
    return None


def _takes_one(definition: Definition, node: Node) -> bool:
    """Whether a node's first argument is its one operand: a number, or the same value again, in a
    tensor's place is an operand as well, which the kernel would read through a pointer."""
    pairs = zip(definition.schema.parameters, given_to(node), strict=True)
    operands = [value for p, value in pairs if p.is_tensor and value is not None]
    return len(operands) == 1 and isinstance(operands[0], Node) and operands[0] is node.args[0]


def _numbers(
    definition: Pointwise, given: Sequence[Any], chosen: dict[str, Any]
) -> tuple[float, ...] | None:
    """The attributes that a variant takes when it runs; None where the call is not of the variant."""
    numbers: list[float] = []
    for parameter, value in zip(definition.schema.parameters, given, strict=True):
        if parameter.is_tensor:
            if chosen.get(parameter.name):
                return None
            continue
        wanted = chosen.get(parameter.name, parameter.default if parameter.has_default else value)
        if isinstance(wanted, Runtime) or not parameter.has_default:
            if not isinstance(value, (int, float)) or isinstance(value, bool):
                return None
            numbers.append(float(value))
        elif value != wanted:
            return None
    return tuple(numbers)


def _convolution(graph: Graph, node: Node, frozen: set[Node], choices: Choices) -> int:
    x, weight, bias, *settings = given_to(node)
    stride, padding, dilation, groups, size = settings
    image, kernel = x.meta["val"], weight.meta["val"]
    value = node.meta["val"]
    if image.dim() not in (4, 5):
        return 0
    last = value.is_contiguous(memory_format=_FORMATS[image.dim()])
    # products of a kernel of one pixel read weights where they lie, unless pixels are rows
    one = prod(kernel.shape[2:]) == 1 and (prod(image.shape[2:]) == 1 or not last)
    depthwise = kernel.shape[1] == 1 and kernel.shape[0] == groups
    packs = weight in frozen and not one and not depthwise
    epilogue = _epilogue_of(node, packs and last, choices)
    if epilogue.last is node and not packs:
        return 0
    build = Builder(graph, epilogue.last)
    panels, direct = weight, packs and _prefers_direct(image, kernel, settings, choices)
    if packs:
        panels = build(F._conv_pack, weight, tuple(image.shape), *settings, direct)
    made = build(
        F._conv_epilogue, x, panels, bias, epilogue.residual, tuple(kernel.shape), *settings, last,
        direct, epilogue.map, epilogue.attributes,
    )  # fmt: skip
    return _replace(graph, node, epilogue, made)


def _linear(graph: Graph, node: Node, frozen: set[Node], choices: Choices) -> int:
    x, weight, bias = given_to(node)
    rows, matrix = x.meta["val"], weight.meta["val"]
    if matrix.dim() != 2 or not rows.dtype.is_floating_point:
        return 0
    if bias is not None and bias.meta["val"].dim() != 1:
        return 0
    if bias is not None and bias.meta["val"].shape[0] != matrix.shape[0]:
        return 0
    packs = weight in frozen and prod(rows.shape[:-1]) >= FEW_ROWS
    packs = packs and _prefers_panels(rows, matrix, choices)
    epilogue = _epilogue_of(node, node.meta["val"].is_contiguous(), choices)
    if epilogue.last is node and not packs:
        return 0
    build = Builder(graph, epilogue.last)
    panels = build(F._linear_pack, weight) if packs else weight
    made = build(
        F._linear_epilogue,
        x,
        panels,
        bias,
        epilogue.residual,
        matrix.shape[0],
        epilogue.map,
        epilogue.attributes,
    )
    return _replace(graph, node, epilogue, made)


def _prefers_direct(
    image: core.Tensor, kernel: core.Tensor, settings: Sequence[Any], choices: Choices
) -> bool:
    """Whether measurement finds the direct sum faster than the transform that would be chosen."""
    stride, _, dilation, groups, _ = settings
    small = groups == 1 and set(kernel.shape[2:]) == {3} and set((*stride, *dilation)) == {1}
    if choices.convolution is None or not small:
        return False
    x, weight = (core.empty_strided(t.shape, t.stride(), dtype=t.dtype) for t in (image, kernel))
    candidates = {}
    for name, direct in (("transformed", False), ("direct", True)):
        panels = F._conv_pack(weight.zero_(), tuple(x.shape), *settings, direct)
        rest = (tuple(kernel.shape), *settings, True, direct, "", ())
        candidates[name] = partial(F._conv_epilogue, x.zero_(), panels, None, None, *rest)
    what = f"conv {image.dtype} {tuple(image.shape)} {tuple(kernel.shape)} {settings}"
    return choices.convolution(what, candidates) == "direct"


def _prefers_panels(rows: core.Tensor, matrix: core.Tensor, choices: Choices) -> bool:
    """Whether measurement, where it is asked for, finds packed weights faster than weights as they lie."""
    if choices.product is None:
        return True
    x, weight = (core.empty(t.shape, dtype=t.dtype).zero_() for t in (rows, matrix))
    rest = (None, None, matrix.shape[0], "", ())
    candidates = {
        "packed": partial(F._linear_epilogue, x, F._linear_pack(weight), *rest),
        "plain": partial(F._linear_epilogue, x, weight, *rest),
    }
    what = f"linear {rows.dtype} {tuple(rows.shape)} {tuple(matrix.shape)}"
    return choices.product(what, candidates) == "packed"


def _replace(graph: Graph, node: Node, epilogue: _Epilogue, made: Node) -> int:
    made.meta = {**epilogue.last.meta, "val": made.meta["val"]}
    epilogue.last.replace_all_uses_with(made)
    current = epilogue.last
    while True:
        below = None if current is node else _towards(current, node)
        graph.erase_node(current)
        if below is None:
            return 1
        current = below


def _towards(node: Node, source: Node) -> Node:
    """The argument of a node on its chain from the product."""
    for argument in node.all_input_nodes:
        if argument is source or source in argument.all_input_nodes:
            return argument
    raise AssertionError(f"[epilogues] a chain from {source} was required: got {node}")


_FORMATS = {4: core.channels_last, 5: core.channels_last_3d}
_RULES: dict[Any, Callable[..., int]] = {F._conv: _convolution, F.linear: _linear}
