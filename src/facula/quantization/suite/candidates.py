"""A model beside forms of its parts under several configurations: PyTorch's `ao.ns.fx.n_shadows_utils`.

Takes: a float model and a `QConfigMultiMapping`. Gives: the model with each part's forms in its shadow, their integers
after calibration, and how far results and weights are from the float ones. Keeps true: the model's result is that of
the float model; part i under configuration j is `shadow_wrapper_i_j`, its logger `shadow_i_j`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import facula.nn as nn
from facula import core
from facula.core.errors import fail
from facula.fx import Graph, GraphModule, Node
from facula.fx.interpreter import Interpreter
from facula.fx.node import map_arg
from facula.quantization.graph import configurations, matching
from facula.quantization.graph.custom import ATTRIBUTES
from facula.quantization.qconfig_mapping import QConfigMapping
from facula.quantization.quantize_fx import QuantizationTracer, convert_fx, prepare_fx
from facula.quantization.suite.kinds import (
    SCOPES,
    Results,
    attribute,
    first_input,
    fqn_of,
    get_target_type_str,
)
from facula.quantization.suite.loggers import OutputComparisonLogger, OutputLogger
from facula.quantization.suite.mappings import QConfigMultiMapping
from facula.quantization.suite.records import _extract_logger_info_one_model
from facula.quantization.suite.summaries import (
    create_results_comparison,
    extract_weight_comparison,
    group_results_by_subgraph,
    print_n_shadows_summary,
    print_summary,
)
from facula.quantization.suite_types import NSSingleResultValuesType

__all__ = [
    "OutputProp",
    "convert_n_shadows_model",
    "create_results_comparison",
    "create_submodule_from_subgraph",
    "extract_results_n_shadows_model",
    "extract_weight_comparison",
    "group_results_by_subgraph",
    "loggers_set_enabled",
    "loggers_set_save_activations",
    "prepare_n_shadows_model",
    "print_comparisons_n_shadows_model",
    "print_n_shadows_summary",
]

SHADOW_NODE_NAME_PREFIX, SHADOW_WRAPPER_NODE_NAME_PREFIX = "shadow", "shadow_wrapper"


class OutputProp:
    """Runs a graph and notes what each node gives, as its `traced_result`.

    Args:
        mod: the graph

    Example:
        >>> from facula import fx
        >>> from facula.quantization.suite.candidates import OutputProp
        >>> gm = fx.symbolic_trace(facula.nn.Sequential(facula.nn.ReLU()))
        >>> OutputProp(gm).propagate(facula.ones(1))
        >>> list(gm.graph.nodes)[1].traced_result
        tensor([1.])
    """

    def __init__(self, mod: GraphModule) -> None:
        self.mod = mod

    def propagate(self, *args: object) -> None:
        """Run the graph on inputs.

        Args:
            *args: the inputs
        """
        _Noting(self.mod).run(*args)


class _Noting(Interpreter):
    def run_node(self, n: Any) -> Any:
        """The value of a node, which keeps it."""
        n.traced_result = value = super().run_node(n)
        return value


# ------------------------------------------------------------------ parts of a graph


def _run(first: Node, last: Node) -> list[Node]:
    """The nodes from the first to the last of a part."""
    run: list[Any] = [last]
    while run[0] is not first:
        run.insert(0, first_input(run[0]))
    return run


class _Part:
    """A part of a graph as a graph of its own."""

    def __init__(self, model: Any, nodes: list[Node]) -> None:
        self.model, self.holder, self.graph = model, nn.Module(), Graph()
        self.inputs: list[Node] = []
        self._values: dict[Node, Node] = {}
        for number, node in enumerate(nodes):
            self._values[node] = self._copied(node, number)
        self.graph.output(self._values[nodes[-1]])
        self.module = GraphModule(self.holder, self.graph)
        self.module.train(model.training)

    def _put(self, node: Node) -> Node:
        if node in self._values:
            return self._values[node]
        if node.op != "get_attr":
            self.inputs.append(node)
            return self._placeholder()
        name = str(node.target).replace(".", "_")
        setattr(self.holder, name, copy.deepcopy(attribute(self.model, str(node.target))))
        self._values[node] = self.graph.get_attr(name)
        return self._values[node]

    def _placeholder(self) -> Node:
        """An input, in front of everything that is computed."""
        last = next((n for n in reversed(list(self.graph.nodes)) if n.op == "placeholder"), None)
        name = f"input_{len(self.inputs)}"
        first = next(iter(self.graph.nodes), None)
        if last is None and first is None:
            return self.graph.placeholder(name)
        place = (
            self.graph.inserting_after(last)
            if last is not None
            else self.graph.inserting_before(first)
        )
        with place:
            return self.graph.placeholder(name)

    def _copied(self, node: Node, number: int) -> Node:
        args, kwargs = map_arg(node.args, self._put), map_arg(node.kwargs, self._put)
        target: Any = node.target
        if node.op == "call_module":
            target = f"mod_{number}"
            setattr(self.holder, target, copy.deepcopy(attribute(self.model, str(node.target))))
        return self.graph.create_node(node.op, target, args, kwargs)


def create_submodule_from_subgraph(
    model: nn.Module, first_node: Node, last_node: Node
) -> GraphModule:
    """A part of a graph as a graph of its own, with copies of its layers.

    Args:
        model: the graph
        first_node: the part's first node
        last_node: its last

    Returns:
        the graph, whose inputs are those of the part

    Example:
        >>> from facula import fx, nn
        >>> from facula.quantization.suite.candidates import create_submodule_from_subgraph
        >>> gm = fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Tanh()))
        >>> _, first, last, *_ = gm.graph.nodes
        >>> [n.op for n in create_submodule_from_subgraph(gm, first, last).graph.nodes]
        ['placeholder', 'call_module', 'call_module', 'output']
    """
    return _Part(model, _run(first_node, last_node)).module


def _traced(model: Any, tracer: Any, example_inputs: object) -> GraphModule:
    tracer = QuantizationTracer([], []) if tracer is None else tracer
    made = GraphModule(model, tracer.trace(model))
    made.meta[SCOPES] = tracer.where
    made.train(model.training)
    given = example_inputs if isinstance(example_inputs, (tuple, list)) else (example_inputs,)
    OutputProp(made).propagate(*given)
    return made


def _parts(mt: GraphModule, backend: Any) -> list[list[Node]]:
    """The parts of a graph that a backend quantizes, as runs of nodes, in order."""
    modules = dict(mt.named_modules(remove_duplicate=False))
    patterns = backend._pattern_complex_format_to_config
    matches = matching.all_matches(mt.graph, modules, patterns)
    found: dict[int, list[Node]] = {}
    for node in mt.graph.nodes:
        match = matches.get(node)
        if match is not None and isinstance(_result(match.last), core.Tensor):
            found.setdefault(id(match), []).append(node)
    return list(found.values())


def _result(node: object) -> Any:
    return getattr(node, "traced_result", None)


# ------------------------------------------------------------------ shadows in a graph


class _Shadowing:
    """A float graph that gets forms of its parts."""

    def __init__(self, mt: GraphModule, prepare: Callable[..., Any]) -> None:
        self.mt, self.prepare = mt, prepare

    def _logger(self, cls: Any, nodes: list[Node], i: int, j: int, text: str) -> str:
        first, last = nodes[0], nodes[-1]
        logger = cls(
            first.name, last.name, f"subgraph_{i}_{j}", "model", get_target_type_str(last, self.mt),
            get_target_type_str(first, self.mt), NSSingleResultValuesType.NODE_OUTPUT.value, 0, 0,
            fqn_of(first, self.mt), text,
        )  # fmt: skip
        logger.enabled = False
        name = f"{SHADOW_NODE_NAME_PREFIX}_{i}_{j}"
        setattr(self.mt, name, logger)
        return name

    def _after(self, place: Node, target: str, *args: object) -> Node:
        with self.mt.graph.inserting_after(place):
            return self.mt.graph.create_node("call_module", target, args, name=target)

    def first(self, nodes: list[Node], i: int) -> Node:
        """The logger of the float result; the node behind which more may stand."""
        if not isinstance(_result(nodes[-1]), core.Tensor):
            return nodes[-1]
        return self._after(nodes[-1], self._logger(OutputLogger, nodes, i, 0, ""), nodes[-1])

    def form(
        self,
        nodes: list[Node],
        i: int,
        j: int,
        config: object,
        place: Node,
        put: Callable[[Node], Node],
    ) -> tuple[Node, Node]:
        """A part's form under a configuration: the node that calls it, and the one behind which more may stand."""
        part = _Part(self.mt, nodes)
        made = part.module
        if config is not None:
            examples = tuple(_result(node) for node in part.inputs)
            made = self.prepare(made, QConfigMapping().set_global(config), examples)
        name = f"{SHADOW_WRAPPER_NODE_NAME_PREFIX}_{i}_{j}"
        setattr(self.mt, name, made)
        called = self._after(place, name, *map(put, part.inputs))
        if not isinstance(_result(nodes[-1]), core.Tensor):
            return called, called
        logger = self._logger(
            OutputComparisonLogger, nodes, i, j, str(config) if config is not None else ""
        )
        return called, self._after(called, logger, called, nodes[-1])

    def finish(self) -> GraphModule:
        """The graph with everything that was put into it."""
        self.mt.graph.lint()
        self.mt.recompile()
        return self.mt


