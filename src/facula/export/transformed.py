"""Passes over exported programs.

Takes: a program and passes, functions of its graph module. Gives: `transformed`: the program that they make.
Keeps true: the program that was given stays as it is; the new signature names the new nodes, each at its place.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from facula.core.errors import fail
from facula.export.signature import ExportGraphSignature, OutputKind
from facula.fx.graph_module import GraphModule
from facula.fx.node import Node
from facula.fx.passes.infra.pass_manager import PassManager, pass_result_wrapper


def transformed(program: Any, passes: Sequence[Callable[..., Any]]) -> Any:
    """The program with its graph as passes leave it.

    Args:
        program: the program
        passes: functions that take a graph module, and give a `PassResult` or change the module and give None

    Raises:
        RuntimeError: a pass took away or added inputs or outputs.
    """
    module = copy.deepcopy(program.graph_module)
    wrapped: list[Any] = [pass_result_wrapper(each) for each in passes]
    result = PassManager(wrapped)(module)
    module = result.graph_module
    made = program._update(module, _signature(module, program.graph_signature))
    made.verifier().check(made)
    return made


def _signature(module: GraphModule, old: ExportGraphSignature) -> ExportGraphSignature:
    """A signature of the same inputs and outputs, by the names that their nodes have now."""
    made = copy.deepcopy(old)
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    results = module.graph.output_node().args[0]
    outputs: Sequence[Any] = results if isinstance(results, (tuple, list)) else (results,)
    for what, specs, found in (
        ("inputs", made.input_specs, placeholders), ("outputs", made.output_specs, outputs),
    ):  # fmt: skip
        if len(specs) != len(found):
            fail(RuntimeError, "export", f"passes that keep the {len(specs)} {what} of a program were required",
                 len(found), "export a module that has them otherwise")  # fmt: skip
    renamed = {
        spec.arg.name: node.name for spec, node in zip(old.input_specs, placeholders, strict=True)
    }
    for spec in made.input_specs:
        spec.arg.name = renamed[spec.arg.name]
    for result, value in zip(made.output_specs, outputs, strict=True):
        if isinstance(value, Node):
            result.arg.name = value.name
        if result.kind is OutputKind.USER_INPUT_MUTATION:
            result.target = renamed[str(result.target)]
    return made
