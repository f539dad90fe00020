"""The class that passes over graphs may derive from.

Takes a graph module. Gives what the pass made of it, and whether it changed anything.
Keeps true: `requires` is asked before the pass and `ensures` after it.
"""

from __future__ import annotations

import abc
from typing import NamedTuple

from facula.fx.graph_module import GraphModule

__all__ = ["PassBase", "PassResult"]


class PassResult(NamedTuple):
    """What a pass gives."""

    graph_module: GraphModule
    modified: bool


class PassBase(abc.ABC):
    """A pass over a graph, with what it requires and what it ensures.

    Example:
        >>> class Nothing(facula.fx.passes.infra.pass_base.PassBase):
        ...     def call(self, graph_module):
        ...         return facula.fx.passes.infra.pass_base.PassResult(graph_module, False)
        >>> Nothing()(facula.fx.symbolic_trace(facula.nn.ReLU())).modified
        False
    """

    def __call__(self, graph_module: GraphModule) -> PassResult | None:
        """Run the pass between its two checks."""
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module)
        return result

    @abc.abstractmethod
    def call(self, graph_module: GraphModule) -> PassResult | None:
        """The pass itself.

        Args:
            graph_module: may be changed in place
        """

    def requires(self, graph_module: GraphModule) -> None:  # noqa: B027 - most passes require nothing
        """Raises where the pass cannot run.

        Args:
            graph_module: what the pass is about to get
        """

    def ensures(self, graph_module: GraphModule) -> None:  # noqa: B027 - most passes check nothing
        """Raises where the pass did not do what it promises.

        Args:
            graph_module: what the pass got
        """
