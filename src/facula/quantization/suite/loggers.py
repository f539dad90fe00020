"""Loggers of graph mode: modules that keep what passes through them.

Takes: results of layers. Gives: `OutputLogger`, and `OutputComparisonLogger`, which compares. Keeps true: what
passes is not changed; loggers can be scripted.
"""

from __future__ import annotations

from typing import Any

import facula.nn as nn
from facula import core
from facula.core.errors import fail
from facula.quantization.suite.errors import compute_sqnr

__all__ = ["OutputComparisonLogger", "OutputLogger"]


class OutputLogger(nn.Module):
    """Keeps results, and says whose they are.

    Args:
        ref_node_name: the node that the results are named after
        prev_node_name: the node that gives them
        model_name: the model
        ref_name: the pair of parts that they belong to
        prev_node_target_type: what the node calls that gives them
        ref_node_target_type: what the node calls that they are named after
        results_type: a word of `NSSingleResultValuesType`
        index_within_arg: the place in an argument that is a list
        index_of_arg: the place among the arguments
        fqn: the module that the node stands in
        qconfig_str: the configuration, in words

    Example:
        >>> from facula.quantization.suite.loggers import OutputLogger
        >>> logger = OutputLogger("fc", "fc", "a", "base_op_0_0", "Linear", "Linear", "node_output", 0, 0, "fc")
        >>> logger(facula.ones(1)), logger.stats
        (tensor([1.]), [tensor([1.])])
    """

    _is_impure = True

    def __init__(
        self, ref_node_name: str, prev_node_name: str, model_name: str, ref_name: str, prev_node_target_type: str,
        ref_node_target_type: str, results_type: str, index_within_arg: int, index_of_arg: int, fqn: str | None,
        qconfig_str: str | None = "",
    ) -> None:  # fmt: skip
        super().__init__()
        self.stats: list[core.Tensor] = []
        self.stats_rnn: list[tuple[core.Tensor, tuple[core.Tensor, core.Tensor]]] = []
        self.ref_node_name, self.prev_node_name = ref_node_name, prev_node_name
        self.model_name, self.ref_name = model_name, ref_name
        self.prev_node_target_type = prev_node_target_type
        self.ref_node_target_type, self.results_type = ref_node_target_type, results_type
        self.index_within_arg, self.index_of_arg = index_within_arg, index_of_arg
        self.fqn, self.qconfig_str = fqn, qconfig_str
        self.enabled = True
        self.save_activations = True

    def forward(self, x):  # type: ignore[no-untyped-def]
        """The argument, which is kept."""
        if not self.enabled or not self.save_activations:
            return x
        if isinstance(x, core.Tensor):
            self.stats.append(x.detach())
        elif isinstance(x, tuple) and len(x) == 2 and len(x[1]) == 2:
            self.stats_rnn.append((x[0].detach(), (x[1][0].detach(), x[1][1].detach())))
        return x

    def __repr__(self) -> str:
        shown = {k: v for k, v in vars(self).items() if not k.startswith("_") and k != "training"}
        return f"{type(self).__name__}({shown})"


class OutputComparisonLogger(OutputLogger):
    """Keeps results, and how far they are from those of the float model.

    Args:
        *args: those of `OutputLogger`
        **kwargs: those of `OutputLogger`

    Example:
        >>> from facula.quantization.suite.loggers import OutputComparisonLogger
        >>> logger = OutputComparisonLogger("fc", "fc", "a", "model", "", "", "node_output", 0, 0, "fc")
        >>> _ = logger(facula.tensor([3.0, 4.5]), facula.tensor([3.0, 4.0]))
        >>> logger.comparisons
        [tensor(20.)]
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.comparison_fn = compute_sqnr
        self.comparison_fn_name = "sqnr"
        self.comparisons: list[Any] = []

    def forward(self, x: Any, x_ref: Any) -> Any:  # type: ignore[override]
        """The first argument; both are compared.

        Args:
            x: the result
            x_ref: the float model's

        Errors:
            AssertionError: one is no tensor, or their shapes differ
        """
        if not self.enabled:
            return x
        for value in (x, x_ref):
            if not isinstance(value, core.Tensor):
                fail(AssertionError, "OutputComparisonLogger", "tensors were required",
                     type(value).__name__, hint="other results are not compared")  # fmt: skip
        if x.shape != x_ref.shape:
            fail(AssertionError, "OutputComparisonLogger", "results of one shape were required",
                 f"{tuple(x.shape)} and {tuple(x_ref.shape)}",
                 hint="run both models on the same inputs")  # fmt: skip
        if self.save_activations:
            self.stats.append(x.detach())
        self.comparisons.append(self.comparison_fn(x, x_ref))
        return x