def _preparing(custom: Any, keywords: Any) -> Callable[..., Any]:
    """What prepares a part: `prepare_fx`, or the caller's."""
    if custom is None:
        return lambda part, mapping, examples: prepare_fx(part, mapping, example_inputs=examples)
    given = dict(keywords or {})
    for name in ("example_inputs", "qconfig_mapping"):
        if name in given:
            fail(RuntimeError, "prepare_n_shadows_model", "keywords that the parts do not decide were required: "
                 f"cannot specify {name} in custom_prepare_kwargs", name,
                 hint="each part has its own")  # fmt: skip
    return lambda part, mapping, examples: custom(part, mapping, examples, **given)


def prepare_n_shadows_model(
    model: nn.Module, example_inputs: object, qconfig_multi_mapping: QConfigMultiMapping, backend_config: object,
    custom_prepare_fn: Callable[..., Any] | None = None, custom_prepare_kwargs: dict[str, Any] | None = None,
    custom_tracer: object = None,
) -> GraphModule:  # fmt: skip
    """A model with forms of each of its parts in the shadow, one for each configuration, to be run on examples.

    Args:
        model: the float model
        example_inputs: inputs
        qconfig_multi_mapping: the configurations
        backend_config: what can be quantized
        custom_prepare_fn: what prepares a part; None for `prepare_fx`
        custom_prepare_kwargs: keywords for it
        custom_tracer: what traces the model; None for facula's own

    Returns:
        the model as a graph

    Errors:
        RuntimeError: a keyword that each part decides itself

    Example:
        >>> from facula.ao.quantization import default_qconfig
        >>> from facula.ao.quantization.backend_config import get_native_backend_config
        >>> from facula.quantization.suite.candidates import prepare_n_shadows_model
        >>> from facula.quantization.suite.mappings import QConfigMultiMapping
        >>> model, x = facula.nn.Sequential(facula.nn.Linear(2, 3)).eval(), facula.ones(1, 2)
        >>> mappings = QConfigMultiMapping().set_global([default_qconfig])
        >>> made = prepare_n_shadows_model(model, (x,), mappings, get_native_backend_config())
        >>> [n.name for n in made.graph.nodes][2:-1]
        ['shadow_0_0', 'shadow_wrapper_0_1', 'shadow_0_1']
    """
    mt = _traced(model, custom_tracer, example_inputs)
    scopes, mappings = mt.meta[SCOPES], qconfig_multi_mapping.qconfig_mappings_list
    parts = _parts(mt, backend_config)
    tables = [configurations.configure(mt, mapping, scopes) for mapping in mappings]
    work = _Shadowing(mt, _preparing(custom_prepare_fn, custom_prepare_kwargs))
    for i, nodes in enumerate(parts):
        place = work.first(nodes, i)
        for j, table in enumerate(tables, 1):
            config = table.get(nodes[0])
            if config is not None:
                _, place = work.form(nodes, i, j, config, place, lambda node: node)
    return work.finish()


