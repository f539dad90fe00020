"""The passes over flat graphs, in order.

Takes a graph module with a flat graph.  Gives it improved.
Keeps true: every pass is a function of a graph; with `verify` the graph is checked after each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula.core.stages import stage
from facula.fx import GraphModule
from facula.lower.passes.alone import leave_unread_results_out
from facula.lower.passes.canonical import canonical_arguments
from facula.lower.passes.common import join_common_calls
from facula.lower.passes.dead_code import remove_dead_code
from facula.lower.passes.fold import fold_constants
from facula.lower.passes.gathered_rows import join_gathers_with_scatters
from facula.lower.passes.no_ops import merge_views, remove_no_ops
from facula.lower.passes.norms import write_norms_as_formulas
from facula.lower.verify import verify as verified

Pass = Callable[[GraphModule], int]


def _on_graph(function: Callable[..., int]) -> Pass:
    return lambda module: function(module.graph)


#: name -> pass; each gives how much it changed
PASSES: dict[str, Pass] = {
    "canonical arguments": _on_graph(canonical_arguments),
    "fold constants": fold_constants,
    "merge views": _on_graph(merge_views),
    "remove no-ops": _on_graph(remove_no_ops),
    "write norms as formulas": _on_graph(write_norms_as_formulas),
    "join common calls": _on_graph(join_common_calls),
    "join gathers with scatters": _on_graph(join_gathers_with_scatters),
    "remove dead code": _on_graph(remove_dead_code),
    "leave unread results out": _on_graph(leave_unread_results_out),
}


def optimise(
    module: GraphModule,
    *,
    verify: bool = False,
    watch: Callable[[str, GraphModule, int], Any] | None = None,
) -> GraphModule:
    """Run all passes over a flat graph. `watch(name, module, changes)` hears of each."""
    for name, run in PASSES.items():
        with stage(f"pass: {name}"):
            changes = run(module)
        if verify:
            with stage(f"check of the graph after {name}"):
                verified(module, after=name)
        if watch is not None:
            watch(name, module, changes)
    module.renew()
    return module
