"""Types of nodes by what their functions and modules say that they give.

Takes: a graph module. Gives: the same, with `node.type` where it is known.
Keeps true: a type that is there already stays.
"""

from __future__ import annotations

import inspect
from typing import Any

from facula import core, nn
from facula.fx.graph_module import GraphModule
from facula.fx.interpreter import Transformer
from facula.fx.node import Argument, Target

__all__ = ["AnnotateTypesWithSchema"]


class AnnotateTypesWithSchema(Transformer):
    """Makes a module whose nodes say which types they have.

    Args:
        module: the module.
        annotate_functionals: whether calls of operators get types, by their schemas.
        annotate_modules: whether calls of modules get types, by what their `forward` says, or by
            the module's being one of `nn` that gives a tensor.
        annotate_get_attrs: whether attributes get types, by what they are.

    >>> from facula.fx.experimental.schema_type_annotation import AnnotateTypesWithSchema
    >>> traced = facula.fx.symbolic_trace(lambda x: facula.relu(x))
    >>> made = AnnotateTypesWithSchema(traced).transform()
    >>> [node.type for node in made.graph.nodes if node.op == "call_function"]
    [<class 'facula.Tensor'>]
    """

    def __init__(
        self,
        module: GraphModule,
        annotate_functionals: bool = True,
        annotate_modules: bool = True,
        annotate_get_attrs: bool = True,
    ) -> None:
        super().__init__(module)
        self.annotate_functionals = annotate_functionals
        self.annotate_modules = annotate_modules
        self.annotate_get_attrs = annotate_get_attrs

    def call_function(
        self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]
    ) -> Any:
        """A call of a function, with the type of its result.

        Args:
            target, args, kwargs: the call.
        """
        made = super().call_function(target, args, kwargs)
        if self.annotate_functionals and made.node.type is None:
            made.node.type = _given_by_function(target)
        return made

    def call_module(
        self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]
    ) -> Any:
        """A call of a module, with the type of its result.

        Args:
            target, args, kwargs: the call.
        """
        made = super().call_module(target, args, kwargs)
        if self.annotate_modules and made.node.type is None:
            made.node.type = _given_by_module(self.fetch_attr(str(target)))
        return made

    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """An attribute, with its type.

        Args:
            target, args, kwargs: the node's.
        """
        made = super().get_attr(target, args, kwargs)
        if self.annotate_get_attrs and made.node.type is None:
            value = self.fetch_attr(str(target))
            made.node.type = core.Tensor if isinstance(value, core.Tensor) else type(value)
        return made


def _given_by_function(target: Any) -> Any:
    """What an operator gives by its schema; of another function, what it says itself."""
    schema = getattr(getattr(target, "_op", target), "_schema", None)
    if schema is not None:
        return (
            core.Tensor
            if str(getattr(schema, "text", schema)).rpartition("->")[2].strip() == "Tensor"
            else None
        )
    try:
        said = inspect.signature(target, eval_str=True).return_annotation
    except (TypeError, ValueError, NameError):
        return None
    return None if said is inspect.Signature.empty or said is Any else said


def _given_by_module(module: nn.Module) -> Any:
    """What a module's `forward` says that it gives."""
    said = _given_by_function(module.forward)
    own = type(module).__module__.startswith(("facula.nn.", "torch.nn."))
    # those of `nn` whose result is no tensor say so
    return core.Tensor if said is None and own and not hasattr(module, "return_indices") else said
