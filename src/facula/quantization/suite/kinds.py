"""What a node takes and gives, and what it is called: helpers of PyTorch's `ao.ns.fx.utils`.

Takes: nodes of a graph, before or after quantization. Gives: whether they take floats or integers, with which scale
and zero point, which arguments are tensors, and the texts that results have. Keeps true: what is not known is said to
be unknown, and nothing is cast for it.
"""

from __future__ import annotations

import enum
import operator
from typing import Any

from facula import core
from facula.fx import GraphModule, Node
from facula.nn.utils.parametrize import type_before_parametrizations
from facula.quantization.create import quantize_per_tensor
from facula.quantization.fake_quantize import is_activation_post_process
from facula.quantization.graph.custom import ATTRIBUTES
from facula.quantization.graph.lowering import word
from facula.quantization.suite.errors import (
    compute_cosine_similarity,
    compute_normalized_l2_error,
    compute_sqnr,
)

__all__ = [
    "NodeInputOrOutputType",
    "compute_cosine_similarity",
    "compute_normalized_l2_error",
    "compute_sqnr",
    "get_arg_indices_of_inputs_to_log",
    "get_node_first_input_and_output_type",
    "get_node_input_qparams",
    "get_number_of_non_param_args",
    "get_target_type_str",
    "maybe_add_missing_fqns",
    "op_type_supports_shadowing",
    "rekey_logger_info_on_node_name_of_model",
    "return_first_non_observer_node",
]

Results = dict[str, dict[str, dict[str, list[dict[str, Any]]]]]


class NodeInputOrOutputType(enum.Enum):
    """What the values of a node are."""

    FP32 = enum.auto()
    INT8 = enum.auto()
    FP16 = enum.auto()
    UNKNOWN = enum.auto()
    FP32_OR_INT8 = enum.auto()


_T = NodeInputOrOutputType


def first_input(node: Node) -> Any:
    """The first argument of a node, or the first of its keywords; None where it has none."""
    if node.args:
        return node.args[0]
    return next(iter(node.kwargs.values()), None)


def get_normalized_nth_input(node: Node, gm: GraphModule, idx: int) -> Any:
    """Argument number `idx` of a node, whether it was given by position or by name."""
    return [*node.args, *node.kwargs.values()][idx]


def _given(
    node: Node, gm: GraphModule, logger_cls: Any, kinds: dict[str, set[Any]]
) -> NodeInputOrOutputType:
    """What the first input of a node is: what the node before it gives."""
    before = first_input(node)
    if isinstance(before, (list, tuple)) and before:
        before = before[0]
    if not isinstance(before, Node):
        return _T.UNKNOWN
    return get_node_first_input_and_output_type(before, gm, logger_cls, kinds)[1]


def get_node_first_input_and_output_type(
    node: Node, gm: GraphModule, logger_cls: Any, node_type_to_io_type_map: dict[str, set[Any]]
) -> tuple[NodeInputOrOutputType, NodeInputOrOutputType]:
    """What the first input and the result of a node are."""
    kinds = node_type_to_io_type_map
    rest = gm, logger_cls, kinds
    if node.op == "call_function":
        if node.target is quantize_per_tensor:
            return _T.FP32, _T.INT8
        return _by_table(node, node.target, "funs", rest)
    if node.op == "call_module":
        module = gm.get_submodule(str(node.target))
        if isinstance(module, logger_cls) or is_activation_post_process(module):
            kind = _given(node, *rest)
            return kind, kind
        return _by_table(node, type_before_parametrizations(module), "mods", rest)
    if node.op != "call_method":
        return _T.UNKNOWN, _T.UNKNOWN
    if node.target == "dequantize":
        return _given(node, *rest), _T.FP32
    if node.target == "to":
        half = core.float16 in (*node.args[1:], *node.kwargs.values())
        return _given(node, *rest), _T.FP16 if half else _T.UNKNOWN
    return _by_table(node, node.target, "meths", rest)


def _by_table(
    node: Node, target: Any, place: str, rest: Any
) -> tuple[NodeInputOrOutputType, NodeInputOrOutputType]:
    kinds = rest[2]
    for name, kind in (("fp32", _T.FP32), ("fp16", _T.FP16), ("int8", _T.INT8)):
        if target in kinds.get(f"{place}_io_type_{name}", ()):
            return kind, kind
    if target in kinds.get(f"{place}_io_type_fp32_or_int8", ()):
        kind = _given(node, *rest)
        return kind, kind
    return _T.UNKNOWN, _T.UNKNOWN


def attribute(gm: Any, path: str) -> Any:
    """What a graph has at a path."""
    for part in path.split("."):
        gm = getattr(gm, part)
    return gm


def _constant(value: Any, gm: GraphModule) -> Any:
    is_read = isinstance(value, Node) and value.op == "get_attr"
    return attribute(gm, str(value.target)) if is_read else value


