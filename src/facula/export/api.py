"""`export`: a module, for arguments of a kind, as an `ExportedProgram`.

Takes: a module and example arguments. Gives: its program.
Keeps true: the module's state is what it was; control flow on values is an error, not a guess.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from facula import core, nn
from facula.capture.errors import NotAllowed, UserError
from facula.compiler.api import compile as compiled
from facula.core.errors import fail
from facula.core.logs import get_logger
from facula.export.additional_inputs import AdditionalInputs
from facula.export.constraints import Constraint, shapes_of
from facula.export.dynamic_shapes import enlarged
from facula.export.exported_program import ExportedProgram
from facula.export.leaks import warn_of
from facula.export.tracing import Parts, trace_module
from facula.export.verifier import TrainingVerifier
from facula.fx import _pytree as pytree
from facula.fx import fake_constants
from facula.namespaces.random import fork_rng

Tensor = core.Tensor


def _check_given(mod: object, args: object) -> None:
    if not isinstance(mod, nn.Module):
        fail(
            ValueError,
            "export",
            "a module was required (Expected `mod` to be an instance of `torch.nn.Module`)",
            type(mod).__name__,
            "a function is exported as the forward of a module",
        )
    if not isinstance(args, tuple):
        fail(
            UserError,
            "export",
            "a tuple of arguments was required (Expecting `args` to be a tuple of example positional "
            "inputs)",
            type(args).__name__,
            hint="pass (x,) for a single argument",
        )


def export(
    mod: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    strict: bool = False,
    preserve_module_call_signature: tuple[str, ...] = (),
    prefer_deferred_runtime_asserts_over_guards: bool = False,
    constraints: Sequence[Constraint] | None = None,
) -> ExportedProgram:
    """Exports the forward of a module: a flat graph of functional operators, with its weights.

    Args:
        mod: the module
        args, kwargs: example arguments; what is no tensor becomes a constant of the program
        dynamic_shapes: which sizes may change, by argument name or position: a dictionary of
            dimension to `Dim`, a tuple, or None
        strict: whether the module's bytecode is captured first, so that whatever would break a
            graph is an error
        preserve_module_call_signature: paths of modules whose arguments and results `unflatten`
            nests as they were
        prefer_deferred_runtime_asserts_over_guards: what relates several sizes is checked by calls in the graph, and
            not by the module that is made of it
        constraints: the same as ``dynamic_shapes`` in the words of PyTorch 2.1 and 2.2: comparisons of
            `dynamic_dim`

    Returns:
        an `ExportedProgram`.

    Raises:
        UserError: the program fixes a size that was to change.
        ValueError: ``mod`` is no module.

    Example:
        >>> program = facula.export.export(facula.nn.Linear(3, 2), (facula.ones(4, 3),))
        >>> program.module()(facula.ones(4, 3)).shape
        facula.Size([4, 2])
    """
    _check_given(mod, args)
    args, kwargs = tuple(args), kwargs or {}  # one of a class of its own gives its entries
    if constraints is not None:
        dynamic_shapes = shapes_of(constraints, mod, args, kwargs)
    examples = dynamic_shapes if isinstance(dynamic_shapes, AdditionalInputs) else None
    if examples is not None:
        dynamic_shapes = examples.dynamic_shapes(mod, args, kwargs)
    if (
        strict and not fake_constants.propagate_real_tensors
    ):  # an example decides what would break the graph
        _capture(mod, args, kwargs)
    kept, deferred = preserve_module_call_signature, prefer_deferred_runtime_asserts_over_guards
    parts = _traced(mod, args, kwargs, dynamic_shapes, kept, deferred)
    program = ExportedProgram(
        parts.module, parts.signature, parts.state, parts.constants, parts.ranges, parts.in_spec, parts.out_spec,
        guards=list(parts.env.guards), argument_names=parts.argument_names, example_inputs=(args, kwargs),
        training=mod.training, module_call_graph=parts.calls,
    )  # fmt: skip
    program._verifiers = [TrainingVerifier]
    log = get_logger("export")
    log.info("exported %s: %d nodes", type(mod).__name__, len(program.graph.nodes))
    log.debug("%s", program)
    if examples is not None:
        examples.verify(program)
    warn_of(parts.watched)
    return program


def _traced(
    mod: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    dynamic_shapes: Any,
    kept: Any,
    deferred: bool,
) -> Parts:
    """The parts of the program; a size of 1 that may change is traced as another one first."""
    larger = enlarged(mod, args, kwargs, dynamic_shapes)
    if larger[0] is not args:
        try:
            return trace_module(mod, *larger, kept, deferred)
        except RuntimeError:  # the program takes no other: the trace of the example says why
            pass
    return trace_module(mod, args, kwargs, dynamic_shapes, kept, deferred)


@dataclass
class ExportDynamoConfig:
    """What a strict export allows.

    Args:
        allow_rnn: recurrent layers
    """

    allow_rnn: bool = True


DEFAULT_EXPORT_DYNAMO_CONFIG = ExportDynamoConfig()


def _capture(mod: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Capture a copy of the module as one graph; raises where that is impossible."""
    cloned = pytree.tree_map(
        lambda x: (
            x.detach().clone().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x
        ),
        (args, kwargs),
    )
    if not DEFAULT_EXPORT_DYNAMO_CONFIG.allow_rnn and any(
        isinstance(m, nn.RNNBase) for m in mod.modules()
    ):
        fail(NotAllowed, "export", "a program without recurrent layers was required (Dynamo does not support RNN, GRU, "
             "or LSTM.)", type(mod).__name__, hint="set DEFAULT_EXPORT_DYNAMO_CONFIG.allow_rnn")  # fmt: skip
    with fork_rng():
        compiled(copy.deepcopy(mod), backend="eager", fullgraph=True)(*cloned[0], **cloned[1])
