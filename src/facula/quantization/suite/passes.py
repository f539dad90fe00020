"""Graphs with loggers, and graphs with another model in the shadow: PyTorch's `ao.ns.fx.graph_passes`.

Takes: graphs, and the pairs of their parts. Gives: new graphs over the same modules. Keeps true: results are those of
the graph that was given; a part that cannot run in the shadow of another is left out, and said so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula import core
from facula.fx import Graph, GraphModule, Node
from facula.fx.node import map_arg
from facula.quantization.create import dequantize, quantize_per_tensor
from facula.quantization.graph.observing import free_name
from facula.quantization.suite.kinds import (
    NodeInputOrOutputType,
    attribute,
    first_input,
    fqn_of,
    get_arg_indices_of_inputs_to_log,
    get_node_first_input_and_output_type,
    get_node_input_qparams,
    get_target_type_str,
    op_type_supports_shadowing,
)
from facula.quantization.suite.relations import get_node_type_to_io_type_map
from facula.quantization.suite_types import NSSingleResultValuesType, NSSubgraph

__all__ = ["add_loggers_to_model", "create_a_shadows_b"]

_IN, _OUT = NSSingleResultValuesType.NODE_INPUT.value, NSSingleResultValuesType.NODE_OUTPUT.value
_T = NodeInputOrOutputType


class _Copying:
    """A graph that is copied node by node, with more nodes between."""

    def __init__(self, gm: GraphModule, logger_cls: Callable[..., Any]) -> None:
        self.gm, self.logger_cls = gm, logger_cls
        self.graph = Graph()
        self.values: dict[Node, Any] = {}

    def copy(self, node: Node) -> None:
        """Copy a node, with what stands for its inputs now."""
        self.values[node] = self.graph.node_copy(node, self.values.__getitem__)

    def call(self, prefix: str, module: Any, *args: Any) -> Node:
        """A call of a module that the graph gets, under the first name with this prefix that is free."""
        name = free_name(self.gm, prefix)
        setattr(self.gm, name, module)
        return self.graph.create_node("call_module", name, args, name=name)

    def log(
        self, value: Node, suffix: str, called: str, model: str, node: Node, **said: Any
    ) -> Node:
        """A logger behind a value of the new graph."""
        logger = self.logger_cls(
            ref_node_name=node.name, prev_node_name=value.name, model_name=model, prev_node_target_type=called,
            **{"index_within_arg": 0, "index_of_arg": 0, **said},
        )  # fmt: skip
        return self.call(f"{value.name}{suffix}", logger, value)

    def log_inputs(self, node: Node, suffix: str, model: str, said: dict[str, Any]) -> None:
        """Loggers behind the inputs of a node that is copied next."""
        given = node.args
        for place in get_arg_indices_of_inputs_to_log(node):
            value = given[place]
            parts = list(value) if isinstance(value, (list, tuple)) else [value]
            for index, part in enumerate(parts):
                if isinstance(part, Node):
                    self.values[part] = self.log(
                        self.values[part], suffix, self.text(self.values[part]), model, node,
                        results_type=_IN, index_within_arg=index, index_of_arg=place, **said,
                    )  # fmt: skip

    def text(self, value: Node) -> str:
        """What a node of the new graph calls."""
        return get_target_type_str(value, self.gm)

    def module(self) -> GraphModule:
        """The new graph, over the modules of the old one."""
        for node in self.gm.graph.nodes:
            if node.op == "output":
                self.graph.node_copy(node, self.values.__getitem__)
        made = GraphModule(self.gm, self.graph)
        made.meta.update(self.gm.meta)
        made.train(self.gm.training)
        return made


def add_loggers_to_model(
    gm: GraphModule, node_to_instrument_inputs_to_ref_node_name: dict[Node, tuple[str, str]],
    node_to_instrument_outputs_to_ref_node_name: dict[Node, tuple[str, str]], logger_cls: Callable[..., Any],
    model_name: str,
) -> GraphModule:  # fmt: skip
    """A graph with loggers behind inputs and results.

    Args:
        gm: the graph
        node_to_instrument_inputs_to_ref_node_name: by node: name of the pair, and what it calls
        node_to_instrument_outputs_to_ref_node_name: the same of nodes whose results are kept
        logger_cls: what makes a logger
        model_name: the model's name

    Returns:
        the graph with loggers

    Example:
        >>> from facula import fx, nn
        >>> from facula.quantization.suite.loggers import OutputLogger
        >>> from facula.quantization.suite.passes import add_loggers_to_model
        >>> gm = fx.symbolic_trace(nn.Sequential(nn.ReLU()))
        >>> node = list(gm.graph.nodes)[1]
        >>> [n.name for n in add_loggers_to_model(gm, {}, {node: ("0", "ReLU")}, OutputLogger, "a").graph.nodes]
        ['input_1', '_0', '_0_ns_logger_0', 'output']
    """
    copying = _Copying(gm, logger_cls)
    for node in gm.graph.nodes:
        if node.op == "output":
            continue
        for table, place in (
            (node_to_instrument_inputs_to_ref_node_name, _IN),
            (node_to_instrument_outputs_to_ref_node_name, _OUT),
        ):
            said = {}
            if node in table:
                ref_name, called = table[node]
                said = {
                    "ref_name": ref_name,
                    "ref_node_target_type": called,
                    "fqn": fqn_of(node, gm),
                }
            if place is _IN:
                if said:
                    copying.log_inputs(node, "_ns_logger_", model_name, said)
                copying.copy(node)
            elif said:
                value = copying.values[node]
                copying.values[node] = copying.log(
                    value,
                    "_ns_logger_",
                    get_target_type_str(node, gm),
                    model_name,
                    node,
                    results_type=_OUT,
                    **said,
                )
    return copying.module()


# ------------------------------------------------------------------ shadows


def _run_of(part: NSSubgraph) -> list[Node]:
    """The nodes of a part, in the order in which they run."""
    run: list[Any] = [part.end_node]
    while run[0] is not part.start_node:
        run.insert(0, first_input(run[0]))
    return run


class _Shadows(_Copying):
    """Graph b, with parts of graph a in the shadow of its own."""

    def __init__(
        self, gm_a: GraphModule, gm_b: GraphModule, names: tuple[str, str], logger_cls: Any, inputs: bool, kinds: Any
    ) -> None:  # fmt: skip
        super().__init__(gm_b, logger_cls)
        self.gm_a, self.names, self.inputs, self.kinds = gm_a, names, inputs, kinds

    # ---------------------------------------------------------------- whether

    def refused(self, a: NSSubgraph, b: NSSubgraph) -> str:
        """Why a part cannot run in the shadow of another; an empty text where it can."""
        if not all(
            op_type_supports_shadowing(n)
            for n in (a.start_node, a.base_op_node, b.start_node, b.base_op_node)
        ):
            return "unsupported"
        if not isinstance(first_input(b.start_node), Node):
            return "an input that is no tensor"
        if not self._copyable(a, b):
            return "arguments that follow from other values"
        if self._cast(a, b) is None:
            return "unknown dtype cast"
        return ""

    def _types(self, a: NSSubgraph, b: NSSubgraph) -> tuple[Any, Any]:
        rest = self.logger_cls, self.kinds
        taken = get_node_first_input_and_output_type(a.start_node, self.gm_a, *rest)[0]
        return taken, get_node_first_input_and_output_type(b.start_node, self.gm, *rest)[0]

    def _cast(self, a: NSSubgraph, b: NSSubgraph) -> str | None:
        """What makes the input of b one of a: a word; None where it is not known."""
        taken, given = self._types(a, b)
        if _T.UNKNOWN in (taken, given):
            return None
        if taken is given:
            return "same"
        if taken is _T.FP32:
            return "dequantize"
        if taken is _T.INT8 and given is _T.FP32:
            known = get_node_input_qparams(a.start_node, self.gm_a, self.kinds)
            return None if known is None else "quantize"
        return "half" if taken is _T.FP16 and given is _T.FP32 else None

    def _copyable(self, a: NSSubgraph, b: NSSubgraph) -> bool:
        """Whether every other argument of a part is a constant, or a state that both layers take."""
        for node in _run_of(a):
            skipped = first_input(node)
            for value in node.all_input_nodes:
                if value is skipped or self._constant(value):
                    continue
                states = node is a.start_node and node.op == "call_module" == b.start_node.op
                if not states or len(node.args) != len(b.start_node.args):
                    return False
        return True

    def _constant(self, value: Node) -> bool:
        """Whether a value is an attribute, or one behind an observer or a conversion."""
        if value.op == "get_attr":
            return True
        known = value.op in ("call_module", "call_method") or value.target is quantize_per_tensor
        inputs = value.all_input_nodes
        return known and bool(inputs) and all(self._constant(v) for v in inputs)

    # ---------------------------------------------------------------- how

    def shadow(self, name: str, a: NSSubgraph, b: NSSubgraph) -> None:
        """Put part a into the shadow of part b, whose last node was just copied."""
        base = self.values[b.end_node]
        said = {"ref_name": name, "ref_node_target_type": get_target_type_str(a.base_op_node, self.gm_a),
                "fqn": fqn_of(a.base_op_node, self.gm_a)}  # fmt: skip
        value = self._casted(a, b)
        if self.inputs and get_arg_indices_of_inputs_to_log(a.start_node):
            node = _Named(free_name(self.gm, f"{b.start_node.name}_shadow_copy_"))
            value = self.log(
                value,
                "_ns_logger_a_inp_",
                self.text(value),
                self.names[0],
                node,
                results_type=_IN,
                **said,
            )
        for node in _run_of(a):
            value = self._copied(node, value, b)
        self.log(
            value,
            "_ns_logger_a_",
            self.text(value),
            self.names[0],
            value,
            results_type=_OUT,
            **said,
        )
        said = {"ref_name": name, "ref_node_target_type": get_target_type_str(b.base_op_node, self.gm),
                "fqn": fqn_of(b.base_op_node, self.gm)}  # fmt: skip
        self.values[b.end_node] = self.log(
            base,
            "_ns_logger_b_",
            self.text(base),
            self.names[1],
            b.end_node,
            results_type=_OUT,
            **said,
        )

    def _casted(self, a: NSSubgraph, b: NSSubgraph) -> Any:
        """The input of b as one of a."""
        value, how = self.values[first_input(b.start_node)], self._cast(a, b)
        name = f"{b.start_node.name}_dtype_cast_0"
        if how == "dequantize":
            return self.graph.create_node("call_function", dequantize, (value,), name=name)
        if how == "half":
            return self.graph.create_node("call_method", "to", (value, core.float16), name=name)
        if how != "quantize":
            return value
        known = get_node_input_qparams(a.start_node, self.gm_a, self.kinds)
        assert known is not None
        read = []
        for word, number in zip(("scale", "zero_point"), known, strict=True):
            attr = free_name(self.gm, f"{b.start_node.name}_input_{word}_")
            setattr(self.gm, attr, number)
            read.append(self.graph.create_node("get_attr", attr, name=attr))
        args = (value, *read, core.quint8)
        return self.graph.create_node("call_function", quantize_per_tensor, args, name=name)

    def _attribute(self, node: Node) -> Node:
        """An attribute of a, which the new graph gets too."""
        name = free_name(self.gm, f"{node.name}_shadow_")
        setattr(self.gm, name, attribute(self.gm_a, str(node.target)))
        return self.graph.create_node("get_attr", name, name=name)

    def _copied(self, node: Node, value: Any, b: NSSubgraph) -> Node:
        """A node of a, with `value` for its first input."""
        first = first_input(node)
        places: dict[Any, Any] = (
            dict(zip(node.args, b.start_node.args, strict=False))
            if node.op == "call_module"
            else {}
        )

        def put(given: Node) -> Any:
            if given is first:
                return value
            return self._again(given) if self._constant(given) else self.values[places[given]]

        return self._call(node, put, f"{b.start_node.name}_shadow_copy_")

    def _again(self, node: Node) -> Node:
        if node.op == "get_attr":
            return self._attribute(node)
        return self._call(node, self._again, f"{node.name}_shadow_")

    def _call(self, node: Node, put: Callable[[Node], Any], prefix: str) -> Node:
        if node.op != "call_module":
            return self.graph.node_copy(node, put)
        name = free_name(self.gm, prefix)
        setattr(self.gm, name, attribute(self.gm_a, str(node.target)))
        args, kwargs = map_arg(node.args, put), map_arg(node.kwargs, put)
        return self.graph.create_node("call_module", name, args, kwargs, name=name)


class _Named:
    """Stands for a node that is made next."""

    def __init__(self, name: str) -> None:
        self.name = name


def create_a_shadows_b(
    name_a: str, gm_a: GraphModule, name_b: str, gm_b: GraphModule,
    matched_subgraph_pairs: dict[str, tuple[NSSubgraph, NSSubgraph]], logger_cls: Callable[..., Any],
    should_log_inputs: bool, node_type_to_io_type_map: dict[str, set[Any]] | None = None,
) -> GraphModule:  # fmt: skip
    """Graph b, with each part of graph a in the shadow of the part of b that belongs to it.

    Args:
        name_a: the name of a
        gm_a: the graph whose parts run in the shadow
        name_b: the name of b
        gm_b: the graph that gives the results
        matched_subgraph_pairs: the pairs of parts
        logger_cls: what makes a logger
        should_log_inputs: whether inputs are kept, too
        node_type_to_io_type_map: what takes and gives floats or integers; None for facula's own

    Returns:
        the graph with shadows

    Example:
        >>> from facula import fx, nn
        >>> from facula.quantization.suite.loggers import OutputLogger
        >>> from facula.quantization.suite.pairs import get_matching_subgraph_pairs
        >>> from facula.quantization.suite.passes import create_a_shadows_b
        >>> a, b = (fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2))) for _ in range(2))
        >>> made = create_a_shadows_b("a", a, "b", b, get_matching_subgraph_pairs(a, b), OutputLogger, False)
        >>> sum(isinstance(m, OutputLogger) for m in made.modules())
        2
    """
    kinds = node_type_to_io_type_map or get_node_type_to_io_type_map()
    work = _Shadows(gm_a, gm_b, (name_a, name_b), logger_cls, should_log_inputs, kinds)
    starts = {b.start_node: (name, a, b) for name, (a, b) in matched_subgraph_pairs.items()}
    ends = {b.end_node: (name, a, b) for name, (a, b) in matched_subgraph_pairs.items()}
    refused: dict[str, str] = {}
    for node in gm_b.graph.nodes:
        if node.op == "output":
            continue
        if node in starts:
            name, a, b = starts[node]
            refused[name] = work.refused(a, b)
            if refused[name]:
                print(f"skipping shadow loggers for node_b: {get_target_type_str(b.base_op_node, gm_b)}, "
                      f"start_node_a: {get_target_type_str(a.start_node, gm_a)}, {refused[name]}")  # fmt: skip
            elif should_log_inputs:
                called = get_target_type_str(b.base_op_node, gm_b)
                said = {"ref_name": name, "ref_node_target_type": called, "fqn": fqn_of(node, gm_b)}
                work.log_inputs(node, "_ns_logger_b_inp_", name_b, said)
        work.copy(node)
        if node in ends and not refused[ends[node][0]]:
            work.shadow(*ends[node])
    return work.module()