def get_node_input_qparams(
    node: Node, gm: GraphModule, node_type_to_io_type_map: dict[str, set[Any]]
) -> tuple[Any, Any] | None:
    """Scale and zero point of the first input of a node; None where they are not known."""
    kinds, before = node_type_to_io_type_map, first_input(node)
    if isinstance(before, (list, tuple)) and before:
        before = before[0]
    if not isinstance(before, Node):
        return None
    if before.op == "call_function":
        if before.target is quantize_per_tensor:
            return _constant(before.args[1], gm), _constant(before.args[2], gm)
        if before.target in kinds["funs_io_type_int8"] and len(before.args) > 3:
            return _constant(before.args[-2], gm), _constant(before.args[-1], gm)
        passes = before.target in kinds["funs_io_type_fp32_or_int8"]
    elif before.op == "call_module":
        module = gm.get_submodule(str(before.target))
        if type(module) in kinds["mods_io_type_int8"] and hasattr(module, "scale"):
            return module.scale, module.zero_point
        passes = type(module) in kinds["mods_io_type_fp32_or_int8"]
    else:
        passes = before.op == "call_method" and before.target in kinds["meths_io_type_fp32_or_int8"]
    return get_node_input_qparams(before, gm, kinds) if passes else None


def return_first_non_observer_node(node: Node, gm: GraphModule) -> Any:
    """The node behind observers that a value passed through."""
    while node.op == "call_module" and is_activation_post_process(
        gm.get_submodule(str(node.target))
    ):
        node = node.args[0]
    return node


def get_number_of_non_param_args(node: Node, gm: GraphModule) -> int:
    """How many arguments of a node are values, and no parameters: two of a recurrent layer with states, else one."""
    if node.op != "call_module":
        return 1
    return 2 if len([a for a in node.args if isinstance(a, Node)]) > 1 else 1


_BINARY = ("add", "mul", "cat", "stack", "add_relu", "mul_relu")


def get_arg_indices_of_inputs_to_log(node: Node) -> list[int]:
    """Which arguments of a node are values: both of sums and products, but for numbers; else the first."""
    if not node.args:
        return []
    if node.op == "call_function" and word(node) in ("add", "mul") and len(node.args) > 1:
        return [i for i in (0, 1) if isinstance(node.args[i], Node)]
    return [0]


def op_type_supports_shadowing(node: Node) -> bool:
    """Whether a node has one input that is a value: others cannot run in the shadow of another."""
    return node.op != "call_function" or word(node) not in _BINARY


def get_target_type_str(node: Node, gm: GraphModule) -> str:
    """What a node calls, as a text."""
    if node.op in ("call_function", "call_method"):
        return core.spoken(_text_of(node.target))
    if node.op != "call_module":
        return ""
    kind = type_before_parametrizations(gm.get_submodule(str(node.target)))
    return core.spoken(f"{kind.__module__}.{kind.__qualname__}")


def _text_of(target: Any) -> str:
    if isinstance(target, str):
        return target
    module = getattr(target, "__module__", "") or ""
    name = getattr(target, "__name__", str(target))
    return f"{module}.{name}" if module else str(name)


def fqn_of(node: Node, gm: GraphModule) -> str | None:
    """The module that a node stands in, as its graph remembers it; for an observer, that of what it looks at."""
    known = gm.meta.get(ATTRIBUTES)
    scopes = known.node_name_to_scope if known is not None else gm.meta.get(SCOPES)
    if scopes is None:
        return None
    node = return_first_non_observer_node(node, gm)
    if node.op == "call_module":
        return str(node.target)
    found = scopes.get(node.name)
    return None if found is None else str(found[0])


#: where graphs that the suite traced keep the module that each node stands in, in `meta`
SCOPES = "_node_name_to_scope"


def is_getitem(node: Any) -> bool:
    """Whether a node takes an element."""
    return bool(node.op == "call_function" and node.target is operator.getitem)


# ------------------------------------------------------------------ tables of results


def rekey_logger_info_on_node_name_of_model(results: Results, model_name: str) -> Results:
    """The same results, by the names that nodes have in one of the models."""
    found: Results = {}
    for name, by_type in results.items():
        kept = next(iter(by_type.values()), {}).get(model_name)
        for by_model in by_type.values():
            kept = kept or by_model.get(model_name)
        found[kept[0]["ref_node_name"] if kept else name] = by_type
    return found


def maybe_add_missing_fqns(results: Results) -> None:
    """Give results whose module is not known the module of the other model's."""
    for by_type in results.values():
        for by_model in by_type.values():
            if len(by_model) != 2:
                continue
            for pair in zip(*by_model.values(), strict=False):
                known = next((entry["fqn"] for entry in pair if entry["fqn"] is not None), None)
                for entry in pair:
                    entry["fqn"] = known if entry["fqn"] is None else entry["fqn"]
