"""Passes and modules of scripts under the names that PyTorch's extension module has for them.

Takes names. Gives functions of graphs and modules.
Keeps true: each name stands for a pass of `jit.passes`; a name without one does not exist.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula.jit.compilation_unit import CompilationUnit
from facula.jit.freezing import freeze_module
from facula.jit.functions import FunctionUnit
from facula.jit.graph_functions import unit_of_graph
from facula.jit.ir import Graph
from facula.jit.ir_reading import parse_ir
from facula.jit.module_views import ModuleView, module_of, view_of
from facula.jit.passes.aliases import Aliases
from facula.jit.passes.batching import batch_mm, fuse_linear, inline_fork_wait
from facula.jit.passes.cleaning import canonicalize, cse, dce, pool_constants
from facula.jit.passes.constants import propagate_constants
from facula.jit.passes.containers import list_idioms, lower_tuples, refine_integers
from facula.jit.passes.folding import (
    concatenate_linear,
    fold_add_or_sub,
    fold_batch_norm,
    fold_linear_batch_norm,
    fold_mul_or_div,
    optimize_frozen_graph,
    remove_dropout,
)
from facula.jit.passes.inlining import inline
from facula.jit.passes.loops import unroll, unroll_constant
from facula.jit.passes.mutation import (
    activations_in_place,
    activations_out_of_place,
    remove_list_mutation,
    remove_mutation,
    remove_tensor_mutation,
)
from facula.jit.passes.peephole import peephole
from facula.jit.passes.rewriting import rewrite
from facula.jit.passes.shapes import (
    complete_shapes,
    erase,
    erase_all_but_inputs,
    propagate,
    with_shapes,
)
from facula.jit.script_objects import ScriptFunction
from facula.jit.tensor_types import new_symbol

__all__ = ["named"]


def _lower_simple_tuples(graph: Graph) -> None:
    lower_tuples(graph)


def _lower_all_tuples(graph: Graph) -> None:
    lower_tuples(graph, everywhere=True)


def _immutable_only(graph: Graph) -> bool:
    return propagate_constants(graph, only_immutable=True)


_PASSES: dict[str, Callable[..., Any]] = {
    "lint": Graph.lint, "dce": dce, "dce_allow_deleting_nodes_with_side_effects": dce, "cse": cse,
    "constant_propagation": propagate_constants, "constant_propagation_immutable_types": _immutable_only,
    "constant_pooling": pool_constants, "canonicalize": canonicalize, "inline": inline, "peephole": peephole,
    "peephole_list_idioms": list_idioms, "refine_integer_values": refine_integers, "loop_unrolling": unroll,
    "constant_loop_unrolling": unroll_constant, "lower_all_tuples": _lower_all_tuples,
    "lower_simple_tuples": _lower_simple_tuples, "remove_mutation": remove_mutation,
    "functional_to_inplace_activation": activations_in_place,
    "inplace_to_functional_activation": activations_out_of_place,
    "custom_pattern_based_rewrite_graph": rewrite,
    "remove_list_mutation": remove_list_mutation, "remove_tensor_mutation": remove_tensor_mutation,
    "propagate_shapes_on_graph": propagate, "propagate_dtype": propagate, "complete_shape_analysis": complete_shapes,
    "erase_shape_information": erase, "batch_mm": batch_mm, "inline_fork_wait": inline_fork_wait,
    "fuse_linear": fuse_linear,
}  # fmt: skip


def _create_function_from_graph(qualname: str, graph: Graph) -> ScriptFunction:
    """A function that runs a graph."""
    return ScriptFunction(unit_of_graph(graph, qualname))


def _freeze_module(module: Any, *args: Any, **kwargs: Any) -> Any:
    """The view of a frozen module."""
    return view_of(freeze_module(module_of(module), *args, **kwargs))


def _everywhere(change: Callable[[Graph], Any]) -> Callable[[Any], None]:
    """A pass over the graphs of all methods of a module and of those inside of it."""

    def run(module: Any) -> None:
        for each in module_of(module).modules():
            for unit in each._script_type.methods.values():
                change(unit.compiled().graph)

    return run


_PASSES.update({
    "remove_dropout": _everywhere(remove_dropout), "fold_frozen_conv_bn": fold_batch_norm,
    "fold_frozen_conv_add_or_sub": fold_add_or_sub, "fold_frozen_conv_mul_or_div": fold_mul_or_div,
    "fold_frozen_linear_bn": fold_linear_batch_norm, "optimize_frozen_graph": optimize_frozen_graph,
    "concat_frozen_linear": concatenate_linear,
})  # fmt: skip


def _insert_observers(
    module: Any, method_name: str, qconfig_dict: dict[str, Any], inplace: bool, quant_type: Any = 1
) -> Any:
    """The view of a module that calls observers."""
    # lazily: most programs quantize nothing
    from facula.jit.quantizing import quantize_jit

    made = quantize_jit.insert_observers(module, method_name, qconfig_dict, inplace, quant_type)
    return view_of(made)


def _fold_convbn(module: Any) -> Any:
    """The view of a module without normalisations behind convolutions."""
    # lazily: as above
    from facula.jit.quantizing import quantize_jit

    return view_of(quantize_jit.fuse_conv_bn_jit(module_of(module)))


_PASSES.update({"insert_observers": _insert_observers, "fold_convbn": _fold_convbn})
_NAMES: dict[str, Any] = {
    "_freeze_module": _freeze_module, "ScriptModule": ModuleView,
    "parse_ir": parse_ir, "_create_function_from_graph": _create_function_from_graph, "AliasDb": Aliases,
    "ScriptFunction": ScriptFunction, "CompilationUnit": CompilationUnit,
    "Function": FunctionUnit, "_propagate_shapes": with_shapes,
    "_jit_erase_non_input_shape_information": erase_all_but_inputs, "_new_symbolic_shape_symbol": new_symbol,
}  # fmt: skip


def _enable_mobile_interface_call_export() -> None:
    """Calls by interfaces are always written to files here."""


_NAMES["_enable_mobile_interface_call_export"] = _enable_mobile_interface_call_export


def named(name: str) -> Any:
    """What a name stands for; None where it stands for nothing."""
    if name.startswith("_jit_pass_"):
        return _PASSES.get(name.removeprefix("_jit_pass_"))
    return _NAMES.get(name)