def _prepare_n_shadows_add_loggers_model(
    model: nn.Module,
    example_inputs: object,
    qconfig_mapping: QConfigMapping,
    backend_config: object,
) -> GraphModule:
    """A model with a second one in its shadow, whose parts are quantized and take each other's results."""
    mt = _traced(model, None, example_inputs)
    table = configurations.configure(mt, qconfig_mapping, mt.meta[SCOPES])
    known = {node: nodes for nodes in _parts(mt, backend_config) for node in nodes}
    parts: list[list[Node]] = []
    for node in mt.graph.nodes:
        nodes = known.get(node, [node])
        if node.op not in ("placeholder", "get_attr", "output") and node is nodes[-1]:
            parts.append(nodes)
    work = _Shadowing(mt, _preparing(None, None))
    shadows: dict[Node, Node] = {}
    for i, nodes in enumerate(parts):
        config = table.get(nodes[0]) if nodes[0] in known else None
        place = work.first(nodes, i)
        called, _ = work.form(nodes, i, 1, config, place, lambda node: shadows.get(node, node))
        shadows[nodes[-1]] = called
    return work.finish()


def _n_shadows_compare_weights(
    model: nn.Module,
    example_inputs: object,
    qconfig_mapping: QConfigMapping,
    backend_config: object,
) -> Results:
    """The weights of a model's parts, and those of their quantized forms."""
    mappings = QConfigMultiMapping.from_list_qconfig_mapping([qconfig_mapping])
    prepared = prepare_n_shadows_model(model, example_inputs, mappings, backend_config)
    given = example_inputs if isinstance(example_inputs, (tuple, list)) else (example_inputs,)
    prepared(*given)
    return extract_weight_comparison(convert_n_shadows_model(prepared))


def convert_n_shadows_model(
    model: GraphModule, custom_convert_fn: Callable[..., Any] | None = None,
    custom_convert_kwargs: dict[str, Any] | None = None,
) -> GraphModule:  # fmt: skip
    """A model whose forms in the shadow are integers.

    Args:
        model: the model, after it was run on examples; its forms are replaced
        custom_convert_fn: what converts a form; None for `convert_fx`
        custom_convert_kwargs: keywords for it

    Returns:
        the model

    Example:
        >>> from facula.ao.quantization import default_qconfig
        >>> from facula.ao.quantization.backend_config import get_native_backend_config
        >>> from facula.quantization.suite.candidates import convert_n_shadows_model, prepare_n_shadows_model
        >>> from facula.quantization.suite.mappings import QConfigMultiMapping
        >>> model, x = facula.nn.Sequential(facula.nn.Linear(2, 3)).eval(), facula.ones(1, 2)
        >>> mappings = QConfigMultiMapping().set_global([default_qconfig])
        >>> made = prepare_n_shadows_model(model, (x,), mappings, get_native_backend_config())
        >>> _ = made(x)
        >>> type(convert_n_shadows_model(made).shadow_wrapper_0_1.mod_0).__name__
        'Linear'
    """
    for node in model.graph.nodes:
        if node.op == "call_module" and str(node.target).startswith(
            SHADOW_WRAPPER_NODE_NAME_PREFIX
        ):
            form = getattr(model, str(node.target))
            if not _is_prepared(form):
                continue
            convert = convert_fx if custom_convert_fn is None else custom_convert_fn
            setattr(model, str(node.target), convert(form, **(custom_convert_kwargs or {})))
    return model


def _is_prepared(form: Any) -> bool:
    return form.meta.get(ATTRIBUTES) is not None


def _loggers(model: nn.Module) -> list[Any]:
    return [module for module in model.modules() if isinstance(module, OutputLogger)]


def loggers_set_enabled(model: nn.Module, enabled: bool) -> None:
    """Lets the loggers of a model keep results, or not.

    Args:
        model: the model
        enabled: whether they keep results
    """
    for logger in _loggers(model):
        logger.enabled = enabled


def loggers_set_save_activations(model: nn.Module, save_activations: bool) -> None:
    """Lets the loggers of a model keep tensors, or comparisons only.

    Args:
        model: the model
        save_activations: whether they keep tensors
    """
    for logger in _loggers(model):
        logger.save_activations = save_activations


def extract_results_n_shadows_model(model: nn.Module) -> Results:
    """What the loggers of a model with forms in the shadow have kept.

    Args:
        model: the model

    Returns:
        ``model``, then the kind of result, then ``subgraph_i_j``: a list of records
    """
    results: Results = {}
    _extract_logger_info_one_model(model, results, OutputLogger)
    return results


def print_comparisons_n_shadows_model(results: Results) -> None:
    """Prints how far each form's results are from the float ones.

    Args:
        results: what `extract_results_n_shadows_model` gives
    """
    print_summary(results)
